//! The errors, in words that say what went wrong, where and what to do.
//!
//! A `url` in an error is for people: without user, password and query, as these can be secrets.

use std::io;

/// Result of reading from a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A file on a server that could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting or the URL is not valid.
    #[error("{0}")]
    Settings(String),
    /// The server answers with the whole file.
    #[error(
        "{url}: the server sends the whole file when asked for a part of it, and it is not fetched whole; \
         download it, or put it on a server that supports range requests"
    )]
    NoRanges {
        /// Where.
        url: String,
    },
    /// Nothing in the answer tells one version of the file from another.
    #[error(
        "{url}: the server sends neither a strong ETag nor Last-Modified, so a change of the file could not be noticed; \
         download it, or let the server send one of them"
    )]
    NoVersion {
        /// Where.
        url: String,
    },
    /// The file is another one than when it was opened.
    #[error("{url}: the file has changed since it was opened ({what}); open it again")]
    Changed {
        /// Where.
        url: String,
        /// How that was seen.
        what: String,
    },
    /// There is nothing in it.
    #[error("{url}: the file is empty")]
    Empty {
        /// Where.
        url: String,
    },
    /// The server will not give the file.
    #[error("{url}: the server refused with status {status}{hint}")]
    Refused {
        /// Where.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The store's code for it, such as `AccessDenied`; empty if it does not say.
        code: String,
        /// The code, and what to do about it, if that is known.
        hint: String,
    },
    /// There are no credentials for an object store.
    #[error("{0}")]
    Credentials(String),
    /// There is an object of that name, and it is not to be replaced.
    #[error("{url} exists")]
    Exists {
        /// Where.
        url: String,
    },
    /// The caller stopped the work.
    #[error("interrupted")]
    Stopped,
    /// The file to upload could not be read.
    #[error("what is to be uploaded cannot be read: {0}")]
    Source(io::Error),
    /// The server led elsewhere, in a way that is not followed.
    #[error("{url}: {why}")]
    Redirect {
        /// Where.
        url: String,
        /// Why it was not followed.
        why: String,
    },
    /// The answer contradicts the request, or itself.
    #[error("{url}: the server's answer cannot be used: {why}")]
    Answer {
        /// Where.
        url: String,
        /// The defect.
        why: String,
    },
    /// There was no complete answer.
    #[error("{url}: no answer after {attempts} attempts, the last time because {why}")]
    Unreachable {
        /// Where.
        url: String,
        /// How often it was tried.
        attempts: u32,
        /// The last failure.
        why: String,
    },
    /// The handle was opened before the process forked, and its connections are the parent's.
    #[error("{url}: opened before this process was forked; open it again")]
    Forked {
        /// Where.
        url: String,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Refused {
                status: 404 | 410, ..
            } => io::ErrorKind::NotFound,
            Error::Refused {
                status: 401 | 403, ..
            }
            | Error::Credentials(_) => io::ErrorKind::PermissionDenied,
            Error::Exists { .. } => io::ErrorKind::AlreadyExists,
            Error::Stopped => io::ErrorKind::Interrupted,
            Error::Unreachable { .. } => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
