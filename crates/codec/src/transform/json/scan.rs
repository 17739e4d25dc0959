//! Cutting a JSON text into its template and its values.

use super::super::bytes::Span;
use super::Kind;
use super::shapes::SLOT;

/// One value, on its way into its column.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) column: usize,
    pub(super) kind: Kind,
    pub(super) span: Span,
}

/// The integer that prints as exactly these bytes.
pub(super) fn integer(token: &[u8]) -> Option<i64> {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let canonical = match digits {
        [b'0'] => token.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.len() < 18 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some(if digits.len() < token.len() {
        -value
    } else {
        value
    })
}

/// Cuts a text into template and values.
pub(super) fn scan(source: &[u8], text: Span, template: &mut Vec<u8>, values: &mut Vec<Value>) {
    let bytes = text.of(source);
    let base = text.start as usize;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let key_len = match rest[0] {
            b'"' => string_len(rest).filter(|len| is_key(&rest[*len..])),
            _ => None,
        };
        if let Some(len) = key_len {
            template.extend_from_slice(&rest[..len]);
            at += len;
        } else if let Some((len, value)) = value_at(rest, base + at) {
            values.push(value);
            template.push(SLOT);
            at += len;
        } else {
            template.push(rest[0]);
            at += 1;
        }
    }
}

/// The value that `bytes`, which lie at `base` of the source, begin with, and how long it is there.
pub(super) fn value_at(bytes: &[u8], base: usize) -> Option<(usize, Value)> {
    let (len, kind) = match bytes.first()? {
        b'"' => (string_len(bytes)?, Kind::String),
        b'[' => (scalars_len(bytes)?, Kind::Verbatim),
        b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
            let len = bytes.iter().take_while(|byte| is_token(**byte)).count();
            match integer(&bytes[..len]) {
                Some(_) => (len, Kind::Integer),
                None => (len, Kind::Verbatim),
            }
        }
        _ => return None,
    };
    let quotes = usize::from(kind == Kind::String);
    let value = Value {
        column: 0,
        kind,
        span: Span::new(base + quotes, base + len - quotes),
    };
    Some((len, value))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// The length of the string at the start of `bytes`, with its quotes.
pub(super) fn string_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Whether what follows a string makes it a key.
fn is_key(after: &[u8]) -> bool {
    let next = after.iter().find(|byte| !byte.is_ascii_whitespace());
    next == Some(&b':')
}

/// The length of the array at the start of `bytes`, if it holds only scalars.
fn scalars_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b']' => return Some(at + 1),
            b'"' => at += string_len(&bytes[at..])?,
            b'[' | b'{' | b'}' | b':' => return None,
            _ => at += 1,
        }
    }
}
