/*
** A host program for other systems, with SQLite in it: loads an extension, opens a database by a URI and runs SQL on it.
** It prints the first column of each row.
**
** usage: host EXTENSION URI SQL
*/
#include <stdio.h>
#include "sqlite3.h"

static int print(void *unused, int count, char **values, char **names){
  (void)unused; (void)names;
  if( count>0 ) printf("%s\n", values[0] ? values[0] : "");
  return 0;
}

int main(int count, char **arguments){
  sqlite3 *loader, *db;
  char *why = 0;
  if( count!=4 ) return 2;
  if( sqlite3_open(":memory:", &loader) || sqlite3_enable_load_extension(loader, 1)
   || sqlite3_load_extension(loader, arguments[1], 0, &why) ){
    fprintf(stderr, "not loaded: %s\n", why ? why : sqlite3_errmsg(loader));
    return 1;
  }
  /* What it has registered is to stay. */
  sqlite3_close(loader);
  if( sqlite3_open_v2(arguments[2], &db, SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|SQLITE_OPEN_URI, 0)
   || sqlite3_exec(db, arguments[3], print, 0, &why) ){
    fprintf(stderr, "%s\n", why ? why : sqlite3_errmsg(db));
    return 1;
  }
  return sqlite3_close(db);
}
