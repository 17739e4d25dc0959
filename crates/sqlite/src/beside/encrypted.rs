//! Whether this process has had an encrypted database open. From then on its temporary files are sealed
//! (`files/temporary.rs`).
//!
//! SQLite does not say which database a temporary file is for, and what it writes there may come from any of the
//! connection's. Nor is it over when the database is closed: rows that were copied into a TEMP table may still be in
//! SQLite's memory when their database is detached, and are written to a file later. So nothing takes this back.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_OPEN: AtomicBool = AtomicBool::new(false);

/// A handle gets a key, or keys. To be called before SQLite can read anything by it.
pub(crate) fn note_open() {
    WAS_OPEN.store(true, Ordering::SeqCst);
}

/// Whether there was one.
pub(crate) fn was_open() -> bool {
    WAS_OPEN.load(Ordering::SeqCst)
}
