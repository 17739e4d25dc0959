//! Litepack under SQLite on a disk that loses power or fails: after every crash the file opens, passes
//! `integrity_check` and holds exactly what was committed; nothing acknowledged under
//! synchronous=FULL is lost, in a rollback journal mode too, where plain SQLite may lose the last commit.

use litepack_simdisk::{
    Battery, CrashMode, Durability, Journal, Layer, Workload, copies_campaign, seed_or,
};
use litepack_tests::scale;
pub(crate) use litepack_tests::vfs::over as litepack;

/// `main` packed and `aux` plain.
fn beside_plain(parent: &str) -> Layer {
    Layer {
        aux: parent.to_owned(),
        ..litepack(parent)
    }
}

/// The other way round.
fn plain_beside(parent: &str) -> Layer {
    Layer {
        vfs: parent.to_owned(),
        ..litepack(parent)
    }
}

/// Which of two databases are packed.
const PAIRS: [fn(&str) -> Layer; 3] = [litepack, beside_plain, plain_beside];

/// Behind the name of a VFS in a URI: the database is encrypted.
const KEY: &str = "&hexkey=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Both encrypted.
pub(crate) fn encrypted(parent: &str) -> Layer {
    let Layer { vfs, aux } = litepack(parent);
    let (vfs, aux) = (vfs + KEY, aux + KEY);
    Layer { vfs, aux }
}

/// `main` encrypted and `aux` plain.
fn encrypted_beside_plain(parent: &str) -> Layer {
    Layer {
        aux: parent.to_owned(),
        ..encrypted(parent)
    }
}

/// `main` packed and `aux` encrypted.
fn packed_beside_encrypted(parent: &str) -> Layer {
    Layer {
        vfs: litepack(parent).vfs,
        ..encrypted(parent)
    }
}

/// Which of two databases are encrypted.
const ENCRYPTED: [fn(&str) -> Layer; 3] =
    [encrypted, encrypted_beside_plain, packed_beside_encrypted];

#[test]
fn two_databases_commit_together_if_they_are_encrypted() {
    for layer in ENCRYPTED {
        battery_over(layer).survive(Journal::Delete, "EXTRA", true, Durability::Acknowledged);
    }
    // Plain SQLite needs more than this.
    for journal in [Journal::Delete, Journal::Truncate, Journal::Persist] {
        battery_over(encrypted).survive(journal, "NORMAL", true, Durability::Acknowledged);
    }
}

#[test]
fn one_io_error_with_two_databases_that_are_encrypted() {
    // Plain SQLite loses a commit there.
    for layer in [encrypted, packed_beside_encrypted] {
        battery_over(layer).one_io_error_with_two_databases();
    }
}

fn battery() -> Battery {
    battery_over(litepack)
}

pub(crate) fn battery_over(layer: fn(&str) -> Layer) -> Battery {
    Battery {
        layer,
        synchronous: "FULL",
        seed: seed_or(20_261_121),
    }
}

#[test]
fn rollback_journal_modes_full_lose_nothing() {
    for journal in [Journal::Delete, Journal::Truncate, Journal::Persist] {
        battery().survive(journal, "FULL", false, Durability::Acknowledged);
    }
}

#[test]
fn two_databases_commit_together() {
    for layer in PAIRS {
        let battery = battery_over(layer);
        battery.survive(Journal::Delete, "EXTRA", true, Durability::Acknowledged);
    }
    // Plain SQLite needs more than this.
    for journal in [Journal::Delete, Journal::Truncate, Journal::Persist] {
        battery().survive(journal, "NORMAL", true, Durability::Acknowledged);
    }
}

#[test]
fn mode_changes_lose_nothing() {
    for synchronous in ["FULL", "EXTRA"] {
        battery().mode_changes_survive(synchronous);
    }
}

#[test]
fn databases_are_born_together() {
    for layer in PAIRS {
        battery_over(layer).births_survive();
    }
}

#[test]
fn faults_while_a_database_is_born() {
    for layer in PAIRS {
        // The setting that plain SQLite needs to keep the commit before the one that fails.
        let synchronous = "EXTRA";
        let battery = Battery {
            synchronous,
            ..battery_over(layer)
        };
        battery.faults_while_born();
    }
}

#[test]
fn wal_full_loses_nothing() {
    battery().survive(Journal::Wal, "FULL", false, Durability::Acknowledged);
    battery().survive(Journal::Wal, "FULL", true, Durability::Acknowledged);
}

#[test]
fn wal_normal_keeps_the_order() {
    battery().survive(Journal::Wal, "NORMAL", false, Durability::OrderOnly);
}

/// The file is that of one moment, its WAL that of another.
#[test]
fn copies_of_different_moments_are_no_mixture() {
    let seed = seed_or(20_261_127);
    let works = [
        Workload::mixed(Journal::Wal, "FULL", false, seed),
        Workload::mode_changes("FULL", seed),
    ];
    for work in works {
        let names = ("-lpw", "_refused_");
        let report = copies_campaign(&work, scale(600, 20_000), names, seed, &litepack);
        let (pairs, refused, errors) = (report.pairs, report.refused, report.errors);
        println!("{pairs} pairs, {refused} refused, {errors} errors");
        let failures = report.failures;
        assert!(
            failures.is_empty(),
            "{}: {:#?}",
            failures.len(),
            &failures[..failures.len().min(5)]
        );
        assert!(refused > 0 && refused + errors < pairs && errors < pairs / 5);
    }
}

/// Plain SQLite is corrupted by a power loss in this mode; a packed file is at some commit.
#[test]
fn delete_mode_without_syncs_is_never_corrupt() {
    battery().survive(Journal::Delete, "OFF", false, Durability::OrderOnly);
}

#[test]
fn a_killed_process_loses_nothing_even_without_syncs() {
    battery().survive_kills(Journal::Delete, "OFF");
    battery().survive_kills(Journal::Wal, "OFF");
}

#[test]
fn rot_after_a_kill_is_never_an_older_commit() {
    for journal in [Journal::Delete, Journal::Wal] {
        battery().survive_rot(journal, &[CrashMode::KeepAll], Durability::Acknowledged);
    }
}

/// Nor after a power loss in WAL mode, where the WAL may have begun anew.
#[test]
fn rot_after_a_power_loss_in_wal_mode_is_never_a_mixture() {
    battery().survive_rot(Journal::Wal, &CrashMode::ALL, Durability::Acknowledged);
}

/// In a rollback mode it can take the last commit with it, as its mark may not have reached the disk; no more than
/// that.
#[test]
fn rot_after_a_power_loss_takes_the_last_commit_at_most() {
    battery().survive_rot(Journal::Delete, &CrashMode::ALL, Durability::AllButLast);
}

#[test]
fn one_io_error_at_each_call() {
    battery().one_io_error_at_each_call();
}

#[test]
fn io_errors_that_stay() {
    battery().io_errors_that_stay();
}

#[test]
fn one_io_error_with_two_databases() {
    // Not TRUNCATE and PERSIST: after the commit point SQLite passes over errors, and a journal that it could not
    // truncate stays. Plain SQLite fails there, too.
    for synchronous in ["NORMAL", "FULL"] {
        let battery = Battery {
            synchronous,
            ..battery()
        };
        battery.one_io_error_with_two_databases();
    }
}

#[test]
fn failing_syncs_of_directories() {
    battery().failing_syncs_of_directories();
}

#[test]
fn full_disk() {
    battery().full_disk();
}

#[test]
fn short_writes() {
    battery().short_writes();
}

#[test]
fn failing_syncs_and_truncations() {
    battery().failing_syncs_and_truncations();
}

/// The bases of pages are right in every commit, whatever became of the page that it came from: pages with text of others,
/// equal pages and groups of pages.
#[test]
fn references_survive() {
    for journal in [Journal::Delete, Journal::Wal] {
        battery().references_survive(journal, &packed_best, "select litepack_check()");
    }
}

/// The file that `pack --best` makes of the database that this SQL makes.
fn packed_best(sql: &str) -> Vec<u8> {
    let place = tempfile::tempdir().expect("a directory");
    let (plain, packed) = (
        place.path().join("plain.db"),
        place.path().join("packed.db"),
    );
    let database = rusqlite::Connection::open(&plain).expect("it opens");
    database.execute_batch(sql).expect("a database");
    database.close().expect("it closes");
    let options = litepack::PackOptions {
        best: true,
        ..litepack::PackOptions::default()
    };
    let job = litepack::Job::default();
    litepack::pack(&plain, &packed, &options, &job).expect("it is packed");
    std::fs::read(&packed).expect("a file")
}
