//! A database as its file is: what kind it is of, its header and pages as bytes, what its WAL has, who has it open, and
//! how it is held, read and replaced. The crate `litepack` packs and unpacks over it, and Litepack's applications read
//! databases with it.
//!
//! It is a part of Litepack for its other crates, and promises programs nothing: what they may use, `litepack` hands on.
//!
//! Floors from the top down. A file uses its own floor and those below it, and no files use each other in a circle
//! (`scripts/check-floors`):
//!
//! ```text
//! open.rs      connections for programs
//! files/       whole files: held while they are read, compared, replaced; SQL on them has an end
//! bytes/       what is in them: kind and header, pages, the WAL and its index, a packed file on all cores
//! job.rs       progress, and how a call is stopped
//! register.rs  registration with SQLite
//! error.rs     what failed, where, and what to do
//! names/       names of files and of what SQLite keeps beside them, as URIs and as they are shown; who has them open
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "rusqlite")]
pub mod bytes;
pub mod error;
#[cfg(feature = "rusqlite")]
pub mod files;
#[cfg(feature = "rusqlite")]
pub mod job;
pub mod names;
#[cfg(feature = "rusqlite")]
mod open;
mod register;

pub use error::{Error, Result};
#[cfg(feature = "rusqlite")]
pub use {
    job::{Job, Progress, Stop, Unit},
    open::{open, open_with_flags, open_with_key},
};

pub use names::printable::{harmless, harmless_json, harmless_line, printable, printable_path};
pub use names::uri::{remote_uri, uri};
pub use register::register;
