//! The database that a call works on through SQLite: opened for reading and writing as any program would, and its
//! statements interrupted by a stop.

use std::path::{Path, PathBuf};

use litepack_database::bytes::reader;
use litepack_database::error::{Context, cannot_read};
use litepack_database::files::bound::read_schema;
use litepack_database::files::source::Source;
use litepack_database::files::structure::expect_trees;
use litepack_database::job::Interrupts;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Params};

use crate::{Error, Job, Result, register};

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
        let mut source = Source::open(shown, true)?;
        source.expect_database()?;
        source.unlock(job.key())?;
        let database = Database::of(source, job)?;
        database.expect_trees(job)?;
        Ok(database)
    }

    /// Opens a packed database.
    pub(crate) fn open_packed(shown: &Path, job: &Job<'_>) -> Result<Database> {
        let mut source = Source::open(shown, true)?;
        source.expect_packed()?;
        source.unlock(job.key())?;
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
        let found = expect_trees(self.source.opened(), job, None);
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

    /// Brings the WAL into the file, if there is one, and empties it, as far as others let it without waiting. What a log
    /// stands on is not given back as long as the log is there.
    pub(crate) fn checkpoint(&mut self, job: &Job<'_>) -> Result<()> {
        let mode: String = self.value("pragma main.journal_mode", [])?;
        if mode == "wal" {
            let without = self.connection.busy_handler(None::<fn(i32) -> bool>);
            without.map_err(|error| Error::of_sqlite(&self.shown, error))?;
            let emptied = self.value::<i64>("pragma main.wal_checkpoint(truncate)", []);
            let again = self.connection.busy_handler(Some(job.patience()));
            again.map_err(|error| Error::of_sqlite(&self.shown, error))?;
            emptied?;
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
        let store = reader::open(self.source.file(), &reader::options(self.source.unlocked()));
        Ok(store.with_context(|| cannot_read(&self.shown))?.seq())
    }

    /// The file.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The length of the file.
    pub(crate) fn len(&self) -> Result<u64> {
        Ok(self.source.metadata()?.len())
    }
}
