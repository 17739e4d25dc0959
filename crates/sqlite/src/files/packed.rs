//! A packed main database: the [`Handle`] has the content and the locks, and the tables of the process know the file.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::{Key, Padding};
use litepack_codec::Level;
use litepack_engine::report::{check_text, info_json};
use litepack_io::storage::Storage;
use litepack_store::{Error, FileOffset, try_key};

use super::split::split;
use super::{Database, Event, File, Methods};
use crate::beside::entry::Entry;
use crate::beside::names::REPLACED;
use crate::c::codes::{
    BUSY, CANTOPEN, Code, ERROR, IOCAP_KEPT, IOERR_READ, LOCK_EXCLUSIVE, LOCK_NONE, LOCK_RESERVED,
    LOCK_SHARED, OK, READONLY_DBMOVED, as_io_error,
};
use crate::failure::{Failure, While, read, written};
use crate::host::file::{BusyHandler, HostFile};
use crate::options::{Name, Setting};
use crate::session::Handle;

/// Why a key comes too late.
const TOO_LATE: &str = "the database has its key already: PRAGMA rekey gives it another one";
/// Why it comes too late for a file that is just being made.
const IN_USE: &str = "PRAGMA key comes too late: a transaction is running";

pub(crate) struct PackedFile {
    pub(crate) handle: Handle,
    /// Its places in the table of what is open, which it gives up when the file is closed.
    pub(super) entry: Entry,
}

impl PackedFile {
    pub(crate) fn new(handle: Handle, entry: Entry) -> PackedFile {
        PackedFile { handle, entry }
    }

    pub(crate) fn disk(&self) -> &HostFile {
        self.handle.disk()
    }

    /// An error with these words within a transaction that writes, which may have been told to take no lock.
    pub(super) fn expect_no_writing(&self, why: &'static str) -> Result<(), Failure> {
        if self.handle.is_writing() || self.handle.packed.in_transaction() {
            return Err(Failure::told(ERROR, why));
        }
        Ok(())
    }

    /// Whether it is still empty and has no key.
    pub(crate) fn may_get_key(&self) -> bool {
        self.handle.packed.is_new() && self.handle.packed.key().is_none()
    }

    /// How an encrypted file is padded.
    pub(super) fn padding(&self) -> Option<Padding> {
        self.handle.packed.padding()
    }

    /// Has a file that is still empty encrypted with this key.
    pub(super) fn set_first_key(&mut self, key: Arc<Key>) -> Result<(), Failure> {
        // Others may have made it since it was opened.
        read(try_key(self.disk(), &key))?;
        written(self.handle.packed.set_key(key))
    }

    /// The failure of a read. Within a transaction that writes it is an I/O error: after other codes SQLite goes on
    /// with what it has of the transaction in its memory, and a rollback may leave that there (`sqlite3VdbeHalt` and
    /// `pager_error` name the codes).
    fn of_read(&self, error: &litepack_store::Error) -> Failure {
        if !self.handle.is_writing() {
            return Failure::of_store(error, While::Reading);
        }
        let failure = Failure::of_store(error, While::Writing);
        let code = as_io_error(failure.code, IOERR_READ);
        Failure { code, ..failure }
    }

    /// An error if another file has taken the name of this one. The WAL, its index and the journal beside belong to that.
    fn expect_own_name(&self) -> Result<(), Failure> {
        if self.entry.is_replaced() {
            return Err(Failure::new(CANTOPEN, REPLACED));
        }
        Ok(())
    }

    /// An error if it is about to be written, and another file has taken its name: nobody else would see what is written.
    /// SQLite asks that itself only when it opens a journal on disk. It must not be asked before the lock is taken, as
    /// who puts another file there may hold one.
    fn expect_to_be_seen(&self, before: c_int, level: c_int) -> Result<(), Failure> {
        let begins = level > LOCK_SHARED && before <= LOCK_SHARED;
        match begins && self.entry.is_replaced() {
            true => Err(Failure::new(READONLY_DBMOVED, REPLACED)),
            false => Ok(()),
        }
    }

    /// Before a new database has content: removes what lies beside of a former one, as SQLite does with a WAL and a
    /// journal that it finds beside an empty file. Under these names it does not look for them.
    fn remove_strangers(&self) -> Result<(), Failure> {
        self.expect_own_name()?;
        for stranger in self.entry.strangers() {
            match self.disk().delete_beside(&stranger) {
                OK => {}
                code => return Err(code.into()),
            }
        }
        Ok(())
    }

    /// Before anything is committed: makes durable that journals are gone, where that failed when they were deleted.
    fn sync_name(&self, level: c_int) -> Result<(), Failure> {
        if level == LOCK_EXCLUSIVE && self.entry.is_unsynced() {
            written(self.disk().sync_name().map_err(litepack_store::Error::from))?;
            self.entry.note_synced();
        }
        Ok(())
    }

    /// After the lock has risen from `before`: says what need not be looked for in this transaction, and before the
    /// first write looks for what was not.
    fn look_for_journal(&mut self, before: c_int) -> Result<(), Failure> {
        let level = self.handle.packed.lock_level();
        if before == LOCK_NONE && !read(self.handle.packed.is_in_wal_mode())? {
            self.entry.read_begins(self.handle.packed.commit());
        }
        if level < LOCK_RESERVED || !self.entry.write_begins() {
            return Ok(());
        }
        // One that a killed writer has left. SQLite begins anew, and finds it.
        match self.disk().has_journal() {
            Ok(false) => Ok(()),
            Ok(true) => Err(BUSY.into()),
            Err(code) => Err(code.into()),
        }
    }
}

impl File for PackedFile {
    const METHODS: Methods = Methods::AsHost;
    /// Of what the host says of its file.
    const CHARACTERISTICS: c_int = IOCAP_KEPT;

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        if self.handle.packed.is_misled() {
            let why = "a checkpoint failed while this transaction began; begin it again";
            // SQLite may have had the lock to write from before it.
            let code = if self.handle.has_write_lock() {
                IOERR_READ
            } else {
                BUSY
            };
            return Err(Failure::new(code, why));
        }
        let done = self.handle.packed.read(offset, buf);
        done.map_err(|error| self.of_read(&error))
    }

    fn size(&mut self) -> Result<u64, Failure> {
        read(self.handle.packed.size())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        if self.handle.packed.is_new() {
            self.remove_strangers()?;
        }
        written(self.handle.transaction().write(offset, bytes))
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        written(self.handle.transaction().truncate(size))
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        self.disk().set_sync_flags(flags);
        written(self.handle.transaction().flush())
    }

    fn lock(&mut self, level: c_int) -> Result<(), Failure> {
        let before = self.handle.packed.lock_level();
        if level > LOCK_SHARED && self.handle.packed.is_misled() {
            return Err(BUSY.into());
        }
        match self.disk().lock(level) {
            OK => {}
            code => return Err(code.into()),
        }
        if level == LOCK_EXCLUSIVE {
            self.handle.is_alone();
        }
        let locked = self.handle.packed.locked(level);
        self.entry.wal_view().took(self.handle.keeps_wal(), false);
        let locked = locked.map_err(|error| self.of_read(&error));
        let looked = locked
            .and_then(|()| self.expect_to_be_seen(before, level))
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
        self.handle.packed.unlocking(level);
        self.entry.wal_view().releases(self.handle.keeps_wal());
        if level == LOCK_NONE {
            self.entry.read_ends();
        }
    }

    fn host(&self) -> Option<&HostFile> {
        Some(self.disk())
    }

    fn index_mapping(&mut self) -> Result<(), Failure> {
        self.expect_own_name()
    }

    fn index_mapped(&mut self, mapped: bool) {
        self.handle.packed.set_index_mapped(mapped);
    }

    fn index_locking(&mut self, locks: Range<c_int>, flags: c_int) -> Result<(), Failure> {
        let may = self.handle.index_locking(locks, flags);
        self.entry.wal_view().releases(self.handle.keeps_wal());
        may
    }

    fn index_refused(&mut self) {
        self.handle.index_refused();
    }

    fn index_locked(&mut self, locks: Range<c_int>, flags: c_int) -> Result<(), Failure> {
        let is_same = self.handle.sees_the_same_wal(&locks, flags);
        let may = self.handle.index_locked(locks, flags);
        self.entry.wal_view().took(self.handle.keeps_wal(), is_same);
        may
    }

    fn index_barrier(&mut self) {
        self.handle.index_barrier();
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }

    fn close(self, poisoned: bool) -> Code {
        if poisoned {
            // Its state is not to be trusted: nothing of it may be written, or given back to the cache and the workers.
            drop(self.entry);
            let code = self.handle.disk().close();
            std::mem::forget(self.handle);
            return code;
        }
        let disk = self.handle.packed.close();
        drop(self.entry);
        disk.close()
    }
}

impl Database for PackedFile {
    fn setting(&self, name: Name) -> Result<String, String> {
        Ok(self.handle.packed.setting(name))
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        self.handle.packed.apply(setting);
        Ok(())
    }

    fn info(&mut self) -> Result<String, Failure> {
        let info = self.handle.session().reading(|session| session.info())?;
        Ok(info_json(&info).to_string())
    }

    fn check(&mut self) -> Result<String, Failure> {
        let report = self.handle.session().reading(|session| session.check())?;
        Ok(check_text(&report))
    }

    fn maintain(&mut self, level: Option<Level>) -> Result<bool, Failure> {
        self.handle.session().maintain(level)
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        written(match event {
            Event::Sync => self.handle.transaction().publish(),
            Event::CommitPhaseTwo => self.handle.transaction().committed(),
            Event::Overwrite => {
                self.handle.transaction().overwrite_begins();
                Ok(())
            }
            Event::CheckpointStart => self.handle.checkpoint().begin(),
            Event::CheckpointDone => self.handle.checkpoint().finish(),
        })
    }

    fn is_encrypted(&self) -> bool {
        self.handle.packed.is_encrypted()
    }

    fn key(&self) -> Option<Arc<Key>> {
        self.handle.packed.key().filter(|_| self.is_encrypted())
    }

    fn give_key(&mut self, key: Arc<Key>) -> Result<(), Failure> {
        if self.is_encrypted() {
            return Err(Failure::told(ERROR, TOO_LATE));
        }
        self.expect_no_writing(IN_USE)?;
        if !self.handle.packed.is_new() {
            return Err(Failure::of_store(&Error::NotEncrypted, While::Reading));
        }
        self.set_first_key(key)
    }

    fn change_key(&mut self, key: Option<Arc<Key>>) -> Result<(), Failure> {
        self.expect_own_name()?;
        match key {
            Some(key) if self.is_encrypted() => self
                .handle
                .session()
                .writing(|session| written(session.rekey(key))),
            _ => Err(Failure::of_store(&Error::NotEncrypted, While::Writing)),
        }
    }

    fn secure_delete(&mut self, value: &str) {
        self.handle.packed.set_secure_delete(value);
    }

    fn joined_by(&mut self, connection: usize) {
        self.handle.packed.secure_delete().join(connection);
    }

    fn waits_by(&mut self, handler: BusyHandler) {
        self.handle.waits_by(handler);
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        self.handle.session().reading(|session| {
            let size = session.size()?;
            split(|buf, offset| session.read(offset, buf), size, root, parts)
        })
    }

    fn place_of_page(&mut self, page: PageNumber) -> Result<Option<(FileOffset, u64)>, Failure> {
        read(self.handle.packed.place_of_page(page))
    }
}
