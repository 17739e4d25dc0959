//! Prefetching: frames that are read one after the other are decoded before they are asked for.
//!
//! The handle itself reads the stored bytes, several frames at once; workers decode, and lay the frames down for the
//! handle. They come to the cache when they are asked for: if workers put them there, asking for them would be their
//! second use, and a scan of more than the cache holds would push out all that is really used again. The
//! handle waits for a frame that a worker is decoding, and takes back one that none has begun. Damage in a frame that
//! was read ahead is not reported until the frame is asked for: the handle then decodes it again and says so.
//!
//! Several scans may go on at once: a table, and the index that leads through it, say. When another scan begins, the
//! frames decoded for one that stands still are dropped: it may be over, and frames can be large.
//!
//! Waiting pays only if the worker is running. So the handle waits no longer than decoding would take itself, without
//! sleeping (being woken would take as long again), and does without workers for a while after it waited in vain.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use litepack_io::cache::{Cache, FileId, FrameKey};
use litepack_io::scans::{Rule, Scans, Step};
use litepack_io::workers::{Ticket, WorkerPool};

use crate::decode::Decoder;
use crate::sealed::Opener;
use crate::seek_table::Frame;

/// The rule for scans: two steps from a frame to the next; an empty frame may be in between.
pub(crate) const RULE: Rule = Rule {
    run_min: 2,
    step_max: 2,
};
/// Decoded bytes that are worth handing to a worker: small frames go several at once.
pub(crate) const JOB_SIZE: u64 = 64 << 10;
/// How long a frame takes to decode, generously: nanoseconds for a byte.
const PATIENCE: u64 = 2;
/// Frames for which nothing is read ahead after waiting in vain: twice as many each time, up to the last.
const PAUSE: RangeInclusive<u32> = 64..=16384;
/// Frames in a job, at most.
pub(crate) const JOB_FRAMES: usize = 64;

/// Frames that follow each other in the archive, and their stored bytes.
pub(crate) struct Job {
    pub(crate) frames: Vec<Frame>,
    pub(crate) stored: Vec<u8>,
    /// What opens them, if they are sealed.
    pub(crate) opener: Option<Arc<Opener>>,
}

impl Job {
    fn numbers(&self) -> Range<u32> {
        let first = self.frames.first().map_or(0, |frame| frame.number);
        let count = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        first..first.saturating_add(count)
    }

    /// Decoded bytes.
    fn size(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.size)).sum()
    }

    /// Decodes all frames, leaving out what is wrong.
    fn run(&self, decoder: &mut Decoder, mut done: impl FnMut(u32, Arc<Vec<u8>>)) {
        let mut rest = self.stored.as_slice();
        for frame in &self.frames {
            let Some((stored, behind)) = rest.split_at_checked(frame.stored as usize) else {
                return;
            };
            rest = behind;
            if frame.size == 0 {
                continue;
            }
            if let Ok(bytes) = decoder.open(frame, self.opener.as_deref(), stored) {
                done(frame.number, Arc::new(bytes));
            }
        }
    }
}

/// Where an archive's frames go in the cache.
#[derive(Clone, Debug)]
pub(crate) struct CachePlace {
    pub(crate) cache: Arc<Cache>,
    pub(crate) file: FileId,
    pub(crate) table: u64,
}

impl CachePlace {
    /// The key of a frame that is decoded whole, or of a piece of one that is not.
    pub(crate) fn key(&self, frame: &Frame, piece: Option<u32>) -> FrameKey {
        FrameKey {
            file: self.file,
            table: self.table,
            frame: frame.number,
            piece,
        }
    }
}

/// Jobs given to workers for a scan. When it is dropped, its jobs end without a result.
#[derive(Default)]
struct Given {
    /// Jobs with frames that the scan has not passed, in order.
    jobs: VecDeque<GivenJob>,
    /// Frames that were not asked for yet.
    decoded: Arc<Mutex<Decoded>>,
}

struct GivenJob {
    ticket: Ticket,
    numbers: Range<u32>,
    /// Decoded bytes.
    size: u64,
}

type Decoded = BTreeMap<u32, Arc<Vec<u8>>>;

fn lock(decoded: &Mutex<Decoded>) -> MutexGuard<'_, Decoded> {
    decoded.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Given {
    /// The job with a frame. Those before it are dropped: they will not be asked for.
    fn job(&mut self, number: u32, workers: &WorkerPool<Decoder>) -> Option<&GivenJob> {
        let is_behind = |job: &mut GivenJob| job.numbers.end <= number;
        while let Some(job) = self.jobs.pop_front_if(is_behind) {
            drop(workers.take_back(job.ticket));
        }
        let first = self.jobs.front();
        first.filter(|job| job.numbers.contains(&number))
    }

    /// A frame that was decoded ahead. Those before it are dropped: the scan has left them out.
    fn take(&self, number: u32) -> Option<Arc<Vec<u8>>> {
        let mut decoded = lock(&self.decoded);
        let mut later = decoded.split_off(&number);
        let found = later.remove(&number);
        *decoded = later;
        found
    }
}

/// How a handle reads, and its workers: none before there is a scan.
pub(crate) struct Ahead {
    limit: usize,
    scans: Scans<Given>,
    /// Steps from frame to frame until workers are tried again.
    pause: u32,
    /// How long the next pause will be.
    next_pause: u32,
    /// Nanoseconds to wait for each byte of a job.
    pub(crate) patience: u64,
    pub(crate) workers: WorkerPool<Decoder>,
}

impl std::fmt::Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ahead({:?} of {})", self.workers, self.limit)
    }
}

impl Ahead {
    /// With at most `limit` workers.
    pub(crate) fn new(limit: usize) -> Ahead {
        Ahead {
            limit,
            scans: Scans::new(RULE),
            pause: 0,
            next_pause: *PAUSE.start(),
            patience: PATIENCE,
            workers: WorkerPool::default(),
        }
    }

    /// The most workers there may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Notes that this frame is read now, and says how many jobs are wanted, and from which frame on.
    pub(crate) fn next(&mut self, number: u32) -> Option<(usize, u32)> {
        if self.limit == 0 || self.workers.is_forked() {
            return None;
        }
        match self.scans.note(number.into(), number.into()) {
            Step::Other => return None,
            // Scans that stood still meanwhile are over, or slow.
            Step::Begins => self.scans.stood_still().for_each(|scan| scan.forget()),
            Step::GoesOn => {}
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let scan = self.scans.current();
        let _ = scan.kept.job(number, &self.workers);
        // Two that wait or were not asked for, and one under way for each worker.
        let most = (3 * self.limit).saturating_sub(scan.kept.jobs.len());
        let from = u32::try_from(scan.unasked()).ok()?;
        let wanted = most.min(2 * self.limit);
        (wanted > 0).then_some((wanted, from))
    }

    /// Decoded bytes that scans were given, or will be, and have not passed.
    pub(crate) fn held(&self) -> u64 {
        let jobs = self.scans.all().flat_map(|scan| &scan.kept.jobs);
        jobs.map(|job| job.size).sum()
    }

    /// Gives a job to a worker.
    pub(crate) fn give(&mut self, job: Job) {
        let (numbers, size) = (job.numbers(), job.size());
        let scan = self.scans.current();
        scan.ask(numbers.end.into());
        let decoded = Arc::downgrade(&scan.kept.decoded);
        let run = move |decoder: &mut Decoder| {
            if let Some(decoded) = decoded.upgrade() {
                job.run(decoder, |number, bytes| {
                    lock(&decoded).insert(number, bytes);
                });
            }
        };
        let ticket = self.workers.give(self.limit, Box::new(run));
        scan.kept.jobs.push_back(GivenJob {
            ticket,
            numbers,
            size,
        });
        if self.workers.started() == 0 {
            // There is no worker to do it, and there will be none.
            self.limit = 0;
            self.workers.clear();
        }
    }

    /// A frame that a worker has decoded, or is decoding, or has not begun with. The handle does the last itself, and
    /// other jobs while a worker is at this one. Waits a little where there are none.
    pub(crate) fn frame(&mut self, number: u32, decoder: &mut Decoder) -> Option<Arc<Vec<u8>>> {
        if self.workers.started() == 0 || self.workers.is_forked() {
            return None;
        }
        loop {
            let scan = self.scans.current();
            if scan.last() != number.into() {
                return None;
            }
            let decoded = scan.kept.take(number);
            if decoded.is_some() {
                return decoded;
            }
            let &GivenJob { ticket, size, .. } = scan.kept.job(number, &self.workers)?;
            if let Some(job) = self.workers.take_back(ticket) {
                job(decoder);
                return scan.kept.take(number);
            }
            if !self.workers.is_under_way(ticket) {
                // It is known now what has become of it.
                return scan.kept.take(number);
            }
            if !self.workers.work_some(decoder) && !self.wait_for(ticket, size) {
                return None;
            }
        }
    }

    /// Waits for a job with so many bytes. False if it takes too long.
    fn wait_for(&mut self, ticket: Ticket, size: u64) -> bool {
        let patience = Duration::from_nanos(size.saturating_mul(self.patience));
        let begun = Instant::now();
        while self.workers.is_under_way(ticket) {
            if begun.elapsed() > patience {
                self.pause = self.next_pause;
                self.next_pause = (2 * self.next_pause).min(*PAUSE.end());
                return false;
            }
            std::thread::yield_now();
        }
        self.next_pause = (self.next_pause / 2).max(*PAUSE.start());
        true
    }
}

#[cfg(test)]
impl Ahead {
    /// Whether a frame was decoded ahead.
    pub(crate) fn has(&self, number: u32) -> bool {
        let mut scans = self.scans.all();
        scans.any(|scan| lock(&scan.kept.decoded).contains_key(&number))
    }
}
