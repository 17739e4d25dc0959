//! Compressed columns in databases that were made to deceive: no text of theirs is run, no table of theirs is read but
//! for its stored columns, and memory stays bounded.

use litepack_tests::columns::{assert_true, enable, fill, maintain_all, number};
use litepack_tests::vfs;
use rusqlite::Connection;
use std::path::Path;

fn memory() -> Connection {
    vfs::open_plain(Path::new(":memory:")).expect("a database")
}

/// A database with a compressed column in `t`, an index and a trigger on it, and a table of secrets.
fn prepared() -> Connection {
    let db = memory();
    fill(&db, 500);
    db.execute_batch(
        "create table secret(x); insert into secret values('safe');
         create index ix on t(data);
         create trigger r after insert on t begin select new.data; end;",
    )
    .expect("objects");
    enable(&db, "data", "'a'", "");
    db
}

fn texts(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).expect(sql);
    let rows = statement.query_map([], |row| row.get(0)).expect(sql);
    rows.collect::<Result<_, _>>().expect(sql)
}

/// All that an attacker could want to change.
fn state(db: &Connection) -> Vec<String> {
    let mut all = texts(
        db,
        "select type || name || ifnull(sql, '') from sqlite_schema union all
         select 'temp' || name || ifnull(sql, '') from sqlite_temp_schema union all
         select 'secret' || x from secret union all select 'config' || config from _zstd_configs
         order by 1",
    );
    all.push(number(db, "pragma user_version").to_string());
    all.push(number(db, "pragma trusted_schema").to_string());
    all
}

#[track_caller]
fn refused(db: &Connection, sql: &str, words: &str) {
    let result = db.query_row(sql, [], |_| Ok(()));
    let error = result.expect_err(sql).to_string();
    assert!(error.contains(words), "{sql}: {error}");
}

/// Ways in which a chooser is followed.
const FOLLOWED: [&str; 4] = [
    "select zstd_incremental_maintenance(null, 1)",
    "select litepack_columns()",
    "select litepack_retrain('t', 'data')",
    "select litepack_recompress('t', 'data', null, 1)",
];

#[test]
fn choosers_see_the_row_and_nothing_else() {
    let db = prepared();
    for chooser in [
        "(select x from secret)",
        "(select 'a')",
        "exists(select 1 from secret)",
        "kind in secret",
        "kind in main.secret",
        "kind in pragma_user_version",
        "kind in (select 1)",
        "(values('a'))",
        "(with a as (select 1) select * from a)",
        "load_extension('evil.so')",
        "\"load_extension\"('evil.so')",
        "[load_extension] /* */ ('evil.so')",
        "0 and load_extension('evil.so')",
        "case when 0 then LOAD_EXTENSION('evil.so', 'entry') end",
        "litepack_columns()",
        "litepack_new_databases('packed')",
        "zstd_train_dict_and_save(data, 1000, 100, 'a')",
        "fts3_tokenizer('x', x'00')",
        "max(data)",
        "count(*) over ()",
        "?1",
        "$a(') || load_extension(''evil'') || (')",
        "'a') as text), load_extension(('evil.so'",
        "'a'; delete from secret",
        "secret.x",
        "secret",
        "",
    ] {
        let before = state(&db);
        let sql = "update _zstd_configs set config = json_set(config, '$.dict_chooser', ?1)";
        db.execute(sql, [chooser]).expect("a configuration");
        for sql in FOLLOWED {
            let result = db.query_row(sql, [], |_| Ok(()));
            let error = result.expect_err(chooser).to_string();
            assert!(error.contains("dict_chooser"), "{sql}, {chooser}: {error}");
        }
        let typed =
            "select litepack_configure_column('t', 'data', json_object('dict_chooser', ?1))";
        assert!(
            db.query_row(typed, [chooser], |_| Ok(())).is_err(),
            "{chooser}"
        );
        let sql = "update _zstd_configs set config = json_set(config, '$.dict_chooser', '''a''')";
        db.execute(sql, []).expect("a configuration");
        assert_eq!(state(&db), before, "{chooser}");
    }
    // A long name of a group is noticed where a row has it.
    db.execute_batch(
        "update _zstd_configs set config = json_set(config, '$.dict_chooser', 'printf(''%.*c'', 100000, ''x'')')",
    )
    .expect("a configuration");
    refused(&db, FOLLOWED[0], "100000 bytes");
    // Whatever the chooser, the way back is open.
    db.execute_batch(
        "update _zstd_configs set config = json_set(config, '$.dict_chooser', '(select 1)')",
    )
    .expect("a configuration");
    let sql = "select litepack_disable_transparent('t', 'data')";
    db.query_row(sql, [], |_| Ok(())).expect("disabled");
    assert_true(&db, "disabled");
}

#[test]
fn choosers_that_people_write_go_on_working() {
    for chooser in [
        "'a'",
        "'[nodict]'",
        "null",
        "\"a string in the wrong quotes\"",
        "'kind ' || kind",
        "strftime('%Y-%m', kind * 86400 * 40, 'unixepoch')",
        "case when date(kind, 'unixepoch') < date('now', 'weekday 0') then kind || '.' || date(kind) else null end",
        "cast(json_extract(data, '$.kind') as text)",
        "data ->> 'name'",
        "iif(kind in (1, 2), 'few', 'select') -- (select",
        "substr(data, 1, 3) || t.kind",
        "upper(hex(kind)) || coalesce(nullif(kind, 3), 'three') || printf('%d', rowid > 0)",
        "case when data like '%x%' or data glob '*y*' then current_date else 'z' end",
    ] {
        let chooser = chooser.replace("t.kind", "_t_zstd.kind");
        let db = memory();
        fill(&db, 500);
        let config = serde_json::json!({
            "table": "t", "column": "data", "compression_level": 3, "dict_chooser": &chooser,
            "min_dict_size_bytes_for_training": 300, "dict_size_ratio": 0.05,
        });
        // The table has its own name until it is compressed.
        let enabling = config.to_string().replace("_t_zstd.kind", "kind");
        db.query_row("select zstd_enable_transparent(?1)", [enabling], |_| Ok(()))
            .unwrap_or_else(|error| panic!("{chooser}: {error}"));
        db.execute("update _zstd_configs set config = ?1", [config.to_string()])
            .expect("a configuration");
        maintain_all(&db);
        assert_true(&db, &chooser);
        let compressed = number(
            &db,
            "select count(*) from _t_zstd where _data_dict is not null",
        );
        let some = !["null", "data ->> 'name'"].contains(&chooser.as_str());
        assert_eq!(compressed > 0, some, "{chooser}");
        let sql = "select litepack_columns()";
        db.query_row(sql, [], |_| Ok(())).expect("a status");
    }
}

#[test]
fn recorded_originals_are_one_statement_that_creates_what_they_are_for() {
    for (kind, original) in [
        ("index", "delete from secret"),
        ("index", "update secret set x = 'changed'"),
        ("index", "drop table secret"),
        ("index", "pragma user_version = 77"),
        ("index", "select load_extension('evil.so')"),
        (
            "index",
            "create trigger evil after insert on secret begin select 1; end",
        ),
        ("index", "create index ix on secret(x)"),
        ("index", "create index other on t(data)"),
        ("index", "create index ix on t(data); delete from secret"),
        ("index", "explain create index ix on t(data)"),
        (
            "table",
            "create table t as select load_extension('evil.so') as id, 1 as kind, 1 as data",
        ),
        ("table", "create virtual table t using fts5(id, kind, data)"),
        ("table", "create temp table t(id, kind, data)"),
        ("table", "create table secret(id, kind, data)"),
        (
            "table",
            "create table t(id integer primary key, kind, data); drop table secret",
        ),
        ("table", "create view t as select * from secret"),
        (
            "trigger",
            "create temp trigger r after insert on t begin select 1; end",
        ),
        (
            "trigger",
            "create trigger r after insert on secret begin select 1; end",
        ),
        (
            "trigger",
            "create trigger other after insert on t begin select 1; end",
        ),
        (
            "trigger",
            "create trigger r after insert on t begin select 1; end; drop table secret",
        ),
        ("trigger", ""),
    ] {
        let db = prepared();
        let sql = "update _litepack_objects set original = ?2 where type = ?1";
        assert_eq!(db.execute(sql, [kind, original]).expect("a text"), 1);
        let before = state(&db);
        for sql in [
            "select litepack_disable_transparent('t', 'data')",
            "select litepack_alter_table('t', 'add column more')",
            "select litepack_create_index('create index new on t(kind)')",
        ] {
            let result = db.query_row(sql, [], |_| Ok(()));
            let error = result.expect_err(original).to_string();
            assert!(error.contains("_litepack_objects"), "{original}: {error}");
            assert_eq!(state(&db), before, "{original}");
        }
        // The advice in the message helps.
        db.execute("delete from _litepack_objects where type = ?1", [kind])
            .expect("deleted");
        let sql = "select litepack_disable_transparent('t', 'data')";
        db.query_row(sql, [], |_| Ok(())).expect("disabled");
        assert_true(&db, original);
    }
}

#[test]
fn a_temporary_trigger_is_not_made_of_a_text_in_the_database() {
    let db = prepared();
    // One of the main database would be refused a function that only typed statements may call.
    db.execute_batch(
        "create temp trigger mine after insert on main._t_zstd begin select new.id; end;
         insert into _litepack_objects select 't', 'trigger', 'mine',
           'create trigger mine after insert on t begin select litepack_new_databases(''plain''); end', sql
           from sqlite_temp_schema where name = 'mine'",
    )
    .expect("a trigger");
    let sql = "select litepack_disable_transparent('t', 'data')";
    db.query_row(sql, [], |_| Ok(())).expect("disabled");
    let made = texts(
        &db,
        "select sql from sqlite_temp_schema where name = 'mine'",
    );
    assert!(made.len() == 1 && !made[0].contains("litepack"), "{made:?}");
}

#[test]
fn triggers_on_tables_of_ours_do_not_fire() {
    let db = prepared();
    db.execute_batch(
        "create trigger e1 after insert on _litepack_objects begin delete from secret; end;
         create trigger e2 after update on _zstd_configs begin delete from secret; end;
         create trigger e3 after insert on _zstd_dicts begin delete from secret; end;",
    )
    .expect("triggers");
    maintain_all(&db);
    for sql in [
        "select litepack_configure_column('t', 'data', '{\"compression_level\": 5}')",
        "select litepack_create_index('create index new on t(kind)')",
        "select zstd_train_dict_and_save(data, 500, 100, 'own') from truth",
    ] {
        db.query_row(sql, [], |_| Ok(())).expect(sql);
    }
    assert_eq!(number(&db, "select count(*) from secret"), 1);
}

/// A frame of 'hello hello hello' without a dictionary.
const FRAME: &str = "(select zstd_compress('hello hello hello', 3, null, 1))";

#[test]
fn dictionaries_are_stored_columns_of_tables() {
    let decode = format!("zstd_decompress({FRAME}, 0, 1, 1)");
    for (made, columns) in [
        // Each one calls for the next: natively until the stack is used up.
        (
            "create table _zstd_dicts(id integer primary key, dict generated always as
               (zstd_decompress(x'00', 0, id + 1, 1)))",
            "(id integer primary key, dict)",
        ),
        (
            "create table _zstd_dicts(id integer primary key, dict generated always as (x'61') stored)",
            "(id integer primary key, dict)",
        ),
        (
            "create table _zstd_dicts(x integer primary key, dict, id generated always as
               (zstd_decompress(x'00', 0, x + 1, 1) is null))",
            "(x integer primary key, dict)",
        ),
        (
            "create view _zstd_dicts as select 1 as id, zstd_decompress(x'00', 0, 2, 1) as dict",
            "",
        ),
        ("create virtual table _zstd_dicts using fts5(id, dict)", ""),
    ] {
        for schema in ["main", "temp", "other"] {
            let db = memory();
            let place = tempfile::tempdir().expect("a directory");
            let other = place.path().join("other.db");
            db.execute("attach ?1 as other", [other.to_str()])
                .expect("attached");
            let make = if columns.is_empty() {
                made.replace("_zstd_dicts", &format!("{schema}._zstd_dicts"))
            } else {
                // The rows first: SQLite computes what it inserts.
                format!(
                    "create table {schema}._zstd_dicts{columns};
                     insert into {schema}._zstd_dicts with recursive n(i) as (select 1 union all
                       select i + 1 from n where i < 50000) select i, x'61' from n;
                     pragma writable_schema = on;
                     update {schema}.sqlite_schema set sql = '{}' where name = '_zstd_dicts';
                     pragma writable_schema = reset;",
                    made.replace('\'', "''")
                )
            };
            db.execute_batch(&make).expect(made);
            for sql in [
                format!("select {decode}"),
                format!("select * from (select {decode})"),
            ] {
                refused(&db, &sql, "no dictionary 1");
            }
            if schema == "main" {
                let train = "select zstd_train_dict_and_save('x' || value, 500, 100, 'k')
                    from json_each('[1,2,3,4,5,6,7,8,9]')";
                assert!(db.query_row(train, [], |_| Ok(())).is_err(), "{made}");
            }
        }
    }
    // An ordinary table is read.
    let db = memory();
    db.execute_batch(
        "create table _zstd_dicts(id integer primary key, dict); insert into _zstd_dicts values(1, x'61');",
    )
    .expect("a table");
    db.query_row(&format!("select {decode}"), [], |_| Ok(()))
        .expect("decoded");
}

#[test]
fn tables_of_ours_that_are_none_are_refused() {
    for (table, made) in [
        (
            "_zstd_configs",
            "create view _zstd_configs as select 1 as id, (select config from kept) as config",
        ),
        (
            "_zstd_configs",
            "create table _zstd_configs(id integer primary key, config generated always as ('{}'))",
        ),
        (
            "_litepack_objects",
            "create view _litepack_objects as select 't' as table_name, 'index' as type, 'ix' as name,
               'drop table secret' as original, '' as made",
        ),
        (
            "_litepack_maintenance",
            "create virtual table _litepack_maintenance using fts5(config, state)",
        ),
        (
            "_t_zstd",
            "create view _t_zstd as select id, kind, data, null as _data_dict from truth",
        ),
        (
            "_t_zstd",
            "create table _t_zstd(id integer primary key, kind, data, _data_dict generated always as (null))",
        ),
    ] {
        let db = prepared();
        maintain_all(&db);
        db.execute_batch(&format!(
            "create table kept as select config from _zstd_configs;
             drop view t; drop table {table}; {made};"
        ))
        .expect(made);
        refused(&db, "select litepack_columns()", table);
        refused(&db, "select zstd_incremental_maintenance(null, 1)", table);
    }
}

#[test]
fn names_and_texts_from_the_database_stay_names_and_texts() {
    let db = memory();
    // Every name would end the SQL around it if it were not quoted.
    let odd = "t\"; drop table secret; --' ) ]` (select";
    let table = format!("\"{}\"", odd.replace('"', "\"\""));
    db.execute_batch(&format!(
        "create table secret(x); insert into secret values('safe');
         create table {table}(id integer primary key, {table} text, \"a, b\" \"int), x(\" default ') drop');
         create index \"i{odd2}\" on {table}({table});
         create trigger \"r{odd2}\" after insert on {table} begin select new.{table}; end;
         insert into {table} with recursive n(i) as (select 1 union all select i + 1 from n where i < 800)
           select i, 'some text that repeats ' || i, i from n;",
        odd2 = odd.replace('"', "\"\"")
    ))
    .expect("odd names");
    let before = state_of_schema(&db);
    let config = serde_json::json!({
        "table": odd, "column": odd, "compression_level": 3, "dict_chooser": "'a' || (length(\"a, b\") % 2)",
        "min_dict_size_bytes_for_training": 300, "dict_size_ratio": 0.05,
    });
    let run = |sql: &str, values: &[&str]| {
        db.query_row(sql, rusqlite::params_from_iter(values), |_| Ok(()))
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    };
    run("select zstd_enable_transparent(?1)", &[&config.to_string()]);
    maintain_all(&db);
    run("select litepack_columns()", &[]);
    run("select litepack_retrain(?1, ?1)", &[odd]);
    run("select litepack_recompress(?1, ?1, null, 1)", &[odd]);
    run("select litepack_drop_unused_dictionaries()", &[]);
    run("select litepack_disable_transparent(?1, ?1)", &[odd]);
    assert_eq!(number(&db, "select count(*) from secret"), 1);
    assert_eq!(state_of_schema(&db), before);
}

fn state_of_schema(db: &Connection) -> Vec<String> {
    texts(
        db,
        "select type || name || ifnull(sql, '') from sqlite_schema where name <> 'sqlite_sequence' order by 1",
    )
}

#[test]
fn sizes_that_a_frame_claims_are_not_believed() {
    let db = memory();
    // A frame that says it holds 2^62 bytes, and one whose window is the largest there is.
    for frame in [
        "28b52ffde00000000000000040010000",
        "28b52ffdc0ff0000000000000040010000",
        "e00000000000000040010000",
    ] {
        let compact = !frame.starts_with("28b5");
        let sql = format!("select length(zstd_decompress(x'{frame}', 0, -1, {compact}))");
        assert!(
            db.query_row(&sql, [], |row| row.get::<_, i64>(0)).is_err(),
            "{frame}"
        );
    }
}
