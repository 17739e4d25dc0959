//! Files that released versions wrote open, are whole and answer as plain SQLite does. `fixtures/make` makes those of a
//! new format version; the old ones stay as they are.

use litepack_tests::{archives, content, vfs};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// Format versions with fixtures.
const VERSIONS: [&str; 1] = ["v1"];

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
