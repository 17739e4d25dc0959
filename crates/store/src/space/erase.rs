//! Erasing: deleted content does not stay in free space.
//!
//! A commit writes pages elsewhere, so their former bytes stay behind in free space. [`Erase`] says when they are
//! overwritten with zeros. Only space that a transaction could take at that moment is overwritten, so a crash or a
//! reader of an older commit meets nothing that reuse would not cause as well: zeros have another checksum than what
//! was there.
//!
//! Extents with content are units, dictionaries (made from samples of pages) and prefetch segments (copies of both).
//! Map nodes, catalogs and free-space links have none and are left: after a crash they show quickly what two commits
//! have in common.

use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::offset::FileOffset;
use crate::space::free_space::Space;
use crate::space::ranges::RangeSet;

/// Zeros written in one call.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// When content that a commit no longer has is overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Erase {
    /// When [`Store::tidy`](crate::Store::tidy) is called.
    #[default]
    Never,
    /// As soon as a flush has made the commit durable. The zeros themselves are on the medium after the next flush.
    WithFlush,
    /// Before the commit that frees it returns: such a commit is flushed, and so are the zeros. No
    /// dictionary is made any more, because it would keep samples of what is deleted later.
    WithCommit,
}

/// The extents that a handle has to erase, and when.
#[derive(Debug, Default)]
pub(crate) struct Eraser {
    pub(crate) when: Erase,
    /// Extents that were freed, as (offset, length). Some may be in use again.
    owed: Vec<(FileOffset, u64)>,
}

impl Eraser {
    /// An extent with content is free, or will be.
    pub(crate) fn add(&mut self, offset: FileOffset, len: u64) -> Result<()> {
        if self.when == Erase::Never {
            return Ok(());
        }
        match self.owed.last_mut() {
            Some((before, its)) if *before + *its == offset => *its += len,
            _ => litepack_io::memory::push(&mut self.owed, (offset, len))?,
        }
        Ok(())
    }

    /// Whether the commit that was just published is not finished before it is flushed.
    pub(crate) fn wants_flush(&self) -> bool {
        self.when == Erase::WithCommit && self.is_owed()
    }

    /// Whether anything waits to be erased.
    pub(crate) fn is_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Overwrites the extents that are owed and free. The newest commit is durable. What is held for others stays owed
    /// until they no longer need it.
    ///
    /// # Errors
    /// When the medium fails. All is owed still, and tried again after the next flush: the commit is safe already and
    /// must not be reported as failed.
    pub(crate) fn erase_owed(&mut self, space: &mut Space, disk: &impl Storage) -> Result<()> {
        let (free, held) = (
            free_among(space, &self.owed)?,
            held_among(space, &self.owed)?,
        );
        let overwritten = self.overwrite(&free, disk);
        if overwritten.is_ok() {
            self.owed = held;
        }
        if self.when == Erase::WithFlush {
            for (offset, len) in free.iter() {
                space.will_be_written(offset, len);
            }
        }
        overwritten
    }

    /// Overwrites all that is free after a flush. What is held for others is owed from now on.
    pub(crate) fn erase_all(&mut self, space: &Space, disk: &impl Storage) -> Result<()> {
        let kept = space.kept_within(FileOffset::START..FileOffset::MAX);
        let kept = litepack_io::memory::collect(kept)?;
        self.overwrite(&space.not_held(), disk)?;
        self.owed = kept;
        Ok(())
    }

    /// Overwrites what a transaction has written that is about to be dropped. The caller still has the right to write.
    pub(crate) fn erase_dropped(&self, space: &Space, disk: &impl Storage) {
        if self.when == Erase::Never {
            return;
        }
        let Ok(mut dropped) = free_among(space, &self.owed) else {
            return;
        };
        let disjoint = dropped.absorb(&mut space.fresh());
        debug_assert!(disjoint, "what was taken is not free");
        // It is not tried again, and a failure costs no commit anything.
        let _ = self.overwrite(&dropped, disk);
    }

    fn overwrite(&self, ranges: &RangeSet, disk: &impl Storage) -> Result<()> {
        if ranges.total() == 0 {
            return Ok(());
        }
        let end = FileOffset(disk.len()?);
        for (offset, len) in ranges.iter() {
            let stop = (offset + len).min(end);
            let mut at = offset;
            while at < stop {
                let left = usize::try_from(stop - at).ok();
                let zeros = left.and_then(|left| ZEROS.get(..left)).unwrap_or(&ZEROS);
                disk.write_at(zeros, at.0)?;
                at += zeros.len() as u64;
            }
        }
        if self.when == Erase::WithCommit {
            disk.sync()?;
        }
        Ok(())
    }
}

/// The parts of these extents that are free and held for others.
fn held_among(space: &Space, extents: &[(FileOffset, u64)]) -> Result<Vec<(FileOffset, u64)>> {
    let mut held = Vec::new();
    for (offset, len) in extents {
        for part in space.kept_within(*offset..*offset + *len) {
            litepack_io::memory::push(&mut held, part)?;
        }
    }
    Ok(held)
}

/// The parts of these extents that a transaction could take now, those behind the end included.
fn free_among(space: &Space, extents: &[(FileOffset, u64)]) -> Result<RangeSet> {
    let mut sorted = litepack_io::memory::collect(extents.iter().copied())?;
    sorted.sort_unstable();
    let mut found = RangeSet::default();
    let mut done = FileOffset::START;
    for (offset, len) in sorted {
        let (start, stop) = (offset.max(done), offset + len);
        done = done.max(stop);
        for (offset, len) in space.free_within(start..stop) {
            let disjoint = found.insert(offset, len);
            debug_assert!(disjoint, "each byte is looked at once");
        }
    }
    Ok(found)
}
