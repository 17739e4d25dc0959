//! Findings save what they promise, and their SQL loses nothing.

use rusqlite::Connection;

use super::{Db, NUMBERS, found, len};

/// Does what a finding says, and compares what that saves.
fn expect_kept_promise(sql: &str, kind: &str, off: f64) {
    let db = Db::of(sql);
    // VACUUM gives back what is not the finding's.
    let before = {
        let copy = db.file("before");
        std::fs::copy(&db.path, &copy).unwrap();
        if kind != "vacuum" {
            Connection::open(&copy)
                .unwrap()
                .execute_batch("VACUUM")
                .unwrap();
        }
        len(&copy)
    };
    let finding = found(&db, kind);
    let sqlite = Connection::open(&db.path).unwrap();
    sqlite.execute_batch("PRAGMA synchronous=OFF").unwrap();
    // What is left to the reader, too.
    let sql = finding
        .sql
        .clone()
        .unwrap()
        .replace("\n-- Only", "\n--- Only");
    sqlite.execute_batch(&sql.replace("\n-- ", "\n")).unwrap();
    sqlite.execute_batch("VACUUM").unwrap();
    let check: String = sqlite
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    drop(sqlite);
    let saved = before - db.len() as f64;
    let promised = finding.saves_bytes as f64;
    assert!(
        (promised / saved - 1.0).abs() < off,
        "{finding:?}: really {saved}"
    );
}

#[test]
fn findings_keep_their_promises() {
    let hash = "lower(hex(randomblob(20)))";
    for (sql, kind, off) in [
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, h TEXT); CREATE INDEX i ON t(h);
                     {NUMBERS} INSERT INTO t SELECT i, {hash} FROM n;"),
            "hex_to_blob",
            0.15,
        ),
        (
            format!("CREATE TABLE t(a, b, c); CREATE INDEX short ON t(a); CREATE INDEX long ON t(a, b);
                     {NUMBERS} INSERT INTO t SELECT {hash}, i, i FROM n;"),
            "redundant_index",
            0.15,
        ),
        (
            format!("CREATE TABLE t(k TEXT PRIMARY KEY, v INT);
                     {NUMBERS} INSERT INTO t SELECT {hash}, i FROM n;"),
            "without_rowid",
            0.15,
        ),
        (
            format!("CREATE TABLE t(k INT, v BLOB, PRIMARY KEY(k)) WITHOUT ROWID;
                     {NUMBERS} INSERT INTO t SELECT i, randomblob(1500) FROM n LIMIT 2000;"),
            "with_rowid",
            0.25,
        ),
        (
            format!("CREATE TABLE t(a, b); {NUMBERS} INSERT INTO t SELECT i, {hash} FROM n;
                     DELETE FROM t WHERE a % 3 > 0;"),
            "vacuum",
            0.1,
        ),
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT);
                     {NUMBERS} INSERT INTO t SELECT i, json_object('user_id', {hash}, 'n', i % 7) FROM n;"),
            "json_key",
            0.35,
        ),
    ] {
        expect_kept_promise(&sql, kind, off);
    }
}

#[test]
fn what_stands_twice_is_found() {
    let db = Db::of(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b);
         {NUMBERS} INSERT INTO t(a, b) SELECT i / 2, hex(zeroblob(40)) || (i / 2) FROM n;"
    ));
    let rows = found(&db, "rows_twice");
    assert!(
        rows.title.contains("50 %") && rows.title.contains("but for id"),
        "{rows:?}"
    );
    let values = found(&db, "values_twice");
    let sqlite = Connection::open(&db.path).unwrap();
    for sql in [rows.sql, values.sql] {
        let sql = sql.unwrap();
        let count: i64 = sqlite.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 2, "{sql}");
    }
    let pages = Db::of(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, b);
         INSERT INTO t VALUES (0, randomblob(400000));
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) INSERT INTO t SELECT i, b FROM n, t;",
    );
    assert!(found(&pages, "identical_pages").saves_bytes > 3_000_000);
}

/// Indexes that are needed are left alone.
#[test]
fn no_index_is_called_needless_that_is_not() {
    let db = Db::of(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT, c TEXT UNIQUE);
         CREATE INDEX ab ON t(a, b);
         CREATE INDEX b ON t(b);
         CREATE UNIQUE INDEX ua ON t(a);
         CREATE INDEX nocase ON t(a COLLATE nocase);
         CREATE INDEX falling ON t(a DESC, c);
         CREATE INDEX part ON t(a) WHERE b > 'x';
         CREATE INDEX expr ON t(length(a));
         {NUMBERS} INSERT INTO t SELECT i, 'a' || i, 'b' || i, 'c' || i FROM n;"
    ));
    let findings = db.advise().findings;
    assert!(
        findings.iter().all(|f| f.kind != "redundant_index"),
        "{findings:?}"
    );
    let twice = Db::of(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, c TEXT UNIQUE);
         CREATE INDEX x ON t(a); CREATE INDEX y ON t(a); CREATE UNIQUE INDEX uc ON t(c); CREATE INDEX pk ON t(id);
         {NUMBERS} INSERT INTO t SELECT i, 'a' || i, 'c' || i FROM n;"
    ));
    let mut dropped: Vec<_> = (twice.advise().findings.into_iter())
        .filter(|finding| finding.kind == "redundant_index")
        .map(|finding| finding.sql.unwrap())
        .collect();
    dropped.sort();
    // Of x and y one stays.
    assert_eq!(
        dropped,
        [
            "DROP INDEX \"pk\";",
            "DROP INDEX \"uc\";",
            "DROP INDEX \"y\";"
        ]
    );
}

/// The SQL of all findings as a shell runs it that goes on after an error, with foreign keys on.
fn paste(db: &Db) -> (Vec<&'static str>, Connection) {
    let findings = db.advise().findings;
    let sqlite = Connection::open(&db.path).unwrap();
    sqlite
        .execute_batch("PRAGMA synchronous=OFF; PRAGMA foreign_keys=ON")
        .unwrap();
    for sql in findings.iter().filter_map(|finding| finding.sql.as_deref()) {
        let kept: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
        for statement in kept.join("\n").split_inclusive(';') {
            let _ = sqlite.execute_batch(statement);
        }
    }
    (
        findings.iter().map(|finding| finding.kind).collect(),
        sqlite,
    )
}

/// Whatever is pasted, and whatever fails of it, no row is lost, and none means something else.
#[test]
fn pasted_sql_loses_nothing() {
    let hex = "lower(hex(randomblob(16)))";
    for (sql, count, offered) in [
        // NULL in a key, which a table WITHOUT ROWID cannot have.
        (
            format!("CREATE TABLE t(k TEXT PRIMARY KEY, v INT); {NUMBERS} INSERT INTO t SELECT {hex}, i FROM n;
                     UPDATE t SET k = NULL WHERE v % 1000 = 0;"),
            "SELECT count(*) FROM t",
            None,
        ),
        // Rows that refer to it would be deleted with the table.
        (
            format!("CREATE TABLE t(k TEXT PRIMARY KEY, v INT); CREATE TABLE c(x REFERENCES t ON DELETE CASCADE);
                     {NUMBERS} INSERT INTO t SELECT {hex}, i FROM n; INSERT INTO c SELECT k FROM t;"),
            "SELECT count(*) FROM c JOIN t ON x = k",
            Some("without_rowid"),
        ),
        // Defaults and collations.
        (
            format!("CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v INT DEFAULT 7);
                     {NUMBERS} INSERT INTO t SELECT {hex} || 'x', i FROM n;"),
            "SELECT count(*) FROM t WHERE k = upper(k)",
            Some("without_rowid"),
        ),
        // What is no hexadecimal stays text.
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, h TEXT);
                     {NUMBERS} INSERT INTO t SELECT i, iif(i % 200, {hex}, iif(i % 400, 'abc', '')) FROM n;"),
            "SELECT count(*) FROM t WHERE h IN ('abc', '') OR typeof(h) = 'blob' AND length(h) = 16",
            Some("hex_to_blob"),
        ),
        // Upper and lower case are the same in a blob.
        (
            format!(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, h TEXT);
                     {NUMBERS} INSERT INTO t SELECT i, iif(i % 200, {hex}, upper({hex})) FROM n;"
            ),
            "SELECT count(*) FROM t WHERE typeof(h) = 'text'",
            Some("hex_to_blob"),
        ),
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, h TEXT); CREATE TABLE log(h);
                     {NUMBERS} INSERT INTO t SELECT i, {hex} FROM n;
                     CREATE TRIGGER r AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (old.h); END;"),
            "SELECT count(*) = 0 FROM log",
            Some("hex_to_blob"),
        ),
        // Rows that are no JSON can still be read.
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT) STRICT; {NUMBERS} INSERT INTO t
                     SELECT i, iif(i % 200, json_object('user_id', {hex}, 'n', i % 7), 'none') FROM n;"),
            "SELECT count(user_id) FROM (SELECT * FROM t)",
            Some("json_key"),
        ),
        // What a virtual table keeps is not touched.
        (
            format!("CREATE VIRTUAL TABLE f USING fts5(h); {NUMBERS} INSERT INTO f SELECT {hex} FROM n;"),
            "SELECT count(*) FROM f WHERE typeof(h) = 'text'",
            None,
        ),
        // A constraint that replaces rows does not refuse them as the index does.
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT UNIQUE ON CONFLICT REPLACE); CREATE UNIQUE INDEX u ON t(c);
                     {NUMBERS} INSERT INTO t SELECT i, {hex} || 'x' FROM n;"),
            "SELECT count(*) FROM sqlite_schema WHERE name = 'u'",
            None,
        ),
    ] {
        let db = Db::of(&sql);
        let wanted = match sql.as_str() {
            sql if sql.contains("REPLACE") || sql.contains("TRIGGER") => 1,
            sql if sql.contains("user_id") => 19_900,
            _ => 20_000,
        };
        let (kinds, sqlite) = paste(&db);
        assert!(offered.is_none_or(|kind| kinds.contains(&kind)), "{sql}: {kinds:?}");
        let found: i64 = sqlite.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(found, wanted, "{sql}: {kinds:?}");
    }
}
