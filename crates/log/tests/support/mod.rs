//! SQLite's writes to a WAL, at random, and what its file would hold: the model that a log is compared with.
#![allow(dead_code, unused_imports, reason = "each test uses a part")]

mod disk;
mod file;

use litepack_io::random::SplitMix64;
use litepack_io::storage::Storage;
use litepack_log::{Error, Log, Result};

pub use disk::{Disk, both, keys, keys_of, log, seal, seal_some, sealed, watch_for};
pub use file::File;

pub const HEADER: usize = 32;
pub const FRAME_HEADER: usize = 24;

/// The header of a WAL.
pub fn header(page_size: usize, salt: u64) -> [u8; HEADER] {
    let mut header = [7; HEADER];
    header[..4].copy_from_slice(&0x377f_0682_u32.to_be_bytes());
    header[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
    header[8..12].copy_from_slice(&(page_size as u32).to_be_bytes());
    header[16..24].copy_from_slice(&salt.to_be_bytes());
    header
}

/// One write of SQLite's, or what else it does with the file.
#[derive(Clone, Debug)]
pub enum Op {
    Write(Vec<u8>, u64),
    Sync,
    Truncate(u64),
}

impl Op {
    pub fn run<S: Storage>(&self, log: &mut Log<S>) -> Result<()> {
        match self {
            Op::Write(bytes, offset) => log.write(bytes, *offset),
            Op::Sync => log.sync(),
            Op::Truncate(size) => log.truncate(*size),
        }
    }
}

/// A writer that does what SQLite does, and the content that its WAL has.
pub struct Driver {
    pub random: SplitMix64,
    pub page_size: usize,
    /// The content: header and whole frames.
    pub content: Vec<u8>,
    /// Frames that count, and those that were committed.
    top: usize,
    committed: usize,
    /// Frames that were committed before what is in `queue`.
    stable: usize,
    salt: u64,
    /// The newest content of each page.
    pages: Vec<Vec<u8>>,
    /// What comes next.
    queue: Vec<Op>,
}

impl Driver {
    pub fn new(seed: u64, page_size: usize) -> Driver {
        let mut random = SplitMix64::new(seed);
        let pages = (0..12).map(|_| noise(&mut random, page_size)).collect();
        let mut driver = Driver {
            random,
            page_size,
            content: Vec::new(),
            top: 0,
            committed: 0,
            stable: 0,
            salt: 1,
            pages,
            queue: Vec::new(),
        };
        driver.begin();
        driver
    }

    pub fn frame_len(&self) -> usize {
        FRAME_HEADER + self.page_size
    }

    fn place(&self, frame: usize) -> usize {
        HEADER + (frame - 1) * self.frame_len()
    }

    /// The next call.
    pub fn next(&mut self) -> Op {
        while self.queue.is_empty() {
            self.plan();
        }
        let op = self.queue.remove(0);
        self.apply(&op);
        op
    }

    /// Whether no transaction is running.
    pub fn is_between(&self) -> bool {
        self.queue.is_empty()
    }

    /// The content is this one now, as after a power loss; a transaction that was running is none any more.
    pub fn go_on(&mut self, content: &[u8]) {
        self.queue.clear();
        self.content = content.to_vec();
        let frames = content.len().saturating_sub(HEADER) / self.frame_len();
        (self.top, self.committed, self.stable) = (frames, frames, frames);
        if content.is_empty() {
            self.begin();
        } else {
            self.salt = u64::from_be_bytes(content[16..24].try_into().unwrap());
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(bytes, 0) => self.content = bytes.clone(),
            Op::Write(bytes, offset) => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                if self.content.len() < end {
                    self.content.resize(end, 0);
                }
                self.content[start..end].copy_from_slice(bytes);
            }
            Op::Sync => {}
            Op::Truncate(size) if (*size as usize) < HEADER => self.content.clear(),
            Op::Truncate(size) => {
                let frames = (*size as usize - HEADER) / self.frame_len();
                let len = HEADER + frames * self.frame_len();
                self.content.truncate(len);
            }
        }
    }

    /// The content that can be read: whole frames.
    pub fn readable(&self) -> &[u8] {
        if self.content.len() < HEADER {
            return &[];
        }
        let frames = (self.content.len() - HEADER) / self.frame_len();
        &self.content[..HEADER + frames * self.frame_len()]
    }

    fn begin(&mut self) {
        // Sometimes with equal salts, after a transaction that was rolled back.
        if self.committed > 0 || self.random.chance(50) {
            self.salt = self.random.next_u64();
        }
        let header = header(self.page_size, self.salt).to_vec();
        self.queue.push(Op::Write(header, 0));
        self.queue.push(Op::Sync);
        (self.top, self.committed, self.stable) = (0, 0, 0);
    }

    /// How much of the content others may read: what was committed.
    pub fn stable_len(&self) -> usize {
        if self.is_between() {
            self.readable().len()
        } else {
            self.place(self.stable + 1).min(self.readable().len())
        }
    }

    fn plan(&mut self) {
        self.stable = self.committed;
        match self.random.below(20) {
            0 => return self.begin(),
            1 => {
                let least = self.place(self.committed + 1) as u64;
                let size = least + self.random.below(4 * self.frame_len() as u64);
                self.queue.push(Op::Truncate(size));
                return;
            }
            2 => {
                if self.random.chance(20) {
                    self.queue.push(Op::Truncate(0));
                    self.begin();
                }
                return;
            }
            3 => return self.queue.push(Op::Sync),
            _ => {}
        }
        let frames = match self.random.below(40) {
            0 => 700,
            1..4 => 60,
            _ => 1 + self.random.below(6) as usize,
        };
        let first = self.committed + 1;
        self.top = self.committed;
        let mut written = Vec::new();
        let commits = self.random.chance(80);
        for n in 0..frames {
            let is_last = commits && n + 1 == frames;
            // A page that was spilled is written over.
            if !is_last && !written.is_empty() && self.random.chance(20) {
                let at = self.random.below(written.len() as u64) as usize;
                let page = self.change(written[at]);
                let offset = self.place(first + at) + FRAME_HEADER;
                self.queue.push(Op::Write(page, offset as u64));
                continue;
            }
            self.top += 1;
            let page = self.random.below(self.pages.len() as u64) as usize;
            written.push(page);
            let content = self.change(page);
            let frame = [self.frame_header(page, is_last), content].concat();
            self.write_frame(frame);
        }
        if commits && self.random.chance(20) {
            self.rewrite_headers(first, &written);
        }
        if commits {
            self.committed = self.top;
            if self.random.chance(60) {
                self.queue.push(Op::Sync);
            }
        }
    }

    fn write_frame(&mut self, frame: Vec<u8>) {
        let offset = self.place(self.top) as u64;
        let mut parts = vec![0, FRAME_HEADER, frame.len()];
        // Around a sync, where the disk may tear what is near.
        if self.random.chance(10) {
            parts.push(1 + self.random.below(frame.len() as u64 - 1) as usize);
            parts.sort_unstable();
            parts.dedup();
        }
        for part in parts.windows(2) {
            let bytes = frame[part[0]..part[1]].to_vec();
            self.queue.push(Op::Write(bytes, offset + part[0] as u64));
        }
    }

    fn rewrite_headers(&mut self, first: usize, written: &[usize]) {
        let from = self.random.below(written.len() as u64) as usize;
        for (at, page) in written.iter().enumerate().skip(from) {
            let is_last = at + 1 == written.len();
            let header = self.frame_header(*page, is_last);
            let offset = self.place(first + at) as u64;
            self.queue.push(Op::Write(header, offset));
        }
    }

    fn frame_header(&mut self, page: usize, is_commit: bool) -> Vec<u8> {
        let mut header = Vec::new();
        header.extend((page as u32 + 1).to_be_bytes());
        header.extend(u32::from(is_commit).to_be_bytes());
        let salt = if self.random.chance(97) { self.salt } else { 5 };
        header.extend(salt.to_be_bytes());
        header.extend(self.random.next_u64().to_be_bytes());
        header
    }

    /// The page with some change.
    fn change(&mut self, page: usize) -> Vec<u8> {
        let size = self.page_size;
        let mut content = self.pages[page].clone();
        match self.random.below(20) {
            0 => content = noise(&mut self.random, size),
            1 => content = vec![0; size],
            2 => content
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = (at % 7) as u8),
            _ => {
                let len = 1 + self.random.below(size as u64 / 16) as usize;
                let at = self.random.below((size - len) as u64) as usize;
                let new = noise(&mut self.random, len);
                content[at..at + len].copy_from_slice(&new);
            }
        }
        self.pages[page].clone_from(&content);
        content
    }
}

pub fn noise(random: &mut SplitMix64, len: usize) -> Vec<u8> {
    let bytes = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
    bytes.flatten().take(len).collect()
}

/// All that a log holds, frame by frame, as SQLite's recovery reads it.
pub fn content_of<S: Storage>(log: &mut Log<S>, page_size: usize) -> Result<Vec<u8>> {
    let size = log.size()? as usize;
    let mut content = vec![0; size];
    let mut at = 0;
    while at < size {
        let len = if at == 0 {
            HEADER
        } else {
            FRAME_HEADER + page_size
        };
        let end = (at + len).min(size);
        let n = log.read(&mut content[at..end], at as u64)?;
        assert_eq!(n, end - at, "a short read below the size");
        at = end;
    }
    Ok(content)
}

/// Whether this is an error that says where.
pub fn is_damage<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Damaged { .. } | Error::NoBase { .. }))
}

/// How many rounds a test runs: more in the long form.
pub fn rounds(few: u64) -> u64 {
    let is_long = std::env::var_os("LITEPACK_LONG").is_some_and(|v| v == "1");
    if is_long { few * 20 } else { few }
}
