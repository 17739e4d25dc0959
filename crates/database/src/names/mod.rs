//! Names of files: of what SQLite keeps beside a database, and two of one file.
//!
//! ```text
//! uri.rs        how a database is named to SQLite      printable.rs   names and text as they may be shown
//! ```

pub mod printable;
pub mod uri;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use litepack_engine::FileKind;
use litepack_store::{JOURNAL_SUFFIX, WAL_SUFFIX};

pub use litepack_replace::identity::is_same_file;
pub use litepack_replace::leftovers::with_suffix;
pub use litepack_replace::{holders, identity};

/// The endings of a database's name in the names of the files beside it.
#[derive(Clone, Copy, Debug)]
pub struct Suffixes {
    /// Of its WAL.
    pub wal: &'static str,
    /// Of its rollback journal.
    pub journal: &'static str,
}

/// Beside a plain database.
pub const PLAIN: Suffixes = Suffixes {
    wal: "-wal",
    journal: "-journal",
};
/// Beside a packed one.
pub const PACKED: Suffixes = Suffixes {
    wal: WAL_SUFFIX,
    journal: JOURNAL_SUFFIX,
};

impl Suffixes {
    /// Of a database of this kind.
    pub fn of(kind: FileKind) -> Suffixes {
        match kind {
            FileKind::Packed => PACKED,
            _ => PLAIN,
        }
    }

    /// Of what may hold a part of the database.
    pub fn all(self) -> [&'static str; 2] {
        [self.wal, self.journal]
    }

    /// A file beside that would be applied to a database of this name: a WAL with something in it, or a journal that is to
    /// be played back. One that begins with a zero is a journal that was kept for the next transaction
    /// (<https://sqlite.org/pragma.html#pragma_journal_mode>).
    pub fn pending(self, database: &Path) -> Option<PathBuf> {
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
