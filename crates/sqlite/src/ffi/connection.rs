//! A host's connection as the layers below see it ([`Sql`]): statements, values, a few settings.
//!
//! Only used while a SQL function of that connection runs, so SQLite's connection mutex is held.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::marker::PhantomData;

use litepack_columns::sql::{Error, Result, Sql, Statement, Value};

use super::api::{Api, call, len, slot};
use super::types::{sqlite3, sqlite3_context, sqlite3_stmt, sqlite3_value};
use crate::codes::{ERROR, OK, fcntl};

const ROW: c_int = 100;
const DONE: c_int = 101;
const DBCONFIG_ENABLE_TRIGGER: c_int = 1003;
const LIMIT_LENGTH: c_int = 0;
const TXN_WRITE: c_int = 2;
const UTF8: c_uchar = 1;
/// SQLite copies what it is given.
const TRANSIENT: isize = -1;

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
        // SAFETY: the signature is sqlite3_context_db_handle's.
        let db = unsafe {
            call!(
                api,
                slot::CONTEXT_DB_HANDLE,
                fn(*mut sqlite3_context) -> *mut sqlite3,
                context
            )
        };
        // SAFETY: as for this function.
        unsafe { Connection::new(api, db) }
    }

    /// # Safety
    /// `db` is a connection of this library, held by the caller for as long as what is returned is used.
    pub(super) unsafe fn new(api: Api, db: *mut sqlite3) -> Self {
        Connection {
            api,
            db,
            running: PhantomData,
        }
    }

    /// SQLite's last error on this connection.
    fn error(&self) -> Error {
        // SAFETY: the signatures are sqlite3_errmsg's, whose text lives until the next call on the
        // connection, and sqlite3_extended_errcode's.
        unsafe {
            type Db = *mut sqlite3;
            let text = call!(self.api, slot::ERRMSG, fn(Db) -> *const c_char, self.db);
            let code = call!(self.api, slot::EXTENDED_ERRCODE, fn(Db) -> c_int, self.db);
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
        let mut now: c_int = 0;
        // SAFETY: the signature is sqlite3_db_config's with the arguments of this operation.
        let code = unsafe {
            let function = self.api.table.add(slot::DB_CONFIG).read();
            let function: unsafe extern "C" fn(*mut sqlite3, c_int, ...) -> c_int =
                std::mem::transmute(function);
            function(self.db, DBCONFIG_ENABLE_TRIGGER, on, &raw mut now)
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
        type Text = *const c_char;
        // SQLite would run the statement up to there.
        if sql.contains('\0') {
            return Err(Error::new("SQL text contains a NUL character"));
        }
        let length = c_int::try_from(sql.len()).map_err(|_| Error::new("SQL text too long"))?;
        let mut statement = std::ptr::null_mut();
        // SAFETY: the signature is sqlite3_prepare_v2's; the text is as long as said.
        let code = unsafe {
            call!(
                self.api,
                slot::PREPARE_V2,
                fn(*mut sqlite3, Text, c_int, *mut *mut sqlite3_stmt, *mut Text) -> c_int,
                self.db,
                sql.as_ptr().cast(),
                length,
                &raw mut statement,
                std::ptr::null_mut()
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
        // SAFETY: the signature is sqlite3_get_autocommit's.
        unsafe {
            call!(
                self.api,
                slot::GET_AUTOCOMMIT,
                fn(*mut sqlite3) -> c_int,
                self.db
            ) != 0
        }
    }

    fn is_writing(&self, schema: &str) -> bool {
        let Ok(schema) = name(schema) else {
            return false;
        };
        // SAFETY: the signature is sqlite3_txn_state's.
        unsafe {
            call!(
                self.api,
                slot::TXN_STATE,
                fn(*mut sqlite3, *const c_char) -> c_int,
                self.db,
                schema.as_ptr()
            ) == TXN_WRITE
        }
    }

    fn data_version(&self, schema: &str) -> Option<u32> {
        let schema = name(schema).ok()?;
        let mut version: u32 = 0;
        // SAFETY: the signature is sqlite3_file_control's; this operation writes an unsigned int.
        let code = unsafe {
            call!(
                self.api,
                slot::FILE_CONTROL,
                fn(*mut sqlite3, *const c_char, c_int, *mut u32) -> c_int,
                self.db,
                schema.as_ptr(),
                fcntl::DATA_VERSION,
                &raw mut version
            )
        };
        (code == OK).then_some(version)
    }

    fn total_changes(&self) -> i64 {
        // SAFETY: the signature is sqlite3_total_changes's.
        let changes = unsafe {
            call!(
                self.api,
                slot::TOTAL_CHANGES,
                fn(*mut sqlite3) -> c_int,
                self.db
            )
        };
        changes.into()
    }

    fn length_limit(&self) -> usize {
        // SAFETY: the signature is sqlite3_limit's; a negative value only asks.
        len(unsafe {
            call!(
                self.api,
                slot::LIMIT,
                fn(*mut sqlite3, c_int, c_int) -> c_int,
                self.db,
                LIMIT_LENGTH,
                -1
            )
        })
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
        // SAFETY: the signature is sqlite3_finalize's; the statement is not used again. Its code
        // repeats the last step's.
        unsafe {
            call!(
                self.connection.api,
                slot::FINALIZE,
                fn(*mut sqlite3_stmt) -> c_int,
                self.statement
            );
        }
    }
}

impl Prepared<'_> {
    fn bytes(&self, function: usize, index: c_int) -> &[u8] {
        type Stmt = *mut sqlite3_stmt;
        // SAFETY: the signatures are sqlite3_column_text's or _blob's, and _bytes's, in the order
        // SQLite asks for; they live until the statement moves on, which needs `&mut self`.
        unsafe {
            let data = call!(
                self.connection.api,
                function,
                fn(Stmt, c_int) -> *const u8,
                self.statement,
                index
            );
            let length = call!(
                self.connection.api,
                slot::COLUMN_BYTES,
                fn(Stmt, c_int) -> c_int,
                self.statement,
                index
            );
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
        // SAFETY: as for this function.
        unsafe { std::slice::from_raw_parts(data, len(length)) }
    }
}

impl Statement for Prepared<'_> {
    fn bind(&mut self, index: usize, value: Value<'_>) -> Result<()> {
        type Stmt = *mut sqlite3_stmt;
        let index = c_int::try_from(index).map_err(|_| Error::new("no such parameter"))?;
        // SAFETY: the signatures are those of the sqlite3_bind_ functions; SQLite copies the bytes.
        let code = unsafe {
            match value {
                Value::Null => call!(
                    self.connection.api,
                    slot::BIND_NULL,
                    fn(Stmt, c_int) -> c_int,
                    self.statement,
                    index
                ),
                Value::Integer(value) => call!(
                    self.connection.api,
                    slot::BIND_INT64,
                    fn(Stmt, c_int, i64) -> c_int,
                    self.statement,
                    index,
                    value
                ),
                Value::Real(value) => call!(
                    self.connection.api,
                    slot::BIND_DOUBLE,
                    fn(Stmt, c_int, f64) -> c_int,
                    self.statement,
                    index,
                    value
                ),
                Value::Text(bytes) => call!(
                    self.connection.api,
                    slot::BIND_TEXT64,
                    fn(Stmt, c_int, *const u8, u64, isize, c_uchar) -> c_int,
                    self.statement,
                    index,
                    bytes.as_ptr(),
                    bytes.len() as u64,
                    TRANSIENT,
                    UTF8
                ),
                Value::Blob(bytes) => call!(
                    self.connection.api,
                    slot::BIND_BLOB64,
                    fn(Stmt, c_int, *const u8, u64, isize) -> c_int,
                    self.statement,
                    index,
                    bytes.as_ptr(),
                    bytes.len() as u64,
                    TRANSIENT
                ),
            }
        };
        self.connection.check(code)
    }

    fn step(&mut self) -> Result<bool> {
        // A text without a statement in it has nothing to do.
        if self.statement.is_null() {
            return Ok(false);
        }
        // SAFETY: the signature is sqlite3_step's.
        let code = unsafe {
            call!(
                self.connection.api,
                slot::STEP,
                fn(*mut sqlite3_stmt) -> c_int,
                self.statement
            )
        };
        match code {
            ROW => Ok(true),
            DONE => {
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
        type Stmt = *mut sqlite3_stmt;
        let Ok(index) = c_int::try_from(index) else {
            return Value::Null;
        };
        // SAFETY: the signatures are those of the sqlite3_column_ functions.
        unsafe {
            let statement = self.statement;
            match call!(
                self.connection.api,
                slot::COLUMN_TYPE,
                fn(Stmt, c_int) -> c_int,
                statement,
                index
            ) {
                kind::INTEGER => Value::Integer(call!(
                    self.connection.api,
                    slot::COLUMN_INT64,
                    fn(Stmt, c_int) -> i64,
                    statement,
                    index
                )),
                kind::REAL => Value::Real(call!(
                    self.connection.api,
                    slot::COLUMN_DOUBLE,
                    fn(Stmt, c_int) -> f64,
                    statement,
                    index
                )),
                kind::TEXT => Value::Text(self.bytes(slot::COLUMN_TEXT, index)),
                kind::BLOB => Value::Blob(self.bytes(slot::COLUMN_BLOB, index)),
                _ => Value::Null,
            }
        }
    }

    fn reset(&mut self) {
        // SAFETY: the signature is sqlite3_reset's. Its code repeats the last step's.
        unsafe {
            call!(
                self.connection.api,
                slot::RESET,
                fn(*mut sqlite3_stmt) -> c_int,
                self.statement
            );
        }
    }
}

/// SQLite's fundamental datatypes.
mod kind {
    use std::ffi::c_int;
    pub(super) const INTEGER: c_int = 1;
    pub(super) const REAL: c_int = 2;
    pub(super) const TEXT: c_int = 3;
    pub(super) const BLOB: c_int = 4;
}

/// An argument of a running function.
///
/// # Safety
/// `value` is one, and the result is not used after the call.
pub(crate) unsafe fn argument<'a>(api: Api, value: *mut sqlite3_value) -> Value<'a> {
    type Val = *mut sqlite3_value;
    // SAFETY: the signatures are those of the sqlite3_value_ functions, bytes asked for last.
    unsafe {
        let bytes = |function: usize| {
            let data = call!(api, function, fn(Val) -> *const u8, value);
            let length = call!(api, slot::VALUE_BYTES, fn(Val) -> c_int, value);
            slice(data, length)
        };
        match call!(api, slot::VALUE_TYPE, fn(Val) -> c_int, value) {
            kind::INTEGER => Value::Integer(call!(api, slot::VALUE_INT64, fn(Val) -> i64, value)),
            kind::REAL => Value::Real(call!(api, slot::VALUE_DOUBLE, fn(Val) -> f64, value)),
            kind::TEXT => Value::Text(bytes(slot::VALUE_TEXT)),
            kind::BLOB => Value::Blob(bytes(slot::VALUE_BLOB)),
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
        type Ctx = *mut sqlite3_context;
        type Free = isize;
        // SAFETY: the signatures are those of the sqlite3_result_ functions.
        unsafe {
            match value {
                Value::Null => self.result_null(context),
                Value::Integer(value) => {
                    call!(self, slot::RESULT_INT64, fn(Ctx, i64), context, value);
                }
                Value::Real(value) => {
                    call!(self, slot::RESULT_DOUBLE, fn(Ctx, f64), context, value);
                }
                Value::Text(bytes) => call!(
                    self,
                    slot::RESULT_TEXT64,
                    fn(Ctx, *const c_void, u64, Free, c_uchar),
                    context,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    TRANSIENT,
                    UTF8
                ),
                Value::Blob(bytes) => call!(
                    self,
                    slot::RESULT_BLOB64,
                    fn(Ctx, *const c_void, u64, Free),
                    context,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    TRANSIENT
                ),
            }
        }
    }
}
