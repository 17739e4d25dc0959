//! Litepack for programs that link SQLite: [`register`] once, then open databases with `vfs=litepack`.
//!
//! SQLite's functions are declared here, not taken from a bindings crate: whichever crate or build script brings
//! SQLite into the program, in whichever version, this one goes with it.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use litepack_sqlite::ffi::{self, EntryPoint, sqlite3};
/// The key of an encrypted database, and how one is opened with it: whatever crate opens databases, those that it opens
/// in `work`, on this thread, have the key, and new ones are encrypted. It also says whether there were any.
///
/// ```
/// # litepack_rusqlite::register().unwrap();
/// # let place = tempfile::tempdir().unwrap();
/// # let uri = format!("file:{}?vfs=litepack", place.path().join("app.db").display());
/// use std::sync::Arc;
///
/// let key = Arc::new(litepack_rusqlite::Key::passphrase(b"correct horse").unwrap());
/// let (opened, is_encrypted) = litepack_rusqlite::with_key(key, || rusqlite::Connection::open(uri));
/// assert!(is_encrypted);
/// opened.unwrap().execute_batch("create table t(x)").unwrap();
/// ```
pub use litepack_sqlite::{Key, with_key};
/// The settings that the SQL functions of these names make for the process. Those functions work on few connections
/// alone.
#[cfg(feature = "remote")]
pub use litepack_sqlite::{remote_config, remote_headers};

unsafe extern "C" {
    fn sqlite3_auto_extension(entry: EntryPoint) -> c_int;
    fn sqlite3_cancel_auto_extension(entry: EntryPoint) -> c_int;
    fn sqlite3_open(name: *const c_char, db: *mut *mut sqlite3) -> c_int;
    fn sqlite3_close(db: *mut sqlite3) -> c_int;
    fn sqlite3_errmsg(db: *mut sqlite3) -> *const c_char;
}

const OK: c_int = 0;

/// The function table of the SQLite linked into this program; null before [`register`].
static TABLE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" fn entry(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    TABLE.store(table.cast_mut(), Ordering::Release);
    // SAFETY: SQLite calls this as an entry point.
    unsafe { ffi::init(db, error, table) }
}

/// Registers the VFS `litepack` and the SQL functions with the SQLite linked into this program.
///
/// # Errors
/// In words, when that SQLite is too old or refuses.
pub fn register() -> Result<(), String> {
    // SAFETY: the declarations are SQLite's; the entry point is one, and the connection opened here only serves to
    // have it called.
    unsafe {
        match sqlite3_auto_extension(entry) {
            OK => {}
            code => return Err(format!("SQLite refused the extension (code {code})")),
        }
        let mut db = std::ptr::null_mut();
        let code = sqlite3_open(c":memory:".as_ptr(), &raw mut db);
        let result = if code == OK {
            Ok(())
        } else {
            let message = sqlite3_errmsg(db);
            Err(CStr::from_ptr(message).to_string_lossy().into_owned())
        };
        sqlite3_close(db);
        // From now on the functions come with every connection by themselves.
        sqlite3_cancel_auto_extension(entry);
        result
    }
}

/// Registers a VFS `name` over the VFS `host`, after [`register`]: for programs with several VFSes.
///
/// # Errors
/// In words: no such host, or SQLite refused.
pub fn register_vfs(name: &str, host: &str) -> Result<(), String> {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return Err("register() comes first".into());
    }
    // SAFETY: SQLite handed the table to the entry point.
    unsafe { ffi::register_vfs(table, name, host) }
}

/// Brings SQLite into the unit tests' program, which has none otherwise.
#[cfg(test)]
use rusqlite as _;
