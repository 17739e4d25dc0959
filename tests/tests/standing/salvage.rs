//! Rot of a database whose log stands on it: SQLite's recovery fails, and `litepack salvage` gives out all that does not
//! stand on the page that rotted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use litepack::{Job, Key, SalvageOptions, Salvaged};
use litepack_tests::commandline::{Place, read_elsewhere};
use litepack_tests::{content, vfs};
use rusqlite::Connection;

const ROWS: u32 = 3000;
/// Before this place are header and records, of which each has a copy.
const BEHIND_RECORDS: usize = 16_384;
/// Places where a bit rots, one after the other.
const PLACES: usize = 40;

type Rows = BTreeMap<i64, String>;

fn rows(db: &Connection) -> rusqlite::Result<Rows> {
    let mut rows = db.prepare("select k, v from t not indexed")?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn run(db: &Connection, sql: &str) {
    db.execute_batch(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn open(path: &Path, key: Option<&Arc<Key>>) -> rusqlite::Result<Connection> {
    litepack_sqlite::let_logs_stand_from(1);
    let parameters = match key {
        Some(_) => format!("hexkey={}", "07".repeat(32)),
        None => String::new(),
    };
    let db = vfs::open_with(path, &parameters)?;
    db.execute_batch("pragma wal_autocheckpoint = 0; pragma cache_size = 50")?;
    Ok(db)
}

/// A database whose log has a change of most of its pages, which it stores as changes to them.
fn standing(path: &Path, key: Option<&Arc<Key>>) -> Connection {
    let db = open(path, key).expect("it opens");
    run(
        &db,
        &format!(
            "pragma journal_mode = wal; create table t(k integer primary key, v text); create index i on t(v);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
               insert into t select i, hex(randomblob(60)) || i from n;
             pragma wal_checkpoint;
             update t set v = substr(v, 1, 100) || 'now' || substr(v, 104) where k % 7 = 1;
             insert into t values(9999, 'one more')"
        ),
    );
    db
}

/// The two files.
fn files(path: &Path) -> [Vec<u8>; 2] {
    let log = path.with_extension("db-lpw");
    let files = [path.to_owned(), log].map(|path| read_elsewhere(&path));
    assert!(
        litepack_tests::logs::stands(&files[1]),
        "the log stands on nothing"
    );
    files
}

fn put([main, log]: [&[u8]; 2]) -> Place {
    let place = Place::new();
    std::fs::write(place.path("a.db"), main).expect("writable");
    std::fs::write(place.path("a.db-lpw"), log).expect("writable");
    place
}

fn salvage(
    place: &Place,
    from: &[&Path],
    key: Option<&Arc<Key>>,
) -> litepack::Result<(Salvaged, Rows)> {
    let options = SalvageOptions {
        replace: true,
        from: from.iter().map(|path| path.to_path_buf()).collect(),
    };
    let saved = place.path("saved.db");
    let job = match key {
        Some(key) => Job::default().with_key(key),
        None => Job::default(),
    };
    let found = litepack::salvage(place.path("a.db"), &saved, &options, &job)?;
    let db = vfs::open_plain(&saved).expect("it opens");
    content::assert_sound(&db, "what was saved");
    Ok((found, rows(&db).expect("rows")))
}

/// What is left is right, and what is not is named.
fn expect_all_but_the_lost(found: &Salvaged, left: &Rows, all: &Rows, at: usize) {
    for (k, v) in left {
        assert!(all.get(k) == Some(v), "byte {at}: row {k} is another one");
    }
    let named = found.tables.iter().find(|lost| lost.table == "t");
    let ranges = named.map_or(&[][..], |lost| &lost.rowids);
    let is_named = |k: i64| {
        let is_in = |(after, to): &(Option<i64>, Option<i64>)| {
            after.is_none_or(|after| k > after) && to.is_none_or(|to| k <= to)
        };
        ranges.iter().any(is_in)
    };
    for k in all.keys().filter(|k| !left.contains_key(k)) {
        assert!(is_named(*k), "byte {at}: row {k} is not named: {found:?}");
    }
    assert_eq!(found.damage.is_empty(), found.is_whole(), "{found:?}");
}

fn places(len: usize) -> impl Iterator<Item = usize> {
    (BEHIND_RECORDS..len).step_by((len - BEHIND_RECORDS) / PLACES)
}

#[test]
fn one_bit_costs_the_page_that_it_is_in_and_no_more() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let raw = Arc::new(Key::raw(&[7; 32]).expect("a key"));
    for key in [None, Some(&raw)] {
        let place = Place::new();
        let path = place.path("a.db");
        let db = standing(&path, key);
        let all = rows(&db).expect("rows");
        let [main, log] = files(&path);
        let good = place.path("good.db");
        std::fs::write(&good, &main).expect("writable");
        let (mut locked_out, mut cheap, mut refused) = (0, 0, 0);
        for at in places(main.len()) {
            let mut rotten = main.clone();
            rotten[at] ^= 1;
            let copy = put([&rotten, &log]);
            let opened = open(&copy.path("a.db"), key).and_then(|db| rows(&db));
            let is_locked_out = opened.is_err();
            let copy = put([&rotten, &log]);
            match salvage(&copy, &[], key) {
                Ok((found, left)) => {
                    expect_all_but_the_lost(&found, &left, &all, at);
                    let is_cheap = is_locked_out && (1..4).contains(&found.lost_pages);
                    cheap += usize::from(is_cheap);
                }
                // Its first page is lost, or all that leads to pages.
                Err(error) => {
                    assert!(error.to_string().contains("a.db"), "{at}: {error}");
                    refused += 1;
                }
            }
            let (found, left) = salvage(&copy, &[&good], key).expect("nothing is lost");
            assert!(found.is_whole() && left == all, "byte {at}: {found:?}");
            assert!(read_elsewhere(&copy.path("a.db")) == rotten, "{at}");
            assert!(read_elsewhere(&copy.path("a.db-lpw")) == log, "{at}");
            locked_out += usize::from(is_locked_out);
        }
        assert!(
            locked_out > 10 && cheap > 10 && refused < 4,
            "{locked_out} {cheap} {refused}"
        );
        drop(db);
    }
}

/// The index of the WAL is there then, and SQLite reads no frame that it need not read.
#[test]
fn so_it_does_while_others_have_the_database_open() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let db = standing(&path, None);
    let all = rows(&db).expect("rows");
    let [main, _] = files(&path);
    let good = place.path("good.db");
    std::fs::write(&good, &main).expect("writable");
    // By another process, as closing the file in this one takes the connection's locks away.
    let rot = |at: usize, byte: u8| {
        let at = at.to_string();
        let script = format!("printf '\\{byte:03o}' | dd of=\"$0\" bs=1 seek={at} conv=notrunc");
        let done = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(&path)
            .output();
        assert!(done.expect("a shell").status.success());
    };
    let (mut of_log, mut refused) = (0, 0);
    for at in places(main.len()) {
        rot(at, main[at] ^ 1);
        match salvage(&place, &[], None) {
            Ok((found, left)) => {
                expect_all_but_the_lost(&found, &left, &all, at);
                let mut said = found.damage.iter().map(ToString::to_string);
                let is_of_log = said.any(|said| said.contains("-lpw: it stands on page"));
                of_log += usize::from(is_of_log && found.lost_pages < 4);
            }
            Err(_) => refused += 1,
        }
        let (found, left) = salvage(&place, &[&good], None).expect("nothing is lost");
        assert!(found.is_whole() && left == all, "byte {at}: {found:?}");
        rot(at, main[at]);
    }
    assert!(of_log > 5 && refused < 4, "{of_log} {refused}");
    assert!(rows(&db).expect("rows") == all);
}

/// A checkpoint has brought commits into the file, as wholes, where the log has small changes. What comes after it is not
/// there, and the page as the checkpoint has left it is not taken for it.
#[test]
fn the_file_has_what_a_checkpoint_has_brought_and_nothing_later() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let db = standing(&path, None);
    let of_commit = std::fs::metadata(&path).expect("a file").len() as usize;
    for part in 1..7 {
        let sql = "update t set v = hex(randomblob(60)) || k where k % 7 =";
        run(&db, &format!("{sql} {part}"));
    }
    // It keeps the log from beginning anew.
    let reader = open(&path, None).expect("it opens");
    run(&reader, "begin; select count(*) from t");
    run(&db, "pragma wal_checkpoint(passive)");
    let then = (files(&path), rows(&db).expect("rows"));
    run(
        &db,
        "update t set v = 'later' || substr(v, 6) where k % 7 = 0",
    );
    let later = (files(&path), rows(&db).expect("rows"));
    let mut counts = [0, 0];
    for (count, ([main, log], all)) in counts.iter_mut().zip([then, later]) {
        for at in places(of_commit) {
            let mut rotten = main.clone();
            rotten[at] ^= 1;
            let copy = put([&rotten, &log]);
            let Ok((found, left)) = salvage(&copy, &[], None) else {
                continue;
            };
            expect_all_but_the_lost(&found, &left, &all, at);
            let mut said = found.damage.iter().map(ToString::to_string);
            *count += usize::from(said.any(|said| said.contains("-lpw: it stands on page")));
        }
    }
    assert!(counts[0] == 0 && counts[1] > 5, "{counts:?}");
}

/// No lock keeps it from that: the page that rotted can be read again, and a program goes on.
#[test]
fn what_is_changed_meanwhile_is_not_salvaged() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let db = standing(&path, None);
    let [main, log] = files(&path);
    drop(db);
    let mut tried = 0;
    for at in places(main.len()).take(8) {
        let mut rotten = main.clone();
        rotten[at] ^= 1;
        let copy = put([&rotten, &log]);
        if open(&copy.path("a.db"), None)
            .and_then(|db| rows(&db))
            .is_ok()
        {
            continue;
        }
        let copy = put([&rotten, &log]);
        let is_done = AtomicBool::new(false);
        let go_on = |_: litepack::Progress<'_>| {
            if is_done.swap(true, Ordering::Relaxed) {
                return;
            }
            std::fs::write(copy.path("a.db"), &main).expect("writable");
            let db = open(&copy.path("a.db"), None).expect("it opens");
            run(
                &db,
                "update t set v = 'x'; pragma wal_checkpoint(truncate); delete from t where k > 9",
            );
        };
        let job = Job::default().with_progress(&go_on);
        let options = SalvageOptions::default();
        let saved = copy.path("saved.db");
        let found = litepack::salvage(copy.path("a.db"), &saved, &options, &job);
        assert!(is_done.into_inner());
        let why = found.expect_err("a mixture").to_string();
        assert!(why.contains("was changed while it was read"), "{why}");
        tried += 1;
    }
    assert!(tried > 2, "{tried}");
}

/// Where SQLite reads no page, whether the log follows is still asked.
#[test]
fn a_log_that_is_not_applied_is_not_salvaged() {
    if !vfs::is_litepack() || vfs::is_encrypted() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let path = place.path("a.db");
    let db = standing(&path, None);
    let [_, log] = files(&path);
    run(
        &db,
        "pragma wal_checkpoint(truncate); delete from t where k % 2 = 0; pragma wal_checkpoint(truncate)",
    );
    let all = rows(&db).expect("rows");
    let main = read_elsewhere(&path);
    let good = place.path("good.db");
    std::fs::write(&good, &main).expect("writable");
    let mut rotten = main;
    rotten[BEHIND_RECORDS..]
        .iter_mut()
        .for_each(|byte| *byte ^= 1);
    let copy = put([&rotten, &log]);
    let (found, left) = salvage(&copy, &[&good], None).expect("nothing is lost");
    assert!(found.is_whole() && left == all, "{found:?}");
}
