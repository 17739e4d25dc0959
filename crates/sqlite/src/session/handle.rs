//! A handle, and the sessions that prove in which state it is.

use std::marker::PhantomData;

use super::index_locks::IndexLocks;
use super::packed::Packed;
use super::upkeep::Upkeep;
use crate::host::file::{BusyHandler, HostFile};
use crate::host::wal_index::IndexHeader;

/// One opening of a packed database: the store, and what SQLite has locked.
pub(crate) struct Handle {
    pub(crate) packed: Packed<HostFile>,
    /// `nBackfill` before SQLite sets it at the end of the running checkpoint.
    pub(super) backfill: u32,
    /// The WAL when SQLite took the checkpoint lock, by its salts; `None` if the index said nothing of one.
    pub(super) checkpointed: Option<[u32; 2]>,
    /// SQLite's locks in the WAL index through this handle.
    pub(super) index_locks: IndexLocks,
    /// The header of the index when this handle took the lock of a read transaction; `None` once it took another one.
    pub(super) index_header: Option<IndexHeader>,
    /// How SQLite has the connection wait while others are in the way.
    pub(super) busy: Option<BusyHandler>,
    /// Maintenance, where SQLite may write.
    pub(super) upkeep: Option<Upkeep>,
}

impl Handle {
    /// With `upkeep` only if SQLite may write through this handle.
    pub(crate) fn new(packed: Packed<HostFile>, upkeep: Option<Upkeep>) -> Handle {
        Handle {
            packed,
            backfill: 0,
            checkpointed: None,
            index_locks: IndexLocks::default(),
            index_header: None,
            busy: None,
            upkeep,
        }
    }

    pub(crate) fn disk(&self) -> &HostFile {
        self.packed.disk()
    }

    /// How the connection waits from now on.
    pub(crate) fn waits_by(&mut self, busy: BusyHandler) {
        self.busy = Some(busy);
    }

    /// How it waits.
    pub(crate) fn busy(&self) -> Option<BusyHandler> {
        self.busy
    }

    /// A session in which nothing need be locked.
    pub(crate) fn session(&mut self) -> Session<'_, Unlocked> {
        Session::new(self)
    }
}

/// A handle in a state.
pub struct Session<'a, State> {
    pub(super) handle: &'a mut Handle,
    state: PhantomData<State>,
}

impl<'a, State> Session<'a, State> {
    /// Of this folder alone: who makes one has seen to what the state says.
    pub(super) fn new(handle: &'a mut Handle) -> Self {
        Session {
            handle,
            state: PhantomData,
        }
    }
}

impl<State> std::fmt::Debug for Session<'_, State> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:?})", self.handle.disk())
    }
}

/// Nothing need be locked.
#[derive(Debug)]
pub enum Unlocked {}

/// A SHARED lock is held at least.
#[derive(Debug)]
pub enum Reading {}

/// All others are kept from writing, as by a transaction.
#[derive(Debug)]
pub enum Writing {}

/// The checkpoint lock of the WAL index is held, or the file is locked for this handle alone.
#[derive(Debug)]
pub enum Checkpointing {}
