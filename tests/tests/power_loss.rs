//! Litepack under SQLite on a disk that loses power or fails: after every crash the file opens, passes
//! `integrity_check` and holds exactly what was committed; nothing acknowledged under
//! synchronous=FULL is lost, in a rollback journal mode too, where plain SQLite may lose the last commit.

use litepack_simdisk::{
    CallSet, Campaign, CrashMode, Durability, Fault, FaultCampaign, FaultError, Journal, Layer,
    Report, Workload, crash_campaign, fault_campaign, seed_or,
};

fn seed() -> u64 {
    seed_or(20_261_121)
}

/// Litepack over the simulated disk whose VFS is `parent`.
fn litepack(parent: &str) -> Layer {
    litepack_linked::register().expect("Litepack registers");
    let vfs = format!("litepack-{parent}");
    litepack_linked::register_vfs(&vfs, parent).expect("Litepack goes over the simulated disk");
    Layer {
        vfs,
        guard: Box::new(()),
    }
}

fn show(what: &str, report: &Report) {
    let failed = report.failures.len();
    println!(
        "{what}: {} ops, {} crashes, {} states, {failed} failed, {:?}",
        report.ops, report.crashes, report.states, report.elapsed
    );
}

fn survive(journal: Journal, synchronous: &'static str, attach: bool, durability: Durability) {
    let work = Workload::mixed(journal, synchronous, attach, seed());
    let report = crash_campaign(&Campaign::new(work, durability, 120, seed()), &litepack);
    show(
        &format!("{journal:?} {synchronous} attach={attach}"),
        &report,
    );
    report.assert_clean();
}

#[test]
fn delete_mode_full_loses_nothing() {
    survive(Journal::Delete, "FULL", false, Durability::Acknowledged);
}

#[test]
fn truncate_and_persist_mode_full_lose_nothing() {
    survive(Journal::Truncate, "FULL", false, Durability::Acknowledged);
    survive(Journal::Persist, "FULL", false, Durability::Acknowledged);
}

#[test]
fn two_databases_commit_together() {
    survive(Journal::Delete, "EXTRA", true, Durability::Acknowledged);
}

#[test]
fn wal_full_loses_nothing() {
    survive(Journal::Wal, "FULL", false, Durability::Acknowledged);
}

#[test]
fn wal_full_with_two_databases_loses_nothing() {
    survive(Journal::Wal, "FULL", true, Durability::Acknowledged);
}

#[test]
fn wal_normal_keeps_the_order() {
    survive(Journal::Wal, "NORMAL", false, Durability::OrderOnly);
}

/// Plain SQLite is corrupted by a power loss in this mode; a packed file is at some commit.
#[test]
fn delete_mode_without_syncs_is_never_corrupt() {
    survive(Journal::Delete, "OFF", false, Durability::OrderOnly);
}

#[test]
fn kill_without_power_loss_loses_nothing_even_without_syncs() {
    let work = Workload::mixed(Journal::Delete, "OFF", false, seed());
    let mut campaign = Campaign::new(work, Durability::Acknowledged, 120, seed());
    campaign.modes = vec![CrashMode::KeepAll];
    let report = crash_campaign(&campaign, &litepack);
    show("Delete OFF, killed", &report);
    report.assert_clean();
}

fn sweep(journal: Journal, attach: bool, fault: Fault) {
    let work = Workload::short(journal, "FULL", attach, seed());
    let report = fault_campaign(
        &FaultCampaign::new(work, fault.clone(), 60, seed()),
        &litepack,
    );
    println!(
        "{journal:?} attach={attach} {fault:?}: {} calls, {} runs, {} reported, {:?}",
        report.calls, report.runs, report.reported, report.elapsed
    );
    assert!(report.reported > 0, "no fault was ever reported");
    report.assert_clean();
}

#[test]
fn one_io_error_at_each_call() {
    for journal in [Journal::Delete, Journal::Wal] {
        sweep(journal, false, Fault::new(CallSet::ALL, FaultError::Io));
    }
}

#[test]
fn io_errors_that_stay() {
    for journal in [Journal::Delete, Journal::Wal] {
        sweep(
            journal,
            false,
            Fault::new(CallSet::ALL, FaultError::Io).forever(),
        );
    }
}

#[test]
fn one_io_error_with_two_databases() {
    sweep(
        Journal::Delete,
        true,
        Fault::new(CallSet::IO, FaultError::Io),
    );
}

#[test]
fn full_disk() {
    for journal in [
        Journal::Delete,
        Journal::Truncate,
        Journal::Persist,
        Journal::Wal,
    ] {
        sweep(
            journal,
            false,
            Fault::new(CallSet::WRITES, FaultError::Full).forever(),
        );
        sweep(
            journal,
            false,
            Fault::new(CallSet::WRITES, FaultError::FullWhenExtending),
        );
    }
}

#[test]
fn short_writes() {
    for journal in [Journal::Delete, Journal::Wal] {
        sweep(
            journal,
            true,
            Fault::new(CallSet::WRITES, FaultError::ShortWrite),
        );
    }
}
