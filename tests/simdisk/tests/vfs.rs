//! The simulated VFS as SQLite sees it: locks between connections, WAL readers beside writers,
//! temporary files, names, missing files, a read-only and a full disk.

use litepack_simdisk::{CrashMode, OpenOptions, SimDisk, SimVfs};
use rusqlite::{Connection, ErrorCode, OpenFlags};

fn open(vfs: &SimVfs, name: &str) -> rusqlite::Result<Connection> {
    let url = format!("file:/{name}?vfs={}", vfs.name());
    Connection::open_with_flags(url, OpenFlags::default())
}

fn failure(result: rusqlite::Result<()>) -> Option<ErrorCode> {
    result.err().and_then(|error| error.sqlite_error_code())
}

#[test]
fn writers_exclude_each_other_and_readers_hold_up_a_commit() {
    let disk = SimDisk::new();
    let vfs = disk.register("vfs-locks");
    let (a, b) = (open(&vfs, "l.db").unwrap(), open(&vfs, "l.db").unwrap());
    a.busy_timeout(std::time::Duration::ZERO).unwrap();
    b.busy_timeout(std::time::Duration::ZERO).unwrap();
    a.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1); BEGIN IMMEDIATE")
        .unwrap();
    assert_eq!(
        failure(b.execute_batch("BEGIN IMMEDIATE")),
        Some(ErrorCode::DatabaseBusy)
    );
    b.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    a.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    assert_eq!(
        failure(a.execute_batch("COMMIT")),
        Some(ErrorCode::DatabaseBusy)
    );
    let c = open(&vfs, "l.db").unwrap();
    c.busy_timeout(std::time::Duration::ZERO).unwrap();
    // The writer waits with PENDING: no new reader comes in.
    assert_eq!(
        failure(c.execute_batch("SELECT * FROM t")),
        Some(ErrorCode::DatabaseBusy)
    );
    b.execute_batch("COMMIT").unwrap();
    a.execute_batch("COMMIT").unwrap();
    let count: i64 = c
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 2);
}

#[test]
fn wal_readers_keep_their_snapshot() {
    let disk = SimDisk::new();
    let vfs = disk.register("vfs-wal");
    let (a, b) = (open(&vfs, "w.db").unwrap(), open(&vfs, "w.db").unwrap());
    let mode: String = a
        .query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    a.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1)")
        .unwrap();
    let count = |db: &Connection| -> i64 {
        db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    };
    b.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&b), 1);
    a.execute_batch("INSERT INTO t VALUES(2); PRAGMA wal_checkpoint(PASSIVE)")
        .unwrap();
    assert_eq!((count(&a), count(&b)), (2, 1));
    b.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&b), 2);
    drop((a, b));
    assert_eq!(disk.live_images().keys().collect::<Vec<_>>(), ["/w.db"]);
}

#[test]
fn two_threads_can_share_the_disk() {
    let disk = SimDisk::new();
    let vfs = disk.register("vfs-threads");
    open(&vfs, "t.db")
        .unwrap()
        .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x)")
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let db = open(&vfs, "t.db").unwrap();
                db.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
                for value in 0..40 {
                    db.execute("INSERT INTO t VALUES(?1)", [value]).unwrap();
                }
            });
        }
    });
    let db = open(&vfs, "t.db").unwrap();
    let count: i64 = db
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 120);
}

#[test]
fn temporary_files_leave_nothing() {
    let disk = SimDisk::new();
    let vfs = disk.register("vfs-temp");
    let db = open(&vfs, "m.db").unwrap();
    db.execute_batch(
        "PRAGMA temp_store=FILE; PRAGMA cache_size=5; PRAGMA temp.cache_size=5;
         CREATE TEMP TABLE big AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n
             WHERE i < 3000) SELECT i, hex(randomblob(100)) AS h FROM n;
         CREATE TABLE sorted AS SELECT * FROM big ORDER BY h;",
    )
    .unwrap();
    let count: i64 = db
        .query_row("SELECT count(*) FROM sorted", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 3000);
    assert_eq!(disk.live_images().len(), 1);
}

#[test]
fn missing_files_and_read_only_disks() {
    let disk = SimDisk::new();
    let vfs = disk.register("vfs-ro");
    let url = format!("file:/none.db?mode=rw&vfs={}", vfs.name());
    let missing = Connection::open_with_flags(&url, OpenFlags::default()).map(|_| ());
    assert_eq!(failure(missing), Some(ErrorCode::CannotOpen));
    assert_eq!(disk.delete("/none.db", true).map_err(|e| e.0), Err(5898));

    open(&vfs, "r.db")
        .unwrap()
        .execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(7)")
        .unwrap();
    disk.set_read_only(true);
    let db = open(&vfs, "r.db").unwrap();
    let value: i64 = db
        .query_row("SELECT x FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(value, 7);
    assert_eq!(
        failure(db.execute_batch("INSERT INTO t VALUES(8)")),
        Some(ErrorCode::ReadOnly)
    );
}

#[test]
fn a_full_disk_says_so_and_recovers() {
    let disk = SimDisk::new();
    let vfs = disk.register("vfs-full");
    let db = open(&vfs, "f.db").unwrap();
    db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(zeroblob(20000))")
        .unwrap();
    disk.set_capacity(Some(60_000));
    let big = db.execute_batch("INSERT INTO t VALUES(zeroblob(200000))");
    assert_eq!(failure(big), Some(ErrorCode::DiskFull));
    disk.set_capacity(None);
    db.execute_batch("INSERT INTO t VALUES(zeroblob(200000))")
        .unwrap();
}

#[test]
fn the_name_goes_with_the_handle() {
    let disk = SimDisk::new();
    let first = disk.register("vfs-gone");
    let db = open(&first, "g.db").unwrap();
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    let url = format!("file:/g.db?vfs={}", first.name());
    drop(first);
    assert!(Connection::open_with_flags(url, OpenFlags::default()).is_err());
    // The open connection goes on with the files it has open; it can open no more.
    assert!(db.execute_batch("INSERT INTO t VALUES(1)").is_err());
    drop(db);
}

/// The survivors of one file, operation by operation.
#[test]
fn crashes_follow_the_rules() {
    let disk = SimDisk::new();
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    let file = disk.open(Some("/x"), options).unwrap(); // 1
    file.write_at(&[1; 1000], 0).unwrap(); // 2
    file.sync().unwrap(); // 3
    let other = disk.open(Some("/y"), options).unwrap(); // 4
    drop(other);
    disk.delete("/y", true).unwrap(); // 5
    file.write_at(&[2; 1000], 500).unwrap(); // 6
    file.truncate(700).unwrap(); // 7
    disk.delete("/x", false).unwrap(); // 8
    let after = |op, mode| disk.crash_images(op, mode, 1).remove("/x");
    assert_eq!(after(2, CrashMode::LoseAll), None);
    assert_eq!(after(2, CrashMode::KeepAll), Some(vec![1; 1000]));
    // The file is durable, its name is not, until its directory is synced.
    assert_eq!(after(3, CrashMode::LoseAll), None);
    assert_eq!(after(5, CrashMode::LoseAll), Some(vec![1; 1000]));
    assert_eq!(after(6, CrashMode::LoseAll), Some(vec![1; 1000]));
    assert_eq!(
        after(7, CrashMode::KeepAll),
        Some([vec![1; 500], vec![2; 200]].concat())
    );
    assert_eq!(after(8, CrashMode::LoseAll), Some(vec![1; 1000]));
    assert_eq!(after(8, CrashMode::KeepAll), None);

    for seed in 0..500 {
        let torn = disk
            .crash_images(6, CrashMode::Torn, seed)
            .remove("/x")
            .unwrap();
        assert_eq!(
            torn[..500],
            [1; 500],
            "bytes before the write changed, seed {seed}"
        );
        let first = &torn[500..512];
        assert!(
            first == [1; 12] || first == [2; 12],
            "a sector was cut, seed {seed}"
        );
        let last = torn.get(1024..1500).unwrap_or(&[]);
        assert!(
            last.iter().all(|b| *b == 2) || last.iter().all(|b| *b == 0),
            "seed {seed}"
        );
    }
}
