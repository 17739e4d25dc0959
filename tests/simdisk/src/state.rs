//! The parts of a disk, behind its mutex.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::ffi;

use crate::crash;
use crate::error::SimError;
use crate::fault::{Call, FaultError, Faults};
use crate::history::{Inode, Op};
use crate::lie::Lies;
use crate::locks::LockTable;
use crate::replay::Replay;
use crate::shm::Shm;

/// One file's live content, as running processes see it.
#[derive(Default)]
pub(crate) struct Node {
    pub data: Vec<u8>,
    /// It belongs to one handle, and no crash leaves it behind.
    pub temporary: bool,
    /// A new journal, whose first sync is to sync the directory too.
    pub new_journal: bool,
    pub opens: u64,
    pub locks: LockTable,
    pub shm: Shm,
}

/// Called with the name of a file and what is written to it.
pub(crate) type OnWrite = Arc<dyn Fn(&str, &[u8]) + Send + Sync>;

/// Gets the first lock, and the flags.
pub(crate) type BeforeIndexLock = Arc<dyn Fn(u32, i32) + Send + Sync>;

pub(crate) struct State {
    pub names: BTreeMap<String, Inode>,
    pub nodes: HashMap<Inode, Node>,
    pub faults: Faults,
    pub lies: Lies,
    pub read_only: bool,
    pub capacity: Option<u64>,
    pub ordered_metadata: bool,
    pub next_id: u64,
    pub initial: Arc<BTreeMap<String, (Inode, Vec<u8>)>>,
    pub history: Vec<Op>,
    pub marks: Vec<(u64, String)>,
    pub replay: Option<Replay>,
    pub before_index_lock: Option<BeforeIndexLock>,
    pub on_write: Option<OnWrite>,
}

impl State {
    /// Counts a call; an error if it is to fail.
    pub fn may(&mut self, call: Call, name: &str) -> Result<(), SimError> {
        State::outcome(call, self.faults.check(call, name, false))
    }

    /// The result of a call that fails with this fault.
    pub fn outcome(call: Call, fault: Option<FaultError>) -> Result<(), SimError> {
        match fault {
            Some(FaultError::Io | FaultError::GivesUp | FaultError::Forgets) => {
                Err(SimError(call.code()))
            }
            Some(_) => Err(SimError(ffi::SQLITE_FULL)),
            None => Ok(()),
        }
    }

    pub fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn record(&mut self, op: Op) {
        self.history.push(op);
    }

    /// What a file was given since its last sync is given up: a part of it has reached the medium, and no later sync
    /// writes the rest. If the system `forgets`, all who run see that.
    pub fn give_up(&mut self, inode: Inode, forgets: bool) {
        let end = self.history.len() as u64;
        let mut replay = Replay::new(&self.initial);
        replay.advance(&self.history, end);
        let left = crash::what_was_written(&replay, &self.history, inode, end);
        if forgets && let Some(node) = self.nodes.get_mut(&inode) {
            // Its length is not among what the system could not write.
            let len = node.data.len();
            node.data.clone_from(&left);
            node.data.resize(len, 0);
        }
        let data = left.into();
        self.record(Op::GiveUp { inode, data });
    }

    /// Drops a content that no name and no handle refers to.
    pub fn forget_unused(&mut self, inode: Inode) {
        let named = self.names.values().any(|other| *other == inode);
        if !named && self.nodes.get(&inode).is_some_and(|node| node.opens == 0) {
            self.nodes.remove(&inode);
        }
    }

    /// Whether so many more bytes fit.
    pub fn fits(&self, more: u64) -> bool {
        let used = || {
            self.nodes
                .values()
                .map(|node| node.data.len() as u64)
                .sum::<u64>()
        };
        self.capacity
            .is_none_or(|capacity| used() + more <= capacity)
    }

    /// An operation in words.
    pub fn describe(&self, op: &Op) -> String {
        let name = |inode| self.history_name(inode);
        match op {
            Op::Create { name, .. } => format!("create {name}"),
            Op::Delete { name, sync_dir } => format!("delete {name} syncDir={sync_dir}"),
            Op::Write {
                inode,
                offset,
                data,
            } => {
                format!("write {} bytes at {offset} of {}", data.len(), name(*inode))
            }
            Op::Truncate { inode, len } => format!("truncate {} to {len}", name(*inode)),
            Op::Sync { inode, dir: None } => format!("sync {}", name(*inode)),
            Op::Sync {
                inode,
                dir: Some(_),
            } => format!("sync {} and directory", name(*inode)),
            Op::GiveUp { inode, .. } => {
                format!("a sync of {} fails and gives up", name(*inode))
            }
            Op::Temporary => "something on a temporary file".to_owned(),
        }
    }

    fn history_name(&self, wanted: Inode) -> String {
        let first = self.initial.iter().find(|(_, (inode, _))| *inode == wanted);
        let created = || {
            self.history.iter().find_map(|op| match op {
                Op::Create { name, inode } if *inode == wanted => Some(name),
                _ => None,
            })
        };
        first
            .map(|(name, _)| name)
            .or_else(created)
            .map_or("?".to_owned(), Clone::clone)
    }
}
