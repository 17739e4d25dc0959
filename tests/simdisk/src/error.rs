//! The one error type of the simulated disk: a SQLite result code.

use std::fmt;

use rusqlite::ffi;

/// A SQLite (extended) result code other than `SQLITE_OK`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SimError(pub i32);

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", ffi::code_to_str(self.0), self.0)
    }
}

impl fmt::Debug for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SimError {}
