//! A host's connection as the layers below see it ([`Sql`]): statements, values, a few settings.
//!
//! Only used while a SQL function of that connection runs, so SQLite's connection mutex is held.

use std::ffi::{CStr, CString, c_int, c_uchar};
use std::marker::PhantomData;

use litepack_columns::sql::{Error, Result, Sql, Statement, Value};

use super::api::{Api, call, len, transient};
use super::bindings::{
    SQLITE_BLOB, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_DBCONFIG_ENABLE_TRIGGER,
    SQLITE_DONE, SQLITE_FLOAT, SQLITE_INTEGER, SQLITE_LIMIT_LENGTH, SQLITE_ROW, SQLITE_TEXT,
    SQLITE_TXN_WRITE, SQLITE_UTF8, sqlite3, sqlite3_context, sqlite3_stmt, sqlite3_value,
};
use crate::c::codes::{ERROR, OK, fcntl};

const UTF8: c_uchar = SQLITE_UTF8 as c_uchar;

/// The connection a SQL function runs on.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    /// The library it is a connection of.
    api: Api,
    db: *mut sqlite3,
    /// Not longer than the call of the function.
    running: PhantomData<&'a ()>,
}

impl Connection<'_> {
    /// # Safety
    /// `context` is a running function's, and what is returned does not outlive the call.
    pub(crate) unsafe fn of(api: Api, context: *mut sqlite3_context) -> Self {
        // SAFETY: a function's connection stays open while it runs, and the caller does not use the result for longer.
        unsafe { Connection::new(api, api.connection_of(context)) }
    }

    /// # Safety
    /// `db` is a connection of this library, held by the caller for as long as what is returned is used.
    pub(crate) unsafe fn new(api: Api, db: *mut sqlite3) -> Self {
        Connection {
            api,
            db,
            running: PhantomData,
        }
    }

    /// Which connection this is.
    pub(crate) fn address(&self) -> *mut sqlite3 {
        self.db
    }

    /// SQLite's last error on this connection.
    fn error(&self) -> Error {
        // SAFETY: the connection is open, and the text lives until the next call on it.
        unsafe {
            let text = call!(self.api.table(), errmsg(self.db));
            let code = call!(self.api.table(), extended_errcode(self.db));
            Error {
                code: if code == OK { ERROR } else { code },
                message: CStr::from_ptr(text).to_string_lossy().into_owned(),
            }
        }
    }

    fn check(&self, code: c_int) -> Result<()> {
        if code == OK {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    /// The setting of triggers, after changing it unless `on` is negative.
    fn configure_triggers(&self, on: c_int) -> Result<bool> {
        self.setting(SQLITE_DBCONFIG_ENABLE_TRIGGER, on)
    }

    /// Whether the C interface loads extensions.
    pub(crate) fn loads_extensions_for_c(&self) -> Result<bool> {
        self.setting(SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1)
    }

    /// Whether `PRAGMA query_only` is on.
    pub(crate) fn is_query_only(&self) -> Result<bool> {
        let mut statement = self.prepare("pragma query_only")?;
        Ok(statement.step()? && statement.column(0) != Value::Integer(0))
    }

    /// A setting that is on or off, after changing it unless `on` is negative.
    fn setting(&self, operation: c_int, on: c_int) -> Result<bool> {
        let mut now: c_int = 0;
        // SAFETY: these operations take a number and where the answer goes.
        let code = unsafe {
            call!(
                self.api.table(),
                db_config(self.db, operation, on, &raw mut now)
            )
        };
        self.check(code).map(|()| now != 0)
    }
}

/// A name as C has it.
fn name(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new("a name contains a NUL character"))
}

impl Sql for Connection<'_> {
    type Statement<'s>
        = Prepared<'s>
    where
        Self: 's;

    fn prepare(&self, sql: &str) -> Result<Prepared<'_>> {
        // SQLite would run the statement up to there.
        if sql.contains('\0') {
            return Err(Error::new("SQL text contains a NUL character"));
        }
        let length = c_int::try_from(sql.len()).map_err(|_| Error::new("SQL text too long"))?;
        let mut statement = std::ptr::null_mut();
        let (text, rest) = (sql.as_ptr().cast(), std::ptr::null_mut());
        // SAFETY: the connection is open, and the text as long as said.
        let code = unsafe {
            let to = &raw mut statement;
            call!(
                self.api.table(),
                prepare_v2(self.db, text, length, to, rest)
            )
        };
        self.check(code)?;
        Ok(Prepared {
            statement,
            connection: self,
        })
    }

    fn set_triggers(&self, on: bool) -> Result<()> {
        self.configure_triggers(on.into()).map(|_| ())
    }

    fn triggers(&self) -> Result<bool> {
        self.configure_triggers(-1)
    }

    fn autocommit(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { call!(self.api.table(), get_autocommit(self.db)) != 0 }
    }

    fn is_writing(&self, schema: &str) -> bool {
        let Ok(schema) = name(schema) else {
            return false;
        };
        // SAFETY: the connection is open, and the name a string.
        let state = unsafe { call!(self.api.table(), txn_state(self.db, schema.as_ptr())) };
        state == SQLITE_TXN_WRITE
    }

    fn data_version(&self, schema: &str) -> Option<u32> {
        let schema = name(schema).ok()?;
        let mut version: u32 = 0;
        let to = (&raw mut version).cast();
        // SAFETY: the connection is open, and this operation writes an unsigned int.
        let code = unsafe {
            self.api
                .file_control_on(self.db, &schema, fcntl::DATA_VERSION, to)
        };
        (code == OK).then_some(version)
    }

    fn total_changes(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { call!(self.api.table(), total_changes(self.db)) }.into()
    }

    fn length_limit(&self) -> usize {
        // SAFETY: the connection is open; a negative value only asks.
        len(unsafe { call!(self.api.table(), limit(self.db, SQLITE_LIMIT_LENGTH, -1)) })
    }
}

/// A statement prepared on a [`Connection`].
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    statement: *mut sqlite3_stmt,
    connection: &'a Connection<'a>,
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is not used again. The code repeats the last step's.
        unsafe { call!(self.connection.api.table(), finalize(self.statement)) };
    }
}

impl Prepared<'_> {
    /// # Safety
    /// `data` is what SQLite has just given for the column.
    unsafe fn bytes(&self, data: *const u8, index: c_int) -> &[u8] {
        let api = self.connection.api;
        // SAFETY: the length is asked for after the bytes, as SQLite wants it; they live until the statement moves on,
        // which needs `&mut self`.
        unsafe {
            let length = call!(api.table(), column_bytes(self.statement, index));
            slice(data, length)
        }
    }
}

/// # Safety
/// `data` is null or has `length` bytes for as long as the result is used.
unsafe fn slice<'a>(data: *const u8, length: c_int) -> &'a [u8] {
    if data.is_null() {
        &[]
    } else {
        // SAFETY: the caller says that there are `length` bytes for as long as the result is used.
        unsafe { std::slice::from_raw_parts(data, len(length)) }
    }
}

impl Statement for Prepared<'_> {
    fn bind(&mut self, index: usize, value: Value<'_>) -> Result<()> {
        let index = c_int::try_from(index).map_err(|_| Error::new("no such parameter"))?;
        let (api, to) = (self.connection.api, self.statement);
        // SAFETY: the statement is there, and SQLite copies bytes, which are as many as said.
        let code = unsafe {
            match value {
                Value::Null => call!(api.table(), bind_null(to, index)),
                Value::Integer(value) => call!(api.table(), bind_int64(to, index, value)),
                Value::Real(value) => call!(api.table(), bind_double(to, index, value)),
                Value::Text(bytes) => {
                    let (data, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
                    call!(
                        api.table(),
                        bind_text64(to, index, data, length, transient(), UTF8)
                    )
                }
                Value::Blob(bytes) => {
                    let (data, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
                    call!(
                        api.table(),
                        bind_blob64(to, index, data, length, transient())
                    )
                }
            }
        };
        self.connection.check(code)
    }

    fn step(&mut self) -> Result<bool> {
        // A text without a statement in it has nothing to do.
        if self.statement.is_null() {
            return Ok(false);
        }
        // SAFETY: the statement is there.
        let code = unsafe { call!(self.connection.api.table(), step(self.statement)) };
        match code {
            SQLITE_ROW => Ok(true),
            SQLITE_DONE => {
                self.reset();
                Ok(false)
            }
            _ => {
                let error = self.connection.error();
                self.reset();
                Err(error)
            }
        }
    }

    fn column(&self, index: usize) -> Value<'_> {
        let Ok(index) = c_int::try_from(index) else {
            return Value::Null;
        };
        let (api, of) = (self.connection.api, self.statement);
        // SAFETY: the statement is there; SQLite answers NULL for a column that is not.
        unsafe {
            match call!(api.table(), column_type(of, index)) {
                SQLITE_INTEGER => Value::Integer(call!(api.table(), column_int64(of, index))),
                SQLITE_FLOAT => Value::Real(call!(api.table(), column_double(of, index))),
                SQLITE_TEXT => {
                    let text = call!(api.table(), column_text(of, index));
                    Value::Text(self.bytes(text, index))
                }
                SQLITE_BLOB => {
                    let blob = call!(api.table(), column_blob(of, index));
                    Value::Blob(self.bytes(blob.cast(), index))
                }
                _ => Value::Null,
            }
        }
    }

    fn reset(&mut self) {
        // SAFETY: the statement is there, or null, which SQLite lets pass. The code repeats the last step's.
        unsafe { call!(self.connection.api.table(), reset(self.statement)) };
    }
}

/// An argument of a running function.
///
/// # Safety
/// `value` is one, and the result is not used after the call.
pub(crate) unsafe fn argument<'a>(api: Api, value: *mut sqlite3_value) -> Value<'a> {
    // SAFETY: the caller says that `value` is an argument of a running function; SQLite keeps it and its bytes until
    // the call ends. The length is asked for after the bytes, as SQLite wants it, because asking for bytes can convert
    // them.
    unsafe {
        let bytes = |data: *const u8| slice(data, call!(api.table(), value_bytes(value)));
        match call!(api.table(), value_type(value)) {
            SQLITE_INTEGER => Value::Integer(call!(api.table(), value_int64(value))),
            SQLITE_FLOAT => Value::Real(call!(api.table(), value_double(value))),
            SQLITE_TEXT => Value::Text(bytes(call!(api.table(), value_text(value)))),
            SQLITE_BLOB => Value::Blob(bytes(call!(api.table(), value_blob(value)).cast())),
            _ => Value::Null,
        }
    }
}

impl Api {
    /// Sets a function's result; text and blobs are copied.
    ///
    /// # Safety
    /// `context` is a running function's.
    pub(crate) unsafe fn result(&self, context: *mut sqlite3_context, value: Value<'_>) {
        // SAFETY: the caller says that the function of this context is running, so SQLite keeps the context. SQLite
        // copies bytes, which are as many as said.
        unsafe {
            match value {
                Value::Null => self.result_null(context),
                Value::Integer(value) => call!(self.table(), result_int64(context, value)),
                Value::Real(value) => call!(self.table(), result_double(context, value)),
                Value::Text(bytes) => {
                    let (data, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
                    call!(
                        self.table(),
                        result_text64(context, data, length, transient(), UTF8)
                    );
                }
                Value::Blob(bytes) => {
                    let (data, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
                    call!(
                        self.table(),
                        result_blob64(context, data, length, transient())
                    );
                }
            }
        }
    }
}
