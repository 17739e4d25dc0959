//! The VFS below ours: its names, its files, and the words of the WAL index in its shared memory.

pub(crate) mod cold_prefetch;
pub(crate) mod error;
#[allow(unsafe_code)]
pub(crate) mod file;
#[allow(unsafe_code)]
pub(crate) mod name;
pub(crate) mod wal_index;
