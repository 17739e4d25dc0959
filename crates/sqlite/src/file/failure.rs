//! Why a call failed.

use std::borrow::Cow;
use std::io;

use litepack_store::Error;

use crate::codes::{BUSY, Code, INTERRUPT, While, code_of, host_code};

/// What went wrong, for SQLite and for people.
#[derive(Debug)]
pub(crate) struct Failure {
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

    /// What went wrong, if it is one of the texts of this library.
    pub(crate) fn fixed_words(&self) -> Option<&'static str> {
        match self.why {
            Cow::Borrowed(why) if !why.is_empty() => Some(why),
            _ => None,
        }
    }

    /// An error of the store. What the host's VFS answered it has logged itself; without memory there is none for a
    /// text.
    pub(crate) fn of_store(error: &Error, doing: While) -> Failure {
        if error.is_interrupted() {
            return Failure::interrupted();
        }
        let code = code_of(error, doing);
        let told = match error {
            Error::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                return Failure::told(code, "out of memory");
            }
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

/// For a code of the host's, which has said what there is to say.
impl From<Code> for Failure {
    fn from(code: Code) -> Failure {
        Failure::told(code, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{FULL, IOERR, IOERR_NOMEM, from_host};

    #[test]
    fn the_log_gets_what_the_host_has_not_logged() {
        let of = |error: io::Error| Failure::of_store(&error.into(), While::Writing);
        let host = of(from_host(FULL).unwrap_err());
        assert_eq!((host.code, host.told), (FULL, true));
        let ours = of(io::Error::other("the checkpoint could not be committed"));
        assert_eq!((ours.code, ours.told), (IOERR, false));
        let memory = of(io::ErrorKind::OutOfMemory.into());
        assert_eq!((memory.code, memory.told), (IOERR_NOMEM, true));
        assert_eq!(memory.fixed_words(), Some("out of memory"));
    }
}
