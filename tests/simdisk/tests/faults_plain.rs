//! Plain SQLite on a disk whose calls fail: the errors must be clean, the last commit intact and
//! the database usable afterwards, which validates both the faults and the campaign.

use litepack_simdisk::{Battery, plain, seed_or};

/// EXTRA, as FULL may lose the last commit of a rollback journal (see crash_plain.rs).
fn battery() -> Battery {
    Battery {
        layer: plain,
        synchronous: "EXTRA",
        seed: seed_or(20_260_102),
    }
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
fn faults_while_a_database_is_born() {
    battery().faults_while_born();
}

#[test]
fn one_io_error_with_two_databases() {
    battery().one_io_error_with_two_databases();
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
