//! Every feature of SQL that people rely on, one test each: the same script on a plain and a packed
//! database gives the same rows, errors, `changes()` and `last_insert_rowid()`, and leaves the same
//! pages behind. How databases are opened and stored is tested in `differential_storage.rs`.

use litepack_tests::pair::Pair;
use rusqlite::MAIN_DB;
use std::io::{Read, Seek, SeekFrom, Write};

/// Runs a script on a fresh pair and verifies the end state.
fn same(script: &str) -> Pair {
    let mut pair = Pair::new();
    pair.run(script);
    pair.verify();
    pair.run("@reopen;");
    pair.verify();
    pair.assert_packed();
    pair
}

#[test]
fn upsert_and_returning() {
    same(
        "create table t(k text primary key, n int default 1, note text);
         insert into t(k) values ('a'), ('b') returning rowid, *;
         insert into t(k) values ('a') on conflict(k) do update set n = n + 1 returning k, n;
         insert into t(k) values ('a') on conflict do nothing returning k;
         insert into t(k, n) values ('b', 9), ('c', 3)
           on conflict(k) do update set n = excluded.n where excluded.n > n returning *;
         !insert into t(k) values ('a');
         update t set n = n * 2 where n > 1 returning k, n, changes();
         select last_insert_rowid(), changes(), total_changes();
         delete from t where k = 'b' returning *;
         insert or replace into t values ('a', 5, 'again') returning rowid;
         select rowid, * from t order by k;",
    );
}

#[test]
fn constraints_fail_alike() {
    same(
        "create table t(id integer primary key, a int not null check (a > 0), b text unique,
           c text collate nocase default 'x');
         insert into t values (1, 1, 'one', 'C');
         !insert into t values (1, 1, 'two', 'C');
         !insert into t values (2, null, 'two', 'C');
         !insert into t values (2, -1, 'two', 'C');
         !insert into t values (2, 1, 'one', 'C');
         !insert into t values ('text', 1, 'three', 'C');
         !insert into missing values (1);
         !select nothing from t;
         !selec;
         insert or ignore into t values (2, -1, 'two', 'C'), (3, 3, 'three', 'c');
         select * from t where c = 'c';
         update or ignore t set b = 'one';
         !update t set b = 'one' where id = 3;",
    );
}

#[test]
fn foreign_keys_cascade_and_refuse() {
    same(
        "pragma foreign_keys = on;
         create table parent(id integer primary key, name text);
         create table child(id integer primary key,
           parent int references parent(id) on delete cascade on update cascade);
         create table strict_child(id integer primary key,
           parent int references parent(id) deferrable initially deferred);
         insert into parent values (1, 'a'), (2, 'b'), (3, 'c');
         insert into child(parent) values (1), (1), (2);
         !insert into child(parent) values (99);
         begin;
         insert into strict_child values (1, 77);
         !commit;
         insert into parent values (77, 'late');
         commit;
         delete from parent where id = 1;
         select changes(), total_changes();
         update parent set id = 20 where id = 2;
         select * from child;
         !drop table parent;
         pragma foreign_key_check;",
    );
}

#[test]
fn alter_table_in_all_its_forms() {
    same(
        "create table t(a int, b text, c blob);
         create index i on t(b);
         create view v as select a, b from t;
         insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 900)
           select i, 'row ' || i, zeroblob(i) from n;
         alter table t add column d text default 'later';
         alter table t rename column b to title;
         alter table t rename to renamed;
         select sql from sqlite_schema;
         select count(*), max(d) from renamed;
         select * from v limit 3;
         !alter table renamed drop column title;
         alter table renamed drop column c;
         select count(*), sum(length(title)) from renamed;
         !alter table renamed add column e int not null;
         !alter table renamed rename to sqlite_secret;",
    );
}

#[test]
fn triggers_before_after_and_instead_of() {
    same(
        "create table t(id integer primary key, n int);
         create table log(what text, old, new);
         create trigger au after update on t begin
           insert into log values ('update', old.n, new.n);
         end;
         create trigger bd before delete on t when old.n > 5 begin
           select raise(abort, 'too big to delete');
         end;
         create view v as select id, n from t;
         create trigger iv instead of insert on v begin
           insert into t(n) values (new.n + 100);
         end;
         insert into t(n) values (1), (2), (9);
         update t set n = n + 1;
         select changes(), total_changes(), last_insert_rowid();
         !delete from t;
         delete from t where n < 5;
         insert into v(n) values (7);
         select changes(), last_insert_rowid();
         select * from log;
         select * from t;",
    );
}

#[test]
fn full_text_search_with_fts5() {
    same(
        "create virtual table f using fts5(title, body, tokenize = 'porter');
         insert into f with recursive n(i) as (select 1 union all select i + 1 from n where i < 800)
           select 'title ' || (i % 50), printf('some words about number %d and running', i) from n;
         select count(*) from f where f match 'number AND runs';
         select rowid, highlight(f, 1, '[', ']') from f where f match '\"number 42\"' order by rank;
         update f set body = 'changed entirely' where rowid % 7 = 0;
         delete from f where rowid % 11 = 0;
         insert into f(f) values ('optimize');
         insert into f(f) values ('integrity-check');
         select count(*), sum(rowid) from f where f match 'chang*';
         begin;
         insert into f values ('rolled', 'back');
         rollback;
         select count(*) from f where f match 'rolled';
         !select * from f where f match '\"unbalanced';
         drop table f;",
    );
}

#[test]
fn r_tree_ranges() {
    same(
        "create virtual table r using rtree(id, x0, x1, y0, y1, +label text);
         insert into r with recursive n(i) as (select 1 union all select i + 1 from n where i < 900)
           select i, i % 100, i % 100 + 2, i / 10, i / 10 + 3, 'box ' || i from n;
         select count(*), sum(id) from r where x0 > 10 and x1 < 30 and y0 > 20;
         update r set x0 = x0 + 1, x1 = x1 + 1 where id % 3 = 0;
         delete from r where id between 100 and 200;
         select id, label from r where x0 > 50 and x1 < 60 and y1 < 20 order by id;
         !insert into r values (1000, 5, 1, 0, 0, 'inside out');
         select rtreecheck('r');",
    );
}

#[test]
fn expression_indexes_on_json_are_used() {
    let mut pair = same(
        "create table t(id integer primary key, data text);
         insert into t(data) with recursive n(i) as (select 1 union all
           select i + 1 from n where i < 2000)
           select json_object('year', 1900 + i % 120, 'title', 'film ' || i,
             'tags', json_array('a' || (i % 7))) from n;
         create index by_year on t(data ->> 'year');
         select count(*) from t where data ->> 'year' = 1977;
         select data ->> 'title' from t where data ->> 'year' between 1950 and 1951 order by 1;
         update t set data = json_set(data, '$.year', 2024) where id % 100 = 0;
         select count(*) from t, json_each(data, '$.tags') where value = 'a3';
         select json_group_array(data ->> 'year') from t where id < 5;
         analyze;",
    );
    let plan =
        pair.answer("explain query plan select count(*) from t where data ->> 'year' = 1977");
    assert!(plan.contains("INDEX by_year"), "{plan}");
}

#[test]
fn binary_json_of_all_kinds() {
    same(
        r#"create table t(id integer primary key, data blob);
         insert into t(data) with recursive n(i) as (select 1 union all
           select i + 1 from n where i < 2000)
           select jsonb_object('year', 1900 + i % 120, 'title', 'film "' || i || '"',
             'tags', jsonb_array('a' || (i % 7), null, i / 3.0), 'more', jsonb('{"x":[],"y":{},"z":"\n"}')) from n;
         insert into t(data) with recursive n(i) as (select 1 union all
           select i + 1 from n where i < 2000)
           select jsonb('{"id": "tt' || i || '", "on": ' || iif(i % 2, 'true', '0x1f') || ', "text": "'
             || substr('some words that go on and on and on', 1, i % 40) || '", "n": -' || i || '}') from n;
         select count(*), sum(data ->> 'year'), min(data ->> 'id') from t;
         update t set data = jsonb_set(data, '$.title', 'a new one') where id % 5 = 0;
         select json(data) from t where id % 371 = 0 order by id;
         update t set data = substr(data, 2) where id % 1000 = 7;
         select sum(json_valid(data, 8)), sum(length(data)) from t;"#,
    );
}

#[test]
fn tables_without_rowid_and_strict_tables() {
    same(
        "create table w(k text, n int, v blob, primary key(k, n)) without rowid;
         insert into w with recursive n(i) as (select 1 union all select i + 1 from n where i < 999)
           select 'key ' || (i % 30), i, zeroblob(i % 90) from n;
         !insert into w values ('key 1', 31, null);
         !select rowid from w;
         select k, count(*), sum(length(v)) from w group by k order by k limit 5;
         delete from w where k > 'key 2' and n % 2;
         create table s(id integer primary key, i int, r real, t text, b blob, a any) strict;
         insert into s values (1, 1, 1, 'x', x'00', 'any'), (2, '7', '7.5', 8, x'', 9);
         !insert into s(i) values ('seven');
         !insert into s(b) values ('text');
         select id, typeof(i), typeof(r), typeof(t), typeof(b), typeof(a) from s;
         !create table bad(x varchar) strict;",
    );
}

#[test]
fn generated_columns_virtual_and_stored() {
    same(
        "create table g(a int, b text, s int as (a + length(b)) stored, v text as (b || a),
           check (s < 100));
         create index gi on g(v);
         insert into g(a, b) values (1, 'x'), (2, 'yy');
         !insert into g(a, s) values (1, 2);
         !update g set v = 'no';
         !insert into g(a, b) values (99, 'long');
         update g set a = 50;
         select * from g where v = 'yy50';
         alter table g add column w as (s * 2);
         select w from g order by w;",
    );
}

#[test]
fn savepoints_nest_and_roll_back() {
    same(
        "create table t(id integer primary key, x);
         pragma cache_size = 5;
         savepoint one;
         insert into t(x) with recursive n(i) as (select 1 union all
           select i + 1 from n where i < 3000) select 'kept ' || i from n;
         savepoint two;
         update t set x = 'lost ' || id;
         create table gone(y);
         rollback to two;
         select count(*), min(x), max(x) from t;
         !select * from gone;
         savepoint three;
         delete from t where id % 2;
         release three;
         release one;
         !rollback to one;
         begin;
         drop table t;
         savepoint four;
         create table t(other);
         rollback;
         select count(*), sum(id) from t;",
    );
}

#[test]
fn a_failing_statement_rolls_back_alone() {
    same(
        "create table t(id integer primary key, x unique);
         pragma cache_size = 5;
         insert into t select value, 'v' || value from json_each('[1,2,3]');
         begin;
         insert into t(x) with recursive n(i) as (select 1 union all
           select i + 1 from n where i < 2000) select printf('%0200d', i) from n;
         !update t set x = case when id < 1900 then 'u' || id else 'same' end;
         select count(*), count(distinct x), max(length(x)) from t;
         !insert or fail into t(x) values ('new'), ('v1'), ('never');
         !insert or rollback into t(x) values ('v1');
         select count(*) from t;",
    );
}

#[test]
fn large_blobs_go_in_and_come_out() {
    same(
        "create table b(id integer primary key, body blob);
         insert into b values (1, zeroblob(5000000)), (2, x''), (3, null);
         insert into b select 4, cast(group_concat(i * 7919) as blob) from
           (with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
           select i from n);
         select id, length(body), typeof(body), substr(body, 100000, 30) from b;
         update b set body = body || body where id = 4;
         select length(body), hex(substr(body, -20)) from b where id = 4;
         delete from b where id = 1;
         select id, sum(length(body)) from b;
         !select zeroblob(3000000000);",
    );
}

#[test]
fn incremental_blob_io_reads_and_writes_in_place() {
    let mut pair = Pair::new();
    pair.run(
        "create table b(id integer primary key, body blob, note text);
         create index bi on b(note);
         insert into b values (1, zeroblob(300000), 'n'), (2, x'0102030405', 'm');",
    );
    let _ = pair.both("blob handles", |connection, _| {
        let mut blob = connection
            .blob_open(MAIN_DB, "b", "body", 1, false)
            .unwrap();
        for at in (0..300_000).step_by(7777) {
            blob.seek(SeekFrom::Start(at)).unwrap();
            blob.write_all(format!("<at {at}>").as_bytes()).unwrap();
        }
        let mut text = vec![0; 20_000];
        blob.seek(SeekFrom::Start(150_000)).unwrap();
        blob.read_exact(&mut text).unwrap();
        blob.seek(SeekFrom::End(-2)).unwrap();
        let past_end = blob.write_all(b"too long").map_err(|e| e.to_string());
        blob.reopen(2).unwrap();
        let length = blob.len();
        blob.close().unwrap();
        let indexed = connection
            .blob_open(MAIN_DB, "b", "note", 1, false)
            .map(|_| ());
        let missing = connection
            .blob_open(MAIN_DB, "b", "body", 9, true)
            .map(|_| ());
        let words = (
            indexed.unwrap_err().to_string(),
            missing.unwrap_err().to_string(),
        );
        (text, past_end, length, words)
    });
    pair.run("update b set note = 'changed' where id = 1;");
    let _ = pair.both("a handle expires when its row changes", |connection, _| {
        let mut blob = connection.blob_open(MAIN_DB, "b", "body", 1, true).unwrap();
        connection
            .execute("update b set body = x'00' where id = 1", [])
            .unwrap();
        let mut byte = [0];
        blob.read(&mut byte).map_err(|e| e.to_string())
    });
    pair.verify();
}

#[test]
fn temporary_tables_and_sorters_in_files() {
    same(
        "pragma temp_store = file;
         pragma cache_size = 10;
         create table t(id integer primary key, x text);
         insert into t(x) with recursive n(i) as (select 1 union all
           select i + 1 from n where i < 20000)
           select printf('%08x padding padding', i * 2654435761 % 4294967296) from n;
         create temp table s as select x, id from t order by x;
         create index temp.si on s(x);
         select count(*), min(x), max(x) from s;
         select x, count(*) over (order by x desc rows 3 preceding) from t order by x limit 5;
         select substr(x, 1, 2) p, count(*), group_concat(id) from t
           group by p order by count(*) desc, p limit 3;
         select count(*) from (select x from t union select x || '!' from s);
         create index tx on t(x, id);
         begin;
         update temp.s set x = x || '?';
         rollback;
         select count(*) from t join s on t.x = s.x;
         drop table temp.s;",
    );
}

#[test]
fn compound_queries_views_and_windows() {
    same(
        "create table e(id integer primary key, boss int, pay int);
         insert into e values (1, null, 100), (2, 1, 60), (3, 1, 70), (4, 2, 40), (5, 3, 30);
         with recursive up(id, level) as (select id, 0 from e where boss is null
           union all select e.id, level + 1 from e join up on e.boss = up.id)
           select level, count(*), sum(pay) from up join e using (id) group by level;
         select id, pay, rank() over (order by pay), lag(pay) over (order by id) from e;
         create view rich as select * from e where pay > 50;
         select a.id, b.id from rich a full join e b on a.boss = b.id order by 1, 2;
         select id from e except select id from rich intersect select 4;
         select (select max(pay) from e x where x.boss = e.id) from e;
         values (1, 'a'), (2, 'b');",
    );
}

#[test]
fn autoincrement_and_sequences_survive_rollback_and_reopening() {
    same(
        "create table t(id integer primary key autoincrement, x);
         insert into t(x) values (1), (2), (3);
         delete from t;
         insert into t(x) values (4);
         select last_insert_rowid();
         begin;
         insert into t(x) values (5);
         rollback;
         @reopen;
         insert into t(x) values (6);
         select * from t;
         select * from sqlite_sequence;
         insert into t values (9223372036854775807, 'last');
         !insert into t(x) values ('full');",
    );
}
