//! The errors, in words that say what went wrong, where and what to do.

use std::io;

use litepack_io::interrupt::{Halt, Interrupted};
use litepack_io::memory::OutOfMemory;

use crate::format::offset::FileOffset;

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What damage of a page is of, until the one who reads it says which page it is.
pub(crate) const SOME_PAGE: &str = "page";

/// A failed store operation. The last commit stays intact after every one of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium failed, is full or read-only; or there is no memory ([`io::ErrorKind::OutOfMemory`]); or the work was
    /// interrupted ([`io::ErrorKind::Interrupted`]).
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file's content contradicts its checksums or itself.
    #[error(
        "the packed file is damaged: {0}; restore it from a backup, \
         or run `litepack check` to see what else is affected"
    )]
    Damaged(Damage),
    /// The file is not a packed file.
    #[error("not a packed file (no Litepack header)")]
    NotPacked,
    /// The file was written by a newer Litepack, in a way this one cannot read.
    #[error("the packed file needs a newer Litepack: {0}")]
    Unsupported(String),
    /// The file is encrypted, and there is no key.
    #[error("file is encrypted: give PRAGMA key")]
    NoKey,
    /// The file is encrypted with another key.
    #[error("wrong key")]
    WrongKey,
    /// There is a key, and the file is not encrypted.
    #[error(
        "the file is not encrypted: open it without a key, or encrypt it with `litepack rekey`"
    )]
    NotEncrypted,
    /// The file has another padding than the one that was asked for: both in bytes, 0 for none.
    #[error(
        "padding is {found} in this file, and not {wanted}: `litepack rekey --new-data-key --padding` makes it anew"
    )]
    OtherPadding {
        /// The file's.
        found: u32,
        /// The one that was asked for.
        wanted: u32,
    },
    /// Other writers kept reusing the space of what was being read.
    #[error("others kept changing the file while it was read; try again when they have finished")]
    Conflict,
    /// A limit of the file format is reached.
    #[error("a packed file cannot hold this: {0}")]
    Limit(&'static str),
}

/// Where in the file the damage is, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The structure: "page 17", "page map node", "commit record", ...
    pub what: String,
    /// Where in the packed file it is.
    pub offset: FileOffset,
    /// The defect.
    pub why: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}: {}", self.what, self.offset, self.why)
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Error {
        Error::Io(error.into())
    }
}

impl From<litepack_cipher::Error> for Error {
    fn from(error: litepack_cipher::Error) -> Error {
        match error {
            litepack_cipher::Error::WrongKey => Error::WrongKey,
            litepack_cipher::Error::Unsupported(what) => Error::Unsupported(what),
            litepack_cipher::Error::OutOfMemory(error) => error.into(),
            other => Error::Io(io::Error::other(other)),
        }
    }
}

impl From<Interrupted> for Error {
    fn from(interrupted: Interrupted) -> Error {
        Error::Io(interrupted.into())
    }
}

impl From<Halt> for Error {
    fn from(halt: Halt) -> Error {
        Error::Io(halt.into())
    }
}

impl Error {
    /// Whether the work was interrupted ([`litepack_io::interrupt`]).
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Error::Io(error) if error.kind() == io::ErrorKind::Interrupted)
    }

    pub(crate) fn damaged(
        what: impl Into<String>,
        offset: FileOffset,
        why: impl Into<String>,
    ) -> Error {
        Error::Damaged(Damage {
            what: what.into(),
            offset,
            why: why.into(),
        })
    }
}
