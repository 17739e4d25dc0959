/* SQLite with Litepack inside: its default VFS, from the first connection on. Packed files open by their names, and plain
 * ones as they always did. */
#define SQLITE_EXTRA_INIT litepack_at_start
#define sqlite3_sourceid true_sourceid
#include "sqlite3.c"
#undef sqlite3_sourceid

/* SQLite's shell ends if the library is not of the source that it was compiled with. It is told that of the library whose
 * place this one takes. SQL and extensions are told the true one. */
const char *sqlite3_sourceid(void)
{
#ifdef LITEPACK_SOURCE_ID
    return LITEPACK_SOURCE_ID;
#else
    return true_sourceid();
#endif
}

/* Litepack's entry point (../src/lib.rs), to which nothing is loaded here. */
int sqlite3_litepackdefault_init(sqlite3 *, char **, const sqlite3_api_routines *);

/* SQLite calls this when it is initialised, also after it was shut down. If memory is short it fails, and so does the
 * opening of the first database: no packed file is taken for a damaged one. */
int litepack_at_start(const char *unused)
{
    sqlite3 *db = 0;
    char *error = 0;
    int code;
    (void)unused;
    code = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, 0);
    if (code == SQLITE_OK)
        code = sqlite3_litepackdefault_init(db, &error, &sqlite3Apis);
    if (code == SQLITE_OK_LOAD_PERMANENTLY)
        code = SQLITE_OK;
    if (code != SQLITE_OK)
        sqlite3_log(code, "Litepack is not there: %s", error ? error : sqlite3_errstr(code));
    sqlite3_free(error);
    sqlite3_close(db);
    return code;
}
