//! A handle that reads and writes: a snapshot, and at most one transaction that follows it.
//!
//! SQLite spreads a transaction over many calls, between which nothing can borrow the handle. So a [`Transaction`] can
//! be suspended: its changes stay in the handle, and [`Store::begin`] goes on with them. Everything that needs a
//! running transaction is a method of [`Transaction`].

use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::{Key, Keys};
use litepack_codec::{DictId, LEVELS, Level};
use litepack_io::storage::Storage;

use crate::error::{Damage, Error, Result};
use crate::format::layout::FileUuid;
use crate::format::leaf::Entry;
use crate::format::offset::FileOffset;
use crate::format::record::LogNumbers;
use crate::format::unit::Unit;
use crate::inspect::check::CheckReport;
use crate::inspect::info::{Info, StoredUnit};
use crate::options::Options;
use crate::snapshot::handle::{Snapshot, retry_if_stale};
use crate::snapshot::image::Image;
use crate::space::erase::Erase;
use crate::space::held::Needs;
use crate::transaction::changes::{Changes, Transaction};
use crate::transaction::writer::Writer;
use litepack_io::cache::FileId;

/// One handle on a packed file. Not shared between threads; several handles, in one process or many,
/// may be open on one file as long as at most one writes at a time, which SQLite's locks see to.
#[derive(Debug)]
pub struct Store<D: Storage> {
    /// The commit that the handle is at: where a transaction begins, and where it goes back to.
    pub(super) snapshot: Snapshot<D>,
    pub(super) writer: Writer,
    /// The transaction that is suspended.
    pub(super) suspended: Option<Box<Changes>>,
}

impl<D: Storage> Store<D> {
    /// Opens a packed file, or an empty one that becomes packed with its first commit. Reads the
    /// header only; the newest commit is read by [`Store::refresh`], when the caller holds a lock.
    ///
    /// # Errors
    /// [`Error::NotPacked`] for any other file, [`Error::Unsupported`] for a newer format.
    pub fn open(disk: D, options: Options) -> Result<Store<D>> {
        Ok(Store {
            snapshot: Snapshot::open(disk, &options)?,
            writer: Writer::new(&options),
            suspended: None,
        })
    }

    /// Begins a transaction, or goes on with the one that was suspended.
    ///
    /// A new one begins at the newest commit, and makes that durable first if it is not, because the space it freed is
    /// about to be used.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn begin(&mut self) -> Result<Transaction<'_, D>> {
        self.finish_undo()?;
        let changes = match self.suspended.take() {
            Some(changes) => changes,
            None => Box::new(self.new_changes()?),
        };
        Ok(Transaction {
            store: self,
            changes,
        })
    }

    /// Runs a step of the transaction, which a failure rolls back.
    pub(crate) fn step<T>(
        &mut self,
        step: impl FnOnce(&mut Transaction<'_, D>) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = self.begin()?;
        let result = step(&mut transaction);
        match &result {
            Ok(_) => transaction.suspend(),
            Err(error) => transaction.fail(error),
        }
        result
    }

    /// Writes `bytes` at `offset` of the database, as part of the running transaction; the first
    /// write begins one.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.step(|transaction| transaction.write(offset, bytes))
    }

    /// As [`Store::write`], for callers that already chose the dictionary. The store trains none from then on.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_with(&mut self, offset: u64, bytes: &[u8], dictionary: DictId) -> Result<()> {
        self.step(|transaction| transaction.write_with(offset, bytes, dictionary))
    }

    /// Sets the length of the database, as part of the running transaction.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        if size == self.size() {
            return Ok(());
        }
        self.step(|transaction| transaction.truncate(size))
    }

    /// Whether a transaction is suspended.
    pub fn in_transaction(&self) -> bool {
        self.suspended.is_some()
    }

    /// Drops everything since the last commit.
    pub fn rollback(&mut self) {
        if let Some(changes) = self.suspended.take() {
            let store = self;
            Transaction { store, changes }.rollback();
        }
    }

    /// Publishes the running transaction, if there is one: see [`Transaction::commit`].
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit(&mut self) -> Result<()> {
        if self.in_transaction() {
            self.begin()?.commit().map(|_| ())
        } else {
            self.finish_undo()
        }
    }

    /// Fills `buf` with the database's bytes from `offset`, those of the running transaction included, and returns how
    /// many there were; fewer than asked only at the end of the database.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the page; no byte that fails its checksum is ever returned.
    pub fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.finish_undo()?;
        match &mut self.suspended {
            Some(changes) => {
                let pages = self.snapshot.pages();
                pages.read(&mut changes.image, &self.writer.buffer, offset, buf)
            }
            None => self.committed(|snapshot| snapshot.read(offset, buf)),
        }
    }

    /// Moves to the newest commit, unless a transaction is running. True if it moved.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or has become something else.
    pub fn refresh(&mut self) -> Result<bool> {
        if self.in_transaction() {
            return Ok(false);
        }
        self.finish_undo()?;
        self.committed(Snapshot::refresh)
    }

    /// As [`Store::refresh`], for a caller that has no lock, or had none until now: others may have put the file back
    /// to an earlier commit, as from a backup. In [`Store::refresh`] it is damage if a commit of this handle is gone.
    ///
    /// # Errors
    /// As [`Store::refresh`].
    pub fn refresh_anew(&mut self) -> Result<bool> {
        self.snapshot.forget_own();
        self.refresh()
    }

    /// Works on the commit that the handle is at. It moves to newer ones only while no transaction is running; what is
    /// known for writing is forgotten then.
    pub(crate) fn committed<T>(&mut self, work: impl FnOnce(&mut Snapshot<D>) -> T) -> T {
        let before = self.snapshot.moves();
        self.snapshot.pin(self.suspended.is_some());
        let result = work(&mut self.snapshot);
        if self.snapshot.moves() != before {
            self.writer.newest.forget();
        }
        result
    }

    /// The database, with the changes of the running transaction except for what is still buffered.
    pub(crate) fn image(&self) -> &Image {
        match &self.suspended {
            Some(changes) => &changes.image,
            None => self.snapshot.image(),
        }
    }

    /// Where a unit is stored.
    pub(crate) fn entry(&mut self, unit: Unit) -> Result<Entry> {
        match &self.suspended {
            Some(changes) => self.snapshot.pages().entry(&changes.image, unit),
            None => self.snapshot.entry(unit),
        }
    }

    /// As [`Snapshot::check`].
    ///
    /// # Errors
    /// As [`Snapshot::check`].
    pub fn check(&mut self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<CheckReport> {
        self.finish_undo()?;
        self.committed(|snapshot| snapshot.check(progress))
    }

    /// As [`Snapshot::info`].
    ///
    /// # Errors
    /// As [`Snapshot::info`].
    pub fn info(&mut self) -> Result<Info> {
        self.finish_undo()?;
        self.committed(Snapshot::info)
    }

    /// As [`Snapshot::units`].
    ///
    /// # Errors
    /// As [`Snapshot::units`].
    pub fn units(&mut self, each: &mut dyn FnMut(StoredUnit)) -> Result<Vec<Damage>> {
        self.finish_undo()?;
        self.committed(|snapshot| snapshot.units(each))
    }

    /// As [`Snapshot::place_of_page`].
    ///
    /// # Errors
    /// As [`Snapshot::place_of_page`].
    pub fn place_of_page(&mut self, page: PageNumber) -> Result<Option<(FileOffset, u64)>> {
        self.finish_undo()?;
        self.committed(|snapshot| snapshot.place_of_page(page))
    }

    /// As [`Snapshot::verify_map`].
    ///
    /// # Errors
    /// As [`Snapshot::verify_map`].
    pub fn verify_map(&mut self) -> Result<()> {
        self.committed(Snapshot::verify_map)
    }

    /// As [`Snapshot::retry_if_stale`].
    ///
    /// # Errors
    /// As [`Snapshot::retry_if_stale`].
    pub fn retry_if_stale<T>(
        &mut self,
        work: impl FnMut(&mut Self) -> Result<T>,
        is_sound: impl Fn(&T) -> bool,
    ) -> Result<T> {
        retry_if_stale(self, Self::refresh, work, is_sound)
    }

    /// The commit that the handle is at, which is not moved.
    pub(crate) fn snapshot(&self) -> &Snapshot<D> {
        &self.snapshot
    }

    pub(crate) fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Whether the file is still empty.
    pub fn is_new(&self) -> bool {
        self.uuid() == FileUuid([0; 16])
    }

    /// The file's identity on disk; all zero while it is empty.
    pub fn uuid(&self) -> FileUuid {
        self.snapshot.uuid()
    }

    /// As [`Snapshot::keys`].
    pub fn keys(&self) -> Option<&Arc<Keys>> {
        self.snapshot.keys()
    }

    /// The user's key of a file that is or is to be encrypted.
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.snapshot.shared_key()
    }

    /// Gives a file that is still empty the key that it is made with; or, if others have made it since it was opened, the
    /// key that it opens with.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn set_key(&mut self, key: Arc<Key>) -> Result<()> {
        self.snapshot.set_key(key)
    }

    /// The medium the store is on.
    pub fn disk(&self) -> &D {
        self.snapshot.disk()
    }

    /// Shares cached pages with other handles of the same file identity from now on.
    pub fn set_file(&mut self, file: FileId) {
        self.snapshot.set_file(file);
    }

    /// The zstd level for pages written from now on, clamped to what zstd offers.
    pub fn set_level(&mut self, level: Level) {
        self.writer.level = level.clamp(*LEVELS.start(), *LEVELS.end());
    }

    /// The zstd level in use.
    pub fn level(&self) -> Level {
        self.writer.level
    }

    /// Threads that may work at the same time, the handle's own included.
    pub fn set_threads(&mut self, threads: usize) {
        self.snapshot.set_threads(threads);
    }

    /// Threads that may work at the same time, the handle's own included.
    pub fn threads(&self) -> usize {
        self.snapshot.threads()
    }

    /// When deleted content is overwritten, from now on.
    pub fn set_erase(&mut self, when: Erase) {
        self.writer.eraser.when = when;
    }

    /// When deleted content is overwritten.
    pub fn erase(&self) -> Erase {
        self.writer.eraser.when
    }

    /// By these a log is known to follow the newest commit, or the one that the running transaction makes.
    pub fn log_numbers(&self) -> LogNumbers {
        match (&self.suspended, self.snapshot.commit()) {
            (Some(changes), _) => changes.log,
            (None, Some(commit)) => commit.record.log,
            (None, None) => LogNumbers::default(),
        }
    }

    /// Begins a transaction that changes nothing yet, unless one is running.
    ///
    /// # Errors
    /// As [`Store::begin`].
    pub fn begin_empty(&mut self) -> Result<()> {
        self.step(|_| Ok(()))
    }

    /// Has the commit of the running transaction carry these. Without a word it has those of the commit before.
    ///
    /// A log may stand on the commit if it `is_base`. One with the number that the next log begins after as it was is
    /// what it was before: such a log may have begun meanwhile.
    pub fn set_log_numbers(&mut self, numbers: LogNumbers, is_base: bool) {
        if let Some(changes) = &mut self.suspended {
            if changes.log.next != numbers.next {
                changes.is_log_base = is_base;
            }
            changes.log = numbers;
        }
    }

    /// Asks this what others need of the file, each time before something is written, or erased. Without it a file that
    /// a log may stand on gets longer with each commit.
    pub fn set_needs(&mut self, needs: Box<dyn Needs>) {
        self.writer.needs = Some(needs);
    }

    /// Whether the whole database is being rewritten, as far as it is not committed yet.
    pub fn set_rewriting(&mut self, rewriting: bool) {
        self.writer.rewriting = rewriting;
    }

    /// Number of the commit this handle is at; 0 while the file is empty.
    pub fn seq(&self) -> u64 {
        self.snapshot.seq()
    }

    /// As [`Snapshot::fell_back`].
    pub fn fell_back(&self) -> bool {
        self.snapshot.fell_back()
    }

    /// As [`Snapshot::newest_is_damaged`].
    pub fn newest_is_damaged(&self, why: &str) -> Error {
        self.snapshot.newest_is_damaged(why)
    }

    /// Bytes of the database that are stored together.
    pub fn unit_size(&self) -> u32 {
        let running = self.suspended.as_ref();
        running.map_or(self.snapshot.unit_size(), |changes| changes.image.unit_size)
    }

    /// Length of the database in bytes, changes of the running transaction included.
    pub fn size(&self) -> u64 {
        let running = self.suspended.as_ref();
        running.map_or(self.snapshot.size(), |changes| changes.image.size)
    }

    /// Ends the handle's work; what no commit holds is dropped.
    pub fn close(mut self) -> D {
        // The lock may be gone: what a transaction left behind must not be overwritten now.
        self.set_erase(Erase::Never);
        self.rollback();
        self.snapshot.into_disk()
    }
}
