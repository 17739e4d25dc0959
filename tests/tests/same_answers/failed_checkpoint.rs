//! A checkpoint whose last step fails while a reader holds it back: SQLite does not look at the code there,
//! and tells readers to take the pages from the database all the same. Litepack has to keep them from it.

use litepack_simdisk::{CallSet, Fault, FaultError, SimDisk};
use rusqlite::{Connection, OpenFlags};

fn sum(connection: &Connection) -> i64 {
    connection
        .query_row("select sum(n) from t", [], |row| row.get(0))
        .expect("readable")
}

#[test]
fn readers_never_see_pages_that_did_not_reach_the_database() {
    litepack_rusqlite::register().expect("Litepack registers");
    let disk = SimDisk::new();
    let host = disk.register("failing");
    litepack_rusqlite::register_vfs("litepack-failing", "failing")
        .expect("over the simulated disk");
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags("file:/a.db?vfs=litepack-failing", flags);
        let connection = connection.expect("it opens");
        connection
            .execute_batch("pragma cache_size = 5; pragma wal_autocheckpoint = 0")
            .unwrap();
        connection
    };
    let writer = open();
    writer
        .execute_batch("pragma journal_mode = wal; create table t(n, x)")
        .unwrap();
    let fill = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 300) \
                insert into t select 1, randomblob(500) from c";
    writer.execute_batch(fill).unwrap();
    writer
        .execute_batch("pragma wal_checkpoint(truncate)")
        .unwrap();
    writer.execute_batch("update t set n = 2").unwrap();

    // This reader keeps the checkpoint from going beyond here, so that it is a partial one.
    let reader = open();
    reader.execute_batch("begin").unwrap();
    assert_eq!(sum(&reader), 600);
    writer
        .execute_batch("update t set n = 3 where rowid <= 150")
        .unwrap();

    disk.inject(
        Fault::new(CallSet::WRITES, FaultError::Io)
            .forever()
            .on_names_ending("/a.db"),
    );
    // SQLite reports nothing: that is what makes this dangerous.
    let busy: i64 = writer
        .query_row("pragma wal_checkpoint(passive)", [], |row| row.get(0))
        .expect("SQLite does not look at the code");
    assert_eq!(busy, 0);
    assert!(disk.fault_hits() > 0, "the checkpoint wrote nothing");
    disk.clear_faults();

    assert_eq!(sum(&reader), 600, "the reader that was there");
    assert_eq!(sum(&open()), 750, "a new reader");
    assert_eq!(sum(&writer), 750, "the writer");
    reader.execute_batch("commit").unwrap();
    writer
        .execute_batch("pragma wal_checkpoint(truncate)")
        .unwrap();
    assert_eq!(sum(&open()), 750, "after a checkpoint that works");
    let check: String = writer
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .expect("it runs");
    assert_eq!(check, "ok");
    drop((reader, writer));
    drop(host);
}
