//! The bytes of a database, as they are in its file and in what SQLite keeps beside it. None of them is trusted.
//!
//! ```text
//! header.rs      what a file is by its first bytes      snapshot.rs    a WAL beside which others go on
//! pages.rs       pages, while others may write          wal.rs         frames of a WAL
//! reader.rs      a packed file, on all cores            free_pages.rs  free pages, read as zeros
//! archive.rs     an archive, from beginning to end      unlocked.rs    the key of an encrypted file
//! base.rs        pages that a log stands on            committed.rs   committed frames, found without SQLite
//! ```

pub mod archive;
mod base;
mod committed;
pub mod free_pages;
pub mod header;
pub mod pages;
pub mod reader;
pub mod snapshot;
pub mod unlocked;
pub mod wal;
