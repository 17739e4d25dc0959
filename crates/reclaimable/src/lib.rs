//! Memory that the system may take back, and that says so; and memory that it may not, for keys.
//!
//! ```text
//! arena.rs    slots for pages of one size, in segments: what is safe to call
//! segment.rs  the slots of one segment, and why a copy out of them is right
//! mapping.rs  memory of that kind
//! pages.rs    what is asked of the system
//! process.rs  whether this is a child that was forked
//! locked.rs   a value that is wiped, and kept out of swap and core dumps as far as the system allows it
//! ```
//! Pages that a process keeps decoded are like the system's own page cache: it is good to have them, and nothing is lost
//! without them. Linux has memory for this: after `madvise(MADV_FREE)` a page keeps its content until memory is short,
//! and reads as zeros from then on (<https://man7.org/linux/man-pages/man2/madvise.2.html>). The system counts it like
//! its page cache: it takes it back before it ends a process for want of memory.
//!
//! An [`Arena`] hands out copies only. A copy is right or it is not made, whatever the system, other threads and forked
//! processes do meanwhile. Where there is no such memory there is no [`Arena`].
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod arena;
/// Those of the standard library. In tests/interleavings `segment.rs` has others.
mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}
mod locked;
#[cfg(target_os = "linux")]
mod mapping;
#[cfg(not(target_os = "linux"))]
#[path = "no_mapping.rs"]
mod mapping;
#[cfg(target_os = "linux")]
mod pages;
mod process;
mod segment;
#[cfg(all(test, target_os = "linux"))]
mod tests;

pub use arena::{Arena, SEGMENT};
pub use locked::Locked;
pub use process::ThisProcess;
pub use segment::{Key, SlotContent};
