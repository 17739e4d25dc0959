//! Maintenance of an open file, a step at a time, while all others are kept from writing.

use std::time::Instant;

use litepack_codec::Level;
use litepack_engine::maintenance::{Former, Progress};

use super::handle::{Handle, Session, Unlocked, Writing};
use super::upkeep::{Plan, Todo};
use crate::c::codes::{ERROR, LOCK_RESERVED, READONLY};
use crate::failure::{Failure, read, written};
use crate::host::wal_index::{BACKFILL, Words, is_all_in_database};

/// Maintenance needs the WAL index, which SQLite has not mapped yet.
pub(crate) const READ_FIRST: &str = "in WAL mode, read something from the database first";

/// The message for a step of maintenance that failed; SQLite's error log has the rest.
pub(crate) const MAINTENANCE_FAILED: &str = "maintenance failed; what was done is kept";

/// The answer to a request to maintain a database that is only read.
pub(crate) const NOT_WRITTEN: &str = "this database is read-only: nothing in it can be maintained";

impl Session<'_, Unlocked> {
    /// A step of maintenance at this level, or the file's own. False if nothing is left to do.
    pub(crate) fn maintain(&mut self, level: Option<Level>) -> Result<bool, Failure> {
        let handle = &mut *self.handle;
        if handle.upkeep.is_none() {
            return Err(Failure::told(READONLY, NOT_WRITTEN));
        }
        if read(handle.packed.uses_wal())?
            && handle.packed.lock_level() <= LOCK_RESERVED
            && handle.disk().index_word(BACKFILL).is_none()
        {
            return Err(Failure::told(ERROR, READ_FIRST));
        }
        // The plan is made without a lock. Pages that it finds free are looked up again under the lock.
        let former = handle.former()?;
        let upkeep = handle.upkeep.get_or_insert_default();
        let todo = read(upkeep.todo(&mut handle.packed, level, former))?;
        read(handle.packed.expect_newest(handle.frames_in_database()))?;
        match todo {
            Todo::InTransaction => {
                let why = "not inside a transaction that has written";
                Err(Failure::told(ERROR, why))
            }
            Todo::Planned => Ok(true),
            Todo::Nothing => Ok(false),
            Todo::Step => {
                let step = self.writing(|session| session.step());
                let upkeep = self.handle.upkeep.get_or_insert_default();
                upkeep.patience.judge(step, Instant::now())
            }
        }
    }
}

impl Session<'_, Writing> {
    /// A step of the maintenance that was begun. False if it was the last one.
    #[doc(hidden)]
    pub fn step(&mut self) -> Result<bool, Failure> {
        let former = self.handle.former()?;
        let Handle { packed, upkeep, .. } = &mut *self.handle;
        let Some(upkeep) = upkeep else {
            return Ok(false);
        };
        let Plan::Begun(mut maintenance) = std::mem::take(&mut upkeep.plan) else {
            return Ok(false);
        };
        let progress = written(maintenance.step(&mut packed.store, former))?;
        if progress == Progress::More {
            upkeep.plan = Plan::Begun(maintenance);
        }
        Ok(progress != Progress::Done)
    }
}

impl Handle {
    /// Whether a journal, a reader or the WAL may lead back to a state before the newest commit. In a session that writes
    /// the answer stays true.
    ///
    /// A journal that is on disk is hot, or that of a commit of several databases that is under way. One in memory is
    /// that of a transaction, which has the lock.
    fn former(&mut self) -> Result<Former, Failure> {
        let is_gone = if read(self.packed.uses_wal())? {
            // Without an index in shared memory SQLite keeps it to itself, and there is no word of it to look at.
            is_all_in_database(|offset| self.disk().word(offset))
        } else {
            !self.disk().has_journal()?
        };
        Ok(if is_gone {
            Former::Gone
        } else {
            Former::Needed
        })
    }
}
