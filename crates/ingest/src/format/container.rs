//! Logs of containers: CRI (Kubernetes) and Docker's `json-file`. Both cut a long line of the program into parts, which
//! are joined again. Parts whose rest has not come are kept with what is remembered of the source.

use std::borrow::Cow;

use super::Taken;
use super::field::word;
use super::json::members;
use super::time::{self, Stamp};
use crate::row::{Columns, Row, Value};

/// A joined line that is longer is stored in pieces,
const JOINED_MAX: usize = 1 << 20;
/// and so is one of parts that are longer together: they may be empty.
const PARTS_MAX: usize = 4 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Cri,
    Docker,
}

/// Parts of a line of one stream.
struct Pending {
    stream: Vec<u8>,
    stamp: Stamp,
    attributes: Option<String>,
    text: Vec<u8>,
    /// The lines of the log that they are from.
    lines: Vec<u8>,
}

/// The format, with what was not joined yet.
pub(crate) struct Container {
    kind: Kind,
    pending: Vec<Pending>,
}

/// The fields of a line.
struct Part<'a> {
    stream: Cow<'a, [u8]>,
    stamp: Stamp,
    attributes: Option<&'a str>,
    text: Cow<'a, [u8]>,
    /// Whether the line of the program ends with it.
    is_last: bool,
}

impl Container {
    pub(super) fn cri() -> Container {
        Container {
            kind: Kind::Cri,
            pending: Vec::new(),
        }
    }

    pub(super) fn docker() -> Container {
        Container {
            kind: Kind::Docker,
            ..Container::cri()
        }
    }

    /// The lines that are not joined yet.
    pub(super) fn state(&self) -> Option<Vec<u8>> {
        let lines: Vec<&[u8]> = self
            .pending
            .iter()
            .map(|pending| &pending.lines[..])
            .collect();
        (!lines.is_empty()).then(|| lines.join(&b'\n'))
    }

    /// Goes on where the state was taken.
    pub(super) fn restore(&mut self, state: &[u8]) {
        for line in state.split(|b| *b == b'\n') {
            if let Ok(part) = self.part(line)
                && !part.is_last
            {
                self.keep(line, &part);
            }
        }
    }

    fn part<'a>(&self, line: &'a [u8]) -> Result<Part<'a>, &'static str> {
        match self.kind {
            Kind::Cri => cri(line).ok_or("not a line of CRI"),
            Kind::Docker => docker(line).ok_or("not a line of Docker"),
        }
    }

    /// Keeps a part. Whether there is so much now that it has to be stored.
    fn keep(&mut self, line: &[u8], part: &Part<'_>) -> bool {
        let same = self
            .pending
            .iter_mut()
            .find(|one| one.stream == *part.stream);
        let pending = match same {
            Some(pending) => {
                pending.lines.push(b'\n');
                pending
            }
            None => {
                self.pending.push(Pending {
                    stream: part.stream.to_vec(),
                    stamp: part.stamp,
                    attributes: part.attributes.map(str::to_owned),
                    text: Vec::new(),
                    lines: Vec::new(),
                });
                let Some(pending) = self.pending.last_mut() else {
                    return false;
                };
                pending
            }
        };
        pending.lines.extend_from_slice(line);
        pending.text.extend_from_slice(&part.text);
        pending.text.len() > JOINED_MAX || pending.lines.len() > PARTS_MAX
    }

    pub(super) fn parse<'a>(
        &mut self,
        line: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> Result<Taken, &'static str> {
        let part = self.part(line)?;
        let known = self.pending.iter().any(|one| one.stream == *part.stream);
        if !part.is_last || known {
            let full = self.keep(line, &part);
            if !part.is_last && !full {
                return Ok(Taken::Part);
            }
            let at = self
                .pending
                .iter()
                .position(|one| one.stream == *part.stream);
            let pending = at.map(|at| self.pending.remove(at));
            return self.put_pending(pending.ok_or("no part of it")?, row, columns);
        }
        if self.kind == Kind::Docker {
            row.is_json(line);
        }
        let attributes = part.attributes.map(|text| Value::text(text.as_bytes()));
        self.put(
            part.stamp,
            Value::Text(part.stream),
            attributes,
            part.text,
            row,
            columns,
        )
    }

    /// How many lines are not joined yet.
    pub(super) fn waiting(&self) -> u64 {
        let lines = |one: &Pending| memchr::memchr_iter(b'\n', &one.lines).count() as u64 + 1;
        self.pending.iter().map(lines).sum()
    }

    /// A line whose rest does not come, as the source has ended.
    pub(super) fn rest<'a>(
        &mut self,
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> Option<Result<Taken, &'static str>> {
        let pending = self.pending.pop()?;
        Some(self.put_pending(pending, row, columns))
    }

    fn put_pending(
        &self,
        pending: Pending,
        row: &mut Row<'_>,
        columns: &mut Columns,
    ) -> Result<Taken, &'static str> {
        let stream = Value::Text(pending.stream.into());
        let attributes = pending
            .attributes
            .map(|text| Value::Text(text.into_bytes().into()));
        self.put(
            pending.stamp,
            stream,
            attributes,
            pending.text.into(),
            row,
            columns,
        )
    }

    fn put<'a>(
        &self,
        stamp: Stamp,
        stream: Value<'a>,
        attributes: Option<Value<'a>>,
        text: Cow<'a, [u8]>,
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> Result<Taken, &'static str> {
        if !row.put_time(columns, stamp) {
            return Err("the time is none");
        }
        row.put(columns, Cow::Borrowed("stream"), stream);
        let name = match self.kind {
            Kind::Cri => "message",
            Kind::Docker => "log",
        };
        row.put(columns, Cow::Borrowed(name), Value::Text(text));
        if let Some(attributes) = attributes {
            row.put(columns, Cow::Borrowed("attrs"), attributes);
        }
        Ok(Taken::Row)
    }
}

/// `2016-10-06T00:17:09.669794202Z stdout F text`; the tag is `P` for a part that others follow.
fn cri(line: &[u8]) -> Option<Part<'_>> {
    let (at, rest) = word(line);
    let stamp = time::iso(at)?;
    let (stream, rest) = word(rest?);
    let (tags, text) = word(rest?);
    let is_last = match tags.split(|b| *b == b':').next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some(Part {
        stream: stream_named(stream)?.into(),
        stamp,
        attributes: None,
        text: text.unwrap_or_default().into(),
        is_last,
    })
}

/// A stream. There are two, so what is kept of streams is bounded.
fn stream_named(name: &[u8]) -> Option<&'static [u8]> {
    [&b"stdout"[..], b"stderr"]
        .into_iter()
        .find(|stream| *stream == name)
}

/// `{"log":"text\n","stream":"stdout","time":"2019-01-01T11:11:11.111111111Z"}`; a part that others follow does not end
/// with a newline.
fn docker(line: &[u8]) -> Option<Part<'_>> {
    let (mut log, mut stream, mut stamp, mut attributes) = (None, None, None, None);
    for (name, value) in members(line).ok()? {
        let value = value.get();
        let taken = match &*name {
            "log" => log.replace(text(value)?).is_some(),
            "stream" => stream.replace(text(value)?).is_some(),
            "time" => stamp.replace(time::iso(text(value)?.as_bytes())?).is_some(),
            "attrs" => attributes.replace(value).is_some(),
            _ => return None,
        };
        if taken {
            return None;
        }
    }
    let cut = |log: &[u8]| log.ends_with(b"\n");
    let log = match log? {
        Cow::Borrowed(log) => Cow::Borrowed(log.as_bytes()),
        Cow::Owned(log) => Cow::Owned(log.into_bytes()),
    };
    let is_last = cut(&log);
    let text = match (log, is_last) {
        (log, false) => log,
        (Cow::Borrowed(log), true) => log.strip_suffix(b"\n").unwrap_or(log).into(),
        (Cow::Owned(mut log), true) => {
            log.pop();
            log.into()
        }
    };
    Some(Part {
        stream: stream_named(stream?.as_bytes())?.into(),
        stamp: stamp?,
        attributes,
        text,
        is_last,
    })
}

fn text(value: &str) -> Option<Cow<'_, str>> {
    super::json::string(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::Times;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut columns = Columns::new(&[], 100, false, Times::default()).unwrap();
        let mut take = |container: &mut Container, line: &str| {
            container.parse(line.as_bytes(), &mut Row::default(), &mut columns)
        };
        // Parts without text, and without end.
        for (mut container, line) in [
            (Container::cri(), "2016-10-06T00:17:09Z stdout P "),
            (
                Container::docker(),
                r#"{"log":"","stream":"stdout","time":"2016-10-06T00:17:09Z"}"#,
            ),
        ] {
            let rows = (0..PARTS_MAX / 20).filter(|_| take(&mut container, line) == Ok(Taken::Row));
            assert!(rows.count() > 0);
            let state = container.state().map_or(0, |state| state.len());
            assert!(state < PARTS_MAX + 100);
            assert!(container.waiting() * line.len() as u64 <= (state + line.len()) as u64);
        }
        // A stream of another name is none, so there are no more than two.
        let mut docker = Container::docker();
        let other = r#"{"log":"x","stream":"a","time":"2016-10-06T00:17:09Z"}"#;
        assert!(take(&mut docker, other).is_err());
        assert_eq!(docker.waiting(), 0);
        assert_eq!(
            take(&mut docker, &other.replace("\"a\"", "\"stderr\"")),
            Ok(Taken::Part)
        );
        assert_eq!(docker.waiting(), 1);
    }
}
