//! The work of a process that will be killed: numbered transactions of all sizes, VACUUM and
//! checkpoints, such that what the file holds afterwards can be judged to the last row.

use crate::rng::Rng;
use rusqlite::{Connection, Error};
use std::path::{Path, PathBuf};

/// How the victim works.
#[derive(Clone, Debug)]
pub struct Habits {
    /// `journal_mode`.
    pub journal: String,
    /// `synchronous`.
    pub synchronous: String,
    /// Page size of a new database.
    pub page_size: u32,
    /// URI of a second database that takes part in every transaction.
    pub second: Option<String>,
}

/// The text in row `i` of transaction `n`, in SQL.
const BODY: &str = "printf('%d/%d %x ', n, i, (n * 31 + i) * 2654435761) \
    || substr('one body after another after another', 1, (n + i) % 37)";

/// Works until it is killed, and tells the number of every committed transaction.
pub fn work(
    path: &Path,
    habits: &Habits,
    seed: u64,
    report: &mut dyn FnMut(i64),
) -> Result<(), Error> {
    let mut rng = Rng::new(seed);
    let mut connection = crate::vfs::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.execute_batch(&format!(
        "pragma page_size = {}; pragma auto_vacuum = {}; pragma journal_mode = {};
         pragma synchronous = {}; pragma cache_size = 30;
         create table if not exists txn(n integer primary key, items int);
         create table if not exists item(n int, i int, body text, primary key(n, i));
         create index if not exists by_body on item(body);",
        habits.page_size,
        seed % 3,
        habits.journal,
        habits.synchronous
    ))?;
    if let Some(second) = &habits.second {
        connection.execute("attach ? as second", [second])?;
        connection.execute_batch(&format!(
            "pragma second.synchronous = {}; pragma second.cache_size = 30;
             create table if not exists second.twin(n integer primary key, body text)",
            habits.synchronous
        ))?;
    }
    let last = "select coalesce(max(n), 0) from txn";
    let mut last: i64 = connection.query_row(last, [], |row| row.get(0))?;
    report(last);
    loop {
        match rng.below(100) {
            0..4 => {
                if rng.chance(40) {
                    let size = rng.pick(&[512, 1024, 4096, 8192, 65536]);
                    connection.execute_batch(&format!("pragma page_size = {size}"))?;
                }
                connection.execute_batch("vacuum")?;
            }
            4..10 if habits.journal == "wal" => {
                let mode = rng.pick(&["passive", "restart", "truncate"]);
                let checkpoint = format!("pragma wal_checkpoint({mode})");
                connection.query_row(&checkpoint, [], |_| Ok(()))?;
            }
            _ => {
                let birth = habits.second.is_some() && rng.chance(40);
                if birth {
                    let uri = birth_uri(path, last + 1);
                    connection.execute("attach ? as born", [uri])?;
                }
                transaction(&mut connection, habits, &mut rng, last + 1, birth)?;
                last += 1;
                report(last);
                if birth {
                    connection.execute_batch("detach born")?;
                }
            }
        }
    }
}

fn transaction(
    connection: &mut Connection,
    habits: &Habits,
    rng: &mut Rng,
    n: i64,
    birth: bool,
) -> Result<(), Error> {
    let items = if rng.chance(15) {
        rng.between(500, 4000)
    } else {
        rng.between(1, 12)
    };
    let transaction = connection.transaction()?;
    transaction.execute("insert into txn values (?, ?)", [n, items])?;
    insert(&transaction, n, items)?;
    if rng.chance(10) && habits.journal != "off" {
        // Changes that a savepoint takes back leave no trace.
        transaction.execute_batch("savepoint s; delete from item; rollback to s; release s")?;
    }
    if n % 20 == 0 {
        transaction.execute("delete from item where n < ?", [n - 25])?;
        transaction.execute("update txn set items = 0 where n < ?", [n - 25])?;
    }
    if rng.chance(20) {
        transaction.execute("update item set body = body || '' where n % 3 = ?", [n % 3])?;
    }
    if habits.second.is_some() {
        transaction.execute("insert into twin values (?, ?)", (n, rng.text(300)))?;
        transaction.execute("update twin set body = body || '' where n > ?", [n - items])?;
    }
    if birth {
        transaction.execute_batch(&format!(
            "create table born.twin as select * from item where n = {n} limit 50"
        ))?;
    }
    transaction.commit()
}

/// Where databases are born, one in a transaction.
fn births(path: &Path) -> PathBuf {
    path.with_extension("births")
}

/// The URI of the database that is born in transaction `n`: packed ones and plain ones in turns.
fn birth_uri(path: &Path, n: i64) -> String {
    let directory = births(path);
    std::fs::create_dir_all(&directory).expect("a directory for databases");
    let vfs = if n % 2 == 0 {
        crate::vfs::under_test()
    } else {
        crate::vfs::PLAIN
    };
    crate::vfs::uri(&directory.join(format!("{n}.db")), vfs, "")
}

fn insert(connection: &Connection, n: i64, items: i64) -> Result<usize, Error> {
    connection.execute(
        &format!(
            "insert into item with recursive c(n, i) as (values(?1, 1) union all
               select n, i + 1 from c where i < ?2) select n, i, {BODY} from c"
        ),
        [n, items],
    )
}

/// Opens what a killed process left and judges it: `integrity_check`, every transaction whole, none
/// of the `acknowledged` ones lost, none that was never begun. Gives the number of the last.
pub fn judge(path: &Path, acknowledged: i64) -> i64 {
    let connection = crate::vfs::open(path).expect("the database opens after a kill");
    crate::content::assert_sound(&connection, "after a kill");
    let number = |sql: &str| -> i64 {
        let found = connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
        found.unwrap_or_else(|e| panic!("{sql}: {e}")).unwrap_or(0)
    };
    let last = number("select max(n) from txn");
    assert!(
        last >= acknowledged,
        "transaction {acknowledged} was acknowledged, the last is {last}"
    );
    assert!(
        last <= acknowledged + 1,
        "the last is {last}, {acknowledged} was acknowledged"
    );
    assert_eq!(
        number("select count(*) from txn"),
        last,
        "transactions are missing"
    );
    let torn = number(
        "select count(*) from txn where items <> (select count(*) from item where item.n = txn.n)",
    );
    assert_eq!(torn, 0, "transactions are there in part");
    let strangers = number("select count(*) from item where n not in (select n from txn)");
    assert_eq!(strangers, 0, "rows without a transaction");
    let wrong = number(&format!("select count(*) from item where body <> {BODY}"));
    assert_eq!(wrong, 0, "rows with a wrong body");
    last
}

/// Judges the databases that were born in transactions of a killed process: each has its table exactly if the
/// transaction is in the first database, too. Those found right are removed.
pub fn judge_births(path: &Path) -> usize {
    let Ok(directory) = std::fs::read_dir(births(path)) else {
        return 0;
    };
    let names = directory.map(|entry| entry.expect("an entry").file_name());
    let numbers: Vec<i64> = names
        .filter_map(|name| name.to_str()?.strip_suffix(".db")?.parse().ok())
        .collect();
    let first = crate::vfs::open(path).expect("the first database opens");
    for n in &numbers {
        let connection = crate::vfs::open_uri(&birth_uri(path, *n)).expect("what was born opens");
        crate::content::assert_sound(&connection, "born");
        let count = |connection: &Connection, what: &str| -> i64 {
            connection
                .query_row(&format!("select count(*) from {what}"), [], |row| {
                    row.get(0)
                })
                .unwrap_or_else(|e| panic!("{what}: {e}"))
        };
        let there = count(&connection, "sqlite_schema where name = 'twin'");
        let expected = count(&first, &format!("txn where n = {n}"));
        assert_eq!(there, expected, "transaction {n} in the new and in the old");
    }
    std::fs::remove_dir_all(births(path)).expect("removable");
    numbers.len()
}

/// Judges the second database of a killed process: it has the same transactions as the first. The
/// order of opening does not matter, so a caller may have opened either before.
pub fn judge_second(first: &Path, second: &str) {
    let connection = crate::vfs::open(first).expect("the first database opens");
    connection
        .execute("attach ? as second", [second])
        .expect("the second database opens");
    let mut check = connection
        .prepare("pragma second.integrity_check")
        .expect("a statement");
    let said: String = check.query_row([], |row| row.get(0)).expect("a row");
    assert_eq!(said, "ok", "the second database");
    let table = "select count(*) from second.sqlite_schema where name = 'twin'";
    let number = |sql: &str| -> i64 {
        connection
            .query_row(sql, [], |row| row.get(0))
            .unwrap_or_else(|e| panic!("{sql}: {e}"))
    };
    if number(table) == 0 {
        assert_eq!(
            number("select count(*) from txn"),
            0,
            "the second database lost everything"
        );
        return;
    }
    let only_first = number("select count(*) from txn where n not in (select n from twin)");
    let only_second = number("select count(*) from twin where n not in (select n from txn)");
    assert_eq!(
        (only_first, only_second),
        (0, 0),
        "transactions in only one of two databases"
    );
}
