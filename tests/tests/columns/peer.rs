//! Compressed columns beside sqlite-zstd 0.3.5: databases and frames go both ways, and the functions
//! answer the same. Each database has a twin of ordinary tables that gets the same statements.
//!
//! The other implementation is built from the package registry, so these tests are ignored by
//! default; `make test-long` runs them.

use litepack_tests::peer::{Answer, Peer, answer};
use litepack_tests::vfs;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

const TABLES: &str = "
    create table docs(id integer primary key, body text not null, meta text, n integer);
    create table logs(host text not null, at integer not null, line text, raw blob,
      primary key(host, at));
    create table few(id integer primary key, note text);
    insert into docs with recursive n(i) as (select 1 union all select i + 1 from n where i < 6000)
      select i, 'The document number ' || i || ' tells of ' || (i * 7919 % 1000) || ' things, of which ' ||
        (i % 13) || ' were never told before, and it ends as they all do.',
        json_object('id', i, 'kind', 'kind ' || (i % 5), 'tags', json_array('a', 'b', i % 17),
          'text', 'words that come again and again ' || (i % 29)), i % 3 from n;
    insert into logs select 'host' || (id % 7), id, 'GET /path/to/the/resource/' || (id % 101) ||
        ' HTTP/1.1 200 took ' || id || ' microseconds of the time of this host',
        cast('binary ' || body as blob) from docs;
    insert into few values (1, 'a note'), (2, null), (3, 'another');";

const TABLE_NAMES: [&str; 3] = ["docs", "logs", "few"];

/// Statements that change rows, compressed and not, in ways that must mean the same everywhere.
const WRITES: [&str; 8] = [
    "insert into docs(id, body, meta, n) values (10001, 'new body', '{\"kind\": \"new\"}', 1)",
    "insert into docs(body, meta, n) values ('körper, no id', null, 2)",
    "update docs set body = body || ' And more.' where id between 100 and 140",
    "update docs set n = n + 10 where id % 50 = 0",
    "update docs set meta = null where id = 77",
    "delete from docs where id between 500 and 520",
    "insert or ignore into logs select 'new', at + 100000, line, raw from logs where at < 60",
    "update logs set line = null, raw = x'00ff00' where host = 'host3' and at < 100",
];

struct World {
    _folder: tempfile::TempDir,
    /// The database both implementations work on.
    path: PathBuf,
    twin: Connection,
    peer: Peer,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("both.db");
        vfs::open_plain(&path)
            .unwrap()
            .execute_batch(TABLES)
            .unwrap();
        let twin = Connection::open_in_memory().unwrap();
        twin.execute_batch(TABLES).unwrap();
        World {
            path,
            twin,
            peer: peer(),
            _folder: folder,
        }
    }

    fn ours(&self) -> Connection {
        vfs::open_plain(&self.path).unwrap()
    }

    /// Runs statements with the other implementation; none may fail.
    fn theirs(&self, statements: &[&str]) {
        for (sql, answer) in statements.iter().zip(self.peer.run(&self.path, statements)) {
            assert!(answer.is_ok(), "sqlite-zstd: {sql}: {answer:?}");
        }
    }

    /// Both implementations read what the twin has.
    fn assert_same(&self, when: &str) {
        let ours = self.ours();
        let selects = TABLE_NAMES.map(|table| format!("select * from {table} order by 1, 2"));
        let selects = selects.each_ref().map(String::as_str);
        let theirs = self.peer.run(&self.path, &selects);
        for (sql, theirs) in selects.iter().zip(theirs) {
            let expected = answer(&self.twin, sql);
            assert_rows(
                &format!("{when}: ours: {sql}"),
                &answer(&ours, sql),
                &expected,
            );
            assert_rows(&format!("{when}: theirs: {sql}"), &theirs, &expected);
        }
        assert_eq!(
            answer(&ours, "pragma integrity_check"),
            Ok(vec!["'ok'".into()]),
            "{when}"
        );
    }

    fn write_twin(&self, statements: &[&str]) {
        for sql in statements {
            answer(&self.twin, sql).unwrap();
        }
    }
}

/// The first row that differs, instead of thousands that do not.
#[track_caller]
fn assert_rows(what: &str, found: &Answer, expected: &Answer) {
    let (Ok(found), Ok(expected)) = (found, expected) else {
        panic!("{what}: {found:?}");
    };
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{what}");
    }
    assert_eq!(found.len(), expected.len(), "{what}: rows");
}

fn peer() -> Peer {
    let extension = litepack_peers::sqlite_zstd::extension().unwrap();
    Peer::new(env!("CARGO_BIN_EXE_peer"), extension)
}

#[track_caller]
fn run(connection: &Connection, sql: &str) -> Vec<String> {
    answer(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn enable(table: &str, column: &str, chooser: &str) -> String {
    format!(
        "select zstd_enable_transparent(json_object('table', '{table}', 'column', '{column}',
         'compression_level', 5, 'dict_chooser', '{}'))",
        chooser.replace('\'', "''")
    )
}

const MAINTAIN: &str = "select zstd_incremental_maintenance(null, 1)";

/// How many values of a column are frames.
fn compressed(connection: &Connection, table: &str, column: &str) -> i64 {
    let sql = format!("select count(_{column}_dict) from _{table}_zstd");
    connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[test]
#[ignore = "builds sqlite-zstd from the package registry"]
fn what_sqlite_zstd_wrote_is_ours() {
    let world = World::new();
    world.theirs(&[
        &enable("docs", "body", "'all'"),
        &enable("docs", "meta", "'meta' || (n % 2)"),
        &enable("logs", "line", "'[nodict]'"),
        &enable("logs", "raw", "case when at % 2 then 'all' end"),
        MAINTAIN,
    ]);
    world.theirs(&WRITES);
    world.write_twin(&WRITES);
    world.assert_same("written by sqlite-zstd");

    let ours = world.ours();
    let before = compressed(&ours, "docs", "body");
    assert!(before > 5900, "{before} rows were compressed");
    for sql in WRITES.iter().skip(2) {
        run(&ours, sql);
        world.write_twin(&[sql]);
    }
    world.assert_same("written by us too");

    assert_eq!(run(&ours, MAINTAIN), ["0"]);
    assert!(compressed(&ours, "docs", "body") > before - 60);
    world.assert_same("maintained by us");

    run(&ours, &enable("few", "note", "'[nodict]'"));
    run(
        &ours,
        "insert into few values (4, replace(hex(zeroblob(300)), '00', 'note '))",
    );
    world.write_twin(&["insert into few values (4, replace(hex(zeroblob(300)), '00', 'note '))"]);
    assert_eq!(run(&ours, MAINTAIN), ["0"]);
    assert_eq!(compressed(&ours, "few", "note"), 1);
    world.assert_same("a table of ours beside theirs");

    for (table, column) in [
        ("docs", "meta"),
        ("logs", "line"),
        ("docs", "body"),
        ("few", "note"),
        ("logs", "raw"),
    ] {
        run(
            &ours,
            &format!("select litepack_disable_transparent('{table}', '{column}')"),
        );
        world.assert_same(&format!("{table}.{column} disabled"));
    }
    // SQLite has put the name in quotes when sqlite-zstd renamed the table.
    let tables = "select name, replace(sql, '\"', '') from sqlite_schema
        where name not like 'sqlite%' and name <> '_zstd_dicts' order by name";
    assert_eq!(answer(&ours, tables), answer(&world.twin, tables));
}

#[test]
#[ignore = "builds sqlite-zstd from the package registry"]
fn a_second_column_beside_one_of_sqlite_zstd() {
    let world = World::new();
    world.theirs(&[&enable("docs", "body", "'all'"), MAINTAIN]);
    let ours = world.ours();
    run(&ours, &enable("docs", "meta", "'meta'"));
    assert_eq!(run(&ours, MAINTAIN), ["0"]);
    assert!(compressed(&ours, "docs", "meta") > 5900);
    world.assert_same("a column of ours in a table of theirs");
    world.theirs(&WRITES);
    world.write_twin(&WRITES);
    world.theirs(&[MAINTAIN]);
    world.assert_same("maintained by sqlite-zstd");
}

#[test]
#[ignore = "builds sqlite-zstd from the package registry"]
fn what_we_wrote_is_theirs() {
    let world = World::new();
    let ours = world.ours();
    run(&ours, &enable("docs", "body", "'all'"));
    run(&ours, &enable("logs", "raw", "'raw'"));
    run(
        &ours,
        "select litepack_create_index('create index by_end on docs(substr(body, -20))')",
    );
    assert_eq!(run(&ours, MAINTAIN), ["0"]);
    assert!(compressed(&ours, "docs", "body") > 5900);
    let ids = run(&ours, "select distinct _body_dict < -1 from _docs_zstd");
    assert_eq!(ids, ["1"], "ids come from the content");
    world.assert_same("written by us");

    drop(ours);
    world.theirs(&WRITES);
    world.write_twin(&WRITES);
    world.assert_same("written by both");

    world.theirs(&[MAINTAIN]);
    world.assert_same("maintained by sqlite-zstd");

    world.theirs(&[&enable("docs", "meta", "'meta'"), MAINTAIN]);
    let ours = world.ours();
    assert!(compressed(&ours, "docs", "meta") > 5900);
    world.assert_same("a column of theirs in a table of ours");
    world.theirs(&WRITES[2..]);
    world.write_twin(&WRITES[2..]);
    world.assert_same("written by sqlite-zstd through its own view");
    assert_eq!(run(&ours, MAINTAIN), ["0"]);
    world.assert_same("maintained by us again");
}

/// Calls whose results are equal to the byte.
const SAME: &[&str] = &[
    "zstd_decompress(null, 1)",
    "zstd_decompress(null, 0, null, 1)",
    "zstd_decompress('text', 1)",
    "zstd_decompress(5, 1)",
    "zstd_decompress(1.5, 0)",
    "zstd_decompress(zstd_compress('some text'), 1)",
    "zstd_decompress(zstd_compress('some text'), 0)",
    "zstd_decompress(zstd_compress('some text'), null)",
    "zstd_decompress(zstd_compress('some text'), 'x')",
    "zstd_decompress(zstd_compress('some text'), 1, null, 1)",
    "zstd_decompress(zstd_compress('some text', 3, null, 1), 1)",
    "zstd_decompress(zstd_compress('some text', 3, null, 1), 1, null, 1)",
    "zstd_decompress(zstd_compress('some text', 3, -1, 1), 1, -1, 1)",
    "zstd_decompress(zstd_compress('some text', 3, -1, 0), 1, null, 0)",
    "zstd_decompress(zstd_compress('some text', 3, 1, 0), 1, 1, 0)",
    "zstd_decompress(zstd_compress('some text', 3, 1, 1), 1, 1, 1)",
    "zstd_decompress(zstd_compress('some text', 3, 1, 1), 1, 1, 0)",
    "zstd_decompress(zstd_compress('some text', 3, 99, 1), 1, 99, 1)",
    "zstd_decompress(zstd_compress('some text', 3, x'6161616161616161', 1), 1, x'6161616161616161', 1)",
    "zstd_decompress(zstd_compress('some text', 3, 'aaaaaaaa', 1), 1, 'aaaaaaaa', 1)",
    "zstd_decompress(zstd_compress(''), 1)",
    "zstd_decompress(zstd_compress('', 3, null, 1), 1, null, 1)",
    "zstd_decompress(zstd_compress(x''), 0)",
    "zstd_decompress(zstd_compress(x'00ff00'), 0)",
    "zstd_decompress(zstd_compress('ünïcödé'), 1)",
    "zstd_decompress(zstd_compress('text') || x'00', 1)",
    "zstd_decompress()",
    "zstd_decompress(x'00')",
    "zstd_decompress(x'00', 1, 1, 1, 1)",
    "zstd_compress(null)",
    "zstd_compress(null, 3, null, 1)",
    "zstd_compress(5)",
    "zstd_compress(1.5, 3)",
    "zstd_compress()",
    "zstd_compress('a', 1, 1, 1, 1)",
    "zstd_compress('a', 'high')",
    "zstd_compress('a', null)",
    "zstd_compress('a', 3, 1.5)",
    "zstd_compress('a', 3, null, 'x')",
    "typeof(zstd_compress('a', 3, null, 7))",
    "zstd_decompress(zstd_compress('some text', 0), 1)",
    "zstd_decompress(zstd_compress('some text', -7), 1)",
    "zstd_decompress(zstd_compress('some text', 19), 1)",
    "zstd_decompress(zstd_compress('some text', 22), 1)",
    "zstd_decompress(zstd_compress('some text', 100), 1)",
    "zstd_compress_col('some text', 3, null, 1)",
    "zstd_compress_col(x'00ff', 3, null, 1)",
    "zstd_compress_col(null, 3, null, 1)",
    "zstd_compress_col(null, 3, 1, 1)",
    "zstd_compress_col(5, 3, null, 1)",
    "zstd_compress_col(5, 3, 1, 1)",
    "zstd_compress_col(1.5, 3, null, 1)",
    "zstd_compress_col('some text', 3, 99, 1)",
    "zstd_compress_col('some text', 3)",
    "zstd_decompress_col('as it is', 1, null, 1)",
    "zstd_decompress_col('as it is', 0, null, 1)",
    "zstd_decompress_col(x'00ff', 1, null, 1)",
    "zstd_decompress_col(x'00ff', 0, null, 1)",
    "zstd_decompress_col(5, 1, null, 1)",
    "zstd_decompress_col(1.5, 1, null, 1)",
    "zstd_decompress_col(null, 1, null, 1)",
    "zstd_decompress_col(null, 1, 1, 1)",
    "zstd_decompress_col(5, 1, 1, 1)",
    "zstd_decompress_col('text', 1, 1, 1)",
    "zstd_decompress_col(x'0000', 1, 99, 1)",
    "zstd_decompress_col(zstd_compress_col('some text', 3, 1, 1), 1, 1, 1)",
    "zstd_decompress_col(zstd_compress_col('some text', 3, 1, 1), 0, 1, 1)",
    "zstd_decompress_col(zstd_compress_col('some text', 3, -1, 1), 1, -1, 1)",
    "zstd_decompress_col(zstd_compress_col('some text', 3, 1, 0), 1, 1, 0)",
    "zstd_decompress_col(zstd_compress_col(x'00ff', 3, 1, 1), 0, 1, 1)",
    "(select zstd_train_dict(null, 1000, 100))",
    "(select zstd_train_dict(i, 1000, 100) from (select 1 as i))",
    "(select typeof(zstd_train_dict(body, 2000, 1000)) from sample)",
    "(select length(zstd_train_dict(body, 2000, 1000)) from sample)",
    "(select length(zstd_train_dict(body, 2000, 1000.5)) from sample)",
    "(select length(zstd_train_dict(cast(body as blob), 2000, 1000)) from sample)",
    "(select zstd_train_dict(body, 2000, 'many') from sample)",
    "(select zstd_train_dict(body, 'big', 1000) from sample)",
    "(select zstd_train_dict(body, 2000, 1000) from sample where 0)",
    "(select zstd_train_dict_and_save(body, 2000, 1000, 'no rows') from sample where 0)",
    "(select typeof(zstd_train_dict_and_save(body, 2000, 1000, null)) from sample)",
    "(select typeof(zstd_train_dict_and_save(body, 2000, 1000, 'key')) from sample)",
    "(select count(*) from _zstd_dicts where chooser_key = 'key')",
    "zstd_enable_transparent('{')",
    "zstd_enable_transparent('{}')",
    "zstd_enable_transparent('{\"table\": \"none\", \"column\": \"c\", \"compression_level\": 3, \"dict_chooser\": \"1\"}')",
    "zstd_enable_transparent('{\"table\": \"sample\", \"column\": \"c\", \"compression_level\": 3, \"dict_chooser\": \"1\"}')",
    "zstd_enable_transparent('{\"table\": \"sample\", \"column\": \"body\", \"compression_level\": 3}')",
    "zstd_enable_transparent('{\"table\": \"sample\", \"column\": \"body\", \"compression_level\": 3, \"dict_chooser\": \"'' from\"}')",
    "zstd_enable_transparent('{\"table\": \"sample\", \"column\": \"body\", \"compression_level\": 3, \"dict_chooser\": \"''a''\"}')",
    "zstd_enable_transparent('{\"table\": \"sample\", \"column\": \"body\", \"compression_level\": 3, \"dict_chooser\": \"''a''\"}')",
    "zstd_incremental_maintenance(0, 1)",
    "zstd_incremental_maintenance(null, 1)",
    "zstd_incremental_maintenance('x', 1)",
    "zstd_incremental_maintenance(null, 'x')",
];

/// Calls that sqlite-zstd refuses: a default asked for by NULL, and a dictionary stored twice under its key.
const MORE: &[&str] = &[
    "zstd_compress('a', 3, null, null)",
    "(select zstd_train_dict_and_save(body, 2000, 1000, 'key') from sample)",
];

/// Cut frames, of which sqlite-zstd gives what it has: nothing.
const CUT: &[&str] = &[
    "zstd_decompress(x'', 1)",
    "zstd_decompress(x'00', 1)",
    "zstd_decompress(x'28b52ffd', 0)",
];

/// Frames made by one are read by the other.
const FRAMES: &[(&str, &str)] = &[
    ("zstd_compress(v)", "zstd_decompress(f, 1)"),
    (
        "zstd_compress(v, 19, null, 1)",
        "zstd_decompress(f, 1, null, 1)",
    ),
    ("zstd_compress(v, 5, 1)", "zstd_decompress(f, 1, 1)"),
    ("zstd_compress(v, 5, 1, 1)", "zstd_decompress(f, 1, 1, 1)"),
    (
        "zstd_compress(v, 5, (select dict from _zstd_dicts where id = 1), 1)",
        "zstd_decompress(f, 1, 1, 1)",
    ),
    (
        "zstd_compress_col(v, 19, 1, 1)",
        "zstd_decompress_col(f, 1, 1, 1)",
    ),
    (
        "zstd_compress_col(v, 19, -1, 1)",
        "zstd_decompress_col(f, 1, -1, 1)",
    ),
    (
        "zstd_compress_col(v, 19, 1, 0)",
        "zstd_decompress_col(f, 1, 1, 0)",
    ),
];

/// Two databases with the same dictionary, the second for the other implementation.
fn pair(folder: &Path) -> (PathBuf, PathBuf) {
    let (ours, theirs) = (folder.join("ours.db"), folder.join("theirs.db"));
    vfs::open_plain(&theirs)
        .unwrap()
        .execute_batch(&format!(
            "{TABLES} create table sample(id integer primary key, body text);
             insert into sample select id, body from docs;"
        ))
        .unwrap();
    let train = "select zstd_train_dict_and_save(body, 5000, 1000, 'one') from sample";
    assert_eq!(peer().run(&theirs, &[train])[0], Ok(vec!["1".into()]));
    std::fs::copy(&theirs, &ours).unwrap();
    (ours, theirs)
}

#[test]
#[ignore = "builds sqlite-zstd from the package registry"]
fn functions_answer_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = pair(folder.path());
    let ours = vfs::open_plain(&ours).unwrap();
    let calls: Vec<String> = SAME.iter().map(|call| format!("select {call}")).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    for call in CUT {
        assert!(answer(&ours, &format!("select {call}")).is_err(), "{call}");
    }
    for call in MORE {
        assert!(answer(&ours, &format!("select {call}")).is_ok(), "{call}");
    }
    let mut different = Vec::new();
    for (call, theirs) in calls.iter().zip(peer().run(&theirs, &calls)) {
        let ours = answer(&ours, call);
        if ours.is_err() && theirs.is_err() || ours == theirs {
            continue;
        }
        different.push(format!("{call}\n  ours   {ours:?}\n  theirs {theirs:?}"));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
#[ignore = "builds sqlite-zstd from the package registry"]
fn frames_go_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = pair(folder.path());
    let ours = vfs::open_plain(&ours).unwrap();
    let run_theirs = |sql: &str| peer().run(&theirs, &[sql]).remove(0);
    let run_ours = |sql: &str| answer(&ours, sql);
    for value in [
        "'some text that is short'",
        "'The document number 17 tells of 13 things, of which 4 were never told before'",
        "replace(hex(zeroblob(5000)), '00', 'long ')",
    ] {
        for (compress, decompress) in FRAMES {
            let make = format!("select {}", compress.replace("(v", &format!("({value}")));
            let expected = answer(&ours, &format!("select {value}"));
            let (our_frame, their_frame) = (run_ours(&make), run_theirs(&make));
            let read = |frame: &Answer| {
                let frame = frame.as_ref().unwrap_or_else(|e| panic!("{make}: {e}"));
                format!(
                    "select {}",
                    decompress.replace("(f", &format!("({}", frame[0]))
                )
            };
            assert_eq!(run_theirs(&read(&our_frame)), expected, "ours: {make}");
            assert_eq!(run_ours(&read(&their_frame)), expected, "theirs: {make}");
        }
    }
}
