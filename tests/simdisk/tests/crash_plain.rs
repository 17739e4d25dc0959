//! Plain SQLite on the simulated disk: it must survive every crash as its documentation says,
//! which validates the simulator; and without syncs it must not, which shows that it bites.

use litepack_simdisk::{
    Battery, Campaign, CrashMode, Durability, Journal, Points, Report, Workload, crash_campaign,
    plain, seed_or, show,
};

fn seed() -> u64 {
    seed_or(20_260_101)
}

fn survive(journal: Journal, synchronous: &'static str, attach: bool, promise: Durability) {
    let battery = Battery {
        layer: plain,
        synchronous,
        seed: seed(),
    };
    battery.survive(journal, synchronous, attach, promise);
}

#[test]
fn delete_mode_extra_loses_nothing() {
    survive(Journal::Delete, "EXTRA", false, Durability::Acknowledged);
}

/// VACUUM truncates the database after it has deleted the journal, and under FULL neither is
/// synced: a disk that kept the truncation but not the deletion would roll back into a file that
/// has lost its tail. So FULL relies on the file system to keep such changes in order.
#[test]
fn delete_mode_full_loses_at_most_the_last_change() {
    let work = Workload::mixed(Journal::Delete, "FULL", true, seed());
    let mut campaign = Campaign::new(work, Durability::AllButLast, 120, seed());
    campaign.ordered_metadata = true;
    let report = crash_campaign(&campaign, &plain);
    show("Delete FULL, metadata in order", &report);
    report.assert_clean();
}

#[test]
fn truncate_mode_full_loses_nothing() {
    survive(Journal::Truncate, "FULL", false, Durability::Acknowledged);
}

#[test]
fn persist_mode_full_loses_nothing() {
    survive(Journal::Persist, "FULL", false, Durability::Acknowledged);
}

#[test]
fn two_databases_commit_together() {
    survive(Journal::Delete, "EXTRA", true, Durability::Acknowledged);
}

#[test]
fn mode_changes_extra_lose_nothing() {
    let battery = Battery {
        layer: plain,
        synchronous: "EXTRA",
        seed: seed(),
    };
    battery.mode_changes_survive("EXTRA");
}

#[test]
fn databases_are_born_together() {
    let battery = Battery {
        layer: plain,
        synchronous: "EXTRA",
        seed: seed(),
    };
    battery.births_survive();
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

/// Runs without syncs and with a promise that this cannot keep.
fn bite(journal: Journal, modes: &[CrashMode]) -> Report {
    let work = Workload::mixed(journal, "OFF", false, seed());
    let mut campaign = Campaign::new(work, Durability::OrderOnly, 120, seed());
    campaign.points = Points::Spread(120);
    campaign.max_failures = usize::MAX;
    campaign.modes = modes.to_vec();
    let report = crash_campaign(&campaign, &plain);
    show(&format!("{journal:?} OFF"), &report);
    report
}

#[test]
fn without_syncs_the_simulator_corrupts() {
    for journal in [Journal::Delete, Journal::Wal] {
        let report = bite(
            journal,
            &[CrashMode::Prefix, CrashMode::Subset, CrashMode::Torn],
        );
        let corrupt = |what: &str| what.contains("integrity_check") || what.contains("malformed");
        let corrupted = report.failures.iter().filter(|f| corrupt(&f.what)).count();
        println!("{journal:?}: {corrupted} corrupted");
        assert!(
            corrupted > 0,
            "{journal:?} with synchronous=OFF survived every crash"
        );
    }
}

#[test]
fn without_syncs_a_killed_process_is_harmless() {
    let battery = Battery {
        layer: plain,
        synchronous: "OFF",
        seed: seed(),
    };
    battery.survive_kills(Journal::Delete, "OFF");
    battery.survive_kills(Journal::Wal, "OFF");
}

#[test]
fn without_syncs_an_acknowledged_commit_is_lost() {
    let work = Workload::mixed(Journal::Wal, "NORMAL", false, seed());
    let mut campaign = Campaign::new(work, Durability::Acknowledged, 120, seed());
    campaign.modes = vec![CrashMode::LoseAll];
    let report = crash_campaign(&campaign, &plain);
    assert!(
        !report.failures.is_empty(),
        "synchronous=NORMAL lost no acknowledged commit"
    );
}
