//! Litepack as SQLite meets it: a VFS over the host's own, pragmas, SQL functions.
//!
//! Floors from the top down. A file uses its own floor and those below it, and no two files use each other:
//! `scripts/check-floors` sees to both.
//!
//! ```text
//! ffi/         what SQLite calls: entry points, the methods of VFSes and files
//! open.rs      what SQLite gets for a name
//! sql/         functions and pragmas
//! files/       files as SQLite sees them: packed databases, archives, files on servers, journals, WALs, temporary files
//! session/     a packed database as SQLite uses it: locks, transactions, checkpoints, maintenance
//! beside/      what the process has open, and the files beside it
//! options.rs   URI parameters and pragmas
//! offered_key.rs  a key for the files that a thread opens meanwhile
//! spelling.rs  names misspelt
//! relief.rs    when memory is short
//! failure.rs   why a call failed
//! host/        the VFS below: its names, its files, the words of the WAL index
//! c/           SQLite's C interface
//! ```
#![deny(unsafe_code)]

mod beside;
mod c;
mod failure;
pub mod ffi;
mod files;
mod host;
mod offered_key;
mod open;
mod options;
mod relief;
#[doc(hidden)]
pub mod session;
mod spelling;
mod sql;

#[doc(hidden)]
pub use beside::wal_view::let_logs_stand_from;
pub use beside::wal_view::state_for_log;
#[cfg(feature = "remote")]
pub use files::remote::{remote_config, remote_headers, remote_info, remote_options};
pub use litepack_cipher::Key;
#[cfg(feature = "remote")]
pub use litepack_remote::{
    Error as RemoteError, Listed, Options as RemoteOptions, UploadOptions, expect_absent, list,
    upload,
};
pub use offered_key::with_key;
pub use sql::VERSION;
