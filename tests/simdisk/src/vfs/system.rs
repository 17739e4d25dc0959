//! The VFS methods that have nothing to do with the disk: handed to the system's VFS.

use std::ffi::{c_char, c_int, c_void};

use rusqlite::ffi;

/// The system VFS's method, called with the system VFS as its first argument.
macro_rules! forward {
    ($vfs:ident . $method:ident ( $($arg:expr),* ) else $missing:expr) => {{
        // SAFETY: SQLite passes our VFS; the system VFS lives as long as SQLite, and its
        // arguments are handed on unchanged.
        unsafe {
            let system = super::app($vfs).system.as_ptr();
            match (*system).$method {
                Some(method) => method(system, $($arg),*),
                None => $missing,
            }
        }
    }};
}

type Symbol = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *mut c_void, *const c_char);

pub(super) unsafe extern "C" fn dl_open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
) -> *mut c_void {
    forward!(vfs.xDlOpen(name) else std::ptr::null_mut())
}

pub(super) unsafe extern "C" fn dl_error(
    vfs: *mut ffi::sqlite3_vfs,
    room: c_int,
    out: *mut c_char,
) {
    forward!(vfs.xDlError(room, out) else ());
}

pub(super) unsafe extern "C" fn dl_sym(
    vfs: *mut ffi::sqlite3_vfs,
    library: *mut c_void,
    symbol: *const c_char,
) -> Option<Symbol> {
    forward!(vfs.xDlSym(library, symbol) else None)
}

pub(super) unsafe extern "C" fn dl_close(vfs: *mut ffi::sqlite3_vfs, library: *mut c_void) {
    forward!(vfs.xDlClose(library) else ());
}

pub(super) unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    forward!(vfs.xRandomness(room, out) else 0)
}

pub(super) unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    forward!(vfs.xSleep(microseconds) else 0)
}

pub(super) unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    forward!(vfs.xCurrentTime(out) else ffi::SQLITE_ERROR)
}

pub(super) unsafe extern "C" fn current_time_int64(
    vfs: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    forward!(vfs.xCurrentTimeInt64(out) else ffi::SQLITE_ERROR)
}

pub(super) unsafe extern "C" fn last_error(
    _vfs: *mut ffi::sqlite3_vfs,
    _room: c_int,
    _out: *mut c_char,
) -> c_int {
    0
}
