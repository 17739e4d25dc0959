//! Formats of lines: which there are, how they are recognised, and what each makes of a line.
//!
//! ```text
//! field.rs    types of fields          pattern.rs   fields with text between them    syntax.rs   as servers write these
//! detect.rs   which format lines have  json.rs logfmt.rs ltsv.rs delimited.rs w3c.rs   names in the lines
//! container.rs  parts that are joined  syslog.rs haproxy.rs aws.rs                     fields in an order of their own
//! ```

mod aws;
mod container;
mod delimited;
pub(super) mod detect;
mod field;
mod haproxy;
mod json;
mod logfmt;
mod ltsv;
mod pattern;
mod syntax;
mod syslog;
pub(super) mod time;
mod w3c;

#[cfg(test)]
mod random;
#[cfg(test)]
mod samples;

use litepack_database::Result;
use litepack_database::error::refuse;

use self::container::Container;
use self::delimited::Delimited;
use self::pattern::Pattern;
use self::w3c::W3c;
use super::row::{Columns, Row, Value};

/// Formats that are patterns of Apache or nginx. A name and a space before a pattern stand for the format and fields
/// behind it: `combined %D`.
const PATTERNS: [(&str, &str); 7] = [
    ("common", r#"%h %l %u %t "%r" %>s %b"#),
    (
        "combined",
        r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
    ),
    (
        "vhost",
        r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#,
    ),
    (
        "main",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for""#,
    ),
    (
        "upstream_time",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" rt=$request_time uct="$upstream_connect_time" uht="$upstream_header_time" urt="$upstream_response_time""#,
    ),
    (
        "ingress-nginx",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id"#,
    ),
    (
        "traefik",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_count "$router_name" "$server_url" ${request_milliseconds}ms"#,
    ),
];
/// The other names that `--format` takes.
const OTHERS: [&str; 14] = [
    "json",
    "docker",
    "cri",
    "logfmt",
    "ltsv",
    "syslog",
    "haproxy",
    "elb",
    "alb",
    "w3c",
    "csv",
    "csv-semicolon",
    "csv-bar",
    "tsv",
];

/// The state of a pattern that the user has named.
const NAMED: &[u8] = b"named";

/// The outcome of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A row.
    Row,
    /// A row, of a line that does not show that it is of this format: others have such lines, too.
    Other,
    /// It is kept until the rest comes.
    Part,
    /// It says what the lines behind it hold.
    Names,
}

impl Taken {
    fn row(shows: bool) -> Taken {
        match shows {
            true => Taken::Row,
            false => Taken::Other,
        }
    }
}

/// Why a line is not of a format.
pub(super) type Parsed = std::result::Result<Taken, &'static str>;

/// A format, as lines of one source have it.
pub(super) enum Format {
    Pattern(Pattern),
    Json,
    Logfmt,
    Ltsv,
    Syslog,
    Haproxy,
    Aws(&'static aws::Fields),
    Container(Container),
    W3c(W3c),
    Delimited(Box<Delimited>),
}

/// The pattern of a name.
fn known(name: &str) -> Option<&'static str> {
    let found = PATTERNS.iter().find(|(known, _)| *known == name);
    found.map(|(_, pattern)| *pattern)
}

/// The names of all formats.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PATTERNS.iter().map(|(name, _)| *name).chain(OTHERS)
}

impl Format {
    /// A format by its name, or by the pattern with which nginx (`log_format`) or Apache (`LogFormat`) writes it.
    pub(super) fn new(name: &str) -> Result<Format> {
        if let Some(pattern) = known(name) {
            return Ok(Format::Pattern(Pattern::new(&[pattern], true)?));
        }
        if let Some((first, rest)) = name.split_once(' ')
            && let Some(pattern) = known(first)
        {
            return Ok(Format::Pattern(Pattern::new(&[pattern, " ", rest], true)?));
        }
        let delimited = |delimiter| Format::Delimited(Box::new(Delimited::new(delimiter)));
        Ok(match name {
            "json" => Format::Json,
            "docker" => Format::Container(Container::docker()),
            "cri" => Format::Container(Container::cri()),
            "logfmt" => Format::Logfmt,
            "ltsv" => Format::Ltsv,
            "syslog" => Format::Syslog,
            "haproxy" => Format::Haproxy,
            "elb" => Format::Aws(&aws::ELB),
            "alb" => Format::Aws(&aws::ALB),
            "w3c" => Format::W3c(W3c::default()),
            "csv" => Format::Delimited(Box::new(Delimited::of_header())),
            "csv-semicolon" => delimited(b';'),
            "csv-bar" => delimited(b'|'),
            "tsv" => delimited(b'\t'),
            pattern if pattern.contains(['%', '$']) => {
                Format::Pattern(Pattern::new(&[pattern], false)?)
            }
            other => {
                let names: Vec<&str> = names().collect();
                refuse!(
                    "there is no format {other:?}: {}, or a pattern of nginx or Apache, such as '$remote_addr $request_time'",
                    names.join(", ")
                )
            }
        })
    }

    /// The format that the user has named for a source, which takes what only a user can know.
    pub(super) fn named(name: &str) -> Result<Format> {
        let mut format = Format::new(name)?;
        if let Format::Pattern(pattern) = &mut format {
            pattern.widen();
        }
        Ok(format)
    }

    /// The state kept of the source beside its format: the names of its fields, parts of lines, or that the user has
    /// named the format.
    pub(super) fn state(&self) -> Option<Vec<u8>> {
        match self {
            Format::Delimited(delimited) => delimited.state(),
            Format::W3c(w3c) => w3c.state(),
            Format::Container(container) => container.state(),
            Format::Pattern(pattern) => pattern.is_wide().then(|| NAMED.to_vec()),
            _ => None,
        }
    }

    /// Goes on as the state says.
    pub(super) fn restore(&mut self, state: &[u8]) {
        match self {
            Format::Delimited(delimited) => drop(delimited.set_header(state)),
            Format::W3c(w3c) => drop(w3c.directive(state)),
            Format::Container(container) => container.restore(state),
            Format::Pattern(pattern) if state == NAMED => pattern.widen(),
            _ => {}
        }
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
            Format::Pattern(pattern) => pattern.parse(line, row, columns)?,
            Format::Json => json::parse(line, row, columns)?,
            Format::Ltsv => ltsv::parse(line, row, columns)?,
            Format::Aws(fields) => aws::parse(fields, line, row, columns)?,
            Format::Delimited(delimited) if delimited.is_header(line) => return Ok(Taken::Names),
            Format::Delimited(delimited) => delimited.parse(line, row, columns)?,
            Format::Container(container) => return container.parse(line, row, columns),
            Format::W3c(w3c) if line.starts_with(b"#") => {
                return w3c.directive(line).map(|()| Taken::Names);
            }
            Format::W3c(w3c) => w3c.parse(line, row, columns)?,
            Format::Haproxy => return haproxy::parse(line, row, columns, now).map(Taken::row),
            Format::Syslog => return syslog::parse(line, row, columns, now).map(Taken::row),
            Format::Logfmt => return logfmt::parse(line, row, columns).map(Taken::row),
        }
        Ok(Taken::Row)
    }

    /// Heeds a line that is too long to be parsed, of which this is the beginning.
    pub(super) fn misses(&mut self, beginning: &[u8]) {
        if let Format::W3c(w3c) = self {
            w3c.misses(beginning);
        }
    }

    /// How many lines are kept whose rest has not come.
    pub(super) fn waiting(&self) -> u64 {
        match self {
            Format::Container(container) => container.waiting(),
            _ => 0,
        }
    }

    /// A row of what is kept, as nothing more comes. None if nothing is.
    pub(super) fn rest<'a>(&mut self, row: &mut Row<'a>, columns: &mut Columns) -> Option<Parsed> {
        match self {
            Format::Container(container) => container.rest(row, columns),
            _ => None,
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
