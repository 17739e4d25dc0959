/* Loaded into a program, has each call that reads or writes a file be interrupted first, then do the half, then be
 * interrupted again, then do the rest. With LITEPACK_INTERRUPT_SYNCS each fifth sync is interrupted and not done.
 * At the end the number of calls that were disturbed goes into the file that LITEPACK_DISTURBED names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long interrupted, halved, syncs;

static int is_regular(int file)
{
    struct stat status;
    return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

/* How much of `len` this call may do; 0: it is interrupted. */
static size_t part(int file, size_t len)
{
    static _Thread_local unsigned turn;
    if (len == 0 || !is_regular(file))
        return len;
    switch (turn++ % 4) {
    case 1:
        atomic_fetch_add(&halved, 1);
        return (len + 1) / 2;
    case 3:
        return len;
    default:
        atomic_fetch_add(&interrupted, 1);
        errno = EINTR;
        return 0;
    }
}

#define NEXT(type, name, parameters) type(*next) parameters = (type(*) parameters)dlsym(RTLD_NEXT, #name)

#define PART(name, parameters, arguments)                                       \
    ssize_t name parameters                                                     \
    {                                                                           \
        NEXT(ssize_t, name, parameters);                                        \
        size_t may = part(file, len);                                           \
        if (may == 0 && len > 0)                                                \
            return -1;                                                          \
        len = may;                                                              \
        return next arguments;                                                  \
    }

PART(read, (int file, void *bytes, size_t len), (file, bytes, len))
PART(pread, (int file, void *bytes, size_t len, off_t at), (file, bytes, len, at))
PART(pread64, (int file, void *bytes, size_t len, off64_t at), (file, bytes, len, at))
PART(write, (int file, const void *bytes, size_t len), (file, bytes, len))
PART(pwrite, (int file, const void *bytes, size_t len, off_t at), (file, bytes, len, at))
PART(pwrite64, (int file, const void *bytes, size_t len, off64_t at), (file, bytes, len, at))
PART(copy_file_range, (int file, off64_t *at, int to, off64_t *at_to, size_t len, unsigned flags),
     (file, at, to, at_to, len, flags))

#define WHOLE(name, parameters, arguments)                                      \
    int name parameters                                                         \
    {                                                                           \
        NEXT(int, name, parameters);                                            \
        static _Thread_local unsigned turn;                                     \
        if (turn++ % 2 == 0) {                                                  \
            atomic_fetch_add(&interrupted, 1);                                  \
            errno = EINTR;                                                      \
            return -1;                                                          \
        }                                                                       \
        return next arguments;                                                  \
    }

WHOLE(ftruncate, (int file, off_t len), (file, len))
WHOLE(ftruncate64, (int file, off64_t len), (file, len))

#define SYNC(name)                                                              \
    int name(int file)                                                          \
    {                                                                           \
        NEXT(int, name, (int));                                                 \
        if (getenv("LITEPACK_INTERRUPT_SYNCS") && atomic_fetch_add(&syncs, 1) % 5 == 4) { \
            atomic_fetch_add(&interrupted, 1);                                  \
            errno = EINTR;                                                      \
            return -1;                                                          \
        }                                                                       \
        return next(file);                                                      \
    }

SYNC(fsync)
SYNC(fdatasync)

__attribute__((destructor)) static void say(void)
{
    const char *name = getenv("LITEPACK_DISTURBED");
    FILE *file = name ? fopen(name, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%ld %ld\n", interrupted, halved);
    fclose(file);
}
