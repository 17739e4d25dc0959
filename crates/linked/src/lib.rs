//! Litepack for programs that link SQLite: [`register`] once, then open databases with `vfs=litepack`.

use std::ffi::{CStr, c_char, c_int, c_void};

use libsqlite3_sys as sqlite;
use litepack_sqlite::ffi;
pub use litepack_sqlite::ffi::register_vfs;

unsafe extern "C" fn entry(
    db: *mut sqlite::sqlite3,
    error: *mut *mut c_char,
    table: *const sqlite::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite calls this as an entry point; the connection's type has no fields on either side.
    unsafe { ffi::init(db.cast(), error, table.cast::<c_void>()) & 0xff }
}

/// Registers the VFS `litepack` and the SQL functions with the SQLite linked into this program.
///
/// # Errors
/// In words, when that SQLite is too old or refuses.
pub fn register() -> Result<(), String> {
    // SAFETY: the entry point is one; the connection opened here only serves to have it called.
    unsafe {
        // SQLite declares the callback without its arguments and calls it with them.
        match sqlite::sqlite3_auto_extension(Some(entry)) {
            sqlite::SQLITE_OK => {}
            code => return Err(format!("SQLite refused the extension (code {code})")),
        }
        let mut db = std::ptr::null_mut();
        let code = sqlite::sqlite3_open(c":memory:".as_ptr(), &raw mut db);
        let result = if code == sqlite::SQLITE_OK {
            Ok(())
        } else {
            let message = sqlite::sqlite3_errmsg(db);
            Err(CStr::from_ptr(message).to_string_lossy().into_owned())
        };
        sqlite::sqlite3_close(db);
        // From now on the functions come with every connection by themselves.
        sqlite::sqlite3_cancel_auto_extension(Some(entry));
        result
    }
}
