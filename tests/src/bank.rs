//! A bank whose total never changes: several processes or threads move money between accounts while
//! others add everything up, and anyone who sees half a transfer sees a wrong sum.

use crate::rng::Rng;
use rusqlite::{Connection, Error, ErrorCode, TransactionBehavior};
use std::path::Path;
use std::time::{Duration, Instant};

const ACCOUNTS: i64 = 400;
const OPENING: i64 = 1000;

/// The part that a process or thread plays in the bank until its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Moves money, in short transactions and a few that touch every account.
    Write,
    /// Adds up.
    Read,
    /// Checkpoints the WAL (in other journal modes: nothing).
    Checkpoint,
    /// Rebuilds the database now and then.
    Vacuum,
    /// Has pages stored again and space given back.
    Maintain,
}

impl Role {
    /// By its name on a command line.
    pub fn parse(name: &str) -> Option<Role> {
        let roles = [
            Role::Write,
            Role::Read,
            Role::Checkpoint,
            Role::Vacuum,
            Role::Maintain,
        ];
        roles.into_iter().find(|role| role.name() == name)
    }

    /// Name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Write => "write",
            Role::Read => "read",
            Role::Checkpoint => "checkpoint",
            Role::Vacuum => "vacuum",
            Role::Maintain => "maintain",
        }
    }
}

/// How often something was done, and how often someone else was in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that succeeded.
    pub done: u64,
    /// Transactions given up with SQLITE_BUSY or SQLITE_LOCKED.
    pub busy: u64,
}

/// Makes the accounts.
pub fn create(connection: &Connection, journal_mode: &str) -> Result<(), Error> {
    connection.execute_batch(&format!(
        "pragma journal_mode = {journal_mode};
         pragma synchronous = off;
         create table account(id integer primary key, balance int not null,
           sent int not null default 0, note text);
         create table transfer(worker int, number int, source int, target int, amount int,
           memo text, primary key(worker, number)) without rowid;
         create index by_source on transfer(source, amount);
         insert into account(id, balance, note) with recursive n(i) as
           (select 1 union all select i + 1 from n where i < {ACCOUNTS})
           select i, {OPENING}, printf('account number %d of the bank', i) from n;"
    ))
}

/// Plays a role for a while, and a writer until it has written. `number` counts on from what this worker did before, and `report` is
/// told the number of every transfer that was acknowledged.
pub fn play(
    path: &Path,
    role: Role,
    worker: i64,
    time: Duration,
    report: &mut dyn FnMut(i64),
) -> Result<Tally, String> {
    let deadline = Instant::now() + time;
    let mut rng = Rng::new(worker as u64 * 7919 + 1);
    let mut tally = Tally::default();
    let mut number = 0;
    'reopen: loop {
        let describe = |what: &str, e: Error| format!("worker {worker}, {what}: {e}");
        // Every other process reads the file again and again instead of its cache.
        let cache = if crate::vfs::is_litepack() && worker % 4 >= 2 {
            "cache_mb=0"
        } else {
            ""
        };
        let opened = crate::vfs::open_with(path, cache).and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(4))?;
            connection.execute_batch("pragma synchronous = off; pragma cache_size = 20;")?;
            Ok(connection)
        });
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(error) if is_busy(&error) => {
                tally.busy += 1;
                continue;
            }
            Err(error) => return Err(describe("open", error)),
        };
        if number == 0 {
            let last = "select coalesce(max(number), 0) from transfer where worker = ?";
            number = match connection.query_row(last, [worker], |row| row.get(0)) {
                Ok(last) => last,
                Err(error) if is_busy(&error) => {
                    tally.busy += 1;
                    continue;
                }
                Err(error) => return Err(describe("last number", error)),
            };
        }
        for round in 0_u32.. {
            if Instant::now() >= deadline && (role != Role::Write || tally.done > 0) {
                return Ok(tally);
            }
            if round > 150 {
                continue 'reopen;
            }
            let result = match role {
                Role::Write => transfer(&mut connection, &mut rng, worker, number + 1),
                Role::Read => check(&mut connection, &mut rng)?,
                Role::Checkpoint => checkpoint(&connection, &mut rng),
                Role::Vacuum => {
                    std::thread::sleep(Duration::from_millis(rng.below(300)));
                    connection.execute_batch("vacuum")
                }
                Role::Maintain => maintain(&connection, &mut rng),
            };
            match result {
                Ok(()) => {
                    tally.done += 1;
                    if role == Role::Write {
                        number += 1;
                        report(number);
                    }
                }
                Err(error) if is_busy(&error) => tally.busy += 1,
                Err(error) => return Err(describe(role.name(), error)),
            }
        }
    }
}

fn is_busy(error: &Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn transfer(
    connection: &mut Connection,
    rng: &mut Rng,
    worker: i64,
    number: i64,
) -> Result<(), Error> {
    let behavior = *rng.pick(&[
        TransactionBehavior::Immediate,
        TransactionBehavior::Exclusive,
    ]);
    let transaction = connection.transaction_with_behavior(behavior)?;
    let (source, target) = (rng.between(1, ACCOUNTS), rng.between(1, ACCOUNTS));
    let amount = rng.between(1, 50);
    let words = if rng.chance(5) { 400 } else { 8 };
    let memo = rng.text(words);
    transaction.execute(
        "update account set balance = balance - ?, sent = sent + 1 where id = ?",
        [amount, source],
    )?;
    if rng.chance(10) {
        // A round trip through every account, so that large parts of the file change at once.
        transaction.execute(
            "update account set balance = balance - 1, note = ?",
            [&memo],
        )?;
        transaction.execute("update account set balance = balance + 1", [])?;
    }
    transaction.execute(
        "update account set balance = balance + ? where id = ?",
        [amount, target],
    )?;
    transaction.execute(
        "insert into transfer values (?, ?, ?, ?, ?, ?)",
        (worker, number, source, target, amount, &memo),
    )?;
    if number % 40 == 0 {
        let old = "update transfer set memo = null where worker = ? and number < ?";
        transaction.execute(old, [worker, number - 20])?;
    }
    transaction.commit()
}

fn checkpoint(connection: &Connection, rng: &mut Rng) -> Result<(), Error> {
    std::thread::sleep(Duration::from_millis(rng.below(30)));
    let mode = rng.pick(&["passive", "full", "restart", "truncate"]);
    connection.query_row(&format!("pragma wal_checkpoint({mode})"), [], |_| Ok(()))
}

/// A little maintenance, at a level that goes up and down.
fn maintain(connection: &Connection, rng: &mut Rng) -> Result<(), Error> {
    std::thread::sleep(Duration::from_millis(rng.below(30)));
    if !crate::vfs::is_litepack() {
        return Ok(());
    }
    let level = rng.between(1, 6);
    let sql = "select litepack_maintain(0.02, 0.5, ?)";
    connection.query_row(sql, [level], |_| Ok(()))
}

/// Adds everything up, twice in one transaction, sometimes with a pause in which others go on. The outer error is a
/// wrong sum.
fn check(connection: &mut Connection, rng: &mut Rng) -> Result<Result<(), Error>, String> {
    let pause = if rng.chance(10) { rng.below(60) } else { 0 };
    let mut sums = || {
        let transaction = connection.transaction()?;
        let first = sums_of(&transaction)?;
        std::thread::sleep(Duration::from_millis(pause));
        let second = sums_of(&transaction)?;
        Ok((first, second))
    };
    match sums() {
        Err(error) => Ok(Err(error)),
        Ok((first, second)) if first != second => {
            Err(format!("one transaction saw {first:?} and then {second:?}"))
        }
        Ok((sums, _)) => judge(sums).map(Ok),
    }
}

/// Accounts, their total, transfers they sent, transfers logged, transfers in the index.
type Sums = (i64, i64, i64, i64, i64);

fn sums_of(connection: &Connection) -> Result<Sums, Error> {
    connection.query_row(
        "select count(*), sum(balance), sum(sent), (select count(*) from transfer),
           (select count(*) from transfer indexed by by_source where source > 0) from account",
        [],
        |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        },
    )
}

fn judge(sums: Sums) -> Result<(), String> {
    let (accounts, total, sent, logged, indexed) = sums;
    let right = (accounts, total) == (ACCOUNTS, ACCOUNTS * OPENING);
    match right && sent == logged && logged == indexed {
        true => Ok(()),
        false => Err(format!("wrong sums: {sums:?}")),
    }
}

/// Checks the bank at rest: its sums, `integrity_check`, and that exactly these transfers exist,
/// or more (a transfer may be committed and its worker killed before it could say so).
pub fn audit(path: &Path, acknowledged: &[(i64, i64)], exactly: bool) {
    let connection = crate::vfs::open(path).expect("the bank opens");
    judge(sums_of(&connection).expect("the bank adds up")).expect("the sums are right");
    crate::content::assert_sound(&connection, "the bank");
    let count = "select count(*) from transfer where (worker, number) = (?, ?)";
    let mut count = connection.prepare(count).expect("a query");
    for transfer in acknowledged {
        let found: i64 = count.query_row(*transfer, |row| row.get(0)).expect("a row");
        assert_eq!(
            found, 1,
            "transfer {transfer:?} was acknowledged and is lost"
        );
    }
    if exactly {
        let all: isize = connection
            .query_row("select count(*) from transfer", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(all, acknowledged.len() as isize, "transfers not made");
    }
}
