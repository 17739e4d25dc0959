//! The places of an open packed database in the table of what is open: how the cache names its pages, which journals are
//! its own, and which files need not be looked for.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use litepack_io::cache::FileId;
use litepack_store::{FileUuid, JOURNAL_SUFFIX, WAL_SUFFIX};

use super::absent::{Absent, Kind};
use super::names;
use super::open_files::{Inode, Key, KnownFile, OpenFiles, inode_of};
use super::stamp::FileStamp;
use super::wal_view::WalView;
use crate::c::api::Names;
use crate::host::file::Peek;

/// The commit of a file.
type Commit = (FileUuid, u64);

/// The entry of a packed database in the table, for as long as it is open.
#[derive(Debug)]
pub(crate) struct Entry {
    table: &'static OpenFiles,
    path: Vec<u8>,
    inode: Inode,
    names: Names,
    key: Option<Key>,
    file: Arc<FileId>,
    /// Where SQLite has the names of the journal and the WAL.
    addresses: [usize; 2],
    absent: Arc<Absent>,
    view: Arc<WalView>,
    /// The commit for which `absent` holds.
    commit: Option<Commit>,
}

impl Entry {
    /// For a database at this path, which this looks at. `journal` is the address of the journal's name, behind which that
    /// of the WAL follows.
    pub(crate) fn new(
        (path, peek): (&CStr, &Arc<Peek>),
        names: Names,
        uuid: FileUuid,
        journal: usize,
    ) -> Entry {
        let view = Arc::new(WalView::new(Arc::clone(peek)));
        Self::among(OpenFiles::of_process(), (path, view), names, uuid, journal)
    }

    fn among(
        table: &'static OpenFiles,
        (path, view): (&CStr, Arc<WalView>),
        names: Names,
        uuid: FileUuid,
        journal: usize,
    ) -> Entry {
        let path = path.to_bytes().to_vec();
        let stamp = FileStamp::of(&path);
        let inode = inode_of(stamp);
        table.add_database(&path, (inode, names), &view);
        // A file that is still empty has no identity of its own yet: it shares no pages.
        let known = inode.filter(|_| uuid != FileUuid([0; 16]));
        let key = known.map(|(device, number)| Key::Packed(device, number, uuid));
        let file = match key {
            Some(key) => table.open(key, |known| share(known, stamp)),
            None => Arc::new(FileId::unique()),
        };
        let absent = Arc::<Absent>::default();
        let mut address = journal;
        let addresses =
            [(Kind::Journal, JOURNAL_SUFFIX), (Kind::Wal, WAL_SUFFIX)].map(|(kind, suffix)| {
                let text = [&path, suffix.as_bytes()].concat();
                let at = address;
                address += text.len() + 1;
                let text = CString::new(text).unwrap_or_default();
                table.add_name(at, text, kind, (&absent, &view));
                at
            });
        Entry {
            table,
            path,
            inode,
            names,
            key,
            file,
            addresses,
            absent,
            view,
            commit: None,
        }
    }

    /// Whether a journal or WAL that was deleted may be back after a power loss.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.table.is_unsynced(&self.path)
    }

    /// The directory is synced.
    pub(crate) fn note_synced(&self) {
        self.table.set_unsynced(&self.path, false);
    }

    /// Whether another file has taken the name of this one. The files beside it belong to that.
    pub(crate) fn is_replaced(&self) -> bool {
        let found = inode_of(FileStamp::of(&self.path));
        self.inode.is_some() && found.is_some() && found != self.inode
    }

    /// Whether this is the file that was opened.
    pub(crate) fn is(&self, inode: Option<(u64, u64)>) -> bool {
        self.inode.is_some() && self.inode == inode
    }

    /// Whether another handle of this process has the file open, under whatever name.
    pub(crate) fn has_others(&self) -> bool {
        self.table.handles_of(self.inode) > 1
    }

    /// Whether there was a file of this name when this was made. It may be another than the one that was opened.
    pub(crate) fn has_file(&self) -> bool {
        self.inode.is_some()
    }

    /// Files of SQLite's usual names beside this one that hold something.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = CString> {
        names::strangers(&self.path)
    }

    /// The name of the file's pages in the cache.
    pub(crate) fn file(&self) -> FileId {
        *self.file
    }

    /// Whether the locks of the handle keep others from its WAL.
    pub(crate) fn wal_view(&self) -> &Arc<WalView> {
        &self.view
    }

    /// A read transaction of a rollback mode begins at this commit, under a SHARED lock.
    pub(crate) fn read_begins(&mut self, commit: Commit) {
        if self.commit != Some(commit) {
            self.absent.forget();
            self.commit = Some(commit);
        }
        self.absent.begin();
    }

    /// The lock is gone.
    pub(crate) fn read_ends(&self) {
        self.absent.end();
    }

    /// The handle has got the right to write. True if SQLite was told that there is no journal, without a look.
    pub(crate) fn write_begins(&mut self) -> bool {
        self.absent.end();
        self.absent.forget();
        self.commit = None;
        self.absent.was_assumed()
    }
}

/// The name for a file in this state.
fn share(known: Option<KnownFile<FileId>>, stamp: Option<FileStamp>) -> (FileId, Arc<FileId>) {
    match known {
        Some(KnownFile {
            name,
            shared: Some(open),
            ..
        }) => (name, open),
        Some(KnownFile { name, closed, .. }) if stamp.is_some() && closed == stamp => {
            (name, Arc::new(name))
        }
        _ => {
            let name = FileId::unique();
            (name, Arc::new(name))
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.table.close(key, FileStamp::of(&self.path));
        }
        let handle = (self.inode, self.names);
        self.table.remove_database(&self.path, handle);
        self.table.remove_names(self.addresses);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::beside::names::Beside;

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
        let (name, open) = share(None, stamp(1));
        let known = |closed, shared| {
            let known = KnownFile {
                name,
                closed,
                shared,
            };
            Some(known)
        };
        let open_elsewhere = share(known(None, Some(open)), stamp(2));
        assert_eq!(open_elsewhere.0, name);
        assert_eq!(share(known(stamp(2), None), stamp(2)).0, name);
        assert_ne!(share(known(stamp(2), None), stamp(1)).0, name);
        assert_ne!(share(known(None, None), None).0, name);
    }

    const UUID: FileUuid = FileUuid([7; 16]);

    /// As SQLite lays them out: the path, no parameters, the journal, the WAL.
    const MEMORY: &[u8] = b"/a.db\0\0/a.db-lpjourn\0/a.db-lpw\0\0";

    /// A test's own, as other tests of this process open and close files meanwhile.
    fn table() -> &'static OpenFiles {
        Box::leak(Box::default())
    }

    fn entry(table: &'static OpenFiles, path: &CStr, journal: &CStr) -> Entry {
        let place = (path, Arc::default());
        Entry::among(table, place, Names::Ours, UUID, journal.as_ptr().addr())
    }

    fn names(memory: &[u8]) -> [&CStr; 3] {
        [0, 7, 21].map(|at| CStr::from_bytes_until_nul(&memory[at..]).unwrap())
    }

    #[test]
    fn what_was_looked_up_is_known_as_long_as_the_commit_is_the_same() {
        let memory = MEMORY.to_vec();
        let [path, journal, wal] = names(&memory);
        let table = table();
        let mut handle = entry(table, path, journal);
        table.note_absent(journal);
        assert!(!table.is_absent(journal), "without a lock");
        for name in [journal, wal] {
            handle.read_begins((UUID, 1));
            assert!(!table.is_absent(name));
            table.note_absent(name);
            assert!(table.is_absent(name));
            handle.read_ends();
            assert!(!table.is_absent(name), "without a lock");
            handle.read_begins((UUID, 1));
            assert!(table.is_absent(name));
            handle.read_begins((UUID, 2));
            assert!(!table.is_absent(name), "another commit");
            table.note_absent(name);
            handle.read_begins((FileUuid([8; 16]), 2));
            assert!(!table.is_absent(name), "another file");
        }
        table.note_absent(journal);
        handle.write_begins();
        handle.read_begins((FileUuid([8; 16]), 2));
        assert!(!table.is_absent(journal), "it may have had one of its own");
    }

    #[test]
    fn a_writer_has_to_look_if_it_was_answered_from_here() {
        let memory = MEMORY.to_vec();
        let [path, journal, wal] = names(&memory);
        let table = table();
        let mut handle = entry(table, path, journal);
        handle.read_begins((UUID, 1));
        table.note_absent(journal);
        table.note_absent(wal);
        assert!(!handle.write_begins(), "the VFS was asked just now");
        for _ in 0..2 {
            handle.read_begins((UUID, 1));
            assert!(!table.is_absent(journal));
            table.note_absent(journal);
            handle.read_begins((UUID, 1));
            assert!(table.is_absent(journal));
            assert!(handle.write_begins());
        }
    }

    #[test]
    fn the_same_name_elsewhere_is_not_known() {
        let [ours, theirs] = [MEMORY.to_vec(), MEMORY.to_vec()];
        let [path, journal, _] = names(&ours);
        let table = table();
        let mut handle = entry(table, path, journal);
        handle.read_begins((UUID, 1));
        table.note_absent(journal);
        assert!(table.is_absent(journal));
        assert!(!table.is_absent(names(&theirs)[1]));
        drop(handle);
        assert!(!table.is_absent(journal), "the handle is closed");
    }

    #[test]
    fn the_view_of_a_wal_is_that_of_the_one_handle_with_its_name() {
        let [ours, theirs] = [MEMORY.to_vec(), MEMORY.to_vec()];
        let [path, journal, wal] = names(&ours);
        let table = table();
        let handle = entry(table, path, journal);
        let found = table.wal_view(wal).expect("it is known");
        assert!(Arc::ptr_eq(&found, &handle.view));
        assert!(table.wal_view(journal).is_none() && table.wal_view(names(&theirs)[2]).is_none());
        // A VFS above ours gives the name to others, too.
        let second = entry(table, path, journal);
        assert!(table.wal_view(wal).is_none());
        drop(second);
        let third = entry(table, path, journal);
        assert!(table.wal_view(wal).is_none());
        drop(handle);
        drop(third);
        let fourth = entry(table, path, journal);
        assert!(table.wal_view(wal).is_some());
        drop(fourth);
        assert!(table.wal_view(wal).is_none());
    }

    /// Also where it is not known which handle the WAL is of, or its name is at another address.
    #[test]
    fn it_is_known_that_a_wal_is_of_an_encrypted_database() {
        let [ours, theirs] = [MEMORY.to_vec(), MEMORY.to_vec()];
        let [path, journal, wal] = names(&ours);
        let table = table();
        let (first, second) = (entry(table, path, journal), entry(table, path, journal));
        assert!(!table.has_keys(wal));
        let keys = litepack_cipher::Keys::new(&[1; 32], &[2; 16]).unwrap();
        first.view.set_keys(Some(&Arc::new(keys)));
        let elsewhere = names(&theirs)[2];
        for wal in [wal, elsewhere] {
            assert!(table.wal_view(wal).is_none() && table.has_keys(wal));
        }
        drop((first, second));
        assert!(!table.has_keys(wal) && !table.has_keys(elsewhere));
    }

    /// Its index would not be mapped, either; but by then SQLite has opened the WAL.
    #[test]
    fn the_wal_beside_a_file_that_has_taken_the_name_is_anothers() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        let name = |suffix: &str| CString::new(format!("{}{suffix}", path.display())).unwrap();
        let (wal, journal) = (name(WAL_SUFFIX), name(JOURNAL_SUFFIX));
        let table = table();
        std::fs::write(&path, "one").unwrap();
        let handle = entry(table, &name(""), &journal);
        assert_eq!(table.beside(&wal), Some(Beside::Wal));
        // Beside it, so that it has another number.
        std::fs::write(path.with_extension("new"), "another").unwrap();
        std::fs::rename(path.with_extension("new"), &path).unwrap();
        assert!(handle.is_replaced());
        assert_eq!(table.beside(&wal), Some(Beside::OthersWal));
        assert_eq!(table.beside(&journal), None);
    }
}
