//! The SQL functions that change which columns are compressed, over the running [`Call`].

use litepack_columns::alter::alter;
use litepack_columns::configure::configure;
use litepack_columns::disable::disable;
use litepack_columns::enable::enable;
use litepack_columns::index::create_index;
use litepack_columns::sql::{Result, Value};

use crate::sql::call::Call;

/// `zstd_enable_transparent(configuration)`
pub(crate) fn enable_column(call: &Call<'_>) -> Result<()> {
    enable(&call.db(), &text(call, 0)?)?;
    done(call)
}

/// `litepack_disable_transparent(table, column)`
pub(crate) fn disable_column(call: &Call<'_>) -> Result<()> {
    disable(&call.db(), &text(call, 0)?, &text(call, 1)?)?;
    done(call)
}

/// `litepack_alter_table(table, action)`
pub(crate) fn alter_table(call: &Call<'_>) -> Result<()> {
    alter(&call.db(), &text(call, 0)?, &text(call, 1)?)?;
    done(call)
}

/// `litepack_create_index(statement)`
pub(crate) fn index(call: &Call<'_>) -> Result<()> {
    create_index(&call.db(), &text(call, 0)?)?;
    done(call)
}

/// `litepack_configure_column(table, column, changes)`
pub(crate) fn configure_column(call: &Call<'_>) -> Result<()> {
    configure(
        &call.db(),
        &text(call, 0)?,
        &text(call, 1)?,
        &text(call, 2)?,
    )?;
    done(call)
}

fn text(call: &Call<'_>, index: usize) -> Result<String> {
    let value = call.argument(index);
    value.text().ok_or_else(|| {
        call.error(format_args!(
            "argument {} is text, not {}",
            index + 1,
            value.type_name()
        ))
    })
}

/// sqlite-zstd's answer.
fn done(call: &Call<'_>) -> Result<()> {
    call.answer(Value::from("Done!"));
    Ok(())
}
