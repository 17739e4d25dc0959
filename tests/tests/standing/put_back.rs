//! The first block of a file is put back to what it was while connections have it open, by a disk that loses a write, or
//! by a program that copies a backup over it. They have pages of later commits, and build nothing on the earlier one.

use std::fs::OpenOptions;
use std::io::{Seek, Write};
use std::path::Path;

use litepack_tests::commandline::Place;
use litepack_tests::vfs;
use rusqlite::Connection;

use crate::held::run;

/// The part of the file that says which commit counts.
const HEAD: usize = 4096;

fn head(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("a file");
    bytes.truncate(HEAD);
    bytes
}

fn put_back(path: &Path, head: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).expect("a file");
    file.rewind().expect("its beginning");
    file.write_all(head).expect("it is written");
}

fn open(path: &Path) -> Connection {
    let db = vfs::open(path).expect("it opens");
    run(&db, "pragma wal_autocheckpoint = 0");
    db
}

fn sum(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("select sum(n) from t", [], |row| row.get(0))
}

/// Makes the commit that is gone later: the sum of all rows is 30.
const CHECKPOINTED: &str = "update t set n = 1 where id % 100 = 0; pragma wal_checkpoint(restart)";

/// A database of rows with the number 0, and the connection that has made it.
fn made(path: &Path) -> Connection {
    litepack_sqlite::let_logs_stand_from(1);
    let db = open(path);
    run(
        &db,
        "pragma journal_mode = wal; create table t(id integer primary key, n int, a text);
         with recursive i(x) as (select 1 union all select x + 1 from i where x < 3000)
           insert into t select x, 0, printf('row %d', x) from i;
         pragma wal_checkpoint(truncate); update t set n = 0 where id = 1; pragma wal_checkpoint(restart)",
    );
    db
}

#[test]
fn a_checkpoint_brings_no_log_into_a_commit_that_it_does_not_follow() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let (one, former) = (made(&path), head(&path));
    let (two, three) = (open(&path), open(&path));
    run(&one, CHECKPOINTED);
    assert_ne!(head(&path), former);
    run(&two, "update t set n = n + 1 where id % 90 = 0");
    assert_eq!(sum(&three).expect("a sum"), 63);
    put_back(&path, &former);
    let code = three.query_row("pragma wal_checkpoint", [], |row| row.get::<_, i64>(0));
    assert!(code.is_err(), "{code:?}");
    assert_eq!(head(&path), former, "it has committed");
    drop((one, two, three));
    let found = vfs::open(&path).and_then(|db| sum(&db));
    assert!(!found.is_ok_and(|found| found != 0), "a mixture");
}

#[test]
fn no_log_begins_after_an_earlier_commit_however_often_it_is_tried() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let (one, former) = (made(&path), head(&path));
    let two = open(&path);
    run(&one, CHECKPOINTED);
    assert_eq!(sum(&two).expect("a sum"), 30);
    put_back(&path, &former);
    for _ in 0..3 {
        let done = two.execute("update t set n = n + 1 where id % 90 = 0", []);
        assert!(done.is_err(), "{done:?}");
    }
    drop((one, two));
    let found = vfs::open(&path).and_then(|db| sum(&db));
    // The log that was there follows the earlier commit, and gives the later one.
    assert!(
        !found.is_ok_and(|found| found != 0 && found != 30),
        "a mixture"
    );
}
