//! Connections that a program opens.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Cause, Context};
use crate::files::replacement::Replacement;
use crate::{Error, Result, register};

/// Opens a database for reading and writing: a packed file, or read-only an archive. A database that does not exist is
/// created, packed. A plain one stays plain.
///
/// `:memory:` and an empty path are what they are in SQLite: a new database in memory, and a temporary one. A file of
/// that name is `./:memory:`.
///
/// # Errors
/// SQLite's.
pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
    open_with_flags(path, OpenFlags::default())
}

/// The same with flags, such as `OpenFlags::SQLITE_OPEN_READ_ONLY`.
///
/// # Errors
/// SQLite's.
pub fn open_with_flags(path: impl AsRef<Path>, flags: OpenFlags) -> Result<Connection> {
    register()?;
    let path = path.as_ref();
    let cannot = || format!("cannot open {}", path.display());
    let name = match path.to_str() {
        Some(name @ ("" | ":memory:")) => name.to_owned(),
        _ => crate::uri(path).with_context(cannot)?,
    };
    let opened = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI);
    opened.map_err(|error| match cannot_create(path, flags, &error) {
        Some(why) => why.explained(cannot()),
        None => error.explained(cannot()),
    })
}

/// Why a database that is not there cannot be created, of which SQLite says only that it cannot be opened.
fn cannot_create(path: &Path, flags: OpenFlags, error: &rusqlite::Error) -> Option<Error> {
    let creates = flags.contains(OpenFlags::SQLITE_OPEN_CREATE);
    let failed = error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
    if !creates || !failed || path.exists() {
        return None;
    }
    Replacement::beside(path.to_owned(), false).err()
}
