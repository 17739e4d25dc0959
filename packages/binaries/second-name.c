/*
** litepackdefault.so and litepackconfigure.so: further file names for Litepack, for its other entry points.
**
** SQLite takes the name of an extension's entry point from the name of its file. A program that cannot name another
** entry point loads such a file. It holds no code of Litepack: it is linked to liblitepack.so in its own folder, so that
** all names lead to one copy of the library in a process. LITEPACK_ENTRY is which entry point it is for.
*/

struct sqlite3;
struct sqlite3_api_routines;
typedef int entry_point(struct sqlite3 *, char **, const struct sqlite3_api_routines *);

entry_point LITEPACK_ENTRY;         /* in liblitepack.so */
entry_point sqlite3_extension_init; /* here: the name that SQLite looks for first, in every file */

__attribute__((visibility("default")))
int sqlite3_extension_init(struct sqlite3 *db, char **error, const struct sqlite3_api_routines *api){
  return LITEPACK_ENTRY(db, error, api);
}
