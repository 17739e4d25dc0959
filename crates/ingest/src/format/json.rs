//! JSON lines: an object in each. Nested values are kept as JSON, numbers that SQLite cannot hold as text. The journal of
//! systemd has its time under a name of its own.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{put, time};
use crate::row::{Columns, Row, Value};

/// Where `journalctl -o json` has the time, in microseconds.
const JOURNAL_TIME: &str = "__REALTIME_TIMESTAMP";

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

/// The members of a line, with their values as they are written.
pub(super) fn members(line: &[u8]) -> Result<Vec<(Cow<'_, str>, &RawValue)>, &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8")?;
    let Members(members) = serde_json::from_str(text).map_err(|_| "not a JSON object")?;
    Ok(members)
}

/// A string, if the value is one.
pub(super) fn string(value: &str) -> Option<Cow<'_, str>> {
    let name: Name<'_> = serde_json::from_str(value).ok()?;
    Some(name.0)
}

/// Parses a line.
pub(super) fn parse<'a>(
    line: &'a [u8],
    row: &mut Row<'a>,
    columns: &mut Columns,
) -> Result<(), &'static str> {
    let members = members(line)?;
    row.is_json(line);
    let journal = members.iter().find(|(name, _)| name == JOURNAL_TIME);
    let stamp = journal.and_then(|(_, value)| {
        let text = string(value.get());
        time::unix(text.as_deref().unwrap_or(value.get()).as_bytes())
    });
    let journal = stamp.is_some_and(|stamp| row.put_time(columns, stamp));
    for (name, value) in members {
        if journal && name == JOURNAL_TIME {
            continue;
        }
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
