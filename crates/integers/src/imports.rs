//! The last two test cases: each table from a CSV file, by the shell's `.import` and by one prepared statement.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use litepack_bench::engines::{Journal, stored_bytes};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::data::{Row, Table, write_csv};
use crate::engines::{Shell, Target};
use crate::stats::Spread;

/// How rows get into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// `.import` of the `sqlite3` shell, a process of its own.
    Shell,
    /// One prepared statement in one transaction.
    Statement,
}

/// How long an import takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Import {
    /// The test case's number.
    pub case: u32,
    /// Rows imported.
    pub rows: u64,
    /// How.
    pub means: Means,
    /// In which journal mode.
    pub journal: String,
    /// Into what.
    pub target: String,
    /// How long, from opening the database to having closed it.
    pub seconds: Spread,
    /// Bytes on disk afterwards.
    pub bytes: u64,
}

/// A way to import.
type Way = (Means, Journal, Target);

/// All ways, those that are compared with each other in a row.
fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for means in [Means::Shell, Means::Statement] {
        for journal in [Journal::Delete, Journal::Wal] {
            ways.extend(Target::ALL.map(|target| (means, journal, target)));
        }
    }
    ways
}

/// Measures all imports that can be made, `rounds` times each, the targets taking turns.
///
/// # Errors
/// SQLite's, and if not all rows arrive.
pub fn measure(
    scratch: &Path,
    rows: u64,
    rounds: u32,
    shell: Option<&Shell>,
    say: &dyn Fn(String),
) -> Result<Vec<Import>> {
    let mut found = Vec::new();
    for (case, table) in [(5, Table::One), (6, Table::Two)] {
        say(format!("writing {} as CSV", table.name()));
        let csv = scratch.join(format!("{}.csv", table.name()));
        write_csv(&csv, table, rows)?;
        let work = Work {
            table,
            rows,
            csv: &csv,
            database: &scratch.join("import.db"),
            shell,
        };
        let ways = ways();
        let mut turns = vec![(Vec::new(), 0); ways.len()];
        for round in 1..=rounds {
            for (way, (times, bytes)) in ways.iter().zip(&mut turns) {
                say(format!(
                    "test case {case}, {} ({round} of {rounds})",
                    way.2.name()
                ));
                if let Some((seconds, stored)) = work.turn(*way, round)? {
                    times.push(seconds);
                    *bytes = stored;
                }
            }
        }
        std::fs::remove_file(&csv)?;
        let measured = ways
            .into_iter()
            .zip(turns)
            .filter(|(_, (times, _))| !times.is_empty());
        found.extend(
            measured.map(|((means, journal, target), (times, bytes))| Import {
                case,
                rows,
                means,
                journal: journal.name().into(),
                target: target.name().into(),
                seconds: Spread::of(&times),
                bytes,
            }),
        );
    }
    Ok(found)
}

/// One import.
struct Work<'a> {
    table: Table,
    rows: u64,
    csv: &'a Path,
    /// Where no file is before and after a turn.
    database: &'a Path,
    shell: Option<&'a Shell>,
}

impl Work<'_> {
    /// Seconds and bytes; none if this way takes no part in the round.
    fn turn(&self, (means, journal, target): Way, round: u32) -> Result<Option<(f64, u64)>> {
        // At level 19 an import takes about ten times as long; once tells as much.
        if target == Target::Packed19 && (round > 1 || means == Means::Shell) {
            return Ok(None);
        }
        let start = Instant::now();
        match (means, self.shell) {
            (Means::Statement, _) => self.by_statement(target, journal)?,
            (Means::Shell, Some(shell)) => self.by_shell(shell, target, journal)?,
            (Means::Shell, None) => return Ok(None),
        }
        let seconds = start.elapsed().as_secs_f64();
        let bytes = stored_bytes(self.database);
        let conn = target.create(self.database)?;
        let sql = format!("select count(*) from {}", self.table.name());
        let arrived: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
        ensure!(
            arrived as u64 == self.rows,
            "{arrived} of {} rows arrived in {}",
            self.rows,
            target.name()
        );
        conn.close().map_err(|(_, error)| error)?;
        std::fs::remove_file(self.database)?;
        Ok(Some((seconds, bytes)))
    }

    fn by_shell(&self, shell: &Shell, target: Target, journal: Journal) -> Result<()> {
        shell.run(&[
            &format!(".open '{}'", target.uri(self.database)),
            &format!("pragma journal_mode = {}", journal.name()),
            self.table.schema(),
            &format!(
                ".import --csv '{}' {}",
                self.csv.display(),
                self.table.name()
            ),
        ])
    }

    fn by_statement(&self, target: Target, journal: Journal) -> Result<()> {
        let conn = target.create(self.database)?;
        conn.pragma_update(None, "journal_mode", journal.name())?;
        conn.execute_batch(self.table.schema())?;
        self.insert(&conn)?;
        conn.close().map_err(|(_, error)| error)?;
        Ok(())
    }

    fn insert(&self, conn: &Connection) -> Result<()> {
        let transaction = conn.unchecked_transaction()?;
        let mut insert = self.table.prepare(&transaction)?;
        let (mut file, mut line) = (BufReader::new(File::open(self.csv)?), String::new());
        while file.read_line(&mut line)? > 0 {
            // No word has a comma or a quote in it.
            let line_end = line.trim_end();
            let (integer, word) = line_end.split_once(',').unwrap_or((line_end, ""));
            let integer = integer
                .parse()
                .with_context(|| format!("no integer: {integer}"))?;
            self.table.insert(&mut insert, Row { integer, word })?;
            line.clear();
        }
        drop(insert);
        Ok(transaction.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_give_the_tables() {
        let folder = tempfile::tempdir().unwrap();
        let (csv, database) = (
            folder.path().join("rows.csv"),
            folder.path().join("import.db"),
        );
        for table in Table::ALL {
            write_csv(&csv, table, 3000).unwrap();
            let work = Work {
                table,
                rows: 3000,
                csv: &csv,
                database: &database,
                shell: None,
            };
            let plain = crate::cases::source(folder.path(), table, 3000).unwrap();
            for target in Target::ALL {
                work.by_statement(target, Journal::Wal).unwrap();
                let conn = target.create(&database).unwrap();
                conn.execute("attach ? as source", [plain.to_str().unwrap()])
                    .unwrap();
                let sql = format!(
                    "select count(*) from (select rowid, * from main.{0} except select rowid, * from source.{0})",
                    table.name()
                );
                let differ: i64 = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
                assert_eq!(differ, 0, "{}", target.name());
                drop(conn);
                std::fs::remove_file(&database).unwrap();
            }
        }
    }

    #[test]
    fn each_way_takes_its_turns() {
        let folder = tempfile::tempdir().unwrap();
        let found = measure(folder.path(), 1000, 2, None, &|_| ()).unwrap();
        // Two cases, two journal modes, three targets; without a shell only by statement.
        assert_eq!(found.len(), 2 * 2 * 3);
        for import in &found {
            let rounds = if import.target == Target::Packed19.name() {
                1
            } else {
                2
            };
            assert!(import.seconds.count == rounds && import.bytes > 0);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
