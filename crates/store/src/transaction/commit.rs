//! Publishing a transaction, and making it durable.
//!
//! Order of writes: stored units, map nodes from the leaves up, dictionaries and catalog, the bundle, the free-space
//! link, and last the commit record in the slot that does not hold the last durable commit. One
//! flush then makes all of it durable, and the slot's mark says so before anyone is told. A commit too large to be
//! verified after a power loss in no time gets its mark flushed, too.

use crate::error::{Error, Result};
use crate::format::catalog::Catalog;
use crate::format::layout::{MARK_OFFSETS, Pointer, RECORD_LEN, SLOT_OFFSETS, unit_size_for};
use crate::format::record::{Record, encode_mark};
use crate::maintenance::erase::Erase;
use crate::medium::verified::NODE_LEN_MAX;
use crate::snapshot::page_map::PageMap;
use crate::snapshot::recover::{Commit, read_slots};
use crate::snapshot::store::Store;
use crate::space::allocate::Kind;
use crate::transaction::write::{Before, TakeBack, Writer};
use litepack_io::storage::Storage;

/// The mark of a commit that wrote more than this is flushed with it, so that opening after a power loss seldom has more
/// than this to verify (or four times that, with commits nobody flushed).
const VERIFIED_AT_OPEN_MAX: u64 = 1 << 20;
/// Commits without a flush (synchronous=OFF) are flushed when they add up to this: it bounds what
/// must be verified after a crash and lets the space they freed be used again.
const UNFLUSHED_MAX: u64 = 4 << 20;

/// Only a hostile file has counted so far.
const NO_MORE: Error = Error::Limit("the commits of this file cannot be counted any further");

impl<D: Storage> Store<D> {
    /// Publishes the running transaction: every handle sees it from now on, and so does the file
    /// after a crash of this process. It survives a power loss once [`Store::flush`] returned.
    /// Without a running transaction nothing happens.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn commit(&mut self) -> Result<()> {
        if !self.writer.in_transaction() {
            return self.finish_take_back();
        }
        let compact = self.guarded(Self::try_commit)?;
        if compact && !self.writer.compacting {
            self.flush()?;
            // The transaction is safe already; what keeps a file from shrinking (a full disk, a damaged
            // page that is reported when it is read) must not make it fail.
            let _ = self.compact();
        }
        if self.writer.unflushed_bytes > UNFLUSHED_MAX || self.writer.owed.wants_flush() {
            self.flush()?;
        }
        Ok(())
    }

    /// True if the commit left so much of the file free that it should be compacted.
    fn try_commit(&mut self) -> Result<bool> {
        self.write_batch()?;
        self.follow_page_size()?;
        for level in 0..self.map.height() {
            self.write_level(level)?;
        }
        self.map.lower_if_empty();
        let catalog = self.write_catalog()?;
        let bundle = self.write_bundle(catalog)?;
        let mut link = Vec::new();
        let offset = self.writer.space().write_link(&mut link)?;
        let link_pointer = self.medium.pointer_to(&link, offset)?;
        self.writer.queue.push(offset, &link)?;
        self.write_queue()?;

        let last = self.commit.ok_or(Error::Limit("no commit to follow"))?;
        let txn = self.writer.txn();
        let (shrunk, stored_units, stored_bytes) = (txn.shrunk, txn.stored_units, txn.stored_bytes);
        let space = self.writer.space();
        let record = Record {
            seq: last.record.seq.checked_add(1).ok_or(NO_MORE)?,
            size: self.size,
            unit_size: self.unit_size,
            height: self.map.height(),
            end: space.end(),
            map: self.map.root(),
            catalog,
            space: link_pointer,
            stored_units,
            stored_bytes,
            free_bytes: space.free_bytes(),
            bundle,
        };
        // The last durable commit stays in its slot until this one is durable too.
        let slot = if last.durable {
            1 - last.slot
        } else {
            last.slot
        };
        let bytes = record.encode(self.medium.uuid);
        if let Err(error) = self.medium.disk.write_at(&bytes, SLOT_OFFSETS[slot]) {
            self.begin_take_back(slot, bytes, self.slots[slot]);
            return Err(error.into());
        }
        let slot_bytes = std::mem::replace(&mut self.slots[slot], bytes);
        self.catalog.is_written();
        self.writer.space().published(link_pointer)?;
        let catalog = self
            .writer
            .txn
            .take()
            .map_or_else(Catalog::default, |t| t.catalog_before);
        self.writer.before = Some(Before {
            commit: last,
            catalog,
            slot_bytes,
        });
        self.leaves.clear();
        self.fell_back = false;
        self.commit = Some(Commit {
            record,
            slot,
            durable: false,
        });
        let tolerated = if shrunk {
            (record.end / 4).max(SHRUNK_MIN)
        } else {
            (record.end / 5 * 2).max(COMPACT_MIN)
        };
        // When all is written anew, that comes once, after the last commit of it.
        let due = self.writer.written_bytes >= self.writer.compact_after && !self.writer.anew;
        Ok(due && record.free_bytes > tolerated)
    }

    /// Makes the newest commit durable, after committing what may still be pending. From then on damage to it is told
    /// from a torn write, unless a power loss comes before anything later reaches the disk.
    ///
    /// # Errors
    /// The commit is taken back: the one before is current again, on disk too.
    pub fn flush(&mut self) -> Result<()> {
        self.commit()?;
        let Some(commit) = self.commit.filter(|commit| !commit.durable) else {
            return Ok(());
        };
        let is_large = self.writer.unflushed_bytes > VERIFIED_AT_OPEN_MAX;
        if let Err(error) = self.try_flush(commit) {
            self.take_back(commit);
            return Err(error);
        }
        self.mark();
        if is_large {
            // The commit is durable already. Without the mark it takes longer to open the file, no more.
            let _ = self.flush_mark();
        }
        let trimmed = self.trim();
        self.erase_owed();
        trimmed
    }

    /// As [`Store::flush`]; and when it returns, no power loss can bring an older commit back in silence, whatever becomes
    /// of the newest one. It is for who is about to throw away what the commit could be made again from, as SQLite does with
    /// its WAL.
    ///
    /// # Errors
    /// Those of [`Store::flush`]; and if only the mark could not be flushed, the commit stays.
    pub fn flush_for_good(&mut self) -> Result<()> {
        self.flush()?;
        self.flush_mark()
    }

    fn try_flush(&mut self, mut commit: Commit) -> Result<()> {
        self.medium.disk.sync()?;
        commit.durable = true;
        self.commit = Some(commit);
        self.writer.unflushed_bytes = 0;
        self.writer.before = None;
        match &mut self.writer.space {
            Some(space) => space.flushed(),
            None => Ok(()),
        }
    }

    /// Notes on the medium, without a flush, that the newest commit is durable, if it is. The slot's mark is written when
    /// the other slot's is durable, so a power loss can tear one of the two at most. The caller keeps others from
    /// committing. Failing costs only the knowledge.
    pub(crate) fn mark(&mut self) {
        let Some(Commit { record, slot, .. }) = self.commit.filter(|commit| commit.durable) else {
            return;
        };
        if self.writer.marked.is_none_or(|(seq, _)| seq != record.seq) {
            let mark = encode_mark(record.seq, self.medium.uuid);
            let written = self.medium.disk.write_at(&mark, MARK_OFFSETS[slot]);
            self.writer.marked = written.ok().map(|()| (record.seq, false));
        }
    }

    /// Makes the mark of the newest commit durable.
    fn flush_mark(&mut self) -> Result<()> {
        let Some(Commit { record, .. }) = self.commit.filter(|commit| commit.durable) else {
            return Ok(());
        };
        self.mark();
        match self.writer.marked {
            Some((seq, true)) if seq == record.seq => Ok(()),
            Some((seq, false)) if seq == record.seq => {
                self.medium.disk.sync()?;
                self.writer.marked = Some((seq, true));
                Ok(())
            }
            _ => {
                let text = "the mark of a durable commit could not be written";
                Err(std::io::Error::other(text).into())
            }
        }
    }

    /// Has both slots hold the newest commit, durably: then the damage of one costs nothing. The caller sees to it
    /// that no other handle commits meanwhile.
    ///
    /// # Errors
    /// When the medium fails; the newest commit stays.
    pub fn settle(&mut self) -> Result<()> {
        self.flush_for_good()?;
        let Some(Commit { record, slot, .. }) = self.commit else {
            return Ok(());
        };
        let bytes = record.encode(self.medium.uuid);
        if self.slots != [bytes; 2] {
            let disk = &self.medium.disk;
            disk.write_at(&bytes, SLOT_OFFSETS[1 - slot])?;
            disk.sync()?;
            self.slots[1 - slot] = bytes;
        }
        Ok(())
    }

    /// Undoes a commit that could not be made durable, so that nobody goes on from a state that a
    /// power loss would take away after its writer was told that it failed.
    fn take_back(&mut self, commit: Commit) {
        self.writer.space = None;
        // Without `before` it is another handle's commit: its durability is no promise of ours.
        if let Some(Before {
            commit: former,
            catalog,
            slot_bytes,
        }) = self.writer.before.take()
        {
            self.begin_take_back(commit.slot, self.slots[commit.slot], slot_bytes);
            self.go_to(former, catalog);
        }
    }

    /// Puts the former bytes of a slot back, or notes that this is still to be done: until then the
    /// handle refuses to work.
    fn begin_take_back(&mut self, slot: usize, wrong: [u8; RECORD_LEN], right: [u8; RECORD_LEN]) {
        self.slots[slot] = right;
        self.writer.take_back = Some(TakeBack { slot, wrong, right });
        let _ = self.finish_take_back();
    }

    /// Takes back on disk what failed before, unless another handle has moved on since.
    pub(crate) fn finish_take_back(&mut self) -> Result<()> {
        let Some(TakeBack { slot, wrong, right }) = &self.writer.take_back else {
            return Ok(());
        };
        let (slot, found) = (*slot, read_slots(&self.medium.disk)?);
        if found[slot] == *wrong && found[1 - slot] == self.slots[1 - slot] {
            self.medium.disk.write_at(right, SLOT_OFFSETS[slot])?;
        }
        self.writer.take_back = None;
        Ok(())
    }

    /// Cuts off what lies behind the end of the file's last extent. The commit is durable, so
    /// nothing there is needed; failing to cut costs space only.
    fn trim(&mut self) -> Result<()> {
        let Some(commit) = self.commit else {
            return Ok(());
        };
        let end = commit.record.end;
        if self.medium.disk.len()? > end + end / 16 + TRIM_SLACK {
            self.cut()?;
        }
        Ok(())
    }

    /// Cuts off what lies behind the end of a durable commit.
    pub(crate) fn cut(&mut self) -> Result<()> {
        if let Some(commit) = self.commit.filter(|commit| commit.durable)
            && self.medium.disk.len()? > commit.record.end
        {
            self.medium.disk.truncate(commit.record.end)?;
        }
        Ok(())
    }

    /// Ends the handle's work; what no commit holds is dropped.
    pub fn close(mut self) -> D {
        // Nobody's lock is held any more: what a transaction left behind must not be overwritten now.
        self.set_erase(Erase::Never);
        self.rollback();
        self.medium.disk
    }

    /// Gives the changed nodes of a level new extents.
    pub(crate) fn write_level(&mut self, level: u8) -> Result<()> {
        let indexes = self.map.changed_at(level);
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(indexes.len()));
        for index in &indexes {
            // No node is longer, so what it appends finds room.
            litepack_io::memory::room(&mut bytes, NODE_LEN_MAX as usize)?;
            match self.map.changed_node(level, *index) {
                Some(node) if !node.is_empty() => node.encode(&mut bytes),
                _ => {}
            }
            ends.push(bytes.len());
        }
        let starts = || std::iter::once(0).chain(ends.iter().copied());
        let lens = starts().zip(&ends).map(|(start, end)| end - start);
        let offsets = self.writer.space().place(Kind::Nodes, lens)?;
        for (((index, start), end), offset) in indexes.iter().zip(starts()).zip(&ends).zip(offsets)
        {
            let encoded = &bytes[start..*end];
            let place = if encoded.is_empty() {
                Pointer::NONE
            } else {
                self.writer.queue.push(offset, encoded)?;
                self.medium.pointer_to(encoded, offset)?
            };
            let (former, node) = self.map.settle(level, *index, place, &self.medium)?;
            if let Some(node) = node.filter(|_| !place.is_none()) {
                self.medium
                    .cache
                    .put_node(self.medium.file, &place, node.into());
            }
            if !former.is_none() {
                self.writer
                    .space()
                    .release(former.offset, former.len.into())?;
            }
        }
        Ok(())
    }

    fn write_catalog(&mut self) -> Result<Pointer> {
        let former = self
            .commit
            .map_or(Pointer::NONE, |commit| commit.record.catalog);
        if !self.writer.txn().catalog_changed {
            return Ok(former);
        }
        if !former.is_none() {
            self.writer
                .space()
                .release(former.offset, former.len.into())?;
        }
        let bytes = self.catalog.encode()?;
        let pointer = self.store_metadata(&bytes)?;
        Ok(pointer)
    }

    /// Places and queues a metadata extent.
    pub(crate) fn store_metadata(&mut self, bytes: &[u8]) -> Result<Pointer> {
        let offset = self.writer.space().alloc(bytes.len() as u64)?;
        self.writer.queue.push(offset, bytes)?;
        self.medium.pointer_to(bytes, offset)
    }

    /// When `VACUUM` has changed the page size, stores everything again in units of the new size:
    /// a unit must hold whole pages, or every page write would read and change a neighbour.
    fn follow_page_size(&mut self) -> Result<()> {
        let wanted = self
            .writer
            .txn()
            .page_size
            .map_or(self.unit_size, unit_size_for);
        if wanted == self.unit_size {
            return Ok(());
        }
        self.write_queue()?;
        let mut old = std::mem::replace(&mut self.map, PageMap::new(Pointer::NONE, 0));
        let old_unit = std::mem::replace(&mut self.unit_size, wanted);
        let txn = self.writer.txn();
        (txn.stored_units, txn.stored_bytes) = (0, 0);
        let step = old_unit.max(wanted);
        let mut bytes = litepack_io::memory::zeros(step as usize)?;
        let mut start = 0;
        while start < self.size {
            for (index, part) in bytes.chunks_mut(old_unit as usize).enumerate() {
                let unit = start / u64::from(old_unit) + index as u64;
                let entry = old.get(unit, &self.medium)?;
                if entry.is_zero() {
                    part.fill(0)
                } else {
                    self.load(unit, &entry, part)?
                }
            }
            for (index, part) in bytes.chunks(wanted as usize).enumerate() {
                let unit = start / u64::from(wanted) + index as u64;
                if unit * u64::from(wanted) < self.size {
                    self.buffer(unit, 0, part)?;
                }
            }
            self.relieve()?;
            start += u64::from(step);
        }
        self.write_batch()?;
        let Writer { space, owed, .. } = &mut self.writer;
        let Some(space) = space else {
            return Ok(());
        };
        old.truncate(0, &self.medium, &mut |offset, len, _| {
            owed.add(offset, len.into());
            space.release(offset, len.into())
        })?;
        let root = old.root();
        if root.is_none() {
            Ok(())
        } else {
            space.release(root.offset, root.len.into())
        }
    }
}

/// Free space below this is not worth compacting for.
pub(crate) const COMPACT_MIN: u64 = 64 << 10;
/// Nor below this if the database got shorter: small files are to shrink, too.
const SHRUNK_MIN: u64 = 16 << 10;
/// Bytes behind the end that may stay, so that a file that grows and shrinks is not cut each time.
const TRIM_SLACK: u64 = 64 << 10;
