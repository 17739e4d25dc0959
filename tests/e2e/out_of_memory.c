/* A host of the extension that is refused memory: all its mallocs go through here, and from a chosen one on they fail, for
   a while or for good. Each trial is a process of its own, forked off after the extension was loaded. The trial works on
   a database, then has memory again, and looks: the answers must be right, the transaction whole or gone, the file
   sound, the same connection of use. It must not be killed, hang or print.

   out_of_memory EXTENSION PLACE VFS WORK TRIALS SEED
     VFS     litepack, or unix as the control
     WORK    read, write, wal, vacuum, columns, archive, maintain, large
     TRIALS  how many allocations to begin failing at; 0 for each there is
   Prints 'ok N' or what went wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static volatile int armed;
/* How many still succeed, how many then fail, and from which size on. */
static long countdown, failures, size_min, asked;

static int refuse(size_t size) {
    if (!armed || size < (size_t)size_min) return 0;
    __sync_fetch_and_add(&asked, 1);
    if (__sync_sub_and_fetch(&countdown, 1) >= 0) return 0;
    if (__sync_sub_and_fetch(&failures, 1) < 0) return 0;
    errno = ENOMEM;
    return 1;
}
void *malloc(size_t size) { return refuse(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return refuse(n * size) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t size) { return refuse(size) ? NULL : __libc_realloc(p, size); }
void *memalign(size_t align, size_t size) { return refuse(size) ? NULL : __libc_memalign(align, size); }
void *aligned_alloc(size_t align, size_t size) { return refuse(size) ? NULL : __libc_memalign(align, size); }
int posix_memalign(void **to, size_t align, size_t size) {
    if (refuse(size)) return ENOMEM;
    *to = __libc_memalign(align, size);
    return *to ? 0 : ENOMEM;
}

/* A variable of a thread that has a destructor takes memory when the thread uses it first, and glibc ends the process
   without it. So the extension may have none on the host's threads; how many it has used. */
static int with_destructor;
int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library) {
    int (*real)(void (*)(void *), void *, void *) = dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl");
    with_destructor++;
    return real(destructor, object, library);
}

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
static int (*open_v2)(const char *, sqlite3 **, int, const char *);
static int (*close_v2)(sqlite3 *);
static int (*exec)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
static int (*load)(sqlite3 *, const char *, const char *, char **);
static int (*enable)(sqlite3 *, int);
static int (*timeout)(sqlite3 *, int);
static int (*in_autocommit)(sqlite3 *);
static const char *(*errmsg)(sqlite3 *);

static char path[500], uri[600], extra[700];
static const char *vfs;
static char answer[4000];

/* Failing is done by exit codes; what it was goes to the file of complaints. */
static int complaints = -1;
static void complain(const char *what, const char *detail, int code) {
    char line[3000];
    int n = snprintf(line, sizeof line, "%s: %s (code %d)\n", what, detail, code);
    if (write(complaints, line, n < (int)sizeof line ? n : (int)sizeof line - 1) < 0) _exit(98);
}

static int keep(void *to, int n, char **values, char **names) {
    (void)names;
    for (int i = 0; i < n; i++) {
        strncat(to, values[i] ? values[i] : "NULL", 500);
        strncat(to, " ", 2);
    }
    return 0;
}

/* Whether a result may be had when memory is out. */
static int is_allowed(int code) {
    int plain = code & 0xff;
    return plain == 0 || plain == 7 /* NOMEM */ || plain == 10 /* IOERR */ || plain == 14 /* CANTOPEN */;
}

static int wrong;
static int run(sqlite3 *db, const char *sql, const char *wanted) {
    answer[0] = 0;
    int code = exec(db, sql, keep, answer, NULL);
    if (!is_allowed(code)) {
        int was = armed;
        armed = 0;
        complain(sql, errmsg(db), code);
        armed = was;
        wrong = 1;
    }
    if (code == 0 && wanted && strcmp(answer, wanted)) {
        int was = armed;
        armed = 0;
        complain(sql, answer, 0);
        armed = was;
        wrong = 1;
    }
    return code;
}
static void must(sqlite3 *db, const char *sql, const char *wanted) {
    int code = run(db, sql, wanted);
    if (code) {
        complain(sql, errmsg(db), code);
        wrong = 1;
    }
}

static int open_db(sqlite3 **db, const char *name) {
    int code = open_v2(name, db, 0x46 /* READWRITE, CREATE, URI */, NULL);
    if (code == 0) timeout(*db, 2000);
    return code;
}

#define SUM "select count(*), min(v), max(v), sum(length(x)) from t"
#define ROWS 6000
static char sum_before[200], sum_after[200];

/* The work. Each statement may fail for want of memory; none may do anything else than it should. */
static int committed;
static sqlite3 *db;
static void work(const char *what) {
    committed = 0;
    if (open_db(&db, uri)) {
        if (db) close_v2(db);
        db = NULL;
        return;
    }
    if (!strcmp(what, "read") || !strcmp(what, "large")) {
        run(db, SUM, sum_before);
        run(db, "select count(*) from t where x like '%9 of%'", NULL);
        run(db, "select max(id) from t where v = 1", "6000 ");
        run(db, "select x = printf('row %d of many %x with words, words', id, id * 7919) from t where id = 3333", "1 ");
    }
    if (!strcmp(what, "write") || !strcmp(what, "wal") || !strcmp(what, "large")) {
        if (!strcmp(what, "wal")) run(db, "pragma journal_mode = wal", NULL);
        run(db, "pragma cache_size = 20", NULL);
        if (run(db, "begin immediate", NULL) == 0) {
            int all = run(db, "update t set v = v + 1", NULL) == 0;
            if (all && !in_autocommit(db)) committed = run(db, "commit", NULL) == 0 ? 1 : -1;
            if (!in_autocommit(db)) run(db, "rollback", NULL);
        }
        if (!strcmp(what, "wal")) run(db, "pragma wal_checkpoint(truncate)", NULL);
    }
    if (!strcmp(what, "vacuum")) run(db, "vacuum", NULL);
    if (!strcmp(what, "maintain") && !strcmp(vfs, "litepack")) {
        run(db, "pragma litepack_info", NULL);
        run(db, "pragma litepack_check", "ok ");
        run(db, "pragma litepack_maintain = 1", NULL);
    }
    if (!strcmp(what, "columns")) {
        run(db, "select sum(length(zstd_compress(x))) > 1 from t where id < 500", "1 ");
        run(db, "select zstd_decompress(zstd_compress(x), 1) = x from t where id = 7", "1 ");
        run(db, "select length(zstd_decompress(zstd_compress(zeroblob(3000000)), 0))", "3000000 ");
        run(db,
            "select zstd_enable_transparent('{\"table\": \"c\", \"column\": \"x\", \"compression_level\": 3, "
            "\"dict_chooser\": \"''all''\"}')",
            NULL);
        run(db, "select zstd_incremental_maintenance(null, 1)", NULL);
        run(db, "select count(*), sum(length(x)) from c", "1500 60253 ");
    }
    if (!strcmp(what, "archive")) {
        sqlite3 *archive = NULL;
        if (open_db(&archive, extra) == 0) {
            run(archive, SUM, sum_before);
            run(archive, "select max(id) from t where v = 1", "6000 ");
        }
        if (archive) close_v2(archive);
    }
}

/* Afterwards, with memory again. */
static void look(const char *what) {
    if (db) {
        run(db, "rollback", NULL);
        wrong = 0; /* there mostly is none */
        lseek(complaints, 0, SEEK_SET);
        if (ftruncate(complaints, 0)) _exit(97);
    }
    for (int again = 0; again < 2; again++) {
        if (!db && open_db(&db, uri)) {
            complain("open", "afterwards", 0);
            wrong = 1;
            return;
        }
        answer[0] = 0;
        must(db, SUM, NULL);
        int is_old = !strcmp(answer, sum_before), is_new = !strcmp(answer, sum_after);
        if (!is_old && !is_new) {
            complain("half a transaction", answer, 0);
            wrong = 1;
        }
        if ((committed == 1 && !is_new) || (committed == 0 && !is_old)) {
            complain(committed ? "a commit is lost" : "a transaction that failed is there", answer, 0);
            wrong = 1;
        }
        must(db, "pragma integrity_check", "ok ");
        if (!strcmp(what, "columns")) must(db, "select count(*), sum(length(x)) from c", "1500 60253 ");
        if (!strcmp(vfs, "litepack")) must(db, "select litepack_check()", "ok ");
        /* The handle that met it is of use, and so is a new one. */
        must(db, "begin; update t set v = v + 100 where id % 3 = 0; insert into t select id + 100000, v, x from t where id < 100; rollback", NULL);
        close_v2(db);
        db = NULL;
    }
}

static void copy_file(const char *from, const char *to) {
    char buffer[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n;
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, n) != n) _exit(96);
    close(in);
    close(out);
}

static const char *so;
static char template[600], said[600], archive_file[600];

/* One trial; what it asked for in all, or -1 if it went wrong. */
static long trial(const char *what, long from, long many, long least) {
    int pipes[2], status = 0;
    char wal[700];
    copy_file(template, path);
    for (int i = 0; i < 3; i++) {
        snprintf(wal, sizeof wal, "%s%s", path, i == 0 ? "-lpw" : i == 1 ? "-shm" : "-lpjourn");
        unlink(wal);
    }
    if (pipe(pipes)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        int output = open(said, O_RDWR | O_CREAT | O_TRUNC, 0600);
        char name[700];
        snprintf(name, sizeof name, "%s.complaints", said);
        complaints = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        dup2(output, 1);
        dup2(output, 2);
        alarm(60);
        countdown = from, failures = many, size_min = least;
        armed = 1;
        work(what);
        armed = 0;
        int bad = wrong;
        long n = asked;
        if (!bad) look(what);
        if (write(pipes[1], &n, sizeof n) != sizeof n) _exit(95);
        _exit(bad || wrong ? 1 : 0);
    }
    close(pipes[1]);
    long n = -1;
    if (read(pipes[0], &n, sizeof n) != sizeof n) n = -1;
    close(pipes[0]);
    waitpid(child, &status, 0);
    struct stat output;
    stat(said, &output);
    if (status || output.st_size) {
        char name[700], text[2000] = "", more[1000] = "";
        snprintf(name, sizeof name, "%s.complaints", said);
        int file = open(name, O_RDONLY);
        if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
        close(file);
        file = open(said, O_RDONLY);
        if (read(file, more, sizeof more - 1) < 0) more[0] = 0;
        close(file);
        printf("WRONG %s, %ld fail from %ld on, size %ld: %s %d; %s%s\n", what, many, from, least,
               WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), text, more);
        fflush(stdout);
        return -1;
    }
    return n;
}

static uint64_t random_state;
static uint64_t random_number(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 33;
}

static void *need(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol) printf("no %s\n", name), exit(2);
    return symbol;
}

int main(int count, char **arguments) {
    if (count < 7) return 2;
    so = arguments[1];
    const char *place = arguments[2], *what = arguments[4];
    vfs = arguments[3];
    long trials = atol(arguments[5]);
    random_state = strtoull(arguments[6], NULL, 10);
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_GLOBAL);
    if (!library) return printf("no libsqlite3.so.0\n"), 2;
    open_v2 = need(library, "sqlite3_open_v2"), close_v2 = need(library, "sqlite3_close_v2");
    exec = need(library, "sqlite3_exec"), load = need(library, "sqlite3_load_extension");
    enable = need(library, "sqlite3_enable_load_extension"), timeout = need(library, "sqlite3_busy_timeout");
    in_autocommit = need(library, "sqlite3_get_autocommit"), errmsg = need(library, "sqlite3_errmsg");
    sqlite3 *loader = NULL;
    char *why = NULL;
    if (open_db(&loader, ":memory:") || enable(loader, 1) || load(loader, so, NULL, &why))
        return printf("cannot load: %s\n", why ? why : "?"), 2;
    snprintf(path, sizeof path, "%s/%s-%s.db", place, vfs, what);
    /* No helper threads: a new thread takes thread-local memory at its first use, and glibc ends the process without it. */
    snprintf(uri, sizeof uri, "file:%s?vfs=%s&threads=1", path, vfs);
    snprintf(template, sizeof template, "%s.template", path);
    snprintf(said, sizeof said, "%s.said", path);
    snprintf(archive_file, sizeof archive_file, "%s/archive.zst", place);
    snprintf(extra, sizeof extra, "file:%s?vfs=litepack&mode=ro&threads=1", archive_file);
    unlink(path);
    if (open_db(&db, uri)) return printf("cannot make the database\n"), 2;
    complaints = 2;
    must(db, "create table t(id integer primary key, v int, x text); create index tx on t(v, x);"
             "create table c(id integer primary key, x text);"
             "insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 6000)"
             " select i, 1, printf('row %d of many %x with words, words', i, i * 7919) from n;"
             "insert into c select id, x from t where id <= 1500", NULL);
    must(db, SUM, NULL);
    strcpy(sum_before, answer);
    must(db, "begin; update t set v = v + 1; " SUM, NULL);
    strcpy(sum_after, answer);
    must(db, "rollback", NULL);
    close_v2(db);
    close_v2(loader);
    db = NULL;
    rename(path, template);
    if (wrong) return 1;
    if (with_destructor) return printf("%d variables of this thread have a destructor\n", with_destructor), 1;
    long all = trial(what, 1L << 40, 0, 0), bad = 0, done = 0;
    if (all < 0) return 1;
    /* Large requests alone: of those there are few. */
    if (!strcmp(what, "large")) {
        for (long size = 1 << 21; size >= 2048; size /= 2) bad += trial("large", 0, 1L << 40, size) < 0, done++;
        what = "vacuum";
        for (long size = 1 << 21; size >= 2048; size /= 2) bad += trial("vacuum", 0, 1L << 40, size) < 0, done++;
    } else {
        long step = trials ? all / trials + 1 : 1;
        for (long at = 0; at < all; at += step) {
            long from = at + (long)(random_number() % (uint64_t)step);
            static const long many[] = {1L << 40, 1, 5, 100, 1L << 40, 3000};
            bad += trial(what, from, many[random_number() % 6], 0) < 0;
            done++;
        }
    }
    if (bad) return printf("%ld of %ld trials went wrong (%ld allocations)\n", bad, done, all), 1;
    printf("ok %ld trials, %ld allocations\n", done, all);
    return 0;
}
