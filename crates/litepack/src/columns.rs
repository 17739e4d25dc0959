//! Compressed columns of a database that stays an ordinary SQLite file (or a packed one), by the same SQL functions
//! that a program would call. docs/columns.md says when to use them and when a packed file.

use std::path::Path;

use litepack_database::error::{Context, refuse};
use litepack_database::job::Unit;
use rusqlite::types::Value as SqlValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::database::Database;
use crate::{Error, Job, Limits, Result, Sizes};

/// A column and how it is compressed. `None` is the default of sqlite-zstd, which these settings come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// zstd's level, from 1 (fast) to 22 (small).
    pub level: i32,
    /// SQL expression over a row that gives the name of its group; each group has one dictionary. `'[nodict]'`: no
    /// dictionary. NULL: do not compress the row. By default all rows of the column are one group.
    pub chooser: Option<String>,
    /// Do not compress a group whose dictionary would be smaller than this (5000 bytes).
    pub min_dictionary: Option<u64>,
    /// Size of a dictionary relative to the data of its group (0.01).
    pub dictionary_ratio: Option<f64>,
    /// Size of the sample relative to the dictionary (100).
    pub samples_ratio: Option<f64>,
    /// Bytes compressed in one step of maintenance (1666666).
    pub step: Option<u64>,
}

impl Column {
    /// A column with the default settings.
    pub fn new(table: impl Into<String>, column: impl Into<String>) -> Column {
        Column {
            table: table.into(),
            column: column.into(),
            level: 19,
            chooser: None,
            min_dictionary: None,
            dictionary_ratio: None,
            samples_ratio: None,
            step: None,
        }
    }

    fn name(&self) -> String {
        name(&self.table, &self.column)
    }

    fn config(&self) -> Value {
        // One dictionary for the column: two columns have little in common.
        let own = || format!("'{}'", self.name().replace('\'', "''"));
        let chooser = self.chooser.clone().unwrap_or_else(own);
        let optional = [
            (
                "min_dict_size_bytes_for_training",
                self.min_dictionary.map(Value::from),
            ),
            ("dict_size_ratio", self.dictionary_ratio.map(Value::from)),
            (
                "train_dict_samples_ratio",
                self.samples_ratio.map(Value::from),
            ),
            (
                "incremental_compression_step_bytes",
                self.step.map(Value::from),
            ),
        ];
        let mut config = Map::new();
        config.insert("table".into(), json!(self.table));
        config.insert("column".into(), json!(self.column));
        config.insert("compression_level".into(), json!(self.level));
        config.insert("dict_chooser".into(), json!(chooser));
        for (key, value) in optional {
            config.extend(value.map(|value| (key.to_string(), value)));
        }
        Value::Object(config)
    }
}

fn name(table: &str, column: &str) -> String {
    format!("{table}.{column}")
}

fn open(database: &Path, name: &str, job: &Job<'_>) -> Result<Database> {
    Database::open(database, job).with_context(|| format!("column {name}"))
}

/// Enables compression of a column: its table becomes a view, which has limits. [`maintain`] then compresses the rows.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let app = place.path().join("app.db");
/// # rusqlite::Connection::open(&app)?.execute_batch("create table events(id integer primary key, data text)")?;
/// use litepack::{Job, Limits, columns};
///
/// let job = Job::default();
/// columns::enable(&app, &columns::Column::new("events", "data"), &job)?;
/// columns::maintain(&app, &Limits::default(), false, &job)?;
/// assert_eq!(columns::status(&app, &job)?[0].column, "data");
/// columns::disable(&app, "events", "data", &job)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the database is in use, or the table cannot be enabled.
pub fn enable(database: impl AsRef<Path>, column: &Column, job: &Job<'_>) -> Result<()> {
    let database = open(database.as_ref(), &column.name(), job)?;
    let config = column.config().to_string();
    database.value::<String>("select zstd_enable_transparent(?1)", [config])?;
    Ok(())
}

/// Decompresses a column. After the last column of a table the table is as it was before.
///
/// # Errors
/// If the database is in use, or the column is not compressed.
pub fn disable(database: impl AsRef<Path>, table: &str, column: &str, job: &Job<'_>) -> Result<()> {
    let database = open(database.as_ref(), &name(table, column), job)?;
    let sql = "select litepack_disable_transparent(?1, ?2)";
    database.value::<SqlValue>(sql, [table, column])?;
    Ok(())
}

/// The result of [`maintain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Maintained {
    /// Rows that were compressed.
    pub compressed: u64,
    /// Rows that are not compressed.
    pub left: u64,
    /// Whether the time limit was reached with more to do.
    pub more: bool,
    /// The length of the file before and after it was vacuumed, if it was.
    pub vacuumed: Option<Sizes>,
}

/// Compresses the rows that are not compressed yet, while others read and write. `vacuum` runs VACUUM afterwards, which
/// makes the file smaller and blocks writers.
///
/// # Errors
/// If the database cannot be written, or has no compressed columns. When it is interrupted, rows that were compressed
/// stay compressed.
pub fn maintain(
    database: impl AsRef<Path>,
    limits: &Limits,
    vacuum: bool,
    job: &Job<'_>,
) -> Result<Maintained> {
    let shown = database.as_ref();
    limits.check()?;
    let database = Database::open(shown, job)?;
    if database.columns()?.is_empty() {
        let name = shown.display();
        refuse!("{name} has no compressed columns; `litepack columns enable` makes one");
    }
    let kept = |error: Error| error.keeping("the rows compressed so far stay compressed");
    let before = database.not_compressed()?;
    let more = compress(&database, limits, before, job).map_err(kept)?;
    let left = database.not_compressed()?;
    let vacuumed = match vacuum {
        true => Some(vacuumed(&database).map_err(kept)?),
        false => None,
    };
    Ok(Maintained {
        compressed: before.saturating_sub(left),
        left,
        more,
        vacuumed,
    })
}

/// Compresses until all is done or the time limit is reached; true if there is more to do.
fn compress(database: &Database, limits: &Limits, rows: u64, job: &Job<'_>) -> Result<bool> {
    let step = job.step("compressing", Unit::Rows, Some(rows));
    let call = |seconds, load| {
        let call = "select zstd_incremental_maintenance(?1, ?2)";
        database.value(call, [seconds, load])
    };
    limits.work(job, call, || {
        if step.is_watched() {
            step.set(rows.saturating_sub(database.not_compressed()?));
        }
        Ok(())
    })
}

fn vacuumed(database: &Database) -> Result<Sizes> {
    let before = database.len()?;
    database.run("vacuum; pragma wal_checkpoint(truncate)")?;
    let after = database.len()?;
    Ok(Sizes { before, after })
}

/// A compressed column, with the fields of `litepack_columns()`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Status {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The type of its values: `text` or `blob`.
    #[serde(rename = "type")]
    pub holds: String,
    /// zstd's level.
    pub compression_level: i32,
    /// The SQL expression that gives the group of a row.
    pub dict_chooser: String,
    /// Rows that have a value.
    pub rows: u64,
    /// Rows that are compressed.
    pub rows_compressed: u64,
    /// Rows that are not.
    pub rows_not_compressed: u64,
    /// Bytes of all values.
    pub bytes_before: u64,
    /// Bytes they take now.
    pub bytes_after: u64,
    /// Why rows are not compressed.
    pub not_compressed: Vec<Reason>,
    /// The dictionaries in use.
    pub dictionaries: Vec<Dictionary>,
    /// Whether maintenance has something to do.
    pub maintenance_due: bool,
}

/// Why some rows are not compressed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Reason {
    /// In words.
    pub why: String,
    /// How many they are.
    pub rows: u64,
    /// Bytes of their values.
    pub bytes: u64,
}

/// A dictionary of a column.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Dictionary {
    /// Its number.
    pub id: i64,
    /// The name of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its length, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Rows that are compressed with it.
    pub rows: u64,
    /// Whether it is missing, so that these rows cannot be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// Reports what is compressed, how well, and why the rest is not.
///
/// # Errors
/// If the database cannot be read.
pub fn status(database: impl AsRef<Path>, job: &Job<'_>) -> Result<Vec<Status>> {
    let database = Database::open(database.as_ref(), job)?;
    let json: String = database.value("select litepack_columns()", [])?;
    serde_json::from_str(&json).map_err(|error| {
        Error::Refused(format!("unexpected answer of litepack_columns(): {error}"))
    })
}
