//! The file that a log is for, as the log sees it: commits, each with pages of its own. A transaction takes what the
//! commits before it have, but for those that a power loss may leave, and what the log needs.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use litepack_io::random::SplitMix64;
use litepack_io::storage::Storage;
use litepack_log::{BaseCommit, BoundTo, End, FileState, Log, Needed};

/// Steps of others in the midst of a call.
type Step = Box<dyn FnOnce(&File) + Send>;
type Pages = HashMap<u32, Vec<u8>>;

/// The file. Clones are the same one.
#[derive(Clone)]
pub struct File(Arc<Mutex<Inner>>);

#[derive(Clone)]
struct Commit {
    seq: u64,
    current: u64,
    next: u64,
    end: End,
}

struct Inner {
    /// The newest durable one, and those after it.
    commits: Vec<Commit>,
    /// Pages that are there, by the seq of their commit.
    pages: HashMap<u64, Pages>,
    random: SplitMix64,
    steps: Vec<Step>,
    fails: bool,
    is_at_hand: bool,
    /// How many pages were read from the disk.
    read: usize,
}

impl File {
    /// A file with these pages.
    pub fn new(seed: u64, pages: Pages) -> File {
        let commit = Commit {
            seq: 1,
            current: 0,
            next: 1,
            end: End::default(),
        };
        File(Arc::new(Mutex::new(Inner {
            commits: vec![commit],
            pages: HashMap::from([(1, pages)]),
            random: SplitMix64::new(seed),
            steps: Vec::new(),
            fails: false,
            is_at_hand: false,
            read: 0,
        })))
    }

    /// From now on all pages are in memory, or none.
    pub fn is_at_hand(&self, is_at_hand: bool) {
        self.inner().is_at_hand = is_at_hand;
    }

    /// How many pages were read from the disk.
    pub fn pages_read(&self) -> usize {
        self.inner().read
    }

    /// From now on pages cannot be read, or can.
    pub fn fail(&self, fails: bool) {
        self.inner().fails = fails;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Done before the log is told the state of the file next, in the order in which they are given.
    pub fn before_the_next_state(&self, step: impl FnOnce(&File) + Send + 'static) {
        self.inner().steps.push(Box::new(step));
    }

    /// The seq of the newest commit.
    pub fn newest(&self) -> u64 {
        self.inner().commits.last().unwrap().seq
    }

    /// The record of a commit with this seq.
    pub fn record(seq: u64) -> BaseCommit {
        let mut record = [7; 256];
        record[..8].copy_from_slice(&seq.to_le_bytes());
        BaseCommit(record)
    }

    /// A transaction begins to write: all is taken that may be.
    pub fn take(&self, needed: &Needed) {
        let inner = &mut *self.inner();
        let is_left = |seq: u64| inner.commits.iter().any(|commit| commit.seq == seq);
        match needed {
            Needed::Everything => {}
            Needed::Nothing => inner.pages.retain(|seq, _| is_left(*seq)),
            Needed::Commit(base) => {
                (inner.pages).retain(|seq, _| is_left(*seq) || File::record(*seq) == *base)
            }
        }
    }

    fn publish(&self, change: impl FnOnce(&mut Commit, &mut Pages, &mut SplitMix64)) {
        let inner = &mut *self.inner();
        let mut commit = inner.commits.last().unwrap().clone();
        let mut pages = inner.pages[&commit.seq].clone();
        commit.seq += 1;
        change(&mut commit, &mut pages, &mut inner.random);
        inner.pages.insert(commit.seq, pages);
        inner.commits.push(commit);
    }

    /// Maintenance, which drops the content of a page. The log need not be the writer's.
    pub fn maintain<S: Storage>(&self, log: &mut Log<S>) {
        let Ok(needed) = log.needed() else {
            return;
        };
        self.take(&needed);
        self.publish(|_, pages, random| {
            let page = 1 + random.below(12) as u32;
            pages.entry(page).and_modify(|content| content.fill(0));
        });
    }

    /// A checkpoint from this log, of these pages.
    pub fn checkpoint<S: Storage>(&self, log: &mut Log<S>, changed: Pages) {
        let (own, end, _) = log.reached();
        let needed = log.needed().unwrap();
        self.take(&needed);
        self.publish(|commit, pages, random| {
            pages.extend(changed);
            (commit.current, commit.next, commit.end) = (own, random.next_u64(), end);
        });
        self.flush();
    }

    /// A commit that no log follows.
    pub fn refuse(&self) {
        self.publish(|commit, _, random| (commit.current, commit.next) = (0, random.next_u64()));
    }

    /// The newest commit is durable, with a mark.
    pub fn flush(&self) {
        let commits = &mut self.inner().commits;
        commits.drain(..commits.len() - 1);
    }

    /// The files that a power loss leaves.
    pub fn after_power_loss(&self, seed: u64) -> File {
        let inner = self.inner();
        let at = SplitMix64::new(seed).below(inner.commits.len() as u64) as usize;
        File(Arc::new(Mutex::new(Inner {
            commits: vec![inner.commits[at].clone()],
            pages: inner.pages.clone(),
            random: SplitMix64::new(seed),
            steps: Vec::new(),
            fails: false,
            is_at_hand: inner.is_at_hand,
            read: 0,
        })))
    }
}

impl File {
    fn page(&self, commit: &BaseCommit, page: u32, buf: &mut [u8]) -> io::Result<bool> {
        let seq = u64::from_le_bytes(commit.0[..8].try_into().unwrap());
        let inner = self.inner();
        if inner.fails {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let pages = inner.pages.get(&seq);
        let pages = pages.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let found = pages
            .get(&page)
            .filter(|content| content.len() == buf.len());
        if let Some(content) = found {
            buf.copy_from_slice(content);
        }
        Ok(found.is_some())
    }
}

impl BoundTo for File {
    fn state(&self) -> io::Result<Option<FileState>> {
        let steps = std::mem::take(&mut self.inner().steps);
        steps.into_iter().for_each(|step| step(self));
        let inner = self.inner();
        let commit = inner.commits.last().unwrap();
        Ok(Some(FileState {
            identity: [5; 16],
            current: commit.current,
            next: commit.next,
            end: commit.end,
            is_unfinished: false,
            is_durable: inner.commits.len() == 1,
        }))
    }

    fn make_durable(&self) -> io::Result<()> {
        self.flush();
        Ok(())
    }

    fn base_commit(&self) -> io::Result<Option<BaseCommit>> {
        let inner = self.inner();
        let newest = (inner.commits.len() == 1).then(|| inner.commits[0].seq);
        Ok(newest.map(File::record))
    }

    fn base_page(&self, commit: &BaseCommit, page: u32, buf: &mut [u8]) -> io::Result<bool> {
        self.inner().read += 1;
        self.page(commit, page, buf)
    }

    fn base_page_at_hand(&self, commit: &BaseCommit, page: u32, buf: &mut [u8]) -> bool {
        let is_at_hand = self.inner().is_at_hand;
        is_at_hand && self.page(commit, page, buf).unwrap_or(false)
    }
}
