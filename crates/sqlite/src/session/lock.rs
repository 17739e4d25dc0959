//! Locks that a session takes by itself: to read for a report, and to write for maintenance. Those that SQLite takes are
//! told to [`Packed`](super::packed::Packed).

use litepack_store::{CheckReport, Info};

use super::handle::{Reading, Session, Unlocked, Writing};
use super::maintenance::READ_FIRST;
use crate::c::codes::{BUSY, ERROR, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED, OK};
use crate::failure::{Failure, read};
use crate::host::file::BusyHandler;

impl Session<'_, Unlocked> {
    /// The answer of `body` with at least a shared lock, as a statement that reads a table would have it. It waits for
    /// the lock as one, too.
    pub(crate) fn reading<T>(
        &mut self,
        body: impl FnOnce(&mut Session<'_, Reading>) -> litepack_store::Result<T>,
    ) -> Result<T, Failure> {
        let handle = &mut *self.handle;
        if handle.packed.lock_level() != LOCK_NONE {
            return read(body(&mut Session::new(handle)));
        }
        loop {
            match handle.disk().lock(LOCK_SHARED) {
                OK => break,
                BUSY if handle.busy.is_some_and(BusyHandler::wait) => {}
                BUSY => return Err(Failure::told(BUSY, "database is locked")),
                code => {
                    let why = format!("cannot lock the database (code {code})");
                    return Err(Failure::told(code, why));
                }
            }
        }
        let refreshed = handle.packed.locked(LOCK_SHARED);
        let answer = read(refreshed.and_then(|()| body(&mut Session::new(handle))));
        handle.packed.unlocking(LOCK_NONE);
        handle.disk().unlock(LOCK_NONE);
        answer
    }

    /// Runs `body` with all others kept from writing, as a transaction would: by the RESERVED lock, or in WAL mode,
    /// where checkpoints write, by theirs. Readers need not be kept out: no byte of the database changes.
    pub(crate) fn writing<T>(
        &mut self,
        body: impl FnOnce(&mut Session<'_, Writing>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = self.handle.packed.lock_level();
        // In WAL mode it waits for a checkpoint, and this is not the transaction that it ends with.
        let is_vacuuming = self.handle.packed.is_vacuuming();
        self.handle.packed.set_vacuuming(false);
        let locked = self.lock_reserved();
        let result = locked.and_then(|()| self.without_checkpoints(body));
        let handle = &mut *self.handle;
        if handle.packed.lock_level() > before {
            handle.packed.unlocking(before);
            // Down from RESERVED there are only SHARED and nothing.
            handle.disk().unlock(before.min(LOCK_SHARED));
        }
        handle.packed.set_vacuuming(is_vacuuming);
        result
    }

    /// Raises the lock to RESERVED. In WAL mode only `packed` is told so: the lock on the file stays SHARED, which is
    /// enough to keep the journal mode. RESERVED excludes no connection there, and SQLite 3.54 refuses it while another
    /// process has the WAL index open (`unixIsSharingShmNode`).
    fn lock_reserved(&mut self) -> Result<(), Failure> {
        let handle = &mut *self.handle;
        for level in [LOCK_SHARED, LOCK_RESERVED] {
            if handle.packed.lock_level() >= level {
                continue;
            }
            if level == LOCK_SHARED || !read(handle.packed.uses_wal())? {
                match handle.disk().lock(level) {
                    OK => {}
                    code => return Err(code.into()),
                }
            }
            read(handle.packed.locked(level))?;
        }
        Ok(())
    }

    /// The last step to a session that writes: the RESERVED lock is there, and in WAL mode the checkpoint lock is taken.
    fn without_checkpoints<T>(
        &mut self,
        body: impl FnOnce(&mut Session<'_, Writing>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let handle = &mut *self.handle;
        // With an exclusive lock on the file no other connection uses the WAL, and there may be no index.
        if !read(handle.packed.uses_wal())? || handle.packed.lock_level() > LOCK_RESERVED {
            return body(&mut Session::new(handle));
        }
        match handle.lock_checkpoints() {
            Some(OK) => {}
            Some(code) => return Err(code.into()),
            None => return Err(Failure::told(ERROR, READ_FIRST)),
        }
        let result = body(&mut Session::new(handle));
        handle.unlock_checkpoints();
        result
    }
}

impl Session<'_, Reading> {
    pub(crate) fn info(&mut self) -> litepack_store::Result<Info> {
        self.handle.packed.info()
    }

    /// Compares all of the file with its checksums.
    #[doc(hidden)]
    pub fn check(&mut self) -> litepack_store::Result<CheckReport> {
        self.handle.packed.check()
    }

    pub(crate) fn size(&mut self) -> litepack_store::Result<u64> {
        self.handle.packed.size()
    }

    pub(crate) fn read(&mut self, offset: u64, buf: &mut [u8]) -> litepack_store::Result<usize> {
        self.handle.packed.read(offset, buf)
    }
}
