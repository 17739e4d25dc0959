//! Patterns: fields of a type with fixed text between them. A line fits if there is exactly one way to read it.

use std::borrow::Cow;
use std::ops::Range;

use litepack_database::Result;
use litepack_database::error::refuse;
use memchr::memmem;

use super::field::{Kind, closing, has_space, request};
use super::syntax;
use crate::row::{Columns, Row, Value};

const DIFFERENT: &str = "not as the format says";
/// So many places are tried for ends of fields that may hold spaces.
const TRIES: u32 = 5000;
/// And so many bytes are looked at for it, so a line costs about as much as others of its length.
const WORK: usize = 16 << 20;

struct Field {
    name: String,
    kind: Kind,
    /// The text that follows it.
    until: Vec<u8>,
    quoted: bool,
    /// Spaces are around it, so it holds none.
    spaced: bool,
    /// Brackets or the like are around it, so it can be empty.
    enclosed: bool,
    /// Bytes that stand around it, each alone, and so are not in it.
    separators: Vec<u8>,
}

/// A pattern.
pub(crate) struct Pattern {
    prefix: Vec<u8>,
    fields: Vec<Field>,
    has_open: bool,
    /// Where the fields of a line are.
    spans: Vec<Range<usize>>,
}

/// How a line with open fields can be read.
#[derive(Default)]
struct Ways {
    first: Option<Vec<Range<usize>>>,
    tries: u32,
    work: usize,
    several: bool,
}

impl Ways {
    fn are_too_many(&self) -> bool {
        self.several || self.tries > TRIES || self.work > WORK
    }
}

impl Pattern {
    /// Parses a pattern as nginx (with `$`) or Apache has it. Fields of those that are `built_in` have stricter
    /// types: the user has not looked at the lines.
    pub(super) fn new(parts: &[&str], built_in: bool) -> Result<Pattern> {
        let mut pattern = Pattern {
            prefix: Vec::new(),
            fields: Vec::new(),
            has_open: false,
            spans: Vec::new(),
        };
        for part in parts {
            syntax::read(part, built_in, &mut pattern)?;
        }
        if pattern.fields.is_empty() {
            refuse!("the format has no fields");
        }
        pattern.settle();
        Ok(pattern)
    }

    /// Takes more for a value of `X-Forwarded-For`: the user has named the format. A list of addresses with ports
    /// alone would not show it, as `$upstream_addr` is one, too.
    pub(super) fn widen(&mut self) {
        for field in &mut self.fields {
            if field.kind == Kind::Forwarded {
                field.kind = Kind::ForwardedPorts;
            }
        }
    }

    /// Whether [`widen`](Pattern::widen) has changed anything.
    pub(super) fn is_wide(&self) -> bool {
        (self.fields.iter()).any(|field| field.kind == Kind::ForwardedPorts)
    }

    /// Adds fixed text.
    pub(super) fn literal(&mut self, literal: char) {
        let mut bytes = [0; 4];
        let bytes = literal.encode_utf8(&mut bytes).as_bytes();
        match self.fields.last_mut() {
            Some(field) => field.until.extend_from_slice(bytes),
            None => self.prefix.extend_from_slice(bytes),
        }
    }

    /// Adds a field.
    pub(super) fn push(&mut self, name: &str, kind: Kind) -> Result<()> {
        if let Some(field) = self.fields.last()
            && field.until.is_empty()
        {
            refuse!(
                "nothing separates the fields {} and {name} of the format",
                field.name
            )
        }
        self.fields.push(Field {
            name: name.to_owned(),
            kind,
            until: Vec::new(),
            quoted: false,
            spaced: false,
            enclosed: false,
            separators: Vec::new(),
        });
        Ok(())
    }

    /// Looks at what is around each field.
    fn settle(&mut self) {
        let mut before = self.prefix.clone();
        for field in &mut self.fields {
            let until = field.until.clone();
            field.quoted = before.ends_with(b"\"") && until.starts_with(b"\"");
            let around = [&before[..], &until];
            field.spaced = !field.quoted && around.iter().any(|text| has_space(text));
            let space = |byte: Option<&u8>| byte.is_none_or(|b| matches!(b, b' ' | b'\t'));
            field.enclosed = !space(before.last()) && !space(until.first());
            if !field.quoted {
                let alone = around.iter().filter_map(|text| match text {
                    [one @ (b'|' | b',' | b';' | b'\t' | b'~' | b'^' | 1..=8)] => Some(*one),
                    _ => None,
                });
                field.separators = alone.collect();
            }
            self.has_open |= field.kind.is_open() && !field.quoted;
            before = until;
        }
    }

    pub(super) fn parse<'a>(
        &mut self,
        line: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> std::result::Result<(), &'static str> {
        let mut spans = std::mem::take(&mut self.spans);
        spans.clear();
        let found = self.find(line, &mut spans);
        let mut fields = self.fields.iter().zip(&spans);
        let done = found.and_then(|()| {
            fields.try_for_each(|(field, span)| {
                let value = line.get(span.clone()).ok_or(DIFFERENT)?;
                field.put(value, row, columns)
            })
        });
        self.spans = spans;
        done
    }

    /// Finds the fields of a line.
    fn find(
        &self,
        line: &[u8],
        spans: &mut Vec<Range<usize>>,
    ) -> std::result::Result<(), &'static str> {
        if !line.starts_with(&self.prefix) {
            return Err(DIFFERENT);
        }
        if !self.has_open {
            let end = self.closed(line, self.prefix.len(), spans);
            let whole = end == Some(line.len()) && spans.len() == self.fields.len();
            return whole.then_some(()).ok_or(DIFFERENT);
        }
        let mut ways = Ways::default();
        self.walk(line, self.prefix.len(), spans, &mut ways);
        if ways.are_too_many() {
            return Err("can be read in several ways");
        }
        *spans = ways.first.ok_or(DIFFERENT)?;
        Ok(())
    }

    /// Reads fields up to one of which only the rest of the line tells where it ends. Where that begins.
    fn closed(&self, line: &[u8], mut at: usize, spans: &mut Vec<Range<usize>>) -> Option<usize> {
        for field in self.fields.get(spans.len()..)? {
            if field.kind.is_open() && !field.quoted {
                break;
            }
            let end = at + field.end(line.get(at..)?)?;
            let value = line.get(at..end)?;
            let after = line.get(end..)?;
            if !after.starts_with(&field.until) || !field.allows(value) {
                return None;
            }
            spans.push(at..end);
            at = end + field.until.len();
        }
        Some(at)
    }

    /// Finds the ways to read the rest of a line, two at most.
    fn walk(&self, line: &[u8], at: usize, spans: &mut Vec<Range<usize>>, ways: &mut Ways) {
        let kept = spans.len();
        if let Some(at) = self.closed(line, at, spans) {
            match self.fields.get(spans.len()) {
                None if at == line.len() && ways.first.is_some() => ways.several = true,
                None if at == line.len() => ways.first = Some(spans.clone()),
                None => {}
                Some(field) => self.open(field, line, at, spans, ways),
            }
        }
        spans.truncate(kept);
    }

    fn open(
        &self,
        field: &Field,
        line: &[u8],
        at: usize,
        spans: &mut Vec<Range<usize>>,
        ways: &mut Ways,
    ) {
        let rest = line.get(at..).unwrap_or_default();
        let mut from = 0;
        while let Some(text) = rest.get(from..) {
            let found = match field.until.is_empty() {
                true => text.len(),
                false => match memmem::find(text, &field.until) {
                    Some(found) => found,
                    None => return,
                },
            };
            ways.tries += 1;
            ways.work = ways.work.saturating_add(rest.len());
            if ways.are_too_many() {
                return;
            }
            let end = at + from + found;
            if line.get(at..end).is_some_and(|value| field.allows(value)) {
                spans.push(at..end);
                self.walk(line, end + field.until.len(), spans, ways);
                spans.pop();
            }
            if field.until.is_empty() {
                return;
            }
            from += found + 1;
        }
    }
}

impl Field {
    /// Where the field ends that the text begins with.
    fn end(&self, text: &[u8]) -> Option<usize> {
        if self.quoted {
            return closing(text);
        }
        match &self.until[..] {
            _ if self.kind == Kind::TimeCommon => Some(26),
            until if self.kind.is_list() => list_end(text, until),
            [] => Some(text.len()),
            // The last colon of the word: addresses hold some.
            [b':', ..] if matches!(self.kind, Kind::Token | Kind::Address | Kind::Host) => {
                let word = memchr::memchr2(b' ', b'\t', text).unwrap_or(text.len());
                memchr::memrchr(b':', text.get(..word)?)
            }
            [byte] => memchr::memchr(*byte, text),
            until => memmem::find(text, until),
        }
    }

    /// Whether this can be the field.
    fn allows(&self, value: &[u8]) -> bool {
        let kind = self.kind;
        if self.quoted {
            return kind.holds(value);
        }
        // A text in quotes is a field that the format lacks. Servers escape quotes within a field.
        let own = match value {
            b"\"\"" => kind == Kind::Token,
            _ => closing(value).is_none(),
        };
        let blank = value.is_empty() && self.spaced && !self.enclosed && kind != Kind::Free;
        let spaces = self.spaced && kind == Kind::Token && has_space(value);
        let separated = value.iter().any(|byte| self.separators.contains(byte));
        own && !blank && !spaces && !separated && kind.holds(value)
    }

    fn put<'a>(
        &self,
        value: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> std::result::Result<(), &'static str> {
        let mut set = |row: &mut Row<'a>, column: &str, value| {
            let slot = columns.place(column);
            row.put_at(slot, || Cow::Owned(column.to_owned()), value);
        };
        if let Some(stamp) = self.kind.stamp(value) {
            let stamp = stamp.ok_or("the time is none")?;
            return match row.put_time(columns, stamp) {
                true => Ok(()),
                false => Err("the time is none"),
            };
        }
        match self.kind {
            Kind::Request if value == b"-" => set(row, "path", Value::Null),
            Kind::Request => {
                let parts = request(value);
                let (method, path, protocol) = parts.unwrap_or((&[], value, &[]));
                if parts.is_some() {
                    set(row, "method", Value::text(method));
                    set(row, "protocol", Value::text(protocol));
                }
                set(row, "path", Value::text(path));
            }
            kind => set(row, &self.name, kind.value(value)),
        }
        Ok(())
    }
}

/// Where a list ends: at the first of these texts that is not within it.
fn list_end(text: &[u8], until: &[u8]) -> Option<usize> {
    if until.is_empty() {
        return Some(text.len());
    }
    let mut ends = memmem::find_iter(text, until);
    ends.find(|end| {
        let list = text.get(..*end).unwrap_or_default();
        let after = text.get(*end..).unwrap_or_default();
        !list.ends_with(b",") && !list.ends_with(b" :") && !after.starts_with(b" : ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::Times;

    fn columns() -> Columns {
        Columns::new(&[], 100, false, Times::default()).unwrap()
    }

    /// The columns of a line, as text.
    fn read(pattern: &str, line: &[u8]) -> std::result::Result<Vec<String>, &'static str> {
        let mut pattern = Pattern::new(&[pattern], false).unwrap();
        let (mut columns, mut row) = (columns(), Row::default());
        pattern.parse(line, &mut row, &mut columns)?;
        let values = row.finish(1, false)?;
        let shown = values.iter().skip(3).map(|value| match value {
            Some(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            Some(Value::Integer(number)) => number.to_string(),
            Some(Value::Real(real)) => real.to_string(),
            _ => "-".to_owned(),
        });
        Ok(shown.collect())
    }

    #[test]
    fn patterns_that_cannot_be_read_are_refused() {
        for bad in [
            "$", "${a", "$a$b", "%", "%{a", "%{%Y}t", "%h%u", "%Q", "%%", "%{}i",
        ] {
            assert!(Pattern::new(&[bad], false).is_err(), "{bad}");
        }
    }

    #[test]
    fn quotes_in_a_quoted_field_are_escaped() {
        let pattern = "$remote_addr \"$http_user_agent\" $status";
        let line = br#"::1 "a \" 1 \\" 200"#;
        assert_eq!(read(pattern, line).unwrap(), ["::1", r#"a \" 1 \\"#, "200"]);
        for bad in [
            &br#"::1 "a" 200 "#[..],
            br#"::1 "a\" 200"#,
            br#"::1 "a "b" c" 200"#,
            br#"::1 "a" "b" 200"#,
            br#"::1 "a" 200 0.003"#,
            br#"::1 "a\"#,
            b"",
            b"::1",
            b"\"\"\"\"",
        ] {
            assert!(
                read(pattern, bad).is_err(),
                "{}",
                String::from_utf8_lossy(bad)
            );
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_not_made_of_another() {
        let timed = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent $request_time";
        let head = "10.0.0.1 - - [28/Jan/2020:20:20:07 +0000] \"GET / HTTP/1.1\" 200 5";
        assert!(read(timed, format!("{head} 0.003").as_bytes()).is_ok());
        for rest in ["", " \"-\" \"Mozilla\"", " x", " 0.003 0.004", " \"0.003\""] {
            assert!(
                read(timed, format!("{head}{rest}").as_bytes()).is_err(),
                "{rest}"
            );
        }
        assert!(read("%h %l %u %t", b"1.2.3.4 - a b [28/Jan/2020:20:20:07 +0000]").is_err());
        assert!(
            read(
                "%h %l %u %t",
                b"h:443 1.2.3.4 - - [28/Jan/2020:20:20:07 +0000]"
            )
            .is_err()
        );
    }

    #[test]
    fn lists_of_upstreams_have_spaces_of_their_own() {
        let pattern = "$upstream_addr $upstream_response_time $status";
        let found = read(pattern, b"a:80, b:80 : unix:/x 0.001, 0.002 : - 200").unwrap();
        assert_eq!(found, ["a:80, b:80 : unix:/x", "0.001, 0.002 : -", "200"]);
        assert!(read(pattern, b"a:80 b:80 0.001 200").is_err());
    }

    #[test]
    fn text_without_quotes_is_read_in_one_way_or_not_at_all() {
        let one = "$remote_addr $http_user_agent $request_time";
        assert_eq!(
            read(one, b"::1 Mozilla/5.0 (X11) 0.003").unwrap(),
            ["::1", "Mozilla/5.0 (X11)", "0.003"]
        );
        assert!(read(one, b"::1 Mozilla/5.0 (X11)").is_err());
        let two = "$http_a $http_b";
        assert!(read(two, b"a b").is_ok());
        assert_eq!(read(two, b"a b c"), Err("can be read in several ways"));
        let many = "$http_a $http_b $http_c $http_d $http_e $status";
        assert!(read(many, "x ".repeat(5000).as_bytes()).is_err());
        // A comma may be within an agent; where it separates fields, it is not.
        assert!(read("$status|$http_user_agent", b"200|a|b").is_err());
        assert_eq!(
            read("$status|$http_user_agent|$level", b"200|a b|c d").unwrap(),
            ["200", "a b", "c d"]
        );
        assert!(
            read(
                "[$time_local] $message",
                b"[28/Jan/2020:20:20:07 +0000] any text: of 5 words"
            )
            .is_ok()
        );
    }

    #[test]
    fn a_long_line_is_not_looked_at_for_long() {
        let line = "x ".repeat(500_000);
        for text in [
            "$http_a $request_time",
            "$http_a $http_b $http_c $status",
            "[$time_local] $message $status",
        ] {
            let pattern = Pattern::new(&[text], false).unwrap();
            let mut ways = Ways::default();
            let line = format!("[28/Jan/2020:20:20:07 +0000] {line}");
            let start = pattern.prefix.len();
            pattern.walk(line.as_bytes(), start, &mut Vec::new(), &mut ways);
            assert!(ways.tries < 100 && ways.are_too_many(), "{text}");
        }
        // The rest of a line needs one look.
        let whole = format!("[28/Jan/2020:20:20:07 +0000] {line}");
        assert!(read("[$time_local] $message", whole.as_bytes()).is_ok());
    }

    #[test]
    fn a_host_has_colons_of_its_own() {
        let found = read("%v:%p %h", b"[2001:db8::1]:443 2001:db8::2").unwrap();
        assert_eq!(found, ["[2001:db8::1]", "443", "2001:db8::2"]);
        let found = read("%v:%p %h", b"example.com:80 10.0.0.1").unwrap();
        assert_eq!(found, ["example.com", "80", "10.0.0.1"]);
    }
}
