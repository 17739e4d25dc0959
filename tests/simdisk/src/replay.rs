//! Runs through the history and keeps apart what is durable from what is still pending.
//!
//! Goes forward only, so a campaign over all crash points passes over the history once.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::history::{Inode, Op, directory_of};

/// A change of a name that a crash may still undo.
pub(crate) struct PendingName {
    /// The operation's number.
    pub op: u64,
    pub name: String,
    /// The file that the name stands for after it.
    pub to: Option<Inode>,
}

/// A content: what is durable, and the numbers of the operations since.
#[derive(Default)]
pub(crate) struct Durable {
    pub data: Vec<u8>,
    pub pending: Vec<u64>,
}

/// The disk after operation [`Replay::at`].
pub(crate) struct Replay {
    at: u64,
    pub names: BTreeMap<String, Inode>,
    pub pending_names: Vec<PendingName>,
    pub files: HashMap<Inode, Durable>,
}

impl Replay {
    /// The disk before any operation.
    pub fn new(initial: &BTreeMap<String, (Inode, Vec<u8>)>) -> Replay {
        let durable = |data: &Vec<u8>| Durable {
            data: data.clone(),
            pending: Vec::new(),
        };
        Replay {
            at: 0,
            names: initial
                .iter()
                .map(|(name, (inode, _))| (name.clone(), *inode))
                .collect(),
            pending_names: Vec::new(),
            files: initial
                .values()
                .map(|(inode, data)| (*inode, durable(data)))
                .collect(),
        }
    }

    /// The number of the last operation replayed.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Replays up to and with operation `to`.
    pub fn advance(&mut self, history: &[Op], to: u64) {
        while self.at < to {
            let op = &history[self.at as usize];
            self.at += 1;
            self.step(history, op);
        }
    }

    fn step(&mut self, history: &[Op], op: &Op) {
        match op {
            Op::Create { name, inode } => {
                self.files.insert(*inode, Durable::default());
                self.pend(name, Some(*inode));
            }
            Op::Delete { name, sync_dir } => {
                self.pend(name, None);
                if *sync_dir {
                    self.sync_names(|change| directory_of(&change.name) == directory_of(name));
                }
            }
            Op::Write { inode, .. } | Op::Truncate { inode, .. } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.pending.push(self.at);
                }
            }
            Op::Sync { inode, dir } => {
                self.sync_content(history, *inode);
                if let Some(dir) = dir {
                    self.sync_names(|change| directory_of(&change.name) == dir);
                }
            }
            Op::GiveUp { inode, data } => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.data = data.to_vec();
                    file.pending.clear();
                }
            }
            Op::Temporary => {}
        }
    }

    fn pend(&mut self, name: &str, to: Option<Inode>) {
        self.pending_names.push(PendingName {
            op: self.at,
            name: name.to_owned(),
            to,
        });
    }

    fn sync_content(&mut self, history: &[Op], inode: Inode) {
        if let Some(file) = self.files.get_mut(&inode) {
            for op in file.pending.drain(..) {
                history[op as usize - 1].apply(&mut file.data);
            }
        }
    }

    fn sync_names(&mut self, which: impl Fn(&PendingName) -> bool) {
        let (now, later): (Vec<_>, Vec<_>) = self.pending_names.drain(..).partition(which);
        self.pending_names = later;
        for change in now {
            match change.to {
                Some(inode) => self.names.insert(change.name, inode),
                None => self.names.remove(&change.name),
            };
        }
        let pending = self.pending_names.iter().filter_map(|change| change.to);
        let reachable: HashSet<Inode> = self.names.values().copied().chain(pending).collect();
        self.files.retain(|inode, _| reachable.contains(inode));
    }
}
