//! Logs that stand on their database, on a disk that lies: an answer is right, an error, or where the first block of the
//! file is as it was, an earlier commit. It is no mixture of a commit and a log that follows another.

use litepack_simdisk::{Bound, Bounds, Journal, Lie, Workload};

use crate::power_loss::battery;

fn expect(file: &'static str, lies: &[(Lie, Bounds)]) {
    for (lie, bounds) in lies {
        let battery = battery();
        let work = Workload::short(Journal::Wal, "FULL", false, battery.seed);
        let report = battery.lies(work, *lie, file, *bounds);
        report.assert_clean();
        assert!(report.errors > 0 && report.right > 0, "{lie:?}");
    }
}

#[test]
fn lies_about_a_database_that_a_log_stands_on_are_no_wrong_answer() {
    let earlier = Bounds {
        live: Bound::Earlier,
        killed: Bound::Earlier,
        power: Bound::Earlier,
    };
    expect(
        ".db",
        &[
            (Lie::Lost, Bounds::RIGHT),
            (Lie::Torn, Bounds::RIGHT),
            (Lie::Old(512), Bounds::RIGHT),
            (Lie::Old(4096), earlier),
        ],
    );
}

/// Nothing vouches for the last record of a log, as in a plain WAL.
#[test]
fn lies_about_a_log_that_stands_on_its_database_cost_the_last_commit_at_most() {
    let last = Bounds {
        killed: Bound::AllButLast,
        power: Bound::AllButLast,
        ..Bounds::RIGHT
    };
    expect("-lpw", &[(Lie::Lost, last), (Lie::Torn, last)]);
}
