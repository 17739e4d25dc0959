//! The same work on several threads at once, for as long as one call takes. The work may borrow from the caller;
//! [`crate::workers`] has threads for jobs that outlive a call.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::interrupt::{is_interrupted, is_listening, listen};
use crate::threads::{self, may_start};

/// So often the calling thread looks for an interrupt while it waits for the others.
const TICK: Duration = Duration::from_millis(10);

/// Does `work` with each item, every one on a thread of its own, the first on the calling thread. Returns what they
/// made, in the order of the items.
///
/// If a thread cannot be started, for want of memory for example, the calling thread does its item after the first. An
/// interrupt of the calling thread ([`crate::interrupt`]) is one of all of them.
///
/// # Panics
/// When `work` does, after all threads have ended.
pub fn parallel<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut items = items.into_iter().peekable();
    let Some(first) = items.next() else {
        return Vec::new();
    };
    // A scope, too, takes memory that cannot be refused.
    if items.peek().is_none() || may_start().is_err() {
        return std::iter::once(first).chain(items).map(work).collect();
    }
    let work = &work;
    // An item stays in its place until a thread takes it: a thread that cannot be started leaves it there.
    let places: Vec<_> = items.map(|item| Mutex::new(Some(item))).collect();
    let relay = is_listening().then(Relay::default);
    let relay = relay.as_ref();
    std::thread::scope(|scope| {
        let start = |place| {
            threads::start(threads::NAME, |thread, running| {
                thread.spawn_scoped(scope, move || {
                    running.say();
                    match relay {
                        Some(relay) => relay.heard_by(|| take(place).map(work)),
                        None => take(place).map(work),
                    }
                })
            })
        };
        let started: Vec<_> = places.iter().map(start).collect();
        let mut made = vec![work(first)];
        if let Some(relay) = relay {
            relay.until_ended(started.iter().flatten().count());
        }
        for (place, thread) in places.iter().zip(started) {
            let result = match thread.map(|thread| thread.join()) {
                Some(Ok(result)) => result,
                Some(Err(panic)) => resume_unwind(panic),
                None => take(place).map(work),
            };
            made.extend(result);
        }
        made
    })
}

/// Passes an interrupt of the calling thread on to the others.
#[derive(Default)]
struct Relay {
    interrupted: Arc<AtomicBool>,
    /// How many of them have ended.
    ended: Mutex<usize>,
    changed: Condvar,
}

impl Relay {
    /// For the other threads.
    fn heard_by<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Ends<'a>(&'a Relay);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                self.0.changed.notify_all();
            }
        }
        let _ends = Ends(self);
        let interrupted = Arc::clone(&self.interrupted);
        listen(move || interrupted.load(Ordering::Relaxed), work)
    }

    /// For the calling thread: waits for so many.
    fn until_ended(&self, count: usize) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while *ended < count {
            let waited = self.changed.wait_timeout(ended, TICK);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            // Not with the lock: asking may run other people's code.
            if is_interrupted() {
                self.interrupted.store(true, Ordering::Relaxed);
            }
            ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::Barrier;
    use std::thread::current;

    #[test]
    fn all_work_at_once_and_results_are_in_order() {
        for count in [0, 1, 2, 5] {
            let all = Barrier::new(count);
            let caller = current().id();
            let made = parallel(0..count, |n| {
                all.wait();
                assert_eq!(current().id() == caller, n == 0);
                10 * n
            });
            assert!(made.into_iter().eq((0..count).map(|n| 10 * n)));
        }
    }

    #[test]
    fn items_may_be_borrowed_for_writing() {
        let mut items = vec![1, 2, 3];
        parallel(&mut items, |item| *item *= 2);
        assert_eq!(items, [2, 4, 6]);
    }

    #[test]
    fn an_interrupt_is_one_of_all_threads() {
        let begun = std::time::Instant::now();
        let ended = listen(
            move || begun.elapsed() > Duration::from_millis(50),
            || {
                parallel(0..3, |n| {
                    // The calling thread has no reason to end before it waits for the others.
                    while n != 0 && crate::interrupt::check().is_ok() {
                        assert!(begun.elapsed() < Duration::from_secs(300));
                    }
                    n
                })
            },
        );
        assert_eq!(ended, [0, 1, 2]);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let fails = || parallel(0..3, |n| assert_ne!(n, 2, "this panic is part of the test"));
        assert!(catch_unwind(fails).is_err());
    }
}
