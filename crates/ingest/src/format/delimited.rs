//! CSV and TSV, and CSV between semicolons or bars. The first line of a source has the names. A record is a line: one
//! whose quoted value goes on in the next line is not parsed. Nor is one with a quoted value that something follows: it
//! escapes quotes otherwise, and a separator may be within the value.

use std::borrow::Cow;
use std::collections::HashSet;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::field::{is_ip, is_number};
use super::{is_time, ltsv, put, time};
use crate::row::{Columns, Row, Value};

/// More fields are not parsed.
const FIELDS_MAX: usize = 2000;
/// Names that columns have, and values hardly.
const NAMES: [&str; 28] = [
    "agent",
    "bytes",
    "count",
    "description",
    "duration",
    "hostname",
    "id",
    "ip",
    "level",
    "logger",
    "message",
    "method",
    "msg",
    "name",
    "path",
    "pid",
    "port",
    "protocol",
    "referer",
    "severity",
    "size",
    "status",
    "thread",
    "timestamp_utc",
    "url",
    "user_agent",
    "useragent",
    "value",
];
/// Names that columns have, and values, too: three of them are names.
const WORDS: [&str; 26] = [
    "action",
    "address",
    "category",
    "city",
    "code",
    "color",
    "colour",
    "component",
    "country",
    "email",
    "error",
    "event",
    "host",
    "key",
    "label",
    "module",
    "process",
    "request",
    "response",
    "role",
    "service",
    "source",
    "state",
    "target",
    "type",
    "user",
];
/// Values that are none, and no names.
const NOTHING: [&str; 12] = [
    "-",
    "\\n",
    "false",
    "n/a",
    "na",
    "nan",
    "nil",
    "none",
    "null",
    "true",
    "undefined",
    "unknown",
];

/// The format, with the names once they are known.
pub(crate) struct Delimited {
    reader: Reader,
    delimiter: u8,
    /// Taken from the header.
    is_free: bool,
    header: Vec<String>,
    line: Vec<u8>,
}

fn reader(delimiter: u8) -> Reader {
    // A line is one record, also where it has a carriage return in it.
    ReaderBuilder::new()
        .delimiter(delimiter)
        .terminator(Terminator::Any(b'\n'))
        .build()
}

impl Delimited {
    pub(super) fn new(delimiter: u8) -> Delimited {
        Delimited {
            reader: reader(delimiter),
            delimiter,
            is_free: false,
            header: Vec::new(),
            line: Vec::new(),
        }
    }

    /// Commas, or where the names have none, what they have.
    pub(super) fn of_header() -> Delimited {
        Delimited {
            is_free: true,
            ..Delimited::new(b',')
        }
    }

    fn separate_by(&mut self, delimiter: u8) {
        (self.reader, self.delimiter) = (reader(delimiter), delimiter);
    }

    pub(super) fn lacks_header(&self) -> bool {
        self.header.is_empty()
    }

    /// Whether a line has the names once more, as programs write them when they start again.
    pub(super) fn is_header(&self, line: &[u8]) -> bool {
        !self.lacks_header() && line == self.line
    }

    /// The line with the names.
    pub(super) fn state(&self) -> Option<Vec<u8>> {
        (!self.lacks_header()).then(|| self.line.clone())
    }

    /// Whether the first of these lines has names: it has at least two, each of its own, and the others show that it is
    /// no record like them.
    pub(super) fn has_names(&mut self, lines: &[&[u8]]) -> Option<bool> {
        let (first, others) = lines.split_first()?;
        let names = self.split(first).ok()?;
        let distinct: HashSet<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let is_ltsv = || {
            let columns = Columns::new(&[], 100, false, time::Times::default());
            columns.is_ok_and(|mut c| ltsv::parse(first, &mut Row::default(), &mut c).is_ok())
        };
        if names.len() < 2
            || distinct.len() < names.len()
            || !names.iter().all(|n| is_name(n))
            || is_ltsv()
        {
            return None;
        }
        let rows: Vec<Vec<Vec<u8>>> = others
            .iter()
            .filter_map(|line| self.split(line).ok())
            .collect();
        let rows: Vec<_> = rows
            .into_iter()
            .filter(|row| row.len() == names.len() && *row != names)
            .collect();
        // A name that is a value in another line is one in the first, too.
        let is_value = names.iter().enumerate().any(|(at, name)| {
            let text = String::from_utf8_lossy(name).to_ascii_lowercase();
            NOTHING.contains(&&*text) || rows.iter().any(|row| row.get(at) == Some(name))
        });
        if is_value {
            return Some(false);
        }
        let words = names.iter().map(|name| {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            match is_time(&name) || NAMES.contains(&&*name) {
                true => 3,
                false => usize::from(WORDS.contains(&&*name)),
            }
        });
        if words.sum::<usize>() >= 3 {
            return Some(true);
        }
        let shows = (0..names.len()).any(|at| {
            let mut values = rows
                .iter()
                .filter_map(|row| row.get(at))
                .filter(|value| !value.is_empty());
            let is_other = |value: &Vec<u8>| {
                let decimal: Vec<u8> = value
                    .iter()
                    .map(|b| if *b == b',' { b'.' } else { *b })
                    .collect();
                is_number(&decimal) || time::any(value).is_some() || is_ip(value)
            };
            values.next().is_some_and(is_other) && values.all(is_other)
        });
        Some(shows)
    }

    pub(super) fn set_header(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let mut names = self.split(line)?;
        if self.is_free && names.len() == 1 {
            for delimiter in [b';', b'\t', b'|'] {
                self.separate_by(delimiter);
                let found = self.split(line)?;
                if found.len() > 1 {
                    names = found;
                    break;
                }
                self.separate_by(b',');
            }
        }
        if names.iter().any(|name| name.contains(&b'\r')) {
            return Err("its lines end with a carriage return alone");
        }
        let names = names.into_iter();
        let names = names.map(|name| String::from_utf8(name).map_err(|_| "a name is not UTF-8"));
        self.header = names.collect::<Result<_, _>>()?;
        self.line = line.to_vec();
        Ok(())
    }

    fn split(&mut self, line: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
        // The reader would go on behind a closing quote, and so take `\"` for the end of a text.
        if !closes_quotes(line, self.delimiter) {
            return Err("a quote within a field, or one that is not closed");
        }
        self.reader.reset();
        let mut record = line.to_vec();
        record.push(b'\n');
        let mut bytes = vec![0; record.len()];
        let mut ends = vec![0; record.len().min(FIELDS_MAX)];
        let (result, _, _, count) = self.reader.read_record(&record, &mut bytes, &mut ends);
        match result {
            ReadRecordResult::Record => {}
            ReadRecordResult::OutputEndsFull => return Err("too many fields"),
            _ => return Err("a quote is not closed"),
        }
        let mut start = 0;
        let fields = ends.iter().take(count).map(|end| {
            let field = bytes.get(start..*end).unwrap_or_default().to_vec();
            start = *end;
            field
        });
        Ok(fields.collect())
    }

    pub(super) fn parse<'a>(
        &mut self,
        line: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> Result<(), &'static str> {
        let fields = self.split(line)?;
        if fields.len() != self.header.len() {
            return Err("not as many fields as the header has");
        }
        for (name, field) in self.header.iter().zip(fields) {
            let value = match Value::typed(&field) {
                Value::Text(_) if field.is_empty() => Value::Null,
                Value::Text(_) => Value::Text(Cow::Owned(field)),
                Value::Integer(integer) => Value::Integer(integer),
                Value::Real(real) => Value::Real(real),
                Value::Null => Value::Null,
            };
            put(row, columns, Cow::Owned(name.clone()), value);
        }
        Ok(())
    }
}

/// Whether each field that begins with a quote ends with one: within it they are doubled.
fn closes_quotes(line: &[u8], delimiter: u8) -> bool {
    let mut rest = line;
    loop {
        let after = match rest.strip_prefix(b"\"") {
            None => match memchr::memchr(delimiter, rest) {
                Some(end) => rest.get(end..),
                None => return true,
            },
            Some(mut text) => loop {
                let Some(end) = memchr::memchr(b'"', text) else {
                    return false;
                };
                let after = text.get(end + 1..).unwrap_or_default();
                match after.strip_prefix(b"\"") {
                    Some(more) => text = more,
                    None => break Some(after),
                }
            },
        };
        match after.unwrap_or_default() {
            [] => return true,
            [byte, more @ ..] if *byte == delimiter => rest = more,
            _ => return false,
        }
    }
}

/// Whether a text can be the name of a column.
fn is_name(field: &[u8]) -> bool {
    let first = |b: &u8| b.is_ascii_alphabetic() || b"_@#".contains(b) || !b.is_ascii();
    let Ok(text) = std::str::from_utf8(field) else {
        return false;
    };
    let strange =
        text.contains(['\r', '=', '"', '{']) || text.contains("://") || text.contains(": ");
    field.first().is_some_and(first)
        && field.len() < 64
        && !strange
        && !text.get(1..).is_some_and(|rest| rest.contains('@'))
        && time::any(field).is_none()
        && !is_ip(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_field_ends_with_its_quote() {
        let mut csv = Delimited::new(b',');
        for (line, fields) in [
            (&br#"a,"b ""c"", d",e"#[..], &["a", "b \"c\", d", "e"][..]),
            (br#""","""""#, &["", "\""]),
            (br#"5" disk,a"b"c"#, &["5\" disk", "a\"b\"c"]),
            (b"a,,", &["a", "", ""]),
            (b"a,\"\"", &["a", ""]),
        ] {
            let found = csv.split(line).unwrap();
            let found: Vec<_> = found.iter().map(|f| String::from_utf8_lossy(f)).collect();
            assert_eq!(found, fields);
        }
        for bad in [
            &br#"a,"x"y,z"#[..],
            br#""say \"a, b\"",c"#,
            br#""a\"b",c"#,
            br#""a" ,b"#,
            br#"a,"b"#,
            br#"a,"b"""#,
        ] {
            assert!(csv.split(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        // Between other separators a comma is one byte of many.
        assert!(Delimited::new(b';').split(br#""a",b;c"#).is_err());
        assert!(Delimited::new(b'\t').split(b"\"a\"\tb").is_ok());
    }
}
