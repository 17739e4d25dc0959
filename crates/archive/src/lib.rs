//! Archives: a database in a file of zstd's seekable format, read in place. Of SQLite it knows where a
//! database has its page size.
//!
//! ```text
//! source.rs      all that was asked for           error.rs   what can go wrong
//! seek_table.rs  which frame is where
//! decode.rs      one frame, whole and verified     large.rs   frames too large for that, piece by piece
//! reader.rs      an opened archive                 ahead.rs   workers that decode ahead of scans
//! sizes.rs       whether frames are where it says   check.rs   what one is made of, and whether it is sound
//! create.rs      making one, on all processors     sealed.rs  encrypted ones: head, end, and what is sealed how
//! ```
//! An archive is read as if it were the database. Any `zstd -d` turns it back into the database, too. Files
//! of other writers are read whatever the sizes of their frames; what they claim is believed only as far as it costs
//! nothing: memory is bounded by the cache's budget and a few constants, and a frame that is not what the seek table
//! says is an error. docs/internals/archives.md argues the choices.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod ahead;
#[cfg(test)]
mod ahead_test;
mod check;
mod create;
mod decode;
mod error;
mod large;
mod reader;
mod sealed;
mod seek_table;
mod sizes;
mod source;

pub use check::{Info, Report};
pub use create::{
    Created, DEFAULT_FRAME_SIZE, DEFAULT_LEVEL, FRAME_SIZES, LEVELS, Settings, create,
};
pub use error::{Error, Result};
pub use litepack_cipher::Key;
pub use litepack_io::cache::{Cache, FileId};
pub use reader::{Archive, Options};
pub use seek_table::{Frame, SeekTable, begins_like_zstd, is_encrypted, page_size_without_key};
pub use sizes::Sizes;
