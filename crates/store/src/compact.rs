//! Giving space back: extents from the end of the file move into free space before it.
//!
//! Run when a commit has left two fifths of the file free, or a quarter because the database got shorter
//! (`VACUUM`, auto-vacuum). Bytes are copied as they are stored. These are ordinary commits, so a
//! crash at any point leaves the file at one of them.

use crate::disk::Disk;
use crate::error::Result;
use crate::layout::DATA_START;
use crate::node::{Entry, FANOUT, Node};
use crate::recover::verify_unit;
use crate::store::Store;

/// Room for what the moves themselves write: map nodes and the free-space link.
const SLACK: u64 = 16 << 10;
/// Room, as a part of what is used, for holes that nothing fits into: little where the free space is in
/// one piece. Where it is scattered a few extents find no hole then, and one at the end of the file is
/// enough to keep all of it, so they are tried again with more room.
const ROOM: [u64; 2] = [64, 8];
/// Moved bytes that may wait in memory.
const QUEUED_MAX: u64 = 4 << 20;

impl<D: Disk> Store<D> {
    /// Moves what lies at the end of the file into the free space before it and cuts the file. The
    /// newest commit must be durable. When it fails, the file stays as large as it was.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.writer.compacting = true;
        let result = self.try_compact();
        self.writer.compacting = false;
        // What it could not do it cannot do at the next commit either: wait for enough to change.
        let end = self.commit.map_or(0, |commit| commit.record.end);
        self.writer.compact_after = self.writer.written_bytes + end / 2;
        result
    }

    fn try_compact(&mut self) -> Result<()> {
        for room in ROOM {
            let all_moved = self.guarded(|store| store.move_down(room))?;
            self.commit_and_flush()?;
            if all_moved {
                break;
            }
        }
        // What was moved away from is the end of the file now; this commit gives it back.
        self.guarded(Self::begin)?;
        self.commit_and_flush()
    }

    fn commit_and_flush(&mut self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    /// True if nothing that should have moved had to stay.
    fn move_down(&mut self, room: u64) -> Result<bool> {
        self.begin()?;
        let space = self.writer.space();
        let used = space.end() - space.free_bytes();
        let limit = (used + used / room + SLACK).max(DATA_START);
        space.set_aside_above(limit)?;
        let units = self.size.div_ceil(u64::from(self.unit_size));
        let (mut queued, mut all_moved) = (0, true);
        let mut stored = Vec::new();
        for leaf in 0..units.div_ceil(FANOUT as u64) {
            let Some(node) = self.map.leaf_on_disk(leaf, &self.medium)? else {
                continue;
            };
            let Node::Leaf(entries) = &*node else {
                continue;
            };
            for (index, entry) in entries.iter().enumerate() {
                if entry.is_zero() || entry.offset + u64::from(entry.len) <= limit {
                    continue;
                }
                let Some(offset) = self.writer.space().alloc_within(entry.len.into())? else {
                    all_moved = false;
                    continue;
                };
                verify_unit(&self.medium, entry, &mut stored)?;
                self.writer.queue.push(offset, &stored);
                self.set_entry(
                    leaf * FANOUT as u64 + index as u64,
                    Entry { offset, ..*entry },
                )?;
                queued += u64::from(entry.len);
            }
            if queued > QUEUED_MAX {
                self.write_level(0)?;
                self.write_queue()?;
                queued = 0;
            }
        }
        self.write_queue()?;
        self.touch_nodes_above(limit, units)?;
        self.move_catalog(limit)?;
        Ok(all_moved)
    }

    /// Marks every map node beyond `limit` for rewriting; its parents follow by themselves.
    fn touch_nodes_above(&mut self, limit: u64, units: u64) -> Result<()> {
        let mut covered = 1;
        for level in 0..self.map.height() {
            covered *= FANOUT as u64;
            for index in 0..units.div_ceil(covered) {
                let place = self.map.place_of(level, index, &self.medium)?;
                if place.is_some_and(|place| place.offset + u64::from(place.len) > limit) {
                    self.map.touch(level, index, &self.medium)?;
                }
            }
            if self.map.changed_leaves() > crate::txn::LEAVES_MAX {
                self.write_level(0)?;
                self.write_queue()?;
            }
        }
        Ok(())
    }

    fn move_catalog(&mut self, limit: u64) -> Result<()> {
        let pointers: Vec<_> = self.catalog.pointers().collect();
        for pointer in pointers {
            if pointer.offset + u64::from(pointer.len) <= limit {
                continue;
            }
            let bytes = self.medium.extent(pointer, "dictionary")?;
            if let Some(offset) = self.writer.space().alloc_within(pointer.len.into())? {
                self.writer.queue.push(offset, &bytes);
                self.catalog
                    .moved(pointer, crate::layout::Pointer { offset, ..pointer });
                self.writer
                    .space()
                    .release(pointer.offset, pointer.len.into())?;
                self.writer.txn().catalog_changed = true;
            }
        }
        let catalog = self.commit.map(|commit| commit.record.catalog);
        if catalog.is_some_and(|at| !at.is_none() && at.offset + u64::from(at.len) > limit) {
            self.writer.txn().catalog_changed = true;
        }
        Ok(())
    }
}
