//! The SQL functions that configure access to web servers.

use litepack_columns::sql::{Result, Value};

use crate::files::remote::config::{Setting, get, set};
use crate::files::remote::remote_headers;
use crate::sql::call::Call;

/// `litepack_remote_headers(origin, headers)`.
pub(crate) fn headers(call: &Call<'_>) -> Result<()> {
    let origin = call.argument(0).text();
    let origin = origin.ok_or_else(|| call.error("an origin is text: https://host"))?;
    let lines = match call.argument(1) {
        Value::Null => None,
        lines => {
            let lines = lines.text();
            Some(lines.ok_or_else(|| call.error("headers are text, one in a line"))?)
        }
    };
    let count = remote_headers(&origin, lines.as_deref()).map_err(|why| call.error(why))?;
    call.answer(Value::Integer(count as i64));
    Ok(())
}

/// `litepack_remote_config(name [, value])`: sets one of the settings, unless it is only asked for, and answers its
/// value; NULL is the default.
pub(crate) fn configure(call: &Call<'_>) -> Result<()> {
    let name = call.argument(0).text().unwrap_or_default();
    if call.count() > 1 {
        set(&name, call.argument(1)).map_err(|why| call.error(why))?;
    }
    match get(&name).map_err(|why| call.error(why))? {
        Setting::Number(number) => call.answer(Value::Integer(number as i64)),
        Setting::Text(None) => call.answer(Value::Null),
        Setting::Text(Some(text)) => call.answer(Value::Text(text.as_bytes())),
    }
    Ok(())
}
