//! Maintenance gives back the space of SQLite's free pages, and only where no journal, reader or log can need them, and
//! the list of free pages is beyond doubt.

use crate::maintenance::{command, info, maintain, text};
use litepack_tests::commandline::Place;
use litepack_tests::{content, vfs};
use rusqlite::Connection;
use std::path::Path;

const ROWS: i64 = 8_000;

/// A table of random text, and another one of a few rows.
fn fill(connection: &Connection, settings: &str) {
    let rows = |table: &str, rows: i64, bytes: i64| {
        format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
             insert into {table} select i, hex(randomblob({bytes})) from n;"
        )
    };
    let sql = format!(
        "{settings};
         create table event(id integer primary key, body text);
         create table kept(id integer primary key, body text);
         {} {}",
        rows("kept", 500, 40),
        rows("event", ROWS, 150)
    );
    connection.execute_batch(&sql).expect("tables");
}

fn len(path: &Path) -> u64 {
    std::fs::metadata(path).expect("a file").len()
}

fn maintain_all(connection: &Connection) {
    while maintain(connection, "10, 1").expect("maintenance") == 1 {}
}

/// The bytes that free pages take.
fn free_pages_len(path: &Path) -> u64 {
    let codecs = &info(path)["other_pages"]["free_pages"]["codecs"];
    let codecs = codecs.as_object().into_iter().flatten();
    codecs.filter_map(|(_, bytes)| bytes.as_u64()).sum()
}

/// The bytes of a fresh file of the same rows.
fn fresh(place: &Place, connection: &Connection) -> u64 {
    let path = place.path("fresh.db");
    let sql = format!("vacuum into '{}'", vfs::uri(&path, vfs::under_test(), ""));
    connection.execute_batch(&sql).expect("a copy");
    let fresh = len(&path);
    std::fs::remove_file(&path).expect("it is removed");
    fresh
}

#[test]
fn deleted_rows_take_no_space_after_maintenance() {
    for (journal, secure, page_size, vacuum) in [
        ("delete", "off", 4096, "none"),
        ("wal", "off", 4096, "none"),
        ("wal", "fast", 1024, "none"),
        ("delete", "on", 65536, "incremental"),
        ("persist", "off", 512, "full"),
    ] {
        let what = format!("{journal}, secure_delete {secure}, {page_size}, {vacuum}");
        let place = Place::new();
        let path = place.path("a.db");
        let settings = format!(
            "pragma page_size = {page_size}; pragma auto_vacuum = {vacuum};
             pragma journal_mode = {journal}; pragma secure_delete = {secure}"
        );
        let connection = vfs::open(&path).expect("it opens");
        fill(&connection, &settings);
        connection
            .execute_batch("delete from event where id between 500 and 7300")
            .expect("deleted");
        connection
            .execute_batch("pragma wal_checkpoint(truncate)")
            .expect("a checkpoint");
        let rows = content::fingerprint(&connection).expect("rows");
        let before = len(&path);
        maintain_all(&connection);
        let (after, kept) = (len(&path), free_pages_len(&path));
        let fresh = fresh(&place, &connection);
        println!("{what}: {before} bytes, maintained {after}, fresh {fresh}");
        // Free pages that share a unit with others stay, and so do the pages that name them. Of free space of the file as
        // much is left as is not worth a compaction.
        assert!(
            kept <= fresh / 8 && after - kept <= fresh + fresh / 16 + 16384,
            "{what}: {before}, {after} with {kept} of free pages, {fresh}"
        );
        assert_eq!(
            content::fingerprint(&connection).expect("rows"),
            rows,
            "{what}"
        );
        content::assert_sound(&connection, &what);
        // The pages are used again, and given back by SQLite's own means.
        connection
            .execute_batch("insert into event(body) select hex(randomblob(700)) from kept")
            .expect("rows");
        content::assert_sound(&connection, &what);
        connection
            .execute_batch("savepoint s; delete from event; rollback to s; release s; delete from event where id % 2")
            .expect("deleted");
        maintain_all(&connection);
        connection
            .execute_batch("pragma incremental_vacuum; pragma wal_checkpoint(truncate); vacuum")
            .expect("vacuum");
        content::assert_sound(&connection, &what);
        connection.close().expect("it closes");
        command(&["check", text(&path)]);
    }
}

/// SQLite does not journal a page that it frees: a transaction in a journal by name may still be rolled back.
#[test]
fn a_journal_on_disk_keeps_free_pages() {
    let place = Place::new();
    let path = place.path("a.db");
    let connection = vfs::open(&path).expect("it opens");
    fill(&connection, "pragma secure_delete = off");
    connection
        .execute_batch("delete from event")
        .expect("deleted");
    let journal = place.path("a.db-lpjourn");
    // One that is not hot, as after a commit in PERSIST mode: SQLite leaves it where it is.
    std::fs::write(&journal, [0; 512]).expect("a journal");
    let before = len(&path);
    maintain_all(&connection);
    let kept = len(&path);
    assert!(kept > before / 2, "{before} bytes, and {kept}");
    std::fs::remove_file(&journal).expect("it is removed");
    connection
        .execute_batch("delete from kept where id = 1")
        .expect("a commit");
    maintain_all(&connection);
    assert!(len(&path) < kept / 4, "{kept} bytes, and {}", len(&path));
}

/// A reader at a former state reads the freed pages from the database, where the log has no newer ones of them.
#[test]
fn a_reader_of_a_former_state_keeps_free_pages() {
    let place = Place::new();
    let path = place.path("a.db");
    let connection = vfs::open(&path).expect("it opens");
    fill(
        &connection,
        "pragma journal_mode = wal; pragma secure_delete = off",
    );
    connection
        .execute_batch("pragma wal_checkpoint(truncate)")
        .expect("a checkpoint");
    let reader = vfs::open(&path).expect("it opens");
    let rows = |of: &Connection| -> (i64, f64) {
        let sql = "select count(*), total(length(body)) from event";
        of.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("rows")
    };
    reader
        .execute_batch("begin; pragma cache_size = 10; select 1 from sqlite_schema")
        .expect("a transaction");
    let former = rows(&reader);
    assert_eq!(former.0, ROWS);
    connection
        .execute_batch("delete from event")
        .expect("deleted");
    let before = len(&path);
    for checkpoint in ["passive", "full", "restart"] {
        let _busy = connection.execute_batch(&format!("pragma wal_checkpoint({checkpoint})"));
        maintain_all(&connection);
        assert_eq!(rows(&reader), former, "after {checkpoint}");
        assert_eq!(rows(&connection).0, 0);
    }
    assert!(len(&path) > before / 2);
    // Now the reader sees the rows gone, and keeps a later change out of the database. While that is so, page 1 may be of
    // another state than the list that it names.
    reader
        .execute_batch("commit; begin; select 1 from sqlite_schema")
        .expect("a transaction");
    connection
        .execute_batch("delete from kept where id = 1; pragma wal_checkpoint(passive)")
        .expect("a checkpoint");
    maintain_all(&connection);
    assert!(
        len(&path) > before / 2,
        "the log is not all in the database"
    );
    assert_eq!(rows(&reader).0, 0);
    reader.execute_batch("commit").expect("it ends");
    connection
        .execute_batch("pragma wal_checkpoint(passive)")
        .expect("a checkpoint");
    maintain_all(&connection);
    assert!(
        len(&path) < before / 4,
        "{before} bytes, and {}",
        len(&path)
    );
    assert_eq!(rows(&reader).0, 0);
    content::assert_sound(&reader, "after all");
}

/// A file that SQLite can still read must not get worse.
#[test]
fn a_list_that_is_in_doubt_is_left_alone() {
    let place = Place::new();
    let plain = place.path("plain.db");
    let connection = vfs::open_plain(&plain).expect("it opens");
    fill(&connection, "pragma secure_delete = off");
    connection
        .execute_batch("delete from event where id > 1000")
        .expect("deleted");
    connection.close().expect("it closes");
    let sound = std::fs::read(&plain).expect("a file");
    let word = |at: usize| u32::from_be_bytes(sound[at..at + 4].try_into().expect("four bytes"));
    let trunk = (word(32) as usize - 1) * 4096;
    // The last page of a table that is in use.
    let used = {
        let connection = vfs::open_plain(&plain).expect("it opens");
        let sql = "select rootpage from sqlite_schema where name = 'kept'";
        let root: u32 = connection
            .query_row(sql, [], |row| row.get(0))
            .expect("a page");
        root
    };
    let change = |at: usize, value: u32| {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        bytes
    };
    let doubtful = [
        ("a page that is in use", change(trunk + 8, used)),
        ("a page twice", change(trunk + 8, word(trunk + 12))),
        ("a count too low", change(36, word(36) - 1)),
        ("a count too high", change(36, word(36) + 1)),
        ("a trunk twice", change(trunk, word(32))),
    ];
    let packed_len = |bytes: &[u8], name: &str| {
        let (plain, packed) = (
            place.path(&format!("{name}.db")),
            place.path(&format!("{name}.lp")),
        );
        std::fs::write(&plain, bytes).expect("a file");
        command(&["pack", text(&plain), text(&packed)]);
        // Something that maintenance has to look at.
        let connection = vfs::open(&packed).expect("it opens");
        connection
            .execute_batch("pragma user_version = 7")
            .expect("a commit");
        let rows = content::fingerprint(&connection).expect("rows");
        maintain_all(&connection);
        assert_eq!(
            content::fingerprint(&connection).expect("rows"),
            rows,
            "{name}"
        );
        connection.close().expect("it closes");
        command(&["check", text(&packed)]);
        len(&packed)
    };
    let dropped = packed_len(&sound, "sound");
    for (why, bytes) in doubtful {
        let kept = packed_len(&bytes, &why.replace(' ', "_"));
        assert!(
            kept > 4 * dropped,
            "{why}: {kept}, and {dropped} of a sound list"
        );
    }
}

/// A copy of all pages has the rows; free pages in it are as they were, or zeros.
#[test]
fn copies_of_all_pages_have_the_rows() {
    let place = Place::new();
    let path = place.path("a.db");
    let mut connection = vfs::open(&path).expect("it opens");
    fill(&connection, "pragma secure_delete = off");
    connection
        .execute_batch("delete from event where id % 40 <> 7")
        .expect("deleted");
    connection
        .execute_batch("delete from event where id > 3000")
        .expect("deleted");
    let rows = content::fingerprint(&connection).expect("rows");
    let mut copy = Connection::open_in_memory().expect("a database");
    {
        let backup = rusqlite::backup::Backup::new(&connection, &mut copy).expect("a backup");
        let mut dropped = false;
        loop {
            use rusqlite::backup::StepResult;
            match backup.step(40).expect("a step") {
                StepResult::Done => break,
                _ if dropped => {}
                _ => {
                    let before = len(&path);
                    let other = vfs::open(&path).expect("it opens");
                    maintain_all(&other);
                    assert!(
                        len(&path) < before / 2,
                        "{before} bytes, and {}",
                        len(&path)
                    );
                    dropped = true;
                }
            }
        }
        assert!(dropped);
    }
    content::assert_sound(&copy, "a backup");
    assert_eq!(content::fingerprint(&copy).expect("rows"), rows);
    let bytes = connection.serialize("main").expect("it is serialised");
    let plain = place.path("plain.db");
    std::fs::write(&plain, &*bytes).expect("a file");
    let plain = vfs::open_plain(&plain).expect("it opens");
    content::assert_sound(&plain, "serialised");
    assert_eq!(content::fingerprint(&plain).expect("rows"), rows);
}
