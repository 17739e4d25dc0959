//! A checkpoint whose last step fails while a reader holds it back: SQLite does not look at the code there,
//! and tells readers to take the pages from the database all the same. Litepack has to keep them from it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use litepack_simdisk::{CallSet, Fault, FaultError, SimDisk};
use litepack_tests::machine::Machine;
use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode, Result, ffi};

const CHECKPOINT_LOCK: u32 = 1;
const FIRST_READ_LOCK: u32 = 3;

fn sum(connection: &Connection) -> Result<i64> {
    connection.query_row("select sum(n) from t", [], |row| row.get(0))
}

fn open(uri: &str) -> Connection {
    let connection = vfs::open_uri(uri).expect("it opens");
    connection
        .execute_batch("pragma cache_size = 5; pragma wal_autocheckpoint = 0")
        .unwrap();
    connection
}

/// A connection that has committed, and a reader that keeps a checkpoint from going to the end. The sum is 300 in the
/// database, 600 for the reader, and 750 in truth.
fn before_a_partial_checkpoint(uri: &str) -> (Connection, Connection) {
    let writer = open(uri);
    writer
        .execute_batch("pragma journal_mode = wal; create table t(n, x)")
        .unwrap();
    let fill = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 300) \
                insert into t select 1, randomblob(500) from c";
    writer.execute_batch(fill).unwrap();
    writer
        .execute_batch("pragma wal_checkpoint(truncate)")
        .unwrap();
    writer.execute_batch("update t set n = 2").unwrap();
    let reader = open(uri);
    reader.execute_batch("begin").unwrap();
    assert_eq!(sum(&reader), Ok(600));
    writer
        .execute_batch("update t set n = 3 where rowid <= 150")
        .unwrap();
    (writer, reader)
}

/// SQLite reports nothing: that is what makes this dangerous.
fn fail_to_checkpoint(disk: &SimDisk, writer: &Connection) {
    let before = disk.fault_hits();
    let writes = Fault::new(CallSet::WRITES, FaultError::Io).forever();
    disk.inject(writes.on_names_ending("/a.db"));
    let busy: i64 = writer
        .query_row("pragma wal_checkpoint(passive)", [], |row| row.get(0))
        .expect("SQLite does not look at the code");
    assert_eq!(busy, 0);
    assert!(disk.fault_hits() > before, "it wrote nothing");
    disk.clear_faults();
}

/// All is right again, with a checkpoint and without one.
fn expect_right(uri: &str, writer: &Connection, reader: Connection) {
    assert_eq!(sum(&reader), Ok(600), "the reader that was there");
    assert_eq!(sum(&open(uri)), Ok(750), "a new reader");
    assert_eq!(sum(writer), Ok(750), "the writer");
    reader.execute_batch("commit").unwrap();
    drop(reader);
    writer
        .execute_batch("pragma wal_checkpoint(truncate)")
        .unwrap();
    assert_eq!(sum(&open(uri)), Ok(750), "after a checkpoint that works");
    let check: String = writer
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .expect("it runs");
    assert_eq!(check, "ok");
}

#[test]
fn readers_never_see_pages_that_did_not_reach_the_database() {
    let machine = Machine::new("failing");
    let (writer, reader) = before_a_partial_checkpoint(&machine.uri);
    fail_to_checkpoint(&machine.disk, &writer);
    expect_right(&machine.uri, &writer, reader);
}

/// SQLite has told readers, and has not let go of the lock by which it is taken back.
#[test]
fn a_reader_that_begins_before_it_is_taken_back_waits() {
    let machine = Machine::new("failing-early");
    let (writer, reader) = before_a_partial_checkpoint(&machine.uri);
    let (tell, newcomers) = channel();
    let (tries, tried) = channel();
    let tried = Mutex::new(tried);
    let uri = machine.uri.clone();
    let checkpointer = thread::current().id();
    machine.disk.before_index_lock(move |first, flags| {
        let released = flags == ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_EXCLUSIVE;
        let taken = flags == ffi::SQLITE_SHM_LOCK | ffi::SQLITE_SHM_EXCLUSIVE;
        let is_checkpointer = thread::current().id() == checkpointer;
        if released && first == FIRST_READ_LOCK && is_checkpointer {
            let uri = uri.clone();
            let newcomer = thread::spawn(move || sum(&open(&uri)));
            let has_tried = tried.lock().unwrap().recv_timeout(Duration::from_secs(300));
            tell.send((newcomer, has_tried)).unwrap();
        } else if taken && first == CHECKPOINT_LOCK && !is_checkpointer {
            // To settle what it was told.
            tries.send(()).unwrap();
        }
    });
    fail_to_checkpoint(&machine.disk, &writer);
    let (newcomer, has_tried) = newcomers.try_recv().expect("the checkpoint came by there");
    machine.disk.before_index_lock(|_, _| ());
    assert_eq!(newcomer.join().unwrap(), Ok(750));
    assert_eq!(has_tried, Ok(()));
    expect_right(&machine.uri, &writer, reader);
}

/// It has its lock of the index when the checkpoint fails, and looks at the index before that is taken back.
#[test]
fn a_transaction_that_is_misled_is_told_to_begin_anew() {
    // It has the first page in its cache. SQLite does not begin anew for any other.
    for (name, sql, code) in [
        (
            "misled-read",
            "select sum(n) from t",
            ErrorCode::SystemIoFailure,
        ),
        ("misled-write", "begin immediate", ErrorCode::DatabaseBusy),
    ] {
        let machine = Machine::new(name);
        let (writer, reader) = before_a_partial_checkpoint(&machine.uri);
        let newcomer = open(&machine.uri);
        newcomer
            .execute_batch("select * from sqlite_schema")
            .unwrap();
        newcomer.busy_timeout(Duration::ZERO).unwrap();
        let (begins, has_begun) = channel();
        let (tell_to_look, looks) = channel::<()>();
        let (tell_looked, has_looked) = channel();
        let checkpointer = thread::current().id();
        let at_the_reader = Mutex::new(Some((begins, looks)));
        let at_the_checkpoint = Mutex::new(Some((tell_to_look, has_looked)));
        machine.disk.before_index_lock(move |first, flags| {
            let is_shared = flags == ffi::SQLITE_SHM_LOCK | ffi::SQLITE_SHM_SHARED;
            let is_released = flags == ffi::SQLITE_SHM_UNLOCK | ffi::SQLITE_SHM_EXCLUSIVE;
            let is_checkpointer = thread::current().id() == checkpointer;
            if is_shared && first > FIRST_READ_LOCK && !is_checkpointer {
                let taken = at_the_reader.lock().unwrap().take();
                if let Some((begins, looks)) = taken {
                    begins.send(()).unwrap();
                    looks.recv().unwrap();
                }
            }
            if is_released && first == FIRST_READ_LOCK && is_checkpointer {
                let taken = at_the_checkpoint.lock().unwrap().take();
                if let Some((tell_to_look, has_looked)) = taken {
                    tell_to_look.send(()).unwrap();
                    has_looked.recv().unwrap();
                }
            }
        });
        let misled = thread::spawn(move || {
            let first = newcomer.prepare(sql).and_then(|mut sql| {
                let mut rows = sql.query([])?;
                rows.next()?.map(|row| row.get::<_, i64>(0)).transpose()
            });
            tell_looked.send(()).unwrap();
            (first, newcomer)
        });
        has_begun.recv().unwrap();
        fail_to_checkpoint(&machine.disk, &writer);
        let (first, newcomer) = misled.join().unwrap();
        let error = first.expect_err("it was misled");
        assert_eq!(error.sqlite_error_code(), Some(code), "{sql}");
        assert_eq!(sum(&newcomer), Ok(750), "the next transaction");
        drop(newcomer);
        expect_right(&machine.uri, &writer, reader);
    }
}

/// One that had begun before the checkpoint was not misled, and goes on: it commits, or rolls back.
#[test]
fn a_transaction_that_writes_meanwhile_is_not_disturbed() {
    for end in ["commit", "rollback"] {
        let machine = Machine::new(&format!("meanwhile-{end}"));
        let (checkpointer, reader) = before_a_partial_checkpoint(&machine.uri);
        let writer = open(&machine.uri);
        assert_eq!(sum(&writer), Ok(750));
        writer
            .execute_batch("begin immediate; create table more(x)")
            .unwrap();
        fail_to_checkpoint(&machine.disk, &checkpointer);
        let more = "insert into more select randomblob(500) from t; update t set n = 4; create index i on t(n)";
        writer.execute_batch(more).unwrap();
        writer.execute_batch(end).unwrap();
        if end == "commit" {
            assert_eq!(sum(&writer), Ok(1200));
            writer
                .execute_batch("drop table more; drop index i; update t set n = 3 - rowid / 151")
                .unwrap();
        }
        let tables = "select count(*) from sqlite_schema";
        let tables = writer.query_row(tables, [], |row| row.get::<_, i64>(0));
        assert_eq!(tables, Ok(1));
        assert_eq!(sum(&writer), Ok(750));
        drop(writer);
        expect_right(&machine.uri, &checkpointer, reader);
    }
}

/// Leaves the index of a database as if the process of such a checkpoint was killed before it could take that back: it
/// says that all frames but the last are in the database.
fn leave_in_doubt(database: &Path) {
    let index = database.with_extension("db-shm");
    let index = File::options().read(true).write(true).open(index).unwrap();
    let mut frames = [0; 4];
    index.read_exact_at(&mut frames, 16).unwrap();
    let told = u32::from_ne_bytes(frames) - 1;
    index.write_all_at(&told.to_ne_bytes(), 96).unwrap();
    index.write_all_at(&1u32.to_ne_bytes(), 120).unwrap();
}

#[test]
fn readers_do_not_believe_what_a_killed_process_did_not_take_back() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("a.db");
    let uri = vfs::uri(&database, "litepack", "");
    let (writer, reader) = before_a_partial_checkpoint(&uri);
    leave_in_doubt(&database);
    expect_right(&uri, &writer, reader);
}

/// The same if a checkpoint comes first. It restarts the WAL, so what it left out would be lost.
#[test]
fn checkpoints_do_not_believe_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("a.db");
    let uri = vfs::uri(&database, "litepack", "");
    let (writer, reader) = before_a_partial_checkpoint(&uri);
    drop(reader);
    leave_in_doubt(&database);
    writer
        .execute_batch("pragma wal_checkpoint(truncate)")
        .unwrap();
    assert_eq!(sum(&open(&uri)), Ok(750));
    assert_eq!(sum(&writer), Ok(750));
}

/// The same if the next checkpoint is that of the last connection that closes, or that ends WAL mode: SQLite has the file
/// for itself then, and takes no lock of the index.
#[test]
fn the_last_connection_does_not_believe_it() {
    for ends_wal in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db");
        let uri = vfs::uri(&database, "litepack", "");
        let (writer, reader) = before_a_partial_checkpoint(&uri);
        leave_in_doubt(&database);
        drop(writer);
        reader.execute_batch("commit").unwrap();
        if ends_wal {
            reader
                .execute_batch("pragma journal_mode = delete")
                .unwrap();
        }
        drop(reader);
        assert!(!database.with_extension("db-lpw").exists());
        assert_eq!(sum(&open(&uri)), Ok(750));
    }
}
