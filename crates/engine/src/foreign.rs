//! Names what a file is that is no database. SQLite has one message for all of them, so this one goes to the log.

/// The kind of a file, by its first bytes; `None` for a database, and for a file that may be one to another VFS (an
/// encrypted file has no signature).
pub fn what(head: &[u8]) -> Option<&'static str> {
    const BEGINNINGS: [(&[u8], &str); 9] = [
        (b"\x1f\x8b", "gzip data; decompress it first"),
        (b"PK\x03\x04", "a zip archive; unpack it first"),
        (b"\xfd7zXZ\0", "xz data; decompress it first"),
        (b"BZh", "bzip2 data; decompress it first"),
        (
            b"version https://git-lfs",
            "a Git LFS pointer; fetch the file itself",
        ),
        (b"-- ", "SQL text; have the sqlite3 shell read it"),
        (b"PRAGMA ", "SQL text; have the sqlite3 shell read it"),
        (b"<", "a page of HTML or XML"),
        (b"PAR1", "a Parquet file"),
    ];
    let known = BEGINNINGS
        .iter()
        .find(|(begins, _)| head.starts_with(begins));
    let is_text = || {
        // A character may be cut where the head ends.
        let len = std::str::from_utf8(head).map_or_else(|error| error.valid_up_to(), str::len);
        let text = head.len() - len < 4 && !head.is_empty();
        text && !head
            .iter()
            .any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
    };
    known
        .map(|(_, what)| *what)
        .or_else(|| is_text().then_some("text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_named_and_all_else_is_not() {
        let named = |head: &[u8], word: &str| {
            let what = what(head).unwrap_or("nothing");
            assert!(what.contains(word), "{head:?}: {what}");
        };
        named(b"\x1f\x8b\x08\0\0", "gzip");
        named(b"PK\x03\x04\x14\0", "zip");
        named(b"<!DOCTYPE html>", "HTML");
        named(b"id,name\n1,one\n", "text");
        named("gr\u{fc}\u{df}e".as_bytes(), "text");
        named(&"gr\u{fc}\u{df}e".as_bytes()[..3], "text");
        named(b"-- a dump\ncreate table t(x);", "SQL");
        for head in [
            &b"SQLite format 3\0"[..],
            b"",
            b"\0\0\0\0",
            b"\xff\xfe\x01\x80\x90\xa0",
        ] {
            assert_eq!(what(head), None, "{head:?}");
        }
    }
}
