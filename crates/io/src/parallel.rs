//! The same work on several threads at once, for as long as one call takes. The work may borrow from the caller;
//! [`crate::workers`] has threads for jobs that outlive a call.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use crate::threads::{self, may_start};

/// Does `work` with each item, every one on a thread of its own, the first on the calling thread. Returns what they
/// made, in the order of the items.
///
/// If a thread cannot be started, for want of memory for example, the calling thread does its item after the first.
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
    std::thread::scope(|scope| {
        let start = |place| {
            threads::start(threads::NAME, |thread, running| {
                thread.spawn_scoped(scope, move || {
                    running.say();
                    take(place).map(work)
                })
            })
        };
        let started: Vec<_> = places.iter().map(start).collect();
        let mut made = vec![work(first)];
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
    fn a_panic_reaches_the_caller() {
        let fails = || parallel(0..3, |n| assert_ne!(n, 2, "this panic is part of the test"));
        assert!(catch_unwind(fails).is_err());
    }
}
