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
use crate::snapshot::recover::Commit;
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
        let written = self.medium().disk.write_at(&bytes, SLOT_OFFSETS[slot].0);
        let space = &mut self.changes.space;
        let published = written.map_err(Error::from);
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
