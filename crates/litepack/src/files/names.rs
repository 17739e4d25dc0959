//! Names of files: those that SQLite makes of a database's, and two of one file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::error::Context;

/// The path with something appended to its last component, as SQLite names its files.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether both names mean one file.
#[cfg(unix)]
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| path.metadata().map(|m| (m.dev(), m.ino())).ok();
    id(a).is_some() && id(a) == id(b)
}

/// Whether both names mean one file.
#[cfg(not(unix))]
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| path.canonicalize().ok();
    id(a).is_some() && id(a) == id(b)
}

/// Removes the WAL of a database and its index, if they are there.
pub(crate) fn remove_wal(database: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let beside = with_suffix(database, suffix);
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", beside.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
