//! LTSV (ltsv.org): `label:value` between tabs.

use std::borrow::Cow;

use super::put;
use crate::row::{Columns, Row, Value};

/// Parses a line. One with a single field may be any text with a colon, so it is none.
pub(super) fn parse<'a>(
    line: &'a [u8],
    row: &mut Row<'a>,
    columns: &mut Columns,
) -> Result<(), &'static str> {
    let mut count = 0;
    for field in line
        .split(|b| *b == b'\t')
        .filter(|field| !field.is_empty())
    {
        let at = memchr::memchr(b':', field).ok_or("a field has no label")?;
        let (label, value) = field.split_at_checked(at).ok_or("a field has no label")?;
        let letter = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if label.is_empty() || !label.iter().all(letter) {
            return Err("a label is none");
        }
        let label = std::str::from_utf8(label).map_err(|_| "a label is none")?;
        let value = match value.get(1..).unwrap_or_default() {
            b"-" => Value::Null,
            value => Value::typed(value),
        };
        put(row, columns, Cow::Borrowed(label), value);
        count += 1;
    }
    match count {
        0 | 1 => Err("not label:value between tabs"),
        _ => Ok(()),
    }
}
