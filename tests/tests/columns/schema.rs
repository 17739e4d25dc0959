//! Enabling compressed columns on schemas of every kind: what works on the plain table works through
//! the view, and what cannot work is refused before anything changes.

use litepack_tests::twin::{Twin, quote, rows, schema};

const PEOPLE: &str = "
    create table people(id integer primary key, name text not null default 'nobody', data text,
        born integer default 1900, note);
    insert into people values(1, 'ann', '{\"y\": 1970}', 1970, 'x'), (2, 'bob', '{\"y\": 1980}', 1980, null),
        (3, 'cid', null, 1990, x'00ff'), (4, 'dot', '', 1, 2.5);";

/// Statements every kind of which a view takes.
const WRITES: &[&str] = &[
    "insert into people(name, data) values('eve', 'some text')",
    "insert into people(id, data) values(10, x'0102')",
    "insert into people values(11, 'flo', 12345, 3, 'n'), (12, 'gus', null, 4, 'm')",
    "update people set data = data || '!' where id < 3",
    "update people set data = null, note = 'changed' where id = 4",
    "update people set id = id + 100 where id in (1, 10)",
    "update people set note = data, data = note",
    "insert into people(id, name) values(2, 'again')",
    "insert or ignore into people(id, name) values(2, 'again')",
    "insert or replace into people(id, name, data) values(2, 'again', 'replaced')",
    "update or replace people set id = 3 where id = 2",
    "update or ignore people set id = 3 where id = 4",
    "update or abort people set id = 3 where id = 4",
    "insert into people(name) select data from people where typeof(data) = 'text'",
    "update people set name = null where id = 3",
    "delete from people where id = 3",
    "delete from people where data is null",
];

#[test]
fn writes_through_the_view() {
    let mut twin = Twin::new(PEOPLE);
    twin.enable("people", "data");
    twin.verify();
    assert_eq!(twin.compressed_count("people", "data"), 3);
    for sql in WRITES {
        twin.same(sql);
        twin.verify();
        twin.compress("people", "data");
        twin.verify();
    }
    twin.disable("people", "data");
    twin.verify();
}

#[test]
fn several_columns_and_tables() {
    let mut twin = Twin::new(PEOPLE);
    twin.both(
        "create table other(k text primary key, data text, more blob) without rowid;
        insert into other values('a', 'one', x'01'), ('b', 'two', 'three');",
    );
    let before = schema(&twin.compressed);
    for (table, column) in [
        ("people", "data"),
        ("other", "more"),
        ("people", "note"),
        ("other", "data"),
        ("people", "name"),
    ] {
        twin.enable(table, column);
        twin.verify();
    }
    for sql in WRITES {
        twin.same(sql);
        twin.verify();
    }
    twin.both("update other set data = more, more = data; insert into other values('c', null, '')");
    twin.compress("other", "data");
    twin.verify();
    for (table, column) in [
        ("people", "note"),
        ("other", "more"),
        ("people", "data"),
        ("people", "name"),
        ("other", "data"),
    ] {
        twin.disable(table, column);
        twin.verify();
        twin.both("update people set note = name where id = 2");
        twin.verify();
    }
    assert_eq!(before, schema(&twin.compressed));
}

#[test]
fn values_of_every_type_in_columns_of_every_type() {
    for declared in [
        "text",
        "blob",
        "",
        "json",
        "integer",
        "real",
        "numeric",
        "varchar(10)",
        "text collate nocase",
        "\"my type\"",
    ] {
        let mut twin = Twin::new(&format!(
            "create table t(id integer primary key, c {declared});
             insert into t(c) values(null), (1), (2.5), (''), (x''), ('text'), (x'626c6f62'), ('12'), ('1.50'),
                (cast(x'610062' as text)), (cast(x'61ff62' as text)), (zeroblob(100)), (printf('%200s', 'x')), (-0.0),
                (9223372036854775807), (1e300), ('text'), ('TEXT');"
        ));
        twin.enable("t", "c");
        assert!(twin.compressed_count("t", "c") > 0, "{declared}");
        twin.verify();
        for query in [
            "select id, c, typeof(c), length(c), hex(c) from t order by id",
            "select count(distinct c), min(c), max(c) from t",
            "select id from t where c = 'text' order by id",
            "select id from t where c > 'a' order by c, id",
        ] {
            twin.query(query);
        }
        twin.both("insert into t(c) select c from t; update t set c = c where id % 2; update t set id = -id where id < 5");
        twin.verify();
        twin.disable("t", "c");
        twin.verify();
    }
}

#[test]
fn names_that_need_quotes() {
    for (table, column, key) in [
        ("my table", "the data", "the key"),
        ("select", "from", "where"),
        ("a\"b", "c\"d", "e\"f"),
        ("t[1]", "c`d", "k'"),
        ("Größe", "Straße", "Schlüssel"),
        ("T", "DATA", "ID"),
        ("new", "old", "rowid"),
        ("it's", "o'clock", "id"),
    ] {
        let (t, c, k) = (quote(table), quote(column), quote(key));
        let mut twin = Twin::new(&format!(
            "create table {t}({k} integer primary key, {c} text default 'x', z);
             create index \"i {}\" on {t}({c}, z);
             create table log(x);
             create trigger \"r {}\" after update on {t} begin insert into log values(old.{c} || new.{c}); end;
             insert into {t} values(1, 'one', 1), (2, 'two', 2);",
            table.replace('"', "\"\""), table.replace('"', "\"\"")
        ));
        let before = schema(&twin.compressed);
        twin.enable(table, column);
        twin.verify();
        twin.both(&format!("update {t} set {c} = {c} || 'y'; insert into {t}(z) values(7); delete from {t} where {k} = 1"));
        twin.verify();
        twin.call(
            "litepack_create_index",
            &[&format!("create index another on {t}(lower({c}))")],
        );
        twin.both("drop index if exists another");
        twin.call(
            "litepack_alter_table",
            &[
                table,
                &format!("rename column {c} to {}", quote("a \"new\" name")),
            ],
        );
        twin.call(
            "litepack_alter_table",
            &[
                table,
                &format!("rename column {} to {c}", quote("a \"new\" name")),
            ],
        );
        twin.verify();
        twin.disable(table, column);
        twin.verify();
        let after = schema(&twin.compressed);
        assert_eq!(before.len(), after.len());
    }
}

#[test]
fn keys_of_every_kind() {
    for (create, key) in [
        ("create table t(id text primary key, c text, n)", "id"),
        (
            "create table t(id text primary key collate nocase, c text, n)",
            "id",
        ),
        ("create table t(id primary key, c text, n)", "id"),
        (
            "create table t(id integer primary key desc, c text, n)",
            "id",
        ),
        (
            "create table t(id int, n, c text, primary key(n, id))",
            "id",
        ),
        (
            "create table t(id text not null, n not null, c text, primary key(id, n)) without rowid",
            "id",
        ),
        (
            "create table t(id blob primary key, c text, n) without rowid",
            "id",
        ),
    ] {
        let mut twin = Twin::new(&format!(
            "{create};
             insert into t(id, n, c) values('a', 1, 'one'), ('b', 1, 'two'), (x'00', 2, 'three'), (7, 3, null);"
        ));
        let nullable = !create.contains("without rowid") && !create.contains("integer primary");
        if nullable {
            twin.both("insert into t(id, n, c) values(null, 1, 'null'), (null, 1, 'null'), (null, 2, 'NULL'), (null, 2, 5)");
        }
        let before = schema(&twin.compressed);
        twin.enable("t", "c");
        for sql in [
            format!("update t set c = c || 'x' where {key} = 'a'"),
            format!("update t set {key} = 'z' where {key} = 'b'"),
            "update t set c = 'same' where c = 'null'".into(),
            format!("update t set n = n + 1 where {key} is null"),
            "delete from t where c = 'NULL'".into(),
            "delete from t where c = 'same'".into(),
            format!("insert into t({key}, n, c) values('a', 1, 'taken')"),
            format!("insert or replace into t({key}, n, c) values('a', 1, 'taken')"),
        ] {
            twin.same(&sql);
            twin.verify();
            twin.compress("t", "c");
            twin.verify();
        }
        let plan = rows(
            &twin.compressed,
            "explain query plan delete from t where id = 'a' and n = 1",
        )
        .expect("a plan");
        assert!(
            !plan.iter().any(|line| line.contains("SCAN _t_zstd")),
            "{create}: {plan:?}"
        );
        twin.disable("t", "c");
        twin.verify();
        assert_eq!(before, schema(&twin.compressed), "{create}");
    }
}

#[test]
fn constraints_and_generated_columns() {
    let mut twin = Twin::new(
        "create table t(id integer primary key autoincrement, c text not null check(length(c) < 50) default 'dflt',
            n int check(n > 0) default (1 + 1), y as (c || '.') stored, z text generated always as (upper(c)) virtual,
            d text default current_date collate nocase, check(n <> c));
         create index iz on t(z);
         insert into t(c, n) values('one', 1), ('two', 2), ('three', 3);
         delete from t where id = 3;",
    );
    let before = schema(&twin.compressed);
    twin.enable("t", "c");
    twin.verify();
    for sql in [
        "insert into t(n) values(5)",
        "insert into t(c) values('four')",
        "insert into t(c) values(printf('%100s', 'long'))",
        "insert into t(c, n) values('x', -1)",
        "insert into t(c, n) values('7', '7')",
        "update t set c = 'changed', n = 9 where id = 1",
        "update t set c = null where id = 1",
        "update t set c = printf('%100s', 'long')",
        "update or ignore t set n = n - 2",
    ] {
        twin.same(sql);
        twin.verify();
        twin.compress("t", "c");
    }
    twin.query("select y, z from t where z = 'CHANGED'");
    twin.disable("t", "c");
    assert_eq!(before, schema(&twin.compressed));
    twin.both("insert into t(c) values('the counter goes on')");
    twin.verify();
    twin.query("select * from sqlite_sequence");
}

#[test]
fn indexes_are_kept_and_used() {
    let mut twin = Twin::new(PEOPLE);
    twin.both(
        "update people set data = '{}' where data = '';
         create index plain on people(born);
         create unique index uniq on people(data);
         create index part on people(name) where data is not null;
         create index expr on people(data->>'y');
         create index desc_ on people(data desc, lower(data), born);",
    );
    let before = schema(&twin.compressed);
    twin.enable("people", "data");
    let used = |twin: &Twin, sql: &str, index: &str| {
        let plan = rows(&twin.compressed, &format!("explain query plan {sql}"))
            .expect("a plan")
            .join(" ");
        assert!(
            plan.contains(&format!("USING INDEX {index} "))
                || plan.contains(&format!("INDEX {index} (")),
            "{sql}: {plan}"
        );
        twin.query(sql);
    };
    used(
        &twin,
        "select id, name, data from people where data->>'y' = 1980",
        "expr",
    );
    used(&twin, "select * from people where born = 1980", "plain");
    used(
        &twin,
        "select * from people where name = 'ann' and data is not null",
        "part",
    );
    used(&twin, "select * from people where data = '{}'", "uniq");
    assert!(
        twin.same("insert into people(data) values('{}')")
            .expect("refused")
            .contains("UNIQUE")
    );
    twin.same("insert or replace into people(id, data) values(50, '{}')");
    twin.verify();
    let more =
        "create index if not exists Later on people(substr(data, 3, 1), name) where born > 5";
    twin.call("litepack_create_index", &[more]);
    twin.plain.execute_batch(more).expect("an index");
    used(
        &twin,
        "select * from people where substr(data, 3, 1) = 'y' and born > 5",
        "Later",
    );
    assert!(
        twin.try_call(
            "litepack_create_index",
            &["create index l2 on people(nope)"]
        )
        .expect_err("refused")
        .contains("nope")
    );
    assert!(
        twin.try_call("litepack_create_index", &["create index l2"])
            .is_err()
    );
    assert!(
        twin.try_call(
            "litepack_create_index",
            &["create index later on people(name)"]
        )
        .expect_err("refused")
        .contains("already exists")
    );
    twin.disable("people", "data");
    twin.verify();
    twin.both("drop index Later");
    assert_eq!(before, schema(&twin.compressed));
}

#[test]
fn refused_before_anything_changes() {
    let twin = Twin::new(
        "pragma foreign_keys = off;
         create table t(id integer primary key, c text, u text unique, f text references p(x), g as (c), d int);
         insert into t(c, u, d) values('x', 'y', 1);
         create table p(x text primary key, y);
         create table p2(id integer primary key, x text unique not null);
         create table child(id integer primary key, a references t(d));
         create table nokey(c text);
         create table strictly(id integer primary key, c text) strict;
         create view v as select * from t;
         create virtual table ft using fts5(body);
         create table taken(id integer primary key, c text, d text, e text, _c_dict int, _D_Plain int);
         create table taken2(id integer primary key, c text);
         create table _taken2_zstd(x);
         create table fine(id integer primary key, c text);",
    );
    twin.compressed
        .query_row(
            "select zstd_enable_transparent(?1)",
            [litepack_tests::twin::configuration("fine", "c")],
            |_| Ok(()),
        )
        .expect("enabled");
    let before = schema(&twin.compressed);
    let with = |table: &str, column: &str, more: &str| {
        format!(
            r#"{{"table":"{table}","column":"{column}","compression_level":3,"dict_chooser":"'a'"{more}}}"#
        )
    };
    let chooser = |chooser: &str| {
        format!(r#"{{"table":"t","column":"c","compression_level":3,"dict_chooser":"{chooser}"}}"#)
    };
    for (config, words) in [
        (with("t", "c", r#","levle":3"#), "levle"),
        (
            with("t", "c", r#","dict_size_ratio":"x""#),
            "dict_size_ratio",
        ),
        (
            r#"{"table":"t","column":"c","compression_level":"3","dict_chooser":"'a'"}"#.into(),
            "compression_level",
        ),
        (
            r#"{"table":"t","column":"c","compression_level":23,"dict_chooser":"'a'"}"#.into(),
            "1 to 22",
        ),
        (
            r#"{"table":"t","column":"c","compression_level":3}"#.into(),
            "dict_chooser",
        ),
        ("nonsense".into(), "not JSON"),
        ("[1]".into(), "JSON object"),
        (with("missing", "c", ""), "no such table"),
        (with("t", "missing", ""), "its columns are"),
        (with("v", "c", ""), "is a view"),
        (with("ft", "body", ""), "virtual table"),
        (with("nokey", "c", ""), "primary key"),
        (with("t", "id", ""), "primary key"),
        (with("t", "u", ""), "UNIQUE"),
        (with("t", "f", ""), "foreign key"),
        (with("t", "d", ""), "foreign key"),
        (with("t", "g", ""), "generated"),
        (with("strictly", "c", ""), "STRICT"),
        (with("taken", "c", ""), "_c_dict"),
        (with("taken", "d", ""), "_d_plain"),
        (with("taken2", "c", ""), "_taken2_zstd"),
        (with("fine", "c", ""), "already compressed"),
        (with("_fine_zstd", "c", ""), "internal"),
        (with("_zstd_dicts", "dict", ""), "internal"),
        (with("sqlite_schema", "sql", ""), "no such table"),
        (chooser(""), "empty"),
        (chooser("nope"), "nope"),
        (chooser("1) from t; drop table t; --"), "dict_chooser"),
        (chooser("'a"), "not closed"),
        (chooser("count(*)"), "count"),
        (chooser("id"), "integer"),
        (chooser("x'00'"), "blob"),
        (chooser("(select 1, 2)"), "dict_chooser"),
        (chooser("json_extract('{', '$')"), "JSON"),
        (chooser("case"), "dict_chooser"),
    ] {
        let error = twin
            .try_call("zstd_enable_transparent", &[&config])
            .expect_err(&config);
        assert!(error.contains(words), "{config}: {error}");
        assert_eq!(before, schema(&twin.compressed), "{config}");
    }
    for sql in [
        "select zstd_enable_transparent(null)",
        "select zstd_enable_transparent(1)",
        "select zstd_enable_transparent()",
    ] {
        rows(&twin.compressed, sql).expect_err(sql);
    }
    for (table, column) in [("t", "c"), ("fine", "id"), ("missing", "c"), ("v", "c")] {
        twin.try_call("litepack_disable_transparent", &[table, column])
            .expect_err(table);
    }
    assert_eq!(before, schema(&twin.compressed));
}

#[test]
fn settings_can_be_changed() {
    let mut twin = Twin::new(PEOPLE);
    twin.enable("people", "data");
    twin.call(
        "litepack_configure_column",
        &["people", "data", r#"{"compression_level": 7}"#],
    );
    let config = rows(
        &twin.compressed,
        "select config->>'compression_level' from _zstd_configs",
    )
    .expect("a row");
    assert_eq!(config, ["Integer(7)"]);
    for patch in [
        r#"{"compression_level": 77}"#,
        r#"{"dict_chooser": "nope"}"#,
        r#"{"column": "x"}"#,
        "7",
    ] {
        twin.try_call("litepack_configure_column", &["people", "data", patch])
            .expect_err(patch);
    }
    twin.try_call("litepack_configure_column", &["people", "name", "{}"])
        .expect_err("not compressed");
}

#[test]
fn upsert_is_what_a_view_cannot_do() {
    let mut twin = Twin::new(PEOPLE);
    twin.enable("people", "data");
    let error = rows(
        &twin.compressed,
        "insert into people(id) values(1) on conflict(id) do update set data = 'x'",
    );
    assert!(error.expect_err("refused").contains("cannot UPSERT a view"));
}

#[test]
fn inside_transactions_and_savepoints() {
    let mut twin = Twin::new(PEOPLE);
    twin.both("create index i on people(data); create view v as select data from people;");
    let before = schema(&twin.compressed);
    for (begin, end) in [
        ("begin", "rollback"),
        (
            "begin immediate; savepoint x",
            "rollback to x; release x; rollback",
        ),
        ("savepoint x", "rollback to x; release x"),
    ] {
        twin.both(begin);
        twin.enable("people", "data");
        twin.both("update people set data = data || 'x'");
        twin.verify();
        twin.both(end);
        twin.columns.clear();
        twin.verify();
        assert_eq!(before, schema(&twin.compressed));
    }
    twin.both("begin; insert into people(name) values('before')");
    twin.enable("people", "data");
    twin.both("insert into people(name) values('after'); commit");
    twin.verify();
    let enabled = schema(&twin.compressed);
    twin.both("begin");
    twin.disable("people", "data");
    twin.verify();
    twin.both("rollback");
    assert_eq!(enabled, schema(&twin.compressed));
    twin.verify();
    twin.both("savepoint x");
    twin.disable("people", "data");
    twin.both("release x");
    twin.verify();
    assert_eq!(before, schema(&twin.compressed));
}

#[test]
fn untrusted_schemas() {
    let mut twin = Twin::new(PEOPLE);
    twin.both("update people set data = '{}' where data = ''; pragma trusted_schema = off; create index i on people(data->>'y')");
    twin.enable("people", "data");
    twin.enable("people", "note");
    twin.both("update people set data = '{}' where id = 1; insert into people(data) values('{}')");
    twin.verify();
    twin.disable("people", "data");
    twin.verify();
    // Functions that change the schema only work in the user's own words.
    twin.compressed
        .execute_batch("create view evil as select litepack_disable_transparent('people', 'note')")
        .expect("a view");
    assert!(
        rows(&twin.compressed, "select * from evil")
            .expect_err("refused")
            .contains("unsafe use")
    );
}

#[test]
fn attached_databases() {
    let mut twin = Twin::new(PEOPLE);
    twin.both("attach ':memory:' as other; create table other.people(id integer primary key, data text); insert into other.people values(7, 'seven')");
    twin.enable("people", "data");
    twin.both("insert into people(data) values('main'); insert into other.people(data) values('other'); update other.people set data = 'x'");
    twin.verify();
    twin.query("select * from other.people");
    twin.both("create table other.alone(id integer primary key, c text)");
    let config = litepack_tests::twin::configuration("alone", "c");
    assert!(
        twin.try_call("zstd_enable_transparent", &[&config])
            .expect_err("refused")
            .contains("attached")
    );
}
