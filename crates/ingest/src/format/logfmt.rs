//! logfmt: `level=info msg="a text" took=0.3`. A line with a word that has no `=` is not of it: much else has such words.

use std::borrow::Cow;

use super::put;
use crate::row::{Columns, Row, Value};

/// Parses a line. True if it has several pairs: one alone is in much else, such as settings and exports.
pub(super) fn parse<'a>(
    line: &'a [u8],
    row: &mut Row<'a>,
    columns: &mut Columns,
) -> Result<bool, &'static str> {
    let mut count = 0;
    let mut rest = line.trim_ascii();
    if rest.is_empty() {
        return Err("no name=value");
    }
    while !rest.is_empty() {
        let end = rest
            .iter()
            .position(|b| matches!(b, b'=' | b' '))
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end).unwrap_or((rest, b""));
        if !is_name(name) {
            return Err("a name is missing, or is none");
        }
        let name = std::str::from_utf8(name).map_err(|_| "a name is not UTF-8")?;
        let after = after.strip_prefix(b"=").ok_or("a word without =")?;
        let value;
        (value, rest) = match after.strip_prefix(b"\"") {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = memchr::memchr(b' ', after).unwrap_or(after.len());
                let (value, rest) = after.split_at_checked(end).unwrap_or((after, b""));
                if memchr::memchr(b'"', value).is_some() {
                    return Err("a quote within a value");
                }
                (Value::typed(value), rest)
            }
        };
        put(row, columns, Cow::Borrowed(name), value);
        count += 1;
        if !rest.is_empty() && !rest.starts_with(b" ") {
            return Err("something follows a closing quote");
        }
        rest = rest.trim_ascii_start();
    }
    Ok(count > 1)
}

fn is_name(name: &[u8]) -> bool {
    let letter = |b: &u8| (b.is_ascii_graphic() && !b"\",;{}[]()<>".contains(b)) || !b.is_ascii();
    let first = |b: &u8| b.is_ascii_alphabetic() || b"_@".contains(b) || !b.is_ascii();
    name.first().is_some_and(first) && name.iter().all(letter)
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
