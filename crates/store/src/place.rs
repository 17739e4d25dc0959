//! Places for the extents of a commit: near each other, because a flush pays for every stretch of the file that
//! was written, and less for their bytes.
//!
//! Extents lie side by side where some hole has room for all of them. Otherwise they fill the holes of one part
//! of the file, each the hole that fits best in there, and the next commit goes on behind it. What fits nowhere near
//! goes wherever it fits best, as a single extent does, and at last behind the end.

use crate::error::Result;
use crate::ranges::Holes;
use crate::space::Space;

/// A part of the file is filled whose holes have room for what is to be placed and, as a part of that, for what
/// they lose to fitting badly.
const LOSS: u64 = 4;
/// Holes that are looked at for each extent, at most: beyond that "near" means nothing, and looking takes longer
/// than it saves.
const HOLES_MAX: usize = 16;

impl Space {
    /// Takes space for extents of these lengths. An extent without bytes is at 0.
    ///
    /// # Errors
    /// As [`Space::alloc`].
    pub(crate) fn place(&mut self, lens: impl Iterator<Item = usize> + Clone) -> Result<Vec<u64>> {
        let lens = lens.map(|len| len as u64);
        let total: u64 = lens.clone().sum();
        if total == 0 {
            return Ok(lens.map(|_| 0).collect());
        }
        if let Some(mut offset) = self.alloc_within(total)? {
            let side_by_side = lens.map(|len| {
                let here = offset;
                offset += len;
                here
            });
            return Ok(side_by_side.collect());
        }
        let lens: Vec<u64> = lens.collect();
        let mut offsets = vec![0; lens.len()];
        let left = self.place_near(&lens, &mut offsets)?;
        for index in left {
            offsets[index] = self.alloc(lens[index])?;
        }
        Ok(offsets)
    }

    /// Places what it can in a part of the file. Returns the indexes of the others.
    fn place_near(&mut self, lens: &[u64], offsets: &mut [u64]) -> Result<Vec<usize>> {
        let mut left: Vec<usize> = (0..lens.len()).filter(|index| lens[*index] > 0).collect();
        let mut looked_at = HOLES_MAX * left.len();
        // From where the last commit ended to the end, and once again from the beginning.
        for from in [self.near(), 0] {
            let mut from = from;
            while !left.is_empty() {
                let wanted = |index: &usize| lens[*index];
                let total: u64 = left.iter().map(wanted).sum();
                let least = left.iter().map(wanted).min().unwrap_or(0);
                let mut holes = Holes::default();
                for (offset, len) in self.holes(from) {
                    looked_at = looked_at.saturating_sub(1);
                    from = offset + len;
                    let disjoint = len < least || holes.insert(offset, len);
                    debug_assert!(disjoint, "free ranges are disjoint");
                    if looked_at == 0 || holes.total() >= total + total / LOSS {
                        break;
                    }
                }
                if holes.total() == 0 {
                    break;
                }
                let mut unplaced = Vec::new();
                for index in left {
                    let len = lens[index];
                    match holes.best_fit(len).filter(|at| holes.remove(*at, len)) {
                        Some(offset) => {
                            self.take(offset, len)?;
                            offsets[index] = offset;
                        }
                        None => unplaced.push(index),
                    }
                }
                left = unplaced;
                self.go_near(from);
                if looked_at == 0 {
                    return Ok(left);
                }
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{DATA_START, Pointer};

    /// Every other kilobyte of a file of this many is free.
    fn sieve(kilobytes: u64) -> Space {
        let mut space = Space::new(DATA_START);
        let extents: Vec<u64> = (0..kilobytes).map(|_| space.alloc(1024).unwrap()).collect();
        let done = |space: &mut Space| {
            space.published(Pointer::NONE).unwrap();
            space.flushed().unwrap();
        };
        done(&mut space);
        for offset in extents.iter().step_by(2) {
            space.release(*offset, 1024).unwrap();
        }
        done(&mut space);
        space
    }

    fn spread(offsets: &[u64]) -> u64 {
        offsets.iter().max().unwrap() - offsets.iter().min().unwrap()
    }

    #[test]
    fn a_commit_is_near_itself_and_behind_the_one_before() {
        let mut space = sieve(10_000);
        let mut last = 0;
        for lens in [[1000; 100], [700; 100], [1024; 100]] {
            let offsets = space.place(lens.into_iter()).unwrap();
            assert!(spread(&offsets) < 300 << 10, "{offsets:?}");
            assert!(*offsets.iter().min().unwrap() > last);
            last = *offsets.iter().max().unwrap();
        }
    }

    #[test]
    fn what_fits_in_one_hole_is_side_by_side() {
        let mut space = sieve(1000);
        let offsets = space.place([300, 0, 300, 424].into_iter()).unwrap();
        assert_eq!(offsets[2], offsets[0] + 300);
        assert_eq!(offsets[3], offsets[0] + 600);
    }

    #[test]
    fn all_holes_are_used_before_the_file_grows() {
        let mut space = sieve(1000);
        let end = space.end();
        // Begin somewhere in the middle.
        space.place([1024; 200].into_iter()).unwrap();
        space.place([1024; 300].into_iter()).unwrap();
        assert_eq!((space.end(), space.free_bytes()), (end, 0));
        space.place([1024; 2].into_iter()).unwrap();
        assert_eq!(space.end(), end + 2048);
    }

    #[test]
    fn many_holes_too_small_are_not_all_looked_at() {
        let mut space = sieve(4000);
        let end = space.end();
        let offsets = space.place([2000; 3].into_iter()).unwrap();
        assert_eq!(space.end(), end + 6000);
        assert_eq!(spread(&offsets), 4000);
    }
}
