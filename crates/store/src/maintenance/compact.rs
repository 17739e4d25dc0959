//! Compaction: extents from the end of the file move into free space before it, and the file is cut.
//!
//! Run when a commit has left two fifths of the file free, or a quarter because the database got shorter
//! (`VACUUM`, auto-vacuum). Bytes are copied as they are stored. These are ordinary commits, so a
//! crash at any point leaves the file at one of them.

use litepack_io::fixed;
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::basis::Item;
use crate::format::guard::Kind;
use crate::format::layout::{DATA_START, Pointer};
use crate::format::leaf::{Entry, Extent};
use crate::format::node::{Node, TreeKind};
use crate::format::offset::FileOffset;
use crate::format::unit::Unit;
use crate::snapshot::item_tree::number_at;
use crate::snapshot::recover::Commit;
use crate::space::erase::Erase;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;
use crate::transaction::write::LEAVES_MAX;

/// Room for what the moves themselves write (map nodes and the free-space link) in a file of `used` bytes.
fn slack(used: u64) -> u64 {
    (used / 32).clamp(2 << 10, 16 << 10)
}

/// Room, as a part of what is used, for holes that nothing fits into: little where the free space is in
/// one piece. Where it is scattered a few extents find no hole then, and one at the end of the file is
/// enough to keep all of it, so they are tried again with more room.
const ROOM: [u64; 4] = [64, 32, 16, 8];
/// Moved bytes that may wait in memory.
const QUEUED_MAX: usize = 4 << 20;

/// Bytes that a step of maintenance moves, and the share of the file that may stay free.
const MOVED_PER_STEP: u64 = 512 << 10;
const FREE_SHARE: u64 = 50;
/// Free bytes that are not worth a step: as many as one may leave ([`slack`]).
const FREE_MIN: u64 = 16 << 10;

/// The share of a file that may stay free when all of it was rewritten, and a few bytes.
const LOOSE: u64 = 20;
const LOOSE_MIN: u64 = 2 << 10;

/// The extents that a step has moved, in bytes.
#[derive(Default)]
struct Moving {
    /// Bytes that wait in memory, and all that were moved.
    queued: u64,
    moved: u64,
    /// Something should have moved, and found no room.
    some_stayed: bool,
}

/// Where a leaf comes in a pass: those of the item tree behind those of the map.
fn position(kind: TreeKind, leaf: u64, leaves: u64) -> u64 {
    match kind {
        TreeKind::Map => leaf,
        TreeKind::Items => leaves + leaf,
    }
}

/// The result of a pass over the leaves of map and item tree.
struct Moved {
    /// The leaf to go on with; `None` at the end.
    next: Option<u64>,
    /// Nothing that should have moved had to stay.
    all_moved: bool,
}

impl<D: Storage> Store<D> {
    /// Moves extents at the end of the file into the free space before it and cuts the file. The
    /// newest commit must be durable. When it fails, the file stays as large as it was.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.writer().compaction.begin();
        let result = self.try_compact();
        self.writer().compaction.end();
        // Extents it could not move now it cannot move at the next commit either: wait for enough to change.
        let end = self
            .snapshot()
            .commit()
            .map_or(0, |commit| commit.record.end.0);
        self.writer().compaction.wait_for(end / 2);
        result
    }

    fn try_compact(&mut self) -> Result<()> {
        self.verify_map()?;
        let mut at = 0;
        while let Some(next) = self.compact_step(at, u64::MAX)? {
            at = next;
        }
        // The end of the file is free now; this commit gives it back.
        self.begin()?.suspend();
        self.commit_and_flush()?;
        self.give_back();
        Ok(())
    }

    /// To be called when the whole database was rewritten: makes it durable, gives free space back, and overwrites the
    /// little that cannot be given back, so that nothing of the former content is left.
    ///
    /// # Errors
    /// As [`Store::flush`]. Later steps cannot make the commit fail: the file then stays as large as it was.
    pub fn tidy(&mut self) -> Result<()> {
        // Others may use by now what this handle knows as free.
        self.refresh()?;
        self.flush()?;
        if self.writer().knows_space() {
            self.writer().compaction.begin();
            let _ = self.try_tidy();
            self.writer().compaction.end();
        }
        Ok(())
    }

    fn try_tidy(&mut self) -> Result<()> {
        if self.erase() == Erase::WithCommit {
            self.drop_unused_dictionaries(&[])?;
            self.commit_and_flush()?;
        }
        let free = |store: &Self| match store.snapshot().commit() {
            Some(commit) => store.loose_bytes(&commit.record),
            None => Ok(0),
        };
        let end = |store: &Self| {
            store
                .snapshot()
                .commit()
                .map_or(0, |commit| commit.record.end.0)
        };
        if free(self)? > end(self) / LOOSE + LOOSE_MIN {
            self.try_compact()?;
        }
        // Where free space was in pieces that nothing fits into.
        if free(self)? > end(self) / LOOSE + LOOSE_MIN {
            let mut at = self.reorder()?;
            while let Some(next) = at {
                at = self.reorder_some(next)?;
                self.writer().compaction.begin();
            }
            self.try_compact()?;
        }
        self.give_back();
        self.erase_all()
    }

    pub(crate) fn commit_and_flush(&mut self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    /// Whether the file would be shorter than it is, if its pages and dictionaries took so many bytes less and what is free
    /// were given back, as far as [`Store::compact_fully`] does that. What is held for others is not given back.
    ///
    /// # Errors
    /// When the page map cannot be read.
    pub fn would_be_shorter(&mut self, saved: i64) -> Result<bool> {
        let Some(record) = self.snapshot().commit().map(|commit| commit.record) else {
            return Ok(false);
        };
        let (gained, _) = self.disorder(&record)?;
        let gained = i64::try_from(gained).unwrap_or(i64::MAX);
        let used = record.end.0.saturating_sub(record.free_bytes);
        let left = i64::try_from(used / ROOM[0] + slack(used)).unwrap_or(i64::MAX);
        Ok(gained.saturating_add(saved) > left)
    }

    /// Compacts as far as that goes, in one call. Commits.
    ///
    /// # Errors
    /// The last commit is current again.
    pub fn compact_fully(&mut self) -> Result<()> {
        self.commit()?;
        self.writer().compaction.begin();
        let result = self.try_compact();
        self.writer().compaction.end();
        result
    }

    /// The bytes of the file.
    pub fn end(&self) -> u64 {
        let commit = self.snapshot().commit();
        commit.map_or(0, |commit| commit.record.end.0)
    }

    /// A step of compaction that moves little: the first, if `from` is 0. Returns where to go on; `None` if there is
    /// nothing left to move, or nothing free enough to bother. The next commit gives back the places of moved extents.
    /// Pending changes are committed first.
    ///
    /// # Errors
    /// The last commit is current again.
    pub fn compact_some(&mut self, from: u64) -> Result<Option<u64>> {
        self.commit()?;
        let Some(Commit { record, .. }) = self.snapshot().commit() else {
            return Ok(None);
        };
        if self.loose_bytes(&record)? <= (record.end.0 / FREE_SHARE).max(FREE_MIN) {
            return Ok(None);
        }
        self.writer().compaction.begin();
        let next = self.compact_step(from, MOVED_PER_STEP);
        self.writer().compaction.end();
        next
    }

    /// Moves extents until about so many bytes have moved: in a pass over all leaves of the map, and in another
    /// one with more room if something had to stay. `from` and the result count leaves of both passes.
    fn compact_step(&mut self, from: u64, most: u64) -> Result<Option<u64>> {
        let leaves = self.image().leaves().max(1) + self.image().item_leaves();
        let (pass, leaf) = (from / leaves, from % leaves);
        let room = usize::try_from(pass).ok().and_then(|pass| ROOM.get(pass));
        let Some(room) = room else {
            return Ok(None);
        };
        let moved = self.step(|transaction| transaction.move_down(*room, leaf, most))?;
        self.commit_and_flush()?;
        Ok(match moved.next {
            Some(leaf) => Some(pass * leaves + leaf),
            None if !moved.all_moved && pass + 1 < ROOM.len() as u64 => Some((pass + 1) * leaves),
            None => {
                self.step(|transaction| transaction.move_rest())?;
                self.commit_and_flush()?;
                None
            }
        })
    }
}

impl<D: Storage> Transaction<'_, D> {
    /// Moves extents of the leaves from `from` on, until so many bytes have moved.
    fn move_down(&mut self, room: u64, from: u64, most: u64) -> Result<Moved> {
        let space = self.space();
        let used = space.used_bytes();
        let limit = FileOffset(used + used / room + slack(used));
        space.set_aside(limit..FileOffset::MAX)?;
        // A dictionary that no hole is large enough for comes last, behind all that has moved down.
        let left = self.move_dictionaries(limit)?;
        let limit = limit.saturating_sub(left).max(DATA_START);
        self.space().set_aside(limit..FileOffset::MAX)?;
        // Leaves of the item tree come behind those of the map.
        let leaves = self.image().leaves().max(1);
        let mut done = Moving::default();
        let mut next = from;
        while let Some((kind, leaf)) = self.next_of_both(leaves, next)? {
            next = position(kind, leaf, leaves) + 1;
            if done.moved >= most {
                self.write_queue()?;
                return Ok(Moved {
                    next: Some(next - 1),
                    all_moved: !done.some_stayed,
                });
            }
            self.move_leaf_down(kind, leaf, limit, &mut done)?;
            if done.queued > fixed::part(QUEUED_MAX) as u64 {
                self.write_level(kind, 0, ..)?;
                self.write_queue()?;
                done.queued = 0;
            }
            self.write_many_leaves()?;
        }
        self.write_queue()?;
        self.touch_nodes(0, |place| place.end() > limit)?;
        self.touch_catalog_above(limit);
        Ok(Moved {
            next: None,
            all_moved: !done.some_stayed,
        })
    }

    /// Moves the extents of a leaf that end behind `limit` into free space before it.
    fn move_leaf_down(
        &mut self,
        kind: TreeKind,
        leaf: u64,
        limit: FileOffset,
        done: &mut Moving,
    ) -> Result<()> {
        let Some(node) = self.leaf(kind, leaf)? else {
            return Ok(());
        };
        let Node::Leaf(entries) = &*node else {
            return Ok(());
        };
        for (place, entry) in Unit::first_in(leaf).onwards().zip(entries.iter()) {
            let mut entry = entry;
            for extent in entry.extents() {
                if extent.end() <= limit {
                    continue;
                }
                let Some(offset) = self.space().alloc_within(extent.len.into())? else {
                    done.some_stayed = true;
                    continue;
                };
                entry = self.move_extent(kind, place, entry, &extent, offset)?;
                done.queued += u64::from(extent.len);
                done.moved += u64::from(extent.len);
            }
        }
        Ok(())
    }

    /// The next leaf that is stored, of the map or else of the item tree, from a position on that counts the leaves of
    /// both.
    fn next_of_both(&self, leaves: u64, from: u64) -> Result<Option<(TreeKind, u64)>> {
        if from < leaves
            && let Some(leaf) = self.next_leaf(TreeKind::Map, from)?
        {
            return Ok(Some((TreeKind::Map, leaf)));
        }
        let item = self.next_leaf(TreeKind::Items, from.saturating_sub(leaves))?;
        Ok(item.map(|leaf| (TreeKind::Items, leaf)))
    }

    /// Copies an extent of a unit, or of an item, as it is stored to `offset`, which has been taken for it. Returns the
    /// entry as it is then.
    pub(crate) fn move_extent(
        &mut self,
        kind: TreeKind,
        place: Unit,
        entry: Entry,
        extent: &Extent,
        offset: FileOffset,
    ) -> Result<Entry> {
        let mut stored = Vec::new();
        self.medium().stored_unit(extent, &mut stored)?;
        self.queue(offset, &stored)?;
        let moved = entry.moved(extent, offset);
        match (kind, number_at(place), Item::of(&entry)) {
            (TreeKind::Map, ..) => {
                let mut room = stored;
                litepack_io::memory::resize(&mut room, self.image().unit_size as usize)?;
                self.move_page(place, moved, &mut room)?;
            }
            (TreeKind::Items, Some(number), Some(item)) => {
                self.item_moved(number, &item, offset)?;
            }
            // A leaf of items has no other entries.
            (TreeKind::Items, ..) => {}
        }
        Ok(moved)
    }

    /// Marks nodes for rewriting, where `chosen` says so of their places: those of the map of a level and above, and all
    /// of the item tree. Their parents follow by themselves.
    pub(crate) fn touch_nodes(
        &mut self,
        lowest: u8,
        chosen: impl Fn(Pointer) -> bool,
    ) -> Result<()> {
        for (kind, lowest) in [(TreeKind::Map, lowest), (TreeKind::Items, 0)] {
            for level in lowest..self.image().tree(kind).height() {
                let mut from = 0;
                while let Some(index) = self.image().tree(kind).next(level, from, self.medium())? {
                    from = index + 1;
                    self.touch_node(kind, level, index, &chosen)?;
                    self.write_many_leaves()?;
                }
            }
        }
        Ok(())
    }

    /// Writes the changed leaves if they are many. In a stranger's file one node can stand for any number of leaves, so
    /// it has to be asked after each.
    pub(crate) fn write_many_leaves(&mut self) -> Result<()> {
        for kind in [TreeKind::Map, TreeKind::Items] {
            if self.image().tree(kind).changed_leaves() > fixed::part(LEAVES_MAX) {
                self.write_level(kind, 0, ..)?;
                self.write_queue()?;
            }
        }
        Ok(())
    }

    /// Moves dictionaries that lie above `limit` into holes. Returns the bytes of those that none is large enough
    /// for.
    pub(crate) fn move_dictionaries(&mut self, limit: FileOffset) -> Result<u64> {
        let mut left = 0;
        let pointers: Vec<_> = self.image().catalog.pointers().collect();
        for pointer in pointers {
            if pointer.end() <= limit {
                continue;
            }
            let Some(offset) = self.space().alloc_within(pointer.len.into())? else {
                left += u64::from(pointer.len);
                continue;
            };
            let bytes = self.medium().stored_extent(pointer, Kind::Dictionary)?;
            self.queue(offset, &bytes)?;
            self.change_catalog()
                .moved(pointer, Pointer { offset, ..pointer });
            self.release_content(pointer.offset, pointer.len.into())?;
        }
        self.write_queue()?;
        Ok(left)
    }

    /// Moves down what had to stay while units moved: dictionaries that no hole was large enough for, and the
    /// chain of free space, which is long while the space is in many pieces.
    fn move_rest(&mut self) -> Result<()> {
        let used = self.space().used_bytes();
        let above = self
            .image()
            .catalog
            .pointers()
            .filter(|at| at.offset >= FileOffset(used));
        let room: u64 = above.map(|at| u64::from(at.len)).sum();
        let space = self.space();
        let room = room + space.snapshot_room() + slack(used);
        let Some(lowest) = space.first_fit(FileOffset::START, room, FileOffset::MAX) else {
            return Ok(());
        };
        let limit = lowest + room;
        space.set_aside(limit..FileOffset::MAX)?;
        self.move_dictionaries(limit)?;
        self.touch_nodes(0, |place| place.end() > limit)?;
        self.touch_catalog_above(limit);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use litepack_io::storage::ReadAt;
    use litepack_io::testing::MemoryStorage;

    use super::*;
    use crate::format::leaf::FANOUT;
    use crate::options::Options;

    #[test]
    fn leaves_that_are_touched_do_not_pile_up_in_memory() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, Options::default()).unwrap();
        let leaves = LEAVES_MAX as u64 + 100;
        for leaf in 0..leaves {
            store
                .write(leaf * FANOUT as u64 * 4096, &[1; 4096])
                .unwrap();
        }
        store.flush().unwrap();
        let before = ReadAt::len(&&disk).unwrap();
        let (touched, written) = (Cell::new(0), Cell::new(false));
        let chosen = |_| {
            touched.set(touched.get() + 1);
            if touched.get() == leaves {
                written.set(ReadAt::len(&&disk).unwrap() > before);
            }
            true
        };
        store
            .step(|transaction| transaction.touch_nodes(0, chosen))
            .unwrap();
        assert!(touched.get() > leaves);
        assert!(written.get(), "all of them were held");
        store.flush().unwrap();
    }
}
