//! Maintenance of compressed columns: which rows it compresses, with which dictionaries, what it leaves
//! alone, and that it does nothing twice.

use litepack_tests::columns::{assert_true, enable, fill, maintain, maintain_all, number};
use litepack_tests::vfs;
use rusqlite::Connection;
use serde_json::Value;
use std::path::Path;

const ROWS: u64 = 10_000;

fn memory() -> Connection {
    let db = vfs::open_plain(Path::new(":memory:")).expect("a database");
    fill(&db, ROWS);
    db
}

fn status(db: &Connection) -> Value {
    let text: String = db
        .query_row("select litepack_columns()", [], |row| row.get(0))
        .expect("a status");
    serde_json::from_str(&text).expect("JSON")
}

/// Rows of `column` that are not compressed.
fn raw(db: &Connection, column: &str) -> i64 {
    number(
        db,
        &format!("select count(*) from _t_zstd where _{column}_dict is null"),
    )
}

#[test]
fn the_chooser_says_which_rows_share_a_dictionary() {
    let db = memory();
    let chooser = "case kind when 0 then null when 1 then '[nodict]' when 2 then cast(kind as text) else 'b' end";
    enable(&db, "data", chooser, "");
    maintain_all(&db);
    assert_true(&db, "after maintenance");
    let by_kind = "select group_concat(kind || ':' || ids) from (select kind,
        group_concat(distinct ifnull(chooser_key, '-')) ids from _t_zstd
        left join _zstd_dicts d on d.id = _data_dict
        where kind <> 1 or _data_dict is not null group by 1)";
    let groups: String = db.query_row(by_kind, [], |row| row.get(0)).expect("groups");
    assert_eq!(groups, "0:-,1:[nodict],2:2,3:b,4:b");
    let status = &status(&db)[0];
    let compressed = number(
        &db,
        "select count(*) from _t_zstd where _data_dict is not null",
    );
    assert!(
        status["rows_compressed"] == compressed && compressed > 6000,
        "{status}"
    );
    assert_eq!(
        status["not_compressed"][0]["why"],
        "dict_chooser gives NULL"
    );
    assert_eq!(status["not_compressed"][0]["rows"], 2000);
}

#[test]
fn columns_share_dictionaries_or_have_their_own() {
    let db = memory();
    db.execute_batch(
        "alter table t add column more text; alter table t add column other text;
         update t set more = data || ' more', other = 'other ' || data;
         drop table truth; create table truth as select * from t;",
    )
    .expect("two more columns");
    enable(&db, "data", "'shared'", "");
    enable(&db, "more", "'shared'", "");
    enable(&db, "other", "'own'", "");
    maintain_all(&db);
    assert_eq!(
        (raw(&db, "data"), raw(&db, "more"), raw(&db, "other")),
        (0, 0, 0)
    );
    assert_true(&db, "three columns");
    let differing = "select count(*) from t join truth using (id)
                     where t.more is not truth.more or t.other is not truth.other";
    assert_eq!(number(&db, differing), 0);
    let ids = |of: &str| number(&db, &format!("select count(distinct id) from ({of})"));
    assert_eq!(
        ids("select _data_dict id from _t_zstd union select _more_dict from _t_zstd"),
        1
    );
    assert_eq!(
        ids("select _other_dict id from _t_zstd union select _more_dict from _t_zstd"),
        2
    );
}

#[test]
fn calls_without_time_get_there_step_by_step() {
    let db = memory();
    enable(&db, "data", "iif(kind = 3, null, 'a')", "");
    let mut before = raw(&db, "data");
    let mut calls = 0;
    while maintain(&db, Some(0.0)).expect("maintenance") {
        let now = raw(&db, "data");
        assert!(now < before, "call {calls} left {now} of {before}");
        (before, calls) = (now, calls + 1);
    }
    // About 130 bytes a row, and 50000 a step.
    assert!((10..60).contains(&calls), "{calls} calls");
    assert_eq!(raw(&db, "data"), ROWS as i64 / 5);
    assert_true(&db, "after many calls");
}

#[test]
fn a_second_run_does_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("a.db");
    let db = vfs::open_plain(&path).expect("a database");
    fill(&db, ROWS);
    enable(
        &db,
        "data",
        "case kind when 0 then null when 1 then 'small' || id else 'a' end",
        "",
    );
    assert!(!maintain(&db, None).expect("maintenance"));
    let bytes = std::fs::read(&path).expect("readable");
    assert!(!maintain(&db, None).expect("maintenance"));
    assert!(!maintain(&db, Some(0.0)).expect("maintenance"));
    assert!(
        bytes == std::fs::read(&path).expect("readable"),
        "it wrote something"
    );
    // New and changed rows are found, and only they are written.
    db.execute_batch(
        "insert into t select id + 100000, 2, data from t where kind = 2 limit 50;
         update t set data = data || ' ' where id = 7;
         drop table truth; create table truth as select * from t;",
    )
    .expect("changes");
    let changes = db.total_changes();
    maintain_all(&db);
    assert!(db.total_changes() - changes < 60, "too much was written");
    let raw_rows = "select count(*) from _t_zstd where _data_dict is null and kind > 1";
    assert_eq!(number(&db, raw_rows), 0);
    assert_true(&db, "after more rows");
}

#[test]
fn small_groups_wait_until_they_are_large() {
    let db = memory();
    db.execute_batch("delete from t where id > 100; delete from truth where id > 100")
        .expect("fewer rows");
    enable(&db, "data", "'a'", "");
    maintain_all(&db);
    assert_eq!(raw(&db, "data"), 100);
    let why = status(&db)[0]["not_compressed"][0]["why"].to_string();
    assert!(
        why.contains("too small") && why.contains("min_dict_size"),
        "{why}"
    );
    db.execute_batch(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20)
         insert into t select i * 1000 + id, kind, data from t, n;
         drop table truth; create table truth as select * from t;",
    )
    .expect("more rows");
    maintain_all(&db);
    assert_eq!(raw(&db, "data"), 0);
    assert_true(&db, "after growing");
}

#[test]
fn what_does_not_get_smaller_stays_and_nothing_gets_bigger() {
    let db = memory();
    db.execute_batch(
        "update t set data = hex(randomblob(30)) where kind = 0;
         update t set data = 'x' || id where kind = 1;
         alter table t add column noise blob;
         update t set noise = randomblob(300);
         drop table truth; create table truth as select * from t;",
    )
    .expect("noise");
    enable(&db, "data", "'a'", "");
    enable(&db, "noise", "iif(kind = 0, '[nodict]', 'noise')", "");
    db.execute_batch("vacuum").expect("vacuum");
    let pages = number(&db, "pragma page_count");
    maintain_all(&db);
    db.execute_batch("vacuum").expect("vacuum");
    assert!(number(&db, "pragma page_count") < pages);
    assert_eq!(raw(&db, "noise"), ROWS as i64);
    assert_eq!(
        number(
            &db,
            "select count(*) from _zstd_dicts where chooser_key = 'noise'"
        ),
        0
    );
    let grown = "select count(*) from _t_zstd join truth using (id)
                 where length(cast(_t_zstd.data as blob)) > length(truth.data)";
    assert_eq!(number(&db, grown), 0);
    let reasons = status(&db)[1]["not_compressed"].to_string();
    assert!(reasons.contains("would not gain"), "{reasons}");
    assert!(reasons.contains("would not get smaller"), "{reasons}");
    assert!(!maintain(&db, None).expect("maintenance"));
    assert_true(&db, "noise");
}

#[test]
fn values_of_other_types_stay_what_they_are() {
    let db = memory();
    db.execute_batch(
        "update t set data = null where id % 7 = 0;
         update t set data = cast(data as blob) where id % 7 = 1;
         update t set data = cast(x'ff' || data as text) where id % 7 = 2;
         drop table truth; create table truth as select * from t;",
    )
    .expect("types");
    enable(&db, "data", "'a'", "");
    maintain_all(&db);
    assert_true(&db, "types");
    let types = "select count(*) from _t_zstd where (_data_dict is null) <> (id % 7 < 3)";
    assert_eq!(number(&db, types), 0);
    let reasons = status(&db)[0]["not_compressed"].to_string();
    assert!(
        reasons.contains("NULL") && reasons.contains("blob values"),
        "{reasons}"
    );
}

#[test]
fn status_counts_rows_and_bytes() {
    let db = memory();
    enable(&db, "data", "'a'", "");
    let bytes = number(&db, "select sum(length(data)) from truth");
    let before = status(&db)[0].clone();
    assert_eq!(before["bytes_before"], bytes);
    assert_eq!(before["bytes_after"], bytes);
    assert_eq!(
        before["not_compressed"][0]["why"],
        "waiting for maintenance"
    );
    assert_eq!(before["maintenance_due"], true);
    maintain_all(&db);
    let after = status(&db)[0].clone();
    assert_eq!(after["bytes_before"], bytes);
    assert_eq!(
        after["bytes_after"],
        number(&db, "select sum(length(data)) from _t_zstd")
    );
    assert_eq!(
        (&after["rows"], &after["rows_compressed"]),
        (&ROWS.into(), &ROWS.into())
    );
    assert_eq!(after["dictionaries"][0]["rows"], ROWS);
    assert_eq!(
        after["dictionaries"][0]["bytes"],
        number(
            &db,
            "select length(dict) from _zstd_dicts where chooser_key = 'a'"
        )
    );
    assert_eq!(after["maintenance_due"], false);
}

#[test]
fn keys_of_all_kinds() {
    for definition in [
        "(id text collate nocase, kind int, data text, primary key(kind, id)) without rowid",
        "(id real primary key, kind int not null, data text) without rowid",
        "(id text primary key, kind int, data text)",
        "(id blob, kind int, rowid text, data text, primary key(id, kind))",
    ] {
        let db = memory();
        db.execute_batch(&format!(
            "alter table t rename to s; create table t{definition};
             insert into t(id, kind, data) select id, kind, data from s;
             drop table truth; create table truth as select * from t;"
        ))
        .expect("a table");
        enable(&db, "data", "'a'", "");
        while maintain(&db, Some(0.0)).expect("maintenance") {}
        assert_eq!(raw(&db, "data"), 0, "{definition}");
        assert_true(&db, definition);
    }
}

#[test]
fn a_database_of_sqlite_zstd_is_maintained_as_it_is() {
    let db = memory();
    db.execute_batch(
        "create table _zstd_dicts(id integer primary key autoincrement,
           chooser_key text unique, dict blob not null);
         create table _zstd_configs(id integer primary key autoincrement, config json not null);
         insert into _zstd_dicts values(-1, '[nodict]', '');
         alter table t rename to _t_zstd;
         alter table _t_zstd add column _data_dict integer default null references _zstd_dicts(id);
         create index _data_dict_idx on _t_zstd(_data_dict);
         create view t as select id, kind, zstd_decompress_col(`data`, 1, `_data_dict`, true) as `data`
           from _t_zstd;
         insert into _zstd_configs(config) values('{\"table\":\"t\",\"column\":\"data\",
           \"compression_level\":3,\"dict_chooser\":\"substr(data, 1, 3) || kind\",
           \"min_dict_size_bytes_for_training\":500}');
         insert into _zstd_dicts(chooser_key, dict) select '{\"i1', zstd_train_dict(data, 1000, 500)
           from truth;",
    )
    .expect("a schema");
    maintain_all(&db);
    assert_eq!(raw(&db, "data"), 0);
    assert_true(&db, "sqlite-zstd's schema");
    assert_eq!(
        number(&db, "select count(*) from _t_zstd where _data_dict = 1"),
        2000
    );
    assert_eq!(
        number(&db, "select count(distinct _data_dict) from _t_zstd"),
        5
    );
    assert_eq!(status(&db)[0]["rows_compressed"], ROWS);
}

#[test]
fn unreasonable_arguments_are_refused() {
    let db = memory();
    enable(&db, "data", "'a'", "");
    for arguments in ["-1, 1", "1, 0", "1, 2", "1, null", "'x', 1", "null, -0.5"] {
        let sql = format!("select zstd_incremental_maintenance({arguments})");
        let error = db.query_row(&sql, [], |_| Ok(())).expect_err(arguments);
        assert!(
            error
                .to_string()
                .contains("zstd_incremental_maintenance: the "),
            "{error}"
        );
    }
    assert_eq!(raw(&db, "data"), ROWS as i64);
}
