//! Journal modes, synchronous levels, checkpoints and locks: a packed database commits, rolls back,
//! blocks and lets through exactly when a plain one does.

use std::sync::atomic::{AtomicBool, Ordering};

use litepack_tests::content;
use litepack_tests::pair::{COUNT, Pair};

#[test]
fn every_journal_mode_commits_rolls_back_and_hands_over_to_the_next() {
    let modes = ["delete", "truncate", "persist", "memory", "off", "wal"];
    for from in modes {
        let mut pair = Pair::filled();
        for to in modes {
            pair.run(&format!(
                "pragma journal_mode = {from};
                 insert into t(x) values ('in {from}, before {to}');
                 pragma journal_mode = {to};
                 update t set x = x || '.' where id % 100 = 3;
                 begin;
                 delete from t where id % 97 = 5;
                 insert into t(x) values ('in {to}');
                 commit;
                 pragma journal_mode;"
            ));
            if from != "off" && to != "off" {
                pair.run(
                    "begin; delete from t; rollback;"
                        .replace("; ", ";\n")
                        .as_str(),
                );
            }
            pair.run(COUNT);
        }
        pair.run("@reopen;\npragma journal_mode;");
        pair.verify();
    }
}

#[test]
fn the_journal_mode_cannot_change_inside_a_transaction_or_under_a_reader() {
    let mut pair = Pair::filled();
    pair.run(
        "begin;
         insert into t(x) values ('a');
         ?pragma journal_mode = wal;
         commit;
         @use 1;
         begin;
         select count(*) from t;
         @use 0;
         ?pragma journal_mode = wal;
         @use 1;
         commit;
         pragma journal_mode = wal;
         begin;
         select count(*) from t;
         @use 0;
         ?pragma journal_mode = delete;
         insert into t(x) values ('while read');
         @use 1;
         select count(*) from t;
         commit;
         select count(*) from t;",
    );
    pair.verify();
}

#[test]
fn checkpoints_of_every_kind_with_a_reader_pinned() {
    let mut pair = Pair::filled();
    pair.run("pragma journal_mode = wal;\npragma wal_autocheckpoint = 0;");
    for kind in ["passive", "full", "restart", "truncate"] {
        pair.run(&format!(
            "update t set x = '{kind}' || id where id % 10 = 1;
             @use 1;
             begin;
             {COUNT}
             @use 0;
             update t set x = x || '!' where id % 10 = 2;
             pragma wal_checkpoint({kind});
             insert into t(x) values ('after');
             @use 1;
             {COUNT}
             commit;
             {COUNT}
             @use 0;
             pragma wal_checkpoint({kind});
             {COUNT}"
        ));
    }
    pair.verify();
    pair.run("@reopen;");
    pair.verify();
}

#[test]
fn synchronous_off_to_extra() {
    for journal in ["delete", "wal"] {
        let mut pair = Pair::filled();
        pair.run(&format!("pragma journal_mode = {journal};"));
        for level in ["off", "normal", "full", "extra"] {
            pair.run(&format!(
                "pragma synchronous = {level};
                 pragma synchronous;
                 update t set y = zeroblob(100) where id % 20 = 1;
                 ?pragma wal_checkpoint;
                 {COUNT}"
            ));
        }
        pair.run("@reopen;");
        pair.verify();
    }
}

#[test]
fn exclusive_locking_mode_keeps_others_out_until_it_is_left() {
    for journal in ["delete", "wal"] {
        let mut pair = Pair::filled();
        pair.run(&format!(
            "pragma locking_mode = exclusive;
             pragma journal_mode = {journal};
             insert into t(x) values ('mine');
             @use 1;
             !select count(*) from t;
             !insert into t(x) values ('theirs');
             @use 0;
             pragma locking_mode = normal;
             select count(*) from t;
             insert into t(x) values ('last of mine');
             @use 1;
             ?insert into t(x) values ('theirs');
             ?select count(*) from t;
             @close;
             @use 0;"
        ));
        pair.verify();
    }
}

#[test]
fn readers_and_writers_block_each_other_as_in_plain_sqlite() {
    let mut pair = Pair::filled();
    pair.run(
        "begin immediate;
         insert into t(x) values ('pending');
         @use 1;
         select count(*) from t;
         !begin immediate;
         begin;
         select max(id) from t;
         @use 0;
         !commit;
         @use 1;
         commit;
         @use 0;
         commit;
         begin exclusive;
         @use 1;
         !select count(*) from t;
         @use 0;
         rollback;
         @use 1;
         select count(*) from t;",
    );
    pair.verify();
}

#[test]
fn journals_too_large_for_memory_roll_back_and_commit() {
    for journal in ["delete", "truncate", "persist"] {
        let mut pair = Pair::new();
        pair.run(&format!(
            "pragma journal_mode = {journal};
             pragma cache_size = 50;
             create table big(id integer primary key, x text, y blob);
             insert into big with recursive n(i) as (select 1 union all
               select i + 1 from n where i < 9000)
               select i, 'row ' || i, zeroblob(1100) from n;
             create index big_x on big(x);
             begin;
             update big set x = x || ' first', y = zeroblob(1100);
             savepoint s;
             update big set x = 'second ' || id where id % 2;
             delete from big where id % 5 = 0;
             rollback to s;
             select count(*), max(x), min(x) from big;
             rollback;
             select count(*), max(x), min(x) from big;
             begin;
             update big set x = x || ' kept', y = cast(x as blob) || zeroblob(1000);
             commit;
             !update big set x = case when id < 8990 then x || '!' else zeroblob(3000000000) end;
             select count(*), max(x), sum(length(y)) from big;
             attach '{{own:other.db}}' as o;
             create table o.copy(id integer primary key, x text, y blob);
             insert into o.copy select * from big;
             begin;
             update big set x = x || ' both';
             update o.copy set x = x || ' both', y = zeroblob(1100);
             rollback;
             begin;
             update o.copy set x = x || ' both', y = zeroblob(1100);
             update big set x = x || ' both';
             commit;
             select count(*) from big join o.copy c using (id) where c.x = big.x;
             pragma o.integrity_check;"
        ));
        pair.verify();
        pair.run("@reopen;");
        pair.verify();
    }
}

#[test]
fn a_transaction_of_many_statements_keeps_its_statement_journals_apart() {
    let mut pair = Pair::filled();
    pair.run("pragma cache_size = 5;\ncreate unique index once on t(x);\nbegin;");
    for round in 0..20 {
        pair.run(&format!(
            "update t set x = x || '.{round}' where id % 20 = {round};
             ?update t set x = case when id > 2990 - {round} then 'same' else x || '?' end;
             savepoint a;
             delete from t where id % 50 = {round};
             savepoint b;
             insert into t(x) select 'round {round} ' || id from t where id % 60 = 1;
             rollback to b;
             release b;
             rollback to a;
             release a;"
        ));
    }
    pair.run(COUNT);
    pair.run("commit;");
    pair.run(COUNT);
    pair.verify();
}

#[test]
fn an_interrupted_statement_leaves_no_trace() {
    for journal in ["delete", "wal"] {
        let mut pair = Pair::filled();
        pair.run(&format!(
            "pragma journal_mode = {journal};\npragma cache_size = 10;"
        ));
        for micros in [300, 1000, 3000, 9000] {
            pair.both("an interrupt", |connection, _| {
                let handle = connection.get_interrupt_handle();
                let is_over = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    // One that comes before the statement runs is without effect.
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            std::thread::sleep(std::time::Duration::from_micros(micros));
                            handle.interrupt();
                        }
                    });
                    // Seconds, all in all, and some rows are changed before the interrupt.
                    let long = "update t set x = x || 'interrupted' ||
                        (with recursive n(i) as (select t.id union all select i + 1 from n
                         where i < t.id + 3000) select count(*) from n)";
                    let result = connection.execute_batch(long);
                    is_over.store(true, Ordering::Relaxed);
                    let error = result.expect_err("an interrupt");
                    let code = rusqlite::ErrorCode::OperationInterrupted;
                    assert_eq!(error.sqlite_error_code(), Some(code));
                });
            });
            // An interrupt that comes while the statement is still compiled leaves `changes()` as it was before; a later
            // one makes it 0. After this it is 0 in either case.
            pair.run("update t set x = x where false;");
            pair.run(COUNT);
        }
        let content = pair.both("content", |connection, _| {
            content::assert_sound(connection, "after interrupts");
            content::fingerprint(connection).expect("a scan")
        });
        assert_eq!(content.tables["t"].0, 3000);
    }
}
