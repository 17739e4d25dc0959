//! The locks of the WAL index, and which of them SQLite has.

use std::ffi::c_int;
use std::ops::Range;

/// Locks of the WAL index: `WAL_WRITE_LOCK`, `WAL_CKPT_LOCK` and the first `WAL_READ_LOCK`
/// (<https://sqlite.org/walformat.html#wal_locks>).
pub(super) const WRITE_LOCK: c_int = 0;
pub(super) const CHECKPOINT_LOCK: c_int = 1;
pub(super) const FIRST_READ_LOCK: c_int = 3;

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
}
