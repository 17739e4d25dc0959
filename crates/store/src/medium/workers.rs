//! Helper threads of one handle, for work that needs no disk: encoding pages while more of them arrive.
//!
//! A helper is started when there is work and nobody idle to do it, sleeps when there is none, and ends
//! with the handle. Jobs own what they touch or share it by reference count. What no helper has begun, the
//! handle can do itself ([`Crew::work_some`]), so it never waits for more than the jobs under way.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use litepack_codec::{Decoder, Encoder, Level};

use litepack_io::cache::Spare;

/// What a thread needs for its jobs, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) decoder: Decoder,
    pub(crate) spare: Spare,
    encoder: Option<Encoder>,
}

impl Tools {
    /// An encoder at this level, for pages by column or not.
    pub(crate) fn encoder(&mut self, level: Level, columnar: bool) -> &mut Encoder {
        let fits = |e: &Encoder| e.level() == level && e.is_columnar() == columnar;
        self.encoder = self.encoder.take().filter(fits);
        self.encoder
            .get_or_insert_with(|| Encoder::with_columnar(level, columnar))
    }
}

/// Work for a helper.
pub(crate) type Job = Box<dyn FnOnce(&mut Tools) + Send>;

/// The helpers of a handle, none at first.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// The process that started the helpers. In a child it forked there are none.
    process: u32,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs, {} idle", self.jobs.len(), self.idle)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut tools = Tools::default();
        let mut state = self.lock();
        while !state.closed {
            let Some(job) = state.jobs.pop_front() else {
                state.idle += 1;
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            // Whoever gave the job does without its result; only the tools are in no known state.
            if catch_unwind(AssertUnwindSafe(|| job(&mut tools))).is_err() {
                tools = Tools::default();
            }
            state = self.lock();
        }
    }
}

impl Crew {
    /// Gives a job to one of at most `limit` helpers.
    pub(crate) fn give(&mut self, limit: usize, job: Job) {
        let (idle, waiting) = {
            let mut state = self.shared.lock();
            state.jobs.push_back(job);
            (state.idle, state.jobs.len())
        };
        if idle > 0 {
            self.shared.changed.notify_one();
        }
        let may_start = || litepack_io::memory::for_threads().is_ok();
        if waiting > idle && self.helpers.len() < limit && may_start() {
            let shared = Arc::clone(&self.shared);
            let helper = std::thread::Builder::new().name("litepack".into());
            // Without a thread the job waits for a helper there is, or for `work_some`.
            if let Ok(helper) = helper.spawn(move || shared.work()) {
                self.process = std::process::id();
                self.helpers.push(helper);
            }
        }
    }

    /// Does a job that no helper has begun. False if there is none.
    pub(crate) fn work_some(&self, tools: &mut Tools) -> bool {
        let job = self.shared.lock().jobs.pop_front();
        let Some(job) = job else { return false };
        job(tools);
        true
    }

    /// Jobs that no helper has begun.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    /// Drops the jobs that no helper has begun.
    pub(crate) fn clear(&self) {
        let jobs = std::mem::take(&mut self.shared.lock().jobs);
        drop(jobs);
    }
}

#[cfg(test)]
impl Crew {
    pub(crate) fn is_empty(&self) -> bool {
        self.helpers.is_empty()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.helpers.is_empty() {
            return;
        }
        if self.process != std::process::id() {
            // Neither waited for nor let go: the system knows nothing of them here.
            std::mem::forget(std::mem::take(&mut self.helpers));
            return;
        }
        self.clear();
        self.shared.lock().closed = true;
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
    use std::sync::mpsc;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn helpers_start_with_work_and_end_with_the_crew() {
        let mut crew = Crew::default();
        assert!(crew.is_empty());
        let (done, finished) = mpsc::channel();
        let witness = Arc::clone(&crew.shared);
        for number in 0..100 {
            let done = done.clone();
            crew.give(2, Box::new(move |_| done.send(number).unwrap()));
        }
        drop(done);
        let mut numbers: Vec<i32> = finished.iter().collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..100));
        assert!((1..=2).contains(&crew.helpers.len()));
        drop(crew);
        assert_eq!(Arc::strong_count(&witness), 1, "a helper is still there");
    }

    #[test]
    fn a_panic_ends_the_job_and_nothing_else() {
        let mut crew = Crew::default();
        let (done, finished) = mpsc::channel();
        let of_the_job = done.clone();
        crew.give(
            1,
            Box::new(move |_| {
                let _dropped_by_the_panic = of_the_job;
                panic!("this panic is part of the test");
            }),
        );
        crew.give(1, Box::new(move |_| done.send(7).unwrap()));
        assert_eq!(finished.recv_timeout(LONG), Ok(7));
        assert!(finished.recv_timeout(LONG).is_err());
    }

    #[test]
    fn jobs_that_nobody_has_begun_are_dropped_with_the_crew() {
        let mut crew = Crew::default();
        let (hold, held) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let first = move |_: &mut Tools| {
            begun.send(()).unwrap();
            let _ = held.recv_timeout(LONG);
        };
        crew.give(1, Box::new(first));
        has_begun.recv_timeout(LONG).unwrap();
        let (done, finished) = mpsc::channel::<()>();
        crew.give(1, Box::new(move |_| done.send(()).unwrap()));
        assert_eq!(crew.waiting(), 1);
        let closing = std::thread::spawn(move || drop(crew));
        assert!(finished.recv_timeout(LONG).is_err());
        drop(hold);
        closing.join().unwrap();
    }
}
