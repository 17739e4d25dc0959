//! An opened file on a server: blocks from memory, from disk or by request, and threads that fetch ahead of scans.
//!
//! Blocks that are missing side by side come with one request. No thread asks for a block that another is fetching for
//! this handle: that one is waited for, and every fetch ends within the time that the options bound. Threads are
//! started when a scan needs them, fail in silence (the reader then asks itself, and says what is wrong), and end with
//! the handle.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use ring::digest::{Context, SHA256};

use litepack_io::cache::{BlockKey, Bytes, Cache, CacheKind};
use litepack_io::platform::process_id;
use litepack_io::workers::WorkerPool;

use crate::error::{Error, Result};
use crate::fetch::{Expected, Fetch, KeepBlocks};
use crate::known::KnownVersions;
use crate::streams::{Plan, REQUEST_MAX, Streams};
use crate::traffic::Traffic;
use crate::version::Version;
use crate::{BLOCK_SIZE, lock};

/// Blocks that are fetched again when they lie between missing ones: cheaper than another request.
const GAP: u64 = 1;
/// Bytes that opening brings, in blocks: a packed file has there what a first query needs.
pub const OPENING: u64 = 2 * BLOCK_SIZE;
/// Requests that may wait for each worker.
const JOBS: usize = 4;

/// The files that were opened last, with the version that they had: what is still here of a file need not come again.
static KNOWN: KnownVersions = KnownVersions::new();

/// How a file is read.
#[derive(Debug)]
pub struct Handling {
    /// Requests that may be under way at once: more than one only in scans.
    pub at_once: usize,
    /// Where blocks are kept in memory.
    pub cache: Arc<Cache>,
    /// Where blocks are kept besides, if anywhere.
    pub kept: Option<Box<dyn KeepBlocks>>,
}

/// A file on a server, of one version for as long as it is open.
#[derive(Debug)]
pub struct RangedFile<F: Fetch> {
    shared: Arc<Shared<F>>,
    streams: Mutex<Streams>,
    /// The block read last: budget or not, it is mostly the next one too.
    last: Mutex<Option<(u64, Bytes)>>,
    /// Threads that prefetch. Their jobs fetch blocks, except those that are there or under way by then.
    workers: Mutex<WorkerPool<()>>,
    at_once: usize,
    /// The process that opened it. Its connections are useless in a child that it forked.
    process: u32,
}

#[derive(Debug)]
struct Shared<F> {
    client: F,
    version: Version,
    /// The name of the file and its version.
    file: u128,
    cache: Arc<Cache>,
    kept: Option<Box<dyn KeepBlocks>>,
    /// Blocks that someone is fetching.
    under_way: Mutex<Vec<Range<u64>>>,
    /// There are fewer of them.
    fetched: Condvar,
    /// Times that all was forgotten.
    forgotten: AtomicU64,
}

impl<F: Fetch> RangedFile<F> {
    /// Opens a file, with one request for its first blocks.
    ///
    /// # Errors
    /// A server that cannot be reached, does not support ranges or says nothing that tells versions of the file apart, an
    /// empty file.
    pub fn open(client: F, handling: Handling) -> Result<RangedFile<F>> {
        let Handling {
            at_once,
            cache,
            kept,
        } = handling;
        let key = asked(&client);
        let known = KNOWN.get(key).filter(|version| {
            let file = identity(&client, version);
            opening(version.len).all(|block| {
                let key = BlockKey { file, block };
                cache.has_block(&key) || kept.as_ref().is_some_and(|kept| kept.has(&key))
            })
        });
        let get = |expected| client.get(&(0..OPENING), expected);
        let expected = known.as_ref().map_or(Expected::Any, Expected::Another);
        let has_condition = client.sends_conditions() && expected.condition().is_some();
        let (bytes, version) = match get(expected) {
            Err(error) if has_condition && !matches!(error, Error::Unreachable { .. }) => {
                // It may be the condition that the server, or what is before it, does not know.
                KNOWN.forget(key);
                get(Expected::Any)?
            }
            answer => answer?,
        };
        if version.validator().is_none() {
            return Err(Error::NoVersion { url: client.url() });
        }
        cache.begin_use(CacheKind::Blocks);
        KNOWN.put(key, &version);
        let shared = Shared {
            file: identity(&client, &version),
            client,
            version,
            cache,
            kept,
            under_way: Mutex::default(),
            fetched: Condvar::new(),
            forgotten: AtomicU64::new(0),
        };
        let first = match bytes.is_empty() {
            true => shared.cache.block(&shared.key(0)),
            false => shared
                .keep(&opening(shared.version.len), &bytes, 0)
                .into_iter()
                .next(),
        };
        Ok(RangedFile {
            streams: Mutex::new(Streams::new(at_once, shared.cache.share())),
            last: Mutex::new(first.map(|bytes| (0, bytes))),
            workers: Mutex::new(WorkerPool::named("litepack-fetch")),
            at_once,
            process: process_id(),
            shared: Arc::new(shared),
        })
    }

    /// The length of the file in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty file is not opened")]
    pub fn len(&self) -> u64 {
        self.shared.version.len
    }

    /// The URL, without user, password and query.
    pub fn url(&self) -> String {
        self.shared.client.url()
    }

    /// The mark that tells this version of the file from others: its strong ETag, or its date of change with a weak
    /// ETag, as the server wrote them.
    pub fn validator(&self) -> String {
        self.shared.version.validator().unwrap_or_default()
    }

    /// A hash of all that decides which bytes the server gives: what names the file, its version, who asks. Handles
    /// with the same one read the same bytes.
    pub fn identity(&self) -> u128 {
        self.shared.file
    }

    /// The requests and bytes of this handle so far.
    pub fn traffic(&self) -> Traffic {
        self.shared.client.counters().now()
    }

    /// Forgets what is kept of the file, in memory and on disk, for a reader that has found something wrong in it. The
    /// server is asked for it again.
    pub fn forget(&self) {
        *lock(&self.last) = None;
        let shared = &self.shared;
        // Blocks under way are not kept either: they are removed here, or by the thread that keeps them.
        shared.forgotten.fetch_add(1, Ordering::SeqCst);
        shared.cache.remove_blocks(shared.file);
        if let Some(kept) = &shared.kept {
            kept.remove_all(shared.file);
        }
    }

    /// Fills `buf` from `offset` and returns how many bytes there were; fewer than asked only at the end.
    ///
    /// # Errors
    /// The file changed, or the server does not answer as it should.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let len = self.len();
        let end = len.min(offset.saturating_add(buf.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is at most the length of `buf`"
        )]
        let there = (end - offset) as usize;
        let buf = buf.get_mut(..there).unwrap_or_default();
        let (first, last) = (offset / BLOCK_SIZE, (end - 1) / BLOCK_SIZE);
        let held = lock(&self.last)
            .clone()
            .filter(|(block, _)| *block == first);
        if let (Some((_, bytes)), true) = (&held, first == last) {
            self.shared.client.counters().hits.add(1);
            copy(buf, offset, first, bytes);
            return Ok(buf.len());
        }
        if self.process != process_id() {
            return Err(Error::Forked { url: self.url() });
        }
        let missing = (first..=last).find(|block| !self.shared.has(*block));
        // The beginning of a packed file is read once, in order, and is no sign of a scan.
        let plan = match end <= OPENING && missing.is_none() {
            true => Plan::NOTHING,
            false => lock(&self.streams).note(first, last, missing),
        };
        self.request_ahead(plan.ahead, plan.window);
        let mut block = first;
        while block <= last {
            for bytes in self.obtain(block, last, plan.window)? {
                if block <= last {
                    copy(buf, offset, block, &bytes);
                    *lock(&self.last) = Some((block, bytes));
                    block += 1;
                }
            }
        }
        Ok(buf.len())
    }

    /// This block, and those behind it that came along.
    fn obtain(&self, block: u64, last: u64, window: u64) -> Result<Vec<Bytes>> {
        let shared = &self.shared;
        if let Some(bytes) = shared.kept(block) {
            return Ok(vec![bytes]);
        }
        let claim = loop {
            let mut under_way = lock(&shared.under_way);
            // Asked under the lock: the thread that fetched it had put it there before letting go of its claim.
            if let Some(bytes) = shared.in_memory(block) {
                return Ok(vec![bytes]);
            }
            if !is_among(&under_way, block) {
                let limit = (last + 1).max(block + window);
                break shared.claim(&mut under_way, block, limit);
            }
            let fetched = shared.fetched.wait(under_way);
            drop(fetched.unwrap_or_else(PoisonError::into_inner));
        };
        let range = shared.bytes_of(&claim.blocks);
        let (bytes, _) = shared.client.get(&range, Expected::This(&shared.version))?;
        Ok(shared.keep(&claim.blocks, &bytes, claim.forgotten))
    }

    /// Lets workers fetch these blocks, in requests for so many.
    fn request_ahead(&self, blocks: Range<u64>, window: u64) {
        let limit = self.at_once - 1;
        let end = blocks.end.min(self.shared.blocks());
        if blocks.start >= end || limit == 0 {
            return;
        }
        let mut workers = lock(&self.workers);
        #[expect(clippy::cast_possible_truncation, reason = "a window has some blocks")]
        let step = window as usize;
        for start in (blocks.start..end).step_by(step) {
            let shared = Arc::clone(&self.shared);
            let blocks = start..end.min(start + window);
            workers.give(limit, Box::new(move |()| shared.prefetch(blocks)));
        }
        // The oldest jobs are those of readers that have gone elsewhere.
        workers.keep_newest(JOBS * limit);
    }
}

impl<F: Fetch> Drop for RangedFile<F> {
    fn drop(&mut self) {
        // In a forked child there are no workers, and what they had locked stays locked.
        if self.process != process_id() {
            return;
        }
        let workers = self.workers.get_mut();
        // Not waited for: finding a host's address cannot be interrupted. Everything else ends at once.
        workers.unwrap_or_else(PoisonError::into_inner).detach();
        self.shared.client.shutdown();
    }
}

/// The blocks that opening brings of a file of this length.
fn opening(len: u64) -> Range<u64> {
    0..len.min(OPENING).div_ceil(BLOCK_SIZE)
}

fn is_among(under_way: &[Range<u64>], block: u64) -> bool {
    under_way.iter().any(|blocks| blocks.contains(&block))
}

/// Blocks that no other thread of this handle fetches until it is dropped.
struct Claim<'a, F> {
    shared: &'a Shared<F>,
    blocks: Range<u64>,
    /// How often all was forgotten before.
    forgotten: u64,
}

impl<F> Drop for Claim<'_, F> {
    fn drop(&mut self) {
        let mut under_way = lock(&self.shared.under_way);
        let this = under_way.iter().position(|blocks| *blocks == self.blocks);
        if let Some(at) = this {
            under_way.swap_remove(at);
        }
        self.shared.fetched.notify_all();
    }
}

impl<F: Fetch> Shared<F> {
    /// How many blocks the file has.
    fn blocks(&self) -> u64 {
        self.version.len.div_ceil(BLOCK_SIZE)
    }

    fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * BLOCK_SIZE..self.version.len.min(blocks.end * BLOCK_SIZE)
    }

    fn key(&self, block: u64) -> BlockKey {
        BlockKey {
            file: self.file,
            block,
        }
    }

    /// Whether no request is needed for it.
    fn has(&self, block: u64) -> bool {
        let key = self.key(block);
        self.cache.has_block(&key) || self.kept.as_ref().is_some_and(|kept| kept.has(&key))
    }

    fn in_memory(&self, block: u64) -> Option<Bytes> {
        let bytes = self.cache.block(&self.key(block))?;
        self.client.counters().hits.add(1);
        Some(bytes)
    }

    fn kept(&self, block: u64) -> Option<Bytes> {
        let (key, range) = (self.key(block), self.bytes_of(&(block..block + 1)));
        let kept = self.kept.as_ref().filter(|_| !self.cache.has_block(&key))?;
        #[expect(clippy::cast_possible_truncation, reason = "it is at most a block")]
        let len = (range.end - range.start) as usize;
        let bytes = Arc::new(kept.get(&key, len)?);
        self.client.counters().disk_hits.add(1);
        self.cache.put_block(key, Arc::clone(&bytes));
        Some(bytes)
    }

    /// Claims `block` and what is missing behind it, for one request, up to `limit` and what others fetch.
    fn claim(&self, under_way: &mut Vec<Range<u64>>, block: u64, limit: u64) -> Claim<'_, F> {
        let limit = limit.min(block + REQUEST_MAX).min(self.blocks());
        let (mut end, mut next) = (block + 1, block + 1);
        while next < limit && next <= end + GAP && !is_among(under_way, next) {
            if !self.has(next) {
                end = next + 1;
            }
            next += 1;
        }
        let blocks = block..end;
        under_way.push(blocks.clone());
        Claim {
            shared: self,
            blocks,
            forgotten: self.forgotten.load(Ordering::SeqCst),
        }
    }

    /// Keeps what came, in blocks, unless all was forgotten since it was asked for.
    fn keep(&self, blocks: &Range<u64>, bytes: &[u8], forgotten: u64) -> Vec<Bytes> {
        let keep = |(block, bytes): (u64, &[u8])| {
            let key = self.key(block);
            let bytes = Arc::new(bytes.to_vec());
            self.cache.put_block(key, Arc::clone(&bytes));
            if let Some(kept) = &self.kept {
                kept.put(&key, &bytes);
            }
            bytes
        };
        #[expect(clippy::cast_possible_truncation, reason = "it is 64 KiB")]
        let pieces = blocks.clone().zip(bytes.chunks(BLOCK_SIZE as usize));
        let blocks_there = pieces.map(keep).collect();
        if self.forgotten.load(Ordering::SeqCst) != forgotten {
            for key in blocks.clone().map(|block| self.key(block)) {
                self.cache.remove_block(&key);
                if let Some(kept) = &self.kept {
                    kept.remove(&key);
                }
            }
        }
        blocks_there
    }

    /// Fetches those of the blocks that are neither here nor being fetched. The reader may have overtaken the job.
    fn prefetch(&self, blocks: Range<u64>) {
        let mut under_way = lock(&self.under_way);
        let wanted = |block: &u64| !self.has(*block) && !is_among(&under_way, *block);
        let Some(first) = blocks.clone().find(wanted) else {
            return;
        };
        let claim = self.claim(&mut under_way, first, blocks.end);
        drop(under_way);
        let range = self.bytes_of(&claim.blocks);
        if let Some(bytes) = self.client.get_once(&range, &self.version) {
            self.keep(&claim.blocks, &bytes, claim.forgotten);
        }
    }
}

/// Copies what a read of `buf.len()` bytes at `offset` wants of this block.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a block that is wanted is less than a block or a buffer away"
)]
fn copy(buf: &mut [u8], offset: u64, block: u64, bytes: &[u8]) {
    let start = block * BLOCK_SIZE;
    let (skip, at) = (
        offset.saturating_sub(start) as usize,
        start.saturating_sub(offset) as usize,
    );
    let (from, to) = (bytes.get(skip..), buf.get_mut(at..));
    let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
    let n = from.len().min(to.len());
    if let (Some(from), Some(to)) = (from.get(..n), to.get_mut(..n)) {
        to.copy_from_slice(from);
    }
}

/// A hash of everything that decides which bytes the server gives: whom it is asked as, too.
fn identity(client: &impl Fetch, version: &Version) -> u128 {
    let validator = version.validator().unwrap_or_default();
    hash(client, &[validator.as_bytes(), &version.len.to_le_bytes()])
}

/// The same of any version.
fn asked(client: &impl Fetch) -> u128 {
    hash(client, &[])
}

fn hash(client: &impl Fetch, of_version: &[&[u8]]) -> u128 {
    let mut hash = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    client.asked(&mut add);
    of_version.iter().for_each(|bytes| add(bytes));
    let digest = hash.finish();
    let half = digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
    u128::from_le_bytes(*half)
}
