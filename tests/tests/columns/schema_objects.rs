//! Objects that depend on a table with compressed columns: triggers, views, foreign keys; ALTER TABLE; and databases
//! that sqlite-zstd made.

use litepack_tests::twin::{Twin, rows, run, schema};

const TABLES: &str = "
    create table t(id integer primary key, c text, n int default 0, at text);
    create table log(seq integer primary key, what, a, b);
    insert into t(id, c, n) values(1, 'one', 1), (2, 'two', 2), (3, null, 3);";

#[track_caller]
fn with_triggers(triggers: &str, writes: &[&str]) {
    for recursive in [false, true] {
        let mut twin = Twin::new(TABLES);
        twin.both(triggers);
        twin.both(&format!("pragma recursive_triggers = {recursive}"));
        let before = schema(&twin.compressed);
        twin.enable("t", "c");
        twin.verify();
        for sql in writes {
            twin.same(sql);
            twin.verify();
            twin.compress("t", "c");
            twin.verify();
        }
        twin.enable("t", "at");
        for sql in writes {
            twin.same(sql);
            twin.compress("t", "at");
            twin.verify();
        }
        twin.disable("t", "at");
        twin.disable("t", "c");
        twin.verify();
        assert_eq!(before, schema(&twin.compressed));
    }
}

const WRITES: &[&str] = &[
    "insert into t(c) values('three')",
    "insert into t(id, c, n) values(10, 'ten', 10), (11, null, 11)",
    "update t set c = c || '!' where id <= 2",
    "update t set n = n + 1 where id = 1",
    "update t set c = 'both', n = 100 where id = 2",
    "update t set id = 20 where id = 10",
    "insert or replace into t(id, c) values(1, 'replaced')",
    "insert into t(id, c) values(1, 'taken')",
    "delete from t where id = 11",
    "delete from t",
];

#[test]
fn triggers_of_every_kind() {
    let mut triggers = String::new();
    for time in ["before", "after"] {
        for (event, a, b) in [
            ("insert", "null", "new.c || new.n"),
            ("update", "old.c", "new.C"),
            ("update of c", "old.c", "new.c || new.id"),
            ("update of n, c", "old.n", "new.c"),
            ("delete", "OLD.\"c\"", "old.[n]"),
        ] {
            let name = format!("{time} {event}");
            triggers += &format!(
                "create trigger \"{name}\" {time} {event} on t for each row when {b} is not 'never' begin
                   insert into log(what, a, b) values('{name}', {a}, {b}); end;"
            );
        }
    }
    with_triggers(&triggers, WRITES);
}

#[test]
fn triggers_that_raise() {
    with_triggers(
        "create trigger no_ten before insert on t when new.c = 'ten' begin select raise(abort, 'no ten'); end;
         create trigger no_both before update of c on t when new.c = 'both' begin select raise(fail, 'not both'); end;
         create trigger ignored before delete on t when old.id = 1 begin select raise(ignore); end;",
        WRITES,
    );
}

#[test]
fn triggers_that_write_the_table_itself() {
    with_triggers(
        "create trigger stamp after update on t when new.at is not 'stamped' begin
           update t set at = 'stamped' where id = new.id; end;
         create trigger upper after insert on t when new.c is not upper(new.c) begin
           update t set c = upper(c), n = (select count(*) from t where c is not null) where id = new.id; end;
         create trigger more after insert on t when new.id = 10 begin
           insert into t(id, c) values(1000, new.c || ' more'); insert or ignore into t values(1001, new.c, 1, null); end;
         create trigger fewer after delete on t when old.id = 20 begin delete from t where c like 'o%'; end;",
        WRITES,
    );
}

/// SQLite takes columns that no statement names for NULL in a BEFORE UPDATE trigger, also those that a generated column
/// is made from.
#[test]
fn before_update_when_the_column_is_not_set() {
    with_triggers(
        "create trigger seen before update on t begin insert into log(what, a, b) values('seen', new.c, new.at); end;
         create trigger inner after insert on t begin update t set n = n + 1; end;",
        WRITES,
    );
}

#[test]
fn triggers_of_other_tables() {
    with_triggers(
        "create table u(id integer primary key, c);
         create trigger u1 after insert on u begin
           update t set c = new.c || (select count(*) from t where c is not null) where id = new.id;
           insert into t(c) select c from t where id = new.id; end;
         create trigger u2 after delete on u begin insert into log(what, a) select 'u', max(c) from t; end;
         create trigger t1 after update of n on t begin insert or replace into u values(new.id, new.c); end;",
        &[
            "insert into u values(1, 'from u')",
            "update t set n = n + 1 where id = 2",
            "delete from u",
            "update t set c = 'x' where id = 1",
        ],
    );
}

#[test]
fn views_over_the_table() {
    let mut twin = Twin::new(TABLES);
    twin.both(
        "create view v as select id, c from t where n > 1;
         create view v2 as select upper(c) as u, * from v join t using(id, c);
         create trigger vi instead of insert on v begin insert into t(id, c, n) values(new.id, new.c, 5); end;
         create temp view tv as select c from t;
         create temp trigger tt after insert on t begin insert into log(what, a) values('temp', new.c); end;",
    );
    let before = schema(&twin.compressed);
    twin.enable("t", "c");
    twin.both("insert into v values(50, 'through v'); update t set c = 'more' where id = 2");
    twin.verify();
    twin.query("select * from tv order by 1");
    twin.query("select * from v2 order by 1");
    twin.disable("t", "c");
    twin.verify();
    twin.both("insert into v values(51, 'through v again')");
    twin.query("select * from tv order by 1");
    twin.verify();
    assert_eq!(before, schema(&twin.compressed));
}

#[test]
fn foreign_keys_both_ways() {
    for on in [false, true] {
        for check in ["", " check(length(c) < 100)"] {
            let mut twin = Twin::new(&format!(
                "pragma foreign_keys = {on};
                 create table parent(id integer primary key, x);
                 create table t(id integer primary key, c text{check}, p references parent(id) on delete cascade,
                    up int references t(id) on delete set null);
                 create table child(id integer primary key, t int references t on delete cascade on update cascade, x);
                 create table grand(c int references child(id) on delete cascade);
                 insert into parent values(1, 'a'), (2, 'b');
                 insert into t values(1, 'one', 1, null), (2, 'two', 2, 1), (3, 'three', 2, 2), (4, null, null, null);
                 insert into child values(1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z'), (4, 4, 'w');
                 insert into grand values(1), (2), (3);",
            ));
            let own = "select sql from sqlite_schema where name in ('t', 'parent', 'grand') order by name";
            let before = rows(&twin.compressed, own);
            twin.enable("t", "c");
            twin.verify();
            assert_eq!(
                rows(&twin.compressed, "pragma foreign_keys"),
                rows(&twin.plain, "pragma foreign_keys")
            );
            if on {
                for sql in [
                    "update t set id = 40 where id = 4",
                    "insert into t(id, p) values(50, 99)",
                    "insert into child(t) values(99)",
                    "delete from parent where id = 1",
                    "update t set c = 'changed', p = 2 where id = 2",
                    "delete from t where id = 3",
                ] {
                    twin.same(sql);
                    twin.verify();
                    twin.compress("t", "c");
                }
                twin.both("begin");
                let error = twin
                    .try_call("litepack_disable_transparent", &["t", "c"])
                    .expect_err("refused");
                assert!(error.contains("outside of a transaction"), "{error}");
                twin.both("commit");
            }
            twin.disable("t", "c");
            twin.verify();
            assert_eq!(
                rows(&twin.compressed, "pragma foreign_keys"),
                rows(&twin.plain, "pragma foreign_keys")
            );
            assert_eq!(before, rows(&twin.compressed, own));
            twin.same("insert into child(t) values(98)");
            if on {
                twin.both("delete from t");
            }
            twin.query("select * from child");
        }
    }
}

#[test]
fn altering() {
    let mut twin = Twin::new(TABLES);
    twin.both(
        "create index ic on t(c, n); create index ie on t(lower(c)) where n > 0;
         create view v as select c, n from t;
         create trigger r after update of c on t begin insert into log(what, a, b) values(old.n, old.c, new.c); end;
         create trigger w after insert on t begin update t set at = c || n where id = new.id; end;",
    );
    twin.enable("t", "c");
    twin.enable("t", "at");
    let use_it = |twin: &Twin, c: &str, n: &str| {
        twin.both(&format!("update t set {c} = coalesce({c}, '') || 'x', {n} = {n} + 1; insert into t({c}, {n}) values('new', 3)"));
        twin.verify();
        twin.query("select * from v order by 1, 2");
    };
    use_it(&twin, "c", "n");
    for (action, c, n) in [
        ("add column extra text default 'more'", "c", "n"),
        ("ADD x int", "c", "n"),
        ("add column y as (c || '.')", "c", "n"),
        ("rename column n to \"the n\"", "c", "\"the n\""),
        ("drop column x", "c", "\"the n\""),
        ("rename c to C2", "c2", "\"the n\""),
        ("rename column \"the n\" to m", "c2", "m"),
        ("drop extra", "c2", "m"),
        ("rename column C2 to c", "c", "m"),
        ("add column z text collate nocase default (1 + 1)", "c", "m"),
    ] {
        // SQLite does not add a column with such a default to a table with rows.
        let plain = run(&twin.plain, &format!("alter table t {action}"));
        let compressed = twin.try_call("litepack_alter_table", &["t", action]);
        assert_eq!(
            plain.is_ok(),
            compressed.is_ok(),
            "{action}: {plain:?} {compressed:?}"
        );
        twin.verify();
        if action == "rename c to C2" {
            twin.columns.iter_mut().for_each(|pair| {
                if pair.1 == "c" {
                    pair.1 = "C2".into()
                }
            });
        }
        use_it(&twin, c, n);
        let column = if c == "c2" { "C2" } else { "c" };
        twin.compress("t", column);
        twin.compress("t", "at");
        twin.verify();
    }
    for (action, words) in [
        ("drop column c", "litepack_disable_transparent"),
        ("drop column id", "PRIMARY KEY"),
        ("drop column m", "m"),
        ("rename to u", "cannot be renamed"),
        ("rename column nope to x", "nope"),
        ("rename column c to at", "duplicate"),
        ("add column c int", "duplicate"),
        ("add column q int; drop table t", "needed"),
        ("vacuum", "needed"),
    ] {
        let before = schema(&twin.compressed);
        let error = twin
            .try_call("litepack_alter_table", &["t", action])
            .expect_err(action);
        assert!(error.contains(words), "{action}: {error}");
        assert_eq!(before, schema(&twin.compressed));
    }
    twin.disable("t", "c");
    twin.verify();
    twin.disable("t", "at");
    twin.verify();
    assert_eq!(schema(&twin.plain), schema(&twin.compressed));
    twin.both("update t set c = 'end'; insert into t(c) values('end')");
    twin.verify();
}

/// The objects that sqlite-zstd 0.3.5 leaves in a database for the column `c` of `t`.
const FOREIGN: &str = "
    create table _zstd_dicts(id integer primary key autoincrement, chooser_key text unique, dict blob not null);
    insert into _zstd_dicts values(-1, '[nodict]', '');
    create table _zstd_configs(id integer primary key autoincrement, config json not null);
    insert into _zstd_configs(config) values('{\"table\":\"t\",\"column\":\"c\",\"compression_level\":19,\"dict_chooser\":\"''a''\",\"min_dict_size_bytes_for_training\":5000,\"dict_size_ratio\":0.01,\"train_dict_samples_ratio\":100.0,\"incremental_compression_step_bytes\":1666666}');
    alter table t rename to _t_zstd;
    alter table _t_zstd add column _c_dict integer default null references _zstd_dicts(id);
    create index _c_dict_idx on _t_zstd(_c_dict);
    create view t as select id, zstd_decompress_col(c, 1, _c_dict, true) as c, n, at from _t_zstd;
    create trigger t_insert_trigger instead of insert on t for each row begin
      insert into _t_zstd(id, c, _c_dict, n, at) select new.id, new.c as c, null as _c_dict, new.n, new.at; end;
    create trigger t_delete_trigger instead of delete on t for each row begin delete from _t_zstd where id = old.id; end;
    create trigger t_update_id_trigger instead of update of id on t for each row begin update _t_zstd set id = new.id where id = old.id; end;
    create trigger t_update_c_trigger instead of update of c on t for each row begin update _t_zstd set c = new.c, _c_dict = null where id = old.id; end;
    create trigger t_update_n_trigger instead of update of n on t for each row begin update _t_zstd set n = new.n where id = old.id; end;
    create trigger t_update_at_trigger instead of update of at on t for each row begin update _t_zstd set at = new.at where id = old.id; end;
    update _t_zstd set c = zstd_compress_col(c, 19, -1, 1), _c_dict = -1 where c is not null;";

#[test]
fn databases_of_sqlite_zstd() {
    let mut twin = Twin::new(TABLES);
    twin.both("create index i on t(n)");
    run(&twin.compressed, FOREIGN).expect("such a database");
    twin.both("create view v as select c from t");
    twin.columns.push(("t".into(), "c".into()));
    twin.verify();
    twin.both(
        "update t set c = 'changed', n = 7 where id = 1; insert into t(id, c) values(9, 'nine')",
    );
    // The default is lost on insert there.
    twin.both("update t set n = 0 where id = 9");
    twin.verify();
    twin.enable("t", "at");
    twin.both("insert into t(c, at) values('more', 'now'); update t set at = c where id = 1");
    twin.verify();
    let config = litepack_tests::twin::configuration("t", "c");
    assert!(
        twin.try_call("zstd_enable_transparent", &[&config])
            .expect_err("refused")
            .contains("already")
    );
    twin.disable("t", "at");
    twin.verify();
    twin.call(
        "litepack_alter_table",
        &["t", "add column more text default 'm'"],
    );
    run(
        &twin.plain,
        "alter table t add column more text default 'm'",
    )
    .expect("a column");
    twin.verify();
    twin.disable("t", "c");
    twin.verify();
    twin.both("insert into t(c, n) values('plain', 4)");
    twin.query("select * from v order by 1");
    let types = rows(
        &twin.compressed,
        "select distinct type from sqlite_schema where name like '%zstd%'",
    );
    assert_eq!(types, Ok(vec![]));
}
