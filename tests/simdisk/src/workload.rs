//! The work that the campaigns do: a list of steps, the same for the same seed.
//!
//! The mixed workload has what a database file goes through: small and large transactions,
//! rollbacks and savepoints, spills of a tiny cache, overflow pages, schema changes, checkpoints
//! with and without a reader in the way, VACUUM, reopening, and transactions over two databases.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::disk::SimDisk;
use litepack_io::random::SplitMix64;

/// The journal mode of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Journal {
    /// `DELETE`.
    Delete,
    /// `TRUNCATE`.
    Truncate,
    /// `PERSIST`.
    Persist,
    /// `WAL`.
    Wal,
}

impl Journal {
    /// As `PRAGMA journal_mode` has it.
    pub fn name(self) -> &'static str {
        match self {
            Journal::Delete => "DELETE",
            Journal::Truncate => "TRUNCATE",
            Journal::Persist => "PERSIST",
            Journal::Wal => "WAL",
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Step {
    /// One transaction, run on the database under test and on the model.
    Sql(&'static str, String),
    /// Something that changes no content, run on the database under test alone.
    Quiet(&'static str, String),
    /// A query on the database under test alone, whose answer has to be 1.
    Expect(&'static str, String),
    /// A second connection starts to read and holds its snapshot.
    PinReader,
    /// It stops.
    UnpinReader,
    /// The connection is closed and opened again.
    Reopen,
}

impl Step {
    /// The name of the step in messages.
    pub fn label(&self) -> &'static str {
        match self {
            Step::Sql(label, _) | Step::Quiet(label, _) | Step::Expect(label, _) => label,
            Step::PinReader => "pin a reader",
            Step::UnpinReader => "let the reader go",
            Step::Reopen => "reopen",
        }
    }
}

/// A list of steps and the settings they run under.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The journal mode of every database.
    pub journal: Journal,
    /// `PRAGMA synchronous` of every database.
    pub synchronous: &'static str,
    /// `PRAGMA page_size`.
    pub page_size: u32,
    /// Whether `aux` is attached.
    pub attach: bool,
    /// What there is before the first step; an empty disk if `None`.
    pub base: Option<Base>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A database that is there before a workload begins.
#[derive(Clone, Debug)]
pub struct Base {
    /// The SQL that makes its content.
    pub sql: String,
    /// Its file, as the layer under test has it.
    pub file: Arc<[u8]>,
    /// A query for the layer under test that answers `ok` in each state, or says what is wrong.
    pub sound: &'static str,
}

impl Workload {
    /// The disk before the first step.
    pub(crate) fn disk(&self) -> SimDisk {
        match &self.base {
            None => SimDisk::new(),
            Some(base) => {
                let file = ("/main.db".to_owned(), base.file.to_vec());
                SimDisk::from_images([file].into())
            }
        }
    }

    /// The databases in it.
    pub fn schemas(&self) -> &'static [&'static str] {
        if self.attach {
            &["main", "aux"]
        } else {
            &["main"]
        }
    }

    /// The mixed workload: some 60 transactions on a database of a few hundred KiB.
    pub fn mixed(journal: Journal, synchronous: &'static str, attach: bool, seed: u64) -> Self {
        let mut make = Maker::new(seed, 1);
        make.basics();
        make.large();
        if journal == Journal::Wal {
            make.checkpoints();
        }
        if attach {
            make.two_databases();
        }
        make.shrink();
        make.steps.push(Step::Reopen);
        make.singles(8);
        Workload {
            journal,
            synchronous,
            page_size: 4096,
            attach,
            base: None,
            steps: make.steps,
        }
    }

    /// A short workload of the same kinds of steps, for sweeps that run it once per call.
    pub fn short(journal: Journal, synchronous: &'static str, attach: bool, seed: u64) -> Self {
        let mut make = Maker::new(seed, 2);
        make.basics();
        if journal == Journal::Wal {
            make.quiet("checkpoint", "PRAGMA wal_checkpoint(TRUNCATE)");
        }
        if attach {
            make.two_databases();
        }
        make.sql("vacuum", "VACUUM".to_owned());
        make.singles(2);
        Workload {
            journal,
            synchronous,
            page_size: 1024,
            attach,
            base: None,
            steps: make.steps,
        }
    }

    /// Commits in one journal mode after the other, WAL mode in between.
    pub fn mode_changes(synchronous: &'static str, seed: u64) -> Self {
        let mut make = Maker::new(seed, 5);
        let rows = make.inserts("t", 20);
        make.transaction(
            "schema",
            &format!("CREATE TABLE t{COLUMNS}; {rows}"),
            "COMMIT",
        );
        for (label, change) in [
            ("to DELETE", "PRAGMA journal_mode = DELETE"),
            ("to WAL", "PRAGMA journal_mode = WAL"),
            ("to TRUNCATE", "PRAGMA journal_mode = TRUNCATE"),
            ("back to WAL", "PRAGMA journal_mode = WAL"),
            ("to PERSIST", "PRAGMA journal_mode = PERSIST"),
        ] {
            make.singles(2);
            make.quiet(label, change);
        }
        make.singles(2);
        Workload {
            journal: Journal::Wal,
            synchronous,
            page_size: 1024,
            attach: false,
            base: None,
            steps: make.steps,
        }
    }

    /// Commits that are flushed, and between them some that are not; or, with a WAL, checkpoints that a reader keeps from
    /// their end.
    pub fn some_unflushed(journal: Journal, seed: u64) -> Self {
        let mut make = Maker::new(seed, 7);
        make.basics();
        for _ in 0..3 {
            if journal == Journal::Wal {
                make.steps.push(Step::PinReader);
                make.singles(3);
                make.quiet("part of a checkpoint", "PRAGMA wal_checkpoint(PASSIVE)");
                make.singles(2);
                make.steps.push(Step::UnpinReader);
                make.quiet("the rest", "PRAGMA wal_checkpoint(RESTART)");
            } else {
                make.quiet("flush no more", "PRAGMA synchronous = OFF");
                make.singles(3);
                make.quiet("flush again", "PRAGMA synchronous = FULL");
            }
            make.singles(1);
        }
        Workload {
            journal,
            synchronous: "FULL",
            page_size: 1024,
            attach: false,
            base: None,
            steps: make.steps,
        }
    }

    /// A database is born in a transaction over two: beside one that is there already, or both at once.
    pub fn births(old: bool, synchronous: &'static str, seed: u64) -> Self {
        let mut make = Maker::new(seed, 4);
        let (table, twin) = (
            format!("CREATE TABLE t{COLUMNS};"),
            format!("CREATE TABLE aux.a{COLUMNS};"),
        );
        let mut both = String::new();
        if old {
            let rows = make.inserts("t", 40);
            make.transaction("schema", &format!("{table} {rows}"), "COMMIT");
        } else {
            both = format!("{table} {}", make.inserts("t", 40));
        }
        // So few that the cache holds them: nothing of the new database is written before the commit.
        let moved = "INSERT INTO aux.a SELECT * FROM t WHERE id % 8 = 0; \
                     DELETE FROM t WHERE id % 8 = 0;";
        make.transaction("born", &format!("{both} {twin} {moved}"), "COMMIT");
        let rows = make.inserts("t", 3);
        make.transaction(
            "both",
            &format!("{rows} UPDATE aux.a SET grp = 7;"),
            "COMMIT",
        );
        Workload {
            journal: Journal::Delete,
            synchronous,
            page_size: 1024,
            attach: true,
            base: None,
            steps: make.steps,
        }
    }
}

/// Of the tables that rows are put into.
const COLUMNS: &str = "(id INTEGER PRIMARY KEY, grp INT, doc TEXT, raw BLOB)";

pub(crate) struct Maker {
    pub rng: SplitMix64,
    pub steps: Vec<Step>,
    next: u64,
}

impl Maker {
    /// No steps yet; another `stream` makes other choices of the same seed.
    pub fn new(seed: u64, stream: u64) -> Maker {
        Maker {
            rng: SplitMix64::derived(seed, stream),
            steps: Vec::new(),
            next: 1,
        }
    }

    pub fn sql(&mut self, label: &'static str, sql: String) {
        self.steps.push(Step::Sql(label, sql));
    }

    pub fn quiet(&mut self, label: &'static str, sql: &str) {
        self.steps.push(Step::Quiet(label, sql.to_owned()));
    }

    /// INSERT statements of `rows` new rows.
    fn inserts(&mut self, table: &str, rows: u64) -> String {
        let mut sql = String::new();
        for _ in 0..rows {
            let id = self.next;
            self.next += 1;
            let (group, score) = (self.rng.below(20), self.rng.below(100_000));
            let blob = self.hex(8, 120);
            writeln!(
                sql,
                "INSERT INTO {table}(id, grp, doc, raw) VALUES({id}, {group}, \
                 '{{\"id\":{id},\"name\":\"person number {id}\",\"score\":{score},\
                 \"tags\":[\"alpha\",\"beta{group}\"]}}', x'{blob}');"
            )
            .expect("writing to a String");
        }
        sql
    }

    pub fn hex(&mut self, least: u64, spread: u64) -> String {
        let len = least + self.rng.below(spread);
        (0..len)
            .map(|_| format!("{:02x}", self.rng.below(256)))
            .collect()
    }

    pub fn transaction(&mut self, label: &'static str, body: &str, end: &str) {
        self.sql(label, format!("BEGIN; {body} {end};"));
    }

    pub fn singles(&mut self, count: u64) {
        for _ in 0..count {
            let insert = self.inserts("t", 1);
            self.sql("single insert", insert);
            let id = 1 + self.rng.below(self.next);
            self.sql(
                "single update",
                format!("UPDATE t SET grp = grp + 1 WHERE id = {id}"),
            );
        }
    }

    pub fn basics(&mut self) {
        self.sql(
            "schema",
            format!(
                "BEGIN; CREATE TABLE t{COLUMNS}; CREATE INDEX t_grp ON t(grp, doc); \
                 CREATE TABLE k(word TEXT PRIMARY KEY, n INT) WITHOUT ROWID; COMMIT;"
            ),
        );
        let rows = self.inserts("t", 40);
        self.transaction("insert", &rows, "COMMIT");
        self.sql(
            "insert select",
            "INSERT INTO k SELECT 'w' || id, grp FROM t WHERE id % 2".to_owned(),
        );
        self.sql(
            "update",
            "UPDATE t SET grp = grp + 1, doc = doc || ' ' WHERE id < 20".to_owned(),
        );
        self.sql("delete", "DELETE FROM t WHERE id % 5 = 3".to_owned());
        let rows = self.inserts("t", 15);
        self.transaction("rollback", &format!("{rows} DELETE FROM k;"), "ROLLBACK");
        let (kept, lost) = (self.inserts("t", 5), self.inserts("t", 5));
        let body = format!("{kept} SAVEPOINT s; {lost} DELETE FROM k; ROLLBACK TO s; RELEASE s;");
        self.transaction("savepoint", &body, "COMMIT");
        let blob = self.hex(9_000, 4_000);
        self.sql(
            "overflow pages",
            format!("UPDATE t SET raw = x'{blob}' WHERE id = 2"),
        );
        self.sql(
            "drop overflow",
            "UPDATE t SET raw = NULL WHERE id = 2".to_owned(),
        );
        self.sql("nothing", "UPDATE t SET grp = 0 WHERE id = -1".to_owned());
        self.singles(3);
    }

    fn large(&mut self) {
        let rows = self.inserts("t", 250);
        let body = format!("{rows} UPDATE t SET grp = grp + 3; DELETE FROM t WHERE id % 11 = 0;");
        self.transaction("spill", &body, "COMMIT");
        let rows = self.inserts("t", 60);
        let body = format!("{rows} UPDATE t SET doc = doc || doc; DELETE FROM k;");
        self.transaction("spill and roll back", &body, "ROLLBACK");
        self.sql("index", "CREATE INDEX t_doc ON t(doc->>'score')".to_owned());
        self.sql("drop index", "DROP INDEX t_grp".to_owned());
        let blob = self.hex(20_000, 100);
        self.sql(
            "large blob",
            format!("INSERT INTO t(id, raw) VALUES(5000, x'{blob}')"),
        );
        self.sql("update all", "UPDATE t SET grp = grp + 1".to_owned());
        self.steps.push(Step::Reopen);
    }

    pub fn checkpoints(&mut self) {
        self.quiet("passive checkpoint", "PRAGMA wal_checkpoint(PASSIVE)");
        self.singles(2);
        self.steps.push(Step::PinReader);
        self.sql(
            "behind a reader",
            "UPDATE t SET grp = grp + 2 WHERE id % 3 = 0".to_owned(),
        );
        self.quiet("checkpoint with a reader", "PRAGMA wal_checkpoint(PASSIVE)");
        self.sql(
            "behind a reader",
            "DELETE FROM t WHERE id % 17 = 4".to_owned(),
        );
        self.steps.push(Step::UnpinReader);
        self.quiet("restart checkpoint", "PRAGMA wal_checkpoint(RESTART)");
        self.singles(2);
        self.quiet("truncate checkpoint", "PRAGMA wal_checkpoint(TRUNCATE)");
        self.singles(1);
    }

    fn two_databases(&mut self) {
        self.sql("aux schema", format!("CREATE TABLE aux.a{COLUMNS}"));
        let rows = self.inserts("aux.a", 20);
        self.transaction("aux alone", &rows, "COMMIT");
        for round in 0..3 {
            let (left, right) = (self.inserts("t", 3), self.inserts("aux.a", 3));
            let body = format!("{left} {right} UPDATE aux.a SET grp = {round};");
            self.transaction("both", &body, "COMMIT");
        }
        let rows = self.inserts("t", 5);
        self.transaction(
            "both rolled back",
            &format!("{rows} DELETE FROM aux.a;"),
            "ROLLBACK",
        );
        self.transaction(
            "move rows",
            "INSERT INTO aux.a SELECT id + 10000, grp, doc, raw FROM t WHERE id < 30; \
             DELETE FROM t WHERE id < 30;",
            "COMMIT",
        );
    }

    fn shrink(&mut self) {
        self.sql("vacuum", "VACUUM".to_owned());
        self.quiet("erase", "PRAGMA secure_delete = ON");
        self.sql("delete most", "DELETE FROM t WHERE id % 4 <> 1".to_owned());
        self.singles(1);
        self.sql("shrinking vacuum", "VACUUM".to_owned());
        self.quiet("erase no more", "PRAGMA secure_delete = OFF");
        self.sql("drop table", "DROP TABLE k".to_owned());
        let rows = self.inserts("t", 30);
        self.transaction("reuse free pages", &rows, "COMMIT");
    }
}
