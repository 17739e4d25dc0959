//! Others go on meanwhile: no lock is waited for, and nothing is written beside the database.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use litepack::Job;
use litepack_advise::{AdviseOptions, advise};
use rusqlite::Connection;

use super::{Db, NUMBERS};

/// A writer that does not wait for others is never refused, in any journal mode.
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
        let commits = AtomicU64::new(0);
        let reports: Vec<_> = std::thread::scope(|scope| {
            let advised = scope.spawn(|| {
                let mut reports = Vec::new();
                // Until the writer has had many turns meanwhile.
                let is_few = || commits.load(Ordering::Relaxed) <= 100;
                while reports.len() < 2 || is_few() && reports.len() < 200 {
                    let made = advise(&db.path, &AdviseOptions::default(), &Job::default());
                    reports.push(made);
                }
                stop.store(true, Ordering::Relaxed);
                reports
            });
            while !stop.load(Ordering::Relaxed) {
                let sql = "UPDATE t SET a = hex(randomblob(100)) WHERE id = abs(random()) % 20000";
                writer.execute(sql, []).unwrap();
                commits.fetch_add(1, Ordering::Relaxed);
            }
            advised.join().unwrap()
        });
        assert!(commits.into_inner() > 100, "{mode}");
        for report in reports {
            let report = report.unwrap();
            let tree = report.trees.iter().find(|tree| tree.name == "t").unwrap();
            assert!((19_500..=20_500).contains(&tree.rows), "{mode}: {tree:?}");
        }
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
