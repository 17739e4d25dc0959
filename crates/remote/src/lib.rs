//! A file on a web server or in an object store, read by range as if it were a local one. Nothing of SQLite, packed
//! files or archives in here.
//!
//! ```text
//! options.rs   what can be set                    error.rs     what can go wrong
//! location.rs  URLs, shown without secrets        headers.rs   what the user adds to requests
//! version.rs   which version of the file it is    answer.rs    what a server may answer
//! client.rs    one range, with redirects          retry.rs     what is tried again
//! agent.rs     the HTTP client                    s3/          objects in stores
//! disk.rs      blocks on disk                     known.rs     what was opened before
//! streams.rs   which blocks are wanted next       remote.rs    an opened file; threads that fetch ahead
//! ```
//! All bytes a handle gives are of one version of the file: what the server said of it when it was opened (its strong
//! ETag, else its date of change, and its length) has to hold for every answer, and a file that changed is an error. A
//! server's mistakes are errors, too, within a time that the options bound.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod agent;
mod answer;
mod client;
mod disk;
mod error;
mod headers;
mod known;
mod location;
mod options;
mod remote;
mod retry;
mod s3;
mod streams;
mod traffic;
mod version;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use agent::check_certificates;
pub use error::{Error, Result};
pub use headers::Headers;
pub use litepack_io::cache::Cache;
pub use location::Origin;
pub use options::{DiskCache, Options};
pub use remote::{OPENING, Remote};
pub use s3::{
    Environment, Listed, S3_ENDPOINT, S3_PROFILE, UploadOptions, check_settings, expect_absent,
    is_object, list, upload,
};
pub use traffic::Traffic;

/// Bytes in a block, but for the last one of a file: what is fetched and kept at once.
pub const BLOCK_SIZE: u64 = 64 << 10;

/// Locks a mutex, also after a panic: each change under these locks is one step, so the value is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
