//! Reordering: maintenance makes the extents of a scattered file contiguous, in the order of the database, then items by
//! their numbers. Nothing
//! between them stays free, the page map is shorter where an extent follows the one before, and a scan reads the file
//! from front to back.
//!
//! It goes window by window: all extents in a window of the file move out of it, then the next extents in order move
//! in. If no other handle writes the file, an extent is written twice at most, and the file is longer by a window
//! meanwhile. The page map comes last, in one piece behind the data. Where others have put something into a window in
//! the meantime, that stays, and what is next goes behind it.

use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::layout::{DATA_START, Pointer};
use crate::format::leaf::Leaf;
use crate::format::node::{Node, TreeKind};
use crate::format::offset::FileOffset;
use crate::format::record::Record;
use crate::format::unit::Unit;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;

/// Worth doing if it saves one part in [`WORTHWHILE`] of the file, and [`GAIN_MIN`] bytes.
const WORTHWHILE: u64 = 50;
const GAIN_MIN: u64 = 8 << 10;
/// Windows in a file: the fewer there are, the fewer times the map is gone through.
const WINDOWS: u64 = 64;
const WINDOW_MIN: u64 = 64 << 10;
const WINDOW_MAX: u64 = 256 << 20;
/// Bytes that a step moves.
const MOVED_PER_STEP: u64 = 512 << 10;
/// Map nodes that a step gives new places.
const NODES_PER_STEP: u64 = 1024;

/// How far reordering is. Holds for any later commit: other writers only make the result a little larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reordering {
    /// The file is in order up to this offset,
    to: FileOffset,
    /// and the units before this one are in it, or all units, and items before this place of the item tree.
    tree: TreeKind,
    unit: Unit,
    /// The end of the window.
    window: FileOffset,
    next: Next,
}

/// The next part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Move out of the window what the leaves of the tree from this one on have in it.
    Clear(TreeKind, u64),
    /// Move the next units into it.
    Fill,
    /// Move leaves from this one on, and other nodes, out of the place where the map will be.
    ClearForMap(u64),
    /// Write the map there from this leaf on.
    Map(u64),
}

impl<D: Storage> Store<D> {
    /// Begins to reorder the file; `None` if that would not make it much smaller. Pending changes are committed first.
    ///
    /// # Errors
    /// As [`Store::commit`], and when the page map cannot be read.
    pub fn reorder(&mut self) -> Result<Option<Reordering>> {
        self.commit()?;
        let Some(record) = self.snapshot().commit().map(|commit| commit.record) else {
            return Ok(None);
        };
        let (gain, first) = self.disorder(&record)?;
        // Pages that it moves would take their space twice while it is held for others.
        let worthwhile = gain > (record.end.0 / WORTHWHILE).max(GAIN_MIN) && !self.is_held()?;
        Ok(worthwhile.then_some(Reordering {
            to: first,
            tree: TreeKind::Map,
            unit: Unit::FIRST,
            window: first,
            next: Next::Fill,
        }))
    }

    /// The bytes that are free, or that the page map would not need if all were in order; and where the first extent is.
    pub(super) fn disorder(&self, record: &Record) -> Result<(u64, FileOffset)> {
        let (mut gain, mut first) = (self.loose_bytes(record)?, record.end);
        let (image, medium) = (self.image(), self.snapshot().medium());
        let (mut encoded, mut in_order) = (Vec::new(), Vec::new());
        for kind in [TreeKind::Map, TreeKind::Items] {
            let mut next = 0;
            while let Some(leaf) = image.next_leaf(kind, next, medium)? {
                next = leaf + 1;
                let Some(node) = image.leaf(kind, leaf, medium)? else {
                    continue;
                };
                let Node::Leaf(entries) = &*node else {
                    continue;
                };
                let extents = entries.iter().flat_map(|entry| entry.extents());
                let lowest = extents.map(|extent| extent.offset).min();
                first = first.min(lowest.unwrap_or(first));
                encoded.clear();
                node.encode(&mut encoded);
                in_order.clear();
                let from = lowest.unwrap_or(DATA_START);
                Node::Leaf(ideal(entries, from)).encode(&mut in_order);
                gain += (encoded.len() as u64).saturating_sub(in_order.len() as u64);
            }
        }
        Ok((gain, first))
    }

    /// Goes on for a step, and makes it durable. `None` at the end, and when a log stands on the file by now; what is left
    /// free then is for [`Store::compact_some`]. Pending changes are committed first.
    ///
    /// # Errors
    /// The last commit is current again.
    pub fn reorder_some(&mut self, at: Reordering) -> Result<Option<Reordering>> {
        self.commit()?;
        if self.is_held()? {
            return Ok(None);
        }
        self.writer().compaction.begin();
        let next = self.step(|transaction| transaction.reorder_step(at));
        let next = next.and_then(|next| self.commit_and_flush().map(|()| next));
        self.writer().compaction.end();
        next
    }
}

/// The leaf as it would be if its extents lay side by side from `offset` on.
fn ideal(leaf: &Leaf, mut offset: FileOffset) -> Leaf {
    let mut ideal = Leaf::empty();
    for (slot, entry) in leaf.iter().enumerate() {
        let mut placed = entry;
        for extent in entry.extents() {
            placed = placed.moved(&extent, offset);
            offset += u64::from(extent.len);
        }
        ideal.set(slot, placed);
    }
    ideal
}

impl<D: Storage> Transaction<'_, D> {
    fn reorder_step(&mut self, at: Reordering) -> Result<Option<Reordering>> {
        match at.next {
            Next::Clear(kind, leaf) => self.clear(at, kind, leaf).map(Some),
            Next::Fill => self.fill(at).map(Some),
            Next::ClearForMap(from) => self.clear_for_map(at, from).map(Some),
            Next::Map(from) => self.write_map(at, from),
        }
    }

    /// Moves out of the window what is in it.
    fn clear(&mut self, at: Reordering, kind: TreeKind, from: u64) -> Result<Reordering> {
        let window = at.to..at.window;
        self.space().set_aside(window.clone())?;
        let mut moved = 0;
        let mut after = from;
        while let Some(leaf) = self.next_leaf(kind, after)? {
            after = leaf + 1;
            if moved >= MOVED_PER_STEP {
                let next = Next::Clear(kind, leaf);
                return Ok(Reordering { next, ..at });
            }
            let Some(node) = self.leaf(kind, leaf)? else {
                continue;
            };
            let Node::Leaf(entries) = &*node else {
                continue;
            };
            for (place, entry) in Unit::first_in(leaf).onwards().zip(entries.iter()) {
                let mut entry = entry;
                for extent in entry.extents() {
                    if extent.end() <= window.start || extent.offset >= window.end {
                        continue;
                    }
                    let offset = self.space().alloc(extent.len.into())?;
                    entry = self.move_extent(kind, place, entry, &extent, offset)?;
                    moved += u64::from(extent.len);
                }
            }
            self.write_many_leaves()?;
        }
        if kind == TreeKind::Map && !self.image().items.is_empty() {
            let next = Next::Clear(TreeKind::Items, 0);
            return Ok(Reordering { next, ..at });
        }
        self.touch_nodes(0, |place| window.contains(&place.offset))?;
        let next = Next::Fill;
        Ok(Reordering { next, ..at })
    }

    /// Moves the next units, and after all of them the next items, into the window, until it is full.
    fn fill(&mut self, mut at: Reordering) -> Result<Reordering> {
        let mut moved = 0;
        let end = self.space().end().0;
        let mut after = at.unit.leaf();
        let mut is_done = false;
        'units: loop {
            let Some(leaf) = self.next_leaf(at.tree, after)? else {
                is_done = at.tree == TreeKind::Items || self.image().items.is_empty();
                if is_done {
                    break;
                }
                (at.tree, at.unit, after) = (TreeKind::Items, Unit::FIRST, 0);
                continue;
            };
            after = leaf + 1;
            let node = self.leaf(at.tree, leaf)?;
            let entries = match node.as_deref() {
                Some(Node::Leaf(entries)) => Some(entries.iter()),
                _ => None,
            };
            let units = Unit::first_in(leaf).onwards();
            for (unit, entry) in units.zip(entries.into_iter().flatten()) {
                if unit < at.unit {
                    continue;
                }
                at.unit = unit;
                let mut entry = entry;
                for extent in entry.extents() {
                    let len = u64::from(extent.len);
                    if extent.offset < at.to {
                        continue;
                    }
                    if extent.offset == at.to {
                        at.to += len;
                        continue;
                    }
                    let Some(offset) = self.space().first_fit(at.to, len, at.window) else {
                        let window = (end / WINDOWS).clamp(WINDOW_MIN, WINDOW_MAX);
                        at.window = at.to.max(at.window) + window;
                        at.next = Next::Clear(TreeKind::Map, 0);
                        break 'units;
                    };
                    if moved >= MOVED_PER_STEP {
                        break 'units;
                    }
                    self.space().take(offset, len)?;
                    entry = self.move_extent(at.tree, unit, entry, &extent, offset)?;
                    at.to = offset + len;
                    moved += len;
                }
            }
            at.unit = Unit::first_in(leaf + 1);
            self.write_many_leaves()?;
        }
        // The other extents of the commit go elsewhere.
        self.space().set_aside(at.to..at.window)?;
        if is_done {
            let mut after = self.space().snapshot_room();
            for kind in [TreeKind::Map, TreeKind::Items] {
                for level in 0..self.image().tree(kind).height() {
                    for found in self.image().places(kind, level, self.medium()) {
                        after += u64::from(found?.1.len);
                    }
                }
            }
            let dictionaries = self.image().catalog.pointers();
            let behind = dictionaries.filter(|place| place.offset >= at.to);
            after += behind.map(|place| u64::from(place.len)).sum::<u64>();
            at.window = at.to + after;
            at.next = Next::ClearForMap(0);
        }
        Ok(at)
    }

    /// Moves nodes out of the place for the map and the item tree.
    fn clear_for_map(&mut self, at: Reordering, from: u64) -> Result<Reordering> {
        let window = at.to..at.window;
        self.space().set_aside(window.clone())?;
        let left = self.touch_some(from, |place| window.contains(&place.offset))?;
        let next = left.map_or(Next::Map(0), Next::ClearForMap);
        Ok(Reordering { next, ..at })
    }

    /// Writes the map, and what else there is, right behind the data.
    fn write_map(&mut self, at: Reordering, from: u64) -> Result<Option<Reordering>> {
        self.space().set_aside(at.window..FileOffset::MAX)?;
        if let Some(leaf) = self.touch_some(from, |_| true)? {
            let next = Next::Map(leaf);
            return Ok(Some(Reordering { next, ..at }));
        }
        self.move_dictionaries(at.window)?;
        self.touch_catalog_above(at.to);
        Ok(None)
    }

    /// Marks some leaves from this one on for rewriting, where `chosen` says so of their places, and after the last
    /// the nodes above them and those of the item tree. Returns the leaf to go on with.
    fn touch_some(&mut self, from: u64, chosen: impl Fn(Pointer) -> bool) -> Result<Option<u64>> {
        let mut next = from;
        for _ in 0..NODES_PER_STEP {
            let Some(leaf) = self.next_leaf(TreeKind::Map, next)? else {
                break;
            };
            next = leaf + 1;
            self.touch_node(TreeKind::Map, 0, leaf, &chosen)?;
        }
        if let Some(leaf) = self.next_leaf(TreeKind::Map, next)? {
            return Ok(Some(leaf));
        }
        self.touch_nodes(1, &chosen)?;
        Ok(None)
    }
}
