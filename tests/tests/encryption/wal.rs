//! The WAL of an encrypted database is sealed with its keys, and none in plain is applied to it.

use std::path::{Path, PathBuf};

use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode};

use crate::place::{IN_URI, KEY, Place, count, failure, fill, open};

fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lpw");
    name.into()
}

fn begin_wal(connection: &Connection) {
    let sql = "pragma journal_mode = wal; pragma wal_autocheckpoint = 0; pragma cache_size = 10";
    connection.execute_batch(sql).unwrap();
}

/// Copies a database with its WAL, as a kill leaves them.
fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::copy(wal(from), wal(to)).unwrap();
}

#[test]
fn what_is_committed_is_in_the_wal_and_not_in_plain() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let writer = open(&path, KEY).unwrap();
    begin_wal(&writer);
    fill(&writer);
    for sql in [
        "update t set b = b || '.' where a % 3 = 0",
        "begin; update t set c = c || c; rollback",
        "pragma wal_checkpoint(restart)",
        "update t set b = b || '.' where a % 5 = 0",
    ] {
        writer.execute_batch(sql).unwrap();
        let kept = std::fs::read(wal(&path)).unwrap();
        assert!(kept.len() > 30_000 && place.is_silent(), "{sql}");
    }
    let reader = open(&path, KEY).unwrap();
    assert_eq!(count(&reader).unwrap(), 500);
    // Turn by turn.
    for (row, connection) in [&writer, &reader].into_iter().cycle().take(20).enumerate() {
        let sql = format!("delete from t where a = {}", row + 1);
        connection.execute_batch(&sql).unwrap();
        for connection in [&writer, &reader] {
            assert_eq!(count(connection).unwrap() as usize, 500 - row - 1);
        }
    }
    let killed = place.path("killed.db");
    copy(&path, &killed);
    drop((writer, reader));
    assert!(!wal(&path).exists(), "it is all in the database");
    for path in [&path, &killed] {
        let connection = open(path, KEY).unwrap();
        assert_eq!(count(&connection).unwrap(), 480);
        let check = connection.query_row("pragma integrity_check", [], |row| row.get(0));
        assert_eq!(check, Ok("ok".to_owned()));
    }
    assert!(place.is_silent());
}

/// Logs that do not belong there: they are copied aside, byte for byte, and what the database has stays.
#[test]
fn a_wal_of_another_kind_is_not_applied() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (encrypted, plain) = (place.path("encrypted.db"), place.path("plain.db"));
    let (one, other) = (open(&encrypted, KEY).unwrap(), vfs::open(&plain).unwrap());
    let sql = "create table u(x); insert into u values (7)";
    for connection in [&one, &other] {
        connection.execute_batch(sql).unwrap();
        begin_wal(connection);
        connection.execute_batch("update u set x = x + 1").unwrap();
    }
    let raw = place.path("raw.db");
    let third = Connection::open_with_flags(
        format!("file:{}?vfs=unix", raw.display()),
        rusqlite::OpenFlags::default() | rusqlite::OpenFlags::SQLITE_OPEN_URI,
    );
    let third = third.unwrap();
    begin_wal(&third);
    third.execute_batch(sql).unwrap();
    let raw_wal = place.path("raw.db-wal");
    let cases: [(&Path, &Path, bool); 3] = [
        (&encrypted, &wal(&plain), true),
        (&encrypted, &raw_wal, true),
        (&plain, &wal(&encrypted), false),
    ];
    let value = |connection: &Connection| -> i64 {
        let sql = "select x from u";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    for (at, (database, log, is_encrypted)) in cases.into_iter().enumerate() {
        let directory = place.path(&at.to_string());
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("a.db");
        // All of it is in the database, so that it is one without its WAL.
        let source = if is_encrypted { &one } else { &other };
        source
            .execute_batch("pragma wal_checkpoint(truncate)")
            .unwrap();
        let had = value(source);
        std::fs::copy(database, &path).unwrap();
        source.execute_batch("update u set x = x + 1").unwrap();
        std::fs::copy(log, wal(&path)).unwrap();
        let bytes = std::fs::read(log).unwrap();
        assert!(!bytes.is_empty(), "case {at}");
        let connection = match is_encrypted {
            true => open(&path, KEY).unwrap(),
            false => vfs::open(&path).unwrap(),
        };
        assert_eq!(value(&connection), had);
        connection.execute_batch("update u set x = 0").unwrap();
        let copies = std::fs::read_dir(&directory).unwrap();
        let copies = copies.map(|entry| entry.unwrap().path());
        let is_copy = |path: &PathBuf| path.to_string_lossy().contains("_refused_");
        let copies: Vec<_> = copies.filter(is_copy).collect();
        assert_eq!(copies.len(), 1, "case {at}");
        assert!(std::fs::read(&copies[0]).unwrap() == bytes, "case {at}");
        assert_eq!(value(&connection), 0);
        drop(connection);
        let connection = match is_encrypted {
            true => open(&path, KEY).unwrap(),
            false => vfs::open(&path).unwrap(),
        };
        assert_eq!(value(&connection), 0);
    }
}

/// As packing makes a file, no commit of it has numbers for a log. So nothing but its keys speaks against a WAL.
#[test]
fn a_wal_in_plain_is_not_applied_to_a_file_that_has_had_none() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (raw, source) = (place.path("raw.db"), place.path("source.db"));
    let writer = vfs::open_plain(&raw).unwrap();
    begin_wal(&writer);
    let sql = "create table u(x); insert into u values (7); pragma wal_checkpoint(truncate)";
    writer.execute_batch(sql).unwrap();
    std::fs::copy(&raw, &source).unwrap();
    writer.execute_batch("update u set x = 8").unwrap();
    let bytes = std::fs::read(place.path("raw.db-wal")).unwrap();
    assert!(!bytes.is_empty());
    let value = |connection: &Connection| -> i64 {
        let sql = "select x from u";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let key = std::sync::Arc::new(litepack::Key::written(KEY.as_bytes()).unwrap());
    for is_encrypted in [false, true] {
        let path = place.path(&format!("{is_encrypted}.db"));
        let job = litepack::Job::default();
        litepack::pack(&source, &path, &litepack::PackOptions::default(), &job).unwrap();
        if is_encrypted {
            let options = litepack::RekeyOptions::default();
            litepack::rekey(&path, Some(&key), &options, &job).unwrap();
        }
        std::fs::write(wal(&path), &bytes).unwrap();
        let connection = match is_encrypted {
            true => open(&path, KEY).unwrap(),
            false => vfs::open(&path).unwrap(),
        };
        // A file that is not encrypted may have been left by a Litepack that had such WALs.
        assert_eq!(value(&connection), if is_encrypted { 7 } else { 8 });
    }
}

/// It is open, and not read yet, when its file goes. SQLite would make a WAL by the name all the same. (Its own VFS
/// says no, with another code; another one below need not.)
#[test]
fn a_database_that_was_removed_gets_no_wal() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    begin_wal(&open(&path, KEY).unwrap());
    let late = vfs::open_with(&path, IN_URI).unwrap();
    std::fs::remove_file(&path).unwrap();
    let change = late.execute_batch("update t set b = b || '.'");
    assert_eq!(failure(change).0, ErrorCode::CannotOpen);
    assert!(place.is_silent() && !wal(&path).exists());
}
