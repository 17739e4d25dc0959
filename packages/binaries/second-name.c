/*
** litepackdefault and litepackconfigure: further file names for Litepack, for its other entry points.
**
** SQLite takes the name of an extension's entry point from the name of its file. A program that cannot name another
** entry point loads such a file. It holds no code of Litepack: it calls the library in its own folder, so that all names
** lead to one copy of the library in a process. LITEPACK_ENTRY is which entry point it is for.
*/

struct sqlite3;
struct sqlite3_api_routines;
typedef int entry_point(struct sqlite3 *, char **, const struct sqlite3_api_routines *);

#ifdef _WIN32
/*
** Windows looks for a library that another one is linked to in the folder of the program, so its own is named here.
*/
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <wchar.h>

#define TEXT_OF(name) #name
#define NAME_OF(macro) TEXT_OF(macro)
#define LIBRARY L"litepack.dll"

static entry_point *found(void){
  wchar_t path[32768];   /* as long as a path can be */
  HMODULE self, library;
  wchar_t *name;
  DWORD length;
  if( !GetModuleHandleExW(
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, (LPCWSTR)(void *)&found, &self) ){
    return 0;
  }
  length = GetModuleFileNameW(self, path, sizeof(path)/sizeof(*path));
  if( length==0 || length + sizeof(LIBRARY)/sizeof(wchar_t) > sizeof(path)/sizeof(*path) ) return 0;
  name = wcsrchr(path, L'\\');
  if( name==0 ) return 0;
  wcscpy(name + 1, LIBRARY);
  /* It stays loaded: it is never given back. */
  library = LoadLibraryW(path);
  return library ? (entry_point *)(void *)GetProcAddress(library, NAME_OF(LITEPACK_ENTRY)) : 0;
}

#define EXPORTED __declspec(dllexport)
#else

entry_point LITEPACK_ENTRY;         /* in the library */
#define EXPORTED __attribute__((visibility("default")))
#define found() LITEPACK_ENTRY

#endif

EXPORTED entry_point sqlite3_extension_init; /* the name that SQLite looks for first, in every file */

int sqlite3_extension_init(struct sqlite3 *db, char **error, const struct sqlite3_api_routines *api){
  entry_point *entry = found();
  return entry ? entry(db, error, api) : 1 /* SQLITE_ERROR */;
}
