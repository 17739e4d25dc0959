//! Packed files over VFSes that have less than SQLite's usual one, and below one that names files by itself.

use litepack_tests::commandline::Place;
use litepack_tests::{content, vfs};
use rusqlite::{Connection, ffi};
use std::ffi::{CStr, CString, c_int};
use std::path::Path;

/// SQLite's VFS without locks and shared memory, and ours over it.
const BARE: &str = "unix-none";
const OVER_BARE: &str = "litepack-over-none";

fn open(path: &Path, name: &str) -> Connection {
    vfs::open_uri(&vfs::uri(path, name, "")).expect("it opens")
}

fn one<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> rusqlite::Result<T> {
    connection.query_row(sql, [], |row| row.get(0))
}

/// Ours says the same of a WAL over the bare VFS as plain SQLite.
#[test]
fn without_shared_memory_there_is_no_wal() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    litepack_rusqlite::register_vfs(OVER_BARE, BARE).expect("a VFS");
    let place = Place::new();
    for (name, bare, usual) in [
        ("plain.db", BARE, vfs::PLAIN),
        ("packed.db", OVER_BARE, vfs::under_test()),
    ] {
        let path = place.path(name);
        let connection = open(&path, bare);
        connection
            .execute_batch("create table t(x); insert into t values (1)")
            .expect("a table");
        let mode: String = one(&connection, "pragma journal_mode = wal").expect("an answer");
        assert_eq!(mode, "delete", "{name}");
        connection
            .execute_batch("insert into t values (2)")
            .expect("it goes on");
        assert_eq!(one(&connection, "pragma mmap_size = 4096"), Ok(4096));
        content::assert_sound(&connection, name);
        connection.close().expect("it closes");

        let connection = open(&path, usual);
        let mode: String = one(&connection, "pragma journal_mode = wal").expect("an answer");
        assert_eq!(mode, "wal", "{name}");
        connection
            .execute_batch("insert into t values (3)")
            .expect("a row");
        connection.close().expect("it closes");

        let connection = open(&path, bare);
        let error = one::<i64>(&connection, "select count(*) from t").expect_err("a WAL");
        let code = error.sqlite_error().map(|error| error.extended_code);
        assert_eq!(code, Some(14), "{name}: {error}");
        connection.close().expect("it closes");
        let connection = open(&path, usual);
        assert_eq!(one(&connection, "select count(*) from t"), Ok(3));
    }
}

/// A VFS above ours that makes its own names opens a WAL under SQLite's usual one. Others have theirs under another.
#[test]
fn a_wal_under_sqlites_own_name_is_refused() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for (name, kind, expected) in [
        ("plain.db", vfs::PLAIN, ffi::SQLITE_OK),
        ("packed.db", vfs::under_test(), ffi::SQLITE_CANTOPEN),
    ] {
        let path = place.path(name);
        let connection = open(&path, kind);
        connection
            .execute_batch("create table t(x)")
            .expect("a table");
        let path_text = CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
        let wal = CString::new(format!("{}-wal", path.display())).expect("no zero byte");
        let database = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_READWRITE;
        let flags = ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        let codes = open_files(vfs::under_test(), &[(&path_text, database), (&wal, flags)]);
        assert_eq!(codes, [ffi::SQLITE_OK, expected], "{name}");
        // Who passes SQLite's names on does not ask for it. It would be a plain database's, under the same name.
        assert_eq!(
            open_files(vfs::under_test(), &[(&wal, flags)]),
            [ffi::SQLITE_OK]
        );
        drop(connection);
    }
}

/// Opens files as SQLite's usual VFS does; then, if there is a file `next`, that gets the name.
unsafe extern "C" fn open_and_rename(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    granted: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are SQLite's, and a file of this VFS is one of the usual VFS.
    unsafe {
        let usual = ffi::sqlite3_vfs_find(std::ptr::null());
        let code = (*usual).xOpen.expect("a method")(usual, name, file, flags, granted);
        if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            let path = Path::new(CStr::from_ptr(name).to_str().expect("UTF-8"));
            let _ = std::fs::rename(path.with_file_name("next"), path);
        }
        code
    }
}

/// A file that gets its name from another while that is opened: the WAL beside it is none of the opened one's.
#[test]
fn a_file_that_is_replaced_while_it_is_opened_is_not_used() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    // SAFETY: a VFS may be a copy of another under another name. It is never taken away.
    unsafe {
        let usual = ffi::sqlite3_vfs_find(std::ptr::null());
        let renames = Box::leak(Box::new(std::ptr::read(usual)));
        renames.zName = c"renames".as_ptr();
        renames.xOpen = Some(open_and_rename);
        renames.pNext = std::ptr::null_mut();
        assert_eq!(ffi::sqlite3_vfs_register(renames, 0), ffi::SQLITE_OK);
    }
    litepack_rusqlite::register_vfs("litepack-over-renames", "renames").expect("a VFS");
    let place = Place::new();
    let path = place.path("app.db");
    for (name, row) in [("app.db", 1), ("next", 2)] {
        let connection = open(&place.path(name), vfs::under_test());
        let sql = format!("create table t(x); insert into t values ({row})");
        connection.execute_batch(&sql).expect("a row");
        connection.close().expect("it closes");
    }
    let uri = vfs::uri(&path, "litepack-over-renames", "");
    let error = vfs::open_uri(&uri).expect_err("it was replaced");
    let code = error.sqlite_error().map(|error| error.code);
    assert_eq!(code, Some(ffi::ErrorCode::CannotOpen), "{error}");
    let again = vfs::open_uri(&uri).expect("it opens");
    assert_eq!(one(&again, "select x from t"), Ok(2));
}

/// The results of `xOpen` for these files, with these flags. They are closed again when all are open.
fn open_files(vfs: &str, files: &[(&CStr, c_int)]) -> Vec<c_int> {
    let vfs = CString::new(vfs).expect("no zero byte");
    // SAFETY: the VFS is registered, the file's memory has the size that it asks for, and a name between zero bytes is
    // what files are opened by.
    unsafe {
        let vfs = ffi::sqlite3_vfs_find(vfs.as_ptr());
        let empty = c"".as_ptr();
        let opened: Vec<_> = files
            .iter()
            .map(|(name, flags)| {
                let mut memory = vec![0_u64; (*vfs).szOsFile as usize / 8 + 1];
                let file = memory.as_mut_ptr().cast::<ffi::sqlite3_file>();
                let mut none = std::ptr::null();
                let name =
                    ffi::sqlite3_create_filename(name.as_ptr(), empty, empty, 0, &raw mut none);
                let open = (*vfs).xOpen.expect("a method");
                (
                    open(vfs, name, file, *flags, std::ptr::null_mut()),
                    file,
                    memory,
                    name,
                )
            })
            .collect();
        let close = |(code, file, _memory, name): (c_int, *mut ffi::sqlite3_file, Vec<u64>, _)| {
            if let Some(methods) = (*file).pMethods.as_ref() {
                methods.xClose.expect("a method")(file);
            }
            ffi::sqlite3_free_filename(name);
            code
        };
        opened.into_iter().map(close).collect()
    }
}
