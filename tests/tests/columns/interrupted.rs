//! Maintenance of compressed columns that is interrupted, killed, rolled back, or works beside others who
//! write: no update is lost and no row is wrong.

use litepack_tests::columns::{assert_true, disturb, enable, fill, maintain, maintain_all, number};
use litepack_tests::rng::Rng;
use litepack_tests::{scale, vfs};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A database with an enabled column.
fn create(path: &Path, journal: &str, rows: u64) -> Connection {
    let db = open(path);
    let set = format!("pragma journal_mode = {journal}");
    db.query_row(&set, [], |_| Ok(())).expect("a journal mode");
    fill(&db, rows);
    enable(&db, "data", "'k' || kind", "");
    db
}

fn open(path: &Path) -> Connection {
    let db = vfs::open_plain(path).expect("it opens");
    db.busy_timeout(Duration::from_secs(20)).expect("patience");
    db.execute_batch("pragma synchronous = off")
        .expect("a setting");
    db
}

#[test]
fn writers_in_between_lose_nothing() {
    for journal in ["delete", "wal"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("a.db");
        let db = create(&path, journal, 20_000);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                disturb(&open(&path), 5, || !done.load(Ordering::Relaxed)).expect("it writes");
            });
            let start = Instant::now();
            let mut result = Ok(true);
            while result.is_ok() && start.elapsed() < Duration::from_secs(scale(3, 20)) {
                result = maintain(&db, Some(0.2));
            }
            done.store(true, Ordering::Relaxed);
            result.expect("maintenance");
            writer.join().expect("a writer");
        });
        assert_true(&db, journal);
        maintain_all(&db);
        assert_true(&db, journal);
        let compressed = number(
            &db,
            "select count(*) from _t_zstd where _data_dict is not null",
        );
        assert!(compressed > 10_000, "{journal}: {compressed}");
    }
}

#[test]
fn an_interrupt_stops_it_between_two_rows() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let db = create(&directory.path().join("a.db"), "wal", 30_000);
    db.execute_batch(
        "create table log(id); create trigger noted instead of delete on t begin
           insert into log values(old.id); end;",
    )
    .expect("a trigger");
    let handle = db.get_interrupt_handle();
    let mut rng = Rng::new(3);
    let mut interrupted = 0;
    let trials = scale(40, 400);
    for trial in 0.. {
        // On a machine that is faster, or busy, more of them, and sooner.
        let sooner = trial / trials;
        if sooner > 0 && interrupted > 3 {
            break;
        }
        assert!(sooner < 8, "{interrupted} interrupts");
        let time = Duration::from_micros(rng.below(40_000 >> sooner));
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(time);
                handle.interrupt();
            });
            maintain(&db, None)
        });
        match result {
            Err(error) => {
                let code = error.sqlite_error_code();
                assert_eq!(code, Some(ErrorCode::OperationInterrupted), "{error}");
                interrupted += 1;
            }
            Ok(more) => assert!(!more),
        }
        assert!(db.is_autocommit(), "trial {trial} left a transaction open");
        assert_true(&db, "interrupted");
        if rng.chance(50) {
            db.execute_batch(
                "update t set data = data || ' ' where id % 3 = 0;
                              update truth set data = data || ' ' where id % 3 = 0",
            )
            .expect("changes");
        }
    }
    // Triggers work again.
    db.execute_batch("delete from t where id = 5")
        .expect("a delete");
    assert_eq!(number(&db, "select count(*) from log"), 1);
}

/// Runs `work` and interrupts it when so many statements have ended; false if there were not so many.
///
/// An interrupt stops every statement from then on, what takes changes back included, for as long as the statement
/// that called the extension runs; it even keeps SQLite from reading them.
fn interrupted<T>(
    db: &mut Connection,
    statements: usize,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> bool {
    let (handle, ended) = (db.get_interrupt_handle(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&ended);
    let interrupt = move |_: TraceEvent<'_>| {
        if count.fetch_add(1, Ordering::Relaxed) + 1 == statements {
            handle.interrupt();
        }
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(interrupt))
        .expect("it counts");
    let result = work(db);
    db.trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>)
        .expect("it stops counting");
    assert!(db.is_autocommit(), "{statements} left a transaction open");
    if ended.load(Ordering::Relaxed) >= statements {
        return true;
    }
    assert!(result.is_ok(), "nothing interrupted it");
    false
}

#[test]
fn wherever_maintenance_is_interrupted_no_transaction_stays_open() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut db = create(&directory.path().join("a.db"), "wal", 300);
    let mut statements = 1;
    while interrupted(&mut db, statements, |db| maintain(db, None)) {
        assert_true(&db, "interrupted");
        let again = "update t set data = data || ' '; update truth set data = data || ' '";
        db.execute_batch(again).expect("changes");
        statements += 1;
    }
    assert!(statements > 20, "{statements} statements");
}

#[test]
fn wherever_a_change_of_the_schema_is_interrupted_no_transaction_stays_open() {
    let steps = [
        r#"select zstd_enable_transparent('{"table": "t", "column": "data", "compression_level": 3,
            "dict_chooser": "''a''"}')"#,
        "select litepack_create_index('create index by_name on t(data ->> ''name'')')",
        "select litepack_disable_transparent('t', 'data')",
    ];
    for (done, step) in steps.iter().enumerate() {
        let mut statements = 1;
        loop {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let mut db = open(&directory.path().join("a.db"));
            fill(&db, 30);
            let run = |db: &Connection, sql: &str| db.query_row(sql, [], |_| Ok(()));
            for before in &steps[..done] {
                run(&db, before).expect("it is done");
            }
            if !interrupted(&mut db, statements, |db| run(db, step)) {
                break;
            }
            assert_true(&db, step);
            statements += 1;
        }
        assert!(statements > 5, "{step}: {statements} statements");
    }
}

#[test]
fn it_works_inside_a_transaction_and_is_rolled_back_with_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let db = create(&directory.path().join("a.db"), "delete", 5000);
    let compressed = "select count(*) from _t_zstd where _data_dict is not null";
    db.execute_batch("begin").expect("a transaction");
    maintain_all(&db);
    assert_eq!(number(&db, compressed), 5000);
    assert_true(&db, "inside");
    db.execute_batch("rollback").expect("rolled back");
    assert_eq!(number(&db, compressed), 0);
    assert_true(&db, "rolled back");
    db.execute_batch("begin; savepoint a")
        .expect("a transaction");
    maintain(&db, Some(0.0)).expect("maintenance");
    db.execute_batch("rollback to a; commit")
        .expect("rolled back");
    assert_eq!(number(&db, compressed), 0);
    db.execute_batch("begin").expect("a transaction");
    maintain_all(&db);
    db.execute_batch("commit").expect("committed");
    assert_eq!(number(&db, compressed), 5000);
    assert_true(&db, "committed");
}

#[test]
fn a_lock_of_others_is_told_as_sqlite_tells_it() {
    for journal in ["delete", "wal"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("a.db");
        let db = create(&path, journal, 5000);
        db.busy_timeout(Duration::ZERO).expect("no patience");
        let other = open(&path);
        other.execute_batch("begin immediate").expect("a lock");
        let error = maintain(&db, None).expect_err("locked");
        assert_eq!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy),
            "{error}"
        );
        assert!(db.is_autocommit());
        other.execute_batch("rollback").expect("unlocked");
        maintain_all(&db);
        assert_true(&db, journal);
    }
}

#[test]
fn a_low_load_leaves_time_to_others() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("a.db");
    let db = create(&path, "delete", 30_000);
    db.busy_timeout(Duration::from_secs(20)).expect("patience");
    let done = AtomicBool::new(false);
    let (tried, locked) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let other = open(&path);
            other.busy_timeout(Duration::ZERO).expect("no patience");
            let (mut tried, mut locked) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                tried += 1;
                locked += u32::from(other.execute_batch("begin immediate; rollback").is_err());
                std::thread::sleep(Duration::from_millis(2));
            }
            (tried, locked)
        });
        let result = db.query_row(
            "select zstd_incremental_maintenance(null, 0.05)",
            [],
            |_| Ok(()),
        );
        done.store(true, Ordering::Relaxed);
        result.expect("maintenance");
        other.join().expect("the other")
    });
    // A twentieth of the time, and some for the noise of a busy machine.
    assert!(tried > 50 && locked * 4 < tried, "{locked} of {tried}");
    db.execute_batch("update t set data = data || '!'")
        .expect("changes");
    // It does not do all of it.
    assert!(maintain(&db, Some(0.001)).expect("maintenance"));
}

#[test]
fn kill_9_leaves_every_row_right() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut rng = Rng::new(9);
    for journal in ["delete", "wal"] {
        let path = directory.path().join(format!("{journal}.db"));
        // A survey takes longer than some of the workers live.
        maintain(&create(&path, journal, 30_000), Some(0.0)).expect("dictionaries");
        let trials = scale(12, 100);
        let compressed = |db: &Connection| {
            number(
                db,
                "select count(*) from _t_zstd where _data_dict is not null",
            )
        };
        for trial in 0.. {
            // On a slow machine more of them, and longer ones, until something was compressed.
            let longer = (trial / trials).min(5);
            if longer > 0 && compressed(&open(&path)) > 0 {
                break;
            }
            assert!(trial < 10 * trials, "{journal}: nothing was compressed");
            let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
                .args(["columns", path.to_str().expect("UTF-8"), &trial.to_string()])
                .stdout(Stdio::null())
                .spawn()
                .expect("a worker starts");
            std::thread::sleep(Duration::from_millis((20 + rng.below(300)) << longer));
            assert!(
                child.try_wait().expect("a state").is_none(),
                "it ended by itself"
            );
            child.kill().expect("a signal");
            child.wait().expect("an end");
            assert_true(&open(&path), &format!("{journal}, trial {trial}"));
        }
        let db = open(&path);
        maintain_all(&db);
        assert_true(&db, journal);
    }
}
