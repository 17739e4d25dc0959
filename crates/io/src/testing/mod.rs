//! Storages for tests: in memory, watched call by call, and one that loses power. No shipped build compiles them.
//!
//! ```text
//! memory.rs    a file in memory
//! watched.rs   any storage, with something done before each call: counting it, failing it, changing the file
//! crashing.rs  a file in memory that remembers what was not synced
//! ```
//! The simulated disk under SQLite (`tests/simdisk`) is a VFS with names, locks and shared memory, and is not made of
//! these.

mod crashing;
mod memory;
mod watched;

pub use crashing::CrashingStorage;
pub use memory::MemoryStorage;
pub use watched::{Call, Watched};
