//! Padding: lengths in a database, its log and its copies say less of content.

use std::path::Path;

use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode};

use crate::place::{IN_URI, KEY, Place, count, failure, fill, give, open};

/// A key in the URI, and a padding.
fn padded(path: &Path, bytes: u32) -> rusqlite::Result<Connection> {
    vfs::open_with(path, &format!("{IN_URI}&padding={bytes}"))
}

/// What `PRAGMA litepack_info` says of the padding, and the database whole or not.
fn padding(connection: &Connection) -> Option<u64> {
    let sql = "pragma litepack_info";
    let report: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let sql = "pragma litepack_check";
    let check: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    report["padding"].as_u64()
}

#[test]
fn a_new_database_has_the_padding_of_its_uri() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for bytes in [64, 256, 4096] {
        let path = place.path(&format!("{bytes}.db"));
        let connection = padded(&path, bytes).unwrap();
        fill(&connection);
        assert_eq!(padding(&connection), Some(bytes.into()));
        drop(connection);
        // It need not be said again.
        let connection = open(&path, KEY).unwrap();
        let sql = "update t set b = b || '.' where a % 7 = 0; pragma litepack_maintain; vacuum";
        connection.execute_batch(sql).unwrap();
        assert_eq!(padding(&connection), Some(bytes.into()));
        assert_eq!(count(&connection).unwrap(), 500);
    }
    // By a pragma, and 0 for none.
    for (bytes, expected) in [(512, Some(512)), (0, None)] {
        let path = place.path(&format!("pragma{bytes}.db"));
        let connection = vfs::open_with(&path, &format!("padding={bytes}")).unwrap();
        give(&connection, "key", KEY).unwrap();
        fill(&connection);
        assert_eq!(padding(&connection), expected);
    }
    assert!(place.is_silent());
}

#[test]
fn another_padding_than_the_files_is_refused() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    fill(&padded(&path, 256).unwrap());
    for bytes in [0, 64] {
        let (code, words) = failure(padded(&path, bytes).and_then(|found| count(&found)));
        assert_eq!(code, ErrorCode::ApiMisuse, "{words}");
        let connection = vfs::open_with(&path, &format!("padding={bytes}")).unwrap();
        let (code, words) = failure(give(&connection, "key", KEY));
        assert_eq!(code, ErrorCode::ApiMisuse);
        assert!(words.contains("padding is 256 in this file"), "{words}");
    }
    assert_eq!(count(&padded(&path, 256).unwrap()).unwrap(), 500);
    let (code, _) = failure(padded(&path, 100).and_then(|found| count(&found)));
    assert_eq!(code, ErrorCode::ApiMisuse);
}

/// Bytes of a record of a log before what is sealed: length, kind, link, the place of the salt or the salt, counter.
fn told(record: &[u8]) -> usize {
    let varint = |at: usize| {
        at + record[at..]
            .iter()
            .position(|byte| byte & 0x80 == 0)
            .unwrap()
            + 1
    };
    match record[9] {
        0 => varint(10 + 16),
        _ => varint(varint(9)),
    }
}

/// That those of another log are not shows that this looks at something.
#[test]
fn records_of_the_log_are_padded() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let lengths = |bytes: u32| {
        let path = place.path(&format!("{bytes}.db"));
        let connection = padded(&path, bytes).unwrap();
        fill(&connection);
        let sql = "pragma journal_mode = wal; pragma wal_autocheckpoint = 0";
        connection.execute_batch(sql).unwrap();
        for row in 0..60 {
            let text = "x".repeat(row);
            let sql = format!("update t set b = '{text}' where a = {}", row * 8 + 1);
            connection.execute_batch(&sql).unwrap();
        }
        let log = std::fs::read(place.path(&format!("{bytes}.db-lpw"))).unwrap();
        let mut lengths = Vec::new();
        let mut at = 4096;
        while let Some(len) = log.get(at..at + 4) {
            let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
            if len == 0 {
                break;
            }
            lengths.push(len - told(&log[at..]));
            at += len;
        }
        assert_eq!(count(&open(&path, KEY).unwrap()).unwrap(), 440);
        lengths
    };
    let is_padded = |len: &usize| len.is_multiple_of(256);
    let (plain, padded) = (lengths(0), lengths(256));
    assert!(plain.len() > 60 && !plain.iter().all(is_padded));
    assert!(padded.len() > 60 && padded.iter().all(is_padded));
}

/// What is copied, and what is attached anew, has a padding of 1024 bytes and the key.
fn copied(connection: &Connection, to: &Path, key: &str) {
    let name = vfs::uri(to, vfs::under_test(), "");
    connection.execute("vacuum into ?", [name]).unwrap();
    let opened = open(to, key).unwrap();
    assert_eq!(
        (padding(&opened), count(&opened).unwrap()),
        (Some(1024), 500)
    );
    let new = to.with_extension("attached");
    let name = vfs::uri(&new, vfs::under_test(), "");
    connection.execute("attach ? as new", [name]).unwrap();
    let sql = "create table new.t(x); insert into new.t values (1); detach new";
    connection.execute_batch(sql).unwrap();
    assert_eq!(padding(&open(&new, key).unwrap()), Some(1024));
}

#[test]
fn copies_have_the_padding_too() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let connection = padded(&place.path("a.db"), 1024).unwrap();
    fill(&connection);
    copied(&connection, &place.path("copy.db"), KEY);
    // Another key changes nothing of that, nor does it that others have made the file since it was opened.
    give(&connection, "rekey", "another one").unwrap();
    copied(&connection, &place.path("of another.db"), "another one");
    give(&connection, "rekey", KEY).unwrap();
    let path = place.path("empty.db");
    let early = open(&path, KEY).unwrap();
    fill(&padded(&path, 1024).unwrap());
    assert_eq!(count(&early).unwrap(), 500);
    copied(&early, &place.path("of early.db"), KEY);
    // Unless they are to have another one.
    let other = place.path("other.db");
    let name = vfs::uri(&other, vfs::under_test(), "padding=64");
    connection.execute("vacuum into ?", [name]).unwrap();
    assert_eq!(padding(&open(&other, KEY).unwrap()), Some(64));
    // What is attached with main's key keeps its own.
    let name = vfs::uri(&other, vfs::under_test(), "");
    connection.execute("attach ? as other", [name]).unwrap();
    let sql = "select count(*) from other.t";
    let found: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(found, 500);
}

#[test]
fn a_database_that_is_encrypted_later_has_it_and_another_key_keeps_it() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    fill(&vfs::open(&path).unwrap());
    let connection = vfs::open_with(&path, "padding=128").unwrap();
    assert_eq!(count(&connection).unwrap(), 500);
    give(&connection, "rekey", KEY).unwrap();
    assert_eq!(padding(&connection), Some(128));
    give(&connection, "rekey", "another one").unwrap();
    assert_eq!(
        (padding(&connection), count(&connection).unwrap()),
        (Some(128), 500)
    );
    give(&connection, "rekey", "").unwrap();
    assert_eq!(
        (padding(&connection), count(&connection).unwrap()),
        (None, 500)
    );
}

/// Not by opening alone: a handle that was there before finds another file, or one that others have made.
#[test]
fn a_handle_goes_on_in_no_file_with_another_padding() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let wishes = padded(&path, 256).unwrap();
    fill(&open(&path, KEY).unwrap());
    let (code, words) = failure(wishes.execute_batch("insert into t values (1000, 'x', 'x')"));
    assert_eq!(code, ErrorCode::ApiMisuse, "{words}");
    drop(wishes);
    // The bytes of a file without padding, of the same key, in the place of the padded one's, while it is open.
    let (path, other) = (place.path("padded.db"), place.path("other.db"));
    let connection = padded(&path, 256).unwrap();
    fill(&connection);
    drop(connection);
    fill(&open(&other, KEY).unwrap());
    let connection = open(&path, KEY).unwrap();
    assert_eq!(count(&connection).unwrap(), 500);
    let bytes = std::fs::read(&other).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let insert = "insert into t values (1000, 'x', 'x')";
    connection.execute_batch(insert).unwrap_err();
    assert!(std::fs::read(&path).unwrap() == bytes);
}

#[test]
fn a_padding_without_a_key_is_an_error() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let connection = vfs::open_with(&path, "padding=64").unwrap();
    let (code, words) = failure(connection.execute_batch("create table t(x)"));
    assert_eq!(code, ErrorCode::ApiMisuse, "{words}");
    give(&connection, "key", KEY).unwrap();
    connection.execute_batch("create table t(x)").unwrap();
    assert_eq!(padding(&connection), Some(64));
    let plain = place.path("plain.db");
    fill(&vfs::open_plain(&plain).unwrap());
    let refused = vfs::open_with(&plain, "padding=64").and_then(|found| count(&found));
    assert_eq!(failure(refused).0, ErrorCode::ApiMisuse);
}

/// Of a database that was in plain for a while, on one connection.
#[test]
fn a_padding_comes_back_with_the_next_key() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    fill(&padded(&path, 64).unwrap());
    let connection = open(&path, KEY).unwrap();
    for key in ["", "another one"] {
        give(&connection, "rekey", key).unwrap();
        assert_eq!(count(&connection).unwrap(), 500);
    }
    assert_eq!(padding(&connection), Some(64));
}
