//! Databases larger than 1 GiB, where SQLite leaves out the page with the lock bytes: they grow
//! across that border, are rolled back over it, read, vacuumed and shrunk as plain ones are.

use litepack_tests::pair::Pair;
use litepack_tests::{content, vfs};

/// Grows a database to just below 1 GiB with blobs of zeros, and across the border with rows that
/// can be told apart, then works on both sides of it.
fn cross_the_border(page_size: u32) {
    let mut pair = Pair::empty();
    pair.run(&format!(
        "pragma page_size = {page_size};
         pragma synchronous = off;
         pragma cache_size = -20000;
         create table filler(id integer primary key, body blob);
         create table t(id integer primary key, x text, body blob);
         insert into filler(body) with recursive n(i) as (select 1 union all
           select i + 1 from n where i < 17) select zeroblob(63000000) from n;
         pragma page_count;"
    ));
    let rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
        select printf('row %d %x', i, i * 2654435761), zeroblob(i * 13 % 9000) from n;";
    for _ in 0..3 {
        pair.run(&format!("insert into t(x, body) {rows}"));
    }
    let border = 1_073_741_824 / u64::from(page_size);
    let pages: u64 = pair.answer("pragma page_count").parse().expect("a number");
    assert!(pages > border + 10, "{pages} pages of {page_size} bytes");
    pair.run(&format!(
        "select count(*), sum(id), sum(length(x)), sum(length(body)) from t;
         create index tx on t(x);
         begin;
         update t set x = x || ' changed', body = zeroblob(500) where id % 2;
         insert into t(x, body) {rows}
         delete from filler where id = 9;
         rollback;
         update t set x = x || '!' where id > 4000;
         select count(*), max(x), sum(length(x)) from t;
         @reopen;
         pragma page_count;
         select count(*), sum(id), sum(length(body)) from t indexed by tx where x > 'row 2';
         select id, length(body), sum(length(trim(hex(substr(body, -500)), '0'))) from filler
           group by id;"
    ));
    let found = pair.both("content", |connection, _| {
        content::assert_sound(connection, "past 1 GiB");
        let filler = "select sum(length(body)) from filler";
        let filler: i64 = connection
            .query_row(filler, [], |row| row.get(0))
            .expect("a sum");
        let small = "create temp table copy as select * from t";
        connection.execute_batch(small).expect("a copy");
        (
            filler,
            content::fingerprint_of(connection, "temp").expect("a fingerprint"),
        )
    });
    assert_eq!(found.0, 17 * 63_000_000);
    let stored = std::fs::metadata(pair.packed.path()).expect("a file").len();
    println!("{page_size}: {pages} pages in {stored} bytes");
    assert!(
        !vfs::is_litepack() || stored < 120_000_000,
        "{stored} bytes for mostly zeros"
    );
    pair.run(
        "pragma synchronous = off;
         delete from filler where id > 4;
         pragma freelist_count;
         vacuum;
         pragma page_count;
         select count(*), sum(length(x)), sum(length(body)) from t;
         insert into filler(body) select zeroblob(100000000);
         select count(*), sum(length(body)) from filler;
         pragma page_count;",
    );
    pair.both("the end", |connection, _| {
        content::assert_sound(connection, "shrunk and grown")
    });
}

#[test]
fn four_kib_pages_cross_one_gib() {
    cross_the_border(4096);
}

#[test]
fn sixty_four_kib_pages_cross_one_gib() {
    cross_the_border(65536);
}
