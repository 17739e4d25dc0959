//! The same SQL on a plain and on a packed database gives the same answers, files and errors.
//!
//! One program for all of them: each one more takes seconds to link.

mod copies;
mod failed_checkpoint;
mod features;
mod file_size;
mod fixtures;
mod half_statements;
mod journals;
mod moving;
mod opening;
mod past_one_gib;
mod random;
mod roundtrip;
mod roundtrip_data;
mod shrinking_checkpoint;
mod storage;
mod uncommitted;
