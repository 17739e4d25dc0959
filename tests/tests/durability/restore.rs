//! The ways in which programs restore, move and clone databases, with and without the files beside them: the table in
//! docs/compatibility.md, row by row. A WAL is applied to the database that it follows, and to no other; one that is not
//! applied is copied before it goes, and is all there where it belongs.

use litepack_tests::commandline::{Place, copy_elsewhere, read, read_elsewhere, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

const NEW: &str = "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
    create table t(k integer primary key, v); create index i on t(v)";
const RESTART: &str = "pragma wal_checkpoint(restart)";

/// Opens a packed database in WAL mode, which makes checkpoints when it is told to.
fn open(path: &Path) -> Connection {
    let db = vfs::open_uri(&vfs::uri(path, "litepack", "")).expect("it opens");
    db.execute_batch("pragma wal_autocheckpoint = 0")
        .expect("a setting");
    db
}

/// Makes this many commits of ten rows each.
fn commit(db: &Connection, times: u32) {
    for _ in 0..times {
        db.execute_batch(
            "insert into t(v) with recursive n(i) as (select 1 union all select i + 1 from n where i < 10)
               select 'row ' || i || ' of ' || (select count(*) from t) from n;
             update t set v = v || '.' where k % 7 = 0",
        )
        .expect("a commit");
    }
}

/// SQLite asks for it only when it opens a journal on disk.
#[test]
fn nobody_writes_to_a_file_whose_name_is_another_ones() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for mode in ["delete", "memory", "off"] {
        let place = Place::new();
        let (path, copy) = (place.path("a.db"), place.path("b.db"));
        let db = vfs::open(&path).expect("it opens");
        db.execute_batch("create table t(k); insert into t values (1)")
            .expect("content");
        db.execute_batch(&format!("pragma journal_mode = {mode}; select * from t"))
            .expect("a mode");
        std::fs::copy(&path, &copy).expect("a copy");
        std::fs::rename(&copy, &path).expect("its name");
        let refused = db.execute_batch("insert into t values (2)").unwrap_err();
        let code = refused.sqlite_error().expect("SQLite's").extended_code;
        assert_eq!(code, rusqlite::ffi::SQLITE_READONLY_DBMOVED, "{mode}");
        assert_eq!(rows(&db), 1);
        assert_eq!(rows(&vfs::open(&path).expect("it opens")), 1);
    }
}

/// The commit that leaves WAL mode has numbers of its own. If it was cut off, a WAL that names them follows no commit
/// that comes after the one before it.
#[test]
fn a_wal_that_is_begun_after_a_power_loss_names_no_commit_that_was_cut_off() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let [live, app] = ["live.db", "app.db"].map(|name| place.path(name));
    let db = open(&live);
    db.execute_batch(NEW).expect("a table");
    commit(&db, 100);
    let free = "delete from t where k % 2; vacuum; pragma wal_checkpoint(truncate)";
    db.execute_batch(free).expect("free space");
    let before = read(&live);
    let count = rows(&db);
    db.execute_batch("pragma journal_mode = delete")
        .expect("its commit");
    drop(db);
    // The power goes when its record is there, and nothing else.
    let (mut cut_off, after) = (before.clone(), read(&live));
    for record in [512..768, 1024..1280] {
        cut_off[record.clone()].copy_from_slice(&after[record]);
    }
    assert!(cut_off != before);
    for last in ["select litepack_maintain(5, 1.0)", "pragma wal_checkpoint"] {
        std::fs::write(&app, &cut_off).expect("the file");
        let db = open(&app);
        assert_eq!(rows(&db), count);
        let mode: String = db
            .query_row("pragma journal_mode", [], |row| row.get(0))
            .expect("a mode");
        assert_eq!(mode, "wal", "the commit that leaves it counts");
        db.execute_batch("pragma synchronous = full; insert into t(v) values ('new')")
            .expect("a commit");
        assert_eq!(rows(&open(&app)), count + 1);
        // The next commit of the file itself.
        db.execute_batch(last).expect("it commits");
        assert_eq!(rows(&db), count + 1, "{last}");
        assert_eq!(rows(&open(&app)), count + 1, "{last}");
        drop(db);
        assert_eq!(aside(&app), Vec::<PathBuf>::new());
    }
}

fn rows(db: &Connection) -> i64 {
    db.query_row("select count(*) from t", [], |row| row.get(0))
        .expect("a count")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn wal(path: &Path) -> PathBuf {
    beside(path, "-lpw")
}

/// Copies the file and, if it has one, its WAL, as they are at this moment.
fn copy(from: &Path, to: &Path) {
    copy_elsewhere(from, to);
    if wal(from).exists() {
        copy_elsewhere(&wal(from), &wal(to));
    }
}

/// The WALs that were copied aside.
fn aside(path: &Path) -> Vec<PathBuf> {
    let prefix = format!(
        "{}-lpw_refused_",
        path.file_name().expect("a name").to_string_lossy()
    );
    let entries = std::fs::read_dir(path.parent().expect("a place")).expect("listable");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_one = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    paths.filter(is_one).collect()
}

/// A database as a kill left it: `app.db`, with rows that only its WAL has, and a copy of the file alone from before.
/// Returns how many rows each of the two has.
struct Killed {
    place: Place,
    app: PathBuf,
    backup: PathBuf,
    rows: [i64; 2],
}

fn killed() -> Killed {
    let place = Place::new();
    let [live, app, backup] = ["live.db", "app.db", "backup.db"].map(|name| place.path(name));
    let db = open(&live);
    db.execute_batch(NEW).expect("a table");
    commit(&db, 30);
    db.execute_batch(RESTART).expect("a checkpoint");
    copy_elsewhere(&live, &backup);
    let before = rows(&db);
    commit(&db, 20);
    db.execute_batch(RESTART).expect("a checkpoint");
    commit(&db, 10);
    copy(&live, &app);
    let rows = [rows(&db), before];
    assert!(rows[0] > rows[1] && !read(&wal(&app)).is_empty());
    Killed {
        place,
        app,
        backup,
        rows,
    }
}

/// Moves the file away, without its WAL, and puts the backup in its place. Returns where it is now.
fn put_back(place: &Place, app: &Path, backup: &Path) -> PathBuf {
    let away = place.path("away.db");
    std::fs::rename(app, &away).expect("renamable");
    std::fs::copy(backup, app).expect("a copy");
    away
}

/// The database has so many rows and is sound, before and after it is written to and closed.
fn expect(path: &Path, expected: i64, what: &str) {
    let db = open(path);
    assert_eq!(rows(&db), expected, "{what}");
    content::assert_sound(&db, what);
    commit(&db, 3);
    db.execute_batch(RESTART).expect("a checkpoint");
    commit(&db, 1);
    drop(db);
    let db = open(path);
    assert_eq!(rows(&db), expected + 40, "{what}, written to");
    content::assert_sound(&db, what);
}

/// The WAL is not applied to the database, which has so many rows; what was in the WAL is copied, once.
fn expect_refused(path: &Path, expected: i64, what: &str) {
    let before = read(&wal(path));
    expect(path, expected, what);
    let copies = aside(path);
    assert_eq!(copies.len(), 1, "{what}: {copies:?}");
    assert!(read(&copies[0]) == before, "{what}");
}

/// It is applied.
fn expect_applied(path: &Path, expected: i64, what: &str) {
    expect(path, expected, what);
    assert!(aside(path).is_empty(), "{what}");
}

#[test]
fn the_file_alone_is_put_back() {
    for with_index in [false, true] {
        let Killed {
            place,
            app,
            backup,
            rows,
        } = killed();
        if with_index {
            std::fs::write(beside(&app, "-shm"), [7; 32768]).expect("writable");
        }
        let away = put_back(&place, &app, &backup);
        expect_refused(&app, rows[1], "the backup");
        // And where it belongs it is applied.
        std::fs::rename(&aside(&app)[0], wal(&away)).expect("renamable");
        expect_applied(&away, rows[0], "the one that was moved away");
    }
}

/// As recipes for plain SQLite have it.
#[test]
fn the_file_and_the_plain_names_are_moved_away_and_a_new_one_is_made() {
    let Killed {
        place, app, rows, ..
    } = killed();
    let away = place.path("app.db.corrupt");
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (beside(&app, suffix), beside(&away, suffix));
        let _ = std::fs::rename(from, to);
    }
    let log = read(&wal(&app));
    let db = open(&app);
    db.execute_batch(NEW).expect("a new database");
    commit(&db, 5);
    drop(db);
    let copies = aside(&app);
    assert_eq!(copies.len(), 1);
    assert!(read(&copies[0]) == log);
    assert_eq!(self::rows(&open(&app)), 50);
    std::fs::rename(&copies[0], wal(&away)).expect("renamable");
    expect_applied(&away, rows[0], "the one that was moved away");
}

/// SQLite deletes a WAL that it finds empty when the last connection closes.
#[test]
fn a_wal_that_is_not_applied_is_not_deleted() {
    let Killed {
        place,
        app,
        backup,
        rows,
    } = killed();
    put_back(&place, &app, &backup);
    let log = read(&wal(&app));
    let db = open(&app);
    assert_eq!(self::rows(&db), rows[1]);
    assert!(
        aside(&app).is_empty() && read_elsewhere(&wal(&app)) == log,
        "only read"
    );
    drop(db);
    assert!(!wal(&app).exists());
    assert!(read(&aside(&app)[0]) == log);
    // The same once more is the same copy.
    std::fs::write(wal(&app), &log).expect("writable");
    let db = open(&app);
    db.execute_batch("pragma wal_checkpoint(truncate)")
        .expect("a checkpoint");
    drop(db);
    assert_eq!(aside(&app).len(), 1);
}

#[test]
fn both_files_are_copied_together_or_moved() {
    let Killed {
        place, app, rows, ..
    } = killed();
    let [copied, moved] = ["copied.db", "moved.db"].map(|name| place.path(name));
    copy(&app, &copied);
    for suffix in ["", "-lpw"] {
        std::fs::rename(beside(&app, suffix), beside(&moved, suffix)).expect("renamable");
    }
    expect_applied(&copied, rows[0], "copied");
    expect_applied(&moved, rows[0], "moved");
}

#[test]
fn the_wal_alone_is_removed() {
    let Killed {
        place: _place,
        app,
        rows,
        ..
    } = killed();
    std::fs::remove_file(wal(&app)).expect("removable");
    expect_applied(&app, rows[0] - 100, "the last checkpoint");
}

/// A copy that is byte by byte the file: the WAL follows it, too.
#[test]
fn a_copy_from_after_the_last_checkpoint_is_the_file_itself() {
    let place = Place::new();
    let [live, app] = ["live.db", "app.db"].map(|name| place.path(name));
    let db = open(&live);
    db.execute_batch(NEW).expect("a table");
    commit(&db, 10);
    db.execute_batch(RESTART).expect("a checkpoint");
    copy_elsewhere(&live, &app);
    commit(&db, 10);
    copy_elsewhere(&wal(&live), &wal(&app));
    expect_applied(&app, 200, "the newest state");
}

/// File and WAL are copied one after the other, and between the two copies the program goes on.
#[test]
fn copies_of_two_moments() {
    // Between the two copies, and the rows that each order of copying leaves: first the file, first the WAL.
    let between: [(&str, u32, i64, i64); 5] = [
        ("select 1", 0, 200, 200),
        // The WAL goes on.
        ("select 1", 3, 230, 200),
        ("pragma wal_checkpoint(passive)", 0, 200, 200),
        // It is begun anew: the one no longer follows the file, the other does not yet.
        ("pragma wal_checkpoint(restart)", 3, 100, 200),
        ("pragma wal_checkpoint(truncate)", 3, 100, 200),
    ];
    for (checkpoint, commits, file_first, wal_first) in between {
        let place = Place::new();
        let [live, a, b] = ["live.db", "a.db", "b.db"].map(|name| place.path(name));
        let db = open(&live);
        db.execute_batch(NEW).expect("a table");
        commit(&db, 10);
        db.execute_batch(RESTART).expect("a checkpoint");
        commit(&db, 10);
        copy_elsewhere(&live, &a);
        copy_elsewhere(&wal(&live), &wal(&b));
        db.execute_batch(checkpoint).expect("a checkpoint");
        commit(&db, commits);
        copy_elsewhere(&wal(&live), &wal(&a));
        copy_elsewhere(&live, &b);
        expect(&a, file_first, &format!("file first, {checkpoint}"));
        expect(&b, wal_first, &format!("WAL first, {checkpoint}"));
    }
}

/// A checkpoint brings more into the file than the older copy of the same WAL has.
#[test]
fn a_file_that_is_ahead_of_the_copy_of_its_wal() {
    let place = Place::new();
    let [live, app, midst] = ["live.db", "app.db", "midst.db"].map(|name| place.path(name));
    let (db, reader) = (open(&live), open(&live));
    db.execute_batch(NEW).expect("a table");
    db.execute_batch("create table u(a)").expect("a table");
    commit(&db, 10);
    copy_elsewhere(&wal(&live), &wal(&app));
    copy_elsewhere(&wal(&live), &wal(&midst));
    commit(&db, 10);
    let checkpoint = || {
        let copied = db.query_row("pragma wal_checkpoint(passive)", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        copied.expect("a checkpoint")
    };
    let (frames, copied) = checkpoint();
    assert_eq!(copied, frames);
    copy_elsewhere(&live, &app);
    expect_refused(&app, 200, "as far as the checkpoint came");

    // Commits that a reader has not seen stay in the WAL, and pages that were changed since are not brought at all.
    db.execute_batch("insert into u select hex(randomblob(2000)) from t")
        .expect("a commit");
    reader
        .execute_batch("begin; select count(*) from t")
        .expect("a reader");
    commit(&db, 1);
    let (frames, copied) = checkpoint();
    assert!(0 < copied && copied < frames, "{copied} of {frames} frames");
    copy_elsewhere(&live, &midst);
    let before = [read(&midst), read(&wal(&midst))];
    for sql in [
        "select count(*) from t",
        "insert into u values(1)",
        "vacuum",
    ] {
        let db = open(&midst);
        db.execute_batch(sql).expect_err("neither file has it all");
    }
    assert_eq!(aside(&midst), Vec::<PathBuf>::new());
    // But for the marks of durability.
    let after = read(&midst);
    assert!(before[0][..1536] == after[..1536] && before[0][2048..] == after[2048..]);
    assert!(before[1] == read(&wal(&midst)));
    copy_elsewhere(&wal(&live), &wal(&midst));
    expect_applied(&midst, 210, "with its own WAL");

    // The file alone is a mixture of two states. Who says that it never changes gets it as it is.
    let alone = place.path("alone.db");
    copy_elsewhere(&live, &alone);
    for (parameters, is_read) in [("", false), ("mode=ro", false), ("immutable=1", true)] {
        let opened = vfs::open_with(&alone, parameters);
        let read = opened.and_then(|db| db.execute_batch("select count(*) from t"));
        assert_eq!(read.is_ok(), is_read, "{parameters}: {read:?}");
    }
    let plain = place.path("plain.db");
    let run = run_litepack([Path::new("unpack"), &alone, &plain]);
    assert!(!run.status.success() && !plain.exists());
}

#[test]
fn the_wal_of_another_database() {
    let place = Place::new();
    let [a, b] = ["a.db", "b.db"].map(|name| place.path(name));
    let (one, other) = (open(&a), open(&b));
    for db in [&one, &other] {
        db.execute_batch(NEW).expect("a table");
        commit(db, 10);
        db.execute_batch(RESTART).expect("a checkpoint");
        commit(db, 5);
    }
    let mixed = place.path("mixed.db");
    copy_elsewhere(&a, &mixed);
    copy_elsewhere(&wal(&b), &wal(&mixed));
    expect_refused(&mixed, 100, "another database");
}

#[test]
fn the_copies_that_vacuum_makes() {
    let Killed {
        place, app, rows, ..
    } = killed();
    // Into another file, which then takes the name.
    let fresh = place.path("fresh.db");
    let log = read(&wal(&app));
    let db = open(&app);
    db.execute("vacuum into ?", [vfs::uri(&fresh, "litepack", "")])
        .expect("a copy");
    drop(db);
    std::fs::rename(&fresh, &app).expect("renamable");
    std::fs::write(wal(&app), &log).expect("writable");
    expect_refused(&app, rows[0], "vacuum into");
    // In place.
    let Killed {
        place: _place,
        app,
        rows,
        ..
    } = killed();
    let log = read(&wal(&app));
    let db = open(&app);
    db.execute_batch("vacuum; pragma wal_checkpoint(truncate)")
        .expect("vacuum");
    drop(db);
    std::fs::write(wal(&app), &log).expect("writable");
    expect_refused(&app, rows[0], "vacuum");
}

#[test]
fn the_journal_mode_changes_and_changes_back() {
    let Killed {
        place,
        app,
        backup,
        rows,
    } = killed();
    let log = read(&wal(&app));
    let db = open(&app);
    db.execute_batch("pragma journal_mode = delete")
        .expect("a mode");
    assert!(!wal(&app).exists());
    drop(db);
    let [delete, back] = ["delete.db", "back.db"].map(|name| place.path(name));
    std::fs::copy(&app, &delete).expect("a copy");
    let db = open(&app);
    db.execute_batch("update t set v = v || '!'; pragma journal_mode = wal")
        .expect("a mode");
    copy_elsewhere(&app, &back);
    commit(&db, 2);
    let newer = read_elsewhere(&wal(&app));
    for (path, log, expected, what) in [
        (&delete, &log, rows[0], "DELETE, and a WAL from before"),
        (&back, &log, rows[0], "WAL again, and a WAL from before"),
        (&backup, &newer, rows[1], "from before, and the newest WAL"),
    ] {
        std::fs::write(wal(path), log).expect("writable");
        expect_refused(path, expected, what);
    }
    drop(db);
    // In a rollback mode there is no WAL to follow.
    std::fs::write(wal(&app), &newer).expect("writable");
    let db = open(&app);
    assert_eq!(self::rows(&db), rows[0] + 20);
    content::assert_sound(&db, "the database itself");
}

/// Two clones go on by themselves, with as many commits.
#[test]
fn two_histories_that_reach_the_same_commit() {
    let Killed {
        place,
        backup,
        rows,
        ..
    } = killed();
    let [a, b] = ["a.db", "b.db"].map(|name| place.path(name));
    let clones = [&a, &b].map(|path| {
        std::fs::copy(&backup, path).expect("a copy");
        let db = open(path);
        for _ in 0..3 {
            commit(&db, 2);
            db.execute_batch(RESTART).expect("a checkpoint");
        }
        commit(&db, 2);
        db
    });
    let mixed = place.path("mixed.db");
    copy_elsewhere(&a, &mixed);
    copy_elsewhere(&wal(&b), &wal(&mixed));
    expect_refused(&mixed, rows[1] + 60, "the WAL of its twin");
    drop(clones);
}

/// A WAL that cannot be copied is not written over.
#[test]
fn without_room_for_the_copy_nothing_is_written() {
    let Killed {
        place: _place,
        app,
        backup,
        rows,
    } = killed();
    std::fs::copy(&backup, &app).expect("a copy");
    let log = read(&wal(&app));
    let db = open(&app);
    commit(&db, 1);
    drop(db);
    let name = aside(&app).remove(0);
    // Nothing can be copied to that name.
    std::fs::remove_file(&name).expect("removable");
    std::fs::create_dir(&name).expect("a directory");
    std::fs::copy(&backup, &app).expect("a copy");
    std::fs::write(wal(&app), &log).expect("writable");
    let db = open(&app);
    assert_eq!(self::rows(&db), rows[1]);
    // With any other error than that of the first write.
    db.execute_batch("insert into t(v) values('new')")
        .expect_err("no room");
    assert_eq!(self::rows(&db), rows[1]);
    assert!(read_elsewhere(&wal(&app)) == log);
    std::fs::remove_dir(&name).expect("removable");
    db.execute_batch("insert into t(v) values('new')")
        .expect("room");
    drop(db);
    assert!(read(&name) == log);
    assert_eq!(self::rows(&open(&app)), rows[1] + 1);
}

/// The commands say so, and read the database without it.
#[test]
fn commands_say_that_a_wal_is_not_applied() {
    let Killed {
        place,
        app,
        backup,
        rows,
    } = killed();
    let away = put_back(&place, &app, &backup);
    let run = |arguments: &[&Path]| run_litepack(arguments);
    for command in ["check", "info"] {
        let said = succeed(command, &run(&[Path::new(command), &app]));
        assert!(
            said.contains("app.db-lpw") && said.contains("not applied"),
            "{said}"
        );
    }
    let plain = place.path("plain.db");
    succeed("unpack", &run(&[Path::new("unpack"), &app, &plain]));
    assert_eq!(
        self::rows(&vfs::open_plain(&plain).expect("it opens")),
        rows[1]
    );
    // After that it may have been set aside: the command was the last to close the database.
    let copies = aside(&app);
    let log = if wal(&app).exists() {
        wal(&app)
    } else {
        copies[0].clone()
    };
    let said = succeed("check", &run(&[Path::new("check"), &app]));
    assert!(said.contains("not applied"), "{said}");
    // The way back: beside the database that it belongs to.
    std::fs::rename(log, wal(&away)).expect("renamable");
    let whole = place.path("whole.db");
    succeed("unpack", &run(&[Path::new("unpack"), &away, &whole]));
    assert_eq!(
        self::rows(&vfs::open_plain(&whole).expect("it opens")),
        rows[0]
    );
}
