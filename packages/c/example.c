/*
** Litepack in a C program: makes a packed copy of a SQLite database, adds a row to it, and reads it back.
**
**     cc example.c -Iinclude -Llib -llitepack -lsqlite3 -lpthread -ldl -lm -o example
**     ./example app.db packed.db
*/
#include <stdio.h>
#include <stdlib.h>
#include "litepack.h"

static void expect(int rc, sqlite3 *db, const char *what){
  if( rc!=SQLITE_OK ){
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
  }
}

static int print(void *unused, int n, char **values, char **names){
  int i;
  (void)unused;
  for(i=0; i<n; i++) printf("%s: %s\n", names[i], values[i] ? values[i] : "NULL");
  return 0;
}

static void run(sqlite3 *db, const char *sql){
  expect(sqlite3_exec(db, sql, print, 0, 0), db, sql);
}

int main(int argc, char **argv){
  sqlite3 *db;
  char *why = 0, *sql;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

  if( argc!=3 ){
    fprintf(stderr, "usage: example PLAIN PACKED\n");
    return 2;
  }
  if( litepack_register(&why)!=SQLITE_OK ){
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  /* The last argument is the VFS. It opens plain files as well, and goes for ATTACH and VACUUM INTO, too: what they
  ** create is packed. Names are paths. With SQLITE_OPEN_URI, and in a SQLite built with SQLITE_USE_URI, they can also
  ** be URIs, such as file:packed.db?vfs=litepack&level=9. There '?', '#' and '%' are written as %3f, %23 and %25. */
  expect(sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READONLY, "litepack"), db, argv[1]);
  sql = sqlite3_mprintf("vacuum into %Q", argv[2]);
  run(db, sql);
  sqlite3_free(sql);
  expect(sqlite3_close(db), db, "close");

  expect(sqlite3_open_v2(argv[2], &db, flags, "litepack"), db, argv[2]);
  run(db, "create table note(text)");
  run(db, "insert into note values('packed from C')");
  expect(sqlite3_close(db), db, "close");

  expect(sqlite3_open_v2(argv[2], &db, flags, "litepack"), db, argv[2]);
  run(db, "select text from note");
  run(db, "select count(*) as tables from sqlite_schema where type = 'table'");
  run(db, "select litepack_version() as version, litepack_check() as checked");
  expect(sqlite3_close(db), db, "close");
  return 0;
}
