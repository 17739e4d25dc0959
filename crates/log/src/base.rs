//! The page that a first version stands on: as the commit has it that the generation began after.
//!
//! It is read through the record in the slot, and no other. A later commit of the file may have other pages, also one
//! that the log follows. Each first version has a sum of it, so no other page is taken for it.

use std::io;

use litepack_io::memory::zeros;

use crate::binding::BoundTo;
use crate::error::{Error, Result};
use crate::format::head::Generation;
use crate::format::record::{FRAME_HEADER_LEN, page_of, sum_of};

/// Whether it pays to read a page that is not in memory, to stand on it. The page was read for nothing if it is new: from
/// SQLite's free list, which has pages that it does not read, or of a transaction that writes most of each page.
#[derive(Debug)]
pub(crate) struct BaseReads {
    /// Goes up with reads that served, faster than it goes down with the others.
    score: u8,
    /// Pages that were not read since one was.
    left_out: u8,
}

impl BaseReads {
    const SCORE_MAX: u8 = 16;
    const SERVED: u8 = 2;
    /// Without a score one of so many pages is read.
    const EVERY: u8 = 16;

    fn may_read(&mut self) -> bool {
        self.left_out += 1;
        let may_read = self.score > 0 || self.left_out >= Self::EVERY;
        if may_read {
            self.left_out = 0;
        }
        may_read
    }

    /// There was nothing to read: the next page has the turn.
    fn was_none(&mut self) {
        self.left_out = Self::EVERY - 1;
    }

    fn note(&mut self, has_served: bool) {
        self.score = match has_served {
            true => (self.score + Self::SERVED).min(Self::SCORE_MAX),
            false => self.score.saturating_sub(1),
        };
    }
}

impl Default for BaseReads {
    fn default() -> Self {
        BaseReads {
            score: Self::SCORE_MAX,
            left_out: 0,
        }
    }
}

/// Does `work` with that page of the database, if its commit has it and it is at hand, or worth reading. For one who
/// writes: a version can do without it. `work` gives `None` if the page does not serve.
pub(crate) fn with_page<T>(
    file: Option<&(dyn BoundTo + Send)>,
    generation: &Generation,
    page: u32,
    reads: &mut BaseReads,
    work: impl FnOnce(&[u8]) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let (Some(file), Some(base)) = (file, &generation.base) else {
        return Ok(None);
    };
    let mut bytes = zeros(generation.page_size)?;
    if file.base_page_at_hand(base, page, &mut bytes) {
        return work(&bytes);
    }
    if !reads.may_read() {
        return Ok(None);
    }
    let done = match file.base_page(base, page, &mut bytes) {
        Ok(true) => work(&bytes)?,
        // A new page, for which nothing was read.
        Ok(false) => {
            reads.was_none();
            return Ok(None);
        }
        // Also if it was interrupted, or there is no memory.
        Err(_) => None,
    };
    reads.note(done.is_some());
    Ok(done)
}

/// Fills `page` with it, for a first version at `place` that names this sum and is in a frame with this header.
pub(crate) fn read(
    file: Option<&(dyn BoundTo + Send)>,
    generation: &Generation,
    header: Option<[u8; FRAME_HEADER_LEN]>,
    sum: u32,
    place: u64,
    page: &mut [u8],
) -> Result<()> {
    let file = file.ok_or(Error::NoFile)?;
    let (base, header) = (generation.base.as_ref().zip(header))
        .ok_or_else(|| Error::damaged(place, "a first version stands on nothing"))?;
    let number = page_of(&header);
    let is_gone = || Error::NoBase {
        place,
        page: number,
    };
    match file.base_page(base, number, page) {
        Ok(true) if sum_of(page) == sum => Ok(()),
        Ok(_) => Err(is_gone()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(is_gone()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(rounds: usize, served: usize, vain: usize) -> usize {
        let mut reads = BaseReads::default();
        let round = || (0..served + vain).map(|at| at < served);
        let all = (0..rounds).flat_map(|_| round());
        let read = all.filter(|has_served| {
            let may_read = reads.may_read();
            if may_read {
                reads.note(*has_served);
            }
            may_read
        });
        read.count()
    }

    #[test]
    fn pages_are_read_as_long_as_that_serves() {
        assert_eq!(read_of(100, 2, 3), 500);
        assert!(read_of(100, 1, 10) < 300);
        assert!(read_of(100, 0, 10) < 100);
    }

    #[test]
    fn new_pages_take_no_turn_of_those_that_are_there() {
        let mut reads = BaseReads::default();
        while reads.score > 0 {
            assert!(reads.may_read());
            reads.note(false);
        }
        let turn = (0..100).find(|_| reads.may_read());
        assert_eq!(turn, Some(usize::from(BaseReads::EVERY) - 1));
        reads.was_none();
        assert!(reads.may_read());
    }
}
