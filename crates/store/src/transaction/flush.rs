//! Making a commit durable, and saying so on the medium.
//!
//! After a flush the commit's number is written to the mark of its slot. From then on damage to the commit is
//! distinguished from a torn write.

use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::layout::{MARK_OFFSETS, SLOT_OFFSETS};
use crate::format::record::encode_mark;
use crate::snapshot::recover::{Commit, Head};
use crate::transaction::changes::load_space;
use crate::transaction::store::Store;

/// The mark of a commit that wrote more than this is flushed with it, so that opening after a power loss seldom has
/// more than this to verify (or four times that, with commits that were not flushed).
const VERIFIED_AT_OPEN_MAX: u64 = 1 << 20;
/// Bytes behind the end that may stay, so that a file that grows and shrinks is not cut each time.
const TRIM_SLACK: u64 = 64 << 10;

impl<D: Storage> Store<D> {
    /// Makes the newest commit durable, after committing what may still be pending. From then on damage to it is told
    /// from a torn write, unless a power loss comes before anything later reaches the disk.
    ///
    /// # Errors
    /// The commit is undone: the one before is current again, on disk too. It stays if another handle has made it
    /// durable.
    pub fn flush(&mut self) -> Result<()> {
        self.commit()?;
        let Some(commit) = self.snapshot.commit().filter(|commit| !commit.durable) else {
            return self.flush_undo();
        };
        let is_large = self.writer.newest.unflushed_bytes() > VERIFIED_AT_OPEN_MAX;
        if let Err(error) = self.try_flush() {
            self.undo(commit);
            return Err(error);
        }
        self.mark();
        if is_large {
            // The commit is durable already. Without the mark it takes longer to open the file, no more.
            let _ = self.flush_mark();
        }
        self.trim();
        self.erase_owed();
        Ok(())
    }

    /// As [`Store::flush`]; and when it returns, no power loss can bring an older commit back in silence, whatever
    /// becomes of the newest one. It is for callers that are about to delete what the commit could be made again from,
    /// as SQLite does with its WAL.
    ///
    /// # Errors
    /// Those of [`Store::flush`]; and if only the mark could not be flushed, the commit stays.
    pub fn flush_for_good(&mut self) -> Result<()> {
        self.flush()?;
        self.flush_mark()
    }

    /// Finds out whether another handle has made the newest commit durable. That handle may have begun to write, and
    /// gone away: then nothing but the mark tells of it, and what only the commit before needs is overwritten.
    pub(super) fn learn_durable(&mut self) -> Result<()> {
        if let Some(Commit { record, .. }) = self.snapshot.commit().filter(|commit| !commit.durable)
            && Head::read(self.disk())?.marks(record.seq, self.snapshot.guard())
        {
            self.snapshot.set_durable();
            self.writer.newest.forget();
        }
        Ok(())
    }

    /// Sees to it that the handle which has made this commit, which is durable, learns that it is.
    ///
    /// # Errors
    /// When the mark cannot be written. Then nothing may be written that the commit before needs.
    pub(super) fn tell_durable(&mut self, commit: &Commit) -> Result<()> {
        let seq = commit.record.seq;
        if Head::read(self.disk())?.marks(seq, self.snapshot.guard()) {
            return Ok(());
        }
        self.writer.newest.has_no_mark();
        self.mark();
        if self.writer.newest.mark(seq).is_none() {
            return Err(no_mark());
        }
        Ok(())
    }

    fn try_flush(&mut self) -> Result<()> {
        // A flush that failed may have given up what it could not write.
        self.put_back()?;
        self.snapshot.disk().sync()?;
        self.snapshot.set_durable();
        self.writer.undo = None;
        self.writer.newest.is_flushed()
    }

    /// Notes on the medium, without a flush, that the newest commit is durable, if it is. The slot's mark is written
    /// when the other slot's is durable, so a power loss can tear one of the two at most. The caller keeps others from
    /// committing. Failing costs only the knowledge.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn mark(&mut self) {
        let Some(Commit { record, slot, .. }) = self.snapshot.durable_commit() else {
            return;
        };
        if self.writer.newest.mark(record.seq).is_none() {
            let mark = encode_mark(record.seq, self.snapshot.guard());
            match self.disk().write_at(&mark, MARK_OFFSETS[slot].0) {
                Ok(()) => self.writer.newest.has_mark(record.seq, false),
                Err(_) => self.writer.newest.has_no_mark(),
            }
        }
    }

    /// Makes the mark of the newest commit durable.
    fn flush_mark(&mut self) -> Result<()> {
        let Some(Commit { record, .. }) = self.snapshot.durable_commit() else {
            return Ok(());
        };
        self.mark();
        match self.writer.newest.mark(record.seq) {
            Some(true) => Ok(()),
            Some(false) => {
                // If this fails, the system may have given up what it could not write.
                self.writer.newest.has_no_mark();
                self.disk().sync()?;
                self.writer.newest.has_mark(record.seq, true);
                Ok(())
            }
            None => Err(no_mark()),
        }
    }

    /// Writes the newest commit's record to both slots, durably: then damage to one of them costs nothing. The caller
    /// keeps other handles from committing.
    ///
    /// # Errors
    /// When the medium fails; the newest commit stays.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub fn flush_both_slots(&mut self) -> Result<()> {
        self.flush_for_good()?;
        let Some(Commit { record, slot, .. }) = self.snapshot.commit() else {
            return Ok(());
        };
        let bytes = record.encode(self.snapshot.guard());
        if *self.snapshot.slots() != [bytes; 2] {
            self.disk().write_at(&bytes, SLOT_OFFSETS[1 - slot].0)?;
            self.disk().sync()?;
            self.snapshot.slot_written(1 - slot, bytes);
        }
        Ok(())
    }

    /// Cuts off what lies behind the end of the newest commit, which is durable, if it is much.
    fn trim(&mut self) {
        if let Some(Commit { record, .. }) = self.snapshot.commit() {
            let slack = record.end.0 / 16 + TRIM_SLACK;
            let len = self.disk().len();
            if len.is_ok_and(|len| len > record.end.0 + slack) {
                self.give_back();
            }
        }
    }

    /// Gives the file system what lies behind the end of a durable commit. The caller keeps others from committing. A
    /// failure is none of the commit, which is safe already: a later flush tries again.
    pub fn give_back(&mut self) {
        let _ = self.cut();
    }

    /// # Errors
    /// When the medium fails.
    fn cut(&mut self) -> Result<()> {
        if let Some(commit) = self.snapshot.durable_commit()
            && self.disk().len()? > commit.record.end.0
        {
            self.disk().truncate(commit.record.end.0)?;
        }
        Ok(())
    }

    /// Overwrites freed content that is owed. The newest commit is durable.
    fn erase_owed(&mut self) {
        let Some(commit) = self.snapshot.commit() else {
            return;
        };
        if !self.writer.eraser.is_owed() || self.in_transaction() {
            return;
        }
        let (eraser, newest) = (&mut self.writer.eraser, &mut self.writer.newest);
        let mut loaded;
        let space = match newest.space_mut() {
            Some(space) => space,
            // It was dropped with a transaction. A transaction that begins learns more of the commit than this.
            None => match load_space(&self.snapshot, &commit.record) {
                Ok(space) => {
                    loaded = space;
                    &mut loaded
                }
                Err(_) => return,
            },
        };
        eraser.erase_owed(space, self.snapshot.disk());
    }

    /// Overwrites all that is free.
    pub(crate) fn erase_all(&mut self) -> Result<()> {
        match self.writer.newest.space() {
            Some(space) => self.writer.eraser.erase_all(space, self.snapshot.disk()),
            None => Ok(()),
        }
    }
}

fn no_mark() -> Error {
    std::io::Error::other("the mark of a durable commit could not be written").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;
    use litepack_io::testing::CrashingStorage;

    /// The mark of a large commit is flushed at once, and that may fail without harm. A later promise must hold.
    #[test]
    fn a_mark_that_the_system_gave_up_is_written_again() {
        let disk = CrashingStorage::default();
        disk.fail_badly();
        let mut store = Store::open(disk.clone(), options()).unwrap();
        let mut rng = litepack_io::random::SplitMix64::new(1);
        for page in 0..VERIFIED_AT_OPEN_MAX / 4096 + 9 {
            let bytes: Vec<u8> = (0..512)
                .flat_map(|_| rng.next_u64().to_le_bytes())
                .collect();
            store.write(page * 4096, &bytes).unwrap();
        }
        store.commit().unwrap();
        // The commit's flush, its mark, and the flush of that.
        disk.fail(disk.calls() + 2, disk.calls() + 3);
        let before = disk.calls();
        store.flush_for_good().unwrap();
        assert!(disk.calls() > before + 3, "the mark was not flushed twice");
        let seq = store.snapshot.commit().unwrap().record.seq;
        let medium = CrashingStorage::with_image(disk.after_power_loss(0));
        assert!(
            Head::read(&medium)
                .unwrap()
                .marks(seq, store.snapshot.guard())
        );
    }
}
