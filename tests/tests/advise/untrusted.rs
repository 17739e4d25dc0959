//! Databases made to do harm, or damaged, cost an error or a report, and neither time nor memory.

use litepack::Job;
use litepack_advise::{AdviseOptions, advise};
use litepack_io::random::SplitMix64;
use rusqlite::Connection;

use super::{Db, NUMBERS};

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
         INSERT INTO w SELECT t, json_object('a', hex(b)) FROM r WHERE id < 500;
         CREATE VIRTUAL TABLE f USING fts5(t); INSERT INTO f(rowid, t) SELECT id, t FROM r;"
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
    // Of the 600 that it may take.
    assert!(report.seconds < 300.0, "{}", report.seconds);
}
