//! Plain SQLite on a disk whose calls fail: the errors must be clean, the last commit intact and
//! the database usable afterwards, which validates both the faults and the campaign.

use litepack_simdisk::{
    Call, CallSet, Fault, FaultCampaign, FaultError, Journal, Workload, fault_campaign, plain,
    seed_or,
};

fn seed() -> u64 {
    seed_or(20_260_102)
}

fn sweep(journal: Journal, attach: bool, fault: Fault) {
    // EXTRA, as FULL may lose the last commit of a rollback journal (see crash_plain.rs).
    let work = Workload::short(journal, "EXTRA", attach, seed());
    let campaign = FaultCampaign::new(work, fault.clone(), 60, seed());
    let report = fault_campaign(&campaign, &plain);
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

#[test]
fn failing_syncs_and_truncations() {
    let calls = CallSet::of(Call::Sync).and(Call::Truncate);
    for journal in [Journal::Delete, Journal::Wal] {
        sweep(journal, false, Fault::new(calls, FaultError::Io).times(3));
    }
}
