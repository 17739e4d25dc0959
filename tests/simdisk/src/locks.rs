//! The five SQLite lock levels of one file, between the handles open on it.
//!
//! Promises the rules of SQLite's unix VFS: many SHARED, one RESERVED beside them, PENDING keeps
//! new readers out, EXCLUSIVE is alone; a refused EXCLUSIVE leaves PENDING behind.

use std::collections::BTreeMap;

use rusqlite::ffi;

use crate::error::SimError;

const BUSY: SimError = SimError(ffi::SQLITE_BUSY);
const SHARED: i32 = ffi::SQLITE_LOCK_SHARED;
const RESERVED: i32 = ffi::SQLITE_LOCK_RESERVED;
const PENDING: i32 = ffi::SQLITE_LOCK_PENDING;
const EXCLUSIVE: i32 = ffi::SQLITE_LOCK_EXCLUSIVE;

/// Who holds what on one file.
#[derive(Default, Debug)]
pub(crate) struct LockTable {
    held: BTreeMap<u64, i32>,
}

impl LockTable {
    /// The level that `handle` holds.
    pub fn level(&self, handle: u64) -> i32 {
        self.held
            .get(&handle)
            .copied()
            .unwrap_or(ffi::SQLITE_LOCK_NONE)
    }

    fn highest_other(&self, handle: u64) -> i32 {
        let others = self.held.iter().filter(|(h, _)| **h != handle);
        others
            .map(|(_, level)| *level)
            .max()
            .unwrap_or(ffi::SQLITE_LOCK_NONE)
    }

    /// Raises `handle` to `want`, or refuses with `SQLITE_BUSY`.
    pub fn lock(&mut self, handle: u64, want: i32) -> Result<(), SimError> {
        if self.level(handle) >= want {
            return Ok(());
        }
        let others = self.highest_other(handle);
        if want == SHARED {
            if others >= PENDING {
                return Err(BUSY);
            }
        } else if others >= RESERVED {
            return Err(BUSY);
        } else if want == EXCLUSIVE && others >= SHARED {
            self.held.insert(handle, PENDING);
            return Err(BUSY);
        }
        self.held.insert(handle, want);
        Ok(())
    }

    /// Lowers `handle` to `to` (SHARED or NONE).
    pub fn unlock(&mut self, handle: u64, to: i32) {
        if self.level(handle) > to {
            if to == ffi::SQLITE_LOCK_NONE {
                self.held.remove(&handle);
            } else {
                self.held.insert(handle, to);
            }
        }
    }

    /// Whether any handle holds RESERVED or more.
    pub fn reserved(&self) -> bool {
        self.held.values().any(|level| *level >= RESERVED)
    }
}
