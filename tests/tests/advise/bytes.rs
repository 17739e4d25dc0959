//! Where the bytes are: trees, columns and payloads, in files of every form.

use litepack::{Job, PackOptions, archive, pack};
use litepack_advise::{AdviseOptions, Kind, advise, advise_packed};
use litepack_testdata::titles;
use rusqlite::Connection;

use super::{Db, NUMBERS, unhurried};

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
        let report = advise(path, &unhurried(), &Job::default()).unwrap();
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
    // When and by which version, and on a narrow screen the sizes and how much smaller they are.
    let made = format!("datetime=\"{}\"", report.made_at);
    assert!(report.made_at.len() == 20 && page.contains(&made), "{made}");
    assert!(page.contains(&format!("by litepack {}.", report.version)));
    let heads =
        ["way", "size", "smaller", "between"].map(|head| format!("<th scope=\"col\">{head}</th>"));
    assert!(page.contains(&heads.concat()));
    assert!(page.contains("is real") && page.contains(&format!("data-value=\"{}\"", size.bytes)));
}
