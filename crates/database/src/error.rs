//! Errors: what failed, where, and what to do.
//!
//! Methods that only Litepack's crates call are hidden from its documentation, here and in `job.rs`.

use std::io;
use std::path::{Path, PathBuf};

use litepack_engine::FileKind;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. [`Display`](std::fmt::Display) gives a text for people; the cause is the
/// [`source`](std::error::Error::source).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was stopped, by a `Stop`.
    #[error("interrupted; {kept}")]
    Interrupted {
        /// The state of the work so far.
        kept: &'static str,
    },
    /// Another program holds locks on the file.
    #[error("{} is in use by another program{}", path.display(), in_front(by))]
    InUse {
        /// The file.
        path: PathBuf,
        /// The programs that have it open, "python3 (process 4711)", as far as that can be told; or nothing.
        by: String,
    },
    /// The target exists, and the options do not allow to replace it.
    #[error("{} exists; ask for it to be replaced, or take another name", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// Source and target are the same file.
    #[error("{} is the source itself; use the function that replaces a file in place", path.display())]
    SameFile {
        /// The target.
        path: PathBuf,
    },
    /// The file is of another kind than the call needs.
    #[error("{why}")]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// Its kind.
        found: FileKind,
        /// This in words, with what to do.
        why: String,
    },
    /// The file is encrypted, and there is no key.
    #[error("{} is encrypted, and there is no key", path.display())]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// The file is encrypted with another key.
    #[error("wrong key for {}", path.display())]
    WrongKey {
        /// The file.
        path: PathBuf,
    },
    /// There is a key, and the file is not encrypted.
    #[error("{} is not encrypted: leave out the key", path.display())]
    NotEncrypted {
        /// The file.
        path: PathBuf,
    },
    /// A plain database is shorter than its header says.
    #[error("{} is truncated: {missing} bytes are missing", path.display())]
    Truncated {
        /// The database.
        path: PathBuf,
        /// How many bytes.
        missing: u64,
    },
    /// The new file does not hold what the old one does. Nothing was replaced.
    #[error("verification failed: {0}")]
    Mismatch(String),
    /// The call is not possible with these files or options.
    #[error("{0}")]
    Refused(String),
    /// A part of the work failed.
    #[error("{what}")]
    In {
        /// The part.
        what: String,
        /// The failure.
        source: Box<Error>,
    },
    /// A system call failed.
    #[error("{what}")]
    Io {
        /// The attempt, in words.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A packed file cannot be read or written.
    #[error("{what}")]
    Store {
        /// The attempt, in words.
        what: String,
        /// The store's error.
        source: litepack_store::Error,
    },
    /// An archive cannot be read or written.
    #[error("{what}")]
    Archive {
        /// The attempt, in words.
        what: String,
        /// The archive's error.
        source: litepack_archive::Error,
    },
    /// SQLite failed.
    #[cfg(feature = "rusqlite")]
    #[error("{what}: {error}")]
    Sqlite {
        /// The attempt, in words.
        what: String,
        /// SQLite's error.
        error: rusqlite::Error,
    },
}

impl Error {
    /// A stop that came before anything was changed.
    #[doc(hidden)]
    pub fn interrupted() -> Error {
        Error::Interrupted {
            kept: "nothing was changed",
        }
    }

    /// The file is in use, by whom if that can be told.
    #[cfg(feature = "rusqlite")]
    #[doc(hidden)]
    pub fn in_use(path: &Path) -> Error {
        let real = path.canonicalize();
        Error::InUse {
            path: path.to_owned(),
            by: crate::names::holders::of(real.as_deref().unwrap_or(path)),
        }
    }

    /// Whether the call was stopped.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Error::Interrupted { .. })
    }

    /// The same error, for a call that keeps what it did before it was interrupted.
    #[doc(hidden)]
    pub fn keeping(self, kept: &'static str) -> Error {
        if self.is_interrupted() {
            Error::Interrupted { kept }
        } else {
            self
        }
    }

    /// SQLite's error in terms of what the user asked for.
    #[cfg(feature = "rusqlite")]
    #[doc(hidden)]
    pub fn of_sqlite(path: &Path, error: rusqlite::Error) -> Error {
        // SQLite says no more than that it is locked; a function of ours says why.
        let says_more = matches!(&error, rusqlite::Error::SqliteFailure(_, Some(words)) if !words.contains(" is locked"));
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
                if !says_more =>
            {
                Error::in_use(path)
            }
            Some(rusqlite::ErrorCode::OperationInterrupted) => Error::interrupted(),
            // SQLite does not know that it was damage.
            Some(rusqlite::ErrorCode::SystemIoFailure) => Error::Sqlite {
                what: format!(
                    "{}: if it is a packed database, `litepack check` says whether it is damaged, and where",
                    path.display()
                ),
                error,
            },
            _ => Error::Sqlite {
                what: path.display().to_string(),
                error,
            },
        }
    }

    /// The error and all below it in one line.
    #[doc(hidden)]
    pub fn in_one_line(&self) -> String {
        let mut line = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            line += &format!(": {error}");
            next = error.source();
        }
        line
    }
}

/// Puts words about what was tried before an error.
pub trait Context<T> {
    /// `what` in words.
    fn context(self, what: &str) -> Result<T>;

    /// The same, made when it is needed.
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T>;
}

/// An error that says in itself what failed, but not where.
pub trait Cause {
    /// The same with words about what was tried.
    fn explained(self, what: String) -> Error;
}

impl Cause for Error {
    fn explained(self, what: String) -> Error {
        match self {
            // Where that was does not matter.
            Error::Interrupted { .. } => self,
            error => Error::In {
                what,
                source: Box::new(error),
            },
        }
    }
}

impl Cause for io::Error {
    fn explained(self, what: String) -> Error {
        match self.kind() {
            io::ErrorKind::Interrupted => Error::interrupted(),
            _ => Error::Io { what, source: self },
        }
    }
}

impl Cause for litepack_store::Error {
    fn explained(self, what: String) -> Error {
        match self.is_interrupted() {
            true => Error::interrupted(),
            false => Error::Store { what, source: self },
        }
    }
}

impl Cause for litepack_archive::Error {
    fn explained(self, what: String) -> Error {
        match self {
            litepack_archive::Error::Stopped => Error::interrupted(),
            source => Error::Archive { what, source },
        }
    }
}

#[cfg(feature = "rusqlite")]
impl Cause for rusqlite::Error {
    fn explained(self, what: String) -> Error {
        match self.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => Error::interrupted(),
            _ => Error::Sqlite { what, error: self },
        }
    }
}

#[cfg(feature = "rusqlite")]
impl Cause for tempfile::PersistError {
    fn explained(self, what: String) -> Error {
        self.error.explained(what)
    }
}

impl<T, E: Cause> Context<T> for std::result::Result<T, E> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|error| error.explained(what.to_owned()))
    }

    fn with_context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| error.explained(what()))
    }
}

/// Ends a function with [`Error::Refused`] in these words.
#[macro_export]
macro_rules! refuse {
    ($($words:tt)*) => {
        return Err($crate::Error::Refused(format!($($words)*)))
    };
}
pub use refuse;

/// That a file which was looked at has lost its name, by which people know it, to another one.
pub fn replaced(shown: &Path) -> Error {
    Error::Refused(format!(
        "{} was replaced by another file meanwhile; try again",
        shown.display()
    ))
}

/// Puts a colon before words, if there are any.
fn in_front(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

/// The name of a file that is being written in messages.
pub fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The name of a file in messages.
pub fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_something_was_is_said_of_all_but_interruptions() {
        let refused: Result<()> = Err(Error::Refused("no".into()));
        let refused = refused.context("on one of many").unwrap_err();
        assert_eq!(refused.in_one_line(), "on one of many: no");
        let inner: Result<()> = Err(Error::interrupted());
        let outer = inner.context("on one of many").unwrap_err();
        assert!(outer.is_interrupted());
        let kept = outer.keeping("what was done is kept");
        assert_eq!(kept.to_string(), "interrupted; what was done is kept");
        let other = Error::Refused("no".into()).keeping("all");
        assert!(!other.is_interrupted());
    }

    /// It is no failure, in whichever layer it was noticed first.
    #[test]
    fn an_interruption_is_one_in_whatever_it_came() {
        let halted = || std::io::Error::from(litepack_io::interrupt::Interrupted);
        assert!(halted().explained(String::new()).is_interrupted());
        let by_store = litepack_store::Error::from(halted());
        assert!(by_store.explained(String::new()).is_interrupted());
        let by_sqlite = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
        let by_sqlite = rusqlite::Error::SqliteFailure(by_sqlite, None);
        assert!(by_sqlite.explained(String::new()).is_interrupted());
    }

    /// A full disk is said once, and with the name of the file.
    #[test]
    fn a_cause_is_said_once() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let what = || cannot_write(Path::new("app.packed"));
        let by_store: litepack_store::Error = full().into();
        let by_archive: litepack_archive::Error = full().into();
        for error in [
            by_store.explained(what()),
            by_archive.explained(what()),
            full().explained(what()),
        ] {
            let line = format!("cannot write app.packed: {}", full());
            assert_eq!(error.in_one_line(), line);
        }
    }
}
