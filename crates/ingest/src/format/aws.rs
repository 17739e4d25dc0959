//! Access logs of AWS's load balancers: the classic one (ELB) and that for applications (ALB). AWS adds fields at the
//! end from time to time; those that are not known go into the column of what has none, numbered.

use std::borrow::Cow;

use super::field::{Kind, has_space, number, request, with_port, word_or_text};
use super::time;
use crate::row::{Columns, Row, Value};

const DIFFERENT: &str = "not a line of a load balancer";

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum What {
    Time,
    Word,
    /// An address and its port, of which two columns are made.
    Peer(&'static str),
    Number,
    Status,
    /// In quotes: the method, URL and protocol.
    Request,
    /// In quotes.
    Text,
}

/// A format: its fields, and how many of them were there in the beginning.
pub(crate) struct Fields {
    fields: &'static [(&'static str, What)],
    least: usize,
}

use What::{Number, Peer, Request, Status, Text, Time, Word};

/// The fields that both have, with the word for the server that a request is passed to, between those that only one has.
macro_rules! fields {
    ([$($before:expr),*], $server:literal, [$($after:expr),* $(,)?]) => {
        &[
            $($before,)*
            ("time", Time),
            ("elb", Word),
            ("remote_addr", Peer("remote_port")),
            (concat!($server, "_addr"), Peer(concat!($server, "_port"))),
            ("request_processing_time", Number),
            (concat!($server, "_processing_time"), Number),
            ("response_processing_time", Number),
            ("status", Status),
            (concat!($server, "_status"), Status),
            ("received_bytes", Number),
            ("sent_bytes", Number),
            ("request", Request),
            ("user_agent", Text),
            ("ssl_cipher", Word),
            ("ssl_protocol", Word),
            $($after,)*
        ]
    };
}

pub(super) const ELB: Fields = Fields {
    fields: fields!([], "backend", []),
    least: 12,
};

pub(super) const ALB: Fields = Fields {
    fields: fields!(
        [("type", Word)],
        "target",
        [
            ("target_group_arn", Word),
            ("trace_id", Text),
            ("domain_name", Text),
            ("chosen_cert_arn", Text),
            ("matched_rule_priority", Number),
            ("request_creation_time", Word),
            ("actions_executed", Text),
            ("redirect_url", Text),
            ("error_reason", Text),
            ("target_port_list", Text),
            ("target_status_code_list", Text),
            ("classification", Text),
            ("classification_reason", Text),
            ("conn_trace_id", Word),
            ("transformed_host", Text),
            ("transformed_uri", Text),
            ("request_transform_status", Text),
        ]
    ),
    least: 18,
};

/// Parses a line.
pub(super) fn parse<'a>(
    format: &Fields,
    line: &'a [u8],
    row: &mut Row<'a>,
    columns: &mut Columns,
) -> Result<(), &'static str> {
    let mut rest = Some(line);
    let mut count = 0;
    while let Some(text) = rest {
        let (value, quoted, after) = word_or_text(text).ok_or(DIFFERENT)?;
        rest = after;
        match format.fields.get(count) {
            Some((name, what)) => put(name, *what, value, quoted, row, columns)?,
            None if value.is_empty() && !quoted => return Err(DIFFERENT),
            None => row.put_at(
                None,
                || Cow::Owned(format!("field_{}", count + 1)),
                given(value),
            ),
        }
        count += 1;
    }
    match count >= format.least {
        true => Ok(()),
        false => Err(DIFFERENT),
    }
}

fn given(value: &[u8]) -> Value<'_> {
    match value {
        b"-" => Value::Null,
        value => Value::text(value),
    }
}

fn put<'a>(
    name: &'static str,
    what: What,
    value: &'a [u8],
    quoted: bool,
    row: &mut Row<'a>,
    columns: &mut Columns,
) -> Result<(), &'static str> {
    let mut set = |row: &mut Row<'a>, name: &'static str, value| {
        row.put(columns, Cow::Borrowed(name), value);
    };
    let is_text = matches!(what, Request | Text);
    if quoted != is_text || (value.is_empty() && !quoted) {
        return Err(DIFFERENT);
    }
    let own = |well: bool| match well {
        true => Ok(()),
        false => Err(DIFFERENT),
    };
    match what {
        Time => {
            let stamp = time::iso(value).ok_or(DIFFERENT)?;
            own(row.put_time(columns, stamp))?;
        }
        Word => {
            own(!has_space(value))?;
            set(row, name, given(value));
        }
        Peer(port_name) => {
            let (address, port) = match value {
                b"-" => (Value::Null, Value::Null),
                value => {
                    let (address, port) = with_port(value).ok_or(DIFFERENT)?;
                    (Value::text(address), Value::typed(port))
                }
            };
            set(row, name, address);
            set(row, port_name, port);
        }
        Number => {
            own(Kind::Number.holds(value))?;
            set(
                row,
                name,
                if value == b"-" {
                    Value::Null
                } else {
                    number(value)
                },
            );
        }
        Status => {
            // 0 where the target answered nothing.
            own(Kind::Number.holds(value) && value.len() <= 3)?;
            set(row, name, Kind::Number.value(value));
        }
        Request => match request(value) {
            Some((method, path, protocol)) => {
                set(row, "method", Value::text(method));
                set(row, "path", Value::text(path));
                set(row, "protocol", Value::text(protocol));
            }
            // Of a listener that is not of HTTP there is none.
            None if value == b"- - - " => set(row, "path", Value::Null),
            None => set(row, "path", given(value)),
        },
        Text => set(row, name, given(value)),
    }
    Ok(())
}
