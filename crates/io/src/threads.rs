//! Starting a thread in a process that may have no memory left.
//!
//! A new thread takes memory that cannot be refused: the C library and the standard library end the process when there
//! is none. So much more than that is tried before. Who starts a thread waits until it runs, and takes nothing meanwhile.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::memory::{OutOfMemory, check, with_room};

/// The name of threads that have no better one.
pub(crate) const NAME: &str = "litepack";

/// The stack of a thread. Said here, so that it does not depend on the environment.
const STACK: usize = 2 << 20;
/// The pieces of memory tried before a thread is started: its stack, and 1 MiB for the few hundred bytes that it takes
/// besides. They are small, because the C library keeps more of what is freed after it has freed a larger piece.
const TRIED: [usize; 3] = [STACK / 2; 3];
/// The longest wait for a thread. One that is started while a library is loaded may not run before that is done.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether threads may be started now.
///
/// # Errors
/// When there is not the memory for one.
pub(crate) fn may_start() -> Result<(), OutOfMemory> {
    let mut pieces = [const { Vec::<u8>::new() }; TRIED.len()];
    for (piece, len) in pieces.iter_mut().zip(TRIED) {
        *piece = with_room(len)?;
    }
    // A value that is not used would not be allocated at all.
    std::hint::black_box(&pieces);
    check()
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
    let running = Running::default();
    let thread = Builder::new().name(name.into()).stack_size(STACK);
    let started = spawn(thread, running.clone()).ok()?;
    running.wait(patience);
    Some(started)
}

/// Whether a thread runs: it has all that it cannot be refused.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<(Mutex<bool>, Condvar)>);

impl Running {
    /// For the thread.
    pub(crate) fn say(&self) {
        let (said, changed) = &*self.0;
        *said.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    fn wait(&self, patience: Duration) {
        let (said, changed) = &*self.0;
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether it was too long makes no difference.
        drop(changed.wait_timeout_while(said, patience, |said| !*said));
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
