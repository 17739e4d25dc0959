//! Types of fields: what a field may hold, and where it ends. A field that does not hold its type makes its line one of
//! another format, so nothing is ever stored in the column of something else.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::time::{self, Stamp};
use crate::row::Value;

/// The values that a field may hold. `-` stands for no value in each, but in times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any text, also with spaces.
    Free,
    /// Text without spaces, where spaces separate fields.
    Token,
    /// An IP address, the name of a host, or `unix:` and a path.
    Address,
    /// The name of a server, or its address; that of IPv6 in brackets.
    Host,
    Number,
    /// A number without a fraction, and never missing.
    Whole,
    /// Three digits.
    Status,
    /// As nginx writes `$request_time`: with three digits behind the point, and never missing.
    Seconds,
    /// Numbers, one for each upstream server.
    Numbers,
    /// Words, one for each server.
    Tokens,
    /// IP addresses, the client's first.
    Forwarded,
    /// The same, with ports or without, as Azure's gateways write them.
    ForwardedPorts,
    /// `10/Oct/2000:13:55:36 -0700`
    TimeCommon,
    TimeIso,
    /// Unix time.
    TimeUnix,
    /// `GET /path HTTP/1.1`, of which three columns are made.
    Request,
}

impl Kind {
    /// Whether only the rest of the line can tell where the field ends.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Kind::Free | Kind::Request)
    }

    pub(super) fn is_list(self) -> bool {
        matches!(
            self,
            Kind::Numbers | Kind::Tokens | Kind::Forwarded | Kind::ForwardedPorts
        )
    }

    /// The time, of a field that is one.
    pub(super) fn stamp(self, value: &[u8]) -> Option<Option<Stamp>> {
        match self {
            Kind::TimeCommon => Some(time::common(value)),
            Kind::TimeIso => Some(time::iso(value)),
            Kind::TimeUnix => Some(time::unix(value)),
            _ => None,
        }
    }

    /// Whether a value is of this type.
    pub(super) fn holds(self, value: &[u8]) -> bool {
        match self {
            Kind::Free | Kind::Token | Kind::Request => true,
            // They are looked at when they are stored.
            Kind::TimeCommon | Kind::TimeIso | Kind::TimeUnix => true,
            Kind::Whole => !value.is_empty() && value.iter().all(u8::is_ascii_digit),
            Kind::Seconds => is_seconds(value),
            _ if value == b"-" => true,
            Kind::Host => is_address(value) && (value.starts_with(b"[") || !value.contains(&b':')),
            Kind::Address => is_address(value),
            Kind::Number => is_number(value),
            Kind::Status => value.len() == 3 && value.iter().all(u8::is_ascii_digit),
            Kind::Numbers => elements(value).all(|one| one == b"-" || is_number(one)),
            Kind::Tokens => elements(value).all(|one| !one.is_empty() && !has_space(one)),
            Kind::Forwarded => elements(value).all(|one| one == b"unknown" || is_ip(one)),
            Kind::ForwardedPorts => {
                elements(value).all(|one| one == b"unknown" || is_ip(one) || is_ip_with_port(one))
            }
        }
    }

    /// The value that is stored; `-` is none.
    pub(super) fn value(self, value: &[u8]) -> Value<'_> {
        match self {
            _ if value == b"-" => Value::Null,
            Kind::Number | Kind::Whole | Kind::Status | Kind::Seconds | Kind::Numbers => {
                number(value)
            }
            // As Apache writes an empty name of a user.
            Kind::Token if value == b"\"\"" => Value::text(b""),
            _ => Value::text(value),
        }
    }
}

/// The parts of a list as nginx writes it: `a, b`, and `a, b : c` where an internal redirect was in between.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let list = rest?;
        let comma = memchr::memchr(b',', list).map(|at| (at, at + 1));
        let colon = memchr::memmem::find(list, b" : ").map(|at| (at, at + 3));
        let cut = match (comma, colon) {
            (Some(comma), Some(colon)) => Some(comma.min(colon)),
            (comma, colon) => comma.or(colon),
        };
        let (element, after) = match cut {
            Some((at, next)) => (list.get(..at)?, list.get(next..)),
            None => (list, None),
        };
        rest = after;
        Some(element.trim_ascii())
    })
}

pub(super) fn has_space(text: &[u8]) -> bool {
    memchr::memchr2(b' ', b'\t', text).is_some()
}

/// A number as logs have it, whole or with a fraction.
pub(super) fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, fraction) = match memchr::memchr(b'.', digits) {
        Some(at) => (digits.get(..at), digits.get(at + 1..)),
        None => (Some(digits), None),
    };
    let plain = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    whole.is_some_and(plain) && fraction.is_none_or(plain)
}

fn is_seconds(text: &[u8]) -> bool {
    is_number(text) && matches!(text, [_, .., b'.', _, _, _])
}

/// An IP address, also one of IPv6 in brackets or with a zone.
pub(super) fn is_ip(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    if !text.contains(':') {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let bare = bare.unwrap_or(text);
    let (address, zone) = bare.split_once('%').unwrap_or((bare, "0"));
    address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty()
}

fn is_ip_with_port(text: &[u8]) -> bool {
    with_port(text).is_some_and(|(address, port)| is_ip(address) && port.len() <= 5)
}

/// Whether text is the name that a server gives its client: an address, or the name of a host.
pub(super) fn is_address(text: &[u8]) -> bool {
    if memchr::memchr(b':', text).is_some() {
        return is_ip(text) || text.starts_with(b"unix:");
    }
    let letter = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    // A number alone is of another field.
    text.len() < 256 && text.iter().all(letter) && !text.iter().all(u8::is_ascii_digit)
}

/// A number, where the text is one in whatever form.
pub(super) fn number(text: &[u8]) -> Value<'_> {
    let real = match memchr::memchr(b'.', text) {
        Some(_) => std::str::from_utf8(text).ok().and_then(Value::real_of),
        None => None,
    };
    real.unwrap_or_else(|| Value::typed(text))
}

/// `GET /path HTTP/1.1` in its parts, if it is exactly that; the path may hold spaces.
pub(super) fn request(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let first = memchr::memchr(b' ', text)?;
    let last = memchr::memrchr(b' ', text)?;
    let (method, protocol) = (text.get(..first)?, text.get(last + 1..)?);
    let well = first < last && !method.is_empty() && protocol.starts_with(b"HTTP/");
    well.then_some((method, text.get(first + 1..last)?, protocol))
}

/// The next quote that is not escaped.
pub(super) fn closing(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}

/// `address:port`, of which the address may be one of IPv6.
pub(super) fn with_port(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b':', text)?;
    let (address, port) = (text.get(..at)?, text.get(at + 1..)?);
    let well = is_address(address) || address == b"unix";
    (well && !port.is_empty() && port.iter().all(u8::is_ascii_digit)).then_some((address, port))
}

/// The next word, which a space ends, and what follows the space; nothing if the line ends with it.
pub(super) fn word(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b' ', text) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

/// A word or a text in quotes without these, whether it had them, and what follows the space behind it.
pub(super) type Word<'a> = (&'a [u8], bool, Option<&'a [u8]>);

/// The next word, or text in quotes.
pub(super) fn word_or_text(text: &[u8]) -> Option<Word<'_>> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let (word, rest) = word(text);
        return (memchr::memchr(b'"', word).is_none()).then_some((word, false, rest));
    };
    let end = closing(quoted)?;
    let after = quoted.get(end + 1..)?;
    let rest = match after {
        [] => None,
        [b' ', rest @ ..] => Some(rest),
        _ => return None,
    };
    Some((quoted.get(..end)?, true, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_hold_what_servers_write() {
        let all = |kind: Kind, values: &[&str]| {
            for value in values {
                assert!(kind.holds(value.as_bytes()), "{kind:?} {value}");
            }
        };
        let none = |kind: Kind, values: &[&str]| {
            for value in values {
                assert!(!kind.holds(value.as_bytes()), "{kind:?} {value}");
            }
        };
        let addresses = [
            "-",
            "10.0.0.1",
            "::1",
            "fe80::1%eth0",
            "[2001:db8::1]",
            "a-b.example.com",
            "unix:",
        ];
        all(Kind::Address, &addresses);
        none(
            Kind::Address,
            &["", "example.com:443", "200", "a b", "\"-\"", "1:2", "(X11)"],
        );
        all(Kind::Number, &["-", "0", "12.5", "-1"]);
        none(
            Kind::Number,
            &["", "+1", "1.", ".5", "2053 \"x\"", "1e5", "--1", "0x1"],
        );
        none(Kind::Status, &["", "20", "2000", "abc"]);
        all(Kind::Seconds, &["0.003", "12.000"]);
        none(Kind::Seconds, &["162", "0.5", ".003", "-"]);
        none(Kind::Whole, &["", "-", "0.003", "-1"]);
        all(
            Kind::Host,
            &["example.com", "_default_", "[::1]", "10.0.0.1"],
        );
        none(Kind::Host, &["::1", ":", "a b"]);
        all(
            Kind::Numbers,
            &["0.001", "0.001, 0.002", "0.001, - : 0.002"],
        );
        none(Kind::Numbers, &["a", "0.1,,0.2", ""]);
        all(
            Kind::Forwarded,
            &["203.0.113.7", "203.0.113.7, ::1", "unknown", "-"],
        );
        none(
            Kind::Forwarded,
            &["", "example.com", "0.003", "10.0.0.1:80"],
        );
        all(
            Kind::ForwardedPorts,
            &[
                "203.0.113.7:50123",
                "203.0.113.7, [::1]:80",
                "10.0.0.1",
                "-",
            ],
        );
        none(
            Kind::ForwardedPorts,
            &[
                "",
                "example.com:80",
                "0.003",
                "10.0.0.1:",
                "10.0.0.1:123456",
            ],
        );
    }

    #[test]
    fn a_request_has_three_parts_or_stays_whole() {
        assert_eq!(
            request(b"GET /a b HTTP/1.1"),
            Some((&b"GET"[..], &b"/a b"[..], &b"HTTP/1.1"[..]))
        );
        assert_eq!(request(b"GET /"), None);
        assert_eq!(request(b"\\x16\\x03\\x01"), None);
    }

    #[test]
    fn words_and_texts_end_with_a_space() {
        assert_eq!(
            word_or_text(b"a b"),
            Some((&b"a"[..], false, Some(&b"b"[..])))
        );
        assert_eq!(
            word_or_text(br#""a \" b" "#),
            Some((&br#"a \" b"#[..], true, Some(&b""[..])))
        );
        for bad in [&br#""a"#[..], br#""a"b"#, br#"a"b c"#, br#""a\"#] {
            assert_eq!(word_or_text(bad), None, "{bad:?}");
        }
        assert_eq!(
            with_port(b"2001:db8::1:80"),
            Some((&b"2001:db8::1"[..], &b"80"[..]))
        );
        assert_eq!(with_port(b"10.0.0.1"), None);
    }
}
