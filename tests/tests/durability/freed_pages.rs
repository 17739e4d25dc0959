//! Pages that SQLite frees keep their content as long as anything may bring them back. SQLite does not journal them: what
//! the file has of them is what a rollback needs, also of a commit that the file has already. Maintenance makes zeros of
//! them, so it comes as soon as it can here.

use litepack_simdisk::{Call, CallSet, Fault, FaultError, SimDisk, SimVfs};
use litepack_tests::vfs;
use rusqlite::{Connection, OpenFlags};

const ROWS: i64 = 400;
const MAINTAIN: &str = "select litepack_maintain(null, 1)";
/// In this order the journal of the first database is the older one.
const DELETED: &str = "begin; delete from t; insert into aux.t values (1); commit";

/// Two packed databases on a simulated disk under this name, the first in this journal mode.
fn open_two(disk: &SimDisk, name: &str, journal: &str) -> (SimVfs, Connection) {
    let vfs = disk.register(name);
    let packed = format!("litepack-{name}");
    litepack_rusqlite::register().expect("Litepack registers");
    litepack_rusqlite::register_vfs(&packed, name).expect("over the simulated disk");
    let uri = |database: &str| format!("file:/{database}.db?vfs={packed}{}", vfs::key());
    let db = Connection::open_with_flags(uri("first"), OpenFlags::default()).expect("it opens");
    db.execute("attach ? as aux", [uri("second")])
        .expect("attached");
    db.execute_batch(&format!(
        "pragma secure_delete = off; pragma main.journal_mode = {journal}"
    ))
    .expect("modes");
    (vfs, db)
}

fn fill(db: &Connection) {
    db.execute_batch(&format!(
        "create table t(k integer primary key, v); create table aux.t(x);
         insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
           select i, hex(randomblob(500)) from n;
         pragma wal_checkpoint(truncate);"
    ))
    .expect("two databases");
}

fn count(db: &Connection, table: &str) -> i64 {
    let sql = format!("select count(*) from {table}");
    db.query_row(&sql, [], |row| row.get(0))
        .unwrap_or_else(|error| panic!("{table}: {error}"))
}

/// Each row is as long as it was, and both databases are sound.
fn expect_sound(db: &Connection, context: &str) {
    let sql = "select count(*) from t where length(v) <> 1000";
    let wrong: i64 = db
        .query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(wrong, 0, "{context}");
    for sql in ["pragma integrity_check", "select litepack_check()"] {
        let said: String = db
            .query_row(sql, [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(said, "ok", "{context}");
    }
}

fn maintain(db: &Connection, context: &str) {
    db.query_row(MAINTAIN, [], |row| row.get::<_, i64>(0))
        .unwrap_or_else(|error| panic!("{context}: {error}"));
}

/// The first database has committed when the second one fails.
#[test]
fn a_second_database_that_fails_brings_freed_pages_back() {
    for journal in ["delete", "memory", "off", "wal"] {
        let disk = SimDisk::new();
        let (_vfs, db) = open_two(&disk, &format!("freed-second-{journal}"), journal);
        fill(&db);
        let refused = Fault::new(CallSet::of(Call::Sync), FaultError::Io);
        disk.inject(refused.on_names_ending("second.db"));
        db.execute_batch(DELETED).expect_err("it cannot be synced");
        assert!(disk.fault_hits() > 0, "{journal}");
        disk.clear_faults();
        if !db.is_autocommit() {
            db.execute_batch("rollback").expect("it rolls back");
        }
        let former = count(&db, "t");
        // Without a journal SQLite has nothing to roll back with, and a commit in a WAL stays.
        let brought_back = former == ROWS;
        assert!(
            brought_back || matches!(journal, "off" | "wal"),
            "{journal}: {former}"
        );
        maintain(&db, journal);
        assert_eq!(count(&db, "t"), former, "{journal}");
        expect_sound(&db, journal);
        db.execute_batch(DELETED).expect("now it can");
        maintain(&db, journal);
        assert_eq!((count(&db, "t"), count(&db, "aux.t")), (0, 1), "{journal}");
        expect_sound(&db, journal);
    }
}

/// From one call on after the other, all fail. Then a program comes that maintains the database first.
#[test]
fn a_hot_journal_brings_freed_pages_back() {
    for journal in ["delete", "persist"] {
        let (mut undone, mut call) = (0, 0);
        loop {
            call += 1;
            let context = format!("{journal}, from call {call} on");
            let disk = SimDisk::new();
            let (vfs, writer) = open_two(&disk, &format!("freed-dies-{journal}-{call}"), journal);
            fill(&writer);
            disk.inject(Fault::new(CallSet::IO, FaultError::Io).at(call).forever());
            let done = writer.execute_batch(DELETED).is_ok();
            drop((writer, vfs));
            let disk = SimDisk::from_images(disk.live_images());
            let (_vfs, db) = open_two(&disk, &format!("freed-found-{journal}-{call}"), journal);
            maintain(&db, &context);
            let left = count(&db, "t");
            assert_eq!(left, ROWS * (1 - count(&db, "aux.t")), "{context}");
            maintain(&db, &context);
            assert_eq!(count(&db, "t"), left, "{context}");
            expect_sound(&db, &context);
            undone += u32::from(left == ROWS);
            if done {
                break;
            }
        }
        assert!(undone > 3, "{journal}: {undone}");
    }
}

/// A checkpoint that ends half way leaves page 1 of one commit beside pages of another: what page 1 names as the list of
/// free pages may be in use.
#[test]
fn a_checkpoint_that_ends_half_way_keeps_pages() {
    let mut ended = 0;
    for at in 1.. {
        let context = format!("write {at} of the checkpoint");
        let disk = SimDisk::new();
        let (_vfs, db) = open_two(&disk, &format!("freed-half-{at}"), "wal");
        fill(&db);
        db.execute_batch(
            "pragma wal_autocheckpoint = 0; delete from t where k % 4 <> 1; create table u(v);
             insert into u select hex(randomblob(400)) from t; delete from t where k > 200",
        )
        .expect("commits");
        let (left, others) = (count(&db, "t"), count(&db, "u"));
        let full = Fault::new(CallSet::WRITES, FaultError::Full);
        disk.inject(full.on_names_ending("first.db").at(at).forever());
        let done = db
            .query_row("pragma wal_checkpoint(full)", [], |row| {
                row.get::<_, i64>(0)
            })
            .is_ok_and(|busy| busy == 0);
        disk.clear_faults();
        let expect_content = || {
            let found = (count(&db, "t"), count(&db, "u"));
            assert_eq!(found, (left, others), "{context}");
            expect_sound(&db, &context);
        };
        // The command would copy the rest of the WAL first.
        maintain(&db, &context);
        expect_content();
        db.execute_batch("pragma wal_checkpoint(truncate)")
            .expect("a checkpoint");
        maintain(&db, &context);
        expect_content();
        if done {
            break;
        }
        ended += 1;
    }
    assert!(ended > 1, "{ended}");
}
