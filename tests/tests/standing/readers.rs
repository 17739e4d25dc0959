//! A log that stands on a commit of its database: who reads it without SQLite has the pages of both, and says so if
//! those that the log stands on are gone.

use litepack_tests::commandline::{Place, read_elsewhere, refuse, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use rusqlite::Connection;
use std::path::Path;

/// More pages than a generation of a log has frames.
const CONTENT: &str = "create table t(k integer primary key, v text); create table large(data);
    insert into large values(zeroblob(4200000));
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)
      insert into t select i, 'row ' || i || hex(randomblob(40)) from n";
/// Changes some bytes of most pages.
const CHANGES: &str =
    "update t set v = 'changed ' || v where k % 23 = 1; delete from t where k between 700 and 720";

fn try_rows(db: &Connection) -> rusqlite::Result<(i64, i64)> {
    let sql = "select count(*), total(length(v)) + total(k) from t";
    db.query_row(sql, [], |row| {
        Ok((row.get(0)?, row.get::<_, f64>(1)? as i64))
    })
}

fn rows(db: &Connection) -> (i64, i64) {
    try_rows(db).expect("rows")
}

fn open(path: &Path) -> Connection {
    litepack_sqlite::let_logs_stand_from(1);
    let db = vfs::open(path).expect("it opens");
    db.execute_batch("pragma journal_mode = wal; pragma wal_autocheckpoint = 0")
        .expect("pragmas");
    db
}

/// The same with this content.
fn filled(path: &Path) -> Connection {
    let db = open(path);
    db.execute_batch(CONTENT).expect("content");
    db
}

/// The two files of a database whose log stands on it.
fn files(path: &Path) -> [Vec<u8>; 2] {
    let log = path.with_extension("db-lpw");
    let files = [path.to_owned(), log].map(|path| read_elsewhere(&path));
    assert!(litepack_tests::logs::stands(&files[1]));
    files
}

fn put([main, log]: [&[u8]; 2]) -> Place {
    let place = Place::new();
    std::fs::write(place.path("a.db"), main).expect("writable");
    std::fs::write(place.path("a.db-lpw"), log).expect("writable");
    place
}

/// All commands that read a database read this one, and find these rows.
fn expect_all_read_it(path: &Path, expected: (i64, i64)) {
    let place = Place::new();
    let run = |arguments: &[&Path]| {
        let what = arguments[0].display().to_string();
        succeed(&what, &run_litepack(arguments))
    };
    let of = |name: &str, made: &Path| {
        let db = vfs::open_plain(made).expect("it opens");
        assert_eq!(rows(&db), expected, "{name}");
        content::assert_sound(&db, name);
    };
    run(&[Path::new("check"), path]);
    for command in ["unpack", "salvage"] {
        let target = place.path(command);
        run(&[Path::new(command), path, &target]);
        of(command, &target);
    }
    let archive = place.path("archive");
    run(&[Path::new("archive"), Path::new("create"), path, &archive]);
    let target = place.path("extracted");
    run(&[
        Path::new("archive"),
        Path::new("extract"),
        &archive,
        &target,
    ]);
    of("archive", &target);
    let said = run(&[Path::new("advise"), path]);
    assert!(!said.is_empty());
    let catalog = place.path("catalog");
    run(&[Path::new("catalog"), path, Path::new("-o"), &catalog]);
}

#[test]
fn the_command_reads_a_log_that_stands_on_its_database() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let db = filled(&path);
    db.execute_batch("pragma wal_checkpoint(restart)")
        .expect("a checkpoint");
    db.execute_batch(CHANGES).expect("changes");
    let expected = rows(&db);
    let left = files(&path);
    // While others have it open, and as a killed process leaves it.
    expect_all_read_it(&path, expected);
    assert_eq!(rows(&db), expected);
    let killed = put([&left[0], &left[1]]);
    expect_all_read_it(&killed.path("a.db"), expected);
    assert_eq!(
        rows(&vfs::open(&killed.path("a.db")).expect("it opens")),
        expected
    );
}

/// The file was copied before maintenance, and the log after it: what the log stands on is not in the file.
#[test]
fn what_a_log_stands_on_is_read_or_it_is_an_error() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let db = filled(&path);
    for k in (1..4000).step_by(7) {
        db.execute("update t set v = 'x' || v where k = ?1", [k])
            .expect("an update");
        if k % 5 == 0 {
            db.execute_batch("pragma wal_checkpoint(truncate)")
                .expect("a checkpoint");
        }
    }
    db.execute_batch("delete from t where k % 3 = 1; pragma wal_checkpoint(truncate)")
        .expect("rows that go");
    drop(db);
    let before = read_elsewhere(&path);
    succeed("maintain", &run_litepack([Path::new("maintain"), &path]));
    assert!(before != read_elsewhere(&path), "there was something to do");
    let db = open(&path);
    db.execute_batch(CHANGES).expect("changes");
    let expected = rows(&db);
    let [after, log] = files(&path);
    assert_eq!(
        rows(&vfs::open(&put([&after, &log]).path("a.db")).expect("it opens")),
        expected
    );
    let mixed = put([&before, &log]);
    let path = mixed.path("a.db");
    let found = vfs::open(&path).and_then(|db| try_rows(&db));
    assert!(found.is_err(), "{found:?}");
    let check = run_litepack([Path::new("check"), &path]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(
        said.contains("-lpw") && said.contains("stands on"),
        "{said}"
    );
    let unpack = run_litepack([Path::new("unpack"), &path, &mixed.path("b.db")]);
    let said = refuse("unpack", &["stands on"], &unpack);
    assert!(
        said.contains("put the newer file back") && said.contains("`litepack salvage`"),
        "{said}"
    );
    assert_eq!(read_elsewhere(&path), before);
    // Without the log it is what it was.
    std::fs::remove_file(mixed.path("a.db-lpw")).expect("it can be removed");
    let left: Vec<_> = ["a.db-shm"].iter().map(|name| mixed.path(name)).collect();
    left.iter()
        .for_each(|path| drop(std::fs::remove_file(path)));
    content::assert_sound(&vfs::open(&path).expect("it opens"), "without its log");
}
