//! Where results of jobs arrive. As a channel would do it, but without memory of the waiting thread's own: when that
//! is short, the C library ends the process instead of saying so.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The end at which results arrive.
#[derive(Debug)]
pub struct Results<T> {
    shared: Arc<Shared<T>>,
}

/// The outcome of waiting for a while.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited<T> {
    /// A result.
    Arrived(T),
    /// All jobs have ended.
    Ended,
    /// Nothing yet.
    NotYet,
}

/// The end for one job. A job that comes to nothing drops it.
#[derive(Debug)]
pub struct Promise<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    arrived: VecDeque<T>,
    promised: usize,
    /// A thread waits. To wake none costs a system call.
    awaited: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Results<T> {
    fn default() -> Results<T> {
        let state = State {
            arrived: VecDeque::new(),
            promised: 0,
            awaited: false,
        };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Results {
            shared: Arc::new(shared),
        }
    }
}

impl<T> Results<T> {
    /// One more job.
    pub fn promise(&self) -> Promise<T> {
        self.shared.lock().promised += 1;
        Promise {
            shared: Arc::clone(&self.shared),
        }
    }

    /// A result that has arrived.
    pub fn take(&self) -> Option<T> {
        self.shared.lock().arrived.pop_front()
    }

    /// A result, as soon as there is one; `None` when all jobs have ended.
    pub fn wait(&self) -> Option<T> {
        let mut state = self.shared.lock();
        loop {
            let arrived = state.arrived.pop_front();
            if arrived.is_some() || state.promised == 0 {
                return arrived;
            }
            state.awaited = true;
            let changed = self.shared.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Results<T> {
    /// A result, if there is one within this time.
    pub fn wait_for(&self, time: Duration) -> Waited<T> {
        let end = Instant::now() + time;
        let mut state = self.shared.lock();
        loop {
            if let Some(arrived) = state.arrived.pop_front() {
                return Waited::Arrived(arrived);
            }
            if state.promised == 0 {
                return Waited::Ended;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Waited::NotYet;
            }
            state.awaited = true;
            let changed = self.shared.changed.wait_timeout(state, left);
            state = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<T> Promise<T> {
    /// The job's result.
    pub fn keep(self, result: T) {
        self.shared.lock().arrived.push_back(result);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.promised -= 1;
        if std::mem::take(&mut state.awaited) {
            self.shared.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_arrive_until_all_jobs_have_ended() {
        let results = Results::default();
        let promises: Vec<Promise<u32>> = (0..3).map(|_| results.promise()).collect();
        assert_eq!(results.take(), None);
        let jobs = std::thread::spawn(move || {
            for (number, promise) in (0..).zip(promises) {
                if number != 1 {
                    promise.keep(number);
                }
            }
        });
        assert_eq!(
            results.wait_for(Duration::from_secs(300)),
            Waited::Arrived(0)
        );
        assert_eq!(results.wait(), Some(2));
        assert_eq!(results.wait(), None);
        assert_eq!(results.wait_for(Duration::ZERO), Waited::Ended);
        let promise = results.promise();
        assert_eq!(results.wait_for(Duration::from_millis(1)), Waited::NotYet);
        drop(promise);
        jobs.join().unwrap();
    }
}
