//! The cost of integers: in SQLite's records, in packed files, in encodings of other formats and in Parquet.
//!
//! Nothing here is shipped. `bin/bench-integers` measures and writes docs/integers.md; every part of it is
//! a module here, and its figures are told by [`report`].
#![forbid(unsafe_code)]

pub mod beside;
pub mod cases;
pub mod data;
pub mod encodings;
pub mod engines;
pub mod factors;
pub mod imports;
pub mod pages;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod profile;
pub mod report;
pub mod stats;
pub mod study;
