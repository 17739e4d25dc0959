//! Logs that stand on a commit of their database (docs/internals/log.md, "First versions"): whose first versions are
//! changes to its pages.

use std::path::{Path, PathBuf};

use litepack_tests::commandline::{Place, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use rusqlite::Connection;

/// Rows of the table, about ten on a page.
const ROWS: u32 = 4000;

pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lpw");
    name.into()
}

/// Whether the log of this database stands on a commit.
pub(crate) fn stands(path: &Path) -> bool {
    litepack_tests::logs::stands(&std::fs::read(log_of(path)).expect("a log"))
}

pub(crate) fn run(db: &Connection, sql: &str) {
    db.execute_batch(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn command(name: &str, path: &Path) {
    let output = run_litepack([name, path.to_str().expect("UTF-8")]);
    succeed(name, &output);
}

fn open(path: &Path) -> Connection {
    litepack_sqlite::let_logs_stand_from(1);
    let db = vfs::open(path).expect("it opens");
    run(&db, "pragma wal_autocheckpoint = 0; pragma cache_size = 50");
    db
}

/// A database in WAL mode whose log stands on it, and has commits that are not in the file.
fn standing(path: &Path) -> Connection {
    let db = open(path);
    run(
        &db,
        &format!(
            "pragma journal_mode = wal; pragma synchronous = normal; create table t(k integer primary key, v text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
               insert into t(v) select 'row ' || i || hex(randomblob(180)) from n;
             pragma wal_checkpoint"
        ),
    );
    change(&db, 1);
    assert!(stands(path), "the log stands on nothing");
    db
}

/// Changes most pages a little.
fn change(db: &Connection, round: u32) {
    run(
        db,
        &format!(
            "update t set v = 'now {round}' || substr(v, 6) where k % 7 = {}",
            round % 7
        ),
    );
}

/// The content, as it has to stay.
fn content_of(db: &Connection) -> (i64, String) {
    db.query_row(
        "select count(*), group_concat(k || v, ';') from (select k, v from t order by k)",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
    .expect("all rows")
}

fn assert_has(db: &Connection, expected: &(i64, String), when: &str) {
    assert!(content_of(db) == *expected, "{when}");
    content::assert_sound(db, when);
}

#[test]
fn a_log_that_stands_on_its_database_is_shorter() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let (place, lens) = (Place::new(), [false, true]);
    let lens = lens.map(|does_stand| {
        let path = place.path(&format!("{does_stand}.db"));
        let db = standing(&path);
        if !does_stand {
            // With deletion that leaves no trace a connection begins none.
            run(&db, "pragma secure_delete = on");
        }
        run(&db, "pragma wal_checkpoint(truncate)");
        change(&db, 2);
        assert_eq!(stands(&path), does_stand);
        let len = std::fs::metadata(log_of(&path)).expect("a log").len();
        let expected = content_of(&db);
        assert_has(&open(&path), &expected, "another connection");
        len
    });
    assert!(lens[1] * 3 < lens[0], "{lens:?}");
}

/// Whatever is done to the file: the log is read as before, by this connection and by one that opens it then.
#[test]
fn what_it_stands_on_stays() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let works: [(&str, &str); 6] = [
        ("checkpoint", "pragma wal_checkpoint(passive)"),
        ("maintenance", "select litepack_maintain(null, 1)"),
        (
            "erasing",
            "pragma secure_delete = on; delete from t where k % 5 = 1; pragma wal_checkpoint(passive)",
        ),
        (
            "vacuum",
            "delete from t where k % 5 > 1; vacuum; pragma wal_checkpoint(passive)",
        ),
        (
            "shrinking",
            "delete from t where k > 100; pragma incremental_vacuum; pragma wal_checkpoint(passive)",
        ),
        (
            "no syncs",
            "pragma synchronous = off; update t set v = v || 'x'; pragma wal_checkpoint(passive)",
        ),
    ];
    for (name, work) in works {
        let place = Place::new();
        let path = place.path("app.db");
        let db = open(&path);
        run(&db, "pragma auto_vacuum = incremental");
        drop(db);
        let db = standing(&path);
        // It keeps its generation.
        let reader = open(&path);
        run(&reader, "begin; select count(*) from t");
        let former = content_of(&reader);
        for round in 2..6 {
            change(&db, round);
            let other = open(&path);
            run(&other, work);
            assert!(stands(&path), "{name}");
            let expected = content_of(&db);
            assert!(content_of(&reader) == former, "{name}");
            assert_has(&open(&path), &expected, name);
        }
        let expected = content_of(&db);
        run(&reader, "commit");
        drop((reader, db));
        assert_has(&open(&path), &expected, &format!("{name}, closed"));
        command("check", &path);
    }
}

/// Who goes on in a log that lost its name reads it as long as it is open.
#[cfg(unix)]
#[test]
fn a_log_that_was_deleted_or_moved_is_read_as_long_as_it_is_open() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    for is_moved in [false, true] {
        let place = Place::new();
        let path = place.path("app.db");
        let db = standing(&path);
        let reader = open(&path);
        run(&reader, "begin; select count(*) from t");
        change(&db, 2);
        if is_moved {
            let elsewhere = place.path("moved.db");
            std::fs::rename(&path, &elsewhere).expect("it is moved");
            std::fs::rename(log_of(&path), log_of(&elsewhere)).expect("so is its log");
        } else {
            std::fs::remove_file(log_of(&path)).expect("it is deleted");
        }
        for round in 3..9 {
            change(&db, round);
            run(&db, "pragma wal_checkpoint(passive)");
        }
        run(&db, "pragma shrink_memory");
        content::assert_sound(&db, "it goes on");
        run(&reader, "commit");
        run(&db, "pragma wal_checkpoint(passive)");
        content::assert_sound(&db, "and on");
    }
}

/// The space that a log has held is given back when the log is done.
#[test]
fn a_file_gets_shorter_with_the_next_log_or_without_one() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("app.db");
    let db = standing(&path);
    let len = || std::fs::metadata(&path).expect("a file").len();
    let before = len();
    run(
        &db,
        "delete from t where k > 50; vacuum; pragma wal_checkpoint(passive)",
    );
    change(&db, 2);
    run(&db, "pragma wal_checkpoint(passive)");
    change(&db, 3);
    run(&db, "pragma wal_checkpoint(truncate)");
    run(
        &db,
        "insert into t(v) values('one more'); pragma wal_checkpoint(truncate)",
    );
    assert!(len() < before / 4, "{} of {before}", len());
}

/// Space that a log stands on could not be given back.
#[test]
fn maintenance_by_the_command_empties_the_log_first() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("app.db");
    let db = standing(&path);
    run(&db, "delete from t where k % 3 > 0");
    let before = std::fs::metadata(&path).expect("a file").len();
    command("maintain", &path);
    let after = std::fs::metadata(&path).expect("a file").len();
    assert!(after < before * 3 / 4, "{after} of {before}");
    content::assert_sound(&db, "after it");
}

/// The file is copied, then maintenance moves what is in it, then the log begins, then that is copied.
#[test]
fn a_copy_without_what_its_log_stands_on_is_an_error_and_no_wrong_page() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("app.db");
    let db = standing(&path);
    run(
        &db,
        "delete from t where k % 4 > 0; pragma wal_checkpoint(truncate)",
    );
    let copy = place.path("copy.db");
    std::fs::copy(&path, &copy).expect("a copy");
    db.query_row("select litepack_maintain(null, 1)", [], |_| Ok(()))
        .expect("maintenance");
    change(&db, 2);
    assert!(stands(&path));
    let expected = content_of(&db);
    std::fs::copy(log_of(&path), log_of(&copy)).expect("a copy");
    let rows = vfs::open(&copy).and_then(|db| {
        let sql = "select count(*), group_concat(k || v, ';') from (select k, v from t order by k)";
        db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    });
    match rows {
        Ok(found) => assert!(found == expected, "a mixture"),
        Err(error) => println!("{error}"),
    }
    assert!(content_of(&db) == expected);
}
