//! The outcome of one statement, in a form that two databases can be compared by: its rows, or its
//! error code and message, and the counters that programs read after it.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error};
use std::fmt;

/// The result of one statement on one connection.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// Rows with their column names, or the error.
    pub answer: Result<Rows, Failure>,
    /// `changes()`, `total_changes()` and `last_insert_rowid()` afterwards.
    pub counters: (u64, u64, i64),
    /// Whether the connection is outside any transaction afterwards.
    pub autocommit: bool,
}

/// Column names and values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows in the order they came.
    pub values: Vec<Vec<Value>>,
}

/// A SQLite error: extended code and message.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Extended result code.
    pub code: i32,
    /// `sqlite3_errmsg`.
    pub message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::SqliteFailure(e, message) => Failure {
                code: e.extended_code,
                message: message.unwrap_or_default(),
            },
            Error::SqlInputError { error, msg, .. } => Failure {
                code: error.extended_code,
                message: msg,
            },
            other => Failure {
                code: -1,
                message: other.to_string(),
            },
        }
    }
}

impl Outcome {
    /// Runs exactly one statement and notes what happened.
    pub fn of(connection: &Connection, sql: &str) -> Outcome {
        let answer = rows_of(connection, sql).map_err(Failure::from);
        Outcome {
            answer,
            counters: (
                connection.changes(),
                connection.total_changes(),
                connection.last_insert_rowid(),
            ),
            autocommit: connection.is_autocommit(),
        }
    }

    /// Replaces the names of the directory and the VFS in the error message, which is all that may
    /// differ.
    pub fn hide(mut self, directory: &str, vfs: &str) -> Self {
        if let Err(failure) = &mut self.answer {
            let message = failure.message.replace(directory, "{dir}");
            failure.message = message.replace(&format!("vfs={vfs}"), "vfs={own}");
        }
        self
    }

    /// The rows as text, `|` between values and a line for each row.
    pub fn text(&self) -> String {
        let Ok(rows) = &self.answer else {
            return format!("{self:?}");
        };
        let line = |row: &Vec<Value>| row.iter().map(show).collect::<Vec<_>>().join("|");
        rows.values.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// All rows of one statement.
pub fn rows_of(connection: &Connection, sql: &str) -> Result<Rows, Error> {
    let mut statement = connection.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_string).collect();
    let mut values = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row = (0..columns.len()).map(|i| row.get_ref(i).map(owned));
        values.push(row.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(Rows { columns, values })
}

/// Text that is not UTF-8 is kept as a blob, so that it still compares.
fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_string()),
            Err(_) => Value::Blob(bytes.to_vec()),
        },
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => Value::Integer(i),
        ValueRef::Real(r) => Value::Real(r),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => r.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) if bytes.len() > 40 => format!("blob of {} bytes", bytes.len()),
        Value::Blob(bytes) => format!("{bytes:02x?}"),
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            Err(failure) => write!(f, "error {}: {}", failure.code, failure.message)?,
            Ok(rows) => {
                write!(
                    f,
                    "{} rows of ({})",
                    rows.values.len(),
                    rows.columns.join(", ")
                )?;
                for row in rows.values.iter().take(20) {
                    let line = row.iter().map(show).collect::<Vec<_>>().join("|");
                    write!(f, "\n    {}", line.chars().take(200).collect::<String>())?;
                }
            }
        }
        write!(f, "\n    changes, total, last rowid: {:?}", self.counters)?;
        write!(f, ", autocommit: {}", self.autocommit)
    }
}
