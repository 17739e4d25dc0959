//! The write side of a handle: pages collected in memory, then encoded and placed in batches.
//!
//! Memory is bounded: at [`BUFFER_MAX`] bytes of pages a batch is encoded and written to free space
//! (where no commit knows of it yet), and changed map leaves beyond [`LEAVES_MAX`] are written too.
//! After any error the transaction is dropped and the handle is back at the last commit.

use litepack_codec::{DictId, Encoder, LEVELS, Level, shape};

use crate::error::{Error, Result};
use crate::format::catalog::{Catalog, Choice};
use crate::format::header::Header;
use crate::format::layout::{
    DATA_START, HEADER_LEN, MARK_OFFSETS, RECORD_LEN, SLOT_OFFSETS, UNIT_MIN, unit_size_for,
};
use crate::format::leaf::Entry;
use crate::format::record::{Record, encode_mark};
use crate::maintenance::erase::{Erase, Owed};
use crate::medium::cache::Loan;
use crate::snapshot::recover::{Commit, read_slots};
use crate::snapshot::store::Store;
use crate::space::allocate::Kind;
use crate::space::free_space::Space;
use crate::transaction::write_buffer::{Batch, Recipe};
use crate::transaction::write_queue::WriteQueue;
use litepack_io::storage::Storage;

/// Bytes of changed pages kept in memory before a batch is written.
pub(crate) const BUFFER_MAX: usize = 8 << 20;
/// Bytes of stored pages that are worth a write while helpers encode the next.
const WRITTEN_TOGETHER: usize = 16 << 10;
/// A transaction with more changed pages has memory of the cache's budget from then on, for them, what they were
/// before, and what encodes them.
const LOAN_MIN: usize = 1 << 20;
/// How much.
const LOAN: u64 = 20 << 20;
/// Changed map leaves kept in memory before they are written.
pub(crate) const LEAVES_MAX: usize = 2048;

/// What a handle needs for writing.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) threads: usize,
    level: Level,
    columnar: bool,
    batch: Batch,
    /// Since the first transaction that was large; the next one finds the memory.
    loan: Option<Loan>,
    /// The dictionary of the pages being written, if the caller knows.
    wanted: Option<DictId>,
    pub(crate) space: Option<Space>,
    pub(crate) txn: Option<Txn>,
    pub(crate) queue: WriteQueue,
    /// Bytes written by commits that are not durable yet.
    pub(crate) unflushed_bytes: u64,
    /// How to undo the newest commit while it is not durable.
    pub(crate) before: Option<Before>,
    /// A commit that failed and could not be undone on disk either, yet.
    pub(crate) take_back: Option<TakeBack>,
    /// Database size below which training is not tried (again).
    pub(crate) training_due_at: u64,
    /// The commit whose mark of durability this handle has written, and whether the mark is durable itself.
    pub(crate) marked: Option<(u64, bool)>,
    /// The running commits are those of a compaction.
    pub(crate) compacting: bool,
    /// Bytes this handle has written, and how many they must be before it compacts again.
    pub(crate) written_bytes: u64,
    pub(crate) compact_after: u64,
    pub(crate) owed: Owed,
    /// The whole database is being written anew.
    pub(crate) anew: bool,
}

/// The running transaction.
#[derive(Debug)]
pub(crate) struct Txn {
    /// The catalog before the transaction.
    pub(crate) catalog_before: Catalog,
    pub(crate) stored_units: u64,
    pub(crate) stored_bytes: u64,
    /// The database was cut shorter, so space may be worth giving back.
    pub(crate) shrunk: bool,
    pub(crate) catalog_changed: bool,
    /// The page size in the database header, if this transaction wrote it.
    pub(crate) page_size: Option<u32>,
    /// The units that the commit's bundle is to have, and its greatest length.
    pub(crate) bundle: Option<(Vec<u64>, u64)>,
}

impl Txn {
    /// One stored unit less, of this length. The counts are what the file claims, so they may be too low.
    fn count_out(&mut self, len: u32) {
        self.stored_units = self.stored_units.saturating_sub(1);
        self.stored_bytes = self.stored_bytes.saturating_sub(len.into());
    }
}

/// The state before a commit.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) commit: Commit,
    pub(crate) catalog: Catalog,
    /// What the commit's slot held.
    pub(crate) slot_bytes: [u8; RECORD_LEN],
}

/// A record to be replaced by what its slot held before.
#[derive(Debug)]
pub(crate) struct TakeBack {
    pub(crate) slot: usize,
    pub(crate) wrong: [u8; RECORD_LEN],
    pub(crate) right: [u8; RECORD_LEN],
}

impl Writer {
    pub(crate) fn new(level: Level, columnar: bool, threads: usize) -> Writer {
        Writer {
            threads: threads.max(1),
            level: level.clamp(*LEVELS.start(), *LEVELS.end()),
            columnar,
            batch: Batch::default(),
            loan: None,
            wanted: None,
            space: None,
            txn: None,
            queue: WriteQueue::default(),
            unflushed_bytes: 0,
            before: None,
            take_back: None,
            training_due_at: 0,
            marked: None,
            compacting: false,
            written_bytes: 0,
            compact_after: 0,
            owed: Owed::default(),
            anew: false,
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// An encoder for pages as they are stored.
    pub(crate) fn encoder(&self) -> Encoder {
        Encoder::with_columnar(self.level, self.columnar)
    }

    pub(crate) fn set_level(&mut self, level: Level) {
        self.level = level.clamp(*LEVELS.start(), *LEVELS.end());
    }

    pub(crate) fn in_transaction(&self) -> bool {
        self.txn.is_some()
    }

    pub(crate) fn buffered(&self, unit: u64) -> Option<&[u8]> {
        self.batch.get(unit)
    }

    /// Puts a whole unit into the running transaction that is not in it yet.
    pub(crate) fn put(&mut self, unit: u64, page: &[u8], choice: Choice) -> Result<()> {
        self.batch.insert(unit, page, choice)
    }

    pub(crate) fn forget_space(&mut self) {
        self.space = None;
        self.before = None;
        self.unflushed_bytes = 0;
    }

    pub(crate) fn space(&mut self) -> &mut Space {
        self.space
            .as_mut()
            .expect("a transaction has its free space loaded")
    }

    /// Gives back an extent with content: when it is free, it may be to be erased.
    pub(crate) fn release_content(&mut self, offset: u64, len: u64) -> Result<()> {
        self.owed.add(offset, len);
        self.space().release(offset, len)
    }

    pub(crate) fn txn(&mut self) -> &mut Txn {
        self.txn.as_mut().expect("called within a transaction")
    }
}

impl<D: Storage> Store<D> {
    /// Writes `bytes` at `offset` of the database, as part of the running transaction; the first
    /// write begins one.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.guarded(|store| store.try_write(offset, bytes))
    }

    /// [`Store::write`] for who knows better than the store which dictionary goes with these bytes. The store
    /// trains none of its own from then on.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_with(&mut self, offset: u64, bytes: &[u8], dictionary: DictId) -> Result<()> {
        self.writer.wanted = Some(dictionary);
        self.writer.training_due_at = u64::MAX;
        let written = self.write(offset, bytes);
        self.writer.wanted = None;
        written
    }

    /// Sets the logical length of the database, as part of the running transaction.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        if size == self.size {
            return Ok(());
        }
        self.guarded(|store| store.try_truncate(size))
    }

    /// Whether there are writes that no commit holds.
    pub fn in_transaction(&self) -> bool {
        self.writer.in_transaction()
    }

    /// Runs a step of the transaction; drops the transaction if the step fails.
    pub(crate) fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.finish_take_back()?;
        let result = step(self);
        if result.is_err() {
            self.rollback();
        }
        result
    }

    /// Drops everything since the last commit.
    pub fn rollback(&mut self) {
        self.writer.batch.clear();
        self.writer.queue.clear();
        if let (Some(txn), Some(commit)) = (self.writer.txn.take(), self.commit) {
            self.crew.clear();
            self.erase_dropped();
            self.writer.space = None;
            self.go_to(commit, txn.catalog_before);
        }
    }

    /// Begins a transaction unless one is running: at the newest commit, with that commit durable,
    /// because the space it freed is about to be used.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.writer.in_transaction() {
            return Ok(());
        }
        self.refresh()?;
        if self.commit.is_none() {
            self.create()?;
        }
        if self.writer.space.is_none()
            && let Some(commit) = self.commit.as_mut().filter(|commit| !commit.durable)
        {
            self.medium.disk.sync()?;
            commit.durable = true;
            self.mark();
        }
        let commit = self.commit.ok_or(Error::Limit("no commit to follow"))?;
        let record = commit.record;
        if self.writer.space.is_none() {
            self.writer.before = None;
            self.writer.unflushed_bytes = 0;
            self.writer.space = Some(self.load_space(&record)?);
        }
        self.writer.txn = Some(Txn {
            catalog_before: self.catalog.clone(),
            stored_units: record.stored_units,
            stored_bytes: record.stored_bytes,
            shrunk: false,
            catalog_changed: false,
            page_size: None,
            bundle: None,
        });
        Ok(())
    }

    /// The free space of a durable commit.
    pub(crate) fn load_space(&self, record: &Record) -> Result<Space> {
        let read = |pointer| self.medium.extent(pointer, "free-space chain");
        Space::load(record.space, record.end, read)
    }

    /// Makes an empty file a packed one that holds the empty database.
    fn create(&mut self) -> Result<()> {
        let header = Header::new()?;
        self.medium.uuid = header.uuid;
        let record = Record::first(UNIT_MIN, DATA_START);
        let mut head = vec![0; DATA_START as usize];
        let mut put = |bytes: &[u8], offset: u64| {
            let at = offset as usize;
            head[at..at + bytes.len()].copy_from_slice(bytes);
        };
        for offset in SLOT_OFFSETS {
            put(&record.encode(header.uuid), offset);
        }
        for offset in MARK_OFFSETS {
            put(&encode_mark(record.seq, header.uuid), offset);
        }
        let disk = &self.medium.disk;
        // First, as who tries again after a failure finds the file empty, and so comes here again.
        disk.sync_name()?;
        disk.write_at(&head, 0)?;
        disk.sync()?;
        // Last, as a header says that all of this is there.
        let finished = disk.write_at(&header.encode(), 0);
        if let Err(error) = finished.and_then(|()| disk.sync()) {
            let _ = disk.write_at(&[0; HEADER_LEN], 0);
            return Err(error.into());
        }
        self.slots = read_slots(disk)?;
        let commit = Commit {
            record,
            slot: 0,
            durable: true,
        };
        self.go_to(commit, Catalog::default());
        Ok(())
    }

    fn try_write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.begin()?;
        let stop = offset
            .checked_add(bytes.len() as u64)
            .filter(|stop| *stop <= i64::MAX as u64);
        let stop = stop.ok_or(Error::Limit("databases end at 2^63 bytes"))?;
        if self.size == 0 && self.writer.batch.is_empty() && !self.map.is_changed() {
            // SQLite writes whole pages: the first write of an empty database tells their size.
            let len = u32::try_from(bytes.len()).unwrap_or(0);
            if len.is_power_of_two() && unit_size_for(len) >= len {
                self.unit_size = unit_size_for(len);
            }
        }
        if offset == 0
            && let Some(page_size) = page_size_in(bytes)
        {
            self.writer.txn().page_size = Some(page_size);
            self.page_size = page_size;
        }
        let unit_size = self.unit_size as usize;
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (unit, within) = (at / unit_size as u64, (at % unit_size as u64) as usize);
            let len = (unit_size - within).min(bytes.len() - done);
            self.buffer(unit, within, &bytes[done..done + len])?;
            done += len;
        }
        self.size = self.size.max(stop);
        self.relieve()
    }

    /// Writes a batch if the buffer is full.
    pub(crate) fn relieve(&mut self) -> Result<()> {
        if self.writer.loan.is_none() && self.writer.batch.bytes() > LOAN_MIN {
            self.writer.loan = Some(Loan::new(&self.medium.cache, LOAN));
        }
        if self.writer.batch.bytes() > BUFFER_MAX {
            self.write_batch()?;
            self.write_queue()?;
        }
        self.encode_early()
    }

    /// Has helpers begin with what is buffered, once that is much. Not if a dictionary is about to be
    /// trained, which takes all pages there are and helps them all.
    fn encode_early(&mut self) -> Result<()> {
        let helpers = self.writer.threads - 1;
        if helpers > 0 && self.writer.batch.is_worth_beginning() && self.training_due().is_none() {
            let recipe = self.recipe();
            self.writer.batch.begin(&recipe, helpers, &mut self.crew);
        }
        Ok(())
    }

    /// Puts `bytes` into the buffered unit, `within` it.
    pub(crate) fn buffer(&mut self, unit: u64, within: usize, bytes: &[u8]) -> Result<()> {
        if self.writer.batch.change(unit, within, bytes)? {
            return Ok(());
        }
        let unit_size = self.unit_size as usize;
        if bytes.len() == unit_size {
            let choice = self.choice(unit, bytes)?;
            self.writer.batch.insert(unit, bytes, choice)?;
        } else {
            let mut page = self.unit_before_change(unit)?;
            page[within..within + bytes.len()].copy_from_slice(bytes);
            let choice = self.choice(unit, &page)?;
            self.writer.batch.insert(unit, &page, choice)?;
        }
        Ok(())
    }

    /// What to store a unit with that is about to become this.
    fn choice(&mut self, unit: u64, bytes: &[u8]) -> Result<Choice> {
        let number = match self.writer.wanted {
            Some(number) => self.catalog.current(number),
            // A dictionary has samples of what has been deleted; this is when the file can do without.
            None if self.writer.anew && self.erase() == Erase::WithCommit => {
                self.catalog.current(0)
            }
            None => {
                let former = self.entry(unit)?.storage.dict;
                number_for(&self.catalog, self.page_size, bytes, former)
            }
        };
        self.catalog.choice(number, &self.medium)
    }

    /// The whole unit, zero-filled past the end of the database.
    fn unit_before_change(&mut self, unit: u64) -> Result<Vec<u8>> {
        let mut page = litepack_io::memory::zeros(self.unit_size as usize)?;
        self.read(unit * u64::from(self.unit_size), &mut page)?;
        Ok(page)
    }

    fn try_truncate(&mut self, size: u64) -> Result<()> {
        self.begin()?;
        let unit_size = u64::from(self.unit_size);
        if size < self.size {
            self.writer.txn().shrunk = true;
            let kept = size.div_ceil(unit_size);
            if !size.is_multiple_of(unit_size) {
                // What is cut off must read as zeros if the database grows again.
                let mut page = self.unit_before_change(kept - 1)?;
                page[(size % unit_size) as usize..].fill(0);
                self.buffer(kept - 1, 0, &page)?;
            }
            self.writer.batch.truncate(kept);
            let Writer {
                space, txn, owed, ..
            } = &mut self.writer;
            let (Some(space), Some(txn)) = (space, txn) else {
                return Ok(());
            };
            self.map
                .truncate(kept, &self.medium, &mut |offset, len, is_page| {
                    if is_page {
                        txn.count_out(len);
                        owed.add(offset, len.into());
                    }
                    space.release(offset, len.into())
                })?;
        }
        self.size = size;
        Ok(())
    }

    /// Encodes and places all buffered units.
    pub(crate) fn write_batch(&mut self) -> Result<()> {
        if self.writer.batch.is_empty() {
            return Ok(());
        }
        if self.train_if_due()? {
            let Writer { batch, .. } = &mut self.writer;
            batch.choose_again(&mut self.crew, |page, former| {
                let number = number_for(&self.catalog, self.page_size, page, former);
                self.catalog.choice(number, &self.medium)
            })?;
        }
        let (recipe, helpers) = (self.recipe(), self.writer.threads - 1);
        let mut finishing = self.writer.batch.finish(recipe, helpers, &mut self.crew);
        while let Some(finished) = finishing.group(&self.crew, &mut self.tools)? {
            let lens = finished.iter().map(|stored| stored.bytes.len());
            let offsets = self.writer.space().place(Kind::Units, lens)?;
            for (stored, offset) in finished.iter().zip(offsets) {
                let entry = if stored.bytes.is_empty() {
                    Entry::ZERO
                } else {
                    self.writer.queue.push(offset, stored.bytes)?;
                    Entry {
                        offset,
                        len: stored.bytes.len() as u32,
                        sum: stored.sum,
                        storage: stored.storage,
                    }
                };
                self.set_entry(stored.unit, entry)?;
            }
            self.writer.batch.reuse(finished);
            if self.writer.queue.bytes() >= WRITTEN_TOGETHER {
                self.write_queue()?;
            }
        }
        if self.map.changed_leaves() > LEAVES_MAX {
            self.write_level(0)?;
        }
        Ok(())
    }

    /// Puts an entry into the map and releases the extent it replaces.
    pub(crate) fn set_entry(&mut self, unit: u64, entry: Entry) -> Result<()> {
        litepack_io::memory::check()?;
        let former = self.map.set(unit, entry, &self.medium)?;
        if !entry.is_zero() {
            let txn = self.writer.txn();
            txn.stored_units += 1;
            txn.stored_bytes += u64::from(entry.len);
        }
        if !former.is_zero() {
            self.writer.txn().count_out(former.len);
            self.writer
                .release_content(former.offset, former.len.into())?;
        }
        Ok(())
    }

    /// How units are encoded from now on.
    fn recipe(&self) -> Recipe {
        Recipe {
            level: self.writer.level,
            columnar: self.writer.columnar,
            uuid: self.medium.uuid,
        }
    }

    /// Writes what is queued.
    pub(crate) fn write_queue(&mut self) -> Result<()> {
        let written = self.writer.queue.write(&self.medium.disk)?;
        self.writer.unflushed_bytes += written;
        self.writer.written_bytes += written;
        Ok(())
    }
}

/// The number to store a unit with: by the shape of its first page, and what it was stored with.
fn number_for(catalog: &Catalog, page_size: u32, unit: &[u8], former: DictId) -> DictId {
    let first_page = &unit[..unit.len().min(page_size as usize)];
    catalog.number_for(shape(first_page), former)
}

/// First bytes of every plain SQLite database.
pub const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The page size in a SQLite header, if it is one.
pub(crate) fn page_size_in(header: &[u8]) -> Option<u32> {
    let field = header
        .get(16..18)
        .filter(|_| header.starts_with(SQLITE_MAGIC))?;
    match u16::from_be_bytes([field[0], field[1]]) {
        1 => Some(65536),
        size if size >= 512 && size.is_power_of_two() => Some(size.into()),
        _ => None,
    }
}
