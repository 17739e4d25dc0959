//! Sets of byte ranges of the file: what is free, what was taken, what waits to become free.
//!
//! Every range is an offset and a length. The offset has its type here, too, so that the two cannot change places.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::format::offset::FileOffset;

/// A set of bytes kept as disjoint, non-touching ranges, by offset and, if `I` says so, by length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet<I = ()> {
    by_offset: BTreeMap<FileOffset, u64>,
    index: I,
    total: u64,
}

/// A set that can be asked for a range of some length. Other sets have no index by length: that is half the work.
pub(crate) type Holes = RangeSet<ByLen>;

/// Ranges as (length, offset).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByLen(BTreeSet<(u64, FileOffset)>);

/// A second index of the ranges of a set.
pub(crate) trait Index: Default {
    /// A range has come.
    fn add(&mut self, offset: FileOffset, len: u64);
    /// A range has gone.
    fn remove(&mut self, offset: FileOffset, len: u64);
}

impl Index for () {
    fn add(&mut self, _: FileOffset, _: u64) {}
    fn remove(&mut self, _: FileOffset, _: u64) {}
}

impl Index for ByLen {
    fn add(&mut self, offset: FileOffset, len: u64) {
        self.0.insert((len, offset));
    }
    fn remove(&mut self, offset: FileOffset, len: u64) {
        self.0.remove(&(len, offset));
    }
}

impl Holes {
    /// Offset and length of the smallest range that holds `len` bytes, the lowest among equals.
    pub(crate) fn best_fit(&self, len: u64) -> Option<(FileOffset, u64)> {
        let (len, offset) = self.index.0.range((len, FileOffset::START)..).next()?;
        Some((*offset, *len))
    }

    /// The ranges that hold `len` bytes as (offset, length), the smallest first.
    pub(crate) fn fitting(&self, len: u64) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        let fitting = self.index.0.range((len, FileOffset::START)..);
        fitting.map(|(len, offset)| (*offset, *len))
    }

    /// The ranges alone.
    pub(crate) fn ranges(&self) -> RangeSet {
        RangeSet {
            by_offset: self.by_offset.clone(),
            index: (),
            total: self.total,
        }
    }
}

impl<I: Index> RangeSet<I> {
    /// Sum of all range lengths.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Number of ranges.
    pub(crate) fn count(&self) -> usize {
        self.by_offset.len()
    }

    /// All ranges as (offset, length), by offset.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        self.by_offset.iter().map(|(offset, len)| (*offset, *len))
    }

    /// The ranges of the set in a part of the file, as (offset, length), by offset.
    pub(crate) fn within(
        &self,
        part: Range<FileOffset>,
    ) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        let before = self.by_offset.range(..part.start).next_back();
        let inside = self.by_offset.range(part.start..part.end.max(part.start));
        let clipped = before.into_iter().chain(inside).map(move |(offset, len)| {
            let start = (*offset).max(part.start);
            (start, (*offset + *len).min(part.end).bytes_since(start))
        });
        clipped.filter(|(_, len)| *len > 0)
    }

    /// The whole ranges that have bytes in a part of the file, as (offset, length), by offset.
    pub(crate) fn reaching_into(
        &self,
        part: Range<FileOffset>,
    ) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        let before = self.by_offset.range(..part.start).next_back();
        let before = before.filter(move |(offset, len)| **offset + **len > part.start);
        let inside = self.by_offset.range(part.start..part.end.max(part.start));
        let all = before.into_iter().chain(inside);
        all.map(|(offset, len)| (*offset, *len))
    }

    /// The range that ends last.
    pub(crate) fn last(&self) -> Option<(FileOffset, u64)> {
        self.by_offset
            .last_key_value()
            .map(|(offset, len)| (*offset, *len))
    }

    fn put(&mut self, offset: FileOffset, len: u64) {
        self.by_offset.insert(offset, len);
        self.index.add(offset, len);
        self.total += len;
    }

    fn take(&mut self, offset: FileOffset, len: u64) {
        self.by_offset.remove(&offset);
        self.index.remove(offset, len);
        self.total -= len;
    }

    /// Adds `len` bytes at `offset`. False, and nothing changes, if any of them is in the set already.
    #[must_use]
    pub(crate) fn insert(&mut self, offset: FileOffset, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        let Some(stop) = offset.checked_add(len) else {
            return false;
        };
        let before = self
            .by_offset
            .range(..=offset)
            .next_back()
            .map(|(o, l)| (*o, *l));
        let after = self.by_offset.range(offset..).next().map(|(o, l)| (*o, *l));
        if before.is_some_and(|(o, l)| o + l > offset) || after.is_some_and(|(o, _)| o < stop) {
            return false;
        }
        let (mut start, mut stop) = (offset, stop);
        if let Some((o, l)) = before.filter(|(o, l)| *o + *l == offset) {
            self.take(o, l);
            start = o;
        }
        if let Some((o, l)) = after.filter(|(o, _)| *o == stop) {
            self.take(o, l);
            stop = o + l;
        }
        self.put(start, stop - start);
        true
    }

    /// Removes `len` bytes at `offset`. False, and nothing changes, unless all of them are in the set.
    #[must_use]
    pub(crate) fn remove(&mut self, offset: FileOffset, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        let Some((o, l)) = self
            .by_offset
            .range(..=offset)
            .next_back()
            .map(|(o, l)| (*o, *l))
        else {
            return false;
        };
        let Some(stop) = offset.checked_add(len).filter(|stop| *stop <= o + l) else {
            return false;
        };
        self.take(o, l);
        if o < offset {
            self.put(o, offset - o);
        }
        if stop < o + l {
            self.put(stop, o + l - stop);
        }
        true
    }

    /// Moves every range of `other` in here. The sets must be disjoint.
    #[must_use]
    pub(crate) fn absorb<J: Index>(&mut self, other: &mut RangeSet<J>) -> bool {
        let taken = std::mem::take(other);
        taken.iter().all(|(offset, len)| self.insert(offset, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A plain vector of booleans is the model.
        #[test]
        fn behaves_like_a_set_of_bytes(steps in proptest::collection::vec((any::<bool>(), 0u64..200, 1u64..40), 0..200)) {
            let mut set = Holes::default();
            let mut model = [false; 256];
            for (insert, offset, len) in steps {
                let bytes = offset as usize..(offset + len) as usize;
                let offset = FileOffset(offset);
                if insert {
                    let possible = model[bytes.clone()].iter().all(|b| !b);
                    prop_assert_eq!(set.insert(offset, len), possible);
                    if possible { model[bytes].fill(true); }
                } else {
                    let possible = model[bytes.clone()].iter().all(|b| *b);
                    prop_assert_eq!(set.remove(offset, len), possible);
                    if possible { model[bytes].fill(false); }
                }
                prop_assert_eq!(set.total(), model.iter().filter(|b| **b).count() as u64);
                let mut last_stop = None;
                for (offset, len) in set.iter() {
                    prop_assert!(last_stop < Some(offset));
                    prop_assert!(model[offset.0 as usize..(offset + len).0 as usize].iter().all(|b| *b));
                    last_stop = Some(offset + len);
                }
                let part = offset..offset + 2 * len;
                let within = set.within(part.clone()).flat_map(|(o, l)| o.0..o.0 + l);
                let within: Vec<u64> = within.collect();
                let expected = (part.start.0..part.end.0).filter(|at| *at < 256 && model[*at as usize]);
                let expected: Vec<u64> = expected.collect();
                prop_assert_eq!(within, expected);
            }
        }
    }

    #[test]
    fn best_fit_takes_the_smallest_that_fits() {
        let mut set = Holes::default();
        for (offset, len) in [(0, 100), (200, 10), (300, 50), (400, 10)] {
            assert!(set.insert(FileOffset(offset), len));
        }
        assert_eq!(set.best_fit(10), Some((FileOffset(200), 10)));
        assert_eq!(set.best_fit(11), Some((FileOffset(300), 50)));
        assert_eq!(set.best_fit(101), None);
    }
}
