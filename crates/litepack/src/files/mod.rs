//! Files as calls use them: opened, locked, read on all cores, replaced.
//!
//! ```text
//! source.rs       a database that is read while nobody changes it      header.rs       what it is, and its URI
//! origin.rs       a database that is only read, whatever others do     held.rs         how both are closed
//! content.rs      its bytes, plain or packed                           reader.rs       a packed file, on all cores
//! replacement.rs  a new file in place of a name, or everything     object.rs       a target in an object store
//!                 as it was                                    patterns.rs     files that are named by patterns
//! names.rs        names of files                                   snapshot.rs     a WAL beside which others go on
//! holders.rs      who has a database open                           leftovers.rs    temporary files, and what is left of them
//! durable.rs      the steps by which a file takes a name, and a power loss between them
//! pages.rs        its pages, while others may write               bound.rs        SQL on it has an end
//! structure.rs    whether its pages make trees                         free_pages.rs  free pages, read as zeros
//! wal.rs          frames of a WAL
//! ```

pub(crate) mod bound;
pub(crate) mod content;
pub(crate) mod durable;
pub(crate) mod free_pages;
pub(crate) mod header;
pub(crate) mod held;
pub(crate) mod holders;
pub(crate) mod leftovers;
pub(crate) mod names;
pub(crate) mod object;
// Most of it is for copies.
#[cfg_attr(not(feature = "tune"), allow(dead_code))]
#[cfg(any(feature = "catalog", feature = "tune"))]
pub(crate) mod origin;
// Most of it is for reports.
#[cfg_attr(not(feature = "advise"), allow(dead_code))]
pub(crate) mod pages;
#[cfg(any(feature = "catalog", feature = "ingest"))]
pub(crate) mod patterns;
pub(crate) mod reader;
pub(crate) mod replacement;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod structure;
mod wal;
