//! Allocation for small commits: few blocks.
//!
//! A device is given whole blocks. A small commit has the length of one or two, and costs five to eight if each of its
//! extents goes where it fits best. So they go into [blocks](Blocks) that the next flush writes anyway. Where none has
//! room for an extent, a block is begun, of a few holes that fit well the one that has most room for what is still to
//! come.

use crate::error::Result;
use crate::format::offset::FileOffset;
use crate::space::blocks::{blocks_of, numbers};
use crate::space::free_space::Space;

/// A transaction that has taken more is none of a small commit.
const SMALL: u64 = 24 << 10;
/// Holes that a block is chosen from.
const CANDIDATES: usize = 8;
/// Holes that are looked at in some blocks: a file made to harm has thousands in each.
const LOOKED_AT: usize = 256;
/// One that has room for the whole commit is not broken up if it is this many times as long.
const LARGE: u64 = 8;

/// Fewer extents are placed one by one: that leaves smaller holes.
const TOGETHER: usize = 3;
/// The part of the file that may be free before commits go behind its end only if nothing else has room.
const SLACK: u64 = 16;
/// The length of the hole behind the end.
const BEHIND: u64 = u64::MAX;

/// How much a transaction has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// By now.
    bytes: u64,
    /// By the small commit before: the next one is likely to take as much.
    before: u64,
}

impl Taken {
    /// More was taken.
    pub(crate) fn add(&mut self, len: u64) {
        self.bytes += len;
    }

    /// A commit is published.
    pub(crate) fn published(&mut self) {
        self.before = if self.bytes <= SMALL { self.bytes } else { 0 };
        self.bytes = 0;
    }
}

/// A place for an extent.
#[derive(Clone, Copy)]
struct Place {
    offset: FileOffset,
    /// Of the blocks that it begins: how many, and their room for more that is still to come.
    begun: usize,
    room: u64,
    /// The length of its hole.
    hole: u64,
}

impl Place {
    /// The less, the better.
    fn cost(&self) -> (usize, u64, u64, FileOffset) {
        (self.begun, u64::MAX - self.room, self.hole, self.offset)
    }
}

impl Space {
    /// Whether extents of so many bytes are still those of a small commit.
    pub(super) fn is_small(&self, len: u64) -> bool {
        self.taken.bytes + len <= SMALL
    }

    /// Takes space for extents of these lengths, all above zero, each with its place in `offsets`.
    #[expect(
        clippy::indexing_slicing,
        reason = "`which` are indexes of `lens`, and `offsets` is as long"
    )]
    pub(super) fn allocate_beside(
        &mut self,
        mut which: Vec<usize>,
        lens: &[u64],
        offsets: &mut [FileOffset],
    ) -> Result<()> {
        let mut left: u64 = which.iter().map(|index| lens[*index]).sum();
        // In their order, if that costs no more blocks than they have bytes.
        if which.len() >= TOGETHER
            && let Some(place) = self.place_beside(left, self.wanted(left))
            && place.begun <= blocks_of(left)
        {
            let mut next = self.take_place(place, left)?;
            for index in which {
                offsets[index] = next;
                next += lens[index];
            }
            return Ok(());
        }
        // The longest has the fewest places.
        which.sort_by_key(|index| std::cmp::Reverse(lens[*index]));
        for index in which {
            offsets[index] = self.alloc_beside(lens[index], left)?;
            left -= lens[index];
        }
        Ok(())
    }

    /// Takes `len` bytes, in a block that the next flush writes anyway where one has room. At least `left` bytes, these
    /// included, are still to be taken for the commit.
    ///
    /// # Errors
    /// As [`Space::alloc`].
    pub(crate) fn alloc_beside(&mut self, len: u64, left: u64) -> Result<FileOffset> {
        if !self.is_small(left) {
            return self.alloc(len);
        }
        match self.place_beside(len, self.wanted(left)) {
            Some(place) => self.take_place(place, len),
            None => self.append(len),
        }
    }

    /// How much is still to be taken for the commit, if it is at least so much.
    fn wanted(&self, left: u64) -> u64 {
        left.max(self.taken.before.saturating_sub(self.taken.bytes))
    }

    fn take_place(&mut self, place: Place, len: u64) -> Result<FileOffset> {
        if place.hole == BEHIND {
            return self.append(len);
        }
        self.take(place.offset, len)?;
        Ok(place.offset)
    }

    /// The place behind the end, while little is free: where no hole has room for a whole commit, one that goes there
    /// leaves such a hole to a later one.
    fn behind(&self, len: u64, wanted: u64) -> Option<Place> {
        let offset = self.end();
        if !self.may_grow || self.free_bytes() > offset.0 / SLACK {
            return None;
        }
        let begun = self.blocks.others(offset, len).count();
        Some(Place {
            offset,
            begun,
            room: if begun > 0 { wanted } else { 0 },
            hole: BEHIND,
        })
    }

    fn place_beside(&self, len: u64, wanted: u64) -> Option<Place> {
        let ends = |(offset, hole)| self.ends(offset, hole, len, wanted);
        // Holes that reach into blocks which are written anyway.
        let parts = self.blocks.parts();
        let reached = parts.flat_map(|part| self.free().reaching_into(part));
        let reached = reached.take(LOOKED_AT).filter(|(_, hole)| *hole >= len);
        let beside = reached.flat_map(ends).min_by_key(Place::cost);
        if beside.is_some_and(|place| place.begun == 0) {
            return beside;
        }
        let fitting = self.free().fitting(len).take(CANDIDATES);
        let large = self.free().fitting(wanted).next();
        let large = large.filter(|(_, hole)| *hole <= LARGE * wanted);
        let begun = fitting.chain(large).flat_map(ends);
        let behind = self.behind(len, wanted);
        begun.chain(beside).chain(behind).min_by_key(Place::cost)
    }

    /// The two ends of a hole as places for so many bytes.
    fn ends(
        &self,
        offset: FileOffset,
        hole: u64,
        len: u64,
        wanted: u64,
    ) -> impl Iterator<Item = Place> {
        let last = offset + (hole - len);
        // In the same blocks, they are alike.
        let alike = numbers(offset, len) == numbers(last, len);
        let last = (!alike).then_some(last);
        std::iter::once(offset).chain(last).map(move |offset| {
            let (mut begun, mut room) = (0, 0);
            for block in self.blocks.others(offset, len) {
                begun += 1;
                let holes = self.free().within(block).take(LOOKED_AT);
                room += holes.map(|(_, len)| len).sum::<u64>();
            }
            Place {
                offset,
                begun,
                room: room.min(wanted),
                hole,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::{DATA_START, Pointer};

    fn done(space: &mut Space) {
        space.published(Pointer::NONE).unwrap();
        space.flushed().unwrap();
    }

    /// Of a file of so many kilobytes, each second is free, from the second block on.
    fn sieve(kilobytes: u64) -> Space {
        let mut space = Space::new(DATA_START);
        for _ in 0..kilobytes {
            space.append(1024).unwrap();
        }
        done(&mut space);
        for number in (2..kilobytes).step_by(2) {
            space.release(DATA_START + number * 1024, 1024).unwrap();
        }
        done(&mut space);
        space
    }

    #[test]
    fn extents_go_where_something_was_erased() {
        let mut space = sieve(1000);
        let erased = DATA_START + 600 * 1024;
        let blocks = |places: [FileOffset; 2]| places.map(|place| numbers(place, 1));
        space.will_be_written(erased, 1024);
        let places = [(700, 1000), (300, 300)];
        let places = places.map(|(len, left)| space.alloc_beside(len, left).unwrap());
        assert_eq!(blocks(places), blocks([erased; 2]));
        // After the flush it is a block as any other.
        for (place, len) in places.into_iter().zip([700, 300]) {
            space.release(place, len).unwrap();
        }
        done(&mut space);
        let place = space.alloc_beside(700, 1000).unwrap();
        assert_ne!(blocks([place; 2]), blocks([erased; 2]));
    }

    /// Each commit writes four extents of a kilobyte, which have no block to themselves.
    #[test]
    fn a_file_grows_while_little_is_free_if_it_may() {
        for may_grow in [false, true] {
            let mut space = sieve(800);
            space.set_may_grow(may_grow);
            let end = space.end();
            while space.free_bytes() >= 4 << 10 {
                for left in [4, 3, 2, 1] {
                    space.alloc_beside(1024, left << 10).unwrap();
                }
                done(&mut space);
                if space.end() > end {
                    break;
                }
            }
            assert_eq!(space.end() > end, may_grow);
            assert!(space.free_bytes() <= space.end().0 / SLACK + 4096);
        }
    }

    /// Of a file made to harm, each second byte is free.
    #[test]
    fn few_of_many_holes_are_looked_at() {
        let mut space = Space::new(DATA_START);
        let bytes = 200_000;
        space.append(bytes).unwrap();
        done(&mut space);
        for at in (0..bytes).step_by(2) {
            space.release(DATA_START + at, 1).unwrap();
        }
        done(&mut space);
        let end = space.end();
        for _ in 0..100 {
            space.will_be_written(DATA_START, bytes);
            let offset = space.alloc_beside(2, 2).unwrap();
            assert!(offset >= end);
            assert!(space.alloc_beside(1, 1).unwrap() < end);
        }
    }
}
