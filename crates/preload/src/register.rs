//! Which SQLite library gets the extension, and when: each one, once, before it opens its first database.
//!
//! A library is asked each time whether it still has our VFS: another one may have been loaded to where it was. After
//! `sqlite3_shutdown` SQLite has a default VFS of its own again, so that call has it forgotten here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::c::{self, Function, Library};

/// The VFS that the extension makes the default.
const VFS: &core::ffi::CStr = c"litepack-default";
const ENTRY_POINT: &core::ffi::CStr = c"sqlite3_litepackdefault_init";
const EXTENSION: &[u8] = b"liblitepack.so";

/// What became of a library.
#[derive(Clone, Copy)]
enum State {
    Served,
    /// The extension cannot be loaded into it: SQLite is too old, or built without extensions. SQLite's log says so.
    Refused,
}

/// Libraries by where they are in memory. The extension serves as many.
static KNOWN: Mutex<[Option<(usize, State)>; 16]> = Mutex::new([None; 16]);

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
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match known.iter().flatten().find(|(at, _)| *at == library.at()) {
        Some((_, State::Refused)) => return,
        Some((_, State::Served)) if library.has_vfs(VFS) => return,
        _ => {}
    }
    LOADING.store(me, Ordering::Relaxed);
    let loaded = c::beside_us(EXTENSION).is_some_and(|path| library.load(&path, ENTRY_POINT));
    LOADING.store(0, Ordering::Relaxed);
    let state = if loaded {
        State::Served
    } else {
        State::Refused
    };
    let at = library.at();
    let place = known
        .iter_mut()
        .find(|place| place.is_none_or(|(other, _)| other == at));
    if let Some(place) = place {
        *place = Some((at, state));
    }
}

/// A library is about to be shut down by this function.
pub fn before_shutdown(shutdown: Function) {
    let Some(library) = Library::of(shutdown) else {
        return;
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    for place in known.iter_mut() {
        if place.is_some_and(|(at, _)| at == library.at()) {
            *place = None;
        }
    }
}
