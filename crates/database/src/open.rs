//! Connections that a program opens.

use std::path::Path;
use std::sync::Arc;

use litepack_cipher::Key;
use litepack_engine::FileKind;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::bytes::header;
use crate::bytes::unlocked::Unlocked;
use crate::error::{Cause, Context, cannot_read};
use crate::files::replacement::Replacement;
use crate::files::source::open_file;
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
    open_with_key(path, flags, None)
}

/// The same with the key of an encrypted file. One that is created is encrypted.
///
/// # Errors
/// [`Error::WrongKey`], [`Error::NotEncrypted`]; SQLite's.
pub fn open_with_key(
    path: impl AsRef<Path>,
    flags: OpenFlags,
    key: Option<&Arc<Key>>,
) -> Result<Connection> {
    register()?;
    let path = path.as_ref();
    expect_key(path, key)?;
    let cannot = || format!("cannot open {}", path.display());
    let name = match path.to_str() {
        Some(name @ ("" | ":memory:")) => name.to_owned(),
        _ => crate::uri(path).with_context(cannot)?,
    };
    let open = || Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI);
    let (opened, is_taken) = match key {
        Some(key) => litepack_sqlite::with_key(Arc::clone(key), open),
        None => (open(), true),
    };
    if opened.is_ok() && !is_taken {
        let path = path.to_owned();
        return Err(Error::NotEncrypted { path });
    }
    opened.map_err(|error| match cannot_create(path, flags, &error) {
        Some(why) => why.explained(cannot()),
        None => error.explained(cannot()),
    })
}

/// Says in words what SQLite would give a number for. A name that is no ordinary file's is left to SQLite, and so is a file
/// without a key: that may still come, by `PRAGMA key`.
fn expect_key(path: &Path, key: Option<&Arc<Key>>) -> Result<()> {
    if key.is_none() || !path.is_file() {
        return Ok(());
    }
    let (file, _) = open_file(path, false)?;
    let kind = header::kind(&file).with_context(|| cannot_read(path))?;
    match (kind, key) {
        (FileKind::Empty, _) => Ok(()),
        (_, key) => Unlocked::of(&file, kind, key, path).map(|_| ()),
    }
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
