//! The errors. None has a key in it, or anything that was derived from one.

use litepack_io::memory::OutOfMemory;

/// Result of an operation with keys.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation with keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key is another one than the file's.
    #[error("wrong key")]
    WrongKey,
    /// There is a passphrase, and it is empty.
    #[error("a passphrase has at least one byte")]
    NoPassphrase,
    /// A raw key is not written as one.
    #[error("a raw key has 64 hexadecimal digits")]
    NotHexadecimal,
    /// The block asks for something that this version does not know, or refuses to do.
    #[error("{0}")]
    Unsupported(String),
    /// Sealed or signed bytes were changed since, or are something else.
    #[error("is not what was encrypted there")]
    NotAuthentic,
    /// A session has sealed as much as it may, or is another process's.
    #[error("the session is used up")]
    UsedUp,
    /// There is no memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// There are no random numbers.
    #[error("{0}")]
    System(String),
}

impl From<getrandom::Error> for Error {
    fn from(error: getrandom::Error) -> Error {
        Error::System(format!("no random numbers: {error}"))
    }
}
