//! What is left of damaged packed files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use litepack::{Job, Key, PackOptions, RekeyOptions, SalvageOptions, Salvaged, UnpackOptions};
use rusqlite::Connection;

const FILL: &str = "
    create table t(id integer primary key, x text);
    create index t_x on t(x);
    create table w(k text primary key, v) without rowid;
    insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
      select i, 'row ' || i || ' ' || hex(randomblob(20)) from n;
    insert into w select x, id from t;";

struct Place(tempfile::TempDir);

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A packed database.
    fn packed(key: Option<&Arc<Key>>) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        Connection::open(place.path("plain.db"))
            .unwrap()
            .execute_batch(FILL)
            .unwrap();
        place.pack();
        if key.is_some() {
            let options = RekeyOptions::default();
            litepack::rekey(place.path("a.db"), key, &options, &Job::default()).unwrap();
        }
        place
    }

    fn pack(&self) {
        let (plain, packed) = (self.path("plain.db"), self.path("a.db"));
        litepack::pack(plain, packed, &PackOptions::default(), &Job::default()).unwrap();
    }

    fn damage(&self, at: usize, len: usize) {
        let mut bytes = std::fs::read(self.path("a.db")).unwrap();
        let end = (at + len).min(bytes.len());
        bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
        std::fs::write(self.path("bad.db"), bytes).unwrap();
    }

    fn salvage(&self, from: &[PathBuf], job: &Job<'_>) -> litepack::Result<Salvaged> {
        let options = SalvageOptions {
            replace: true,
            from: from.to_vec(),
        };
        litepack::salvage(self.path("bad.db"), self.path("saved.db"), &options, job)
    }
}

fn job(key: Option<&Arc<Key>>) -> Job<'static> {
    match key {
        Some(key) => Job::default().with_key(key),
        None => Job::default(),
    }
}

fn rows(path: &Path) -> BTreeMap<i64, String> {
    let db = Connection::open(path).unwrap();
    let mut statement = db.prepare("select id, x from t not indexed").unwrap();
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    rows.map(Result::unwrap).collect()
}

fn value<T: rusqlite::types::FromSql>(path: &Path, sql: &str) -> T {
    let db = Connection::open(path).unwrap();
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Damage in every part of the file, one after the other. What is there is right, what is not there is named, and with
/// a copy of the file nothing is lost.
#[test]
fn damage_anywhere_costs_what_it_hits_and_no_more() {
    let raw = Arc::new(Key::raw(&[7; 32]).unwrap());
    for key in [None, Some(&raw)] {
        let place = Place::packed(key);
        let len = std::fs::metadata(place.path("a.db")).unwrap().len() as usize;
        let all = rows(&place.path("plain.db"));
        let original = std::fs::read(place.path("plain.db")).unwrap();
        let saved = place.path("saved.db");
        let (mut lost, mut refused) = (0, 0);
        for at in (16_384..len).step_by(len / 25) {
            place.damage(at, 700);
            match place.salvage(&[], &job(key)) {
                Ok(found) => {
                    let left = rows(&saved);
                    assert!(left.iter().all(|(id, x)| all.get(id) == Some(x)), "{at}");
                    let gone: Vec<_> = all.keys().filter(|id| !left.contains_key(id)).collect();
                    let named = found.tables.iter().find(|lost| lost.table == "t");
                    let is_named = |id: i64| {
                        let ranges = named.into_iter().flat_map(|lost| &lost.rowids);
                        ranges.clone().any(|(after, to)| {
                            after.is_none_or(|after| id > after) && to.is_none_or(|to| id <= to)
                        })
                    };
                    assert!(
                        gone.iter().all(|id| is_named(**id)),
                        "{at}: {gone:?} {found:?}"
                    );
                    assert_eq!(found.problems, Vec::<String>::new(), "{at}");
                    let by_index: u32 = value(&saved, "select count(*) from t where x > ''");
                    assert_eq!(by_index as usize, left.len(), "{at}");
                    if found.is_whole() {
                        assert_eq!(std::fs::read(&saved).unwrap(), original, "{at}");
                    } else {
                        assert!(!found.damage.is_empty());
                        lost += 1;
                    }
                }
                // All that leads to the pages is in one place, or the first page is lost.
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains("bad.db"), "{at}: {error}");
                }
            }
            let found = place.salvage(&[place.path("a.db")], &job(key)).unwrap();
            assert!(found.is_whole(), "{at}: {found:?}");
            assert_eq!(std::fs::read(&saved).unwrap(), original, "{at}");
        }
        assert!(lost > 5 && refused < 12, "{lost} {refused}");
    }
}

/// What is left of a schema opens: an index or a trigger without its table would not.
#[test]
fn a_part_of_the_schema_may_be_lost() {
    let place = Place(tempfile::tempdir().unwrap());
    let db = Connection::open(place.path("plain.db")).unwrap();
    db.execute_batch("begin").unwrap();
    let noise = |n: u32| {
        (0..60)
            .map(|i| format!("{:x}", (n * 7919 + i * 104729) % 65521))
            .collect::<String>()
    };
    for n in 0..150 {
        db.execute_batch(&format!(
            "create table t{n}(id integer primary key, x text default '{}');
             create table w{n}(k primary key, v default '{}') without rowid;
             create index i{n} on t{n}(x, id);
             create trigger g{n} after insert on t{n} begin insert into w{n} values(new.id, '{}'); end;
             insert into t{n}(x) values('one'), ('two');",
            noise(n),
            noise(n + 1000),
            noise(n + 2000),
        ))
        .unwrap();
    }
    db.execute_batch("commit").unwrap();
    drop(db);
    place.pack();
    let len = std::fs::metadata(place.path("a.db")).unwrap().len() as usize;
    let saved = place.path("saved.db");
    let mut lost = 0;
    for at in (16_384..len).step_by(len / 40) {
        place.damage(at, 300);
        let Ok(found) = place.salvage(&[], &Job::default()) else {
            continue;
        };
        assert_eq!(found.problems, Vec::<String>::new(), "{at}");
        let tables: u32 = value(
            &saved,
            "select count(*) from sqlite_schema where type = 'table'",
        );
        if found
            .tables
            .iter()
            .any(|lost| lost.table == "sqlite_schema")
        {
            lost += 1;
            assert!(tables < 300, "{at}");
        } else {
            assert_eq!(tables, 300, "{at}");
        }
        assert!(tables > 0, "{at}");
        let db = Connection::open(&saved).unwrap();
        let sql = "select name from sqlite_schema where type = 'table'";
        let mut names = db.prepare(sql).unwrap();
        let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
        for name in names.map(Result::unwrap) {
            db.query_row(&format!("select count(*) from {name}"), [], |_| Ok(()))
                .unwrap();
        }
    }
    assert!(lost > 5, "{lost}");
}

/// An older copy has what has not changed since, and nothing else of it is taken.
#[test]
fn an_older_copy_heals_what_is_the_same_in_it() {
    let place = Place::packed(None);
    std::fs::copy(place.path("a.db"), place.path("older.db")).unwrap();
    let db = litepack::open(place.path("a.db")).unwrap();
    db.execute_batch("update t set x = 'new ' || x where id % 300 = 0")
        .unwrap();
    drop(db);
    let unpacked = place.path("unpacked.db");
    let options = UnpackOptions::default();
    litepack::unpack(place.path("a.db"), &unpacked, &options, &Job::default()).unwrap();
    let all = rows(&unpacked);
    let len = std::fs::metadata(place.path("a.db")).unwrap().len() as usize;
    let (mut healed, mut lost) = (0, 0);
    for at in (16_384..len).step_by(len / 40) {
        place.damage(at, 300);
        let Ok(alone) = place.salvage(&[], &Job::default()) else {
            continue;
        };
        let Ok(found) = place.salvage(&[place.path("older.db")], &Job::default()) else {
            continue;
        };
        let left = rows(&place.path("saved.db"));
        assert!(left.iter().all(|(id, x)| all.get(id) == Some(x)), "{at}");
        assert!(found.lost_pages <= alone.lost_pages);
        healed += usize::from(found.is_whole() && !alone.is_whole());
        lost += usize::from(!found.is_whole());
    }
    assert!(healed > 5, "{healed} {lost}");
}

#[test]
fn what_cannot_be_salvaged_is_refused_and_nothing_is_left_behind() {
    let place = Place::packed(None);
    place.damage(100_000, 5000);
    let other = Place::packed(None);
    let error = place
        .salvage(&[other.path("a.db")], &Job::default())
        .unwrap_err();
    assert!(
        error.to_string().contains("it is another packed file"),
        "{error}"
    );
    let error = place
        .salvage(&[place.path("plain.db")], &Job::default())
        .unwrap_err();
    assert!(error.to_string().contains("plain.db"), "{error}");
    let options = SalvageOptions::default();
    let plain = place.path("plain.db");
    let error = litepack::salvage(&plain, place.path("saved.db"), &options, &Job::default());
    assert!(error.unwrap_err().to_string().contains("not a packed file"));
    let error = litepack::salvage(place.path("bad.db"), &plain, &options, &Job::default());
    assert!(matches!(error, Err(litepack::Error::Exists { .. })));
    for same in ["bad.db", "saved.db"] {
        std::fs::copy(place.path("a.db"), place.path("saved.db")).unwrap();
        let error = place
            .salvage(&[place.path(same)], &Job::default())
            .unwrap_err();
        assert!(error.to_string().contains("cannot be both"), "{error}");
    }
    std::fs::write(place.path("bad.db-lpjourn"), [7; 600]).unwrap();
    let error = place.salvage(&[], &Job::default()).unwrap_err();
    assert!(
        error.to_string().contains("bad.db-lpjourn is there"),
        "{error}"
    );
    std::fs::remove_file(place.path("bad.db-lpjourn")).unwrap();
    std::fs::remove_file(place.path("saved.db")).unwrap();
    let names = std::fs::read_dir(place.0.path()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.db", "bad.db", "plain.db"]);
}

/// What is in the log is part of the database, and the file stays as it is.
#[test]
fn the_log_counts() {
    let place = Place::packed(None);
    let db = litepack::open(place.path("a.db")).unwrap();
    db.execute_batch(
        "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
         update t set x = 'in the log' where id between 1000 and 1010; insert into t values(9999, 'new')",
    )
    .unwrap();
    std::fs::copy(place.path("a.db-lpw"), place.path("bad.db-lpw")).unwrap();
    place.damage(100_000, 700);
    let before = std::fs::read(place.path("bad.db")).unwrap();
    let log = std::fs::read(place.path("bad.db-lpw")).unwrap();
    let found = place.salvage(&[], &Job::default()).unwrap();
    assert!(!found.is_whole());
    let left = rows(&place.path("saved.db"));
    assert_eq!(left.get(&9999).map(String::as_str), Some("new"));
    assert_eq!(left.get(&1005).map(String::as_str), Some("in the log"));
    assert_eq!(std::fs::read(place.path("bad.db")).unwrap(), before);
    assert_eq!(std::fs::read(place.path("bad.db-lpw")).unwrap(), log);
    let ok: String = value(&place.path("saved.db"), "pragma integrity_check");
    assert_eq!(ok, "ok");
    // A log that is damaged is not passed over in silence.
    let mut torn = log.clone();
    let middle = torn.len() / 3;
    torn[middle..middle + 600].fill(0xff);
    std::fs::write(place.path("bad.db-lpw"), torn).unwrap();
    if let Err(error) = place.salvage(&[], &Job::default()) {
        assert!(error.to_string().contains("bad.db-lpw"), "{error}");
    }
}

/// SQL of the database's schema is not trusted, and an index that needs what is not there is left out.
#[test]
fn an_index_that_cannot_be_made_anew_is_named() {
    let place = Place(tempfile::tempdir().unwrap());
    let db = Connection::open(place.path("plain.db")).unwrap();
    db.execute_batch(FILL).unwrap();
    // As a program leaves it that has a function of its own.
    db.execute_batch(
        "create index by_mine on t(lower(x)); pragma writable_schema = on;
         update sqlite_schema set sql = replace(sql, 'lower', 'mine') where name = 'by_mine';",
    )
    .unwrap();
    drop(db);
    place.pack();
    let len = std::fs::metadata(place.path("a.db")).unwrap().len() as usize;
    let (mut seen, mut kept) = (false, false);
    for at in (16_384..len).step_by(len / 20) {
        place.damage(at, 700);
        let Ok(found) = place.salvage(&[], &Job::default()) else {
            continue;
        };
        for left_out in &found.left_out {
            assert_eq!(left_out.index, "by_mine");
            assert!(left_out.why.contains("mine"), "{}", left_out.why);
            let sql = "select count(*) from sqlite_schema where name = 'by_mine'";
            assert_eq!(value::<i64>(&place.path("saved.db"), sql), 0);
            seen = true;
        }
        // Where it is whole it is kept, and SQLite cannot check it without the function.
        let is_kept = found.left_out.is_empty();
        let of_function = |problem: &String| is_kept && problem.contains("function: mine()");
        assert!(found.problems.iter().all(of_function), "{found:?}");
        kept |= is_kept && !found.problems.is_empty();
    }
    assert!(seen);
    println!("kept: {kept}");
}
