//! Litepack under SQLite on a disk that lies: a write is reported and lost, or goes elsewhere, or only a part of it is
//! done; a block is as it was; a read ends too early; a failed sync gives up what it could not write. An answer is
//! right, or an error. docs/design.md says where an earlier commit may come back; these tests have that as their bounds.

use crate::power_loss::{battery_over, encrypted, litepack};
use litepack_simdisk::{Bound, Bounds, Journal, Layer, Lie, Workload};

/// Packed, and encrypted.
const LAYERS: [fn(&str) -> Layer; 2] = [litepack, encrypted];

/// The suffix of a database, and that of its log.
const DATABASE: &str = ".db";
const LOG: &str = "-lpw";

/// The last commit may be lost without an error by those who start after a power loss.
const AFTER_POWER_LOSS: Bounds = Bounds {
    power: Bound::AllButLast,
    ..Bounds::RIGHT
};

/// So it may by those who start after a kill.
const AFTER_KILL: Bounds = Bounds {
    killed: Bound::AllButLast,
    ..AFTER_POWER_LOSS
};

/// So it may at any time.
const AT_ANY_TIME: Bounds = Bounds {
    live: Bound::AllButLast,
    ..AFTER_KILL
};

/// Any commit of before may come back as a whole.
const OLD: Bounds = Bounds {
    live: Bound::Earlier,
    killed: Bound::Earlier,
    power: Bound::Earlier,
};

fn expect(journal: Journal, files: &'static str, lies: &[(Lie, Bounds)]) {
    for layer in LAYERS {
        for (lie, bounds) in lies {
            let battery = battery_over(layer);
            let work = Workload::short(journal, "FULL", false, battery.seed);
            let report = battery.lies(work, *lie, files, *bounds);
            report.assert_clean();
            // A read that ends too early is tried again.
            let is_noticed = report.errors > 0 || *lie == Lie::ShortRead;
            assert!(is_noticed, "{lie:?} was never noticed");
            assert!(report.right > 0, "nothing was answered");
        }
    }
}

/// A mark that goes elsewhere may hit the very commit that it is of: then nothing says that this was durable.
#[test]
fn lies_about_a_database_are_no_wrong_answer() {
    expect(
        Journal::Delete,
        DATABASE,
        &[
            (Lie::Lost, AFTER_POWER_LOSS),
            (Lie::LostWithPower, AFTER_POWER_LOSS),
            (Lie::Torn, AFTER_POWER_LOSS),
            (Lie::Old(512), AFTER_POWER_LOSS),
            (Lie::Elsewhere(1), AT_ANY_TIME),
            (Lie::Elsewhere(4096), AT_ANY_TIME),
            (Lie::ShortRead, Bounds::RIGHT),
        ],
    );
}

/// The first block has all that says which commit counts.
#[test]
fn a_first_block_as_it_was_is_an_earlier_commit_and_no_mixture() {
    for journal in [Journal::Delete, Journal::Wal] {
        expect(journal, DATABASE, &[(Lie::Old(4096), OLD)]);
    }
}

#[test]
fn nor_are_those_beside_a_log() {
    expect(
        Journal::Wal,
        DATABASE,
        &[
            (Lie::Lost, Bounds::RIGHT),
            (Lie::LostWithPower, Bounds::RIGHT),
            (Lie::Torn, Bounds::RIGHT),
            (Lie::Old(512), Bounds::RIGHT),
        ],
    );
}

/// Nothing vouches for the last record of a log, as in a plain WAL.
#[test]
fn lies_about_a_log_cost_the_last_commit_at_most() {
    expect(
        Journal::Wal,
        LOG,
        &[
            (Lie::Lost, AFTER_KILL),
            (Lie::LostWithPower, AFTER_POWER_LOSS),
            (Lie::Torn, AFTER_KILL),
        ],
    );
}

#[test]
fn a_failed_sync_that_gives_up_loses_nothing() {
    battery_over(litepack).syncs_that_give_up();
}

/// What was not flushed before it may be lost with what comes after. Then that is an error, and no earlier commit.
#[test]
fn a_failed_sync_is_no_wrong_answer_after_commits_that_were_not_flushed() {
    for layer in LAYERS {
        let battery = battery_over(layer);
        let work = Workload::some_unflushed(Journal::Delete, battery.seed);
        let bounds = Bounds {
            power: Bound::Synced,
            ..Bounds::RIGHT
        };
        let lie = Lie::FailedSync { forgets: false };
        let report = battery.lies(work, lie, DATABASE, bounds);
        report.assert_clean();
        assert!(report.errors > 0, "{lie:?} was never noticed");
    }
}

#[test]
fn no_room_for_one_write() {
    for layer in LAYERS {
        battery_over(layer).no_room_for_one_write();
    }
}
