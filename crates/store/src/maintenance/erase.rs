//! Erasing: deleted content does not stay in what has become free of the file.
//!
//! A commit writes pages elsewhere, so their former bytes stay behind in free space. [`Erase`] says when they
//! are overwritten with zeros. Only what a transaction could take for itself at that moment is ever overwritten,
//! so a crash or a reader of an older commit meets nothing that reuse would not show it as well: zeros have
//! another checksum than what was there.
//!
//! Extents with content are units, dictionaries (made from samples of pages) and bundles (copies of both). Map nodes,
//! catalogs and free-space links have none and are left: after a crash they tell quickly what two commits have in
//! common.

use crate::error::Result;
use crate::snapshot::store::Store;
use crate::space::free_space::Space;
use crate::space::ranges::RangeSet;
use litepack_io::storage::Storage;

/// Zeros are written so many at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// When content that a commit no longer has is overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Erase {
    /// When [`Store::tidy`] is called.
    #[default]
    Never,
    /// As soon as a flush has made the commit durable. The zeros themselves are on the medium after the next flush.
    WithFlush,
    /// Before the commit that frees it returns: such a commit is flushed, and so are the zeros. No
    /// dictionary is made any more, because it would keep samples of what is deleted later.
    WithCommit,
}

/// What a handle has to erase.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    when: Erase,
    /// Extents that were freed, as (offset, length). Some may be in use again.
    extents: Vec<(u64, u64)>,
}

impl Owed {
    /// An extent with content is free, or will be.
    pub(crate) fn add(&mut self, offset: u64, len: u64) {
        if self.when != Erase::Never {
            self.extents.push((offset, len));
        }
    }

    /// Whether the commit that was just published is not finished before it is flushed.
    pub(crate) fn wants_flush(&self) -> bool {
        self.when == Erase::WithCommit && !self.extents.is_empty()
    }
}

impl<D: Storage> Store<D> {
    /// When deleted content is overwritten, from now on.
    pub fn set_erase(&mut self, when: Erase) {
        self.writer.owed.when = when;
    }

    /// When deleted content is overwritten.
    pub fn erase(&self) -> Erase {
        self.writer.owed.when
    }

    /// Overwrites what is owed. The newest commit is durable. What fails is tried again after the next flush, because
    /// the commit is safe already and must not be said to have failed.
    pub(crate) fn erase_owed(&mut self) {
        if self.writer.owed.extents.is_empty() || self.writer.in_transaction() {
            return;
        }
        let owed = std::mem::take(&mut self.writer.owed.extents);
        if self.try_erase(&owed).is_err() {
            self.writer.owed.extents = owed;
        }
    }

    fn try_erase(&mut self, owed: &[(u64, u64)]) -> Result<()> {
        let Some(commit) = self.commit else {
            return Ok(());
        };
        // It was dropped with a transaction.
        if self.writer.space.is_none() {
            self.writer.space = Some(self.load_space(&commit.record)?);
        }
        match &self.writer.space {
            Some(space) => {
                let free = free_among(space, owed.iter().copied());
                self.overwrite(&free)
            }
            None => Ok(()),
        }
    }

    /// Overwrites all that is free. As [`Store::erase_owed`] otherwise.
    pub(crate) fn erase_all(&mut self) -> Result<()> {
        match &self.writer.space {
            Some(space) => {
                let free = space.all_free()?;
                self.overwrite(&free)
            }
            None => Ok(()),
        }
    }

    /// Overwrites what a transaction has written that is about to be dropped. The caller still has the right to write.
    pub(crate) fn erase_dropped(&mut self) {
        let Some(space) = &self.writer.space else {
            return;
        };
        // A record that could not be taken back on disk yet may refer to what was written.
        if self.writer.owed.when == Erase::Never || self.writer.take_back.is_some() {
            return;
        }
        let mut dropped = free_among(space, self.writer.owed.extents.iter().copied());
        let disjoint = dropped.absorb(&mut space.fresh());
        debug_assert!(disjoint, "what was taken is not free");
        // It is not to be had any more after this, and a failure costs no commit anything.
        let _ = self.overwrite(&dropped);
    }

    fn overwrite(&mut self, ranges: &RangeSet) -> Result<()> {
        if ranges.total() == 0 {
            return Ok(());
        }
        let disk = &self.medium.disk;
        let end = disk.len()?;
        for (offset, len) in ranges.iter() {
            let stop = (offset + len).min(end);
            let mut at = offset;
            while at < stop {
                let n = (stop - at).min(ZEROS.len() as u64);
                disk.write_at(&ZEROS[..n as usize], at)?;
                at += n;
            }
        }
        if self.writer.owed.when == Erase::WithCommit {
            disk.sync()?;
        }
        Ok(())
    }
}

/// The parts of these extents that a transaction could take now, those behind the end included.
fn free_among(space: &Space, extents: impl Iterator<Item = (u64, u64)>) -> RangeSet {
    let mut sorted: Vec<_> = extents.collect();
    sorted.sort_unstable();
    let mut found = RangeSet::default();
    let mut done = 0;
    for (offset, len) in sorted {
        let (start, stop) = (offset.max(done), offset + len);
        done = done.max(stop);
        for (offset, len) in space.free_within(start..stop) {
            let disjoint = found.insert(offset, len);
            debug_assert!(disjoint, "each byte is looked at once");
        }
    }
    found
}
