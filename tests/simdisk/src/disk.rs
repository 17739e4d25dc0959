//! The disk: names, contents, the record of what was done, and the state after a crash.
//!
//! Promises that every successful mutating call and sync gets the next operation number, that a
//! failed one changes nothing and gets none (a short write and a sync that gives up excepted), and that
//! crashes can be computed at any operation number at any later time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::crash::{self, CrashMode};
use crate::error::SimError;
use crate::fault::{Call, Fault, FaultError, Faults};
use crate::history::{Inode, Op, directory_of};
use crate::lie::Lies;
use crate::replay::Replay;
use crate::state::{Node, State};
use litepack_io::random::SplitMix64;

/// The named files of a disk and their contents.
pub type Images = BTreeMap<String, Vec<u8>>;

/// A simulated disk; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl Default for SimDisk {
    fn default() -> Self {
        SimDisk::new()
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> SimDisk {
        SimDisk::from_images(Images::new())
    }

    /// A disk that durably holds `images`: the machine after a restart.
    pub fn from_images(images: Images) -> SimDisk {
        let initial: BTreeMap<_, _> = images
            .into_iter()
            .enumerate()
            .map(|(id, (name, data))| (full_name(&name), (Inode(id as u64), data)))
            .collect();
        let node = |data: &Vec<u8>| Node {
            data: data.clone(),
            ..Node::default()
        };
        let state = State {
            names: initial
                .iter()
                .map(|(name, (inode, _))| (name.clone(), *inode))
                .collect(),
            nodes: initial
                .values()
                .map(|(inode, data)| (*inode, node(data)))
                .collect(),
            faults: Faults::default(),
            lies: Lies::default(),
            read_only: false,
            capacity: None,
            ordered_metadata: false,
            next_id: initial.len() as u64,
            initial: Arc::new(initial),
            history: Vec::new(),
            marks: Vec::new(),
            replay: None,
            before_index_lock: None,
            on_write: None,
        };
        SimDisk {
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations there have been; the newest one's number.
    pub fn op_count(&self) -> u64 {
        self.lock().history.len() as u64
    }

    /// Remembers `label` for the operations after this moment, for [`SimDisk::describe`].
    pub fn mark(&self, label: &str) {
        let mut state = self.lock();
        let at = state.history.len() as u64;
        state.marks.push((at, label.to_owned()));
    }

    /// The operation number `op` in words, and the last mark before it.
    pub fn describe(&self, op: u64) -> String {
        let state = self.lock();
        let what = op
            .checked_sub(1)
            .and_then(|index| state.history.get(index as usize));
        let what = what.map_or("before everything".to_owned(), |op| state.describe(op));
        let mark = state.marks.iter().rev().find(|(at, _)| *at < op.max(1));
        format!(
            "op {op}: {what} [{}]",
            mark.map_or("start", |(_, label)| label)
        )
    }

    /// The possible contents of the disk if the power fails right after operation `at_op` (0: before any).
    ///
    /// Asking in rising order of `at_op` costs one pass over the history in all.
    pub fn crash_images(&self, at_op: u64, mode: CrashMode, seed: u64) -> Images {
        let mut state = self.lock();
        let at_op = at_op.min(state.history.len() as u64);
        let mut replay = match state.replay.take() {
            Some(replay) if replay.at() <= at_op => replay,
            _ => Replay::new(&state.initial),
        };
        replay.advance(&state.history, at_op);
        let mut rng = SplitMix64::derived(seed, at_op);
        let images = crash::images(
            &replay,
            &state.history,
            mode,
            state.ordered_metadata,
            &mut rng,
        );
        state.replay = Some(replay);
        images
    }

    /// How many syncs of files whose names end so have succeeded.
    pub(crate) fn syncs_of(&self, suffix: &str) -> usize {
        let state = self.lock();
        let is_meant =
            |name: &String, of: Inode| name.ends_with(suffix) && state.names.get(name) == Some(&of);
        let syncs = state.history.iter().filter_map(|op| match op {
            Op::Sync { inode, .. } => Some(*inode),
            _ => None,
        });
        syncs
            .filter(|inode| state.names.keys().any(|name| is_meant(name, *inode)))
            .count()
    }

    /// The files as running processes see them now.
    pub fn live_images(&self) -> Images {
        let state = self.lock();
        let content = |inode| {
            state
                .nodes
                .get(inode)
                .map_or(Vec::new(), |n| n.data.clone())
        };
        state
            .names
            .iter()
            .map(|(name, inode)| (name.clone(), content(inode)))
            .collect()
    }

    /// The names of the files as running processes see them now.
    pub fn names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }

    /// The medium loses a bit, in front of all who have the file open. The images after a crash do not show it.
    ///
    /// # Panics
    ///
    /// If there is no such byte.
    pub fn rot(&self, name: &str, at: u64, bit: u32) {
        let mut state = self.lock();
        let inode = state.names.get(&full_name(name)).copied();
        let node = inode.and_then(|inode| state.nodes.get_mut(&inode));
        let byte = node.and_then(|node| node.data.get_mut(at as usize));
        *byte.expect("the file has that byte") ^= 1 << bit;
    }

    /// Arms a fault; several may be armed, the first that applies decides.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.arm(fault);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// How many calls were made to fail so far.
    pub fn fault_hits(&self) -> u64 {
        self.lock().faults.hits()
    }

    /// How many calls the armed faults applied to, made to fail or not: with a fault that never
    /// comes (`at(u64::MAX)`), how many places there are to put it.
    pub fn fault_candidates(&self) -> u64 {
        self.lock().faults.candidates()
    }

    /// How many calls that could have been made to fail there were so far.
    pub fn call_count(&self) -> u64 {
        self.lock().faults.calls()
    }

    /// Makes the disk read-only: files open read-only, everything that would change it fails.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().read_only = read_only;
    }

    /// Limits the bytes of all files together; writes that would pass it report `SQLITE_FULL`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Has `f` called before each lock of a WAL index is taken or released, with the number of the first one and
    /// SQLite's flags. It may use the disk, and wait.
    pub fn before_index_lock(&self, f: impl Fn(u32, i32) + Send + Sync + 'static) {
        self.lock().before_index_lock = Some(Arc::new(f));
    }

    /// Has `f` called with all bytes that are written, and the name of the file; a temporary one has none. It may not use
    /// the disk.
    pub fn on_write(&self, f: impl Fn(&str, &[u8]) + Send + Sync + 'static) {
        self.lock().on_write = Some(Arc::new(f));
    }

    /// Lets crashes keep changes of names and truncations only in the order they were made, as
    /// journaling file systems do. The default lets any of them survive without the others.
    pub fn set_ordered_metadata(&self, ordered: bool) {
        self.lock().ordered_metadata = ordered;
    }

    /// Removes a name, durably if `sync_dir`.
    pub fn delete(&self, name: &str, sync_dir: bool) -> Result<(), SimError> {
        let name = full_name(name);
        let mut state = self.lock();
        let fault = state.faults.check(Call::Delete, &name, false);
        let stays_pending = sync_dir && fault == Some(FaultError::DirSync);
        State::outcome(
            Call::Delete,
            fault.filter(|fault| *fault != FaultError::DirSync),
        )?;
        let Some(inode) = state.names.get(&name).copied() else {
            return Err(SimError(ffi::SQLITE_IOERR_DELETE_NOENT));
        };
        if state.read_only {
            return Err(SimError(ffi::SQLITE_IOERR_DELETE));
        }
        state.names.remove(&name);
        let sync_dir = sync_dir && !stays_pending;
        state.record(Op::Delete { name, sync_dir });
        state.forget_unused(inode);
        if stays_pending {
            return Err(SimError(ffi::SQLITE_IOERR_DIR_FSYNC));
        }
        Ok(())
    }

    /// The length of a named file, if it exists.
    pub fn stat(&self, name: &str) -> Result<Option<u64>, SimError> {
        let name = full_name(name);
        let mut state = self.lock();
        state.may(Call::Access, &name)?;
        let node = state
            .names
            .get(&name)
            .and_then(|inode| state.nodes.get(inode));
        Ok(node.map(|node| node.data.len() as u64))
    }

    /// Whether the disk was made read-only.
    pub fn is_read_only(&self) -> bool {
        self.lock().read_only
    }
}

/// The absolute form of a name: there are no links and no `..` here.
pub(crate) fn full_name(name: &str) -> String {
    if directory_of(name).starts_with('/') {
        name.to_owned()
    } else {
        format!("/{name}")
    }
}
