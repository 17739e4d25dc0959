//! Between databases: ATTACH with transactions that span plain and packed files, backups and VACUUM
//! INTO in both directions.

use litepack_tests::pair::Pair;
use litepack_tests::{content, vfs};
use rusqlite::backup::{Backup, StepResult};

#[test]
fn plain_and_packed_databases_are_attached_together() {
    for journal in ["delete", "truncate", "persist", "wal", "memory"] {
        let mut pair = Pair::filled();
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
        let mut pair = Pair::filled();
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

#[test]
fn a_backup_gives_its_page_size_to_the_target() {
    for (from, to) in [(512, 4096), (65536, 512), (1024, 65536)] {
        let mut pair = Pair::empty();
        pair.run(&format!("pragma page_size = {from};"));
        pair.run(litepack_tests::pair::FILL);
        pair.both("a backup", |connection, directory| {
            let path = directory.join(format!("{from}-{to}.db"));
            let mut target = vfs::open(&path).expect("it opens");
            let sql = format!("pragma page_size = {to}; create table old(x); vacuum");
            target.execute_batch(&sql).expect("a target");
            copy(connection, &mut target);
            content::assert_sound(&target, "the target");
            target
                .execute_batch("delete from t where id % 3 = 0; vacuum")
                .expect("writable");
            drop(target);
            let mut target = vfs::open(&path).expect("it reopens");
            content::assert_sound(&target, "the target, reopened");
            content::image(&mut target).expect("an image")
        });
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
        let mut pair = Pair::filled();
        pair.run(&format!(
            "pragma page_size = {size};
             vacuum into '{{plain:into-plain.db}}';
             vacuum into '{{packed:into-packed.db}}';
             !vacuum into '{{packed:into-packed.db}}';
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
