//! Why a call failed.

use std::borrow::Cow;

use litepack_store::Error;

use crate::codes::{Code, While, code_of};

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

    /// What went wrong, if it is one of the texts of this library.
    pub(crate) fn fixed_words(&self) -> Option<&'static str> {
        match self.why {
            Cow::Borrowed(why) if !why.is_empty() => Some(why),
            _ => None,
        }
    }

    /// An error of the store. The host's VFS has logged what went wrong with its file.
    pub(crate) fn of_store(error: &Error, doing: While) -> Failure {
        Failure {
            code: code_of(error, doing),
            why: error.to_string().into(),
            told: matches!(error, Error::Io(_)),
        }
    }
}

/// For a code of the host's, which has said what there is to say.
impl From<Code> for Failure {
    fn from(code: Code) -> Failure {
        Failure::told(code, "")
    }
}
