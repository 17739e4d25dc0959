//! A checkpoint that makes the database shorter says so after `CKPT_DONE`, and with synchronous=OFF nothing
//! comes behind it. Another connection's later commits must still be seen, and built upon.

use litepack_tests::{content, vfs};
use rusqlite::Connection;

fn rows(first: u32, last: u32) -> String {
    format!(
        "with recursive n(i) as (select {first} union all select i + 1 from n where i < {last})
         insert into t select i, hex(randomblob(100)) from n;"
    )
}

fn count(connection: &Connection) -> i64 {
    connection
        .query_row("select count(*) from t where length(x) = 200", [], |row| {
            row.get(0)
        })
        .expect("readable")
}

fn shrink_between_two(synchronous: &str, locking: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("a.db");
    let open = || {
        let connection = vfs::open(&path).expect("it opens");
        let pragmas = format!(
            "pragma journal_mode = wal; pragma synchronous = {synchronous};
             pragma cache_size = 5; pragma wal_autocheckpoint = 0;"
        );
        connection.execute_batch(&pragmas).expect("pragmas");
        connection
    };
    let checkpoint = |connection: &Connection| {
        let result = connection.execute_batch("pragma wal_checkpoint(truncate)");
        result.expect("a checkpoint");
    };
    let one = open();
    let create = format!(
        "create table t(i integer primary key, x); {}",
        rows(1, 5000)
    );
    one.execute_batch(&create).expect("a table");
    checkpoint(&one);
    one.execute_batch(&format!("pragma locking_mode = {locking}"))
        .expect("a locking mode");
    one.execute_batch("delete from t where i > 1000; vacuum")
        .expect("a shorter database");
    checkpoint(&one);
    one.execute_batch("pragma locking_mode = normal")
        .expect("a locking mode");
    assert_eq!(count(&one), 1000);

    let other = open();
    other.execute_batch(&rows(2001, 6000)).expect("more rows");
    checkpoint(&other);
    assert_eq!(count(&one), 5000);
    one.execute_batch("update t set x = hex(randomblob(100)) where i % 3 = 0")
        .expect("changes");
    checkpoint(&one);
    for connection in [&one, &other] {
        assert_eq!(count(connection), 5000);
        content::assert_sound(connection, "after the last checkpoint");
    }
    // A rollback journal's transaction is not a checkpoint, and cuts nothing before it commits.
    drop(other);
    one.execute_batch("pragma journal_mode = delete; begin; delete from t where i > 10; rollback")
        .expect("a transaction undone");
    assert_eq!(count(&one), 5000);
    content::assert_sound(&one, "in a rollback mode");
}

#[test]
fn without_sync() {
    shrink_between_two("off", "normal");
}

#[test]
fn with_sync() {
    shrink_between_two("full", "normal");
}

#[test]
fn in_exclusive_mode() {
    shrink_between_two("off", "exclusive");
}
