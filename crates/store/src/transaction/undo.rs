//! Undoing a commit that could not be made durable, on disk too.

use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::layout::SLOT_OFFSETS;
use crate::snapshot::image::Image;
use crate::snapshot::recover::{Commit, SlotBytes, read_slots};
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
    pub(super) fn begin_undo(&mut self, slot: usize, wrong: SlotBytes, right: SlotBytes) {
        self.snapshot.slot_written(slot, right);
        self.writer.undo = Some(Undo { slot, wrong, right });
        let _ = self.finish_undo();
    }

    /// Undoes on disk what failed before, unless another handle has moved on since.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(super) fn finish_undo(&mut self) -> Result<()> {
        let Some(Undo { slot, wrong, right }) = &self.writer.undo else {
            return Ok(());
        };
        let disk = self.snapshot.disk();
        let (slot, found) = (*slot, read_slots(disk)?);
        if found[slot] == *wrong && found[1 - slot] == self.snapshot.slots()[1 - slot] {
            disk.write_at(right, SLOT_OFFSETS[slot].0)?;
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
    use litepack_io::testing::{Call, MemoryStorage, Watched};

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
}
