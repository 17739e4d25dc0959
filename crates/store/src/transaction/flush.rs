//! Making a commit durable, and saying so on the medium.
//!
//! After a flush the commit's number is written to the mark of its slot. From then on damage to the commit is
//! distinguished from a torn write.

use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::layout::{MARK_OFFSETS, SLOT_OFFSETS};
use crate::format::record::{Record, encode_mark};
use crate::snapshot::recover::{Commit, Head, SlotBytes};
use crate::space::erase::Eraser;
use crate::space::free_space::Space;
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
            self.mark_again();
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
        match self.mark() {
            true => Ok(()),
            false => Err(no_mark()),
        }
    }

    /// Writes the other slot's mark again if a power loss has torn it. The record there is of a durable commit, or this
    /// one would not have been written. With a torn mark the next commit could not be cut off: it would be damage.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn mend_other_mark(&self, commit: &Commit) -> Result<()> {
        let (head, guard) = (Head::read(self.disk())?, self.snapshot.guard());
        let other = 1 - commit.slot;
        let former = Record::decode(&head.slots[other], guard);
        if let (false, Some(former)) = (head.has_mark(other, guard), former) {
            let mark = encode_mark(former.seq, guard);
            self.disk().write_at(&mark, MARK_OFFSETS[other].0)?;
        }
        Ok(())
    }

    /// What a power loss has cut off of a later commit is not to come back. It would be whole again as soon as what it
    /// lacks is written to the same places, as when the same is tried once more, be that committed or not. The newest
    /// commit is durable.
    pub(super) fn forget_cut_off(&mut self) -> Result<()> {
        if let Some(Commit { record, slot, .. }) = self.snapshot.commit()
            && self.snapshot.fell_back()
        {
            let bytes = record.encode(self.snapshot.guard());
            self.write_other_slot(slot, bytes)?;
        }
        Ok(())
    }

    fn try_flush(&mut self) -> Result<()> {
        // A flush that failed may have given up what it could not write.
        self.put_back()?;
        if let Some(commit) = self.snapshot.commit() {
            self.mend_other_mark(&commit)?;
        }
        self.snapshot.disk().sync()?;
        self.snapshot.set_durable();
        self.writer.undo = None;
        self.writer.newest.is_flushed()
    }

    /// Notes on the medium, without a flush, that the newest commit is durable. False if it is not, or if the mark could
    /// not be written. Another handle takes the commit before for the last durable one then, and may fall back to it. The
    /// slot's mark is written when the other slot's is durable, so a power loss can tear one of the two at most. The caller
    /// keeps others from committing.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn mark(&mut self) -> bool {
        let Some(Commit { record, slot, .. }) = self.snapshot.durable_commit() else {
            return false;
        };
        if self.writer.newest.mark(record.seq).is_none() {
            let mark = encode_mark(record.seq, self.snapshot.guard());
            match self.disk().write_at(&mark, MARK_OFFSETS[slot].0) {
                Ok(()) => self.writer.newest.has_mark(record.seq, false),
                Err(_) => self.writer.newest.has_no_mark(),
            }
        }
        self.writer.newest.mark(record.seq).is_some()
    }

    /// After a sync that failed: the system may have given up the mark of the newest durable commit as well, or half of it.
    pub(super) fn mark_again(&mut self) {
        self.writer.newest.has_no_mark();
        self.mark();
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
                // If this fails, the system may have given up what it could not write, or half of it.
                self.writer.newest.has_no_mark();
                if let Err(error) = self.disk().sync() {
                    self.mark_again();
                    return Err(error.into());
                }
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
    pub fn flush_both_slots(&mut self) -> Result<()> {
        self.flush_for_good()?;
        let Some(Commit { record, slot, .. }) = self.snapshot.commit() else {
            return Ok(());
        };
        let bytes = record.encode(self.snapshot.guard());
        if *self.snapshot.slots() != [bytes; 2] {
            self.write_other_slot(slot, bytes)?;
        }
        Ok(())
    }

    /// Writes the record of the newest commit, which is in this slot, to the other one, durably.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    fn write_other_slot(&mut self, slot: usize, record: SlotBytes) -> Result<()> {
        self.disk().write_at(&record, SLOT_OFFSETS[1 - slot].0)?;
        self.disk().sync()?;
        self.snapshot.has_no_later(1 - slot, record);
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
        // Others may have made the file longer since.
        if self.in_transaction() || self.refresh().is_ok() {
            let _ = self.cut();
        }
    }

    /// # Errors
    /// When the medium fails.
    fn cut(&mut self) -> Result<()> {
        if let Some(commit) = self.snapshot.durable_commit()
            && self.disk().len()? > commit.record.end.0
            && self.mark()
        {
            self.disk().truncate(commit.record.end.0)?;
        }
        Ok(())
    }

    /// Overwrites what was held for others when its commit was flushed, as far as they no longer need it. The caller keeps
    /// others from committing. A failure is none of a commit: the rest is owed still.
    pub fn erase_what_was_held(&mut self) {
        // Others may have taken it since.
        if self.writer.eraser.is_owed() && self.refresh().is_ok() {
            self.erase_owed();
        }
    }

    /// Overwrites freed content that is owed. The newest commit is durable.
    fn erase_owed(&mut self) {
        let is_owed = self.writer.eraser.is_owed() && !self.in_transaction();
        if let Some(commit) = self.snapshot.commit().filter(|_| is_owed) {
            // The rest is owed still.
            let _ = self.overwrite(&commit.record, |eraser, space, disk| {
                eraser.erase_owed(space, disk)
            });
        }
    }

    /// Overwrites all that is free.
    pub(crate) fn erase_all(&mut self) -> Result<()> {
        match self.snapshot.commit() {
            Some(commit) if self.writer.newest.knows_space() => self
                .overwrite(&commit.record, |eraser, space, disk| {
                    eraser.erase_all(space, disk)
                }),
            _ => Ok(()),
        }
    }

    /// Overwrites something, with the free space of the newest commit, of which this is the record. Others may have begun
    /// to need some of it since its transaction began.
    fn overwrite(
        &mut self,
        record: &Record,
        erase: impl FnOnce(&mut Eraser, &mut Space, &D) -> Result<()>,
    ) -> Result<()> {
        if !self.mark() {
            return Err(no_mark());
        }
        let known = self.writer.newest.take_space();
        let is_known = known.is_some();
        let mut space = match known {
            Some(space) => space,
            // It was dropped with a transaction. A transaction that begins learns more of the commit than this.
            None => load_space(&self.snapshot, record)?,
        };
        // If this fails the space is not to be known any longer.
        self.hold_needed(record, &mut space)?;
        let erased = erase(&mut self.writer.eraser, &mut space, self.snapshot.disk());
        if is_known {
            self.writer.newest.set_space(space);
        }
        if erased.is_err() {
            // The sync of the zeros may have given up the mark as well.
            self.mark_again();
        }
        erased
    }
}

fn no_mark() -> Error {
    std::io::Error::other("the mark of a durable commit could not be written").into()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io;

    use super::*;
    use crate::format::layout::{DATA_START, RECORD_LEN};
    use crate::format::offset::FileOffset;
    use crate::snapshot::recover::read_slots;
    use crate::space::erase::Erase;
    use crate::testing::{first_byte, options, page};
    use litepack_io::testing::{Call, CrashingStorage, MemoryStorage, Watched};

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

    /// A disk that did not write a durable record has the one before in its place, which is whole.
    #[test]
    fn a_record_that_was_not_written_is_told_by_its_mark() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, options()).unwrap();
        let mut former = Vec::new();
        for content in 1..=5 {
            store.write(0, &page(content)).unwrap();
            store.flush().unwrap();
            if content == 3 {
                former = disk.snapshot();
            }
        }
        let slot = SLOT_OFFSETS[store.snapshot.commit().unwrap().slot].0 as usize;
        let mut image = disk.snapshot();
        assert!(image[slot..slot + RECORD_LEN] != former[slot..slot + RECORD_LEN]);
        image[slot..slot + RECORD_LEN].copy_from_slice(&former[slot..slot + RECORD_LEN]);
        let mut opened = Store::open(MemoryStorage::new(image), options()).unwrap();
        let error = opened.refresh().unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
    }

    /// A file at page 1, which is durable, and all that the commit of page 2 has written after it.
    fn two_commits() -> (Vec<u8>, Vec<u8>) {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, options()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        let before = disk.snapshot();
        store.write(0, &page(2)).unwrap();
        store.commit().unwrap();
        (before, disk.snapshot())
    }

    /// A power loss has left the record of page 2 and nothing else of it. The same is tried again, and it fails when all
    /// but the record is written, or the process is killed there.
    #[test]
    fn what_was_cut_off_does_not_come_back_when_it_is_tried_again() {
        let (before, after) = two_commits();
        let mut image = after.clone();
        image[DATA_START.0 as usize..].fill(0);
        image[DATA_START.0 as usize..before.len()]
            .copy_from_slice(&before[DATA_START.0 as usize..]);
        let disk = MemoryStorage::new(image);
        let is_broken = Cell::new(false);
        let watched = Watched::new(&disk, |call| match call {
            Call::Write { offset, .. }
                if is_broken.get() && SLOT_OFFSETS.contains(&FileOffset(offset)) =>
            {
                Err(io::Error::other("killed"))
            }
            _ => Ok(()),
        });
        let mut store = Store::open(&watched, options()).unwrap();
        assert_eq!(first_byte(&mut store), 1);
        assert!(store.fell_back());
        store.take_over().unwrap();
        is_broken.set(true);
        store.write(0, &page(2)).unwrap();
        store.commit().unwrap_err();
        // It is all there again, but for the record.
        let data = |image: &[u8]| image[DATA_START.0 as usize..after.len()].to_vec();
        if options().key.is_none() {
            assert!(data(&disk.snapshot()) == data(&after));
        }
        let mut other = Store::open(&disk, options()).unwrap();
        assert_eq!(first_byte(&mut other), 1);
    }

    /// A power loss tears the mark of page 1 when page 2 is whole and not marked yet, and another one the record of page
    /// 3, which is written where that of page 1 was.
    #[test]
    fn two_power_losses_and_a_torn_mark_are_no_damage() {
        let (_, mut image) = two_commits();
        let slots = read_slots(&MemoryStorage::new(image.clone())).unwrap();
        let guard = |image: &[u8]| {
            let store = Store::open(MemoryStorage::new(image.to_vec()), options()).unwrap();
            store.snapshot.guard().clone()
        };
        let guard = guard(&image);
        let seq = |slot: usize| Record::decode(&slots[slot], &guard).unwrap().seq;
        let former = if seq(0) < seq(1) { 0 } else { 1 };
        let mark = MARK_OFFSETS[former].0 as usize;
        image[mark + 10..mark + 20].fill(0xaa);
        // By a transaction, and without one.
        for is_flushed in [false, true] {
            let disk = MemoryStorage::new(image.clone());
            let mut store = Store::open(&disk, options()).unwrap();
            assert_eq!(first_byte(&mut store), 2);
            match is_flushed {
                true => store.flush().unwrap(),
                false => store.take_over().unwrap(),
            }
            // What is torn of the record of page 3.
            disk.write_at(&[0xaa; 20], SLOT_OFFSETS[former].0).unwrap();
            let mut other = Store::open(&disk, options()).unwrap();
            assert_eq!(first_byte(&mut other), 2);
        }
    }

    /// A flush that fails may give up what was written before it as well.
    #[test]
    fn a_flush_that_fails_writes_the_mark_of_the_commit_before_again() {
        let disk = MemoryStorage::default();
        let (is_broken, marks) = (Cell::new(false), Cell::new(0));
        let watched = Watched::new(&disk, |call| match call {
            Call::Sync if is_broken.get() => Err(io::Error::other("given up")),
            Call::Write { offset, .. } if MARK_OFFSETS.contains(&FileOffset(offset)) => {
                marks.set(marks.get() + 1);
                Ok(())
            }
            _ => Ok(()),
        });
        let mut store = Store::open(&watched, options()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        let before = marks.get();
        store.write(0, &page(2)).unwrap();
        is_broken.set(true);
        store.flush().unwrap_err();
        assert_eq!(marks.get(), before + 1);
        // The flush of what was undone fails, too.
        store.flush().unwrap_err();
        assert_eq!(marks.get(), before + 2);
        is_broken.set(false);
        store.flush().unwrap();
        // That of a mark alone.
        store.write(0, &page(3)).unwrap();
        store.flush().unwrap();
        let before = marks.get();
        is_broken.set(true);
        store.flush_for_good().unwrap_err();
        assert_eq!(marks.get(), before + 1);
        let head = Head::read(&disk).unwrap();
        assert!(head.marks(
            store.snapshot.commit().unwrap().record.seq,
            store.snapshot.guard()
        ));
    }

    /// Page 1 is overwritten with page 2, and what page 1 was is to be erased by the same commit.
    fn about_to_erase<D: Storage>(disk: D) -> Store<D> {
        let mut store = Store::open(disk, options()).unwrap();
        store.set_erase(Erase::WithCommit);
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        store.write(0, &page(2)).unwrap();
        store
    }

    /// The sync of the zeros may give up the mark, which is written and not flushed yet.
    #[test]
    fn erasing_that_fails_writes_the_mark_again() {
        let disk = MemoryStorage::default();
        let (is_broken, syncs, marks) = (Cell::new(false), Cell::new(0), Cell::new(0));
        let watched = Watched::new(&disk, |call| match call {
            Call::Sync => {
                syncs.set(syncs.get() + 1);
                match is_broken.get() && syncs.get() == 2 {
                    true => Err(io::Error::other("given up")),
                    false => Ok(()),
                }
            }
            Call::Write { offset, .. } if MARK_OFFSETS.contains(&FileOffset(offset)) => {
                marks.set(marks.get() + 1);
                Ok(())
            }
            _ => Ok(()),
        });
        let mut store = about_to_erase(&watched);
        is_broken.set(true);
        syncs.set(0);
        marks.set(0);
        store.flush().unwrap();
        assert!(syncs.get() >= 2, "nothing was erased");
        assert_eq!(marks.get(), 2);
        assert!(store.writer.eraser.is_owed());
    }

    /// Another handle that finds no mark takes the commit before for the last durable one, and may fall back to it.
    #[test]
    fn without_its_mark_a_commit_has_nothing_erased_or_cut_off() {
        let disk = MemoryStorage::default();
        let (is_broken, syncs) = (Cell::new(false), Cell::new(0));
        let watched = Watched::new(&disk, |call| match call {
            Call::Sync => {
                syncs.set(syncs.get() + 1);
                Ok(())
            }
            Call::Write { offset, .. }
                if is_broken.get() && MARK_OFFSETS.contains(&FileOffset(offset)) =>
            {
                Err(io::Error::other("not written"))
            }
            _ => Ok(()),
        });
        let mut store = about_to_erase(&watched);
        is_broken.set(true);
        syncs.set(0);
        store.flush().unwrap();
        assert_eq!(syncs.get(), 1, "zeros were written");
        assert!(store.writer.eraser.is_owed());
        store.erase_all().unwrap_err();
        assert_eq!(syncs.get(), 1, "zeros were written");
        let len = disk.snapshot().len() as u64 + (4 << 10);
        disk.write_at(&[0], len - 1).unwrap();
        store.give_back();
        assert_eq!(disk.snapshot().len() as u64, len);
        is_broken.set(false);
        store.give_back();
        assert!((disk.snapshot().len() as u64) < len);
        store.write(0, &page(3)).unwrap();
        store.flush().unwrap();
        assert!(!store.writer.eraser.is_owed());
    }

    /// A commit that failed is undone, and the one before it, not flushed yet, is made durable by the next transaction:
    /// then its record is not written again, beside one that is not durable.
    #[test]
    fn what_was_put_back_and_taken_over_is_not_put_back_again() {
        let disk = MemoryStorage::default();
        let (is_broken, written) = (Cell::new(false), RefCell::new(Vec::new()));
        let watched = Watched::new(&disk, |call| match call {
            Call::Write { offset, .. } if SLOT_OFFSETS.contains(&FileOffset(offset)) => {
                written.borrow_mut().push(offset);
                if is_broken.replace(false) {
                    disk.write_at(&[0xaa; 20], offset)?;
                    return Err(io::Error::other("half of it was written"));
                }
                Ok(())
            }
            _ => Ok(()),
        });
        let mut store = Store::open(&watched, options()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        store.write(0, &page(2)).unwrap();
        store.commit().unwrap();
        store.write(0, &page(3)).unwrap();
        is_broken.set(true);
        store.commit().unwrap_err();
        let slot = SLOT_OFFSETS[store.snapshot.commit().unwrap().slot].0;
        assert_eq!(first_byte(&mut store), 2);
        store.take_over().unwrap();
        written.borrow_mut().clear();
        store.write(0, &page(4)).unwrap();
        store.flush().unwrap();
        assert!(!written.borrow().contains(&slot), "{written:?}");
        assert_eq!(first_byte(&mut store), 4);
    }
}
