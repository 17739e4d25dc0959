//! Ways to open a database: read-only, immutable, memory-mapped, in memory, unnamed, missing, plain
//! under our VFS. Each behaves as with plain SQLite.

use litepack_tests::pair::{COUNT, FILL, Pair};
use litepack_tests::{content, outcome, vfs};

#[test]
fn memory_mapping_may_be_asked_for() {
    let mut pair = Pair::filled();
    pair.run("~pragma mmap_size = 268435456;");
    pair.run(COUNT);
    pair.run("update t set x = x || x where id % 3 = 0;\npragma journal_mode = wal;");
    pair.run("~pragma mmap_size;\ndelete from t where id > 1000;\npragma wal_checkpoint;");
    pair.run(COUNT);
    pair.run("~pragma mmap_size = 0;");
    pair.verify();
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
        let mut pair = Pair::filled();
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
    let mut pair = Pair::filled();
    pair.run("pragma journal_mode = wal;\ninsert into t(x) values ('in the wal');\n@use 1;");
    pair.run("select count(*) from t;\n@reopen mode=ro;");
    pair.run(COUNT);
    pair.run("!insert into t(x) values ('no');\npragma journal_mode;");
}

#[test]
fn an_unknown_parameter_of_ours_is_an_error() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
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
fn parameters_of_sqlite_itself_mean_what_they_mean() {
    for parameters in [
        "psow=0",
        "psow=1",
        "nolock=1",
        "cache=private",
        "cache=shared",
        "mode=rwc",
    ] {
        let mut pair = Pair::filled();
        pair.run(&format!("@reopen {parameters};"));
        pair.run("update t set x = x || '!' where id % 7 = 0;\ndelete from t where id < 100;");
        pair.run("begin;\ndelete from t;\nrollback;");
        pair.run(COUNT);
        pair.verify();
        pair.run("@reopen;");
        pair.verify();
    }
}

#[test]
fn reserved_bytes_can_be_asked_for_when_vacuuming_into_a_packed_file() {
    let mut pair = Pair::filled();
    pair.run(
        "vacuum into '{packed:reserved.db&reserve=16}';
         attach '{packed:reserved.db}' as r;
         select count(*), sum(length(x)) from r.t;
         update r.t set x = x || 'r' where id % 3 = 1;
         pragma r.page_count;
         pragma r.integrity_check;",
    );
}

#[test]
fn file_names_with_odd_characters_work() {
    let mut pair = Pair::new();
    for name in [
        "with space.db",
        "semi;colon.db",
        "ünïcödé 😀.db",
        "a&b=c.db",
        "100%25.db",
        "q?x.db",
    ] {
        let rows = pair.both(name, |connection, directory| {
            let path = directory.join(name).to_str().expect("UTF-8").to_string();
            // A bare path inherits the VFS of the connection.
            connection
                .execute("attach ? as odd", [&path])
                .expect("attached");
            let fill = "create table odd.t(x); insert into odd.t values (1), (2); detach odd";
            connection.execute_batch(fill).expect("filled");
            assert!(
                directory.join(name).exists(),
                "a file of another name was made"
            );
            connection
                .execute("attach ? as odd", [&path])
                .expect("attached again");
            let count = "select count(*) from odd.t";
            let count: i64 = connection
                .query_row(count, [], |row| row.get(0))
                .expect("a count");
            connection.execute_batch("detach odd").expect("detached");
            count
        });
        assert_eq!(rows, 2);
        vfs::assert_packed(&pair.packed.directory.join(name));
    }
}
