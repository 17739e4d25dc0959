//! Which files the process has open as packed databases: how the cache names their pages, and which journals are
//! theirs.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use litepack_store::{FileId, FileUuid, JOURNAL_SUFFIX, WAL_SUFFIX};

use crate::beside::registry::FileRegistry;
use crate::beside::stamp::FileStamp;
use crate::c::api::Names;

/// The packed databases that are open in this process, by path.
///
/// SQLite could tell the database of a journal (`sqlite3_database_file_object`), but only for names that it
/// made itself: a VFS above ours that makes its own would have it read past them.
static OPEN: LazyLock<Mutex<HashMap<Vec<u8>, Open>>> = LazyLock::new(Mutex::default);
/// Files by what the system and the file itself say they are.
static FILES: FileRegistry<FileKey, Named, FileId> = FileRegistry::new();

/// Device and number of a file, where the system has such things.
type Inode = Option<(u64, u64)>;
type FileKey = (u64, u64, FileUuid);

/// How the cache names a file's pages.
#[derive(Clone, Copy)]
struct Named {
    file: FileId,
    /// The file's state when a handle was last closed. In another one it gets another name when it is opened again:
    /// what the cache has of it would answer for what was lost since.
    closed: Option<FileStamp>,
}

/// Why a WAL cannot be opened that belongs to another file.
pub(crate) const REPLACED: &str = "the file was replaced while it was open; open it anew";

/// Why a file cannot be opened under a foreign name.
pub(crate) const FOREIGN_NAME: &str = "a VFS above makes its own names of files: a packed database has no WAL and no journal on disk then";

/// What is known of the packed databases that are open under one name.
#[derive(Default)]
struct Open {
    /// Which files they are, and under whose names the files beside are.
    handles: Vec<(Inode, Names)>,
    /// A journal or WAL was deleted, and it is not known whether for good.
    is_unsynced: bool,
}

fn open() -> MutexGuard<'static, HashMap<Vec<u8>, Open>> {
    // The map is consistent between any two statements that touch it.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a packed database holds in the process-wide tables for as long as it is open.
pub(crate) struct Identity {
    path: Vec<u8>,
    inode: Inode,
    names: Names,
    key: Option<FileKey>,
    file: Arc<FileId>,
}

impl Identity {
    pub(crate) fn new(path: &CStr, names: Names, uuid: FileUuid) -> Identity {
        let path = path.to_bytes().to_vec();
        let stamp = FileStamp::of(&path);
        let inode = inode_of(stamp);
        let mut all = open();
        let open = all.entry(path.clone()).or_default();
        open.handles.push((inode, names));
        drop(all);
        // A file that is still empty has no identity of its own yet: it shares no pages.
        let known = inode.filter(|_| uuid != FileUuid([0; 16]));
        let key = known.map(|(device, number)| (device, number, uuid));
        let file = match key {
            Some(key) => FILES.open(key, |known| share(known, stamp)),
            None => Arc::new(FileId::unique()),
        };
        Identity {
            path,
            inode,
            names,
            key,
            file,
        }
    }

    /// Whether a journal or WAL that was deleted may be back after a power loss.
    pub(crate) fn is_unsynced(&self) -> bool {
        open().get(&self.path).is_some_and(|open| open.is_unsynced)
    }

    /// The directory is synced.
    pub(crate) fn note_synced(&self) {
        if let Some(open) = open().get_mut(&self.path) {
            open.is_unsynced = false;
        }
    }

    /// Whether another file has taken the name of this one. What is beside it belongs to that.
    pub(crate) fn is_replaced(&self) -> bool {
        let found = inode_of(FileStamp::of(&self.path));
        self.inode.is_some() && found.is_some() && found != self.inode
    }

    /// Whether there was a file of this name when this was made. It may be another than the one that was opened.
    pub(crate) fn has_file(&self) -> bool {
        self.inode.is_some()
    }

    /// Files of SQLite's usual names beside this one that hold something. They are none of its own; a program without
    /// Litepack would write them into it.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = CString> {
        let of = |suffix: &str| [&self.path, suffix.as_bytes()].concat();
        let wal = Some(of("-wal")).filter(|wal| first_byte(wal).is_some());
        // One that begins with a zero was kept for the next transaction.
        let is_hot = |journal: &Vec<u8>| first_byte(journal).is_some_and(|first| first != 0);
        let journal = Some(of("-journal")).filter(is_hot);
        let found = wal.into_iter().chain(journal);
        found.filter_map(|name| CString::new(name).ok())
    }

    /// The name of the file's pages in the cache.
    pub(crate) fn file(&self) -> FileId {
        *self.file
    }
}

/// The name for a file in this state.
fn share(
    known: Option<(Named, Option<Arc<FileId>>)>,
    stamp: Option<FileStamp>,
) -> (Named, Arc<FileId>) {
    match known {
        Some((named, Some(open))) => (named, open),
        Some((named, None)) if stamp.is_some() && named.closed == stamp => {
            (named, Arc::new(named.file))
        }
        _ => {
            let file = FileId::unique();
            (Named { file, closed: None }, Arc::new(file))
        }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            let stamp = FileStamp::of(&self.path);
            FILES.rename(key, |named| named.closed = stamp);
        }
        let mut all = open();
        if let Some(Open { handles, .. }) = all.get_mut(&self.path) {
            let own = (self.inode, self.names);
            if let Some(at) = handles.iter().position(|handle| *handle == own) {
                handles.swap_remove(at);
            }
            if handles.is_empty() {
                all.remove(&self.path);
            }
        }
    }
}

/// What a file is to a packed database that is open in this process and still the file of its name.
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

/// What a file of this name is, if it belongs to such a database.
pub(crate) fn beside(name: &CStr) -> Option<Beside> {
    let (path, beside) = split(name)?;
    let all = open();
    let handles = &all.get(path)?.handles;
    let now = inode_of(FileStamp::of(path));
    let is = |(inode, names): &(Inode, Names)| match beside {
        // Beside a plain database that has taken the place of the packed one they are its own.
        Beside::ForeignJournal | Beside::ForeignWal => *inode == now && *names == Names::Unknown,
        _ => *inode == now,
    };
    match beside {
        _ if handles.iter().any(is) => Some(beside),
        Beside::Wal if now.is_some() => Some(Beside::OthersWal),
        _ => None,
    }
}

/// Whether this is a journal of such a database, or a WAL of one that may hold anything.
pub(crate) fn is_filled(beside: Beside, name: &CStr) -> bool {
    match beside {
        Beside::Journal | Beside::ForeignJournal => true,
        Beside::Wal | Beside::ForeignWal | Beside::OthersWal => {
            FileStamp::of(name.to_bytes()).is_none_or(|stamp| stamp.len > 0)
        }
    }
}

/// The deletion of this file may come to nothing in a power loss: [`Identity::is_unsynced`].
pub(crate) fn note_unsynced_name(name: &CStr) {
    if let Some((path, _)) = split(name)
        && let Some(open) = open().get_mut(path)
    {
        open.is_unsynced = true;
    }
}

/// The path of the database, and what a file of this name is to it.
fn split(name: &CStr) -> Option<(&[u8], Beside)> {
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

/// The first byte of a file, if it is one and can be read.
#[cfg(unix)]
fn first_byte(path: &[u8]) -> Option<u8> {
    use std::io::Read as _;
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
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

#[cfg(not(unix))]
fn first_byte(_: &[u8]) -> Option<u8> {
    None
}

fn inode_of(stamp: Option<FileStamp>) -> Inode {
    stamp.map(|stamp| (stamp.device, stamp.number))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn stamp(len: u64) -> Option<FileStamp> {
        Some(FileStamp {
            device: 1,
            number: 2,
            len,
            modified: Duration::ZERO,
            changed: Duration::ZERO,
        })
    }

    #[test]
    fn a_file_keeps_its_name_while_it_is_open_or_unchanged() {
        let (first, open) = share(None, stamp(1));
        let open_elsewhere = share(Some((first, Some(open))), stamp(2));
        assert_eq!(*open_elsewhere.1, first.file);
        let closed = Named {
            closed: stamp(2),
            ..first
        };
        assert_eq!(*share(Some((closed, None)), stamp(2)).1, first.file);
        assert_ne!(*share(Some((closed, None)), stamp(1)).1, first.file);
        let untold = Named {
            closed: None,
            ..first
        };
        assert_ne!(*share(Some((untold, None)), None).1, first.file);
    }
}
