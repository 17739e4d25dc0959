//! Plain SQLite on a disk that lies: it has no checksums, so some answers have to be wrong. That shows that the campaign
//! sees them.

use litepack_simdisk::{Battery, Bound, Bounds, Journal, Lie, Workload, plain, seed_or};

fn battery() -> Battery {
    Battery {
        layer: plain,
        synchronous: "EXTRA",
        seed: seed_or(20_261_128),
    }
}

/// Each lie is noticed in some run, at the worst that the bounds could let pass: as a state that never was.
#[test]
fn wrong_answers_are_seen() {
    let bounds = Bounds {
        live: Bound::Earlier,
        killed: Bound::Earlier,
        power: Bound::Earlier,
    };
    for journal in [Journal::Delete, Journal::Wal] {
        for lie in [
            Lie::Lost,
            Lie::LostWithPower,
            Lie::Elsewhere(1),
            Lie::Torn,
            Lie::Old(512),
        ] {
            let battery = battery();
            let work = Workload::short(journal, battery.synchronous, false, battery.seed);
            let report = battery.lies(work, lie, ".db", bounds);
            assert!(!report.failures.is_empty(), "{journal:?}, {lie:?}");
        }
    }
}
