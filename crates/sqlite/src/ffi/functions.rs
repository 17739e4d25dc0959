//! How SQLite calls the functions of [`crate::sql::functions`]: one way in for all of them.
//!
//! The registration of a function, and the state of its connection, are freed with the connection; the samples that an
//! aggregate gathered, when its statement ends, however that happens.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use litepack_columns::sql::{Error, Result, Sql};

use crate::c::api::{Api, Body, Destructor, FinalFn, SqlFn, call, free, len};
use crate::c::bindings::{
    SQLITE_DETERMINISTIC, SQLITE_DIRECTONLY, SQLITE_INNOCUOUS, SQLITE_UTF8, sqlite3,
    sqlite3_context, sqlite3_value,
};
use crate::c::codes::{BUSY, Code, INTERNAL, IOERR_NOMEM, MISUSE, NOMEM, OK, fcntl};
use crate::c::connection::Connection;
use crate::c::guard::guard;
use crate::c::library::{LIBRARIES, Library, for_each_library};
use crate::relief::relieve;
use crate::sql::call::Call;
use crate::sql::columns::Training;
use crate::sql::columns::state::State;
use crate::sql::functions::{Act, SECTIONS};

/// The data that SQLite keeps for each function of each connection.
struct Registered {
    name: &'static str,
    act: Act,
    /// Shared by the functions of the connection, which SQLite runs and frees one at a time.
    state: Rc<State>,
}

/// Registers all functions with a connection, if it does not have them.
///
/// # Safety
/// `db` is an open connection of this library.
pub(crate) unsafe fn register(library: Library, db: *mut sqlite3) -> Code {
    // SAFETY: the caller says that `db` is an open connection of this library.
    let code = unsafe { register_all(library, db) };
    // SAFETY: registering functions does not close the connection, so it is still open.
    let has_them = || unsafe { has_them(library.api(), db) };
    // SQLite replaces no function of a connection that runs a statement, such as `select load_extension(...)`. On
    // all but the first connection of the process they are there already.
    if code == BUSY && has_them() { OK } else { code }
}

/// Whether a connection has all functions, ours or those of another copy of this library.
///
/// # Safety
/// As [`register`].
unsafe fn has_them(api: Api, db: *mut sqlite3) -> bool {
    // SAFETY: the caller says that `db` is open, and it is not closed while `connection` is in use.
    let connection = unsafe { Connection::new(api, db) };
    // The function that is registered last.
    connection.prepare("select litepack_version()").is_ok()
}

/// # Safety
/// As [`register`].
unsafe fn register_all(library: Library, db: *mut sqlite3) -> Code {
    let (api, bodies) = (library.api(), BODIES[library.0]);
    let state = Rc::new(State::default());
    let functions = SECTIONS.iter().flat_map(|section| section.functions);
    // From the last to the first, which is `litepack_version`: who has it has all of them.
    for function in functions.rev() {
        let flags = SQLITE_UTF8
            | match function.act {
                Act::Compute(_) => SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                // Not from a schema that someone else made.
                Act::Operate(_) | Act::Configure(_) | Act::Train(_) => SQLITE_DIRECTONLY,
            };
        for count in function.counts() {
            let body = match function.act {
                Act::Compute(_) | Act::Operate(_) | Act::Configure(_) => {
                    Body::Scalar(bodies.scalar)
                }
                Act::Train(_) => Body::Aggregate(bodies.step, bodies.last),
            };
            let registered = Box::new(Registered {
                name: function.name.to_str().unwrap_or_default(),
                act: function.act,
                state: state.clone(),
            });
            let data = (
                Box::into_raw(registered).cast::<c_void>(),
                Some(free::<Registered> as Destructor),
            );
            // SAFETY: the bodies find what they expect, and SQLite frees it.
            let code = unsafe { api.create_function(db, function.name, count, flags, body, data) };
            if code != OK {
                return code;
            }
        }
    }
    OK
}

/// Why the main database of a connection was only opened to say that it cannot be.
///
/// # Errors
/// SQLite's, if it had no memory for asking.
///
/// # Safety
/// `db` is an open connection.
pub(crate) unsafe fn refused(
    api: Api,
    db: *mut sqlite3,
) -> std::result::Result<Option<(c_int, String)>, c_int> {
    // SAFETY: the caller says that `db` is open; only a refused file answers this file control, with a text.
    match unsafe { api.ask_file(db, c"main", fcntl::LITEPACK_REFUSED) } {
        // Another version of this library, which has loaded beside this one, says no code.
        (OK, Some(why)) => Ok(Some((MISUSE, why))),
        (code, Some(why)) => Ok(Some((code, why))),
        (NOMEM | IOERR_NOMEM, _) => Err(NOMEM),
        // Other files answer so to a question that they do not know.
        _ => Ok(None),
    }
}

/// Runs a function and hands its error, or its panic, to SQLite.
///
/// # Safety
/// `context` and the arguments are those SQLite calls a function of this file with.
unsafe fn run(
    library: Library,
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
    body: impl FnOnce(&Call<'_>, Act) -> Result<()>,
) {
    let api = library.api();
    // SAFETY: SQLite keeps `context` alive until the function that it called returns, and `fail` is used only before.
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
                library,
                api,
                context,
                values,
                name: registered.name,
                state: &registered.state,
            };
            let entered = relieve().map_err(Error::from);
            let entered = entered.and_then(|()| registered.state.enter());
            let result = entered.and_then(|_running| match registered.act {
                // A function that takes long listens itself: for most values asking would take longer than the work.
                Act::Compute(_) => body(&call, registered.act),
                Act::Operate(_) | Act::Configure(_) | Act::Train(_) => {
                    call.interruptible(|| body(&call, registered.act))
                }
            });
            if let Err(error) = result {
                fail(error.code, &error.message);
            }
            OK
        },
    );
}

/// The functions that SQLite calls.
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
    // SAFETY: SQLite calls this as a function.
    unsafe {
        run(
            Library(LIBRARY),
            context,
            count,
            values,
            |call, act| match act {
                Act::Compute(body) | Act::Operate(body) => body(call),
                Act::Configure(body) => {
                    call.may_configure()?;
                    body(call)
                }
                Act::Train(_) => Err(Error::new("this is an aggregate")),
            },
        );
    }
}

unsafe extern "C" fn step<const LIBRARY: usize>(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    let library = Library(LIBRARY);
    // SAFETY: SQLite calls this as an aggregate's step.
    unsafe {
        run(library, context, count, values, |call, _| {
            let place = training(library.api(), context, size_of::<*mut Training>());
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
    let library = Library(LIBRARY);
    let mut gathered = None;
    // Before anything can refuse to run: it is freed here and nowhere else.
    let take = || {
        // SAFETY: SQLite calls this as an aggregate's last, once for each one that was begun; the pointer is null or a
        // box's that `step` gave up, and is taken out.
        unsafe {
            let place = training(library.api(), context, 0);
            if !place.is_null() && !place.read().is_null() {
                gathered = Some(Box::from_raw(place.replace(std::ptr::null_mut())));
            }
        }
        OK
    };
    guard(library.api(), || (), take);
    // SAFETY: SQLite calls this with the context of an aggregate that it has begun, and there are no arguments.
    unsafe {
        run(
            library,
            context,
            0,
            std::ptr::null_mut(),
            move |call, act| match (act, gathered) {
                (Act::Train(finish), Some(training)) => finish(call, *training),
                _ => Err(call.error("there are no rows to train a dictionary from")),
            },
        );
    }
}

/// Where SQLite keeps a pointer for the running aggregate; null at first. With a size of 0, null
/// also when no row was seen.
///
/// # Safety
/// `context` is a running aggregate's.
unsafe fn training(api: Api, context: *mut sqlite3_context, size: usize) -> *mut *mut Training {
    // SAFETY: the context is an aggregate's, as the caller says. SQLite gives zeroed memory, aligned for a pointer, or
    // null.
    unsafe { call!(api.table(), aggregate_context(context, size as c_int)) }.cast()
}

#[cfg(test)]
mod tests {
    use std::ffi::c_char;

    use super::*;
    use crate::c::api::tests::silent;
    use crate::c::bindings::sqlite3_api_routines;
    use crate::c::codes::NOMEM;

    /// SQLite's part of a running aggregate.
    struct Running {
        registered: Registered,
        training: *mut Training,
        code: c_int,
    }

    unsafe extern "C" fn user_data(context: *mut sqlite3_context) -> *mut c_void {
        // SAFETY: the test below makes no other context.
        unsafe { (&raw mut (*context.cast::<Running>()).registered).cast() }
    }

    unsafe extern "C" fn aggregate_context(context: *mut sqlite3_context, _: c_int) -> *mut c_void {
        // SAFETY: the test below makes no other context.
        unsafe { (&raw mut (*context.cast::<Running>()).training).cast() }
    }

    unsafe extern "C" fn error(_: *mut sqlite3_context, _: *const c_char, _: c_int) {}

    unsafe extern "C" fn error_code(context: *mut sqlite3_context, code: c_int) {
        // SAFETY: the test below makes no other context.
        unsafe { (*context.cast::<Running>()).code = code };
    }

    unsafe extern "C" fn version() -> c_int {
        crate::c::api::VERSION_MIN
    }

    #[test]
    fn samples_are_freed_when_the_end_of_an_aggregate_is_refused() {
        let table = sqlite3_api_routines {
            libversion_number: Some(version),
            user_data: Some(user_data),
            aggregate_context: Some(aggregate_context),
            result_error: Some(error),
            result_error_code: Some(error_code),
            // SAFETY: the table is leaked.
            ..unsafe { *silent().table }
        };
        let table: &'static sqlite3_api_routines = Box::leak(Box::new(table));
        // SAFETY: the table has what is called here, and stays.
        let library = unsafe { Library::of(std::ptr::from_ref(table).cast()) }.unwrap();
        let state = Rc::new(State::default());
        let mut running = Running {
            registered: Registered {
                name: "train",
                act: Act::Train(|_, _| unreachable!("it is refused")),
                state: Rc::clone(&state),
            },
            training: Box::into_raw(Box::new(Training::of_nothing())),
            code: OK,
        };
        // As deep as functions may call each other.
        let entered: Vec<_> = std::iter::from_fn(|| state.enter().ok()).collect();
        let before = Training::dropped();
        // SAFETY: the context is what the table's functions expect.
        unsafe { (BODIES[library.0].last)((&raw mut running).cast()) };
        assert_eq!(Training::dropped(), before + 1);
        assert!(running.training.is_null());
        assert!(running.code != OK && running.code != NOMEM);
        drop(entered);
    }
}
