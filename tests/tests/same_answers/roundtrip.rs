//! `litepack pack` and `litepack unpack` give back the original file bit for bit, whatever made it: page sizes,
//! auto_vacuum, reserved bytes, free pages, WAL and hot journals. Files that cannot be packed are the subject of
//! `refusals.rs`.

use litepack_tests::commandline::{JSON_ROWS, Place, SHOP, copy_elsewhere, read, succeed};
use litepack_tests::programs::run_litepack;
use litepack_tests::roundtrip::round_trip;
use litepack_tests::{content, vfs};
use std::path::Path;

#[test]
fn json_rows_and_a_shop_come_back_bit_for_bit() {
    let place = Place::new();
    for (name, sql) in [("json.db", JSON_ROWS), ("shop.db", SHOP)] {
        let source = place.make(name, sql);
        let size = std::fs::metadata(&source).expect("a file").len();
        let packed = round_trip(&place, &source);
        println!("{name}: {size} bytes packed into {packed:?}");
        let [as_they_are, columns] = packed;
        assert!(
            as_they_are * 2 < size,
            "{name}: {size} bytes became {as_they_are}"
        );
        assert!(
            columns < as_they_are,
            "{name}: by column {columns} bytes instead of {as_they_are}"
        );
    }
    place.assert_only(&["json.db", "shop.db"]);
}

#[test]
fn every_page_size_with_and_without_auto_vacuum_comes_back() {
    for size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let place = Place::new();
        for vacuum in ["none", "full", "incremental"] {
            let head = format!("pragma page_size = {size}; pragma auto_vacuum = {vacuum};");
            let rest = "delete from t where id % 3 = 0;";
            let source = place.make(&format!("{vacuum}.db"), &format!("{head}{JSON_ROWS}{rest}"));
            round_trip(&place, &source);
        }
    }
}

#[test]
fn reserved_bytes_come_back() {
    let place = Place::new();
    let first = place.make("first.db", JSON_ROWS);
    let connection = vfs::open_plain(&first).expect("it opens");
    for (size, reserve) in [
        (512, 32),
        (1024, 8),
        (4096, 1),
        (4096, 16),
        (8192, 255),
        (65536, 64),
    ] {
        let path = place.path(&format!("{size}-{reserve}.db"));
        let into = vfs::uri(&path, vfs::PLAIN, &format!("reserve={reserve}"));
        let set = format!("pragma page_size = {size}");
        connection.execute_batch(&set).expect("a page size");
        connection.execute("vacuum into ?", [into]).expect("a copy");
        assert_eq!(read(&path)[20], reserve, "reserved bytes in the header");
        round_trip(&place, &path);
    }
}

#[test]
fn empty_tiny_and_thinned_out_databases_come_back() {
    let place = Place::new();
    round_trip(&place, &place.make("schema.db", "create table t(x)"));
    round_trip(&place, &place.make("header.db", "pragma user_version = 7"));
    let thin = format!("{JSON_ROWS} delete from t where id between 500 and 3900;");
    round_trip(&place, &place.make("freelist.db", &thin));
    let gone = format!("{JSON_ROWS} drop table t;");
    round_trip(&place, &place.make("all-free.db", &gone));
    let noise = "create table t(x); insert into t with recursive n(i) as (select 1 union all
        select i + 1 from n where i < 300) select randomblob(3000) from n;";
    round_trip(&place, &place.make("noise.db", noise));
    let utf16 = format!("pragma encoding = 'UTF-16be'; {SHOP}");
    round_trip(&place, &place.make("utf16.db", &utf16));
    let fts = "create virtual table f using fts5(x); create virtual table r using rtree(i, a, b);
        insert into f with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
        select 'words and more words ' || i from n; insert into r values (1, 2, 3);";
    round_trip(&place, &place.make("fts.db", fts));
}

#[test]
fn a_clean_wal_database_comes_back_and_stays_in_wal_mode() {
    let place = Place::new();
    let source = place.make("wal.db", &format!("pragma journal_mode = wal; {SHOP}"));
    assert_eq!(read(&source)[18], 2, "a WAL-mode header");
    round_trip(&place, &source);
}

#[test]
fn what_is_only_in_the_wal_of_the_source_is_packed() {
    let place = Place::new();
    let source = place.make(
        "live.db",
        &format!("pragma journal_mode = wal; {JSON_ROWS}"),
    );
    let mut connection = vfs::open_plain(&source).expect("it opens");
    connection
        .execute_batch(
            "update t set data = '[\"in the wal\"]' where id % 5 = 0; create table late(x);",
        )
        .expect("an update");
    // The copy has a WAL and no process that knows of it, as after a crash.
    for name in ["db", "db-wal"] {
        copy_elsewhere(
            &place.path(&format!("live.{name}")),
            &place.path(&format!("copy.{name}")),
        );
    }
    for name in ["live", "copy"] {
        let (from, to) = (
            place.path(&format!("{name}.db")),
            place.path(&format!("{name}.packed")),
        );
        succeed(name, &run_litepack([Path::new("pack"), &from, &to]));
        let back = place.path(&format!("{name}.back"));
        succeed(name, &run_litepack([Path::new("unpack"), &to, &back]));
        let image = content::image(&mut connection).expect("an image");
        assert!(image == read(&back), "{name}: not what the source holds");
    }
}

#[test]
fn a_hot_journal_of_the_source_is_rolled_back() {
    let place = Place::new();
    let source = place.make("live.db", JSON_ROWS);
    let committed = read(&source);
    let connection = vfs::open_plain(&source).expect("it opens");
    connection
        .execute_batch("pragma cache_size = 5; begin; update t set data = '[\"never committed\"]';")
        .expect("an update that spills");
    let (copy, packed, back) = (
        place.path("copy.db"),
        place.path("packed"),
        place.path("back"),
    );
    copy_elsewhere(&source, &copy);
    copy_elsewhere(
        &place.path("live.db-journal"),
        &place.path("copy.db-journal"),
    );
    assert!(read(&copy) != committed, "the transaction did not spill");
    connection.execute_batch("rollback").expect("a rollback");
    succeed("pack", &run_litepack([Path::new("pack"), &copy, &packed]));
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &packed, &back]),
    );
    assert!(committed == read(&back), "not the committed state");
}

#[test]
fn in_place_packing_keeps_the_name_and_the_content() {
    let place = Place::new();
    let source = place.make("app.db", SHOP);
    let before = read(&source);
    let packed = run_litepack([Path::new("pack"), Path::new("--in-place"), &source]);
    succeed("pack --in-place", &packed);
    place.assert_only(&["app.db"]);
    assert!(
        !vfs::looks_plain(&source).expect("readable"),
        "it is still plain"
    );
    let back = place.path("back.db");
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &source, &back]),
    );
    assert!(before == read(&back));
}
