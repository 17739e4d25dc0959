//! Litepack as SQLite meets it: a VFS over the host's own, pragmas, SQL functions.
//!
//! ```text
//! file/        files as SQLite sees them: packed databases, archives, journals; what they answer to pragmas
//! remote/      a file on a web server as one, if the feature `remote` is on
//! functions/   the table of the SQL functions; those on the file of a database
//! columns/     the SQL functions of compressed columns
//! maintain_function.rs  maintenance as a SQL function, with turns for others
//! options.rs   URI parameters and pragmas       spelling.rs names misspelt
//! identity.rs  which file a packed database is, for others that have it open
//! file_stamp.rs  whether a file is the same     file_registry.rs   files that are or were open
//! known_absent.rs  journals and WALs that need not be looked for again
//! foreign.rs   what a file is that is none of ours
//! cold_prefetch.rs  blocks of a file that the system does not have in memory
//! relief.rs    when memory is short             codes.rs    SQLite's numbers
//! ffi/         everything unsafe
//! ```
#![deny(unsafe_code)]

mod codes;
mod cold_prefetch;
mod columns;
#[allow(unsafe_code)]
pub mod ffi;
mod file;
mod file_registry;
mod file_stamp;
mod foreign;
mod functions;
mod identity;
mod known_absent;
mod maintain_function;
mod options;
mod relief;
mod remote;
mod spelling;

#[cfg(feature = "remote")]
pub use litepack_remote::{
    Error as RemoteError, Listed, Options as RemoteOptions, UploadOptions, expect_absent, list,
    upload,
};
#[cfg(feature = "remote")]
pub use remote::{remote_config, remote_headers, remote_info, remote_options};

/// The version of this extension.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
