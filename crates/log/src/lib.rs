//! A log file behind SQLite's WAL. Nothing in here knows SQLite's C interface, or packed files: of
//! the file that a log is for only a few numbers are asked for.
//!
//! SQLite keeps its protocol: it reads and writes a WAL, a header of 32 bytes and then frames of a header of 24 bytes
//! and a page. [`Log`] is that file to SQLite. What it stores are *records*, each appended once: mostly a frame whose page
//! is stored as what changed since an earlier version of the same page. The newest record of a frame counts.
//!
//! A header that SQLite writes begins a *generation*: its records begin at the front of the same file again. A random
//! number of it is in the checksum of each record.
//!
//! The log of an encrypted file is sealed with its keys: [`Log::with_keys`].
//!
//! Memory is bounded at any length of the log. Several processes may have it open, with SQLite's locks between them.
//! Damage is an error; what a power loss tears off is not there.
//!
//! ```text
//! log.rs         reads, writes and syncs at SQLite's offsets
//! log/begin.rs   beginning a generation
//! binding.rs     which state of which file it follows
//! base.rs        the page of that file that a first version stands on
//! needs.rs       which part of that file it needs, and what is durable
//! generation.rs  what is known of the newest generation; taking up what was appended
//! aside.rs       copying what is about to be written over
//! records.rs     a record at a place; what vouches for a record that is not whole
//! seal.rs        sealing records, and opening them
//! sessions.rs    which sessions have sealed those of a generation
//! index.rs       where the newest record of a frame is
//! versions.rs    which version of a page the next one stands on
//! pages.rs       pages to stored versions and back
//! medium.rs      the file
//! format/        its bytes, as docs/format.md describes them
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
mod base;
mod binding;
mod error;
mod format;
mod generation;
mod index;
mod log;
mod medium;
mod needs;
mod pages;
mod records;
mod seal;
mod sessions;
#[cfg(any(test, fuzzing))]
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::missing_panics_doc,
    reason = "only tests use it"
)]
pub mod testing;
mod versions;

pub use binding::{BaseCommit, BoundTo, End, FileState, Needed, Refusal, random_number};
pub use error::{Error, Result};
pub use format::head::FileKind;
pub use log::Log;
pub use needs::Synced;
