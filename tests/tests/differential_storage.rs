//! How a database is stored, opened and moved: journal modes, VACUUM and page sizes, auto_vacuum,
//! ATTACH, backups, read-only and temporary databases. A packed database answers as a plain one.

use litepack_tests::pair::Pair;
use litepack_tests::{content, outcome, vfs};
use rusqlite::backup::{Backup, StepResult};

const FILL: &str = "
    create table t(id integer primary key, x text, y blob);
    create index tx on t(x);
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
      select i, printf('row %d of many %x', i, i * 7919), zeroblob(i % 50) from n;";

const COUNT: &str = "select count(*), sum(id), sum(length(x)), min(x), max(x) from t;";

fn filled() -> Pair {
    let mut pair = Pair::new();
    pair.run(FILL);
    pair
}

#[test]
fn every_journal_mode_commits_rolls_back_and_hands_over_to_the_next() {
    let modes = ["delete", "truncate", "persist", "memory", "off", "wal"];
    for from in modes {
        let mut pair = filled();
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
    let mut pair = filled();
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
    let mut pair = filled();
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
        let mut pair = filled();
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
        let mut pair = filled();
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
    let mut pair = filled();
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
fn memory_mapping_may_be_asked_for() {
    let mut pair = filled();
    pair.run("~pragma mmap_size = 268435456;");
    pair.run(COUNT);
    pair.run("update t set x = x || x where id % 3 = 0;\npragma journal_mode = wal;");
    pair.run("~pragma mmap_size;\ndelete from t where id > 1000;\npragma wal_checkpoint;");
    pair.run(COUNT);
    pair.run("~pragma mmap_size = 0;");
    pair.verify();
}

#[test]
fn vacuum_changes_the_page_size_up_and_down() {
    let sizes = [65536, 512, 1024, 32768, 2048, 16384, 4096, 8192, 512, 65536];
    let mut pair = filled();
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

#[test]
fn vacuum_of_a_large_fragmented_database_with_a_small_cache() {
    let mut pair = filled();
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
fn plain_and_packed_databases_are_attached_together() {
    for journal in ["delete", "truncate", "persist", "wal", "memory"] {
        let mut pair = filled();
        pair.run(&format!("pragma journal_mode = {journal};"));
        pair.run(
            "attach '{plain:plain.db}' as p;
             attach '{own:packed.db}' as q;
             ~pragma p.journal_mode = delete;
             create table p.a(id integer primary key, x);
             create table q.b(id integer primary key, x);
             begin;
             insert into p.a(x) select x from t where id < 900;
             insert into q.b(x) select x from t where id < 800;
             update t set x = 'moved' where id < 700;
             commit;
             select (select count(*) from a), (select count(*) from b), count(*) from t
               where x = 'moved';
             begin;
             delete from p.a;
             delete from q.b;
             delete from t;
             rollback;
             select (select count(*) from a), (select count(*) from b), count(*) from t;
             savepoint s;
             update q.b set x = 'b' || x;
             update p.a set x = 'a' || x;
             rollback to s;
             insert into q.b(x) values ('kept');
             release s;
             select count(*) from a join b on a.x = b.x join t on t.id = a.id;
             create table t2 as select * from q.b;
             !attach '{own:missing/dir.db}' as z;
             begin;
             update p.a set x = x || '1';
             update q.b set x = x || '2';
             update t set x = x || '3';
             commit;
             select max(a.x), max(b.x) from a, b where a.id = b.id;
             detach p;
             detach q;
             !select * from q.b;
             attach '{own:packed.db}' as q;
             select count(*), max(x) from q.b;",
        );
        let fingerprints = pair.both("the attached database", |connection, _| {
            content::fingerprint_of(connection, "q").unwrap()
        });
        assert_eq!(fingerprints.tables["b"].0, 800);
        pair.verify();
        assert!(vfs::looks_plain(&pair.packed.directory.join("plain.db")).unwrap());
        vfs::assert_packed(&pair.packed.directory.join("packed.db"));
    }
}

#[test]
fn backups_run_in_both_directions_also_while_the_source_changes() {
    for journal in ["delete", "wal"] {
        let mut pair = filled();
        pair.run(&format!("pragma journal_mode = {journal};"));
        pair.both("backup to plain and back", |connection, directory| {
            let plain_path = directory.join("backup-plain.db");
            let mut plain = vfs::open_plain(&plain_path).unwrap();
            copy(connection, &mut plain);
            let first = content::fingerprint(connection).unwrap();
            assert_eq!(first, content::fingerprint(&plain).unwrap());
            content::assert_sound(&plain, "the plain copy");
            assert!(vfs::looks_plain(&plain_path).unwrap());
            let mut packed = vfs::open(&directory.join("backup-packed.db")).unwrap();
            copy(&plain, &mut packed);
            content::assert_sound(&packed, "the packed copy");
            let second = content::fingerprint(&plain).unwrap();
            assert_eq!(second, content::fingerprint(&packed).unwrap());
            (
                first,
                content::image(&mut plain).unwrap(),
                content::image(&mut packed).unwrap(),
            )
        });
        pair.both(
            "backup over a database with data",
            |connection, directory| {
                let mut target = vfs::open(&directory.join("used.db")).unwrap();
                target
                    .execute_batch("create table u as select 1 x; create table t(q)")
                    .unwrap();
                copy(connection, &mut target);
                content::fingerprint(&target).unwrap()
            },
        );
        vfs::assert_packed(&pair.packed.directory.join("backup-packed.db"));
    }
}

/// A backup in small steps; the source connection itself changes the source in between.
fn copy(from: &rusqlite::Connection, to: &mut rusqlite::Connection) {
    let backup = Backup::new(from, to).unwrap();
    for round in 0.. {
        if backup.step(11).unwrap() == StepResult::Done {
            break;
        }
        if round == 3 {
            from.execute("update t set x = x || 'b' where id in (5, 2900)", [])
                .unwrap();
        }
    }
}

#[test]
fn vacuum_into_runs_in_both_directions() {
    for size in [512, 4096, 65536] {
        let mut pair = filled();
        pair.run(&format!(
            "pragma page_size = {size};
             vacuum into '{{plain:into-plain.db}}';
             vacuum into '{{packed:into-packed.db}}';
             !vacuum into '{{own:into-packed.db}}';
             attach '{{plain:into-plain.db}}' as p;
             attach '{{packed:into-packed.db}}' as q;
             select count(*) from t join p.t pt using (id) join q.t qt using (id)
               where t.x = pt.x and t.x = qt.x;
             pragma p.integrity_check;
             pragma q.integrity_check;
             pragma q.page_count;
             vacuum p into '{{packed:again.db}}';
             vacuum q into '{{plain:again-plain.db}}';"
        ));
        assert!(vfs::looks_plain(&pair.packed.directory.join("into-plain.db")).unwrap());
        assert!(vfs::looks_plain(&pair.packed.directory.join("again-plain.db")).unwrap());
        vfs::assert_packed(&pair.packed.directory.join("into-packed.db"));
        vfs::assert_packed(&pair.packed.directory.join("again.db"));
        pair.verify();
    }
}

#[test]
fn read_only_and_immutable_databases_refuse_to_be_written() {
    let script = format!(
        "{COUNT}
         !insert into t(x) values ('no');
         !create table u(x);
         !vacuum;
         ?pragma journal_mode = wal;
         create temp table s as select * from t;
         pragma integrity_check;"
    );
    for parameters in ["mode=ro", "immutable=1", "mode=ro&immutable=1", "mode=rw"] {
        let mut pair = filled();
        pair.run(&format!("@reopen {parameters};"));
        if parameters == "mode=rw" {
            pair.run("insert into t(x) values ('yes');");
        } else {
            pair.run(&script);
        }
        pair.run("@reopen;");
        pair.verify();
    }
}

#[test]
fn a_missing_database_is_not_made_by_read_only_opening() {
    let pair = Pair::empty();
    for parameters in ["mode=ro", "mode=rw", "mode=nonsense", "cache=nonsense"] {
        let mut errors = Vec::new();
        for side in [&pair.plain, &pair.packed] {
            let path = side.directory.join("missing.db");
            let error = vfs::open_uri(&vfs::uri(&path, side.vfs, parameters)).unwrap_err();
            let error = outcome::Failure::from(error);
            assert!(!path.exists());
            let name = side.directory.to_str().unwrap();
            errors.push((error.code, error.message.replace(name, "{dir}")));
        }
        assert_eq!(errors[0].0, errors[1].0, "{parameters}: {errors:?}");
    }
}

#[test]
fn a_read_only_wal_database_can_be_read() {
    let mut pair = filled();
    pair.run("pragma journal_mode = wal;\ninsert into t(x) values ('in the wal');\n@use 1;");
    pair.run("select count(*) from t;\n@reopen mode=ro;");
    pair.run(COUNT);
    pair.run("!insert into t(x) values ('no');\npragma journal_mode;");
}

#[test]
fn an_unknown_parameter_of_ours_is_an_error() {
    if !vfs::is_litepack() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    for parameters in [
        "level=banana",
        "cache_mb=-x",
        "level=",
        "level=3&threads=many",
    ] {
        let opened = vfs::open_with(&path, parameters)
            .and_then(|c| c.execute_batch("create table t(x)").map(|()| c));
        assert!(opened.is_err(), "{parameters} was accepted");
    }
    assert!(!path.exists() || std::fs::metadata(&path).unwrap().len() == 0);
}

#[test]
fn memory_and_unnamed_databases_work_through_the_vfs() {
    let script = format!(
        "pragma cache_size = 5;
         {FILL}
         {COUNT}
         update t set x = x || x;
         vacuum;
         begin;
         delete from t;
         rollback;
         {COUNT}"
    );
    for name in [
        "file::memory:?vfs=",
        "file:?vfs=",
        "file:shared?mode=memory&cache=shared&vfs=",
    ] {
        let mut answers = Vec::new();
        for vfs in [vfs::PLAIN, vfs::under_test()] {
            let connection = vfs::open_uri(&format!("{name}{vfs}")).unwrap();
            let mut all = Vec::new();
            for step in litepack_tests::script::steps(&script) {
                let sql = step.to_string();
                all.push(outcome::Outcome::of(&connection, &sql));
            }
            content::assert_sound(&connection, name);
            answers.push(all);
        }
        assert!(answers[0] == answers[1], "{name}: {answers:#?}");
    }
}

#[test]
fn a_plain_file_opened_with_the_vfs_stays_plain() {
    let mut pair = Pair::new();
    let path = pair.packed.path();
    vfs::open_plain(&path)
        .unwrap()
        .execute_batch("create table seen(x)")
        .unwrap();
    let path = pair.plain.path();
    vfs::open_plain(&path)
        .unwrap()
        .execute_batch("create table seen(x)")
        .unwrap();
    pair.run("@reopen;");
    pair.run(FILL);
    pair.run("pragma journal_mode = wal;\ndelete from t where id % 9 = 0;\n@reopen;\nvacuum;");
    pair.verify();
    assert!(vfs::looks_plain(&pair.packed.path()).unwrap());
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
