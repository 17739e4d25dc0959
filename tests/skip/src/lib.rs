//! Owns how a test says that it is left out. No test ends early in silence: it calls [`skip`], which says so on the
//! terminal, and fails where continuous integration has to have what is missing. `make test` ends with the list.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file that the list is made of: one line for each test that was left out.
const LIST: &str = "LITEPACK_SKIPPED";

/// Where a thing that a test needs has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// On Linux, whose kernel has it.
    OnLinux,
    /// Where `CI` is set: `.ci/run` sees to it.
    InCi,
    /// Nowhere: a user who wants the test to run provides it.
    ByChoice,
}

/// Says that the running test, or a part of it, is left out. The caller returns.
///
/// # Panics
///
/// Where the thing should be there.
#[track_caller]
pub fn skip(expected: Expected, why: impl Display) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    if let Err(failure) = judge(expected, in_ci, cfg!(target_os = "linux")) {
        panic!("{failure}: {why}");
    }
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    // Not by `eprintln!`, which the test harness keeps to itself when a test passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os(LIST) {
        let file = OpenOptions::new().create(true).append(true).open(&list);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{LIST}={}: {error}", list.display()));
    }
}

fn judge(expected: Expected, in_ci: bool, on_linux: bool) -> Result<(), &'static str> {
    match expected {
        Expected::OnLinux if on_linux => Err("Linux has this, and it has to be tested there"),
        Expected::InCi if in_ci => Err("CI is set, and this has to be tested there"),
        Expected::OnLinux | Expected::InCi | Expected::ByChoice => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_should_be_there_may_not_be_left_out() {
        for (expected, in_ci, on_linux, fails) in [
            (Expected::InCi, true, false, true),
            (Expected::InCi, false, true, false),
            (Expected::OnLinux, false, true, true),
            (Expected::OnLinux, true, false, false),
            (Expected::ByChoice, true, true, false),
        ] {
            let judged = judge(expected, in_ci, on_linux);
            assert_eq!(judged.is_err(), fails, "{expected:?} {in_ci} {on_linux}");
        }
    }
}
