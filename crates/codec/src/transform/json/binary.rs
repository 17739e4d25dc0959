//! JSONB, SQLite's binary JSON (<https://sqlite.org/jsonb.html>), as text and back.
//!
//! The text is what is split into template and values. It is JSON without white space, but for strings that the blob
//! holds without escapes although JSON would need some, which have a [`RAW`] before them. Only blobs that come back
//! byte for byte are for this: sizes as short as can be, no JSON5, no labels but strings.

use super::super::bytes::{Malformed, Result};
use super::scan::string_at;

/// Before a string of type TEXTRAW.
const RAW: u8 = b'~';
/// Arrays and objects within each other, at most.
const DEPTH_MAX: usize = 100;

/// Element types, by the low four bits of their first byte.
mod element {
    pub(super) const NULL: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const INT: u8 = 3;
    pub(super) const FLOAT: u8 = 5;
    /// Needs no escapes.
    pub(super) const TEXT: u8 = 7;
    /// Has escapes.
    pub(super) const TEXTJ: u8 = 8;
    pub(super) const TEXTRAW: u8 = 10;
    pub(super) const ARRAY: u8 = 11;
    pub(super) const OBJECT: u8 = 12;
}

/// The separator before the next element of an array or object that has so many elements.
fn separator(is_object: bool, elements: usize) -> Option<u8> {
    match (elements, is_object) {
        (0, _) => None,
        (odd, true) if odd % 2 == 1 => Some(b':'),
        _ => Some(b','),
    }
}

/// Whether a blob may be JSONB: an array or object of its length.
pub(crate) fn looks_binary(blob: &[u8]) -> bool {
    let header = blob.first().zip(header_of(blob));
    header.is_some_and(|(first, (len, payload))| {
        matches!(first & 15, element::ARRAY | element::OBJECT) && len + payload == blob.len()
    })
}

/// The lengths of an element's header and payload.
fn header_of(bytes: &[u8]) -> Option<(usize, usize)> {
    let size = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |size, byte| size << 8 | usize::from(*byte))
    };
    Some(match bytes.first()? >> 4 {
        len @ 0..12 => (1, len.into()),
        12 => (2, size(bytes.get(1..2)?)),
        13 => (3, size(bytes.get(1..3)?)),
        14 => (5, size(bytes.get(1..5)?)),
        _ => return None,
    })
}

/// Appends a blob's text.
pub(crate) fn to_text(blob: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if put_text(blob, DEPTH_MAX, out)? == blob.len() {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// Appends the text of the element that a blob begins with, and says how long it is there. Arrays and objects may
/// be within each other `depth` times.
fn put_text(blob: &[u8], depth: usize, out: &mut Vec<u8>) -> Result<usize> {
    let (header, len) = header_of(blob).ok_or(Malformed)?;
    let bytes = blob.get(header..header + len).ok_or(Malformed)?;
    match blob.first().ok_or(Malformed)? & 15 {
        element::NULL => out.extend_from_slice(b"null"),
        element::TRUE => out.extend_from_slice(b"true"),
        element::FALSE => out.extend_from_slice(b"false"),
        element::INT | element::FLOAT => out.extend_from_slice(bytes),
        kind @ (element::TEXT | element::TEXTJ | element::TEXTRAW) => {
            if kind == element::TEXTRAW {
                out.push(RAW);
            }
            out.push(b'"');
            out.extend_from_slice(bytes);
            out.push(b'"');
        }
        kind @ (element::ARRAY | element::OBJECT) if depth > 0 => {
            let is_object = kind == element::OBJECT;
            out.push(if is_object { b'{' } else { b'[' });
            let (mut at, mut elements) = (0, 0);
            while at < bytes.len() {
                out.extend(separator(is_object, elements));
                at += put_text(bytes.get(at..).ok_or(Malformed)?, depth - 1, out)?;
                elements += 1;
            }
            out.push(if is_object { b'}' } else { b']' });
        }
        _ => return Err(Malformed),
    }
    Ok(header + len)
}

/// Appends the blob that a text stands for.
pub(crate) fn to_binary(text: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if put_binary(text, DEPTH_MAX, out)? == text.len() {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// Appends the element that a text begins with, and says how long it is there. Arrays and objects may be within
/// each other `depth` times.
fn put_binary(text: &[u8], depth: usize, out: &mut Vec<u8>) -> Result<usize> {
    match *text.first().ok_or(Malformed)? {
        begin @ (b'{' | b'[') if depth > 0 => {
            let start = out.len();
            let is_object = begin == b'{';
            let (kind, close) = if is_object {
                (element::OBJECT, b'}')
            } else {
                (element::ARRAY, b']')
            };
            let (mut at, mut elements) = (1, 0);
            while text.get(at) != Some(&close) {
                if let Some(separator) = separator(is_object, elements) {
                    if text.get(at) != Some(&separator) {
                        return Err(Malformed);
                    }
                    at += 1;
                }
                at += put_binary(text.get(at..).ok_or(Malformed)?, depth - 1, out)?;
                elements += 1;
            }
            insert_header(kind, start, out)?;
            Ok(at + 1)
        }
        b'"' => {
            let (len, escapes) = string_at(text).ok_or(Malformed)?;
            let kind = if escapes {
                element::TEXTJ
            } else {
                element::TEXT
            };
            let payload = text.get(1..len - 1).ok_or(Malformed)?;
            put_scalar(kind, payload, out)?;
            Ok(len)
        }
        RAW if text.get(1) == Some(&b'"') => {
            let string = text.get(1..).ok_or(Malformed)?;
            let (len, _) = string_at(string).ok_or(Malformed)?;
            let payload = string.get(1..len - 1).ok_or(Malformed)?;
            put_scalar(element::TEXTRAW, payload, out)?;
            Ok(len + 1)
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b':' | b'}' | b']');
            let len = text.iter().position(ends).unwrap_or(text.len());
            match text.get(..len).ok_or(Malformed)? {
                b"" => return Err(Malformed),
                b"null" => out.push(element::NULL),
                b"true" => out.push(element::TRUE),
                b"false" => out.push(element::FALSE),
                number => {
                    let is_real = |byte: &u8| matches!(byte, b'.' | b'e' | b'E');
                    let kind = match number.iter().any(is_real) {
                        true => element::FLOAT,
                        false => element::INT,
                    };
                    put_scalar(kind, number, out)?;
                }
            }
            Ok(len)
        }
    }
}

/// Appends an element with this payload.
fn put_scalar(kind: u8, payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if let Ok(len @ 0..12) = u8::try_from(payload.len()) {
        out.push(len << 4 | kind);
    } else {
        let (header, len) = header_for(kind, payload.len())?;
        out.extend(header.into_iter().take(len));
    }
    out.extend_from_slice(payload);
    Ok(())
}

/// Puts the header of an element before its payload, which begins at `start`.
fn insert_header(kind: u8, start: usize, out: &mut Vec<u8>) -> Result<()> {
    let (header, len) = header_for(kind, out.len() - start)?;
    out.extend(header.into_iter().take(len));
    out.get_mut(start..).ok_or(Malformed)?.rotate_right(len);
    Ok(())
}

/// The header of an element whose payload has so many bytes, and how long it is.
fn header_for(kind: u8, payload: usize) -> Result<([u8; 5], usize)> {
    let [a, b, c, d] = u32::try_from(payload).map_err(|_| Malformed)?.to_be_bytes();
    Ok(match payload {
        0..=11 => ([d << 4 | kind, 0, 0, 0, 0], 1),
        12..=0xff => ([12 << 4 | kind, d, 0, 0, 0], 2),
        0x100..=0xffff => ([13 << 4 | kind, c, d, 0, 0], 3),
        _ => ([14 << 4 | kind, a, b, c, d], 5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(blob: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        to_text(blob, &mut text).ok()?;
        let mut again = Vec::new();
        to_binary(&text, &mut again).ok()?;
        (again == blob).then(|| String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn what_sqlite_makes_comes_back() {
        // As jsonb() of SQLite 3.54 made them.
        for (blob, text) in [
            (&b"\x7c\x17a\x131\x17b\x0b"[..], r#"{"a":1,"b":[]}"#),
            (
                b"\x8b\x00\x01\x02\x353.5\x0c",
                r#"[null,true,false,3.5,{}]"#,
            ),
            (b"\x9c\x17k\x68a\\\"b\\n", r#"{"k":"a\"b\n"}"#),
        ] {
            assert_eq!(text_of(blob).as_deref(), Some(text), "{blob:?}");
        }
    }

    #[test]
    fn long_and_raw_strings_come_back() {
        let mut blob = Vec::new();
        let long = "x".repeat(300);
        let text = format!(r#"{{"a":"{long}",~"raw":[[1,-2],"{}"]}}"#, &long[..20]);
        to_binary(text.as_bytes(), &mut blob).unwrap();
        assert!(looks_binary(&blob));
        assert_eq!(text_of(&blob), Some(text));
    }

    #[test]
    fn what_is_written_otherwise_does_not() {
        // A longer size than needed, JSON5, a quote in a raw string, an element too many, and nothing.
        for blob in [
            &b"\xcc\x05\x17a\x131"[..],
            b"\x7c\x17a\x44+100",
            b"\x4b\x3aa\"b",
            b"\x0c\x00",
            b"",
        ] {
            assert_eq!(text_of(blob), None, "{blob:?}");
        }
        let deep = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(to_binary(&deep(DEPTH_MAX), &mut Vec::new()).is_ok());
        assert!(to_binary(&deep(DEPTH_MAX + 1), &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_stay_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut out = Vec::new();
            let _ = to_text(&bytes, &mut out);
            prop_assert!(out.len() <= 8 * bytes.len() + 8);
            out.clear();
            let _ = to_binary(&bytes, &mut out);
            prop_assert!(out.len() <= 6 * bytes.len());
        }

        #[test]
        fn any_text_that_is_taken_gives_the_same_blob_again(text in r#"[\[{][\[\]{}":,~a1.-]{0,12}[\]}]"#) {
            let mut blob = Vec::new();
            if to_binary(text.as_bytes(), &mut blob).is_ok() {
                let mut again = Vec::new();
                to_text(&blob, &mut again).unwrap();
                let mut same = Vec::new();
                to_binary(&again, &mut same).unwrap();
                prop_assert_eq!(same, blob);
            }
        }
    }
}
