//! Reading ahead: frames that are read one after the other are decoded before they are asked for.
//!
//! The handle itself reads the stored bytes, several frames at once; helpers decode, and lay the frames down for the
//! handle. They come to the cache when they are asked for: if helpers put them there, asking for them would be their
//! second use, and a scan of more than the cache holds would push out all that is really used again. A
//! frame that a helper is at, the handle waits for; one that none has begun, it takes back. What is wrong with a frame
//! that was read ahead is nobody's business until it is asked for: the handle then decodes it again and says so.
//!
//! Beside a scan something else may be read: the index that leads it through its table, say. That does not end the scan, but
//! takes its place once it goes forward while the scan stands still.
//!
//! Waiting pays only if the helper is running. So the handle waits no longer than decoding would take itself, without
//! sleeping (being woken would take as long again), and does without helpers for a while after it waited in vain.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::decode::Decoder;
use crate::seek_table::Frame;
use litepack_io::cache::{Cache, FileId, FrameKey};

/// So many steps from a frame to the next make a scan.
pub(crate) const RUN_MIN: u32 = 2;
/// Decoded bytes that are worth handing to a helper: small frames go several at once.
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
}

impl Job {
    fn numbers(&self) -> Range<u32> {
        let first = self.frames.first().map_or(0, |frame| frame.number);
        let count = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        first..first.saturating_add(count)
    }

    /// Whether a frame is in it.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.numbers().contains(&number)
    }

    /// Decodes all frames, leaving out what is wrong.
    pub(crate) fn run(&self, decoder: &mut Decoder, mut done: impl FnMut(u32, Arc<Vec<u8>>)) {
        let mut rest = self.stored.as_slice();
        for frame in &self.frames {
            let Some((stored, behind)) = rest.split_at_checked(frame.stored as usize) else {
                return;
            };
            rest = behind;
            if frame.size == 0 {
                continue;
            }
            if let Ok(bytes) = decoder.decode(frame, stored) {
                done(frame.number, Arc::new(bytes));
            }
        }
    }
}

/// Where an archive's frames go in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) cache: Arc<Cache>,
    pub(crate) file: FileId,
    pub(crate) table: u64,
}

impl Place {
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

/// Someone who reads frame after frame.
#[derive(Clone, Copy, Default)]
struct Reader {
    /// The frame read last, and steps from frame to frame up to there.
    last: u32,
    run: u32,
}

impl Reader {
    /// Whether this is the frame after the last one; an empty frame may be in between.
    fn is_next(self, number: u32) -> bool {
        (1..=2).contains(&number.wrapping_sub(self.last))
    }

    fn go_on(&mut self, number: u32) {
        self.last = number;
        self.run = self.run.saturating_add(1);
    }
}

/// How a handle reads, and its helpers: none before there is a scan.
pub(crate) struct Ahead {
    limit: usize,
    /// What is read ahead of, and what else was read last.
    scan: Reader,
    aside: Reader,
    /// Frames below this were given to helpers.
    until: u32,
    /// Steps from frame to frame until helpers are tried again.
    pause: u32,
    /// How long the next pause will be.
    next_pause: u32,
    /// Nanoseconds to wait for each byte of a job.
    pub(crate) patience: u64,
    shared: Arc<Shared>,
    pub(crate) helpers: Vec<JoinHandle<()>>,
    /// The process that started the helpers. In a child it forked there are none.
    process: u32,
}

impl std::fmt::Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ahead({} of {})", self.helpers.len(), self.limit)
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    busy: Vec<Busy>,
    /// Frames that nobody has asked for yet.
    decoded: BTreeMap<u32, Arc<Vec<u8>>>,
    idle: usize,
    closed: bool,
}

impl State {
    /// Jobs that nobody has begun, or whose frames nobody has asked for.
    fn unused(&self) -> usize {
        let bytes: u64 = self.decoded.values().map(|bytes| bytes.len() as u64).sum();
        let jobs = usize::try_from(bytes.div_ceil(JOB_SIZE)).unwrap_or(usize::MAX);
        self.jobs.len() + jobs.min(self.decoded.len())
    }
}

/// What a helper is at.
struct Busy {
    numbers: Range<u32>,
    /// Decoded bytes.
    size: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let state = self.changed.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, number: u32, bytes: Arc<Vec<u8>>) {
        self.lock().decoded.insert(number, bytes);
    }

    fn work(&self) {
        let mut decoder = Decoder::default();
        let mut state = self.lock();
        while !state.closed {
            let Some(job) = state.jobs.pop_front() else {
                state.idle += 1;
                state = self.wait(state);
                state.idle -= 1;
                continue;
            };
            let numbers = job.numbers();
            state.busy.push(Busy {
                numbers: numbers.clone(),
                size: job.frames.iter().map(|frame| u64::from(frame.size)).sum(),
            });
            drop(state);
            let keep = |number, bytes| self.keep(number, bytes);
            if catch_unwind(AssertUnwindSafe(|| job.run(&mut decoder, keep))).is_err() {
                decoder = Decoder::default();
            }
            drop(job);
            state = self.lock();
            state.busy.retain(|busy| busy.numbers != numbers);
        }
    }
}

impl Ahead {
    /// With at most `limit` helpers.
    pub(crate) fn new(limit: usize) -> Ahead {
        Ahead {
            limit,
            scan: Reader::default(),
            aside: Reader::default(),
            until: 0,
            pause: 0,
            next_pause: *PAUSE.start(),
            patience: PATIENCE,
            shared: Arc::default(),
            helpers: Vec::new(),
            process: 0,
        }
    }

    /// The most helpers there may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Notes that this frame is read now, and says how many jobs are wanted, and from which frame on.
    pub(crate) fn next(&mut self, number: u32) -> Option<(usize, u32)> {
        if self.limit == 0 || !self.is_scan(number) {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let unused = if self.helpers.is_empty() {
            0
        } else {
            self.shared.lock().unused()
        };
        let wanted = (2 * self.limit).saturating_sub(unused);
        (wanted > 0).then(|| (wanted, self.until.max(number.saturating_add(1))))
    }

    /// Notes that this frame is read now; whether that is a step of a scan.
    fn is_scan(&mut self, number: u32) -> bool {
        if number == self.scan.last || number == self.aside.last {
            return false;
        }
        if self.scan.is_next(number) {
            self.scan.go_on(number);
            self.aside.run = 0;
        } else if self.aside.is_next(number) {
            self.aside.go_on(number);
            if self.aside.run < RUN_MIN {
                return false;
            }
            std::mem::swap(&mut self.scan, &mut self.aside);
            self.begin();
        } else {
            if self.scan.run < RUN_MIN {
                self.scan = self.aside;
            }
            self.aside = Reader {
                last: number,
                run: 0,
            };
        }
        number == self.scan.last && self.scan.run >= RUN_MIN
    }

    /// Drops what was for the scan before.
    fn begin(&mut self) {
        self.until = 0;
        if !self.helpers.is_empty() {
            let mut state = self.shared.lock();
            state.decoded.clear();
            state.jobs.clear();
        }
    }

    /// Whether helpers may know something of this frame.
    fn is_ahead_of(&self, number: u32) -> bool {
        let is_theirs = !self.helpers.is_empty() && self.process == std::process::id();
        is_theirs && number == self.scan.last
    }

    /// Gives a job to a helper.
    pub(crate) fn give(&mut self, job: Job) {
        if !self.helpers.is_empty() && self.process != std::process::id() {
            return;
        }
        self.until = job.numbers().end;
        let (idle, waiting) = {
            let mut state = self.shared.lock();
            state.jobs.push_back(job);
            (state.idle, state.jobs.len())
        };
        if idle > 0 {
            self.shared.changed.notify_one();
        }
        if waiting > idle && self.helpers.len() < self.limit {
            let shared = Arc::clone(&self.shared);
            let helper = std::thread::Builder::new().name("litepack".into());
            let memory = litepack_io::memory::for_threads().map_err(std::io::Error::from);
            match memory.and_then(|()| helper.spawn(move || shared.work())) {
                Ok(helper) => {
                    self.process = std::process::id();
                    self.helpers.push(helper);
                }
                // There is nobody to do it, and nobody will be.
                Err(_) if self.helpers.is_empty() => {
                    self.limit = 0;
                    self.shared.lock().jobs.clear();
                }
                Err(_) => self.limit = self.helpers.len(),
            }
        }
    }

    /// A frame that was decoded ahead. Those before it are dropped: the scan has left them out.
    pub(crate) fn take(&mut self, number: u32) -> Option<Arc<Vec<u8>>> {
        if !self.is_ahead_of(number) {
            return None;
        }
        let mut state = self.shared.lock();
        let mut later = state.decoded.split_off(&number);
        let found = later.remove(&number);
        state.decoded = later;
        found
    }

    /// Lays down what the handle has decoded of a job.
    pub(crate) fn keep(&self, number: u32, bytes: Arc<Vec<u8>>) {
        self.shared.keep(number, bytes);
    }

    /// What the handle should do before it decodes a frame itself: the job with it that no helper has begun, or,
    /// while a helper is at it, the next one, and then ask again. Waits a little where there is none. Jobs for
    /// frames before it are dropped: nobody will ask for them.
    pub(crate) fn claim(&mut self, number: u32) -> Option<Job> {
        if !self.is_ahead_of(number) {
            return None;
        }
        let mut state = self.shared.lock();
        let at_it = |busy: &Busy| busy.numbers.contains(&number);
        if let Some(busy) = state.busy.iter().find(|busy| at_it(busy)) {
            let next = state
                .jobs
                .front()
                .filter(|job| job.numbers().start > number);
            if next.is_some() {
                return state.jobs.pop_front();
            }
            let patience = Duration::from_nanos(busy.size.saturating_mul(self.patience));
            let begun = Instant::now();
            while state.busy.iter().any(at_it) {
                drop(state);
                if begun.elapsed() > patience {
                    self.pause = self.next_pause;
                    self.next_pause = (2 * self.next_pause).min(*PAUSE.end());
                    return None;
                }
                std::thread::yield_now();
                state = self.shared.lock();
            }
            self.next_pause = (self.next_pause / 2).max(*PAUSE.start());
        }
        let has_it = |job: &Job| job.has(number);
        if let Some(at) = state.jobs.iter().position(has_it) {
            state.jobs.drain(..at);
            return state.jobs.pop_front();
        }
        // What lies behind the scan nobody will ask for.
        state.jobs.retain(|job| job.numbers().start > number);
        None
    }
}

#[cfg(test)]
impl Ahead {
    /// Whether a frame was decoded ahead.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.shared.lock().decoded.contains_key(&number)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if self.helpers.is_empty() {
            return;
        }
        if self.process != std::process::id() {
            // Neither waited for nor let go: the system knows nothing of them here.
            std::mem::forget(std::mem::take(&mut self.helpers));
            return;
        }
        {
            let mut state = self.shared.lock();
            state.jobs.clear();
            state.closed = true;
        }
        self.shared.changed.notify_all();
        for helper in self.helpers.drain(..) {
            // It ends without a panic: those of jobs are caught.
            let _ = helper.join();
        }
    }
}
