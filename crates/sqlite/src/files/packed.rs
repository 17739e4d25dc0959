//! A packed main database over a file of the host's VFS: [`Packed`] has the content, the host's file has the locks and
//! the WAL index.

use std::ffi::c_int;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use litepack_btree::PageNumber;
use litepack_codec::Level;
use litepack_engine::maintenance::Former;
use litepack_engine::report::{check_text, info_json};
use litepack_io::storage::Storage;
use litepack_store::FileOffset;

use super::split::split;
use super::{Database, Event, File, Methods, NOT_WRITTEN, READ_FIRST};
use crate::beside::identity::{Identity, REPLACED};
use crate::beside::known_absent::KnownAbsent;
use crate::c::bindings::{
    SQLITE_SHM_EXCLUSIVE, SQLITE_SHM_LOCK, SQLITE_SHM_SHARED, SQLITE_SHM_UNLOCK,
};
use crate::c::codes::{
    BUSY, CANTOPEN, Code, ERROR, IOCAP_KEPT, IOERR_READ, LOCK_EXCLUSIVE, LOCK_NONE, LOCK_RESERVED,
    LOCK_SHARED, OK, READONLY, as_io_error,
};
use crate::failure::{Failure, While};
use crate::host::file::{BusyHandler, HostFile};
use crate::host::wal_index::{self, Checkpoints};
use crate::options::{Name, Setting};
use crate::session::packed::{Packed, Upkeep};
use crate::session::patience::Patience;

/// Locks of the WAL index: `WAL_WRITE_LOCK`, `WAL_CKPT_LOCK` and the first `WAL_READ_LOCK`
/// (<https://sqlite.org/walformat.html#wal_locks>).
const WRITE_LOCK: c_int = 0;
const CHECKPOINT_LOCK: c_int = 1;
const FIRST_READ_LOCK: c_int = 3;

pub(crate) struct PackedFile {
    packed: Packed<HostFile>,
    /// SQLite may write through this handle, so we may as well.
    writable: bool,
    /// `nBackfill` before SQLite sets it at the end of the running checkpoint.
    backfill: u32,
    /// [`wal_index::DOUBT`] when a WAL transaction got its lock, until SQLite has looked at the index.
    doubt: Option<u32>,
    /// What SQLite saw of checkpoints when the WAL transaction began may not be true.
    misled: bool,
    /// What SQLite has locked in the WAL index through this handle: to write, and the checkpoints.
    has_write_lock: bool,
    has_checkpoint_lock: bool,
    /// What SQLite has the connection do while others are in the way.
    busy: Option<BusyHandler>,
    /// How long others have kept maintenance from its next step.
    patience: Patience,
    /// Gives up its places in the process-wide tables when the file is closed.
    identity: Option<Identity>,
    /// Spares SQLite looking for journals.
    absent: KnownAbsent,
}

impl PackedFile {
    pub(crate) fn new(
        packed: Packed<HostFile>,
        identity: Option<Identity>,
        absent: KnownAbsent,
        writable: bool,
    ) -> PackedFile {
        PackedFile {
            packed,
            writable,
            backfill: 0,
            doubt: None,
            misled: false,
            has_write_lock: false,
            has_checkpoint_lock: false,
            busy: None,
            patience: Patience::default(),
            identity,
            absent,
        }
    }

    fn disk(&self) -> &HostFile {
        self.packed.disk()
    }

    /// A word of the WAL index, 0 without one.
    fn index_word(&self, offset: usize) -> u32 {
        let word = self.disk().index_word(offset);
        word.map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// How many frames of the WAL the index says are in the database.
    fn frames_in_database(&self) -> u32 {
        self.index_word(wal_index::BACKFILL)
    }

    /// At the first read of a WAL transaction, sees what checkpoints have brought.
    fn catch_up(&mut self) -> Result<(), Failure> {
        if !self.packed.wal_read_is_new() {
            return Ok(());
        }
        // Not before SQLite has read the index itself: then the store could be behind what SQLite knows.
        let checkpoints = Checkpoints::read(|offset| self.index_word(offset));
        let frames = self.frames_in_database();
        let caught_up = self.packed.catch_up_with(checkpoints, frames);
        caught_up.map_err(|error| self.of_read(&error))
    }

    /// The failure of a read. Within a transaction that writes it is an I/O error: after other codes SQLite goes on
    /// with what it has of the transaction in its memory, and a rollback may leave that there (`sqlite3VdbeHalt` and
    /// `pager_error` name the codes).
    fn of_read(&self, error: &litepack_store::Error) -> Failure {
        if !self.has_write_lock && self.packed.lock_level() < LOCK_RESERVED {
            return Failure::of_store(error, While::Reading);
        }
        let failure = Failure::of_store(error, While::Writing);
        let code = as_io_error(failure.code, IOERR_READ);
        Failure { code, ..failure }
    }

    /// Readers are about to be told that frames are in the database, and they are not.
    fn raise_doubt(&self) {
        if let Some(word) = self.disk().writable_index_word(wal_index::DOUBT) {
            word.fetch_or(1, Ordering::SeqCst);
            // What SQLite writes to the index next comes after this.
            fence(Ordering::SeqCst);
        }
    }

    /// The last step of a checkpoint. SQLite goes on after it in any case, after a panic, too.
    pub(crate) fn finish_checkpoint(
        &mut self,
        finish: impl FnOnce(&mut Packed<HostFile>) -> litepack_store::Result<()>,
    ) -> litepack_store::Result<()> {
        self.backfill = self.frames_in_database();
        let finished = catch_unwind(AssertUnwindSafe(|| finish(&mut self.packed)));
        if !matches!(finished, Ok(Ok(()))) {
            self.raise_doubt();
        }
        finished.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// [`wal_index::DOUBT`] if what the index says of checkpoints is right. Otherwise `SQLITE_BUSY`: then SQLite tries
    /// to begin its transaction again.
    fn expect_no_doubt(&self) -> Result<u32, Failure> {
        let doubt = self.index_word(wal_index::DOUBT);
        if doubt.is_multiple_of(2) {
            return Ok(doubt);
        }
        if self.has_checkpoint_lock || self.lock_checkpoints() != Some(OK) {
            return Err(BUSY.into());
        }
        let settled = self.index_word(wal_index::DOUBT);
        self.unlock_checkpoints();
        // It cannot be settled in an index that is only read.
        if settled.is_multiple_of(2) {
            Ok(settled)
        } else {
            Err(BUSY.into())
        }
    }

    /// Takes the checkpoint lock for ourselves, and settles what the one who had it before left in doubt. `None`
    /// without an index.
    fn lock_checkpoints(&self) -> Option<Code> {
        let lock = SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE;
        let code = self.disk().lock_index(CHECKPOINT_LOCK, 1, lock);
        if code == Some(OK) {
            self.settle_doubt(0);
        }
        code
    }

    fn unlock_checkpoints(&self) {
        let unlock = SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE;
        self.disk().lock_index(CHECKPOINT_LOCK, 1, unlock);
    }

    /// If the index is in doubt, sets `nBackfill` to this. Readers then take all later frames from the WAL. 0 is always
    /// right: SQLite restarts the WAL only when the index says that all of it is in the database.
    ///
    /// The caller holds the checkpoint lock, or has the file for itself.
    fn settle_doubt(&self, backfill: u32) {
        let word = |offset| self.disk().writable_index_word(offset);
        if let (Some(frames), Some(doubt)) = (word(wal_index::BACKFILL), word(wal_index::DOUBT))
            && !doubt.load(Ordering::SeqCst).is_multiple_of(2)
        {
            frames.store(backfill, Ordering::SeqCst);
            doubt.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// An error if another file has taken the name of this one. The WAL, its index and the journal beside belong to that.
    fn expect_own_name(&self) -> Result<(), Failure> {
        if self.identity.as_ref().is_some_and(Identity::is_replaced) {
            return Err(Failure::new(CANTOPEN, REPLACED));
        }
        Ok(())
    }

    /// Before a new database has content: removes what lies beside of a former one, as SQLite does with a WAL and a
    /// journal that it finds beside an empty file. Under these names it does not look for them.
    fn remove_strangers(&self) -> Result<(), Failure> {
        self.expect_own_name()?;
        let strangers = self.identity.iter().flat_map(Identity::strangers);
        for stranger in strangers {
            match self.disk().delete_beside(&stranger) {
                OK => {}
                code => return Err(code.into()),
            }
        }
        Ok(())
    }

    /// Before anything is committed: makes durable that journals are gone, where that failed when they were deleted.
    fn sync_name(&self, level: c_int) -> Result<(), Failure> {
        if level == LOCK_EXCLUSIVE
            && let Some(identity) = self.identity.as_ref()
            && identity.is_unsynced()
        {
            written(self.disk().sync_name().map_err(litepack_store::Error::from))?;
            identity.note_synced();
        }
        Ok(())
    }

    /// After the lock has risen from `before`: says what need not be looked for in this transaction, and before the
    /// first write looks for what was not.
    fn look_for_journal(&mut self, before: c_int) -> Result<(), Failure> {
        let level = self.packed.lock_level();
        if before == LOCK_NONE && !read(self.packed.is_in_wal_mode())? {
            self.absent.read_begins(self.packed.commit());
        }
        if level < LOCK_RESERVED || !self.absent.write_begins() {
            return Ok(());
        }
        // One that a killed writer has left. SQLite begins anew, and finds it.
        match self.disk().has_journal() {
            Ok(false) => Ok(()),
            Ok(true) => Err(BUSY.into()),
            Err(code) => Err(code.into()),
        }
    }

    /// The answer of `body` with at least a shared lock, as a statement that reads a table would have it. It waits for
    /// the lock as one, too.
    fn locked(
        &mut self,
        body: impl FnOnce(&mut Packed<HostFile>) -> litepack_store::Result<String>,
    ) -> Result<String, Failure> {
        if self.packed.lock_level() != LOCK_NONE {
            return read(body(&mut self.packed));
        }
        loop {
            match self.disk().lock(LOCK_SHARED) {
                OK => break,
                BUSY if self.busy.is_some_and(BusyHandler::wait) => {}
                BUSY => return Err(Failure::told(BUSY, "database is locked")),
                code => {
                    let why = format!("cannot lock the database (code {code})");
                    return Err(Failure::told(code, why));
                }
            }
        }
        let refreshed = self.packed.locked(LOCK_SHARED);
        let answer = read(refreshed.and_then(|()| body(&mut self.packed)));
        self.packed.unlocking(LOCK_NONE);
        self.disk().unlock(LOCK_NONE);
        answer
    }

    /// Runs `body` with all others kept from writing, as a transaction would: by the RESERVED lock, or in WAL mode,
    /// where checkpoints write, by theirs. Readers need not be kept out: no byte of the database changes.
    fn alone<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = self.packed.lock_level();
        // In WAL mode it waits for a checkpoint, and this is not the transaction that it ends with.
        let is_vacuuming = self.packed.is_vacuuming();
        self.packed.set_vacuuming(false);
        let locked = self.lock_reserved();
        let result = locked.and_then(|()| self.without_checkpoints(body));
        if self.packed.lock_level() > before {
            self.packed.unlocking(before);
            // Down from RESERVED there are only SHARED and nothing.
            self.disk().unlock(before.min(LOCK_SHARED));
        }
        self.packed.set_vacuuming(is_vacuuming);
        result
    }

    /// Raises the lock to RESERVED. In WAL mode only `packed` is told so: the lock on the file stays SHARED, which is
    /// enough to keep the journal mode. RESERVED excludes nobody there, and SQLite 3.54 refuses it while another
    /// process has the WAL index open (`unixIsSharingShmNode`).
    fn lock_reserved(&mut self) -> Result<(), Failure> {
        for level in [LOCK_SHARED, LOCK_RESERVED] {
            if self.packed.lock_level() >= level {
                continue;
            }
            if level == LOCK_SHARED || !read(self.packed.uses_wal())? {
                match self.disk().lock(level) {
                    OK => {}
                    code => return Err(code.into()),
                }
            }
            read(self.packed.locked(level))?;
        }
        Ok(())
    }

    /// Whether a journal, a reader or the WAL may lead back to a state before the newest commit. Under the lock that
    /// [`PackedFile::alone`] takes the answer stays true.
    ///
    /// A journal that is on disk is hot, or that of a commit of several databases that is under way. One in memory is
    /// that of a transaction, which has the lock.
    fn former(&mut self) -> Result<Former, Failure> {
        let is_gone = if read(self.packed.uses_wal())? {
            // Without an index in shared memory SQLite keeps it to itself, and there is no word of it to look at.
            wal_index::is_all_in_database(|offset| self.index_word(offset))
        } else {
            !self.disk().has_journal()?
        };
        Ok(if is_gone {
            Former::Gone
        } else {
            Former::Needed
        })
    }

    fn without_checkpoints<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // With an exclusive lock on the file nobody else uses the WAL, and there may be no index.
        if !read(self.packed.uses_wal())? || self.packed.lock_level() > LOCK_RESERVED {
            return body(self);
        }
        match self.lock_checkpoints() {
            Some(OK) => {}
            Some(code) => return Err(code.into()),
            None => return Err(Failure::told(ERROR, READ_FIRST)),
        }
        let result = body(self);
        self.unlock_checkpoints();
        result
    }
}

fn read<T>(result: litepack_store::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of_store(&error, While::Reading))
}

fn written<T>(result: litepack_store::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of_store(&error, While::Writing))
}

impl File for PackedFile {
    const METHODS: Methods = Methods::AsHost;
    /// Of what the host says of its file.
    const CHARACTERISTICS: c_int = IOCAP_KEPT;

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.catch_up()?;
        if self.misled {
            let why = "a checkpoint failed while this transaction began; begin it again";
            // SQLite may have had the lock to write from before it.
            let code = if self.has_write_lock {
                IOERR_READ
            } else {
                BUSY
            };
            return Err(Failure::new(code, why));
        }
        let done = self.packed.read(offset, buf);
        done.map_err(|error| self.of_read(&error))
    }

    fn size(&mut self) -> Result<u64, Failure> {
        read(self.packed.size())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        if self.packed.is_new() {
            self.remove_strangers()?;
        }
        written(self.packed.write(offset, bytes))
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        written(self.packed.truncate(size))
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        self.disk().set_sync_flags(flags);
        written(self.packed.flush())
    }

    fn lock(&mut self, level: c_int) -> Result<(), Failure> {
        let before = self.packed.lock_level();
        if level > LOCK_SHARED && self.misled {
            return Err(BUSY.into());
        }
        match self.disk().lock(level) {
            OK => {}
            code => return Err(code.into()),
        }
        if level == LOCK_EXCLUSIVE {
            // From now on SQLite takes no lock of the index, not even to checkpoint as the last one that closes.
            self.settle_doubt(0);
        }
        let locked = self.packed.locked(level);
        let locked = locked.map_err(|error| self.of_read(&error));
        let looked = locked
            .and_then(|()| self.sync_name(level))
            .and_then(|()| self.look_for_journal(before));
        looked.inspect_err(|_| {
            self.unlocking(before);
            // A host goes down to SHARED or to nothing only. From RESERVED, SQLite does that after the error.
            if before <= LOCK_SHARED {
                self.disk().unlock(before);
            }
        })
    }

    fn unlocking(&mut self, level: c_int) {
        self.packed.unlocking(level);
        if level == LOCK_NONE {
            self.absent.read_ends();
        }
    }

    fn host(&self) -> Option<&HostFile> {
        Some(self.disk())
    }

    fn index_mapping(&mut self) -> Result<(), Failure> {
        self.expect_own_name()
    }

    fn index_mapped(&mut self, mapped: bool) {
        self.packed.set_index_mapped(mapped);
    }

    fn index_locking(&mut self, locks: Range<c_int>, flags: c_int) -> Result<(), Failure> {
        let is_released = flags & SQLITE_SHM_UNLOCK != 0;
        let is_shared = flags & SQLITE_SHM_SHARED != 0;
        if is_released && locks.contains(&WRITE_LOCK) {
            self.has_write_lock = false;
        }
        if is_released && locks.contains(&CHECKPOINT_LOCK) {
            self.has_checkpoint_lock = false;
            self.packed.checkpoint_ends();
            if !is_shared {
                // SQLite believes that its checkpoint succeeded, and told readers so. The pages are still in the WAL.
                self.settle_doubt(self.backfill);
            }
        }
        if is_shared && locks.start >= FIRST_READ_LOCK {
            self.misled = false;
            self.doubt = None;
        }
        if is_released {
            return Ok(());
        }
        if locks.contains(&WRITE_LOCK) && self.misled {
            return Err(BUSY.into());
        }
        if is_shared && locks.contains(&CHECKPOINT_LOCK) {
            // Readers cannot settle it while someone has this lock.
            self.expect_no_doubt()?;
        }
        if is_shared && locks.start >= FIRST_READ_LOCK {
            self.doubt = Some(self.expect_no_doubt()?);
            self.packed.wal_read_begins();
        }
        Ok(())
    }

    fn index_refused(&mut self) {
        self.doubt = None;
    }

    fn index_locked(&mut self, locks: Range<c_int>, flags: c_int) {
        self.has_write_lock |= locks.contains(&WRITE_LOCK);
        if locks.contains(&CHECKPOINT_LOCK) {
            self.has_checkpoint_lock = true;
            if flags & SQLITE_SHM_EXCLUSIVE != 0 {
                // A process that has left the index in doubt is gone, as it would have this lock.
                self.settle_doubt(0);
            }
        }
    }

    /// The first one after the lock of a WAL transaction comes when SQLite has looked how far checkpoints have got
    /// (`walTryBeginRead`).
    fn index_barrier(&mut self) {
        if let Some(doubt) = self.doubt.take() {
            self.misled = self.index_word(wal_index::DOUBT) != doubt;
        }
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }

    fn close(self, poisoned: bool) -> Code {
        if poisoned {
            // Its state is not to be trusted: nothing of it may be written, or given back to the cache and the workers.
            drop(self.identity);
            let code = self.packed.disk().close();
            std::mem::forget(self.packed);
            return code;
        }
        let disk = self.packed.close();
        drop(self.identity);
        disk.close()
    }
}

impl Database for PackedFile {
    fn setting(&self, name: Name) -> Result<String, String> {
        Ok(self.packed.setting(name))
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        self.packed.apply(setting);
        Ok(())
    }

    fn info(&mut self) -> Result<String, Failure> {
        self.locked(|packed| packed.info().map(|info| info_json(&info).to_string()))
    }

    fn check(&mut self) -> Result<String, Failure> {
        self.locked(|packed| packed.check().map(|report| check_text(&report)))
    }

    fn maintain(&mut self, level: Option<Level>) -> Result<bool, Failure> {
        if !self.writable {
            return Err(Failure::told(READONLY, NOT_WRITTEN));
        }
        if read(self.packed.uses_wal())?
            && self.packed.lock_level() <= LOCK_RESERVED
            && self.disk().index_word(wal_index::BACKFILL).is_none()
        {
            return Err(Failure::told(ERROR, READ_FIRST));
        }
        // The plan is made without a lock. What it finds free is looked up again under the lock.
        let former = self.former()?;
        let upkeep = read(self.packed.upkeep(level, former))?;
        read(self.packed.expect_newest(self.frames_in_database()))?;
        match upkeep {
            Upkeep::InTransaction => {
                let why = "not inside a transaction that has written";
                Err(Failure::told(ERROR, why))
            }
            Upkeep::Planned => Ok(true),
            Upkeep::Nothing => Ok(false),
            Upkeep::Step => {
                let step = self.alone(|file| {
                    let former = file.former()?;
                    written(file.packed.upkeep_step(former))
                });
                self.patience.judge(step, Instant::now())
            }
        }
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        written(match event {
            Event::Sync => self.packed.publish(),
            Event::CommitPhaseTwo => self.packed.committed(),
            Event::Overwrite => {
                self.packed.overwrite_begins();
                Ok(())
            }
            Event::CheckpointStart => self.packed.checkpoint_starts(self.frames_in_database()),
            Event::CheckpointDone => self.finish_checkpoint(Packed::checkpoint_done),
        })
    }

    fn secure_delete(&mut self, value: &str) {
        self.packed.set_secure_delete(value);
    }

    fn joined_by(&mut self, connection: usize) {
        self.packed.secure_delete().join(connection);
    }

    fn waits_by(&mut self, handler: BusyHandler) {
        self.busy = Some(handler);
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        // As each read of SQLite's does.
        if self.packed.lock_level() != LOCK_NONE {
            self.catch_up()?;
        }
        self.locked(|packed| {
            let size = packed.size()?;
            split(|buf, offset| packed.read(offset, buf), size, root, parts)
        })
    }

    fn place_of_page(&mut self, page: PageNumber) -> Result<Option<(FileOffset, u64)>, Failure> {
        read(self.packed.place_of_page(page))
    }
}
