//! Helpers for tests of compressed columns: tables of JSON beside a plain copy of them, and the functions that
//! compress.

use rusqlite::{Connection, Result};
use std::time::Duration;

/// Makes `t(id, kind, data)` with so many rows of JSON, and `truth`, the same without compression.
pub fn fill(db: &Connection, rows: u64) {
    db.execute_batch(&format!(
        "create table t(id integer primary key, kind int not null, data text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
         insert into t select i, i % 5, json_object('id', i, 'name', 'number ' || (i * 7919 % 1000),
           'kind', i % 5, 'text', 'some words that repeat in every row', 'more', i * 40503 % 9973)
           from n;
         create table truth as select * from t;
         create unique index truth_id on truth(id);"
    ))
    .expect("data");
}

/// Enables compression of a column with a chooser and small steps; `more` is more of the JSON.
pub fn enable(db: &Connection, column: &str, chooser: &str, more: &str) {
    let chooser = chooser.replace('"', "\\\"");
    let config = format!(
        r#"{{"table":"t","column":"{column}","compression_level":3,"dict_chooser":"{chooser}",
            "min_dict_size_bytes_for_training":1000,"dict_size_ratio":0.02,
            "incremental_compression_step_bytes":50000{more}}}"#
    );
    db.query_row("select zstd_enable_transparent(?1)", [config], |_| Ok(()))
        .expect("enabled");
}

/// One call of maintenance; true if there is more to do.
pub fn maintain(db: &Connection, seconds: Option<f64>) -> Result<bool> {
    let sql = "select zstd_incremental_maintenance(?1, 1)";
    db.query_row(sql, [seconds], |row| row.get(0))
}

/// Maintenance until all is done.
pub fn maintain_all(db: &Connection) {
    while maintain(db, None).expect("maintenance") {}
}

/// A number from a query.
pub fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Asserts that `t` holds what `truth` does, types included, and that SQLite finds nothing wrong.
pub fn assert_true(db: &Connection, context: &str) {
    for (one, other) in [("t", "truth"), ("truth", "t")] {
        let sql = format!(
            "select count(*) from (select id, kind, typeof(data), data from {one}
             except select id, kind, typeof(data), data from {other})"
        );
        assert_eq!(
            number(db, &sql),
            0,
            "{context}: {one} has rows that {other} has not"
        );
    }
    let sound: String = db
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(sound, "ok", "{context}");
}

/// Changes rows of `t` and of `truth` alike, a transaction each, until told to stop.
///
/// It pauses after each: SQLite's locks are not fair. Another writer that waits asks for them only ten times a second,
/// so a writer without a pause could keep it waiting for as long as it likes.
pub fn disturb(db: &Connection, seed: u64, mut go_on: impl FnMut() -> bool) -> Result<()> {
    let mut rng = crate::rng::Rng::new(seed);
    while go_on() {
        let id = rng.below(30_000);
        let value = format!("'{{\"changed\":{},\"text\":\"some words\"}}'", rng.bits());
        let change = match rng.below(4) {
            0 => format!("delete from T where id = {id}"),
            1 => format!("insert or replace into T values({id}, {}, {value})", id % 5),
            _ => format!("update T set data = {value} where id between {id} and {id} + 3"),
        };
        let [one, other] = ["t", "truth"].map(|table| change.replace('T', table));
        db.execute_batch(&format!("begin immediate; {one}; {other}; commit"))
            .inspect_err(|_| {
                let _ = db.execute_batch("rollback");
            })?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
