//! The same queries on an archive and on the plain file give the same rows, with every maker of archives: frames
//! smaller than pages, frames that cross pages, one frame for all; sorting and grouping in temporary files.

use litepack_testdata::logs::{self, Indexes, Layout};
use litepack_testdata::tpch;
use litepack_tests::archives::{self, Writer};
use litepack_tests::commandline::{Place, SHOP};
use litepack_tests::outcome::Outcome;
use litepack_tests::{content, scale, vfs};
use std::path::Path;

const WRITERS: [Writer; 8] = [
    Writer::Litepack(64 << 10),
    Writer::Litepack(1),
    Writer::Litepack(1 << 20),
    Writer::Zeekstd(2 << 20),
    Writer::Zeekstd(10_007),
    Writer::Facebook(2048),
    Writer::Facebook(70_001),
    Writer::Facebook(1 << 30),
];

/// Runs all queries on both, with a page cache that holds next to nothing and with the default one.
fn assert_same(plain: &Path, archive: &Path, queries: &[&str], context: &str) {
    let expected = vfs::open_plain(plain).expect("it opens");
    let found = archives::open(archive).expect("it opens");
    for settings in [
        "pragma cache_size = 5; pragma temp_store = file",
        "pragma cache_size = -2000; pragma temp_store = memory; pragma mmap_size = 100000000",
    ] {
        for connection in [&expected, &found] {
            connection.execute_batch(settings).expect("pragmas");
        }
        for sql in queries {
            let (expected, found) = (Outcome::of(&expected, sql), Outcome::of(&found, sql));
            let rows = expected.answer.as_ref().expect(sql);
            assert!(!rows.values.is_empty(), "{sql} finds nothing");
            assert!(
                expected == found,
                "{context}, {sql}: {expected:?}, but {found:?}"
            );
        }
    }
    content::assert_sound(&found, context);
    let same = content::fingerprint(&expected).expect("a scan");
    assert_eq!(same, content::fingerprint(&found).expect("a scan"));
}

/// By all writers at one page size, by one writer at all of them.
fn assert_same_everywhere(
    fill: impl Fn(&rusqlite::Connection) -> rusqlite::Result<()>,
    queries: &[&str],
) {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let all = |page_size: u32, writers: &[Writer]| {
        let place = Place::new();
        let plain = archives::plain(&place, page_size, &fill);
        for writer in writers {
            let archive = archives::archive(&plain, "archive.db.zst", *writer);
            let context = format!("{writer:?}, {page_size}-byte pages");
            assert_same(&plain, &archive, queries, &context);
        }
    };
    all(4096, &WRITERS);
    for page_size in [512, 8192, 16384, 32768, 65536] {
        all(page_size, &[WRITERS[0], WRITERS[5]]);
    }
}

#[test]
fn a_music_shop() {
    let queries = [
        "select * from track where album = 17 order by id",
        "select artist.name, count(*), sum(track.millis) from track join album on album.id = album
           join artist on artist.id = album.artist group by 1 order by 2 desc, 1 limit 20",
        "select composer, count(*), avg(bytes) from track group by composer order by 1",
        "select name from track order by name desc limit 7 offset 1000",
        "select count(*) from songs where title like '%7%'",
        "select strftime('%Y-%m', at), sum(total) from invoice group by 1 order by 1",
        "select first, (select count(*) from invoice where customer = customer.id) from customer
           where email > 'user5' order by 2, 1",
        "with recursive chain(id, depth) as (select 1, 0 union select playlist_track.track, depth + 1
           from chain join playlist_track on playlist = 1 + chain.id % 18 where depth < 2)
           select depth, count(*) from chain group by depth order by depth",
        "select playlist, rank() over (order by count(*) desc, playlist) from playlist_track
           group by playlist order by playlist",
        "select distinct bytes % 97 from track order by 1",
    ];
    assert_same_everywhere(|connection| connection.execute_batch(SHOP), &queries);
}

/// The queries of the benchmark and their like.
const ON_COLUMNS: [&str; 8] = [
    "select count(*) from log",
    "select count(*) from log where status = 404",
    "select count(*), sum(bytes) from log where time between '2025-01-01T00:01' and '2025-01-01T00:05'",
    "select status, count(*), sum(bytes) from log group by status order by status",
    "select remote_addr, count(*) from log group by remote_addr order by 2 desc, 1 limit 50",
    "select user_agent, max(request_time) from log group by user_agent order by 1",
    "select * from log where path like '/search%' order by request_time desc, id limit 10",
    "select * from log where id in (1, 77, 1234, 2999)",
];

const ON_JSON: [&str; 7] = [
    "select count(*) from log",
    "select count(*) from log where data ->> '$.status' = 404",
    "select count(*) from log where data ->> '$.path' like '/search%'",
    "select data ->> '$.status', count(*), sum(data ->> '$.bytes') from log group by 1 order by 1",
    "select data ->> '$.remote_addr', count(*) from log group by 1 order by 2 desc, 1 limit 50",
    "select data ->> '$.user_agent', max(data ->> '$.request_time') from log group by 1 order by 1",
    "select * from log where id in (1, 77, 1234, 2999)",
];

fn logs(layout: Layout, indexes: Indexes, queries: &[&str]) {
    let rows = scale(3_000, 100_000);
    assert_same_everywhere(
        |connection| logs::create(connection, rows, 5, layout, indexes),
        queries,
    );
}

#[test]
fn logs_in_columns() {
    logs(Layout::Columns, Indexes::Without, &ON_COLUMNS);
}

#[test]
fn logs_in_columns_with_indexes() {
    logs(Layout::Columns, Indexes::With, &ON_COLUMNS);
}

#[test]
fn logs_as_json() {
    logs(Layout::Json, Indexes::Without, &ON_JSON);
}

#[test]
fn logs_as_json_with_indexes() {
    logs(Layout::Json, Indexes::With, &ON_JSON);
}

#[test]
fn tpch() {
    let queries = [
        "select l_returnflag, l_linestatus, sum(l_quantity), avg(l_discount), count(*) from lineitem
           where l_shipdate <= date('1998-12-01', '-90 days') group by 1, 2 order by 1, 2",
        "select n_name, sum(l_extendedprice * (1 - l_discount)) from customer, orders, lineitem,
           supplier, nation where c_custkey = o_custkey and l_orderkey = o_orderkey and
           l_suppkey = s_suppkey and s_nationkey = n_nationkey group by n_name order by 2 desc",
        "select o_orderpriority, count(*) from orders where exists (select * from lineitem where
           l_orderkey = o_orderkey and l_commitdate < l_receiptdate) group by 1 order by 1",
        "select c_custkey, c_name, sum(o_totalprice) from customer join orders on c_custkey = o_custkey
           group by 1 order by 3 desc, 1 limit 20",
        "select l_shipmode, count(*) from lineitem group by 1 order by 1",
    ];
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let size = scale(0.01, 0.1);
    for page_size in [4096, 65536] {
        let place = Place::new();
        let plain = archives::plain(&place, page_size, |c| tpch::create(c, size));
        for writer in [WRITERS[0], WRITERS[4]] {
            let archive = archives::archive(&plain, "archive.db.zst", writer);
            let context = format!("{writer:?}, {page_size}-byte pages");
            assert_same(&plain, &archive, &queries, &context);
        }
    }
}
