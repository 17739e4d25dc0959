//! Litepack as SQLite meets it: a VFS over the host's own, pragmas, SQL functions.
//!
//! ```text
//! packed.rs    a packed database: SQLite's calls in, the store's commits out
//! wal_index.rs what the WAL index tells it of checkpoints
//! journal.rs   its rollback journal, in memory
//! identity.rs  which file it is, for others that have it open
//! file_stamp.rs  whether a file is the same  remembered.rs   files that are or were open
//! read_only.rs a file that is only read     archive.rs   an archive as one, shared by its connections
//! remote/      a file on a web server as one, if the feature `remote` is on
//! options.rs   URI parameters and pragmas       near.rs     names misspelt
//! foreign.rs   what a file is that is none of them
//! refused.rs   a file whose URI is wrong
//! secure_delete.rs  when deleted content is overwritten
//! relief.rs    when memory is short
//! maintain_function.rs  maintenance as a SQL function, with turns for others
//! columns/     the SQL functions of compressed columns
//! codes.rs     SQLite's numbers                 ffi/        everything unsafe
//! ```
#![deny(unsafe_code)]

mod codes;
mod cold;
mod columns;
#[allow(unsafe_code)]
pub mod ffi;
mod file;
mod file_stamp;
mod foreign;
mod identity;
mod maintain_function;
mod near;
mod options;
mod relief;
mod remembered;
mod remote;

#[cfg(feature = "remote")]
pub use litepack_remote::Options as RemoteOptions;
#[cfg(feature = "remote")]
pub use remote::remote_info;

/// The version of this extension.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
