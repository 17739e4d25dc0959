//! Starting a thread in a process that may have no memory left.
//!
//! A new thread takes memory that cannot be refused: the C library and the standard library end the process when there
//! is none. So much more than that is tried before. Who starts a thread waits until it runs, and takes nothing meanwhile.
//! Threads of ours that run already may take memory in that time, so that room for them is tried, too.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::memory::{OutOfMemory, check, with_room};

/// The name of threads that have no better one.
pub(crate) const NAME: &str = "litepack";

/// The stack of a thread. Said here, so that it does not depend on the environment.
const STACK: usize = 2 << 20;
/// The pieces of memory tried before a thread is started. They are small, because the C library keeps more of what is
/// freed after it has freed a larger piece.
const PIECE: usize = 1 << 20;
/// So many for the thread: its stack, and one for the few hundred bytes that it takes besides.
const FOR_IT: usize = STACK / PIECE + 1;
/// So many for each thread of ours that runs: what zstd and a job's buffers take at once.
const FOR_OTHERS: usize = 4;
/// With more threads than this, no more is tried.
const OTHERS_MAX: usize = 15;
/// The longest wait for a thread. One that is started while a library is loaded may not run before that is done.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether threads may be started now.
///
/// # Errors
/// When there is not the memory for one.
pub(crate) fn may_start() -> Result<(), OutOfMemory> {
    let mut pieces = [const { Vec::<u8>::new() }; FOR_IT + FOR_OTHERS * OTHERS_MAX];
    for piece in pieces.iter_mut().take(tried()) {
        *piece = with_room(PIECE)?;
    }
    // A value that is not used would not be allocated at all.
    std::hint::black_box(&pieces);
    check()
}

/// How many pieces are tried now.
fn tried() -> usize {
    FOR_IT + FOR_OTHERS * COUNT.load(Ordering::Relaxed).min(OTHERS_MAX)
}

/// Starts a thread with `spawn`, if there is memory for it. The thread has to say at once that it runs.
pub(crate) fn start<T>(
    name: &str,
    spawn: impl FnOnce(Builder, Running) -> io::Result<T>,
) -> Option<T> {
    start_within(PATIENCE, name, spawn)
}

/// The same, with the longest wait for it to say so.
fn start_within<T>(
    patience: Duration,
    name: &str,
    spawn: impl FnOnce(Builder, Running) -> io::Result<T>,
) -> Option<T> {
    may_start().ok()?;
    let running = Running::new();
    let thread = Builder::new().name(name.into()).stack_size(STACK);
    let started = spawn(thread, running.clone()).ok()?;
    running.wait(patience);
    Some(started)
}

/// How many threads run that were started here. A child that the process forks keeps the count, which only makes it more
/// careful.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread runs: it has all that it cannot be refused. The thread keeps this until it ends.
#[derive(Clone)]
pub(crate) struct Running(Arc<Start>);

struct Start {
    said: Mutex<bool>,
    changed: Condvar,
}

impl Running {
    fn new() -> Running {
        COUNT.fetch_add(1, Ordering::Relaxed);
        Running(Arc::new(Start {
            said: Mutex::new(false),
            changed: Condvar::new(),
        }))
    }

    /// For the thread.
    pub(crate) fn say(&self) {
        *self.0.said.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }

    /// Whether the thread has said that it runs. If not, it may wait for something that its starter holds.
    pub(crate) fn is_said(&self) -> bool {
        *self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, patience: Duration) {
        let said = self.0.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether it was too long makes no difference.
        drop(
            self.0
                .changed
                .wait_timeout_while(said, patience, |said| !*said),
        );
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Longer than any machine does not run a thread.
    const LONG: Duration = Duration::from_secs(300);

    #[test]
    fn who_starts_a_thread_goes_on_when_it_runs() {
        let begun = Instant::now();
        let thread = start_within(LONG, NAME, |thread, running| {
            thread.spawn(move || {
                running.say();
                std::thread::current().name().map(str::to_owned)
            })
        });
        assert!(begun.elapsed() < LONG);
        assert_eq!(thread.unwrap().join().unwrap().as_deref(), Some(NAME));
    }

    #[test]
    fn a_thread_that_runs_has_more_tried_for_the_next_one() {
        use std::sync::mpsc::channel;

        let (hold, held) = channel::<()>();
        let (ask, asked) = channel();
        let thread = start_within(LONG, NAME, |thread, running| {
            thread.spawn(move || {
                running.say();
                asked.recv_timeout(LONG).unwrap();
                let _ = held.recv_timeout(LONG);
            })
        });
        ask.send(()).unwrap();
        // Other tests start threads, too.
        assert!(tried() >= FOR_IT + FOR_OTHERS);
        drop(hold);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn it_does_not_wait_for_ever_for_one_that_does_not_say_so() {
        let thread = start(NAME, |thread, _| thread.spawn(|| 7));
        assert_eq!(thread.unwrap().join().unwrap(), 7);
    }

    #[test]
    fn a_thread_that_the_system_refuses_is_not_waited_for() {
        let refused = |_, _| Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let begun = Instant::now();
        assert!(start_within(LONG, NAME, refused).is_none());
        assert!(begun.elapsed() < LONG);
    }
}
