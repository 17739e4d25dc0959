//! Publishing a transaction.
//!
//! Order of writes: stored units, nodes of the map and of the item tree from the leaves up, dictionaries and catalog, the
//! prefetch segment, the free-space link, and last the commit record in the slot that does not hold the last durable
//! commit. One flush then makes all of it durable, and the slot's mark says so before the caller is told.

use std::ops::RangeBounds;

use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::guard::Kind;
use crate::format::layout::{Pointer, SLOT_OFFSETS, unit_size_for};
use crate::format::node::TreeKind;
use crate::format::record::{LOG_BASE, Record};
use crate::format::unit::Unit;
use crate::medium::verified::NODE_LEN_MAX;
use crate::snapshot::item_tree::ItemTree;
use crate::snapshot::page_map::PageMap;
use crate::snapshot::recover::{Commit, SlotBytes, read_slots};
use crate::space::allocate::ExtentKind;
use crate::space::free_space::Space;
use crate::transaction::changes::{Stored, Transaction};
use crate::transaction::store::Store;
use crate::transaction::undo::Before;
use crate::transaction::write::release_gone;

/// Commits without a flush (synchronous=OFF) are flushed when they add up to this: it bounds what
/// must be verified after a crash and lets the space they freed be used again.
const UNFLUSHED_MAX: u64 = 4 << 20;
/// Free space below this is not worth compacting for.
const COMPACT_MIN: u64 = 64 << 10;
/// Nor below this if the database got shorter: small files are to shrink, too.
const SHRUNK_MIN: u64 = 16 << 10;

const NO_MORE: Error = Error::Limit("the commits of this file cannot be counted any further");

/// A commit that every handle sees. A power loss may take it away until [`Store::flush`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Number of the commit.
    pub seq: u64,
}

impl<D: Storage> Transaction<'_, D> {
    /// Publishes the transaction: every handle sees it from now on, and so does the file
    /// after a crash of this process. It survives a power loss once [`Store::flush`] returned.
    ///
    /// # Errors
    /// The transaction is rolled back. If only a flush that was due failed, as [`Store::flush`].
    pub fn commit(mut self) -> Result<Published> {
        let record = match self.publish() {
            Ok(record) => record,
            Err(error) => {
                self.fail(&error);
                return Err(error);
            }
        };
        let Transaction { store, changes } = self;
        let mut image = changes.image;
        image.catalog.is_written();
        let (last, slot) = (changes.last, slot_after(&changes.last));
        if record.end > last.record.end {
            store.writer.could_not_grow = false;
        }
        let commit = Commit {
            record,
            slot,
            durable: false,
        };
        let bytes = record.encode(store.snapshot.guard());
        store.replaces_undone(slot);
        let slot_bytes = store.snapshot.slot_written(slot, bytes);
        let image = store.snapshot.published(commit, image);
        let before = Before {
            commit: last,
            image,
            slot_bytes,
        };
        store.writer.newest.published(changes.space, before);
        store.follow_up(&record, changes.shrunk)?;
        Ok(Published { seq: record.seq.0 })
    }

    /// Writes all that the commit has, its record last.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    fn publish(&mut self) -> Result<Record> {
        self.write_batch()?;
        self.follow_page_size()?;
        self.drop_unnamed()?;
        for kind in [TreeKind::Map, TreeKind::Items] {
            for level in 0..self.image().tree(kind).height() {
                self.write_level(kind, level, ..)?;
            }
            self.changes.image.tree_mut(kind).lower_if_empty();
        }
        let catalog = self.write_catalog()?;
        let segment = self.write_segment(catalog)?;
        let mut link = Vec::new();
        let sealer = self.sealer()?;
        let offset = self
            .changes
            .space
            .write_link(&mut link, |len| sealer.other_len(len))?;
        sealer.other(Kind::Space, &mut link, 0)?;
        let link_pointer = self.medium().pointer_to(&link, offset)?;
        self.queue(offset, &link)?;
        self.write_queue()?;

        let (changes, last) = (&self.changes, &self.changes.last);
        let is_log_base = changes.is_log_base || changes.space.is_held();
        let items = &changes.image.items.0;
        let record = Record {
            seq: last.record.seq.next().ok_or(NO_MORE)?,
            features: changes.items.features() | if is_log_base { LOG_BASE } else { 0 },
            size: changes.image.size,
            unit_size: changes.image.unit_size,
            height: changes.image.map.height(),
            end: changes.space.end(),
            map: changes.image.map.root(),
            catalog,
            space: link_pointer,
            stored_units: changes.stored.units,
            stored_bytes: changes.stored.bytes,
            free_bytes: changes.space.free_bytes(),
            segment,
            items: items.root(),
            items_height: items.height(),
            item_count: changes.items.count(),
            tag_len: 0,
            log: changes.log,
            difference_bytes: changes.stored.differences,
        };
        let slot = slot_after(last);
        let bytes = record.encode(&self.medium().guard);
        let published = put_record(&self.medium().disk, slot, &bytes);
        let space = &mut self.changes.space;
        if let Err(error) = published.and_then(|()| space.published(link_pointer)) {
            let right = self.store.snapshot.slots()[slot];
            self.store.begin_undo(slot, bytes, right);
            return Err(error);
        }
        Ok(record)
    }

    /// Gives the changed nodes of a level of a tree new extents, those with these indexes.
    pub(crate) fn write_level(
        &mut self,
        kind: TreeKind,
        level: u8,
        which: impl RangeBounds<u64>,
    ) -> Result<()> {
        let mut indexes = self.image().tree(kind).changed_at(level);
        indexes.retain(|index| which.contains(index));
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(indexes.len()));
        let sealer = self.sealer()?;
        for index in &indexes {
            let start = bytes.len();
            // No node is longer, so what it appends finds room.
            litepack_io::memory::room(&mut bytes, NODE_LEN_MAX as usize)?;
            match self.image().tree(kind).changed_node(level, *index) {
                Some(node) if !node.is_empty() => {
                    node.encode(&mut bytes);
                    sealer.other(Kind::Node, &mut bytes, start)?;
                }
                _ => {}
            }
            ends.push(bytes.len());
        }
        let starts = || std::iter::once(0).chain(ends.iter().copied());
        let lens = starts().zip(&ends).map(|(start, end)| end - start);
        let offsets = self.changes.space.allocate(ExtentKind::Nodes, lens)?;
        for (((index, start), end), offset) in indexes.iter().zip(starts()).zip(&ends).zip(offsets)
        {
            #[expect(
                clippy::indexing_slicing,
                reason = "what was appended to `bytes` began and ended there"
            )]
            let encoded = &bytes[start..*end];
            let place = if encoded.is_empty() {
                Pointer::NONE
            } else {
                self.queue(offset, encoded)?;
                self.medium().pointer_to(encoded, offset)?
            };
            let medium = self.store.snapshot.medium();
            let tree = self.changes.image.tree_mut(kind);
            let (former, node) = tree.node_written(level, *index, place, medium)?;
            if let Some(node) = node.filter(|_| !place.is_none()) {
                medium.cache.put_node(&place, node.into());
            }
            if !former.is_none() {
                medium.cache.remove_node(&former);
            }
            self.release(former)?;
        }
        Ok(())
    }

    fn write_catalog(&mut self) -> Result<Pointer> {
        let former = self.changes.last.record.catalog;
        if !self.changes.catalog_changed {
            return Ok(former);
        }
        self.release(former)?;
        let bytes = self.image().catalog.encode()?;
        self.store_metadata(Kind::Catalog, bytes)
    }

    /// When `VACUUM` has changed the page size, stores everything again in units of the new size:
    /// a unit must hold whole pages, or every page write would read and change a neighbour.
    fn follow_page_size(&mut self) -> Result<()> {
        let old_unit = self.image().unit_size;
        let wanted = self.changes.page_size.map_or(old_unit, unit_size_for);
        if wanted == old_unit {
            return Ok(());
        }
        self.write_queue()?;
        let mut old = self.changes.image.clone();
        self.changes.image.map = PageMap::new(TreeKind::Map, Pointer::NONE, 0);
        // Units of another size name no items of this one.
        self.changes.image.items = ItemTree::empty();
        self.changes.items.clear();
        self.changes.image.unit_size = wanted;
        self.store.snapshot.pages().forget_leaves();
        self.changes.stored = Stored::default();
        let step = old_unit.max(wanted);
        let mut bytes = litepack_io::memory::zeros(step as usize)?;
        let mut start = 0;
        while start < old.size {
            let units = Unit::holding(start, old_unit).onwards();
            for (unit, part) in units.zip(bytes.chunks_mut(old_unit as usize)) {
                let entry = old.map.get(unit, self.medium())?;
                if entry.is_zero() {
                    part.fill(0)
                } else {
                    let pages = self.store.snapshot.pages();
                    pages.load(&old, unit, &entry, part)?;
                }
            }
            let units = Unit::holding(start, wanted).onwards();
            for (unit, part) in units.zip(bytes.chunks(wanted as usize)) {
                if unit.start(wanted) < old.size {
                    self.buffer(unit, 0, part, None)?;
                }
            }
            self.relieve()?;
            start += u64::from(step);
        }
        self.write_batch()?;
        let (eraser, space) = (&mut self.store.writer.eraser, &mut self.changes.space);
        let medium = self.store.snapshot.medium();
        for kind in [TreeKind::Map, TreeKind::Items] {
            let gone = &mut |gone| release_gone(&gone, eraser, space);
            old.tree_mut(kind).truncate(0, medium, gone)?;
        }
        self.release(old.map.root())?;
        self.release(old.items.0.root())
    }
}

/// Writes a record to its slot, and looks whether it is there. If the disk has lost it, that is an error while what the
/// commit was made from, such as a WAL, is still there, and before another process goes on from the commit before.
#[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
fn put_record(disk: &impl Storage, slot: usize, record: &SlotBytes) -> Result<()> {
    disk.write_at(record, SLOT_OFFSETS[slot].0)?;
    if read_slots(disk)?[slot] == *record {
        return Ok(());
    }
    let why = "a commit was written and is not there: the disk has lost a write";
    Err(std::io::Error::other(why).into())
}

/// The slot for the commit after `last`: the last durable commit stays in its slot until this one is durable too.
fn slot_after(last: &Commit) -> usize {
    if last.durable {
        1 - last.slot
    } else {
        last.slot
    }
}

impl<D: Storage> Store<D> {
    /// Compacts or flushes if a commit leaves that to be done.
    fn follow_up(&mut self, record: &Record, shrunk: bool) -> Result<()> {
        let writer = &self.writer;
        let tolerated = if shrunk {
            (record.end.0 / 4).max(SHRUNK_MIN)
        } else {
            (record.end.0 / 5 * 2).max(COMPACT_MIN)
        };
        // When all is rewritten, that comes once, after the last commit of it.
        let is_due = writer.compaction.is_due() && !writer.rewriting;
        // Differences are besides what the file would take without them, as free space is. They leave less of it to a
        // commit that writes everything anew, so by that alone such a file would never be compacted.
        let held = (writer.newest.space()).map_or(0, Space::held_bytes);
        let free = record.free_bytes.saturating_sub(held);
        let loose = free.saturating_add(record.difference_bytes);
        if is_due && loose > tolerated {
            self.flush()?;
            // The transaction is safe already; what keeps a file from shrinking (a full disk, a damaged
            // page that is reported when it is read) must not make it fail.
            let _ = self.compact();
        }
        if self.writer.newest.unflushed_bytes() > UNFLUSHED_MAX || self.writer.eraser.wants_flush()
        {
            self.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::format::layout::RECORD_LEN;
    use crate::format::offset::FileOffset;
    use crate::testing::{first_byte, options, page};
    use litepack_io::testing::{Call, MemoryStorage, Watched};

    fn commit<D: Storage>(content: u8, store: &mut Store<D>) -> Result<()> {
        store.write(0, &page(content))?;
        store.commit()
    }

    /// With the commit before in its own slot, and with it in the same one, as it is not durable.
    #[test]
    fn a_record_that_the_disk_has_lost_is_an_error_at_once() {
        for is_durable in [true, false] {
            let disk = MemoryStorage::default();
            let (loses, lost) = (Cell::new(false), RefCell::new(None));
            let lying = Watched::new(&disk, |call| {
                match call {
                    Call::Write { offset, .. }
                        if loses.get() && SLOT_OFFSETS.contains(&FileOffset(offset)) =>
                    {
                        loses.set(false);
                        let at = usize::try_from(offset).unwrap();
                        let former = disk.snapshot()[at..at + RECORD_LEN].to_vec();
                        lost.replace(Some((offset, former)));
                    }
                    Call::Read { .. } => {
                        if let Some((offset, former)) = lost.take() {
                            disk.write_at(&former, offset)?;
                        }
                    }
                    _ => {}
                }
                Ok(())
            });
            let mut store = Store::open(&lying, options()).unwrap();
            commit(1, &mut store).unwrap();
            store.flush().unwrap();
            commit(2, &mut store).unwrap();
            if is_durable {
                store.flush().unwrap();
            }
            loses.set(true);
            let error = commit(3, &mut store).unwrap_err();
            assert!(matches!(error, Error::Io(_)), "{error}");
            let read_by_another = || first_byte(&mut Store::open(&disk, options()).unwrap());
            assert_eq!((first_byte(&mut store), read_by_another()), (2, 2));
            commit(3, &mut store).unwrap();
            store.flush().unwrap();
            assert_eq!((first_byte(&mut store), read_by_another()), (3, 3));
        }
    }

    /// A handle that has committed `to`, and the file as it was with `from`.
    fn gone_back(disk: &MemoryStorage, from: u8, to: u8) -> Store<&MemoryStorage> {
        let mut store = Store::open(disk, options()).unwrap();
        let mut image = Vec::new();
        for content in 1..=to {
            commit(content, &mut store).unwrap();
            store.flush().unwrap();
            if content == from {
                image = disk.snapshot();
            }
        }
        disk.truncate(0).unwrap();
        disk.write_at(&image, 0).unwrap();
        store
    }

    /// All of the file, with its marks, is as it was.
    #[test]
    fn a_commit_of_its_own_that_is_gone_is_damage_to_a_handle() {
        for from in 1..4 {
            let disk = MemoryStorage::default();
            let mut store = gone_back(&disk, from, 4);
            for _ in 0..2 {
                let error = store.refresh().unwrap_err();
                assert!(matches!(error, Error::Damaged(_)), "{error}");
                commit(5, &mut store).unwrap_err();
            }
            assert_eq!(
                first_byte(&mut Store::open(&disk, options()).unwrap()),
                from
            );
        }
    }

    /// Nor is what it has undone itself: `undo.rs`.
    #[test]
    fn it_is_not_missed_by_a_handle_that_had_no_lock_nor_in_another_file() {
        let disk = MemoryStorage::default();
        let mut store = gone_back(&disk, 2, 4);
        store.refresh_anew().unwrap();
        assert_eq!(first_byte(&mut store), 2);
        commit(5, &mut store).unwrap();
        store.flush().unwrap();
        let other = MemoryStorage::default();
        commit(6, &mut Store::open(&other, options()).unwrap()).unwrap();
        disk.truncate(0).unwrap();
        disk.write_at(&other.snapshot(), 0).unwrap();
        assert_eq!(first_byte(&mut store), 6);
    }
}
