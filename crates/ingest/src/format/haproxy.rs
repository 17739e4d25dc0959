//! HAProxy's formats `httplog`, `httpslog` and `tcplog`, as syslog has them or alone. Its other lines stay lines of
//! syslog.

use std::borrow::Cow;

use super::field::{closing, has_space, is_address, number, request, with_port, word};
use super::{syslog, time};
use crate::row::{Columns, Row, Value};

const DIFFERENT: &str = "not a line of HAProxy";

const HTTP_TIMES: [&str; 5] = [
    "request_ms",
    "queue_ms",
    "connect_ms",
    "response_ms",
    "total_ms",
];
const TCP_TIMES: [&str; 3] = ["queue_ms", "connect_ms", "total_ms"];
const CONNECTIONS: [&str; 5] = ["actconn", "feconn", "beconn", "srv_conn", "retries"];
const QUEUES: [&str; 2] = ["srv_queue", "backend_queue"];
const TLS: [&str; 5] = [
    "fc_err",
    "ssl_fc_err",
    "ssl_c_err",
    "ssl_c_ca_err",
    "ssl_fc_is_resumed",
];

/// The values of a message under their names.
struct NamedValues<'a> {
    stamp: time::Stamp,
    values: Vec<(&'static str, Value<'a>)>,
}

/// Parses a line. True if it is an access.
pub(super) fn parse<'a>(
    line: &'a [u8],
    row: &mut Row<'a>,
    columns: &mut Columns,
    now: i64,
) -> Result<bool, &'static str> {
    let (head, message) = match syslog::split(line, now) {
        Ok((head, message)) => (Some(head), message),
        Err(_) => (None, line),
    };
    let found = access(message);
    match (&head, found) {
        (_, Some(found)) => {
            if let Some(head) = head {
                head.put(row, columns, false)?;
            }
            if !row.put_time(columns, found.stamp) {
                return Err("the time is none");
            }
            for (name, value) in found.values {
                row.put(columns, Cow::Borrowed(name), value);
            }
            Ok(true)
        }
        (Some(head), None) => {
            head.put(row, columns, true)?;
            row.put(columns, Cow::Borrowed("message"), Value::text(message));
            Ok(false)
        }
        (None, None) => Err(DIFFERENT),
    }
}

fn access(message: &[u8]) -> Option<NamedValues<'_>> {
    let (client, rest) = word(message);
    let (address, port) = with_port(client)?;
    let rest = rest?.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', rest)?;
    let stamp = time::haproxy(rest.get(..end)?)?;
    let (frontend, rest) = word(rest.get(end + 1..)?.strip_prefix(b" ")?);
    let (server, rest) = word(rest?);
    let slash = memchr::memchr(b'/', server)?;
    let (backend, server) = (server.get(..slash)?, server.get(slash + 1..)?);
    if frontend.is_empty() || backend.is_empty() || server.is_empty() {
        return None;
    }
    let mut values = vec![
        ("remote_addr", Value::text(address)),
        ("remote_port", Value::typed(port)),
        ("frontend", Value::text(frontend)),
        ("backend", Value::text(backend)),
        ("server", Value::text(server)),
    ];
    let (times, rest) = word(rest?);
    let is_http = memchr::memchr_iter(b'/', times).count() == 4;
    match is_http {
        true => numbers(times, &HTTP_TIMES, &mut values)?,
        false => numbers(times, &TCP_TIMES, &mut values)?,
    }
    let mut rest = rest;
    if is_http {
        let (status, after) = word(rest?);
        if status != b"-1" && !(status.len() == 3 && status.iter().all(u8::is_ascii_digit)) {
            return None;
        }
        values.push(("status", Value::typed(status)));
        rest = after;
    }
    let (bytes, after) = word(rest?);
    numbers(bytes, &["bytes"], &mut values)?;
    rest = after;
    if is_http {
        for name in ["request_cookie", "response_cookie"] {
            let (cookie, after) = word(rest?);
            values.push((name, given(Some(cookie).filter(|text| !text.is_empty())?)));
            rest = after;
        }
    }
    let (state, after) = word(rest?);
    if state.len() != if is_http { 4 } else { 2 } {
        return None;
    }
    values.push(("termination_state", Value::text(state)));
    let (connections, after) = word(after?);
    numbers(connections, &CONNECTIONS, &mut values)?;
    let (queues, rest) = word(after?);
    numbers(queues, &QUEUES, &mut values)?;
    match is_http {
        true => http(rest?, &mut values)?,
        false if rest.is_some_and(|rest| !rest.is_empty()) => return None,
        false => {}
    }
    Some(NamedValues { stamp, values })
}

/// The captured headers, the request, and the fields that `httpslog` has behind it.
fn http<'a>(mut rest: &'a [u8], values: &mut Vec<(&'static str, Value<'a>)>) -> Option<()> {
    let mut captured = Vec::new();
    while let Some(text) = rest.strip_prefix(b"{") {
        let end = memchr::memmem::find(text, b"} ")?;
        captured.push(text.get(..end)?);
        rest = text.get(end + 2..)?;
    }
    match captured[..] {
        [] => {}
        // Of the request or of the response: the line does not say.
        [one] => values.push(("headers", Value::text(one))),
        [of_request, of_response] => {
            values.push(("request_headers", Value::text(of_request)));
            values.push(("response_headers", Value::text(of_response)));
        }
        _ => return None,
    }
    let text = rest.strip_prefix(b"\"")?;
    let end = closing(text)?;
    let whole = text.get(..end)?;
    match request(whole) {
        Some((method, path, protocol)) => {
            values.push(("method", Value::text(method)));
            values.push(("path", Value::text(path)));
            values.push(("protocol", Value::text(protocol)));
        }
        None => values.push(("path", Value::text(whole))),
    }
    let rest = text.get(end + 1..)?;
    if rest.is_empty() {
        return Some(());
    }
    let (errors, rest) = word(rest.strip_prefix(b" ")?);
    let parts: Vec<&[u8]> = errors.split(|b| *b == b'/').collect();
    let ends: Vec<&[u8]> = rest?.split(|b| *b == b'/').collect();
    let (true, [sni, protocol, cipher]) = (parts.len() == TLS.len(), &ends[..]) else {
        return None;
    };
    for (name, part) in TLS.into_iter().zip(parts) {
        let well = part == b"-" || (!part.is_empty() && part.iter().all(u8::is_ascii_hexdigit));
        values.push((name, given(Some(part).filter(|_| well)?)));
    }
    for (name, part) in [
        ("sni", sni),
        ("ssl_protocol", protocol),
        ("ssl_cipher", cipher),
    ] {
        let well = !has_space(part)
            && !part.is_empty()
            && (name != "sni" || is_address(part) || *part == b"-");
        values.push((name, given(Some(*part).filter(|_| well)?)));
    }
    Some(())
}

fn given(text: &[u8]) -> Value<'_> {
    match text {
        b"-" => Value::Null,
        text => Value::typed(text),
    }
}

/// Numbers between slashes, which may have a sign: `+` says that it was more in the end.
fn numbers<'a>(
    text: &'a [u8],
    names: &[&'static str],
    values: &mut Vec<(&'static str, Value<'a>)>,
) -> Option<()> {
    let mut parts = text.split(|b| *b == b'/');
    for name in names {
        let part = parts.next()?;
        let digits = part
            .strip_prefix(b"+")
            .or(part.strip_prefix(b"-"))
            .unwrap_or(part);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let plain = part.strip_prefix(b"+").unwrap_or(part);
        values.push((*name, number(plain)));
    }
    parts.next().is_none().then_some(())
}
