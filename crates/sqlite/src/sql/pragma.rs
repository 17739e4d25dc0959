//! `PRAGMA litepack_...`, answered alike for every database.

use std::time::Instant;

use litepack_io::interrupt::is_interrupted;

use super::keys;
use crate::c::codes::{Code, ERROR, INTERRUPT, MISUSE, OK};
use crate::failure::Failure;
use crate::files::Database;
use crate::options::{Pragma, from_pragma};
use crate::session::MAINTENANCE_FAILED;
use crate::session::patience::RETRY;

/// The message for a file that is on no server.
const NOT_REMOTE: &str = "this database is not read from a server";

/// Answers a pragma; `None` if it is none of ours. A failure that is to be logged goes to `log`.
pub(crate) fn pragma(
    database: &mut dyn Database,
    name: &str,
    value: Option<&[u8]>,
    log: &dyn Fn(&Failure),
) -> Option<(Code, String)> {
    if let Some(answer) = keys::pragma(database, name, value, log) {
        return Some(answer);
    }
    if let Some(why) = database.refused() {
        return Some((MISUSE, why.into()));
    }
    let value = value.map(String::from_utf8_lossy);
    let value = value.as_deref();
    if let Some(value) = value
        && name.eq_ignore_ascii_case("secure_delete")
    {
        database.secure_delete(value);
    }
    let of_file = |answer: Result<String, Failure>| match answer {
        Ok(answer) => (OK, answer),
        Err(failure) => {
            log(&failure);
            (failure.code, failure.why.into_owned())
        }
    };
    let of_setting = |answer: Result<String, String>| match answer {
        Ok(answer) => (OK, answer),
        Err(why) => (ERROR, format!("{}: {why}", name.to_ascii_lowercase())),
    };
    Some(match from_pragma(name, value)? {
        Err(why) => (ERROR, why),
        Ok(Pragma::Version) => (OK, super::VERSION.to_string()),
        Ok(Pragma::Get(name)) => of_setting(database.setting(name)),
        Ok(Pragma::Set(setting)) => of_setting(
            database
                .apply(setting)
                .map(|()| value.unwrap_or_default().trim().to_string()),
        ),
        Ok(Pragma::Maintain(seconds)) => maintain(database, seconds, log),
        Ok(Pragma::Info) => of_file(database.info()),
        Ok(Pragma::Check) => of_file(database.check()),
        Ok(Pragma::Split(root, parts)) => of_file(database.split(root, parts)),
        Ok(Pragma::Remote) => match database.remote() {
            Some(report) => (OK, report),
            None => (ERROR, NOT_REMOTE.into()),
        },
    })
}

/// Maintenance for so many seconds, or until nothing is left to do: 1 if there is more to do, else 0.
fn maintain(
    database: &mut dyn Database,
    seconds: Option<f64>,
    log: &dyn Fn(&Failure),
) -> (Code, String) {
    let begun = Instant::now();
    loop {
        if is_interrupted() {
            return (INTERRUPT, "interrupted".into());
        }
        match database.maintain(None) {
            Ok(false) => return (OK, "0".into()),
            Ok(true) => {}
            Err(failure) if failure.is_passing() => std::thread::sleep(RETRY),
            Err(failure) => {
                log(&failure);
                let why = failure.fixed_words().unwrap_or(MAINTENANCE_FAILED);
                return (failure.code, why.into());
            }
        }
        if seconds.is_some_and(|seconds| begun.elapsed().as_secs_f64() >= seconds) {
            return (OK, "1".into());
        }
    }
}
