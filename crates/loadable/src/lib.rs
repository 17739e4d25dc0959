//! The loadable extension `liblitepack`: two entry points, nothing else.
//!
//! `sqlite3_litepack_init` is the one SQLite finds by the library's name.

use std::ffi::{c_char, c_int, c_void};

use litepack_sqlite::ffi::{self, sqlite3};

/// Registers the VFS `litepack` and the SQL functions.
///
/// # Safety
/// To be called by SQLite, as an extension's entry point.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_litepack_init(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: as for this function.
    unsafe { ffi::init(db, error, table) }
}

/// The same, and Litepack becomes the default VFS of the process.
///
/// # Safety
/// As [`sqlite3_litepack_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_litepackdefault_init(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: as for this function.
    unsafe { ffi::init_default(db, error, table) }
}
