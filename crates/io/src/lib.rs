//! The foundation of the other crates: memory, limits, threads, interrupts, caches and files. Nothing in here knows
//! SQLite, packed files or archives.
//!
//! ```text
//! memory.rs    fallible allocation, and when to give up
//! limits.rs    how much memory the machine and the container have
//! fixed.rs     how much of it this process may take that the system cannot take back
//! storage.rs   files by byte offset: what is read, what is also written
//! cache/       what the process keeps decoded or fetched, with one budget
//! workers.rs   threads for jobs that their owner can take back; results.rs: where the results arrive
//! interrupt.rs whether the one who asked for the work wants it to end
//! aside.rs     calls that cannot be stopped, which an interrupt leaves behind
//! parallel.rs  the same work on several threads, for as long as one call takes
//! threads.rs   starting a thread when memory may be short
//! scans.rs     which reads go forward through a file, told from reads here and there
//! bytes.rs     little-endian fields and variable-length integers
//! random.rs    random numbers from a seed
//! printable.rs text that does nothing to a terminal
//! platform.rs  what a browser does not have
//! testing/     storages for tests
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

pub mod aside;
pub mod bytes;
pub mod cache;
pub mod fixed;
pub mod interrupt;
pub mod limits;
pub mod memory;
pub mod parallel;
pub mod platform;
pub mod printable;
pub mod random;
pub mod results;
pub mod scans;
pub mod storage;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "only tests use it"
)]
pub mod testing;
/// Those of the standard library. In tests/interleavings `workers.rs` has others.
mod sync {
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
    pub(crate) use std::thread::JoinHandle;
}
mod threads;
pub mod workers;
