//! Standard output, which has the data and nothing else, and lines for people on standard error. A reader that has seen
//! enough, as `head`, is no error: the work goes on, and the exit code says how it ended.
//!
//! All that the command prints goes through here. Names of files, tables and columns, and words of servers, may hold
//! anything, so nothing is printed that does something to a terminal; in JSON it is escaped.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use litepack::{harmless, harmless_json, harmless_line};

/// Writes text for people.
///
/// # Errors
/// If it cannot be written, because a disk is full.
pub fn print(text: impl Display) -> Result<()> {
    write(&harmless(&text.to_string()))
}

/// Writes JSON and ends the line.
///
/// # Errors
/// As [`print`].
pub fn json(json: impl Display) -> Result<()> {
    write(&(harmless_json(&json.to_string()) + "\n"))
}

fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to standard output"),
    }
}

/// Writes text and ends the line.
///
/// # Errors
/// As [`print`].
pub fn line(text: impl Display) -> Result<()> {
    print(format_args!("{text}\n"))
}

/// Writes a line to standard error. If it cannot be written, the exit code still says how the work ended, where
/// `eprintln` would panic. A name cannot make other lines.
pub fn to_stderr(text: impl Display) {
    let line = harmless_line(&text.to_string());
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// [`to_stderr`] with the arguments of `format`.
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::output::to_stderr(format_args!($($words)*))
    };
}
pub(crate) use tell;

/// A line for people about a file that could not be read, which the error may name itself.
pub fn failed(path: &str, error: &str) {
    match is_named(path, error) {
        true => tell!("litepack: {error}"),
        false => tell!("litepack: {path}: {error}"),
    }
}

/// Whether an error begins with the name of the file, or says it before its cause. A short name may be in any text.
fn is_named(path: &str, error: &str) -> bool {
    let begins = error.strip_prefix(path);
    begins.is_some_and(|rest| rest.starts_with([' ', ':'])) || error.contains(&format!(" {path}: "))
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn a_short_name_is_not_taken_for_a_part_of_a_word() {
        for (path, error) in [
            ("a", "cannot read a: No such file"),
            ("a b.log", "a b.log is neither a file nor a pipe"),
            ("http://h:1/x", "http://h:1/x: no answer"),
        ] {
            assert!(is_named(path, error), "{path}");
        }
        for (path, error) in [
            ("a", "cannot read from there"),
            ("a", "this is not a database"),
            ("-", "not UTF-8"),
            ("x", "http://h:1/x: no answer"),
        ] {
            assert!(!is_named(path, error), "{path}");
        }
    }
}
