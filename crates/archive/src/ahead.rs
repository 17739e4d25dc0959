//! Reading ahead: frames that are read one after the other are decoded before they are asked for.
//!
//! The handle itself reads the stored bytes, several frames at once; helpers decode and fill the cache. A
//! frame that a helper is at, the handle waits for; one that none has begun, it takes back. What is wrong with a frame
//! that was read ahead is nobody's business until it is asked for: the handle then decodes it again and says so.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::cache::{Cache, FileId, Key};
use crate::decode::Decoder;
use crate::seek_table::Frame;

/// So many steps from a frame to the next make a scan.
const RUN_MIN: u32 = 2;
/// Decoded bytes that are worth handing to a helper: small frames go several at once.
pub(crate) const JOB_SIZE: u64 = 64 << 10;

/// Frames that follow each other in the archive, and their stored bytes.
pub(crate) struct Job {
    pub(crate) frames: Vec<Frame>,
    pub(crate) stored: Vec<u8>,
}

impl Job {
    fn numbers(&self) -> Range<u32> {
        let first = self.frames.first().map_or(0, |frame| frame.number);
        first..first.saturating_add(self.frames.len() as u32)
    }

    /// Decodes all frames into the cache, leaving out what is wrong.
    pub(crate) fn run(&self, decoder: &mut Decoder, place: &Place) {
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
                place.cache.put(place.key(frame, None), Arc::new(bytes));
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
    pub(crate) fn key(&self, frame: &Frame, piece: Option<u32>) -> Key {
        Key {
            file: self.file,
            table: self.table,
            frame: frame.number,
            piece,
        }
    }
}

/// How a handle reads, and its helpers: none before there is a scan.
pub(crate) struct Ahead {
    limit: usize,
    place: Place,
    /// The frame read last, and steps from frame to frame up to there.
    last: u32,
    run: u32,
    /// Frames below this were given to helpers.
    until: u32,
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
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
    busy: Vec<Range<u32>>,
    idle: usize,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let state = self.changed.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, place: &Place) {
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
            state.busy.push(numbers.clone());
            drop(state);
            if catch_unwind(AssertUnwindSafe(|| job.run(&mut decoder, place))).is_err() {
                decoder = Decoder::default();
            }
            drop(job);
            state = self.lock();
            state.busy.retain(|busy| *busy != numbers);
            self.changed.notify_all();
        }
    }
}

impl Ahead {
    /// With at most `limit` helpers.
    pub(crate) fn new(limit: usize, place: Place) -> Ahead {
        Ahead {
            limit,
            place,
            last: 0,
            run: 0,
            until: 0,
            shared: Arc::default(),
            helpers: Vec::new(),
            process: 0,
        }
    }

    /// Notes that this frame is read now, and says how many jobs are wanted, and from which frame on.
    pub(crate) fn next(&mut self, number: u32) -> Option<(usize, u32)> {
        if self.limit == 0 || number == self.last {
            return None;
        }
        // Empty frames may be in between.
        let step = number.wrapping_sub(self.last);
        self.last = number;
        if step > 2 {
            (self.run, self.until) = (0, 0);
            return None;
        }
        self.run = self.run.saturating_add(1);
        if self.run < RUN_MIN {
            return None;
        }
        let waiting = if self.helpers.is_empty() {
            0
        } else {
            self.shared.lock().jobs.len()
        };
        let wanted = (2 * self.limit).saturating_sub(waiting);
        (wanted > 0).then(|| (wanted, self.until.max(number.saturating_add(1))))
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
            self.shared.changed.notify_all();
        }
        if waiting > idle && self.helpers.len() < self.limit {
            let (shared, place) = (Arc::clone(&self.shared), self.place.clone());
            let helper = std::thread::Builder::new().name("litepack".into());
            match helper.spawn(move || shared.work(&place)) {
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

    /// Before the handle decodes a frame itself: waits for a helper that is at it, or gives back the job with it
    /// that none has begun. Jobs for frames before it are dropped: nobody will ask for them.
    pub(crate) fn claim(&mut self, number: u32) -> Option<Job> {
        if self.helpers.is_empty() || self.process != std::process::id() {
            return None;
        }
        let mut state = self.shared.lock();
        while state.busy.iter().any(|busy| busy.contains(&number)) {
            state = self.shared.wait(state);
        }
        let has_it = |job: &Job| job.numbers().contains(&number);
        if let Some(at) = state.jobs.iter().position(has_it) {
            state.jobs.drain(..at);
            return state.jobs.pop_front();
        }
        // What lies behind the reader, or ahead of a scan that has ended, nobody will ask for.
        let goes_on = self.run > 0;
        let ahead = |job: &Job| goes_on && job.numbers().start > number;
        state.jobs.retain(ahead);
        None
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{Settings, create};
    use crate::reader::{Archive, Options};
    use crate::source::Source;
    use std::cell::Cell;
    use std::io;
    use std::ops::ControlFlow;
    use std::time::{Duration, Instant};

    const FRAME: u64 = 8192;
    const FRAMES: u64 = 200;

    fn database() -> Vec<u8> {
        let line = |number| format!("line {number} of {}; ", number * 7919 % 10_007);
        let text = (0u64..).flat_map(|number| line(number).into_bytes());
        text.take((FRAME * FRAMES) as usize).collect()
    }

    fn archive(database: &[u8]) -> Vec<u8> {
        let settings = Settings {
            frame_size: FRAME as u32,
            ..Settings::default()
        };
        let (mut input, mut file) = (database, Vec::new());
        let go_on = &mut |_| ControlFlow::Continue(());
        create(&mut input, &mut file, &settings, go_on).unwrap();
        file
    }

    fn options(threads: usize) -> Options {
        Options {
            cache: Arc::new(Cache::new(8 << 20)),
            file: FileId::unique(),
            threads,
        }
    }

    fn assert_frame(archive: &mut Archive<impl Source>, database: &[u8], number: u64) {
        let mut bytes = vec![0; FRAME as usize];
        archive.read_at(number * FRAME, &mut bytes).unwrap();
        let expected = &database[(number * FRAME) as usize..][..FRAME as usize];
        assert!(bytes == expected, "frame {number}");
    }

    fn until(mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            let waited = begun.elapsed();
            assert!(waited < Duration::from_secs(20), "nobody reads ahead");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_scan_finds_frames_in_the_cache_that_it_never_read() {
        let database = database();
        let file = archive(&database);
        let options = options(2);
        let mut archive = Archive::open(file.as_slice(), options.clone()).unwrap();
        for number in 0..=u64::from(RUN_MIN) {
            assert_frame(&mut archive, &database, number);
        }
        let table = Arc::clone(archive.table());
        let place = Place {
            cache: Arc::clone(&options.cache),
            file: options.file,
            table: table.identity(),
        };
        let ahead = table.frame(RUN_MIN + 1).unwrap();
        until(|| place.cache.has(&place.key(&ahead, None)));
        for number in 0..FRAMES {
            assert_frame(&mut archive, &database, number);
        }
    }

    struct Counted<'a> {
        file: &'a [u8],
        read: &'a Cell<usize>,
    }

    impl Source for Counted<'_> {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.read.set(self.read.get() + buf.len());
            Source::read_at(self.file, buf, offset)
        }
        fn len(&self) -> io::Result<u64> {
            Source::len(self.file)
        }
    }

    /// What a helper is at is waited for, and what none has begun is taken back: a scan reads each byte once.
    #[test]
    fn a_scan_reads_no_byte_twice() {
        let database = database();
        let file = archive(&database);
        let frames = file.len() - (8 + FRAMES as usize * 12 + 9);
        for threads in [1, 2, 4] {
            let read = Cell::new(0);
            let source = Counted {
                file: &file,
                read: &read,
            };
            let mut archive = Archive::open(source, options(threads)).unwrap();
            let opening = read.get();
            for number in 0..FRAMES {
                assert_frame(&mut archive, &database, number);
            }
            assert_eq!(read.get() - opening, frames, "{threads} threads");
        }
    }

    #[test]
    fn scans_that_break_off_and_go_elsewhere_get_the_right_bytes() {
        let database = database();
        let file = archive(&database);
        let mut archive = Archive::open(file.as_slice(), options(3)).unwrap();
        for turn in 0..FRAMES {
            let from = turn * 71 % (FRAMES - 10);
            for number in from..from + 3 + turn % 7 {
                assert_frame(&mut archive, &database, number);
            }
        }
    }

    #[test]
    fn helpers_start_with_a_scan_and_not_before() {
        let place = Place {
            cache: Arc::new(Cache::new(1 << 20)),
            file: FileId::unique(),
            table: 0,
        };
        let mut ahead = Ahead::new(1, place.clone());
        for number in (0..500).map(|n| n * 37 % 100) {
            assert_eq!(ahead.next(number), None);
        }
        assert_eq!(ahead.next(300), None);
        assert_eq!(ahead.next(300), None);
        assert_eq!(ahead.next(301), None);
        assert_eq!(ahead.next(302), Some((2, 303)));
        assert!(ahead.helpers.is_empty());
        let mut alone = Ahead::new(0, place);
        assert!((0..100).all(|number| alone.next(number).is_none()));
    }

    /// Damage ahead of a scan is reported when the scan gets there, and not before.
    #[test]
    fn damage_ahead_is_reported_where_it_is() {
        let database = database();
        let mut file = archive(&database);
        let table = crate::SeekTable::read(&file.as_slice()).unwrap();
        let damaged = RUN_MIN + 3;
        let frame = table.frame(damaged).unwrap();
        file[(frame.offset + u64::from(frame.stored) / 2) as usize] ^= 1;
        let mut archive = Archive::open(file.as_slice(), options(2)).unwrap();
        for number in 0..u64::from(damaged) {
            assert_frame(&mut archive, &database, number);
        }
        let error = archive.read_at(frame.start, &mut [0]).unwrap_err();
        let named = format!("frame {damaged} at byte {}", frame.offset);
        assert!(error.to_string().contains(&named), "{error}");
        for number in u64::from(damaged) + 1..FRAMES {
            assert_frame(&mut archive, &database, number);
        }
    }
}
