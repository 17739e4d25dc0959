//! All contact with SQLite's C interface, and all unsafe code of the project.
//!
//! `types.rs` and `api.rs` say what SQLite looks like, `connection.rs` how statements are run on it;
//! `vfs.rs`, `file.rs`, `readonly_file.rs`, `journal_file.rs`, `functions.rs` and `columns.rs` are what it
//! calls, `controls.rs` what those files answer alike; `host.rs` is what we call; `guard.rs` keeps panics in.

mod api;
pub(crate) mod columns;
#[allow(dead_code)]
mod connection;
mod controls;
mod file;
#[cfg(test)]
mod file_test;
mod functions;
mod guard;
mod host;
mod journal_file;
pub(crate) mod maintain;
mod readonly_file;
#[cfg(test)]
mod readonly_file_test;
mod types;
mod vfs;

use std::ffi::{c_char, c_int, c_void};

use crate::codes::{ERROR, MISUSE, OK, OK_LOAD_PERMANENTLY};
pub use api::EntryPoint;
pub use types::sqlite3;

/// Registers a VFS `name` over the VFS `host`, after an entry point has run.
///
/// # Errors
/// In words: no such host, or SQLite refused.
pub fn register_vfs(name: &str, host: &str) -> Result<(), String> {
    vfs::register_named(name, host)
}

/// What both entry points do: the VFS once, the functions for this connection and, through an
/// automatic extension, for every later one.
///
/// # Safety
/// As [`init`].
unsafe fn load(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
    default: bool,
) -> c_int {
    let body = || {
        // SAFETY: the table is SQLite's.
        let api = unsafe { api::Api::init(table) }?;
        vfs::register(default)?;
        match api.auto_extension(functions_only) {
            OK => {}
            code => {
                return Err(format!(
                    "cannot register for later connections (code {code})"
                ));
            }
        }
        // SAFETY: the connection is the one that loads us.
        match unsafe { functions::register(api, db) } {
            OK => Ok(()),
            code => Err(format!("cannot register the SQL functions (code {code})")),
        }
    };
    let result = std::panic::catch_unwind(body).unwrap_or_else(|_| Err("internal error".into()));
    match result {
        Ok(()) => OK_LOAD_PERMANENTLY,
        Err(why) => {
            // SAFETY: SQLite gives a place for a message in its own memory, or null. Without a table
            // there is no memory to be had.
            unsafe {
                if !error.is_null()
                    && let Ok(api) = api::Api::init(table)
                {
                    error.write(api.text(&format!("litepack: {why}")));
                }
            }
            ERROR
        }
    }
}

/// Called by SQLite for every new connection.
unsafe extern "C" fn functions_only(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite calls this as an entry point of a connection that is being opened.
    let register = || unsafe {
        let api = api::Api::init(table)?;
        if let Some(why) = functions::refused(api, db) {
            // Now the program hears of it; `xOpen` has no words.
            if !error.is_null() {
                error.write(api.text(&format!("litepack: {why}")));
            }
            return Ok(MISUSE);
        }
        Ok::<_, String>(functions::register(api, db))
    };
    match std::panic::catch_unwind(register) {
        Ok(Ok(code)) => code,
        _ => ERROR,
    }
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
    // SAFETY: as for this function.
    unsafe { load(db, error, table, false) }
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
    // SAFETY: as for this function.
    unsafe { load(db, error, table, true) }
}
