/*
** Tcl commands on the bytes of the SQLite database in a packed file, for tests that look at the file by themselves.
**
**    packed_size PATH                  its size in bytes, -1 if there is no packed file with that name
**    packed_read PATH OFFSET AMOUNT    at most that many bytes
**    packed_hex PATH OFFSET AMOUNT     the same as hexadecimal digits
**    packed_write PATH OFFSET BYTES    how many bytes were written, durably
**    packed_truncate PATH SIZE         durably, too
**
** The file is opened by the extension's own VFS and not by fopen(): to close a file drops all locks that this process
** has on it, unless SQLite's unix VFS knows of both.
*/
#include <string.h>
#include <stdlib.h>
#include "sqlite3.h"
#include <tcl.h>

/* Opens a packed file; 0 if there is none with that name. To be closed with release(). */
static sqlite3_file *packed_open(const char *path, int flags){
  sqlite3_vfs *vfs = sqlite3_vfs_find("litepack-default");
  const char *name;
  char full[4096];
  char *answer = 0;
  sqlite3_file *file;
  int granted = 0;
  int is_packed = 0;
  if( vfs==0 || vfs->xFullPathname(vfs, path, sizeof(full), full)!=SQLITE_OK ) return 0;
  name = sqlite3_create_filename(full, "", "", 0, 0);
  file = calloc(1, vfs->szOsFile + sizeof(name));
  if( name==0 || file==0 ) abort();
  memcpy((char*)file + vfs->szOsFile, &name, sizeof(name));
  if( vfs->xOpen(vfs, name, file, flags|SQLITE_OPEN_MAIN_DB, &granted)==SQLITE_OK ){
    file->pMethods->xFileControl(file, SQLITE_FCNTL_VFSNAME, &answer);
    is_packed = answer!=0 && strncmp(answer, vfs->zName, strlen(vfs->zName))==0;
    sqlite3_free(answer);
  }
  if( is_packed ) return file;
  if( file->pMethods ) file->pMethods->xClose(file);
  sqlite3_free_filename((char*)name);
  free(file);
  return 0;
}

static void release(sqlite3_file *file){
  sqlite3_vfs *vfs = sqlite3_vfs_find("litepack-default");
  char *name;
  memcpy(&name, (char*)file + vfs->szOsFile, sizeof(name));
  file->pMethods->xClose(file);
  sqlite3_free_filename(name);
  free(file);
}

static int fails(Tcl_Interp *interp, const char *what, int rc){
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s: code %d", what, rc));
  return TCL_ERROR;
}

/* Journals and WALs are never packed; to open them as databases would disturb some tests' counts. */
static int may_be_database(const char *path){
  static const char *const others[] = { "-journal", "-wal", "-shm", "-lpjourn", "-lpw" };
  int i;
  for(i=0; i<5; i++){
    size_t all = strlen(path), end = strlen(others[i]);
    if( all>=end && strcmp(path+all-end, others[i])==0 ) return 0;
  }
  return path[0]!=0 && path[0]!='|';
}

static int size_command(void *unused, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]){
  sqlite3_int64 size = -1;
  int rc = SQLITE_OK;
  (void)unused;
  if( objc!=2 ){ Tcl_WrongNumArgs(interp, 1, objv, "PATH"); return TCL_ERROR; }
  if( may_be_database(Tcl_GetString(objv[1])) ){
    sqlite3_file *file = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READONLY);
    if( file ){
      rc = file->pMethods->xFileSize(file, &size);
      release(file);
    }
  }
  if( rc!=SQLITE_OK ) return fails(interp, "packed_size", rc);
  Tcl_SetObjResult(interp, Tcl_NewWideIntObj(size));
  return TCL_OK;
}

static Tcl_Obj *hex_of(Tcl_Obj *bytes){
  static const char digits[] = "0123456789ABCDEF";
  int i, amount;
  const unsigned char *from = Tcl_GetByteArrayFromObj(bytes, &amount);
  char *text = malloc(2*(size_t)amount + 1);
  Tcl_Obj *result;
  if( text==0 ) abort();
  for(i=0; i<amount; i++){
    text[2*i] = digits[from[i]>>4];
    text[2*i+1] = digits[from[i]&15];
  }
  result = Tcl_NewStringObj(text, 2*amount);
  free(text);
  return result;
}

static int read_command(void *as_hex, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]){
  Tcl_WideInt offset;
  int amount, rc;
  sqlite3_int64 size = 0;
  sqlite3_file *file;
  Tcl_Obj *bytes;
  if( objc!=4 ){ Tcl_WrongNumArgs(interp, 1, objv, "PATH OFFSET AMOUNT"); return TCL_ERROR; }
  if( Tcl_GetWideIntFromObj(interp, objv[2], &offset) || Tcl_GetIntFromObj(interp, objv[3], &amount) ) return TCL_ERROR;
  file = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READONLY);
  if( file==0 ) return fails(interp, "packed_read", SQLITE_CANTOPEN);
  rc = file->pMethods->xFileSize(file, &size);
  if( offset>=size ) amount = 0;
  else if( amount>size-offset ) amount = (int)(size-offset);
  bytes = Tcl_NewObj();
  Tcl_IncrRefCount(bytes);
  if( rc==SQLITE_OK && amount>0 ){
    rc = file->pMethods->xRead(file, Tcl_SetByteArrayLength(bytes, amount), amount, offset);
  }
  release(file);
  if( rc==SQLITE_OK ) Tcl_SetObjResult(interp, as_hex ? hex_of(bytes) : bytes);
  Tcl_DecrRefCount(bytes);
  return rc==SQLITE_OK ? TCL_OK : fails(interp, "packed_read", rc);
}

static int write_command(void *unused, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]){
  Tcl_WideInt offset;
  int amount, rc;
  const unsigned char *bytes;
  sqlite3_file *file;
  (void)unused;
  if( objc!=4 ){ Tcl_WrongNumArgs(interp, 1, objv, "PATH OFFSET BYTES"); return TCL_ERROR; }
  if( Tcl_GetWideIntFromObj(interp, objv[2], &offset) ) return TCL_ERROR;
  bytes = Tcl_GetByteArrayFromObj(objv[3], &amount);
  file = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READWRITE);
  if( file==0 ) return fails(interp, "packed_write", SQLITE_CANTOPEN);
  rc = file->pMethods->xWrite(file, bytes, amount, offset);
  if( rc==SQLITE_OK ) rc = file->pMethods->xFileControl(file, SQLITE_FCNTL_SYNC, 0);
  if( rc==SQLITE_OK ) rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  release(file);
  if( rc!=SQLITE_OK ) return fails(interp, "packed_write", rc);
  Tcl_SetObjResult(interp, Tcl_NewIntObj(amount));
  return TCL_OK;
}

static int truncate_command(void *unused, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]){
  Tcl_WideInt size;
  int rc;
  sqlite3_file *file;
  (void)unused;
  if( objc!=3 ){ Tcl_WrongNumArgs(interp, 1, objv, "PATH SIZE"); return TCL_ERROR; }
  if( Tcl_GetWideIntFromObj(interp, objv[2], &size) ) return TCL_ERROR;
  file = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READWRITE);
  if( file==0 ) return fails(interp, "packed_truncate", SQLITE_CANTOPEN);
  rc = file->pMethods->xTruncate(file, size);
  if( rc==SQLITE_OK ) rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  release(file);
  return rc==SQLITE_OK ? TCL_OK : fails(interp, "packed_truncate", rc);
}

/* Called by testfixture instead of its own function, for its first interpreter. */
const char *litepack_suite_tcl(Tcl_Interp *interp){
  extern const char *sqlite3TestInit(Tcl_Interp*);
  Tcl_CreateObjCommand(interp, "packed_size", size_command, 0, 0);
  Tcl_CreateObjCommand(interp, "packed_read", read_command, 0, 0);
  Tcl_CreateObjCommand(interp, "packed_hex", read_command, interp, 0);
  Tcl_CreateObjCommand(interp, "packed_write", write_command, 0, 0);
  Tcl_CreateObjCommand(interp, "packed_truncate", truncate_command, 0, 0);
  return sqlite3TestInit(interp);
}
