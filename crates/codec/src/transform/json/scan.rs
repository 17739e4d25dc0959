//! Cutting a JSON text into its template and its values.

use super::super::bytes::Span;
use super::ValueKind;
use super::shapes::SLOT;

/// One value, before it goes into its column.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) column: usize,
    pub(super) kind: ValueKind,
    pub(super) span: Span,
}

impl Value {
    /// A value of `len` bytes at `start` of its source.
    #[inline]
    pub(super) fn new(column: usize, kind: ValueKind, start: usize, len: usize) -> Value {
        let quotes = usize::from(kind == ValueKind::String);
        Value {
            column,
            kind,
            span: Span::new(start + quotes, start + len - quotes),
        }
    }
}

/// The integer that is printed as this token, one of [`ValueKind::Integer`].
pub(super) fn integer(token: &[u8]) -> i64 {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    if digits.len() < token.len() {
        -value
    } else {
        value
    }
}

/// Cuts a text into template and values.
#[expect(
    clippy::indexing_slicing,
    reason = "`at` is below the length, and what is found in the rest is not longer than the rest"
)]
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
        } else if let Some((len, kind)) = value_at(rest) {
            values.push(Value::new(0, kind, base + at, len));
            template.push(SLOT);
            at += len;
        } else {
            template.push(rest[0]);
            at += 1;
        }
    }
}

/// How long the value is that `bytes` begin with, and what it is.
#[inline]
pub(super) fn value_at(bytes: &[u8]) -> Option<(usize, ValueKind)> {
    match bytes.first()? {
        b'"' => Some((string_len(bytes)?, ValueKind::String)),
        b'[' => Some((scalars_len(bytes)?, ValueKind::Verbatim)),
        first if is_token(*first) => Some(token(bytes)),
        _ => None,
    }
}

/// How long the token is that `bytes` begin with, and whether it is an integer that prints back as it is written.
fn token(bytes: &[u8]) -> (usize, ValueKind) {
    let len = bytes.iter().take_while(|byte| is_token(**byte)).count();
    let canonical = match bytes.get(..len).unwrap_or_default() {
        [b'0'] => true,
        [b'-', b'1'..=b'9', digits @ ..] | [b'1'..=b'9', digits @ ..] => {
            // Any number of at most this many digits fits an i64.
            digits.len() < 18 && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    if canonical {
        (len, ValueKind::Integer)
    } else {
        (len, ValueKind::Verbatim)
    }
}

#[inline]
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the table has an entry for each byte"
)]
fn is_token(byte: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut token = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            token[byte] =
                (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'-' | b'+' | b'.');
            byte += 1;
        }
        token
    };
    TOKEN[usize::from(byte)]
}

/// The length of the string at the start of `bytes`, with its quotes.
#[inline]
fn string_len(bytes: &[u8]) -> Option<usize> {
    string_at(bytes).map(|(len, _)| len)
}

/// The length of the string at the start of `bytes`, with its quotes, and whether it has escapes.
#[inline]
pub(super) fn string_at(bytes: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut escapes) = (1, false);
    loop {
        at += quote_or_escape(bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some((at + 1, escapes));
        }
        escapes = true;
        at += 2;
    }
}

/// Where the first quote or backslash is.
#[inline]
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The lowest of the bits that are set is for the first byte that is zero; there may be others above it.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    // Most strings are so short that a call of memchr would take longer.
    let words = bytes.as_chunks::<8>().0.iter().take(WORDS);
    for (index, word) in words.enumerate() {
        let word = u64::from_le_bytes(*word);
        let quotes = zeros(word ^ (ONES * u64::from(b'"')));
        let found = quotes | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    let start = bytes.len().min(8 * WORDS) / 8 * 8;
    memchr::memchr2(b'"', b'\\', bytes.get(start..)?).map(|at| start + at)
}

/// This many words of a string are examined one by one.
const WORDS: usize = 4;

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
            b'"' => at += string_len(bytes.get(at..)?)?,
            b'[' | b'{' | b'}' | b':' => return None,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_any_length_end_at_their_quote() {
        // Bytes next to what is looked for, and a byte with its highest bit set.
        for filler in [b'x', b'"' - 1, b'"' + 1, b'\\' + 1, 0, b'"' | 0x80, 0xff] {
            for len in 0..80 {
                let mut text = vec![filler; len + 2];
                text[0] = b'"';
                text[len + 1] = b'"';
                assert_eq!(string_at(&text[..=len]), None);
                for behind in 0..20 {
                    assert_eq!(string_at(&text), Some((len + 2, false)), "{behind}");
                    text.push(b'"');
                }
                for at in 1..len {
                    let mut text = text.clone();
                    text[at..at + 2].copy_from_slice(b"\\\"");
                    assert_eq!(string_at(&text), Some((len + 2, true)), "{at}");
                }
            }
        }
        assert_eq!(string_at(b"\"\\\""), None);
        assert_eq!(string_at(b"\"\\"), None);
    }

    #[test]
    fn integers_are_what_prints_back_as_it_is_written() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-7,", Some(-7)),
            ("120}", Some(120)),
            ("-999999999999999999", Some(-999_999_999_999_999_999)),
            ("1000000000000000000", None),
            ("-0", None),
            ("07", None),
            ("-", None),
            ("+1", None),
            ("1.5", None),
            ("12e3", None),
            ("null", None),
        ] {
            let len = text.trim_end_matches([',', '}']).len();
            let (found, kind) = value_at(text.as_bytes()).unwrap();
            assert_eq!(found, len, "{text}");
            let value = (kind == ValueKind::Integer).then(|| integer(&text.as_bytes()[..len]));
            assert_eq!(value, expected, "{text}");
        }
    }
}
