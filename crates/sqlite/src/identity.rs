//! Which files the process has open as packed databases: how the cache names their pages, and which journals are
//! theirs.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use litepack_store::{FileId, FileUuid};

use crate::file_registry::FileRegistry;
use crate::file_stamp::FileStamp;

/// Names of the journals of packed databases that are open in this process.
///
/// SQLite could tell the database of a journal (`sqlite3_database_file_object`), but only for names that it
/// made itself: a VFS above ours that makes its own would have it read past them.
static JOURNALS: LazyLock<Mutex<HashMap<CString, Journal>>> = LazyLock::new(Mutex::default);
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

const JOURNAL_SUFFIX: &[u8] = b"-journal";
const WAL_SUFFIX: &[u8] = b"-wal";

/// What is known of the packed databases that are open under one name.
#[derive(Default)]
struct Journal {
    /// Which files they are.
    inodes: Vec<Inode>,
    /// A journal or WAL was deleted, and it is not known whether for good.
    is_unsynced: bool,
}

fn journals() -> MutexGuard<'static, HashMap<CString, Journal>> {
    // The map is consistent between any two statements that touch it.
    JOURNALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a packed database holds in the process-wide tables for as long as it is open.
pub(crate) struct Identity {
    journal: CString,
    inode: Inode,
    key: Option<FileKey>,
    file: Arc<FileId>,
}

impl Identity {
    pub(crate) fn new(path: &CStr, uuid: FileUuid) -> Identity {
        let mut journal = path.to_bytes().to_vec();
        journal.extend(JOURNAL_SUFFIX);
        let journal = CString::new(journal).unwrap_or_default();
        let stamp = FileStamp::of(path.to_bytes());
        let inode = inode_of(stamp);
        let mut names = journals();
        let named = names.entry(journal.clone()).or_default();
        named.inodes.push(inode);
        drop(names);
        // A file that is still empty has no identity of its own yet: it shares no pages.
        let known = inode.filter(|_| uuid != FileUuid([0; 16]));
        let key = known.map(|(device, number)| (device, number, uuid));
        let file = match key {
            Some(key) => FILES.open(key, |known| share(known, stamp)),
            None => Arc::new(FileId::unique()),
        };
        Identity {
            journal,
            inode,
            key,
            file,
        }
    }

    /// Whether a journal or WAL that was deleted may be back after a power loss.
    pub(crate) fn is_unsynced(&self) -> bool {
        let journals = journals();
        let named = journals.get(&self.journal);
        named.is_some_and(|named| named.is_unsynced)
    }

    /// The directory is synced.
    pub(crate) fn note_synced(&self) {
        if let Some(named) = journals().get_mut(&self.journal) {
            named.is_unsynced = false;
        }
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
            let stamp = FileStamp::of(database_of(&self.journal));
            FILES.rename(key, |named| named.closed = stamp);
        }
        let mut journals = journals();
        if let Some(Journal { inodes, .. }) = journals.get_mut(&self.journal) {
            if let Some(at) = inodes.iter().position(|inode| *inode == self.inode) {
                inodes.swap_remove(at);
            }
            if inodes.is_empty() {
                journals.remove(&self.journal);
            }
        }
    }
}

/// Whether this is the journal of a packed database that is open in this process and still the file of
/// that name.
pub(crate) fn is_packed_journal(name: &CStr) -> bool {
    let journals = journals();
    let Some(named) = journals.get(name) else {
        return false;
    };
    named
        .inodes
        .contains(&inode_of(FileStamp::of(database_of(name))))
}

/// Whether this is a WAL of such a database, and may hold anything.
pub(crate) fn is_filled_packed_wal(name: &CStr) -> bool {
    journal_beside(name).is_some_and(|journal| is_packed_journal(&journal))
        && FileStamp::of(name.to_bytes()).is_none_or(|stamp| stamp.len > 0)
}

/// The name of the journal for the database that has a WAL of this name.
fn journal_beside(wal: &CStr) -> Option<CString> {
    let path = wal.to_bytes().strip_suffix(WAL_SUFFIX)?;
    CString::new([path, JOURNAL_SUFFIX].concat()).ok()
}

/// The deletion of this file may come to nothing in a power loss: [`Identity::is_unsynced`].
pub(crate) fn note_unsynced_name(name: &CStr) {
    let journal = journal_beside(name);
    if let Some(named) = journals().get_mut(journal.as_deref().unwrap_or(name)) {
        named.is_unsynced = true;
    }
}

/// The path of the database that a journal of this name is for.
fn database_of(journal: &CStr) -> &[u8] {
    let path = journal.to_bytes().strip_suffix(JOURNAL_SUFFIX);
    path.unwrap_or_default()
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
