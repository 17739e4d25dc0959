//! Patterns of nginx (`log_format`) and Apache (`LogFormat`): fields with fixed text between them.

use std::borrow::Cow;

use memchr::memmem;

use super::{Parsed, time};
use crate::Result;
use crate::error::refuse;
use crate::ingest::row::{Columns, Row, Value};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// As given.
    Text,
    /// A number where it is one.
    Number,
    Time,
    /// `GET /path HTTP/1.1`, of which three columns are made.
    Request,
}

struct Field {
    name: String,
    kind: Kind,
    /// What follows it.
    until: Vec<u8>,
    quoted: bool,
}

/// A pattern.
pub(in crate::ingest) struct Pattern {
    prefix: Vec<u8>,
    fields: Vec<Field>,
}

impl Pattern {
    /// Parses a pattern: with a `$` it is one of nginx, else of Apache.
    pub(super) fn new(text: &str) -> Result<Pattern> {
        let mut pattern = Pattern {
            prefix: Vec::new(),
            fields: Vec::new(),
        };
        let nginx = text.contains('$');
        let text = text.replace("\\\"", "\"").replace("\\t", "\t");
        let mut rest = &text[..];
        while let Some(first) = rest.chars().next() {
            let field;
            (field, rest) = match first {
                '$' if nginx => nginx_field(&rest[1..])?,
                '%' if !nginx => apache_field(&rest[1..])?,
                _ => (None, &rest[first.len_utf8()..]),
            };
            match field {
                Some((name, kind)) => pattern.push(&name, kind)?,
                None => pattern.literal(first),
            }
        }
        if pattern.fields.is_empty() {
            refuse!("the format has no fields");
        }
        Ok(pattern)
    }

    fn literal(&mut self, literal: char) {
        let mut bytes = [0; 4];
        let bytes = literal.encode_utf8(&mut bytes).as_bytes();
        match self.fields.last_mut() {
            Some(field) => field.until.extend_from_slice(bytes),
            None => self.prefix.extend_from_slice(bytes),
        }
    }

    fn push(&mut self, name: &str, kind: Kind) -> Result<()> {
        // Apache's %t brings its brackets along.
        let bracketed = name == "[time]";
        let name = if bracketed { "time" } else { name };
        if bracketed {
            self.literal('[');
        }
        let before = match self.fields.last() {
            Some(field) if field.until.is_empty() => {
                refuse!(
                    "nothing separates the fields {} and {name} of the format",
                    field.name
                )
            }
            Some(field) => &field.until,
            None => &self.prefix,
        };
        let quoted = before.ends_with(b"\"");
        self.fields.push(Field {
            name: name.to_owned(),
            kind,
            until: Vec::new(),
            quoted,
        });
        if bracketed {
            self.literal(']');
        }
        Ok(())
    }

    pub(super) fn parse<'a>(
        &mut self,
        line: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> Parsed {
        const DIFFERENT: &str = "not as the format says";
        let mut rest = line.strip_prefix(&self.prefix[..]).ok_or(DIFFERENT)?;
        for field in &self.fields {
            let end = match &field.until[..] {
                [] => rest.len(),
                [b'"', ..] if field.quoted => closing(rest).ok_or(DIFFERENT)?,
                [byte] => memchr::memchr(*byte, rest).ok_or(DIFFERENT)?,
                until => memmem::find(rest, until).ok_or(DIFFERENT)?,
            };
            let (value, after) = rest.split_at(end);
            rest = after.strip_prefix(&field.until[..]).ok_or(DIFFERENT)?;
            field.put(value, row, columns)?;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(DIFFERENT)
        }
    }
}

/// The next quote that is not escaped.
fn closing(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', &text[from..])?;
        if text[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
        if from > text.len() {
            return None;
        }
    }
}

impl Field {
    fn put<'a>(&self, value: &'a [u8], row: &mut Row<'a>, columns: &mut Columns) -> Parsed {
        let mut set = |row: &mut Row<'a>, column: &str, value| {
            let slot = columns.place(column);
            row.put_at(slot, || Cow::Owned(column.to_owned()), value);
        };
        match self.kind {
            Kind::Time => {
                let stamp = time::any(value).ok_or("the time is none")?;
                if !row.put_time(columns, stamp) {
                    return Err("the time is none");
                }
            }
            // A field without a value.
            _ if value == b"-" => set(
                row,
                if self.kind == Kind::Request {
                    "path"
                } else {
                    &self.name
                },
                Value::Null,
            ),
            Kind::Text => set(row, &self.name, Value::text(value)),
            Kind::Number => set(row, &self.name, number(value)),
            Kind::Request => {
                let parts = request(value);
                let (method, path, protocol) = parts.unwrap_or((&[], value, &[]));
                if parts.is_some() {
                    set(row, "method", Value::text(method));
                    set(row, "protocol", Value::text(protocol));
                }
                set(row, "path", Value::text(path));
            }
        }
        Ok(())
    }
}

/// A number, where the text is one in whatever form.
fn number(text: &[u8]) -> Value<'_> {
    let real = match memchr::memchr(b'.', text) {
        Some(_) => std::str::from_utf8(text).ok().and_then(Value::real_of),
        None => None,
    };
    real.unwrap_or_else(|| Value::typed(text))
}

/// `GET /path HTTP/1.1` in its parts, if it is exactly that; the path may hold spaces.
fn request(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let first = memchr::memchr(b' ', text)?;
    let last = memchr::memrchr(b' ', text)?;
    let (method, protocol) = (&text[..first], &text[last + 1..]);
    let well = first < last && !method.is_empty() && protocol.starts_with(b"HTTP/");
    well.then(|| (method, &text[first + 1..last], protocol))
}

type Found<'t> = (Option<(String, Kind)>, &'t str);

fn nginx_field(text: &str) -> Result<Found<'_>> {
    let (braced, text) = match text.strip_prefix('{') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = match braced {
        true => rest.strip_prefix('}'),
        false => Some(rest),
    };
    let (Some(rest), false) = (rest, name.is_empty()) else {
        refuse!("the format has a $ without the name of a variable");
    };
    let (column, kind) = match name {
        "time_local" | "time_iso8601" | "msec" => ("time", Kind::Time),
        "request" => ("request", Kind::Request),
        "body_bytes_sent" => ("bytes", Kind::Number),
        "http_referer" => ("referer", Kind::Text),
        "http_user_agent" => ("user_agent", Kind::Text),
        "request_method" => ("method", Kind::Text),
        "request_uri" => ("path", Kind::Text),
        "server_protocol" => ("protocol", Kind::Text),
        "status"
        | "bytes_sent"
        | "request_length"
        | "request_time"
        | "connection"
        | "connection_requests"
        | "upstream_response_time"
        | "upstream_connect_time"
        | "upstream_header_time"
        | "gzip_ratio"
        | "content_length"
        | "remote_port"
        | "server_port"
        | "upstream_status"
        | "pid" => (name, Kind::Number),
        _ => (name, Kind::Text),
    };
    Ok((Some((column.to_owned(), kind)), rest))
}

fn apache_field(text: &str) -> Result<Found<'_>> {
    // `%>s`, `%!200,304{Referer}i`, `%^ti`
    let text = text.trim_start_matches(|c: char| {
        c == '<' || c == '>' || c == '!' || c == ',' || c.is_ascii_digit()
    });
    let (argument, text) = match text.strip_prefix('{') {
        Some(text) => match text.split_once('}') {
            Some((argument, rest)) => (argument, rest),
            None => refuse!("the format has a {{ without its }}"),
        },
        None => ("", text),
    };
    let Some(letter) = text.chars().next() else {
        refuse!("the format ends with a %");
    };
    let rest = &text[letter.len_utf8()..];
    let plain = argument.to_ascii_lowercase().replace('-', "_");
    let (column, kind) = match (letter, &plain[..]) {
        ('%', _) => return Ok((None, rest)),
        ('h' | 'a', _) => ("remote_addr", Kind::Text),
        ('l', _) => ("identity", Kind::Text),
        ('u', _) => ("remote_user", Kind::Text),
        ('t', "") => ("[time]", Kind::Time),
        ('t', "sec" | "msec" | "usec") => ("time", Kind::Time),
        ('t', _) => refuse!(
            "the format %{{{argument}}}t is not known; use %t, %{{sec}}t, %{{msec}}t or %{{usec}}t"
        ),
        ('r', _) => ("request", Kind::Request),
        ('s', _) => ("status", Kind::Number),
        ('b' | 'B', _) => ("bytes", Kind::Number),
        ('O', _) => ("bytes_sent", Kind::Number),
        ('I', _) => ("bytes_received", Kind::Number),
        ('D', _) => ("request_microseconds", Kind::Number),
        ('T', "ms") => ("request_milliseconds", Kind::Number),
        ('T', _) => ("request_time", Kind::Number),
        ('m', _) => ("method", Kind::Text),
        ('U', _) => ("path", Kind::Text),
        ('q', _) => ("query", Kind::Text),
        ('H', _) => ("protocol", Kind::Text),
        ('v' | 'V', _) => ("server_name", Kind::Text),
        ('p', _) => ("server_port", Kind::Number),
        ('P', _) => ("pid", Kind::Number),
        ('A', _) => ("server_addr", Kind::Text),
        ('f', _) => ("file", Kind::Text),
        ('k', _) => ("keepalive", Kind::Number),
        ('X', _) => ("connection", Kind::Text),
        ('L', _) => ("log_id", Kind::Text),
        ('i', "referer" | "user_agent") => (&plain[..], Kind::Text),
        ('i' | 'o' | 'e' | 'n' | 'C' | 'x', name) if !name.is_empty() => (name, Kind::Text),
        _ => refuse!("the format has %{letter}, which is not known"),
    };
    Ok((Some((column.to_owned(), kind)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_cannot_be_read_are_refused() {
        for bad in [
            "$", "${a", "$a$b", "%", "%{a", "%{%Y}t", "%h%u", "%Q", "%%", "%{}i",
        ] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quotes_in_a_quoted_field_are_escaped() {
        let mut pattern = Pattern::new("$remote_addr \"$http_user_agent\" $status").unwrap();
        let mut columns = Columns::new(&[], 10, false, time::Times::default()).unwrap();
        let mut row = Row::default();
        let line = br#"::1 "a \" 1 \\" 200"#;
        pattern.parse(line, &mut row, &mut columns).unwrap();
        let values = row.finish(1, false).unwrap();
        assert_eq!(values[4], Some(Value::text(br#"a \" 1 \\"#)));
        assert_eq!(values[5], Some(Value::Integer(200)));
        for bad in [
            &br#"::1 "a" 200 "#[..],
            br#"::1 "a\" 200"#,
            b"",
            b"::1",
            b"\"\"\"\"",
        ] {
            let _ = pattern.parse(bad, &mut Row::default(), &mut columns);
        }
        let open = br#"::1 "a\"#;
        assert!(
            pattern
                .parse(open, &mut Row::default(), &mut columns)
                .is_err()
        );
    }

    #[test]
    fn a_request_has_three_parts_or_stays_whole() {
        assert_eq!(
            request(b"GET /a b HTTP/1.1"),
            Some((&b"GET"[..], &b"/a b"[..], &b"HTTP/1.1"[..]))
        );
        assert_eq!(request(b"GET /"), None);
        assert_eq!(request(b"\\x16\\x03\\x01"), None);
    }
}
