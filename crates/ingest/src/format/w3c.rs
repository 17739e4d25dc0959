//! The W3C's extended log format, as IIS (with spaces) and CloudFront (with tabs) write it. A line `#Fields:` names the
//! fields of the lines that follow it, wherever it stands.

use std::borrow::Cow;

use super::field::{Kind, number, word_or_text};
use super::time;
use crate::row::{Columns, Row, Value};

const FIELDS: &[u8] = b"#Fields:";
/// More fields are not parsed.
const FIELDS_MAX: usize = 500;

/// The format, with the names that were read last.
#[derive(Default)]
pub(crate) struct W3c {
    line: Vec<u8>,
    names: Vec<String>,
    kinds: Vec<Kind>,
    date: Option<usize>,
    time: Option<usize>,
}

impl W3c {
    /// The line with the names.
    pub(super) fn state(&self) -> Option<Vec<u8>> {
        (!self.line.is_empty()).then(|| self.line.clone())
    }

    /// Takes a line that begins with `#`: it holds no values.
    pub(super) fn directive(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let Some(names) = line
            .get(..FIELDS.len())
            .filter(|name| name.eq_ignore_ascii_case(FIELDS))
        else {
            return Ok(());
        };
        let names = line.get(names.len()..).unwrap_or_default();
        // If these cannot be read, what follows is not of those before them.
        *self = W3c::default();
        let names = names
            .split(u8::is_ascii_whitespace)
            .filter(|name| !name.is_empty());
        let names: Option<Vec<&str>> = names.map(|name| std::str::from_utf8(name).ok()).collect();
        let names = names.ok_or("a name is not UTF-8")?;
        if names.is_empty() || names.len() > FIELDS_MAX {
            return Err("too few or too many names");
        }
        // As Exchange writes it: this is CSV, and would be one column.
        if names.iter().any(|name| name.contains(',')) {
            return Err("commas between the names");
        }
        let place = |wanted: &str| {
            names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(wanted))
        };
        (self.date, self.time) = (place("date"), place("time"));
        self.names = names.into_iter().map(column).collect();
        self.kinds = self.names.iter().map(|name| kind(name)).collect();
        self.line = line.to_vec();
        Ok(())
    }

    /// Heeds a line that is too long to be parsed: it may have the names of those that follow.
    pub(super) fn misses(&mut self, beginning: &[u8]) {
        let begins = beginning.get(..FIELDS.len());
        if begins.is_some_and(|begins| begins.eq_ignore_ascii_case(FIELDS)) {
            *self = W3c::default();
        }
    }

    pub(super) fn parse<'a>(
        &self,
        line: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> Result<(), &'static str> {
        if self.names.is_empty() {
            return Err("no #Fields: before it");
        }
        let values = self
            .values(line)
            .ok_or("not as many fields as #Fields: has")?;
        let mut clock = None;
        if let (Some(date), Some(time)) = (self.date, self.time) {
            let (Some(date), Some(time)) = (values.get(date), values.get(time)) else {
                return Err("the time is none");
            };
            let stamp = time::iso(&[date, &b"T"[..], time].concat()).ok_or("the time is none")?;
            if !row.put_time(columns, stamp) {
                return Err("the time is none");
            }
            clock = self.date.zip(self.time);
        }
        for (at, (name, value)) in self.names.iter().zip(values).enumerate() {
            if clock.is_some_and(|(date, time)| at == date || at == time) {
                continue;
            }
            let kind = self.kinds.get(at).copied().unwrap_or(Kind::Free);
            if !kind.holds(value) {
                return Err("a value is not of its field");
            }
            let value = match (kind, value) {
                (_, b"-") => Value::Null,
                (Kind::Number, value) => number(value),
                (_, value) => Value::typed(value),
            };
            let slot = columns.place(name);
            row.put_at(slot, || Cow::Owned(name.clone()), value);
        }
        Ok(())
    }

    /// The values of a line, if it has one for each name.
    fn values<'a>(&self, line: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let wanted = self.names.len();
        let separator = match memchr::memchr(b'\t', line) {
            Some(_) => b'\t',
            None => b' ',
        };
        let plain: Vec<&[u8]> = line.split(|b| *b == separator).take(wanted + 1).collect();
        // One that begins with a quote and does not end with one has spaces in it.
        let is_whole = |value: &&[u8]| match value {
            [b'"', inner @ ..] => !inner.is_empty() && inner.ends_with(b"\""),
            value => !value.is_empty(),
        };
        let well = |values: &[&[u8]]| values.len() == wanted && values.iter().all(is_whole);
        if well(&plain) {
            return Some(plain);
        }
        // Texts in quotes, which may hold spaces.
        let mut values = Vec::new();
        let mut rest = Some(line).filter(|line| line.contains(&b'"') && separator == b' ');
        while let Some(text) = rest {
            let (value, _, after) = word_or_text(text)?;
            values.push(value);
            rest = after;
        }
        (values.len() == wanted).then_some(values)
    }
}

/// The type of a field by its nature. Other fields may be versions or names, whose form counts.
fn kind(column: &str) -> Kind {
    match column {
        "c_ip" | "s_ip" => Kind::Address,
        "sc_status" | "s_port" | "c_port" | "bytes" | "cs_bytes" | "sc_bytes" | "time_taken"
        | "time_to_first_byte" => Kind::Number,
        _ => Kind::Free,
    }
}

/// The column of a name: `cs(User-Agent)` is `cs_user_agent`.
fn column(name: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '_',
    };
    let column: String = name.trim_end_matches(')').chars().map(plain).collect();
    column.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::Times;

    fn values(w3c: &W3c, line: &str) -> Result<Vec<Option<Value<'static>>>, &'static str> {
        let mut columns = Columns::new(&[], 100, false, Times::default()).unwrap();
        let mut row = Row::default();
        w3c.parse(line.as_bytes(), &mut row, &mut columns)?;
        let values = row.finish(1, false)?;
        let owned = |value: &Option<Value<'_>>| {
            value.as_ref().map(|value| match value {
                Value::Text(text) => Value::Text(Cow::Owned(text.to_vec())),
                Value::Integer(integer) => Value::Integer(*integer),
                Value::Real(real) => Value::Real(*real),
                Value::Null => Value::Null,
            })
        };
        Ok(values.iter().skip(3).map(owned).collect())
    }

    #[test]
    fn only_numbers_by_nature_lose_their_form() {
        let mut w3c = W3c::default();
        w3c.directive(b"#Fields: cs-version cs(User-Agent) time-taken sc-bytes")
            .unwrap();
        let text = |text: &str| Some(Value::Text(Cow::Owned(text.as_bytes().to_vec())));
        assert_eq!(
            values(&w3c, "1.10 2.0 0.010 12").unwrap(),
            [
                text("1.10"),
                text("2.0"),
                Some(Value::Real(0.01)),
                Some(Value::Integer(12))
            ]
        );
    }

    #[test]
    fn a_value_of_another_field_is_none() {
        let mut w3c = W3c::default();
        w3c.directive(b"#Fields: c-ip cs(User-Agent) sc-status time-taken")
            .unwrap();
        for line in [
            "::1 - 200 0.5",
            "- - - -",
            "10.0.0.1 \"a b\" 200 5",
            "a.example 9\" 000 5",
        ] {
            assert!(values(&w3c, line).is_ok(), "{line}");
        }
        for line in [
            // The status is missing, and the quoted text has a space.
            "10.0.0.1 \"Mozilla (X11)\" 5",
            "10.0.0.1 \"a b 5",
            "GET - 200 x",
            "/ - 200 5",
        ] {
            assert!(values(&w3c, line).is_err(), "{line}");
        }
        // As Exchange separates them.
        assert!(W3c::default().directive(b"#Fields: a,b,c").is_err());
    }

    #[test]
    fn names_that_cannot_be_read_end_those_before_them() {
        let named = || {
            let mut w3c = W3c::default();
            w3c.directive(b"#Fields: a b").unwrap();
            assert!(values(&w3c, "1 2").is_ok());
            w3c
        };
        for bad in [&b"#Fields: \xff b"[..], b"#Fields:"] {
            let mut w3c = named();
            assert!(w3c.directive(bad).is_err());
            assert!(values(&w3c, "1 2").is_err());
            assert_eq!(w3c.state(), None);
        }
        let mut w3c = named();
        w3c.misses(b"#Fields: b a and so on");
        assert!(values(&w3c, "1 2").is_err());
        let mut w3c = named();
        w3c.misses(b"1 2 and so on");
        assert!(values(&w3c, "1 2").is_ok());
    }
}
