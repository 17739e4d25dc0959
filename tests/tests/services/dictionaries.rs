//! Each large table or index has a dictionary that suits it, and keeps it through whatever happens to its pages.

use litepack_engine::Unit;
use litepack_engine::plan::{Effort, Plan, Source};
use litepack_testdata::{blobs, titles, tpch};
use litepack_tests::commandline::{self, Place};
use litepack_tests::programs::run_litepack;
use litepack_tests::vfs;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::path::Path;

const UNIT: u32 = 4096;

fn image(make: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Vec<u8> {
    let mut connection = Connection::open_in_memory().expect("a database");
    make(&connection).expect("the data is made");
    let image = connection.serialize(rusqlite::MAIN_DB).expect("its bytes");
    image.to_vec()
}

struct Image<'a>(&'a [u8]);

impl Source for Image<'_> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let found = self.0.get(offset as usize..offset as usize + buf.len());
        found.is_some_and(|bytes| {
            buf.copy_from_slice(bytes);
            true
        })
    }

    fn dictionary_of(&mut self, _: Unit) -> u16 {
        0
    }
}

fn plan(image: &[u8], threads: usize) -> Plan {
    let effort = Effort::ordinary(4, threads);
    let len = image.len() as u64;
    Plan::make(len, UNIT, effort, Vec::new(), &mut Image(image)).expect("memory for it")
}

fn bytes_of(plan: &Plan) -> Vec<&[u8]> {
    let planned = plan.planned().iter();
    planned.map(|planned| planned.dictionary.bytes()).collect()
}

#[test]
fn trees_have_dictionaries_of_their_own() {
    let image = image(|connection| tpch::create(connection, 0.05));
    let once = plan(&image, 1);
    let known: Vec<_> = bytes_of(&once).concat();
    assert!(known.len() * 99 < image.len(), "{} bytes", known.len());
    let mut connection = Connection::open_in_memory().expect("a database");
    connection
        .deserialize_read_exact(rusqlite::MAIN_DB, image.as_slice(), image.len(), true)
        .expect("the same database");
    let mut dictionaries = BTreeSet::new();
    for table in ["lineitem", "orders", "partsupp"] {
        let mut leaves = connection
            .prepare("select pageno from dbstat where name = ? and pagetype = 'leaf'")
            .expect("dbstat");
        let pages: Vec<u32> = leaves
            .query_map([table], |row| row.get(0))
            .expect("a query")
            .collect::<Result<_, _>>()
            .expect("page numbers");
        let found: BTreeSet<_> = pages
            .iter()
            .map(|page| once.dictionary_of(Unit(u64::from(page - 1))))
            .collect();
        assert_eq!(found.len(), 1, "{table}: {found:?}");
        assert!(dictionaries.insert(found), "{table} shares one");
    }
    // However many threads look for them, they are the same.
    let again = plan(&image, 2);
    assert_eq!(bytes_of(&once), bytes_of(&again));
}

#[test]
fn what_needs_no_dictionary_has_none() {
    let random = image(|connection| blobs::create(connection, 30, 1));
    assert!(plan(&random, 2).planned().is_empty());
    assert!(plan(&random[..20_000], 2).planned().is_empty());
    assert!(plan(&[], 2).planned().is_empty());
}

/// Pages of all trees move to other places, where pages of other trees have been.
#[test]
fn pages_keep_their_dictionaries_through_vacuum() {
    let place = Place::new();
    let plain = place.path("plain.db");
    let connection = vfs::open_plain(&plain).expect("it opens");
    tpch::create(&connection, 0.03).expect("the data is made");
    connection.execute_batch("vacuum").expect("made anew");
    connection.close().expect("it closes");
    let stored = |path: &Path| {
        let path = path.to_str().expect("UTF-8");
        let output = run_litepack(["info", "--json", path]);
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        info["stored_bytes"].as_u64().expect("a number")
    };
    let packed = place.path("packed.db");
    // At the level of SQLite's own writes, which VACUUM's are.
    let command = |verb: &[&str], from: &Path, to: &Path| {
        let paths = [from, to].map(|path| path.to_str().expect("UTF-8"));
        let arguments = [verb, &["--force"], &paths].concat();
        commandline::succeed(verb[0], &run_litepack(arguments));
    };
    command(&["pack", "--fast"], &plain, &packed);
    let connection = vfs::open(&packed).expect("it opens");
    // Everything behind the rows that go comes to lie elsewhere.
    connection
        .execute_batch("delete from lineitem where l_linenumber in (2, 4); vacuum;")
        .expect("made anew");
    connection.close().expect("it closes");
    let after = stored(&packed);
    command(&["unpack"], &packed, &plain);
    command(&["pack", "--fast"], &plain, &packed);
    let fresh = stored(&packed);
    assert!(after < fresh + fresh / 50, "{fresh} bytes, then {after}");
}

/// The steps by which `pack` saves bytes can be left out, to see how many each saves; the database is the same.
#[test]
fn what_pack_does_can_be_left_out() {
    let place = Place::new();
    let [plain, packed, back] = ["plain.db", "packed.db", "back.db"].map(|name| place.path(name));
    let connection = vfs::open_plain(&plain).expect("it opens");
    titles::create(&connection, 3000, 1).expect("the data is made");
    connection.close().expect("it closes");
    let run = |arguments: &[&str]| commandline::succeed(arguments[0], &run_litepack(arguments));
    let [plain, packed, back] = [&plain, &packed, &back].map(|path| path.to_str().expect("UTF-8"));
    let pack = |options: &[&str]| {
        run(&[&["pack", "--force", plain, packed][..], options].concat());
        run(&["unpack", "--force", packed, back]);
        let same = std::fs::read(plain).expect("a file") == std::fs::read(back).expect("a file");
        assert!(same, "{options:?}");
        let output = run_litepack(["info", "--json", packed]);
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let lens = info["dictionaries"].as_array().expect("lengths").iter();
        let longest = lens.filter_map(serde_json::Value::as_u64).max();
        let size = info["file_bytes"].as_u64().expect("a number");
        (size, longest.unwrap_or(0))
    };
    let (ordinary, _) = pack(&[]);
    let (best, _) = pack(&["--best"]);
    let (as_they_are, _) = pack(&["--no-columnar"]);
    let (short, len) = pack(&["--dictionary-size", "4096"]);
    assert!(len > 0 && len <= 4096);
    let (bare, len) = pack(&["--dictionary-size", "0"]);
    assert_eq!(len, 0);
    let sizes = [best, ordinary, short, bare];
    assert!(sizes.is_sorted(), "{sizes:?}");
    assert!(ordinary * 3 < as_they_are * 2, "{sizes:?}, {as_they_are}");
}
