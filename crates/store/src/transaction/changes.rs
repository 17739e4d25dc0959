//! A running transaction: what it has changed, and the handle that it will publish the changes through.

use std::io;
use std::sync::Arc;

use litepack_codec::{DictId, Level};
use litepack_io::fixed;
use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::basis::Basis;
use crate::format::catalog::Catalog;
use crate::format::guard::{Kind, Sealer};
use crate::format::layout::Pointer;
use crate::format::leaf::Entry;
use crate::format::node::{Node, TreeKind};
use crate::format::offset::FileOffset;
use crate::format::record::{CommitNumber, CommitRecord, LOG_BASE, LogNumbers, Record};
use crate::format::unit::Unit;
use crate::medium::dictionaries::Choice;
use crate::medium::verified::Medium;
use crate::snapshot::handle::Snapshot;
use crate::snapshot::image::Image;
use crate::snapshot::recover::Commit;
use crate::space::free_space::Space;
use crate::space::held::{Held, Needed, Needs};
use crate::transaction::items::ItemChanges;
use crate::transaction::prefetch_segment::SegmentWanted;
use crate::transaction::store::Store;

/// Bytes of extents that wait to be written, at most. Where memory is plentiful they are written before.
const QUEUED_MAX: usize = 8 << 20;

/// The changes of a transaction. Dropping it leaves the last commit.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The database with the changes, except for what is still buffered.
    pub(super) image: Image,
    pub(super) space: Space,
    /// The commit that the transaction follows.
    pub(super) last: Commit,
    pub(super) stored: Stored,
    /// Which log follows the commit: as before, unless the caller says another one.
    pub(super) log: LogNumbers,
    /// A log may stand on the commit: as before, unless the caller says otherwise of other numbers.
    pub(super) is_log_base: bool,
    pub(super) items: ItemChanges,
    /// The database was cut shorter, so space may be worth giving back.
    pub(super) shrunk: bool,
    pub(super) catalog_changed: bool,
    /// The page size in the database header, if this transaction wrote it.
    pub(super) page_size: Option<u32>,
    pub(super) segment: SegmentWanted,
    /// Units come in order: leaves of the map are written as soon as they are full. All below this one are.
    pub(super) in_order: Option<u64>,
}

/// How many units are stored, and the bytes of their extents and of items. The counts begin with what the file claims, so they may be too low.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    pub(super) units: u64,
    pub(super) bytes: u64,
    /// The part of the budget for differences that is spent.
    pub(super) differences: u64,
}

impl Stored {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.units += u64::from(!entry.is_zero());
        self.bytes += entry.stored_len();
        self.differences += entry.difference_len();
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.units = self.units.saturating_sub(u64::from(!entry.is_zero()));
        self.remove_bytes(entry.stored_len());
        let differences = &mut self.differences;
        *differences = differences.saturating_sub(entry.difference_len());
    }

    /// Of what belongs to no unit alone.
    pub(super) fn add_bytes(&mut self, len: u32) {
        self.bytes += u64::from(len);
    }

    pub(super) fn remove_bytes(&mut self, len: u64) {
        self.bytes = self.bytes.saturating_sub(len);
    }
}

/// A running transaction. It ends with [`Transaction::commit`] or [`Transaction::rollback`]; dropping it drops its
/// changes, too, but erases nothing. [`Transaction::suspend`] leaves it to the handle, to go on with later.
///
/// After a method has failed, the transaction can only be rolled back.
#[derive(Debug)]
pub struct Transaction<'a, D: Storage> {
    pub(super) store: &'a mut Store<D>,
    pub(super) changes: Box<Changes>,
}

impl<D: Storage> Store<D> {
    /// Makes the newest commit durable if another handle has made it. The caller has the right to write.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn take_over(&mut self) -> Result<()> {
        if self.in_transaction() {
            return Ok(());
        }
        self.refresh()?;
        self.learn_durable()?;
        let commit = self.snapshot.commit().filter(|commit| !commit.durable);
        if let Some(commit) = commit.filter(|_| !self.writer.newest.knows_space()) {
            // What this handle has put back in the other slot stays as it is from now on: it is the one to fall back to.
            self.put_back()?;
            self.mend_other_mark(&commit)?;
            self.snapshot.disk().sync()?;
            self.writer.undo = None;
            self.snapshot.set_durable();
            self.tell_durable(&commit)?;
            self.writer.newest.forget();
        }
        self.forget_cut_off()
    }

    /// Begins a transaction at the newest commit. If this handle has not made it, it is durable then.
    pub(super) fn new_changes(&mut self) -> Result<Changes> {
        // Of a transaction that was dropped.
        self.writer.drop_pending();
        self.take_over()?;
        let commit = match self.snapshot.commit() {
            Some(commit) => commit,
            None => self.create()?,
        };
        let mut space = match self.writer.newest.take_space() {
            Some(space) => space,
            None => {
                // Again: it may be durable and unmarked.
                self.tell_durable(&commit)?;
                self.writer.newest.forget();
                load_space(&self.snapshot, &commit.record)?
            }
        };
        self.hold_needed(&commit.record, &mut space)?;
        let writer = &self.writer;
        space.set_may_grow(
            !(writer.compaction.is_running || writer.rewriting || writer.could_not_grow),
        );
        Ok(Changes {
            image: self.snapshot.image().clone(),
            space,
            last: commit,
            stored: Stored {
                units: commit.record.stored_units,
                bytes: commit.record.stored_bytes,
                differences: commit.record.difference_bytes,
            },
            log: commit.record.log,
            is_log_base: commit.record.features & LOG_BASE != 0,
            items: ItemChanges::after(&commit.record),
            shrunk: false,
            catalog_changed: false,
            page_size: None,
            segment: SegmentWanted::default(),
            in_order: None,
        })
    }
}

/// The free space of a durable commit.
pub(crate) fn load_space<D: Storage>(snapshot: &Snapshot<D>, record: &Record) -> Result<Space> {
    let read = |pointer| snapshot.medium().extent(pointer, Kind::Space);
    Space::load(
        record.space,
        snapshot.extents(record),
        snapshot.disk().len()?,
        read,
    )
}

impl<D: Storage> Store<D> {
    /// The part of the file that others need, after this commit.
    fn ask(
        &self,
        record: &Record,
        how: impl FnOnce(&dyn Needs) -> io::Result<Needed>,
    ) -> Result<Needed> {
        match &self.writer.needs {
            _ if record.features & LOG_BASE == 0 => Ok(Needed::Nothing),
            Some(needs) => Ok(how(&**needs)?),
            None => Ok(Needed::Everything),
        }
    }

    /// Has the free space of the newest commit, of which this is the record, hold what others need now.
    pub(super) fn hold_needed(&self, record: &Record, space: &mut Space) -> Result<()> {
        let needed = self.ask(record, |needs| needs.needed())?;
        if space.holds(&needed) {
            return Ok(());
        }
        let held = match needed {
            Needed::Commit(of) if space.is_settled() && self.is_newest(&of, record) => {
                Held::newest(of, self.snapshot.extents(record))
            }
            _ => self.snapshot.held(&needed)?,
        };
        space.hold(held)
    }

    /// Whether it is the record of the newest commit, as this is.
    fn is_newest(&self, of: &CommitRecord, newest: &Record) -> bool {
        of.0 == newest.encode(self.snapshot.guard())
    }

    /// The part of the file that others need now, as far as can be seen: for estimates.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn seems_needed(&self) -> Result<Needed> {
        match self.snapshot.commit() {
            Some(commit) => self.ask(&commit.record, |needs| needs.seems_needed()),
            None => Ok(Needed::Nothing),
        }
    }

    /// Whether they need anything, so that what is freed of it is not to be used yet.
    ///
    /// # Errors
    /// As [`Store::seems_needed`].
    pub fn is_held(&self) -> Result<bool> {
        Ok(self.seems_needed()? != Needed::Nothing)
    }

    /// The bytes that are free in the newest commit, and held for them.
    ///
    /// # Errors
    /// As [`Store::seems_needed`].
    pub fn held_bytes(&self) -> Result<u64> {
        let needed = self.seems_needed()?;
        let Some(commit) = self.snapshot.commit().filter(|_| needed != Needed::Nothing) else {
            return Ok(0);
        };
        if let Some(space) = self
            .writer
            .newest
            .space()
            .filter(|space| space.holds(&needed))
        {
            return Ok(space.held_bytes());
        }
        if let Needed::Commit(of) = &needed
            && self.is_newest(of, &commit.record)
        {
            // None of it is free.
            return Ok(0);
        }
        let mut space = load_space(&self.snapshot, &commit.record)?;
        space.hold(self.snapshot.held(&needed)?)?;
        Ok(space.held_bytes())
    }

    /// The bytes that are free in this commit, the newest, and not held.
    pub(crate) fn loose_bytes(&self, record: &Record) -> Result<u64> {
        Ok(record.free_bytes.saturating_sub(self.held_bytes()?))
    }
}

impl<D: Storage> Transaction<'_, D> {
    /// Leaves the transaction running, without this borrow of the handle: [`Store::begin`] goes on with it.
    pub fn suspend(self) {
        self.store.suspended = Some(self.changes);
    }

    /// Drops all changes after an error: the last commit is current again.
    pub(super) fn fail(self, error: &Error) {
        let was_to_grow = self.changes.space.end() > self.changes.last.record.end;
        if was_to_grow && matches!(error, Error::Io(_)) {
            self.store.writer.could_not_grow = true;
        }
        self.rollback();
    }

    /// Drops all changes: the last commit is current again.
    pub fn rollback(self) {
        let Transaction { store, changes } = self;
        store.writer.drop_pending();
        store.snapshot.pages().workers.clear();
        // Some may be of the map that is dropped.
        store.snapshot.pages().forget_leaves();
        // A record that could not be undone on disk yet may refer to what was written.
        if !store.is_to_be_undone() {
            let eraser = &store.writer.eraser;
            eraser.erase_dropped(&changes.space, store.snapshot.disk());
        }
    }

    /// Reads as [`Store::read`] does.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let (image, newer) = (&mut self.changes.image, &self.store.writer.buffer);
        self.store.snapshot.pages().read(image, newer, offset, buf)
    }

    /// The level that pages are written at.
    pub(crate) fn level(&self) -> Level {
        self.store.writer.level
    }

    /// The database with the changes, except for what is still buffered.
    pub(crate) fn image(&self) -> &Image {
        &self.changes.image
    }

    pub(crate) fn medium(&self) -> &Medium<D> {
        self.store.snapshot.medium()
    }

    pub(crate) fn space(&mut self) -> &mut Space {
        &mut self.changes.space
    }

    /// The number of the commit that the transaction will make.
    pub(crate) fn seq(&self) -> CommitNumber {
        let last = self.changes.last.record.seq;
        // At the end of the numbers there is no next commit.
        last.next().unwrap_or(last)
    }

    /// The catalog, to be changed.
    pub(crate) fn change_catalog(&mut self) -> &mut Catalog {
        self.changes.catalog_changed = true;
        &mut self.changes.image.catalog
    }

    /// Gives the catalog a new place if it ends behind `limit`.
    pub(crate) fn touch_catalog_above(&mut self, limit: FileOffset) {
        let at = self.changes.last.record.catalog;
        if !at.is_none() && at.end() > limit {
            self.changes.catalog_changed = true;
        }
    }

    /// The lowest index from `from` on of a leaf of the tree that is stored.
    pub(crate) fn next_leaf(&self, kind: TreeKind, from: u64) -> Result<Option<u64>> {
        self.image().next_leaf(kind, from, self.medium())
    }

    /// A leaf of the tree that is stored and has not changed.
    pub(crate) fn leaf(&self, kind: TreeKind, index: u64) -> Result<Option<Arc<Node>>> {
        self.image().leaf(kind, index, self.medium())
    }

    /// Where a unit is stored.
    pub(crate) fn entry(&mut self, unit: Unit) -> Result<Entry> {
        let pages = self.store.snapshot.pages();
        pages.entry(&self.changes.image, unit)
    }

    /// Reads, verifies and decodes a stored unit into `page`.
    pub(crate) fn load(&mut self, unit: Unit, entry: &Entry, page: &mut [u8]) -> Result<()> {
        let pages = self.store.snapshot.pages();
        pages.load(&self.changes.image, unit, entry, page)
    }

    /// Buffers a whole unit that is not buffered yet.
    pub(crate) fn put(&mut self, unit: Unit, page: &[u8], choice: Choice) -> Result<()> {
        self.store.writer.buffer.insert(unit, page, choice)
    }

    /// Queues `bytes` to be written at `offset`, which has been taken for them. Where memory is short not much waits.
    pub(crate) fn queue(&mut self, offset: FileOffset, bytes: &[u8]) -> Result<()> {
        self.store.writer.queue.push(offset, bytes)?;
        if self.store.writer.queue.bytes() > fixed::part(QUEUED_MAX) {
            self.write_queue()?;
        }
        Ok(())
    }

    /// Writes what is queued.
    pub(crate) fn write_queue(&mut self) -> Result<()> {
        let writer = &mut self.store.writer;
        let written = writer.queue.write(self.store.snapshot.disk())?;
        writer.newest.has_written(written);
        writer.compaction.written_bytes += written;
        Ok(())
    }

    /// Makes extents what they are in the file.
    pub(crate) fn sealer(&mut self) -> Result<Sealer> {
        let guard = self.store.snapshot.guard();
        self.store.writer.sealing.sealer(guard)
    }

    /// Takes space for a metadata extent of this kind and queues it.
    pub(crate) fn store_metadata(&mut self, kind: Kind, mut bytes: Vec<u8>) -> Result<Pointer> {
        self.sealer()?.other(kind, &mut bytes, 0)?;
        self.store_sealed(&bytes)
    }

    /// Takes space for a metadata extent as it is in the file and queues it.
    pub(crate) fn store_sealed(&mut self, bytes: &[u8]) -> Result<Pointer> {
        let len = bytes.len() as u64;
        let offset = self.changes.space.alloc_beside(len, len)?;
        self.queue(offset, bytes)?;
        self.medium().pointer_to(bytes, offset)
    }

    /// Gives back a metadata extent, if there is one.
    pub(crate) fn release(&mut self, pointer: Pointer) -> Result<()> {
        if pointer.is_none() {
            return Ok(());
        }
        self.changes
            .space
            .release(pointer.offset, pointer.len.into())
    }

    /// Gives back an extent with content: when it is free, it may be to be erased.
    pub(crate) fn release_content(&mut self, offset: FileOffset, len: u64) -> Result<()> {
        self.store.writer.eraser.add(offset, len)?;
        self.changes.space.release(offset, len)
    }

    /// Notes where a page is stored from now on. A copy of it in the cache becomes this one.
    pub(crate) fn set_page(&mut self, unit: Unit, entry: Entry, page: &[u8]) -> Result<()> {
        let former = self.set_entry(unit, entry)?;
        let pages = self.store.snapshot.pages();
        let (cache, spare) = (&pages.medium.cache, &mut pages.tools.spare);
        cache.replace_page(unit, &former, &entry, page, spare);
        Ok(())
    }

    /// Notes where a page was moved to. `room` is for a page.
    pub(crate) fn move_page(&mut self, unit: Unit, entry: Entry, room: &mut [u8]) -> Result<()> {
        let former = self.set_entry(unit, entry)?;
        let pages = self.store.snapshot.pages();
        let (cache, spare) = (&pages.medium.cache, &mut pages.tools.spare);
        if let Basis::Former(_) = entry.basis {
            // Other pages were once stored where it and its base are now.
            let source = self.changes.image.source(unit, &entry, &pages.medium)?;
            for base in source.bases() {
                cache.forget(&base.source(0), room.len());
            }
            cache.forget(&source, room.len());
        }
        cache.move_page(unit, &former, &entry, room, spare);
        Ok(())
    }

    /// Puts an entry into the map and lets go of what the one before had, which it returns.
    pub(crate) fn set_entry(&mut self, unit: Unit, entry: Entry) -> Result<Entry> {
        litepack_io::memory::check()?;
        let medium = self.store.snapshot.medium();
        let former = self.changes.image.map.set(unit, entry, medium)?;
        self.changes.stored.add(&entry);
        self.changes.stored.remove(&former);
        // First what is named anew, so that no item goes in between that both name.
        if entry.basis.items() != former.basis.items() {
            self.name_items(&entry)?;
            self.unname_items(&former)?;
        }
        self.changes.items.note_entry(&entry);
        for extent in former.extents() {
            // The same place is the same extent, also if the entry says something else of it now.
            if !entry.extents().any(|kept| kept.offset == extent.offset) {
                self.release_content(extent.offset, extent.len.into())?;
            }
        }
        Ok(former)
    }

    /// Marks a node of a tree for rewriting, if it is stored and `chosen` says so of its place; its parents follow by
    /// themselves.
    pub(crate) fn touch_node(
        &mut self,
        kind: TreeKind,
        level: u8,
        index: u64,
        chosen: impl Fn(Pointer) -> bool,
    ) -> Result<()> {
        let medium = self.store.snapshot.medium();
        let tree = self.changes.image.tree_mut(kind);
        if level < tree.height()
            && let Some(place) = tree.place_of(level, index, medium)?
            && chosen(place)
        {
            tree.touch(level, index, medium)?;
        }
        Ok(())
    }

    /// How to store a page with this number.
    pub(crate) fn choice(&self, number: DictId) -> Result<Choice> {
        self.medium().choice(&self.image().catalog, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::snapshot::handle::Snapshot;
    use litepack_io::testing::MemoryStorage;

    const UNIT: u64 = 4096;

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; UNIT as usize]
    }

    fn first_byte(read: impl FnOnce(&mut [u8]) -> Result<usize>) -> u8 {
        let mut found = page(0);
        read(&mut found).unwrap();
        found[0]
    }

    #[test]
    fn a_transaction_ends_with_commit_or_leaves_the_last_one() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, Options::default()).unwrap();
        let mut transaction = store.begin().unwrap();
        transaction.write(0, &page(1)).unwrap();
        assert_eq!(first_byte(|buf| transaction.read(0, buf)), 1);
        let published = transaction.commit().unwrap();
        assert_eq!(published.seq, store.seq());

        let mut rolled_back = store.begin().unwrap();
        rolled_back.write(0, &page(2)).unwrap();
        rolled_back.truncate(0).unwrap();
        rolled_back.rollback();
        assert_eq!(first_byte(|buf| store.read(0, buf)), 1);

        let mut dropped = store.begin().unwrap();
        dropped.write(0, &page(3)).unwrap();
        dropped.write(UNIT, &page(3)).unwrap();
        drop(dropped);
        assert_eq!((store.size(), store.in_transaction()), (UNIT, false));
        assert_eq!(first_byte(|buf| store.read(0, buf)), 1);

        // Nothing of what was dropped comes with the next one.
        store.write(2 * UNIT, &page(4)).unwrap();
        store.flush().unwrap();
        assert_eq!(first_byte(|buf| store.read(UNIT, buf)), 0);
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    }

    /// Only its own handle reads its changes; reports are of the last commit.
    #[test]
    fn a_suspended_transaction_goes_on() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, Options::default()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        let mut transaction = store.begin().unwrap();
        transaction.write(UNIT, &page(2)).unwrap();
        transaction.suspend();
        assert!(store.in_transaction());
        assert_eq!((store.size(), store.seq()), (2 * UNIT, 2));
        assert_eq!(first_byte(|buf| store.read(UNIT, buf)), 2);
        assert_eq!(store.check(&mut |_| Ok(())).unwrap().units, 1);
        assert!(!store.refresh().unwrap());
        let mut reader = Snapshot::open(&disk, &Options::default()).unwrap();
        reader.refresh().unwrap();
        assert_eq!(reader.size(), UNIT);

        let mut transaction = store.begin().unwrap();
        transaction.write(2 * UNIT, &page(3)).unwrap();
        transaction.commit().unwrap();
        assert!(reader.refresh().unwrap());
        for (unit, byte) in [1, 2, 3].into_iter().enumerate() {
            let offset = unit as u64 * UNIT;
            assert_eq!(first_byte(|buf| reader.read(offset, buf)), byte);
        }
    }

    /// Code that moves units and counts dictionaries asks for the map's leaves while a transaction changes them.
    #[test]
    fn a_changed_leaf_is_not_read_as_it_was() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, Options::default()).unwrap();
        for unit in 0..300 {
            store
                .write(unit * UNIT, &page(1 + (unit % 200) as u8))
                .unwrap();
        }
        store.flush().unwrap();
        let mut transaction = store.begin().unwrap();
        assert!(transaction.leaf(TreeKind::Map, 2).unwrap().is_some());
        transaction.truncate(260 * UNIT).unwrap();
        assert!(transaction.leaf(TreeKind::Map, 1).unwrap().is_some());
        assert!(transaction.leaf(TreeKind::Map, 2).unwrap().is_none());
        let (image, mut stored) = (transaction.image(), 0);
        let count = |_: &Entry| stored += 1;
        image.for_each_entry(transaction.medium(), count).unwrap();
        assert_eq!(stored, 260);
    }
}
