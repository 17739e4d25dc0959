//! `litepack_maintain`: maintenance of a packed file as a SQL function, in steps that leave others their turn.

use std::time::{Duration, Instant};

use litepack_codec::{LEVELS, Level};
use litepack_columns::sql::{Sql, Value};

use crate::codes::BUSY;
use crate::columns::maintenance::limits;
use crate::ffi::Call;
use crate::ffi::maintenance_step::Step;
use crate::functions::schema_name;

/// Others may be writing for so long before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
pub(crate) const RETRY: Duration = Duration::from_millis(5);

/// Since when others have been writing.
#[derive(Default)]
pub(crate) struct Busy(Option<Instant>);

impl Busy {
    /// Whether to try again, when they are.
    pub(crate) fn is_patient(&mut self) -> bool {
        self.0.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }
}

/// `litepack_maintain(seconds, load [, level [, schema]])`: 1 if there is more to do, else 0.
pub(crate) fn maintain(call: &Call<'_>) -> litepack_columns::sql::Result<()> {
    let limits = limits(call, 0)?;
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
    let mut busy = Busy::default();
    loop {
        let begun = Instant::now();
        match call.maintain(&schema, level)? {
            Step::Done => {
                call.answer(Value::Integer(0));
                return Ok(());
            }
            Step::More => {
                busy = Busy::default();
                limits.pause(&call.db(), begun.elapsed())?;
            }
            Step::Busy if busy.is_patient() => call.db().sleep(RETRY)?,
            Step::Busy => {
                return Err(litepack_columns::sql::Error {
                    code: BUSY,
                    ..call.error("gave up after waiting ten seconds for a writer")
                });
            }
        }
        if limits.over() {
            call.answer(Value::Integer(1));
            return Ok(());
        }
    }
}
