/* The sanitizer does not know fences. A reference count of the standard library is counted down with "release", and whoever
 * finds it at zero passes an acquire fence; in a library built for the sanitizer, that is a load. So it is here. */
#include <stdint.h>

uint64_t __tsan_atomic64_load(const volatile uint64_t *at, int order);
uint64_t __real___tsan_atomic64_fetch_sub(volatile uint64_t *at, uint64_t number, int order);

uint64_t __wrap___tsan_atomic64_fetch_sub(volatile uint64_t *at, uint64_t number, int order) {
    uint64_t before = __real___tsan_atomic64_fetch_sub(at, number, order);
    if (before == number && order == __ATOMIC_RELEASE)
        __tsan_atomic64_load(at, __ATOMIC_ACQUIRE);
    return before;
}
