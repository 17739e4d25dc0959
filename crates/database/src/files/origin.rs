//! The user's database, which is only read: plain, packed or archived.
//!
//! Nothing is written beside it either. SQLite would make a `-shm` file for a database in WAL mode. When there is no
//! WAL, such a database is read without one, as if it could not change, and [`Origin::expect_unchanged`] says whether
//! that was so.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use litepack_cipher::Key;
use litepack_engine::FileKind;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::bytes::archive;
use crate::bytes::header;
use crate::bytes::pages::OpenFile;
use crate::bytes::unlocked::Unlocked;
use crate::bytes::unlocked::of_archive;
use crate::error::{Context, cannot_read, refuse};
use crate::files::held::Held;
use crate::files::rights::Rights;
use crate::files::source::{distrust, open_file, open_unlocked};
use crate::files::structure::expect_trees;
use crate::names::{Suffixes, with_suffix};
use crate::{Error, Job, Result};

/// The user's database.
pub struct Origin {
    file: Held,
    path: PathBuf,
    shown: PathBuf,
    kind: FileKind,
    before: Metadata,
    immutable: bool,
    unlocked: Option<Unlocked>,
}

/// The facts in the database's own header.
pub struct Facts {
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes of all pages that are in use.
    pub used: u64,
    /// The encoding of text.
    pub encoding: String,
    /// The mode of `PRAGMA auto_vacuum`.
    pub auto_vacuum: u8,
}

impl Origin {
    /// Opens a file, with the key of an encrypted one.
    pub fn open(shown: &Path, key: Option<&Arc<Key>>) -> Result<Origin> {
        let name = shown.display();
        let (file, path) = open_file(shown, false)?;
        let cannot = || cannot_read(shown);
        let kind = header::kind(&file).with_context(cannot)?;
        match kind {
            FileKind::Plain | FileKind::Packed => {}
            FileKind::Empty => refuse!("{name} is empty; there is no table in it"),
            // Says what is wrong with one that is no archive.
            FileKind::Zstd => drop(archive::open(&file).map_err(|error| of_archive(error, shown))?),
            FileKind::Other => refuse!("{name} is not a SQLite database, or an encrypted one"),
        }
        header::expect_whole(&file, kind, shown)?;
        let before = file.metadata().with_context(cannot)?;
        let unlocked = Unlocked::of(&file, kind, key, shown)?;
        let mut origin = Origin {
            file,
            path,
            shown: shown.to_owned(),
            kind,
            before,
            immutable: false,
            unlocked,
        };
        let is_wal = header::is_wal(&origin.file, kind, origin.unlocked.as_ref());
        let is_wal = is_wal.with_context(cannot)?;
        origin.immutable = is_wal && !origin.has_wal();
        Ok(origin)
    }

    /// Where it is.
    pub fn directory(&self) -> PathBuf {
        let parent = self.path.parent();
        parent.unwrap_or(Path::new(".")).to_owned()
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its name, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its kind.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// The file, to read its pages.
    pub fn opened(&self) -> OpenFile<'_> {
        OpenFile {
            file: &self.file,
            kind: self.kind,
            unlocked: self.unlocked.as_ref(),
            path: &self.path,
            shown: &self.shown,
        }
    }

    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.unlocked.is_some()
    }

    /// A connection that only reads it, and trusts nothing in the schema.
    pub fn connect(&self) -> rusqlite::Result<Connection> {
        open_unlocked(self.unlocked.as_ref(), || connect(&self.uri()))
    }

    /// Its length and permissions when it was opened.
    pub fn metadata(&self) -> &Metadata {
        &self.before
    }

    /// Who may do what with it.
    pub fn rights(&self) -> Result<Rights> {
        Rights::of(&self.file).with_context(|| cannot_read(&self.shown))
    }

    /// The name by which SQLite reads it.
    pub fn uri(&self) -> String {
        let immutable = match self.immutable {
            true => "&immutable=1",
            false => "",
        };
        let uri = crate::names::uri::of_path(&self.path);
        format!("{uri}?mode=ro&vfs=litepack{immutable}")
    }

    /// An error if the pages do not make trees, and SQL that goes through them would not come to an end.
    pub fn expect_trees(&self, job: &Job<'_>) -> Result<()> {
        let held = || {
            let connection = self.connect()?;
            // No other connection writes meanwhile.
            connection.execute_batch("BEGIN; PRAGMA main.schema_version")?;
            Ok(connection)
        };
        let _held = held().map_err(|error| self.explain(error))?;
        self.expect_trees_held(job, None)
    }

    /// The same, if a connection of the caller holds a lock.
    pub fn expect_trees_held(&self, job: &Job<'_>, until: Option<Instant>) -> Result<()> {
        expect_trees(self.opened(), job, until)
    }

    /// The facts in the database's own header.
    pub fn facts(&self, job: &Job<'_>) -> Result<Facts> {
        let facts = || {
            let connection = self.connect()?;
            let _interrupts = job.interrupts(&connection);
            let value = |pragma: &str| {
                let sql = format!("PRAGMA main.{pragma}");
                connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
            };
            // Reads the header, which pragmas alone do not.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            let page_size = value("page_size")?;
            let used = (value("page_count")? - value("freelist_count")?) * page_size;
            Ok(Facts {
                page_size: page_size as u32,
                used: used.try_into().unwrap_or(0),
                encoding: connection.query_row("PRAGMA encoding", [], |row| row.get(0))?,
                auto_vacuum: value("auto_vacuum")? as u8,
            })
        };
        facts().map_err(|error| self.explain(error))
    }

    /// An error if the database was written while it was read as if that could not be.
    pub fn expect_unchanged(&self) -> Result<()> {
        let name = self.shown.display();
        let now = self.file.metadata();
        let now = now.with_context(|| cannot_read(&self.shown))?;
        let same = now.len() == self.before.len()
            && now.modified().ok() == self.before.modified().ok()
            && !self.has_wal();
        if self.immutable && !same {
            refuse!("{name} was written while it was read; try again");
        }
        Ok(())
    }

    /// SQLite's error in terms of what the user asked for.
    pub fn explain(&self, error: rusqlite::Error) -> Error {
        let name = self.shown.display();
        let unwritable = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
        );
        for suffix in Suffixes::of(self.kind).all() {
            if unwritable && self.has_beside(suffix) {
                return Error::Refused(format!(
                    "{name} has changes in {name}{suffix} that must be applied first, which this command does not do; \
                     open it once with a program that can write it"
                ));
            }
        }
        Error::of_sqlite(&self.shown, error)
    }

    fn has_wal(&self) -> bool {
        self.has_beside(Suffixes::of(self.kind).wal)
    }

    fn has_beside(&self, suffix: &str) -> bool {
        let beside = with_suffix(&self.path, suffix).metadata();
        beside.is_ok_and(|found| found.len() > 0)
    }
}

/// A connection that only reads, and trusts nothing in the schema.
pub fn connect(uri: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    distrust(&connection)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of a file that is read as if it could not change is noticed.
    #[test]
    fn a_write_meanwhile_is_an_error() {
        crate::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        let write = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql);
        write("PRAGMA journal_mode=WAL; CREATE TABLE t(a);").unwrap();
        let origin = Origin::open(&path, None).unwrap();
        assert!(origin.uri().contains("immutable"));
        origin.facts(&Job::default()).unwrap();
        origin.expect_unchanged().unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        // Still in the WAL, then worked in.
        let writer = Connection::open(&path).unwrap();
        writer
            .execute_batch("INSERT INTO t VALUES(zeroblob(9999))")
            .unwrap();
        assert!(origin.expect_unchanged().is_err());
        // With a WAL it is read as SQLite does.
        let beside = Origin::open(&path, None).unwrap();
        assert!(!beside.uri().contains("immutable"));
        drop(writer);
        let error = origin.expect_unchanged().unwrap_err().to_string();
        assert!(error.contains("try again"), "{error}");
        beside.expect_unchanged().unwrap();
    }
}
