//! syslog as RFC 5424 and RFC 3164 describe it, also without the priority, as files have it.

use std::borrow::Cow;

use super::{Parsed, time};
use crate::ingest::row::{Columns, Row, Value};

const SHORT: &str = "not a line of syslog";

/// Parses a line.
pub(super) fn parse<'a>(
    line: &'a [u8],
    row: &mut Row<'a>,
    columns: &mut Columns,
    now: i64,
) -> Parsed {
    let mut put = |row: &mut Row<'a>, name: &'static str, value: Value<'a>| {
        row.put(columns, Cow::Borrowed(name), value);
    };
    let (priority, rest) = priority(line)?;
    if let Some(priority) = priority {
        put(row, "facility", Value::Integer(priority / 8));
        put(row, "severity", Value::Integer(priority % 8));
    }
    let given = |text: &'a [u8]| match text {
        b"-" => Value::Null,
        text => Value::text(text),
    };
    if let (Some(_), Some(rest)) = (priority, rest.strip_prefix(b"1 ")) {
        let mut parts = rest.splitn(6, |b| *b == b' ');
        let mut part = || parts.next().ok_or(SHORT);
        let (at, host, app, process, id) = (part()?, part()?, part()?, part()?, part()?);
        let rest = part()?;
        let (data, message) = structured(rest)?;
        put(row, "host", given(host));
        put(row, "app", given(app));
        put(row, "pid", pid(process));
        put(row, "message_id", given(id));
        put(row, "data", given(data));
        let message = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
        put(row, "message", Value::text(message));
        if at != b"-" {
            let stamp = time::iso(at).ok_or("the time is none")?;
            if !row.put_time(columns, stamp) {
                return Err("the time is none");
            }
        }
        return Ok(());
    }
    // As in the RFC, or with an ISO time, as newer daemons write it.
    let split = |at: usize| rest.get(..at).zip(rest.get(at..)?.strip_prefix(b" "));
    let classic = split(15).and_then(|(at, rest)| Some((time::yearless(at, now)?, rest)));
    let newer = || {
        let at = memchr::memchr(b' ', rest)?;
        Some((time::iso(&rest[..at])?, &rest[at + 1..]))
    };
    let (stamp, rest) = classic.or_else(newer).ok_or("no time at the beginning")?;
    let at = memchr::memchr(b' ', rest).ok_or(SHORT)?;
    let (host, rest) = (&rest[..at], &rest[at + 1..]);
    put(row, "host", Value::text(host));
    // `app[pid]: message` or `app: message`
    let tag = rest
        .iter()
        .position(|b| *b == b':' || *b == b' ')
        .unwrap_or(0);
    let message = match rest.get(tag..).and_then(|rest| rest.strip_prefix(b":")) {
        Some(message) if tag > 0 => {
            let tag = &rest[..tag];
            let bracket = memchr::memchr(b'[', tag).filter(|_| tag.ends_with(b"]"));
            put(
                row,
                "app",
                Value::text(&tag[..bracket.unwrap_or(tag.len())]),
            );
            if let Some(at) = bracket {
                put(row, "pid", pid(&tag[at + 1..tag.len() - 1]));
            }
            message.strip_prefix(b" ").unwrap_or(message)
        }
        _ => rest,
    };
    put(row, "message", Value::text(message));
    if row.put_time(columns, stamp) {
        Ok(())
    } else {
        Err("the time is none")
    }
}

fn pid(text: &[u8]) -> Value<'_> {
    match text {
        b"-" => Value::Null,
        text => Value::typed(text),
    }
}

fn priority(line: &[u8]) -> Result<(Option<i64>, &[u8]), &'static str> {
    let Some(rest) = line.strip_prefix(b"<") else {
        return Ok((None, line));
    };
    let end = rest.iter().take(4).position(|b| *b == b'>').ok_or(SHORT)?;
    match Value::typed(&rest[..end]) {
        Value::Integer(priority @ 0..192) => Ok((Some(priority), &rest[end + 1..])),
        _ => Err("the priority is none"),
    }
}

/// Structured data, and what follows it.
fn structured(text: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (mut at, mut quoted) = (0, false);
    if !text.starts_with(b"[") {
        at = memchr::memchr(b' ', text).unwrap_or(text.len());
        if &text[..at] != b"-" {
            return Err("the structured data is none");
        }
    } else {
        loop {
            match text.get(at).ok_or("the structured data does not end")? {
                b'\\' if quoted => at += 1,
                b'"' => quoted = !quoted,
                b']' if !quoted && text.get(at + 1) != Some(&b'[') => break,
                _ => {}
            }
            at += 1;
        }
        at += 1;
    }
    let rest = &text[at..];
    match rest.strip_prefix(b" ") {
        Some(message) => Ok((&text[..at], message)),
        None if rest.is_empty() => Ok((text, rest)),
        None => Err("something follows the structured data"),
    }
}
