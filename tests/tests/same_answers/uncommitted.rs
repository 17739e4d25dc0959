//! Pages that SQLite has written but not committed never become the database, in the one case in which it does not undo
//! them itself: without a journal.

use rusqlite::{Connection, OpenFlags};

/// All rows, one after the other.
fn rows(connection: &Connection) -> String {
    let sql = "select group_concat(hex(x)) from t";
    connection
        .query_row(sql, [], |row| row.get(0))
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
    let committed = rows(&writer);
    // Far more than the cache holds: SQLite writes pages of the open transaction to the database. The rows have the
    // same places and lengths, so that pages of both states would fit together.
    for change in [
        "update t set x = zeroblob(1000)",
        &format!("update t set x = 1; delete from t; {insert}"),
    ] {
        writer.execute_batch(&format!("begin; {change}")).unwrap();
        writer.execute_batch("rollback").unwrap();
        // The next commit brings none of it along.
        for is_written in [false, true] {
            if is_written {
                let next = "pragma user_version = 1";
                writer.execute_batch(next).unwrap();
            }
            for connection in [&open(), &writer] {
                assert!(rows(connection) == committed, "{change}");
                let check: String = connection
                    .query_row("pragma integrity_check", [], |row| row.get(0))
                    .expect("it runs");
                assert_eq!(check, "ok");
            }
        }
    }
}
