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
    // The statements left to the reader, too.
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

/// Notes, and a full-text table of them that is made so and filled from these rows.
fn notes(full_text: &str, rows: &str) -> String {
    format!(
        "CREATE TABLE note(id INTEGER PRIMARY KEY, at INT, title TEXT, body TEXT, origin INT);
         {NUMBERS} INSERT INTO note SELECT i * 3, i, 'Note ' || i, hex(randomblob(iif(i % 50, 100, 4000))), i
           FROM n LIMIT 4000;
         CREATE TABLE tag(id INTEGER PRIMARY KEY, note INT, name TEXT); INSERT INTO tag SELECT id, id, 'x' FROM note;
         CREATE VIRTUAL TABLE found USING fts5({full_text});
         INSERT INTO found(rowid, body, title) {rows};"
    )
}

/// A full-text table that repeats a table is named with it, and without the copy the file is as much smaller.
#[test]
fn a_full_text_table_with_a_copy_is_found() {
    let db = Db::of(&notes("body, title", "SELECT id, body, title FROM note"));
    let finding = found(&db, "full_text_copy");
    assert_eq!(
        finding.title,
        "full-text table found has a copy of note (body, title)"
    );
    let sqlite = Connection::open(&db.path).unwrap();
    sqlite.execute_batch("VACUUM").unwrap();
    let before = db.len();
    sqlite
        .execute_batch(
            "DROP TABLE found;
             CREATE VIRTUAL TABLE found USING fts5(body, title, content='note', content_rowid='id');
             INSERT INTO found(found) VALUES('rebuild'); VACUUM;",
        )
        .unwrap();
    let saved = before as f64 - db.len() as f64;
    let off = finding.saves_bytes as f64 / saved - 1.0;
    assert!(off.abs() < 0.1, "{finding:?}: really {saved}");
    let findings = db.advise().findings;
    assert!(
        findings.iter().all(|other| other.kind != "full_text_copy"),
        "{findings:?}"
    );
}

/// One with a column of another name for the key, which it does not search, has a copy, too.
#[test]
fn a_full_text_table_with_the_key_as_a_column_is_found() {
    let rows = "SELECT id, body, title FROM note; UPDATE found SET key = rowid";
    let db = Db::of(&notes("body, title, key UNINDEXED", rows));
    let title = found(&db, "full_text_copy").title;
    assert!(title.ends_with("note (body, title, id)"), "{title}");
}

/// Text that is nowhere else is no copy, nor is what no rowid leads to.
#[test]
fn full_text_tables_without_a_copy_are_left_alone() {
    for (full_text, rows) in [
        (
            "body, title, content=''",
            "SELECT id, body, title FROM note",
        ),
        (
            "body, title, content='note', content_rowid='id'",
            "SELECT id, body, title FROM note",
        ),
        ("body, title", "SELECT id, lower(body), title FROM note"),
        ("body, title", "SELECT id + 100000, body, title FROM note"),
        ("body, title", "SELECT id, body, 'in ' || title FROM note"),
        ("body, title", "SELECT id + 1, body, title FROM note"),
    ] {
        let findings = Db::of(&notes(full_text, rows)).advise().findings;
        assert!(
            findings
                .iter()
                .all(|finding| finding.kind != "full_text_copy"),
            "{full_text}, {rows}: {findings:?}"
        );
    }
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
        // Text that is no hexadecimal stays text.
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
        // The content of a virtual table is not touched.
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

/// The SQL of a finding as the stock shell runs it, that of Debian 12 too: the shell stops at an error.
fn in_the_shell(db: &Db, sql: &str) {
    let output = std::process::Command::new("sqlite3")
        .args(["-bail", "-init", "/dev/null"])
        .arg(&db.path)
        .arg(sql)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{sql}: {said}");
}

/// Each statement that is printed, of every kind, works in the shell that people have.
#[test]
fn sql_works_in_the_shell_of_the_system() {
    let hex = "lower(hex(randomblob(20)))";
    let uuid = "upper(substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-' || substr(h, 13, 4) || '-' || substr(h, 17, 4)
         || '-' || substr(h, 21, 12))";
    for (sql, kind, holds) in [
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, h TEXT, other); CREATE INDEX i ON t(h);
                     {NUMBERS} INSERT INTO t SELECT i, {hex}, NULL FROM n; UPDATE t SET other = h;
                     UPDATE t SET h = 'no digits' WHERE id = 7;
                     UPDATE t SET h = 'abc' WHERE id = 9; UPDATE t SET h = h || char(0) || 'x' WHERE id = 10;"),
            "hex_to_blob",
            "SELECT count(*) FROM t WHERE typeof(h) = 'blob' AND lower(hex(h)) = other AND id NOT IN (7, 9, 10)
                OR id IN (7, 9, 10) AND typeof(h) = 'text'",
        ),
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT, other); CREATE INDEX i ON t(u);
                     {NUMBERS} INSERT INTO t SELECT i, {uuid}, NULL FROM (SELECT i, hex(randomblob(16)) AS h FROM n);
                     UPDATE t SET other = u; UPDATE t SET u = replace(u, '-', '') WHERE id = 7;"),
            "hex_to_blob",
            "SELECT count(*) FROM t WHERE typeof(u) = 'blob' AND length(u) = 16 AND hex(u) = replace(other, '-', '')
                OR id = 7 AND typeof(u) = 'text'",
        ),
        (
            format!("CREATE TABLE t(k TEXT PRIMARY KEY, v INT); {NUMBERS} INSERT INTO t SELECT {hex}, i FROM n;"),
            "without_rowid",
            "SELECT count(*) FROM t_new",
        ),
        (
            format!("CREATE TABLE t(k INT, v BLOB, PRIMARY KEY(k)) WITHOUT ROWID;
                     {NUMBERS} INSERT INTO t SELECT i, iif(i % 10, x'', randomblob(1500)) FROM n;"),
            "with_rowid",
            "SELECT count(*) FROM t_new",
        ),
        (
            format!("CREATE TABLE t(a, b, c); CREATE INDEX short ON t(a); CREATE INDEX long ON t(a, b);
                     {NUMBERS} INSERT INTO t SELECT {hex}, i, i FROM n;"),
            "redundant_index",
            "SELECT count(*) FROM t INDEXED BY long WHERE a > ''",
        ),
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT);
                     {NUMBERS} INSERT INTO t SELECT i, json_object('user_id', {hex}, 'n', i % 7) FROM n;"),
            "json_key",
            "SELECT count(user_id) FROM t",
        ),
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, b);
                     {NUMBERS} INSERT INTO t SELECT i, hex(zeroblob(40)) || (i / 2) FROM n;"),
            "values_twice",
            "SELECT count(*) FROM t",
        ),
        (
            format!("CREATE TABLE t(id INTEGER PRIMARY KEY, b);
                     {NUMBERS} INSERT INTO t SELECT i, hex(zeroblob(40)) || (i / 2) FROM n;"),
            "rows_twice",
            "SELECT count(*) FROM t",
        ),
        (
            format!("CREATE TABLE t(a, b); {NUMBERS} INSERT INTO t SELECT i, {hex} FROM n; CREATE TABLE gone AS SELECT * FROM t;
                     DROP TABLE gone;"),
            "vacuum",
            "SELECT count(*) FROM t",
        ),
    ] {
        let db = Db::of(&sql);
        let finding = found(&db, kind);
        in_the_shell(&db, &finding.sql.unwrap());
        let sqlite = Connection::open(&db.path).unwrap();
        let held: i64 = sqlite.query_row(holds, [], |row| row.get(0)).unwrap();
        assert_eq!(held, 20_000, "{kind}: {holds}");
        let check: String = sqlite.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{kind}");
    }
}

/// In UTF-16 what is put together byte by byte would be another text.
#[test]
fn hex_in_utf16_has_no_sql() {
    let db = Db::of(&format!(
        "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(id INTEGER PRIMARY KEY, h TEXT);
         {NUMBERS} INSERT INTO t SELECT i, lower(hex(randomblob(20))) FROM n;"
    ));
    assert_eq!(found(&db, "hex_to_blob").sql, None);
}

fn finding_of(db: &Db, kind: &str) -> Option<litepack_advise::Finding> {
    db.advise()
        .findings
        .into_iter()
        .find(|finding| finding.kind == kind)
}

/// VACUUM saves what was promised, and after it there is nothing more to save: of rows of all sizes, that grow, and
/// that are in few of many tables.
#[test]
fn vacuum_gives_what_is_promised_and_is_not_promised_again() {
    let empty: String = (0..400)
        .map(|at| format!("CREATE TABLE e{at}(a);"))
        .collect();
    let random = "lower(hex(randomblob(20)))";
    for sql in [
        // The first rows say nothing of the others.
        format!("{empty} CREATE TABLE t(id INTEGER PRIMARY KEY, a); {NUMBERS}
                 INSERT INTO t SELECT i, hex(randomblob(i / 40)) FROM n;"),
        format!("{empty} CREATE TABLE t(id INTEGER PRIMARY KEY, a); {NUMBERS}
                 INSERT INTO t SELECT i, hex(randomblob(500 - i / 40)) FROM n; DELETE FROM t WHERE id % 5 = 0;"),
        format!("CREATE TABLE t(k TEXT PRIMARY KEY, a) WITHOUT ROWID; CREATE INDEX i ON t(a); {NUMBERS}
                 INSERT INTO t SELECT {random}, {random} FROM n;"),
        format!("CREATE TABLE t(a, b); CREATE INDEX i ON t(b); {NUMBERS}
                 INSERT INTO t SELECT i, iif(i % 20, {random}, hex(randomblob(1200))) FROM n; DELETE FROM t WHERE a % 3 = 0;"),
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
         INSERT INTO t SELECT i, randomblob(1200 + i * 20) FROM n;".to_owned(),
    ] {
        let db = Db::of(&sql);
        let before = db.len() as f64;
        let promised = finding_of(&db, "vacuum").map_or(0.0, |finding| finding.saves_bytes as f64);
        Connection::open(&db.path).unwrap().execute_batch("VACUUM").unwrap();
        let saved = before - db.len() as f64;
        assert!(promised <= saved + 0.01 * before, "{sql}: {promised} promised, {saved} saved of {before}");
        assert!(promised >= saved - 0.06 * before, "{sql}: {promised} promised, {saved} saved of {before}");
        assert_eq!(finding_of(&db, "vacuum"), None, "{sql}");
    }
}

/// Rows that are short but for a few would fill a page of their own each without a rowid; other indexes would have long
/// keys.
#[test]
fn nothing_is_proposed_that_takes_more_than_today() {
    let random = "lower(hex(randomblob(20)))";
    for (sql, helps) in [
        (format!("CREATE TABLE t(k INT PRIMARY KEY, v BLOB); {NUMBERS}
                  INSERT INTO t SELECT i, randomblob(iif(i % 20, 30, 2500)) FROM n;"), false),
        (format!("CREATE TABLE t(k TEXT PRIMARY KEY, a INT, b INT, c INT); CREATE INDEX a ON t(a); CREATE INDEX b ON t(b);
                  CREATE INDEX c ON t(c); {NUMBERS} INSERT INTO t SELECT {random}, i, i, i FROM n;"), false),
        (format!("CREATE TABLE t(k TEXT PRIMARY KEY, a INT); CREATE INDEX ka ON t(a, k);
                  {NUMBERS} INSERT INTO t SELECT {random}, i FROM n;"), true),
    ] {
        let db = Db::of(&sql);
        let found = finding_of(&db, "without_rowid");
        assert_eq!(found.is_some(), helps, "{sql}: {found:?}");
        // The other tables and indexes as they would be.
        let columns = if sql.contains("BLOB") { "k INT, v BLOB" } else if helps { "k TEXT, a INT" } else { "k TEXT, a INT, b INT, c INT" };
        let sqlite = Connection::open(&db.path).unwrap();
        sqlite.execute_batch("VACUUM").unwrap();
        let before = db.len() as f64;
        let indexes: Vec<String> = {
            let mut rows = sqlite.prepare("SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL").unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        sqlite.execute_batch(&format!(
            "CREATE TABLE new({columns}, PRIMARY KEY(k)) WITHOUT ROWID; INSERT INTO new SELECT * FROM t; DROP TABLE t;
             ALTER TABLE new RENAME TO t; {}; VACUUM;", indexes.join(";")
        )).unwrap();
        let saved = before - db.len() as f64;
        assert_eq!(saved > 0.0, helps, "{sql}: {saved} of {before}");
        if let Some(found) = found {
            assert!((found.saves_bytes as f64 / saved - 1.0).abs() < 0.15, "{found:?}: really {saved}");
        }
    }
    // Only an index for look-ups takes room, and is told apart.
    let db = Db::of(&format!("CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT, h TEXT);
        {NUMBERS} INSERT INTO t SELECT i, json_object('user_id', {random}, 'n', i % 7), {random} FROM n;"));
    let report = db.advise();
    let (smaller, faster) = report.findings_by_use();
    assert!(
        smaller.iter().all(|finding| finding.saves_bytes > 0) && !smaller.is_empty(),
        "{smaller:?}"
    );
    let kinds: Vec<_> = faster
        .iter()
        .map(|finding| (finding.kind, finding.saves_bytes < 0))
        .collect();
    assert_eq!(kinds, [("json_key", true)]);
}

/// Packing keeps pages that nothing uses: where they are most of the file, VACUUM comes first.
#[test]
fn vacuum_comes_before_packing_where_most_is_unused() {
    let random = "lower(hex(randomblob(20)))";
    let make = |rows: &str| {
        Db::of(&format!("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE TABLE gone(a);
             {NUMBERS} INSERT INTO t SELECT i, 'some words and ' || {random} FROM n LIMIT {rows};
             {NUMBERS} INSERT INTO gone SELECT {random} || {random} || {random} FROM n; DROP TABLE gone;"))
    };
    let db = make("20000");
    let packed = db.advise().recommendation;
    assert_eq!(packed.mode, "packed");
    assert!(packed.reason.contains("VACUUM first"), "{packed:?}");
    let command = packed.command.unwrap();
    let (vacuum, pack) = command.split_once('\n').unwrap();
    assert_eq!(vacuum, format!("sqlite3 {} VACUUM", db.path.display()));
    assert!(pack.starts_with("litepack pack "), "{pack}");
    // The same if the list of free pages is lost: nothing leads to them.
    let mut bytes = std::fs::read(&db.path).unwrap();
    bytes[32..40].fill(0);
    std::fs::write(&db.path, bytes).unwrap();
    let report = db.advise();
    assert_eq!(
        (report.free_bytes, report.recommendation.mode),
        (0, "packed")
    );
    assert!(
        report.recommendation.reason.contains("VACUUM first"),
        "{:?}",
        report.recommendation
    );
    let before = db.len() as f64;
    let promised = found(&db, "vacuum");
    assert!(promised.title.contains("nothing leads to"), "{promised:?}");
    in_the_shell(&db, "VACUUM;");
    let saved = before - db.len() as f64;
    assert!(
        (promised.saves_bytes as f64 / saved - 1.0).abs() < 0.05,
        "{promised:?}: really {saved}"
    );
    assert!(!db.advise().recommendation.reason.contains("VACUUM"));
    // The rest may be too small to be packed.
    let small = make("2000").advise().recommendation;
    assert_eq!(small.mode, "leave alone");
    assert!(small.reason.contains("VACUUM first") && small.command.unwrap().ends_with(" VACUUM"));
}

/// Of a packed file nothing saves more than there is, and what is saved is what is then saved of it.
#[test]
fn savings_of_packed_files_are_packed_bytes() {
    let db = Db::of(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, n INT); CREATE INDEX short ON t(a); CREATE INDEX long ON t(a, n);
         {NUMBERS} INSERT INTO t SELECT i, 'a text that stands in every row, with little else: ' || hex(randomblob(8)), i FROM n;
         CREATE TABLE gone(b); {NUMBERS} INSERT INTO gone SELECT randomblob(40) FROM n; DROP TABLE gone;"
    ));
    let plain = db.advise();
    let packed = db.file("packed");
    let options = litepack::PackOptions::default();
    litepack::pack(&db.path, &packed, &options, &litepack::Job::default()).unwrap();
    let size = len(&packed);
    let job = litepack::Job::default();
    let guessed = litepack_advise::advise(&packed, &super::unhurried(), &job).unwrap();
    let info = litepack::info(&packed, &job).unwrap();
    let measured =
        litepack_advise::advise_packed(&packed, &info, &super::unhurried(), &job).unwrap();
    let of = |report: &litepack_advise::Report, kind: &str| {
        let found = report.findings.iter().find(|finding| finding.kind == kind);
        found
            .unwrap_or_else(|| panic!("{kind}: {:?}", report.findings))
            .saves_bytes as f64
    };
    for report in [&guessed, &measured] {
        let all: i64 = report
            .findings
            .iter()
            .map(|finding| finding.saves_bytes)
            .sum();
        assert!(
            (all as f64) < size,
            "{all} of {size}: {:?}",
            report.findings
        );
        // The index is most of the plain database, and packed nearly nothing.
        assert!(
            of(report, "redundant_index") < 0.3 * of(&plain, "redundant_index"),
            "{:?}",
            report.findings
        );
        // Random bytes are as long packed as they were.
        let free = of(report, "vacuum") / plain.free_bytes as f64;
        assert!((0.7..1.1).contains(&free), "{free}: {:?}", report.findings);
    }
    let stored = |info: &litepack::Info, name: &str| {
        let mut trees = info.content.trees.iter();
        trees.find(|(tree, _)| tree.name == name).unwrap().1.stored as f64
    };
    let off = of(&measured, "redundant_index") - stored(&info, "short");
    assert!(off.abs() <= 1.0, "{off}");
    let error = of(&guessed, "redundant_index") / stored(&info, "short") - 1.0;
    assert!(error.abs() < 0.2, "{error}");
}
