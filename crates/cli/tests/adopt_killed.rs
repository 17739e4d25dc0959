//! `litepack adopt` is killed before each of its steps. There is a whole database under the name then, nothing is lost,
//! and the same command goes on, or says that there is nothing left to do.
#![cfg(target_os = "linux")]

mod common;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Place, Run, bytes};
use litepack_skip::{Expected, skip};

const KEPT: &str = "a.db.litepack-original";
const ROWS: u32 = 1000;
/// More steps than any of the commands has.
const STEPS_MAX: u32 = 1000;

/// The library that ends a program; `None` where it cannot be compiled.
fn killer(place: &Place) -> Option<PathBuf> {
    let library = place.path("kill_at.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/kill_at.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output();
    match compiled {
        Ok(run) if run.status.success() => Some(library),
        Ok(run) => panic!("{}", String::from_utf8_lossy(&run.stderr)),
        Err(why) => {
            skip(Expected::ByChoice, why);
            None
        }
    }
}

fn rows(path: &Path) -> u32 {
    let db = litepack::open(path).unwrap();
    let sound: String = db
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
    db.query_row("select count(*) from t", [], |row| row.get(0))
        .unwrap()
}

fn is_packed(path: &Path) -> bool {
    !bytes(path).starts_with(b"SQLite format 3\0")
}

/// What there is before a command.
struct Before {
    original: Vec<u8>,
    database: Vec<u8>,
    is_kept: bool,
    rows: u32,
}

/// Kills a command at each of its steps, and looks at what is left before and after it is called again, which is an error
/// with these words if there is nothing to do, or the user has to look.
fn kill(arguments: &[&str], before: &Before, then: impl Fn(&Place, &Run)) {
    let library = Place::new();
    let Some(killer) = killer(&library) else {
        return;
    };
    litepack::register().unwrap();
    for at in 1..STEPS_MAX {
        let place = Place::new();
        let path = place.path("a.db");
        std::fs::write(&path, &before.database).unwrap();
        if before.is_kept {
            std::fs::write(place.path(KEPT), &before.original).unwrap();
        }
        let mut command = place.command(arguments);
        command.env("LD_PRELOAD", &killer);
        command.env("LITEPACK_KILL_AT", at.to_string());
        let run = command.output().unwrap();
        let is_killed = run.status.signal() == Some(9);
        assert!(is_killed || run.status.success(), "{at}: {run:?}");
        assert_eq!(rows(&path), before.rows, "{at}");
        match std::fs::read(place.path(KEPT)) {
            Ok(kept) => assert!(kept == before.original, "{at}"),
            Err(_) => {
                let is_let_go = arguments.contains(&"--forget");
                assert!(is_let_go || bytes(&path) == before.original, "{at}");
            }
        }
        if !is_killed {
            assert!(at > 3, "{at} steps");
            return;
        }
        let again = place.run(arguments);
        assert_eq!(rows(&path), before.rows, "{at}");
        then(&place, &again);
    }
    panic!("there are more steps");
}

fn plain() -> Before {
    let place = Place::new();
    let original = bytes(&place.database("a.db", 4096, ROWS));
    Before {
        database: original.clone(),
        original,
        is_kept: false,
        rows: ROWS,
    }
}

/// Packed, and with this many more rows.
fn packed(more: u32) -> Before {
    let place = Place::new();
    let path = place.database("a.db", 4096, ROWS);
    let original = bytes(&path);
    place.ok(&["pack", "--in-place", "a.db"]);
    litepack::register().unwrap();
    let db = litepack::open(&path).unwrap();
    if more > 0 {
        common::fill(&db, more);
    }
    drop(db);
    Before {
        original,
        database: bytes(&path),
        is_kept: true,
        rows: ROWS + more,
    }
}

const NOTHING_LEFT: &str = "has no original that is kept";

#[test]
fn pack_is_gone_on_with() {
    let before = plain();
    kill(&["adopt", "--pack", "a.db"], &before, |place, again| {
        assert_eq!(again.code, 0, "{again:?}");
        assert!(is_packed(&place.path("a.db")));
        assert!(bytes(&place.path(KEPT)) == before.original);
        assert_eq!(place.names(), ["a.db", KEPT]);
    });
}

#[test]
fn undo_is_gone_on_with() {
    let before = packed(0);
    kill(&["adopt", "--undo", "a.db"], &before, |place, again| {
        assert!(
            again.code == 0 || again.stderr.contains(NOTHING_LEFT),
            "{again:?}"
        );
        assert!(bytes(&place.path("a.db")) == before.original);
        assert_eq!(place.names(), ["a.db"]);
    });
}

#[test]
fn undo_of_what_was_written_since_is_gone_on_with() {
    let before = packed(7);
    kill(&["adopt", "--undo", "a.db"], &before, |place, again| {
        let is_told = again.stderr.contains("it was undone with newer rows");
        assert!(again.code == 0 || is_told, "{again:?}");
        assert!(!is_packed(&place.path("a.db")));
        assert!(bytes(&place.path(KEPT)) == before.original);
        assert_eq!(place.names(), ["a.db", KEPT]);
    });
}

#[test]
fn forget_is_gone_on_with() {
    let before = packed(7);
    kill(&["adopt", "--forget", "a.db"], &before, |place, again| {
        assert!(
            again.code == 0 || again.stderr.contains(NOTHING_LEFT),
            "{again:?}"
        );
        assert!(bytes(&place.path("a.db")) == before.database);
        assert_eq!(place.names(), ["a.db"]);
    });
}
