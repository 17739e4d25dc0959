//! Deleted content that a log kept in the file is erased once the log needs it no longer: at the end of the checkpoint
//! that cuts the log, and when the last connection closes.

use std::collections::HashSet;
use std::path::Path;

use litepack_tests::commandline::Place;
use litepack_tests::{content, vfs};
use rusqlite::Connection;

use crate::held::{log_of, run, stands};

/// Bytes of a row, which are random: they lie in the file as they are.
const LEN: usize = 300;
/// So many bytes of a row tell it from all others.
const PIECE: usize = 16;

/// A database whose log stands on a commit with rows that are deleted then: those. `VACUUM` has erased what was free.
/// Without the first ones: SQLite leaves them in the root page, where they were.
fn deleted(path: &Path, settings: &str) -> (Connection, Vec<Vec<u8>>) {
    litepack_sqlite::let_logs_stand_from(1);
    let db = vfs::open(path).expect("it opens");
    run(
        &db,
        &format!(
            "pragma wal_autocheckpoint = 0; {settings} pragma journal_mode = wal;
             create table t(k integer primary key, v blob);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 400)
               insert into t(v) select randomblob({LEN}) from n;
             vacuum; pragma wal_checkpoint(truncate);
             insert into t(v) values(1); pragma wal_checkpoint; insert into t(v) values(2)"
        ),
    );
    assert!(stands(path), "the log stands on nothing");
    let rows = {
        let mut rows = db
            .prepare("select v from t where k between 51 and 300")
            .expect("a query");
        let rows = rows.query_map([], |row| row.get(0)).expect("it runs");
        rows.collect::<Result<Vec<Vec<u8>>, _>>().expect("all rows")
    };
    assert_eq!(found(path, &rows), 250, "this shows nothing");
    (db, rows)
}

/// How many of these rows have a piece in the file.
fn found(path: &Path, rows: &[Vec<u8>]) -> usize {
    let bytes = std::fs::read(path).expect("a file");
    let pieces = |row: &'_ Vec<u8>| [0, 140, 280].map(|at| row[at..at + PIECE].to_vec());
    let wanted: HashSet<Vec<u8>> = rows.iter().flat_map(pieces).collect();
    let there: HashSet<&[u8]> = bytes
        .windows(PIECE)
        .filter(|piece| wanted.contains(*piece))
        .collect();
    let is_there = |row: &&Vec<u8>| pieces(row).iter().any(|piece| there.contains(&piece[..]));
    rows.iter().filter(is_there).count()
}

const DELETE: &str = "delete from t where k <= 300;";

/// Each way to be rid of the log, by the connection that has deleted the rows.
#[test]
fn what_a_log_kept_is_erased_when_it_is_cut_or_deleted() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let erasing = "pragma secure_delete = on;";
    let works = [
        ("pragma secure_delete = off;", format!("{erasing} {DELETE}")),
        ("pragma secure_delete = off;", format!("{DELETE} vacuum")),
        (
            "pragma secure_delete = off; pragma locking_mode = exclusive;",
            format!("{DELETE} vacuum"),
        ),
        (
            "pragma secure_delete = off; pragma locking_mode = exclusive;",
            format!("{erasing} {DELETE}"),
        ),
    ];
    for (settings, work) in works {
        for is_cut in [false, true] {
            let place = Place::new();
            let path = place.path("a.db");
            let (db, rows) = deleted(&path, settings);
            let what = format!("{settings} {work}, cut: {is_cut}");
            run(&db, &work);
            let before = std::fs::metadata(&path).expect("a file").len();
            if is_cut {
                run(&db, "pragma wal_checkpoint(truncate)");
                // In exclusive mode SQLite tells nothing more, and it is done with what comes next.
                if settings.contains("exclusive") {
                    drop(db);
                }
                assert_eq!(found(&path, &rows), 0, "{what}");
            } else {
                run(&db, "pragma wal_checkpoint");
                assert!(found(&path, &rows) > 0, "{what}: this shows nothing");
                drop(db);
                assert!(!log_of(&path).exists(), "{what}");
                assert_eq!(found(&path, &rows), 0, "{what}");
            }
            if work.ends_with("vacuum") {
                let after = std::fs::metadata(&path).expect("a file").len();
                assert!(after * 2 < before, "{what}: {before}, then {after}");
            }
            let db = vfs::open(&path).expect("it opens");
            content::assert_sound(&db, &what);
            let left: i64 = db
                .query_row("select count(*) from t", [], |row| row.get(0))
                .expect("a number");
            assert_eq!(left, 102);
        }
    }
}

/// The log was begun by a connection that erases nothing, which stays open.
#[test]
fn who_empties_a_log_that_another_one_has_begun_erases_what_it_kept() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let (_idle, rows) = deleted(&path, "pragma secure_delete = off;");
    let db = vfs::open(&path).expect("it opens");
    run(&db, &format!("pragma secure_delete = on; {DELETE}"));
    run(&db, "pragma wal_checkpoint");
    assert!(found(&path, &rows) > 0, "this shows nothing");
    let busy: i64 = db
        .query_row("pragma wal_checkpoint(truncate)", [], |row| row.get(0))
        .expect("a checkpoint");
    assert_eq!((busy, found(&path, &rows)), (0, 0));
}

/// Another connection keeps the log. What was erased in between is not looked at again by one that is behind.
#[test]
fn a_handle_that_is_behind_erases_nothing_that_others_have_written() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let (db, _) = deleted(&path, "pragma secure_delete = off;");
    run(
        &db,
        &format!("pragma secure_delete = on; {DELETE} pragma wal_checkpoint"),
    );
    let other = vfs::open(&path).expect("it opens");
    run(
        &other,
        "pragma secure_delete = off; pragma wal_autocheckpoint = 0",
    );
    for round in 0..6 {
        run(
            &other,
            &format!(
                "insert into t(v) select randomblob({LEN}) from t limit 100;
                 delete from t where k % 6 = {round}; pragma wal_checkpoint(truncate)"
            ),
        );
        // It has nothing to copy, and what it owes lies where the other one has written.
        run(&db, "pragma wal_checkpoint(truncate)");
        content::assert_sound(&vfs::open(&path).expect("it opens"), "a third one");
    }
    let expected = content::fingerprint(&other).expect("a scan");
    drop(db);
    assert_eq!(content::fingerprint(&other).expect("a scan"), expected);
    drop(other);
    let db = vfs::open(&path).expect("it opens");
    assert_eq!(content::fingerprint(&db).expect("a scan"), expected);
    content::assert_sound(&db, "at the end");
}
