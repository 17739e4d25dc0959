//! The advice of `litepack advise` on databases, beside the real results.
//!
//! One program for all of it: each one more takes seconds to link.

mod bytes;
mod findings;
mod interrupted;
mod others;
mod sizes;
mod untrusted;

use std::path::{Path, PathBuf};

use litepack::Job;
use litepack_advise::{AdviseOptions, Report, advise};
use rusqlite::Connection;
use tempfile::TempDir;

/// With these options the findings do not depend on how fast the machine is.
fn unhurried() -> AdviseOptions {
    AdviseOptions {
        seconds: Some(600.0),
        ..AdviseOptions::default()
    }
}

struct Db {
    place: TempDir,
    path: PathBuf,
}

impl Db {
    fn new(create: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Db {
        let place = TempDir::new().unwrap();
        let path = place.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")
            .unwrap();
        create(&db).unwrap();
        Db { place, path }
    }

    fn of(sql: &str) -> Db {
        Db::new(|db| db.execute_batch(sql))
    }

    fn advise(&self) -> Report {
        advise(&self.path, &unhurried(), &Job::default()).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn len(&self) -> u64 {
        self.path.metadata().unwrap().len()
    }
}

const NUMBERS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";

fn len(path: &Path) -> f64 {
    path.metadata().unwrap().len() as f64
}

/// The finding of a kind, for a database made by some SQL.
fn found(db: &Db, kind: &str) -> litepack_advise::Finding {
    let report = db.advise();
    let mut findings = report.findings.iter();
    let found = findings.find(|finding| finding.kind == kind);
    found
        .unwrap_or_else(|| panic!("{:?}", report.findings))
        .clone()
}
