//! Maintenance makes a used file as small as a fresh one, changes nothing in the database, and ends where it
//! is stopped.

use litepack_io::random::SplitMix64;
use litepack_testdata::titles;
use litepack_tests::commandline::{self, Place};
use litepack_tests::programs::run_litepack;
use litepack_tests::{content, vfs};
use rusqlite::{Connection, types::Value};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROWS: u64 = 30_000;

pub(crate) fn command(arguments: &[&str]) {
    commandline::succeed(arguments[0], &run_litepack(arguments));
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub(crate) fn info(path: &Path) -> serde_json::Value {
    let output = run_litepack(["info", "--json", text(path)]);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(info: &serde_json::Value, field: &str) -> u64 {
    info[field].as_u64().expect("a number")
}

pub(crate) fn maintain(connection: &Connection, arguments: &str) -> rusqlite::Result<i64> {
    let sql = format!("select litepack_maintain({arguments})");
    connection.query_row(&sql, [], |row| row.get(0))
}

/// A packed database, then changed in many small transactions.
fn used(place: &Place, journal: &str) -> PathBuf {
    let (plain, packed) = (place.path("plain.db"), place.path("packed.db"));
    let connection = vfs::open_plain(&plain).expect("it opens");
    titles::create(&connection, ROWS, 1).expect("the data is made");
    connection.close().expect("it closes");
    command(&["pack", text(&plain), text(&packed)]);
    let connection = vfs::open(&packed).expect("it opens");
    // Nothing has to be done to a fresh file.
    let commit = commit_of(&connection);
    for arguments in [
        "null, 1",
        "null, 1, null, 'main'",
        "null, 1, null, cast('main' as blob)",
    ] {
        assert_eq!(maintain(&connection, arguments).expect("nothing"), 0);
    }
    assert_eq!(commit_of(&connection), commit);
    let mode = format!("pragma journal_mode = {journal}; pragma synchronous = off");
    connection.execute_batch(&mode).expect("a journal mode");
    for round in 0..20 {
        let update = format!(
            "update title set data = json_set(data, '$.startYear', 1900 + (id * 7 + {round}) % 100)
             where id % 103 = {round} or id % 97 = {round}"
        );
        connection.execute_batch(&update).expect("changes");
        if journal == "wal" {
            let checkpoint = "pragma wal_checkpoint(truncate)";
            connection.execute_batch(checkpoint).expect("a checkpoint");
        }
    }
    connection.close().expect("it closes");
    packed
}

fn hash(connection: &Connection) -> Value {
    let sql = "select group_concat(id || data, '') from title";
    connection
        .query_row(sql, [], |row| row.get(0))
        .expect("the rows")
}

fn used_file_becomes_small_again(journal: &str) {
    let place = Place::new();
    let packed = used(&place, journal);
    let before = std::fs::metadata(&packed).expect("a file").len();
    let connection = vfs::open(&packed).expect("it opens");
    let rows = hash(&connection);
    // A little at a time, by several handles.
    let mut calls = 0;
    while maintain(&vfs::open(&packed).expect("it opens"), "0, 1").expect("a step") == 1 {
        calls += 1;
        assert!(calls < 40, "no end of planning");
        if calls > 2 {
            break;
        }
    }
    while maintain(&connection, "0.01, 0.9").expect("a step") == 1 {
        calls += 1;
        assert!(calls < 10_000, "no end");
    }
    assert!(calls > 1, "it is done in steps");
    assert_eq!(hash(&connection), rows);
    content::assert_sound(&connection, "after maintenance");
    // A second run does nothing.
    let commit = number(&info(&packed), "commit");
    assert_eq!(maintain(&connection, "null, 1").expect("nothing to do"), 0);
    connection.close().expect("it closes");
    assert_eq!(number(&info(&packed), "commit"), commit);
    let after = std::fs::metadata(&packed).expect("a file").len();
    let (plain, fresh) = (place.path("again.db"), place.path("fresh.db"));
    command(&["unpack", text(&packed), text(&plain)]);
    command(&["pack", text(&plain), text(&fresh)]);
    command(&["check", text(&packed)]);
    let fresh = std::fs::metadata(&fresh).expect("a file").len();
    println!("{journal}: {before} bytes, maintained {after}, fresh {fresh}");
    // The dictionary in use is kept unless another one saves a fiftieth, as far as samples tell, and a fiftieth may be
    // free.
    assert!(after < before && after < fresh + fresh * 4 / 100);
}

#[test]
fn a_used_file_becomes_small_again_in_delete_mode() {
    used_file_becomes_small_again("delete");
}

#[test]
fn a_used_file_becomes_small_again_in_wal_mode() {
    used_file_becomes_small_again("wal");
}

#[test]
fn pages_are_stored_again_at_a_higher_level_and_stay() {
    let place = Place::new();
    let packed = used(&place, "delete");
    let stored = |path: &Path| number(&info(path), "stored_bytes");
    let before = stored(&packed);
    command(&["maintain", "--level", "15", text(&packed)]);
    let after = stored(&packed);
    assert!(after < before - before / 20, "{before}, then {after}");
    // Pages stored at that level are left alone, and it is the file's level from now on.
    let commit = number(&info(&packed), "commit");
    command(&["maintain", text(&packed)]);
    assert_eq!(number(&info(&packed), "commit"), commit);
    let connection = vfs::open(&packed).expect("it opens");
    let change = "update title set data = data || ' ' where id = 5";
    connection.execute_batch(change).expect("a change");
    connection.close().expect("it closes");
    command(&["maintain", text(&packed)]);
    assert!(stored(&packed) < after + 1000);
    command(&["check", text(&packed)]);
}

#[test]
fn a_database_that_grew_by_itself_gets_the_dictionaries_of_a_fresh_one() {
    let place = Place::new();
    let packed = place.path("packed.db");
    let connection = vfs::open(&packed).expect("a new database");
    titles::create(&connection, ROWS, 1).expect("the data is made");
    let more = "create table other as select id, id * 7919 as n, hex(id * 104729) as h from title";
    connection.execute_batch(more).expect("another table");
    assert_eq!(maintain(&connection, "null, 1, 4").expect("done"), 0);
    connection.close().expect("it closes");
    let (plain, fresh) = (place.path("plain.db"), place.path("fresh.db"));
    command(&["unpack", text(&packed), text(&plain)]);
    // At the level of SQLite's own writes, at which the file grew.
    command(&["pack", "--fast", text(&plain), text(&fresh)]);
    let [maintained, fresh] = [&packed, &fresh].map(|path| number(&info(path), "stored_bytes"));
    assert!(
        maintained < fresh + fresh / 20,
        "maintained {maintained}, fresh {fresh}"
    );
}

/// Files that come again, in a database that grew by itself, beside a reader that stays where it is: the file gets about
/// as small as a fresh one. While what is deleted has to go, no text is stored once.
#[test]
fn text_that_comes_again_is_stored_once() {
    for journal in ["delete", "wal"] {
        let place = Place::new();
        let packed = place.path("packed.db");
        let connection = vfs::open(&packed).expect("a new database");
        let fill = format!(
            "pragma journal_mode = {journal}; create table mail(id integer primary key, data blob)"
        );
        connection.execute_batch(&fill).expect("a table");
        let mut random = SplitMix64::new(7);
        let files: Vec<Vec<u8>> = (0..40)
            .map(|_| (0..6000).map(|_| random.next_u64() as u8).collect())
            .collect();
        for mail in 0..200_usize {
            let data = [&vec![b'-'; mail % 97], &*files[mail * 7 % 40]].concat();
            let insert = "insert into mail values (null, ?)";
            connection.execute(insert, [data]).expect("a row");
        }
        let rows = |connection: &Connection| -> String {
            let sql = "select group_concat(id || hex(data), '') from mail";
            let rows = connection.query_row(sql, [], |row| row.get(0));
            rows.expect("the rows")
        };
        let content = rows(&connection);
        // So that there is something to do at once.
        let gone = "create table gone as select randomblob(4000) from mail; drop table gone";
        connection.execute_batch(gone).expect("a table that goes");
        connection
            .execute_batch("pragma wal_checkpoint(truncate)")
            .expect("a checkpoint");
        connection
            .execute_batch("pragma secure_delete = on")
            .expect("the setting");
        let before = number(&info(&packed), "file_bytes");
        assert_eq!(maintain(&connection, "null, 1, 5").expect("done"), 0);
        connection.close().expect("it closes");
        let done = info(&packed);
        assert_eq!(number(&done, "items"), 0, "{journal}");
        assert!(number(&done, "file_bytes") < before * 3 / 4, "{journal}");

        let connection = vfs::open(&packed).expect("it opens");
        let reader = vfs::open(&packed).expect("it opens");
        let begin = "begin; select * from mail limit 1";
        reader.execute_batch(begin).expect("a snapshot");
        assert_eq!(maintain(&connection, "null, 1, 5").expect("done"), 0);
        assert!(rows(&reader) == content && rows(&connection) == content);
        reader.execute_batch("commit").expect("its end");
        reader.close().expect("it closes");
        connection.close().expect("it closes");
        command(&["check", text(&packed)]);
        let (plain, fresh) = (place.path("plain.db"), place.path("fresh.db"));
        command(&["unpack", text(&packed), text(&plain)]);
        command(&["pack", text(&plain), text(&fresh)]);
        let [items, fresh_items] = [&packed, &fresh].map(|path| number(&info(path), "items"));
        let sizes = [&packed, &fresh].map(|path| path.metadata().expect("a file").len());
        assert!(
            items > 30 && sizes[0] < sizes[1] + sizes[1] / 20,
            "{journal}: {sizes:?} bytes, {items} and {fresh_items} items"
        );
        assert!(sizes[0] * 3 < plain.metadata().expect("a file").len());
    }
}

#[test]
fn what_cannot_be_maintained_is_refused_in_words() {
    let place = Place::new();
    let packed = used(&place, "delete");
    let connection = vfs::open(&packed).expect("it opens");
    let refused = |arguments: &str| {
        let error = maintain(&connection, arguments).expect_err(arguments);
        error.to_string()
    };
    assert!(refused("1, 0").contains("load"));
    assert!(refused("-1, 1").contains("seconds"));
    assert!(refused("'x', 1").contains("number"));
    assert!(refused("1, 1, 77").contains("from 1 to 19"));
    assert!(refused("1, 1, null, 'nobody'").contains("nobody"));
    connection
        .execute_batch("attach ':memory:' as m")
        .expect("");
    assert!(refused("1, 1, null, 'm'").contains("not a packed database"));
    let pragma = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    assert!(pragma("pragma litepack_maintain = often").is_err());
    // Within a transaction whose pages are in the file's buffer already.
    connection
        .execute_batch("pragma cache_size = 5; begin; update title set data = data || 'x'")
        .expect("changes");
    assert!(refused("null, 1").contains("transaction"));
    connection.execute_batch("rollback").expect("undone");
    assert_eq!(pragma("pragma litepack_maintain").expect("done"), "0");
    content::assert_sound(&connection, "after all that");
}

#[test]
fn what_is_opened_for_reading_is_not_written() {
    let place = Place::new();
    let packed = used(&place, "delete");
    let bytes = std::fs::read(&packed).expect("a file");
    for parameters in ["immutable=1", "mode=ro", "mode=ro&immutable=on"] {
        let connection = vfs::open_with(&packed, parameters).expect("it opens");
        hash(&connection);
        for sql in [
            "select litepack_maintain(null, 1)",
            "select litepack_maintain(0, 1, 9)",
            "pragma litepack_maintain",
        ] {
            let error = connection.query_row(sql, [], |_| Ok(())).expect_err(sql);
            let code = error.sqlite_error().map(|error| error.extended_code);
            assert_eq!(code, Some(8), "{parameters}, {sql}: {error}");
            assert!(error.to_string().contains("read-only"), "{error}");
        }
        let report = "select litepack_check()";
        let report = connection.query_row(report, [], |row| row.get::<_, String>(0));
        assert_eq!(report.expect("a report"), "ok");
        connection.close().expect("it closes");
        let after = std::fs::read(&packed).expect("a file");
        assert!(bytes == after, "{parameters}: it was written");
    }
    // A name with `immutable=0` is an ordinary file.
    let connection = vfs::open_with(&packed, "immutable=0").expect("it opens");
    assert_eq!(maintain(&connection, "null, 1").expect("done"), 0);
}

/// Number of the file's newest commit.
fn commit_of(connection: &Connection) -> u64 {
    let info: String = connection
        .query_row("select litepack_info()", [], |row| row.get(0))
        .expect("a report");
    number(&serde_json::from_str(&info).expect("JSON"), "commit")
}

#[test]
fn a_writer_keeps_it_waiting_and_readers_do_not() {
    let place = Place::new();
    let packed = used(&place, "delete");
    let [one, other] = [0, 1].map(|_| vfs::open(&packed).expect("it opens"));
    other.execute_batch("begin immediate").expect("a writer");
    let commit = commit_of(&one);
    assert_eq!(maintain(&one, "0.5, 1").expect("waits"), 1);
    assert_eq!(commit_of(&one), commit);
    other.execute_batch("commit; begin").expect("a reader");
    let rows = hash(&other);
    assert_eq!(maintain(&one, "null, 1").expect("done beside a reader"), 0);
    assert!(commit_of(&one) > commit);
    assert_eq!(hash(&other), rows);
    other.execute_batch("commit").expect("read");
    content::assert_sound(&other, "after both");
}

/// SQLite 3.54 refuses a lock in WAL mode as long as another process has the WAL open.
#[test]
fn another_process_that_has_the_wal_open_keeps_it_from_nothing() {
    let place = Place::new();
    let packed = used(&place, "wal");
    let mut other = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["ask", text(&packed)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut questions = other.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(other.stdout.take().expect("a pipe")).lines();
    let mut ask = move |sql: &str| {
        writeln!(questions, "{sql}").expect("it listens");
        answers.next().expect("an answer").expect("UTF-8")
    };
    let change = "update title set data = data || ' ' where id = 1 returning id";
    assert_eq!(ask(change), "first Integer(1)");
    assert_eq!(ask("pragma journal_mode"), "first Text(\"wal\")");
    let before = number(&info(&packed), "file_bytes");
    command(&["maintain", "--seconds", "100", text(&packed)]);
    assert!(number(&info(&packed), "file_bytes") < before);
    assert_eq!(
        ask("select count(*) from title"),
        format!("first Integer({ROWS})")
    );
    assert_eq!(ask(change), "first Integer(1)");
    assert_eq!(ask("pragma integrity_check"), "first Text(\"ok\")");
    drop(ask);
    assert!(other.wait().expect("it ends").success());
    command(&["check", text(&packed)]);
}

#[test]
fn the_command_gives_up_on_a_writer_that_does_not_end() {
    let place = Place::new();
    let packed = used(&place, "delete");
    let other = vfs::open(&packed).expect("it opens");
    // With the exclusive lock it cannot even read the schema.
    for (begin, why) in [
        ("begin immediate", "another connection has been writing"),
        ("begin exclusive", "in use by another program"),
    ] {
        other.execute_batch(begin).expect("a writer");
        let output = run_litepack(["maintain", text(&packed)]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{begin}: {words}");
        assert!(words.contains(why), "{begin}: {words}");
        other.execute_batch("commit").expect("it ends");
    }
    command(&["maintain", text(&packed)]);
}

/// A transaction has the exclusive lock once its changes do not fit SQLite's cache, and while it commits. Maintenance goes
/// on trying, for ten seconds, whatever time the connection has a statement wait.
#[test]
fn a_writer_with_the_exclusive_lock_is_in_the_way_for_ten_seconds() {
    let place = Place::new();
    let packed = used(&place, "delete");
    let [one, other, writer] = [0, 1, 2].map(|_| vfs::open(&packed).expect("it opens"));
    // A connection that knows the schema: without it SQLite prepares no statement.
    let rows = [&one, &other].map(hash);
    writer.execute_batch("begin exclusive").expect("a writer");
    let long = std::thread::spawn(move || {
        // Longer than tries may be apart.
        other
            .busy_timeout(Duration::from_millis(2500))
            .expect("a time");
        maintain(&other, "null, 1").expect_err("it gives up")
    });
    one.busy_timeout(Duration::ZERO).expect("a time");
    assert_eq!(maintain(&one, "0.5, 1").expect("more to do"), 1);
    let error = long.join().expect("no panic").to_string();
    assert!(
        error.contains("another connection has been writing"),
        "{error}"
    );
    writer.execute_batch("commit").expect("it ends");
    assert_eq!(maintain(&one, "null, 1").expect("done"), 0);
    assert_eq!(hash(&one), rows[0]);
    content::assert_sound(&one, "after both");
}

#[test]
fn a_small_file_is_no_larger_afterwards() {
    let place = Place::new();
    let packed = place.path("packed.db");
    let connection = vfs::open(&packed).expect("it opens");
    connection
        .execute_batch(
            "create table log(at integer primary key, line text);
             create index by_line on log(substr(line, 20))",
        )
        .expect("a table");
    for round in 0..12 {
        let insert = format!(
            "insert into log(line) with recursive n(i) as (select 1 union all select i + 1 from n where i < 400)
             select printf('2026-11-%02d %05d GET /item/%d 200 %d', {round} + 1, i, i * 7919 % 977, i * 104729 % 10007)
             from n"
        );
        connection.execute_batch(&insert).expect("rows");
        let before = number(&info(&packed), "file_bytes");
        assert_eq!(maintain(&connection, "null, 1").expect("done"), 0);
        let after = info(&packed);
        let (bytes, free) = (number(&after, "file_bytes"), number(&after, "free_bytes"));
        // Free space that is not worth moving anything.
        assert!(
            bytes <= before + (16 << 10),
            "{before} bytes became {bytes}"
        );
        assert!(
            free <= (16 << 10) + bytes / 50,
            "{free} of {bytes} bytes are free"
        );
    }
}

#[test]
fn a_checkpoint_keeps_it_waiting() {
    let place = Place::new();
    let packed = used(&place, "wal");
    let [one, reader, checkpointer] = [0, 1, 2].map(|_| vfs::open(&packed).expect("it opens"));
    // The reader holds a full checkpoint back, which waits for it with its lock.
    reader.execute_batch("begin").expect("a transaction");
    let rows = hash(&reader);
    let change = "update title set data = data || ' ' where id < 100";
    one.execute_batch(change).expect("changes");
    checkpointer
        .busy_timeout(Duration::from_secs(120))
        .expect("a time");
    let waiting = std::thread::spawn(move || {
        let sql = "pragma wal_checkpoint(full)";
        checkpointer.query_row(sql, [], |row| row.get::<_, i64>(0))
    });
    // It has its lock when another is refused.
    let began = Instant::now();
    let probe = vfs::open(&packed).expect("it opens");
    let is_busy = || {
        probe.query_row("pragma wal_checkpoint(passive)", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    while is_busy().expect("an answer") == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint");
        std::thread::sleep(Duration::from_millis(100));
    }
    let commit = commit_of(&one);
    assert_eq!(maintain(&one, "1, 1").expect("waits"), 1);
    assert!(!waiting.is_finished(), "the checkpoint did not wait");
    assert_eq!(commit_of(&one), commit);
    assert_eq!(hash(&reader), rows);
    reader.execute_batch("commit").expect("read");
    let busy = waiting.join().expect("no panic").expect("a checkpoint");
    assert_eq!(busy, 0);
    assert_eq!(maintain(&one, "null, 1").expect("done"), 0);
    assert!(commit_of(&one) > commit);
    content::assert_sound(&one, "after both");
}

/// One adds dictionaries, and the other drops those that no page has yet.
#[test]
fn one_that_another_overtakes_decides_again() {
    let place = Place::new();
    let packed = place.path("packed.db");
    let [slow, fast] = [0, 1].map(|_| vfs::open(&packed).expect("it opens"));
    titles::create(&slow, ROWS, 1).expect("the data is made");
    let more = "create table other as select id, id * 7919 as n, hex(id * 104729) as h from title;
                create table third as select hex(id * 1299709) as h, id * 31 as n from title";
    slow.execute_batch(more).expect("other tables");
    let rows = hash(&slow);
    // It looks, and then adds its dictionaries and begins to use the first of them.
    assert_eq!(maintain(&slow, "0, 1").expect("a look"), 1);
    maintain(&slow, "0, 1").expect("a step, which is all on a fast machine");
    assert_eq!(maintain(&fast, "null, 1, 9").expect("to the end"), 0);
    let mut steps = 0;
    while maintain(&slow, "0, 1").expect("a step") == 1 {
        steps += 1;
        assert!(steps < 2000, "no end");
    }
    assert_eq!(hash(&slow), rows);
    content::assert_sound(&slow, "after both");
    slow.close().expect("it closes");
    command(&["check", text(&packed)]);
}

/// Sentences of some thousand words, and in another table the beginnings of some of them, which is too small for a
/// dictionary of its own. With so many rows in each transaction: many small ones store the first pages before the file has
/// a dictionary, and a large one gives it to all.
fn sentences(path: &Path, rows: u64, together: u64) {
    let mut random = SplitMix64::new(4);
    let word = |random: &mut SplitMix64| -> String {
        let letters = 2 + random.below(8);
        let letter = |_| char::from(b'a' + random.below(26) as u8);
        (0..letters).map(letter).collect()
    };
    let words: Vec<String> = (0..3000).map(|_| word(&mut random)).collect();
    let mut connection = vfs::open(path).expect("it opens");
    connection
        .execute_batch(
            "pragma synchronous = off;
             create table text(id integer primary key, body text);
             create table beginning(id integer primary key, body text)",
        )
        .expect("tables");
    for first in (0..rows).step_by(together as usize) {
        let transaction = connection.transaction().expect("a transaction");
        for id in first..rows.min(first + together) {
            let len = 10 + random.below(50);
            let words = (0..len).map(|_| &*words[random.below(3000) as usize]);
            let body = words.collect::<Vec<_>>().join(" ");
            transaction
                .execute("insert into text values (?1, ?2)", (id as i64, &body))
                .expect("a row");
            let insert = "insert into beginning values (?1, ?2)";
            let beginning = &body[..body.len().min(60)];
            transaction
                .execute(insert, (id as i64, beginning))
                .expect("a row");
        }
        transaction.commit().expect("a commit");
    }
    connection.close().expect("it closes");
}

/// Pages keep what they were given by maintenance, and small tables lose no dictionary by it.
#[test]
fn vacuum_after_maintenance_is_no_larger_than_without() {
    for together in [100, 6000] {
        let place = Place::new();
        let [with, without] = ["with.db", "without.db"].map(|name| place.path(name));
        sentences(&without, 6000, together);
        std::fs::copy(&without, &with).expect("a copy");
        let bytes = |path: &Path| std::fs::metadata(path).expect("a file").len();
        let before = bytes(&with);
        command(&["maintain", text(&with)]);
        let maintained = bytes(&with);
        for path in [&with, &without] {
            let connection = vfs::open(path).expect("it opens");
            connection.execute_batch("vacuum").expect("it is vacuumed");
            content::assert_sound(&connection, "after both");
        }
        let (after, plain) = (bytes(&with), bytes(&without));
        println!(
            "{together} together: {before} bytes, maintained {maintained}, vacuumed {after}, only vacuumed {plain}"
        );
        assert!(maintained <= before, "{before}, {maintained}");
        assert!(after <= plain, "{after}, {plain}");
        let info = info(&with);
        let bare = info["codecs"]["columnar"]["units"].as_u64();
        assert!(bare.unwrap_or(0) < 5, "{info}");
    }
}

/// A file that maintenance would not make shorter is left alone, and that is said.
#[test]
fn no_file_is_larger_after_maintenance() {
    let mut left = 0;
    for rows in [0, 3, 30, 150, 500, 1200, 2500, 5000] {
        let place = Place::new();
        let packed = place.path("packed.db");
        sentences(&packed, rows, 100);
        let before = std::fs::read(&packed).expect("a file");
        let output = run_litepack(["maintain", text(&packed)]);
        commandline::succeed("maintain", &output);
        let after = std::fs::read(&packed).expect("a file");
        println!("{rows} rows: {} bytes, then {}", before.len(), after.len());
        assert!(after.len() <= before.len(), "{rows} rows");
        let words = String::from_utf8_lossy(&output.stderr);
        let says_so = words.contains("nothing to do");
        assert_eq!(says_so, before == after, "{rows} rows: {words}");
        left += u64::from(says_so);
        // And again.
        let output = run_litepack(["maintain", text(&packed)]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.contains("nothing to do"), "{rows} rows: {words}");
        assert!(std::fs::read(&packed).expect("a file") == after);
        command(&["check", text(&packed)]);
    }
    assert!((1..8).contains(&left), "{left} left alone");
}
