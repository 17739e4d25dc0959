//! The WAL of a packed database is a log (docs/internals/log.md): who sees which commits, and what a log costs that is
//! torn, damaged or hostile.

use litepack_simdisk::{Call, CallSet, Fault, FaultError};
use litepack_tests::commandline::{Place, copy_elsewhere, read, read_elsewhere, refuse, succeed};
use litepack_tests::machine::Machine;
use litepack_tests::programs::run_litepack;
use litepack_tests::rng::Rng;
use litepack_tests::{content, scale, seeds, vfs};
use rusqlite::Connection;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Where the records begin.
const RECORDS: usize = 4096;

const TABLE: &str = "create table t(k integer primary key, v text); create index i on t(v)";

fn count(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("select count(*) from t", [], |row| row.get(0))
}

/// A new database in WAL mode. Nothing is checkpointed but by a call.
fn wal_database(path: &Path) -> Connection {
    let db = vfs::open(path).expect("a new database");
    db.execute_batch("pragma journal_mode = wal; pragma wal_autocheckpoint = 0")
        .expect("pragmas");
    db
}

/// Commits numbered from 1, each of a few rows.
fn commit(db: &Connection, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers {
        db.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 10)
               insert into t(v) select 'row ' || i || ' of commit ' || ?1 from n",
            [number],
        )
        .expect("a commit");
    }
}

/// SQLite keeps so few pages that each reading takes some from the log. One that begins when something was committed sees
/// it, also if another reader has changed the index for it before. One that begins when nothing was does not look.
#[test]
fn readings_look_at_the_log_when_something_was_committed() {
    let machine = Machine::new("looks");
    let open = || {
        let db = vfs::open_uri(&machine.uri).expect("it opens");
        db.execute_batch("pragma cache_size = 5; pragma wal_autocheckpoint = 0")
            .expect("pragmas");
        db
    };
    let writer = open();
    writer
        .execute_batch("pragma journal_mode = wal; create table t(k integer primary key, v text)")
        .expect("a table");
    let readers = [open(), open(), open()];
    for commits in 1..=8_i64 {
        if commits % 3 == 0 {
            writer
                .execute_batch("pragma wal_checkpoint(restart)")
                .expect("a checkpoint");
        }
        // In each commit all pages change.
        writer
            .execute_batch(
                "begin; update t set v = v || 'x';
                 with recursive n(i) as (select 1 union all select i + 1 from n where i < 100)
                   insert into t(v) select hex(zeroblob(200)) from n; commit",
            )
            .expect("a commit");
        let expected = (
            100 * commits,
            100 * commits * 400 + 50 * commits * (commits - 1),
        );
        let found = |db: &Connection| -> rusqlite::Result<(i64, i64)> {
            db.query_row("select count(*), sum(length(v)) from t", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
        };
        for reader in &readers {
            assert_eq!(found(reader), Ok(expected), "{commits} commits");
        }
        let reads = Fault::new(CallSet::of(Call::Read), FaultError::Io).forever();
        machine.disk.inject(reads.on_names_ending("-lpw"));
        for reader in &readers {
            assert_eq!(found(reader), Ok(expected), "{commits} commits, again");
        }
        machine.disk.clear_faults();
    }
}

/// Two connections of a database.
struct Pair([Connection; 2]);

impl Pair {
    fn of(path: &Path, vfs: &str) -> Pair {
        let open = || vfs::open_uri(&vfs::uri(path, vfs, "")).expect("it opens");
        let pair = Pair([open(), open()]);
        for db in &pair.0 {
            db.busy_timeout(std::time::Duration::ZERO)
                .expect("a setting");
            // So small that pages of a large transaction go into the WAL before its end.
            db.execute_batch(
                "pragma journal_mode = wal; pragma wal_autocheckpoint = 0; pragma cache_size = 10",
            )
            .expect("pragmas");
        }
        pair.0[0].execute_batch(TABLE).expect("a table");
        pair
    }

    /// What a call of one of them answers.
    fn ask(&self, which: usize, sql: &str) -> String {
        let answer = self.0[which].prepare(sql).and_then(|mut statement| {
            let columns = statement.column_count();
            let mut rows = statement.query([])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    found.push(row.get::<_, rusqlite::types::Value>(column)?);
                }
            }
            Ok(found)
        });
        match answer {
            Ok(found) => format!("{found:?}"),
            Err(error) => format!("{:?}", error.sqlite_error_code()),
        }
    }
}

fn statement(random: &mut Rng) -> String {
    let (key, number) = (random.below(2000), random.below(1000));
    match random.below(16) {
        0 => "begin".into(),
        1 | 2 => "commit".into(),
        3 => "rollback".into(),
        4 => "savepoint s".into(),
        5 => "rollback to s".into(),
        6 => format!(
            "pragma wal_checkpoint({})",
            random.pick(&["passive", "full"])
        ),
        7 => format!(
            "pragma wal_checkpoint({})",
            random.pick(&["restart", "truncate"])
        ),
        8 => format!("delete from t where k between {key} and {key} + 30"),
        9 | 10 => format!(
            "update t set v = '{}' where k % 97 = {number} % 97",
            random.text(6)
        ),
        11 => format!("update t set v = v || '{number}' where k = {key}"),
        _ => format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {})
               insert or replace into t select {key} + i, '{} ' || i from n",
            1 + number % 60,
            random.text(4)
        ),
    }
}

/// Each of two connections does what it likes: they see the same as those of a plain database, at every step.
#[test]
fn connections_see_what_those_of_a_plain_database_see() {
    for seed in seeds(4000, scale(6, 60)) {
        let mut random = Rng::new(seed);
        let place = Place::new();
        let packed = Pair::of(&place.path("packed.db"), vfs::under_test());
        let plain = Pair::of(&place.path("plain.db"), vfs::PLAIN);
        let mut restarts = 0;
        for step in 0..400 {
            let (which, sql) = (random.below(2) as usize, statement(&mut random));
            let found = packed.ask(which, &sql);
            let context = format!("seed {seed}, step {step}, {which}: {sql}");
            assert_eq!(found, plain.ask(which, &sql), "{context}");
            restarts += u32::from(sql.contains("restart") && !found.contains("Busy"));
            for which in 0..2 {
                let sum = "select count(*), total(k), total(length(v)), max(v) from t";
                let (found, expected) = (packed.ask(which, sum), plain.ask(which, sum));
                assert_eq!(found, expected, "{context}, then {which}");
            }
        }
        assert!(restarts > 0, "seed {seed}");
        for (packed, plain) in packed.0.iter().zip(&plain.0) {
            let _ = (
                packed.execute_batch("rollback"),
                plain.execute_batch("rollback"),
            );
        }
        content::assert_sound(&packed.0[0], &format!("seed {seed}"));
    }
}

/// Another process with the database open.
struct Other {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Other {
    fn of(path: &Path) -> Other {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["ask", path.to_str().expect("UTF-8")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker starts");
        let asks = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Other {
            child,
            asks,
            answers,
        }
    }

    fn ask(&mut self, sql: &str) -> String {
        writeln!(self.asks, "{sql}").expect("it listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        let answer = line.trim_end().strip_prefix("first Integer(");
        let number = answer.and_then(|line| line.strip_suffix(')'));
        number.unwrap_or_else(|| panic!("{sql}: {line}")).to_owned()
    }
}

/// Another process commits, checkpoints, and begins the log anew, while this one has frames of it in mind.
#[test]
fn another_process_commits_and_begins_the_log_anew() {
    let place = Place::new();
    let path = place.path("shared.db");
    let db = wal_database(&path);
    db.execute_batch(TABLE).expect("a table");
    commit(&db, 1..=20);
    let mut other = Other::of(&path);
    let insert = "insert into t(v) values('from another process') returning 7";
    for round in 0..30 {
        let rows = 200 + round * 12;
        assert_eq!(other.ask("select count(*) from t"), rows.to_string());
        assert_eq!(other.ask(insert), "7");
        assert_eq!(count(&db), Ok(rows + 1));
        match round % 3 {
            0 => assert_eq!(other.ask("pragma wal_checkpoint(truncate)"), "0"),
            1 => assert_eq!(other.ask("pragma wal_checkpoint(restart)"), "0"),
            // This one begins it anew next time.
            _ => db
                .execute_batch("pragma wal_checkpoint(passive)")
                .expect("a checkpoint"),
        }
        assert_eq!(other.ask(insert), "7");
        assert_eq!(count(&db), Ok(rows + 2));
        commit(&db, 1..=1);
        if round % 5 == 0 {
            content::assert_sound(&db, &format!("round {round}"));
        }
    }
    drop(other.asks);
    assert!(other.child.wait().expect("an end").success());
}

/// The end of the records in a log: behind it there are zeros, or records of before.
fn end_of(log: &[u8]) -> usize {
    records(log)
        .last()
        .map_or(RECORDS, |(place, len)| place + len)
}

/// Place and length of each record of the newest generation.
fn records(log: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut found) = (RECORDS, Vec::new());
    while let Some(len) = log.get(at..at + 4) {
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        let Some(record) = log.get(at..at + len).filter(|record| record.len() > 17) else {
            break;
        };
        if record[len - 8..] != sum(record, at, &id(log)) {
            break;
        }
        found.push((at, len));
        at += len;
    }
    found
}

/// The random number of the newest generation.
fn id(log: &[u8]) -> [u8; 16] {
    let seq =
        |slot: usize| u64::from_le_bytes(log[slot + 16..slot + 24].try_into().expect("eight"));
    let slot = if seq(512) > seq(0) { 512 } else { 0 };
    log[slot + 24..slot + 40].try_into().expect("sixteen bytes")
}

/// The checksum of a record at a place; its last eight bytes do not count.
fn sum(record: &[u8], place: usize, id: &[u8; 16]) -> [u8; 8] {
    use twox_hash::XxHash3_64;
    let seed = XxHash3_64::oneshot_with_seed(place as u64, id);
    XxHash3_64::oneshot_with_seed(seed, &record[..record.len() - 8]).to_le_bytes()
}

/// A database with a log, as a killed process leaves it: in two files.
fn left_behind(synchronous: &str, commits: u32) -> [Vec<u8>; 2] {
    let place = Place::new();
    let path = place.path("a.db");
    let db = wal_database(&path);
    db.execute_batch(&format!(
        "pragma synchronous = {synchronous}; {TABLE}; pragma wal_checkpoint"
    ))
    .expect("a table");
    commit(&db, 1..=commits);
    let log = place.path("a.db-lpw");
    [path, log].map(|path| read_elsewhere(&path))
}

/// The two files at a place of their own.
fn put([main, log]: [&[u8]; 2]) -> Place {
    let place = Place::new();
    std::fs::write(place.path("a.db"), main).expect("writable");
    std::fs::write(place.path("a.db-lpw"), log).expect("writable");
    place
}

#[test]
fn a_torn_tail_is_the_commit_before() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    for synchronous in ["normal", "full"] {
        let [main, log] = left_behind(synchronous, 40);
        let end = end_of(&log);
        assert!(end > RECORDS + 5000, "{end}");
        let (mut before, mut seen) = (0, std::collections::BTreeSet::new());
        for at in (RECORDS..end).step_by(end / 70).chain([end - 1, end]) {
            let mut torn = log.clone();
            if at % 2 == 0 {
                torn.truncate(at);
            } else {
                torn[at..].fill(0);
            }
            let place = put([&main, &torn]);
            let path = place.path("a.db");
            let db = vfs::open(&path).expect("it opens");
            let rows =
                count(&db).unwrap_or_else(|error| panic!("{synchronous}, byte {at}: {error}"));
            assert!(
                rows % 10 == 0 && rows >= before,
                "{synchronous}, byte {at}: {rows} rows"
            );
            before = rows;
            seen.insert(rows);
            commit(&db, 41..=42);
            let other = vfs::open(&path).expect("it opens");
            assert_eq!(count(&other), Ok(rows + 20));
            content::assert_sound(&other, &format!("{synchronous}, byte {at}"));
            drop((db, other));
            place.assert_only(&["a.db"]);
            assert_eq!(count(&vfs::open(&path).expect("it opens")), Ok(rows + 20));
        }
        assert!(before == 400 && seen.len() > 20, "{seen:?}");
    }
}

/// What a sync had returned for is not taken for a torn tail, and the command says where the damage is.
#[test]
fn damage_of_a_log_is_an_error() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let [main, log] = left_behind("full", 40);
    let end = end_of(&log);
    let (mut refused, mut at) = (0, 40);
    while at < end * 9 / 10 {
        let mut rotten = log.clone();
        rotten[at] ^= 1 << (at % 8);
        let place = put([&main, &rotten]);
        let path = place.path("a.db");
        let db = vfs::open(&path).expect("it opens");
        match count(&db) {
            // What stands there does not matter any more.
            Ok(rows) => assert_eq!(rows, 400, "byte {at}"),
            Err(_) => {
                refused += 1;
                drop(db);
                assert!(read(&path) == main && read(&place.path("a.db-lpw")) == rotten);
                if refused < 4 {
                    expect_words(&place);
                }
                // Without the bit that flipped, all is as it was.
                std::fs::write(place.path("a.db-lpw"), &log).expect("writable");
                assert_eq!(count(&vfs::open(&path).expect("it opens")), Ok(400));
            }
        }
        at += end / 60;
    }
    assert!(refused > 20, "{refused}");
}

/// The words of the command for a damaged log.
fn expect_words(place: &Place) {
    let path = place.path("a.db");
    let check = run_litepack([Path::new("check"), &path]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(said.contains("WAL") && said.contains("-lpw"), "{said}");
    succeed("info", &run_litepack([Path::new("info"), &path]));
    let unpack = run_litepack([Path::new("unpack"), &path, &place.path("b.db")]);
    refuse("unpack", &["a.db-lpw is damaged at byte"], &unpack);
    assert!(!place.path("b.db").exists());
    let maintain = run_litepack([Path::new("maintain"), &path]);
    refuse("maintain", &["`litepack check` says"], &maintain);
}

/// A file under the name of the WAL that is neither: nothing is made of it, and nothing is lost.
#[test]
fn what_is_no_log_is_an_error_and_stays() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let [main, _] = left_behind("full", 3);
    let place = put([&main, &[7; 5000]]);
    assert!(count(&vfs::open(&place.path("a.db")).expect("it opens")).is_err());
    expect_words(&place);
    assert!(read(&place.path("a.db-lpw")) == [7; 5000]);
    // Zeros are what a power loss leaves of a new one.
    let place = put([&main, &[0; 5000]]);
    let db = vfs::open(&place.path("a.db")).expect("it opens");
    assert_eq!(count(&db), Ok(0));
    commit(&db, 1..=2);
    assert_eq!(
        count(&vfs::open(&place.path("a.db")).expect("it opens")),
        Ok(20)
    );
}

/// The same log with its checksums and links as they have to be.
fn sealed(mut log: Vec<u8>) -> Vec<u8> {
    let (id, all) = (id(&log), records(&log));
    let change = |log: &mut Vec<u8>, random: &mut Rng| {
        let (place, len) = *random.pick(&all);
        let within = match random.chance(60) {
            // Kind, flags, numbers.
            true => [4, 9, 10, 11, 12, 13, 14][random.below(7) as usize],
            false => 9 + random.below(len as u64 - 17) as usize,
        };
        if within + 8 < len {
            log[place + within] = random.bits() as u8;
        }
    };
    let mut random = Rng::new(u64::from_le_bytes(
        log[4000..4008].try_into().expect("eight"),
    ));
    for _ in 0..1 + random.below(4) {
        change(&mut log, &mut random);
    }
    let mut link = [0; 4];
    for (place, len) in all {
        log[place + 5..place + 9].copy_from_slice(&link);
        let sum = sum(&log[place..place + len], place, &id);
        log[place + len - 8..place + len].copy_from_slice(&sum);
        link.copy_from_slice(&sum[..4]);
    }
    log
}

/// Logs whose checksums are right and whose content is not.
#[test]
fn a_hostile_log_costs_an_error_at_most() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let [main, log] = left_behind("normal", 30);
    let (mut errors, mut answers) = (0, 0);
    for seed in 0..scale(300_u64, 5000) {
        let mut hostile = log.clone();
        // Bytes without a meaning say which one it is to be.
        hostile[4000..4008].copy_from_slice(&seed.to_le_bytes());
        let place = put([&main, &sealed(hostile)]);
        let db = vfs::open(&place.path("a.db")).expect("it opens");
        let found = count(&db);
        errors += u32::from(found.is_err());
        answers += u32::from(found.is_ok());
        let _ = db
            .execute_batch("insert into t(v) values('one more'); pragma wal_checkpoint(truncate)");
        let _ = db.execute_batch("pragma integrity_check; vacuum");
        drop(db);
        if seed < 20 {
            let path = place.path("a.db");
            for command in ["check", "info", "advise"] {
                let code = run_litepack([Path::new(command), &path]).status.code();
                assert!(
                    code.is_some_and(|code| code <= 2),
                    "seed {seed}: {command}: {code:?}"
                );
            }
        }
    }
    assert!(errors > 0 && answers > 0, "{errors} {answers}");
}

/// A copy of both files is a database while none writes, as it is with a WAL of SQLite's.
#[test]
fn a_copy_of_both_files_is_a_copy() {
    let place = Place::new();
    let db = wal_database(&place.path("a.db"));
    db.execute_batch(TABLE).expect("a table");
    commit(&db, 1..=30);
    let suffix = if vfs::is_litepack() { "-lpw" } else { "-wal" };
    let both = ["".into(), suffix.to_owned()];
    for suffix in &both {
        let [from, to] = ["a", "b"].map(|name| place.path(&format!("{name}.db{suffix}")));
        copy_elsewhere(&from, &to);
    }
    commit(&db, 31..=31);
    let copy = vfs::open(&place.path("b.db")).expect("it opens");
    assert_eq!((count(&db), count(&copy)), (Ok(310), Ok(300)));
    commit(&copy, 31..=33);
    content::assert_sound(&copy, "the copy");
    assert_eq!((count(&db), count(&copy)), (Ok(310), Ok(330)));
}
