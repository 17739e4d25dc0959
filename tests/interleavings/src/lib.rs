//! Threads that meet in the cache's memory and in the worker pool: the files themselves, over atomics, locks and threads
//! of [loom](https://docs.rs/loom), which goes through the orders of their steps up to a number of preemptions, and
//! through what a relaxed load may see, as far as loom knows.
//!
//! ```text
//! segment.rs  crates/reclaimable/src/segment.rs, over memory of which anything may be taken at any moment (memory.rs)
//! workers.rs  crates/io/src/workers.rs
//! ```
#![allow(dead_code)]

mod memory;

/// What `segment.rs` finds in its own crate.
mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}
mod mapping {
    pub(crate) use crate::memory::{GRAIN, Memory as Mapping, WORD};
}
#[path = "../../../crates/reclaimable/src/segment.rs"]
mod inner_segment;

/// Cargo compiles the files' own tests as well where it is asked for all targets, and runs them nowhere.
#[cfg(test)]
mod tests {
    pub(crate) fn step() {}
}

/// What `workers.rs` finds in its own crate.
mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::JoinHandle;
    pub(crate) use std::sync::{Arc, PoisonError};
}
mod platform {
    pub(crate) fn process_id() -> u32 {
        1
    }
}
mod threads;
#[path = "../../../crates/io/src/workers.rs"]
pub mod workers;

/// The slots of one segment.
pub mod segment {
    pub use crate::inner_segment::{Key, SlotContent};
    pub use crate::memory::GRAIN;

    /// `crates/reclaimable` has it for itself.
    pub struct Segment(crate::inner_segment::Segment);

    impl Segment {
        /// Slots for pages of `page` bytes.
        pub fn new(slots: usize, page: usize) -> Segment {
            let segment = crate::inner_segment::Segment::new(slots * page, page);
            Segment(segment.expect("the size is right"))
        }

        /// See there.
        pub fn read(&self, index: usize, key: Key, out: &mut [u8]) -> SlotContent {
            self.0.read(index, key, out, true)
        }

        /// See there.
        pub fn write(&self, index: usize, key: Key, bytes: &[u8]) -> Option<Key> {
            self.0.write(index, key, bytes)
        }

        /// See there.
        pub fn remove(&self, index: usize, key: Key) -> bool {
            self.0.remove(index, key)
        }

        /// See there.
        pub fn pass(&self, index: usize) -> bool {
            self.0.pass(index, true)
        }

        /// The system takes a grain.
        pub fn take(&self, grain: usize) {
            self.0.discard_grain(grain);
        }

        /// See there.
        pub fn discard(&self) {
            self.0.discard();
        }
    }
}
