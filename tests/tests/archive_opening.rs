//! How archives open and what they answer besides rows: read-only and immutable like a plain file with `immutable=1`,
//! beside other databases, with settings and reports, and what is refused.

use litepack_tests::archives::{self, Writer};
use litepack_tests::commandline::{JSON_ROWS, Place};
use litepack_tests::outcome::{Failure, Outcome};
use litepack_tests::{content, vfs};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

const OURS: Writer = Writer::Litepack(64 << 10);
const COUNT: &str = "select count(*), sum(id), sum(length(data)) from t";

/// A plain database and its archive.
fn pair(place: &Place) -> (std::path::PathBuf, std::path::PathBuf) {
    let plain = archives::plain(place, 4096, |c| c.execute_batch(JSON_ROWS));
    let archive = archives::archive(&plain, "archive.db.zst", OURS);
    (plain, archive)
}

fn text(connection: &Connection, sql: &str) -> Result<String, Failure> {
    let answer = connection.query_row(sql, [], |row| {
        row.get_ref(0).map(|v| v.as_str().map(String::from))
    });
    Ok(answer.map_err(Failure::from)?.expect("text"))
}

fn error(connection: &Connection, sql: &str) -> Failure {
    Outcome::of(connection, sql).answer.expect_err(sql)
}

#[test]
fn it_is_like_a_plain_file_that_is_immutable() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (plain, archive) = pair(&place);
    let expected = vfs::open_uri(&vfs::uri(&plain, vfs::PLAIN, "mode=ro&immutable=1")).unwrap();
    // Whatever access is asked for.
    for parameters in [
        "mode=ro",
        "mode=rw",
        "",
        "immutable=1",
        "nolock=1",
        "cache=private",
    ] {
        let found = vfs::open_with(&archive, parameters).unwrap();
        assert!(found.is_readonly("main").unwrap(), "{parameters}");
        for sql in [
            COUNT,
            "insert into t(data) values ('no')",
            "update t set data = '' where id = 1",
            "delete from t",
            "create table u(x)",
            "pragma user_version = 7",
            "vacuum",
            "reindex",
            "begin immediate",
            "begin exclusive",
            "begin",
            "select count(*) from t where data ->> 'year' = 1950",
            "delete from t where id = -1",
            "commit",
            "savepoint s",
            "rollback",
            "pragma journal_mode",
            "pragma journal_mode = delete",
            "pragma journal_mode = wal",
            "pragma locking_mode = exclusive",
            COUNT,
            "pragma locking_mode = normal",
            "pragma page_count",
            "pragma page_size",
            "pragma mmap_size = 1000000",
            "pragma mmap_size",
            "pragma integrity_check",
            "pragma quick_check",
            "pragma data_version",
            "pragma wal_checkpoint",
            "create temp table s as select * from t where id < 100",
            "select count(*) from s, t where s.id = t.id",
            "drop table s",
        ] {
            let (expected, found) = (Outcome::of(&expected, sql), Outcome::of(&found, sql));
            assert!(
                expected == found,
                "{parameters}, {sql}: {expected:?}, but {found:?}"
            );
        }
        let refused = error(&found, "insert into t(data) values ('no')");
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (8, "attempt to write a readonly database")
        );
    }
    place.assert_only(&["archive.db.zst", "plain.db"]);
}

/// Its header says that a WAL is in use, and none is there or could be made.
#[test]
fn a_database_in_wal_mode() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let plain = archives::plain(&place, 4096, |connection| {
        connection.execute_batch("pragma journal_mode = wal")?;
        connection.execute_batch(JSON_ROWS)
    });
    assert_eq!(std::fs::read(&plain).unwrap()[18..20], [2, 2]);
    let archive = archives::archive(&plain, "archive.db.zst", OURS);
    // A WAL of that name belongs to something else, and so does a journal.
    std::fs::write(place.path("archive.db.zst-wal"), [7; 5000]).unwrap();
    std::fs::write(place.path("archive.db.zst-journal"), [7; 5000]).unwrap();
    let expected = vfs::open_plain(&plain).unwrap();
    for parameters in ["mode=ro", "mode=rw", "immutable=1"] {
        let found = vfs::open_with(&archive, parameters).unwrap();
        let (expected, rows) = (Outcome::of(&expected, COUNT), Outcome::of(&found, COUNT));
        assert!(expected == rows, "{parameters}: {expected:?}, but {rows:?}");
        content::assert_sound(&found, parameters);
        assert_eq!(error(&found, "delete from t").code, 8);
    }
    drop(expected);
    assert!(place.path("archive.db.zst-wal").exists());
    assert!(place.path("archive.db.zst-journal").exists());
    assert!(!place.path("archive.db.zst-shm").exists());
}

#[test]
fn beside_packed_and_plain_databases() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (plain, archive) = pair(&place);
    for main in ["packed.db", "other.db", "archive.db.zst"] {
        let path = place.path(main);
        let connection = match main {
            "other.db" => vfs::open_plain(&path),
            _ => vfs::open(&path),
        };
        let connection = connection.unwrap();
        let attach = |path: &Path, vfs: &str, name: &str| {
            let uri = vfs::uri(path, vfs, "");
            let sql = format!("attach '{uri}' as {name}");
            connection.execute_batch(&sql).unwrap();
        };
        attach(&archive, "litepack", "a");
        attach(&plain, vfs::PLAIN, "p");
        attach(&place.path(&format!("new-{main}")), "litepack", "n");
        connection
            .execute_batch("create table n.copy as select * from a.t")
            .unwrap();
        // A transaction over all of them, and one that fails at the archive.
        connection
            .execute_batch(
                "begin; delete from n.copy where id % 2; update p.t set data = data; commit",
            )
            .unwrap();
        connection
            .execute_batch("begin; delete from n.copy")
            .unwrap();
        assert_eq!(error(&connection, "delete from a.t").code, 8);
        connection.execute_batch("rollback").unwrap();
        for (sql, found) in [
            ("select count(*) from n.copy", 2000),
            ("select count(*) from a.t", 4000),
            ("select count(*) from a.t join p.t using (id, data)", 4000),
            (
                "select count(*) from n.copy join a.t using (id, data)",
                2000,
            ),
        ] {
            let count: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
            assert_eq!(count, found, "{main}: {sql}");
        }
    }
}

#[test]
fn settings_and_reports() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (plain, archive) = pair(&place);
    let connection = vfs::open_with(&archive, "mode=ro&threads=3&cache_mb=64").unwrap();
    let text = |sql: &str| text(&connection, sql).unwrap();
    assert_eq!(text("pragma litepack_threads"), "3");
    assert_eq!(text("pragma litepack_threads = 1"), "1");
    assert_eq!(text("pragma litepack_threads"), "1");
    assert_eq!(text("pragma litepack_cache_mb"), "64");
    assert_eq!(
        text("pragma litepack_version"),
        text("select litepack_version()")
    );
    assert_eq!(text("select litepack_check()"), "ok");
    assert_eq!(text("pragma litepack_check"), "ok");
    let info = |field: &str| {
        text(&format!(
            "select cast(litepack_info() ->> '{field}' as text)"
        ))
    };
    let len = |path: &Path| std::fs::metadata(path).unwrap().len().to_string();
    assert_eq!(info("format"), "zstd seekable");
    assert_eq!(info("logical_bytes"), len(&plain));
    assert_eq!(info("file_bytes"), len(&archive));
    assert_eq!(
        (info("page_size").as_str(), info("largest_frame").as_str()),
        ("4096", "65536")
    );
    assert_eq!(
        info("pages"),
        text("select cast(page_count as text) from pragma_page_count")
    );
    assert_eq!(
        (info("checksums").as_str(), info("other_bytes").as_str()),
        ("1", "0")
    );
    let frames = std::fs::metadata(&plain).unwrap().len().div_ceil(65536);
    assert_eq!(info("frames"), frames.to_string());
    assert_eq!(text("pragma litepack_info"), text("select litepack_info()"));

    for (sql, code, words) in [
        (
            "pragma litepack_level",
            1,
            "litepack_level: an archive is not written",
        ),
        (
            "pragma litepack_level = 3",
            1,
            "litepack archive create --level",
        ),
        ("pragma litepack_level = 77", 1, "not between 1 and 19"),
        ("pragma litepack_threads = none", 1, "not a number"),
        ("pragma litepack_nonsense", 1, "unknown pragma"),
        ("pragma litepack_maintain", 8, "read-only"),
        ("select litepack_maintain(null, 1)", 8, "read-only"),
    ] {
        let refused = error(&connection, sql);
        assert_eq!(refused.code & 0xff, code, "{sql}: {refused:?}");
        assert!(refused.message.contains(words), "{sql}: {refused:?}");
    }
    for parameters in ["level=3", "threads=many", "levle=3", "threads=0"] {
        let refused = vfs::open_with(&archive, &format!("mode=ro&{parameters}"));
        let refused = Failure::from(refused.expect_err(parameters));
        assert_eq!(refused.code, 21, "{parameters}: {refused:?}");
    }
}

#[test]
fn zstd_files_that_are_no_archives_are_refused() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (plain, archive) = pair(&place);
    let database = std::fs::read(&plain).unwrap();
    let whole = std::fs::read(&archive).unwrap();
    let mut no_database = Vec::new();
    no_database.extend_from_slice(&OURS.archive(&b"not a database; ".repeat(1000)));
    let mut damaged_table = whole.clone();
    let at = whole.len() - 30;
    damaged_table[at] ^= 0x40;
    let mut reserved = whole.clone();
    let descriptor = whole.len() - 5;
    reserved[descriptor] |= 0x04;
    let mut begins_like_it = database.clone();
    begins_like_it[..4].copy_from_slice(&whole[..4]);
    // SQLITE_NOTADB, SQLITE_CORRUPT, SQLITE_CANTOPEN.
    for (name, bytes, code) in [
        ("plain.zst", zstd::encode_all(&database[..], 3).unwrap(), 26),
        ("cut.zst", whole[..whole.len() - 1].to_vec(), 26),
        ("half.zst", whole[..whole.len() / 2].to_vec(), 26),
        ("magic.zst", whole[..4].to_vec(), 26),
        ("noise.zst", begins_like_it, 26),
        ("text.zst", no_database, 26),
        ("table.zst", damaged_table, 11),
        ("future.zst", reserved, 14),
    ] {
        let path = place.path(name);
        std::fs::write(&path, &bytes).unwrap();
        for parameters in ["mode=ro", "mode=rw", ""] {
            let opened = vfs::open_with(&path, parameters).and_then(|connection| {
                connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))
            });
            let refused = Failure::from(opened.expect_err(name));
            assert_eq!(
                refused.code & 0xff,
                code,
                "{name}, {parameters}: {refused:?}"
            );
        }
        assert!(bytes == std::fs::read(&path).unwrap(), "{name} was changed");
        std::fs::remove_file(&path).unwrap();
    }
    // An archive of nothing is an empty database.
    let empty = place.path("empty.zst");
    std::fs::write(&empty, OURS.archive(&[])).unwrap();
    let connection = archives::open(&empty).unwrap();
    assert_eq!(
        Outcome::of(&connection, "select * from sqlite_schema").text(),
        ""
    );
    assert_eq!(error(&connection, "create table t(x)").code, 8);
    place.assert_only(&["archive.db.zst", "empty.zst", "plain.db"]);
}

/// Serialized, backed up, vacuumed into a file: all of it is in there.
#[test]
fn the_database_can_be_taken_out() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (plain, archive) = pair(&place);
    let mut connection = archives::open(&archive).unwrap();
    let mut original = vfs::open_plain(&plain).unwrap();
    assert!(content::image(&mut connection).unwrap() == content::image(&mut original).unwrap());
    let expected = content::fingerprint(&original).unwrap();
    let same = |path: &Path| {
        let copy = vfs::open_plain(path).unwrap();
        content::assert_sound(&copy, "a copy");
        assert_eq!(expected, content::fingerprint(&copy).unwrap());
    };
    let (backup, vacuumed) = (place.path("backup.db"), place.path("vacuumed.db"));
    let silent: Option<fn(rusqlite::backup::Progress)> = None;
    connection.backup("main", &backup, silent).unwrap();
    same(&backup);
    let uri = vfs::uri(&vacuumed, vfs::PLAIN, "");
    connection.execute("vacuum into ?", [uri]).unwrap();
    same(&vacuumed);
    // And not into it.
    let mut target = vfs::open(&archive).unwrap();
    let into = rusqlite::backup::Backup::new(&original, &mut target);
    let refused =
        into.and_then(|backup| backup.run_to_completion(100, std::time::Duration::ZERO, None));
    assert!(refused.is_err());
}

#[test]
fn many_threads_and_connections() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let (plain, archive) = pair(&place);
    let expected = Outcome::of(&vfs::open_plain(&plain).unwrap(), COUNT);
    let serialized = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_FULL_MUTEX;
    let uri = vfs::uri(&archive, "litepack", "");
    let one = std::sync::Mutex::new(Connection::open_with_flags(&uri, serialized).unwrap());
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (archive, expected, one) = (&archive, &expected, &one);
            scope.spawn(move || {
                for round in 0..8 {
                    let connection = archives::open(archive).unwrap();
                    let rows = Outcome::of(&connection, COUNT);
                    assert!(rows == *expected, "{number}, {round}: {rows:?}");
                    // Points at random, also through a connection that all threads use.
                    for step in 1..60 {
                        let id = step * 7919 * (number + 1) % 4000 + 1;
                        let sql = format!("select data ->> 'id' from t where id = {id}");
                        let own: i64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
                        let shared = one.lock().unwrap();
                        let other: i64 = shared.query_row(&sql, [], |row| row.get(0)).unwrap();
                        assert_eq!((own, other), (id, id));
                    }
                }
            });
        }
    });
}
