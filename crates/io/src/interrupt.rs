//! Whether the one who asked for this thread's work wants it to end.
//!
//! Who starts work that may be interrupted runs it by [`listen`], with a function that tells: of a SQL function and a
//! pragma it asks the connection, of a command the stop of its job. Work that may take long calls [`check`] at least
//! every 50 milliseconds, and ends with its error. Without a listener nothing is ever interrupted.
//!
//! - A call costs a look at the clock. The function is asked no more often than every 10 milliseconds.
//! - [`crate::parallel`] passes an interrupt on to its threads.
//! - Work that must not stop half way, such as a commit, runs by [`deaf`], or calls nothing that checks.
//! - A call of other people's code that takes long and cannot be stopped runs on a thread of its own, by
//!   [`crate::aside`].

use std::cell::{Cell, RefCell};
use std::io;
use std::mem::{ManuallyDrop, needs_drop};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::memory::OutOfMemory;

/// The function is asked no more often than this.
const EVERY: Duration = Duration::from_millis(10);

/// The work was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl From<Interrupted> for io::Error {
    fn from(_: Interrupted) -> io::Error {
        io::ErrorKind::Interrupted.into()
    }
}

/// Why work came to no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// It was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// There is no memory for it.
    #[error("out of memory")]
    OutOfMemory,
}

impl From<Interrupted> for Halt {
    fn from(_: Interrupted) -> Halt {
        Halt::Interrupted
    }
}

impl From<OutOfMemory> for Halt {
    fn from(_: OutOfMemory) -> Halt {
        Halt::OutOfMemory
    }
}

impl From<Halt> for io::Error {
    fn from(halt: Halt) -> io::Error {
        match halt {
            Halt::Interrupted => Interrupted.into(),
            Halt::OutOfMemory => OutOfMemory.into(),
        }
    }
}

/// Someone who may interrupt.
struct Listener {
    ask: Box<dyn Fn() -> bool>,
    asked: Cell<Option<Instant>>,
    /// It was said once, which is enough.
    heard: Cell<bool>,
}

/// Not dropped when a thread ends, where it is empty anyway: [`with`] puts back what was there. A variable of a thread
/// that is dropped takes memory when it is used first, and the C library ends the process when there is none.
type Slot = ManuallyDrop<RefCell<Option<Rc<Listener>>>>;
const _: () = assert!(!needs_drop::<Slot>());

thread_local! {
    static LISTENER: Slot = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Does work that ends soon after `ask` has said that it should.
pub fn listen<R>(ask: impl Fn() -> bool + 'static, work: impl FnOnce() -> R) -> R {
    let listener = Listener {
        ask: Box::new(ask),
        asked: Cell::new(None),
        heard: Cell::new(false),
    };
    with(Some(Rc::new(listener)), work)
}

/// Does work that is not to be interrupted.
pub fn deaf<R>(work: impl FnOnce() -> R) -> R {
    if is_listening() {
        with(None, work)
    } else {
        work()
    }
}

fn with<R>(listener: Option<Rc<Listener>>, work: impl FnOnce() -> R) -> R {
    /// Puts back what was there, also when the work panics.
    struct Former(Option<Rc<Listener>>);
    impl Drop for Former {
        fn drop(&mut self) {
            drop(LISTENER.try_with(|current| current.replace(self.0.take())));
        }
    }
    let former = LISTENER.try_with(|current| current.replace(listener));
    let _former = Former(former.ok().flatten());
    work()
}

fn current() -> Option<Rc<Listener>> {
    LISTENER.try_with(|current| current.borrow().clone()).ok()?
}

/// Whether this thread's work may be interrupted.
pub fn is_listening() -> bool {
    let is_there = LISTENER.try_with(|current| current.borrow().is_some());
    is_there.unwrap_or(false)
}

/// Whether this thread's work is to end.
pub fn is_interrupted() -> bool {
    let Some(listener) = current() else {
        return false;
    };
    if listener.heard.get() {
        return true;
    }
    let now = Instant::now();
    if listener
        .asked
        .get()
        .is_some_and(|asked| now - asked < EVERY)
    {
        return false;
    }
    let heard = (listener.ask)();
    listener.heard.set(heard);
    // The time is taken after the call, so that asking never takes most of the time.
    listener.asked.set(Some(Instant::now()));
    heard
}

/// An error if this thread's work is to end.
///
/// # Errors
/// When it is.
pub fn check() -> Result<(), Interrupted> {
    if is_interrupted() {
        Err(Interrupted)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn who_listens_hears_and_nobody_else() {
        assert_eq!(check(), Ok(()));
        listen(
            || true,
            || {
                assert_eq!(check(), Err(Interrupted));
                deaf(|| assert_eq!(check(), Ok(())));
                listen(|| false, || assert_eq!(check(), Ok(())));
                assert_eq!(check(), Err(Interrupted));
                let apart = std::thread::spawn(check);
                assert_eq!(apart.join().expect("no panic"), Ok(()));
            },
        );
        assert!(!is_listening());
    }

    #[test]
    fn it_is_asked_now_and_then_and_what_was_said_stays_said() {
        let asked = Rc::new(Cell::new(0));
        let count = Rc::clone(&asked);
        let begun = Instant::now();
        let ask = move || {
            count.set(count.get() + 1);
            count.get() == 3
        };
        listen(ask, || {
            while check().is_ok() {}
            assert_eq!((check(), asked.get()), (Err(Interrupted), 3));
        });
        assert!(begun.elapsed() >= 2 * EVERY);
    }

    #[test]
    fn a_panic_leaves_nobody_listening() {
        let fails = || listen(|| true, || panic!("this panic is part of the test"));
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        assert!(!is_listening());
    }
}
