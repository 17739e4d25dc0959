//! A file on a server, read by range as if it were a local one: blocks, which of them are fetched ahead, which version of
//! the file they are of, what an answer may say, what is tried again. Who sends a request is a trait, [`Fetch`]: an HTTP
//! client with threads (`litepack-remote`), or the page of a browser (`litepack-web`). Nothing of SQLite, packed files or
//! archives in here, and nothing of sockets or disks.
//!
//! ```text
//! error.rs     what can go wrong                  version.rs   which version of the file it is
//! answer.rs    what a server may answer           take.rs      the bytes in an answer, or why there are none
//! retry.rs     what is tried again                traffic.rs   what was sent and came
//! streams.rs   which blocks are wanted next       known.rs     what was opened before
//! fetch.rs     who asks, and who keeps            file.rs      an opened file; threads that fetch ahead
//! ```
//! All bytes a handle gives are of one version of the file: what the server said of it when it was opened (its strong
//! ETag, else its date of change, and its length) has to hold for every answer, and a file that changed is an error.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod answer;
mod error;
mod fetch;
mod file;
mod known;
mod retry;
mod streams;
mod take;
mod traffic;
mod version;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::{Error, Result};
pub use fetch::{Expected, Fetch, KeepBlocks};
pub use file::{Handling, OPENING, RangedFile};
pub use http;
pub use retry::{Failure, Retry, is_passing};
pub use take::take;
pub use traffic::{Counter, Counters, Traffic};
pub use version::Version;

/// Bytes in a block, but for the last one of a file: what is fetched and kept at once.
pub const BLOCK_SIZE: u64 = 64 << 10;

/// Locks a mutex, also after a panic: each change under these locks is one step, so the value is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
