//! Encrypted databases as programs use them: keys, what is refused, what is attached and copied, and that nothing is on
//! the disk in plain.
//!
//! One program for all of them: each one more takes seconds to link.

mod anew;
mod archive;
mod attached;
mod journal;
mod keys;
mod padding;
mod place;
mod remote;
mod temporary;
mod wal;
