//! Files that released versions wrote open, are whole and answer as plain SQLite does. `fixtures/make` makes those of a
//! new format version; the old ones stay as they are. So do those that were written on other platforms, which
//! `platforms/fixtures` makes.

use litepack::{Job, Key, UnpackOptions};
use litepack_tests::{archives, content, vfs};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Format versions with fixtures.
const VERSIONS: [&str; 1] = ["v1"];

/// Platforms with fixtures: a big-endian one with 64 bits, a little-endian one with 32, Windows, and musl.
const PLATFORMS: [&str; 4] = ["s390x", "i686", "windows", "musl"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A plain database with what is in the fixtures of a kind: `content.sql`, and what came later.
fn expected(kind: &str) -> Connection {
    let connection = Connection::open_in_memory().expect("memory");
    let run = |name: &str| {
        let sql = std::fs::read_to_string(fixtures().join(name)).expect(name);
        connection.execute_batch(&sql).expect(name);
    };
    run("content.sql");
    match kind {
        "delete" | "wal" => run("changes.sql"),
        "references" => run("again.sql"),
        _ => {}
    }
    connection
}

/// A copy that a test may write: `name` in a directory of its own.
fn copy_of(fixture: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(fixture);
    std::fs::copy(fixtures().join(fixture), &path).expect(fixture);
    (directory, path)
}

/// How many extents the file has that several units share.
fn items(connection: &Connection) -> i64 {
    let sql = "select json_extract(litepack_info(), '$.items')";
    connection
        .query_row(sql, [], |row| row.get(0))
        .expect("a number")
}

fn assert_holds(found: &Connection, expected: &Connection, fixture: &str) {
    content::assert_sound(found, fixture);
    let found = content::fingerprint(found).expect(fixture);
    let expected = content::fingerprint(expected).expect("a scan");
    assert_eq!(found, expected, "{fixture}");
}

#[test]
fn packed_files_of_every_version_open_and_can_be_written() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for version in VERSIONS {
        // "kinds" and "small-pages" have what came to the columns of pages before the first release, "references" units
        // that are stored as others and as their difference to others.
        for kind in [
            "packed",
            "kinds",
            "small-pages",
            "references",
            "delete",
            "wal",
        ] {
            let fixture = format!("{version}-{kind}.db");
            let (_directory, path) = copy_of(&fixture);
            let expected = expected(kind);
            {
                let found = vfs::open(&path).expect(&fixture);
                assert_holds(&found, &expected, &fixture);
                let has_items = items(&found) > 0;
                assert_eq!(has_items, kind == "references", "{fixture}");
                for connection in [&found, &expected] {
                    connection
                        .execute_batch("update events set level = 'seen'; vacuum")
                        .expect(&fixture);
                }
            }
            vfs::assert_packed(&path);
            assert_holds(&vfs::open(&path).expect(&fixture), &expected, &fixture);
        }
    }
}

#[test]
fn archives_of_every_version_answer() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for version in VERSIONS {
        let fixture = format!("{version}-archive.db.zst");
        let found = archives::open(&fixtures().join(&fixture)).expect(&fixture);
        assert_holds(&found, &expected("archive"), &fixture);
    }
}

#[test]
fn compressed_columns_of_every_version_answer_and_can_be_made_plain() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for version in VERSIONS {
        let fixture = format!("{version}-columns.db");
        let (_directory, path) = copy_of(&fixture);
        let found = vfs::open_plain(&path).expect(&fixture);
        let expected = expected("archive");
        let compressed: i64 = found
            .query_row(
                "select sum(typeof(body) = 'blob') from _events_zstd",
                [],
                |row| row.get(0),
            )
            .expect(&fixture);
        assert!(compressed > 0, "{fixture} has nothing compressed");
        let rows = "select count(*), sum(id), group_concat(at), group_concat(body), sum(price), group_concat(level) \
                    from (select * from events order by id)";
        // Not the counters: one of the two connections wrote the rows itself.
        let ask =
            |connection: &Connection| litepack_tests::outcome::Outcome::of(connection, rows).answer;
        assert_eq!(ask(&found), ask(&expected), "{fixture}");
        found
            .query_row(
                "select litepack_disable_transparent('events', 'body')",
                [],
                |_| Ok(()),
            )
            .expect(&fixture);
        assert_eq!(ask(&found), ask(&expected), "{fixture}");
        content::assert_sound(&found, &fixture);
    }
}

/// The key of what is encrypted of a platform's fixtures.
const PLATFORM_KEY: &[u8; 64] = b"000000000000000000000000000000000000000000000000000000000000002a";

/// A copy of what a platform has made of a kind, and of the log beside it.
fn made_on(platform: &str, version: &str, kind: &str) -> (tempfile::TempDir, PathBuf) {
    let fixture = format!("platforms/{version}-{platform}-{kind}.db");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("made.db");
    std::fs::copy(fixtures().join(&fixture), &path).expect(&fixture);
    if kind != "packed" {
        let log = format!("{fixture}-lpw");
        let copy = directory.path().join("made.db-lpw");
        let bytes = std::fs::copy(fixtures().join(&log), copy).expect(&log);
        assert!(bytes > 0, "{log} is empty");
    }
    (directory, path)
}

/// The bytes of the plain database in a packed one.
fn unpacked(packed: &Path, kind: &str) -> Vec<u8> {
    let plain = packed.with_extension("plain");
    let key = Arc::new(Key::hexadecimal(PLATFORM_KEY).expect("a key"));
    let job = match kind {
        "encrypted" => Job::default().with_key(&key),
        _ => Job::default(),
    };
    litepack::unpack(packed, &plain, &UnpackOptions::default(), &job).expect("unpacked");
    std::fs::read(&plain).expect("what was unpacked")
}

#[test]
fn files_of_all_platforms_unpack_to_the_same_bytes() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for version in VERSIONS {
        for kind in ["packed", "log", "encrypted"] {
            // Each ran the same SQL in the same SQLite.
            let all = PLATFORMS.map(|platform| {
                let (_directory, path) = made_on(platform, version, kind);
                unpacked(&path, kind)
            });
            assert!(all.iter().all(|one| one == &all[0]), "{version}-{kind}");
        }
        for platform in PLATFORMS {
            let (_directory, path) = made_on(platform, version, "packed");
            let found = vfs::open_uri(&format!("file:{}?vfs=litepack", path.display()));
            assert_holds(&found.expect(platform), &expected("packed"), platform);
        }
    }
}

#[test]
fn files_and_logs_of_other_platforms_open_and_can_be_written() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let open = |path: &Path, kind: &str| {
        let digits = std::str::from_utf8(PLATFORM_KEY).expect("digits");
        let key = match kind {
            "encrypted" => format!("&hexkey={digits}"),
            _ => String::new(),
        };
        vfs::open_uri(&format!("file:{}?vfs=litepack{key}", path.display())).expect(kind)
    };
    let expected = |scripts: &[&str]| {
        let connection = Connection::open_in_memory().expect("memory");
        for name in scripts {
            let sql = std::fs::read_to_string(fixtures().join("platforms").join(name));
            connection.execute_batch(&sql.expect(name)).expect(name);
        }
        connection
    };
    for version in VERSIONS {
        for platform in PLATFORMS {
            for kind in ["log", "encrypted"] {
                let name = format!("{version}-{platform}-{kind}");
                let (_directory, path) = made_on(platform, version, kind);
                let expected_now = expected(&["content.sql", "changes.sql"]);
                let write = "update readings set text = 'seen' where id % 3 = 0; vacuum";
                {
                    let found = open(&path, kind);
                    assert_holds(&found, &expected_now, &name);
                    found.execute_batch(write).expect(&name);
                }
                expected_now.execute_batch(write).expect(&name);
                assert_holds(&open(&path, kind), &expected_now, &name);

                // That came from the log: without it the database is as before.
                let (_directory, path) = made_on(platform, version, kind);
                std::fs::remove_file(path.with_extension("db-lpw")).expect(&name);
                assert_holds(&open(&path, kind), &expected(&["content.sql"]), &name);
            }
        }
    }
}
