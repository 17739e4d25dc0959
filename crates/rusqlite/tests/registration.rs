//! Litepack and the SQLite that is linked into this program.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::process::Command;

use litepack_sqlite::ffi::{EntryPoint, init, init_default, sqlite3};
use rusqlite::{Connection, OpenFlags, ffi};

/// SQLite crates of all versions go with this one, so it may depend on none.
#[test]
fn no_bindings_crate_is_needed() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "litepack-rusqlite"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8(tree.stdout).unwrap();
    assert!(text.contains("litepack-store"), "{text}");
    let is_bindings = |line: &str| line.contains("sqlite3-sys") || line.starts_with("rusqlite ");
    assert!(!text.lines().any(is_bindings), "{text}");
}

fn open(uri: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}

fn version(connection: &Connection) -> String {
    let sql = "select litepack_version()";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

unsafe extern "C" {
    fn sqlite3_auto_extension(entry: EntryPoint) -> c_int;
    fn sqlite3_cancel_auto_extension(entry: EntryPoint) -> c_int;
}

/// SQLite takes any other answer than SQLITE_OK for an error, SQLITE_OK_LOAD_PERMANENTLY included.
fn is_an_automatic_extension(entry: EntryPoint) {
    // SAFETY: it is an entry point, and what is opened is closed.
    unsafe {
        assert_eq!(sqlite3_auto_extension(entry), ffi::SQLITE_OK);
        let mut db = std::ptr::null_mut();
        let code = ffi::sqlite3_open(c":memory:".as_ptr(), &raw mut db);
        let message = CStr::from_ptr(ffi::sqlite3_errmsg(db)).to_str().unwrap();
        assert_eq!((code, message), (ffi::SQLITE_OK, "not an error"));
        assert_eq!(ffi::sqlite3_errcode(db), ffi::SQLITE_OK);
        ffi::sqlite3_close(db);
        sqlite3_cancel_auto_extension(entry);
    }
}

unsafe extern "C" fn fails(_: *mut sqlite3, _: *mut *mut c_char, _: *const c_void) -> c_int {
    ffi::SQLITE_OK_LOAD_PERMANENTLY
}

/// One test, because what is registered is the whole process's.
#[test]
fn it_is_registered_in_every_way() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_string();
    assert!(litepack_rusqlite::register_vfs("early", "unix").is_err());
    for _ in 0..2 {
        litepack_rusqlite::register().unwrap();
        let db = open(&format!("file:{}?vfs=litepack", path("packed.db"))).unwrap();
        db.execute_batch("create table if not exists t(x); insert into t values (1)")
            .unwrap();
        let report: Option<String> = db
            .query_row("select litepack_info()", [], |row| row.get(0))
            .unwrap();
        assert!(report.is_some() && !version(&db).is_empty());
    }
    is_an_automatic_extension(init);
    is_an_automatic_extension(init_default);
    assert!(!version(&open(":memory:").unwrap()).is_empty());

    // A VFS that someone builds on one of the program's own, and calls with an object of theirs.
    litepack_rusqlite::register_vfs("mine", "unix").unwrap();
    let db = open(&format!("file:{}?vfs=mine", path("mine.db"))).unwrap();
    db.execute_batch("create table t(x)").unwrap();
    // SAFETY: what is registered is leaked.
    unsafe {
        let mine = ffi::sqlite3_vfs_find(c"mine".as_ptr());
        let theirs = Box::leak(Box::new(ffi::sqlite3_vfs {
            zName: c"theirs".as_ptr(),
            pAppData: std::ptr::dangling_mut::<u64>().cast(),
            ..mine.read()
        }));
        assert_eq!(ffi::sqlite3_vfs_register(theirs, 0), ffi::SQLITE_OK);
    }
    let refused = open(&format!("file:{}?vfs=theirs", path("theirs.db"))).unwrap_err();
    assert_eq!(
        refused.sqlite_error_code(),
        Some(rusqlite::ErrorCode::CannotOpen)
    );
    // Proves that the call this test looks at can fail.
    // SAFETY: it is an entry point.
    unsafe {
        assert_eq!(sqlite3_auto_extension(fails), ffi::SQLITE_OK);
        assert!(open(":memory:").is_err());
        sqlite3_cancel_auto_extension(fails);
    }
}
