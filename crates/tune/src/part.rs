//! A part of a large database that is like the whole: of each table the same share of its bytes, in runs of rows that
//! lie side by side, and all indexes on them.
//!
//! Compression sees pages, and columns within pages, so neighbours must stay neighbours: rows picked at random would
//! have other differences between them than the user's. Runs begin at equal distances over the whole table, as old
//! rows may look different from new ones. Small tables are copied whole.
//!
//! Triggers are not copied, as nothing is written. Of virtual tables only the tables that hold their content
//! are: half of a full-text index cannot be queried.

use std::path::Path;

use litepack_btree::quote;
use litepack_database::files::origin::Origin;
use litepack_database::files::schema::columns;
use litepack_database::files::source::distrust;
use litepack_database::job::Step;
use litepack_database::{Job, Result, printable};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement};

/// Most runs that the part of a table is made of.
const RUNS: u64 = 16;
/// No shorter runs, unless rows or the table end.
const RUN_MIN: u64 = 64;
/// A part of a table is no smaller, in pages.
const PAGES_MIN: u64 = 16;
/// The size of the part is looked at after so many bytes of rows.
const LOOK: usize = 64 << 10;

/// Copies about `budget` bytes of a database into a new file, and says what was left out and why.
pub(crate) fn copy(
    origin: &Origin,
    budget: u64,
    part: &Path,
    job: &Job<'_>,
    step: &Step<'_>,
) -> Result<Vec<String>> {
    let facts = origin.facts(job)?;
    let made = || -> rusqlite::Result<Vec<String>> {
        let connection = Connection::open(part)?;
        distrust(&connection)?;
        let _interrupts = job.interrupts(&connection);
        connection.pragma_update(None, "encoding", &facts.encoding)?;
        connection.pragma_update(None, "page_size", facts.page_size)?;
        connection.execute_batch(&format!(
            "PRAGMA auto_vacuum={}; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;
             PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON;",
            facts.auto_vacuum
        ))?;
        connection.execute("ATTACH ?1 AS source", [origin.uri()])?;
        connection.execute_batch("BEGIN")?;
        let share = budget as f64 / facts.used.max(1) as f64;
        let mut copier = Copier {
            connection: &connection,
            share,
            left_out: Vec::new(),
            step,
        };
        copier.all()?;
        let left_out = copier.left_out;
        connection.execute_batch("COMMIT")?;
        let known = "SELECT count(*) FROM source.sqlite_schema WHERE name = 'sqlite_stat1'";
        if connection.query_row(known, [], |row| row.get::<_, bool>(0))? {
            connection.execute_batch("ANALYZE main")?;
        }
        Ok(left_out)
    };
    made().map_err(|error| origin.explain(error))
}

struct Copier<'a> {
    connection: &'a Connection,
    /// The share of each table that is copied.
    share: f64,
    left_out: Vec<String>,
    step: &'a Step<'a>,
}

/// The parts of a table.
struct CopiedTable {
    name: String,
    /// Names of the columns that hold something, quoted; the rowid is the first, if there is one that can be named.
    columns: String,
    count: usize,
    /// The columns that rows are in order of, quoted.
    key: String,
}

impl Copier<'_> {
    fn all(&mut self) -> rusqlite::Result<()> {
        // Not by `pragma_table_list`: it prepares a statement for each view, which a file can make long. Of the name of a
        // table, `pragma_index_info` knows something if it is WITHOUT ROWID. Only a virtual table has no page.
        let sql = "SELECT s.name, s.sql, EXISTS (SELECT 1 FROM pragma_index_info(s.name, 'source')), s.rootpage = 0,
                   (SELECT sum(pageno) FROM dbstat WHERE schema = 'source' AND name = s.name AND aggregate = TRUE)
                   FROM source.sqlite_schema AS s
                   WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                   ORDER BY s.rowid";
        let tables = self.rows(sql, |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, bool>(2)?,
                row.get::<_, bool>(3)?,
                row.get::<_, Option<i64>>(4)?.map_or(0, i64::unsigned_abs),
            ))
        })?;
        for (name, sql, without_rowid, is_virtual, pages) in tables {
            self.step.at(&printable(&name));
            if is_virtual {
                let why = "only the tables with its content are in a sample";
                let name = printable(&name);
                self.left_out.push(format!("virtual table {name}: {why}"));
                continue;
            }
            let copied = self.create(&sql).and_then(|()| {
                let table = self.table(&name, without_rowid)?;
                self.table_part(&table, pages)
            });
            self.or_left_out("table", &name, copied)?;
        }
        for kind in ["index", "view"] {
            let sql = format!(
                "SELECT name, sql FROM source.sqlite_schema WHERE type = '{kind}' AND sql NOT NULL \
                 AND tbl_name IN (SELECT name FROM main.sqlite_schema UNION ALL SELECT name \
                 FROM source.sqlite_schema WHERE type = 'view') ORDER BY rowid"
            );
            let found = self.rows(&sql, |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            for (name, sql) in found {
                self.step.at(&printable(&name));
                let made = self.create(&sql);
                self.or_left_out(kind, &name, made)?;
            }
        }
        Ok(())
    }

    /// Makes a table, index or view. The schema of a hostile file can hold more than one statement; SQLite reads only
    /// the first, and others are an error here.
    fn create(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.execute(sql, []).map(drop)
    }

    /// An object that only this program cannot make, for want of a function or a collation, is left out.
    fn or_left_out(
        &mut self,
        kind: &str,
        name: &str,
        done: rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        match done {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
                let (name, why) = (printable(name), printable(&error.to_string()));
                self.left_out.push(format!("{kind} {name}: {why}"));
                Ok(())
            }
            done => done,
        }
    }

    fn table(&self, name: &str, without_rowid: bool) -> rusqlite::Result<CopiedTable> {
        let columns = columns(self.connection, "source", name)?;
        // Generated columns are hidden, and make themselves.
        let stored = columns.iter().filter(|column| column.hidden == 0);
        let mut stored: Vec<String> = stored.map(|column| quote(&column.name)).collect();
        let first = columns.iter().find(|column| column.key == 1);
        let key = if without_rowid {
            first.map(|column| quote(&column.name))
        } else {
            rowid(columns.iter().map(|column| &column.name)).map(String::from)
        };
        if !without_rowid && let Some(rowid) = &key {
            stored.insert(0, rowid.clone());
        }
        Ok(CopiedTable {
            name: quote(name),
            // A table whose rowid has no name is copied from its beginning.
            key: key.unwrap_or_default(),
            count: stored.len(),
            columns: stored.join(", "),
        })
    }

    /// Copies the share of a table that has so many pages.
    fn table_part(&self, table: &CopiedTable, pages: u64) -> rusqlite::Result<()> {
        let CopiedTable {
            name,
            columns,
            key,
            count,
        } = table;
        let marks = vec!["?"; *count].join(", ");
        // Runs of a table without integer keys may meet.
        let insert = format!("INSERT OR IGNORE INTO main.{name}({columns}) VALUES ({marks})");
        let mut insert = self.connection.prepare(&insert)?;
        let select = format!("SELECT {columns} FROM source.{name}");
        let target = ((pages as f64 * self.share) as u64).max(PAGES_MIN);
        if pages <= target || key.is_empty() {
            let end = if pages <= target { u64::MAX } else { target };
            return self.run(&select, [], &mut insert, self.pages()?.saturating_add(end));
        }
        let begin = self.pages()?;
        let ends = format!(
            "SELECT (SELECT min({key}) FROM source.{name}), (SELECT max({key}) FROM source.{name})"
        );
        let ends = self.connection.query_row(&ends, [], |row| {
            Ok((row.get::<_, i64>(0).ok(), row.get::<_, i64>(1).ok()))
        })?;
        let (Some(first), Some(last)) = ends else {
            // Keys that cannot be divided: from both ends.
            self.run(&select, [], &mut insert, begin + target.div_ceil(2))?;
            let from_end = format!("{select} ORDER BY {key} DESC");
            return self.run(&from_end, [], &mut insert, begin + target);
        };
        let runs = (target / RUN_MIN).clamp(1, RUNS);
        let span = i128::from(last) - i128::from(first) + 1;
        let start = |run: u64| {
            let key = i128::from(first) + span * i128::from(run) / i128::from(runs);
            i64::try_from(key).unwrap_or(i64::MAX)
        };
        let select = format!("{select} WHERE {key} >= ?1 AND {key} <= ?2 ORDER BY {key}");
        for run in 0..runs {
            let until = if run + 1 == runs {
                last
            } else {
                start(run + 1).saturating_sub(1)
            };
            // The next run may take what this one did not find, where rows are few.
            let end = begin + target * (run + 1) / runs;
            self.run(&select, [start(run), until], &mut insert, end)?;
        }
        // Keys that lie in few places leave most runs empty; the rest is what follows the first run.
        self.run(&select, [first, last], &mut insert, begin + target)
    }

    /// Copies rows until the part has `end` pages.
    fn run<const N: usize>(
        &self,
        select: &str,
        parameters: [i64; N],
        insert: &mut Statement<'_>,
        end: u64,
    ) -> rusqlite::Result<()> {
        let mut select = self.connection.prepare(select)?;
        let columns = select.column_count();
        let mut rows = select.query(rusqlite::params_from_iter(parameters))?;
        let mut copied = LOOK;
        while let Some(row) = rows.next()? {
            if copied >= LOOK {
                if self.pages()? >= end {
                    break;
                }
                copied = 0;
            }
            for at in 0..columns {
                let value = row.get_ref(at)?;
                copied += 1 + match value {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
                    _ => 4,
                };
                insert.raw_bind_parameter(at + 1, ToSqlOutput::Borrowed(value))?;
            }
            insert.raw_execute()?;
        }
        Ok(())
    }

    /// Pages of the part so far.
    fn pages(&self) -> rusqlite::Result<u64> {
        let sql = "PRAGMA main.page_count";
        let mut pages = self.connection.prepare_cached(sql)?;
        pages.query_row([], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
    }

    fn rows<T>(
        &self,
        sql: &str,
        each: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let mut statement = self.connection.prepare(sql)?;
        statement.query_map([], each)?.collect()
    }
}

/// A name of the rowid that no column of a table has taken.
pub(crate) fn rowid<'a>(columns: impl Iterator<Item = &'a String> + Clone) -> Option<&'static str> {
    ["rowid", "_rowid_", "oid"].into_iter().find(|alias| {
        let mut columns = columns.clone();
        !columns.any(|name| name.eq_ignore_ascii_case(alias))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_has_its_share_of_each_table_in_runs() {
        litepack_database::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        let (whole, part) = (place.path().join("whole.db"), place.path().join("part.db"));
        let db = Connection::open(&whole).unwrap();
        db.execute_batch(
            "PRAGMA synchronous=OFF;
             CREATE TABLE large(id INTEGER PRIMARY KEY, a TEXT);
             CREATE TABLE clumps(a TEXT);
             CREATE TABLE keyed(k TEXT PRIMARY KEY, a TEXT) WITHOUT ROWID;
             CREATE TABLE small(a TEXT);
             CREATE INDEX i ON large(a);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
                 INSERT INTO large SELECT i, hex(randomblob(60)) FROM n;
             INSERT INTO clumps(rowid, a) SELECT id + id / 30000 * (1 << 60), a FROM large;
             INSERT INTO keyed SELECT a, a FROM large WHERE id <= 30000;
             INSERT INTO small SELECT a FROM large WHERE id <= 100;
             CREATE TRIGGER t AFTER INSERT ON large BEGIN SELECT raise(FAIL, 'copied'); END;",
        )
        .unwrap();
        drop(db);
        let job = Job::default();
        let step = job.bytes("sampling", 0);
        let origin = Origin::open(&whole, None).unwrap();
        let used = origin.facts(&job).unwrap().used;
        let left_out = copy(&origin, used / 5, &part, &job, &step).unwrap();
        assert_eq!(left_out, [] as [String; 0]);

        let db = Connection::open(&part).unwrap();
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        for (table, rows) in [("large", 60_000), ("clumps", 60_000), ("keyed", 30_000)] {
            let found = number(&format!("SELECT count(*) FROM {table}"));
            let share = found as f64 / f64::from(rows);
            assert!((0.15..0.25).contains(&share), "{table}: {share}");
        }
        assert_eq!(number("SELECT count(*) FROM small"), 100);
        let begins = "SELECT count(*) FROM large AS l
            WHERE NOT EXISTS (SELECT 1 FROM large WHERE id = l.id - 1)";
        assert!(
            (4..=RUNS as i64).contains(&number(begins)),
            "{}",
            number(begins)
        );
        // Old and new rows.
        assert_eq!(number("SELECT min(id) FROM large"), 1);
        assert!(number("SELECT max(id) FROM large") > 50_000);
        let kinds = "SELECT count(*) FROM sqlite_schema WHERE type = ";
        assert_eq!(number(&format!("{kinds}'index'")), 1);
        assert_eq!(number(&format!("{kinds}'trigger'")), 0);
        let check: String = db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
        let size = part.metadata().unwrap().len() as f64 / used as f64;
        assert!((0.15..0.27).contains(&size), "{size}");
    }
}
