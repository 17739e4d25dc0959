//! `kill -9` at random moments: of processes in the middle of small and large transactions, VACUUM
//! and checkpoints, of one among several, and of `litepack pack`. Afterwards the database opens,
//! `integrity_check` is clean, and it holds every acknowledged transaction and no part of another.

use litepack_simdisk::count_trials;
use litepack_tests::bank::{self, Role};
use litepack_tests::logs::stands;
use litepack_tests::programs::Listened;
use litepack_tests::rng::Rng;
use litepack_tests::{churn, content, programs, scale, seeds, vfs};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Whether the logs of the processes that are killed stand on databases of any size, or on large ones alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logs {
    AsUsual,
    Stand,
}

fn spawn(arguments: &[&str], logs: Logs) -> Child {
    let stand = if logs == Logs::Stand { "1" } else { "0" };
    Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(arguments)
        .env("LITEPACK_STANDING", stand)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a worker starts")
}

/// Lets a process work for a while, kills it, and gives the numbers it said.
fn kill_after(mut child: Child, time: Duration) -> Vec<i64> {
    let stdout = child.stdout.take().expect("a pipe");
    let mut lines = BufReader::new(stdout).lines();
    let reader = std::thread::spawn(move || {
        let mut numbers = Vec::new();
        // A kill can cut the last line short; what is not whole was not said.
        while let Some(Ok(line)) = lines.next() {
            numbers.extend(
                line.strip_prefix("done ")
                    .and_then(|n| n.parse::<i64>().ok()),
            );
        }
        numbers
    });
    std::thread::sleep(time);
    let early = child.try_wait().expect("a state");
    child.kill().expect("a signal");
    count_trials("kills", 1);
    let output = child.wait_with_output().expect("an end");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        early.is_none(),
        "the worker ended by itself: {early:?} {complaint}"
    );
    reader.join().expect("a reader")
}

/// Kills again and again on one database that lives through all of it.
fn run_trials(journals: &[&str], logs: Logs) {
    let trials = scale(8, 70);
    let mut stood = 0;
    for seed in seeds(journals.len() as u64 * 100, scale(1, 3)) {
        let mut rng = Rng::new(seed);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("victim.db");
        let page_size = rng.pick(&["512", "1024", "4096", "16384"]).to_string();
        let mut last = 0;
        for trial in 0..trials {
            let journal = *rng.pick(journals);
            let synchronous = *rng.pick(&["off", "normal", "full"]);
            let millis = if rng.chance(50) {
                rng.between(20, 120)
            } else {
                rng.between(20, 700)
            };
            println!("seed {seed}, trial {trial}: {journal}, {synchronous}, {millis} ms");
            let text = path.to_str().expect("UTF-8");
            let child_seed = rng.bits().to_string();
            let arguments = ["churn", text, &child_seed, journal, synchronous, &page_size];
            let child = spawn(&arguments, logs);
            let said = kill_after(child, Duration::from_millis(millis as u64));
            let log = std::fs::read(format!("{text}-lpw")).unwrap_or_default();
            stood += usize::from(stands(&log));
            let acknowledged = said.last().copied().unwrap_or(last);
            if acknowledged == 0 && said.is_empty() {
                // Killed while the tables were made: the file only has to open.
                let connection = vfs::open(&path).expect("it opens");
                content::assert_sound(&connection, "killed at birth");
                continue;
            }
            last = churn::judge(&path, acknowledged);
        }
        println!("{last} transactions");
        vfs::assert_packed(&path);
    }
    println!("{stood} logs stood on their database");
    assert!(stood > 0 || logs == Logs::AsUsual);
}

#[test]
fn rollback_journal_modes_survive_kill_9() {
    run_trials(&["delete", "truncate", "persist"], Logs::AsUsual);
}

#[test]
fn wal_mode_survives_kill_9() {
    run_trials(&["wal"], Logs::AsUsual);
}

#[test]
fn logs_that_stand_on_their_database_survive_kill_9() {
    if vfs::is_litepack() {
        run_trials(&["wal", "wal", "wal", "delete"], Logs::Stand);
    }
}

#[test]
fn changing_the_journal_mode_survives_kill_9() {
    run_trials(&["wal", "delete", "wal", "persist"], Logs::AsUsual);
}

#[test]
fn a_packed_database_survives_kill_9_without_a_journal_too() {
    // Plain SQLite does not promise this; the store's commit is atomic by itself.
    if vfs::is_litepack() {
        run_trials(&["memory", "off", "memory", "off", "off"], Logs::AsUsual);
    }
}

/// The same with a second database in every transaction, packed or plain, and in many a third that is new: a
/// transaction is in all or in none. SQLite promises that in rollback modes, unless `synchronous` is off.
fn run_pair_trials(second_vfs: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("first.db");
    let second_path = directory.path().join("second.db");
    let second = vfs::uri(&second_path, second_vfs, "");
    let seed = seeds(scale(5, 55), 1)[0];
    let mut rng = Rng::new(seed);
    let (mut last, mut births) = (0, 0);
    for trial in 0..200 {
        // On a slow machine more of them, and longer ones, until something was born.
        let longer = trial / scale(8, 60);
        if longer > 0 && births > 0 {
            break;
        }
        let journal = *rng.pick(&["delete", "truncate", "persist"]);
        let synchronous = *rng.pick(&["normal", "full"]);
        let millis = rng.between(20, 500) << longer.min(4);
        println!("seed {seed}, {second_vfs}, trial {trial}: {journal}, {synchronous}, {millis} ms");
        let text = path.to_str().expect("UTF-8");
        let child_seed = rng.bits().to_string();
        let arguments = [
            "churn",
            text,
            &child_seed,
            journal,
            synchronous,
            "1024",
            &second,
        ];
        let child = spawn(&arguments, Logs::AsUsual);
        let said = kill_after(child, Duration::from_millis(millis as u64));
        let acknowledged = said.last().copied().unwrap_or(last);
        if said.is_empty() && acknowledged == 0 {
            continue;
        }
        if rng.chance(50) {
            let uri = vfs::uri(&second_path, second_vfs, "");
            let connection = vfs::open_uri(&uri).expect("the second database opens first");
            content::assert_sound(&connection, "the second database");
        }
        last = churn::judge(&path, acknowledged);
        churn::judge_second(&path, &second);
        births += churn::judge_births(&path);
    }
    println!("{last} transactions, {births} databases born in them");
    assert!(births > 0);
}

#[test]
fn transactions_over_two_packed_databases_survive_kill_9() {
    run_pair_trials(vfs::under_test());
}

#[test]
fn transactions_over_a_packed_and_a_plain_database_survive_kill_9() {
    run_pair_trials(vfs::PLAIN);
}

#[test]
fn others_go_on_when_one_of_them_is_killed() {
    for (journal, logs) in [
        ("delete", Logs::AsUsual),
        ("wal", Logs::AsUsual),
        ("wal", Logs::Stand),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("bank.db");
        bank::create(&vfs::open(&path).expect("it opens"), journal).expect("a bank");
        let text = path.to_str().expect("UTF-8");
        let seconds = scale(3, 20);
        let survivors: Vec<(i64, Listened)> = [(1, Role::Write), (2, Role::Read)]
            .map(|(worker, role)| {
                let (name, number) = (role.name(), worker.to_string());
                let child = spawn(&["bank", name, text, &number, &seconds.to_string()], logs);
                (worker, Listened::to(child))
            })
            .into();
        let seed = seeds(scale(7, 77), 1)[0];
        println!("seed {seed}, {journal}, logs: {logs:?}");
        let mut rng = Rng::new(seed);
        let mut acknowledged = Vec::new();
        for victim in 10..10 + seconds * 4 {
            let role = match victim % 4 {
                0 => "vacuum",
                1 => "maintain",
                _ => "write",
            };
            let child = spawn(&["bank", role, text, &victim.to_string(), "100"], logs);
            let time = Duration::from_millis(rng.below(250) + 30);
            let said = kill_after(child, time);
            acknowledged.extend(said.into_iter().map(|number| (victim, number)));
        }
        for (worker, child) in survivors {
            let output = child.output();
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{journal}: survivor {worker}: {complaint}"
            );
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let numbers = said.lines().filter_map(|line| line.strip_prefix("done "));
            acknowledged.extend(numbers.map(|n| (worker, n.parse().expect("a number"))));
        }
        bank::audit(&path, &acknowledged, false);
    }
}

/// A plain database of some megabytes, so that packing it takes a while.
fn source(path: &Path) {
    let connection = vfs::open_plain(path).expect("a new database");
    connection
        .execute_batch(&format!(
            "pragma synchronous = off;
             create table t(id integer primary key, x text);
             insert into t with recursive n(i) as (select 1 union all
               select i + 1 from n where i < {}) select i, json_object('id', i, 'hash',
               printf('%x%x', i * 2654435761, i * 40503), 'name', 'row ' || i) from n;
             create index tx on t(x);",
            scale(60_000, 300_000)
        ))
        .expect("data");
}

#[test]
fn a_killed_pack_leaves_the_source_and_no_half_destination() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (
        directory.path().join("source.db"),
        directory.path().join("packed.db"),
    );
    source(&from);
    programs::litepack();
    let before = std::fs::read(&from).expect("readable");
    let seed = seeds(11, 1)[0];
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut complete = 0;
    let trials = scale(8, 40);
    let longest = time_of_a_pack(&from, &to) * 11 / 10;
    for trial in 0..trials {
        let in_place = trial % 3 == 2;
        let mut command = Command::new(programs::litepack());
        if in_place {
            command.arg("pack").arg("--in-place").arg(&from);
        } else {
            command.arg("pack").arg(&from).arg(&to);
        }
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the command starts");
        std::thread::sleep(longest.mul_f64(rng.below(1000) as f64 / 1000.0));
        child.kill().expect("a signal");
        count_trials("kills", 1);
        child.wait().expect("an end");
        let result = if in_place { &from } else { &to };
        let finished = result.exists() && !vfs::looks_plain(result).expect("readable");
        if finished {
            complete += 1;
            let back = directory.path().join("back.db");
            let output = programs::run_litepack([Path::new("unpack"), result, &back]);
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(
                before == std::fs::read(&back).expect("readable"),
                "trial {trial}: differs"
            );
            std::fs::remove_file(result).expect("removable");
            if in_place {
                std::fs::rename(&back, &from).expect("renamable");
            } else {
                std::fs::remove_file(&back).expect("removable");
            }
        } else {
            assert!(
                in_place || !to.exists(),
                "trial {trial}: half a destination"
            );
        }
        let same = before == std::fs::read(&from).expect("readable");
        assert!(same, "trial {trial}: the source changed");
    }
    println!("{complete} of {trials} were complete when killed");
    let output = programs::run_litepack([Path::new("pack"), &from, &to]);
    assert!(output.status.success(), "packing after kills");
}

fn time_of_a_pack(from: &Path, to: &Path) -> Duration {
    let start = std::time::Instant::now();
    let output = programs::run_litepack([Path::new("pack"), from, to]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::remove_file(to).expect("removable");
    start.elapsed()
}
