//! The loadable extension `liblitepack`: three entry points, and what keeps
//! a guest from harming its host: an allocator that does not end the process, and silence.
//!
//! `sqlite3_litepack_init` is the one SQLite finds by the library's name.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use litepack_sqlite::ffi::{self, Allocator, sqlite3};

/// In here only: a program that links us has its own.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Panics end as a code and a line in SQLite's log; what Rust prints besides is not for the host's terminal. The hook
/// is that of this library's own copy of Rust's standard library, so no other code in the process is concerned.
fn print_nothing() {
    static SET: AtomicBool = AtomicBool::new(false);
    // No thread waits for another here: whoever has the loader's lock may be the one that waits.
    if !SET.swap(true, Ordering::AcqRel) {
        std::panic::set_hook(Box::new(|_| ()));
    }
}

/// The answer to SQLite when all went well. The library must stay loaded. Where the system keeps it by itself
/// (`build.rs`), that need not be said: SQLITE_OK is what SQLite wants of an automatic extension. Elsewhere it is
/// SQLITE_OK_LOAD_PERMANENTLY.
const LOADED: c_int = if cfg!(stays_loaded) { 0 } else { 256 };

fn answer(code: c_int) -> c_int {
    if code == 0 { LOADED } else { code }
}

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
    print_nothing();
    // SAFETY: SQLite calls an entry point with an open connection, a place for a message, and its table.
    answer(unsafe { ffi::init(db, error, table) })
}

/// The same, and Litepack becomes the default VFS of the SQLite library that loads it.
///
/// # Safety
/// As [`sqlite3_litepack_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_litepackdefault_init(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    print_nothing();
    // SAFETY: SQLite calls an entry point with an open connection, a place for a message, and its table.
    answer(unsafe { ffi::init_default(db, error, table) })
}

/// The same as [`sqlite3_litepack_init`], and SQL on this connection may configure the process: for hosts that load
/// extensions and let no SQL do so.
///
/// # Safety
/// As [`sqlite3_litepack_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_litepackconfigure_init(
    db: *mut sqlite3,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    print_nothing();
    // SAFETY: SQLite calls an entry point with an open connection, a place for a message, and its table.
    answer(unsafe { ffi::init_configure(db, error, table) })
}
