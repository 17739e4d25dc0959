//! Which SQLite library gets the extension, and when: each one, before it opens its first database.
//!
//! A library is asked each time whether it still has our VFS: another one may have been loaded to where it was. After
//! `sqlite3_shutdown` SQLite has a default VFS of its own again, so that call has it forgotten here.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::c::{self, Function, Library};

/// The VFS that the extension makes the default.
const VFS: &CStr = c"litepack-default";
const ENTRY_POINT: &CStr = c"sqlite3_litepackdefault_init";
const EXTENSION: &[u8] = b"liblitepack.so";

/// The libraries that have it, by where they are in memory; 0 is none. The extension serves as many. One that it cannot
/// be loaded into is asked again the next time: memory may have been short.
static SERVED: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

thread_local! {
    /// How often this thread is loading the extension. To load it, SQLite opens a database, for which it may call what
    /// the program wants to be called then. If that opens another, the extension is loaded for it, too, but no third
    /// time: it may go on so for ever.
    static LOADING: Cell<u8> = const { Cell::new(0) };
}

/// A database is about to be opened by this function.
///
/// No thread waits for another here: a library that is just being loaded may open a database, with the loader's lock,
/// and whom it waited for may need that. Threads that come at once load the extension each, which does no harm.
pub fn before_open(open: Function) {
    let depth = LOADING.get();
    let Some(library) = Library::of(open).filter(|_| depth < 2) else {
        return;
    };
    if is_served(&library) && library.has_vfs(VFS) {
        return;
    }
    LOADING.set(depth + 1);
    let loaded = c::beside_us(EXTENSION).is_some_and(|path| library.load(&path, ENTRY_POINT));
    LOADING.set(depth);
    if loaded && !is_served(&library) {
        let take = |place: &&AtomicUsize| {
            let taken =
                place.compare_exchange(0, library.at(), Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        // Without a place it is loaded again each time.
        let _ = SERVED.iter().find(take);
    }
}

fn is_served(library: &Library) -> bool {
    let is_it = |place: &AtomicUsize| place.load(Ordering::Acquire) == library.at();
    SERVED.iter().any(is_it)
}

/// A library is about to be shut down by this function.
pub fn before_shutdown(shutdown: Function) {
    let Some(library) = Library::of(shutdown) else {
        return;
    };
    for place in &SERVED {
        let _ = place.compare_exchange(library.at(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
