//! Journals and WALs that are known not to be there.
//!
//! In a rollback mode SQLite asks the VFS at the beginning of every read transaction whether a crashed writer has left a
//! journal, and whether there is a WAL. The system looks up two paths for that, a sixth of the time of reading one row.
//! Neither can have come since the VFS below was last asked, as long as the database is at the same commit:
//! - The journal of a packed database is a file only while a transaction over several databases commits, from before
//!   its pages are published until after (`files/journal.rs`). If its writer was killed before that, the database is what
//!   it was, and there is nothing to undo.
//! - A WAL is made after a commit that puts the database in WAL mode, and is gone before one that ends it.
//!
//! A journal that a killed writer left must not outlive the next commit, which it would undo in part. So a handle that
//! is about to write, and was answered from here, asks the VFS below after all
//! ([`Entry::write_begins`](super::entry::Entry::write_begins)).
//!
//! This knowledge belongs to one handle: another one may have another file under the same name, after the file was
//! replaced. So names are told apart by their addresses, which SQLite keeps as long as the handle is open.

use std::sync::atomic::{AtomicBool, Ordering};

/// Which of the two files beside a database.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Journal,
    Wal,
}

/// The knowledge of one handle. SQLite uses a handle in one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Absent {
    /// A read transaction is running, at the commit that the rest is known of.
    is_reading: AtomicBool,
    /// No file of this name is there: journal, WAL.
    is_absent: [AtomicBool; 2],
    /// This transaction was told so of the journal, without a look.
    is_assumed: AtomicBool,
}

impl Absent {
    /// Whether a read transaction is running, for which there is something to know.
    pub(super) fn is_reading(&self) -> bool {
        self.is_reading.load(Ordering::Relaxed)
    }

    /// Whether it is known that the file is not there. Of the journal it counts as an answer to SQLite.
    pub(super) fn is_absent(&self, kind: Kind) -> bool {
        let [journal, wal] = &self.is_absent;
        match kind {
            Kind::Wal => wal.load(Ordering::Relaxed),
            Kind::Journal => {
                let is_absent = journal.load(Ordering::Relaxed);
                self.is_assumed.fetch_or(is_absent, Ordering::Relaxed);
                is_absent
            }
        }
    }

    /// The file is not there.
    pub(super) fn note(&self, kind: Kind) {
        let [journal, wal] = &self.is_absent;
        let is_absent = match kind {
            Kind::Journal => journal,
            Kind::Wal => wal,
        };
        is_absent.store(true, Ordering::Relaxed);
    }

    pub(super) fn begin(&self) {
        self.is_assumed.store(false, Ordering::Relaxed);
        self.is_reading.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.is_reading.store(false, Ordering::Relaxed);
    }

    pub(super) fn forget(&self) {
        for is_absent in &self.is_absent {
            is_absent.store(false, Ordering::Relaxed);
        }
    }

    /// Whether SQLite was told that there is no journal, without a look. Asked once.
    pub(super) fn was_assumed(&self) -> bool {
        self.is_assumed.swap(false, Ordering::Relaxed)
    }
}
