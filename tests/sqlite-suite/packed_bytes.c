/*
** Tcl commands on the bytes of the SQLite database in a packed file, for tests that look at the file by themselves.
**
**    packed_size PATH                  its size in bytes, -1 if there is no packed file with that name
**    packed_read PATH OFFSET AMOUNT    at most that many bytes
**    packed_hex PATH OFFSET AMOUNT     the same as hexadecimal digits
**    packed_write PATH OFFSET BYTES    how many bytes were written, durably
**    packed_truncate PATH SIZE         durably, too
**
** PATH can also be the WAL of a packed database, `test.db-lpw`: then they are on the WAL that SQLite sees, which is a
** log in the file. The first write replaces the log by that WAL: a packed database takes that as well, and any bytes can
** be put into it.
**
** The file is opened by the extension's own VFS and not by fopen(): to close a file drops all locks that this process
** has on it, unless SQLite's unix VFS knows of both.
*/
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "sqlite3.h"
#include <tcl.h>

/* What is open: a packed file, and its WAL if that was asked for. */
typedef struct Opened Opened;
struct Opened {
  sqlite3 *db;           /* 0, or the connection that has main open */
  sqlite3_file *main;
  sqlite3_file *wal;     /* 0, or the WAL */
  sqlite3_file *asked;   /* one of them */
};

/* Opens a packed file; 0 if there is none with that name. */
static sqlite3_file *open_main(const char *path, int flags){
  sqlite3_vfs *vfs = sqlite3_vfs_find("litepack-default");
  const char *name;
  char full[4096], journal[4096 + 8], wal[4096 + 8];
  char *answer = 0;
  sqlite3_file *file;
  int granted = 0;
  int is_packed = 0;
  if( vfs==0 || vfs->xFullPathname(vfs, path, sizeof(full), full)!=SQLITE_OK ) return 0;
  /* As SQLite makes it, with the names of the files beside it: the VFS knows the WAL by that. */
  sprintf(journal, "%s-journal", full);
  sprintf(wal, "%s-wal", full);
  name = sqlite3_create_filename(full, journal, wal, 0, 0);
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

/* The same of an encrypted one: it opens on a connection only, which gives its key. */
static sqlite3_file *open_encrypted(const char *path, int flags, sqlite3 **db){
  sqlite3_file *file = 0;
  char *answer = 0;
  int is_packed = 0;
  if( access(path, F_OK)==0 && sqlite3_open_v2(path, db, flags, "litepack-default")==SQLITE_OK
   && sqlite3_file_control(*db, "main", SQLITE_FCNTL_FILE_POINTER, &file)==SQLITE_OK && file && file->pMethods
  ){
    file->pMethods->xFileControl(file, SQLITE_FCNTL_VFSNAME, &answer);
    is_packed = answer!=0 && strncmp(answer, "litepack-default", 16)==0;
    sqlite3_free(answer);
    /* It looks for its key when it is locked. */
    if( is_packed && file->pMethods->xLock(file, 1)==SQLITE_OK ) file->pMethods->xUnlock(file, 0);
  }
  if( is_packed ) return file;
  sqlite3_close(*db);
  *db = 0;
  return 0;
}

static void release_main(Opened *opened){
  sqlite3_file *file = opened->main;
  sqlite3_vfs *vfs = sqlite3_vfs_find("litepack-default");
  char *name;
  if( opened->db ){
    sqlite3_close(opened->db);
    return;
  }
  memcpy(&name, (char*)file + vfs->szOsFile, sizeof(name));
  file->pMethods->xClose(file);
  sqlite3_free_filename(name);
  free(file);
}

static int is_wal(const char *path){
  size_t len = strlen(path);
  return len>4 && strcmp(path+len-4, "-lpw")==0;
}

/* Opens the WAL beside a packed file that is open; 0 if there is none. */
static int open_wal(const char *path, Opened *opened){
  sqlite3_vfs *vfs = sqlite3_vfs_find("litepack-default");
  int granted = 0;
  const char *name;
  opened->wal = calloc(1, vfs->szOsFile);
  if( opened->wal==0 ) abort();
  /* It opens by the name that its database's handle has for it. */
  if( opened->db ){
    name = sqlite3_db_filename(opened->db, "main");
  }else{
    memcpy(&name, (char*)opened->main + vfs->szOsFile, sizeof(name));
  }
  name = sqlite3_filename_wal(name);
  if( access(path, F_OK)==0
   && vfs->xOpen(vfs, name, opened->wal, SQLITE_OPEN_READWRITE|SQLITE_OPEN_WAL, &granted)==SQLITE_OK
  ) return 1;
  if( opened->wal->pMethods ) opened->wal->pMethods->xClose(opened->wal);
  free(opened->wal);
  return 0;
}

/* Opens a packed file, or its WAL; 0 if there is none with that name. To be closed with release(). */
static Opened *packed_open(const char *path, int flags){
  Opened *opened = calloc(1, sizeof(*opened));
  char main_path[4096];
  int for_wal = is_wal(path);
  size_t len = strlen(path) - (for_wal ? 4 : 0);
  if( opened==0 || len>=sizeof(main_path) ) abort();
  memcpy(main_path, path, len);
  main_path[len] = 0;
  if( for_wal && access(main_path, F_OK) ){ free(opened); return 0; }
  if( for_wal ) flags = SQLITE_OPEN_READONLY;
  opened->main = getenv("SUITE_KEY") ? open_encrypted(main_path, flags, &opened->db) : open_main(main_path, flags);
  if( opened->main && for_wal && !open_wal(path, opened) ){
    release_main(opened);
    opened->main = 0;
  }
  if( opened->main==0 ){ free(opened); return 0; }
  opened->asked = for_wal ? opened->wal : opened->main;
  return opened;
}

static void release(Opened *opened){
  if( opened->wal ){
    opened->wal->pMethods->xClose(opened->wal);
    free(opened->wal);
  }
  release_main(opened);
  free(opened);
}

/* Replaces a log by the WAL that SQLite sees in it. SQLite has no lock on this file, so it can be opened by itself. */
static int make_raw(const char *path, sqlite3_file *wal){
  sqlite3_int64 size = 0;
  unsigned char *bytes;
  FILE *file = fopen(path, "rb+");
  int rc = wal->pMethods->xFileSize(wal, &size);
  int first = file ? fgetc(file) : EOF;
  if( file==0 ) return SQLITE_CANTOPEN;
  bytes = malloc((size_t)size + 1);
  if( bytes==0 ) abort();
  if( rc==SQLITE_OK && first!=0x37 ){
    if( size>0 ) rc = wal->pMethods->xRead(wal, bytes, (int)size, 0);
    rewind(file);
    if( rc==SQLITE_OK && (ftruncate(fileno(file), 0) || fwrite(bytes, 1, size, file)!=(size_t)size) ) rc = SQLITE_IOERR;
  }
  free(bytes);
  if( fclose(file) && rc==SQLITE_OK ) rc = SQLITE_IOERR;
  return rc;
}

static unsigned be32(const unsigned char *at){
  return (unsigned)at[0]<<24 | at[1]<<16 | at[2]<<8 | at[3];
}

/* Writes a WAL as SQLite writes one: header, then each frame's header and page. So a log is begun anew, and follows the
** database as it is now. A raw WAL beside a database that has had a log would be refused. */
static int write_anew(sqlite3_file *wal, const unsigned char *bytes, sqlite3_int64 size, int page){
  sqlite3_int64 at = 32;
  int rc = wal->pMethods->xTruncate(wal, 0);
  if( rc==SQLITE_OK ) rc = wal->pMethods->xWrite(wal, bytes, 32, 0);
  /* Of half a frame at the end SQLite takes no notice. */
  for(; rc==SQLITE_OK && at + 24 + page<=size; at += 24 + page){
    rc = wal->pMethods->xWrite(wal, bytes + at, 24, at);
    if( rc==SQLITE_OK ) rc = wal->pMethods->xWrite(wal, bytes + at + 24, page, at + 24);
  }
  return rc;
}

static int write_wal(const char *path, sqlite3_file *wal, const unsigned char *bytes, int amount, sqlite3_int64 offset){
  sqlite3_int64 size = 0;
  unsigned char *all;
  int page = 0, rc = wal->pMethods->xFileSize(wal, &size);
  FILE *file;
  if( rc!=SQLITE_OK ) return rc;
  all = calloc(1, (size_t)(offset + amount > size ? offset + amount : size) + 1);
  if( all==0 ) abort();
  if( size>0 ) rc = wal->pMethods->xRead(wal, all, (int)size, 0);
  memcpy(all + offset, bytes, amount);
  if( offset + amount > size ) size = offset + amount;
  if( rc==SQLITE_OK && size>=32 && (be32(all) & ~1u)==0x377f0682 ) page = (int)be32(all + 8);
  if( page>=512 && page<=65536 && (page & (page - 1))==0 ){
    rc = write_anew(wal, all, size, page);
    free(all);
    return rc;
  }
  free(all);
  /* No WAL that SQLite would write. */
  if( rc==SQLITE_OK ) rc = make_raw(path, wal);
  file = rc==SQLITE_OK ? fopen(path, "rb+") : 0;
  if( file==0 ) return rc==SQLITE_OK ? SQLITE_CANTOPEN : rc;
  if( fseek(file, offset, SEEK_SET) || fwrite(bytes, 1, amount, file)!=(size_t)amount ) rc = SQLITE_IOERR;
  if( fclose(file) ) rc = SQLITE_IOERR;
  return rc;
}

static int fails(Tcl_Interp *interp, const char *what, int rc){
  Tcl_SetObjResult(interp, Tcl_ObjPrintf("%s: code %d", what, rc));
  return TCL_ERROR;
}

/* To open journals and the like as databases would disturb some tests' counts. */
static int may_be_packed(const char *path){
  static const char *const others[] = { "-journal", "-wal", "-shm", "-lpjourn" };
  int i;
  for(i=0; i<4; i++){
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
  if( may_be_packed(Tcl_GetString(objv[1])) ){
    Opened *opened = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READONLY);
    if( opened ){
      rc = opened->asked->pMethods->xFileSize(opened->asked, &size);
      release(opened);
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
  Opened *opened;
  sqlite3_file *file;
  Tcl_Obj *bytes;
  if( objc!=4 ){ Tcl_WrongNumArgs(interp, 1, objv, "PATH OFFSET AMOUNT"); return TCL_ERROR; }
  if( Tcl_GetWideIntFromObj(interp, objv[2], &offset) || Tcl_GetIntFromObj(interp, objv[3], &amount) ) return TCL_ERROR;
  opened = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READONLY);
  if( opened==0 ) return fails(interp, "packed_read", SQLITE_CANTOPEN);
  file = opened->asked;
  rc = file->pMethods->xFileSize(file, &size);
  if( offset>=size ) amount = 0;
  else if( amount>size-offset ) amount = (int)(size-offset);
  bytes = Tcl_NewObj();
  Tcl_IncrRefCount(bytes);
  if( rc==SQLITE_OK && amount>0 ){
    rc = file->pMethods->xRead(file, Tcl_SetByteArrayLength(bytes, amount), amount, offset);
  }
  release(opened);
  if( rc==SQLITE_OK ) Tcl_SetObjResult(interp, as_hex ? hex_of(bytes) : bytes);
  Tcl_DecrRefCount(bytes);
  return rc==SQLITE_OK ? TCL_OK : fails(interp, "packed_read", rc);
}

static int write_command(void *unused, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]){
  Tcl_WideInt offset;
  int amount, rc;
  const unsigned char *bytes;
  Opened *opened;
  sqlite3_file *file;
  (void)unused;
  if( objc!=4 ){ Tcl_WrongNumArgs(interp, 1, objv, "PATH OFFSET BYTES"); return TCL_ERROR; }
  if( Tcl_GetWideIntFromObj(interp, objv[2], &offset) ) return TCL_ERROR;
  bytes = Tcl_GetByteArrayFromObj(objv[3], &amount);
  opened = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READWRITE);
  if( opened==0 ) return fails(interp, "packed_write", SQLITE_CANTOPEN);
  file = opened->asked;
  if( opened->wal ){
    rc = write_wal(Tcl_GetString(objv[1]), file, bytes, amount, offset);
  }else{
    rc = file->pMethods->xWrite(file, bytes, amount, offset);
    if( rc==SQLITE_OK ) rc = file->pMethods->xFileControl(file, SQLITE_FCNTL_SYNC, 0);
    if( rc==SQLITE_OK ) rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  }
  release(opened);
  if( rc!=SQLITE_OK ) return fails(interp, "packed_write", rc);
  Tcl_SetObjResult(interp, Tcl_NewIntObj(amount));
  return TCL_OK;
}

static int truncate_command(void *unused, Tcl_Interp *interp, int objc, Tcl_Obj *const objv[]){
  Tcl_WideInt size;
  int rc;
  Opened *opened;
  sqlite3_file *file;
  (void)unused;
  if( objc!=3 ){ Tcl_WrongNumArgs(interp, 1, objv, "PATH SIZE"); return TCL_ERROR; }
  if( Tcl_GetWideIntFromObj(interp, objv[2], &size) ) return TCL_ERROR;
  opened = packed_open(Tcl_GetString(objv[1]), SQLITE_OPEN_READWRITE);
  if( opened==0 ) return fails(interp, "packed_truncate", SQLITE_CANTOPEN);
  file = opened->asked;
  if( opened->wal ){
    rc = make_raw(Tcl_GetString(objv[1]), file);
    if( rc==SQLITE_OK && truncate(Tcl_GetString(objv[1]), size) ) rc = SQLITE_IOERR;
  }else{
    rc = file->pMethods->xTruncate(file, size);
    if( rc==SQLITE_OK ) rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  }
  release(opened);
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
