//! The last two test cases: each table from a CSV file, by the shell's `.import` and by one prepared statement.

use std::collections::BTreeMap;
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
    /// What it takes on disk afterwards.
    pub bytes: u64,
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
        let mut times: BTreeMap<_, (Vec<f64>, u64)> = BTreeMap::new();
        for round in 1..=rounds {
            for journal in [Journal::Delete, Journal::Wal] {
                for means in [Means::Shell, Means::Statement] {
                    for (index, target) in Target::ALL.into_iter().enumerate() {
                        say(format!(
                            "test case {case}, {} ({round} of {rounds})",
                            target.name()
                        ));
                        let path = scratch.join("import.db");
                        let start = Instant::now();
                        match (means, shell) {
                            (Means::Statement, _) => {
                                by_statement(target, &path, journal, table, &csv)?
                            }
                            (Means::Shell, Some(shell)) => {
                                by_shell(shell, target, &path, journal, table, &csv)?
                            }
                            (Means::Shell, None) => continue,
                        }
                        let seconds = start.elapsed().as_secs_f64();
                        let bytes = stored_bytes(&path);
                        let sql = format!("select count(*) from {}", table.name());
                        let conn = target.create(&path)?;
                        let arrived: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
                        ensure!(
                            arrived as u64 == rows,
                            "{arrived} of {rows} rows arrived in {}",
                            target.name()
                        );
                        conn.close().map_err(|(_, error)| error)?;
                        std::fs::remove_file(&path)?;
                        let (all, last) = times.entry((means, journal.name(), index)).or_default();
                        all.push(seconds);
                        *last = bytes;
                    }
                }
            }
        }
        std::fs::remove_file(csv)?;
        found.extend(
            times
                .into_iter()
                .map(|((means, journal, index), (times, bytes))| Import {
                    case,
                    rows,
                    means,
                    journal: journal.into(),
                    target: Target::ALL[index].name().into(),
                    seconds: Spread::of(&times),
                    bytes,
                }),
        );
    }
    Ok(found)
}

fn by_shell(
    shell: &Shell,
    target: Target,
    path: &Path,
    journal: Journal,
    table: Table,
    csv: &Path,
) -> Result<()> {
    shell.run(&[
        &format!(".open '{}'", target.uri(path)),
        &format!("pragma journal_mode = {}", journal.name()),
        table.schema(),
        &format!(".import --csv '{}' {}", csv.display(), table.name()),
    ])
}

fn by_statement(
    target: Target,
    path: &Path,
    journal: Journal,
    table: Table,
    csv: &Path,
) -> Result<()> {
    let conn = target.create(path)?;
    conn.pragma_update(None, "journal_mode", journal.name())?;
    conn.execute_batch(table.schema())?;
    insert(&conn, table, csv)?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn insert(conn: &Connection, table: Table, csv: &Path) -> Result<()> {
    let transaction = conn.unchecked_transaction()?;
    let mut insert = table.prepare(&transaction)?;
    let (mut file, mut line) = (BufReader::new(File::open(csv)?), String::new());
    while file.read_line(&mut line)? > 0 {
        // No word has a comma or a quote in it.
        let (integer, word) = line
            .trim_end()
            .split_once(',')
            .unwrap_or((line.trim_end(), ""));
        let integer = integer
            .parse()
            .with_context(|| format!("no integer: {integer}"))?;
        table.insert(&mut insert, Row { integer, word })?;
        line.clear();
    }
    drop(insert);
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_give_the_tables() {
        let folder = tempfile::tempdir().unwrap();
        for table in Table::ALL {
            let csv = folder.path().join("rows.csv");
            write_csv(&csv, table, 3000).unwrap();
            let plain = crate::cases::source(folder.path(), table, 3000).unwrap();
            for target in Target::ALL {
                let path = folder.path().join("import.db");
                by_statement(target, &path, Journal::Wal, table, &csv).unwrap();
                let conn = target.create(&path).unwrap();
                conn.execute("attach ? as source", [plain.to_str().unwrap()])
                    .unwrap();
                let sql = format!(
                    "select count(*) from (select rowid, * from main.{0} except select rowid, * from source.{0})",
                    table.name()
                );
                let differ: i64 = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
                assert_eq!(differ, 0, "{}", target.name());
                drop(conn);
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}
