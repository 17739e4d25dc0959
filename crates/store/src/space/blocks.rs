//! The blocks of the file system that the next flush writes anyway: that of the commit records, those that the running
//! transaction has written to, and those in which something was erased after the last flush.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::format::offset::FileOffset;

/// The length of a block: that of nearly all file systems.
const BLOCK: u64 = 4096;
/// So many blocks are kept: more are looked at for longer than they are worth.
const KEPT: usize = 32;

/// Some blocks of the file, by number.
#[derive(Clone, Debug)]
pub(crate) struct Blocks(BTreeSet<u64>);

impl Default for Blocks {
    fn default() -> Blocks {
        // That of the records.
        Blocks(BTreeSet::from([0]))
    }
}

/// The numbers of the blocks that so many bytes touch.
pub(crate) fn numbers(offset: FileOffset, len: u64) -> Range<u64> {
    offset.0 / BLOCK..(offset.0 + len).div_ceil(BLOCK)
}

/// How many blocks have room for so many bytes.
#[expect(clippy::cast_possible_truncation, reason = "of few bytes")]
pub(crate) fn blocks_of(len: u64) -> usize {
    len.div_ceil(BLOCK) as usize
}

impl Blocks {
    /// These bytes are written before the next flush.
    pub(crate) fn add(&mut self, offset: FileOffset, len: u64) {
        for number in numbers(offset, len) {
            if self.0.len() >= KEPT {
                return;
            }
            self.0.insert(number);
        }
    }

    /// All that was written is on the medium.
    pub(crate) fn clear(&mut self) {
        *self = Blocks::default();
    }

    /// The other blocks that these bytes touch, as parts of the file.
    pub(crate) fn others(
        &self,
        offset: FileOffset,
        len: u64,
    ) -> impl Iterator<Item = Range<FileOffset>> + '_ {
        numbers(offset, len)
            .filter(move |number| !self.0.contains(number))
            .map(bytes_of)
    }

    /// The blocks that follow each other, as parts of the file, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Range<FileOffset>> + '_ {
        let mut numbers = self.0.iter().copied().peekable();
        std::iter::from_fn(move || {
            let first = numbers.next()?;
            let mut last = first;
            while let Some(next) = numbers.next_if(|next| *next == last + 1) {
                last = next;
            }
            Some(bytes_of(first).start..bytes_of(last).end)
        })
    }
}

fn bytes_of(number: u64) -> Range<FileOffset> {
    FileOffset(number * BLOCK)..FileOffset((number + 1) * BLOCK)
}
