//! A file on a web server or in an object store, read by range as if it were a local one. Nothing of SQLite, packed
//! files or archives in here. What does not depend on who sends the requests is in `litepack-ranges`.
//!
//! ```text
//! options.rs   what can be set                    headers.rs   what the user adds to requests
//! location.rs  URLs, shown without secrets        remote.rs    an opened file
//! client.rs    one range, with redirects          retry.rs     failures of the HTTP library, and how often it asks
//! agent.rs     the HTTP client                    s3/          objects in stores
//! disk.rs      blocks on disk
//! ```
//! All bytes a handle gives are of one version of the file, and a file that changed is an error. A server's mistakes are
//! errors, too, within a time that the options bound.
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
mod client;
mod disk;
mod headers;
mod location;
mod options;
mod remote;
mod retry;
mod s3;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use agent::check_certificates;
pub use headers::Headers;
pub use litepack_io::cache::Cache;
pub use litepack_ranges::{BLOCK_SIZE, Error, OPENING, Result, Traffic};
pub use location::Origin;
pub use options::{DiskCache, Options};
pub use remote::Remote;
pub use s3::{
    Environment, Listed, S3_ENDPOINT, S3_PROFILE, UploadOptions, check_settings, expect_absent,
    is_object, list, upload,
};

/// Locks a mutex, also after a panic: each change under these locks is one step, so the value is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
