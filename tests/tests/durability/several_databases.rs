//! Transactions over several databases in which a call fails. SQLite rolls back, and every database has to be as
//! it was.

use litepack_simdisk::{Call, CallSet, CrashMode, Fault, FaultError, SimDisk, SimVfs};
use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::sync::atomic::{AtomicU32, Ordering};

fn count(db: &Connection, what: &str) -> i64 {
    db.query_row(&format!("select count(*) from {what}"), [], |row| {
        row.get(0)
    })
    .unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn expect_sound(db: &Connection) {
    let said: String = db
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(said, "ok");
}

const FIFTY_ROWS: &str = "create table t(k integer primary key, v); create table aux.t(x);
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 50)
      select i, 'old' from n;";

/// The last of three databases, one of which is new, is refused its writes when the new one has had all of its own.
#[test]
fn a_new_database_is_empty_again_after_a_refused_write() {
    let modes = ["delete", "truncate", "persist"];
    // Refused is a page, or what names the super-journal in the journal: then nothing but the new one's journal refers
    // to that.
    let refused = [
        ("last.db", 1),
        ("last.db-journal", 2),
        ("last.db-journal", 3),
    ];
    let cases = modes
        .iter()
        .flat_map(|mode| refused.map(|(name, at)| (*mode, name, at)));
    for (number, (journal, suffix, at)) in cases.enumerate() {
        let disk = SimDisk::new();
        let plain = format!("refused-write-{number}");
        let _vfs = disk.register(&plain);
        let packed = format!("litepack-{plain}");
        litepack_rusqlite::register().expect("Litepack registers");
        litepack_rusqlite::register_vfs(&packed, &plain).expect("over the simulated disk");
        let packed = packed + vfs::key();
        let uri = |name: &str, vfs: &str| format!("file:/{name}.db?vfs={vfs}");
        let open = |name: &str, vfs: &str| {
            Connection::open_with_flags(uri(name, vfs), OpenFlags::default()).expect("it opens")
        };
        let db = open("old", &packed);
        db.execute_batch(&format!(
            "pragma journal_mode = {journal};
             create table t(k, v);
             insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 100)
               select i, hex(randomblob(500)) from n;"
        ))
        .expect("an old database");
        for (name, vfs) in [("new", &packed), ("last", &plain)] {
            db.execute(&format!("attach ? as {name}"), [uri(name, vfs)])
                .expect("attached");
            db.execute_batch(&format!("pragma {name}.journal_mode = {journal}"))
                .expect("a pragma");
        }
        let full = Fault::new(CallSet::WRITES, FaultError::Full);
        disk.inject(full.on_names_ending(suffix).at(at));
        let refused = db.execute_batch(
            "begin; create table new.t as select * from main.t; create table last.t(x);
             delete from main.t; commit",
        );
        refused.expect_err("the last database is refused its first page");
        disk.clear_faults();
        if !db.is_autocommit() {
            db.execute_batch("rollback").expect("it rolls back");
        }
        assert_eq!(count(&db, "new.sqlite_schema"), 0, "{journal}");
        assert_eq!(count(&db, "main.t"), 100, "{journal}");
        drop(db);
        for (name, vfs, tables) in [
            ("old", &packed, 1),
            ("new", &packed, 0),
            ("last", &plain, 0),
        ] {
            let db = open(name, vfs);
            assert_eq!(count(&db, "sqlite_schema"), tables, "{journal}: {name}");
            let said: String = db
                .query_row("pragma integrity_check", [], |row| row.get(0))
                .expect("a check");
            assert_eq!(said, "ok", "{journal}: {name}");
        }
    }
}

/// A simulated disk with two packed databases. Knowledge about names is one for the process, so each test has a name of
/// its own: `test`.
fn open_two(disk: &SimDisk, test: &str) -> (SimVfs, Connection) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let plain = format!("{test}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let vfs = disk.register(&plain);
    let packed = format!("litepack-{plain}");
    litepack_rusqlite::register().expect("Litepack registers");
    litepack_rusqlite::register_vfs(&packed, &plain).expect("over the simulated disk");
    let uri = |name: &str| format!("file:/{test}-{name}.db?vfs={packed}{}", vfs::key());
    let db = Connection::open_with_flags(uri("main"), OpenFlags::default()).expect("it opens");
    db.execute("attach ? as aux", [uri("aux")])
        .expect("attached");
    (vfs, db)
}

/// The disk is full when half of a journal has been copied to its name. SQLite goes on with the journal it has, and in
/// exclusive locking mode it never deletes the one it does not know of.
#[test]
fn half_a_journal_is_not_played_back() {
    let disk = SimDisk::new();
    let (_vfs, db) = open_two(&disk, "half-a-journal");
    db.execute_batch(
        "pragma locking_mode = exclusive; pragma main.cache_size = 5;
         create table t(k integer primary key, v); create table aux.t(x);
         insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
           select i, hex(randomblob(500)) from n;",
    )
    .expect("two databases");
    // So many pages that the cache spills: the journal counts its records then.
    let both = "begin; update t set v = 'undone' || v; insert into aux.t values (1); commit";
    let half = Fault::new(CallSet::WRITES, FaultError::ShortWrite);
    disk.inject(half.on_names_ending("main.db-lpjourn"));
    db.execute_batch(both).expect_err("the disk is full");
    disk.clear_faults();
    if !db.is_autocommit() {
        db.execute_batch("rollback").expect("it rolls back");
    }
    db.execute("update t set v = 'later'", [])
        .expect("a commit");
    // Killed.
    let (_vfs, found) = open_two(&SimDisk::from_images(disk.live_images()), "half-a-journal");
    assert_eq!(count(&found, "t where v = 'later'"), 500);
    assert_eq!(count(&found, "aux.t"), 0);
    expect_sound(&found);
}

/// A transaction is rolled back, and its journal is deleted, but the directory cannot be synced then.
#[test]
fn a_journal_whose_deletion_was_not_synced_stays_deleted() {
    let disk = SimDisk::new();
    let (_vfs, db) = open_two(&disk, "unsynced-name");
    db.execute_batch(FIFTY_ROWS).expect("two databases");
    let refused = Fault::new(CallSet::of(Call::Sync), FaultError::Io);
    disk.inject(refused.on_names_ending("aux.db"));
    let unsynced = Fault::new(CallSet::of(Call::Delete), FaultError::DirSync);
    // The last one that is deleted.
    disk.inject(unsynced.on_names_ending("aux.db-lpjourn"));
    db.execute_batch("begin; update t set v = 'undone'; insert into aux.t values (1); commit")
        .expect_err("one database cannot be synced");
    assert_eq!(disk.fault_hits(), 2);
    disk.clear_faults();
    if !db.is_autocommit() {
        db.execute_batch("rollback").expect("it rolls back");
    }
    db.execute("insert into aux.t values (2)", [])
        .expect("a commit");
    for mode in CrashMode::ALL {
        let images = disk.crash_images(disk.op_count(), mode, 1);
        let (_vfs, found) = open_two(&SimDisk::from_images(images), "unsynced-name");
        assert_eq!(count(&found, "t where v = 'old'"), 50, "{mode:?}");
        assert_eq!(count(&found, "aux.t where x = 2"), 1, "{mode:?}");
        assert_eq!(count(&found, "aux.t"), 1, "{mode:?}");
    }
}

/// The writer changes both databases, and from this call on each one fails. Then it is gone. Whether it committed.
fn die_in_a_commit(disk: &SimDisk, writer: Connection, vfs: SimVfs, call: u64) -> bool {
    let all = Fault::new(CallSet::IO, FaultError::Io);
    disk.inject(all.at(call).forever());
    let both = "begin; update t set v = 'new'; insert into aux.t values (1); commit";
    let done = writer.execute_batch(both).is_ok();
    drop((writer, vfs));
    disk.clear_faults();
    done
}

/// A writer can do nothing any more, from one call on after the other, in a transaction over both. Then a program comes
/// that has no Litepack: it would play a journal back into the packed file.
#[test]
fn a_program_without_litepack_finds_no_journal() {
    let mut found_journals = 0;
    for call in 1.. {
        let disk = SimDisk::new();
        let name = "no-litepack";
        let (vfs, writer) = open_two(&disk, name);
        writer.execute_batch(FIFTY_ROWS).expect("two databases");
        let done = die_in_a_commit(&disk, writer, vfs, call);
        let context = format!("from call {call} on");
        let images = disk.live_images();
        let journal = images.get("/no-litepack-main.db-lpjourn");
        found_journals += u32::from(journal.is_some_and(|bytes| !bytes.is_empty()));
        let disk = SimDisk::from_images(images);
        let plain = format!("{name}-plain");
        let vfs = disk.register(&plain);
        for database in ["/no-litepack-main.db", "/no-litepack-aux.db"] {
            let uri = format!("file:{database}?vfs={plain}");
            let stranger = Connection::open_with_flags(uri, OpenFlags::default()).expect("opened");
            let heard = stranger.execute_batch("select * from t");
            let code = heard.expect_err("no database").sqlite_error_code();
            assert_eq!(code, Some(ErrorCode::NotADatabase), "{context}");
        }
        drop(vfs);
        let (_vfs, found) = open_two(&SimDisk::from_images(disk.live_images()), name);
        let new = count(&found, "aux.t");
        assert_eq!(count(&found, "t where v = 'new'"), 50 * new, "{context}");
        expect_sound(&found);
        if done {
            break;
        }
    }
    assert!(found_journals > 0);
}

/// A writer can do nothing any more, from one call on after the other, in a transaction over both. Who plays its
/// journals back does not ask for syncs of them.
#[test]
fn a_journal_that_was_played_back_does_not_come_back() {
    for (mode, synchronous) in [
        ("truncate", "normal"),
        ("persist", "off"),
        ("delete", "off"),
    ] {
        let mut played_back = 0;
        for call in 1.. {
            let disk = SimDisk::new();
            let name = "played-back";
            let (vfs, writer) = open_two(&disk, name);
            writer.execute_batch(FIFTY_ROWS).expect("two databases");
            let (_other_vfs, other) = open_two(&disk, name);
            for schema in ["main", "aux"] {
                other
                    .execute_batch(&format!(
                        "pragma {schema}.journal_mode = {mode};
                         pragma {schema}.synchronous = {synchronous}"
                    ))
                    .expect("modes");
            }
            let done = die_in_a_commit(&disk, writer, vfs, call);
            let context = format!("{mode}, {synchronous}, from call {call} on");
            let journal = disk.live_images();
            let journal = journal.get("/played-back-main.db-lpjourn");
            played_back += u32::from(journal.is_some_and(|bytes| !bytes.is_empty()));
            other
                .execute_batch(
                    "select * from t; select * from aux.t;
                     pragma synchronous = full; update t set v = 'later'",
                )
                .expect("a commit");
            let images = disk.crash_images(disk.op_count(), CrashMode::LoseAll, 1);
            let lost = SimDisk::from_images(images);
            let (_vfs, found) = open_two(&lost, name);
            assert_eq!(count(&found, "t where v = 'later'"), 50, "{context}");
            if done {
                break;
            }
        }
        assert!(played_back > 2, "no journal was there: {played_back}");
    }
}
