//! The trait of a SQLite connection that this crate works on, and SQL values.
//!
//! The implementation over SQLite's C interface is in the layer above, with all other unsafe code.

use std::time::Duration;

/// An error of SQLite or of ours, on its way to a SQL function's result.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// SQLite's (extended) result code.
    pub code: i32,
    /// What, where, and what to do.
    pub message: String,
}

/// SQLite's generic error code (`SQLITE_ERROR`).
pub const ERROR: i32 = 1;
/// `SQLITE_NOMEM`: memory is short.
pub(crate) const NOMEM: i32 = 7;
/// `SQLITE_INTERRUPT`: the connection was interrupted.
pub const INTERRUPT: i32 = 9;
/// `SQLITE_CORRUPT`: stored data is damaged.
pub const CORRUPT: i32 = 11;
/// `SQLITE_TOOBIG`: a value exceeds the connection's length limit.
pub const TOOBIG: i32 = 18;

impl Error {
    /// An error with SQLite's generic code.
    pub fn new(message: impl Into<String>) -> Error {
        Error {
            code: ERROR,
            message: message.into(),
        }
    }

    /// Stored data that is not what it should be.
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error {
            code: CORRUPT,
            message: message.into(),
        }
    }

    /// Memory is short.
    pub fn no_memory() -> Error {
        Error {
            code: NOMEM,
            message: "out of memory".into(),
        }
    }

    /// The connection was interrupted.
    pub fn interrupted() -> Error {
        Error {
            code: INTERRUPT,
            message: "interrupted".into(),
        }
    }

    /// A value exceeds the connection's length limit, or what a value may be here.
    pub(crate) fn too_big() -> Error {
        Error {
            code: TOOBIG,
            message: "string or blob too big".into(),
        }
    }

    /// The same error, with what was being done put before it.
    #[must_use]
    pub fn context(self, doing: impl std::fmt::Display) -> Error {
        if self.code == INTERRUPT {
            // Where that was does not matter.
            return self;
        }
        Error {
            code: self.code,
            message: format!("{doing}: {}", self.message),
        }
    }
}

/// The result of anything that asks SQLite.
pub type Result<T> = std::result::Result<T, Error>;

/// A SQL value. Text is bytes: SQLite does not promise that it is valid UTF-8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL
    Null,
    /// INTEGER
    Integer(i64),
    /// REAL
    Real(f64),
    /// TEXT
    Text(&'a [u8]),
    /// BLOB
    Blob(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The name SQL's `typeof` gives it.
    pub fn type_name(self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Integer(_) => "integer",
            Value::Real(_) => "real",
            Value::Text(_) => "text",
            Value::Blob(_) => "blob",
        }
    }

    /// The bytes of text or of a blob.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Text(bytes) | Value::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Text as a string; damaged UTF-8 shows as replacement characters.
    pub fn text(self) -> Option<String> {
        match self {
            Value::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// An integer.
    pub fn integer(self) -> Option<i64> {
        match self {
            Value::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// A copy that owns its bytes.
    ///
    /// # Errors
    /// When memory is short.
    pub(crate) fn to_owned(self) -> Result<OwnedValue> {
        Ok(match self {
            Value::Null => OwnedValue::Null,
            Value::Integer(value) => OwnedValue::Integer(value),
            Value::Real(value) => OwnedValue::Real(value),
            Value::Text(bytes) => OwnedValue::Text(litepack_io::memory::copy(bytes)?),
            Value::Blob(bytes) => OwnedValue::Blob(litepack_io::memory::copy(bytes)?),
        })
    }
}

impl From<litepack_io::memory::OutOfMemory> for Error {
    fn from(_: litepack_io::memory::OutOfMemory) -> Error {
        Error::no_memory()
    }
}

impl From<litepack_io::interrupt::Interrupted> for Error {
    fn from(_: litepack_io::interrupt::Interrupted) -> Error {
        Error::interrupted()
    }
}

impl From<litepack_io::interrupt::Halt> for Error {
    fn from(halt: litepack_io::interrupt::Halt) -> Error {
        match halt {
            litepack_io::interrupt::Halt::Interrupted => Error::interrupted(),
            litepack_io::interrupt::Halt::OutOfMemory => Error::no_memory(),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Value<'a> {
        Value::Text(text.as_bytes())
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Integer(value)
    }
}

/// A [`Value`] that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnedValue {
    /// NULL
    Null,
    /// INTEGER
    Integer(i64),
    /// REAL
    Real(f64),
    /// TEXT
    Text(Vec<u8>),
    /// BLOB
    Blob(Vec<u8>),
}

impl OwnedValue {
    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            OwnedValue::Text(bytes) | OwnedValue::Blob(bytes) => bytes.len(),
            _ => 8,
        }
    }

    /// This value, borrowed.
    pub(crate) fn as_value(&self) -> Value<'_> {
        match self {
            OwnedValue::Null => Value::Null,
            OwnedValue::Integer(value) => Value::Integer(*value),
            OwnedValue::Real(value) => Value::Real(*value),
            OwnedValue::Text(bytes) => Value::Text(bytes),
            OwnedValue::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

/// A prepared statement. Dropping it finalizes it.
pub trait Statement {
    /// Binds parameter `index`, from 1; text and blobs are copied.
    ///
    /// # Errors
    /// SQLite's: no such parameter, out of memory, too big.
    fn bind(&mut self, index: usize, value: Value<'_>) -> Result<()>;

    /// Goes to the next row; false when there is none.
    ///
    /// # Errors
    /// SQLite's, with its message. The statement is then reset.
    fn step(&mut self) -> Result<bool>;

    /// Column `index`, from 0, of the current row; valid until the next call.
    fn column(&self, index: usize) -> Value<'_>;

    /// Makes it ready to be run again; bindings stay.
    fn reset(&mut self);
}

/// A connection, seen from a SQL function that runs on it.
pub trait Sql: Sized {
    /// A statement of this connection.
    type Statement<'a>: Statement
    where
        Self: 'a;

    /// Prepares one statement. Text behind it in `sql` is ignored.
    ///
    /// # Errors
    /// SQLite's, with its message.
    fn prepare(&self, sql: &str) -> Result<Self::Statement<'_>>;

    /// Whether triggers fire on this connection (`SQLITE_DBCONFIG_ENABLE_TRIGGER`). Takes effect for
    /// statements prepared from now on.
    ///
    /// # Errors
    /// SQLite's.
    fn set_triggers(&self, on: bool) -> Result<()>;

    /// See [`Sql::set_triggers`].
    ///
    /// # Errors
    /// SQLite's.
    fn triggers(&self) -> Result<bool>;

    /// False inside `BEGIN` … `COMMIT` or a savepoint.
    fn autocommit(&self) -> bool;

    /// Whether this connection has a write transaction open on the database `schema`.
    fn is_writing(&self, schema: &str) -> bool;

    /// A number that differs whenever the committed content of the database `schema`, as this
    /// connection sees it, may differ (`SQLITE_FCNTL_DATA_VERSION`); `None` without such a schema.
    fn data_version(&self, schema: &str) -> Option<u32>;

    /// Rows changed by this connection since it was opened; changes made by this crate count.
    fn total_changes(&self) -> i64;

    /// The longest text or blob the connection allows, in bytes.
    fn length_limit(&self) -> usize;

    /// Waits, but not on when the connection is interrupted.
    ///
    /// # Errors
    /// SQLite's "interrupted".
    fn sleep(&self, time: Duration) -> Result<()> {
        let end = std::time::Instant::now() + time;
        loop {
            // Only a running statement notices an interrupt in every version of SQLite.
            self.row("select 1", &[], |_| Ok(()))?;
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Runs a statement that returns nothing, or whose rows do not matter.
    ///
    /// # Errors
    /// SQLite's.
    fn run(&self, sql: &str, parameters: &[Value<'_>]) -> Result<()> {
        self.rows(sql, parameters, |_| Ok(()))
    }

    /// Calls `each` for every row.
    ///
    /// # Errors
    /// SQLite's, or the first that `each` returns.
    fn rows(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        mut each: impl FnMut(&Self::Statement<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.prepare(sql)?;
        for (index, value) in parameters.iter().enumerate() {
            statement.bind(index + 1, *value)?;
        }
        while statement.step()? {
            each(&statement)?;
        }
        Ok(())
    }

    /// The first row, as `get` reads it; `None` when there is no row.
    ///
    /// # Errors
    /// SQLite's, or that of `get`.
    fn row<T>(
        &self,
        sql: &str,
        parameters: &[Value<'_>],
        get: impl FnOnce(&Self::Statement<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(sql)?;
        for (index, value) in parameters.iter().enumerate() {
            statement.bind(index + 1, *value)?;
        }
        if statement.step()? {
            get(&statement).map(Some)
        } else {
            Ok(None)
        }
    }
}
