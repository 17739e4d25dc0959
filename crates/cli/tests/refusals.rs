//! Refusals: a command that cannot be done says so in plain words, with exit code 2, and changes
//! nothing.

mod common;

use common::{Place, bytes};

#[test]
fn sources_that_are_no_database() {
    let place = Place::new();
    std::fs::create_dir(place.path("directory")).unwrap();
    std::fs::write(place.path("text"), "hello, world\n".repeat(500)).unwrap();
    std::fs::write(place.path("empty"), "").unwrap();
    place.database("a.db", 4096, 1000);
    place.refused(&["pack", "missing", "x"], "missing does not exist");
    place.refused(&["pack", "directory", "x"], "is a directory");
    place.refused(
        &["pack", "text", "x"],
        "not a SQLite database, or an encrypted one",
    );
    for command in ["info", "check"] {
        place.refused(
            &[command, "a.db"],
            "not a packed file but a plain SQLite database",
        );
        place.refused(&[command, "text"], "not a packed file");
        place.refused(&[command, "missing"], "does not exist");
    }
    place.refused(
        &["maintain", "a.db"],
        "not a packed file but a plain SQLite database; `litepack pack` makes it one",
    );
    let run = place.run(&["ingest", "missing", "--into", "logs"]);
    assert!(
        run.code == 2 && run.stderr.starts_with("litepack: cannot read missing: "),
        "{run:?}"
    );
    for url in ["https://example.org/a.db", "s3://bucket/a.db"] {
        place.refused(&["check", url], "this works on local files only");
    }
    let uri = "file:a.db?vfs=litepack";
    place.refused(&["check", uri], "without `file:`");
    place.refused(&["shell", "--create", uri, ".tables"], "without `file:`");
    place.refused(
        &["unpack", "a.db", "x"],
        "not a packed file but a plain SQLite database",
    );
    place.refused(&["unpack", "empty", "x"], "not a packed file: it is empty");
    place.ok(&["pack", "a.db", "a.packed"]);
    place.refused(&["pack", "a.packed", "x"], "already a packed file");
}

#[test]
fn a_truncated_database() {
    let place = Place::new();
    let source = place.database("a.db", 4096, 5000);
    let whole = bytes(&source);
    std::fs::write(&source, &whole[..whole.len() - 10_000]).unwrap();
    place.refused(
        &["pack", "a.db", "x"],
        "a.db is truncated: 10000 bytes are missing",
    );
    place.refused(&["pack", "--in-place", "a.db"], "truncated");
    std::fs::write(&source, &whole[..60]).unwrap();
    place.refused(&["pack", "a.db", "x"], "truncated");
}

#[test]
fn targets_that_are_in_the_way() {
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    std::fs::write(place.path("b"), "precious").unwrap();
    std::fs::write(place.path("c-wal"), "frames").unwrap();
    std::fs::hard_link(place.path("a.db"), place.path("same.db")).unwrap();
    std::fs::create_dir(place.path("directory")).unwrap();
    place.refused(
        &["pack", "a.db", "b"],
        "b exists; use --force to replace it",
    );
    place.refused(&["pack", "a.db", "c", "--force"], "c-wal exists");
    place.refused(&["pack", "a.db", "a.db", "--force"], "use --in-place");
    place.refused(&["pack", "a.db", "same.db", "--force"], "use --in-place");
    place.refused(
        &["pack", "a.db", "directory", "--force"],
        "directory is a directory",
    );
    place.refused(
        &["pack", "a.db", "nowhere/x"],
        "cannot write to nowhere: there is no such directory\n",
    );
    place.refused(
        &["ingest", "--into", "nowhere/x", "a.db"],
        "cannot open nowhere/x: cannot write to nowhere: there is no such directory\n",
    );
    place.ok(&["pack", "a.db", "b", "--force"]);
    place.refused(&["unpack", "b", "a.db"], "a.db exists");
    place.refused(&["unpack", "b", "b", "--force"], "use --in-place");
}

#[test]
fn usage() {
    let place = Place::new();
    place.database("a.db", 4096, 10);
    place.refused(&["pack", "a.db"], "DST");
    place.refused(
        &["pack", "a.db", "x", "--level", "20"],
        "not between 1 and 19",
    );
    for size in ["100", "2000000", "-1", "much"] {
        place.refused(
            &["pack", "a.db", "x", &format!("--dictionary-size={size}")],
            "neither 0 nor between 4096 and 1048576",
        );
    }
    place.refused(&["pack", "--in-place", "a.db", "x"], "cannot be used with");
    place.refused(
        &["maintain", "a.db", "--seconds", "-1"],
        "--seconds takes a number from 0 on",
    );
    place.refused(&["shrink", "a.db"], "unrecognized subcommand");
}

#[test]
fn a_database_in_use() {
    let place = Place::new();
    place.database("a.db", 4096, 1000);
    place.ok(&["pack", "a.db", "a.packed"]);
    let db = place.open("a.db");
    db.execute_batch("BEGIN; SELECT count(*) FROM t;").unwrap();
    place.ok(&["pack", "a.db", "beside"]);
    refused_in_use(&place, &["pack", "--in-place", "a.db"]);
    db.execute_batch("COMMIT; BEGIN IMMEDIATE;").unwrap();
    refused_in_use(&place, &["pack", "a.db", "x"]);
    drop(db);
    litepack::register().unwrap();
    let uri = format!("file:{}?vfs=litepack", place.path("a.packed").display());
    let db = rusqlite::Connection::open(uri).unwrap();
    db.execute_batch("BEGIN EXCLUSIVE;").unwrap();
    for arguments in [
        &["info", "a.packed"][..],
        &["check", "a.packed"],
        &["unpack", "a.packed", "x"],
        &["unpack", "--in-place", "a.packed"],
    ] {
        refused_in_use(&place, arguments);
    }
}

/// As [`Place::refused`] without reading the files: that would drop the locks this process holds.
fn refused_in_use(place: &Place, arguments: &[&str]) {
    let names = place.names();
    let run = place.run(arguments);
    assert_eq!(run.code, 2, "{arguments:?}: {}", run.stderr);
    assert!(
        run.stderr.contains("in use by another program"),
        "{}",
        run.stderr
    );
    // By this test.
    let by = format!("(process {})", std::process::id());
    let is_named = run.stderr.contains(&by);
    assert!(is_named || cfg!(not(target_os = "linux")), "{}", run.stderr);
    assert_eq!(place.names(), names);
}

#[cfg(unix)]
#[test]
fn a_read_only_directory() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let db = place.open("live.db");
    db.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a); PRAGMA wal_checkpoint;")
        .unwrap();
    let directory = place.path("d");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(place.path("live.db"), directory.join("a.db")).unwrap();
    std::fs::copy(place.path("live.db"), directory.join("b.db")).unwrap();
    std::fs::copy(place.path("live.db-wal"), directory.join("b.db-wal")).unwrap();
    drop(db);
    let allow = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&directory, permissions).unwrap();
    };
    allow(0o555);
    // The superuser may write everywhere.
    if std::fs::write(directory.join("probe"), "").is_err() {
        place.ok(&["pack", "d/a.db", "a.packed"]);
        place.refused(&["pack", "d/b.db", "x"], "changes in d/b.db-wal");
    }
    allow(0o755);
}

#[test]
fn an_idle_wal_connection_is_use_too() {
    let place = Place::new();
    let db = place.open("a.db");
    db.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a);")
        .unwrap();
    refused_in_use(&place, &["pack", "--in-place", "a.db"]);
}

#[test]
fn a_damaged_packed_file() {
    let place = Place::new();
    place.database("a.db", 4096, 20_000);
    place.ok(&["pack", "a.db", "a.packed"]);
    let mut damaged = bytes(&place.path("a.packed"));
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    std::fs::write(place.path("a.packed"), &damaged).unwrap();
    place.refused(&["unpack", "a.packed", "x"], "damaged: page ");
    place.refused(&["unpack", "--in-place", "a.packed"], "damaged: page ");
}
