//! The settings and reports of users: parameters in the URI, `PRAGMA litepack_*`, the SQL functions
//! and `dbstat`.

use litepack_tests::vfs;
use rusqlite::Connection;
use std::path::Path;

fn text(connection: &Connection, sql: &str) -> Option<String> {
    let value = connection.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    match value.unwrap_or_else(|e| panic!("{sql}: {e}")) {
        rusqlite::types::Value::Null => None,
        rusqlite::types::Value::Text(text) => Some(text),
        rusqlite::types::Value::Integer(number) => Some(number.to_string()),
        other => panic!("{sql}: {other:?}"),
    }
}

/// A number; pragmas of a VFS answer with text.
fn number(connection: &Connection, sql: &str) -> i64 {
    let answer = text(connection, sql).unwrap_or_else(|| panic!("{sql} is NULL"));
    answer.parse().unwrap_or_else(|_| panic!("{sql}: {answer}"))
}

fn create(path: &Path, parameters: &str) -> Connection {
    let connection = vfs::open_with(path, parameters).expect("a new database");
    connection
        .execute_batch(
            "create table t(id integer primary key, x text);
             insert into t with recursive n(i) as (select 1 union all
               select i + 1 from n where i < 5000) select i, json_object('id', i, 'name',
               'row ' || (i * 7919 % 5000), 'hash', printf('%x', i * 2654435761)) from n;",
        )
        .expect("data");
    connection
}

#[test]
fn a_higher_level_makes_a_smaller_file() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let sizes = [1, 19].map(|level| {
        let path = directory.path().join(format!("{level}.db"));
        let connection = create(&path, &format!("level={level}"));
        assert_eq!(number(&connection, "pragma litepack_level"), level);
        number(&connection, "select litepack_info() ->> 'stored_bytes'")
    });
    assert!(
        sizes[1] < sizes[0],
        "level 1: {}, level 19: {} bytes",
        sizes[0],
        sizes[1]
    );
}

#[test]
fn settings_can_be_asked_for_and_changed_while_the_database_is_open() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let connection = create(
        &directory.path().join("a.db"),
        "level=7&threads=3&cache_mb=11",
    );
    for (name, value) in [("level", 7), ("threads", 3), ("cache_mb", 11)] {
        assert_eq!(
            number(&connection, &format!("pragma litepack_{name}")),
            value,
            "{name}"
        );
        let set = format!("pragma litepack_{name} = 2");
        connection
            .query_row(&set, [], |_| Ok(()))
            .expect("a setting answers");
        assert_eq!(
            number(&connection, &format!("pragma litepack_{name}")),
            2,
            "{name}"
        );
    }
    for bad in [
        "litepack_level = 77",
        "litepack_threads = none",
        "litepack_nonsense",
        "litepack_",
    ] {
        let error = connection
            .prepare(&format!("pragma {bad}"))
            .and_then(|mut statement| {
                statement
                    .query([])
                    .and_then(|mut rows| rows.next().map(|_| ()))
            });
        let error = error.expect_err(bad).to_string();
        assert!(error.contains("litepack"), "{bad}: {error}");
    }
    for (name, _) in [("level", 0), ("threads", 0), ("cache_mb", 0)] {
        assert_eq!(
            number(&connection, &format!("pragma litepack_{name}")),
            2,
            "{name}"
        );
    }
    connection
        .execute_batch("pragma cache_mb = 3; pragma cache_size = 20")
        .expect("SQLite's own");
}

#[test]
fn the_report_agrees_with_sqlite_and_the_file_system() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("a.db");
    let connection = create(&path, "");
    let info = |field: &str| {
        number(
            &connection,
            &format!("select litepack_info() ->> '{field}'"),
        )
    };
    assert_eq!(info("page_size"), number(&connection, "pragma page_size"));
    assert_eq!(info("pages"), number(&connection, "pragma page_count"));
    assert_eq!(info("logical_bytes"), info("pages") * info("page_size"));
    assert_eq!(
        info("file_bytes") as u64,
        std::fs::metadata(&path).expect("a file").len()
    );
    assert!(info("stored_bytes") < info("file_bytes"));
    assert!(
        info("stored_bytes") * 2 < info("logical_bytes"),
        "it hardly compresses"
    );
    let codecs = "select sum(value ->> 'units') from json_each(litepack_info() -> 'codecs')";
    assert_eq!(number(&connection, codecs), info("stored_units"));
    assert_eq!(
        text(&connection, "select litepack_check()").as_deref(),
        Some("ok")
    );
    assert_eq!(
        text(&connection, "pragma litepack_check").as_deref(),
        Some("ok")
    );
    let version = text(&connection, "select litepack_version()").expect("a version");
    assert_eq!(text(&connection, "pragma litepack_version"), Some(version));
}

#[test]
fn dbstat_reports_stored_bytes() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let connection = create(&directory.path().join("a.db"), "");
    let pages = number(&connection, "select count(*) from dbstat");
    assert_eq!(pages, number(&connection, "pragma page_count"));
    let stored = number(&connection, "select sum(pgsize) from dbstat");
    let all = number(&connection, "select litepack_info() ->> 'stored_bytes'");
    assert!(
        stored > all / 2 && stored <= all,
        "dbstat says {stored}, the report {all}"
    );
}

#[test]
fn on_plain_and_temporary_databases_there_is_nothing_to_report() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plain = vfs::open_plain(&directory.path().join("plain.db")).expect("it opens");
    plain.execute_batch("create table t(x)").expect("a table");
    for connection in [plain, Connection::open_in_memory().expect("memory")] {
        assert_eq!(text(&connection, "select litepack_info()"), None);
        assert_eq!(text(&connection, "select litepack_check()"), None);
        let missing = connection.query_row("select litepack_info('missing')", [], |_| Ok(()));
        let error = missing.expect_err("there is no such schema").to_string();
        assert!(error.contains("missing"), "{error}");
    }
}

#[test]
fn functions_that_look_at_files_are_not_for_views_and_triggers() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let connection = create(&directory.path().join("a.db"), "");
    connection
        .execute_batch("pragma trusted_schema = off")
        .expect("a pragma");
    connection
        .execute_batch(
            "create view version as select litepack_version() as v;
             create view report as select litepack_info() as v;",
        )
        .expect("views");
    assert!(
        text(&connection, "select v from version").is_some(),
        "a harmless function"
    );
    let error = connection
        .query_row("select v from report", [], |_| Ok(()))
        .unwrap_err();
    assert!(error.to_string().contains("unsafe use"), "{error}");
}
