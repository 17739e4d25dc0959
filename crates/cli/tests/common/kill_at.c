/* Loaded into a program, ends it as kill -9 does before the call number LITEPACK_KILL_AT of those that change files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static void before(void)
{
    static atomic_int count;
    const char *at = getenv("LITEPACK_KILL_AT");
    if (at && atomic_fetch_add(&count, 1) + 1 == atoi(at))
        kill(getpid(), SIGKILL);
}

#define STEP(type, name, parameters, arguments)                                 \
    type name parameters                                                        \
    {                                                                           \
        type(*next) parameters = (type(*) parameters)dlsym(RTLD_NEXT, #name);   \
        before();                                                               \
        return next arguments;                                                  \
    }

STEP(int, rename, (const char *from, const char *to), (from, to))
STEP(int, unlink, (const char *path), (path))
STEP(int, fsync, (int file), (file))
STEP(int, fdatasync, (int file), (file))
STEP(int, fchmod, (int file, mode_t mode), (file, mode))
STEP(int, fchown, (int file, uid_t user, gid_t group), (file, user, group))
STEP(int, ftruncate, (int file, off_t len), (file, len))
STEP(int, ftruncate64, (int file, off64_t len), (file, len))
STEP(ssize_t, write, (int file, const void *bytes, size_t len), (file, bytes, len))
STEP(ssize_t, pwrite, (int file, const void *bytes, size_t len, off_t at), (file, bytes, len, at))
STEP(ssize_t, pwrite64, (int file, const void *bytes, size_t len, off64_t at), (file, bytes, len, at))
STEP(ssize_t, copy_file_range, (int from, off64_t *at, int to, off64_t *at_to, size_t len, unsigned flags),
     (from, at, to, at_to, len, flags))
