//! The life of dictionaries of compressed columns: retraining, recompressing, dropping those not needed, and several
//! databases on one connection.

use litepack_tests::columns::{assert_true, enable, fill, maintain_all, number};
use litepack_tests::vfs;
use rusqlite::Connection;
use std::path::Path;

fn call(db: &Connection, sql: &str) -> i64 {
    number(db, &format!("select {sql}"))
}

#[test]
fn rows_can_be_read_while_their_dictionaries_are_exchanged() {
    let db = vfs::open_plain(Path::new(":memory:")).expect("a database");
    fill(&db, 10_000);
    enable(
        &db,
        "data",
        "iif(kind = 0, '[nodict]', 'k' || (kind % 2))",
        "",
    );
    maintain_all(&db);
    // Made by hand, and in no column: never dropped.
    let own = call(
        &db,
        "zstd_train_dict_and_save(data, 2000, 1000, null) from truth",
    );
    assert_eq!(call(&db, "litepack_drop_unused_dictionaries()"), 0);
    db.execute_batch(
        "update t set data = replace(replace(data, 'some words that repeat', 'quite another text'),
           'number', 'no longer the same number') where kind > 0;
         drop table truth; create table truth as select * from t;",
    )
    .expect("other data");
    maintain_all(&db);
    let old = "select count(distinct _data_dict) from _t_zstd where _data_dict < -1";
    assert_eq!(number(&db, old), 2);
    assert_eq!(call(&db, "litepack_retrain('t', 'data')"), 2);
    assert_true(&db, "retrained");
    // All rows still need the old ones, and nothing needs the new ones yet.
    let current = "select count(*) from _t_zstd join _zstd_dicts d on d.id = _data_dict
                   where chooser_key is null";
    assert_eq!(number(&db, current), 8000);
    db.execute_batch(
        "insert into t values(50001, 1, 'quite different text, too');
         insert into truth values(50001, 1, 'quite different text, too')",
    )
    .expect("a new row");
    maintain_all(&db);
    let mut calls = 0;
    while call(&db, "litepack_recompress('t', 'data', 0, 1)") == 1 {
        calls += 1;
        if calls % 4 == 0 {
            assert_true(&db, "while recompressing");
        }
    }
    assert!(calls > 3, "{calls} calls");
    assert_eq!(number(&db, current), 0);
    assert_eq!(call(&db, "litepack_drop_unused_dictionaries()"), 2);
    assert_eq!(call(&db, "litepack_drop_unused_dictionaries()"), 0);
    assert_true(&db, "recompressed");
    assert_eq!(
        number(
            &db,
            &format!("select count(*) from _zstd_dicts where id = {own}")
        ),
        1
    );
    let missing =
        "select count(*) from _t_zstd where _data_dict not in (select id from _zstd_dicts)";
    assert_eq!(number(&db, missing), 0);
}

#[test]
fn another_level_makes_frames_smaller_and_leaves_the_rest() {
    let db = vfs::open_plain(Path::new(":memory:")).expect("a database");
    fill(&db, 5000);
    enable(&db, "data", "'a'", "");
    maintain_all(&db);
    let bytes = "select sum(length(data)) from _t_zstd";
    let before = number(&db, bytes);
    db.execute_batch(
        "update _zstd_configs set config = json_set(config, '$.compression_level', 19)",
    )
    .expect("another level");
    assert_eq!(call(&db, "litepack_recompress('t', 'data', null, 1)"), 0);
    assert!(number(&db, bytes) < before);
    assert_true(&db, "another level");
    let changes = db.total_changes();
    assert_eq!(call(&db, "litepack_recompress('t', 'data', null, 1)"), 0);
    assert!(db.total_changes() - changes <= 1);
}

#[test]
fn attached_databases_have_dictionaries_of_their_own() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let paths = ["one.db", "two.db"].map(|name| directory.path().join(name));
    for (index, path) in paths.iter().enumerate() {
        let db = vfs::open_plain(path).expect("a database");
        fill(&db, 5000);
        db.execute_batch(&format!(
            "update t set data = data || '{index}{index}{index}'"
        ))
        .expect("different data");
        db.execute_batch("drop table truth; create table truth as select * from t")
            .expect("the truth");
        enable(&db, "data", "'a'", "");
        maintain_all(&db);
    }
    let db = vfs::open_plain(&paths[0]).expect("a database");
    let second = paths[1].to_str().expect("UTF-8");
    db.execute("attach ?1 as other", [second])
        .expect("attached");
    for schema in ["main", "other", "main"] {
        let wrong = format!(
            "select count(*) from {schema}.t join {schema}.truth using (id) where t.data is not truth.data"
        );
        assert_eq!(number(&db, &wrong), 0, "{schema}");
    }
    let ids = "select (select min(_data_dict) from main._t_zstd) <>
                      (select min(_data_dict) from other._t_zstd)";
    assert_eq!(number(&db, ids), 1);
    // Writes go to their own database, and maintenance is the main one's.
    db.execute_batch(
        "update main.t set data = 'main ' || id where id < 10;
         update other.t set data = 'other ' || id where id < 20;",
    )
    .expect("writes");
    maintain_all(&db);
    let raw = |schema: &str| {
        number(
            &db,
            &format!("select count(*) from {schema}._t_zstd where _data_dict is null"),
        )
    };
    assert!(raw("main") <= 9);
    assert_eq!(raw("other"), 19);
    assert_eq!(
        number(
            &db,
            "select count(*) from other.t where data = 'other ' || id"
        ),
        19
    );
    assert_eq!(
        number(
            &db,
            "select count(*) from main.t where data = 'main ' || id"
        ),
        9
    );
}
