//! How nginx (`log_format`) and Apache (`LogFormat`) write a pattern, and of which type each of their fields is.

use litepack_database::Result;
use litepack_database::error::refuse;

use super::field::Kind;
use super::pattern::Pattern;

/// A field: its column and type. None for `%%`.
type FieldAndRest<'t> = (Option<(String, Kind)>, &'t str);

/// Reads a pattern: with a `$` it is one of nginx, else of Apache.
pub(super) fn read(text: &str, built_in: bool, pattern: &mut Pattern) -> Result<()> {
    let nginx = text.contains('$');
    let text = text.replace("\\\"", "\"").replace("\\t", "\t");
    let mut rest = &text[..];
    while let Some(first) = rest.chars().next() {
        let field;
        (field, rest) = match first {
            '$' if nginx => nginx_field(&rest[1..], built_in)?,
            '%' if !nginx => apache_field(&rest[1..], built_in)?,
            _ => (None, &rest[first.len_utf8()..]),
        };
        match field {
            // Apache's %t brings its brackets along.
            Some((name, kind)) if name == "[time]" => {
                pattern.literal('[');
                pattern.push("time", kind)?;
                pattern.literal(']');
            }
            Some((name, kind)) => pattern.push(&name, kind)?,
            None => pattern.literal(first),
        }
    }
    Ok(())
}

fn nginx_field(text: &str, built_in: bool) -> Result<FieldAndRest<'_>> {
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
        "time_local" => ("time", Kind::TimeCommon),
        "time_iso8601" => ("time", Kind::TimeIso),
        "msec" => ("time", Kind::TimeUnix),
        "request" => ("request", Kind::Request),
        "body_bytes_sent" => ("bytes", Kind::Number),
        "http_referer" => ("referer", Kind::Free),
        "http_user_agent" => ("user_agent", Kind::Free),
        "request_method" => ("method", Kind::Token),
        "request_uri" => ("path", Kind::Token),
        "server_protocol" => ("protocol", Kind::Token),
        "remote_addr" | "realip_remote_addr" | "server_addr" | "proxy_protocol_addr" => {
            (name, Kind::Address)
        }
        "status" => (name, Kind::Status),
        "request_time" if built_in => (name, Kind::Seconds),
        "bytes_sent"
        | "request_length"
        | "request_time"
        | "connection"
        | "connection_requests"
        | "connection_time"
        | "gzip_ratio"
        | "content_length"
        | "remote_port"
        | "server_port"
        | "pid"
        | "session_time"
        | "bytes_received"
        | "request_count"
        | "request_milliseconds" => (name, Kind::Number),
        "upstream_response_time"
        | "upstream_connect_time"
        | "upstream_header_time"
        | "upstream_first_byte_time"
        | "upstream_session_time"
        | "upstream_queue_time"
        | "upstream_response_length"
        | "upstream_bytes_received"
        | "upstream_bytes_sent"
        | "upstream_status" => (name, Kind::Numbers),
        "http_x_forwarded_for" if built_in => (name, Kind::Forwarded),
        "upstream_addr" | "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => {
            (name, Kind::Tokens)
        }
        // They are as the client has them, or decoded.
        "uri" | "document_uri" | "request_filename" | "request_body" | "http_cookie"
        | "ssl_client_s_dn" | "ssl_client_i_dn" | "message" | "msg" | "text" | "rest" | "log"
        | "line" | "body" | "error" => (name, Kind::Free),
        _ if ["http_", "sent_http_", "upstream_http_", "cookie_", "arg_"]
            .iter()
            .any(|prefix| name.starts_with(prefix)) =>
        {
            (name, Kind::Free)
        }
        _ => (name, Kind::Token),
    };
    Ok((Some((column.to_owned(), kind)), rest))
}

fn apache_field(text: &str, built_in: bool) -> Result<FieldAndRest<'_>> {
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
        ('h' | 'a', _) => ("remote_addr", Kind::Address),
        ('l', _) => ("identity", Kind::Token),
        ('u', _) => ("remote_user", Kind::Token),
        ('t', "") => ("[time]", Kind::TimeCommon),
        ('t', "sec" | "msec" | "usec") => ("time", Kind::TimeUnix),
        ('t', _) => refuse!(
            "the format %{{{argument}}}t is not known; use %t, %{{sec}}t, %{{msec}}t or %{{usec}}t"
        ),
        ('r', _) => ("request", Kind::Request),
        ('s', _) => ("status", Kind::Status),
        ('b' | 'B', _) => ("bytes", Kind::Number),
        ('O', _) => ("bytes_sent", Kind::Number),
        ('I', _) => ("bytes_received", Kind::Number),
        ('D', _) if built_in => ("request_microseconds", Kind::Whole),
        ('D', _) => ("request_microseconds", Kind::Number),
        ('T', "ms") => ("request_milliseconds", Kind::Number),
        ('T', _) if built_in => ("request_time", Kind::Whole),
        ('T', _) => ("request_time", Kind::Number),
        ('m', _) => ("method", Kind::Token),
        ('U', _) => ("path", Kind::Free),
        ('q', _) => ("query", Kind::Free),
        ('H', _) => ("protocol", Kind::Token),
        ('v' | 'V', _) => ("server_name", Kind::Host),
        ('p', _) => ("server_port", Kind::Number),
        ('P', _) => ("pid", Kind::Number),
        ('A', _) => ("server_addr", Kind::Address),
        ('f', _) => ("file", Kind::Free),
        ('k', _) => ("keepalive", Kind::Number),
        ('X', _) => ("connection", Kind::Token),
        ('L', _) => ("log_id", Kind::Token),
        ('i', "referer" | "user_agent") => (&plain[..], Kind::Free),
        ('i' | 'o' | 'e' | 'n' | 'C' | 'x', name) if !name.is_empty() => (name, Kind::Free),
        _ => refuse!("the format has %{letter}, which is not known"),
    };
    Ok((Some((column.to_owned(), kind)), rest))
}
