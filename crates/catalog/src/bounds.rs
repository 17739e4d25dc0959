//! Values that a column is between, in the order that SQLite gives values of all types: numbers, then text by its
//! bytes, then blobs. A bound that is not known is NULL, and excludes nothing.

use rusqlite::types::{Value, ValueRef};

/// Bytes of text that are kept.
const TEXT_MAX: usize = 200;

/// A value that is not greater than the least of a column. The beginning of a text is not greater than the text.
pub(super) fn least(value: ValueRef<'_>, is_utf8: bool) -> Value {
    match text(value, is_utf8) {
        Some(text) => Value::Text(text[..text.floor_char_boundary(TEXT_MAX)].to_owned()),
        None => number(value),
    }
}

/// A value that is not less than the greatest of a column.
pub(super) fn greatest(value: ValueRef<'_>, is_utf8: bool) -> Value {
    match text(value, is_utf8) {
        Some(text) if text.len() <= TEXT_MAX => Value::Text(text.to_owned()),
        _ => number(value),
    }
}

/// Text whose order in SQLite is that of readers: the bytes of UTF-16 have another one, and what is not UTF-8 is no text
/// to them.
fn text(value: ValueRef<'_>, is_utf8: bool) -> Option<&str> {
    match value {
        ValueRef::Text(bytes) if is_utf8 => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn number(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_long_text_are_short_and_still_bounds() {
        let long = "ä".repeat(150);
        let Value::Text(short) = least(ValueRef::Text(long.as_bytes()), true) else {
            panic!("no bound");
        };
        assert!(short.len() == TEXT_MAX && short < long && long.starts_with(&short));
        assert_eq!(greatest(ValueRef::Text(long.as_bytes()), true), Value::Null);
        let fits = &long[..TEXT_MAX];
        assert_eq!(
            greatest(ValueRef::Text(fits.as_bytes()), true),
            Value::Text(fits.into())
        );
    }

    #[test]
    fn what_readers_order_otherwise_has_no_bound() {
        for (value, is_utf8) in [
            (ValueRef::Text(b"a"), false),
            (ValueRef::Text(b"\xff"), true),
            (ValueRef::Blob(b"a"), true),
            (ValueRef::Null, true),
        ] {
            assert_eq!(least(value, is_utf8), Value::Null);
            assert_eq!(greatest(value, is_utf8), Value::Null);
        }
        assert_eq!(
            least(ValueRef::Integer(i64::MIN), false),
            Value::Integer(i64::MIN)
        );
        assert_eq!(
            greatest(ValueRef::Real(f64::INFINITY), false),
            Value::Real(f64::INFINITY)
        );
    }
}
