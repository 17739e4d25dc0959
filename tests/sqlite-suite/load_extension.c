/*
** Loads an extension whenever SQLite is initialised. SQLite calls this function (SQLITE_EXTRA_INIT) at the
** end of each sqlite3_initialize().
**
** Loading once at the start of a test would not do: many tests call sqlite3_shutdown(), after which the unix
** VFS is the default again, and others start further testfixture processes.
**
** Environment: SUITE_EXTENSION path of the extension (nothing is loaded without it), SUITE_ENTRY its entry
** point, SUITE_SQL a statement to run once it is loaded (optional), SUITE_KEY the hexadecimal key that each new
** connection gives (optional).
*/
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"

static int has_loaded = 0;

/*
** Ends the process if the first attempt fails: the tests must not go on without the extension and pass.
** Later attempts may fail: some tests make memory allocation fail inside sqlite3_initialize().
*/
static void check(int rc, const char *what, const char *message){
  if( rc==SQLITE_OK ) return;
  fprintf(stderr, "load_extension.c: %s: %s (%d)\n", what, message ? message : "no message", rc);
  if( !has_loaded ) abort();
}

static int run_statement(const char *sql){
  sqlite3 *db = 0;
  char *message = 0;
  int rc = sqlite3_open(":memory:", &db);
  /* SQL may configure the process where it may load code. */
  if( rc==SQLITE_OK ) rc = sqlite3_enable_load_extension(db, 1);
  if( rc==SQLITE_OK ) rc = sqlite3_exec(db, sql, 0, 0, &message);
  check(rc, sql, message);
  sqlite3_free(message);
  sqlite3_close(db);
  return rc;
}

/*
** Gives the key on a connection that has just been opened, as a program does before anything else. Connections to what
** cannot be encrypted answer with an error or not at all; run.py looks whether files are encrypted.
*/
static int give_key(sqlite3 *db, char **message, const void *api){
  char *sql = sqlite3_mprintf("PRAGMA hexkey='%s'", getenv("SUITE_KEY"));
  (void)message;
  (void)api;
  if( sql==0 ) return SQLITE_NOMEM;
  sqlite3_exec(db, sql, 0, 0, 0);
  sqlite3_free(sql);
  return SQLITE_OK;
}

int litepack_suite_initialize(const char *unused){
  const char *extension = getenv("SUITE_EXTENSION");
  const char *sql = getenv("SUITE_SQL");
  sqlite3_vfs *before = sqlite3_vfs_find(0);
  sqlite3 *db = 0;
  char *message = 0;
  int rc;
  (void)unused;
  if( extension==0 ) return SQLITE_OK;
  rc = sqlite3_open(":memory:", &db);
  if( rc==SQLITE_OK ) rc = sqlite3_enable_load_extension(db, 1);
  if( rc==SQLITE_OK ) rc = sqlite3_load_extension(db, extension, getenv("SUITE_ENTRY"), &message);
  check(rc, extension, message);
  sqlite3_free(message);
  sqlite3_close(db);
  if( rc==SQLITE_OK && sqlite3_vfs_find(0)==before ){
    fprintf(stderr, "load_extension.c: %s: loaded, but did not become the default VFS\n", extension);
    abort();
  }
  /* On a connection of its own: the extension's functions are promised to later connections. */
  if( rc==SQLITE_OK && sql ) rc = run_statement(sql);
  if( rc==SQLITE_OK && getenv("SUITE_KEY") ) rc = sqlite3_auto_extension((void(*)(void))give_key);
  /* sqlite3_load_extension() turns every error into SQLITE_ERROR; only memory is short after the first time. */
  if( rc!=SQLITE_OK ) return SQLITE_NOMEM;
  has_loaded = 1;
  return SQLITE_OK;
}
