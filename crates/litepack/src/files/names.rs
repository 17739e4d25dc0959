//! Names of files: of what SQLite keeps beside a database, and two of one file.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use litepack_engine::FileKind;
use litepack_store::{JOURNAL_SUFFIX, WAL_SUFFIX};

use super::durable;
use crate::Result;
use crate::error::Context;

/// The endings of a database's name in the names of the files beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suffixes {
    pub(crate) wal: &'static str,
    pub(crate) journal: &'static str,
}

/// Beside a plain database.
pub(crate) const PLAIN: Suffixes = Suffixes {
    wal: "-wal",
    journal: "-journal",
};
/// Beside a packed one.
pub(crate) const PACKED: Suffixes = Suffixes {
    wal: WAL_SUFFIX,
    journal: JOURNAL_SUFFIX,
};

impl Suffixes {
    /// Of a database of this kind.
    pub(crate) fn of(kind: FileKind) -> Suffixes {
        match kind {
            FileKind::Packed => PACKED,
            _ => PLAIN,
        }
    }

    /// Of what may hold a part of the database.
    pub(crate) fn all(self) -> [&'static str; 2] {
        [self.wal, self.journal]
    }

    /// A file beside that would be applied to a database of this name: a WAL with something in it, or a journal that is to
    /// be played back. One that begins with a zero is a journal that was kept for the next transaction
    /// (<https://sqlite.org/pragma.html#pragma_journal_mode>).
    pub(crate) fn pending(self, database: &Path) -> Option<PathBuf> {
        let begins = |path: &Path| {
            // Opening a pipe would wait for its other end.
            let is_file = path.metadata().is_ok_and(|found| found.is_file());
            let mut first = [0];
            let file = is_file.then(|| File::open(path).ok()).flatten();
            match file.map(|mut file| file.read(&mut first)) {
                Some(Ok(0)) => None,
                Some(Ok(_)) => Some(first[0]),
                // Its content cannot be read.
                _ => path.symlink_metadata().is_ok().then_some(1),
            }
        };
        let wal = with_suffix(database, self.wal);
        if begins(&wal).is_some() {
            return Some(wal);
        }
        let journal = with_suffix(database, self.journal);
        (begins(&journal).is_some_and(|first| first != 0)).then_some(journal)
    }
}

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

/// Removes the WAL of a database, packed or not, and its index, if they are there. Whether there was one.
pub(crate) fn remove_wal(database: &Path) -> Result<bool> {
    let mut found = false;
    for suffix in [PLAIN.wal, PACKED.wal, "-shm"] {
        let beside = with_suffix(database, suffix);
        match durable::remove(&beside) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => {
                removed.with_context(|| format!("cannot remove {}", beside.display()))?;
                found = true;
            }
        }
    }
    Ok(found)
}
