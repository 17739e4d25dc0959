//! Pages that SQLite has written but not committed never become the database, in the one case in which it does not undo
//! them itself: without a journal.

use rusqlite::{Connection, OpenFlags};

fn count(connection: &Connection) -> i64 {
    connection
        .query_row("select count(*) from t", [], |row| row.get(0))
        .expect("readable")
}

#[test]
fn a_transaction_without_a_journal_that_is_rolled_back_leaves_the_last_commit() {
    litepack_rusqlite::register().expect("Litepack registers");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let uri = format!(
        "file:{}?vfs=litepack",
        directory.path().join("a.db").display()
    );
    let open = || {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(&uri, flags).expect("it opens")
    };
    let writer = open();
    let pragmas = "pragma journal_mode = off; pragma cache_size = 5; create table t(x)";
    writer.execute_batch(pragmas).unwrap();
    let insert = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 500) \
                  insert into t select randomblob(1000) from c";
    writer.execute_batch(insert).unwrap();
    // Far more than the cache holds: SQLite writes pages of the open transaction to the database.
    writer
        .execute_batch(&format!(
            "begin; update t set x = 1; delete from t; {insert}"
        ))
        .unwrap();
    writer.execute_batch("rollback").unwrap();
    let other = open();
    assert_eq!(count(&other), 500);
    let check: String = other
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .expect("it runs");
    assert_eq!(check, "ok");
    assert_eq!(count(&writer), 500);
}
