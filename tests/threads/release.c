/* Two things that are put in order by fences, which the sanitizer does not know. */
#include <stdint.h>

/* A reference count of the standard library is counted down with "release", and the thread that finds it at zero
 * passes an acquire fence. In a library that is built for the sanitizer that is a load; so it is here. */
uint64_t __tsan_atomic64_load(const volatile uint64_t *at, int order);
uint64_t __real___tsan_atomic64_fetch_sub(volatile uint64_t *at, uint64_t number, int order);

uint64_t __wrap___tsan_atomic64_fetch_sub(volatile uint64_t *at, uint64_t number, int order) {
    uint64_t before = __real___tsan_atomic64_fetch_sub(at, number, order);
    if (before == number && order == __ATOMIC_RELEASE)
        __tsan_atomic64_load(at, __ATOMIC_ACQUIRE);
    return before;
}

/* SQLite finds out by a flag and a fence whether it is initialised. Here it always is, before there are threads. */
__attribute__((weak)) int sqlite3_initialize(void);

__attribute__((constructor)) static void initialise(void) {
    if (sqlite3_initialize)
        sqlite3_initialize();
}
