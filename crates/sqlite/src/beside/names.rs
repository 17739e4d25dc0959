//! Names of journals and WALs: ours, SQLite's own, and what a file of such a name is to a packed database.

use std::ffi::{CStr, CString};
use std::path::Path;

use litepack_store::{JOURNAL_SUFFIX, WAL_SUFFIX};

/// Why a WAL cannot be opened that belongs to another file.
pub(crate) const REPLACED: &str = "the file was replaced while it was open; open it anew";

/// Why a file cannot be opened under a foreign name.
pub(crate) const FOREIGN_NAME: &str = "a VFS above makes its own names of files: a packed database has no WAL and no journal on disk then";

/// Why the WAL of an encrypted database cannot be opened.
pub(crate) const UNKNOWN_KEYS: &str =
    "a VFS above makes its own names of files: an encrypted database has no WAL then";

/// The relation of a file to a packed database that is open in this process and still the file of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Journal,
    Wal,
    /// These have SQLite's usual names, made by a VFS above ours. Other connections use the other names.
    ForeignJournal,
    ForeignWal,
    /// A WAL of another file, which has taken the name of the one that is open.
    OthersWal,
}

/// The path of the database, and what a file of this name is to it.
pub(super) fn split(name: &CStr) -> Option<(&[u8], Beside)> {
    let suffixes = [
        (JOURNAL_SUFFIX, Beside::Journal),
        ("-journal", Beside::ForeignJournal),
        (WAL_SUFFIX, Beside::Wal),
        ("-wal", Beside::ForeignWal),
    ];
    suffixes.into_iter().find_map(|(suffix, beside)| {
        let path = name.to_bytes().strip_suffix(suffix.as_bytes())?;
        Some((path, beside))
    })
}

/// Whether this is a journal of such a database, or a WAL of one that may hold anything.
pub(crate) fn is_filled(beside: Beside, name: &CStr) -> bool {
    match beside {
        Beside::Journal | Beside::ForeignJournal => true,
        Beside::Wal | Beside::ForeignWal | Beside::OthersWal => {
            let found = path_of(name.to_bytes()).and_then(|path| path.metadata().ok());
            found.is_none_or(|found| found.len() > 0)
        }
    }
}

/// Files of SQLite's usual names beside the database of this path that hold something. They are none of its own; a
/// program without Litepack would write them into it.
pub(crate) fn strangers(path: &[u8]) -> impl Iterator<Item = CString> {
    let of = |suffix: &str| [path, suffix.as_bytes()].concat();
    let wal = Some(of("-wal")).filter(|wal| first_byte(wal).is_some());
    // One that begins with a zero was kept for the next transaction.
    let is_hot = |journal: &Vec<u8>| first_byte(journal).is_some_and(|first| first != 0);
    let journal = Some(of("-journal")).filter(is_hot);
    let found = wal.into_iter().chain(journal);
    found.filter_map(|name| CString::new(name).ok())
}

/// The first byte of a file, if it is one and can be read.
fn first_byte(path: &[u8]) -> Option<u8> {
    use std::io::Read as _;
    let path = path_of(path)?;
    // Opening a pipe would wait for its other end.
    let is_filled = |found: std::fs::Metadata| found.is_file() && found.len() > 0;
    let mut first = [0];
    if path.metadata().is_ok_and(is_filled) {
        std::fs::File::open(path)
            .ok()?
            .read_exact(&mut first)
            .ok()?;
        return Some(first[0]);
    }
    None
}

/// The path that SQLite gives this name to.
#[cfg(unix)]
pub(crate) fn path_of(name: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(Path::new(std::ffi::OsStr::from_bytes(name)))
}

/// The path that SQLite gives this name to: names are UTF-8 there
/// (<https://sqlite.org/c3ref/open.html>).
#[cfg(not(unix))]
pub(crate) fn path_of(name: &[u8]) -> Option<&Path> {
    std::str::from_utf8(name).ok().map(Path::new)
}
