//! A file as SQLite sees it, in safe Rust: what SQLite's calls mean to a packed database, an archive, a file on a
//! server, a rollback journal, a WAL, a temporary file, and a file that is only opened to say what is wrong with its URI.
//!
//! `ffi/methods.rs` is the C side of it, compiled once for each of them. A plain database has no file of ours: the host's
//! VFS opens it in SQLite's memory, and from then on we are not in the way.

pub(crate) mod anew;
pub(crate) mod archive;
pub(crate) mod company;
pub(crate) mod journal;
pub(crate) mod keyed;
pub(crate) mod keyed_reader;
pub(crate) mod log;
pub(crate) mod packed;
pub(crate) mod place;
pub(crate) mod refused;
pub(crate) mod remote;
pub(crate) mod sealed;
pub(crate) mod sealed_archive;
pub(crate) mod sealed_journal;
pub(crate) mod split;
pub(crate) mod temporary;
pub(crate) mod undecided;

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::Key;
use litepack_codec::Level;
use litepack_store::FileOffset;

pub(crate) use crate::c::around::Around;
use crate::c::codes::{Code, ERROR, IOCAP_IMMUTABLE, IOERR_NOMEM, MISUSE, NOMEM, OK, READONLY};
use crate::failure::{Failure, While};
use crate::host::file::{BusyHandler, HostFile};
use crate::options::{Name, Setting};
use crate::session::NOT_WRITTEN;

/// The methods of an open file, `sqlite3_io_methods`. Methods and values given here are right for a database that never
/// changes: SQLite takes no locks on it and looks for no journal and no WAL.
pub(crate) trait File {
    /// Which methods SQLite finds.
    const METHODS: Methods = Methods::WithFetch;
    /// Asked only where something is written.
    const SECTOR_SIZE: c_int = 4096;
    /// The properties of the medium that SQLite may expect.
    const CHARACTERISTICS: c_int = IOCAP_IMMUTABLE;
    /// Whether it may want to know what is around on its connection, before it is used.
    const LOOKS_AROUND: bool = false;
    /// Whether calls take memory that can be refused. A journal has to be read and written when memory is short.
    const TAKES_MEMORY: bool = true;
    /// Whether it is a temporary file whose content is sealed.
    const IS_SEALED: bool = false;

    /// Whether file controls are the host's to answer.
    const PASSES_ON: bool = false;

    /// Whether it wants to know now.
    fn looks_around(&self) -> bool {
        false
    }

    /// Whether a pragma that is about to give another key, or none, may take long: all of the file is written anew.
    fn is_rekeyed_anew(&mut self) -> bool {
        false
    }

    /// This is around at that moment.
    fn note_around(&mut self, _around: Around) {}

    /// This is around. An error if it cannot be used there.
    fn meet(&mut self, _around: &Around) -> Result<(), Failure> {
        Ok(())
    }

    /// Fills `buf` from `offset` and returns how many bytes there were; fewer than asked only at the end.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure>;

    /// The size in bytes.
    fn size(&mut self) -> Result<u64, Failure>;

    fn write(&mut self, _bytes: &[u8], _offset: u64) -> Result<(), Failure> {
        Err(READONLY.into())
    }

    fn truncate(&mut self, _size: u64) -> Result<(), Failure> {
        Err(READONLY.into())
    }

    /// `flags` are those of `xSync`.
    fn sync(&mut self, _flags: c_int) -> Result<(), Failure> {
        Ok(())
    }

    /// Raises the lock. Such a file is not changed, so every connection may have any lock.
    fn lock(&mut self, _level: c_int) -> Result<(), Failure> {
        Ok(())
    }

    /// SQLite is about to lower its lock; the host's is lowered after this, whatever happens here.
    fn unlocking(&mut self, _level: c_int) {}

    /// The host's file that locks, shared memory and what is unknown here are handed to. Must work after a panic.
    fn host(&self) -> Option<&HostFile> {
        None
    }

    /// SQLite has mapped the WAL index, or let go of it.
    fn index_mapped(&mut self, _mapped: bool) {}

    /// It is about to be mapped.
    fn index_mapping(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// SQLite is about to take or release these locks of the WAL index. An error if it may not.
    fn index_locking(&mut self, _locks: Range<c_int>, _flags: c_int) -> Result<(), Failure> {
        Ok(())
    }

    /// SQLite did not get what it was about to take.
    fn index_refused(&mut self) {}

    /// SQLite has taken them.
    fn index_locked(&mut self, _locks: Range<c_int>, _flags: c_int) -> Result<(), Failure> {
        Ok(())
    }

    /// A barrier between what SQLite reads and writes in the WAL index.
    fn index_barrier(&mut self) {}

    /// The database, for file controls; `None` for a file that is none.
    fn database(&mut self) -> Option<&mut dyn Database> {
        None
    }

    /// Closes the file. After a panic it is `poisoned`: its state is unknown, and all that may be done is to let go of
    /// the medium.
    fn close(self, _poisoned: bool) -> Code
    where
        Self: Sized,
    {
        OK
    }
}

/// How many bytes SQLite reads of a main database while it opens it. It never reads just these again.
pub(crate) const FIRST_READ: usize = 100;

/// Why a new database is refused that was attached with a key which SQLite does not hand on.
pub(crate) const KEY_NOT_HEARD: &str = "SQLite does not hand on the key of ATTACH ... KEY, and nothing is to be stored in \
     plain: call litepack_attach(file, schema, key), or say hexkey= in the URI";
/// Why one is refused if it cannot be told whether it is a copy of an encrypted database.
const UNCLEAR: &str = "it is not known with which key a new database is to be encrypted: the key of the one \
     beside it, or that it copies, was changed, or it is busy. Open both anew";

/// The error if it cannot be told whether a new file is to be encrypted.
fn unclear(around: &Around) -> Failure {
    match around.unclear {
        Some(NOMEM | IOERR_NOMEM) => {
            let error = io::Error::from(io::ErrorKind::OutOfMemory);
            Failure::of_store(&error.into(), While::Writing)
        }
        _ => Failure::new(MISUSE, UNCLEAR),
    }
}

/// The answer of an archive, and of a file on a server, to a key.
const NOT_ENCRYPTED: &str = "this file is not encrypted, and cannot be";

/// Which methods a file has, as far as SQLite asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Methods {
    /// Version 1.
    Basic,
    /// Version 3 without shared memory. `xFetch` is for `PRAGMA mmap_size`, which only takes a value from a file that
    /// has it.
    WithFetch,
    /// Version 3, without shared memory if the host's file has none. SQLite then has no WAL.
    AsHost,
}

/// The questions that pragmas, SQL functions and SQLite itself ask a database by file controls. Bodies given here are
/// the answers of a database that is never written.
pub(crate) trait Database {
    /// A setting's value; for one that means nothing here, words that say so.
    fn setting(&self, name: Name) -> Result<String, String>;

    /// Changes a setting, or says why it cannot be.
    fn apply(&mut self, setting: Setting) -> Result<(), String>;

    /// A report on the file, as JSON.
    fn info(&mut self) -> Result<String, Failure>;

    /// "ok", or a line for each piece of damage.
    fn check(&mut self) -> Result<String, Failure>;

    /// Why it is no database at all but was opened to say so; `None` for any other.
    fn refused(&self) -> Option<&str> {
        None
    }

    /// The same for a connection that has just opened it, and fails with these words.
    fn turn_away(&mut self) -> Option<(Code, String)> {
        self.refused().map(|why| (MISUSE, why.to_owned()))
    }

    /// Where a file on a server is and what reading it took so far, as JSON; `None` for any other.
    fn remote(&self) -> Option<String> {
        None
    }

    /// Whether it is encrypted, or will be with its first commit.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// The key that it was opened with.
    fn key(&self) -> Option<Arc<Key>> {
        None
    }

    /// Whether it is open, and SQLite may not know the size of its pages, which it reads while it opens a file: the key
    /// came later.
    fn has_unknown_pages(&self) -> bool {
        false
    }

    /// `PRAGMA key`: opens the database, or has one that is still empty encrypted.
    fn give_key(&mut self, _key: Arc<Key>) -> Result<(), Failure> {
        Err(Failure::told(ERROR, NOT_ENCRYPTED))
    }

    /// `PRAGMA rekey`: gives a database another key, its first one, or none.
    fn change_key(&mut self, _key: Option<Arc<Key>>) -> Result<(), Failure> {
        Err(Failure::told(ERROR, NOT_ENCRYPTED))
    }

    /// A step of maintenance at this level, or the file's own. False if nothing is left to do.
    fn maintain(&mut self, _level: Option<Level>) -> Result<bool, Failure> {
        Err(Failure::told(READONLY, NOT_WRITTEN))
    }

    /// SQLite says where in a transaction it is.
    fn event(&mut self, _event: Event) -> Result<(), Failure> {
        Ok(())
    }

    /// `PRAGMA secure_delete = value` for this database, the rest of which is SQLite's to do.
    fn secure_delete(&mut self, _value: &str) {}

    /// The connection that has the file open, by its address.
    fn joined_by(&mut self, _connection: usize) {}

    /// How the connection waits while others are in the way.
    fn waits_by(&mut self, _handler: BusyHandler) {}

    /// Rowids that cut the table with this root page into so many parts, as a JSON array.
    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure>;

    /// Where a page lies: (offset, stored bytes).
    fn place_of_page(&mut self, _page: PageNumber) -> Result<Option<(FileOffset, u64)>, Failure> {
        Ok(None)
    }
}

/// Where in a transaction SQLite is, by the file control that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// `SQLITE_FCNTL_SYNC`: the database is consistent.
    Sync,
    /// `SQLITE_FCNTL_COMMIT_PHASETWO`: the transaction is over.
    CommitPhaseTwo,
    /// `SQLITE_FCNTL_OVERWRITE`: `VACUUM` is about to write the whole database.
    Overwrite,
    CheckpointStart,
    CheckpointDone,
}
