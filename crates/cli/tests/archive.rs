//! `litepack archive`: what goes in comes out, whatever state the source is in; what is told of archives, and what is
//! refused.

mod common;

use common::{Place, bytes, fill};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_page_size_comes_back_bit_for_bit() {
    for page_size in [512, 4096, 65536] {
        let place = Place::new();
        let source = place.database("a.db", page_size, 20_000);
        let before = bytes(&source);
        let run = place.ok(&["archive", "create", "a.db", "a.db.zst"]);
        assert_eq!(run.stdout, "");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.starts_with("a.db.zst: "), "{}", run.stderr);
        assert!(run.stderr.contains(" x smaller, "), "{}", run.stderr);
        assert_eq!(place.ok(&["archive", "check", "a.db.zst"]).stdout, "ok\n");
        place.ok(&["archive", "extract", "a.db.zst", "b.db"]);
        assert_eq!(place.names(), ["a.db", "a.db.zst", "b.db"]);
        assert!(before == bytes(&source) && before == bytes(&place.path("b.db")));

        let info = json(&place.ok(&["archive", "info", "--json", "a.db.zst"]).stdout);
        let archive = bytes(&place.path("a.db.zst")).len();
        assert_eq!(info["page_size"], page_size);
        assert_eq!(info["logical_bytes"], before.len());
        assert_eq!(info["file_bytes"], archive);
        assert_eq!(info["largest_frame"], 65536);
        assert_eq!(info["frames"], before.len().div_ceil(65536));
        assert_eq!(info["checksums"], true);
        let parts = ["frame_bytes", "seek_table_bytes", "other_bytes"];
        let parts = parts.map(|part| info[part].as_u64().unwrap());
        assert_eq!(parts.iter().sum::<u64>(), archive as u64);
        let text = place.ok(&["archive", "info", "a.db.zst"]).stdout;
        assert!(text.contains(&format!(" of {page_size} bytes\n")), "{text}");
    }
}

#[test]
fn level_and_frame_size() {
    let place = Place::new();
    // Not random: of random text the higher level now and then makes more.
    let db = place.open("a.db");
    db.execute_batch(
        "create table t(id integer primary key, data text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
         insert into t select i, json_object('name', 'number ' || i, 'square', i * i,
             'note', 'some words that repeat in each of the rows, and ' || (i * 7919 % 1009)) from n;",
    )
    .unwrap();
    drop(db);
    let source = place.path("a.db");
    let made = |name: &str, options: &[&str]| {
        let mut arguments = vec!["archive", "create", "a.db", name];
        arguments.extend_from_slice(options);
        place.ok(&arguments);
        let info = json(&place.ok(&["archive", "info", "--json", name]).stdout);
        (
            info["file_bytes"].as_u64().unwrap(),
            info["largest_frame"].as_u64().unwrap(),
        )
    };
    let fast = made("fast", &["--level", "1"]);
    let small = made("small", &["--level=19", "--frame-size", "1000000"]);
    assert_eq!(fast.1, 65536);
    assert_eq!(small.1, 1_003_520);
    assert!(small.0 < fast.0);
    assert_eq!(made("pages", &["--frame-size", "1"]).1, 4096);
    for name in ["fast", "small", "pages"] {
        place.ok(&["archive", "extract", name, "back", "--force"]);
        assert!(bytes(&place.path("back")) == bytes(&source), "{name}");
    }
}

/// One page, nothing, something behind the last page, and a packed file.
#[test]
fn odd_sources() {
    let place = Place::new();
    place.database("one.db", 512, 0);
    std::fs::write(place.path("none.db"), b"").unwrap();
    let source = place.database("tail.db", 4096, 20_000);
    place.ok(&["pack", "tail.db", "packed.db"]);
    let mut tail = bytes(&source);
    let plain = tail.clone();
    tail.extend_from_slice(b"something behind the last page");
    std::fs::write(&source, &tail).unwrap();
    for (name, expected) in [
        ("one.db", bytes(&place.path("one.db"))),
        ("none.db", Vec::new()),
        ("tail.db", tail),
        ("packed.db", plain),
    ] {
        place.ok(&["archive", "create", name, "zst", "--force"]);
        place.ok(&["archive", "check", "zst"]);
        place.ok(&["archive", "info", "zst"]);
        place.ok(&["archive", "extract", "zst", "back", "--force"]);
        assert!(bytes(&place.path("back")) == expected, "{name}");
    }
}

#[test]
fn a_wal_is_worked_in_and_a_hot_journal_played_back() {
    let place = Place::new();
    let db = place.open("wal.db");
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;")
        .unwrap();
    fill(&db, 5000);
    assert!(bytes(&place.path("wal.db-wal")).len() > 500_000);
    // Another program still has the database open, which does not matter.
    place.ok(&["archive", "create", "wal.db", "wal.zst"]);
    place.ok(&["archive", "extract", "wal.zst", "back.db"]);
    assert!(bytes(&place.path("wal.db")) == bytes(&place.path("back.db")));
    let count = |db: &rusqlite::Connection| {
        db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(count(&place.open("back.db")), Ok(5000));
    litepack::register().unwrap();
    let uri = format!(
        "file:{}?vfs=litepack&mode=ro",
        place.path("wal.zst").display()
    );
    assert_eq!(count(&rusqlite::Connection::open(uri).unwrap()), Ok(5000));

    let source = place.database("live.db", 4096, 5000);
    let before = bytes(&source);
    let live = place.open("live.db");
    live.execute_batch("PRAGMA cache_size=5; BEGIN; UPDATE t SET data = upper(data);")
        .unwrap();
    // As a crash would leave it: pages of the transaction in the file, and its journal.
    std::fs::copy(place.path("live.db"), place.path("a.db")).unwrap();
    std::fs::copy(place.path("live.db-journal"), place.path("a.db-journal")).unwrap();
    drop(live);
    assert!(bytes(&place.path("a.db")) != before);
    place.ok(&["archive", "create", "a.db", "a.zst"]);
    place.ok(&["archive", "extract", "a.zst", "a.back"]);
    assert!(bytes(&place.path("a.back")) == before);
}

#[test]
fn what_is_refused() {
    let place = Place::new();
    let source = place.database("a.db", 4096, 1000);
    place.ok(&["pack", "a.db", "a.packed"]);
    place.ok(&["archive", "create", "a.db", "a.zst"]);
    std::fs::write(place.path("text"), "hello, world\n".repeat(500)).unwrap();
    std::fs::write(place.path("empty"), "").unwrap();
    std::fs::create_dir(place.path("directory")).unwrap();
    let whole = bytes(&place.path("a.zst"));
    std::fs::write(place.path("cut.zst"), &whole[..whole.len() - 7]).unwrap();
    let database = bytes(&source);
    std::fs::write(place.path("cut.db"), &database[..database.len() - 5000]).unwrap();

    let create = |from: &str, to: &str, words: &str| {
        place.refused(&["archive", "create", from, to], words);
    };
    create("missing", "x", "missing does not exist");
    create("directory", "x", "is a directory");
    create("text", "x", "not a SQLite database, or an encrypted one");
    create("cut.db", "x", "cut.db is truncated: 5000 bytes are missing");
    create("a.zst", "x", "litepack archive extract");
    create("a.db", "a.zst", "a.zst exists; use --force to replace it");
    create("a.db", "a.db", "a.db is the database itself");
    create("a.db", "nowhere/x", "cannot write to nowhere");
    for (option, words) in [
        ("--level=0", "not between 1 and 22"),
        ("--level=23", "not between 1 and 22"),
        ("--frame-size=0", "not between 1 and 67108864"),
        ("--frame-size=67108865", "not between 1 and 67108864"),
        ("--frame-size=64K", "not between 1 and 67108864"),
        ("--in-place", "unexpected argument"),
    ] {
        place.refused(&["archive", "create", "a.db", "x", option], words);
    }

    for command in [
        &["archive", "info"][..],
        &["archive", "check"],
        &["archive", "extract", "--force", "x"],
    ] {
        let refused = |file: &str, words: &str| {
            let mut arguments = command.to_vec();
            // `extract` takes the file before its target.
            arguments.insert(if command.len() > 2 { 3 } else { 2 }, file);
            place.refused(&arguments, words);
        };
        refused("missing", "missing does not exist");
        refused("directory", "is a directory");
        refused("empty", "empty is not an archive: it is empty");
        refused("text", "text is not an archive");
        refused("a.db", "not an archive but a plain SQLite database");
        refused("a.packed", "not an archive but a packed file");
        refused("cut.zst", "no seek table");
        refused("cut.zst", "`litepack archive create`");
    }
    let extract = |from: &str, to: &str, words: &str| {
        place.refused(&["archive", "extract", from, to], words);
    };
    extract("a.zst", "a.db", "a.db exists; use --force to replace it");
    extract("a.zst", "a.zst", "a.zst is the archive itself");

    // Commands for other files take archives, or say which ones there are for them.
    for command in ["info", "check"] {
        place.ok(&[command, "a.zst"]);
    }
    place.refused(&["unpack", "a.zst", "x"], "`litepack archive info`");
    place.refused(&["pack", "a.zst", "x"], "`litepack archive extract`");
    place.refused(
        &["pack", "--in-place", "a.zst"],
        "`litepack archive extract`",
    );
    place.refused(&["maintain", "a.zst"], "litepack archive");
    place.refused(&["columns", "status", "a.zst"], "which is read-only");
}

#[test]
fn a_database_that_is_being_written() {
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    let db = place.open("a.db");
    db.execute_batch("BEGIN; SELECT count(*) FROM t;").unwrap();
    place.ok(&["archive", "create", "a.db", "beside"]);
    db.execute_batch("COMMIT; BEGIN IMMEDIATE;").unwrap();
    let run = place.run(&["archive", "create", "a.db", "x"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("in use by another program"),
        "{}",
        run.stderr
    );
    assert!(!place.path("x").exists());
}

#[test]
fn damage_is_found_and_said() {
    let place = Place::new();
    place.database("a.db", 4096, 20_000);
    place.ok(&["archive", "create", "a.db", "a.zst"]);
    let whole = bytes(&place.path("a.zst"));
    let info = json(&place.ok(&["archive", "info", "--json", "a.zst"]).stdout);
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(place.path("b.zst"), bytes).unwrap();
        place.run(&["archive", "check", "--json", "b.zst"])
    };
    let run = damaged(whole.len() / 2);
    assert_eq!(run.code, 1, "{run:?}");
    let report = json(&run.stdout);
    assert_eq!(report["ok"], false);
    assert_eq!(report["frames"], info["frames"]);
    assert_eq!(report["damage"].as_array().unwrap().len(), 1);
    let text = place.run(&["archive", "check", "b.zst"]);
    assert_eq!(text.code, 1);
    let frame = report["damage"][0]["what"].as_str().unwrap();
    assert!(text.stdout.contains(frame), "{text:?}");
    assert!(text.stdout.contains("restore it from a backup"), "{text:?}");
    // Told all the same, and not given out.
    place.ok(&["archive", "info", "b.zst"]);
    place.refused(&["archive", "extract", "b.zst", "x"], frame);
    // In the seek table.
    let run = damaged(whole.len() - 30);
    assert_eq!(run.code, 1, "{run:?}");
    let run = damaged(whole.len() - 2);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("no seek table"), "{run:?}");
}

#[test]
#[cfg(unix)]
fn a_signal_leaves_nothing_behind() {
    use common::signals::Signal;
    use std::time::Duration;
    let place = Place::new();
    let source = place.database("a.db", 4096, 200_000);
    place.ok(&["archive", "create", "a.db", "a.zst", "--level=1"]);
    let before = (bytes(&source), bytes(&place.path("a.zst")));
    for (name, arguments) in [
        (
            "-INT",
            &["archive", "create", "a.db", "x", "--level=19"][..],
        ),
        (
            "-TERM",
            &[
                "archive",
                "create",
                "a.db",
                "a.zst",
                "--force",
                "--level=19",
            ],
        ),
    ] {
        let run = Signal {
            name,
            command: &|| place.command(arguments),
            begun: &|| place.names().len() > 2,
            after: Duration::ZERO,
            undo: &|| {
                let _ = std::fs::remove_file(place.path("x"));
                std::fs::write(place.path("a.zst"), &before.1).unwrap();
            },
        }
        .ends();
        assert_eq!(run.code, 130, "{run:?}");
        assert!(run.stderr.contains("interrupted"), "{run:?}");
        assert_eq!(place.names(), ["a.db", "a.zst"]);
    }
    assert!(before == (bytes(&source), bytes(&place.path("a.zst"))));
}
