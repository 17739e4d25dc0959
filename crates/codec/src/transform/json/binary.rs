//! JSONB, SQLite's binary JSON (<https://sqlite.org/jsonb.html>), as text and back.
//!
//! The text is what is split into template and values. It is JSON without white space, but for strings that the blob
//! holds without escapes although JSON would need some, which have a [`RAW`] before them. Only blobs that come back
//! byte for byte are for this: sizes as short as can be, no JSON5, no labels but strings.

use super::super::bytes::{Malformed, Result};
use super::scan::string_len;

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

/// An array or object that is not closed yet.
#[derive(Clone, Copy)]
struct Open {
    is_object: bool,
    /// In binary: where it ends (reading) or its payload starts (writing).
    at: usize,
    /// Elements so far.
    elements: usize,
}

impl Open {
    /// What stands before its next element.
    fn separator(&self) -> Option<u8> {
        match (self.elements, self.is_object) {
            (0, _) => None,
            (odd, true) if odd % 2 == 1 => Some(b':'),
            _ => Some(b','),
        }
    }

    fn close(&self) -> u8 {
        if self.is_object { b'}' } else { b']' }
    }

    fn kind(&self) -> u8 {
        if self.is_object {
            element::OBJECT
        } else {
            element::ARRAY
        }
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
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while at < blob.len() {
        if let Some(outer) = open.last_mut() {
            out.extend(outer.separator());
            outer.elements += 1;
        }
        let (header, len) = header_of(&blob[at..]).ok_or(Malformed)?;
        let payload = at + header..at + header + len;
        let bytes = blob.get(payload.clone()).ok_or(Malformed)?;
        let kind = blob[at] & 15;
        at = payload.end;
        match kind {
            element::NULL => out.extend_from_slice(b"null"),
            element::TRUE => out.extend_from_slice(b"true"),
            element::FALSE => out.extend_from_slice(b"false"),
            element::INT | element::FLOAT => out.extend_from_slice(bytes),
            element::TEXT | element::TEXTJ | element::TEXTRAW => {
                out.extend((kind == element::TEXTRAW).then_some(RAW));
                out.push(b'"');
                out.extend_from_slice(bytes);
                out.push(b'"');
            }
            element::ARRAY | element::OBJECT if open.len() < DEPTH_MAX => {
                let is_object = kind == element::OBJECT;
                out.push(if is_object { b'{' } else { b'[' });
                open.push(Open {
                    is_object,
                    at: payload.end,
                    elements: 0,
                });
                at = payload.start;
            }
            _ => return Err(Malformed),
        }
        while let Some(outer) = open.pop_if(|outer| outer.at == at) {
            out.push(outer.close());
        }
        if open.is_empty() && at < blob.len() {
            return Err(Malformed);
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// Appends the blob that a text stands for.
pub(crate) fn to_binary(text: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while at == 0 || !open.is_empty() {
        if let Some(outer) = open.last_mut() {
            let next = text.get(at).copied();
            if next == Some(outer.close()) {
                let (kind, start) = (outer.kind(), outer.at);
                add_header(kind, start, out)?;
                open.pop();
                at += 1;
                continue;
            }
            if let Some(separator) = outer.separator() {
                if next != Some(separator) {
                    return Err(Malformed);
                }
                at += 1;
            }
            outer.elements += 1;
        }
        let rest = &text[at..];
        let start = out.len();
        let (kind, len) = match *rest.first().ok_or(Malformed)? {
            begin @ (b'{' | b'[') if open.len() < DEPTH_MAX => {
                open.push(Open {
                    is_object: begin == b'{',
                    at: start,
                    elements: 0,
                });
                at += 1;
                continue;
            }
            RAW if rest.get(1) == Some(&b'"') => {
                let len = string_len(&rest[1..]).ok_or(Malformed)?;
                out.extend_from_slice(&rest[2..len]);
                (element::TEXTRAW, len + 1)
            }
            b'"' => {
                let len = string_len(rest).ok_or(Malformed)?;
                let payload = &rest[1..len - 1];
                out.extend_from_slice(payload);
                match memchr::memchr(b'\\', payload) {
                    Some(_) => (element::TEXTJ, len),
                    None => (element::TEXT, len),
                }
            }
            _ => {
                let ends = |byte: &u8| matches!(byte, b',' | b':' | b'}' | b']');
                let len = rest.iter().position(ends).unwrap_or(rest.len());
                let kind = match &rest[..len] {
                    b"" => return Err(Malformed),
                    b"null" => element::NULL,
                    b"true" => element::TRUE,
                    b"false" => element::FALSE,
                    number => {
                        out.extend_from_slice(number);
                        let is_real = |byte: &u8| matches!(byte, b'.' | b'e' | b'E');
                        match number.iter().any(is_real) {
                            true => element::FLOAT,
                            false => element::INT,
                        }
                    }
                };
                (kind, len)
            }
        };
        add_header(kind, start, out)?;
        at += len;
    }
    if at == text.len() {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// Puts the header of an element before its payload, which begins at `start`.
fn add_header(kind: u8, start: usize, out: &mut Vec<u8>) -> Result<()> {
    let len = u32::try_from(out.len() - start).map_err(|_| Malformed)?;
    let size = len.to_be_bytes();
    let (code, size) = match len {
        0..=11 => (len as u8, &size[4..]),
        12..=0xff => (12, &size[3..]),
        0x100..=0xffff => (13, &size[2..]),
        _ => (14, &size[..]),
    };
    let header = 1 + size.len();
    out.extend_from_slice(&[0; 5][..header]);
    out.copy_within(start..start + len as usize, start + header);
    out[start] = code << 4 | kind;
    out[start + 1..start + header].copy_from_slice(size);
    Ok(())
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
