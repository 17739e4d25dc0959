//! One open file of the disk: reads, writes, syncs, locks and shared memory.
//!
//! Usable without SQLite too: a store can be run on it directly.

use rusqlite::ffi;

use crate::disk::{SimDisk, full_name};
use crate::error::SimError;
use crate::fault::{Call, FaultError};
use crate::history::{Inode, Op, directory_of, write_at};
use crate::shm::Region;
use crate::state::{Node, State};

/// How a file is to be opened.
#[derive(Clone, Copy, Default, Debug)]
pub struct OpenOptions {
    /// Make it if it does not exist.
    pub create: bool,
    /// Refuse it if it exists (with `create`).
    pub exclusive: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// It belongs to the handle alone and goes with it; no crash leaves it behind.
    pub temporary: bool,
    /// It is a journal, WAL or super-journal: when new, its first sync syncs the directory.
    pub journal: bool,
}

/// An open file; dropping it closes it.
pub struct SimFile {
    disk: SimDisk,
    handle: u64,
    inode: Inode,
    name: String,
    read_only: bool,
}

impl SimDisk {
    /// Opens a file; without a name it is temporary.
    pub fn open(&self, name: Option<&str>, options: OpenOptions) -> Result<SimFile, SimError> {
        let cannot = Err(SimError(ffi::SQLITE_CANTOPEN));
        let temporary = options.temporary || name.is_none();
        let name = name.map(full_name).unwrap_or_default();
        let mut state = self.lock();
        state.may(Call::Open, &name)?;
        let existing = if temporary {
            None
        } else {
            state.names.get(&name).copied()
        };
        let inode = match existing {
            Some(_) if options.create && options.exclusive => return cannot,
            Some(inode) => inode,
            None if !options.create && !temporary => return cannot,
            None if state.read_only && !temporary => return cannot,
            None => state.create(&name, temporary, options.journal),
        };
        let handle = state.fresh_id();
        state.node(inode).opens += 1;
        let read_only = options.read_only || (state.read_only && !temporary);
        Ok(SimFile {
            disk: self.clone(),
            handle,
            inode,
            name,
            read_only,
        })
    }
}

impl State {
    fn create(&mut self, name: &str, temporary: bool, journal: bool) -> Inode {
        let inode = Inode(self.fresh_id());
        let name = name.to_owned();
        let new_journal = journal && !temporary;
        let node = Node {
            temporary,
            new_journal,
            ..Node::default()
        };
        self.nodes.insert(inode, node);
        if temporary {
            self.record(Op::Temporary);
        } else {
            self.names.insert(name.clone(), inode);
            self.record(Op::Create { name, inode });
        }
        inode
    }

    /// The content behind an open handle, or a name.
    pub(crate) fn node(&mut self, inode: Inode) -> &mut Node {
        self.nodes
            .get_mut(&inode)
            .expect("an open file keeps its content")
    }
}

impl SimFile {
    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Reads up to `into.len()` bytes; fewer at the end of the file.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, SimError> {
        let mut state = self.disk.lock();
        state.may(Call::Read, &self.name)?;
        let is_cut = !state.node(self.inode).temporary
            && state.lies.cuts_read(&self.name, offset, into.len());
        let data = &state.node(self.inode).data;
        let start = data
            .len()
            .min(usize::try_from(offset).unwrap_or(usize::MAX));
        let len = into.len().min(data.len() - start) / if is_cut { 2 } else { 1 };
        into[..len].copy_from_slice(&data[start..start + len]);
        Ok(len)
    }

    /// Writes all of `data`.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(), SimError> {
        let mut state = self.disk.lock();
        let old = state.node(self.inode).data.len() as u64;
        let grows = (offset + data.len() as u64).saturating_sub(old);
        match state.faults.check(Call::Write, &self.name, grows > 0) {
            Some(FaultError::Io) => return Err(SimError(ffi::SQLITE_IOERR_WRITE)),
            Some(FaultError::ShortWrite) => {
                let half = data.len() / 2 / 512 * 512;
                self.store(&mut state, &data[..half], offset);
                return Err(SimError(ffi::SQLITE_FULL));
            }
            Some(_) => return Err(SimError(ffi::SQLITE_FULL)),
            None => {}
        }
        if self.read_only || (state.read_only && !state.node(self.inode).temporary) {
            return Err(SimError(ffi::SQLITE_READONLY));
        }
        if grows > 0 && !state.fits(grows) {
            return Err(SimError(ffi::SQLITE_FULL));
        }
        self.store(&mut state, data, offset);
        Ok(())
    }

    fn store(&self, state: &mut State, data: &[u8], offset: u64) {
        if data.is_empty() {
            return;
        }
        if let Some(on_write) = &state.on_write {
            on_write(&self.name, data);
        }
        let node = state.node(self.inode);
        if node.temporary {
            write_at(&mut node.data, offset, data);
            return state.record(Op::Temporary);
        }
        match state.lies.about_write(&self.name, offset, data.len()) {
            Some(lie) => state.deceive(lie, self.inode, data, offset),
            None => state.write(self.inode, data, offset),
        }
        state.count_write();
    }

    /// Sets the length.
    pub fn truncate(&self, len: u64) -> Result<(), SimError> {
        let mut state = self.disk.lock();
        state.may(Call::Truncate, &self.name)?;
        if self.read_only || (state.read_only && !state.node(self.inode).temporary) {
            return Err(SimError(ffi::SQLITE_IOERR_TRUNCATE));
        }
        let node = state.node(self.inode);
        node.data.resize(len as usize, 0);
        let temporary = node.temporary;
        state.record(match temporary {
            true => Op::Temporary,
            false => Op::Truncate {
                inode: self.inode,
                len,
            },
        });
        Ok(())
    }

    /// Makes everything done to this file so far durable.
    pub fn sync(&self) -> Result<(), SimError> {
        let mut state = self.disk.lock();
        let mut fault = state.faults.check(Call::Sync, &self.name, false);
        if !state.node(self.inode).temporary {
            let gives_up = match state.lies.about_sync(&self.name) {
                Some(true) => Some(FaultError::Forgets),
                Some(false) => Some(FaultError::GivesUp),
                None => None,
            };
            fault = fault.or(gives_up);
            if let Some(error @ (FaultError::GivesUp | FaultError::Forgets)) = fault {
                state.give_up(self.inode, error == FaultError::Forgets);
            }
        }
        State::outcome(Call::Sync, fault)?;
        let node = state.node(self.inode);
        let temporary = node.temporary;
        let first = std::mem::take(&mut node.new_journal);
        let dir = first.then(|| directory_of(&self.name).to_owned());
        state.record(match temporary {
            true => Op::Temporary,
            false => Op::Sync {
                inode: self.inode,
                dir,
            },
        });
        Ok(())
    }

    /// The length.
    pub fn size(&self) -> Result<u64, SimError> {
        let mut state = self.disk.lock();
        state.may(Call::Size, &self.name)?;
        Ok(state.node(self.inode).data.len() as u64)
    }

    /// Whether its name now means another file or none.
    pub fn has_moved(&self) -> bool {
        let mut state = self.disk.lock();
        !state.node(self.inode).temporary && state.names.get(&self.name) != Some(&self.inode)
    }

    /// Raises the lock level (`SQLITE_LOCK_*`).
    pub fn lock(&self, level: i32) -> Result<(), SimError> {
        let mut state = self.disk.lock();
        state.may(Call::Lock, &self.name)?;
        let handle = self.handle;
        state.node(self.inode).locks.lock(handle, level)
    }

    /// Lowers the lock level.
    pub fn unlock(&self, level: i32) {
        let handle = self.handle;
        self.disk
            .lock()
            .node(self.inode)
            .locks
            .unlock(handle, level);
    }

    /// The lock level this handle holds.
    pub fn lock_level(&self) -> i32 {
        self.disk.lock().node(self.inode).locks.level(self.handle)
    }

    /// Whether any handle holds RESERVED or more.
    pub fn reserved(&self) -> bool {
        self.disk.lock().node(self.inode).locks.reserved()
    }

    pub(crate) fn shm_map(
        &self,
        index: usize,
        size: usize,
        extend: bool,
    ) -> Result<Option<Region>, SimError> {
        let mut state = self.disk.lock();
        state.may(Call::ShmMap, &self.name)?;
        Ok(state
            .node(self.inode)
            .shm
            .map(self.handle, index, size, extend))
    }

    pub(crate) fn shm_lock(&self, first: u32, count: u32, flags: i32) -> Result<(), SimError> {
        let before = self.disk.lock().before_index_lock.clone();
        if let Some(before) = before {
            before(first, flags);
        }
        self.disk
            .lock()
            .node(self.inode)
            .shm
            .lock(self.handle, first, count, flags)
    }

    pub(crate) fn shm_unmap(&self) {
        self.disk.lock().node(self.inode).shm.detach(self.handle);
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        let node = state.node(self.inode);
        node.opens -= 1;
        node.locks.unlock(self.handle, ffi::SQLITE_LOCK_NONE);
        node.shm.detach(self.handle);
        state.forget_unused(self.inode);
    }
}
