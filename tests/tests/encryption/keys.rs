//! Keys by pragma and by URI, and what is refused.

use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::place::{CANARY, IN_URI, KEY, Place, count, failure, fill, give, open};

const OTHER: &str = "x'ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'";

fn is_refused<T: std::fmt::Debug>(result: rusqlite::Result<T>) -> bool {
    failure(result).0 == ErrorCode::NotADatabase
}

fn answer(connection: &Connection, sql: &str) -> Option<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    rows.next().unwrap().map(|row| row.get(0).unwrap())
}

#[test]
fn a_database_with_a_key_is_encrypted_from_its_first_byte() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for (number, key) in [KEY, "correct horse", "\u{e4}\u{1f511}"].iter().enumerate() {
        let path = place.path(&format!("{number}.db"));
        let connection = open(&path, key).unwrap();
        assert_eq!(
            answer(&connection, "pragma cipher"),
            Some("aes256gcm".into())
        );
        fill(&connection);
        assert_eq!(count(&connection).unwrap(), 500);
        drop(connection);
        assert!(place.is_silent());
        assert_eq!(count(&open(&path, key).unwrap()).unwrap(), 500);
        assert!(is_refused(count(&vfs::open(&path).unwrap())));
        let connection = vfs::open(&path).unwrap();
        let (code, words) = failure(give(&connection, "key", OTHER));
        assert_eq!(
            (code, words.as_str()),
            (ErrorCode::NotADatabase, "wrong key")
        );
        assert!(is_refused(count(&connection)));
        // The right one after a wrong one.
        assert_eq!(give(&connection, "key", key).unwrap(), "ok");
        assert_eq!(count(&connection).unwrap(), 500);
    }
    // As digits, and in the URI.
    let path = place.path("0.db");
    let digits = KEY.trim_matches(['x', '\'']);
    let connection = vfs::open(&path).unwrap();
    give(&connection, "hexkey", digits).unwrap();
    assert_eq!(count(&connection).unwrap(), 500);
    for parameters in [IN_URI.to_string(), format!("key={KEY}")] {
        let connection = vfs::open_with(&path, &parameters).unwrap();
        assert_eq!(count(&connection).unwrap(), 500);
    }
    let new = vfs::open_with(&place.path("new.db"), IN_URI).unwrap();
    fill(&new);
    drop(new);
    assert!(place.is_silent());
    assert_eq!(
        count(&open(&place.path("new.db"), KEY).unwrap()).unwrap(),
        500
    );
}

/// SQLite takes the page size from bytes that it reads before a key can be given.
#[test]
fn the_page_size_is_known_when_the_key_is() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let asked = |connection: &Connection| {
        let size = connection.query_row("pragma page_size", [], |row| row.get::<_, u32>(0));
        size.unwrap()
    };
    let place = Place::new();
    for size in [512, 8192, 65536] {
        let path = place.path(&format!("{size}.db"));
        let connection = open(&path, KEY).unwrap();
        let set = format!("pragma page_size={size}");
        connection.execute_batch(&set).unwrap();
        assert_eq!(asked(&connection), size, "of an empty one");
        fill(&connection);
        assert_eq!(asked(&connection), size);
        drop(connection);
        let connection = open(&path, KEY).unwrap();
        assert_eq!(asked(&connection), size, "before anything is read");
        let change = "pragma page_size=1024; vacuum";
        connection.execute_batch(change).unwrap();
        assert_eq!(asked(&connection), 1024, "after it was changed");
    }
}

/// If this does not sing, the tests say nothing.
#[test]
fn a_database_without_a_key_sings() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let connection = vfs::open(&place.path("a.db")).unwrap();
    fill(&connection);
    drop(connection);
    assert!(!place.is_silent());
}

#[test]
fn without_the_key_nothing_is_read_or_touched() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    let refused = vfs::open_with(&path, "immutable=1")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("needs its key in the URI"), "{refused}");
    let immutable = vfs::open_with(&path, &format!("immutable=1&{IN_URI}")).unwrap();
    assert_eq!(count(&immutable).unwrap(), 500);
    drop(immutable);
    // What a hot journal and a WAL would be, which nobody without the key may look at.
    for suffix in ["-lpjourn", "-lpw"] {
        let beside = place.path(&format!("a.db{suffix}"));
        std::fs::write(beside, [0x5a; 5000]).unwrap();
    }
    let before = place.files();
    for parameters in ["", "mode=ro", "nolock=1", "cache_mb=7"] {
        let connection = vfs::open_with(&path, parameters).expect(parameters);
        for sql in [
            "select count(*) from t",
            "create table u(x)",
            "pragma journal_mode = wal",
            "pragma integrity_check",
            "vacuum",
            "begin immediate",
        ] {
            let done = connection.execute_batch(sql);
            assert!(is_refused(done), "{parameters} {sql}");
        }
        for sql in ["pragma litepack_info", "pragma litepack_check"] {
            let (code, words) = failure(connection.query_row(sql, [], |_| Ok(())));
            assert_eq!(code, ErrorCode::NotADatabase);
            assert!(
                words.contains("file is encrypted: give PRAGMA key"),
                "{sql}: {words}"
            );
        }
        // Drivers set these before they give a key.
        connection
            .execute_batch("pragma foreign_keys = on")
            .unwrap();
        connection
            .busy_timeout(std::time::Duration::from_millis(5))
            .unwrap();
        give(&connection, "litepack_level", "7").unwrap();
        assert!(place.files() == before, "{parameters}");
    }
    for suffix in ["-lpjourn", "-lpw"] {
        std::fs::remove_file(place.path(&format!("a.db{suffix}"))).unwrap();
    }
    for parameters in ["", "mode=ro", "nolock=1"] {
        let connection = vfs::open_with(&path, parameters).unwrap();
        give(&connection, "litepack_level", "7").unwrap();
        give(&connection, "key", KEY).unwrap();
        assert_eq!(count(&connection).unwrap(), 500);
        assert_eq!(
            answer(&connection, "pragma litepack_level"),
            Some("7".into())
        );
    }
}

/// SQLite names a file that it cannot attach, with its URI.
#[test]
fn a_key_in_a_uri_is_in_no_message() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    let connection = vfs::open(&place.path("b.db")).unwrap();
    for (path, mode) in [
        (&path, ""),
        (&place.path("none/a.db"), ""),
        (&place.path("c.db"), "&mode=rw"),
    ] {
        let uri = vfs::uri(path, vfs::under_test(), &format!("key=s3cret{mode}"));
        let (_, words) = failure(connection.execute("attach ? as other", [&uri]));
        assert!(!words.contains("s3cret"), "{words}");
        let error = vfs::open_uri(&uri).unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
}

/// Another handle has the pages in the cache.
#[test]
fn a_handle_without_the_key_finds_nothing_in_the_cache_either() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    let warm = open(&path, KEY).unwrap();
    assert_eq!(count(&warm).unwrap(), 500);
    for _ in 0..2 {
        let connection = vfs::open(&path).unwrap();
        assert!(is_refused(count(&connection)));
        failure(give(&connection, "key", OTHER));
        assert!(is_refused(count(&connection)));
    }
    drop(warm);
    assert!(is_refused(count(&vfs::open(&path).unwrap())));
}

#[test]
fn a_key_that_comes_too_late_or_is_for_nothing_is_an_error() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let connection = open(&place.filled("a.db"), KEY).unwrap();
    let words = |result| failure(result).1;
    assert!(words(give(&connection, "key", KEY)).contains("has its key already"));
    let plain = vfs::open(&place.path("plain.db")).unwrap();
    fill(&plain);
    assert!(words(give(&plain, "key", KEY)).contains("not encrypted"));
    assert_eq!(answer(&plain, "pragma cipher"), None);
    assert_eq!(answer(&plain, "pragma cipher_version"), None);
    assert_eq!(count(&plain).unwrap(), 500);
    // In a transaction that has made the file.
    let new = vfs::open(&place.path("new.db")).unwrap();
    new.execute_batch("pragma cache_size = 1; begin; create table t(x)")
        .unwrap();
    new.execute_batch("insert into t select randomblob(9000) from (values(1),(2),(3),(4),(5),(6))")
        .unwrap();
    let why = words(give(&new, "key", KEY));
    assert!(why.contains("too late"), "{why}");
    // What is no key.
    for (pragma, value) in [
        ("key", ""),
        ("key", "x'00'"),
        ("hexkey", "secret"),
        ("rekey", "x'secret'"),
        ("cipher", "rot13"),
    ] {
        let why = words(give(&connection, pragma, value));
        assert!(
            !why.is_empty() && !why.contains("secret"),
            "{pragma}: {why}"
        );
    }
    failure(connection.query_row("pragma key", [], |_| Ok(())));
    // A plain database.
    let sqlite = place.path("sqlite.db");
    fill(&vfs::open_plain(&sqlite).unwrap());
    let error = vfs::open_with(&sqlite, IN_URI).unwrap_err().to_string();
    assert!(error.contains("not encrypted"), "{error}");
    for wrong in ["hexkey=secret", "key=", "key=x'secret'", "plain_temp=maybe"] {
        let error = vfs::open_with(&place.path("a.db"), wrong).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn pages_of_any_size_are_read_with_a_key_that_comes_after_the_first_look() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for size in [512, 4096, 65536] {
        for mode in ["delete", "wal"] {
            let path = place.path(&format!("{size}-{mode}.db"));
            let connection = open(&path, KEY).unwrap();
            let sql = format!("pragma page_size = {size}; pragma journal_mode = {mode}");
            connection.execute_batch(&sql).unwrap();
            fill(&connection);
            let other = open(&path, KEY).unwrap();
            assert_eq!(count(&other).unwrap(), 500);
            drop((connection, other));
            assert_eq!(count(&open(&path, KEY).unwrap()).unwrap(), 500);
        }
    }
}

#[test]
fn another_key_takes_the_place_of_the_former() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for mode in ["delete", "wal"] {
        let path = place.filled(&format!("{mode}.db"));
        let connection = open(&path, KEY).unwrap();
        connection
            .execute_batch(&format!("pragma journal_mode = {mode}"))
            .unwrap();
        let other = open(&path, KEY).unwrap();
        assert_eq!(count(&other).unwrap(), 500);
        assert_eq!(count(&connection).unwrap(), 500);
        assert_eq!(give(&connection, "rekey", OTHER).unwrap(), "ok");
        // Both go on, and write what the other reads.
        for writer in [&connection, &other] {
            let sql = format!("insert into t(b) values ('{CANARY}')");
            writer.execute_batch(&sql).unwrap();
        }
        assert_eq!(count(&connection).unwrap(), 502);
        assert_eq!(count(&other).unwrap(), 502);
        drop((connection, other));
        assert!(failure(open(&path, KEY)).1.contains("wrong key"));
        let connection = open(&path, OTHER).unwrap();
        assert_eq!(count(&connection).unwrap(), 502);
        assert_eq!(give(&connection, "rekey", "a passphrase").unwrap(), "ok");
        assert!(failure(open(&path, OTHER)).1.contains("wrong key"));
        assert_eq!(count(&open(&path, "a passphrase").unwrap()).unwrap(), 502);
        connection.execute_batch("begin immediate").unwrap();
        connection.execute_batch("delete from t").unwrap();
        failure(give(&connection, "rekey", KEY));
        connection.execute_batch("rollback").unwrap();
        assert_eq!(count(&connection).unwrap(), 502);
    }
    // The first key of a file that is still empty.
    let path = place.path("new.db");
    let connection = vfs::open(&path).unwrap();
    give(&connection, "rekey", KEY).unwrap();
    fill(&connection);
    drop(connection);
    assert_eq!(count(&open(&path, KEY).unwrap()).unwrap(), 500);
    assert!(place.is_silent());
}

#[test]
fn connections_do_not_share_the_cache_of_an_encrypted_database() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.filled("a.db");
    for parameters in ["cache=shared".into(), format!("cache=shared&{IN_URI}")] {
        let error = vfs::open_with(&path, &parameters).unwrap_err().to_string();
        assert!(error.contains("cannot share"), "{error}");
        let attaching = vfs::open(&place.path("b.db")).unwrap();
        let uri = vfs::uri(&path, vfs::under_test(), &parameters);
        let (_, words) = failure(attaching.execute("attach ? as other", [&uri]));
        assert!(!words.contains("0011"), "{words}");
    }
    // By a flag, of which the VFS hears nothing. Who was there first goes on.
    let joins = |parameters: &str| {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_SHARED_CACHE;
        let uri = vfs::uri(&path, vfs::under_test(), parameters);
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
    };
    let first = joins(IN_URI).unwrap();
    assert_eq!(count(&first).unwrap(), 500);
    for parameters in ["", IN_URI] {
        let (_, words) = failure(joins(parameters).and_then(|second| count(&second)));
        assert!(words.contains("cannot share"), "{words}");
        assert_eq!(count(&first).unwrap(), 500);
    }
    // Nor does one become encrypted that may be shared.
    let new = vfs::open_with(&place.path("new.db"), "cache=shared").unwrap();
    assert!(failure(give(&new, "key", KEY)).1.contains("cannot share"));
}
