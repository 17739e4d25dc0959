//! What can go wrong with a log.

use std::io;

use litepack_codec::DecodeError;
use litepack_io::memory::OutOfMemory;

use crate::binding::Refusal;

/// To do about damage of a log.
const CHECK_THE_DISK: &str = "check the disk, and restore a backup";
/// The same if its database is damaged, or an older copy.
const PUT_BACK: &str = "put the newer file back, or get out what is left with `litepack salvage`";

/// An error of a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file does not hold what was written, and not as a power loss leaves it.
    #[error("the log is damaged at byte {place}: {what}; {}", CHECK_THE_DISK)]
    Damaged {
        /// Offset in the file.
        place: u64,
        /// In words.
        what: &'static str,
    },
    /// The page of the database that a record stands on is damaged, or is another one.
    #[error("the log is damaged at byte {place}: {}; {}", on_page(*page), PUT_BACK)]
    NoBase {
        /// Offset of the record in the file.
        place: u64,
        /// The number of the page, from 1 on.
        page: u32,
    },
    /// The file is in the midst of a checkpoint from another log, or from a newer copy of this one.
    #[error(
        "the database is in the midst of a checkpoint, and this is not the WAL that it came from: {0}; put back both files as \
         they were copied together"
    )]
    NotNeeded(Refusal),
    /// It stands on its file, which cannot be asked.
    #[error("the WAL stands on its database, and cannot be read without it")]
    NoFile,
    /// There is no memory for it.
    #[error("out of memory")]
    OutOfMemory,
    /// A call that SQLite never makes on its WAL.
    #[error("not a write of SQLite's to its WAL: {0}")]
    Refused(&'static str),
}

impl Error {
    pub(crate) fn damaged(place: u64, what: &'static str) -> Error {
        Error::Damaged { place, what }
    }

    /// Where the log is damaged, how, and what to do about it; `None` of another error.
    pub fn damage(&self) -> Option<(u64, String, &'static str)> {
        match *self {
            Error::Damaged { place, what } => Some((place, what.to_owned(), CHECK_THE_DISK)),
            Error::NoBase { place, page } => Some((place, on_page(page), PUT_BACK)),
            _ => None,
        }
    }

    pub(crate) fn restless() -> Error {
        Error::Io(io::Error::other(
            "the database and its log change all the time",
        ))
    }

    /// Why a page at this place did not decode.
    pub(crate) fn of_decoding(error: DecodeError, place: u64) -> Error {
        match error {
            DecodeError::OutOfMemory => Error::OutOfMemory,
            _ => Error::damaged(place, "a page does not decode"),
        }
    }
}

fn on_page(page: u32) -> String {
    format!(
        "it stands on page {page} of the database, which is damaged, or gone as in a copy from before the log"
    )
}

/// For those who read a log as any other file.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Io(error) => error,
            Error::OutOfMemory => io::ErrorKind::OutOfMemory.into(),
            error => io::Error::other(error),
        }
    }
}

/// Not what a wrong key or a changed byte brings: that is damage, or the end of the log.
impl From<litepack_cipher::Error> for Error {
    fn from(error: litepack_cipher::Error) -> Error {
        match error {
            litepack_cipher::Error::OutOfMemory(_) => Error::OutOfMemory,
            error => Error::Io(io::Error::other(error)),
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Error {
        Error::OutOfMemory
    }
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
