//! `litepack tune`: what it says of small databases and of samples of larger ones, that it only reads, and what it
//! refuses.

mod common;

use std::path::Path;

use common::{Place, bytes};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn tuned(place: &Place, arguments: &[&str]) -> Value {
    let all = [&["tune", "--json"], arguments].concat();
    let run = place.ok(&all);
    assert_eq!(run.stderr, "");
    json(&run.stdout)
}

/// A database with what a copy of rows has to mind.
fn odd(place: &Place, name: &str, rows: u32, encoding: &str) {
    let db = place.open(name);
    db.execute_batch(&format!(
        "PRAGMA encoding='{encoding}'; PRAGMA page_size=1024; PRAGMA auto_vacuum=1; PRAGMA synchronous=OFF;
         PRAGMA foreign_keys=OFF;
         CREATE TABLE parent(id INTEGER PRIMARY KEY, rowid TEXT NOT NULL);
         CREATE TABLE \"it's \"\"t\"\"\"(a INTEGER REFERENCES parent(id) CHECK (a > 0), \"b c\" TEXT UNIQUE,
             twice AS (a * 2), thrice AS (a * 3) STORED);
         CREATE TABLE keyed(k TEXT, n INTEGER, v BLOB, PRIMARY KEY(k, n DESC)) WITHOUT ROWID;
         CREATE TABLE numbered(n INTEGER PRIMARY KEY, v TEXT) WITHOUT ROWID;
         CREATE TABLE taken(rowid TEXT, _rowid_ TEXT, oid TEXT);
         CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT) STRICT;
         CREATE VIRTUAL TABLE words USING fts5(body);
         CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
         CREATE INDEX by_b ON \"it's \"\"t\"\"\"(\"b c\" COLLATE NOCASE);
         CREATE INDEX by_expression ON \"it's \"\"t\"\"\"(length(\"b c\")) WHERE a > 5;
         CREATE INDEX by_v ON numbered(v);
         CREATE VIEW few AS SELECT * FROM \"it's \"\"t\"\"\" WHERE a < 10;
         CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             SELECT i FROM n;
         INSERT INTO parent SELECT i * 1000000007, 'parent ' || i FROM n;
         INSERT INTO \"it's \"\"t\"\"\"(a, \"b c\") SELECT i, 'text ' || hex(randomblob(40)) FROM n;
         INSERT INTO keyed SELECT hex(randomblob(8)), i, zeroblob(50) FROM n;
         INSERT INTO numbered SELECT i - 500, 'value ' || i % 100 || hex(randomblob(20)) FROM n;
         INSERT INTO taken SELECT i, hex(randomblob(30)), 'x' FROM n;
         INSERT INTO counted(v) SELECT hex(randomblob(30)) FROM n;
         INSERT INTO words SELECT hex(randomblob(4)) || ' word' FROM n;
         INSERT INTO boxes SELECT i, i, i + 1 FROM n;
         CREATE TRIGGER no AFTER INSERT ON numbered BEGIN SELECT raise(ABORT, 'copied with triggers'); END;
         ANALYZE;"
    ))
    .unwrap();
}

#[test]
fn a_small_database_is_tried_whole() {
    let place = Place::new();
    let source = place.database("a.db", 4096, 3000);
    let before = bytes(&source);
    let found = tuned(&place, &["a.db", "--chart", "a.svg"]);
    assert!(before == bytes(&source));
    assert_eq!(place.names(), ["a.db", "a.svg"]);

    assert_eq!(found["sample_is_whole"], true);
    assert_eq!(found["sample_bytes"], before.len());
    assert_eq!(found["page_size"], 4096);
    let queries = found["queries"].as_array().unwrap();
    assert_eq!(queries.len(), 3, "{queries:?}");
    let candidates = found["candidates"].as_array().unwrap();
    let plain = &candidates[0];
    assert_eq!(plain["form"], "plain");
    assert_eq!(plain["bytes"], before.len());
    assert_eq!(plain["time"], 1.0);
    let mut settings = Vec::new();
    for candidate in candidates {
        assert_eq!(
            candidate["query_times"].as_array().unwrap().len(),
            queries.len()
        );
        assert!(candidate["time"].as_f64().unwrap() > 0.0);
        let (ratio, size) = (&candidate["ratio"], candidate["bytes"].as_f64().unwrap());
        // Reading a number from JSON may be off in its last bit.
        let off = ratio.as_f64().unwrap() * size / before.len() as f64 - 1.0;
        assert!(off.abs() < 1e-9, "{candidate}");
        settings.push(format!(
            "{} {} {}",
            candidate["form"], candidate["page_size"], candidate["settings"]
        ));
    }
    let count = settings.len();
    settings.sort();
    settings.dedup();
    assert_eq!(settings.len(), count, "{settings:?}");
    for page_size in [4096, 16384, 65536] {
        for (form, least) in [("packed", 1), ("archive", 3)] {
            let of = candidates
                .iter()
                .filter(|c| c["form"] == form && c["page_size"] == page_size);
            assert!(of.count() >= least, "{form} {page_size}");
        }
    }
    // Some are on the front, the smallest among them, and one is recommended.
    let smallest = candidates
        .iter()
        .min_by_key(|c| c["bytes"].as_u64())
        .unwrap();
    assert_eq!(smallest["pareto"], true);
    let recommended: Vec<_> = candidates
        .iter()
        .filter(|c| c["recommended"] == true)
        .collect();
    assert_eq!(recommended.len(), 1);

    let chart = std::fs::read_to_string(place.path("a.svg")).unwrap();
    let chart = roxmltree::Document::parse(&chart).unwrap();
    assert_eq!(chart.root_element().tag_name().name(), "svg");
    let circles = chart
        .descendants()
        .filter(|node| node.has_tag_name("circle"));
    // Each setting, the recommended one again, and four in the legend.
    assert_eq!(circles.clone().count(), count + 1 + 4);
    // The legend is beside the points, and covers none.
    let number = |node: roxmltree::Node<'_, '_>, name: &str| {
        node.attribute(name).unwrap().parse::<f64>().unwrap()
    };
    let rights = circles.map(|node| number(node, "cx") + number(node, "r"));
    let mut rights: Vec<f64> = rights.collect();
    rights.sort_by(f64::total_cmp);
    let (points, legend) = rights.split_at(count + 1);
    let places = chart.descendants().filter(|node| {
        let words = node.text().unwrap_or_default().trim();
        node.has_tag_name("text") && ["plain", "packed", "archive", "recommended"].contains(&words)
    });
    let left = places
        .map(|node| number(node, "x"))
        .fold(f64::MAX, f64::min);
    assert!(
        points.iter().all(|right| *right < left - 30.0),
        "{points:?} {left}"
    );
    assert!(
        legend.iter().all(|right| *right > left - 20.0),
        "{legend:?} {left}"
    );
}

/// Numbers beside the points of the front, which the legend explains, cover no point and no other number.
#[test]
fn numbers_in_the_chart_cover_nothing() {
    for rows in [300, 8000] {
        let place = Place::new();
        place.database("a.db", 4096, rows);
        let found = tuned(&place, &["a.db", "--chart", "a.svg"]);
        let candidates = found["candidates"].as_array().unwrap();
        let front = candidates.iter().filter(|c| c["pareto"] == true).count();
        let chart = std::fs::read_to_string(place.path("a.svg")).unwrap();
        let chart = roxmltree::Document::parse(&chart).unwrap();
        let number = |node: roxmltree::Node<'_, '_>, name: &str| {
            node.attribute(name).unwrap().parse::<f64>().unwrap()
        };
        let words = chart.descendants().filter(|node| node.has_tag_name("text"));
        let words = words.map(|node| (node.text().unwrap_or_default().trim(), node));
        let words: Vec<_> = words.collect();
        let numbers = words.iter().filter(|(text, _)| text.parse::<u32>().is_ok());
        let numbers: Vec<_> = numbers
            .map(|(text, node)| (*text, number(*node, "x"), number(*node, "y")))
            .collect();
        assert_eq!(numbers.len(), front, "{numbers:?}");
        let apart = |(x, y): (f64, f64), other: (f64, f64), by: f64| {
            (x - other.0).abs() > 4.0 + by || (y - other.1).abs() > 4.0 + by
        };
        for (at, (text, x, y)) in numbers.iter().enumerate() {
            let names = words
                .iter()
                .filter(|(name, _)| name.starts_with(&format!("{text}  ")));
            assert_eq!(names.count(), 1, "{text}");
            for (other, a, b) in &numbers[..at] {
                assert!(apart((*x, *y), (*a, *b), 4.0), "{text} and {other}");
            }
            for circle in chart
                .descendants()
                .filter(|node| node.has_tag_name("circle"))
            {
                let (a, b) = (number(circle, "cx"), number(circle, "cy"));
                assert!(
                    apart((*x, *y), (a, b), number(circle, "r")),
                    "{text} and {a} {b}"
                );
            }
        }
    }
}

/// The commands that are recommended make the file that was measured.
#[test]
fn the_commands_make_what_was_tried() {
    let place = Place::new();
    place.database("a.db", 8192, 2000);
    let found = tuned(&place, &["a.db"]);
    let candidates = found["candidates"].as_array().unwrap();
    assert!(
        candidates
            .iter()
            .any(|c| c["page_size"] == 8192 && c["form"] == "packed")
    );
    for form in ["packed", "archive"] {
        let candidate = candidates
            .iter()
            .find(|c| c["form"] == form && c["page_size"] == 16384)
            .unwrap();
        let commands = candidate["commands"].as_array().unwrap();
        let vacuum = commands[0].as_str().unwrap();
        let (_, sql) = vacuum.split_once('"').unwrap();
        let db = place.open("a.db");
        let target = place.path("a.db.vacuumed.db");
        let sql = sql.trim_end_matches('"');
        let sql = sql.replace("a.db.vacuumed.db", target.to_str().unwrap());
        db.execute_batch(&sql).unwrap();
        let words: Vec<&str> = commands[1].as_str().unwrap().split(' ').collect();
        assert_eq!(words[0], "litepack");
        place.ok(&words[1..]);
        let made = bytes(&place.path(words.last().unwrap())).len() as u64;
        let tried = candidate["bytes"].as_u64().unwrap();
        // A packed file has a number of its own in it; the bytes of all else are the same.
        assert!(made.abs_diff(tried) <= 4096, "{form}: {made} {tried}");
        std::fs::remove_file(target).unwrap();
    }
}

#[test]
fn a_sample_has_a_part_of_every_table() {
    for encoding in ["UTF-8", "UTF-16le"] {
        let place = Place::new();
        odd(&place, "a.db", 4000, encoding);
        let before = bytes(&place.path("a.db"));
        let queries =
            "SELECT count(*), min(a), max(a), sum(twice), max(thrice) FROM \"it's \"\"t\"\"\";
            SELECT k, n, v FROM keyed ORDER BY k, n;
            SELECT * FROM numbered; SELECT oid FROM taken; SELECT * FROM counted WHERE id > 100;
            SELECT rowid, id FROM parent; SELECT * FROM few;
            SELECT count(*) FROM numbered WHERE v LIKE 'value 1%' -- the end";
        std::fs::write(place.path("queries.sql"), queries).unwrap();
        let all = ["a.db", "--queries", "queries.sql"];
        let found = tuned(&place, &[&all[..], &["--sample-mb", "1"]].concat());
        assert!(before == bytes(&place.path("a.db")));
        assert_eq!(place.names(), ["a.db", "queries.sql"]);
        assert_eq!(found["sample_is_whole"], false);
        assert_eq!(found["queries"].as_array().unwrap().len(), 8);
        let sample = found["sample_bytes"].as_u64().unwrap();
        assert!((500 << 10..1500 << 10).contains(&sample), "{sample}");
        if encoding != "UTF-8" {
            continue;
        }
        let left_out = found["left_out"].to_string();
        assert!(left_out.contains("virtual table words"), "{left_out}");
        assert_eq!(found["left_out"].as_array().unwrap().len(), 2, "{left_out}");
        let whole = tuned(&place, &all);
        assert_eq!(whole["sample_is_whole"], true);
        // The ratio that a part predicts for the whole.
        let ratio = |found: &Value| {
            let candidates = found["candidates"].as_array().unwrap();
            let packed = candidates
                .iter()
                .find(|c| c["form"] == "packed" && c["page_size"] == 4096);
            packed.unwrap()["ratio"].as_f64().unwrap()
        };
        let (part, whole) = (ratio(&found), ratio(&whole));
        assert!((0.8..1.25).contains(&(part / whole)), "{part} {whole}");
    }
}

/// Statements in the schema of a file are run to copy tables. More than one statement is refused: by newer versions of
/// SQLite, when they read it, and by us.
#[test]
fn a_hostile_schema_does_nothing() {
    let place = Place::new();
    odd(&place, "a.db", 4000, "UTF-8");
    let target = place.path("made.db");
    let db = place.open("a.db");
    db.execute_batch(&format!(
        "PRAGMA writable_schema=ON;
         UPDATE sqlite_schema SET sql = sql || '; ATTACH ''{}'' AS x; CREATE TABLE x.y(z);' WHERE name = 'taken';",
        target.display()
    ))
    .unwrap();
    drop(db);
    place.refused(&["tune", "a.db", "--sample-mb", "1"], "a.db: ");
    assert!(!target.exists());
}

#[test]
fn packed_files_and_archives_are_tried_too() {
    let place = Place::new();
    place.database("a.db", 4096, 2000);
    place.ok(&["pack", "a.db", "packed"]);
    place.ok(&["archive", "create", "a.db", "archive.zst"]);
    for (name, first) in [
        ("packed", "litepack unpack packed packed.plain.db"),
        (
            "archive.zst",
            "litepack archive extract archive.zst archive.zst.plain.db",
        ),
    ] {
        let before = bytes(&place.path(name));
        let found = tuned(&place, &[name]);
        assert!(before == bytes(&place.path(name)));
        assert_eq!(found["sample_bytes"], bytes(&place.path("a.db")).len());
        assert_eq!(found["candidates"][1]["commands"][0], first);
    }
    assert_eq!(place.names(), ["a.db", "archive.zst", "packed"]);
    let text = place.ok(&["tune", "a.db"]).stdout;
    assert!(text.contains("\nrecommended: "), "{text}");
    assert!(text.contains("packed --best"), "{text}");
}

#[test]
fn a_wal_counts_and_stays() {
    let place = Place::new();
    let db = place.open("a.db");
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;")
        .unwrap();
    common::fill(&db, 2000);
    let (before, wal) = (bytes(&place.path("a.db")), bytes(&place.path("a.db-wal")));
    std::fs::write(place.path("q"), "select count(*) from t").unwrap();
    let found = tuned(&place, &["a.db", "--queries", "q"]);
    assert!(found["sample_bytes"].as_u64().unwrap() > 200_000);
    assert!(before == bytes(&place.path("a.db")) && wal == bytes(&place.path("a.db-wal")));
    // Without one nothing is made, not even what SQLite makes for its readers.
    drop(db);
    assert_eq!(place.names(), ["a.db", "q"]);
    tuned(&place, &["a.db", "--queries", "q"]);
    assert_eq!(place.names(), ["a.db", "q"]);
}

#[test]
fn what_is_refused() {
    let place = Place::new();
    let source = place.database("a.db", 4096, 1000);
    let database = bytes(&source);
    let write = |name: &str, text: &[u8]| std::fs::write(place.path(name), text).unwrap();
    write("text", "hello, world\n".repeat(500).as_bytes());
    write("empty", b"");
    write("cut.db", &database[..database.len() - 5000]);
    write("plain.zst", b"\x28\xb5\x2f\xfd and no seek table");
    place.open("no tables.db").execute_batch("VACUUM").unwrap();
    place
        .open("no rows.db")
        .execute_batch("CREATE TABLE t(a)")
        .unwrap();
    let mut damaged = database.clone();
    damaged[8192..12288].fill(7);
    write("damaged.db", &damaged);

    let refused = |arguments: &[&str], words: &str| {
        place.refused(&[&["tune"], arguments].concat(), words);
    };
    refused(&["missing"], "missing does not exist");
    refused(&["."], "is a directory");
    refused(&["text"], "not a SQLite database, or an encrypted one");
    refused(&["empty"], "empty is empty");
    refused(&["cut.db"], "cut.db is truncated: 5000 bytes are missing");
    refused(&["plain.zst"], "no seek table");
    refused(&["no tables.db"], "no table has rows");
    refused(&["no rows.db"], "no rows.db: no table has rows");
    refused(&["damaged.db"], "malformed");
    refused(&["a.db", "--sample-mb", "0"], "not between 1 and 1048576");
    refused(&["a.db", "--force"], "--chart");
    refused(&["a.db", "--level=3"], "unexpected argument");
    refused(&["a.db", "--chart", "text"], "text exists; use --force");
    refused(
        &["a.db", "--chart", "a.db", "--force"],
        "is the source itself",
    );
    refused(&["a.db", "--chart", "nowhere/x"], "cannot write to nowhere");
    refused(&["a.db", "--queries", "missing"], "cannot read missing");

    for (text, words) in [
        ("", "there is no query in q"),
        (
            "select 1;\n\ndelete from t",
            "q, line 3: not a query: delete from t",
        ),
        (
            "with x as (select 1)\n delete from t",
            "q, line 1: the statement writes",
        ),
        ("select * from missing", "q, line 1: no such table: missing"),
        ("select abs(-9223372036854775808)", "integer overflow"),
        ("select random()", "a different answer each time"),
    ] {
        write("q", text.as_bytes());
        refused(&["a.db", "--queries", "q"], words);
    }
}

#[test]
#[cfg(unix)]
fn nothing_is_written_where_nothing_may_be() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    place.database("folder/a.db", 4096, 500);
    let set = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("folder"), mode).unwrap();
    };
    set(0o555);
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    tuned(&place, &["folder/a.db"]);
    assert_eq!(names(&place.path("folder")), 1);
    set(0o755);
}

/// Temporary files are where `TMPDIR` says, and go.
#[test]
#[cfg(unix)]
fn temporary_files_go_also_after_a_signal() {
    let place = Place::new();
    place.database("a.db", 4096, 50_000);
    std::fs::create_dir(place.path("tmp")).unwrap();
    let count = || std::fs::read_dir(place.path("tmp")).unwrap().count();
    let run = common::signals::Signal {
        name: "-INT",
        command: &|| {
            let mut command = place.command(&["tune", "a.db"]);
            command.env("TMPDIR", place.path("tmp"));
            command
        },
        begun: &|| {
            let mut made = std::fs::read_dir(place.path("tmp")).unwrap();
            made.any(|made| made.unwrap().path().join("candidate").exists())
        },
        after: std::time::Duration::ZERO,
        undo: &|| (),
    }
    .ends();
    assert_eq!(run.code, 130, "{run:?}");
    assert_eq!(run.stderr, "litepack: interrupted; nothing was changed\n");
    assert_eq!(run.stdout, "");
    assert_eq!(count(), 0);
    let mut command = place.command(&["tune", "a.db", "--sample-mb", "1"]);
    assert!(
        command
            .env("TMPDIR", place.path("tmp"))
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(count(), 0);
    assert_eq!(place.names(), ["a.db", "tmp"]);
}
