//! `PRAGMA secure_delete`: what was deleted, changed or dropped is looked for in the bytes of the file. Rows are
//! random, so nothing compresses them and they lie in the file as they are.

use litepack_tests::rng::Rng;
use litepack_tests::{content, vfs};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// So many bytes of a row tell it from all others.
const PIECE: usize = 16;

/// A database and what its rows are or were.
struct Rows {
    path: PathBuf,
    now: BTreeMap<i64, Vec<u8>>,
    gone: Vec<Vec<u8>>,
    rng: Rng,
    _directory: tempfile::TempDir,
}

impl Rows {
    fn new() -> Rows {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Rows {
            path: directory.path().join("a.db"),
            now: BTreeMap::new(),
            gone: Vec::new(),
            rng: Rng::new(20_261_123),
            _directory: directory,
        }
    }

    fn open(&self, settings: &str) -> Connection {
        let connection = vfs::open(&self.path).expect("it opens");
        connection.execute_batch(settings).expect("settings");
        connection
    }

    fn put(&mut self, connection: &Connection, table: &str, ids: impl Iterator<Item = i64>) {
        connection.execute_batch("begin").expect("a transaction");
        for id in ids {
            let bytes = self.rng.bytes(700);
            let sql = format!("insert or replace into {table} values(?, ?)");
            connection.execute(&sql, (id, &bytes)).expect("a row");
            self.gone.extend(self.now.insert(id, bytes));
        }
        connection.execute_batch("commit").expect("a commit");
    }

    fn delete(&mut self, connection: &Connection, table: &str, which: impl Fn(i64) -> bool) {
        let ids: Vec<i64> = self.now.keys().copied().filter(|id| which(*id)).collect();
        connection.execute_batch("begin").expect("a transaction");
        for id in ids {
            let sql = format!("delete from {table} where id = ?");
            assert_eq!(connection.execute(&sql, [id]).expect("deleted"), 1);
            self.gone.extend(self.now.remove(&id));
        }
        connection.execute_batch("commit").expect("a commit");
    }

    /// All rows are gone, their table with them.
    fn all_gone(&mut self) {
        self.gone
            .extend(std::mem::take(&mut self.now).into_values());
    }

    /// How many of the rows that are gone have left anything in the file.
    fn left(&self) -> usize {
        found(&self.path, self.gone.iter())
    }

    /// Nothing that is gone is in the file; and all that is there is, or looking would show nothing.
    fn assert_erased(&self, what: &str) {
        let kept = found(&self.path, self.now.values());
        assert_eq!(kept, self.now.len(), "{what}: this shows nothing");
        let left = self.left();
        assert_eq!(left, 0, "{what}: {left} of {} rows", self.gone.len());
    }
}

/// How many of these rows have a piece in the file.
fn found<'a>(path: &Path, rows: impl Iterator<Item = &'a Vec<u8>> + Clone) -> usize {
    let bytes = std::fs::read(path).expect("a file");
    let pieces = |row: &'a Vec<u8>| [0, 200, 450, 680].map(|at| &row[at..at + PIECE]);
    let wanted: HashSet<&[u8]> = rows.clone().flat_map(pieces).collect();
    let there: HashSet<&[u8]> = bytes
        .windows(PIECE)
        .filter(|piece| wanted.contains(piece))
        .collect();
    rows.filter(|row| pieces(row).iter().any(|piece| there.contains(piece)))
        .count()
}

const CREATE: &str = "create table t(id integer primary key, x blob);";

/// Brings what the WAL has into the database.
fn checkpoint(connection: &Connection) {
    connection
        .execute_batch("pragma wal_checkpoint(truncate)")
        .expect("a checkpoint");
}

fn each_mode(mut body: impl FnMut(&str)) {
    for journal in ["delete", "truncate", "persist", "memory", "off", "wal"] {
        for synchronous in ["full", "off"] {
            body(&format!(
                "pragma auto_vacuum = incremental; pragma journal_mode = {journal}; pragma synchronous = {synchronous};"
            ));
        }
    }
}

#[test]
fn rows_that_are_deleted_or_changed_leave_nothing() {
    each_mode(|mode| {
        let mut rows = Rows::new();
        let db = rows.open(&format!("{mode} pragma secure_delete = on; {CREATE}"));
        rows.put(&db, "t", 0..100);
        rows.delete(&db, "t", |id| id % 5 == 0);
        checkpoint(&db);
        rows.assert_erased(&format!("{mode} delete"));
        for id in 0..20 {
            rows.put(&db, "t", id..id + 1);
        }
        checkpoint(&db);
        rows.assert_erased(&format!("{mode} update"));
        rows.delete(&db, "t", |id| id > 50);
        {
            // Each step is a row.
            let mut statement = db.prepare("pragma incremental_vacuum").expect("a pragma");
            let mut steps = statement.query([]).expect("it runs");
            while steps.next().expect("a step").is_some() {}
        }
        checkpoint(&db);
        rows.assert_erased(&format!("{mode} incremental vacuum"));
        rows.delete(&db, "t", |id| id % 3 == 0);
        db.execute_batch("vacuum").expect("run");
        checkpoint(&db);
        rows.assert_erased(&format!("{mode} vacuum"));
        rows.all_gone();
        db.execute_batch("drop table t").expect("run");
        checkpoint(&db);
        rows.assert_erased(&format!("{mode} drop"));
        content::assert_sound(&db, mode);
    });
}

#[test]
fn what_is_longer_than_a_page_leaves_nothing() {
    let mut rows = Rows::new();
    let db = rows.open(&format!("pragma secure_delete = on; {CREATE}"));
    let long: Vec<Vec<u8>> = (0..5).map(|_| rows.rng.bytes(50_000)).collect();
    for bytes in &long {
        db.execute("insert into t(x) values(?)", [bytes])
            .expect("a row");
    }
    let pieces: Vec<Vec<u8>> = long
        .iter()
        .flat_map(|row| row.chunks(1000).map(<[u8]>::to_vec))
        .collect();
    assert_eq!(found(&rows.path, pieces.iter()), pieces.len());
    db.execute_batch("delete from t").expect("deleted");
    assert_eq!(found(&rows.path, pieces.iter()), 0);
}

/// `VACUUM` cleans a database of all traces of deleted content, says SQLite's manual: also content that others deleted,
/// with the pragma or without.
#[test]
fn vacuum_leaves_nothing_that_was_deleted_before() {
    each_mode(|mode| {
        for erase in ["off", "fast", "on"] {
            let mut rows = Rows::new();
            let db = rows.open(&format!("{mode} pragma secure_delete = off; {CREATE}"));
            rows.put(&db, "t", 0..300);
            for round in 0..10 {
                rows.delete(&db, "t", |id| id % 20 == round);
                checkpoint(&db);
            }
            drop(db);
            assert!(rows.left() > 0 || !vfs::is_litepack(), "this shows nothing");
            let db = rows.open(&format!("{mode} pragma secure_delete = {erase}"));
            db.execute_batch("vacuum").expect("run");
            checkpoint(&db);
            rows.assert_erased(&format!("{mode} {erase}"));
            content::assert_sound(&db, mode);
        }
    });
}

/// In WAL mode `VACUUM` ends with the checkpoint that brings all of it, whatever is done in between.
#[test]
fn maintenance_between_vacuum_and_its_checkpoint_keeps_nothing() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    // One that comes to its end may erase by itself; a look and a step or two do not.
    for steps in [0, 2, 3, 1000] {
        let mut rows = Rows::new();
        let db = rows.open(&format!(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0; {CREATE}"
        ));
        rows.put(&db, "t", 0..300);
        for round in 0..10 {
            rows.delete(&db, "t", |id| id % 20 == round);
            checkpoint(&db);
        }
        assert!(rows.left() > 0, "this shows nothing");
        db.execute_batch("vacuum").expect("run");
        for _ in 0..steps {
            let step = "select litepack_maintain(0, 1)";
            let more: i64 = db.query_row(step, [], |row| row.get(0)).expect("a step");
            if more == 0 {
                break;
            }
        }
        checkpoint(&db);
        let what = format!("{steps} steps");
        rows.assert_erased(&what);
        content::assert_sound(&db, &what);
    }
}

/// A transaction so large that pages reach the file before it ends.
#[test]
fn a_transaction_undone_leaves_nothing() {
    for mode in ["delete", "memory"] {
        let mut rows = Rows::new();
        let settings = format!(
            "pragma journal_mode = {mode}; pragma cache_size = 20; pragma secure_delete = on; {CREATE}"
        );
        let db = rows.open(&settings);
        rows.put(&db, "t", 0..10);
        db.execute_batch("begin").expect("a transaction");
        for id in 1000..20_000 {
            let bytes = rows.rng.bytes(700);
            db.execute("insert into t values(?, ?)", (id, &bytes))
                .expect("a row");
            if id % 8 == 0 {
                rows.gone.push(bytes);
            }
        }
        assert!(rows.left() > 100, "{mode}: this shows nothing");
        db.execute_batch("rollback").expect("undone");
        rows.assert_erased(mode);
    }
}

#[test]
fn connections_that_take_turns_leave_nothing() {
    for mode in ["delete", "wal"] {
        let mut rows = Rows::new();
        let settings = format!("pragma journal_mode = {mode}; pragma secure_delete = on;");
        let one = rows.open(&format!("{settings} {CREATE}"));
        let other = rows.open(&settings);
        rows.put(&one, "t", 0..100);
        for round in 0..12 {
            let db = if round % 2 == 0 { &one } else { &other };
            rows.delete(db, "t", |id| id % 12 == round);
            rows.put(db, "t", round..round + 3);
            checkpoint(db);
            rows.assert_erased(&format!("{mode}, round {round}"));
        }
        // While another connection reads the database as it was.
        other.execute_batch("begin").expect("a transaction");
        content::fingerprint(&other).expect("a scan");
        if mode == "wal" {
            rows.delete(&one, "t", |id| id % 7 == 0);
            content::fingerprint(&other).expect("a scan");
            other.execute_batch("commit").expect("an end");
            checkpoint(&one);
            rows.assert_erased("after a reader");
        }
    }
}

/// The pragma without a name is for all databases of the connection, and what is attached later takes it over.
#[test]
fn attached_databases_leave_nothing_either() {
    for (before, after) in [
        ("pragma secure_delete = on", ""),
        ("", "pragma secure_delete = on"),
        ("", "pragma b.secure_delete = on"),
        ("pragma b.secure_delete = off", "pragma secure_delete = 1"),
    ] {
        let mut rows = Rows::new();
        let db = vfs::open(&rows.path.with_file_name("main.db")).expect("it opens");
        let attach = |db: &Connection| {
            let uri = vfs::uri(&rows.path, vfs::under_test(), "");
            db.execute("attach ? as b", [uri]).expect("attached");
        };
        if before.contains("b.") {
            attach(&db);
            db.execute_batch(before).expect("a pragma");
        } else {
            db.execute_batch(before).expect("a pragma");
            attach(&db);
        }
        db.execute_batch(after).expect("a pragma");
        let on: i64 = db
            .query_row("pragma b.secure_delete", [], |row| row.get(0))
            .expect("a setting");
        assert_eq!(on, 1, "{before}; {after}");
        db.execute_batch("create table b.t(id integer primary key, x blob)")
            .expect("a table");
        rows.put(&db, "b.t", 0..60);
        rows.delete(&db, "b.t", |id| id % 2 == 0);
        rows.assert_erased(&format!("{before}; {after}"));
    }
}

#[test]
fn the_pragma_answers_as_in_sqlite() {
    let rows = Rows::new();
    let db = rows.open(CREATE);
    for (value, answer) in [("on", 1), ("off", 0), ("fast", 2), ("2", 1), ("0", 0)] {
        let now: i64 = db
            .query_row(&format!("pragma secure_delete = {value}"), [], |row| {
                row.get(0)
            })
            .expect("an answer");
        assert_eq!(now, answer, "{value}");
    }
}

fn dictionaries(db: &Connection) -> i64 {
    db.query_row(
        "select json_array_length(litepack_info(), '$.dictionaries')",
        [],
        |row| row.get(0),
    )
    .expect("a report")
}

/// A dictionary is made of samples of rows, so none is made while they are to leave nothing; and one from before
/// goes with `VACUUM`.
#[test]
fn there_is_no_dictionary_of_deleted_rows() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let fill = |db: &Connection| {
        db.execute_batch(
            "insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000)
               select i, json_object('id', i, 'name', 'person ' || i, 'score', i * 7919 % 1000, 'tags',
               json_array('alpha', 'beta' || (i % 20))) from n",
        )
        .expect("rows");
    };
    let rows = Rows::new();
    let db = rows.open(&format!("pragma secure_delete = on; {CREATE}"));
    fill(&db);
    assert_eq!(dictionaries(&db), 0);

    let rows = Rows::new();
    let db = rows.open(CREATE);
    fill(&db);
    assert!(dictionaries(&db) > 0, "this shows nothing");
    db.execute_batch("pragma secure_delete = on; delete from t where id % 3 = 0; vacuum")
        .expect("run");
    assert_eq!(dictionaries(&db), 0);
    content::assert_sound(&db, "without dictionaries");
    db.execute_batch("pragma litepack_maintain").expect("run");
    assert_eq!(dictionaries(&db), 0);
    content::assert_sound(&db, "after maintenance");
}
