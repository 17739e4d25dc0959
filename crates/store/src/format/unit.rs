//! A unit's number, and what follows from it: its bytes in the database, its place in the page map.
//!
//! A number of bytes, of units or of map nodes is not taken for one: how many units there are is a plain `u64`.

use crate::format::leaf::FANOUT;

/// Number of a unit of the database, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Unit(pub u64);

impl Unit {
    /// The first unit of every database.
    pub const FIRST: Unit = Unit(0);

    /// The unit that has the database's byte at `offset`.
    pub fn holding(offset: u64, unit_size: u32) -> Unit {
        Unit(offset / u64::from(unit_size))
    }

    /// Where it begins in the database.
    pub fn start(self, unit_size: u32) -> u64 {
        self.0 * u64::from(unit_size)
    }

    /// The units from this one to the one before `end`.
    pub fn up_to(self, end: Unit) -> impl DoubleEndedIterator<Item = Unit> {
        (self.0..end.0).map(Unit)
    }

    /// This unit and all behind it.
    pub(crate) fn onwards(self) -> impl Iterator<Item = Unit> {
        (self.0..).map(Unit)
    }

    /// The first unit of the leaf of the page map with this index.
    pub(crate) fn first_in(leaf: u64) -> Unit {
        Unit(leaf * FANOUT as u64)
    }

    /// Index of the leaf that has its entry.
    pub(crate) fn leaf(self) -> u64 {
        self.0 / FANOUT as u64
    }

    /// Which entry of that leaf is its own.
    #[expect(clippy::cast_possible_truncation, reason = "it is below `FANOUT`")]
    pub(crate) fn slot(self) -> usize {
        (self.0 % FANOUT as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_by_its_bytes_and_by_its_entry() {
        for unit in [0, 1, 127, 128, 129, 1 << 32].map(Unit) {
            let start = unit.start(8192);
            assert_eq!(Unit::holding(start, 8192), unit);
            assert_eq!(Unit::holding(start + 8191, 8192), unit);
            let mut leaf = Unit::first_in(unit.leaf()).onwards();
            assert_eq!(leaf.nth(unit.slot()), Some(unit));
        }
        assert_eq!(Unit::FIRST.up_to(Unit(3)).count(), 3);
    }
}
