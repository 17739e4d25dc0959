//! The effect of VACUUM, page sizes and auto_vacuum on the file: a packed database grows, shrinks
//! and is rebuilt to the same pages as a plain one.

use litepack_tests::pair::{COUNT, FILL, Pair};

#[test]
fn vacuum_changes_the_page_size_up_and_down() {
    let sizes = [65536, 512, 1024, 32768, 2048, 16384, 4096, 8192, 512, 65536];
    let mut pair = Pair::filled();
    for (round, size) in sizes.iter().enumerate() {
        pair.run(&format!(
            "delete from t where id % 13 = {round};
             pragma page_size = {size};
             vacuum;
             pragma page_size;
             pragma page_count;
             insert into t(x) values ('at {size}');
             {COUNT}"
        ));
        pair.verify();
    }
    pair.run("@reopen;");
    pair.verify();
    pair.assert_packed();
}

/// The first that SQLite reads of the file is then read while it says `ATTACH` itself.
#[test]
fn vacuum_may_be_the_first_statement() {
    for text in ["pragma page_size = 8192;\nvacuum;", "vacuum main;"] {
        let mut pair = Pair::empty();
        pair.run(text);
        pair.run("pragma page_size;\ncreate table t(x);\ninsert into t values (1);\nvacuum;");
        pair.run("@reopen;\nselect * from t;\npragma page_size;");
        pair.verify();
        pair.assert_packed();
    }
}

#[test]
fn vacuum_of_a_large_fragmented_database_with_a_small_cache() {
    let mut pair = Pair::filled();
    pair.run(
        "pragma cache_size = 10;
         insert into t(x, y) select x || 'copy', zeroblob(900) from t;
         delete from t where id % 3 = 0;
         vacuum;
         pragma freelist_count;
         begin;
         !vacuum;
         rollback;
         drop table t;
         pragma freelist_count;
         vacuum;
         pragma page_count;",
    );
    pair.verify();
}

#[test]
fn every_page_size_from_the_beginning() {
    for size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let mut pair = Pair::empty();
        pair.run(&format!("pragma page_size = {size};"));
        pair.run(FILL);
        pair.run("update t set x = x || ' changed' where id % 5 = 0;\npragma journal_mode = wal;");
        pair.run("delete from t where id % 7 = 0;\npragma page_size;\n@reopen;");
        pair.run(COUNT);
        pair.verify();
        pair.assert_packed();
    }
}

#[test]
fn auto_vacuum_full_and_incremental_shrink_the_database() {
    for journal in ["delete", "wal"] {
        for mode in ["full", "incremental"] {
            let mut pair = Pair::new();
            pair.run(&format!(
                "pragma auto_vacuum = {mode};\npragma journal_mode = {journal};"
            ));
            pair.run(FILL);
            pair.run(
                "pragma auto_vacuum;
                 pragma page_count;
                 delete from t where id > 500;
                 pragma page_count;
                 pragma freelist_count;
                 pragma incremental_vacuum(7);
                 pragma page_count;
                 begin;
                 delete from t where id > 100;
                 pragma incremental_vacuum;
                 rollback;
                 select count(*) from t;
                 delete from t;
                 pragma incremental_vacuum;
                 ?pragma wal_checkpoint(truncate);
                 pragma page_count;
                 insert into t(x) values ('grows again');",
            );
            pair.verify();
            pair.run("@reopen;\npragma page_count;");
            pair.verify();
        }
    }
}

#[test]
fn application_ids_encodings_and_other_header_fields_are_kept() {
    let mut pair = Pair::new();
    pair.run("pragma encoding = 'UTF-16le';\npragma application_id = 1234567;");
    pair.run(FILL);
    pair.run(
        "pragma user_version = 42;
         insert into t(x) values ('grüße 😀');
         @reopen;
         pragma encoding;
         pragma application_id;
         pragma user_version;
         pragma schema_version;
         pragma data_version;
         select x, hex(x) from t order by id desc limit 1;
         pragma max_page_count = 200;
         !insert into t(x, y) select x, zeroblob(100000) from t;
         select count(*) from t;",
    );
    pair.verify();
}
