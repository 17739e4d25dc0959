//! Which SQLite library gets the extension, and when: each one, before it opens its first database.
//!
//! A library is asked each time whether it still has our VFS: another one may have been loaded to where it was. After
//! `sqlite3_shutdown` SQLite has a default VFS of its own again, so that call has it forgotten here.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::c::{Call, Function, Library};
use crate::extension;

/// The VFS that the extension makes the default.
const VFS: &CStr = c"litepack-default";
const ENTRY_POINT: &CStr = c"sqlite3_litepackdefault_init";

/// Libraries, by where they are in memory; 0 is none. The extension serves as many.
type Places = [AtomicUsize; 16];

/// Those that have it.
static SERVED: Places = [const { AtomicUsize::new(0) }; 16];
/// Those that it could not be loaded into. That is tried again for a packed file only: memory may have been short, but
/// trying it each time takes long.
static FAILED: Places = [const { AtomicUsize::new(0) }; 16];

thread_local! {
    /// How often this thread is loading the extension. To load it, SQLite opens a database, for which it may call what
    /// the program wants to be called then. If that opens another, the extension is loaded for it, too, but no third
    /// time: it may go on so for ever.
    static LOADING: Cell<u8> = const { Cell::new(0) };
}

/// A database is about to be opened by this function; where the call is to go.
///
/// Without the extension a packed file is refused: the program would take it for damaged, and might put a new database in
/// its place.
///
/// No thread waits for another here: a library that is just being loaded may open a database, with the loader's lock,
/// and whom it waited for may need that. Threads that come at once load the extension each, which does no harm.
pub fn before_open(open: Function, call: &mut Call) -> Function {
    let Some(library) = Library::of(open) else {
        return open;
    };
    if is_in(&SERVED, &library) && library.has_vfs(VFS) {
        return open;
    }
    let has_failed = is_in(&FAILED, &library);
    if !has_failed && serve(&library) {
        return open;
    }
    match library.open_unless_packed(open, call) {
        Some(code) => call.answered(code),
        None if has_failed && serve(&library) => open,
        None => {
            let code = library.cannot_open(call);
            call.answered(code)
        }
    }
}

/// Loads the extension into a library; whether it has it.
fn serve(library: &Library) -> bool {
    let depth = LOADING.get();
    if depth == 2 {
        return false;
    }
    LOADING.set(depth + 1);
    let loaded = extension::path().is_some_and(|path| library.load(&path, ENTRY_POINT));
    LOADING.set(depth);
    // Without a place it is tried again each time.
    if loaded {
        take(&SERVED, library);
        forget(&FAILED, library);
    } else {
        take(&FAILED, library);
    }
    loaded
}

fn take(places: &Places, library: &Library) {
    let is_taken = |place: &&AtomicUsize| {
        let taken = place.compare_exchange(0, library.at(), Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    };
    if !is_in(places, library) {
        let _ = places.iter().find(is_taken);
    }
}

fn is_in(places: &Places, library: &Library) -> bool {
    let is_it = |place: &AtomicUsize| place.load(Ordering::Acquire) == library.at();
    places.iter().any(is_it)
}

fn forget(places: &Places, library: &Library) {
    for place in places {
        let _ = place.compare_exchange(library.at(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// A library is about to be shut down by this function.
pub fn before_shutdown(shutdown: Function) {
    let Some(library) = Library::of(shutdown) else {
        return;
    };
    forget(&SERVED, &library);
    forget(&FAILED, &library);
}
