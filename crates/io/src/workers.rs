//! Worker threads of one owner: a handle, or other code with jobs that can be done beside its own work.
//!
//! - A worker is started when there is a job and no idle worker to do it, and not before. It sleeps when there is none,
//!   and ends with the pool, which waits for the job it is at.
//! - A worker that does not come to run is not waited for: while a library is being loaded, a new thread waits until
//!   that is done. It ends at once when it runs.
//! - Jobs own what they touch, or share it by reference count. The owner can take back a job that no worker has begun
//!   and do it itself, so it never waits for more than the jobs under way.
//! - A job that panics ends, and nothing else does. The tools of its thread are made anew.
//! - In a child that the process forked there are no workers. A pool there drops what it is given, and touches no lock:
//!   a worker of the parent may have held it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::platform::process_id;
use crate::sync::{Arc, Condvar, JoinHandle, Mutex, MutexGuard, PoisonError};
use crate::threads::{self, Running};

/// Work for a worker, with the tools of its thread.
pub type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// The name of a job that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Workers, none at first. `T` is what a thread needs for its jobs and keeps from one to the next.
pub struct WorkerPool<T> {
    name: &'static str,
    shared: Arc<Shared<T>>,
    workers: Vec<Worker>,
    /// The process that started the workers.
    process: u32,
}

struct Worker {
    thread: JoinHandle<()>,
    running: Running,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// Jobs that are not begun.
    jobs: VecDeque<(Ticket, Job<T>)>,
    /// Jobs that workers are doing.
    under_way: Vec<Ticket>,
    given: u64,
    idle: usize,
    closed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Shared<T> {
    fn work(&self) {
        let mut tools = T::default();
        let mut state = self.lock();
        while !state.closed {
            let Some((ticket, job)) = state.jobs.pop_front() else {
                state.idle += 1;
                let changed = self.changed.wait(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            state.under_way.push(ticket);
            drop(state);
            // The owner of the job does without its result; only the tools are in no known state.
            if catch_unwind(AssertUnwindSafe(|| job(&mut tools))).is_err() {
                tools = T::default();
            }
            state = self.lock();
            state.under_way.retain(|other| *other != ticket);
        }
    }
}

impl<T> WorkerPool<T> {
    /// Workers whose threads have this name.
    pub fn named(name: &'static str) -> WorkerPool<T> {
        let state = State {
            jobs: VecDeque::new(),
            under_way: Vec::new(),
            given: 0,
            idle: 0,
            closed: false,
        };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        WorkerPool {
            name,
            shared: Arc::new(shared),
            workers: Vec::new(),
            process: 0,
        }
    }

    /// How many workers were started.
    pub fn started(&self) -> usize {
        self.workers.len()
    }

    /// Whether this is a child that was forked by the process that has the workers.
    pub fn is_forked(&self) -> bool {
        !self.workers.is_empty() && self.process != process_id()
    }

    /// The state, if it can be asked for.
    fn state(&self) -> Option<MutexGuard<'_, State<T>>> {
        (!self.is_forked()).then(|| self.shared.lock())
    }

    /// A job that no worker has begun: the owner does it now, or drops it.
    pub fn take_back(&self, ticket: Ticket) -> Option<Job<T>> {
        let mut state = self.state()?;
        let at = state.jobs.iter().position(|(other, _)| *other == ticket)?;
        state.jobs.remove(at).map(|(_, job)| job)
    }

    /// Whether a worker is at this job.
    pub fn is_under_way(&self, ticket: Ticket) -> bool {
        self.state()
            .is_some_and(|state| state.under_way.contains(&ticket))
    }

    /// Does the oldest job that no worker has begun. False if there is none.
    pub fn work_some(&self, tools: &mut T) -> bool {
        let job = self.state().and_then(|mut state| state.jobs.pop_front());
        let Some((_, job)) = job else { return false };
        job(tools);
        true
    }

    /// How many jobs no worker has begun.
    pub fn waiting(&self) -> usize {
        self.state().map_or(0, |state| state.jobs.len())
    }

    /// Whether all jobs are done.
    pub fn is_idle(&self) -> bool {
        self.state()
            .is_none_or(|state| state.jobs.is_empty() && state.under_way.is_empty())
    }

    /// Drops the jobs that no worker has begun.
    pub fn clear(&self) {
        self.keep_newest(0);
    }

    /// Drops the oldest of the jobs that no worker has begun, so that at most `count` are left.
    pub fn keep_newest(&self, count: usize) {
        let Some(mut state) = self.state() else {
            return;
        };
        let surplus = state.jobs.len().saturating_sub(count);
        let dropped: Vec<_> = state.jobs.drain(..surplus).collect();
        // The dropped jobs may own locks.
        drop(state);
        drop(dropped);
    }

    /// Lets the workers end by themselves, each after the job it is at. For jobs that cannot be waited for.
    pub fn detach(&mut self) {
        self.end(drop);
    }

    /// Has the workers end, and does this with each.
    fn end(&mut self, with_each: impl Fn(Worker)) {
        let workers = std::mem::take(&mut self.workers);
        if workers.is_empty() {
            return;
        }
        if self.process != process_id() {
            // Neither waited for nor let go: the system knows nothing of them here.
            std::mem::forget(workers);
            return;
        }
        self.clear();
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        workers.into_iter().for_each(with_each);
    }
}

impl<T: Default + 'static> WorkerPool<T> {
    /// Gives a job to one of at most `limit` workers. If there is no thread to do it, it waits for one, or to be taken
    /// back.
    pub fn give(&mut self, limit: usize, job: Job<T>) -> Ticket {
        let Some(mut state) = self.state() else {
            return Ticket(0);
        };
        state.given += 1;
        let ticket = Ticket(state.given);
        state.jobs.push_back((ticket, job));
        let (idle, waiting) = (state.idle, state.jobs.len());
        drop(state);
        if idle > 0 {
            self.shared.changed.notify_one();
        }
        if waiting > idle && self.workers.len() < limit {
            let shared = Arc::clone(&self.shared);
            let worker = threads::start(self.name, |thread, running| {
                let kept = running.clone();
                let thread = thread.spawn(move || {
                    running.say();
                    shared.work();
                })?;
                Ok(Worker {
                    thread,
                    running: kept,
                })
            });
            if let Some(worker) = worker {
                self.process = process_id();
                self.workers.push(worker);
            }
        }
        ticket
    }
}

impl<T> Default for WorkerPool<T> {
    fn default() -> WorkerPool<T> {
        WorkerPool::named(threads::NAME)
    }
}

impl<T> std::fmt::Debug for WorkerPool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} workers", self.workers.len())
    }
}

impl<T> Drop for WorkerPool<T> {
    fn drop(&mut self) {
        // They end without a panic: those of jobs are caught.
        self.end(|worker| {
            if worker.running.is_said() {
                drop(worker.thread.join());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(300);

    /// A pool whose only worker is at a job until the sender is dropped.
    fn busy() -> (WorkerPool<u32>, Ticket, mpsc::Sender<()>) {
        let mut pool = WorkerPool::default();
        let (hold, held) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let first = move |_: &mut u32| {
            begun.send(()).unwrap();
            let _ = held.recv_timeout(LONG);
        };
        let ticket = pool.give(1, Box::new(first));
        has_begun.recv_timeout(LONG).unwrap();
        (pool, ticket, hold)
    }

    #[test]
    fn workers_start_with_jobs_and_end_with_the_pool() {
        let mut pool = WorkerPool::<()>::default();
        assert_eq!(pool.started(), 0);
        let (done, finished) = mpsc::channel();
        let witness = Arc::clone(&pool.shared);
        for number in 0..100 {
            let done = done.clone();
            pool.give(2, Box::new(move |()| done.send(number).unwrap()));
        }
        drop(done);
        let mut numbers: Vec<i32> = finished.iter().collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..100));
        assert!((1..=2).contains(&pool.started()));
        drop(pool);
        assert_eq!(Arc::strong_count(&witness), 1, "a worker is still there");
    }

    #[test]
    fn a_panic_ends_the_job_and_makes_the_tools_anew() {
        let mut pool = WorkerPool::<u32>::default();
        let (done, finished) = mpsc::channel();
        let of_the_job = done.clone();
        pool.give(
            1,
            Box::new(move |tools| {
                let _dropped_by_the_panic = of_the_job;
                *tools = 7;
                panic!("this panic is part of the test");
            }),
        );
        pool.give(1, Box::new(move |tools| done.send(*tools).unwrap()));
        assert_eq!(finished.recv_timeout(LONG), Ok(0));
        assert_eq!(
            finished.recv_timeout(LONG),
            Err(RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn jobs_that_nobody_has_begun_are_dropped_with_the_pool() {
        let (mut pool, _, hold) = busy();
        let (done, finished) = mpsc::channel::<()>();
        pool.give(1, Box::new(move |_| done.send(()).unwrap()));
        assert_eq!(pool.waiting(), 1);
        let closing = std::thread::spawn(move || drop(pool));
        assert_eq!(
            finished.recv_timeout(LONG),
            Err(RecvTimeoutError::Disconnected)
        );
        drop(hold);
        closing.join().unwrap();
    }

    #[test]
    fn the_owner_takes_back_what_nobody_has_begun_and_nothing_else() {
        let (mut pool, first, hold) = busy();
        assert!(pool.is_under_way(first));
        assert!(pool.take_back(first).is_none());
        let tickets = [1, 2, 3, 4].map(|n| pool.give(1, Box::new(move |sum| *sum += n)));
        let mut sum = 0;
        pool.take_back(tickets[2]).unwrap()(&mut sum);
        assert_eq!(sum, 3);
        assert!(pool.take_back(tickets[2]).is_none());
        assert!(!pool.is_under_way(tickets[0]));
        assert!(pool.work_some(&mut sum));
        assert_eq!((sum, pool.waiting()), (4, 2));
        pool.keep_newest(1);
        assert!(pool.take_back(tickets[1]).is_none());
        assert!(pool.work_some(&mut sum));
        assert_eq!(sum, 8);
        assert!(!pool.work_some(&mut sum));
        drop(hold);
    }

    #[test]
    fn a_pool_that_is_detached_does_not_wait() {
        let (mut pool, _, hold) = busy();
        let (done, finished) = mpsc::channel::<()>();
        pool.give(1, Box::new(move |_| done.send(()).unwrap()));
        let witness = Arc::clone(&pool.shared);
        pool.detach();
        drop(pool);
        assert_eq!(Arc::strong_count(&witness), 2, "the worker is at its job");
        drop(hold);
        assert_eq!(
            finished.recv_timeout(LONG),
            Err(RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn a_worker_that_does_not_come_to_run_is_not_waited_for() {
        let mut pool = WorkerPool::<u32>::default();
        let (hold, held) = mpsc::channel::<()>();
        let late = threads::start(threads::NAME, |thread, running| {
            let thread = thread.spawn(move || {
                let _ = held.recv_timeout(Duration::from_secs(20));
            })?;
            Ok(Worker { thread, running })
        });
        pool.workers.extend(late);
        pool.process = process_id();
        let begun = std::time::Instant::now();
        drop(pool);
        assert!(begun.elapsed() < Duration::from_secs(10));
        drop(hold);
    }

    /// A fork cannot be tried without unsafe code. Another number of a process looks the same to the pool.
    #[test]
    fn a_forked_child_has_no_workers_and_waits_for_no_lock() {
        let (mut pool, first, hold) = busy();
        let ours = std::mem::replace(&mut pool.process, 0);
        let shared = Arc::clone(&pool.shared);
        let held_by_a_worker_at_the_fork = shared.lock();
        assert!(pool.is_forked());
        pool.give(1, Box::new(|_| panic!("no worker does this")));
        assert!(!pool.work_some(&mut 0));
        assert!(pool.take_back(first).is_none());
        assert_eq!(pool.waiting(), 0);
        pool.clear();
        drop(held_by_a_worker_at_the_fork);
        pool.process = ours;
        drop(hold);
    }
}
