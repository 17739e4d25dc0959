/* Loaded into a program, writes down the calls that change files, and those that close them, in the file LITEPACK_CALLS:
 * which of two files has the name LITEPACK_NAMED by then, the call, and the name of the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Whether another file has the name than at first. */
static const char *named(void)
{
    static ino_t first;
    struct stat found;
    const char *name = getenv("LITEPACK_NAMED");
    if (!name || stat(name, &found))
        return "none";
    if (!first)
        first = found.st_ino;
    return first == found.st_ino ? "old" : "new";
}

static void note(const char *call, int file)
{
    const char *to = getenv("LITEPACK_CALLS");
    char link[64], name[4096] = "", line[5000];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (!to || readlink(link, name, sizeof name - 1) <= 0)
        return;
    int len = snprintf(line, sizeof line, "%s %s %s\n", named(), call, name);
    int out = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0)
        return;
    syscall(SYS_write, out, line, (size_t)len);
    syscall(SYS_close, out);
}

#define STEP(type, name, parameters, arguments)                                 \
    type name parameters                                                        \
    {                                                                           \
        type(*next) parameters = (type(*) parameters)dlsym(RTLD_NEXT, #name);   \
        note(#name, file);                                                 \
        return next arguments;                                                  \
    }

STEP(int, close, (int file), (file))
STEP(int, fsync, (int file), (file))
STEP(int, fdatasync, (int file), (file))
STEP(int, fchmod, (int file, mode_t mode), (file, mode))
STEP(int, ftruncate, (int file, off_t len), (file, len))
STEP(int, ftruncate64, (int file, off64_t len), (file, len))
STEP(ssize_t, write, (int file, const void *bytes, size_t len), (file, bytes, len))
STEP(ssize_t, pwrite, (int file, const void *bytes, size_t len, off_t at), (file, bytes, len, at))
STEP(ssize_t, pwrite64, (int file, const void *bytes, size_t len, off64_t at), (file, bytes, len, at))
