//! Connections: those that a program opens, and the database that a call works on through SQLite, opened for reading and
//! writing as any program would, and its statements interrupted by a stop.

use std::path::{Path, PathBuf};

use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OpenFlags, Params};

use crate::error::{Cause, Context, cannot_read};
use crate::files::bound::read_schema;
use crate::files::reader;
use crate::files::replacement::Replacement;
use crate::files::source::Source;
use crate::files::structure::expect_trees;
use crate::job::Interrupts;
use crate::{Error, Job, Result, register};

/// Opens a database for reading and writing: a packed file, or read-only an archive. A database that does not exist is
/// created, packed. A plain one stays plain.
///
/// `:memory:` and an empty path are what they are in SQLite: a new database in memory, and a temporary one. A file of
/// that name is `./:memory:`.
///
/// # Errors
/// SQLite's.
pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
    open_with_flags(path, OpenFlags::default())
}

/// The same with flags, such as `OpenFlags::SQLITE_OPEN_READ_ONLY`.
///
/// # Errors
/// SQLite's.
pub fn open_with_flags(path: impl AsRef<Path>, flags: OpenFlags) -> Result<Connection> {
    register()?;
    let path = path.as_ref();
    let cannot = || format!("cannot open {}", path.display());
    let name = match path.to_str() {
        Some(name @ ("" | ":memory:")) => name.to_owned(),
        _ => crate::uri(path).with_context(cannot)?,
    };
    let opened = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI);
    opened.map_err(|error| match cannot_create(path, flags, &error) {
        Some(why) => why.explained(cannot()),
        None => error.explained(cannot()),
    })
}

/// Why a database that is not there cannot be created, of which SQLite says only that it cannot be opened.
fn cannot_create(path: &Path, flags: OpenFlags, error: &rusqlite::Error) -> Option<Error> {
    let creates = flags.contains(OpenFlags::SQLITE_OPEN_CREATE);
    let failed = error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
    if !creates || !failed || path.exists() {
        return None;
    }
    Replacement::beside(path.to_owned(), false).err()
}

/// An open database; the connection is closed before the file.
pub(crate) struct Database {
    _interrupts: Interrupts,
    connection: Connection,
    source: Source,
    shown: PathBuf,
}

impl Database {
    /// Opens a plain or packed database, whose pages make trees.
    pub(crate) fn open(shown: &Path, job: &Job<'_>) -> Result<Database> {
        let source = Source::open(shown, true)?;
        source.expect_database()?;
        let database = Database::of(source, job)?;
        database.expect_trees(job)?;
        Ok(database)
    }

    /// Opens a packed database.
    pub(crate) fn open_packed(shown: &Path, job: &Job<'_>) -> Result<Database> {
        let source = Source::open(shown, true)?;
        source.expect_packed()?;
        Database::of(source, job)
    }

    fn of(source: Source, job: &Job<'_>) -> Result<Database> {
        register()?;
        let shown = source.shown().to_owned();
        let connection = source.connect("", job);
        let mut connection = connection.map_err(|error| Error::of_sqlite(&shown, error))?;
        read_schema(&mut connection).map_err(|error| Error::of_sqlite(&shown, error))?;
        Ok(Database {
            _interrupts: job.interrupts(&connection),
            connection,
            source,
            shown,
        })
    }

    /// An error if SQL would not come to an end.
    fn expect_trees(&self, job: &Job<'_>) -> Result<()> {
        // No other connection writes meanwhile.
        self.run("begin; pragma main.schema_version")?;
        let (file, kind) = (self.source.file(), self.source.kind());
        let found = expect_trees(file, kind, self.source.path(), &self.shown, job, None);
        self.run("rollback")?;
        found
    }

    /// The first value of the first row.
    pub(crate) fn value<T: FromSql>(&self, sql: &str, parameters: impl Params) -> Result<T> {
        let value = self
            .connection
            .query_row(sql, parameters, |row| row.get::<_, T>(0));
        value.map_err(|error| Error::of_sqlite(&self.shown, error))
    }

    /// Brings the WAL into the file, if there is one, as far as others let it without waiting.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let mode: String = self.value("pragma main.journal_mode", [])?;
        if mode == "wal" {
            self.value::<i64>("pragma main.wal_checkpoint(passive)", [])?;
        }
        Ok(())
    }

    /// Runs a statement without a result.
    pub(crate) fn run(&self, sql: &str) -> Result<()> {
        let done = self.connection.execute_batch(sql);
        done.map_err(|error| Error::of_sqlite(&self.shown, error))
    }

    /// Rows of compressed columns that hold a value as it is; without looking at the values.
    pub(crate) fn not_compressed(&self) -> Result<u64> {
        let mut count: i64 = 0;
        for (table, column) in self.columns()? {
            let quote = |name: String| format!("\"{}\"", name.replace('"', "\"\""));
            count += self.value::<i64>(
                &format!(
                    "select count(*) from main.{} where {} is null",
                    quote(format!("_{table}_zstd")),
                    quote(format!("_{column}_dict"))
                ),
                [],
            )?;
        }
        Ok(count.unsigned_abs())
    }

    /// Table and column of each compressed column.
    pub(crate) fn columns(&self) -> Result<Vec<(String, String)>> {
        let known = "select count(*) from main.sqlite_schema where name = '_zstd_configs'";
        if self.value::<i64>(known, [])? == 0 {
            return Ok(Vec::new());
        }
        let list = || {
            let sql = "select config ->> '$.table', config ->> '$.column' from main._zstd_configs";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(String, String)>>>()
        };
        list().map_err(|error| Error::of_sqlite(&self.shown, error))
    }

    /// The number of the newest commit of a packed file.
    pub(crate) fn commit(&self) -> Result<u64> {
        let store = reader::open(self.source.file(), &reader::options());
        Ok(store.with_context(|| cannot_read(&self.shown))?.seq())
    }

    /// The length of the file.
    pub(crate) fn len(&self) -> Result<u64> {
        Ok(self.source.metadata()?.len())
    }
}
