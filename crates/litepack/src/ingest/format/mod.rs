//! Formats of lines: which there are, how they are recognised, and what each makes of a line.

mod delimited;
mod json;
mod logfmt;
mod pattern;
mod syslog;
pub(super) mod time;

use self::delimited::Delimited;
use self::pattern::Pattern;
use super::row::{Columns, Row, Value};
use crate::Result;
use crate::error::refuse;

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
const VHOST: &str = r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;
/// Formats that are recognised, in this order: of two that fit equally well, the first.
const KNOWN: [&str; 8] = [
    "json", "combined", "vhost", "common", "syslog", "logfmt", "tsv", "csv",
];
/// So many lines are looked at.
const SAMPLE: usize = 200;

/// Why a line is not of a format.
pub(super) type Parsed = std::result::Result<(), &'static str>;

/// A format, as lines of one source have it.
pub(super) enum Format {
    Pattern(Pattern),
    Json,
    Logfmt,
    Syslog,
    Delimited(Box<Delimited>),
}

impl Format {
    /// A format by its name, or by the pattern with which nginx (`log_format`) or Apache (`LogFormat`) writes it.
    pub(super) fn new(name: &str) -> Result<Format> {
        Ok(match name {
            "common" => Format::Pattern(Pattern::new(COMMON)?),
            "combined" => Format::Pattern(Pattern::new(COMBINED)?),
            "vhost" => Format::Pattern(Pattern::new(VHOST)?),
            "json" => Format::Json,
            "logfmt" => Format::Logfmt,
            "syslog" => Format::Syslog,
            "csv" => Format::Delimited(Box::new(Delimited::new(b','))),
            "tsv" => Format::Delimited(Box::new(Delimited::new(b'\t'))),
            pattern if pattern.contains(['%', '$']) => Format::Pattern(Pattern::new(pattern)?),
            other => refuse!(
                "there is no format {other:?}: {}, or a pattern of nginx or Apache, such as '$remote_addr $request_time'",
                KNOWN.join(", ")
            ),
        })
    }

    /// The name of the format that most of these lines have; none if less than half have the same.
    pub(super) fn detect<'l>(
        lines: impl Iterator<Item = &'l [u8]>,
        now: i64,
    ) -> Option<&'static str> {
        let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).take(SAMPLE).collect();
        let mut best = (0, None);
        for name in KNOWN {
            let mut format = Format::new(name).ok()?;
            let mut columns = Columns::new(&[], 100, false, time::Times::default()).ok()?;
            let mut lines = &lines[..];
            if let Format::Delimited(delimited) = &mut format {
                let Some((header, rest)) = lines.split_first() else {
                    continue;
                };
                if !delimited.looks_like_header(header) {
                    continue;
                }
                let _ = delimited.set_header(header);
                // The header counts as a line of the format where others follow.
                lines = rest;
            }
            let fit = |line: &&&[u8]| {
                format
                    .parse(line, &mut Row::default(), &mut columns, now)
                    .is_ok()
            };
            let count = lines.iter().filter(fit).count();
            if count > best.0 && count * 2 >= lines.len() {
                best = (count, Some(name));
            }
        }
        best.1
    }

    /// Takes the header, if this format has one and lacks it. True if the line was the header.
    pub(super) fn takes_header(&mut self, line: &[u8]) -> std::result::Result<bool, &'static str> {
        match self {
            Format::Delimited(delimited) if delimited.lacks_header() => {
                delimited.set_header(line).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Parses a line into a row. `now` in Unix seconds, for times without a year.
    pub(super) fn parse<'a>(
        &mut self,
        line: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
        now: i64,
    ) -> Parsed {
        match self {
            Format::Pattern(pattern) => pattern.parse(line, row, columns),
            Format::Json => json::parse(line, row, columns),
            Format::Logfmt => logfmt::parse(line, row, columns),
            Format::Syslog => syslog::parse(line, row, columns, now),
            Format::Delimited(delimited) => delimited.parse(line, row, columns),
        }
    }
}

/// Whether a field of this name is the time of a line.
fn is_time(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "time",
        "timestamp",
        "@timestamp",
        "ts",
        "datetime",
        "date",
        "time_iso8601",
    ];
    NAMES.iter().any(|time| name.eq_ignore_ascii_case(time))
}

/// Puts a named value: the first one that is a time by name and form becomes the time of the line.
fn put<'a>(
    row: &mut Row<'a>,
    columns: &mut Columns,
    name: std::borrow::Cow<'a, str>,
    value: Value<'a>,
) {
    if is_time(&name) && !row.has_time() {
        let stamp = match &value {
            Value::Text(text) => time::any(text),
            Value::Integer(integer) => time::unix(integer.to_string().as_bytes()),
            Value::Real(real) => time::unix(real.to_string().as_bytes()),
            Value::Null => None,
        };
        if stamp.is_some_and(|stamp| row.put_time(columns, stamp)) {
            return;
        }
    }
    row.put(columns, name, value);
}
