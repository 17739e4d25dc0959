//! Why a call failed: the one place where errors of the layers below become SQLite's numbers.

use std::borrow::Cow;
use std::io;

use litepack_store::Error;

use crate::c::api::Api;
use crate::c::codes::{
    BUSY, CANTOPEN, CORRUPT, Code, FULL, INTERRUPT, IOERR, IOERR_DATA, IOERR_NOMEM, IOERR_READ,
    MISUSE, NOMEM, NOTADB, READONLY,
};
use crate::host::error::host_code;

/// An error, for SQLite and for people.
#[derive(Debug)]
pub struct Failure {
    pub(crate) code: Code,
    /// What, where, and what to do. Empty where the code says it all.
    pub(crate) why: Cow<'static, str>,
    /// SQLite's error log has it already, or need not have it.
    pub(crate) told: bool,
}

impl Failure {
    /// One that goes to SQLite's error log.
    pub(crate) fn new(code: Code, why: impl Into<Cow<'static, str>>) -> Failure {
        Failure {
            code,
            why: why.into(),
            told: false,
        }
    }

    /// One for the caller alone.
    pub(crate) fn told(code: Code, why: impl Into<Cow<'static, str>>) -> Failure {
        Failure {
            code,
            why: why.into(),
            told: true,
        }
    }

    /// The connection was interrupted, in SQLite's word for it.
    pub(crate) fn interrupted() -> Failure {
        Failure::told(INTERRUPT, "interrupted")
    }

    /// Others are in the way, and may not be at the next try.
    pub(crate) fn is_passing(&self) -> bool {
        self.code == BUSY && self.why.is_empty()
    }

    /// The error's words, if they are one of the texts of this library.
    pub(crate) fn fixed_words(&self) -> Option<&'static str> {
        match self.why {
            Cow::Borrowed(why) if !why.is_empty() => Some(why),
            _ => None,
        }
    }

    /// An error of the store. The host's VFS has logged its own errors itself; without memory there is none for a text.
    pub(crate) fn of_store(error: &Error, doing: While) -> Failure {
        if error.is_interrupted() {
            return Failure::interrupted();
        }
        let code = code_of(error, doing);
        let told = match error {
            Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                return Failure::told(code, "out of memory");
            }
            // A text of its own: who asked for maintenance is told no other.
            Error::Io(_) if code == FULL => return Failure::told(code, DISK_FULL),
            Error::Io(error) => host_code(error).is_some(),
            _ => false,
        };
        Failure {
            code,
            why: error.to_string().into(),
            told,
        }
    }
}

/// The words for a full disk.
const DISK_FULL: &str = "the disk is full";

/// The result code of a failure, which goes to SQLite's error log if it has to.
pub(crate) fn report(api: Api, failure: &Failure) -> Code {
    if !failure.told {
        api.log(failure.code, &failure.why);
    }
    failure.code
}

/// The answer of the store, if it was read from.
pub(crate) fn read<T>(result: litepack_store::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of_store(&error, While::Reading))
}

/// The same if it was written to.
pub(crate) fn written<T>(result: litepack_store::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of_store(&error, While::Writing))
}

/// For a code of the host's, which has said what there is to say.
impl From<Code> for Failure {
    fn from(code: Code) -> Failure {
        Failure::told(code, "")
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::of_store(&error.into(), While::Writing)
    }
}

/// The work of a failed call. Damage met while reading is SQLite's "malformed"; while writing it must be an I/O error,
/// the only kind after which SQLite gives up the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum While {
    Reading,
    Writing,
}

/// The result code for an error.
pub(crate) fn code_of(error: &Error, doing: While) -> Code {
    match error {
        // An I/O error among those, too, after which SQLite gives up the transaction; the program is told SQLITE_NOMEM.
        Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => IOERR_NOMEM,
        _ if error.is_interrupted() => INTERRUPT,
        Error::Io(error) if is_full(error) => FULL,
        Error::Io(error) => host_code(error).unwrap_or(IOERR),
        Error::Damaged(_) if doing == While::Reading => CORRUPT,
        // Not IOERR_CORRUPTFS, of which SQLite makes CORRUPT before it looks whether to give up the transaction.
        Error::Damaged(_) => IOERR_DATA,
        Error::NotPacked | Error::NoKey | Error::WrongKey | Error::NotEncrypted => NOTADB,
        Error::Unsupported(_) => CANTOPEN,
        Error::OtherPadding { .. } => MISUSE,
        Error::Conflict if doing == While::Reading => BUSY,
        Error::Limit(_) => FULL,
        // The enum is open for the store's sake; a new kind is an I/O error until it has its code.
        _ => IOERR,
    }
}

/// The result code for an error of the system's own, in SQLite's sense of them.
pub(crate) fn code_of_system(error: &io::Error) -> Code {
    use io::ErrorKind;
    match error.kind() {
        _ if is_full(error) => FULL,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => READONLY,
        ErrorKind::OutOfMemory => IOERR_NOMEM,
        _ => IOERR,
    }
}

/// Whether the system has no room for what is written.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// The result code for an error while an archive is opened or read.
pub(crate) fn code_of_archive(error: &litepack_archive::Error) -> Code {
    use litepack_archive::Error;
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => NOMEM,
        Error::Io(error) if error.kind() == io::ErrorKind::Interrupted => INTERRUPT,
        Error::Stopped => INTERRUPT,
        Error::Io(error) => host_code(error).unwrap_or(IOERR_READ),
        Error::NotZstd | Error::NoSeekTable => NOTADB,
        Error::NoKey | Error::WrongKey | Error::NotEncrypted => NOTADB,
        Error::Head { .. } | Error::SeekTable { .. } | Error::Frame { .. } => CORRUPT,
        Error::Unsupported(_) | Error::Limit(_) => CANTOPEN,
        // As for the store's errors.
        _ => IOERR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::error::from_host;

    #[test]
    fn the_log_gets_what_the_host_has_not_logged() {
        let of = |error: io::Error| Failure::of_store(&error.into(), While::Writing);
        let host = of(from_host(FULL).unwrap_err());
        assert_eq!((host.code, host.told), (FULL, true));
        assert_eq!(host.fixed_words(), Some(DISK_FULL));
        let ours = of(io::Error::other("the checkpoint could not be committed"));
        assert_eq!((ours.code, ours.told), (IOERR, false));
        let memory = of(io::ErrorKind::OutOfMemory.into());
        assert_eq!((memory.code, memory.told), (IOERR_NOMEM, true));
        assert_eq!(memory.fixed_words(), Some("out of memory"));
    }

    #[test]
    fn host_codes_pass_through_the_archive() {
        use litepack_archive::Error;
        let from = |error: io::Error| code_of_archive(&Error::from(error));
        assert_eq!(from(from_host(FULL).unwrap_err()), FULL);
        assert_eq!(from(io::Error::other("x")), IOERR_READ);
        assert_eq!(from(io::ErrorKind::OutOfMemory.into()), NOMEM);
        assert_eq!(from(io::ErrorKind::Interrupted.into()), INTERRUPT);
        assert_eq!(code_of_archive(&Error::Stopped), INTERRUPT);
        assert_eq!(code_of_archive(&Error::NoSeekTable), NOTADB);
    }

    #[test]
    fn host_codes_pass_through_the_store() {
        let error = Error::from(from_host(FULL).unwrap_err());
        assert_eq!(code_of(&error, While::Writing), FULL);
        assert_eq!(code_of(&Error::Limit("x"), While::Writing), FULL);
        assert_eq!(code_of(&Error::Conflict, While::Reading), BUSY);
        assert_eq!(code_of(&Error::Conflict, While::Writing), IOERR);
        let error = Error::from(litepack_io::interrupt::Interrupted);
        assert_eq!(code_of(&error, While::Reading), INTERRUPT);
        let error = Error::from(litepack_io::memory::OutOfMemory);
        assert_eq!(code_of(&error, While::Writing), IOERR_NOMEM);
        assert_eq!(
            code_of(&Error::from(io::Error::other("x")), While::Reading),
            IOERR
        );
    }
}
