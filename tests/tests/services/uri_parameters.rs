//! Parameters that are not ours: those of other libraries pass, and ours misspelt are errors with words, whatever kind
//! of file it is.

use litepack_tests::archives::{self, Writer};
use litepack_tests::commandline::{JSON_ROWS, Place};
use litepack_tests::{programs, vfs};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// A file of each kind, the last one not there yet.
fn kinds(place: &Place) -> [PathBuf; 4] {
    let plain = archives::plain(place, 4096, |c| c.execute_batch(JSON_ROWS));
    let archive = archives::archive(&plain, "a.db.zst", Writer::Litepack(64 << 10));
    let packed = place.path("packed.db");
    let output = programs::run_litepack([Path::new("pack"), &plain, &packed]);
    assert!(output.status.success());
    [plain, packed, archive, place.path("new.db")]
}

fn says(connection: &Connection, sql: &str) -> String {
    let answer = connection.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    answer.map_or_else(|error| error.to_string(), |value| format!("{value:?}"))
}

#[test]
fn parameters_of_other_libraries_pass() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for path in kinds(&place) {
        let others = "_journal_mode=WAL&_busy_timeout=5000&_pragma=foreign_keys(1)&uri=true\
            &check_same_thread=false&timeout=5.0&retries=many&cipher=x&level=3";
        let others = if path.ends_with("a.db.zst") {
            others.replace("&level=3", "")
        } else {
            others.to_string()
        };
        let connection = vfs::open_with(&path, &others)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        says(&connection, "select count(*) from sqlite_schema");
    }
}

#[test]
fn a_misspelt_parameter_of_ours_is_named_by_the_error_itself() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    for path in kinds(&place) {
        let name = path.display();
        for (wrong, expected) in [
            (
                "levle=3",
                "unknown URI parameter 'levle': did you mean 'level'?",
            ),
            ("Threads=3", "did you mean 'threads'?"),
            ("cachemb=3", "did you mean 'cache_mb'?"),
            ("ulr=http://h/x", "did you mean 'url'?"),
            ("level=99", "level: 99 is not between 1 and 19"),
            ("bearer=s3cret", "bearer: there is no url"),
            ("headers_file=/etc/s3cret", "call litepack_remote_headers"),
            ("cache_dir=/tmp/s3cret", "call litepack_remote_config"),
            ("ca_file=/etc/s3cret", "call litepack_remote_config"),
        ] {
            let error = vfs::open_with(&path, wrong).expect_err(wrong).to_string();
            assert!(
                error.contains(expected) && !error.contains("s3cret"),
                "{name}, {wrong}: {error}"
            );
        }
        // ATTACH has no place for words, but it fails, and leaves nothing behind.
        let connection = vfs::open_with(&place.path("packed.db"), "").expect("it opens");
        let uri = vfs::uri(&path, vfs::under_test(), "levle=3");
        let refused = connection.execute("attach ? as other", [&uri]);
        let error = refused.expect_err("it is misspelt").to_string();
        assert!(error.contains("misuse"), "{name}: {error}");
        assert_eq!(says(&connection, "select 1"), "Integer(1)");
    }
    place.assert_only(&["a.db.zst", "packed.db", "plain.db"]);
}

#[test]
fn a_schema_is_named_by_any_value() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let connection = vfs::open(&place.path("a.db")).expect("it opens");
    connection
        .execute_batch("create table t(x)")
        .expect("a table");
    for sql in ["litepack_check(x'6d61696e')", "litepack_check(null)"] {
        assert_eq!(says(&connection, &format!("select {sql}")), "Text(\"ok\")");
    }
    let info = says(&connection, "select litepack_info(x'6d61696e')");
    assert!(info.starts_with("Text("), "{info}");
    for (argument, name) in [
        ("1", "1"),
        ("1.5", "1.5"),
        ("'ma' || char(0) || 'in'", "ma"),
    ] {
        let said = says(&connection, &format!("select litepack_info({argument})"));
        assert!(
            said.starts_with(&format!("unknown database {name}")),
            "{said}"
        );
    }
    // Settings of the process are not for authors of SQL to make; SQL may ask.
    let refused = says(&connection, "select litepack_new_databases('plain')");
    assert!(refused.contains("not authorized"), "{refused}");
    let plain = says(&connection, "select litepack_new_databases()");
    assert_eq!(plain, "Text(\"plain\")");
}

#[test]
fn a_report_waits_for_the_lock_as_a_statement_does() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let mut writer = vfs::open(&path).expect("it opens");
    writer.execute_batch("create table t(x)").expect("a table");
    let reader = vfs::open(&path).expect("it opens");
    let asked = [
        "select litepack_info()",
        "select litepack_check()",
        "pragma litepack_info",
        "pragma litepack_check",
    ];
    writer.execute_batch("begin exclusive").expect("a lock");
    for sql in asked {
        let begun = std::time::Instant::now();
        let patience = std::time::Duration::from_millis(300);
        reader.busy_timeout(patience).expect("a timeout");
        let error = reader.query_row(sql, [], |_| Ok(())).expect_err(sql);
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseBusy),
            "{sql}: {error}"
        );
        assert!(error.to_string().contains("database is locked"), "{error}");
        assert!(begun.elapsed() >= patience, "{sql}: {:?}", begun.elapsed());
    }
    reader
        .busy_timeout(std::time::Duration::from_secs(20))
        .expect("a timeout");
    for sql in asked {
        let writing = &mut writer;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(100));
                writing.execute_batch("commit").expect("the lock goes");
            });
            reader.query_row(sql, [], |_| Ok(())).expect(sql);
        });
        writer.execute_batch("begin exclusive").expect("a lock");
    }
}
