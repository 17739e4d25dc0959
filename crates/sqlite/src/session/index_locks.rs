//! The locks of the WAL index, and which of them SQLite has.

use std::ffi::c_int;
use std::ops::Range;

/// Locks of the WAL index: `WAL_WRITE_LOCK`, `WAL_CKPT_LOCK` and the first `WAL_READ_LOCK`
/// (<https://sqlite.org/walformat.html#wal_locks>).
pub(super) const WRITE_LOCK: c_int = 0;
pub(super) const CHECKPOINT_LOCK: c_int = 1;
pub(super) const FIRST_READ_LOCK: c_int = 3;
/// One more than the last.
const READ_LOCKS_END: c_int = 8;

/// A set of locks of the WAL index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexLocks(u32);

impl IndexLocks {
    pub(super) fn of(locks: &Range<c_int>) -> IndexLocks {
        let bits = locks.clone().filter(|lock| (0..32).contains(lock));
        IndexLocks(bits.fold(0, |set, lock| set | 1 << lock))
    }

    pub(super) fn add(&mut self, locks: IndexLocks) {
        self.0 |= locks.0;
    }

    pub(super) fn remove(&mut self, locks: IndexLocks) {
        self.0 &= !locks.0;
    }

    pub(super) fn has(self, lock: c_int) -> bool {
        self.0 & 1 << lock != 0
    }

    /// Whether others cannot begin the WAL anew while a handle has these, and write no frame that it may read before it
    /// takes another one.
    pub(super) fn keep_wal(self) -> bool {
        // With the first read lock alone a reader takes no frame from the WAL, and others may begin it anew. A checkpoint
        // has that one for itself.
        self.has(WRITE_LOCK)
            || (FIRST_READ_LOCK + 1..READ_LOCKS_END).any(|lock| self.has(lock))
            || self.has(FIRST_READ_LOCK) && self.has(CHECKPOINT_LOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_kept_one_by_one() {
        let mut locks = IndexLocks::default();
        locks.add(IndexLocks::of(&(1..8)));
        locks.add(IndexLocks::of(&(0..1)));
        locks.remove(IndexLocks::of(&(3..8)));
        let held = (0..8).map(|lock| locks.has(lock));
        let expected = [true, true, true, false, false, false, false, false];
        assert!(held.eq(expected));
        // Of a number that SQLite does not use nothing is known.
        assert_eq!(IndexLocks::of(&(-1..0)), IndexLocks::default());
        assert_eq!(IndexLocks::of(&(40..41)), IndexLocks::default());
    }

    #[test]
    fn some_locks_keep_the_wal_as_it_is() {
        let keep = |locks: &[c_int]| {
            let mut held = IndexLocks::default();
            for lock in locks {
                held.add(IndexLocks::of(&(*lock..lock + 1)));
            }
            held.keep_wal()
        };
        for none in [&[][..], &[1], &[2], &[3], &[1, 2], &[2, 3]] {
            assert!(!keep(none), "{none:?}");
        }
        for some in [&[0][..], &[4], &[5], &[6], &[7], &[1, 3], &[0, 3], &[3, 7]] {
            assert!(keep(some), "{some:?}");
        }
    }
}
