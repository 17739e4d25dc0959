//! Which SQLite library gets the extension, and when: each one, once, before it opens its first database.
//!
//! A library is asked each time whether it still has our VFS: another one may have been loaded to where it was. After
//! `sqlite3_shutdown` SQLite has a default VFS of its own again, so that call has it forgotten here.

use core::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::c::{self, Function, Library};

/// The VFS that the extension makes the default.
const VFS: &CStr = c"litepack-default";
const ENTRY_POINT: &CStr = c"sqlite3_litepackdefault_init";
const EXTENSION: &[u8] = b"liblitepack.so";

/// The libraries that have it, by where they are in memory; 0 is none. The extension serves as many. One that it cannot
/// be loaded into is asked again the next time: memory may have been short.
static SERVED: Mutex<[usize; 16]> = Mutex::new([0; 16]);

/// The thread that is loading the extension; 0 is none. To load it, SQLite opens a database, for which it may call what
/// the program wants to be called then, and that may open another.
static LOADING: AtomicUsize = AtomicUsize::new(0);

/// A database is about to be opened by this function.
pub fn before_open(open: Function) {
    let me = c::this_thread();
    if LOADING.load(Ordering::Relaxed) == me {
        return;
    }
    let Some(library) = Library::of(open) else {
        return;
    };
    let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = library.at();
    if served.contains(&at) && library.has_vfs(VFS) {
        return;
    }
    LOADING.store(me, Ordering::Relaxed);
    let loaded = c::beside_us(EXTENSION).is_some_and(|path| library.load(&path, ENTRY_POINT));
    LOADING.store(0, Ordering::Relaxed);
    let place = served.iter_mut().find(|place| [0, at].contains(*place));
    if let Some(place) = place.filter(|_| loaded) {
        *place = at;
    }
}

/// A library is about to be shut down by this function.
pub fn before_shutdown(shutdown: Function) {
    let Some(library) = Library::of(shutdown) else {
        return;
    };
    let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    for place in served.iter_mut().filter(|place| **place == library.at()) {
        *place = 0;
    }
}
