/* Programs that reach SQLite in each way there is, for preload.py. It builds this file as a library that is
 * linked to SQLite, with LIBRARY, and as a program, which is not, and loads such libraries. With CONSTRUCTOR it is a
 * library that opens a database when it is loaded, or with PROGRAM a program that does that before it begins.
 *
 * usage: program CHECK DATABASE LIBRARY [OTHER [PLAIN]]     the database has a table t; says what went wrong, or nothing
 */
#define _GNU_SOURCE
#include <stddef.h>

#ifdef CONSTRUCTOR

#include <stdlib.h>

int rows(const char *);

__attribute__((constructor)) static void open_when_loaded(void) {
    if (rows(getenv("DATABASE")) != 3000) abort();
}

#ifdef PROGRAM
int main(void) { return rows(getenv("DATABASE")) != 3000; }
#endif

#elif defined(LIBRARY)

#include <string.h>

struct vfs {
    int version, size, max_pathname;
    struct vfs *next;
    const char *name;
};
int sqlite3_open(const char *, void **);
int sqlite3_prepare_v2(void *, const char *, int, void **, const char **);
int sqlite3_step(void *);
int sqlite3_column_int(void *, int);
int sqlite3_finalize(void *);
int sqlite3_close(void *);
int sqlite3_config(int, ...);
int sqlite3_shutdown(void);
int sqlite3_auto_extension(void (*)(void));
struct vfs *sqlite3_vfs_find(const char *);

/* How many rows there are, or a negative number. */
int rows_of(void *db) {
    void *statement = NULL;
    int rows = -1;
    if (sqlite3_prepare_v2(db, "select count(*) from t", -1, &statement, NULL) == 0 && sqlite3_step(statement) == 100)
        rows = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return rows;
}

int rows(const char *name) {
    void *db = NULL;
    int code = sqlite3_open(name, &db);
    return code ? -code : rows_of(db);
}

/* Ends with the call, which then returns to its caller's caller. */
__attribute__((optimize("O2"))) int open_at_last(const char *name, void **db) { return sqlite3_open(name, db); }

/* Calls a function of another library, and goes on. */
int call_open(int (*open)(const char *, void **), const char *name, void **db) {
    volatile int code = open(name, db);
    return code;
}

const char *default_vfs(void) { return sqlite3_vfs_find(NULL)->name; }

/* SQLITE_CONFIG_MEMSTATUS, which SQLite refuses once it is initialised. */
int configure(void) { return sqlite3_config(9, 1); }

int shut_down(void) { return sqlite3_shutdown(); }

const char *sqlite3_db_filename(void *, const char *);

static const char *other;
static int counted, refused, wrong;

/* It answers, or SQLite says that it cannot be opened (14); never that it is no database. */
static int open_other(void *db) {
    const char *name = sqlite3_db_filename(db, "main");
    const char *file = strrchr(name ? name : "", '/');
    if (file && strcmp(file, strrchr(other, '/')) == 0) return 0;
    int found = rows(other);
    counted += found == 3000;
    refused += found == -14;
    wrong += found != 3000 && found != -14;
    return 0;
}

/* Whether each one that was opened so has answered, but for the innermost. */
int beside_went_well(void) { return counted > 0 && refused == 1 && wrong == 0; }

/* Has SQLite open that one beside each other one. */
int open_beside(const char *name) {
    other = name;
    return sqlite3_auto_extension((void (*)(void))open_other);
}

int call_when_opening(void (*function)(void)) { return sqlite3_auto_extension(function); }

#else

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 3000, THREADS = 16 };

typedef int (*by_name)(const char *);
typedef int (*asked)(void);

static const char *database;
static by_name rows_by_thread;
static pthread_barrier_t all_there;

static void expect(int holds, const char *what) {
    if (holds) return;
    printf("%s\n", what);
    exit(1);
}
#define EXPECT(...) expect(__VA_ARGS__, #__VA_ARGS__)

static void *load(const char *path, int mode) {
    void *library = dlopen(path, RTLD_NOW | mode);
    expect(library != NULL, "cannot be loaded");
    return library;
}

static int rows(void *library) { return ((by_name)dlsym(library, "rows"))(database); }

static int is_default(void *library) {
    const char *name = ((const char *(*)(void))dlsym(library, "default_vfs"))();
    return strcmp(name, "litepack-default") == 0;
}

static int ask(void *library, const char *name) { return ((asked)dlsym(library, name))(); }

static int open_at_last(void *library, void **db) {
    int code = ((int (*)(const char *, void **))dlsym(library, "open_at_last"))(database, db);
    return code;
}

static void *in_thread(void *_) {
    (void)_;
    pthread_barrier_wait(&all_there);
    return (void *)(size_t)rows_by_thread(database);
}

static int opened = -1;

/* Once, as what it does has SQLite call it again. */
static int open_while_opening(void) {
    static int begun;
    if (!begun++) opened = rows_by_thread(database);
    return 0;
}

/* Once: the first thread is late. */
static int wait_while_opening(void) {
    static int begun;
    if (!__atomic_exchange_n(&begun, 1, __ATOMIC_SEQ_CST)) usleep(300000);
    return 0;
}

static int call_when_opening(void *library, asked function) {
    return ((int (*)(asked))dlsym(library, "call_when_opening"))(function);
}

static const char *constructed;

static void *load_constructed(void *_) {
    (void)_;
    load(constructed, RTLD_LOCAL);
    return NULL;
}

/* Once: has another thread load a library that opens a database then, and gives it time to come to that. */
static int on_opening(void) {
    static int begun;
    static pthread_t loading;
    if (!__atomic_exchange_n(&begun, 1, __ATOMIC_SEQ_CST)) {
        pthread_create(&loading, NULL, load_constructed, NULL);
        usleep(300000);
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *check = arguments[1];
    database = arguments[2];
    if (strcmp(check, "none") == 0) {
        int (*open)(const char *, void **) = dlsym(RTLD_DEFAULT, "sqlite3_open");
        void *db = &db;
        EXPECT(open(database, &db) == 7 && db == NULL);
        return 0;
    }
    if (strcmp(check, "deepbind") == 0) {
        EXPECT(rows(load(arguments[3], RTLD_DEEPBIND)) == ROWS);
        return 0;
    }
    void *one = load(arguments[3], RTLD_LOCAL), *db = NULL;
    if (strcmp(check, "loaded") == 0) {
        setenv("DATABASE", database, 1);
        load(arguments[4], RTLD_LOCAL);
        return 0;
    }
    if (strcmp(check, "constructor") == 0) {
        constructed = arguments[4];
        setenv("DATABASE", arguments[5], 1);
        EXPECT(call_when_opening(one, on_opening) == 0);
        EXPECT(rows(one) == ROWS);
        return 0;
    }
    void *other = count > 4 ? load(arguments[4], RTLD_LOCAL) : NULL;
    if (strcmp(check, "scopes") == 0) {
        EXPECT(rows(one) == ROWS && is_default(one) && !is_default(other));
        EXPECT(rows(other) == ROWS && is_default(other));
    } else if (strcmp(check, "at-last") == 0) {
        EXPECT(open_at_last(one, &db) == 0);
        EXPECT(((int (*)(void *))dlsym(one, "rows_of"))(db) == ROWS);
    } else if (strcmp(check, "either") == 0) {
        EXPECT(open_at_last(one, &db) == 7 && db == NULL);
        int (*call_open)(void *, const char *, void **) = dlsym(other, "call_open");
        EXPECT(call_open(dlsym(one, "open_at_last"), database, &db) == 7 && db == NULL);
        EXPECT(rows(one) == ROWS && rows(other) == ROWS);
    } else if (strcmp(check, "configured") == 0) {
        EXPECT(ask(one, "configure") == 0);
        EXPECT(rows(one) == ROWS && ask(one, "configure") != 0);
        EXPECT(ask(one, "shut_down") == 0 && ask(one, "configure") == 0);
        EXPECT(rows(one) == ROWS);
    } else if (strcmp(check, "while-opening") == 0) {
        rows_by_thread = (by_name)dlsym(one, "rows");
        EXPECT(call_when_opening(one, open_while_opening) == 0);
        EXPECT(rows(one) == ROWS && opened == ROWS);
    } else if (strcmp(check, "beside") == 0) {
        EXPECT(((by_name)dlsym(one, "open_beside"))(database) == 0);
        EXPECT(rows(one) == ROWS);
        EXPECT(ask(one, "beside_went_well"));
    } else if (strcmp(check, "threads") == 0) {
        pthread_t threads[THREADS];
        EXPECT(call_when_opening(one, wait_while_opening) == 0);
        rows_by_thread = (by_name)dlsym(one, "rows");
        pthread_barrier_init(&all_there, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, in_thread, NULL);
        for (int i = 0; i < THREADS; i++) {
            void *found;
            pthread_join(threads[i], &found);
            EXPECT((size_t)found == ROWS);
        }
    } else if (strcmp(check, "again") == 0) {
        for (int i = 0; i < 3; i++) {
            EXPECT(rows(one) == ROWS);
            dlclose(one);
            EXPECT(dlopen(arguments[3], RTLD_NOW | RTLD_NOLOAD) == NULL);
            one = load(arguments[3], RTLD_LOCAL);
        }
    } else {
        expect(0, "unknown check");
    }
    return 0;
}

#endif
