//! Undoing a commit that could not be made durable, on disk too.

use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::layout::SLOT_OFFSETS;
use crate::format::record::Record;
use crate::snapshot::image::Image;
use crate::snapshot::recover::{Commit, Head, SlotBytes, read_slots};
use crate::transaction::store::Store;

/// The state before a commit.
#[derive(Debug)]
pub(crate) struct Before {
    pub(super) commit: Commit,
    pub(super) image: Image,
    /// What the commit's slot held.
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
        self.writer.space = None;
        // Without `before` it is another handle's commit: its durability is no promise of ours.
        if let Some(before) = self.writer.before.take() {
            let wrong = self.snapshot.slots()[commit.slot];
            self.begin_undo(commit.slot, wrong, before.slot_bytes);
            self.snapshot.go_to(before.commit, before.image);
        }
    }

    /// Puts the former bytes of a slot back, or notes that this is still to be done: until then the
    /// handle refuses to work.
    fn begin_undo(&mut self, slot: usize, wrong: SlotBytes, right: SlotBytes) {
        self.snapshot.slot_written(slot, right);
        self.writer.undo = Some(Undo {
            slot,
            wrong,
            right,
            written: false,
        });
        let _ = self.finish_undo();
    }

    /// As [`Store::begin_undo`], of a record that was not written, or not all of it. The writer's lock is held, so whatever
    /// part of it is there is ours.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn undo_write(&mut self, slot: usize, wrong: SlotBytes) {
        let right = self.snapshot.slots()[slot];
        let put_back = self.disk().write_at(&right, SLOT_OFFSETS[slot].0);
        self.writer.undo = Some(Undo {
            slot,
            wrong,
            right,
            written: put_back.is_ok(),
        });
    }

    /// Undoes on disk what failed before, unless the slot has something else by now. It stays if another handle has made
    /// it durable: that one may have overwritten what the commit before needs.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn finish_undo(&mut self) -> Result<()> {
        let uuid = self.uuid();
        let Some(undo) = self.writer.undo.as_mut().filter(|undo| !undo.written) else {
            return Ok(());
        };
        let disk = self.snapshot.disk();
        let head = Head::read(disk)?;
        if head.slots[undo.slot] == undo.wrong {
            let wrong = Record::decode(&undo.wrong, uuid);
            if wrong.is_some_and(|wrong| head.marks(wrong.seq, uuid)) {
                self.writer.undo = None;
                return Ok(());
            }
            disk.write_at(&undo.right, SLOT_OFFSETS[undo.slot].0)?;
        }
        undo.written = true;
        Ok(())
    }

    /// Whether a record that failed is in its slot, as far as running processes see.
    pub(super) fn is_to_be_undone(&self) -> bool {
        self.writer.undo.as_ref().is_some_and(|undo| !undo.written)
    }

    /// Makes durable that a commit is undone, unless another handle has moved on since. The caller keeps others from
    /// committing. SQLite has it done when it rolls back, before it deletes the journal: in a transaction over several
    /// databases the other ones are rolled back, too.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn flush_undo(&mut self) -> Result<()> {
        self.finish_undo()?;
        let Some(undo) = &self.writer.undo else {
            return Ok(());
        };
        let (disk, uuid) = (self.snapshot.disk(), self.uuid());
        let found = read_slots(disk)?[undo.slot];
        // What is no record is left of the one that failed, or of its former bytes. The next commit, whoever makes it,
        // goes to this slot.
        if found == undo.right || Record::decode(&found, uuid).is_none() {
            // Once more, as a flush that failed may have given up what it could not write.
            disk.write_at(&undo.right, SLOT_OFFSETS[undo.slot].0)?;
            disk.sync()?;
        }
        self.writer.undo = None;
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
    use crate::testing::options;
    use litepack_io::testing::{Call, CrashingStorage, MemoryStorage, Watched};

    /// Without a flush the newest commit and the one after it use the same slot.
    #[test]
    fn a_record_that_was_half_written_leaves_the_commit_before_it() {
        let disk = MemoryStorage::default();
        let tears = Cell::new(false);
        let torn = Watched::new(&disk, |call| match call {
            Call::Write { offset, .. }
                if tears.get() && SLOT_OFFSETS.contains(&FileOffset(offset)) =>
            {
                tears.set(false);
                disk.write_at(&[0xaa; 20], offset)?;
                Err(io::Error::other("half of it was written"))
            }
            _ => Ok(()),
        });
        let mut store = Store::open(&torn, options()).unwrap();
        let page = |content: u8| [content; 4096];
        store.write(0, &page(1)).unwrap();
        store.commit().unwrap();
        store.flush().unwrap();
        store.write(0, &page(2)).unwrap();
        store.commit().unwrap();
        store.write(0, &page(3)).unwrap();
        tears.set(true);
        store.commit().unwrap_err();
        assert!(!tears.get(), "no record was written");
        let mut found = Snapshot::open(&disk, &options()).unwrap();
        found.refresh().unwrap();
        let mut bytes = [0; 4096];
        found.read(0, &mut bytes).unwrap();
        assert!(bytes == page(2), "it has {}", bytes[0]);
    }
    /// A store at page 2, whose flush has failed, and so many calls from that on. Page 1 is durable.
    fn after_a_failed_flush(disk: &CrashingStorage, failing_calls: u64) -> Store<CrashingStorage> {
        let mut store = Store::open(disk.clone(), options()).unwrap();
        store.write(0, &[1; 4096]).unwrap();
        store.flush().unwrap();
        store.write(0, &[2; 4096]).unwrap();
        store.commit().unwrap();
        disk.fail(disk.calls(), disk.calls() + failing_calls);
        store.flush().unwrap_err();
        store
    }

    fn first_byte(store: &mut Store<CrashingStorage>) -> u8 {
        let mut bytes = [0; 4096];
        store.refresh().unwrap();
        store.read(0, &mut bytes).unwrap();
        bytes[0]
    }

    #[test]
    fn what_another_handle_commits_in_between_is_not_undone() {
        for (failing_calls, commits) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)] {
            let disk = CrashingStorage::default();
            let mut store = after_a_failed_flush(&disk, failing_calls);
            disk.fail(0, 0);
            let mut other = Store::open(disk.clone(), options()).unwrap();
            for content in 3..3 + commits {
                other.write(0, &[content; 4096]).unwrap();
                other.flush().unwrap();
            }
            store.flush().unwrap();
            assert_eq!(first_byte(&mut store), 2 + commits);
            assert_eq!(first_byte(&mut other), 2 + commits);
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
                let image = disk.after_power_loss(seed);
                let disk = CrashingStorage::with_image(image);
                let mut found = Store::open(disk, options()).unwrap();
                assert_eq!(first_byte(&mut found), 1, "{failing_calls} calls, {seed}");
            }
        }
    }
    /// The flush reports an error although all of it is done, and then only some of the former bytes are written.
    #[test]
    fn an_undo_that_was_half_written_is_finished_by_the_flush() {
        let disk = CrashingStorage::default();
        let breaks = Cell::new(false);
        let broken = Watched::new(disk.clone(), |call| match call {
            Call::Sync if breaks.get() => disk.sync().and(Err(io::Error::other("it is done"))),
            Call::Write { offset, .. } if breaks.get() => {
                breaks.set(false);
                disk.write_at(&[0xaa; 20], offset)?;
                Err(io::Error::other("half of it was written"))
            }
            _ => Ok(()),
        });
        let mut store = Store::open(&broken, options()).unwrap();
        store.write(0, &[1; 4096]).unwrap();
        store.flush().unwrap();
        store.write(0, &[2; 4096]).unwrap();
        store.commit().unwrap();
        breaks.set(true);
        store.flush().unwrap_err();
        assert!(!breaks.get(), "nothing was put back");
        store.flush().unwrap();
        let image = disk.after_power_loss(0);
        let mut found = Store::open(CrashingStorage::with_image(image), options()).unwrap();
        assert_eq!(first_byte(&mut found), 1);
    }
}
