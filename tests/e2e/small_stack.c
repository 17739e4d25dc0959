/* A host that uses the extension on a thread with a small stack. musl gives a thread 128 KiB unless it is asked for more,
   and some hosts do not ask: Go, for its calls to C. What overruns a stack ends the process.

   small_stack EXTENSION PLACE KIB      KIB is what the thread has; 0: what the C library gives it by itself
   Prints 'ok' and how many bytes of the stack were used, where they can be counted, or what went wrong. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct sqlite3 sqlite3;
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
int sqlite3_enable_load_extension(sqlite3 *, int);
int sqlite3_load_extension(sqlite3 *, const char *, const char *, char **);
enum { READWRITE = 2, CREATE = 4, URI = 64, GUARD = 64 << 10 };

static const char *extension, *place;
static char answer[200];

static int note(void *unused, int n, char **values, char **names) {
    (void)unused, (void)n, (void)names;
    snprintf(answer, sizeof answer, "%s", values[0] ? values[0] : "");
    return 0;
}

/* WANTED is what it has to say last; NULL if that does not matter. */
static void run(sqlite3 *db, const char *sql, const char *wanted) {
    char *why = NULL;
    if (sqlite3_exec(db, sql, note, NULL, &why) || (wanted && strcmp(answer, wanted))) {
        printf("%s: %s\n", sql, why ? why : answer);
        exit(1);
    }
}

static void *work(void *unused) {
    sqlite3 *db;
    char *why = NULL, name[600];
    if (sqlite3_open_v2(":memory:", &db, READWRITE, NULL) || sqlite3_enable_load_extension(db, 1) ||
        sqlite3_load_extension(db, extension, NULL, &why)) {
        printf("the extension is not loaded: %s\n", why ? why : "");
        exit(1);
    }
    sqlite3_close(db);
    snprintf(name, sizeof name, "file:%s/small-stack.db?vfs=litepack", place);
    for (int again = 0; again < 2; again++) {
        if (sqlite3_open_v2(name, &db, READWRITE | CREATE | URI, NULL)) {
            printf("not opened\n");
            exit(1);
        }
        if (again) run(db, "pragma key = 'k'", "ok");
        run(db, "pragma journal_mode = wal", "wal");
        run(db, "create table if not exists t(id integer primary key, x); create index if not exists i on t(x);"
                "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)"
                "insert into t(x) select '{\"id\": ' || i || ', \"name\": \"name ' || (i % 97) || '\"}' from n", NULL);
        run(db, "pragma wal_checkpoint(truncate)", "0");
        run(db, "select litepack_maintain(2, 1)", NULL);
        run(db, "update t set x = x || ' ' where id % 5 = 0", NULL);
        run(db, "select count(*) from t where x like '%name 1\"%'", again ? "414" : "207");
        run(db, "pragma journal_mode = delete", "delete");
        run(db, "vacuum", NULL);
        if (!again) run(db, "pragma rekey = 'k'", "ok");
        run(db, "select litepack_maintain(3, 1)", NULL);
        run(db, "select litepack_check()", "ok");
        run(db, "pragma integrity_check", "ok");
        sqlite3_close(db);
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    extension = argv[1], place = argv[2];
    size_t size = (size_t)atoi(argv[3]) * 1024, unused = 0;
    unsigned char *stack = NULL;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (size) {
        /* Below it nothing may be touched. */
        stack = mmap(NULL, size + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED) return 2;
        stack += GUARD;
        if (mprotect(stack, size, PROT_READ | PROT_WRITE)) return 2;
        memset(stack, 0xa5, size);
        pthread_attr_setstack(&attributes, stack, size);
    }
    if (pthread_create(&thread, &attributes, work, NULL) || pthread_join(thread, NULL)) {
        printf("no thread\n");
        return 2;
    }
    while (unused < size && stack[unused] == 0xa5) unused++;
    printf(size ? "ok %zu\n" : "ok\n", size - unused);
    return 0;
}
