//! Copies of one packed file, and one file under several names, in one process: what is cached of one
//! is never taken for the other, although they were the same file once.

use litepack_tests::{content, vfs};
use rusqlite::Connection;
use std::path::Path;

fn open(path: &Path) -> Connection {
    vfs::open(path).expect("it opens")
}

fn fill(path: &Path) {
    let connection = open(path);
    connection
        .execute_batch(
            "create table t(id integer primary key, x text);
             insert into t with recursive n(i) as (select 1 union all
               select i + 1 from n where i < 2000) select i, 'row ' || i from n;
             create index tx on t(x);",
        )
        .expect("data");
}

fn mark(connection: &Connection, word: &str) {
    let sql = format!("update t set x = '{word} ' || id where id % 2");
    connection.execute_batch(&sql).expect("an update");
}

fn assert_marked(connection: &Connection, word: &str, context: &str) {
    let sql = format!("select count(*) from t where x = '{word} ' || id");
    let count: i64 = connection
        .query_row(&sql, [], |row| row.get(0))
        .expect("a count");
    assert_eq!(
        count, 1000,
        "{context}: rows of another file, or of another time"
    );
    content::assert_sound(connection, context);
}

#[test]
fn copies_that_go_different_ways_are_never_mixed_up() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let paths: Vec<_> = (0..4)
        .map(|i| directory.path().join(format!("{i}.db")))
        .collect();
    fill(&paths[0]);
    for copy in &paths[1..] {
        std::fs::copy(&paths[0], copy).expect("copied");
    }
    let connections: Vec<_> = paths.iter().map(|path| open(path)).collect();
    for round in 0..5 {
        // The same commits, at the same places, with different content of the same length.
        for (i, connection) in connections.iter().enumerate() {
            mark(connection, &format!("file{i} round{round}"));
        }
        for (i, connection) in connections.iter().enumerate() {
            assert_marked(
                connection,
                &format!("file{i} round{round}"),
                "the writer itself",
            );
            let fresh = open(&paths[i]);
            assert_marked(&fresh, &format!("file{i} round{round}"), "a new connection");
        }
    }
}

#[test]
fn a_file_that_was_put_back_from_a_backup_is_read_anew() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (path, backup) = (
        directory.path().join("a.db"),
        directory.path().join("backup.db"),
    );
    fill(&path);
    mark(&open(&path), "base");
    std::fs::copy(&path, &backup).expect("copied");
    for round in 0..4 {
        mark(&open(&path), &format!("lost{round}"));
        assert_marked(
            &open(&path),
            &format!("lost{round}"),
            "before it is put back",
        );
        if round % 2 == 0 {
            // Into the same inode, and as another file under the same name.
            std::fs::copy(&backup, &path).expect("put back");
        } else {
            let other = directory.path().join("other.db");
            std::fs::copy(&backup, &other).expect("copied");
            std::fs::rename(&other, &path).expect("put back");
        }
        assert_marked(&open(&path), "base", "after it was put back");
        mark(&open(&path), &format!("next{round}"));
        assert_marked(
            &open(&path),
            &format!("next{round}"),
            "the same commit number again",
        );
        std::fs::copy(&backup, &path).expect("put back");
    }
}

#[test]
fn a_deleted_database_leaves_nothing_in_the_next_one_of_its_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("a.db");
    for round in 0..4 {
        fill(&path);
        mark(&open(&path), &format!("life{round}"));
        assert_marked(&open(&path), &format!("life{round}"), "a new life");
        std::fs::remove_file(&path).expect("removable");
        let count: i64 = open(&path)
            .query_row("select count(*) from sqlite_schema", [], |row| row.get(0))
            .expect("an empty database");
        assert_eq!(count, 0);
        if path.exists() {
            std::fs::remove_file(&path).expect("removable");
        }
    }
}

#[cfg(unix)]
#[test]
fn one_file_under_two_names_is_one_database() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (path, link) = (
        directory.path().join("a.db"),
        directory.path().join("link.db"),
    );
    fill(&path);
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for mode in ["delete", "wal"] {
        let (one, other) = (open(&path), open(&link));
        one.execute_batch(&format!("pragma journal_mode = {mode}"))
            .expect("a mode");
        for round in 0..5 {
            mark(&one, &format!("one{round}"));
            assert_marked(&other, &format!("one{round}"), "through the link");
            mark(&other, &format!("other{round}"));
            assert_marked(&one, &format!("other{round}"), "through the file");
        }
    }
}

#[test]
fn the_same_file_attached_twice_behaves_as_in_plain_sqlite() {
    let mut pair = litepack_tests::pair::Pair::filled();
    pair.run(
        "attach '{own:main.db}' as again;
         select count(*) from again.t;
         !update again.t set x = 'twice' where id = 1 returning (select count(*) from main.t);
         begin;
         insert into main.t(x) values ('a');
         !insert into again.t(x) values ('b');
         commit;
         select count(*) from main.t join again.t a using (id);
         detach again;",
    );
    pair.verify();
}
