//! Finds SQLite databases, says whose they are and whether those programs can open packed files, packs them in place and
//! undoes it: the command `litepack adopt` as a function, on Unix only.
//!
//! ```text
//! find.rs      databases below a path               programs.rs   whose they are, and how those open packed files
//! look.rs      what is known of one                 obstacle.rs   why one is not packed in place
//! synced.rs    folders that others copy             change.rs     packed, undone, and the original let go
//! ```
//! The original is kept beside the packed file until it is let go. Nothing is deleted before it is known that the same is
//! there in another file, or that the user has named it for that.
#![forbid(unsafe_code)]
#![cfg(unix)]

mod change;
mod find;
mod look;
mod obstacle;
mod programs;
mod synced;

pub use change::{Adopted, Undone, adopt, forget, undo};
pub use find::{Missed, Why, find};
pub use look::{Found, State, look};
pub use programs::Opens;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use litepack_database::names::with_suffix;

/// The end of the name of an original.
pub const KEPT: &str = ".litepack-original";

/// The name under which the original of a database is kept.
pub fn kept(database: &Path) -> PathBuf {
    with_suffix(database, KEPT)
}

/// The database that a file is the original of, if it has the name of one.
pub fn database_of(kept: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let name = kept.file_name()?.as_bytes().strip_suffix(KEPT.as_bytes())?;
    (!name.is_empty()).then(|| kept.with_file_name(OsStr::from_bytes(name)))
}
