//! An interrupt ends whatever takes long, as it ends SQLite's own work; and one call of a function that a schema may call
//! takes so much and no more. `tests/e2e/interrupts.py` does the same in a SQLite before 3.41, and by a progress handler.

use litepack_tests::commandline::Place;
use litepack_tests::vfs;
use rusqlite::{Connection, ErrorCode, Result};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// A try is too late where the machine is busy, or so fast that the statement has come to its end: the next comes sooner.
const TRIES: u32 = 8;
/// Litepack asks no more often than every 10 ms. A check takes some times as long.
const CHECKED: Duration = Duration::from_millis(40);
/// Of a statement that takes less than this, the time says nothing.
const SHORT: Duration = Duration::from_millis(100);

/// A packed database that takes some time to read, however fast the machine is.
fn packed(place: &Place) -> Connection {
    let db = vfs::open(&place.path("packed.db")).expect("it opens");
    db.execute_batch(
        "pragma synchronous = off; create table t(id integer primary key, d text); begin;
         insert into t with recursive n(i) as (select 1 union all select i + 1 from n limit 300000)
           select i, json_object('id', i, 'n', hex(i * 7919 % 1000003), 'k', i % 97, 'z', hex(randomblob(40))) from n;
         commit",
    )
    .expect("it is filled");
    let check = || time_of(&db, "select litepack_check()");
    while (0..3).map(|_| check()).min() < Some(CHECKED) {
        let double = "insert into t select id + (select max(id) from t), d from t";
        db.execute_batch(double).expect("more of it");
    }
    db
}

fn time_of(db: &Connection, sql: &str) -> Duration {
    let begun = Instant::now();
    ask(db, sql).expect(sql);
    begun.elapsed()
}

/// Runs a query that is interrupted after some time, and from then on again and again: SQLite forgets an interrupt that
/// comes while no statement runs. How long it took.
fn interrupted(db: &Connection, sql: &str, after: Duration) -> (Result<String>, Duration) {
    let handle = db.get_interrupt_handle();
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let begun = Instant::now();
        scope.spawn(move || {
            let mut wait = after;
            while is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                handle.interrupt();
                wait = Duration::from_millis(1);
            }
        });
        let answer = ask(db, sql);
        let took = begun.elapsed();
        drop(over);
        (answer, took)
    })
}

fn ask(db: &Connection, sql: &str) -> Result<String> {
    db.query_row(sql, [], |row| {
        let value: rusqlite::types::Value = row.get(0)?;
        Ok(format!("{value:?}"))
    })
}

/// A statement ends with an error before three quarters of the time that it takes by itself, which it may need another
/// one before it to take again.
fn expect_interrupted(db: &Connection, sql: &str, before: Option<&str>) {
    let prepare = || before.map(|before| ask(db, before).expect(before));
    prepare();
    let whole = time_of(db, sql);
    let mut said = Vec::new();
    for number in 1..=TRIES {
        prepare();
        // The last from the beginning.
        let after = if number < TRIES {
            whole / 4 / (1 << (number - 1))
        } else {
            Duration::ZERO
        };
        let (answer, took) = interrupted(db, sql, after);
        if let Err(error) = &answer {
            let code = error.sqlite_error_code();
            assert_eq!(
                code,
                Some(ErrorCode::OperationInterrupted),
                "{sql}: {error}"
            );
            if took < whole * 3 / 4 || whole < SHORT {
                return;
            }
        }
        said.push((after, took, answer));
    }
    panic!("{sql} takes {whole:?} by itself: {said:?}");
}

#[test]
fn whatever_takes_long_ends_when_it_is_interrupted() {
    let place = Place::new();
    let db = packed(&place);
    let samples = "create temp table s as with recursive n(i) as (select 1 union all select i + 1 from n limit 60)
                     select hex(randomblob(60000)) as d from n";
    db.execute_batch(samples).expect("samples");
    // Each stores all anew after the other, and nothing after itself.
    let maintained = [
        "select litepack_maintain(null, 1, 9)",
        "pragma litepack_maintain",
    ];
    for (sql, before) in [
        ("select litepack_check()", None),
        ("pragma litepack_check", None),
        (maintained[0], Some(maintained[1])),
        (maintained[1], Some(maintained[0])),
        (
            "select length(zstd_train_dict(d, 1000000, 1000000)) from s",
            None,
        ),
        ("select length(zstd_compress(zeroblob(60000000), 22))", None),
    ] {
        expect_interrupted(&db, sql, before);
        // It is over with the statement.
        assert_eq!(
            ask(&db, "select 7").expect("the next statement"),
            "Integer(7)"
        );
        assert!(db.is_autocommit());
    }
    assert_eq!(
        ask(&db, "select litepack_check()").expect("sound"),
        "Text(\"ok\")"
    );
    assert_eq!(
        ask(&db, "pragma litepack_check").expect("sound"),
        "Text(\"ok\")"
    );
}

/// To hear an interrupt takes a statement, and the first one loads the schema from the file that the pragma keeps busy.
#[test]
fn a_pragma_that_comes_first_waits_for_nothing() {
    let place = Place::new();
    let path = place.path("small.db");
    // The schema takes more than the first page, which SQLite reads when it opens the file.
    let columns: String = (0..400).map(|n| format!(", c{n}")).collect();
    let tables: String = (0..20)
        .map(|n| format!("create table t{n}(id integer primary key{columns});"))
        .collect();
    vfs::open(&path)
        .and_then(|db| db.execute_batch(&tables))
        .expect("it is made");
    let expect_no_wait = |may_fail: bool| {
        static WAITS: AtomicU32 = AtomicU32::new(0);
        for pragma in ["info", "check", "maintain = 0", "split = '3 2'"] {
            let mut db = vfs::open(&path).expect("it opens");
            let waits = |times| {
                WAITS.fetch_add(1, Ordering::SeqCst);
                times < 3
            };
            db.busy_handler(Some(waits)).expect("it is set");
            let answer = ask(&db, &format!("pragma litepack_{pragma}"));
            assert!(may_fail || answer.is_ok(), "{pragma}: {answer:?}");
            assert_eq!(WAITS.load(Ordering::SeqCst), 0, "{pragma}: {answer:?}");
        }
    };
    expect_no_wait(false);
    // Nor where the schema cannot be loaded.
    let whole = std::fs::read(&path).expect("it is read");
    let has_lost_its_schema = (2048..whole.len() - 100).step_by(100).any(|at| {
        let mut bytes = whole.clone();
        bytes[at..][..100].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, bytes).expect("it is written");
        vfs::open(&path).is_ok_and(|db| ask(&db, "select count(*) from sqlite_schema").is_err())
    });
    assert!(has_lost_its_schema, "this shows nothing");
    expect_no_wait(true);
}

#[test]
fn an_interrupt_of_another_connection_is_not_heard() {
    let place = Place::new();
    let (db, other) = (
        packed(&place),
        Connection::open_in_memory().expect("another"),
    );
    let (handle, ended) = (other.get_interrupt_handle(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                handle.interrupt();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let answers = ["select litepack_check()", "pragma litepack_check"].map(|sql| ask(&db, sql));
        ended.store(true, Ordering::Relaxed);
        for answer in answers {
            assert_eq!(answer.expect("not interrupted"), "Text(\"ok\")");
        }
    });
}

/// A plain database with a stranger's schema.
fn hostile(place: &Place, schema: &str) -> Connection {
    let path = place.path("hostile.db");
    if path.exists() {
        std::fs::remove_file(&path).expect("it goes");
    }
    let author = vfs::open_plain(&path).expect("it opens");
    author.execute_batch(schema).expect(schema);
    author.close().expect("it closes");
    vfs::open_plain(&path).expect("it opens")
}

#[test]
fn what_a_schema_calls_is_bounded() {
    let place = Place::new();
    let slow = "zstd_compress(hex(randomblob(30000000)), 22)";
    let bomb = "create table b as select zstd_compress(zeroblob(300000000)) as z;";
    let cases = [
        ("create view v as select length(zstd_compress(zeroblob(900000000), 22)) as n".into(), "select n from v"),
        (format!("create view v as select length({slow}) as n"), "select n from v"),
        (format!("{bomb} create view v as select length(\"zstd_decompress\"(z, 0)) as n from b"), "select n from v"),
        (format!("{bomb} create view v as select length(zstd_decompress_col(z, 0, -1, 0)) as n from b"), "select n from v"),
        (
            "create table t(a, b as (length(zstd_compress_col(zeroblob(a), 22, -1, 1)))); insert into t(a) values(9)".into(),
            "update t set a = 900000000 returning b",
        ),
        (
            format!(
                "create table t(a); create table u(a);
                 create trigger r after insert on t begin insert into u values({slow}); end"
            ),
            "insert into t values(1) returning a",
        ),
        (format!("create table t(a, b default ({slow}))"), "insert into t(a) values(1) returning length(b)"),
        ("create table t(a); create index i on t(zstd_compress(zeroblob(a), 22))".into(), "insert into t values(900000000) returning a"),
        ("create table t(a check(length([Zstd_Compress](zeroblob(a), 22)) > 0))".into(), "insert into t values(900000000) returning a"),
    ];
    for (schema, sql) in &cases {
        for trusted in ["off", "on"] {
            let db = hostile(&place, schema);
            let setting = format!("pragma trusted_schema = {trusted}");
            db.execute_batch(&setting).expect("a setting");
            let begun = Instant::now();
            let error = ask(&db, sql).expect_err(schema).to_string();
            assert!(error.contains("litepack_unbounded(1)"), "{schema}: {error}");
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{schema}: {:?}",
                begun.elapsed()
            );
        }
    }
}

/// A chooser is SQL in a table of the file, and no schema names what it calls.
#[test]
fn what_a_chooser_calls_is_bounded() {
    let place = Place::new();
    let slow = "length(zstd_compress(hex(randomblob(30000000)), 22))";
    for chooser in ["length(zstd_compress(zeroblob(300000000), 22))", slow] {
        let db = hostile(
            &place,
            "create table t(id integer primary key, d text);
             insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 200)
               select i, 'a value like others, number ' || i from n",
        );
        let config = format!(
            r#"{{"table":"t","column":"d","compression_level":3,"dict_chooser":"'a'||{chooser}"}}"#
        );
        let enable = format!(
            "select zstd_enable_transparent('{}')",
            config.replace('\'', "''")
        );
        let work = "select zstd_incremental_maintenance(null, 1)";
        let begun = Instant::now();
        let error = ask(&db, &enable).and_then(|_| ask(&db, work));
        let error = error.expect_err(chooser).to_string();
        assert!(
            error.contains("litepack_unbounded(1)"),
            "{chooser}: {error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn what_the_application_calls_is_not_bounded() {
    let place = Place::new();
    let typed = "select length(zstd_decompress(zstd_compress(zeroblob(70000000), 1), 0))";
    // Other functions of its schema are no reason, nor is what the application has made in `temp`.
    let db = hostile(
        &place,
        "create view v as select zstd_compress_col(1, 2, 3, 4), zstd_decompress_col(1, 2, 3, 4)",
    );
    db.execute_batch("create temp view w as select zstd_compress(1)")
        .expect("a view");
    assert_eq!(ask(&db, typed).expect("typed"), "Integer(70000000)");
    let db = hostile(
        &place,
        "create view v as select zstd_compress(x'00'), zstd_decompress(x'00', 0)",
    );
    let error = ask(&db, typed).expect_err("it may be the schema's");
    assert_eq!(
        error.sqlite_error_code(),
        Some(ErrorCode::TooBig),
        "{error}"
    );
    assert_eq!(
        ask(&db, "select litepack_unbounded()").expect("asked"),
        "Integer(0)"
    );
    assert_eq!(
        ask(&db, "select litepack_unbounded(1)").expect("lifted"),
        "Integer(1)"
    );
    assert_eq!(ask(&db, typed).expect("lifted"), "Integer(70000000)");
    assert_eq!(
        ask(&db, "select litepack_unbounded(0)").expect("restored"),
        "Integer(0)"
    );
    assert!(ask(&db, typed).is_err());
    assert!(ask(&db, "select litepack_unbounded(2)").is_err());
    // A schema cannot lift it.
    let db = hostile(&place, "create view v as select litepack_unbounded(1) as n");
    assert!(ask(&db, "select n from v").is_err());
}
