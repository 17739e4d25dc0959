//! Which unit was the first to have a hash: a table of a fixed size. A hash that finds no room is forgotten.

use litepack_io::memory::OutOfMemory;
use litepack_store::Unit;

/// Of so many, one hash is taken at most: more find hardly more.
const RATE_MIN: u64 = 32;
/// Places that are tried for a hash.
const TRIED: usize = 8;

/// The places for a hash, in one line of the processor's cache: 8 bytes for each, 32 bits of the hash, and the unit's
/// number plus one.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; TRIED]);

/// A table of hashes.
#[derive(Debug)]
pub(super) struct Index {
    lines: Vec<Line>,
}

/// How many hashes a table of so many bytes has room for, at three quarters.
fn room(bytes: usize) -> u64 {
    bytes as u64 / 8 * 3 / 4
}

impl Index {
    /// One in how many hashes is taken, so that those of so many units find room in a table of so many bytes.
    pub(super) fn rate(bytes: usize, units: u64, unit_size: u32) -> u64 {
        let all = units.saturating_mul(u64::from(unit_size));
        all.div_ceil(room(bytes).max(1)).max(RATE_MIN)
    }

    /// Room for the hashes of so many units, and one more for each, in at most so many bytes, and 64 at least.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) fn new(
        bytes: usize,
        units: u64,
        unit_size: u32,
        rate: u64,
    ) -> Result<Index, OutOfMemory> {
        let all = units.saturating_mul(u64::from(unit_size)) / rate.max(1);
        let all = all.saturating_add(units);
        let lines = (all.min(room(bytes)) * 4 / 3).div_ceil(TRIED as u64).max(1);
        let lines = usize::try_from(lines).map_err(|_| OutOfMemory)?;
        let mut empty = litepack_io::memory::with_room(lines)?;
        empty.resize(lines, Line([0; TRIED]));
        Ok(Index { lines: empty })
    }

    /// The number of a hash's line.
    fn line(&self, hash: u64) -> usize {
        // Sampled hashes are small, so the high bits say little: the low ones choose.
        let scattered = u128::from(hash.wrapping_mul(0xd6e8_feb8_6659_fd93));
        ((scattered * self.lines.len() as u128) >> 64) as usize
    }

    /// Notes that this unit has a hash, unless another one has it.
    pub(super) fn add(&mut self, hash: u64, unit: Unit) {
        let Ok(number) = u32::try_from(unit.0.saturating_add(1)) else {
            return;
        };
        let slot = tag(hash) << 32 | u64::from(number);
        let line = self.line(hash);
        for place in self
            .lines
            .get_mut(line)
            .into_iter()
            .flat_map(|line| &mut line.0)
        {
            if *place == 0 {
                *place = slot;
                return;
            }
            if *place >> 32 == tag(hash) {
                return;
            }
        }
    }

    /// The first unit that had a hash.
    pub(super) fn first(&self, hash: u64) -> Option<Unit> {
        let line = self.lines.get(self.line(hash))?;
        let place = line.0.iter().find(|place| **place >> 32 == tag(hash))?;
        Some(Unit((*place & u64::from(u32::MAX)).checked_sub(1)?))
    }
}

/// Bits that tell hashes of a line apart; not 0, which is an empty place.
fn tag(hash: u64) -> u64 {
    (hash & u64::from(u32::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 64 << 20;

    #[test]
    fn it_has_a_limit_whatever_the_database_claims() {
        for units in [
            0,
            1,
            1000,
            1 << 20,
            2_500_000,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            for limit in [0, 1000, 1 << 20, LARGE] {
                let rate = Index::rate(limit, units, 4096);
                let index = Index::new(limit, units.min(1 << 32), 4096, rate).unwrap();
                let bytes = size_of_val(&*index.lines);
                assert!((1..=limit + 64).contains(&bytes), "{units}, {limit}");
            }
        }
        assert_eq!(Index::rate(LARGE, 1000, 4096), 32);
        // 10 GB: three a page.
        let rate = Index::rate(LARGE, 2_500_000, 4096);
        assert!((1200..1800).contains(&rate), "{rate}");
    }

    #[test]
    fn the_first_unit_stays() {
        let mut index = Index::new(LARGE, 100, 4096, 32).unwrap();
        for unit in 0..100 {
            for hash in 0..100 {
                index.add(hash << 40 | hash, Unit(unit));
            }
        }
        for hash in 0..100 {
            assert_eq!(index.first(hash << 40 | hash), Some(Unit(0)));
        }
        assert_eq!(index.first(5 << 40 | 6), None);
        // No unit has a number like this.
        index.add(777, Unit(u64::from(u32::MAX)));
        assert_eq!(index.first(777), None);
    }
}
