//! Work on a packed database whose pages are stored by reference to others: as others, as their difference to others,
//! and in groups. What they refer to is rewritten and deleted, maintenance makes and undoes references, and `VACUUM`
//! writes all anew.

use std::fmt::Write as _;
use std::iter::repeat_with;

use crate::workload::{Base, Journal, Maker, Step, Workload};

/// Texts that others quote.
const TEXTS: u64 = 24;
/// Short rows, whose pages are alike.
const LINES: u64 = 3_000;

/// Whether there are items, and units that name them.
const ITEMS: &str = "SELECT litepack_info()->>'items' > 0 AND litepack_info()->>'references' > 0";
const MAINTAIN: &str = "SELECT litepack_maintain(NULL, 1)";

impl Workload {
    /// Work that begins with a file that `pack` makes of the database that some SQL makes. `sound` answers `ok` where
    /// the file is sound.
    pub fn referring(
        journal: Journal,
        pack: &dyn Fn(&str) -> Vec<u8>,
        sound: &'static str,
        seed: u64,
    ) -> Workload {
        let mut make = Maker::new(seed, 6);
        let sql = make.texts_and_lines();
        let base = Base {
            file: pack(&sql).into(),
            sql,
            sound,
        };
        make.steps_of(journal);
        Workload {
            journal,
            synchronous: "FULL",
            page_size: 4096,
            attach: false,
            base: Some(base),
            steps: make.steps,
        }
    }
}

impl Maker {
    /// Texts, of which the second half quotes the first; attachments of which each is there twice; and lines.
    fn texts_and_lines(&mut self) -> String {
        let mut sql = "BEGIN; CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT);
             CREATE TABLE file(id INTEGER PRIMARY KEY, content BLOB);
             CREATE TABLE line(id INTEGER PRIMARY KEY, at INT, user INT, url TEXT);"
            .to_owned();
        let texts: Vec<String> = repeat_with(|| self.hex(3_000, 2_000))
            .take(TEXTS as usize)
            .collect();
        for (id, text) in texts.iter().enumerate() {
            let quoted = &texts[self.rng.below(TEXTS) as usize];
            writeln!(
                sql,
                "INSERT INTO t VALUES({id}, '{text}'), ({id} + 100, 'as said: {quoted}');
                 INSERT INTO file VALUES({id}, x'{text}'), ({id} + 100, x'{text}');"
            )
            .expect("writing to a String");
        }
        for id in 0..LINES {
            let (at, user, page) = (id * 7, self.rng.below(900), self.rng.below(4000));
            writeln!(
                sql,
                "INSERT INTO line VALUES({id}, {at}, {user}, '/shop/articles/{page}/comments?by={user}');"
            )
            .expect("writing to a String");
        }
        sql + "COMMIT;"
    }

    /// A step of maintenance, with all of the WAL in the database.
    fn maintain(&mut self, journal: Journal) {
        if journal == Journal::Wal {
            self.quiet("checkpoint", "PRAGMA wal_checkpoint(TRUNCATE)");
        }
        self.quiet("maintain", MAINTAIN);
    }

    fn expect_items(&mut self) {
        let label = "items are there";
        self.steps.push(Step::Expect(label, ITEMS.to_owned()));
    }

    fn steps_of(&mut self, journal: Journal) {
        self.expect_items();
        self.quiet("keep content", "PRAGMA secure_delete = OFF");
        let sql = [
            (
                "update texts",
                "UPDATE t SET body = 'x' || body WHERE id % 7 = 2",
            ),
            (
                "update lines",
                "UPDATE line SET user = user + 1 WHERE id % 500 = 3",
            ),
            ("delete an original", "DELETE FROM file WHERE id % 9 = 1"),
            (
                "another user of each",
                "UPDATE file SET content = content || x'00' WHERE id > 110",
            ),
            (
                "rows for free pages",
                "INSERT INTO line SELECT id + 10000, at, user, url FROM line WHERE id < 400",
            ),
        ];
        for (label, sql) in sql {
            self.sql(label, sql.to_owned());
        }
        self.transaction(
            "rolled back",
            "UPDATE t SET body = body || body; DELETE FROM file;",
            "ROLLBACK",
        );
        self.transaction(
            "savepoint",
            "DELETE FROM t WHERE id = 4; SAVEPOINT s; DELETE FROM file; UPDATE t SET body = 'y' || body; \
             ROLLBACK TO s; RELEASE s;",
            "COMMIT",
        );
        self.maintain(journal);
        self.expect_items();
        self.sql(
            "copies",
            "INSERT INTO t SELECT id + 1000, 'again: ' || body FROM t WHERE id < 12".to_owned(),
        );
        self.sql(
            "copies of files",
            "INSERT INTO file SELECT id + 1000, content FROM file WHERE id < 12".to_owned(),
        );
        self.maintain(journal);
        self.expect_items();
        self.steps.push(Step::Reopen);
        self.sql("originals go", "DELETE FROM t WHERE id < 14".to_owned());
        self.sql(
            "most lines go",
            "DELETE FROM line WHERE id % 1000 > 90".to_owned(),
        );
        self.maintain(journal);
        self.quiet("erase", "PRAGMA secure_delete = ON");
        self.sql(
            "erased",
            "DELETE FROM file WHERE id BETWEEN 3 AND 8".to_owned(),
        );
        self.quiet("erase no more", "PRAGMA secure_delete = OFF");
        self.sql("the table goes", "DROP TABLE line".to_owned());
        self.maintain(journal);
        self.expect_items();
        self.sql("vacuum", "VACUUM".to_owned());
        self.sql(
            "copies once more",
            "INSERT INTO file SELECT id + 3000, content FROM file WHERE id < 12".to_owned(),
        );
        self.maintain(journal);
        self.sql(
            "the last users go",
            "DELETE FROM file WHERE id > 100".to_owned(),
        );
        if journal != Journal::Wal {
            self.sql(
                "another page size",
                "PRAGMA page_size = 8192; VACUUM".to_owned(),
            );
        }
    }
}
