//! The reader for browsers: a database on a web server, read by range, in a module of WebAssembly that a VFS in
//! JavaScript calls (`packages/web`). All it does is what the native reader does, by the same code: `litepack-ranges` has
//! the requests, `litepack-engine` the content.
//!
//! ```text
//! host.rs      one range from the page: what it answers is believed no more than a server
//! database.rs  an open database
//! abi.rs       what the page calls, with plain numbers; texts and pages go through one buffer
//! imports.rs   what is asked of the page: the only unsafe code (wasm only)
//! ```
//! There are no threads, files and clocks, and no random numbers: nothing here makes any.
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

#[cfg(target_family = "wasm")]
mod abi;
mod database;
mod host;
#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "it meets the page")]
mod imports;

pub use database::{Code, Database, Failure};
pub use host::{Host, HostAnswer, HostFetch};
