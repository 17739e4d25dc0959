//! The bounds of one call of a function that a schema may call: 64 MiB in, 64 MiB out, and a second of work.
//!
//! A view, a trigger, an index or a default value may call functions that only compute, and the file that it is in may
//! have been made to harm. SQLite does not tell a function who calls it. But what no schema of the connection names, only
//! the application's own statements can call: for these there is no bound. An application whose schema names the
//! function lifts the bound by another one, which a schema cannot call ([`unbounded`]). What our own functions run has
//! the bound always: a chooser is SQL that a table of the file holds, and no schema.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use litepack_btree::quote;
use litepack_columns::VALUE_MAX;
use litepack_columns::sql::{Error, INTERRUPT, Result, Sql, Statement, TOOBIG, Value};

use crate::c::connection::Connection;
use crate::c::interrupts::thread_time;
use crate::sql::call::Call;

/// Processor time of a call.
const WORK: Duration = Duration::from_secs(1);
/// A call ends in any case when so much time has passed: other threads may work for it, and the processor time of this
/// one is not known everywhere.
const TIME: Duration = Duration::from_secs(2);

/// `litepack_unbounded([on])`: whether there are no bounds on this connection.
pub(crate) fn unbounded(call: &Call<'_>) -> Result<()> {
    match call.argument(0) {
        Value::Null if call.count() == 0 => {}
        Value::Integer(on @ 0..=1) => call.state().unbounded.set(on == 1),
        _ => return Err(call.error("takes 1, to lift the bounds, or 0")),
    }
    let is_unbounded = call.state().unbounded.get();
    call.answer(Value::Integer(is_unbounded.into()));
    Ok(())
}

/// An error if a call may not take this much.
pub(crate) fn expect(call: &Call<'_>, bytes: usize) -> Result<()> {
    let state = call.state();
    if bytes <= VALUE_MAX || state.unbounded.get() {
        return Ok(());
    }
    if !state.is_nested() && !is_named(&call.db(), call.name())? {
        return Ok(());
    }
    Err(Error {
        code: TOOBIG,
        ..refused(call, "handles at most 64 MiB")
    })
}

/// Does work that ends when the connection is interrupted, or when it takes too long.
pub(crate) fn within<R>(call: &Call<'_>, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let begun = Clock::begin();
    let late = Rc::new(Cell::new(false));
    let is_unbounded = Cell::new(call.state().unbounded.get());
    let (name, is_nested) = (call.name(), call.state().is_nested());
    let is_late = Rc::clone(&late);
    let may_go_on = move |db: &Connection<'_>| {
        if is_unbounded.get() || !begun.is_over() {
            return true;
        }
        is_late.set(is_nested || is_named(db, name).unwrap_or(true));
        is_unbounded.set(!is_late.get());
        !is_late.get()
    };
    let done = call.interruptible_while(may_go_on, work);
    done.map_err(|error| match late.get() && error.code == INTERRUPT {
        true => refused(call, "works for at most a second"),
        false => error,
    })
}

fn refused(call: &Call<'_>, why: &str) -> Error {
    call.error(format_args!(
        "a call {why} on a connection where the schema of a database uses this function; \
         select litepack_unbounded(1) lifts that"
    ))
}

/// How long a call has worked.
struct Clock {
    begun: Instant,
    worked: Option<Duration>,
}

impl Clock {
    fn begin() -> Clock {
        Clock {
            begun: Instant::now(),
            worked: thread_time(),
        }
    }

    fn is_over(&self) -> bool {
        let passed = self.begun.elapsed();
        if passed < WORK || passed >= TIME {
            return passed >= TIME;
        }
        match (self.worked, thread_time()) {
            (Some(before), Some(now)) => now.saturating_sub(before) >= WORK,
            _ => true,
        }
    }
}

/// Whether the schema of a database may call this function; that of `temp` is the application's own. If the schema
/// cannot be read, it may.
///
/// # Errors
/// When it was interrupted.
fn is_named(db: &impl Sql, function: &str) -> Result<bool> {
    let named = || -> Result<bool> {
        let mut schemas = Vec::new();
        db.rows("pragma database_list", &[], |row| {
            schemas.extend(row.column(1).text().filter(|name| name != "temp"));
            Ok(())
        })?;
        let mut is_named = false;
        for schema in schemas {
            let sql = format!("select sql from {}.sqlite_schema", quote(&schema));
            db.rows(&sql, &[], |row| {
                is_named |= names(row.column(0).bytes().unwrap_or_default(), function);
                Ok(())
            })?;
        }
        Ok(is_named)
    };
    match named() {
        Err(error) if error.code == INTERRUPT => Err(error),
        named => Ok(named.unwrap_or(true)),
    }
}

/// Whether a text of SQL has this name in it: as a word, in quotes or not.
fn names(sql: &[u8], name: &str) -> bool {
    let is_in_name = |byte: Option<&u8>| {
        byte.is_some_and(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
        })
    };
    let places = sql.windows(name.len()).enumerate();
    let mut places = places.filter(|(_, word)| word.eq_ignore_ascii_case(name.as_bytes()));
    places.any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| sql.get(before));
        !is_in_name(before) && !is_in_name(sql.get(at + name.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_word() {
        let named = |sql: &str| names(sql.as_bytes(), "zstd_compress");
        for sql in [
            "zstd_compress",
            "create view v as select ZSTD_Compress(1)",
            "select\"zstd_compress\"(1)",
            "select [zstd_compress](1)",
            "select zstd_compress_col(zstd_compress(1))",
            "select -zstd_compress/**/(1)",
        ] {
            assert!(named(sql), "{sql}");
        }
        for sql in [
            "",
            "zstd_compres",
            "zstd_compress_col(1)",
            "xzstd_compress(1)",
            "\u{e4}zstd_compress(1)",
            "zstd_compress$",
        ] {
            assert!(!named(sql), "{sql}");
        }
    }
}
