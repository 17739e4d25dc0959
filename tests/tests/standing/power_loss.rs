//! Logs that stand on their database, on a disk that loses power.

use litepack_simdisk::{Battery, Durability, Layer, seed_or};
use litepack_tests::vfs;

/// Litepack over the simulated disk whose VFS is `parent`, with logs that stand.
fn litepack(parent: &str) -> Layer {
    litepack_sqlite::let_logs_stand_from(1);
    vfs::over(parent)
}

/// The tests of such a disk.
pub(crate) fn battery() -> Battery {
    Battery {
        layer: litepack,
        synchronous: "FULL",
        seed: seed_or(20_261_121),
    }
}

/// All that a log stands on is there, whatever is done to the file meanwhile.
#[test]
fn a_log_that_stands_on_its_database_loses_nothing() {
    let battery = battery();
    battery.standing_logs_survive("FULL", Durability::Acknowledged);
    battery.standing_logs_survive("NORMAL", Durability::OrderOnly);
}
