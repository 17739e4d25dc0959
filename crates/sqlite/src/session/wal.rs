//! The WAL index as a handle uses it: what SQLite locks there, and what must not be believed of it.
//!
//! When the last step of a checkpoint fails, SQLite tells readers of pages that are not in the database. In between the
//! index is in doubt (docs/design.md, "A checkpoint whose last step fails").
//!
//! SQLite before 3.51.3 has a checkpoint count frames of a WAL that was begun anew meanwhile as if they were in the
//! database (<https://sqlite.org/wal.html#walresetbug>). Commits are lost by that. Such a checkpoint is refused here.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use super::handle::{Checkpointing, Handle, Session};
use super::index_locks::{CHECKPOINT_LOCK, FIRST_READ_LOCK, IndexLocks, WRITE_LOCK};
use super::packed::WalRead;
use crate::c::bindings::{
    SQLITE_SHM_EXCLUSIVE, SQLITE_SHM_LOCK, SQLITE_SHM_SHARED, SQLITE_SHM_UNLOCK,
};
use crate::c::codes::{BUSY, Code, LOCK_EXCLUSIVE, LOCK_RESERVED, OK};
use crate::failure::{Failure, read, written};
use crate::host::wal_index::{BACKFILL, DOUBT, IndexHeader, Words, wal_of};

impl Session<'_, Checkpointing> {
    /// If the index is in doubt, sets `nBackfill` to this. Readers then take all later frames from the WAL. 0 is always
    /// right: SQLite restarts the WAL only when the index says that all of it is in the database.
    #[doc(hidden)]
    pub fn settle(&self, backfill: u32) {
        let word = |offset| self.handle.disk().writable_index_word(offset);
        if let (Some(frames), Some(doubt)) = (word(BACKFILL), word(DOUBT))
            && !doubt.load(Ordering::SeqCst).is_multiple_of(2)
        {
            frames.store(backfill, Ordering::SeqCst);
            doubt.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Readers are about to be told that frames are in the database, and they are not.
    pub(super) fn raise_doubt(&self) {
        if let Some(word) = self.handle.disk().writable_index_word(DOUBT) {
            word.fetch_or(1, Ordering::SeqCst);
            // SQLite's next writes to the index come after this.
            fence(Ordering::SeqCst);
        }
    }
}

impl Handle {
    /// The host's file is locked for this handle alone. From now on SQLite takes no lock of the index, not even to
    /// checkpoint as the last one that closes.
    pub(crate) fn is_alone(&mut self) {
        Session::<Checkpointing>::new(self).settle(0);
    }

    /// How many frames of the WAL the index says are in the database.
    pub(crate) fn frames_in_database(&self) -> u32 {
        self.disk().word(BACKFILL)
    }

    /// Whether SQLite writes through this handle.
    pub(crate) fn is_writing(&self) -> bool {
        self.has_write_lock() || self.packed.lock_level() >= LOCK_RESERVED
    }

    /// Whether it has the lock to write of the WAL index.
    pub(crate) fn has_write_lock(&self) -> bool {
        self.index_locks.has(WRITE_LOCK)
    }

    /// Whether the locks held now keep others from the WAL, as [`IndexLocks::keep_wal`] has it.
    pub(crate) fn keeps_wal(&self) -> bool {
        self.packed.lock_level() == LOCK_EXCLUSIVE || self.index_locks.keep_wal()
    }

    /// [`DOUBT`] if what the index says of checkpoints is right. Otherwise `SQLITE_BUSY`: then SQLite tries to begin its
    /// transaction again.
    fn expect_no_doubt(&mut self) -> Result<u32, Failure> {
        let doubt = self.disk().word(DOUBT);
        if doubt.is_multiple_of(2) {
            return Ok(doubt);
        }
        if self.index_locks.has(CHECKPOINT_LOCK) || self.lock_checkpoints() != Some(OK) {
            return Err(BUSY.into());
        }
        let settled = self.disk().word(DOUBT);
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
    pub(super) fn lock_checkpoints(&mut self) -> Option<Code> {
        let lock = SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE;
        let code = self.disk().lock_index(CHECKPOINT_LOCK, 1, lock);
        if code == Some(OK) {
            Session::<Checkpointing>::new(self).settle(0);
        }
        code
    }

    pub(super) fn unlock_checkpoints(&self) {
        let unlock = SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE;
        self.disk().lock_index(CHECKPOINT_LOCK, 1, unlock);
    }

    /// SQLite is about to take or release these locks. An error if it may not.
    pub(crate) fn index_locking(
        &mut self,
        locks: Range<c_int>,
        flags: c_int,
    ) -> Result<(), Failure> {
        let is_released = flags & SQLITE_SHM_UNLOCK != 0;
        let is_shared = flags & SQLITE_SHM_SHARED != 0;
        let is_read = is_shared && locks.start >= FIRST_READ_LOCK;
        if is_released {
            self.index_locks.remove(IndexLocks::of(&locks));
        }
        if is_released && locks.contains(&CHECKPOINT_LOCK) {
            self.packed.checkpoint_ends();
            if !is_shared {
                // SQLite believes that its checkpoint succeeded, and told readers so. The pages are still in the WAL.
                let backfill = self.backfill;
                Session::<Checkpointing>::new(self).settle(backfill);
            }
        }
        if is_read {
            self.packed.wal_read().settled();
        }
        if is_released {
            return Ok(());
        }
        if locks.contains(&WRITE_LOCK) && self.packed.is_misled() {
            return Err(BUSY.into());
        }
        if is_shared && locks.contains(&CHECKPOINT_LOCK) {
            // Readers cannot settle it while someone has this lock.
            self.expect_no_doubt()?;
        }
        if is_read {
            let doubt = self.expect_no_doubt()?;
            *self.packed.wal_read() = WalRead::Beginning(doubt);
        }
        Ok(())
    }

    /// SQLite did not get what it was about to take.
    pub(crate) fn index_refused(&mut self) {
        self.packed.wal_read().refused();
    }

    /// SQLite has taken these locks. `SQLITE_BUSY` if it may not keep them.
    pub(crate) fn index_locked(
        &mut self,
        locks: Range<c_int>,
        flags: c_int,
    ) -> Result<(), Failure> {
        let is_exclusive = flags & SQLITE_SHM_EXCLUSIVE != 0;
        // With this lock a checkpoint begins to copy, and the WAL is not begun anew. SQLite looked at the WAL after it took
        // the checkpoint lock and, where it has that too, the lock to write.
        if is_exclusive
            && locks.contains(&FIRST_READ_LOCK)
            && self.index_locks.has(CHECKPOINT_LOCK)
            && !self.index_locks.has(WRITE_LOCK)
            && self.checkpointed.is_some()
            && self.checkpointed != wal_of(self.disk())
        {
            return Err(BUSY.into());
        }
        if locks.contains(&WRITE_LOCK) && is_exclusive {
            self.forget_cut_off(&locks)?;
            // A log may begin.
            self.packed.set_erase();
        }
        self.index_locks.add(IndexLocks::of(&locks));
        if locks.contains(&CHECKPOINT_LOCK) && is_exclusive {
            // A process that has left the index in doubt is gone, as it would have this lock.
            Session::<Checkpointing>::new(self).settle(0);
            self.checkpointed = wal_of(self.disk());
        }
        Ok(())
    }

    /// A WAL may be begun with the lock that was taken. It names the newest record of the file, so none may be there
    /// whose commit was cut off by a power loss: the commits that come next would not follow it.
    fn forget_cut_off(&mut self, locks: &Range<c_int>) -> Result<(), Failure> {
        if self.upkeep.is_none() || !read(self.packed.falls_back())? {
            return Ok(());
        }
        // If processes have read it, it was not cut off: it is damaged, and stays for them.
        read(self.packed.expect_newest(self.frames_in_database()))?;
        // With this lock no other handle writes to the database. The index may not be there yet.
        let is_ours = self.index_locks.has(CHECKPOINT_LOCK) || locks.contains(&CHECKPOINT_LOCK);
        let pass = |handle: &Handle, flags| {
            let flags = flags | SQLITE_SHM_EXCLUSIVE;
            handle.disk().pass_index_lock(CHECKPOINT_LOCK, 1, flags)
        };
        if !is_ours && pass(self, SQLITE_SHM_LOCK) != OK {
            return Err(BUSY.into());
        }
        let forgotten = self.packed.take_over();
        if !is_ours {
            pass(self, SQLITE_SHM_UNLOCK);
        }
        written(forgotten)?;
        match read(self.packed.falls_back())? {
            true => Err(BUSY.into()),
            false => Ok(()),
        }
    }

    /// SQLite has taken these locks. Whether this begins a read transaction, and nothing that such a one reads in the WAL
    /// is different from what it was in the one before: no other lock was taken in between, and nothing was committed.
    /// SQLite compares the header again, and begins anew if there was a commit since.
    pub(crate) fn sees_the_same_wal(&mut self, locks: &Range<c_int>, flags: c_int) -> bool {
        let is_read = flags & SQLITE_SHM_SHARED != 0
            && locks.start > FIRST_READ_LOCK
            && !self.index_locks.has(WRITE_LOCK);
        let header = |at| self.disk().word(at);
        let header = is_read.then(|| IndexHeader::read(header)).flatten();
        let before = std::mem::replace(&mut self.index_header, header);
        header.is_some() && header == before
    }

    /// A barrier. The first one after the lock of a WAL transaction comes when SQLite has looked how far checkpoints
    /// have got (`walTryBeginRead`).
    pub(crate) fn index_barrier(&mut self) {
        let mut read = *self.packed.wal_read();
        read.looked(|| self.disk().word(DOUBT));
        *self.packed.wal_read() = read;
    }
}
