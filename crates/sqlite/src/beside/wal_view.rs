//! What the handle of a database and its WAL tell each other: the handle, whether its locks keep others from the WAL, so
//! that what was found there is still so, and the numbers of its newest commit; the WAL, which log was read.
//!
//! A transaction that reads holds a read lock of the WAL index: the WAL is not restarted meanwhile, and its frames stay as
//! they are. One that writes holds the lock to write: no other appends. A checkpoint holds its own and the first read
//! lock. A handle that has the file for itself takes none of them. Of all these it is enough to look once after the lock
//! was taken, and for a transaction that only reads not even that, if the header of the index says that there was no
//! commit since the one before. Without such a lock, or where it is kept by a VFS above ours, each look is good for one call.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litepack_cipher::Keys;
use litepack_io::cache::{Cache, FileId};
use litepack_io::storage::{ReadAt, Storage};
use litepack_log::{BaseCommit, BoundTo, End, Synced};
use litepack_store::{
    CommitRecord, FileState, FileUuid, FormerPages, HEAD_LEN, LogNumbers, Options, Snapshot,
};

use super::encrypted;
use crate::host::file::Peek;

/// A writer that is at work may make the head unreadable for a moment, so often in a row at most.
const READS_MAX: usize = 10;

/// Logs stand on databases of so many units. Smaller ones, of fewer pages than a generation has frames, gain little.
static UNITS_MIN: AtomicU64 = AtomicU64::new(1000);

/// Has logs stand on databases of so many units or more from now on, for tests.
pub fn let_logs_stand_from(units: u64) {
    UNITS_MIN.store(units, Ordering::Relaxed);
}

/// The view of one handle. SQLite uses a handle and its WAL in one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct WalView {
    /// How many locks it has taken.
    taken: AtomicU64,
    /// That number while one of its locks keeps the WAL as it is, else 0.
    kept: AtomicU64,
    /// The log that was read since a checkpoint began.
    log: Mutex<LogRead>,
    /// The newest commit that was seen with its mark since the handle has locks. Others put none of those back.
    seen: Mutex<Option<(FileUuid, u64)>>,
    /// The number of the journal that undoes what is committed now; 0 for none that has its name.
    journal: AtomicU64,
    /// The database's file, its keys if it is encrypted, and its name in the cache.
    database: Arc<Peek>,
    keys: Mutex<Option<Arc<Keys>>>,
    cached: Mutex<Option<FileId>>,
    /// Deleted content is to leave no trace: a log that stands on a commit would keep it.
    leaves_no_trace: AtomicBool,
    /// The part of its log that is known to be synced.
    synced: Mutex<Synced>,
    /// The log that SQLite has open for the handle. It may have lost its name, and is read for as long as it is open.
    open_log: Mutex<Option<Arc<Peek>>>,
}

/// A log that was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogRead {
    /// Its own number; 0 for none that is known.
    pub(crate) own: u64,
    /// The number of the file that it begins after.
    pub(crate) after: u64,
    /// Where the part of it that was read ends at most.
    pub(crate) end: End,
}

impl LogRead {
    /// Whether it follows a commit with these numbers, or is not known.
    pub(crate) fn follows(&self, numbers: &LogNumbers) -> bool {
        self.own == 0 || self.own == numbers.current || self.after == numbers.next
    }
}

impl WalView {
    /// That of a handle with this file.
    pub(crate) fn new(database: Arc<Peek>) -> WalView {
        WalView {
            database,
            ..WalView::default()
        }
    }

    /// The keys of the file, if it is encrypted.
    pub(crate) fn keys(&self) -> Option<Arc<Keys>> {
        self.locked_keys().clone()
    }

    /// Notes them.
    pub(crate) fn set_keys(&self, keys: Option<&Arc<Keys>>) {
        if keys.is_some() {
            encrypted::note_open();
        }
        let mut known = self.locked_keys();
        if known.as_ref().map(Arc::as_ptr) != keys.map(Arc::as_ptr) {
            *known = keys.cloned();
        }
    }

    /// The name of the file's pages in the cache.
    pub(crate) fn set_cached(&self, file: FileId) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    }

    /// Whether what is deleted is to leave no trace.
    pub(crate) fn set_leaves_no_trace(&self, leaves_none: bool) {
        self.leaves_no_trace.store(leaves_none, Ordering::Relaxed);
    }

    /// The part of the log that is known to be synced, by any handle.
    pub(crate) fn synced(&self) -> Synced {
        let synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        synced.clone()
    }

    /// Shares that with another handle of the file. The system tells of a sync that failed once, and none of them is to
    /// believe the next one.
    pub(super) fn share_synced(&self, other: &WalView) {
        let shared = other.synced();
        *self.synced.lock().unwrap_or_else(PoisonError::into_inner) = shared;
    }

    /// SQLite has this log open from now on.
    pub(crate) fn set_open_log(&self, log: &Arc<Peek>) {
        let mut known = self.open_log.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::clone(log));
        drop(known);
        // Frames are made from this commit, or a later one. If it cannot be read now, the next look is the error.
        let _ = self.file_state();
    }

    /// The log that SQLite has open.
    pub(crate) fn open_log(&self) -> Option<Peeked> {
        let known = self.open_log.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone().filter(|log| log.is_open()).map(Peeked)
    }

    /// Whether a log may stand on a commit of a database of so many units.
    pub(crate) fn may_stand(&self, units: u64) -> bool {
        units >= UNITS_MIN.load(Ordering::Relaxed) && !self.leaves_no_trace.load(Ordering::Relaxed)
    }

    fn locked_keys(&self) -> MutexGuard<'_, Option<Arc<Keys>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the file that the handle has, now.
    pub(crate) fn file_state(&self) -> io::Result<Option<FileState>> {
        let keys = self.keys();
        let mut head = [0; HEAD_LEN];
        let mut found = Ok(None);
        for _ in 0..READS_MAX {
            self.database.head(&mut head)?;
            found = FileState::of(&head, keys.as_ref());
            if found.is_ok() {
                break;
            }
        }
        let found = found.map_err(io::Error::other)?;
        if let Some(state) = &found {
            self.expect_no_earlier(state)?;
        }
        Ok(found)
    }

    /// An error if the file has gone back behind a commit that was seen. Nothing may be built on an earlier one: SQLite has
    /// pages of the later one.
    fn expect_no_earlier(&self, state: &FileState) -> io::Result<()> {
        let mut seen = self.locked_seen();
        let of_file = seen.filter(|(uuid, _)| *uuid == state.uuid);
        match of_file {
            Some((_, seq)) if state.seq < seq => Err(io::Error::other(format!(
                "commit {seq} of the database is gone, and commit {} is the newest: the disk has lost a write, or the file \
                 was replaced while it was in use",
                state.seq
            ))),
            _ => {
                if state.is_durable {
                    *seen = Some((state.uuid, state.seq));
                }
                Ok(())
            }
        }
    }

    /// The handle has had no lock that kept others from putting the file back.
    pub(crate) fn forget_seen(&self) {
        *self.locked_seen() = None;
    }

    fn locked_seen(&self) -> MutexGuard<'_, Option<(FileUuid, u64)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was renamed or deleted since it was opened. Its log is not where its name says.
    pub(crate) fn has_moved(&self) -> io::Result<bool> {
        self.database.has_moved()
    }

    /// Returns once a power loss leaves its newest commit.
    pub(crate) fn make_durable(&self) -> io::Result<()> {
        match self.file_state()? {
            Some(state) if state.is_durable => Ok(()),
            _ => self.database.sync(),
        }
    }

    /// A log was read. Nothing behind its end is needed for the pages that were read since the checkpoint began.
    pub(crate) fn was_read(&self, log: LogRead) {
        let mut known = self.locked_log();
        if known.own != log.own || known.end.place == 0 {
            *known = log;
        }
    }

    /// The transaction that is under way has a journal with its name, by this number.
    pub(crate) fn has_journal(&self, number: u64) {
        self.journal.store(number, Ordering::Relaxed);
    }

    /// It has none any more, if it was this one.
    pub(crate) fn journal_ended(&self, number: u64) {
        let (now, then) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.journal.compare_exchange(number, 0, now, then);
    }

    /// That number.
    pub(crate) fn journal(&self) -> u64 {
        self.journal.load(Ordering::Relaxed)
    }

    /// A checkpoint begins.
    pub(crate) fn forget_log(&self) {
        *self.locked_log() = LogRead::default();
    }

    /// The log that was read since then.
    pub(crate) fn log(&self) -> LogRead {
        *self.locked_log()
    }

    fn locked_log(&self) -> MutexGuard<'_, LogRead> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock was taken: what others did before counts, unless the caller knows that what is to be read in the WAL
    /// `is_same`. `keeps` if the locks held now keep the WAL.
    pub(crate) fn took(&self, keeps: bool, is_same: bool) {
        if !is_same {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        self.set(keeps);
    }

    /// A lock is about to be released; `keeps` if the others keep the WAL.
    pub(crate) fn releases(&self, keeps: bool) {
        self.set(keeps);
    }

    fn set(&self, keeps: bool) {
        let taken = self.taken.load(Ordering::Relaxed);
        self.kept
            .store(if keeps { taken } else { 0 }, Ordering::Relaxed);
    }

    /// A number that is the same as long as nothing that was found in the WAL can have changed for this handle; `None`
    /// if it can at any moment.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.kept.load(Ordering::Relaxed)).filter(|kept| *kept > 0)
    }
}

/// The state of a file as its log compares it.
pub fn state_for_log(file: &FileState) -> litepack_log::FileState {
    litepack_log::FileState {
        identity: file.uuid.0,
        current: file.log.current,
        next: file.log.next,
        end: End {
            place: file.log.end,
            link: file.log.link,
        },
        is_unfinished: file.log.unfinished != 0,
        is_durable: file.is_durable,
    }
}

/// The database of a handle, as its log asks it.
#[derive(Debug)]
pub(crate) struct DatabaseOf {
    view: Arc<WalView>,
    pages: FormerPages<Peeked>,
}

/// A file of a handle, to be read and synced.
#[derive(Debug)]
pub(crate) struct Peeked(Arc<Peek>);

impl Storage for Peeked {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl ReadAt for Peeked {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&*self.0)
    }
}

impl DatabaseOf {
    /// Of the handle with this view.
    pub(crate) fn new(view: Arc<WalView>) -> DatabaseOf {
        let pages = FormerPages::default();
        DatabaseOf { view, pages }
    }

    fn at(&self, record: &CommitRecord) -> litepack_store::Result<Snapshot<Peeked>> {
        let cached = *self
            .view
            .cached
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let options = Options {
            threads: 1,
            cache: Arc::clone(Cache::shared()),
            file: cached.unwrap_or_else(FileId::unique),
            ..Options::default()
        };
        let disk = Peeked(Arc::clone(&self.view.database));
        Snapshot::at(disk, record, self.view.keys().as_ref(), &options)
    }
}

impl BoundTo for DatabaseOf {
    fn state(&self) -> io::Result<Option<litepack_log::FileState>> {
        Ok(self.view.file_state()?.as_ref().map(state_for_log))
    }

    fn make_durable(&self) -> io::Result<()> {
        self.view.make_durable()
    }

    fn base_commit(&self) -> io::Result<Option<BaseCommit>> {
        let state = self.view.file_state()?;
        // One that only has others look at the log that stands on a former one has the flag, too.
        let may_stand = |state: &FileState| self.view.may_stand(state.units);
        let state = state.filter(|state| state.is_durable && state.is_base && may_stand(state));
        Ok(state.map(|state| BaseCommit(state.record.0)))
    }

    fn base_page(&self, commit: &BaseCommit, page: u32, buf: &mut [u8]) -> io::Result<bool> {
        let record = CommitRecord(commit.0);
        (self.pages).read(&record, page, buf, || self.at(&record))
    }

    fn base_page_at_hand(&self, commit: &BaseCommit, page: u32, buf: &mut [u8]) -> bool {
        let record = CommitRecord(commit.0);
        (self.pages).read_cached(&record, page, buf, || self.at(&record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_counts_until_a_lock_is_taken_or_the_last_is_gone() {
        let view = WalView::default();
        assert_eq!(view.number(), None);
        view.took(false, false);
        assert_eq!(view.number(), None);
        view.took(true, false);
        let first = view.number();
        assert!(first.is_some());
        view.releases(true);
        assert_eq!(view.number(), first);
        view.took(true, false);
        let second = view.number();
        assert!(second.is_some() && second != first);
        view.releases(false);
        assert_eq!(view.number(), None);
        view.took(true, false);
        let third = view.number();
        assert!(third.is_some() && third != second);
        view.releases(false);
        assert_eq!(view.number(), None);
        view.took(true, true);
        assert_eq!(view.number(), third);
    }
}
