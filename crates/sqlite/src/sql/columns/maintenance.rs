//! The SQL functions that compress rows and look after dictionaries, over the running [`Call`].

use litepack_columns::compress_pending::{Limits, maintain};
use litepack_columns::recompress::recompress;
use litepack_columns::retrain::retrain;
use litepack_columns::sql::{Result, Value};
use litepack_columns::status::status;
use litepack_columns::unused::drop_unused;

use crate::sql::call::Call;

/// `zstd_incremental_maintenance(seconds | NULL, load)`: 1 if there is more to do, else 0.
pub(crate) fn incremental(call: &Call<'_>) -> Result<()> {
    let limits = limits(call, 0)?;
    let more = maintain(&call.db(), &limits)?;
    call.answer(Value::Integer(more.into()));
    Ok(())
}

/// `litepack_recompress(table, column, seconds | NULL, load)`: 1 if there is more to do, else 0.
pub(crate) fn recompress_column(call: &Call<'_>) -> Result<()> {
    let (table, column) = (name(call, 0)?, name(call, 1)?);
    let limits = limits(call, 2)?;
    let more = recompress(&call.db(), &table, &column, &limits)?;
    call.answer(Value::Integer(more.into()));
    Ok(())
}

/// `litepack_retrain(table, column)`: how many dictionaries were trained.
pub(crate) fn retrain_column(call: &Call<'_>) -> Result<()> {
    let trained = retrain(&call.db(), &name(call, 0)?, &name(call, 1)?)?;
    call.answer(Value::Integer(trained as i64));
    Ok(())
}

/// `litepack_drop_unused_dictionaries()`: how many were dropped.
pub(crate) fn drop_dictionaries(call: &Call<'_>) -> Result<()> {
    let dropped = drop_unused(&call.db())?;
    call.answer(Value::Integer(dropped as i64));
    Ok(())
}

/// `litepack_columns()`: a JSON array about all compressed columns.
pub(crate) fn columns(call: &Call<'_>) -> Result<()> {
    let told = status(&call.db())?.to_string();
    call.answer(Value::Text(told.as_bytes()));
    Ok(())
}

/// The arguments `seconds` (or NULL) and `load`, of which the first has this index.
pub(crate) fn limits(call: &Call<'_>, first: usize) -> Result<Limits> {
    let seconds = match call.argument(first) {
        Value::Null => None,
        value => Some(number(call, value, "the time")?),
    };
    let load = number(call, call.argument(first + 1), "the load")?;
    Limits::new(seconds, load).map_err(|error| call.error(error.message))
}

fn number(call: &Call<'_>, value: Value<'_>, what: &str) -> Result<f64> {
    match value {
        Value::Integer(value) => Ok(value as f64),
        Value::Real(value) => Ok(value),
        other => Err(call.error(format_args!(
            "{what} is a number, not {}",
            other.type_name()
        ))),
    }
}

fn name(call: &Call<'_>, index: usize) -> Result<String> {
    let value = call.argument(index);
    value.text().ok_or_else(|| {
        call.error(format_args!(
            "tables and columns are named by text, not {}",
            value.type_name()
        ))
    })
}
