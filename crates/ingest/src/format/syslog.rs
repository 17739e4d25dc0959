//! syslog as RFC 5424 and RFC 3164 describe it, also without the priority, as files have it, and with an ISO time, as
//! newer daemons write it. Much else begins with an ISO time: such a line has to name a host and a program as well, and
//! only what no other program writes shows that lines are of syslog.

use std::borrow::Cow;

use super::field::{is_address, word};
use super::time::{self, Stamp};
use crate::row::{Columns, Row, Value};

const SHORT: &str = "not a line of syslog";
/// Words that programs write behind the time, and that are no hosts and no programs.
const LEVELS: [&str; 20] = [
    "trace", "debug", "info", "notice", "warn", "warning", "err", "error", "crit", "critical",
    "alert", "emerg", "fatal", "severe", "panic", "stdout", "stderr", "fine", "verbose", "log",
];

/// Programs that leave out their process.
const DAEMONS: [&str; 10] = [
    "kernel", "systemd", "sudo", "su", "rsyslogd", "syslogd", "haproxy", "nginx", "httpd", "audit",
];
/// How messages without a program begin.
const UNTAGGED: [&str; 5] = [
    "last message repeated ",
    "message repeated ",
    "-- MARK --",
    "--- last message repeated ",
    "%",
];

/// The fields before a message.
pub(super) struct Head<'a> {
    priority: Option<i64>,
    stamp: Option<Stamp>,
    host: Option<&'a [u8]>,
    pub(super) app: Option<&'a [u8]>,
    pid: Option<&'a [u8]>,
    /// The identifier and data of RFC 5424.
    newer: Option<[&'a [u8]; 2]>,
    /// No other program writes a line so.
    shows: bool,
}

/// Parses a line. True if it shows that it is of syslog: `time word word: text` may be something else.
pub(super) fn parse<'a>(
    line: &'a [u8],
    row: &mut Row<'a>,
    columns: &mut Columns,
    now: i64,
) -> Result<bool, &'static str> {
    let (head, message) = split(line, now)?;
    head.put(row, columns, true)?;
    row.put(columns, Cow::Borrowed("message"), Value::text(message));
    Ok(head.shows)
}

impl<'a> Head<'a> {
    /// Puts what it says, with the time only if that is wanted.
    pub(super) fn put(
        &self,
        row: &mut Row<'a>,
        columns: &mut Columns,
        timed: bool,
    ) -> Result<(), &'static str> {
        let mut put = |row: &mut Row<'a>, name: &'static str, value: Value<'a>| {
            row.put(columns, Cow::Borrowed(name), value);
        };
        if let Some(priority) = self.priority {
            put(row, "facility", Value::Integer(priority / 8));
            put(row, "severity", Value::Integer(priority % 8));
        }
        let given = |text: &'a [u8]| match text {
            b"-" => Value::Null,
            text => Value::text(text),
        };
        if let Some(host) = self.host {
            put(row, "host", given(host));
        }
        if let Some(app) = self.app {
            put(row, "app", given(app));
        }
        if let Some(pid) = self.pid {
            put(row, "pid", number(pid));
        }
        if let Some([id, data]) = self.newer {
            put(row, "message_id", given(id));
            put(row, "data", given(data));
        }
        match self.stamp.filter(|_| timed) {
            Some(stamp) if !row.put_time(columns, stamp) => Err("the time is none"),
            _ => Ok(()),
        }
    }
}

/// The fields before the message of a line, and the message.
pub(super) fn split(line: &[u8], now: i64) -> Result<(Head<'_>, &[u8]), &'static str> {
    let (priority, rest) = priority(line)?;
    if let (Some(_), Some(rest)) = (priority, rest.strip_prefix(b"1 ")) {
        let mut parts = rest.splitn(6, |b| *b == b' ');
        let mut part = || parts.next().ok_or(SHORT);
        let (at, host, app, pid, id) = (part()?, part()?, part()?, part()?, part()?);
        let rest = part()?;
        if [at, host, app, pid, id].iter().any(|part| part.is_empty()) {
            return Err(SHORT);
        }
        let (data, message) = structured(rest)?;
        let stamp = match at {
            b"-" => None,
            at => Some(time::iso(at).ok_or("the time is none")?),
        };
        let head = Head {
            priority,
            stamp,
            host: Some(host),
            app: Some(app),
            pid: Some(pid),
            newer: Some([id, data]),
            shows: true,
        };
        return Ok((
            head,
            message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message),
        ));
    }
    // As in the RFC, or with an ISO time.
    let cut = |at: usize| rest.get(..at).zip(rest.get(at..)?.strip_prefix(b" "));
    let classic = [15, 14].into_iter().find_map(|end| {
        let (at, rest) = cut(end)?;
        Some((time::yearless(at, now)?, rest))
    });
    let is_classic = classic.is_some();
    let newer = || {
        let (at, rest) = word(rest);
        Some((time::iso(at)?, rest?))
    };
    let zone = word(rest).0.get(19..).unwrap_or_default();
    let has_offset = zone.contains(&b'+') || zone.contains(&b'-');
    let (stamp, rest) = classic.or_else(newer).ok_or("no time at the beginning")?;
    let mut head = Head {
        priority,
        stamp: Some(stamp),
        host: None,
        app: None,
        pid: None,
        newer: None,
        shows: priority.is_some(),
    };
    // A daemon that writes to its own machine leaves the host out.
    if let Some(message) = head.tagged(rest).filter(|_| is_classic) {
        head.shows = true;
        return Ok((head, message));
    }
    let (host, Some(rest)) = word(rest) else {
        return Err(SHORT);
    };
    if !is_host(host) {
        return Err("no host behind the time");
    }
    head.host = Some(host);
    let message = head.tagged(rest);
    head.shows |= match (is_classic, head.app) {
        (true, Some(_)) => true,
        (true, None) => UNTAGGED
            .iter()
            .any(|text| rest.starts_with(text.as_bytes())),
        // Daemons write the zone of the machine, most others UTC.
        (false, Some(app)) => {
            let is_app = |daemon: &&str| daemon.as_bytes() == app;
            head.pid.is_some() || has_offset || DAEMONS.iter().any(is_app)
        }
        (false, None) => false,
    };
    // Beside a time that only syslog has, a message may be without the program.
    let other = || (is_classic || priority.is_some()).then_some(rest);
    match message.or_else(other) {
        Some(message) => Ok((head, message)),
        None => Err("no program behind the host"),
    }
}

impl<'a> Head<'a> {
    /// Takes `app[pid]: ` or `app: ` off a text.
    fn tagged(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let end = text.iter().position(|b| matches!(b, b':' | b' '))?;
        let (tag, message) = (text.get(..end)?, text.get(end..)?.strip_prefix(b":")?);
        let message = match message {
            [] => message,
            [b' ', message @ ..] => message,
            _ => return None,
        };
        let bracket = memchr::memchr(b'[', tag).filter(|_| tag.ends_with(b"]"));
        let app = tag.get(..bracket.unwrap_or(tag.len()))?;
        let letter = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'[' | b']' | b'"' | b'=');
        if !app
            .first()
            .is_some_and(|b| b.is_ascii_alphabetic() || b"_/(%".contains(b))
            || !app.iter().all(letter)
            || (bracket.is_none() && is_level(app))
        {
            return None;
        }
        self.app = Some(app);
        self.pid = bracket.and_then(|at| tag.get(at + 1..tag.len() - 1));
        Some(message)
    }
}

fn is_level(text: &[u8]) -> bool {
    let same = |level: &&str| text.eq_ignore_ascii_case(level.as_bytes());
    LEVELS.iter().any(same)
}

fn is_host(text: &[u8]) -> bool {
    !text.is_empty() && text != b"-" && is_address(text) && !is_level(text)
}

fn number(text: &[u8]) -> Value<'_> {
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
    let (number, rest) = rest.split_at_checked(end).ok_or(SHORT)?;
    match Value::typed(number) {
        Value::Integer(priority @ 0..192) => Ok((Some(priority), rest.get(1..).ok_or(SHORT)?)),
        _ => Err("the priority is none"),
    }
}

/// Structured data, and what follows it.
fn structured(text: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (mut at, mut quoted) = (0, false);
    if !text.starts_with(b"[") {
        at = memchr::memchr(b' ', text).unwrap_or(text.len());
        if text.get(..at) != Some(b"-") {
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
    let (data, rest) = text.split_at_checked(at).ok_or(SHORT)?;
    match rest {
        [] => Ok((data, rest)),
        [b' ', message @ ..] => Ok((data, message)),
        _ => Err("something follows the structured data"),
    }
}
