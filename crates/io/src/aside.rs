//! A call of other people's code that takes long and cannot be stopped, such as zstd's training of a dictionary: it
//! runs on a thread of its own, and who is interrupted does not wait for it.
//!
//! Work left behind ends by itself: at the next place where it looks for an interrupt, if it has one. It owns the data
//! it works on until then. Nothing new begins while `LEFT_MAX` such threads run, so interrupting again and again does
//! not make them many.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::sleep;
use std::time::Duration;

use crate::interrupt::{self, Halt};
use crate::memory::OutOfMemory;
use crate::threads;

/// With so many threads left behind, nothing new begins.
const LEFT_MAX: u32 = 2;
/// So often an interrupt is looked for.
const TICK: Duration = Duration::from_millis(10);

/// Does the work and returns what it made. Without a listener for interrupts, that is a plain call.
///
/// # Errors
/// When the caller was interrupted, some 20 milliseconds after that; when no thread could be started, which is for want
/// of memory.
///
/// # Panics
/// When the work does.
pub fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Halt> {
    if !interrupt::is_listening() {
        return Ok(work());
    }
    while left::count() >= LEFT_MAX {
        interrupt::check()?;
        sleep(TICK);
    }
    interrupt::check()?;
    let (sender, receiver) = sync_channel(1);
    let state = Arc::new(State::default());
    let ends = Ends(Arc::clone(&state));
    let started = threads::start(threads::NAME, |thread, running| {
        thread.spawn(move || {
            let ends = ends;
            running.say();
            // Work that looks for interrupts ends when it is left.
            let left = Arc::clone(&ends.0);
            let made = interrupt::listen(move || left.is_left(), work);
            // The caller may have stopped waiting.
            drop(sender.send(made));
        })
    });
    let thread = started.ok_or(OutOfMemory)?;
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(made) => return Ok(made),
            // It ends without a result when it panics only.
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => return Err(Halt::OutOfMemory),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupt::is_interrupted() {
            state.leave();
            return Err(Halt::Interrupted);
        }
    }
}

/// The state of a thread: running, left behind or ended.
#[derive(Default)]
struct State(AtomicU8);

const LEFT: u8 = 1;
const ENDED: u8 = 2;

impl State {
    fn is_left(&self) -> bool {
        self.0.load(Ordering::Acquire) == LEFT
    }

    /// The caller goes on without it.
    fn leave(&self) {
        // Counted before the thread can see that it was.
        left::change(1);
        if self.0.swap(LEFT, Ordering::AcqRel) == ENDED {
            left::change(-1);
        }
    }
}

/// Held by the thread until its end.
struct Ends(Arc<State>);

impl Drop for Ends {
    fn drop(&mut self) {
        if self.0.0.swap(ENDED, Ordering::AcqRel) == LEFT {
            left::change(-1);
        }
    }
}

/// How many threads were left that have not ended.
mod left {
    use super::{AtomicU64, Ordering};

    /// The process, in the upper half, and the count: a child that it forks has none of its threads.
    static COUNT: AtomicU64 = AtomicU64::new(0);

    fn of_this_process(both: u64) -> u32 {
        let is_here = both >> 32 == u64::from(std::process::id());
        let count = u32::try_from(both & u64::from(u32::MAX));
        count.ok().filter(|_| is_here).unwrap_or(0)
    }

    pub(super) fn count() -> u32 {
        of_this_process(COUNT.load(Ordering::Acquire))
    }

    pub(super) fn change(by: i32) {
        let process = u64::from(std::process::id()) << 32;
        let changed =
            |both| Some(process | u64::from(of_this_process(both).saturating_add_signed(by)));
        let _ = COUNT.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use crate::interrupt::listen;

    /// The count is the process's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn what_is_interrupted_is_left_and_not_too_many_are() {
        let _alone = ONE_AT_A_TIME.lock();
        let (release, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let begun = Arc::new(AtomicU8::new(0));
        let interrupted = |after: Duration| {
            let (since, wait, begun) = (Instant::now(), Arc::clone(&wait), Arc::clone(&begun));
            let result = listen(
                move || since.elapsed() > after,
                || {
                    aside(move || {
                        begun.fetch_add(1, Ordering::Relaxed);
                        assert!(wait.lock().expect("no panic").recv().is_err());
                    })
                },
            );
            assert_eq!(result, Err(Halt::Interrupted));
        };
        // Who waited for the work would wait for ever.
        for _ in 0..5 {
            interrupted(Duration::from_millis(100));
        }
        assert_eq!(left::count(), 2);
        drop(release);
        let since = Instant::now();
        while left::count() > 0 {
            assert!(since.elapsed() < Duration::from_secs(300), "they end");
            sleep(TICK);
        }
        assert_eq!(begun.load(Ordering::Relaxed), 2, "the others did not begin");
    }

    #[test]
    fn what_is_not_interrupted_returns_what_it_made() {
        let _alone = ONE_AT_A_TIME.lock();
        let here = std::thread::current().id();
        assert_eq!(aside(|| std::thread::current().id()), Ok(here));
        let there = listen(|| false, || aside(|| std::thread::current().id()));
        assert_ne!(there, Ok(here));
        let fails = || {
            listen(
                || false,
                || aside(|| panic!("this panic is part of the test")),
            )
        };
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
    }

    #[test]
    fn one_that_ended_while_it_was_left_is_not_counted() {
        let _alone = ONE_AT_A_TIME.lock();
        let state = Arc::new(State::default());
        drop(Ends(Arc::clone(&state)));
        state.leave();
        assert_eq!(left::count(), 0);
    }
}
