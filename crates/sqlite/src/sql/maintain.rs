//! `litepack_maintain`: maintenance of a packed file as a SQL function, in steps that leave others their turn.

use std::time::Instant;

use litepack_codec::{LEVELS, Level};
use litepack_columns::sql::{Error, Sql, Value};

use crate::c::codes::READONLY;
use crate::session::patience::RETRY;
use crate::sql::call::Call;
use crate::sql::columns::maintenance::limits;
use crate::sql::packed::schema_name;
use crate::sql::step::Step;

/// Why maintenance is refused on a connection that only asks: it writes, if not by a statement of SQLite's.
pub(crate) const QUERY_ONLY: &str =
    "litepack_maintain: PRAGMA query_only is on, and maintenance writes to the file";

/// `litepack_maintain(seconds, load [, level [, schema]])`: 1 if there is more to do, else 0.
pub(crate) fn maintain(call: &Call<'_>) -> litepack_columns::sql::Result<()> {
    let limits = limits(call, 0)?;
    if call.db().is_query_only()? {
        return Err(Error {
            code: READONLY,
            message: QUERY_ONLY.into(),
        });
    }
    let level = match call.argument(2) {
        Value::Null => None,
        Value::Integer(level)
            if (*LEVELS.start() as i64..=*LEVELS.end() as i64).contains(&level) =>
        {
            Some(level as Level)
        }
        _ => {
            let (min, max) = (LEVELS.start(), LEVELS.end());
            return Err(call.error(format_args!("the level is a number from {min} to {max}")));
        }
    };
    let schema = schema_name(call.argument(3));
    loop {
        litepack_io::interrupt::check()?;
        let begun = Instant::now();
        match call.maintain(&schema, level)? {
            Step::Done => {
                call.answer(Value::Integer(0));
                return Ok(());
            }
            Step::More => limits.pause(&call.db(), begun.elapsed())?,
            Step::Busy => call.db().sleep(RETRY)?,
        }
        if limits.over() {
            call.answer(Value::Integer(1));
            return Ok(());
        }
    }
}
