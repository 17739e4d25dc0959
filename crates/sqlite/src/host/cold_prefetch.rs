//! Prefetch for a file that is not in the system's page cache: read it in blocks, if that pays.
//!
//! A packed file is small. Random reads soon touch every part of it, and one by one they take longer than reading the
//! whole file. How many reads will come is not known. So small reads go on until they have taken as long as reading the
//! whole file in blocks would have; from then on it is read in blocks. That takes at most twice the time of the better
//! choice.
//!
//! The system keeps what is read, if there is memory for it. If not, the prefetch is useless: files of more than half the
//! memory are not read in blocks, and no block is read twice.

use std::ops::Range;
use std::time::Duration;

/// Bytes read at once. Takes a solid-state disk three times as long as a small read.
const BLOCK: u64 = 128 << 10;
/// A read that takes longer came from the medium, not from memory.
const SLOW: Duration = Duration::from_micros(30);

/// How a file was read through one handle.
#[derive(Debug, Default)]
pub(crate) struct ColdPrefetch {
    /// Reads that took long.
    slow: u64,
    /// Which blocks have been read, once reading is by block.
    blocks: Option<Vec<bool>>,
}

impl ColdPrefetch {
    /// The block to read before `offset` is.
    pub(crate) fn before(&mut self, offset: u64) -> Option<Range<u64>> {
        let block = offset / BLOCK;
        let read = self.blocks.as_mut()?.get_mut(block as usize)?;
        (!std::mem::replace(read, true)).then(|| block * BLOCK..(block + 1) * BLOCK)
    }

    /// Notes how long a read took, of a file of this length, where there is so much memory for it.
    pub(crate) fn after(&mut self, took: Duration, len: impl FnOnce() -> u64, memory: u64) {
        if took < SLOW || self.blocks.is_some() {
            return;
        }
        self.slow += 1;
        let len = len();
        let blocks = len.div_ceil(BLOCK);
        if self.slow >= blocks && len <= memory / 2 {
            self.blocks = usize::try_from(blocks).ok().map(|count| vec![false; count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const PAGE: u64 = 4096;

    /// Of `reads` reads all over a file of `len` bytes: microseconds they take on a medium that needs 60
    /// for a call and 2 for a KiB, with a memory for all of the file or for none.
    fn reading(len: u64, reads: u64, cold: Option<ColdPrefetch>, remembers: bool) -> u64 {
        reading_in(u64::MAX, len, reads, cold, remembers)
    }

    fn reading_in(
        limit: u64,
        len: u64,
        reads: u64,
        mut cold: Option<ColdPrefetch>,
        remembers: bool,
    ) -> u64 {
        let mut memory = HashSet::<u64>::new();
        let mut total = 0;
        let mut fetch = |range: Range<u64>| {
            let pages = range.start / PAGE..range.end.div_ceil(PAGE);
            let missing = pages.filter(|page| !memory.contains(page));
            let missing: Vec<u64> = missing.collect();
            if remembers {
                memory.extend(&missing);
            }
            let took = match missing.len() as u64 {
                0 => 1,
                missing => 60 + 8 * missing,
            };
            total += took;
            Duration::from_micros(took)
        };
        for number in 1..=reads {
            let offset = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % len;
            if let Some(block) = cold.as_mut().and_then(|cold| cold.before(offset)) {
                fetch(block);
            }
            let took = fetch(offset..offset + 1);
            if let Some(cold) = &mut cold {
                cold.after(took, || len, limit);
            }
        }
        total
    }

    #[test]
    fn many_reads_bring_a_small_file_and_few_reads_of_a_large_one_cost_nothing() {
        let with = |len, reads| reading(len, reads, Some(ColdPrefetch::default()), true);
        let without = |len, reads| reading(len, reads, None, true);
        assert!(with(14 << 20, 1000) * 5 < without(14 << 20, 1000) * 4);
        assert!(with(14 << 20, 10_000) * 3 < without(14 << 20, 10_000));
        assert_eq!(with(1 << 30, 1000), without(1 << 30, 1000));
    }

    #[test]
    fn a_file_that_memory_does_not_hold_is_read_by_block_once() {
        let with = reading(14 << 20, 100_000, Some(ColdPrefetch::default()), false);
        let without = reading(14 << 20, 100_000, None, false);
        assert!(with <= without + 112 * (60 + 8 * 32), "{with}, {without}");
        let cold = Some(ColdPrefetch::default());
        assert_eq!(
            reading_in(20 << 20, 14 << 20, 100_000, cold, false),
            without
        );
    }
}
