//! The errors, in words that say what went wrong, where and what to do.

use std::io;

use crate::seek_table::Frame;

/// Result of an archive operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed archive operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file does not begin like a zstd file.
    #[error("not an archive (not a zstd file)")]
    NotZstd,
    /// A zstd file, but nothing at its end says where its frames are.
    #[error(
        "this zstd file has no seek table at its end: it was cut off, or is not in the seekable format; \
         decompress it with `zstd -d` and make a seekable one with `litepack archive create`"
    )]
    NoSeekTable,
    /// The seek table contradicts itself or the file.
    #[error(
        "the archive is damaged: seek table at byte {offset}: {why}; restore it from a backup, or \
         decompress it with `zstd -d` and make it anew with `litepack archive create`"
    )]
    SeekTable {
        /// Where the seek table is, or should be.
        offset: u64,
        /// The defect.
        why: String,
    },
    /// A frame is not what the seek table says.
    #[error(
        "the archive is damaged: frame {number} at byte {offset}: {why}; restore it from a backup"
    )]
    Frame {
        /// The frame's number, counted from 0 as in the seek table.
        number: u32,
        /// Its byte offset in the archive.
        offset: u64,
        /// The defect.
        why: String,
    },
    /// The head of an encrypted archive is not what was written.
    #[error("the archive is damaged: its head: {why}; restore it from a backup")]
    Head {
        /// The defect.
        why: String,
    },
    /// It is encrypted, and there is no key.
    #[error("file is encrypted: give PRAGMA key")]
    NoKey,
    /// It is encrypted with another key.
    #[error("wrong key")]
    WrongKey,
    /// There is a key, and it is not encrypted.
    #[error("the file is not encrypted: open it without a key")]
    NotEncrypted,
    /// The file uses something that this version does not know.
    #[error("the archive needs a newer Litepack: {0}")]
    Unsupported(String),
    /// A limit of the format, or of ours.
    #[error("invalid settings of an archive: {0}")]
    Limit(String),
    /// The caller stopped the making of the archive.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn frame(frame: &Frame, why: impl Into<String>) -> Error {
        Error::Frame {
            number: frame.number,
            offset: frame.offset,
            why: why.into(),
        }
    }
}

impl From<litepack_cipher::Error> for Error {
    fn from(error: litepack_cipher::Error) -> Error {
        use litepack_cipher::Error as Of;
        match error {
            Of::WrongKey => Error::WrongKey,
            Of::OutOfMemory(error) => error.into(),
            Of::Unsupported(what) => Error::Unsupported(what),
            Of::NotAuthentic => Error::Head {
                why: "the wrapped key is not authentic".into(),
            },
            error => Error::Io(io::Error::other(error.to_string())),
        }
    }
}

impl From<litepack_io::memory::OutOfMemory> for Error {
    fn from(error: litepack_io::memory::OutOfMemory) -> Error {
        Error::Io(error.into())
    }
}
