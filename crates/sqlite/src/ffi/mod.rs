//! The functions that SQLite calls: the entry points of the extension, and all that they register.
//!
//! ```text
//! registration.rs  our VFSes in a library      vfs.rs         their methods
//! methods.rs       the methods of a file       controls.rs    what any file answers when it is asked
//! functions.rs     the way into the SQL functions
//! ```
#![allow(unsafe_code)]

mod controls;
mod functions;
mod methods;
#[cfg(test)]
mod methods_test;
#[cfg(test)]
mod readonly_file_test;
mod registration;
mod vfs;

use std::ffi::{c_char, c_int, c_void};

pub use crate::c::allocator::Allocator;
use crate::c::api::Api;
pub use crate::c::api::EntryPoint;
pub use crate::c::bindings::sqlite3;
use crate::c::codes::{ERROR, OK};
use crate::c::library::{LIBRARIES, Library, for_each_library};
use crate::sql::permission;

/// Registers a VFS `name` over the VFS `host`, after an entry point has run.
///
/// # Errors
/// In words: no such host, or SQLite refused.
///
/// # Safety
/// `table` is what that SQLite handed to the entry point.
pub unsafe fn register_vfs(table: *const c_void, name: &str, host: &str) -> Result<(), String> {
    // SAFETY: the caller says that `table` is the one that SQLite gives to extensions.
    unsafe { registration::register_named(table, name, host) }
}

/// The further work of an entry point.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Nothing,
    /// Litepack becomes the default VFS.
    Default,
    /// SQL on the connection may configure the process.
    Configure,
}

/// The work of all entry points: the VFS once for each SQLite library, the functions for this connection and, through
/// an automatic extension, for every later one.
///
/// Answers with SQLITE_OK, so that a program may register an entry point as an automatic extension: what contains
/// this code must see to it that it is never unloaded.
///
/// # Safety
/// As [`init`].
unsafe fn load(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
    asked: Asked,
) -> c_int {
    let body = || {
        // SAFETY: the table is SQLite's.
        let library = unsafe { Library::of(table) }?;
        registration::register(library, asked == Asked::Default)?;
        match library.api().auto_extension(FUNCTIONS_ONLY[library.0]) {
            OK => {}
            code => {
                return Err(format!(
                    "cannot register for later connections (code {code})"
                ));
            }
        }
        // SAFETY: the connection is the one that loads us.
        match unsafe { functions::register(library, db) } {
            OK => {}
            code => return Err(format!("cannot register the SQL functions (code {code})")),
        }
        if asked == Asked::Configure {
            // SAFETY: it has the functions by now.
            unsafe { permission::trust(library, db) }?;
        }
        Ok(())
    };
    let result = std::panic::catch_unwind(body).unwrap_or_else(|_| Err("internal error".into()));
    match result {
        Ok(()) => OK,
        Err(why) => {
            // SAFETY: the table is SQLite's, which gives a place for a message in its own memory, or null.
            unsafe { Api::refuse(table, error, &why) };
            ERROR
        }
    }
}

const fn functions_only_of<const LIBRARY: usize>() -> EntryPoint {
    functions_only::<LIBRARY>
}

static FUNCTIONS_ONLY: [EntryPoint; LIBRARIES] = for_each_library!(functions_only_of);

/// Called by SQLite for every new connection. A build without support for extensions, which was handed a table in
/// another way, gives none here.
unsafe extern "C" fn functions_only<const LIBRARY: usize>(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    _table: *const c_void,
) -> c_int {
    let register = || {
        let library = Library(LIBRARY);
        // SAFETY: SQLite calls this as an entry point of a connection that is being opened.
        unsafe {
            match functions::refused(library.api(), db) {
                Ok(None) => functions::register(library, db),
                Ok(Some((code, why))) => {
                    // Now the program hears of it; `xOpen` has no words.
                    if !error.is_null() {
                        error.write(library.api().text(&format!("litepack: {why}")));
                    }
                    code
                }
                Err(code) => code,
            }
        }
    };
    std::panic::catch_unwind(register).unwrap_or(ERROR)
}

/// The entry point `sqlite3_litepack_init`: VFS `litepack` and the SQL functions.
///
/// # Safety
/// To be called by SQLite, as an extension's entry point.
pub unsafe extern "C" fn init(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite calls an entry point with an open connection, a place for a message, and its table.
    unsafe { load(db, error, table, Asked::Nothing) }
}

/// The entry point `sqlite3_litepackdefault_init`: the same, and new connections use Litepack without
/// naming it.
///
/// # Safety
/// As [`init`].
pub unsafe extern "C" fn init_default(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite calls an entry point with an open connection, a place for a message, and its table.
    unsafe { load(db, error, table, Asked::Default) }
}

/// The entry point `sqlite3_litepackconfigure_init`: as [`init`], and SQL on this connection may configure the process.
///
/// # Safety
/// As [`init`].
pub unsafe extern "C" fn init_configure(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite calls an entry point with an open connection, a place for a message, and its table.
    unsafe { load(db, error, table, Asked::Configure) }
}
