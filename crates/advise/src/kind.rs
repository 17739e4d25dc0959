//! The kind of a value: kinds are told apart if something can be done about them, or if packing cannot shrink them.

use serde::Serialize;

/// A kind of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kind {
    Integers,
    Reals,
    Json,
    IsoDates,
    Uuids,
    Hex,
    Base64,
    NumbersAsText,
    Urls,
    /// Blobs or text that is compressed or encrypted already.
    Compressed,
    Text,
    Blobs,
}

impl Kind {
    /// All kinds, each at its number.
    pub(crate) const ALL: [Kind; 12] = [
        Kind::Integers,
        Kind::Reals,
        Kind::Json,
        Kind::IsoDates,
        Kind::Uuids,
        Kind::Hex,
        Kind::Base64,
        Kind::NumbersAsText,
        Kind::Urls,
        Kind::Compressed,
        Kind::Text,
        Kind::Blobs,
    ];

    /// The words for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Integers => "integers",
            Kind::Reals => "reals",
            Kind::Json => "JSON",
            Kind::IsoDates => "ISO dates",
            Kind::Uuids => "UUIDs as text",
            Kind::Hex => "hex text",
            Kind::Base64 => "base64",
            Kind::NumbersAsText => "numbers as text",
            Kind::Urls => "URLs",
            Kind::Compressed => "compressed already",
            Kind::Text => "text",
            Kind::Blobs => "blobs",
        }
    }

    /// The kind of a text, of which `bytes` are the beginning, or all if `whole`.
    pub(crate) fn of_text(bytes: &[u8], whole: bool) -> Kind {
        if is_json(bytes, whole) {
            Kind::Json
        } else if is_date(bytes) {
            Kind::IsoDates
        } else if is_uuid(bytes) {
            Kind::Uuids
        } else if is_number(bytes) {
            Kind::NumbersAsText
        } else if is_hex(bytes, whole) {
            Kind::Hex
        } else if is_url(bytes) {
            Kind::Urls
        } else if is_base64(bytes, whole) {
            Kind::Base64
        } else {
            Kind::Text
        }
    }

    /// The kind of a blob that begins with `bytes`.
    pub(crate) fn of_blob(bytes: &[u8]) -> Kind {
        if is_compressed(bytes) {
            Kind::Compressed
        } else {
            Kind::Blobs
        }
    }
}

fn is_json(bytes: &[u8], whole: bool) -> bool {
    let trimmed = bytes.trim_ascii();
    let looks = match trimmed {
        [b'{', rest @ ..] => rest
            .trim_ascii_start()
            .first()
            .is_none_or(|byte| b"\"}".contains(byte)),
        [b'[', rest @ ..] => rest
            .trim_ascii_start()
            .first()
            .is_none_or(|byte| b"{[]\"-tfn0123456789".contains(byte)),
        _ => false,
    };
    looks && (!whole || serde_json::from_slice::<serde::de::IgnoredAny>(trimmed).is_ok())
}

/// Whether it is `2026-11-24`, perhaps with a time and a zone.
fn is_date(bytes: &[u8]) -> bool {
    let follows = |bytes: &[u8], pattern: &[u8]| {
        bytes.len() >= pattern.len()
            && bytes
                .iter()
                .zip(pattern)
                .all(|(byte, wanted)| match wanted {
                    b'0' => byte.is_ascii_digit(),
                    b'T' => b"T ".contains(byte),
                    _ => byte == wanted,
                })
    };
    if !follows(bytes, b"0000-00-00") {
        return false;
    }
    let rest = match &bytes[10..] {
        [] => return true,
        rest if follows(rest, b"T00:00:00") => &rest[9..],
        rest if follows(rest, b"T00:00") => &rest[6..],
        _ => return false,
    };
    let rest = match rest {
        [b'.' | b',', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            let digits = digits.count();
            if digits == 0 {
                return false;
            }
            &rest[digits..]
        }
        rest => rest,
    };
    match rest.trim_ascii_start() {
        [] | b"Z" | b"UTC" => true,
        [b'+' | b'-', zone @ ..] => [b"00:00".as_slice(), b"0000", b"00"].contains(&&*masked(zone)),
        _ => false,
    }
}

/// Digits become 0.
fn masked(bytes: &[u8]) -> Vec<u8> {
    let mask = |byte: &u8| if byte.is_ascii_digit() { b'0' } else { *byte };
    bytes.iter().map(mask).collect()
}

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() == 36
        && (bytes.iter().enumerate()).all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether it is an integer or a decimal as SQLite would print it again: no zeros or plus before it.
fn is_number(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let (whole, part) = match digits.iter().position(|byte| *byte == b'.') {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    let all_digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    (1..=18).contains(&whole.len())
        && all_digits(whole)
        && (whole.len() == 1 || whole[0] != b'0')
        && part.is_none_or(|part| (1..=15).contains(&part.len()) && all_digits(part))
}

/// Whether it is hexadecimal of one case: hashes and random numbers. It has to have a letter, else it is a number.
fn is_hex(bytes: &[u8], whole: bool) -> bool {
    let one_case = |letters: std::ops::RangeInclusive<u8>| {
        bytes
            .iter()
            .all(|byte| byte.is_ascii_digit() || letters.contains(byte))
    };
    bytes.len() >= 16
        && (!whole || bytes.len().is_multiple_of(2))
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_alphabetic)
        && (one_case(b'a'..=b'f') || one_case(b'A'..=b'F'))
}

fn is_url(bytes: &[u8]) -> bool {
    let schemes: [&[u8]; 6] = [
        b"http://",
        b"https://",
        b"ftp://",
        b"file://",
        b"s3://",
        b"wss://",
    ];
    schemes.iter().any(|scheme| bytes.starts_with(scheme))
        && !bytes.iter().any(|byte| b" \n\t".contains(byte))
}

/// Whether it is base64: long, of its alphabet, and of upper case, lower case and digits alike, as words are not.
fn is_base64(bytes: &[u8], whole: bool) -> bool {
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    let of = |test: fn(&u8) -> bool| body.iter().any(test);
    let in_alphabet = body
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte));
    let changes = body
        .windows(2)
        .filter(|pair| class(pair[0]) != class(pair[1]))
        .count();
    body.len() >= 20
        && padding <= 2
        && (!whole || padding == 0 || bytes.len().is_multiple_of(4))
        && in_alphabet
        && !body.iter().all(u8::is_ascii_hexdigit)
        && of(u8::is_ascii_uppercase)
        && of(u8::is_ascii_lowercase)
        && (of(u8::is_ascii_digit) || body.len() >= 64)
        // Of random characters two of three pairs change their class.
        && changes * 3 > body.len()
}

fn class(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' => 0,
        b'a'..=b'z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}

/// Whether these are the first bytes of a format that is compressed.
fn is_compressed(bytes: &[u8]) -> bool {
    let magics: [&[u8]; 16] = [
        b"\xff\xd8\xff",       // JPEG
        b"\x89PNG\r\n\x1a\n",  // PNG
        b"GIF8",               // GIF
        b"PK\x03\x04",         // zip, and what is made of it: docx, jar, epub
        b"\x1f\x8b",           // gzip
        b"\x28\xb5\x2f\xfd",   // zstd
        b"\xfd7zXZ\0",         // xz
        b"BZh",                // bzip2
        b"7z\xbc\xaf\x27\x1c", // 7z
        b"\x04\x22\x4d\x18",   // LZ4
        b"OggS",               // Ogg
        b"ID3",                // MP3
        b"fLaC",               // FLAC
        b"%PDF-",              // PDF
        b"wOF2",               // fonts
        b"\x1a\x45\xdf\xa3",   // Matroska, WebM
    ];
    let at = |at: usize, wanted: &[u8]| bytes.get(at..).is_some_and(|b| b.starts_with(wanted));
    let zlib = || match bytes {
        [method @ (0x48 | 0x58 | 0x68 | 0x78), flags, _, ..] => {
            (u16::from(*method) << 8 | u16::from(*flags)).is_multiple_of(31)
        }
        _ => false,
    };
    magics.iter().any(|magic| bytes.starts_with(magic))
        || at(0, b"RIFF") && at(8, b"WEBP")
        || at(4, b"ftyp")
        || zlib()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_told_apart() {
        for (text, wanted) in [
            (r#"{"a": 1}"#, Kind::Json),
            ("[1, 2]", Kind::Json),
            ("{not json}", Kind::Text),
            (r#"{"a": "#, Kind::Text),
            ("2026-11-24", Kind::IsoDates),
            ("2026-11-24T10:00:00Z", Kind::IsoDates),
            ("2026-11-24 10:00", Kind::IsoDates),
            ("2026-11-24 10:00:00.123456 +01:00", Kind::IsoDates),
            ("2026-11-24 at noon", Kind::Text),
            ("2026-11-24T10:00:00.", Kind::Text),
            ("550e8400-e29b-41d4-a716-446655440000", Kind::Uuids),
            ("550e8400-e29b-41d4-a716-44665544000g", Kind::Text),
            ("d41d8cd98f00b204e9800998ecf8427e", Kind::Hex),
            ("d41d8cd98f00b204e9800998ecf8427", Kind::Text),
            ("d41d8cd98f00b204E9800998ECF8427E", Kind::Text),
            ("deadbeefdeadbeef", Kind::Text),
            ("12", Kind::NumbersAsText),
            ("-12.50", Kind::NumbersAsText),
            ("007", Kind::Text),
            ("1.2.3", Kind::Text),
            ("https://example.org/a?b", Kind::Urls),
            ("see https://example.org", Kind::Text),
            ("aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0", Kind::Base64),
            ("InternationalizationAndLocalization1", Kind::Text),
            ("", Kind::Text),
            ("ü", Kind::Text),
        ] {
            assert_eq!(Kind::of_text(text.as_bytes(), true), wanted, "{text}");
        }
        assert_eq!(Kind::of_text(br#"{"a": "#, false), Kind::Json);
        assert_eq!(Kind::of_text(b"d41d8cd98f00b204e980", false), Kind::Hex);
    }

    #[test]
    fn blobs_are_known_by_their_first_bytes() {
        for compressed in [
            &b"\xff\xd8\xff\xe0abc"[..],
            b"\x89PNG\r\n\x1a\n",
            b"PK\x03\x04",
            b"\x28\xb5\x2f\xfd\0",
            b"RIFF\0\0\0\0WEBPVP8",
            b"\0\0\0\x18ftypmp42",
            b"\x78\x9cabc",
        ] {
            assert_eq!(Kind::of_blob(compressed), Kind::Compressed);
        }
        for other in [&b""[..], b"x", b"xyz", b"RIFF\0\0\0\0WAVE", b"\xff\xd8"] {
            assert_eq!(Kind::of_blob(other), Kind::Blobs, "{other:?}");
        }
    }
}
