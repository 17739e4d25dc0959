//! Several processes, and several threads of one process, on one database: writers with a busy
//! timeout, readers that add everything up, checkpoints and VACUUM. No sum is ever wrong, nothing
//! fails but with SQLITE_BUSY or SQLITE_LOCKED, and every acknowledged transfer is there at the end.

use litepack_tests::bank::{self, Role, Tally};
use litepack_tests::programs::Listened;
use litepack_tests::{scale, vfs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const CAST: [Role; 8] = [
    Role::Write,
    Role::Read,
    Role::Write,
    Role::Read,
    Role::Checkpoint,
    Role::Vacuum,
    Role::Maintain,
    Role::Maintain,
];

fn bank(journal: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("bank.db");
    let connection = vfs::open(&path).expect("a new database");
    bank::create(&connection, journal).expect("a new bank");
    drop(connection);
    vfs::assert_packed(&path);
    (directory, path)
}

fn spawn(path: &Path, role: Role, worker: i64, seconds: f64) -> Listened {
    let child = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["bank", role.name(), path.to_str().expect("UTF-8")])
        .args([worker.to_string(), seconds.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Listened::to(child.expect("a worker starts"))
}

/// Collects what a worker said: the transfers it did, and its tally.
fn collect(child: Listened, worker: i64) -> (Vec<(i64, i64)>, Tally) {
    let output = child.output();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "worker {worker}: {} {complaint}",
        output.status
    );
    let (mut transfers, mut tally) = (Vec::new(), Tally::default());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (word, number) = line.split_once(' ').expect("two words");
        let number = number.parse().expect("a number");
        match word {
            "done" => transfers.push((worker, number as i64)),
            "tally" => tally.done = number,
            _ => tally.busy = number,
        }
    }
    (transfers, tally)
}

fn run_processes(journal: &str) {
    let (_directory, path) = bank(journal);
    let mut transfers = Vec::new();
    // A writer that commits without a pause can keep readers out for seconds, as with plain SQLite, when the machine
    // has other work. Then they play on: a round without reads shows nothing.
    for round in 1..=5 {
        let seconds = scale(4.0, 60.0) * f64::from(round);
        let (done, reads) = play_as_processes(journal, &path, seconds);
        transfers.extend(done);
        if reads > 0 && !transfers.is_empty() {
            return bank::audit(&path, &transfers, true);
        }
    }
    panic!("no reader or writer got a turn");
}

/// Lets the whole cast play. The transfers they did, and how often one of them added up.
fn play_as_processes(journal: &str, path: &Path, seconds: f64) -> (Vec<(i64, i64)>, u64) {
    let workers = (0_i64..).zip(CAST);
    let children: Vec<_> = workers
        .map(|(worker, role)| (worker, role, spawn(path, role, worker, seconds)))
        .collect();
    let (mut transfers, mut reads) = (Vec::new(), 0);
    for (worker, role, child) in children {
        let (done, tally) = collect(child, worker);
        println!("{journal}, {role:?}: {tally:?}");
        reads += if role == Role::Read { tally.done } else { 0 };
        transfers.extend(done);
    }
    (transfers, reads)
}

#[test]
fn processes_in_delete_mode_see_no_half_transfer() {
    run_processes("delete");
}

#[test]
fn processes_in_wal_mode_see_no_half_transfer() {
    run_processes("wal");
}

#[test]
fn processes_in_persist_mode_see_no_half_transfer() {
    run_processes("persist");
}

fn run_threads(journal: &str) {
    let (_directory, path) = bank(journal);
    let time = Duration::from_secs_f64(scale(3.0, 60.0));
    let transfers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (worker, role) in CAST.iter().enumerate() {
            let (path, transfers, worker) = (&path, &transfers, worker as i64);
            scope.spawn(move || {
                let mut report = |n| transfers.lock().expect("no panic").push((worker, n));
                let tally = bank::play(path, *role, worker, time, &mut report)
                    .unwrap_or_else(|message| panic!("{message}"));
                println!("threads, {journal}, {role:?}: {tally:?}");
            });
        }
    });
    let transfers = transfers.into_inner().expect("no panic");
    assert!(!transfers.is_empty());
    bank::audit(&path, &transfers, true);
}

#[test]
fn threads_in_delete_mode_see_no_half_transfer() {
    run_threads("delete");
}

#[test]
fn threads_in_wal_mode_see_no_half_transfer() {
    run_threads("wal");
}

#[test]
fn a_process_and_its_threads_share_a_database_with_other_processes() {
    let (_directory, path) = bank("wal");
    let seconds = scale(3.0, 30.0);
    let others = [Role::Write, Role::Checkpoint];
    let children: Vec<_> = others
        .iter()
        .enumerate()
        .map(|(i, role)| (100 + i as i64, spawn(&path, *role, 100 + i as i64, seconds)))
        .collect();
    let time = Duration::from_secs_f64(seconds);
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let path = &path;
            scope.spawn(move || {
                bank::play(path, Role::Read, worker, time, &mut |_| {})
                    .unwrap_or_else(|message| panic!("{message}"))
            });
        }
    });
    let mut transfers = Vec::new();
    for (worker, child) in children {
        transfers.extend(collect(child, worker).0);
    }
    bank::audit(&path, &transfers, true);
}
