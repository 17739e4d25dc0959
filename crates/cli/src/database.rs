//! A database that a command works on through SQLite: opened for reading and writing as any program would,
//! and told to stop by Ctrl-C.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, Params};

use crate::interrupt::{self, Interrupted};
use crate::source::Source;

/// An open database; the connection is closed before the file.
pub struct Database {
    connection: Connection,
    source: Source,
    shown: PathBuf,
}

impl Database {
    /// Opens a plain or packed database.
    pub fn open(shown: &Path) -> Result<Database> {
        interrupt::watch()?;
        litepack_rusqlite::register().map_err(anyhow::Error::msg)?;
        let source = Source::open(shown, true)?;
        source.expect_database()?;
        let database = Database {
            connection: source.connect("").map_err(|error| explain(shown, &error))?,
            source,
            shown: shown.to_owned(),
        };
        interrupt::stop(&database.connection);
        Ok(database)
    }

    /// The first value of the first row.
    pub fn value<T: FromSql>(&self, sql: &str, parameters: impl Params) -> Result<T> {
        let value = self
            .connection
            .query_row(sql, parameters, |row| row.get::<_, T>(0));
        value.map_err(|error| explain(&self.shown, &error))
    }

    /// Runs a statement without a result.
    pub fn run(&self, sql: &str) -> Result<()> {
        let done = self.connection.execute_batch(sql);
        done.map_err(|error| explain(&self.shown, &error))
    }

    /// Rows of compressed columns that hold a value as it is; without looking at the values.
    pub fn not_compressed(&self) -> Result<u64> {
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
    fn columns(&self) -> Result<Vec<(String, String)>> {
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
        list().map_err(|error| explain(&self.shown, &error))
    }

    /// An error unless there is something to do.
    pub fn expect_columns(&self) -> Result<()> {
        if self.columns()?.is_empty() {
            let name = self.shown.display();
            bail!("{name} has no compressed columns; `litepack columns enable` makes one");
        }
        Ok(())
    }

    /// The length of the file.
    pub fn len(&self) -> Result<u64> {
        Ok(self.source.metadata()?.len())
    }
}

/// SQLite's error in terms of what the user asked for.
pub fn explain(shown: &Path, error: &rusqlite::Error) -> anyhow::Error {
    let name = shown.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            anyhow!("{name} is in use by another program")
        }
        Some(ErrorCode::OperationInterrupted) => Interrupted::default().into(),
        _ => anyhow!("{name}: {error}"),
    }
}

/// Where a column is.
#[derive(clap::Args)]
pub struct Place {
    /// The database, plain or packed.
    pub database: PathBuf,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
}

impl Place {
    /// For people.
    pub fn name(&self) -> String {
        format!("{}.{}", self.table, self.column)
    }

    /// Opens its database.
    pub fn open(&self) -> Result<Database> {
        Database::open(&self.database).with_context(|| format!("column {}", self.name()))
    }
}
