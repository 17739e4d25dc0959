//! Undoing a commit that could not be made durable, on disk too.

use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::layout::SLOT_OFFSETS;
use crate::format::record::Record;
use crate::snapshot::image::Image;
use crate::snapshot::recover::{Commit, Head, SlotBytes};
use crate::transaction::store::Store;

/// The state before a commit.
#[derive(Debug)]
pub(crate) struct Before {
    pub(super) commit: Commit,
    pub(super) image: Image,
    /// The former bytes of the commit's slot.
    pub(super) slot_bytes: SlotBytes,
}

/// A record to be replaced by what its slot held before.
#[derive(Debug)]
pub(crate) struct Undo {
    slot: usize,
    wrong: SlotBytes,
    right: SlotBytes,
    /// No process sees it any more. Until the next flush a power loss can still bring it back.
    written: bool,
}

impl<D: Storage> Store<D> {
    /// Undoes a commit that could not be made durable, so that no handle continues from a state that a
    /// power loss would take away after its writer was told that it failed.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn undo(&mut self, commit: Commit) {
        if let Some(before) = self.writer.newest.take_back() {
            let wrong = self.snapshot.slots()[commit.slot];
            self.begin_undo(commit.slot, wrong, before.slot_bytes);
            self.snapshot.undone(before.commit, before.image);
        }
    }

    /// Puts the former bytes of a slot back, or notes that this is still to be done: until then, or until
    /// [`Store::settle`], the handle refuses to work.
    pub(super) fn begin_undo(&mut self, slot: usize, wrong: SlotBytes, right: SlotBytes) {
        self.snapshot.slot_written(slot, right);
        self.writer.undo = Some(Undo {
            slot,
            wrong,
            right,
            written: false,
        });
        let _ = self.finish_undo();
    }

    /// Undoes on disk what failed before, unless that is done.
    pub(super) fn finish_undo(&mut self) -> Result<()> {
        match &self.writer.undo {
            Some(undo) if !undo.written => self.put_back(),
            _ => Ok(()),
        }
    }

    /// Puts the former bytes of a slot back, be they there already. Bytes that are no record are left of the one that
    /// failed, or of the former bytes: the writer's lock is held since. A later record stays, and so does the one that
    /// failed if another handle has made it durable: that handle may have overwritten what the commit before needs.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn put_back(&mut self) -> Result<()> {
        let guard = self.snapshot.guard();
        let Some(undo) = &mut self.writer.undo else {
            return Ok(());
        };
        let disk = self.snapshot.disk();
        let head = Head::read(disk)?;
        let found = head.slots[undo.slot];
        let stays = match Record::decode(&found, guard) {
            _ if found == undo.right => false,
            Some(wrong) if found == undo.wrong => head.marks(wrong.seq, guard),
            record => record.is_some(),
        };
        if stays {
            self.writer.undo = None;
            return Ok(());
        }
        disk.write_at(&undo.right, SLOT_OFFSETS[undo.slot].0)?;
        undo.written = true;
        Ok(())
    }

    /// A record was written to this slot, and what was to be undone there is gone. The new one may have the very bytes
    /// of the one that failed, when the same is tried again, and is not to be taken for it.
    pub(super) fn replaces_undone(&mut self, slot: usize) {
        self.writer.undo.take_if(|undo| undo.slot == slot);
    }

    /// The caller is about to give up the right to write. A commit that failed, and cannot be undone now either, stays:
    /// from now on others may read it, and go on from it.
    pub fn settle(&mut self) {
        let _ = self.finish_undo();
        self.writer.undo = None;
        // The newest commit is acknowledged, or as good as that.
        self.writer.newest.is_settled();
    }

    /// Whether a record that failed is in its slot, as far as running processes see.
    pub(super) fn is_to_be_undone(&self) -> bool {
        self.writer.undo.as_ref().is_some_and(|undo| !undo.written)
    }

    /// Makes durable that a commit is undone. SQLite has it done when it rolls back, before it deletes the journal:
    /// in a transaction over several databases the other ones are rolled back, too.
    pub(super) fn flush_undo(&mut self) -> Result<()> {
        // Once more, as a flush that failed may have given up what it could not write.
        self.put_back()?;
        if self.writer.undo.is_some() {
            if let Err(error) = self.disk().sync() {
                self.mark_again();
                return Err(error.into());
            }
            self.writer.undo = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use super::*;
    use crate::format::offset::FileOffset;
    use crate::snapshot::handle::Snapshot;
    use crate::snapshot::recover::read_slots;
    use crate::testing::{first_byte, options, page};
    use litepack_io::testing::{Call, CrashingStorage, MemoryStorage, Watched};

    fn after_power_loss(disk: &CrashingStorage, seed: u64) -> u8 {
        let image = disk.after_power_loss(seed);
        let disk = CrashingStorage::with_image(image);
        first_byte(&mut Store::open(disk, options()).unwrap())
    }

    /// Without a flush the newest commit and the one after it use the same slot. The write of the second record is torn,
    /// and in the second round the write that puts the former bytes back, too.
    #[test]
    fn a_record_that_was_half_written_leaves_the_commit_before_it() {
        for tears in 1..3 {
            let disk = MemoryStorage::default();
            let left = Cell::new(0);
            let torn = Watched::new(&disk, |call| match call {
                Call::Write { offset, .. }
                    if left.get() > 0 && SLOT_OFFSETS.contains(&FileOffset(offset)) =>
                {
                    left.set(left.get() - 1);
                    disk.write_at(&[0xaa; 20], offset)?;
                    Err(io::Error::other("half of it was written"))
                }
                _ => Ok(()),
            });
            let mut store = Store::open(&torn, options()).unwrap();
            store.write(0, &page(1)).unwrap();
            store.flush().unwrap();
            store.write(0, &page(2)).unwrap();
            store.commit().unwrap();
            store.write(0, &page(3)).unwrap();
            left.set(tears);
            store.commit().unwrap_err();
            assert_eq!(first_byte(&mut store), 2, "{tears} tears");
            assert_eq!(left.get(), 0, "no record was written");
            let mut found = Snapshot::open(&disk, &options()).unwrap();
            found.refresh().unwrap();
            let mut bytes = [0; 4096];
            found.read(0, &mut bytes).unwrap();
            assert!(bytes == page(2), "it has {}", bytes[0]);
            store.write(4096, &page(4)).unwrap();
            store.flush().unwrap();
            assert_eq!(first_byte(&mut store), 2, "{tears} tears");
        }
    }

    /// A store at page 2, whose flush has failed, and so many calls from that on. Page 1 is durable.
    fn after_a_failed_flush(disk: &CrashingStorage, failing_calls: u64) -> Store<CrashingStorage> {
        let mut store = Store::open(disk.clone(), options()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        store.write(0, &page(2)).unwrap();
        store.commit().unwrap();
        disk.fail(disk.calls(), disk.calls() + failing_calls);
        store.flush().unwrap_err();
        store
    }

    #[test]
    fn what_another_handle_commits_in_between_is_not_undone() {
        for (failing_calls, commits) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)] {
            let disk = CrashingStorage::default();
            let mut store = after_a_failed_flush(&disk, failing_calls);
            disk.fail(0, 0);
            let mut other = Store::open(disk.clone(), options()).unwrap();
            for content in 3..3 + commits {
                other.write(0, &page(content)).unwrap();
                other.flush().unwrap();
            }
            store.flush().unwrap();
            assert_eq!(first_byte(&mut store), 2 + commits);
            assert_eq!(first_byte(&mut other), 2 + commits);
        }
    }

    /// A commit fails, is undone, and is tried again: the record has the same bytes.
    #[test]
    fn the_same_commit_again_is_not_undone() {
        for failing_calls in 1..4 {
            let disk = CrashingStorage::default();
            disk.fail_badly();
            let mut store = after_a_failed_flush(&disk, failing_calls);
            disk.fail(0, 0);
            store.write(0, &page(2)).unwrap();
            store.flush().unwrap();
            assert_eq!(first_byte(&mut store), 2);
            for seed in 0..20 {
                assert_eq!(after_power_loss(&disk, seed), 2, "{failing_calls} calls");
            }
        }
    }

    /// Whatever an earlier try has given up.
    #[test]
    fn an_undo_that_is_flushed_holds() {
        for failing_calls in 1..6 {
            let disk = CrashingStorage::default();
            disk.fail_badly();
            let mut store = after_a_failed_flush(&disk, failing_calls);
            let mut tries = 0;
            while store.flush().is_err() {
                tries += 1;
                assert!(tries < 9, "the disk works again");
                // A try that writes, and does not get it flushed.
                disk.fail(disk.calls() + 1, disk.calls() + u64::from(tries < 4) + 1);
            }
            for seed in 0..20 {
                let found = after_power_loss(&disk, seed);
                assert_eq!(found, 1, "{failing_calls} calls, seed {seed}");
            }
        }
    }
    /// The flush reports an error although all of it is done. Then only some of the former bytes are written; or the
    /// system gives them up, and has the record from the medium again.
    #[test]
    fn an_undo_that_came_to_nothing_is_finished_by_the_flush() {
        for is_given_up in [false, true] {
            let disk = CrashingStorage::default();
            let breaks = Cell::new(false);
            let broken = Watched::new(disk.clone(), |call| match call {
                Call::Sync if breaks.get() => disk.sync().and(Err(io::Error::other("it is done"))),
                Call::Write { offset, .. } if breaks.get() && !is_given_up => {
                    breaks.set(false);
                    disk.write_at(&[0xaa; 20], offset)?;
                    Err(io::Error::other("half of it was written"))
                }
                _ => Ok(()),
            });
            let mut store = Store::open(&broken, options()).unwrap();
            store.write(0, &page(1)).unwrap();
            store.flush().unwrap();
            store.write(0, &page(2)).unwrap();
            store.commit().unwrap();
            let slots = read_slots(&disk).unwrap();
            breaks.set(true);
            store.flush().unwrap_err();
            breaks.set(false);
            if is_given_up {
                for (slot, offset) in slots.iter().zip(SLOT_OFFSETS) {
                    disk.write_at(slot, offset.0).unwrap();
                }
            }
            store.flush().unwrap();
            assert_eq!(after_power_loss(&disk, 0), 1, "given up: {is_given_up}");
            assert_eq!(after_power_loss(&disk, 1), 1, "given up: {is_given_up}");
        }
    }

    /// Of two commits that are not flushed the second is undone, and a flush that the system gives up comes in between.
    #[test]
    fn a_flush_of_the_commit_before_has_the_undo_with_it() {
        let disk = CrashingStorage::default();
        let breaks = Cell::new(false);
        let broken = Watched::new(disk.clone(), |call| match call {
            Call::Sync if breaks.get() => disk.sync().and(Err(io::Error::other("it is done"))),
            _ => Ok(()),
        });
        let mut store = Store::open(&broken, options()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        for content in [2, 3] {
            store.write(0, &page(content)).unwrap();
            store.commit().unwrap();
        }
        breaks.set(true);
        store.flush().unwrap_err();
        breaks.set(false);
        disk.forget();
        store.flush().unwrap();
        assert_eq!(first_byte(&mut store), 2);
        assert_eq!(after_power_loss(&disk, 0), 2);
    }

    /// It may have read what could not be undone, and may be about to write after it.
    #[test]
    fn what_another_handle_may_have_read_is_not_undone() {
        let disk = CrashingStorage::default();
        let mut store = after_a_failed_flush(&disk, 9);
        let mut other = Store::open(disk.clone(), options()).unwrap();
        store.settle();
        assert_eq!(first_byte(&mut other), 2);
        disk.fail(0, 0);
        assert_eq!(first_byte(&mut store), 2);
        store.flush().unwrap();
        assert_eq!(first_byte(&mut other), 2);
        assert_eq!(after_power_loss(&disk, 0), 2);
    }

    /// Another handle may write the commit before to both slots.
    #[test]
    fn a_commit_that_was_undone_is_not_missed() {
        let disk = CrashingStorage::default();
        let mut store = after_a_failed_flush(&disk, 1);
        disk.fail(0, 0);
        let mut other = Store::open(disk.clone(), options()).unwrap();
        assert_eq!(first_byte(&mut other), 1);
        other.flush_both_slots().unwrap();
        assert_eq!(first_byte(&mut store), 1);
    }

    /// The commit before may need the space that it took.
    #[test]
    fn after_a_transaction_that_was_dropped_nothing_is_undone() {
        let disk = CrashingStorage::default();
        let mut store = Store::open(disk.clone(), options()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        let noise = |seed: u8| -> Vec<u8> {
            let bytes = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed);
            bytes.collect()
        };
        for content in [2, 3] {
            store.write(0, &noise(content)).unwrap();
            store.commit().unwrap();
        }
        let mut transaction = store.begin().unwrap();
        transaction.write(0, &noise(4)).unwrap();
        transaction.write_batch().unwrap();
        transaction.write_queue().unwrap();
        transaction.rollback();
        disk.fail(disk.calls(), disk.calls() + 1);
        store.flush().unwrap_err();
        assert_eq!(first_byte(&mut store), noise(3)[0]);
        store.flush().unwrap();
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert!(report.is_ok(), "{:?}", report.damage);
    }
}
