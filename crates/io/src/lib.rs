//! What the other crates stand on. Nothing in here knows SQLite, packed files or archives.
//!
//! ```text
//! memory.rs   fallible allocation, and when to give up
//! ```
#![forbid(unsafe_code)]

pub mod memory;
