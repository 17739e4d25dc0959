//! The databases that the benchmark makes, and one from outside, through `pack` and `unpack`.

use std::path::PathBuf;

use litepack_skip::{Expected, skip};
use litepack_testdata::{blobs, titles, tpch};
use litepack_tests::commandline::Place;
use litepack_tests::roundtrip::round_trip;
use litepack_tests::vfs;

fn assert_round_trip(name: &str, make: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()>) {
    let place = Place::new();
    let source = place.path(name);
    let connection = vfs::open_plain(&source).expect("it opens");
    make(&connection).expect("the data is made");
    connection.close().expect("it closes");
    let size = std::fs::metadata(&source).expect("a file").len();
    println!(
        "{name}: {size} bytes packed into {:?}",
        round_trip(&place, &source)
    );
}

#[test]
fn json_titles_come_back_bit_for_bit() {
    assert_round_trip("titles.db", |connection| {
        titles::create(connection, 20_000, 1)
    });
}

#[test]
fn tpch_comes_back_bit_for_bit() {
    assert_round_trip("tpch.db", |connection| tpch::create(connection, 0.02));
}

#[test]
fn random_blobs_come_back_bit_for_bit_and_cost_next_to_nothing() {
    assert_round_trip("blobs.db", |connection| blobs::create(connection, 100, 1));
}

/// Any database: LITEPACK_DATABASE=FILE.
#[test]
fn a_database_from_outside_comes_back_bit_for_bit() {
    let Some(database) = std::env::var_os("LITEPACK_DATABASE").map(PathBuf::from) else {
        return skip(Expected::ByChoice, "LITEPACK_DATABASE names no database");
    };
    let place = Place::new();
    let source = place.path("outside.db");
    std::fs::copy(&database, &source).expect("it can be copied");
    let packed = round_trip(&place, &source);
    println!("{}: {packed:?} bytes packed", database.display());
}
