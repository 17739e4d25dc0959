//! `litepack columns`: enable, maintain, status and disable.

mod common;

use common::Place;
use serde_json::Value;

fn plain(place: &Place) -> Vec<(i64, String)> {
    let db = place.open("a.db");
    let mut rows = db.prepare("SELECT id, data FROM t ORDER BY id").unwrap();
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn a_column_is_compressed_and_becomes_plain_again() {
    let place = Place::new();
    place.database("a.db", 4096, 20_000);
    let before = plain(&place);
    let run = place.ok(&["columns", "enable", "a.db", "t", "data", "--level", "5"]);
    assert_eq!(run.stdout, "");
    for word in [
        "UPSERT",
        "RETURNING",
        "changes()",
        "DEFAULT",
        "packed file",
        "t.data is enabled",
    ] {
        assert!(run.stderr.contains(word), "{}", run.stderr);
    }
    let run = place.ok(&["columns", "maintain", "a.db", "--vacuum"]);
    assert!(
        run.stderr
            .starts_with("a.db: 20000 rows compressed, 0 are not, done"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains(" x smaller"), "{}", run.stderr);
    assert!(!run.stderr.contains(['\r', '\x1b']), "{:?}", run.stderr);
    let again = place.ok(&["columns", "maintain", "a.db"]);
    assert!(
        again
            .stderr
            .starts_with("a.db: 0 rows compressed, 0 are not, done"),
        "{}",
        again.stderr
    );

    let text = place.ok(&["columns", "status", "a.db"]).stdout;
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap()[0], "column");
    assert_eq!(
        lines.next().unwrap()[..4],
        ["t.data", "5", "20000", "20000"]
    );
    let json = place.ok(&["columns", "status", "--json", "a.db"]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["rows_compressed"], 20_000);
    let bytes: usize = before.iter().map(|(_, data)| data.len()).sum();
    assert_eq!(json[0]["bytes_before"], bytes);
    assert_eq!(json[0]["maintenance_due"], false);

    place.ok(&["columns", "disable", "a.db", "t", "data"]);
    assert!(plain(&place) == before);
    assert_eq!(
        place.ok(&["columns", "status", "a.db"]).stdout,
        "no compressed columns\n"
    );
}

#[test]
fn time_is_kept_and_work_goes_on_from_there() {
    let place = Place::new();
    place.database("a.db", 4096, 30_000);
    let step = ["--step", "100000", "--chooser", "'a'"];
    place.ok(&[&["columns", "enable", "a.db", "t", "data"][..], &step].concat());
    let run = place.run(&["columns", "maintain", "a.db", "--seconds", "0"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("more to do"), "{}", run.stderr);
    assert!(!run.stderr.contains(" 0 rows compressed"), "{}", run.stderr);
    let text = place.ok(&["columns", "status", "a.db"]).stdout;
    assert!(text.contains("waiting for maintenance"), "{text}");
    assert!(text.contains("has something to do"), "{text}");
    let run = place.ok(&["columns", "maintain", "a.db", "--load", "0.9"]);
    assert!(run.stderr.contains(" 0 are not, done"), "{}", run.stderr);
}

#[test]
fn a_packed_file_can_have_them_too() {
    let place = Place::new();
    place.database("a.db", 4096, 5000);
    place.ok(&["pack", "a.db", "b.db"]);
    place.ok(&["columns", "enable", "b.db", "t", "data", "--level", "3"]);
    place.ok(&["columns", "maintain", "b.db"]);
    place.ok(&["columns", "disable", "b.db", "t", "data"]);
    place.ok(&["check", "b.db"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new();
    place.database("a.db", 4096, 100);
    std::fs::write(place.path("text"), "hello, world\n".repeat(500)).unwrap();
    let refused = |arguments: &[&str], words: &str| {
        place.refused(&[&["columns"][..], arguments].concat(), words);
    };
    refused(
        &["enable", "missing", "t", "data"],
        "missing does not exist",
    );
    refused(&["enable", "text", "t", "data"], "not a SQLite database");
    refused(&["enable", "a.db", "nowhere", "data"], "nowhere");
    refused(&["enable", "a.db", "t", "nothing"], "nothing");
    refused(
        &["enable", "a.db", "t", "data", "--level", "99"],
        "compression_level",
    );
    refused(
        &["enable", "a.db", "t", "data", "--chooser", "no such"],
        "chooser",
    );
    refused(&["disable", "a.db", "t", "data"], "not compressed");
    refused(&["maintain", "a.db"], "no compressed columns");
    refused(&["maintain", "a.db", "--load", "2"], "--load");
    refused(&["maintain", "a.db", "--seconds", "-1"], "");
}
