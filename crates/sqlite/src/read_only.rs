//! A database that is only read, as SQLite sees it: bytes by offset, settings, reports. Nothing here knows where the
//! bytes come from.

use crate::codes::{Code, ERROR, MISUSE, OK, READONLY};
use crate::options::{Name, Pragma, Setting, from_pragma};

/// What went wrong, for SQLite and for people.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// What, where, and what to do.
    pub(crate) why: String,
}

/// Bytes that do not change while the database is open.
pub(crate) trait ReadOnly {
    /// Fills `buf` from `offset` and returns how many bytes there were; fewer than asked only at the end.
    fn read_at(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure>;

    /// The size of the database in bytes.
    fn size(&self) -> u64;

    /// A setting's value; for one that means nothing here, words that say so.
    fn setting(&self, name: Name) -> Result<String, String>;

    /// Changes a setting, or says why it cannot be.
    fn apply(&mut self, setting: Setting) -> Result<(), String>;

    /// A report on the file, as JSON.
    fn info(&mut self) -> Result<String, Failure>;

    /// "ok", or a line for each piece of damage.
    fn check(&mut self) -> Result<String, Failure>;

    /// Why it is no database at all but was opened to say so; `None` for any other.
    fn refused(&self) -> Option<&str> {
        None
    }

    /// Where a file on a server is and what reading it took so far, as JSON; `None` for any other.
    fn remote(&self) -> Option<String> {
        None
    }
}

/// What there is to say of a file that is on no server.
pub(crate) const NOT_REMOTE: &str = "this database is not read from a server";

/// What there is to say where something would write.
pub(crate) const NOT_WRITTEN: &str = "this database is read-only: nothing in it can be maintained";

/// Answers a pragma; `None` if it is none of ours.
pub(crate) fn pragma(
    file: &mut dyn ReadOnly,
    name: &str,
    value: Option<&str>,
) -> Option<(Code, String)> {
    let of_file = |answer: Result<String, Failure>| match answer {
        Ok(answer) => (OK, answer),
        Err(failure) => (failure.code, failure.why),
    };
    let of_setting = |answer: Result<String, String>| match answer {
        Ok(answer) => (OK, answer),
        Err(why) => (ERROR, format!("{}: {why}", name.to_ascii_lowercase())),
    };
    if let Some(why) = file.refused() {
        return Some((MISUSE, why.into()));
    }
    Some(match from_pragma(name, value)? {
        Err(why) => (ERROR, why),
        Ok(Pragma::Version) => (OK, crate::VERSION.to_string()),
        Ok(Pragma::Get(name)) => of_setting(file.setting(name)),
        Ok(Pragma::Set(setting)) => of_setting(
            file.apply(setting)
                .map(|()| value.unwrap_or_default().trim().to_string()),
        ),
        Ok(Pragma::Maintain(_)) => (READONLY, NOT_WRITTEN.into()),
        Ok(Pragma::Info) => of_file(file.info()),
        Ok(Pragma::Check) => of_file(file.check()),
        Ok(Pragma::Remote) => match file.remote() {
            Some(report) => (OK, report),
            None => (ERROR, NOT_REMOTE.into()),
        },
    })
}
