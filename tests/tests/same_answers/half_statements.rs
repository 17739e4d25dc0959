//! A statement that fails in the middle takes its whole transaction with it. SQLite does that after I/O errors only; after
//! other codes a commit would store half of the statement.

use litepack_simdisk::{Call, CallSet, Fault, FaultError};
use litepack_tests::machine::Machine;
use rusqlite::{Connection, Error, ErrorCode};

const ROWS: i64 = 8000;

/// A table with a row that many times, each with 1, in about 1500 pages.
fn fill(machine: &Machine, journal_mode: &str) {
    let connection = machine.open().unwrap();
    let mode = format!("pragma journal_mode = {journal_mode}");
    connection
        .query_row(&mode, [], |row| row.get::<_, String>(0))
        .unwrap();
    connection
        .execute_batch("create table t(id integer primary key, n, x)")
        .unwrap();
    let rows = "insert into t with recursive c(i) as (select 1 union all select i + 1 from c where i < ?1) \
                select i, 1, randomblob(700) from c";
    connection.execute(rows, [ROWS]).unwrap();
    connection
        .execute_batch("pragma wal_checkpoint(truncate)")
        .ok();
}

fn begin(machine: &Machine) -> rusqlite::Result<Connection> {
    let connection = machine.open()?;
    connection.execute_batch("pragma cache_size = 20; begin immediate")?;
    Ok(connection)
}

fn update(connection: &Connection) -> Result<usize, Error> {
    connection.execute("update t set n = n + 1", [])
}

fn expect_given_up(connection: &Connection, error: &Error, what: &str) {
    let code = error.sqlite_error_code();
    assert_eq!(code, Some(ErrorCode::SystemIoFailure), "{what}: {error}");
    assert!(connection.is_autocommit(), "{what}: {error}");
}

fn expect_as_before(machine: &Machine, what: &str) {
    let connection = machine.open().unwrap();
    let sum = connection.query_row("select sum(n) from t", [], |row| row.get::<_, i64>(0));
    assert_eq!(sum, Ok(ROWS), "{what}");
    let check = connection.query_row("pragma integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(check.as_deref(), Ok("ok"), "{what}");
}

#[test]
fn a_statement_that_meets_damage_takes_its_transaction_with_it() {
    for journal_mode in ["delete", "wal"] {
        let machine = Machine::new(&format!("half-{journal_mode}"));
        fill(&machine, journal_mode);
        let len = machine.disk.stat("/a.db").unwrap().expect("it is there");
        let mut met = 0;
        for at in (1 << 16..len).step_by(300_007) {
            let what = format!("{journal_mode}, byte {at}");
            machine.disk.rot("/a.db", at, 0);
            if let Ok(connection) = begin(&machine) {
                match update(&connection) {
                    Ok(_) => connection.execute_batch("rollback").unwrap(),
                    Err(error) => {
                        met += 1;
                        expect_given_up(&connection, &error, &what);
                    }
                }
            }
            machine.disk.rot("/a.db", at, 0);
            expect_as_before(&machine, &what);
        }
        assert!(met > 5, "{journal_mode}: {met}");
    }
}

/// A journal that grows beyond its room in memory goes to a temporary file, in the middle of a statement.
#[test]
fn a_statement_whose_journal_finds_no_file_takes_its_transaction_with_it() {
    let machine = Machine::new("half-journal");
    fill(&machine, "delete");
    let connection = begin(&machine).unwrap();
    let opens = Fault::new(CallSet::of(Call::Open), FaultError::Io).forever();
    machine.disk.inject(opens);
    let error = update(&connection).expect_err("it finds no file");
    machine.disk.clear_faults();
    expect_given_up(&connection, &error, "no file");
    drop(connection);
    expect_as_before(&machine, "no file");
}

/// A checkpoint of another connection moves the pages of a table, of which this one has some in its cache: the statement
/// has changed those when it looks for the newest commit.
#[test]
fn a_statement_that_finds_no_packed_file_takes_its_transaction_with_it() {
    let machine = Machine::new("half-header");
    fill(&machine, "wal");
    let connection = machine.open().unwrap();
    let changed = "update t set x = randomblob(700) where id > 7000";
    connection.execute(changed, []).unwrap();
    let sum = "select sum(n) from t where id < 1000";
    let seen: i64 = connection.query_row(sum, [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 999);
    let other = machine.open().unwrap();
    other
        .execute_batch("pragma wal_checkpoint(passive)")
        .unwrap();
    let rot = || (0..2).for_each(|slot| machine.disk.rot("/a.db", 4096 * slot, 0));
    rot();
    connection.execute_batch("begin immediate").unwrap();
    let error = update(&connection).expect_err("the file is not packed");
    rot();
    expect_given_up(&connection, &error, "no header");
    drop((connection, other));
    expect_as_before(&machine, "no header");
}
