//! What `litepack advise` says of databases, beside what then comes out.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use litepack::advise::{AdviseOptions, Kind, Report, advise, advise_packed};
use litepack::{Job, Limits, PackOptions, archive, columns, pack};
use litepack_io::random::SplitMix64;
use litepack_testdata::{blobs, logs, titles, tpch};
use rusqlite::Connection;
use tempfile::TempDir;

/// What is found does not depend on how fast the machine is.
fn unhurried() -> AdviseOptions {
    AdviseOptions {
        seconds: Some(600.0),
        ..AdviseOptions::default()
    }
}

struct Db {
    place: TempDir,
    path: PathBuf,
}

impl Db {
    fn new(create: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Db {
        let place = TempDir::new().unwrap();
        let path = place.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")
            .unwrap();
        create(&db).unwrap();
        Db { place, path }
    }

    fn of(sql: &str) -> Db {
        Db::new(|db| db.execute_batch(sql))
    }

    fn advise(&self) -> Report {
        advise(&self.path, &unhurried(), &Job::default()).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn len(&self) -> u64 {
        self.path.metadata().unwrap().len()
    }
}

const NUMBERS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";

fn len(path: &Path) -> f64 {
    path.metadata().unwrap().len() as f64
}

/// Compares each prediction with the real size.
fn expect_predicted(db: &Db, wanted: &[(&str, &str)], best: bool, sample_mb: u64) {
    let job = Job::default();
    let options = AdviseOptions {
        sample_bytes: sample_mb << 20,
        ..unhurried()
    };
    let report = advise(&db.path, &options, &job).unwrap();
    let packed = db.file("packed");
    let close = |name: &str, real: f64| {
        let mode = report.modes.iter().find(|mode| mode.name == name).unwrap();
        let size = mode.size.unwrap();
        let error = size.bytes as f64 / real - 1.0;
        assert!(
            error.abs() < 0.05,
            "{name}: {size:?}, really {real}: {error}"
        );
        assert!(size.low <= size.bytes && size.bytes <= size.high);
        let (low, high) = (size.low as f64 * 0.99, size.high as f64 * 1.01);
        assert!(
            (low..=high).contains(&real),
            "{name}: {size:?}, really {real}"
        );
    };
    for best in [false, true].into_iter().take(1 + usize::from(best)) {
        let options = PackOptions {
            best,
            replace: true,
            ..PackOptions::default()
        };
        pack(&db.path, &packed, &options, &job).unwrap();
        close(if best { "packed best" } else { "packed" }, len(&packed));
    }
    let zst = db.file("zst");
    archive::create(&db.path, &zst, &archive::CreateOptions::default(), &job).unwrap();
    close("archive", len(&zst));
    let columns_mode = report.modes.iter().find(|mode| mode.name == "columns");
    let columns_mode = columns_mode.unwrap();
    let chosen: Vec<(&str, &str)> = (columns_mode.columns.iter())
        .map(|chosen| (&*chosen.table, &*chosen.column))
        .collect();
    assert_eq!(chosen, wanted);
    if chosen.is_empty() {
        assert_eq!(columns_mode.size, None, "{columns_mode:?}");
        return;
    }
    for (table, column) in chosen {
        columns::enable(&db.path, &columns::Column::new(table, column)).unwrap();
    }
    columns::maintain(&db.path, &Limits::default(), true, &job).unwrap();
    close("columns", len(&db.path));
}

#[test]
fn sizes_of_json_are_predicted() {
    let db = Db::new(|db| titles::create(db, 20_000, 1));
    expect_predicted(&db, &[("title", "data")], true, 64);
}

#[test]
fn sizes_of_logs_are_predicted() {
    let with = logs::Indexes::With;
    let db = Db::new(|db| logs::create(db, 10_000, 1, logs::Layout::Json, with));
    expect_predicted(&db, &[("log", "data")], true, 64);
    let db = Db::new(|db| logs::create(db, 15_000, 1, logs::Layout::Columns, with));
    expect_predicted(&db, &[("log", "user_agent")], false, 64);
}

#[test]
fn sizes_of_blobs_are_predicted() {
    let db = Db::new(|db| blobs::create(db, 60, 1));
    expect_predicted(&db, &[], true, 64);
    let chosen = db.advise().recommendation;
    assert_eq!(chosen.mode, "leave alone", "{chosen:?}");
    assert_eq!(chosen.command, None);
}

/// From a part of the pages, too.
#[test]
fn sizes_of_tpch_are_predicted_from_a_sample() {
    let db = Db::new(|db| tpch::create(db, 0.01));
    let wanted = [("partsupp", "ps_comment"), ("orders", "o_comment")];
    expect_predicted(&db, &wanted, false, 8);
    let chosen = db.advise().recommendation;
    assert_eq!(chosen.mode, "packed", "{chosen:?}");
}

/// A small shop of many tables, as samples of databases are: all of it is read, and too small for another format.
#[test]
fn a_small_shop_is_left_alone() {
    let db = Db::of(&format!(
        "CREATE TABLE artist(id INTEGER NOT NULL PRIMARY KEY, name NVARCHAR(120));
         CREATE TABLE track(id INTEGER NOT NULL PRIMARY KEY, name NVARCHAR(200) NOT NULL, artist INTEGER REFERENCES artist(id),
             composer NVARCHAR(220), milliseconds INTEGER NOT NULL, price NUMERIC(10, 2) NOT NULL);
         CREATE TABLE line(id INTEGER NOT NULL PRIMARY KEY, track INTEGER NOT NULL REFERENCES track(id), n INTEGER NOT NULL);
         CREATE TABLE listed(list INTEGER NOT NULL, track INTEGER NOT NULL REFERENCES track(id),
             CONSTRAINT pk PRIMARY KEY (list, track));
         {NUMBERS} INSERT INTO artist SELECT i, 'Artist ' || abs(random() % 99999) FROM n LIMIT 300;
         {NUMBERS} INSERT INTO track SELECT i, 'Song ' || hex(randomblob(6)), i % 300 + 1,
             iif(i % 3, 'Composer ' || (i % 300) || ', ' || abs(random() % 999), NULL), abs(random() % 400000), 0.99
             FROM n LIMIT 3500;
         {NUMBERS} INSERT INTO line SELECT i, abs(random() % 3500) + 1, 1 FROM n LIMIT 2200;
         {NUMBERS} INSERT INTO listed SELECT i % 3, i / 3 + 1 FROM n LIMIT 9000;
         CREATE INDEX track_artist ON track(artist); CREATE INDEX line_track ON line(track);
         CREATE INDEX listed_list ON listed(list); CREATE INDEX listed_track ON listed(track);"
    ));
    let report = db.advise();
    assert!(report.is_whole && db.len() < 1 << 20, "{}", db.len());
    assert_eq!(report.recommendation.mode, "leave alone");
    let finding = found(&db, "redundant_index");
    assert_eq!(finding.sql.as_deref(), Some("DROP INDEX \"listed_list\";"));
    // It is at the end of a foreign key and has other indexes: nothing that could be pasted.
    assert_eq!(found(&db, "without_rowid").sql, None);
    expect_predicted(&db, &[], true, 64);
}

/// Every byte is somewhere, and what is said of trees and columns is what SQLite says.
#[test]
fn the_bytes_are_those_of_sqlite() {
    let db = Db::of(&format!(
        "PRAGMA auto_vacuum=2;
         CREATE TABLE r(id INTEGER PRIMARY KEY, t TEXT, b BLOB, x REAL, n);
         CREATE TABLE w(k TEXT, v TEXT, PRIMARY KEY(k)) WITHOUT ROWID;
         CREATE INDEX i ON r(t, n);
         {NUMBERS} INSERT INTO r SELECT i, 'text ' || i, randomblob(iif(i % 100, 30, 9000)), i / 7.0, i FROM n;
         INSERT INTO w SELECT t, hex(b) FROM r WHERE id % 100;
         DELETE FROM r WHERE id > 18000;"
    ));
    let report = db.advise();
    assert!(report.is_whole && report.bad_pages == 0, "{report:?}");
    let trees: u64 = report.trees.iter().map(|tree| tree.bytes).sum();
    let others = report.free_bytes + report.pointer_map_bytes + report.other_bytes;
    assert_eq!(trees + others, db.len());
    assert_eq!(report.other_bytes, 0);
    assert!(report.free_bytes > 0 && report.pointer_map_bytes > 0);
    let sqlite = Connection::open(&db.path).unwrap();
    let number = |sql: &str| {
        sqlite
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap() as u64
    };
    for tree in &report.trees {
        let columns: u64 = tree.columns.iter().map(|column| column.bytes).sum();
        assert_eq!(columns + tree.overhead.sum(), tree.bytes, "{tree:?}");
        let name = &tree.name;
        let of = format!("FROM dbstat WHERE name = '{name}' AND aggregate = TRUE");
        assert_eq!(
            tree.bytes,
            number(&format!("SELECT sum(pgsize) {of}")),
            "{name}"
        );
        // Of b-trees of keys some rows are above the leaves.
        let rows = match tree.table.as_str() {
            "sqlite_schema" => 3,
            table => number(&format!("SELECT count(*) FROM {table}")),
        };
        assert_eq!(tree.rows, rows, "{name}");
    }
    let of = |name: &str| report.trees.iter().find(|tree| tree.name == name).unwrap();
    for (table, column, sql) in [
        ("r", "t", "SELECT sum(length(t)) FROM r"),
        ("r", "b", "SELECT sum(length(b)) FROM r"),
        ("w", "v", "SELECT sum(length(v)) FROM w"),
        ("r", "x", "SELECT 8 * count(x) FROM r"),
    ] {
        let columns = &of(table).columns;
        let found = columns
            .iter()
            .find(|found| found.name.as_deref() == Some(column));
        let (found, real) = (found.unwrap().bytes as f64, number(sql) as f64);
        assert!(
            (found / real - 1.0).abs() < 0.03,
            "{table}.{column}: {found} {real}"
        );
    }
    assert_eq!(of("r").rows, 18_000);
    assert!(
        of("r")
            .columns
            .iter()
            .any(|column| column.name.as_deref() == Some("id"))
    );
    let names: Vec<_> = of("i")
        .columns
        .iter()
        .map(|column| column.name.clone().unwrap())
        .collect();
    assert!(
        names.contains(&"t".into()) && names.contains(&"id".into()),
        "{names:?}"
    );
}

#[test]
fn kinds_of_payload_are_named() {
    let db = Db::of(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, json, at, uuid, hash, num, url, few, jpg, words);
         {NUMBERS} INSERT INTO t SELECT i,
             json_object('name', 'n' || i, 'longer_key', i, 'list', json_array(1, i)),
             strftime('%Y-%m-%dT%H:%M:%SZ', i * 1000, 'unixepoch'),
             substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-' || substr(h, 13, 4) || '-' || substr(h, 17, 4) || '-' ||
                 substr(h, 21, 12),
             h, '' || (i * 7), 'https://example.org/' || i, iif(i % 3, 'often', 'seldom'),
             x'ffd8ffe0' || randomblob(60), 'some words and ' || i || ' more'
         FROM (SELECT i, lower(hex(randomblob(16))) AS h FROM n LIMIT 5000);"
    ));
    let report = db.advise();
    let tree = report.trees.iter().find(|tree| tree.name == "t").unwrap();
    let kind = |name: &str| {
        let columns = &tree.columns;
        let column = columns
            .iter()
            .find(|column| column.name.as_deref() == Some(name));
        column.unwrap()
    };
    for (name, wanted) in [
        ("json", Kind::Json),
        ("at", Kind::IsoDates),
        ("uuid", Kind::Uuids),
        ("hash", Kind::Hex),
        ("num", Kind::NumbersAsText),
        ("url", Kind::Urls),
        ("words", Kind::Text),
        ("id", Kind::Integers),
    ] {
        assert_eq!(kind(name).kind, Some(wanted), "{name}");
    }
    // A blob joined by || is a text in SQLite.
    assert_eq!(kind("few").distinct, Some(2));
    assert!((0.4..0.8).contains(&kind("json").json_keys.unwrap()));
}

/// The finding of a kind, for a database made by some SQL.
fn found(db: &Db, kind: &str) -> litepack::advise::Finding {
    let report = db.advise();
    let mut findings = report.findings.iter();
    let found = findings.find(|finding| finding.kind == kind);
    found
        .unwrap_or_else(|| panic!("{:?}", report.findings))
        .clone()
}

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

/// A writer that waits for nobody is never refused, in any journal mode.
#[test]
fn writers_go_on_meanwhile() {
    for mode in ["WAL", "DELETE"] {
        let db = Db::of(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT);
             {NUMBERS} INSERT INTO t SELECT i, hex(randomblob(100)) FROM n;"
        ));
        let writer = Connection::open(&db.path).unwrap();
        writer.pragma_update(None, "journal_mode", mode).unwrap();
        writer.pragma_update(None, "synchronous", "OFF").unwrap();
        writer.execute("INSERT INTO t(a) VALUES ('x')", []).unwrap();
        writer.busy_timeout(Duration::ZERO).unwrap();
        let stop = AtomicBool::new(false);
        let mut commits = 0;
        let reports: Vec<_> = std::thread::scope(|scope| {
            let advised = scope.spawn(|| {
                let once = |_| advise(&db.path, &AdviseOptions::default(), &Job::default());
                let reports = (0..2).map(once).collect();
                stop.store(true, Ordering::Relaxed);
                reports
            });
            while !stop.load(Ordering::Relaxed) {
                let sql = "UPDATE t SET a = hex(randomblob(100)) WHERE id = abs(random()) % 20000";
                writer.execute(sql, []).unwrap();
                commits += 1;
            }
            advised.join().unwrap()
        });
        assert!(commits > 100, "{mode}: {commits}");
        for report in reports {
            let report = report.unwrap();
            let tree = report.trees.iter().find(|tree| tree.name == "t").unwrap();
            assert!((19_500..=20_500).contains(&tree.rows), "{mode}: {tree:?}");
        }
    }
}

/// Packed files and archives have the same content, and so the same advice on where bytes go.
#[test]
fn other_forms_are_read_too() {
    let db = Db::new(|db| titles::create(db, 5000, 1));
    let plain = db.advise();
    let (packed, zst) = (db.file("packed"), db.file("zst"));
    pack(&db.path, &packed, &PackOptions::default(), &Job::default()).unwrap();
    let options = archive::CreateOptions::default();
    archive::create(&db.path, &zst, &options, &Job::default()).unwrap();
    for (path, kind) in [(&packed, "packed"), (&zst, "archive")] {
        let report = advise(path, &AdviseOptions::default(), &Job::default()).unwrap();
        assert_eq!(report.kind, kind);
        assert_eq!(report.trees, plain.trees);
        assert_eq!(report.file_bytes, path.metadata().unwrap().len());
        assert_eq!(report.recommendation.mode, "leave alone");
    }
    let empty = db.file("empty");
    std::fs::write(&empty, b"").unwrap();
    let error = advise(&empty, &AdviseOptions::default(), &Job::default()).unwrap_err();
    assert!(error.to_string().contains("empty"), "{error}");
    std::fs::write(&empty, [7; 9000]).unwrap();
    assert!(advise(&empty, &AdviseOptions::default(), &Job::default()).is_err());
}

/// Names of any content and length, and many tables, are shown as they are and do nothing.
#[test]
fn hostile_schemas_do_nothing() {
    let long = "x".repeat(900_000);
    let mut sql = format!("CREATE TABLE \"{long}\"(a TEXT); INSERT INTO \"{long}\" VALUES ('1');");
    let evil = "</script><script>alert(1)</script>\"'`<img src=x onerror=alert(2)>\u{202e}\n; DROP TABLE t; --";
    let quoted = evil.replace('"', "\"\"");
    sql += &format!(
        "CREATE TABLE \"{quoted}\"(\"{quoted}\" TEXT PRIMARY KEY, \"a\"\"b\" TEXT);
         {NUMBERS} INSERT INTO \"{quoted}\" SELECT lower(hex(randomblob(16))), lower(hex(randomblob(16))) FROM n;"
    );
    sql += "CREATE TABLE \"a\"\";DROP TABLE t;--\"(\"h\"\"\"\"\" TEXT);";
    sql += &format!(
        "{NUMBERS} INSERT INTO \"a\"\";DROP TABLE t;--\" SELECT lower(hex(randomblob(32))) FROM n;"
    );
    sql += "BEGIN;";
    for at in 0..2000 {
        sql += &format!("CREATE TABLE \"<b>{at}\"(a);");
    }
    sql += "COMMIT;";
    let db = Db::of(&sql);
    let page = db.file("page.html");
    let options = AdviseOptions {
        html: Some(page.clone()),
        ..AdviseOptions::default()
    };
    let report = advise(&db.path, &options, &Job::default()).unwrap();
    assert_eq!(report.trees.len(), 2005);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.len() < 2 << 20, "{}", html.len());
    for markup in ["<b>1", "<img", "alert(1)</script>", "x\u{2026}\u{2026}"] {
        assert!(!html.contains(markup), "{markup}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("&#60;b&#62;") || html.contains("&lt;b&gt;"));
    // SQL with a name that could be misread is not given; other names are quoted, and the statements do what they say.
    let mut given = 0;
    for finding in &report.findings {
        let Some(sql) = &finding.sql else { continue };
        given += 1;
        assert!(!sql.contains('\u{202e}') && sql.len() < 10_000, "{sql}");
        let sqlite = Connection::open(&db.path).unwrap();
        sqlite.execute_batch(sql).unwrap();
        let tables: u32 = sqlite
            .query_row(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(tables, 2003, "{sql}");
    }
    assert!(given > 0, "{:?}", report.findings);
    // An existing page is kept.
    assert!(advise(&db.path, &options, &Job::default()).is_err());
}

/// Bytes of any kind cost an error or a report, and neither time nor memory.
#[test]
fn damaged_databases_do_nothing() {
    let seed = std::env::var("LITEPACK_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("LITEPACK_SEED={seed}");
    let mut random = SplitMix64::new(seed);
    let db = Db::of(&format!(
        "CREATE TABLE r(id INTEGER PRIMARY KEY, t TEXT, b BLOB); CREATE INDEX i ON r(t);
         CREATE TABLE w(k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID;
         {NUMBERS} INSERT INTO r SELECT i, 'text ' || i, randomblob(iif(i % 50, 30, 9000)) FROM n LIMIT 3000;
         INSERT INTO w SELECT t, json_object('a', hex(b)) FROM r WHERE id < 500;"
    ));
    let sound = std::fs::read(&db.path).unwrap();
    let options = AdviseOptions {
        sample_bytes: 1 << 20,
        ..AdviseOptions::default()
    };
    let mut reports = 0;
    for _ in 0..12 {
        let mut damaged = sound.clone();
        for _ in 0..200 {
            let at = random.below(damaged.len() as u64) as usize;
            // The schema stays, or else SQLite refuses most of them.
            if at > 4096 {
                damaged[at] = random.next_u64() as u8;
                // Headers of pages more often than others.
                damaged[at / 4096 * 4096 + (random.below(16) as usize)] = random.next_u64() as u8;
            }
        }
        std::fs::write(&db.path, &damaged).unwrap();
        let Ok(report) = advise(&db.path, &options, &Job::default()) else {
            continue;
        };
        reports += 1;
        let trees: u64 = report.trees.iter().map(|tree| tree.bytes).sum();
        assert!(trees <= 2 * report.database_bytes, "{report:?}");
        assert!(report.bad_pages > 0);
    }
    assert!(reports > 5, "{reports}");
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

/// Neither locks, nor a journal, nor a WAL without its `-shm`, nor a pipe in its place stop it, and it leaves no file.
#[test]
fn nothing_is_written_beside_and_no_lock_is_waited_for() {
    let rows = format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); {NUMBERS} INSERT INTO t SELECT i, hex(randomblob(99)) FROM n;"
    );
    let changed = "PRAGMA cache_size=1; BEGIN; UPDATE t SET a = 'x' WHERE id % 7 = 0;";
    for (mode, suffix) in [("DELETE", "-journal"), ("WAL", "-wal")] {
        let made = Db::of(&rows);
        let writer = Connection::open(&made.path).unwrap();
        writer.pragma_update(None, "journal_mode", mode).unwrap();
        writer
            .execute_batch("PRAGMA wal_autocheckpoint=0; INSERT INTO t VALUES (0, '');")
            .unwrap();
        writer.execute_batch(changed).unwrap();
        let db = Db::of("");
        for suffix in ["", suffix] {
            let of = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
            std::fs::copy(of(&made.path), of(&db.path)).unwrap();
        }
        let report = db.advise();
        assert_eq!(report.trees[0].name, "t");
        assert!(
            report.trees[0]
                .columns
                .iter()
                .any(|column| column.name.as_deref() == Some("a"))
        );
        let files = std::fs::read_dir(db.place.path()).unwrap();
        assert_eq!(files.count(), 2, "{mode}");
    }
    let db = Db::of(&rows);
    let holder = Connection::open(&db.path).unwrap();
    holder
        .execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE")
        .unwrap();
    assert_eq!(db.advise().trees[0].name, "t");
    drop(holder);
    let pipe = format!("{}-wal", db.path.display());
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(db.advise().trees[0].name, "t");
}

/// The page takes the place of neither the database nor what SQLite keeps beside it.
#[test]
fn the_page_is_no_part_of_the_database() {
    let db = Db::of("CREATE TABLE t(a); INSERT INTO t VALUES (1);");
    std::fs::create_dir(db.file("sub")).unwrap();
    for suffix in ["", "-wal", "-journal", "-shm"] {
        let beside = db.file(&format!("a.db{suffix}"));
        if !suffix.is_empty() && suffix != "-journal" {
            std::fs::write(&beside, b"").unwrap();
        }
        let before = std::fs::read(&beside).ok();
        for html in [beside.clone(), db.file(&format!("sub/../a.db{suffix}"))] {
            let options = AdviseOptions {
                html: Some(html),
                replace: true,
                ..AdviseOptions::default()
            };
            let error = advise(&db.path, &options, &Job::default()).unwrap_err();
            assert!(
                error.to_string().contains("part of the database"),
                "{error}"
            );
        }
        assert_eq!(std::fs::read(&beside).ok(), before);
    }
}

/// Rows that claim fields, and views that claim rows, take neither memory nor time.
#[test]
fn claims_cost_nothing() {
    let mut sql = "BEGIN; CREATE TABLE wide(a); CREATE VIEW v0 AS SELECT a FROM wide;".to_owned();
    for at in 0..200 {
        sql += &format!("CREATE TABLE t{at}(a);");
    }
    for at in 1..40 {
        sql += &format!(
            "CREATE VIEW v{at} AS SELECT x.a FROM v{} x, v{} y;",
            at - 1,
            at - 1
        );
    }
    let db = Db::of(&(sql + "COMMIT;"));
    // A row of 2,000 NULLs in each of them.
    let mut bytes = std::fs::read(&db.path).unwrap();
    let mut leaf = vec![0; 4096];
    leaf[..8].copy_from_slice(&[13, 0, 0, 0, 1, 0x07, 0xd0, 0]);
    leaf[8..10].copy_from_slice(&2000_u16.to_be_bytes());
    leaf[2000..2005].copy_from_slice(&[0x8f, 0x52, 1, 0x8f, 0x52]);
    let roots: Vec<u32> = {
        let sqlite = Connection::open(&db.path).unwrap();
        let mut roots = sqlite
            .prepare("SELECT rootpage FROM sqlite_schema WHERE type = 'table'")
            .unwrap();
        roots
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    for root in &roots {
        let at = (*root as usize - 1) * 4096;
        bytes[at..at + 4096].copy_from_slice(&leaf);
    }
    std::fs::write(&db.path, &bytes).unwrap();
    let report = db.advise();
    let columns: usize = report.trees.iter().map(|tree| tree.columns.len()).sum();
    assert_eq!(report.bad_pages, 0);
    assert!((60_000..=66_000).contains(&columns), "{columns}");
    assert!(report.seconds < 60.0, "{}", report.seconds);
}

/// The page of a packed file has the sizes that `info` measures.
#[test]
fn what_a_packed_file_takes_is_real() {
    let db = Db::new(|db| titles::create(db, 5000, 1));
    let packed = db.file("packed");
    pack(&db.path, &packed, &PackOptions::default(), &Job::default()).unwrap();
    let info = litepack::info(&packed, &Job::default()).unwrap();
    let options = AdviseOptions {
        html: Some(db.file("page.html")),
        ..AdviseOptions::default()
    };
    let report = advise_packed(&packed, &info, &options, &Job::default()).unwrap();
    assert!(report.is_measured);
    let size = report
        .modes
        .iter()
        .find(|mode| mode.name == "packed")
        .unwrap()
        .size
        .unwrap();
    assert_eq!(
        [size.bytes, size.low, size.high],
        [packed.metadata().unwrap().len(); 3]
    );
    for (tree, share) in &info.content.trees {
        let found = report
            .trees
            .iter()
            .find(|found| found.name == tree.name)
            .unwrap();
        assert_eq!(found.packed_bytes, share.stored, "{}", tree.name);
        let columns: u64 = found.columns.iter().map(|column| column.packed_bytes).sum();
        assert!(columns <= share.stored, "{found:?}");
    }
    let page = std::fs::read_to_string(db.file("page.html")).unwrap();
    assert!(page.contains("is real") && page.contains(&format!("data-value=\"{}\"", size.bytes)));
}
