//! A running SQL function: its arguments, its connection, where its result goes.

use std::ffi::{CStr, c_int};

use litepack_columns::dictionary::Run;
use litepack_columns::sql::{Error, Value};
use litepack_io::interrupt::listen;

use crate::c::api::{Api, call, free, len};
use crate::c::bindings::{SQLITE_BLOB, SQLITE_TEXT, sqlite3_context, sqlite3_file, sqlite3_value};
use crate::c::codes::{Code, OK, fcntl};
use crate::c::connection::{Connection, argument};
use crate::c::interrupts::Interrupts;
use crate::c::library::Library;
use crate::sql::columns::state::State;

pub(crate) struct Call<'a> {
    pub(crate) library: Library,
    /// Of that library.
    pub(crate) api: Api,
    pub(crate) context: *mut sqlite3_context,
    pub(crate) values: &'a [*mut sqlite3_value],
    pub(crate) name: &'static str,
    pub(crate) state: &'a State,
}

impl<'a> Call<'a> {
    /// The state that this connection keeps.
    pub(crate) fn state(&self) -> &'a State {
        self.state
    }

    /// The SQLite library that calls.
    pub(crate) fn library(&self) -> Library {
        self.library
    }

    pub(crate) fn api(&self) -> Api {
        self.api
    }

    pub(crate) fn context(&self) -> *mut sqlite3_context {
        self.context
    }

    /// The connection the function runs on.
    pub(crate) fn db(&self) -> Connection<'_> {
        // SAFETY: the function runs as long as `self` is borrowed.
        unsafe { Connection::of(self.api, self.context) }
    }

    /// As [`Call::interruptible`], and the work also ends when `may_go_on` says so, which is asked at times.
    pub(crate) fn interruptible_while<R>(
        &self,
        may_go_on: impl Fn(&Connection<'_>) -> bool + 'static,
        work: impl FnOnce() -> R,
    ) -> R {
        // SAFETY: the connection is open while the function runs, and is asked only until the work has ended.
        let (interrupts, connection) = unsafe {
            let db = self.api.connection_of(self.context);
            let interrupts = Interrupts::of_function(self.api, db);
            (interrupts, Connection::new(self.api, db))
        };
        let ask = move || interrupts.ask() || !may_go_on(&connection);
        listen(ask, work)
    }

    /// How many bytes an argument has, if it is text or a blob. A blob of zeros that is not in memory yet stays so.
    pub(crate) fn length_of(&self, index: usize) -> usize {
        let (api, Some(value)) = (self.api, self.values.get(index)) else {
            return 0;
        };
        // SAFETY: it is an argument of the running function.
        unsafe {
            match call!(api.table(), value_type(*value)) {
                SQLITE_TEXT | SQLITE_BLOB => len(call!(api.table(), value_bytes(*value))),
                _ => 0,
            }
        }
    }

    /// Does work that ends soon after the connection was interrupted.
    pub(crate) fn interruptible<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: the connection is open while the function runs, and is asked only until the work has ended.
        let interrupts =
            unsafe { Interrupts::of_function(self.api, self.api.connection_of(self.context)) };
        listen(move || interrupts.ask(), work)
    }

    /// An argument, NULL if it was left out.
    pub(crate) fn argument(&self, index: usize) -> Value<'a> {
        match self.values.get(index) {
            // SAFETY: it is an argument of the running function, and `'a` ends with that.
            Some(value) => unsafe { argument(self.api, *value) },
            None => Value::Null,
        }
    }

    /// The name of the function.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// How many arguments there are.
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// Sets the result, which SQLite copies.
    pub(crate) fn answer(&self, value: Value<'_>) {
        // SAFETY: the context is the running function's.
        unsafe { self.api.result(self.context, value) };
    }

    /// Makes an argument the result, as it is.
    pub(crate) fn answer_argument(&self, index: usize) {
        match self.values.get(index) {
            // SAFETY: the context is the running function's, and the value an argument of it.
            Some(value) => unsafe { call!(self.api.table(), result_value(self.context, *value)) },
            None => self.answer(Value::Null),
        }
    }

    /// Sends a file control that answers with a text to the database `schema`.
    pub(crate) fn ask_file(&self, schema: &CStr, op: c_int) -> (Code, Option<String>) {
        // SAFETY: the connection is open while the function runs.
        unsafe {
            let db = self.api().connection_of(self.context);
            self.api().ask_file(db, schema, op)
        }
    }

    /// The first bytes of the file of the database `schema` and its length, as the VFS that opened it reads them
    /// without a lock; `None` if there are fewer.
    pub(crate) fn file_head<const N: usize>(&self, schema: &CStr) -> Option<([u8; N], u64)> {
        let mut file: *mut sqlite3_file = std::ptr::null_mut();
        let mut head = [0; N];
        let mut len = 0;
        // SAFETY: the argument is where the file goes, which is open if it has methods; the buffer holds its length.
        unsafe {
            let db = self.api().connection_of(self.context);
            let to = (&raw mut file).cast();
            let code = self
                .api()
                .file_control_on(db, schema, fcntl::FILE_POINTER, to);
            if code != OK || file.is_null() {
                return None;
            }
            let methods = (*file).pMethods.as_ref()?;
            let read = call!(
                methods,
                xRead(file, head.as_mut_ptr().cast(), N as c_int, 0)
            );
            if read != OK || call!(methods, xFileSize(file, &raw mut len)) != OK {
                return None;
            }
        }
        Some((head, u64::try_from(len).ok()?))
    }

    /// An error that says which function it comes from.
    pub(crate) fn error(&self, text: impl std::fmt::Display) -> Error {
        Error::new(format!("{}: {text}", self.name))
    }

    /// Lends what this run of the statement knows. SQLite forgets it at the end of the run, and
    /// earlier unless argument 1 (whether it is text, or the level) is a constant.
    pub(crate) fn with_run<T>(&self, body: impl FnOnce(&mut Run) -> T) -> T {
        const ARGUMENT: c_int = 1;
        let (table, context) = (self.api.table(), self.context);
        // SAFETY: what is kept under this argument is always a `Run`, only used by this function's call in this
        // statement. Once handed over it may be freed at any time, so it is not used after that.
        unsafe {
            let kept: *mut Run = call!(table, get_auxdata(context, ARGUMENT)).cast();
            if !kept.is_null() {
                return body(&mut *kept);
            }
            let mut run = Box::<Run>::default();
            let result = body(&mut run);
            let run = Box::into_raw(run).cast();
            call!(
                table,
                set_auxdata(context, ARGUMENT, run, Some(free::<Run>))
            );
            result
        }
    }
}
