//! What the handle of a database and its WAL tell each other: the handle, whether its locks keep others from the WAL, so
//! that what was found there is still so, and the numbers of its newest commit; the WAL, which log was read.
//!
//! A transaction that reads holds a read lock of the WAL index: the WAL is not restarted meanwhile, and its frames stay as
//! they are. One that writes holds the lock to write: no other appends. A checkpoint holds its own and the first read
//! lock. A handle that has the file for itself takes none of them. Of all these it is enough to look once after the lock
//! was taken, and for a transaction that only reads not even that, if the header of the index says that there was no
//! commit since the one before. Without such a lock, or where it is kept by a VFS above ours, each look is good for one call.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litepack_cipher::Keys;
use litepack_log::{BoundTo, End};
use litepack_store::{FileState, HEAD_LEN};

use super::encrypted;
use crate::host::file::Peek;

/// A writer that is at work may make the head unreadable for a moment, so often in a row at most.
const READS_MAX: usize = 10;

/// The view of one handle. SQLite uses a handle and its WAL in one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct WalView {
    /// How many locks it has taken.
    taken: AtomicU64,
    /// That number while one of its locks keeps the WAL as it is, else 0.
    kept: AtomicU64,
    /// The log that was read since a checkpoint began, by its own number, and where what was read ends at most.
    log: AtomicU64,
    end: Mutex<End>,
    /// The number of the journal that undoes what is committed now; 0 for none that has its name.
    journal: AtomicU64,
    /// The database's file, and its keys if it is encrypted.
    database: Arc<Peek>,
    keys: Mutex<Option<Arc<Keys>>>,
}

impl WalView {
    /// That of a handle with this file.
    pub(crate) fn new(database: Arc<Peek>) -> WalView {
        WalView {
            database,
            ..WalView::default()
        }
    }

    /// The keys of the file, if it is encrypted.
    pub(crate) fn keys(&self) -> Option<Arc<Keys>> {
        self.locked_keys().clone()
    }

    /// Notes them.
    pub(crate) fn set_keys(&self, keys: Option<&Arc<Keys>>) {
        if keys.is_some() {
            encrypted::note_open();
        }
        let mut known = self.locked_keys();
        if known.as_ref().map(Arc::as_ptr) != keys.map(Arc::as_ptr) {
            *known = keys.cloned();
        }
    }

    fn locked_keys(&self) -> MutexGuard<'_, Option<Arc<Keys>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the file that the handle has, now.
    pub(crate) fn file_state(&self) -> io::Result<Option<FileState>> {
        let keys = self.keys();
        let mut head = [0; HEAD_LEN];
        let mut found = Ok(None);
        for _ in 0..READS_MAX {
            self.database.head(&mut head)?;
            found = FileState::of(&head, keys.as_ref());
            if found.is_ok() {
                break;
            }
        }
        found.map_err(io::Error::other)
    }

    /// Returns once a power loss leaves its newest commit.
    pub(crate) fn make_durable(&self) -> io::Result<()> {
        match self.file_state()? {
            Some(state) if state.is_durable => Ok(()),
            _ => self.database.sync(),
        }
    }

    /// A log was read, of which nothing behind this place is needed for what was read since the checkpoint began.
    pub(crate) fn was_read(&self, log: u64, end: End) {
        let mut known = self.locked_end();
        if self.log.swap(log, Ordering::Relaxed) != log || known.place == 0 {
            *known = end;
        }
    }

    /// The transaction that is under way has a journal with its name, by this number.
    pub(crate) fn has_journal(&self, number: u64) {
        self.journal.store(number, Ordering::Relaxed);
    }

    /// It has none any more, if it was this one.
    pub(crate) fn journal_ended(&self, number: u64) {
        let (now, then) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.journal.compare_exchange(number, 0, now, then);
    }

    /// That number.
    pub(crate) fn journal(&self) -> u64 {
        self.journal.load(Ordering::Relaxed)
    }

    /// A checkpoint begins.
    pub(crate) fn forget_log(&self) {
        self.log.store(0, Ordering::Relaxed);
        *self.locked_end() = End::default();
    }

    /// The log that was read since then, 0 for none that is known, and where what was read ends at most.
    pub(crate) fn log(&self) -> (u64, End) {
        let log = self.log.load(Ordering::Relaxed);
        (log, *self.locked_end())
    }

    fn locked_end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock was taken: what others did before counts, unless the caller knows that what is to be read in the WAL
    /// `is_same`. `keeps` if the locks held now keep the WAL.
    pub(crate) fn took(&self, keeps: bool, is_same: bool) {
        if !is_same {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        self.set(keeps);
    }

    /// A lock is about to be released; `keeps` if the others keep the WAL.
    pub(crate) fn releases(&self, keeps: bool) {
        self.set(keeps);
    }

    fn set(&self, keeps: bool) {
        let taken = self.taken.load(Ordering::Relaxed);
        self.kept
            .store(if keeps { taken } else { 0 }, Ordering::Relaxed);
    }

    /// A number that is the same as long as nothing that was found in the WAL can have changed for this handle; `None`
    /// if it can at any moment.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.kept.load(Ordering::Relaxed)).filter(|kept| *kept > 0)
    }
}

/// The state of a file as its log compares it.
pub fn state_for_log(file: &FileState) -> litepack_log::FileState {
    litepack_log::FileState {
        identity: file.uuid.0,
        current: file.log.current,
        next: file.log.next,
        end: End {
            place: file.log.end,
            link: file.log.link,
        },
        is_unfinished: file.log.unfinished != 0,
        is_durable: file.is_durable,
    }
}

/// The database of a handle, as its log asks it.
#[derive(Debug)]
pub(crate) struct DatabaseOf(pub(crate) Arc<WalView>);

impl BoundTo for DatabaseOf {
    fn state(&self) -> io::Result<Option<litepack_log::FileState>> {
        Ok(self.0.file_state()?.as_ref().map(state_for_log))
    }

    fn make_durable(&self) -> io::Result<()> {
        self.0.make_durable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_counts_until_a_lock_is_taken_or_the_last_is_gone() {
        let view = WalView::default();
        assert_eq!(view.number(), None);
        view.took(false, false);
        assert_eq!(view.number(), None);
        view.took(true, false);
        let first = view.number();
        assert!(first.is_some());
        view.releases(true);
        assert_eq!(view.number(), first);
        view.took(true, false);
        let second = view.number();
        assert!(second.is_some() && second != first);
        view.releases(false);
        assert_eq!(view.number(), None);
        view.took(true, false);
        let third = view.number();
        assert!(third.is_some() && third != second);
        view.releases(false);
        assert_eq!(view.number(), None);
        view.took(true, true);
        assert_eq!(view.number(), third);
    }
}
