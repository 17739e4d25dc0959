/* Loaded into a program in C or Go behind `litepack run`: what it creates is packed, and each connection that is closed
 * is counted, as one on a packed database or on another.
 *
 * It stands before SQLite's functions as liblitepack-preload.so does. Python's programs have sitecustomize.py instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int open_v2(const char *, sqlite3 **, int, const char *);
typedef int close_of(sqlite3 *);

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* What is behind this library. */
static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "packed.c: there is no %s\n", name);
        abort();
    }
    return found;
}

static void new_databases_are_packed(void) {
    sqlite3 *db = NULL;
    char *why = NULL;
    if (!getenv("LITEPACK_CLIENT_PACKED")) return;
    open_v2 *open_next = (open_v2 *)next("sqlite3_open_v2");
    if (open_next(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL)) abort();
    sqlite3_enable_load_extension(db, 1);
    if (sqlite3_exec(db, "select litepack_new_databases('packed')", NULL, NULL, &why)) {
        fprintf(stderr, "packed.c: %s\n", why);
        abort();
    }
    ((close_of *)next("sqlite3_close"))(db);
}

int sqlite3_open_v2(const char *name, sqlite3 **to, int flags, const char *vfs) {
    /* Not while Litepack is being loaded, which liblitepack-preload.so does by a connection to nothing. */
    if (strcmp(name, ":memory:")) pthread_once(&once, new_databases_are_packed);
    return ((open_v2 *)next("sqlite3_open_v2"))(name, to, flags, vfs);
}

static int take(void *packed, int columns, char **values, char **names) {
    (void)columns, (void)names;
    *(int *)packed = values[0] != NULL;
    return 0;
}

/* Writes "1 0" for a packed database, and "0 1" for a file that is none. SQLite is asked: to open the file here and to
 * close it again would be to drop the locks that the process has on it. */
static void count(sqlite3 *db) {
    const char *to = getenv("LITEPACK_CLIENT_FILES"), *name = sqlite3_db_filename(db, "main");
    int packed = 0, file;
    if (!to || !name || !*name) return;
    /* An error where there is no Litepack: then nothing is packed. */
    sqlite3_exec(db, "select litepack_info()", take, &packed, NULL);
    file = open(to, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (file < 0 || write(file, packed ? "1 0\n" : "0 1\n", 4) != 4) abort();
    close(file);
}

int sqlite3_close_v2(sqlite3 *db) {
    if (db) count(db);
    return ((close_of *)next("sqlite3_close_v2"))(db);
}
