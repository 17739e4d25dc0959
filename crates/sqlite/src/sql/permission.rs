//! Who may configure the process by SQL: who may load code into it, since code could do so anyway.
//!
//! That is so on a connection on which SQL's own `load_extension()` works, and on one that the entry point
//! `sqlite3_litepackconfigure_init` was loaded into: for hosts that load extensions by the C interface and never let
//! SQL do so. The setting of the C interface does not tell, because many hosts leave that on for themselves.

use std::cell::Cell;

use litepack_columns::sql::{Error, Result, Sql, Statement as _, Value};

use super::call::Call;
use crate::c::bindings::sqlite3;
use crate::c::codes::{AUTH, IOERR_NOMEM, NOMEM};
use crate::c::connection::Connection;
use crate::c::library::Library;

/// `sqlite3_interrupt`'s, which a later try may not meet.
const INTERRUPT: i32 = 9;

thread_local! {
    /// The connection that is being trusted by [`trust`], which has one of our functions find out what that remembers.
    static TRUSTING: Cell<*mut sqlite3> = const { Cell::new(std::ptr::null_mut()) };
}

/// From now on SQL on this connection may configure the process.
///
/// # Errors
/// In words: the functions of the connection are not ours, or may not be called.
///
/// # Safety
/// `db` is an open connection of this library, which has our functions.
pub(crate) unsafe fn trust(library: Library, db: *mut sqlite3) -> std::result::Result<(), String> {
    // SAFETY: the caller says that `db` is open, and it is not closed meanwhile.
    let connection = unsafe { Connection::new(library.api(), db) };
    TRUSTING.set(db);
    let ran = connection.run("select litepack_new_databases()", &[]);
    let is_done = TRUSTING.replace(std::ptr::null_mut()).is_null();
    ran.map_err(|error| error.message)?;
    if is_done {
        Ok(())
    } else {
        Err("the functions of this connection are another copy's of litepack".into())
    }
}

impl Call<'_> {
    /// Refuses to configure the process unless this connection may. Without arguments nothing is configured.
    pub(crate) fn may_configure(&self) -> Result<()> {
        if self.count() == 0 {
            if !TRUSTING.get().is_null() && TRUSTING.get() == self.db().address() {
                TRUSTING.set(std::ptr::null_mut());
                self.state().trust();
            }
            return Ok(());
        }
        if self.state().is_trusted() {
            return Ok(());
        }
        match sql_may_load(&self.db()) {
            Ok(true) => Ok(()),
            Err(error) if matches!(error.code, NOMEM | IOERR_NOMEM | INTERRUPT) => Err(error),
            Ok(false) | Err(_) => Err(Error {
                code: AUTH,
                ..self.error(REFUSED)
            }),
        }
    }
}

const REFUSED: &str = "not authorized: this holds for the whole process, so SQL may do it on a connection that may load \
     extensions only. Enable SQL's load_extension() on a connection of the program's own \
     (sqlite3_enable_load_extension), or load sqlite3_litepackconfigure_init into it, and call this there";

/// Whether SQL's own `load_extension` would load something on this connection.
///
/// The answer of `select load_extension(NULL)` alone does not tell: a function of that name may be the application's, or
/// of who writes SQL where SQL may define functions, and an authorizer may have put NULL in its place.
fn sql_may_load(db: &Connection<'_>) -> Result<bool> {
    if !db.loads_extensions_for_c()? {
        return Ok(false);
    }
    // As a pragma: a table could have the name of its virtual table.
    let mut functions = db.prepare("pragma function_list")?;
    let mut is_built_in = false;
    while functions.step()? {
        let name = functions.column(0).text().unwrap_or_default();
        if name.eq_ignore_ascii_case("load_extension") {
            if functions.column(1) != Value::Integer(1) {
                return Ok(false);
            }
            is_built_in = true;
        }
    }
    drop(functions);
    if !is_built_in || !calls_a_function(db)? {
        return Ok(false);
    }
    let mut asked = db.prepare(ASK)?;
    Ok(asked.step()? && asked.column(0) == Value::Null)
}

const ASK: &str = "select load_extension(NULL)";

/// Whether the program that SQLite makes of the question calls a function at all.
fn calls_a_function(db: &Connection<'_>) -> Result<bool> {
    let mut program = db.prepare(&format!("explain {ASK}"))?;
    while program.step()? {
        let operation = program.column(1).text().unwrap_or_default();
        if operation.starts_with("Function") || operation.starts_with("PureFunc") {
            return Ok(true);
        }
    }
    Ok(false)
}
