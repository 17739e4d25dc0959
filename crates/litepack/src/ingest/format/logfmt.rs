//! logfmt: `level=info msg="a text" took=0.3`. A word without `=` is a name whose value is 1.

use std::borrow::Cow;

use super::{Parsed, put};
use crate::ingest::row::{Columns, Row, Value};

/// Parses a line.
pub(super) fn parse<'a>(line: &'a [u8], row: &mut Row<'a>, columns: &mut Columns) -> Parsed {
    let mut rest = line.trim_ascii();
    let mut pairs = 0;
    while !rest.is_empty() {
        let end = rest
            .iter()
            .position(|b| *b == b'=' || *b == b' ')
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let well = !name.is_empty() && !name.iter().any(|b| *b == b'"' || b.is_ascii_control());
        if !well {
            return Err("a name is missing, or holds quotes");
        }
        let name = std::str::from_utf8(name).map_err(|_| "a name is not UTF-8")?;
        let value;
        (value, rest) = match after.strip_prefix(b"=") {
            None => (Value::Integer(1), after),
            Some(after) => {
                pairs += 1;
                match after.strip_prefix(b"\"") {
                    Some(quoted) => unquote(quoted)?,
                    None => {
                        let end = memchr::memchr(b' ', after).unwrap_or(after.len());
                        let (value, rest) = after.split_at(end);
                        (Value::typed(value), rest)
                    }
                }
            }
        };
        put(row, columns, Cow::Borrowed(name), value);
        if !rest.is_empty() && !rest.starts_with(b" ") {
            return Err("something follows a closing quote");
        }
        rest = rest.trim_ascii_start();
    }
    if pairs == 0 {
        Err("no name=value")
    } else {
        Ok(())
    }
}

fn unquote(quoted: &[u8]) -> Result<(Value<'_>, &[u8]), &'static str> {
    const OPEN: &str = "a quote is not closed";
    let mut text = Vec::new();
    let mut rest = quoted;
    loop {
        let at = memchr::memchr2(b'"', b'\\', rest).ok_or(OPEN)?;
        if rest[at] == b'"' {
            let value = match text.is_empty() {
                true => Cow::Borrowed(&rest[..at]),
                false => {
                    text.extend_from_slice(&rest[..at]);
                    Cow::Owned(text)
                }
            };
            return Ok((Value::Text(value), &rest[at + 1..]));
        }
        text.extend_from_slice(&rest[..at]);
        match rest.get(at + 1).ok_or(OPEN)? {
            b'n' => text.push(b'\n'),
            b't' => text.push(b'\t'),
            b'r' => text.push(b'\r'),
            kept @ (b'"' | b'\\') => text.push(*kept),
            other => text.extend_from_slice(&[b'\\', *other]),
        }
        rest = &rest[at + 2..];
    }
}
