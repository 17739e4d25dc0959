//! The files that the process has open, in one table: packed databases by the path of each, the names of their journals
//! and WALs by address, and files by the marks that tell them apart, with their names in the cache.
//!
//! SQLite could tell the database of a journal (`sqlite3_database_file_object`), but only for names that it made itself:
//! a VFS above ours that makes its own would have it read past them.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::mem::discriminant;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use litepack_io::cache::FileId;
use litepack_store::FileUuid;

use super::absent::{Absent, Kind};
use super::names::{Beside, split};
use super::stamp::FileStamp;
use super::wal_view::WalView;
use crate::c::api::Names;

/// How many closed files of a kind are kept. One that is opened again soon keeps its name, so that its pages are found
/// in the cache.
const CLOSED: usize = 16;

/// The table of this process.
static OPEN: LazyLock<OpenFiles> = LazyLock::new(OpenFiles::default);

/// A table of what is open.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(RwLock<OpenTable>);

#[derive(Debug, Default)]
struct OpenTable {
    /// Packed databases, by path.
    databases: HashMap<Vec<u8>, Database>,
    /// Journals and WALs of handles, by the addresses of the names that SQLite keeps for them. Another handle may have
    /// another file under the same name, after the file was replaced.
    names: HashMap<usize, Name>,
    files: Vec<File>,
}

/// Device and number of a file, where the system has such things.
pub(super) type Inode = Option<(u64, u64)>;

/// The packed databases that are open under one name.
#[derive(Debug, Default)]
struct Database {
    /// Which files they are, and under whose names the files beside are.
    handles: Vec<(Inode, Names)>,
    /// What is known of each.
    views: Vec<(Inode, Weak<WalView>)>,
    /// A journal or WAL was deleted, and it is not known whether for good.
    is_unsynced: bool,
}

#[derive(Debug)]
struct Name {
    text: CString,
    kind: Kind,
    absent: Arc<Absent>,
    /// Those of the handles that have had the name at this address.
    views: Vec<Arc<WalView>>,
    /// How many handles have it beside one.
    others: usize,
}

/// The mark that tells a file from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A packed file, by device, number, and what it says itself.
    Packed(u64, u64, FileUuid),
    /// An archive, by what the file system says of it.
    Archive(FileStamp),
    /// A packed file on a server, by a hash of what names it, its version included.
    #[cfg_attr(not(feature = "remote"), allow(dead_code))]
    RemotePacked(u128),
    /// An archive there.
    #[cfg_attr(not(feature = "remote"), allow(dead_code))]
    RemoteArchive(u128),
}

#[derive(Debug)]
struct File {
    key: Key,
    /// How the cache names its pages.
    name: FileId,
    /// The file's state when a handle was last closed. In another one it gets another name when it is opened again:
    /// what the cache has of it would answer for what was lost since.
    closed: Option<FileStamp>,
    /// The data that its handles share.
    shared: Weak<dyn Any + Send + Sync>,
}

/// The data known of a file that is opened.
#[derive(Debug)]
pub(crate) struct KnownFile<Shared> {
    pub(crate) name: FileId,
    /// Its state when a handle was last closed.
    pub(crate) closed: Option<FileStamp>,
    /// The data that handles share now, if there are any.
    pub(crate) shared: Option<Arc<Shared>>,
}

impl OpenFiles {
    /// The table of this process.
    pub(super) fn of_process() -> &'static OpenFiles {
        &OPEN
    }

    fn read(&self) -> RwLockReadGuard<'_, OpenTable> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table is consistent between any two statements that touch it, also where a panic ended one.
    fn write(&self) -> RwLockWriteGuard<'_, OpenTable> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packed database is opened.
    pub(super) fn add_database(&self, path: &[u8], handle: (Inode, Names), view: &Arc<WalView>) {
        let mut table = self.write();
        let database = table.databases.entry(path.to_vec()).or_default();
        database.handles.push(handle);
        database.views.retain(|(_, view)| view.strong_count() > 0);
        let same = database
            .views
            .iter()
            .filter(|(inode, _)| *inode == handle.0);
        if let Some(other) = same.filter_map(|(_, other)| other.upgrade()).next() {
            view.share_synced(&other);
        }
        database.views.push((handle.0, Arc::downgrade(view)));
    }

    /// How many handles have this file.
    pub(super) fn handles_of(&self, inode: Inode) -> usize {
        let table = self.read();
        let handles = table.databases.values().flat_map(|known| &known.handles);
        handles.filter(|(other, _)| *other == inode).count()
    }

    /// It is closed.
    pub(super) fn remove_database(&self, path: &[u8], handle: (Inode, Names)) {
        let mut table = self.write();
        if let Some(Database { handles, .. }) = table.databases.get_mut(path) {
            if let Some(at) = handles.iter().position(|known| *known == handle) {
                handles.swap_remove(at);
            }
            if handles.is_empty() {
                table.databases.remove(path);
            }
        }
    }

    /// Whether a journal or WAL that was deleted may be back after a power loss.
    pub(super) fn is_unsynced(&self, path: &[u8]) -> bool {
        let table = self.read();
        let database = table.databases.get(path);
        database.is_some_and(|database| database.is_unsynced)
    }

    pub(super) fn set_unsynced(&self, path: &[u8], is_unsynced: bool) {
        if let Some(database) = self.write().databases.get_mut(path) {
            database.is_unsynced = is_unsynced;
        }
    }

    /// The relation of the file of this name to an open packed database, if it belongs to one.
    pub(super) fn beside(&self, name: &CStr) -> Option<Beside> {
        let (path, beside) = split(name)?;
        let table = self.read();
        let handles = &table.databases.get(path)?.handles;
        let now = inode_of(FileStamp::of(path));
        let is = |(inode, names): &(Inode, Names)| match beside {
            // Beside a plain database that has taken the place of the packed one they are its own.
            Beside::ForeignJournal | Beside::ForeignWal => {
                *inode == now && *names == Names::Unknown
            }
            _ => *inode == now,
        };
        match beside {
            _ if handles.iter().any(is) => Some(beside),
            Beside::Wal if now.is_some() => Some(Beside::OthersWal),
            _ => None,
        }
    }

    /// SQLite keeps this name at this address for a handle, of which this is known.
    pub(super) fn add_name(
        &self,
        at: usize,
        text: CString,
        kind: Kind,
        (absent, view): (&Arc<Absent>, &Arc<WalView>),
    ) {
        let names = &mut self.write().names;
        // A VFS above ours may give one name to several handles.
        let (mut views, others) = match names.remove(&at) {
            Some(name) => (name.views, name.others + 1),
            None => (Vec::new(), 0),
        };
        views.push(Arc::clone(view));
        let name = Name {
            text,
            kind,
            absent: Arc::clone(absent),
            views,
            others,
        };
        names.insert(at, name);
    }

    /// The view of the handle whose WAL has this name; `None` if that handle is not known.
    pub(super) fn wal_view(&self, name: &CStr) -> Option<Arc<WalView>> {
        let table = self.read();
        let found = table.names.get(&name.as_ptr().addr())?;
        let is_its = *found.text == *name && matches!(found.kind, Kind::Wal);
        match &*found.views {
            [view] if is_its => Some(Arc::clone(view)),
            _ => None,
        }
    }

    /// Whether a handle has keys whose journal or WAL has this name, at whatever address.
    pub(super) fn has_keys(&self, name: &CStr) -> bool {
        let table = self.read();
        let mut of_it = table.names.values().filter(|known| *known.text == *name);
        of_it.any(|known| known.views.iter().any(|view| view.keys().is_some()))
    }

    /// The views of handles of the database whose journal has this name: that of its own handle, if that is known, else
    /// those of all that have the file.
    fn journal_views(&self, name: &CStr) -> Vec<Arc<WalView>> {
        let table = self.read();
        let found = table.names.get(&name.as_ptr().addr());
        let its = found.filter(|found| *found.text == *name && matches!(found.kind, Kind::Journal));
        if let Some([view]) = its.map(|found| &*found.views) {
            return vec![Arc::clone(view)];
        }
        let Some((path, _)) = split(name) else {
            return Vec::new();
        };
        let now = inode_of(FileStamp::of(path));
        let views = table.databases.get(path).map(|database| &database.views);
        // Where no file has the name any more, it is that of the one that had it.
        let is_it = |(inode, _): &&(Inode, _)| now.is_none() || *inode == now;
        let of_file = views.into_iter().flatten().filter(is_it);
        of_file.filter_map(|(_, view)| view.upgrade()).collect()
    }

    /// The handle is closed.
    pub(super) fn remove_names(&self, addresses: [usize; 2]) {
        let names = &mut self.write().names;
        for address in addresses {
            match names.get_mut(&address) {
                // Of which of them it was is not known: nothing is known then.
                Some(name) if name.others > 0 => {
                    name.others -= 1;
                    name.absent = Arc::default();
                }
                _ => drop(names.remove(&address)),
            }
        }
    }

    fn with<T>(&self, name: &CStr, ask: impl FnOnce(Kind, &Absent) -> T) -> Option<T> {
        // Not worth waiting for: the VFS below can be asked instead.
        let table = self.0.try_read().ok()?;
        let found = table.names.get(&name.as_ptr().addr())?;
        let is_its = found.absent.is_reading() && *found.text == *name;
        is_its.then(|| ask(found.kind, &found.absent))
    }

    pub(super) fn is_absent(&self, name: &CStr) -> bool {
        let answer = self.with(name, |kind, absent| absent.is_absent(kind));
        answer.unwrap_or(false)
    }

    pub(super) fn note_absent(&self, name: &CStr) {
        self.with(name, |kind, absent| absent.note(kind));
    }

    /// The data that the handles of a file share, and its name in the cache, by `decide`, which gets the data known of
    /// the file. The file counts as open until the last handle lets go of what is shared.
    pub(super) fn open<Shared: Any + Send + Sync>(
        &self,
        key: Key,
        decide: impl FnOnce(Option<KnownFile<Shared>>) -> (FileId, Arc<Shared>),
    ) -> Arc<Shared> {
        let mut table = self.write();
        let files = &mut table.files;
        let at = files.iter().position(|file| file.key == key);
        let known = at.map(|at| files.remove(at)).map(|file| KnownFile {
            name: file.name,
            closed: file.closed,
            shared: file.shared.upgrade().and_then(|any| any.downcast().ok()),
        });
        let before = known.as_ref().map(|known| (known.name, known.closed));
        let (name, shared) = decide(known);
        let is_open = |file: &File| file.shared.strong_count() > 0;
        let is_closed =
            |file: &File| discriminant(&file.key) == discriminant(&key) && !is_open(file);
        let mut closed = files.iter().filter(|file| is_closed(file)).count();
        // The longest ago first.
        files.retain(|file| {
            let is_too_old = is_closed(file) && closed >= CLOSED;
            closed -= usize::from(is_too_old);
            !is_too_old
        });
        let of_before = before.filter(|(known, _)| *known == name);
        let shared_by_any: Arc<dyn Any + Send + Sync> = shared.clone();
        files.push(File {
            key,
            name,
            closed: of_before.and_then(|(_, closed)| closed),
            shared: Arc::downgrade(&shared_by_any),
        });
        shared
    }

    /// A handle of the file is closed, which is in this state.
    pub(super) fn close(&self, key: &Key, stamp: Option<FileStamp>) {
        let mut table = self.write();
        if let Some(file) = table.files.iter_mut().find(|file| file.key == *key) {
            file.closed = stamp;
        }
    }
}

/// The data that the handles of a file share, by `decide`, which gets the data known of the file.
pub(crate) fn open<Shared: Any + Send + Sync>(
    key: Key,
    decide: impl FnOnce(Option<KnownFile<Shared>>) -> (FileId, Arc<Shared>),
) -> Arc<Shared> {
    OPEN.open(key, decide)
}

/// The name of a file whose handles share nothing else, a new one if the file is not known.
#[cfg(feature = "remote")]
pub(crate) fn name(key: Key) -> Arc<FileId> {
    OPEN.open(key, by_name)
}

#[cfg(any(test, feature = "remote"))]
fn by_name(known: Option<KnownFile<FileId>>) -> (FileId, Arc<FileId>) {
    let name = known
        .as_ref()
        .map_or_else(FileId::unique, |known| known.name);
    let shared = known.and_then(|known| known.shared);
    (name, shared.unwrap_or_else(|| Arc::new(name)))
}

/// The relation of the file of this name to a packed database that is open in this process, if it belongs to one.
pub(crate) fn beside(name: &CStr) -> Option<Beside> {
    OPEN.beside(name)
}

/// The view of the handle whose WAL is opened by this name.
pub(crate) fn wal_view(name: &CStr) -> Option<Arc<WalView>> {
    OPEN.wal_view(name)
}

/// Whether the file of this name belongs to an encrypted database that is open.
pub(crate) fn is_of_encrypted(name: &CStr) -> bool {
    OPEN.has_keys(name)
}

/// The views of the handles that may commit with a journal of this name: one, or more where it is not known which.
pub(crate) fn journal_views(name: &CStr) -> Vec<Arc<WalView>> {
    OPEN.journal_views(name)
}

/// The deletion of this file may come to nothing in a power loss.
pub(crate) fn note_unsynced_name(name: &CStr) {
    if let Some((path, _)) = split(name) {
        OPEN.set_unsynced(path, true);
    }
}

/// Whether it is known that there is no file of this name, which SQLite asks for now. Another thread that opens or
/// closes a file at this moment makes it unknown.
pub(crate) fn is_absent(name: &CStr) -> bool {
    OPEN.is_absent(name)
}

/// The VFS below says that there is no file of this name. Not noted if another thread opens or closes a file now.
pub(crate) fn note_absent(name: &CStr) {
    OPEN.note_absent(name);
}

pub(super) fn inode_of(stamp: Option<FileStamp>) -> Inode {
    stamp.map(|stamp| (stamp.device, stamp.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_while_they_are_open_and_for_a_while_after() {
        let files = OpenFiles::default();
        let name = |file| files.open(Key::RemotePacked(file), by_name);
        let open = name(1);
        assert!(Arc::ptr_eq(&open, &name(1)), "shared");
        let second = *name(2);
        assert_ne!(second, *open, "another file");
        assert_eq!(*name(2), second, "closed, and opened again");
        let others: Vec<FileId> = (3..100).map(|file| *name(file)).collect();
        assert_eq!(*name(1), *open, "still open");
        assert_ne!(*name(2), second, "forgotten");
        assert_eq!(Some(&*name(99)), others.last(), "among the last");
        assert!(files.read().files.len() <= CLOSED + 2);
        let archive = *files.open(Key::RemoteArchive(99), by_name);
        assert_eq!(Some(&*name(99)), others.last(), "of another kind");
        assert_ne!(archive, *name(99));
    }
}
