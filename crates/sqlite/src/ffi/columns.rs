//! How SQLite calls the functions of compressed columns, of maintenance and of web servers: one way in for all of them.
//!
//! What a function does is a safe function over a [`Call`], in [`crate::columns`]. What it is
//! registered with, and what its connection remembers, is freed with the connection; what an
//! aggregate gathered, when its statement ends, however that happens.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use litepack_columns::dictionary::Run;
use litepack_columns::sql::{Error, Result, Value};

use super::api::{Api, Body, Destructor, FinalFn, SqlFn, call, len};
use super::bindings::{
    SQLITE_DETERMINISTIC, SQLITE_DIRECTONLY, SQLITE_INNOCUOUS, SQLITE_UTF8, sqlite3,
    sqlite3_context, sqlite3_value,
};
use super::connection::{Connection, argument};
use super::guard::guard;
use super::library::{LIBRARIES, Library, for_each_library};
use crate::codes::{Code, INTERNAL, OK};
use crate::columns::{Act, FUNCTIONS, State, Training};
use crate::relief::relieve;

/// What SQLite keeps for each function of each connection.
struct Registered {
    name: &'static str,
    act: Act,
    /// Shared by the functions of the connection, which SQLite runs and frees one at a time.
    state: Rc<State>,
}

/// A running function.
pub(crate) struct Call<'a> {
    api: Api,
    context: *mut sqlite3_context,
    values: &'a [*mut sqlite3_value],
    name: &'static str,
    state: &'a State,
}

/// Registers all functions of compressed columns with a connection.
///
/// # Safety
/// `db` is an open connection.
pub(super) unsafe fn register(library: Library, db: *mut sqlite3) -> Code {
    let (api, bodies) = (library.api(), BODIES[library.0]);
    let state = Rc::new(State::default());
    let others = [
        crate::maintain_function::FUNCTIONS,
        crate::remote::FUNCTIONS,
    ];
    for known in FUNCTIONS.iter().chain(others.into_iter().flatten()) {
        // What only computes may run from anywhere, what writes or trains only by the user's own words.
        let flags = SQLITE_UTF8
            | match known.act {
                Act::Compute(_) => SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                Act::Operate(_) | Act::Train(_) => SQLITE_DIRECTONLY,
            };
        for count in known.arguments {
            let body = match known.act {
                Act::Compute(_) | Act::Operate(_) => Body::Scalar(bodies.scalar),
                Act::Train(_) => Body::Aggregate(bodies.step, bodies.last),
            };
            let registered = Box::new(Registered {
                name: known.name.to_str().unwrap_or_default(),
                act: known.act,
                state: state.clone(),
            });
            let data = (
                Box::into_raw(registered).cast::<c_void>(),
                Some(free::<Registered> as Destructor),
            );
            // SAFETY: the bodies find what they expect, and SQLite frees it.
            let code = unsafe { api.create_function(db, known.name, *count, flags, body, data) };
            if code != OK {
                return code;
            }
        }
    }
    OK
}

/// # Safety
/// `data` is a boxed `T` that nobody uses again.
unsafe extern "C" fn free<T>(data: *mut c_void) {
    // SAFETY: as for this function.
    let drop_it = || drop(unsafe { Box::from_raw(data.cast::<T>()) });
    // Which library calls is not to be known here, so a panic goes unlogged.
    let _ = catch_unwind(AssertUnwindSafe(drop_it));
}

/// Runs a function and hands its error, or its panic, to SQLite.
///
/// # Safety
/// `context` and the arguments are those SQLite calls a function of this file with.
unsafe fn run(
    api: Api,
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
    body: impl FnOnce(&Call<'_>, Act) -> Result<()>,
) {
    // SAFETY: for the length of this call, as for this function.
    let fail = |code, text: &str| unsafe { api.result_error(context, code, text) };
    guard(
        api,
        || fail(INTERNAL, "internal error, please report it"),
        || {
            // SAFETY: the user data is what was registered, alive as long as the connection; SQLite
            // passes as many arguments as it says, and may pass null for none.
            let (registered, values) = unsafe {
                let data: *const Registered = api.user_data(context).cast();
                let values: &[_] = match count {
                    0 => &[],
                    count => std::slice::from_raw_parts(values, len(count)),
                };
                (&*data, values)
            };
            let call = Call {
                api,
                context,
                values,
                name: registered.name,
                state: &registered.state,
            };
            let entered = relieve().map_err(Error::from);
            let entered = entered.and_then(|()| registered.state.enter());
            let result = entered.and_then(|_running| body(&call, registered.act));
            if let Err(error) = result {
                fail(error.code, &error.message);
            }
            OK
        },
    );
}

/// What SQLite calls.
#[derive(Clone, Copy)]
struct Bodies {
    scalar: SqlFn,
    step: SqlFn,
    last: FinalFn,
}

const fn bodies<const LIBRARY: usize>() -> Bodies {
    Bodies {
        scalar: scalar::<LIBRARY>,
        step: step::<LIBRARY>,
        last: last::<LIBRARY>,
    }
}

static BODIES: [Bodies; LIBRARIES] = for_each_library!(bodies);

unsafe extern "C" fn scalar<const LIBRARY: usize>(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    let api = Library(LIBRARY).api();
    // SAFETY: SQLite calls this as a function.
    unsafe {
        run(api, context, count, values, |call, act| match act {
            Act::Compute(body) | Act::Operate(body) => body(call),
            Act::Train(_) => Err(Error::new("this is an aggregate")),
        });
    }
}

unsafe extern "C" fn step<const LIBRARY: usize>(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    let api = Library(LIBRARY).api();
    // SAFETY: SQLite calls this as an aggregate's step.
    unsafe {
        run(api, context, count, values, |call, _| {
            let place = training(api, context, size_of::<*mut Training>());
            if place.is_null() {
                return Err(Error::new("out of memory"));
            }
            if place.read().is_null() {
                place.write(Box::into_raw(Box::new(Training::begin(call)?)));
            }
            (*place.read()).add(call);
            Ok(())
        });
    }
}

unsafe extern "C" fn last<const LIBRARY: usize>(context: *mut sqlite3_context) {
    let api = Library(LIBRARY).api();
    // SAFETY: SQLite calls this as an aggregate's last, once for each one that was begun.
    unsafe {
        run(api, context, 0, std::ptr::null_mut(), |call, act| {
            let place = training(api, context, 0);
            let gathered = if place.is_null() || place.read().is_null() {
                None
            } else {
                Some(Box::from_raw(place.replace(std::ptr::null_mut())))
            };
            match (act, gathered) {
                (Act::Train(finish), Some(training)) => finish(call, *training),
                _ => Err(call.error("there are no rows to train a dictionary from")),
            }
        });
    }
}

/// Where SQLite keeps a pointer for the running aggregate; null at first. With a size of 0, null
/// also when no row was seen.
///
/// # Safety
/// `context` is a running aggregate's.
unsafe fn training(api: Api, context: *mut sqlite3_context, size: usize) -> *mut *mut Training {
    // SAFETY: as for this function; SQLite gives zeros, aligned for a pointer.
    unsafe { call!(api.table(), aggregate_context(context, size as c_int)) }.cast()
}

impl<'a> Call<'a> {
    /// What this connection remembers.
    pub(crate) fn state(&self) -> &'a State {
        self.state
    }

    pub(super) fn api(&self) -> Api {
        self.api
    }

    pub(super) fn context(&self) -> *mut sqlite3_context {
        self.context
    }

    /// The connection the function runs on.
    pub(crate) fn db(&self) -> Connection<'_> {
        // SAFETY: the function runs as long as `self` is borrowed.
        unsafe { Connection::of(self.api, self.context) }
    }

    /// An argument, NULL if it was left out.
    pub(crate) fn argument(&self, index: usize) -> Value<'a> {
        match self.values.get(index) {
            // SAFETY: it is an argument of the running function, and `'a` ends with that.
            Some(value) => unsafe { argument(self.api, *value) },
            None => Value::Null,
        }
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
