//! The databases that the benchmark makes, and one from outside, through `pack` and `unpack`.

use std::path::PathBuf;

use litepack_skip::{Expected, skip};
use litepack_testdata::real::{Found, attachments};
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

/// Overflow chains that come again page by page, and text at any offset: units that are stored by reference.
#[test]
fn repeated_attachments_come_back_bit_for_bit() {
    let mut noise = litepack_io::random::SplitMix64::new(1);
    let mut files = Vec::new();
    for number in 0..30 {
        let words = (0..4000).map(|_| noise.next_u64() >> 30);
        files.push(Found {
            path: format!("{number}.pdf"),
            content: words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>(),
        });
    }
    let texts: Vec<_> = (0..20)
        .map(|number| {
            let words = (0..500).map(|_| format!("{:x} ", noise.next_u64() >> 40));
            Found {
                path: number.to_string(),
                content: words.collect::<String>(),
            }
        })
        .collect();
    assert_round_trip("attachments.db", |connection| {
        attachments::create(connection, &files, &texts, 1)
    });
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
