/*
** Litepack for programs in C and C++ that are linked with it: SQLite databases several times smaller on disk.
**
**     #include "litepack.h"
**
**     char *why = 0;
**     if( litepack_register(&why)!=SQLITE_OK ){ fprintf(stderr, "%s\n", why); sqlite3_free(why); return 1; }
**     sqlite3_open_v2("file:packed.db?vfs=litepack", &db,
**                     SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|SQLITE_OPEN_URI, 0);
**
** Link with liblitepack.a, then with SQLite 3.34 or newer (a library or the amalgamation, sqlite3.c), then with
** -lpthread -ldl -lm. A program that loads liblitepack.so as an extension needs none of this.
**
** SQLite built with SQLITE_OMIT_LOAD_EXTENSION (Apple's, many for WebAssembly) gives extensions no table of its
** functions. For such a one define LITEPACK_OMIT_LOAD_EXTENSION before this file is included. It then makes the table
** itself, and needs sqlite3ext.h beside sqlite3.h.
*/
#ifndef LITEPACK_H
#define LITEPACK_H

#ifdef LITEPACK_OMIT_LOAD_EXTENSION
/* Functions are linked, and not to be looked up in the table. */
# ifndef SQLITE_CORE
#  define SQLITE_CORE 1
# endif
# include "sqlite3ext.h"
#else
# include "sqlite3.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The functions in this file are compiled with the program. */
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__>=199901L)
# define LITEPACK_FUNCTION static inline
#elif defined(__GNUC__)
# define LITEPACK_FUNCTION static __inline__
#else
# define LITEPACK_FUNCTION static
#endif

struct sqlite3_api_routines;

/*
** The entry points. Both add the VFS "litepack" and the SQL functions; the second one also makes Litepack the default
** VFS, so that packed files open by their name, while plain ones stay plain.
**
** For sqlite3_auto_extension(), which calls them for each connection that is opened later, and for a call with a
** connection that is open. Calling them again does no harm. With SQLITE_OMIT_LOAD_EXTENSION they return SQLITE_ERROR;
** use the functions below.
*/
int sqlite3_litepack_init(sqlite3 *db, char **why, const struct sqlite3_api_routines *api);
int sqlite3_litepackdefault_init(sqlite3 *db, char **why, const struct sqlite3_api_routines *api);

/*
** The same as the first one, and SQL on this connection may configure the process: see litepack_configure(). Not for
** sqlite3_auto_extension().
*/
int sqlite3_litepackconfigure_init(sqlite3 *db, char **why, const struct sqlite3_api_routines *api);

/* An entry point, one of the above. */
typedef int (*litepack_entry_point)(sqlite3*, char**, const struct sqlite3_api_routines*);

#ifdef LITEPACK_OMIT_LOAD_EXTENSION
/* What SQLite would give to an extension: those of its functions that Litepack calls. */
LITEPACK_FUNCTION const struct sqlite3_api_routines *litepack_table(void){
  static sqlite3_api_routines table;
#define LITEPACK_HAS(function) table.function = sqlite3_##function
  LITEPACK_HAS(aggregate_context); LITEPACK_HAS(auto_extension); LITEPACK_HAS(bind_blob64);
  LITEPACK_HAS(bind_double); LITEPACK_HAS(bind_int64); LITEPACK_HAS(bind_null);
  LITEPACK_HAS(bind_text64); LITEPACK_HAS(column_blob); LITEPACK_HAS(column_bytes);
  LITEPACK_HAS(column_double); LITEPACK_HAS(column_int64); LITEPACK_HAS(column_text);
  LITEPACK_HAS(column_type); LITEPACK_HAS(context_db_handle);
  LITEPACK_HAS(create_function_v2); LITEPACK_HAS(db_config); LITEPACK_HAS(errmsg);
  LITEPACK_HAS(extended_errcode); LITEPACK_HAS(file_control); LITEPACK_HAS(filename_journal);
  LITEPACK_HAS(finalize); LITEPACK_HAS(free); LITEPACK_HAS(get_autocommit);
  LITEPACK_HAS(get_auxdata); LITEPACK_HAS(libversion_number); LITEPACK_HAS(limit);
  LITEPACK_HAS(log); LITEPACK_HAS(malloc64); LITEPACK_HAS(next_stmt); LITEPACK_HAS(prepare_v2);
  LITEPACK_HAS(reset);
  LITEPACK_HAS(result_blob64); LITEPACK_HAS(result_double); LITEPACK_HAS(result_error);
  LITEPACK_HAS(result_error_code); LITEPACK_HAS(result_int64); LITEPACK_HAS(result_null);
  LITEPACK_HAS(result_text64); LITEPACK_HAS(result_value); LITEPACK_HAS(set_auxdata);
  LITEPACK_HAS(sql); LITEPACK_HAS(step); LITEPACK_HAS(stmt_busy); LITEPACK_HAS(total_changes);
  LITEPACK_HAS(txn_state);
  LITEPACK_HAS(uri_boolean); LITEPACK_HAS(uri_key); LITEPACK_HAS(uri_parameter);
  LITEPACK_HAS(user_data); LITEPACK_HAS(value_blob); LITEPACK_HAS(value_bytes);
  LITEPACK_HAS(value_double); LITEPACK_HAS(value_int64); LITEPACK_HAS(value_text);
  LITEPACK_HAS(value_type); LITEPACK_HAS(vfs_find); LITEPACK_HAS(vfs_register);
#ifndef SQLITE_OMIT_COMPILEOPTION_DIAGS
  LITEPACK_HAS(compileoption_used);
#endif
#undef LITEPACK_HAS
  return &table;
}
#endif

/*
** Registers Litepack by one of its entry points. After that, SQLite knows the VFS, and every connection that is opened
** has the functions.
**
** Returns SQLITE_OK, or an error code with the reason in *why, which is to be freed with sqlite3_free(). "why" may be
** NULL. Do this once, before the first database is opened.
*/
LITEPACK_FUNCTION int litepack_register_entry(litepack_entry_point entry, char **why){
  sqlite3 *db = 0;
  char *message = 0;
  int rc;
#ifdef LITEPACK_OMIT_LOAD_EXTENSION
  rc = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, 0);
  if( rc==SQLITE_OK ) rc = entry(db, &message, litepack_table());
#else
  /* Nothing but SQLite has its table, and it gives that to automatic extensions only. */
  rc = sqlite3_auto_extension((void(*)(void))entry);
  if( rc==SQLITE_OK ){
    rc = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, 0);
    /* From now on the functions come with every connection by themselves. */
    sqlite3_cancel_auto_extension((void(*)(void))entry);
  }
#endif
  if( rc==SQLITE_OK_LOAD_PERMANENTLY ) rc = SQLITE_OK;
  if( rc!=SQLITE_OK && why ){
    *why = sqlite3_mprintf("%s%s", message ? message : db ? sqlite3_errmsg(db) : sqlite3_errstr(rc),
        sqlite3_compileoption_used("OMIT_LOAD_EXTENSION") && !message ? "; define LITEPACK_OMIT_LOAD_EXTENSION" : "");
  }
  sqlite3_free(message);
  sqlite3_close(db);
  return rc;
}

/* Adds the VFS "litepack": a database is opened with it as "file:NAME?vfs=litepack". */
LITEPACK_FUNCTION int litepack_register(char **why){
  return litepack_register_entry(sqlite3_litepack_init, why);
}

/* The same, and Litepack becomes the default VFS. */
LITEPACK_FUNCTION int litepack_register_default(char **why){
  return litepack_register_entry(sqlite3_litepackdefault_init, why);
}

#ifndef LITEPACK_OMIT_LOAD_EXTENSION
/* Keeps SQLite's table, and returns what was kept last. */
LITEPACK_FUNCTION const struct sqlite3_api_routines *litepack_kept_table(const struct sqlite3_api_routines *api){
  static const struct sqlite3_api_routines *kept = 0;
  if( api ) kept = api;
  return kept;
}
LITEPACK_FUNCTION int litepack_keep_table(sqlite3 *db, char **why, const struct sqlite3_api_routines *api){
  (void)db; (void)why;
  litepack_kept_table(api);
  return SQLITE_OK;
}
#endif

/*
** Lets SQL on one connection configure the process, until it is closed: litepack_new_databases('packed'),
** litepack_remote_headers() and litepack_remote_config() work there. On other connections they work only while SQL's own
** load_extension() does: who may load code may configure.
**
** Open a connection of the program's own for it, to ":memory:", and close it afterwards. Never use one on which SQL of
** other people runs. Returns as litepack_register_entry().
*/
LITEPACK_FUNCTION int litepack_configure(sqlite3 *db, char **why){
  char *message = 0;
  int rc;
#ifdef LITEPACK_OMIT_LOAD_EXTENSION
  rc = sqlite3_litepackconfigure_init(db, &message, litepack_table());
#else
  rc = litepack_register_entry(litepack_keep_table, &message);
  if( rc==SQLITE_OK ) rc = sqlite3_litepackconfigure_init(db, &message, litepack_kept_table(0));
#endif
  if( rc==SQLITE_OK_LOAD_PERMANENTLY ) rc = SQLITE_OK;
  if( rc!=SQLITE_OK && why ){
    *why = message ? message : sqlite3_mprintf("%s", sqlite3_errstr(rc));
    message = 0;
  }
  sqlite3_free(message);
  return rc;
}

#ifdef __cplusplus
}
#endif

#endif /* LITEPACK_H */
