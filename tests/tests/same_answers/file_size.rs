//! How large a packed file is: rewriting the same rows again and again does not make it grow, and
//! what VACUUM or auto_vacuum frees is given back to the file system.

use litepack_tests::{content, vfs};
use rusqlite::Connection;
use std::path::Path;

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).expect("a file").len()
}

/// A database of 4000 rows with bodies that do not compress to nothing.
fn create(path: &Path, settings: &str) -> Connection {
    let connection = vfs::open(path).expect("a new database");
    connection
        .execute_batch(&format!(
            "{settings}
             create table t(id integer primary key, x text);
             insert into t with recursive n(i) as (select 1 union all
               select i + 1 from n where i < 4000) select i, printf('%x %x %x of many rows',
               i * 2654435761, i * 7919 * 104729, i * 40503) from n;
             create index tx on t(x);"
        ))
        .expect("data");
    connection
}

#[test]
fn rewriting_the_same_rows_does_not_make_the_file_grow() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for settings in [
        "pragma synchronous = off;",
        "pragma synchronous = normal;",
        "pragma synchronous = full;",
        "pragma journal_mode = wal; pragma synchronous = normal;",
        "pragma journal_mode = wal; pragma synchronous = off; pragma wal_autocheckpoint = 5;",
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("a.db");
        let connection = create(&path, settings);
        let rounds = litepack_tests::scale(40, 400);
        let mut sizes = Vec::new();
        for round in 0..rounds {
            connection
                .execute("update t set x = substr(x, 2) || substr(x, 1, 1)", [])
                .expect("everything changes");
            for id in 0..25 {
                connection
                    .execute(
                        "update t set x = x || '' where id = ?",
                        [round * 37 + id * 97],
                    )
                    .expect("a small change");
            }
            sizes.push(size(&path));
        }
        content::assert_sound(&connection, settings);
        let pages = "select page_count * page_size from pragma_page_count, pragma_page_size";
        let logical: u64 = connection
            .query_row(pages, [], |row| row.get::<_, i64>(0))
            .expect("a size") as u64;
        let fresh_path = directory.path().join("fresh.db");
        let uri = vfs::uri(&fresh_path, vfs::under_test(), "");
        connection.execute("vacuum into ?", [uri]).expect("a copy");
        let fresh = size(&fresh_path);
        // Each round rewrites everything, so the last and the next version lie side by side, and the
        // last flushed one too when nothing is flushed, until that is compacted. More than that would be a leak. One
        // round may come just before a compaction, so it takes several to say how long the file is.
        let quarters: Vec<u64> = sizes
            .chunks(rounds as usize / 4)
            .map(|sizes| sizes.iter().sum::<u64>() / sizes.len() as u64)
            .collect();
        println!("{settings} {logical} bytes logical, {quarters:?} stored, {fresh} fresh");
        assert!(
            quarters[3] * 10 < quarters[1] * 12,
            "{settings}: grows: {quarters:?} bytes"
        );
        assert!(
            quarters[3] * 3 < fresh * 5,
            "{settings}: {quarters:?} bytes, fresh {fresh}"
        );
        assert!(
            sizes.iter().all(|size| *size < logical * 2),
            "{settings}: {sizes:?} bytes for {logical} logical bytes"
        );
    }
}

/// Pages that change a little are stored as differences: without them the file would be 1.3 times as long or more. The
/// rows have no digits that are stored as bytes, so that the file is long enough: 64 KiB of it may be free in any case.
#[test]
fn a_file_hardly_grows_when_few_rows_change() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for (settings, commits) in [
        ("pragma journal_mode = delete;", 1000),
        ("pragma journal_mode = delete;", 10),
        ("pragma journal_mode = memory;", 1),
        (
            "pragma journal_mode = wal; pragma synchronous = normal;",
            1000,
        ),
        ("pragma journal_mode = wal; pragma synchronous = normal;", 1),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("a.db");
        let connection = vfs::open(&path).expect("a new database");
        connection
            .execute_batch(
                "create table t(id integer primary key, x text);
                 insert into t with recursive n(i) as (select 1 union all select i + 1 from n
                   where i < 20000) select i, printf('{\"user\": %d, \"hash\": \"%s\", \"text\": \"one of many %s rows
                   of a log\", \"seconds\": %f}', i * 7919 % 6007,
                   replace(printf('%x %x', i * 2654435761, i * 104729 * i), 'a', 'k'),
                   char(97 + i % 23), i % 991 / 37.0) from n;
                 vacuum;",
            )
            .expect("data");
        let before = size(&path);
        connection.execute_batch(settings).expect("settings");
        let sql =
            "update t set x = substr(x, 1, 9) || printf('%04d', ?1) || substr(x, 14) where id = ?2";
        for commit in 0..commits {
            let transaction = connection.unchecked_transaction().expect("a transaction");
            for update in (0..1000_i64).filter(|update| update % commits == commit) {
                let id = update * 7_368_787 % 20_000;
                transaction.execute(sql, [update, id]).expect("an update");
            }
            transaction.commit().expect("a commit");
        }
        connection
            .execute_batch("pragma wal_checkpoint(truncate)")
            .expect("a checkpoint");
        let after = size(&path);
        content::assert_sound(&connection, settings);
        println!("{settings} {commits} commits: {before} bytes, then {after}");
        assert!(
            after * 100 < before * 130,
            "{settings} {commits} commits: {before} bytes, then {after}"
        );
    }
}

#[test]
fn a_vacuumed_file_shrinks() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for settings in [
        "pragma synchronous = full;",
        "pragma synchronous = off;",
        "pragma journal_mode = wal;",
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("a.db");
        let connection = create(&path, settings);
        connection
            .execute_batch("pragma wal_checkpoint")
            .expect("a checkpoint");
        let full = size(&path);
        connection
            .execute_batch("delete from t where id > 40; vacuum; pragma wal_checkpoint(truncate);")
            .expect("a vacuum");
        drop(connection);
        let small = size(&path);
        let connection = vfs::open(&path).expect("it reopens");
        content::assert_sound(&connection, settings);
        println!("{settings} {full} bytes, {small} after VACUUM");
        assert!(small * 3 < full, "{settings}: {full} bytes became {small}");
    }
}

/// Small files and larger ones, after `VACUUM` as large as if they had just been made, give or take a tenth and a few
/// KiB.
#[test]
fn a_vacuumed_file_is_as_small_as_a_fresh_one() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for settings in [
        "pragma synchronous = full;",
        "pragma synchronous = off;",
        "pragma secure_delete = on;",
        "pragma journal_mode = wal;",
        "pragma journal_mode = wal; pragma synchronous = off;",
        "pragma auto_vacuum = full;",
        "pragma page_size = 1024;",
    ] {
        for (rows, kept) in [
            (100, 90),
            (500, 250),
            (4000, 400),
            (4000, 3000),
            (30_000, 12_000),
        ] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let path = directory.path().join("a.db");
            let connection = create(&path, settings);
            let change = format!(
                "insert or replace into t with recursive n(i) as (select 1 union all select i + 1 from n
                   where i < {rows}) select i, printf('%x %x', i * 2654435761, i * 7919 * 104729) from n;
                 update t set x = x || id where id % 7 = 0; update t set x = id || x where id % 5 = 0;
                 delete from t where id % {rows} >= {kept};"
            );
            connection.execute_batch(&change).expect("changes");
            connection
                .execute_batch("vacuum; pragma wal_checkpoint(truncate)")
                .expect("a vacuum");
            let (used, fresh_path) = (size(&path), directory.path().join("fresh.db"));
            let uri = vfs::uri(&fresh_path, vfs::under_test(), "");
            connection.execute("vacuum into ?", [uri]).expect("a copy");
            let fresh = size(&fresh_path);
            println!("{settings} {rows}, {kept}: {used} bytes, fresh {fresh}");
            assert!(
                used <= fresh + fresh / 10 + (6 << 10),
                "{settings} {kept} of {rows} rows: {used} bytes, fresh {fresh}"
            );
            content::assert_sound(&connection, settings);
        }
    }
}

/// Bytes that auto_vacuum cuts off a small file are given back, too, and not at every commit.
#[test]
fn a_small_file_gets_smaller_with_its_database() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for (settings, shrink) in [
        ("pragma auto_vacuum = full;", ""),
        ("pragma auto_vacuum = full; pragma synchronous = off;", ""),
        (
            "pragma auto_vacuum = incremental;",
            "pragma incremental_vacuum;",
        ),
        (
            "pragma auto_vacuum = incremental; pragma journal_mode = wal;",
            "pragma incremental_vacuum; pragma wal_checkpoint(truncate);",
        ),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("a.db");
        let connection = create(&path, settings);
        connection
            .execute_batch(
                "create table kept(x); insert into kept select x from t limit 200;
                 pragma wal_checkpoint(truncate);",
            )
            .expect("a table");
        let full = size(&path);
        connection
            .execute_batch("drop table t")
            .expect("a smaller database");
        for pragma in shrink.split_terminator(';') {
            // Each step of an incremental vacuum is a row.
            let mut statement = connection.prepare(pragma).expect("a pragma");
            let mut steps = statement.query([]).expect("it runs");
            while steps.next().expect("a step").is_some() {}
        }
        let fresh_path = directory.path().join("fresh.db");
        let uri = vfs::uri(&fresh_path, vfs::under_test(), "");
        connection.execute("vacuum into ?", [uri]).expect("a copy");
        let (used, fresh) = (size(&path), size(&fresh_path));
        println!("{settings} {full} bytes, then {used}, fresh {fresh}");
        assert!(
            used <= fresh + fresh / 3 + (20 << 10),
            "{settings}: {used} bytes, fresh {fresh}"
        );
    }
}

#[test]
fn a_long_reader_makes_the_file_grow_only_while_it_reads() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("a.db");
    let writer = create(
        &path,
        "pragma journal_mode = wal; pragma synchronous = off;",
    );
    let reader = vfs::open(&path).expect("a reader");
    let hash = |connection: &Connection| content::fingerprint(connection).expect("a scan");
    reader.execute_batch("begin").expect("a transaction");
    let seen = hash(&reader);
    for _ in 0..20 {
        writer
            .execute_batch(
                "update t set x = substr(x, 2) || substr(x, 1, 1); pragma wal_checkpoint;",
            )
            .expect("a rewrite");
        assert!(seen == hash(&reader), "a reader's snapshot changed");
    }
    reader.execute_batch("commit").expect("an end");
    assert!(seen != hash(&reader));
    for _ in 0..20 {
        writer
            .execute_batch(
                "update t set x = substr(x, 2) || substr(x, 1, 1);
                 pragma wal_checkpoint(truncate);",
            )
            .expect("a rewrite");
    }
    let logical = "select page_count * page_size from pragma_page_count, pragma_page_size";
    let logical: i64 = writer
        .query_row(logical, [], |row| row.get(0))
        .expect("a size");
    let stored = size(&path);
    println!("{logical} bytes logical, {stored} stored");
    assert!(
        stored < logical as u64 * 2,
        "{stored} bytes for {logical} logical bytes"
    );
}
