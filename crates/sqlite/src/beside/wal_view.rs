//! Whether the locks of a handle keep others from its WAL, so that what it found there is still so.
//!
//! A transaction that reads holds a read lock of the WAL index: the WAL is not restarted meanwhile, and its frames stay as
//! they are. One that writes holds the lock to write: no other appends. A checkpoint holds its own and the first read
//! lock. A handle that has the file for itself takes none of them. Of all these it is enough to look once after the lock
//! was taken. Without such a lock, or where it is kept by a VFS above ours, each look is good for one call.

use std::sync::atomic::{AtomicU64, Ordering};

/// The view of one handle. SQLite uses a handle and its WAL in one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct WalView {
    /// How many locks it has taken.
    taken: AtomicU64,
    /// That number while one of its locks keeps the WAL as it is, else 0.
    kept: AtomicU64,
}

impl WalView {
    /// A lock was taken: what others did before counts. `keeps` if the locks held now keep the WAL.
    pub(crate) fn took(&self, keeps: bool) {
        self.taken.fetch_add(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_counts_until_a_lock_is_taken_or_the_last_is_gone() {
        let view = WalView::default();
        assert_eq!(view.number(), None);
        view.took(false);
        assert_eq!(view.number(), None);
        view.took(true);
        let first = view.number();
        assert!(first.is_some());
        view.releases(true);
        assert_eq!(view.number(), first);
        view.took(true);
        let second = view.number();
        assert!(second.is_some() && second != first);
        view.releases(false);
        assert_eq!(view.number(), None);
        view.took(true);
        assert!(view.number().is_some() && view.number() != second);
    }
}
