//! SQLite's C interface, and nothing of ours.
//!
//! ```text
//! bindings.rs   what SQLite looks like, generated from its header by `scripts/sqlite-bindings`
//! codes.rs      its numbers
//! api.rs        its functions               connection.rs  statements on a connection
//! library.rs    the SQLite libraries of the process, and the VFSes that each has of us
//! interrupts.rs whether a connection was interrupted
//! around.rs     what is around a file on its connection
//! guard.rs      keeps panics in             allocator.rs   for the loadable extension alone
//! ```
#![allow(unsafe_code)]

pub(crate) mod allocator;
pub(crate) mod api;
pub(crate) mod around;
#[rustfmt::skip]
pub(crate) mod bindings;
pub(crate) mod codes;
#[allow(dead_code)]
pub(crate) mod connection;
pub(crate) mod guard;
pub(crate) mod interrupts;
pub(crate) mod library;
