//! Helpers the tests share: databases made by SQLite, and pages read out of their bytes.
#![allow(dead_code, missing_docs)]

use std::convert::Infallible;

use litepack_btree::{HEADER_LEN, Header, PageNumber, PageOwnership};
use rusqlite::Connection;
use tempfile::TempDir;

/// How a database is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub page_size: u32,
    pub auto_vacuum: bool,
    pub reserved: u8,
    pub encoding: &'static str,
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            page_size: 4096,
            auto_vacuum: false,
            reserved: 0,
            encoding: "UTF-8",
        }
    }
}

/// A database in a directory of its own.
pub struct Database {
    pub db: Connection,
    place: TempDir,
}

impl Database {
    pub fn new(layout: Layout) -> Database {
        let place = TempDir::new().unwrap();
        let path = place.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size={}; PRAGMA auto_vacuum={}; PRAGMA encoding='{}'; PRAGMA user_version=1;",
            layout.page_size, layout.auto_vacuum, layout.encoding
        ))
        .unwrap();
        if layout.reserved == 0 {
            return Database { db, place };
        }
        // Page 1 is still empty, so the reserved bytes can be taken from it.
        db.close().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let usable = layout.page_size - u32::from(layout.reserved);
        bytes[20] = layout.reserved;
        bytes[105..107].copy_from_slice(&(usable as u16).to_be_bytes());
        std::fs::write(&path, bytes).unwrap();
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA synchronous=OFF").unwrap();
        Database { db, place }
    }

    pub fn run(&self, sql: &str) {
        self.db.execute_batch(sql).unwrap();
    }

    pub fn number(&self, sql: &str) -> u32 {
        self.db.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.place.path().join("a.db")).unwrap()
    }
}

/// The owners of the pages in these bytes; pages at which `readable` is false cannot be read. `None` if
/// there is no header. Panics if a page is read twice.
pub fn owners(bytes: &[u8], readable: impl Fn(PageNumber) -> bool) -> Option<PageOwnership> {
    let header = Header::parse(bytes.get(..HEADER_LEN)?, bytes.len() as u64)?;
    let size = header.page_size as usize;
    let mut seen = vec![false; header.pages as usize];
    let found = PageOwnership::find(&header, |page, buf| {
        let index = page.index() as usize;
        assert!(!seen[index], "page {page} is read twice");
        seen[index] = true;
        let stored = &bytes[index * size..];
        let stored = &stored[..stored.len().min(size)];
        buf[..stored.len()].copy_from_slice(stored);
        Ok::<_, Infallible>(readable(page) && stored.len() == size)
    });
    found.ok()
}

/// The page with this number.
pub fn page(number: u32) -> PageNumber {
    PageNumber::new(number).unwrap()
}

/// The numbers of all pages.
pub fn numbers(owners: &PageOwnership) -> impl Iterator<Item = PageNumber> + use<> {
    (1..=owners.pages()).map(page)
}

/// SQL that fills a database with tables and indexes of every kind, in proportion to `rows`.
pub fn every_kind(rows: u32) -> String {
    format!(
        "CREATE TABLE plain(id INTEGER PRIMARY KEY, a TEXT, b BLOB);
         CREATE INDEX plain_a ON plain(a);
         CREATE UNIQUE INDEX plain_ab ON plain(a, id) WHERE id % 3 = 0;
         CREATE TABLE pairs(a TEXT, b INT, c TEXT UNIQUE, PRIMARY KEY(a, b)) WITHOUT ROWID;
         CREATE TABLE keyed(k TEXT PRIMARY KEY, v);
         CREATE TABLE seq(id INTEGER PRIMARY KEY AUTOINCREMENT, v);
         CREATE TABLE empty(x);
         CREATE VIEW seen AS SELECT a FROM plain;
         CREATE TRIGGER noticed AFTER DELETE ON empty BEGIN SELECT 1; END;
         CREATE VIRTUAL TABLE words USING fts5(body);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO plain SELECT i, 'value ' || (i * 7919 % 1000) || hex(randomblob(i % 40)),
             CASE WHEN i % 10 = 0 THEN randomblob(i * 37 % 9000) ELSE randomblob(20) END FROM n;
         INSERT INTO pairs SELECT substr(hex(b), 1, 1 + id * 53 % 3000), id, 'c' || id FROM plain;
         INSERT INTO keyed SELECT id || hex(substr(b, 1, 600)), a FROM plain;
         INSERT INTO seq(v) SELECT a FROM plain;
         INSERT INTO words SELECT a FROM plain;
         ANALYZE;"
    )
}
