//! Journals and WALs that are known not to be there.
//!
//! In a rollback mode SQLite asks the VFS at the beginning of every read transaction whether a crashed writer has left a
//! journal, and whether there is a WAL. The system looks up two paths for that, a sixth of the time of reading one row.
//! Neither can have come since the VFS below was last asked, as long as the database is at the same commit:
//! - The journal of a packed database is a file only while a transaction over several databases commits, from before
//!   its pages are published until after (`files/journal.rs`). If its writer was killed before that, the database is what
//!   it was, and there is nothing to undo.
//! - A WAL is made after a commit that puts the database in WAL mode, and is gone before one that ends it.
//!
//! A journal that a killed writer left must not outlive the next commit, which it would undo in part. So whoever is
//! about to write, and was answered from here, asks the VFS below after all ([`KnownAbsent::write_begins`]).
//!
//! What is known belongs to one handle: another one may have another file under the same name, after the file was
//! replaced. So names are told apart by their addresses, which SQLite keeps as long as the handle is open.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockWriteGuard};

use litepack_store::{FileUuid, JOURNAL_SUFFIX, WAL_SUFFIX};

/// The names of open handles, by address.
#[derive(Debug, Default)]
struct Names(RwLock<HashMap<usize, Name>>);

/// Those of this process.
static NAMES: LazyLock<Names> = LazyLock::new(Names::default);

#[derive(Debug)]
struct Name {
    text: CString,
    kind: Kind,
    known: Arc<Known>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Journal,
    Wal,
}

/// What is known for one handle. SQLite uses a handle in one thread at a time.
#[derive(Debug, Default)]
struct Known {
    /// A read transaction is running, at the commit that the rest is known of.
    is_reading: AtomicBool,
    /// No file of this name is there: journal, WAL.
    is_absent: [AtomicBool; 2],
    /// This transaction was told so of the journal, and nobody looked.
    is_assumed: AtomicBool,
}

/// The commit of a file.
type Commit = (FileUuid, u64);

/// What one handle knows of its journal and its WAL.
#[derive(Debug)]
pub(crate) struct KnownAbsent {
    names: &'static Names,
    addresses: [usize; 2],
    known: Arc<Known>,
    commit: Option<Commit>,
}

impl KnownAbsent {
    /// For a database at this path. `journal` is the address of the journal's name, behind which that of the WAL
    /// follows.
    pub(crate) fn new(path: &CStr, journal: usize) -> KnownAbsent {
        Self::among(&NAMES, path, journal)
    }

    fn among(names: &'static Names, path: &CStr, journal: usize) -> KnownAbsent {
        let known = Arc::new(Known::default());
        let mut address = journal;
        let addresses =
            [(Kind::Journal, JOURNAL_SUFFIX), (Kind::Wal, WAL_SUFFIX)].map(|(kind, suffix)| {
                let text = [path.to_bytes(), suffix.as_bytes()].concat();
                let at = address;
                address += text.len() + 1;
                let name = Name {
                    text: CString::new(text).unwrap_or_default(),
                    kind,
                    known: Arc::clone(&known),
                };
                names.write().insert(at, name);
                at
            });
        KnownAbsent {
            names,
            addresses,
            known,
            commit: None,
        }
    }

    /// A read transaction of a rollback mode begins at this commit, under a SHARED lock.
    pub(crate) fn read_begins(&mut self, commit: Commit) {
        if self.commit != Some(commit) {
            self.forget();
            self.commit = Some(commit);
        }
        self.known.is_assumed.store(false, Ordering::Relaxed);
        self.known.is_reading.store(true, Ordering::Relaxed);
    }

    /// The lock is gone.
    pub(crate) fn read_ends(&self) {
        self.known.is_reading.store(false, Ordering::Relaxed);
    }

    /// The handle has got the right to write. True if SQLite was told that there is no journal, and nobody looked.
    pub(crate) fn write_begins(&mut self) -> bool {
        self.read_ends();
        self.forget();
        self.known.is_assumed.swap(false, Ordering::Relaxed)
    }

    fn forget(&mut self) {
        self.commit = None;
        for is_absent in &self.known.is_absent {
            is_absent.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for KnownAbsent {
    fn drop(&mut self) {
        let mut names = self.names.write();
        for address in self.addresses {
            // A VFS above ours may have given the same name to several handles.
            let is_ours = |name: &Name| Arc::ptr_eq(&name.known, &self.known);
            if names.get(&address).is_some_and(is_ours) {
                names.remove(&address);
            }
        }
    }
}

impl Names {
    /// The map is consistent between any two statements that touch it, also where a panic ended one.
    fn write(&self) -> RwLockWriteGuard<'_, HashMap<usize, Name>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, name: &CStr, ask: impl FnOnce(Kind, &Known) -> T) -> Option<T> {
        // Not worth waiting for: the VFS below can be asked instead.
        let names = self.0.try_read().ok()?;
        let found = names.get(&name.as_ptr().addr())?;
        let is_reading = found.known.is_reading.load(Ordering::Relaxed);
        (is_reading && *found.text == *name).then(|| ask(found.kind, &found.known))
    }

    fn is_absent(&self, name: &CStr) -> bool {
        let answer = self.with(name, |kind, known| {
            let [journal, wal] = &known.is_absent;
            match kind {
                Kind::Wal => wal.load(Ordering::Relaxed),
                Kind::Journal => {
                    let is_absent = journal.load(Ordering::Relaxed);
                    known.is_assumed.fetch_or(is_absent, Ordering::Relaxed);
                    is_absent
                }
            }
        });
        answer.unwrap_or(false)
    }

    fn note_absent(&self, name: &CStr) {
        self.with(name, |kind, known| {
            let [journal, wal] = &known.is_absent;
            let is_absent = match kind {
                Kind::Journal => journal,
                Kind::Wal => wal,
            };
            is_absent.store(true, Ordering::Relaxed);
        });
    }
}

/// Whether it is known that there is no file of this name, which SQLite asks for now. Another thread that opens or
/// closes a file at this moment makes it unknown.
pub(crate) fn is_absent(name: &CStr) -> bool {
    NAMES.is_absent(name)
}

/// The VFS below says that there is no file of this name. Not noted if another thread opens or closes a file now.
pub(crate) fn note_absent(name: &CStr) {
    NAMES.note_absent(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: FileUuid = FileUuid([7; 16]);

    /// As SQLite lays them out: the path, no parameters, the journal, the WAL.
    const MEMORY: &[u8] = b"/a.db\0\0/a.db-lpjourn\0/a.db-lpw\0\0";

    /// A test's own, as other tests of this process open and close files meanwhile.
    fn table() -> &'static Names {
        Box::leak(Box::default())
    }

    fn names(memory: &[u8]) -> [&CStr; 3] {
        [0, 7, 21].map(|at| CStr::from_bytes_until_nul(&memory[at..]).unwrap())
    }

    #[test]
    fn what_was_looked_up_is_known_as_long_as_the_commit_is_the_same() {
        let memory = MEMORY.to_vec();
        let [path, journal, wal] = names(&memory);
        let table = table();
        let mut handle = KnownAbsent::among(table, path, journal.as_ptr().addr());
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
        let mut handle = KnownAbsent::among(table, path, journal.as_ptr().addr());
        handle.read_begins((UUID, 1));
        table.note_absent(journal);
        table.note_absent(wal);
        assert!(!handle.write_begins(), "somebody has just looked");
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
        let mut handle = KnownAbsent::among(table, path, journal.as_ptr().addr());
        handle.read_begins((UUID, 1));
        table.note_absent(journal);
        assert!(table.is_absent(journal));
        assert!(!table.is_absent(names(&theirs)[1]));
        drop(handle);
        assert!(!table.is_absent(journal), "the handle is closed");
    }
}
