//! Packed files over VFSes that have less than SQLite's usual one.

use litepack_tests::commandline::Place;
use litepack_tests::{content, vfs};
use rusqlite::Connection;
use std::path::Path;

/// SQLite's VFS without locks and shared memory, and ours over it.
const BARE: &str = "unix-none";
const OVER_BARE: &str = "litepack-over-none";

fn open(path: &Path, name: &str) -> Connection {
    vfs::open_uri(&vfs::uri(path, name, "")).expect("it opens")
}

fn one<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> rusqlite::Result<T> {
    connection.query_row(sql, [], |row| row.get(0))
}

/// What plain SQLite says of a WAL over the bare VFS, ours says too.
#[test]
fn without_shared_memory_there_is_no_wal() {
    if !vfs::is_litepack() {
        return;
    }
    litepack_rusqlite::register_vfs(OVER_BARE, BARE).expect("a VFS");
    let place = Place::new();
    for (name, bare, usual) in [
        ("plain.db", BARE, vfs::PLAIN),
        ("packed.db", OVER_BARE, vfs::under_test()),
    ] {
        let path = place.path(name);
        let connection = open(&path, bare);
        connection
            .execute_batch("create table t(x); insert into t values (1)")
            .expect("a table");
        let mode: String = one(&connection, "pragma journal_mode = wal").expect("an answer");
        assert_eq!(mode, "delete", "{name}");
        connection
            .execute_batch("insert into t values (2)")
            .expect("it goes on");
        assert_eq!(one(&connection, "pragma mmap_size = 4096"), Ok(4096));
        content::assert_sound(&connection, name);
        connection.close().expect("it closes");

        let connection = open(&path, usual);
        let mode: String = one(&connection, "pragma journal_mode = wal").expect("an answer");
        assert_eq!(mode, "wal", "{name}");
        connection
            .execute_batch("insert into t values (3)")
            .expect("a row");
        connection.close().expect("it closes");

        let connection = open(&path, bare);
        let error = one::<i64>(&connection, "select count(*) from t").expect_err("a WAL");
        let code = error.sqlite_error().map(|error| error.extended_code);
        assert_eq!(code, Some(14), "{name}: {error}");
        connection.close().expect("it closes");
        let connection = open(&path, usual);
        assert_eq!(one(&connection, "select count(*) from t"), Ok(3));
    }
}
