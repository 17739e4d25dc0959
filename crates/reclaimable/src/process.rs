//! Whether this is the process in which something was made, and not a child that was forked since.
//!
//! Numbers of processes do not tell: a child in a new namespace may have the number that its parent has in its own. But a
//! fork fills pages with zeros that were marked for that (`MADV_WIPEONFORK`, since Linux 4.14). Both are looked at, so
//! where there are no such pages the number tells.

/// The process in which it was made.
#[derive(Debug)]
pub struct ThisProcess {
    number: u32,
    mark: Mark,
}

impl ThisProcess {
    /// Of the process that calls this.
    pub fn new() -> ThisProcess {
        ThisProcess {
            number: process_id(),
            mark: Mark::new(),
        }
    }

    /// For tests: as a child has it that was forked.
    #[doc(hidden)]
    pub fn of_another() -> ThisProcess {
        ThisProcess {
            number: !process_id(),
            ..ThisProcess::new()
        }
    }

    /// Whether it is the one that asks.
    pub fn is_here(&self) -> bool {
        self.mark.is_here() && self.number == process_id()
    }
}

/// The number of this process. In a browser there are none, and the standard library panics there.
fn process_id() -> u32 {
    if cfg!(all(target_family = "wasm", target_os = "unknown")) {
        0
    } else {
        std::process::id()
    }
}

impl Default for ThisProcess {
    fn default() -> ThisProcess {
        ThisProcess::new()
    }
}

#[cfg(target_os = "linux")]
use linux::Mark;
#[cfg(not(target_os = "linux"))]
use other::Mark;

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::mm::Advice;

    use crate::pages::Pages;

    /// Anything but zero.
    const HERE: u64 = 0x6865_7265;

    /// A word that a fork makes zero. `None` where there is none.
    #[derive(Debug)]
    pub(super) struct Mark(Option<Pages>);

    impl Mark {
        pub(super) fn new() -> Mark {
            let pages = Pages::new(size_of::<u64>());
            let mark = Mark(pages.filter(|pages| pages.advise(Advice::LinuxWipeOnFork)));
            if let Some(word) = mark.word() {
                word.store(HERE, Ordering::Relaxed);
            }
            mark
        }

        /// Also where there is no word.
        pub(super) fn is_here(&self) -> bool {
            self.word()
                .is_none_or(|word| word.load(Ordering::Relaxed) == HERE)
        }

        fn word(&self) -> Option<&AtomicU64> {
            let start = self.0.as_ref()?.start().cast::<AtomicU64>();
            // SAFETY: a page begins there, so it is aligned and long enough; it is mapped as long as `self` lives; any
            // bytes are an `AtomicU64`; and only this borrows from it.
            Some(unsafe { start.as_ref() })
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    #[derive(Debug)]
    pub(super) struct Mark;

    impl Mark {
        pub(super) fn new() -> Mark {
            Mark
        }

        pub(super) fn is_here(&self) -> bool {
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_number_is_another_process() {
        let mut process = ThisProcess::new();
        assert!(process.is_here());
        process.number ^= 1;
        assert!(!process.is_here());
    }

    /// The child looks at the mark alone: with a new namespace it could have the parent's number.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_child_of_a_fork_is_another_process_whatever_its_number() {
        unsafe extern "C" {
            fn fork() -> i32;
            fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
            fn _exit(code: i32) -> !;
        }
        let mut process = ThisProcess::new();
        // SAFETY: the child reads memory and exits, which a child of a process with threads may do.
        let child = unsafe { fork() };
        if child == 0 {
            process.number = process_id();
            let code = i32::from(process.is_here());
            // SAFETY: it takes any number, and nothing of this process is to be done first.
            unsafe { _exit(code) };
        }
        assert!(child > 0);
        let mut status = -1;
        // SAFETY: the place for the status is there until the call returns.
        assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child took itself for its parent");
        assert!(process.is_here());
    }
}
