//! The SQL functions of compressed columns, called as a user or a view calls them: arguments, types,
//! errors, hostile data, and never the wrong dictionary.

use std::path::Path;

use litepack_tests::rng::Rng;
use rusqlite::limits::Limit;
use rusqlite::types::Value;
use rusqlite::{Connection, Params};

fn open(path: impl AsRef<Path>) -> Connection {
    static REGISTER: std::sync::Once = std::sync::Once::new();
    REGISTER.call_once(|| litepack_rusqlite::register().expect("Litepack registers itself"));
    Connection::open(path).expect("a plain database")
}

fn memory() -> Connection {
    open(":memory:")
}

fn get(db: &Connection, sql: &str, parameters: impl Params) -> Value {
    db.query_row(sql, parameters, |row| row.get(0))
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn integer(db: &Connection, sql: &str) -> i64 {
    match get(db, sql, []) {
        Value::Integer(value) => value,
        other => panic!("{sql}: {other:?}"),
    }
}

fn blob(db: &Connection, sql: &str, parameters: impl Params) -> Vec<u8> {
    match get(db, sql, parameters) {
        Value::Blob(bytes) => bytes,
        other => panic!("{sql}: {other:?}"),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

/// SQLite's primary result code, and the message.
fn failure(db: &Connection, sql: &str, parameters: impl Params) -> (i32, String) {
    match db.query_row(sql, parameters, |row| row.get::<_, Value>(0)) {
        Err(rusqlite::Error::SqliteFailure(error, message)) => {
            (error.extended_code & 0xff, message.unwrap_or_default())
        }
        other => panic!("{sql}: {other:?}"),
    }
}

/// Checks that a statement fails with a code and words.
#[track_caller]
fn refused(db: &Connection, sql: &str, code: i32, words: &str) {
    let (got, message) = failure(db, sql, []);
    assert!(
        got == code && message.contains(words),
        "{sql}: code {got}, {message:?}"
    );
}

const ERROR: i32 = 1;
const CORRUPT: i32 = 11;
const TOOBIG: i32 = 18;

/// JSON rows in a table `plain(id, data)`; `salt` makes them differ from database to database.
fn fill(db: &Connection, salt: &str) {
    db.execute_batch(&format!(
        "create table plain(id integer primary key, data text);
         insert into plain with recursive n(i) as (select 1 union all select i + 1 from n where
           i < 2000) select i, json_object('identifier', i, '{salt}', 'value {salt} ' ||
           (i * 7919 % 1009), 'nested', json_array(i % 7, '{salt}', i % 11)) from n;"
    ))
    .expect("data");
}

/// Trains on `plain`, saves, and compresses it into `packed(id, data, dict)`.
fn pack(db: &Connection, key: &str) -> i64 {
    let sql = format!("select zstd_train_dict_and_save(data, 4000, 1000, {key}) from plain");
    let id = integer(db, &sql);
    db.execute_batch(&format!(
        "create table if not exists packed(id integer primary key, data, dict);
         delete from packed;
         insert into packed select id, zstd_compress_col(data, 19, {id}, 1), {id} from plain;"
    ))
    .expect("compress");
    id
}

/// How many rows of `packed` do not decode to those of `plain`.
const WRONG: &str = "select count(*) from plain join packed using (id) \
     where zstd_decompress_col(packed.data, 1, packed.dict, 1) is not plain.data";

#[test]
fn what_was_compressed_comes_back_with_its_type() {
    let db = memory();
    let same = [
        "select zstd_decompress(zstd_compress('text'), 1)",
        "select zstd_decompress(zstd_compress('text', 19), 1, null)",
        "select zstd_decompress(zstd_compress('text', 1, null), 1, -1, 0)",
        "select zstd_decompress(zstd_compress('text', 3, -1, 1), 1, -1, 1)",
        "select zstd_decompress(zstd_compress('text', 3, x'746578747465', 1), 1, x'746578747465', 1)",
        "select zstd_decompress_col(zstd_compress_col('text', 22, -1, 1), 1, -1, 1)",
        "select zstd_decompress_col('text', 0, null, 1)",
        "select zstd_decompress(zstd_compress(cast('text' as blob), -5), 1)",
        "select zstd_decompress(zstd_compress('text', 99), 1)",
    ];
    for sql in same {
        assert_eq!(get(&db, sql, []), text("text"), "{sql}");
    }
    let as_blob = "select zstd_decompress(zstd_compress('text'), 0)";
    assert_eq!(get(&db, as_blob, []), Value::Blob(b"text".into()));
    let sql = "select zstd_decompress(zstd_compress(?1, 3, -1, ?3), ?2, -1, ?3)";
    for compact in [false, true] {
        for words in ["", "a\0b", "naïve 🦀"] {
            assert_eq!(get(&db, sql, (words, true, compact)), text(words));
        }
        let bytes = vec![0xff; 300_000];
        assert_eq!(
            get(&db, sql, (&bytes, false, compact)),
            Value::Blob(bytes.clone())
        );
    }
}

#[test]
fn without_a_dictionary_a_column_passes_values_through() {
    let db = memory();
    for (value, same) in [
        ("7", Value::Integer(7)),
        ("1.5", Value::Real(1.5)),
        ("'t'", text("t")),
        ("x'00ff'", Value::Blob(vec![0, 255])),
        ("null", Value::Null),
    ] {
        for is_text in [0, 1] {
            let sql = format!("select zstd_decompress_col({value}, {is_text}, null, 1)");
            assert_eq!(get(&db, &sql, []), same);
        }
    }
    let compressed = "select zstd_compress_col('text', 3, null, 1)";
    assert_eq!(get(&db, compressed, []), Value::Blob(b"text".into()));
}

#[test]
fn null_gives_null() {
    let db = memory();
    for sql in [
        "select zstd_compress(null)",
        "select zstd_compress(null, 3, -1, 1)",
        "select zstd_decompress(null, 1)",
        "select zstd_compress_col(null, 3, null, 1)",
        "select zstd_compress_col(null, 3, -1, 1)",
        "select zstd_decompress_col(null, 1, -1, 1)",
    ] {
        assert_eq!(get(&db, sql, []), Value::Null, "{sql}");
    }
}

#[test]
fn wrong_arguments_are_named() {
    let db = memory();
    for (sql, words) in [
        (
            "select zstd_compress(1)",
            "expected text or blob to compress, not integer",
        ),
        ("select zstd_compress(1.5, 3)", "not real"),
        (
            "select zstd_compress_col(1, 3, null, 1)",
            "zstd_compress_col: expected text or blob",
        ),
        ("select zstd_compress('a', 'b')", "the level is an integer"),
        ("select zstd_compress('a', null)", "the level is an integer"),
        (
            "select zstd_compress('a', 3, 'b')",
            "a dictionary is given as blob",
        ),
        (
            "select zstd_compress('a', 3, null, 'b')",
            "compact is 0 or 1",
        ),
        (
            "select zstd_decompress('a', 1)",
            "expected compressed data as blob, not text",
        ),
        ("select zstd_decompress(5, 1)", "not integer"),
        ("select zstd_decompress_col(5, 1, -1, 1)", "not integer"),
        (
            "select zstd_decompress(zstd_compress('a'), 'b')",
            "is_text is 0 or 1",
        ),
        (
            "select zstd_compress('a', 3, 5)",
            "no dictionary 5 in _zstd_dicts",
        ),
        (
            "select zstd_compress('a', 3, -99)",
            "no dictionary -99 in _zstd_dicts",
        ),
        (
            "select zstd_compress('a', 3, -9223372036854775808)",
            "no dictionary -9223372036854775808",
        ),
        ("select zstd_train_dict('a', 1000, 100) where 0", "no rows"),
        ("select zstd_train_dict('a', 1000, 100)", "too few"),
        ("select zstd_train_dict('a', 1, 100)", "between 256 and"),
        ("select zstd_train_dict('a', -1, 100)", "between 256 and"),
        (
            "select zstd_train_dict('a', 'b', 100)",
            "the size is an integer",
        ),
        (
            "select zstd_train_dict('a', 1000, null)",
            "the sample count is a number",
        ),
        ("select zstd_train_dict('a', 1000, 0.5)", "too small"),
        (
            "select zstd_train_dict_and_save('a', 1000, 10, 1)",
            "chooser key",
        ),
    ] {
        refused(&db, sql, ERROR, words);
    }
    // zstd's magic number of a dictionary, and nonsense.
    let bad = "x'37a430ecffffffffffffffffffffffff'";
    refused(
        &db,
        &format!("select zstd_compress('a', 3, {bad})"),
        ERROR,
        "cannot compress",
    );
    let sql = format!("select zstd_decompress(zstd_compress('a'), 1, {bad})");
    refused(&db, &sql, CORRUPT, "refuses the dictionary");
}

#[test]
fn ordinary_frames_are_those_of_the_zstd_command() {
    let db = memory();
    fill(&db, "stock");
    let row: Vec<u8> = b"a row with a row in a row".repeat(9);
    let frame = blob(&db, "select zstd_compress(?, 12)", [&row]);
    assert_eq!(
        zstd::decode_all(&frame[..]).expect("an ordinary frame"),
        row
    );
    let theirs = zstd::encode_all(&row[..], 3).expect("compress");
    let back = blob(&db, "select zstd_decompress(?, 0)", [theirs]);
    assert_eq!(back, row);
    // With a dictionary, too; and compact frames are smaller.
    let dictionary = blob(
        &db,
        "select zstd_train_dict(data, 3000, 500.5) from plain",
        [],
    );
    let frame = blob(&db, "select zstd_compress(?, 3, ?)", (&row, &dictionary));
    let mut stock = zstd::bulk::Decompressor::with_dictionary(&dictionary).expect("prepare");
    assert_eq!(stock.decompress(&frame, 10_000).expect("decode"), row);
    let compact = blob(&db, "select zstd_compress(?, 3, ?, 1)", (&row, &dictionary));
    assert!(compact.len() < frame.len());
}

#[test]
fn training_skips_what_is_never_compressed_and_ends_early_without_a_trace() {
    let db = memory();
    fill(&db, "training");
    let only = "select zstd_train_dict(data, 3000, 700) from plain";
    let with_others = "select zstd_train_dict(data, 3000, 700) from (select 1 as data union all \
         select 2.5 union all select null union all select data from plain)";
    assert_eq!(blob(&db, only, []), blob(&db, with_others, []));
    let (code, _) = failure(
        &db,
        "select zstd_train_dict(iif(id < 1000, data, abs(-9223372036854775808)), 3000, 700) from plain",
        [],
    );
    assert_eq!(code, ERROR);
    let ids: Vec<i64> = ["'a'", "'a'", "null", "'b'"]
        .map(|key| {
            let sql = format!("select zstd_train_dict_and_save(data, 3000, 700, {key}) from plain");
            integer(&db, &sql)
        })
        .into();
    // The same content under another key is a row of its own.
    assert_eq!((ids[0], ids[0]), (ids[1], ids[2]));
    assert_ne!(ids[0], ids[3]);
    assert!(ids.iter().all(|id| (i64::from(i32::MIN)..=-2).contains(id)));
    let rows = "select group_concat(chooser_key, ' ') from (select chooser_key from _zstd_dicts \
         order by chooser_key)";
    assert_eq!(get(&db, rows, []), text("[nodict] a b"));
    // A key belongs to one dictionary.
    let sql = "select zstd_train_dict_and_save(data, 2000, 700, 'a') from plain";
    let (code, message) = failure(&db, sql, []);
    assert!(code == 19 && message.contains("chooser_key"), "{message}");
}

#[test]
fn groups_train_and_nested_calls_work() {
    let db = memory();
    fill(&db, "groups");
    let sql = "select count(distinct id) from (select zstd_train_dict_and_save(data, 1000, 400, \
         'group ' || (id % 3)) as id from plain group by id % 3)";
    assert_eq!(integer(&db, sql), 3);
    let sql = "select sum(zstd_decompress_col(zstd_compress_col(data, 1 + id % 5, dict, 1), 1, dict, \
         1) is not data) from (select id, data, (select d.id from _zstd_dicts d where \
         d.chooser_key = 'group ' || (p.id % 3)) as dict from plain p)";
    assert_eq!(integer(&db, sql), 0);
}

#[test]
fn hostile_bytes_are_an_error_or_a_value() {
    let db = memory();
    fill(&db, "hostile");
    let id = pack(&db, "'k'");
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, 100_000)
        .expect("limit");
    let mut statements: Vec<_> = [(0, id), (1, id), (0, -1), (1, -1)]
        .map(|(text, id)| {
            let sql = format!(
                "select zstd_decompress_col(?1, {text}, {id}, 1), zstd_decompress(?1, {text}, {id})"
            );
            db.prepare(&sql).expect("prepare")
        })
        .into();
    let mut try_all = |bytes: &[u8]| {
        let mut errors = 0;
        for statement in &mut statements {
            if let Err(error) = statement.query_row([bytes], |row| row.get::<_, Value>(0)) {
                let rusqlite::Error::SqliteFailure(code, Some(message)) = &error else {
                    panic!("{error}");
                };
                assert!([CORRUPT, TOOBIG].contains(&code.extended_code), "{message}");
                errors += 1;
            }
        }
        errors
    };
    let frame = blob(&db, "select data from packed where id = 77", []);
    let ordinary = blob(
        &db,
        "select zstd_compress(data, 3, ?) from plain where id = 77",
        [id],
    );
    for bytes in [&frame, &ordinary] {
        for end in 0..bytes.len() {
            assert_eq!(try_all(&bytes[..end]), 4, "cut to {end} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            try_all(&bytes);
        }
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(try_all(&longer), 4);
    }
    let mut rng = Rng::new(3);
    for _ in 0..litepack_tests::scale(2_000, 200_000) {
        let mut bytes: Vec<u8> = (0..rng.below(200)).map(|_| rng.below(256) as u8).collect();
        try_all(&bytes);
        bytes.splice(0..0, [0x28, 0xb5, 0x2f, 0xfd]);
        try_all(&bytes);
    }
}

#[test]
fn damage_says_which_dictionary_and_what_helps() {
    let db = memory();
    fill(&db, "damage");
    let id = pack(&db, "null");
    db.execute_batch("update packed set data = substr(data, 1, length(data) - 1)")
        .expect("damage");
    refused(
        &db,
        WRONG,
        CORRUPT,
        &format!("dictionary {id} cannot be read, restore it"),
    );
    refused(
        &db,
        "select zstd_decompress(x'00', 1)",
        CORRUPT,
        "without a dictionary",
    );
    // A frame that decodes to bytes which no text compressed here could have had.
    let sql =
        format!("select zstd_decompress_col(zstd_compress_col(x'ff41', 3, {id}, 1), 1, {id}, 1)");
    refused(&db, &sql, CORRUPT, "not UTF-8");
    // sqlite-zstd may have stored that.
    let other = "select hex(zstd_decompress(zstd_compress(x'ff41'), 1))";
    assert_eq!(get(&db, other, []), text("FF41"));
}

#[test]
fn a_bomb_is_capped_by_the_length_limit() {
    let db = memory();
    let plain = vec![b'a'; 50 << 20];
    for compact in [false, true] {
        let bomb = blob(&db, "select zstd_compress(?, 19, -1, ?)", (&plain, compact));
        assert!(bomb.len() < 10_000);
        let sql = "select length(zstd_decompress(?, 1, -1, ?))";
        let length = get(&db, sql, (&bomb, compact));
        assert_eq!(length, Value::Integer(50 << 20));
        db.set_limit(Limit::SQLITE_LIMIT_LENGTH, 1 << 20)
            .expect("limit");
        let (code, message) = failure(&db, sql, (&bomb, compact));
        assert_eq!((code, &*message), (TOOBIG, "string or blob too big"));
        db.set_limit(Limit::SQLITE_LIMIT_LENGTH, 1_000_000_000)
            .expect("limit");
    }
}

#[test]
fn schemas_that_are_not_trusted_may_read_but_not_train() {
    let db = memory();
    fill(&db, "trust");
    let id = pack(&db, "'k'");
    db.execute_batch(&format!(
        "pragma trusted_schema = off;
         create view v as select id, zstd_decompress_col(data, 1, dict, 1) as data from packed;
         create view evil as select zstd_train_dict_and_save(data, 4000, 1000, 'k2') from plain;
         alter table packed add column shown generated always as
           (zstd_decompress_col(data, 1, dict, 1)) virtual;
         create index by_identifier on packed(shown ->> 'identifier');
         create trigger t after insert on plain begin
           insert into packed(id, data, dict) values
             (new.id, zstd_compress_col(new.data, 3, {id}, 1), {id}); end;
         insert into plain values (5000, '{{\"identifier\":5000}}')"
    ))
    .expect("schema");
    assert_eq!(
        integer(&db, "select count(*) from plain join v using (id, data)"),
        2001
    );
    assert_eq!(
        integer(
            &db,
            "select id from packed where shown ->> 'identifier' = 5000"
        ),
        5000
    );
    refused(&db, "select * from evil", ERROR, "unsafe use");
}

#[test]
fn a_view_or_a_virtual_table_is_not_read_as_dictionaries() {
    for instead in [
        "create view _zstd_dicts as select 1 as id, null as chooser_key, x'00' as dict",
        "create virtual table _zstd_dicts using fts5(id, chooser_key, dict);
         insert into _zstd_dicts(rowid, id, dict) values (1, 1, x'00')",
    ] {
        let db = memory();
        db.execute_batch(instead).expect("schema");
        refused(
            &db,
            "select zstd_compress('a', 3, 1)",
            ERROR,
            "no dictionary 1",
        );
    }
}

/// Gives `packed` of a database an id as sqlite-zstd counts them.
fn count_up(db: &Connection, schema: &str, id: i64) {
    db.execute_batch(&format!(
        "update {schema}._zstd_dicts set id = {id} where id < -1;
         update {schema}.packed set dict = {id}"
    ))
    .expect("renumber");
}

#[test]
fn databases_with_the_same_ids_do_not_mix() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let paths = ["a", "b"].map(|name| directory.path().join(name));
    let [a, b] = paths.each_ref().map(open);
    for (db, salt) in [(&a, "first"), (&b, "second")] {
        fill(db, salt);
        pack(db, "'k'");
    }
    let attach = format!("attach '{}' as other", paths[1].display());
    let other = WRONG
        .replace("plain join packed", "other.plain join other.packed")
        .to_string();
    // Ids by content are right whatever is attached.
    a.execute_batch(&attach).expect("attach");
    assert_eq!((integer(&a, WRONG), integer(&a, &other)), (0, 0));
    a.execute_batch("detach other").expect("detach");
    for db in [&a, &b] {
        count_up(db, "main", 1);
    }
    // In one process, by turns.
    for _ in 0..2 {
        assert_eq!((integer(&a, WRONG), integer(&b, WRONG)), (0, 0));
    }
    // A database that has no such id, and in its place under the same name one that has.
    let without = directory.path().join("without");
    fill(&open(&without), "no dictionaries");
    a.execute_batch(&format!("attach '{}' as other", without.display()))
        .expect("attach");
    assert_eq!(integer(&a, WRONG), 0);
    a.execute_batch("detach other").expect("detach");
    a.execute_batch(&attach).expect("attach");
    refused(
        &a,
        WRONG,
        ERROR,
        "the databases main and other each have a dictionary 1",
    );
    refused(&a, &other, ERROR, "open the two one at a time");
    a.execute_batch("detach other").expect("detach");
    assert_eq!(integer(&a, WRONG), 0);
    // Databases under one name, one after the other.
    let empty = memory();
    for path in [&paths[0], &paths[1], &paths[0]] {
        let attach = format!("attach '{}' as other", path.display());
        empty.execute_batch(&attach).expect("attach");
        assert_eq!(integer(&empty, &other), 0);
        empty.execute_batch("detach other").expect("detach");
    }
}

#[test]
fn a_dictionary_that_another_connection_replaced_is_noticed() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("db");
        let [a, b] = [open(&path), open(&path)];
        let _: String = a
            .query_row(&format!("pragma journal_mode = {mode}"), [], |row| {
                row.get(0)
            })
            .expect("mode");
        fill(&a, "before");
        pack(&a, "'k'");
        count_up(&a, "main", 1);
        let mut reading = a.prepare(WRONG).expect("prepare");
        let mut wrong = || {
            reading
                .query_row([], |row| row.get::<_, i64>(0))
                .expect("read")
        };
        assert_eq!((wrong(), integer(&b, WRONG)), (0, 0));
        b.execute_batch("begin; drop table plain; delete from _zstd_dicts where id = 1")
            .expect("drop");
        fill(&b, "after");
        pack(&b, "'k2'");
        count_up(&b, "main", 1);
        // In the transaction that changes it, and for others before and after its end.
        assert_eq!((integer(&b, WRONG), wrong()), (0, 0));
        b.execute_batch("commit").expect("commit");
        assert_eq!((integer(&b, WRONG), wrong()), (0, 0));
    }
}

#[test]
fn an_id_rolled_back_and_used_again_means_the_new_dictionary() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for path in [Path::new(":memory:"), &directory.path().join("db")] {
        let db = open(path);
        db.execute_batch("begin").expect("begin");
        for salt in ["one", "two", "three"] {
            db.execute_batch("savepoint s").expect("savepoint");
            fill(&db, salt);
            pack(&db, "'k'");
            count_up(&db, "main", 1);
            assert_eq!(integer(&db, WRONG), 0, "{salt}");
            db.execute_batch("rollback to s").expect("rollback");
        }
        db.execute_batch("rollback").expect("rollback");
        refused(
            &db,
            "select zstd_decompress(x'00', 1, 1)",
            ERROR,
            "no dictionary 1",
        );
    }
}

#[test]
fn a_dictionary_replaced_under_a_running_statement_is_noticed() {
    let db = memory();
    fill(&db, "first");
    pack(&db, "'k'");
    count_up(&db, "main", 1);
    let read = "select zstd_decompress_col(packed.data, 1, dict, 1), plain.data from packed join \
         plain using (id) order by id";
    let mut reading = db.prepare(read).expect("prepare");
    let mut rows = reading.query([]).expect("query");
    for id in 1..=2 {
        let row = rows.next().expect("a row").expect("one more row");
        let pair: (String, String) = (row.get(0).expect("text"), row.get(1).expect("text"));
        assert_eq!(pair.0, pair.1);
        if id == 1 {
            db.execute_batch(
                "create table new as select zstd_train_dict(replace(data, 'first', 'new'), 3000, \
                   500) as dict from plain;
                 update _zstd_dicts set dict = (select dict from new) where id = 1;
                 update plain set data = replace(data, 'first', 'new');
                 update packed set data = zstd_compress_col((select data from plain where \
                   plain.id = packed.id), 19, 1, 1)",
            )
            .expect("replace");
        }
    }
}

#[test]
fn a_damaged_dictionary_is_an_error_and_a_restored_one_works() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("db");
    let db = open(&path);
    fill(&db, "damaged");
    let id = pack(&db, "'k'");
    db.execute_batch(
        "create table backup as select * from _zstd_dicts;
         update _zstd_dicts set dict = cast(substr(dict, 1, 2000) || x'00' || substr(dict, 2002) as
           blob) where id < -1",
    )
    .expect("damage");
    // This connection has seen the right one.
    assert_eq!(integer(&db, WRONG), 0);
    let other = open(&path);
    refused(
        &other,
        WRONG,
        CORRUPT,
        &format!("dictionary {id} in main._zstd_dicts is damaged"),
    );
    other
        .execute_batch("delete from _zstd_dicts where id < -1")
        .expect("delete");
    refused(&other, WRONG, ERROR, &format!("no dictionary {id}"));
    other
        .execute_batch("insert or ignore into _zstd_dicts select * from backup")
        .expect("restore");
    assert_eq!(integer(&other, WRONG), 0);
}

#[test]
fn databases_in_utf_16_hold_the_same_values() {
    let db = memory();
    db.execute_batch("pragma encoding = 'UTF-16le'")
        .expect("encoding");
    fill(&db, "ünïcode 🦀");
    pack(&db, "'k'");
    assert_eq!(integer(&db, WRONG), 0);
}
