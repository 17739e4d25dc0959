//! Giving space back: extents from the end of the file move into free space before it.
//!
//! Run when a commit has left two fifths of the file free, or a quarter because the database got shorter
//! (`VACUUM`, auto-vacuum). Bytes are copied as they are stored. These are ordinary commits, so a
//! crash at any point leaves the file at one of them.

use crate::error::Result;
use crate::format::layout::{DATA_START, Pointer};
use crate::format::leaf::{Entry, FANOUT};
use crate::format::node::Node;
use crate::maintenance::erase::Erase;
use crate::snapshot::recover::{Commit, verify_unit};
use crate::snapshot::store::Store;
use crate::transaction::commit::COMPACT_MIN;
use litepack_io::storage::Storage;

/// Room for what the moves themselves write, map nodes and the free-space link, in a file of which so much is used.
fn slack(used: u64) -> u64 {
    (used / 32).clamp(2 << 10, 16 << 10)
}

/// Room, as a part of what is used, for holes that nothing fits into: little where the free space is in
/// one piece. Where it is scattered a few extents find no hole then, and one at the end of the file is
/// enough to keep all of it, so they are tried again with more room.
const ROOM: [u64; 4] = [64, 32, 16, 8];
/// Moved bytes that may wait in memory.
const QUEUED_MAX: u64 = 4 << 20;

/// Bytes that a step of maintenance moves, and the share of the file that may stay free.
const MOVED_PER_STEP: u64 = 512 << 10;
const FREE_SHARE: u64 = 50;

/// The share of a file that may stay free when all of it was written anew, and a few bytes.
const LOOSE: u64 = 20;
const LOOSE_MIN: u64 = 2 << 10;

/// What a pass over the map's leaves did.
struct Moved {
    /// The leaf to go on with; `None` at the end.
    next: Option<u64>,
    /// Nothing that should have moved had to stay.
    all_moved: bool,
}

impl<D: Storage> Store<D> {
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
        self.verify_map()?;
        let mut at = 0;
        while let Some(next) = self.compact_step(at, u64::MAX)? {
            at = next;
        }
        // What was moved away from is the end of the file now; this commit gives it back.
        self.guarded(Self::begin)?;
        self.commit_and_flush()?;
        self.cut()
    }

    /// Whether the whole database is being written anew, as far as it is not committed yet.
    pub fn set_anew(&mut self, anew: bool) {
        self.writer.anew = anew;
    }

    /// To be called when the whole database was written anew: makes it durable, gives back what is free of the file, and
    /// overwrites what little cannot be given back, so that nothing of the former content is left.
    ///
    /// # Errors
    /// As [`Store::flush`]. What comes after that cannot make the commit fail: the file is as large as it was then.
    pub fn tidy(&mut self) -> Result<()> {
        self.flush()?;
        if self.writer.space.is_some() {
            self.writer.compacting = true;
            let _ = self.try_tidy();
            self.writer.compacting = false;
        }
        Ok(())
    }

    fn try_tidy(&mut self) -> Result<()> {
        if self.erase() == Erase::WithCommit {
            self.drop_unused_dictionaries(&[])?;
            self.commit_and_flush()?;
        }
        let free = |store: &Self| store.commit.map_or(0, |commit| commit.record.free_bytes);
        let end = |store: &Self| store.commit.map_or(0, |commit| commit.record.end);
        if free(self) > end(self) / LOOSE + LOOSE_MIN {
            self.try_compact()?;
        }
        // Where free space was in pieces that nothing fits into.
        if free(self) > end(self) / LOOSE + LOOSE_MIN {
            let mut at = self.arrange()?;
            while let Some(next) = at {
                at = self.arrange_some(next)?;
                self.writer.compacting = true;
            }
            self.try_compact()?;
        }
        self.cut()?;
        self.erase_all()
    }

    pub(crate) fn commit_and_flush(&mut self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    /// A step of compaction that moves little: the first, if `from` is 0. Returns where to go on; `None` if
    /// there is nothing left to move, or nothing free enough to bother. What was moved away from is given back by
    /// the next commit.
    ///
    /// # Errors
    /// The last commit is current again.
    pub fn compact_some(&mut self, from: u64) -> Result<Option<u64>> {
        let free = |Commit { record, .. }: Commit| {
            record.free_bytes > (record.end / FREE_SHARE).max(COMPACT_MIN)
        };
        if !self.commit.is_some_and(free) {
            return Ok(None);
        }
        self.writer.compacting = true;
        let next = self.compact_step(from, MOVED_PER_STEP);
        self.writer.compacting = false;
        next
    }

    /// Moves extents until about so many bytes have moved: in a pass over all leaves of the map, and in another
    /// one with more room if something had to stay. `from` and the result count leaves of both passes.
    fn compact_step(&mut self, from: u64, most: u64) -> Result<Option<u64>> {
        let leaves = self.leaves().max(1);
        let (pass, leaf) = (from / leaves, from % leaves);
        let Some(room) = ROOM.get(pass as usize) else {
            return Ok(None);
        };
        let moved = self.guarded(|store| store.move_down(*room, leaf, most))?;
        self.commit_and_flush()?;
        Ok(match moved.next {
            Some(leaf) => Some(pass * leaves + leaf),
            None if !moved.all_moved && pass + 1 < ROOM.len() as u64 => Some((pass + 1) * leaves),
            None => {
                self.guarded(Self::move_rest)?;
                self.commit_and_flush()?;
                None
            }
        })
    }

    /// Moves extents of the leaves from `from` on, until so many bytes have moved.
    fn move_down(&mut self, room: u64, from: u64, most: u64) -> Result<Moved> {
        self.begin()?;
        let space = self.writer.space();
        let used = space.end() - space.free_bytes();
        let limit = used + used / room + slack(used);
        space.set_aside(limit..u64::MAX)?;
        // A dictionary that no hole is large enough for comes last, behind all that has moved down.
        let left = self.move_dictionaries(limit)?;
        let limit = limit.saturating_sub(left).max(DATA_START);
        self.writer.space().set_aside(limit..u64::MAX)?;
        let (mut queued, mut moved, mut all_moved) = (0, 0, true);
        let mut next = from;
        while let Some(leaf) = self.next_leaf(next)? {
            next = leaf + 1;
            if moved >= most {
                self.write_queue()?;
                return Ok(Moved {
                    next: Some(leaf),
                    all_moved,
                });
            }
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
                self.move_unit(leaf * FANOUT as u64 + index as u64, &entry, offset)?;
                queued += u64::from(entry.len);
                moved += u64::from(entry.len);
            }
            if queued > QUEUED_MAX {
                self.write_level(0)?;
                self.write_queue()?;
                queued = 0;
            }
        }
        self.write_queue()?;
        self.touch_nodes(0, |place| place.offset + u64::from(place.len) > limit)?;
        self.touch_catalog_above(limit);
        Ok(Moved {
            next: None,
            all_moved,
        })
    }

    /// Copies a unit as it is stored to `offset`, which has been taken for it.
    pub(crate) fn move_unit(&mut self, unit: u64, entry: &Entry, offset: u64) -> Result<()> {
        let mut stored = Vec::new();
        verify_unit(&self.medium, entry, &mut stored)?;
        self.writer.queue.push(offset, &stored)?;
        self.set_entry(unit, Entry { offset, ..*entry })
    }

    /// The lowest index from `from` on of a leaf of the map that is stored.
    pub(crate) fn next_leaf(&self, from: u64) -> Result<Option<u64>> {
        let next = self.map.next(0, from, &self.medium)?;
        Ok(next.filter(|leaf| *leaf < self.leaves()))
    }

    /// Leaves of the map, empty ones included.
    pub(crate) fn leaves(&self) -> u64 {
        let per_leaf = u64::from(self.unit_size) * FANOUT as u64;
        self.size.div_ceil(per_leaf)
    }

    /// Where the nodes of a level of the map are, with their indexes: those that are stored and have not changed.
    pub(crate) fn places(&self, level: u8) -> impl Iterator<Item = Result<(u64, Pointer)>> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let index = match self.map.next(level, from, &self.medium).transpose()? {
                    Ok(index) => index,
                    Err(error) => return Some(Err(error)),
                };
                from = index + 1;
                match self.map.place_of(level, index, &self.medium).transpose() {
                    Some(place) => return Some(place.map(|place| (index, place))),
                    None => continue,
                }
            }
        })
    }

    /// Marks map nodes of a level and those above for rewriting, where `chosen` says so of their places; their
    /// parents follow by themselves.
    pub(crate) fn touch_nodes(
        &mut self,
        lowest: u8,
        chosen: impl Fn(Pointer) -> bool,
    ) -> Result<()> {
        for level in lowest..self.map.height() {
            let mut from = 0;
            while let Some(index) = self.map.next(level, from, &self.medium)? {
                from = index + 1;
                self.touch_node(level, index, &chosen)?;
            }
            if self.map.changed_leaves() > crate::transaction::write::LEAVES_MAX {
                self.write_level(0)?;
                self.write_queue()?;
            }
        }
        Ok(())
    }

    /// The same for one node.
    pub(crate) fn touch_node(
        &mut self,
        level: u8,
        index: u64,
        chosen: impl Fn(Pointer) -> bool,
    ) -> Result<()> {
        if level < self.map.height()
            && let Some(place) = self.map.place_of(level, index, &self.medium)?
            && chosen(place)
        {
            self.map.touch(level, index, &self.medium)?;
        }
        Ok(())
    }

    /// Moves dictionaries that lie above `limit` into holes. Returns the bytes of those that none is large enough
    /// for.
    pub(crate) fn move_dictionaries(&mut self, limit: u64) -> Result<u64> {
        let mut left = 0;
        let pointers: Vec<_> = self.catalog.pointers().collect();
        for pointer in pointers {
            if pointer.offset + u64::from(pointer.len) <= limit {
                continue;
            }
            let Some(offset) = self.writer.space().alloc_within(pointer.len.into())? else {
                left += u64::from(pointer.len);
                continue;
            };
            let bytes = self.medium.extent(pointer, "dictionary")?;
            self.writer.queue.push(offset, &bytes)?;
            self.catalog.moved(pointer, Pointer { offset, ..pointer });
            self.writer
                .release_content(pointer.offset, pointer.len.into())?;
            self.writer.txn().catalog_changed = true;
        }
        self.write_queue()?;
        Ok(left)
    }

    /// Moves down what had to stay while units moved: dictionaries that no hole was large enough for, and the
    /// chain of free space, which is long while the space is in many pieces.
    fn move_rest(&mut self) -> Result<()> {
        self.begin()?;
        let space = self.writer.space();
        let used = space.end() - space.free_bytes();
        let above = self.catalog.pointers().filter(|at| at.offset >= used);
        let room: u64 = above.map(|at| u64::from(at.len)).sum();
        let space = self.writer.space();
        let room = room + space.snapshot_room() + slack(used);
        let Some(lowest) = space.first_fit(0, room, u64::MAX) else {
            return Ok(());
        };
        space.set_aside(lowest + room..u64::MAX)?;
        let limit = lowest + room;
        self.move_dictionaries(limit)?;
        self.touch_nodes(0, |place| place.offset + u64::from(place.len) > limit)?;
        self.touch_catalog_above(limit);
        Ok(())
    }

    pub(crate) fn touch_catalog_above(&mut self, limit: u64) {
        let catalog = self.commit.map(|commit| commit.record.catalog);
        if catalog.is_some_and(|at| !at.is_none() && at.offset + u64::from(at.len) > limit) {
            self.writer.txn().catalog_changed = true;
        }
    }
}
