//! The first four test cases: a count and a mean over all rows, with and without a filter.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use litepack_bench::cold::Cold;
use litepack_bench::engines::{Engine, Journal, Synchronous, settle, stored_bytes};
use litepack_testdata::make_once;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::data::{Table, create};
use crate::stats::Spread;

/// A test case that reads: its number, its table and its statement.
pub const QUERIES: [(u32, Table, &str); 4] = [
    (
        1,
        Table::One,
        "select count(*), avg(RandomInteger) from table1",
    ),
    (
        2,
        Table::Two,
        "select count(*), avg(RandomInteger) from table2",
    ),
    (
        3,
        Table::Two,
        "select count(*), avg(RandomInteger) from table2 where RandomInteger > 68",
    ),
    (
        4,
        Table::Two,
        "select count(*), avg(RandomInteger) from table2 where RandomWord like 'squalid'",
    ),
];

/// The part of the file that the operating system has in memory when the clock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Nothing, and the database is not open yet.
    Cold,
    /// All of it: the same connection has just run the statement.
    Warm,
}

/// How long a statement takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// The test case's number.
    pub case: u32,
    /// In which journal mode.
    pub journal: String,
    /// The state of the cache.
    pub cache: Cache,
    /// By which engine.
    pub engine: String,
    /// How long.
    pub seconds: Spread,
}

/// The size of a table on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// The table's name.
    pub table: String,
    /// By which engine.
    pub engine: String,
    /// The file's length.
    pub bytes: u64,
}

/// Readings and sizes.
#[derive(Default, Debug, Serialize, Deserialize)]
pub struct Cases {
    /// In the order of the cases.
    pub readings: Vec<Reading>,
    /// Of each table.
    pub stored: Vec<Stored>,
}

/// The plain database of a table, made in `folder` if it is not there yet.
///
/// # Errors
/// SQLite's.
pub fn source(folder: &Path, table: Table, rows: u64) -> Result<PathBuf> {
    let path = folder.join(format!("integers-{}-{rows}.db", table.name()));
    make_once(&path, |conn| create(conn, table, rows))?;
    Ok(path)
}

/// The tables as each engine keeps them.
pub struct Files {
    /// Plain SQLite first.
    pub engines: Vec<Box<dyn Engine>>,
    /// Table, number of the engine, file.
    pub files: Vec<(Table, usize, PathBuf)>,
}

/// Makes both tables for all engines in `scratch`; the plain ones are kept in `folder`.
///
/// # Errors
/// An engine's.
pub fn prepare(
    engines: Vec<Box<dyn Engine>>,
    folder: &Path,
    scratch: &Path,
    rows: u64,
    say: &dyn Fn(String),
) -> Result<Files> {
    let mut files = Vec::new();
    for table in Table::ALL {
        say(format!("making {} of {rows} rows", table.name()));
        let source = source(folder, table, rows)?;
        for (index, engine) in engines.iter().enumerate() {
            say(format!("making {} for {}", table.name(), engine.name()));
            let path = scratch.join(format!("{}-{index}.db", table.name()));
            engine.prepare(&source, &path)?;
            settle(&path)?;
            files.push((table, index, path));
        }
    }
    Ok(Files { engines, files })
}

/// Measures all cases, `rounds` times each, the engines taking turns; without a way to make files cold, warm ones only.
///
/// # Errors
/// An engine's, and if the engines answer differently.
pub fn measure(
    files: &Files,
    rounds: u32,
    cold: Option<Cold>,
    say: &dyn Fn(String),
) -> Result<Cases> {
    let Files { engines, files } = files;
    let stored = files.iter().map(|(table, index, path)| Stored {
        table: table.name().into(),
        engine: engines[*index].name().into(),
        bytes: stored_bytes(path),
    });
    let mut cases = Cases {
        stored: stored.collect(),
        readings: Vec::new(),
    };
    let mut times: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for journal in [Journal::Delete, Journal::Wal] {
        for (case, table, sql) in QUERIES {
            for round in 1..=rounds {
                say(format!(
                    "test case {case}, {} ({round} of {rounds})",
                    journal.name()
                ));
                let mut expected = None;
                for (_, index, path) in files.iter().filter(|file| file.0 == table) {
                    let engine = &engines[*index];
                    let open = || engine.open(path, journal, Synchronous::Full);
                    // The journal mode is set here, so that the clock does not see it.
                    drop(open()?);
                    cold.map_or(Ok(()), |cold| cold.forget(path))?;
                    let start = Instant::now();
                    let conn = open()?;
                    for cache in [Cache::Cold, Cache::Warm] {
                        let start = if cache == Cache::Cold {
                            start
                        } else {
                            Instant::now()
                        };
                        let answer = answer(&conn, sql)
                            .with_context(|| format!("{}: {sql}", engine.name()))?;
                        let taken = start.elapsed().as_secs_f64();
                        if cache == Cache::Warm || cold.is_some() {
                            let key = (case, journal.name(), cache, *index);
                            times.entry(key).or_default().push(taken);
                        }
                        ensure!(
                            *expected.get_or_insert(answer) == answer,
                            "{} answers {answer:?} to {sql}, and not {expected:?}",
                            engine.name()
                        );
                    }
                }
            }
        }
    }
    cases.readings = times
        .into_iter()
        .map(|((case, journal, cache, index), times)| Reading {
            case,
            journal: journal.into(),
            cache,
            engine: engines[index].name().into(),
            seconds: Spread::of(&times),
        })
        .collect();
    Ok(cases)
}

fn answer(conn: &Connection, sql: &str) -> Result<(i64, f64)> {
    Ok(conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_bench::engines::{Engines, Group};

    #[test]
    fn the_answers_are_those_of_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let words = crate::data::words();
        let rows: Vec<_> = crate::data::rows(&words, 30_000).collect();
        type Filter = fn(&crate::data::Row<'_>) -> bool;
        let filters: [Filter; 4] = [
            |_| true,
            |_| true,
            |row| row.integer > 68,
            |row| row.word == "squalid",
        ];
        for ((_, table, sql), filter) in QUERIES.into_iter().zip(filters) {
            let path = source(folder.path(), table, 30_000).unwrap();
            let conn = Connection::open(path).unwrap();
            let (count, mean) = answer(&conn, sql).unwrap();
            let found: Vec<f64> = rows
                .iter()
                .filter(|row| filter(row))
                .map(|row| row.integer as f64)
                .collect();
            assert!(!found.is_empty());
            assert_eq!(count as usize, found.len(), "{sql}");
            let expected = found.iter().sum::<f64>() / count as f64;
            let scale = found.iter().map(|value| value.abs()).sum::<f64>() / count as f64;
            assert!(
                (mean - expected).abs() < 1e-9 * scale,
                "{sql}: {mean}, {expected}"
            );
        }
    }

    #[test]
    fn every_case_has_every_reading() {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = prepare(
            Engines::of(Group::Files, false).ready,
            folder.path(),
            scratch.path(),
            5000,
            &|_| (),
        )
        .unwrap();
        let cases = measure(&files, 2, Some(Cold::Advise), &|_| ()).unwrap();
        assert_eq!(cases.readings.len(), 4 * 2 * 2 * 2);
        assert!(
            cases
                .readings
                .iter()
                .all(|reading| reading.seconds.count == 2)
        );
        let plain = cases
            .stored
            .iter()
            .filter(|stored| stored.engine == "plain");
        let packed = cases
            .stored
            .iter()
            .filter(|stored| stored.engine == "litepack");
        assert!(
            plain
                .zip(packed)
                .all(|(plain, packed)| packed.bytes < plain.bytes)
        );
    }
}
