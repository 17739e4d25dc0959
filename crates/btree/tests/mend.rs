//! Databases of SQLite that lose pages, mended, and looked at by SQLite.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use litepack_btree::mend::{Mended, Pages, RowidRange, mend};
use litepack_btree::{Header, Owner, PageNumber, PageOwnership, Role, Tree};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

struct Image {
    bytes: Vec<u8>,
    page_size: usize,
    lost: BTreeSet<u32>,
}

impl Pages for Image {
    type Error = Infallible;

    fn read(&mut self, page: PageNumber, buf: &mut [u8]) -> Result<bool, Infallible> {
        let start = page.index() as usize * self.page_size;
        buf.copy_from_slice(&self.bytes[start..start + self.page_size]);
        Ok(!self.lost.contains(&page.get()))
    }

    fn write(&mut self, page: PageNumber, bytes: &[u8]) -> Result<(), Infallible> {
        let start = page.index() as usize * self.page_size;
        self.bytes
            .resize(self.bytes.len().max(start + self.page_size), 0);
        self.bytes[start..start + self.page_size].copy_from_slice(bytes);
        self.lost.remove(&page.get());
        Ok(())
    }
}

/// A database with these settings, and rows of all kinds in rounds of inserts and deletes.
fn database(settings: &str, rows: i64, rng: &mut StdRng) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("pragma synchronous = off").unwrap();
    db.execute_batch(settings).unwrap();
    db.execute_batch(
        "create table t(id integer primary key, x text, y);
         create index t_x on t(x);
         create table u(a text, b blob, unique(a));
         create table w(k text, n int, v blob, primary key(k, n)) without rowid;
         create index w_v on w(v);
         create table empty(x);
         begin;",
    )
    .unwrap();
    let text = |rng: &mut StdRng| {
        let most = *[8, 60, 400, 3000].choose(rng).unwrap();
        let len = rng.random_range(0..most);
        (0..len)
            .map(|_| rng.random_range('a'..'g'))
            .collect::<String>()
    };
    for row in 0..rows {
        let id: i64 = if rng.random_bool(0.1) {
            rng.random()
        } else {
            row
        };
        let _ = db.execute(
            "insert or ignore into t values(?, ?, ?)",
            (id, text(rng), row),
        );
        let (a, b) = (text(rng), text(rng));
        db.execute("insert or ignore into u values(?, ?)", (a, b))
            .unwrap();
        let (k, v) = (text(rng), text(rng));
        db.execute("insert or ignore into w values(?, ?, ?)", (k, row, v))
            .unwrap();
        if rng.random_bool(0.03) {
            db.execute(
                "delete from t where id % 7 = ? and id > ?",
                (row % 7, row - 40),
            )
            .unwrap();
        }
    }
    db.execute_batch("commit").unwrap();
    drop(db);
    std::fs::read(path).unwrap()
}

fn open(bytes: &[u8]) -> (tempfile::TempDir, Connection) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    std::fs::write(&path, bytes).unwrap();
    let db = Connection::open(&path).unwrap();
    (place, db)
}

/// The rows of the tables by their keys.
fn rows(db: &Connection) -> BTreeMap<(String, String), String> {
    let mut all = BTreeMap::new();
    for (table, sql) in [
        ("t", "select id, quote(x) || quote(y) from t not indexed"),
        ("u", "select rowid, quote(a) || quote(b) from u not indexed"),
        ("w", "select quote(k) || n, quote(v) from w"),
    ] {
        let mut statement = db.prepare(sql).unwrap();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let key: rusqlite::types::Value = row.get(0).unwrap();
            let key = match key {
                rusqlite::types::Value::Integer(id) => id.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => panic!("{other:?}"),
            };
            all.insert((table.to_owned(), key), row.get(1).unwrap());
        }
    }
    all
}

fn header(bytes: &[u8]) -> Header {
    Header::parse(bytes, bytes.len() as u64).unwrap()
}

fn mended(bytes: &[u8], lost: &BTreeSet<u32>) -> (Mended, Vec<u8>) {
    let header = header(bytes);
    let mut image = Image {
        bytes: bytes.to_vec(),
        page_size: header.page_size as usize,
        lost: lost.clone(),
    };
    // What is lost must not be read.
    for page in lost {
        let start = (*page as usize - 1) * image.page_size;
        image.bytes[start..start + image.page_size].fill(0xaa);
    }
    let mut has_rowids = |table: &Tree| table.name != "w";
    let Ok(mended) = mend(&header, &mut image, &mut has_rowids);
    (mended, image.bytes)
}

fn is_in(rows: &[RowidRange], id: i64) -> bool {
    rows.iter()
        .any(|rows| rows.after.is_none_or(|after| id > after) && rows.to.is_none_or(|to| id <= to))
}

/// Everything that holds of a mended database; returns how many rows are gone.
fn check(before: &[u8], lost: &BTreeSet<u32>) -> usize {
    let (mended, after) = mended(before, lost);
    let original = rows(&open(before).1);
    let (_place, db) = open(&after);
    db.execute_batch("pragma synchronous = off").unwrap();
    for index in &mended.indexes {
        db.execute_batch(&format!("reindex {}", litepack_btree::quote(&index.name)))
            .unwrap();
    }
    let mut verdict = db.prepare("pragma integrity_check").unwrap();
    let verdict: Vec<String> = verdict
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(verdict, ["ok"], "{lost:?} {mended:?}");
    let left = rows(&db);
    for (key, row) in &left {
        assert_eq!(original.get(key), Some(row), "{key:?} {lost:?}");
    }
    let gone: Vec<_> = original
        .keys()
        .filter(|key| !left.contains_key(*key))
        .collect();
    for (table, key) in &gone {
        let loss = mended.tables.iter().find(|loss| loss.table.name == *table);
        let loss = loss.unwrap_or_else(|| panic!("{table} {key} {lost:?} {mended:?}"));
        if table == "w" {
            assert!(loss.more > 0);
        } else {
            assert!(
                is_in(&loss.rows, key.parse().unwrap()),
                "{table} {key} {loss:?}"
            );
        }
    }
    // It can be used.
    db.execute_batch(
        "insert into t(x, y) select hex(randomblob(500)), 1 from pragma_integrity_check, t limit 50;
         insert into w select hex(randomblob(90)), 1, 2 from t limit 50;
         delete from t where id % 2; delete from u where rowid % 3; delete from w where n % 2;",
    )
    .unwrap();
    let ok: String = db
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(ok, "ok", "after use: {lost:?}");
    gone.len()
}

#[test]
fn what_is_left_is_sound_and_what_is_gone_is_named() {
    let seed = std::env::var("LITEPACK_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("LITEPACK_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let rounds = if std::env::var_os("LITEPACK_LONG").is_some() {
        2000
    } else {
        20
    };
    let mut gone = 0;
    for _ in 0..rounds {
        let page_size = 512 << rng.random_range(0..4);
        let vacuum = rng.random_range(0..3);
        let settings = format!("pragma page_size = {page_size}; pragma auto_vacuum = {vacuum};");
        let rows = rng.random_range(0..600);
        let bytes = database(&settings, rows, &mut rng);
        let pages = header(&bytes).pages;
        let losses = rng.random_range(1..=(pages / 3).clamp(1, 30));
        let lost = (0..losses).map(|_| rng.random_range(2..=pages.max(2)));
        let lost = lost.filter(|page| *page <= pages).collect();
        gone += check(&bytes, &lost);
    }
    assert!(gone > 0);
}

/// Pages of a tree of this database, by their role.
fn pages_of(bytes: &[u8], name: &str, wanted: Role) -> Vec<u32> {
    let header = header(bytes);
    let size = header.page_size as usize;
    let read = |page: PageNumber, buf: &mut [u8]| {
        let start = page.index() as usize * size;
        buf.copy_from_slice(&bytes[start..start + size]);
        Ok::<_, Infallible>(true)
    };
    let Ok(found) = PageOwnership::find(&header, read);
    let tree = found
        .trees()
        .iter()
        .position(|tree| tree.name == name)
        .unwrap();
    let owner = Owner::Tree {
        tree: tree as u32,
        role: wanted,
    };
    (1..=header.pages)
        .filter(|page| found.owner(PageNumber::new(*page).unwrap()) == owner)
        .collect()
}

fn large(rng: &mut StdRng) -> Vec<u8> {
    let bytes = database("pragma page_size = 512", 900, rng);
    assert!(pages_of(&bytes, "t", Role::Interior).len() > 3);
    bytes
}

#[test]
fn leaves_below_a_lost_page_are_found_again() {
    let mut rng = StdRng::seed_from_u64(1);
    let bytes = large(&mut rng);
    let above = pages_of(&bytes, "t", Role::Interior);
    // Each alone, the root among them, and all at once.
    for page in &above {
        assert_eq!(check(&bytes, &BTreeSet::from([*page])), 0, "{page}");
    }
    assert_eq!(check(&bytes, &above.iter().copied().collect()), 0);
}

/// A database with these statements, whose rowids are where they say.
fn with(statements: &str) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(2);
    let (place, db) = open(&database("pragma page_size = 512", 0, &mut rng));
    db.execute_batch(statements).unwrap();
    drop(db);
    std::fs::read(place.path().join("a.db")).unwrap()
}

const ROWS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200)";

#[test]
fn pages_that_may_belong_to_two_tables_belong_to_none() {
    let bytes = with(&format!(
        "insert into t {ROWS} select i, 'a row of t ' || i, i from n;
         insert into u(rowid, a, b) {ROWS} select i + 5000, 'one of u ' || i, i from n;"
    ));
    let roots = ["t", "u"].map(|table| pages_of(&bytes, table, Role::Interior)[0]);
    let lost = BTreeSet::from(roots);
    assert_eq!(check(&bytes, &lost), 400);
    assert!(mended(&bytes, &lost).0.unassigned > 10);
    // One alone gets all of its own.
    for root in roots {
        assert_eq!(check(&bytes, &BTreeSet::from([root])), 0);
    }
}

#[test]
fn rows_that_were_deleted_do_not_come_back() {
    // Their pages are free, and hold them still.
    let bytes = with(&format!(
        "insert into t {ROWS} select i, 'a row of t ' || i, i from n;
         create table gone(id integer primary key, x);
         insert into gone {ROWS} select i + 9000, 'gone ' || i from n;
         drop table gone;"
    ));
    assert!(header(&bytes).free_pages > 5);
    let lost = BTreeSet::from([pages_of(&bytes, "t", Role::Interior)[0]]);
    assert_eq!(check(&bytes, &lost), 0);
    // Without the list of free pages nothing is found again.
    let trunk = u32::from_be_bytes(bytes[32..36].try_into().unwrap());
    let with_trunk = lost.into_iter().chain([trunk]).collect();
    assert_eq!(check(&bytes, &with_trunk), 200);
}

/// A table that the schema does not name any more has its pages still.
#[test]
fn pages_of_a_table_that_is_not_known_belong_to_none() {
    let many: String = (0..40)
        .map(|n| format!("create table other{n}(id integer primary key, x);"))
        .collect();
    let bytes = with(&format!(
        "insert into t {ROWS} select i, 'a row of t ' || i, i from n;
         {many}
         insert into other39 {ROWS} select i + 9000, 'of another ' || i from n;"
    ));
    let schema = *pages_of(&bytes, "sqlite_schema", Role::Leaf)
        .last()
        .unwrap();
    let lost = BTreeSet::from([schema, pages_of(&bytes, "t", Role::Interior)[0]]);
    let (mended, after) = mended(&bytes, &lost);
    assert!(mended.unassigned > 0);
    let (_place, db) = open(&after);
    assert_eq!(rows(&db).len(), 0);
}

#[test]
fn without_a_loss_nothing_is_said() {
    let mut rng = StdRng::seed_from_u64(4);
    let bytes = large(&mut rng);
    assert_eq!(check(&bytes, &BTreeSet::new()), 0);
    let (mended, _) = mended(&bytes, &BTreeSet::new());
    assert_eq!(mended, Mended::default());
}

/// Whatever is in the pages: no panic, and an end.
#[test]
fn pages_that_are_not_what_they_should_be() {
    let mut rng = StdRng::seed_from_u64(5);
    let bytes = large(&mut rng);
    for _ in 0..300 {
        let mut bytes = bytes.clone();
        for _ in 0..rng.random_range(1..40) {
            let at = rng.random_range(100..bytes.len());
            // Near the beginning of a page is most of what counts.
            let at = if rng.random() {
                at - at % 512 + at % 12
            } else {
                at
            };
            if at >= 100 {
                bytes[at] = rng.random();
            }
        }
        let pages = header(&bytes).pages;
        let lost = (0..rng.random_range(0..20)).map(|_| rng.random_range(2..=pages));
        mended(&bytes, &lost.collect());
    }
}
