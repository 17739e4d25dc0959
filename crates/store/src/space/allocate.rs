//! Allocation for the extents of a commit: near each other, because a flush pays for every stretch of the file that
//! was written, and less for their bytes.
//!
//! Extents lie side by side where some hole has room for all of them. Otherwise they fill the holes of one part of the
//! file, each the hole that fits best in there, and the next commit goes on behind it. An extent that fits nowhere near
//! goes wherever it fits best, as a single extent does, and at last behind the end.
//!
//! Map nodes are larger than most units, and a commit of changes all over a database writes most leaves of the
//! map. Scattered over holes between units they would cost more than all the rest. So they have a part of the file to
//! themselves: many nodes that find no part with holes close together go behind the end, and the holes they leave there
//! when they are written again are too large for units to be worth breaking up.

use std::collections::VecDeque;

use crate::error::Result;
use crate::format::offset::FileOffset;
use crate::space::free_space::Space;
use crate::space::ranges::Holes;

/// Whether an extent holds a unit or a map node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtentKind {
    Units,
    Nodes,
}

/// A part of the file is filled whose holes have room for what is to be placed and, as a part of that, for what
/// they lose to fitting badly.
const LOSS: u64 = 4;
/// Such a part is at most this many times as long as its holes.
const SPREAD: u64 = 16;
/// Holes that are looked at for each extent, at most: beyond that, looking takes longer than it saves.
const HOLES_MAX: usize = 16;
/// A hole this many times as long as the longest unit is left for nodes, and one this many times as long as a whole
/// group is used last.
const LARGE: u64 = 4;
/// As many nodes as are worth a part of the file of their own, unless that much of the file is free already.
const MANY: usize = 64;
const FREE_SHARE: u64 = 4;

impl Space {
    /// Takes space for extents of these lengths. An extent without bytes is at the start.
    ///
    /// # Errors
    /// As [`Space::alloc`].
    #[expect(
        clippy::indexing_slicing,
        reason = "`all` and `left` are indexes of `lens`, and `offsets` is as long"
    )]
    pub(crate) fn allocate(
        &mut self,
        kind: ExtentKind,
        lens: impl Iterator<Item = usize> + Clone,
    ) -> Result<Vec<FileOffset>> {
        let lens = lens.map(|len| len as u64);
        let total: u64 = lens.clone().sum();
        if total == 0 {
            return Ok(lens.map(|_| FileOffset::START).collect());
        }
        let lens: Vec<u64> = lens.collect();
        let mut offsets = vec![FileOffset::START; lens.len()];
        let all: Vec<usize> = (0..lens.len()).filter(|index| lens[*index] > 0).collect();
        if self.is_small(total) {
            self.allocate_beside(all, &lens, &mut offsets)?;
            return Ok(offsets);
        }
        // Of a hole much larger than this, what else would be left to be placed side by side?
        if self.smallest(total).is_some_and(|len| len < LARGE * total) {
            self.allocate_together(&all, &lens, &mut offsets)?;
            return Ok(offsets);
        }
        let left = self.allocate_near(kind, all, &lens, &mut offsets)?;
        if left.is_empty() {
            return Ok(offsets);
        }
        let total: u64 = left.iter().map(|index| lens[*index]).sum();
        let apart = kind == ExtentKind::Nodes
            && left.len() >= MANY
            && self.free_bytes() < self.end().0 / FREE_SHARE;
        if apart || self.smallest(total).is_some() {
            self.allocate_together(&left, &lens, &mut offsets)?;
        } else {
            for index in left {
                offsets[index] = self.alloc(lens[index])?;
            }
        }
        Ok(offsets)
    }

    /// Places extents side by side, in a hole or behind the end.
    #[expect(
        clippy::indexing_slicing,
        reason = "`which` are indexes of `lens`, and `offsets` is as long"
    )]
    fn allocate_together(
        &mut self,
        which: &[usize],
        lens: &[u64],
        offsets: &mut [FileOffset],
    ) -> Result<()> {
        let mut next = self.alloc(which.iter().map(|index| lens[*index]).sum())?;
        for index in which {
            offsets[*index] = next;
            next += lens[*index];
        }
        Ok(())
    }

    /// Places what it can in parts of the file. Returns the indexes of the others.
    #[expect(
        clippy::indexing_slicing,
        reason = "`left` are indexes of `lens`, and `offsets` is as long"
    )]
    fn allocate_near(
        &mut self,
        kind: ExtentKind,
        mut left: Vec<usize>,
        lens: &[u64],
        offsets: &mut [FileOffset],
    ) -> Result<Vec<usize>> {
        let mut looked_at = HOLES_MAX * left.len();
        // From where the last commit ended to the end, and once again from the beginning.
        for from in [self.near(kind), FileOffset::START] {
            let mut from = from;
            while !left.is_empty() && looked_at > 0 {
                let wanted: Vec<u64> = left.iter().map(|index| lens[*index]).collect();
                let Some(mut part) = self.part(kind, from, &wanted, &mut looked_at) else {
                    break;
                };
                from = part.end;
                let mut unplaced = Vec::new();
                for index in left {
                    let len = lens[index];
                    let fits = part.holes.best_fit(len);
                    match fits.filter(|(at, _)| part.holes.remove(*at, len)) {
                        Some((offset, _)) => {
                            self.take(offset, len)?;
                            offsets[index] = offset;
                        }
                        None => unplaced.push(index),
                    }
                }
                left = unplaced;
                self.go_near(kind, from);
            }
        }
        Ok(left)
    }

    /// The first part of the file from here on that has room for extents of these lengths close together, or
    /// the last one before nothing more is to be looked at.
    fn part(
        &self,
        kind: ExtentKind,
        from: FileOffset,
        lens: &[u64],
        looked_at: &mut usize,
    ) -> Option<Part> {
        let total: u64 = lens.iter().sum();
        let least = lens.iter().copied().min().unwrap_or(0);
        let large = LARGE * lens.iter().copied().max().unwrap_or(0);
        let fits = |len: u64| len >= least && (kind == ExtentKind::Nodes || len <= large);
        let room = total + total / LOSS;
        let (mut found, mut free, mut end) = (VecDeque::new(), 0, from);
        for (offset, len) in self.holes(from) {
            *looked_at = looked_at.saturating_sub(1);
            if fits(len) {
                found.push_back((offset, len));
                (free, end) = (free + len, offset + len);
                while let Some((first, len)) = found.front().copied()
                    && end - first > SPREAD * room
                {
                    found.pop_front();
                    free -= len;
                }
            }
            if *looked_at == 0 || free >= room {
                break;
            }
        }
        let mut holes = Holes::default();
        for (offset, len) in found {
            let disjoint = holes.insert(offset, len);
            debug_assert!(disjoint, "free ranges are disjoint");
        }
        (holes.total() > 0).then_some(Part { holes, end })
    }
}

/// Some neighbouring holes.
struct Part {
    holes: Holes,
    end: FileOffset,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::{DATA_START, Pointer};

    /// Every other kilobyte of a file of this many is free.
    fn sieve(kilobytes: u64) -> Space {
        let mut space = Space::new(DATA_START);
        let extents: Vec<FileOffset> = (0..kilobytes).map(|_| space.alloc(1024).unwrap()).collect();
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

    fn spread(offsets: &[FileOffset]) -> u64 {
        *offsets.iter().max().unwrap() - *offsets.iter().min().unwrap()
    }

    #[test]
    fn a_commit_is_near_itself_and_behind_the_one_before() {
        let mut space = sieve(10_000);
        let mut last = FileOffset::START;
        for lens in [[1000; 100], [700; 100], [1024; 100]] {
            let offsets = space.allocate(ExtentKind::Units, lens.into_iter()).unwrap();
            assert!(spread(&offsets) < 300 << 10, "{offsets:?}");
            assert!(*offsets.iter().min().unwrap() > last);
            last = *offsets.iter().max().unwrap();
        }
    }

    #[test]
    fn what_fits_in_one_hole_is_side_by_side() {
        let mut space = sieve(1000);
        let offsets = space
            .allocate(ExtentKind::Units, [300, 0, 300, 424].into_iter())
            .unwrap();
        assert_eq!(offsets[2], offsets[0] + 300);
        assert_eq!(offsets[3], offsets[0] + 600);
    }

    #[test]
    fn all_holes_are_used_before_the_file_grows() {
        let mut space = sieve(1000);
        let end = space.end();
        // Begin somewhere in the middle.
        space
            .allocate(ExtentKind::Units, [1024; 200].into_iter())
            .unwrap();
        space
            .allocate(ExtentKind::Units, [1024; 300].into_iter())
            .unwrap();
        assert_eq!((space.end(), space.free_bytes()), (end, 0));
        space
            .allocate(ExtentKind::Units, [1024; 2].into_iter())
            .unwrap();
        assert_eq!(space.end(), end + 2048);
    }

    /// Leaves of the map in one file, written again and again among units that are, too.
    #[test]
    fn nodes_stay_together_beside_units() {
        let mut space = sieve(1000);
        let (mut nodes, mut units): (Vec<FileOffset>, Vec<FileOffset>) = (Vec::new(), Vec::new());
        for round in 0..40 {
            for at in std::mem::take(&mut nodes) {
                space.release(at, 1500).unwrap();
            }
            // Units are kept for a while.
            if units.len() > 500 {
                for at in units.drain(..250) {
                    space.release(at, 300).unwrap();
                }
            }
            let placed = space.allocate(ExtentKind::Units, [300; 100].into_iter());
            units.extend(placed.unwrap());
            nodes = space
                .allocate(ExtentKind::Nodes, [1500; 100].into_iter())
                .unwrap();
            assert!(
                spread(&nodes) < 2 * 150_000 || round == 0,
                "{}",
                spread(&nodes)
            );
            space.published(Pointer::NONE).unwrap();
            space.flushed().unwrap();
        }
        let end = space.end();
        assert!(end.0 < 1000 * 1024 + 5 * 150_000, "{end}");
    }

    #[test]
    fn many_holes_too_small_are_not_all_looked_at() {
        let mut space = sieve(4000);
        let end = space.end();
        let offsets = space
            .allocate(ExtentKind::Units, [2000; 3].into_iter())
            .unwrap();
        assert_eq!(space.end(), end + 6000);
        assert_eq!(spread(&offsets), 4000);
    }
}
