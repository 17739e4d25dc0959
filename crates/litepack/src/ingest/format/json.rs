//! JSON lines: an object in each. Nested values are kept as JSON, numbers that SQLite cannot hold as text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Parsed, put};
use crate::ingest::row::{Columns, Row, Value};

/// The members of an object in their order, with those that stand twice.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A name, borrowed where it holds no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Members<'a>, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) =
                    map.next_entry::<Name<'de>, &'de RawValue>()?
                {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Object)
    }
}

/// Parses a line.
pub(super) fn parse<'a>(line: &'a [u8], row: &mut Row<'a>, columns: &mut Columns) -> Parsed {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
    let Members(members) = serde_json::from_str(text).map_err(|_| "not a JSON object")?;
    row.is_json(line);
    for (name, value) in members {
        put(row, columns, name, of(value.get())?);
    }
    Ok(())
}

fn of(value: &str) -> Result<Value<'_>, &'static str> {
    Ok(match value.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => Value::Integer(1),
        Some(b'f') => Value::Integer(0),
        Some(b'"') => {
            let Name(text) = serde_json::from_str(value).map_err(|_| "not a JSON string")?;
            Value::Text(match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            })
        }
        Some(b'-' | b'0'..=b'9') => match value.parse::<i64>() {
            Ok(integer) if value != "-0" => Value::Integer(integer),
            _ => Some(value)
                .filter(|value| value.contains(['.', 'e', 'E']))
                .and_then(Value::real_of)
                .unwrap_or_else(|| Value::text(value.as_bytes())),
        },
        _ => Value::text(value.as_bytes()),
    })
}
