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

/// What plain SQLite says of a WAL over the bare VFS, ours says too.
#[test]
fn without_shared_memory_there_is_no_wal() {
    if !vfs::is_litepack() {
        return;
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
        return;
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
