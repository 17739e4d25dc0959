//! A packed main database as SQLite sees it: reads and writes in, the store's commits out.
//!
//! Which of SQLite's calls begin, publish and flush a commit is decided here and argued in
//! docs/design.md. In short:
//! - `FCNTL_SYNC`, `CKPT_DONE` (with the change of size that follows it) and `COMMIT_PHASETWO` publish
//!   what was written;
//! - `xSync` makes it durable, the change of size after a checkpoint even for good: SQLite is about to throw the WAL
//!   away;
//! - giving up the write lock without any of these drops it.

use std::ffi::c_int;
use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::{Key, Padding};
use litepack_io::storage::Storage;
use litepack_store::{
    Cache, CheckReport, Erase, FileOffset, FileUuid, Info, Needed, Result, Store,
};

use super::checkpoint::Checkpoint;
use super::secure_delete::SecureDelete;
use crate::beside::encrypted;
use crate::beside::wal_view::{LogRead, WalView};
use crate::c::codes::{LOCK_EXCLUSIVE, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED};
use crate::host::wal_index::{BACKFILL, Checkpoints, Words};
use crate::options::{Name, Setting};

/// The state of one open packed database.
#[derive(Debug)]
pub(crate) struct Packed<D: Storage> {
    pub(super) store: Store<D>,
    lock: c_int,
    wal_read: WalRead,
    /// Whether the database is in WAL mode, and the commit in which it was looked up.
    mode_at: Option<(u64, bool)>,
    /// The WAL index as it was when the store was last looked at, if the store holds all that the index says.
    held: Option<Checkpoints>,
    checkpoint: Checkpoint,
    /// A rollback-mode transaction has put the database into WAL mode.
    enters_wal: bool,
    secure_delete: SecureDelete,
    /// `VACUUM` was told to write the whole database anew, and not all of that is committed to the file. In WAL mode it
    /// comes there with a checkpoint.
    vacuuming: bool,
    /// The part of the file that a log needed when that was tidied up.
    untidy: Option<Needed>,
    /// What is known of the WAL of this handle.
    wal: Arc<WalView>,
    /// The database was in WAL mode when the running transaction began, or that is not known.
    began_in_wal: bool,
}

/// Where a commit came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// From a checkpoint that may not have brought all frames of the WAL.
    FromWal,
    /// From one that has.
    WithAll,
    Otherwise,
}

/// The last read transaction in WAL mode, and whether the store was looked at since it began. Within one, looking again
/// is not needed: what a later checkpoint writes is not what this transaction reads from the database, and an extent that
/// is reused meanwhile fails its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalRead {
    /// SQLite has not mapped the WAL index through us, so it does not tell us of any.
    Untold,
    /// SQLite has its lock, and looks how far checkpoints have got. The state of checkpoints in the index was true with
    /// this number ([`DOUBT`](crate::host::wal_index::DOUBT)).
    Beginning(u32),
    /// It has begun, and the store was not looked at since.
    Begun,
    /// The state of checkpoints that SQLite saw may not be true.
    Misled,
    /// The store was looked at.
    Seen,
}

impl WalRead {
    /// SQLite takes or releases the lock of such a transaction: what was in doubt is over.
    pub(super) fn settled(&mut self) {
        if matches!(self, WalRead::Beginning(_) | WalRead::Misled) {
            *self = WalRead::Begun;
        }
    }

    /// It did not get the lock.
    pub(super) fn refused(&mut self) {
        if matches!(self, WalRead::Beginning(_)) {
            *self = WalRead::Begun;
        }
    }

    /// SQLite has looked how far checkpoints have got; `doubt` is the number now.
    pub(super) fn looked(&mut self, doubt: impl FnOnce() -> u32) {
        if let WalRead::Beginning(before) = *self {
            *self = match doubt() == before {
                true => WalRead::Begun,
                false => WalRead::Misled,
            };
        }
    }

    fn seen(&mut self) {
        if *self == WalRead::Begun {
            *self = WalRead::Seen;
        }
    }
}

/// Where the database header says which journal mode it is for, and what it says in WAL mode
/// (<https://sqlite.org/fileformat2.html#file_format_version_numbers>).
const VERSIONS: std::ops::Range<usize> = 18..20;
const WAL_VERSIONS: [u8; 2] = [2, 2];

impl<D: Storage + Words> Packed<D> {
    pub(crate) fn new(store: Store<D>) -> Packed<D> {
        Packed {
            store,
            lock: LOCK_NONE,
            wal_read: WalRead::Untold,
            mode_at: None,
            held: None,
            checkpoint: Checkpoint::None,
            enters_wal: false,
            secure_delete: SecureDelete::new(false),
            vacuuming: false,
            untidy: None,
            wal: Arc::default(),
            began_in_wal: false,
        }
    }

    /// The WAL of this handle.
    pub(crate) fn set_wal(&mut self, wal: Arc<WalView>) {
        self.wal = wal;
        self.tell_keys();
    }

    /// Tells the WAL of this handle the keys of the file, which has none before its first commit.
    fn tell_keys(&self) {
        self.wal.set_keys(self.store.keys());
    }

    /// Whether it is encrypted, or will be with its first commit.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.store.keys().is_some() || (self.store.is_new() && self.store.key().is_some())
    }

    /// The user's key.
    pub(crate) fn key(&self) -> Option<Arc<Key>> {
        self.store.key().cloned()
    }

    /// How an encrypted file is padded.
    pub(crate) fn padding(&self) -> Option<Padding> {
        self.store.keys().map(|keys| keys.padding())
    }

    /// The key of a database that is still empty.
    pub(crate) fn set_key(&mut self, key: Arc<Key>) -> Result<()> {
        encrypted::note_open();
        self.store.set_key(key)
    }

    pub(super) fn rekey(&mut self, key: Arc<Key>) -> Result<()> {
        self.store.rekey(key)
    }

    /// The commit that it is at.
    pub(crate) fn commit(&self) -> (FileUuid, u64) {
        (self.store.uuid(), self.store.seq())
    }

    pub(crate) fn disk(&self) -> &D {
        self.store.disk()
    }

    /// Moves to the newest commit. Without a lock that may be an earlier one than before: a backup was put back.
    pub(super) fn refresh(&mut self) -> Result<bool> {
        if self.lock == LOCK_NONE {
            self.wal.forget_seen();
            return self.store.refresh_anew();
        }
        let has_moved = self.store.refresh()?;
        if has_moved && self.wal.open_log().is_some() {
            // Frames are made from this commit from now on.
            self.wal.file_state()?;
        }
        Ok(has_moved)
    }

    /// Sees what others committed, where SQLite's locks do not rule that out: at each call without a lock, at each call
    /// in WAL mode if the index is kept elsewhere, and else at the first call of a WAL transaction if checkpoints have
    /// got further than at the last look.
    fn catch_up(&mut self) -> Result<()> {
        if self.lock == LOCK_NONE {
            self.refresh()?;
            self.wal_read.seen();
            return Ok(());
        }
        match self.wal_read {
            WalRead::Seen => return Ok(()),
            // Checkpoints take no lock on the database, and a VFS above ours may keep the WAL index to itself.
            WalRead::Untold => {
                if self.lock == LOCK_SHARED && self.is_in_wal_mode()? {
                    self.refresh()?;
                }
                return Ok(());
            }
            WalRead::Beginning(_) | WalRead::Begun | WalRead::Misled => {}
        }
        // Not before SQLite has read the index itself: then the store could be behind what SQLite knows.
        let index = Checkpoints::read(|offset| self.disk().word(offset));
        let frames = self.disk().word(BACKFILL);
        if index.is_none() || index != self.held {
            self.held = None;
            self.refresh()?;
            self.expect_newest(frames)?;
            self.held = index;
        }
        self.wal_read.seen();
        Ok(())
    }

    /// As [`Packed::is_wal`], of what is committed, and looked up once for each commit.
    pub(crate) fn is_in_wal_mode(&mut self) -> Result<bool> {
        let seq = self.store.seq();
        match self.mode_at {
            Some((known, is_wal)) if known == seq => Ok(is_wal),
            _ => {
                let is_wal = self.is_wal()?;
                self.mode_at = Some((seq, is_wal));
                Ok(is_wal)
            }
        }
    }

    /// SQLite has mapped the WAL index through us, or let go of it.
    pub(crate) fn set_index_mapped(&mut self, mapped: bool) {
        if !mapped {
            self.wal_read = WalRead::Untold;
        } else if self.wal_read == WalRead::Untold {
            self.wal_read = WalRead::Seen;
        }
    }

    pub(super) fn wal_read(&mut self) -> &mut WalRead {
        &mut self.wal_read
    }

    /// The state of checkpoints that SQLite saw when the WAL transaction began may not be true.
    pub(crate) fn is_misled(&self) -> bool {
        self.wal_read == WalRead::Misled
    }

    /// Whether the newest record is of a commit that a power loss has cut off, and still there.
    pub(super) fn falls_back(&mut self) -> Result<bool> {
        if self.store.fell_back() {
            self.refresh()?;
        }
        Ok(self.store.fell_back())
    }

    /// Makes the newest commit durable if another handle has made it, and writes it over one that was cut off.
    pub(super) fn take_over(&mut self) -> Result<()> {
        self.store.take_over()
    }

    /// An error if the newest commit is damaged although the WAL index says that frames are in the database: then there
    /// are processes that have read it. After a power loss the index is made anew, and no frame is in the database.
    pub(crate) fn expect_newest(&self, frames: u32) -> Result<()> {
        if frames > 0 && self.store.fell_back() {
            let why = "a running process has read it";
            return Err(self.store.newest_is_damaged(why));
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.catch_up()?;
        self.store.read(offset, buf)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.checkpoint.goes_on();
        self.expect_log_follows();
        self.checkpoint.expect_write()?;
        self.begins();
        if offset == 0 {
            self.enters_wal = bytes.get(VERSIONS) == Some(&WAL_VERSIONS);
        }
        self.store.write(offset, bytes)
    }

    /// A checkpoint may not write the pages of a log over a commit that it does not follow. The file has gone back then to
    /// an earlier one since the log was opened.
    fn expect_log_follows(&mut self) {
        let is_running = self.checkpoint == Checkpoint::Running;
        if is_running && !self.wal.log().follows(&self.store.log_numbers()) {
            let why = "the WAL does not follow the newest commit of the database: the disk has lost a write, or the file was \
                       replaced while it was in use";
            self.checkpoint = Checkpoint::Refused(why.into());
        }
    }

    pub(crate) fn size(&mut self) -> Result<u64> {
        self.catch_up()?;
        Ok(self.store.size())
    }

    pub(super) fn truncate(&mut self, size: u64) -> Result<()> {
        self.checkpoint.heed()?;
        self.catch_up()?;
        // A VFS above that keeps the locks to itself, or puts several files together, may cut this one when a
        // transaction is over and tell us nothing more. Left open, the change would keep this handle from seeing any
        // later commit.
        let alone = self.lock == LOCK_NONE && !self.store.in_transaction();
        self.begins();
        self.store.truncate(size)?;
        if self.checkpoint.takes_size() {
            // That was all of the WAL.
            if self.store.log_numbers().unfinished != 0 {
                self.store.begin_empty()?;
            }
            self.number(Came::WithAll)?;
            self.store.commit()?;
            self.vacuumed()?;
            self.tidy_again()?;
            // All of the WAL is in the database, so SQLite may restart it: whatever becomes of this commit, the one
            // before is of no use any more. With `synchronous=OFF` no `xSync` comes, and yet this has to hold.
            self.store.flush_for_good()?;
        } else if alone {
            let done = self
                .number(Came::Otherwise)
                .and_then(|()| self.store.commit());
            self.store.settle();
            return done;
        }
        Ok(())
    }

    /// Whether nothing was ever committed.
    pub(crate) fn is_new(&self) -> bool {
        self.store.is_new()
    }

    /// `FCNTL_SYNC`: the database is consistent.
    pub(super) fn publish(&mut self) -> Result<()> {
        self.number(Came::Otherwise)?;
        if std::mem::take(&mut self.enters_wal) {
            // From here on there is a WAL that goes with this commit and no former one.
            self.store.flush_for_good()?;
        } else {
            self.store.commit()?;
        }
        self.tell_keys();
        Ok(())
    }

    /// `COMMIT_PHASETWO`: so it is, and the transaction is over.
    pub(super) fn committed(&mut self) -> Result<()> {
        self.publish()?;
        if self.vacuuming && !self.is_wal()? {
            self.vacuumed()?;
        }
        Ok(())
    }

    /// Whether WAL mode is in use, whatever the header says: SQLite goes by whether there is a WAL.
    pub(crate) fn uses_wal(&mut self) -> Result<bool> {
        Ok(self.wal_read != WalRead::Untold || self.is_wal()?)
    }

    /// Whether `VACUUM` has written the database anew, and not all of it is in the file.
    pub(crate) fn is_vacuuming(&self) -> bool {
        self.vacuuming
    }

    pub(crate) fn set_vacuuming(&mut self, vacuuming: bool) {
        self.vacuuming = vacuuming;
        self.store.set_rewriting(vacuuming);
        self.tell_what_stays();
    }

    /// All that `VACUUM` wrote is in the file.
    fn vacuumed(&mut self) -> Result<()> {
        if self.vacuuming {
            self.store.tidy()?;
            self.set_vacuuming(false);
            let needed = self.store.seems_needed()?;
            self.untidy = Some(needed).filter(|needed| *needed != Needed::Nothing);
        }
        Ok(())
    }

    /// Tidies up once more if the log no longer needs the same as when `VACUUM` was tidied up.
    fn tidy_again(&mut self) -> Result<()> {
        if let Some(needed) = self.untidy
            && needed != self.store.seems_needed()?
        {
            self.store.tidy()?;
            self.untidy = None;
        }
        Ok(())
    }

    /// Does what could not be done as long as a log needed what was freed: it erases, and tidies up after `VACUUM`. The
    /// log may have been cut or deleted since. Others are still kept from committing. The commits were safe before, so a
    /// failure is none of theirs.
    fn catch_up_on_erasing(&mut self) {
        if !self.store.in_transaction() {
            let _ = self.tidy_again();
            self.store.erase_what_was_held();
        }
    }

    /// The state of `PRAGMA secure_delete`.
    pub(crate) fn secure_delete(&mut self) -> &mut SecureDelete {
        &mut self.secure_delete
    }

    /// `PRAGMA secure_delete = value`, for this database at least.
    pub(crate) fn set_secure_delete(&mut self, value: &str) {
        self.secure_delete.hear(value);
        self.set_erase();
    }

    /// Has the store erase what holds now.
    pub(super) fn set_erase(&mut self) {
        self.store.set_erase(self.secure_delete.now());
        self.tell_what_stays();
    }

    /// A log that stands on the database keeps what is deleted, or replaced by `VACUUM`.
    fn tell_what_stays(&self) {
        let leaves_no_trace = self.store.erase() == Erase::WithCommit;
        self.wal
            .set_leaves_no_trace(leaves_no_trace || self.vacuuming);
    }

    /// `xSync`.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.checkpoint.heed()?;
        let is_checkpoint = self.checkpoint == Checkpoint::Running;
        self.number(match is_checkpoint {
            true => Came::FromWal,
            false => Came::Otherwise,
        })?;
        self.store.flush()?;
        self.tell_keys();
        Ok(())
    }

    /// `frames` is how many frames of the WAL the index says are in the database. SQLite does not heed a failure, so
    /// writing fails after one: frames that come later must not go into an older commit.
    pub(super) fn checkpoint_starts(&mut self, frames: u32) -> Result<()> {
        self.set_erase();
        self.wal.forget_log();
        // SQLite goes on after a failure. Its writes are then refused.
        let refreshed = self.refresh();
        let newest = refreshed.and_then(|_| self.expect_newest(frames));
        self.checkpoint = match &newest {
            Ok(()) => Checkpoint::Running,
            Err(damaged) => Checkpoint::Refused(damaged.to_string()),
        };
        newest
    }

    /// `CKPT_DONE`: publishes what the checkpoint wrote, and remembers a failure, as SQLite does not.
    pub(super) fn checkpoint_done(&mut self) -> Result<()> {
        self.enters_wal = false;
        let result = self
            .number(Came::FromWal)
            .and_then(|()| self.store.commit());
        self.checkpoint.done(result.is_ok());
        result
    }

    /// A transaction of SQLite's begins, unless one is running.
    fn begins(&mut self) {
        if !self.store.in_transaction() {
            // Where the first page cannot be read, it may be.
            self.began_in_wal = self.is_in_wal_mode().unwrap_or(true);
        }
    }

    /// Has the running transaction's commit say which log follows it: after a checkpoint the one that it came from, and
    /// any that begins then; otherwise none that was there before.
    fn number(&mut self, came: Came) -> Result<()> {
        if !self.store.in_transaction() {
            return Ok(());
        }
        let mut numbers = self.store.log_numbers();
        let carried = numbers;
        numbers.unfinished = u32::from(came == Came::FromWal);
        match self.wal.log() {
            // Maybe a checkpoint, of which a VFS above says nothing.
            _ if came == Came::Otherwise => {
                if self.began_in_wal && self.is_wal().unwrap_or(true) {
                    return Ok(());
                }
                (numbers.current, numbers.end, numbers.link) = (0, self.wal.journal(), 0);
            }
            // From a WAL as SQLite has it, or a log that says nothing of itself: it goes on to follow.
            LogRead { own: 0, .. } => {
                numbers.unfinished = numbers.unfinished.min(carried.unfinished);
                self.store.set_log_numbers(numbers, false);
                return Ok(());
            }
            LogRead { own, end, .. }
                if own == numbers.current
                    && (end.place, end.link) <= (numbers.end, numbers.link) => {}
            LogRead { own, end, .. } => {
                (numbers.current, numbers.end, numbers.link) = (own, end.place, end.link);
            }
        }
        numbers.next = litepack_log::random_number().map_err(std::io::Error::from)?;
        let units = self.store.size() / u64::from(self.store.unit_size());
        let is_base = came != Came::Otherwise && self.wal.may_stand(units);
        self.store.set_log_numbers(numbers, is_base);
        Ok(())
    }

    /// The checkpointer lets go of its lock.
    pub(super) fn checkpoint_ends(&mut self) {
        self.store.settle();
        self.checkpoint = Checkpoint::None;
        self.catch_up_on_erasing();
    }

    /// The host VFS granted `level`.
    pub(crate) fn locked(&mut self, level: c_int) -> Result<()> {
        let first = self.lock == LOCK_NONE;
        self.checkpoint.goes_on();
        self.lock = level;
        if level >= LOCK_RESERVED {
            self.set_erase();
        }
        if first {
            self.wal.forget_seen();
            self.store.refresh_anew()?;
            self.tell_keys();
        }
        if level == LOCK_EXCLUSIVE {
            // Before a journal gets its name, which is to be played over this commit, and no other one.
            self.store.take_over()?;
        }
        Ok(())
    }

    /// SQLite lowers its lock to `level`. Writes that no commit holds are dropped when the right to
    /// write goes: publishing them would be to publish half a transaction.
    pub(crate) fn unlocking(&mut self, level: c_int) {
        if level < LOCK_RESERVED && self.lock >= LOCK_RESERVED {
            self.store.rollback();
            self.store.settle();
            self.enters_wal = false;
            self.set_vacuuming(false);
        }
        if self.lock == LOCK_EXCLUSIVE {
            // SQLite may have deleted the log.
            self.catch_up_on_erasing();
        }
        self.checkpoint.goes_on();
        self.lock = level;
    }

    pub(crate) fn lock_level(&self) -> c_int {
        self.lock
    }

    pub(crate) fn close(self) -> D {
        self.store.close()
    }

    pub(crate) fn apply(&mut self, setting: Setting) {
        match setting {
            Setting::Level(level) => self.store.set_level(level),
            Setting::Threads(threads) => self.store.set_threads(threads),
            Setting::CacheMb(mb) => Cache::shared().set_budget(mb << 20),
        }
    }

    /// Whether something is written that is not committed.
    pub(crate) fn in_transaction(&self) -> bool {
        self.store.in_transaction()
    }

    /// What was set for this handle alone.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let (level, threads) = (self.store.level(), self.store.threads());
        vec![Setting::Level(level), Setting::Threads(threads)]
    }

    pub(crate) fn setting(&self, name: Name) -> String {
        match name {
            Name::Level => self.store.level().to_string(),
            Name::Threads => self.store.threads().to_string(),
            Name::CacheMb => (Cache::shared().limit() >> 20).to_string(),
        }
    }

    /// Where a page lies: (offset, stored bytes).
    pub(crate) fn place_of_page(&mut self, page: PageNumber) -> Result<Option<(FileOffset, u64)>> {
        self.store.place_of_page(page)
    }

    /// Whether the database is in WAL mode, by its header.
    pub(crate) fn is_wal(&mut self) -> Result<bool> {
        let mut versions = [0; WAL_VERSIONS.len()];
        self.store.read(VERSIONS.start as u64, &mut versions)?;
        Ok(versions == WAL_VERSIONS)
    }

    pub(crate) fn info(&mut self) -> Result<Info> {
        self.store.info()
    }

    pub(crate) fn check(&mut self) -> Result<CheckReport> {
        self.store.check(&mut |_| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use litepack_io::testing::{CrashingStorage, MemoryStorage};
    use litepack_store::Options;

    use super::*;

    fn packed(disk: &MemoryStorage) -> Packed<&MemoryStorage> {
        let store = Store::open(disk, Options::default()).unwrap();
        let mut packed = Packed::new(store);
        packed.locked(LOCK_SHARED).unwrap();
        packed
    }

    fn store(byte: u8, writer: &mut Packed<&MemoryStorage>) {
        writer.write(0, &[byte; 4096]).unwrap();
        writer.publish().unwrap();
    }

    /// The value that a WAL transaction reads when the index says that so many frames are in the database.
    fn read(frames: u32, reader: &mut Packed<&MemoryStorage>) -> u8 {
        FRAMES.set(frames);
        reader.set_index_mapped(true);
        *reader.wal_read() = WalRead::Begun;
        let mut byte = [0];
        reader.read(0, &mut byte).unwrap();
        assert_eq!(*reader.wal_read(), WalRead::Seen);
        byte[0]
    }

    thread_local! {
        /// Frames in the database, as the index of each medium of this test says.
        static FRAMES: Cell<u32> = const { Cell::new(0) };
    }

    impl Words for &MemoryStorage {
        fn word(&self, offset: usize) -> u32 {
            match offset {
                BACKFILL => FRAMES.get(),
                // Even, where the number of doubt is.
                _ => 1000,
            }
        }
    }

    impl Words for CrashingStorage {
        fn word(&self, _: usize) -> u32 {
            0
        }
    }

    #[test]
    fn a_wal_reader_looks_when_checkpoints_got_further() {
        let disk = MemoryStorage::new(Vec::new());
        let mut writer = packed(&disk);
        store(1, &mut writer);
        let mut reader = packed(&disk);
        assert_eq!(read(0, &mut reader), 1);
        // A checkpoint has published, and has not told the index yet: until then all is in the WAL.
        store(2, &mut writer);
        assert_eq!(read(0, &mut reader), 1, "it need not look");
        assert_eq!(read(10, &mut reader), 2);
        store(3, &mut writer);
        assert_eq!(read(10, &mut reader), 2, "it need not look");
    }

    #[test]
    fn a_wal_reader_looks_whenever_another_vfs_keeps_the_index() {
        let disk = MemoryStorage::new(Vec::new());
        let mut writer = packed(&disk);
        // The header's bytes 18 and 19 say WAL.
        store(2, &mut writer);
        let mut reader = packed(&disk);
        let mut byte = [0];
        for checkpoint in 3..6 {
            writer.write(4096, &[checkpoint; 4096]).unwrap();
            writer.publish().unwrap();
            reader.read(4096, &mut byte).unwrap();
            assert_eq!(byte, [checkpoint]);
        }
        reader.set_index_mapped(true);
        writer.write(4096, &[7; 4096]).unwrap();
        writer.publish().unwrap();
        reader.read(4096, &mut byte).unwrap();
        assert_eq!(byte, [5], "it need not look: SQLite would tell");
    }

    #[test]
    fn a_size_that_changes_without_a_lock_is_published() {
        let disk = MemoryStorage::new(Vec::new());
        let (mut one, mut other) = (packed(&disk), packed(&disk));
        store(1, &mut one);
        one.unlocking(LOCK_NONE);
        one.truncate(0).unwrap();
        other.unlocking(LOCK_NONE);
        assert_eq!(other.size().unwrap(), 0);
        store(2, &mut other);
        let mut byte = [0];
        one.read(0, &mut byte).unwrap();
        assert_eq!(byte, [2]);
    }

    /// A journal that gets its name is to be played over this commit.
    #[test]
    fn what_another_handle_has_published_is_durable_when_the_lock_is_exclusive() {
        let disk = CrashingStorage::default();
        let open = |disk: &CrashingStorage| {
            let store = Store::open(disk.clone(), Options::default()).unwrap();
            let mut packed = Packed::new(store);
            packed.locked(LOCK_SHARED).unwrap();
            packed
        };
        let mut killed = open(&disk);
        killed.write(0, &[1; 4096]).unwrap();
        killed.publish().unwrap();
        let mut other = open(&disk);
        other.locked(LOCK_RESERVED).unwrap();
        other.locked(LOCK_EXCLUSIVE).unwrap();
        let left = CrashingStorage::with_image(disk.after_power_loss(0));
        let mut found = [0];
        open(&left).read(0, &mut found).unwrap();
        assert_eq!(found, [1]);
    }

    /// Between two transactions programs put a backup back into the file, which has the same identity.
    #[test]
    fn a_file_that_was_put_back_is_read_by_a_handle_that_had_no_lock() {
        type Next = fn(&mut Packed<&MemoryStorage>);
        let nexts: [Next; 2] = [|_| {}, |packed| packed.locked(LOCK_SHARED).unwrap()];
        for next in nexts {
            let disk = MemoryStorage::new(Vec::new());
            let mut writer = packed(&disk);
            store(1, &mut writer);
            let backup = disk.snapshot();
            store(2, &mut writer);
            let put_back = || {
                disk.truncate(0).unwrap();
                disk.write_at(&backup, 0).unwrap();
            };
            put_back();
            writer.truncate(8192).unwrap_err();
            writer.unlocking(LOCK_NONE);
            next(&mut writer);
            let mut byte = [0];
            writer.read(0, &mut byte).unwrap();
            assert_eq!(byte, [1]);
        }
    }

    /// A commit that failed and could not be undone, either, while the lock was there: others may have read it.
    #[test]
    fn what_could_not_be_undone_stays_when_the_lock_is_gone() {
        type End = fn(&mut Packed<CrashingStorage>);
        let ends: [End; 2] = [
            |packed| packed.unlocking(LOCK_NONE),
            Packed::checkpoint_ends,
        ];
        for end in ends {
            let disk = CrashingStorage::default();
            let open = || Packed::new(Store::open(disk.clone(), Options::default()).unwrap());
            let (mut one, mut other) = (open(), open());
            one.locked(LOCK_SHARED).unwrap();
            one.locked(LOCK_RESERVED).unwrap();
            one.write(0, &[1; 4096]).unwrap();
            one.flush().unwrap();
            one.write(0, &[3; 4096]).unwrap();
            one.publish().unwrap();
            disk.fail(disk.calls(), u64::MAX);
            one.flush().unwrap_err();
            end(&mut one);
            let mut found = [0];
            other.read(0, &mut found).unwrap();
            assert_eq!(found, [3]);
            disk.fail(0, 0);
            one.unlocking(LOCK_NONE);
            one.locked(LOCK_SHARED).unwrap();
            for reader in [&mut one, &mut other] {
                reader.read(0, &mut found).unwrap();
                assert_eq!(found, [3]);
            }
        }
    }

    #[test]
    fn a_wal_reader_looks_after_it_had_no_lock() {
        let disk = MemoryStorage::new(Vec::new());
        let mut writer = packed(&disk);
        store(1, &mut writer);
        let mut reader = packed(&disk);
        assert_eq!(read(0, &mut reader), 1);
        reader.unlocking(LOCK_NONE);
        store(2, &mut writer);
        reader.locked(LOCK_SHARED).unwrap();
        assert_eq!(read(0, &mut reader), 2);
    }
}
