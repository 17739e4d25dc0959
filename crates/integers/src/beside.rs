//! The tables in SQLite, in packed files and in Parquet: how large, how long a column takes, and a single row.

use std::time::Duration;

use anyhow::{Result, ensure};
use litepack_bench::engines::{Journal, Synchronous, stored_bytes};
use serde::{Deserialize, Serialize};

use crate::cases::Files;
use crate::data::Table;
use crate::stats::{Spread, repeat};

/// The size and times of a table in a format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Format {
    /// The table's name.
    pub table: String,
    /// As reports call it.
    pub format: String,
    /// The file's length.
    pub bytes: u64,
    /// Bytes of the integers alone, where the format keeps them apart.
    pub integers: Option<u64>,
    /// Seconds for the mean of all integers.
    pub scan: Spread,
    /// Seconds to read a row by its number.
    pub row: Spread,
    /// Seconds to change an integer so that it survives a power loss.
    pub update: Spread,
}

/// The names of the ways to write Parquet: without and with dictionaries, then both under zstd at level 3.
pub const FORMATS: [&str; 4] = [
    "Parquet",
    "Parquet, dictionary",
    "Parquet, zstd 3",
    "Parquet, zstd 3, dictionary",
];

/// Rows that are read one by one in a turn.
const READS: usize = 200;

/// Numbers of rows, from 1, equal in every format.
pub fn places(rows: u64) -> impl Iterator<Item = u64> {
    let mut rng = fastrand::Rng::with_seed(crate::data::SEED);
    std::iter::repeat_with(move || 1 + rng.u64(..rows))
}

/// Measures the files of all engines.
///
/// # Errors
/// SQLite's, and if a row is not there.
pub fn measure(
    files: &Files,
    rows: u64,
    time: Duration,
    say: &dyn Fn(String),
) -> Result<Vec<Format>> {
    let mut found = Vec::new();
    for (table, index, path) in &files.files {
        let engine = &files.engines[*index];
        say(format!("one row: {}, {}", table.name(), engine.name()));
        let bytes = stored_bytes(path);
        let conn = engine.open(path, Journal::Delete, Synchronous::Full)?;
        let sql = format!("select count(*), avg(RandomInteger) from {}", table.name());
        let scan = repeat(time, || {
            let count: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
            ensure!(count as u64 == rows, "{count} of {rows} rows");
            Ok(())
        })?;
        let mut select =
            conn.prepare(&format!("select * from {} where rowid = ?", table.name()))?;
        let mut numbers = places(rows);
        let row = repeat(time, || {
            for number in numbers.by_ref().take(READS) {
                select.query_row([number as i64], |row| {
                    if *table == Table::Two {
                        row.get_ref(1)?.as_str()?;
                    }
                    row.get::<_, i64>(0)
                })?;
            }
            Ok(())
        })?;
        let mut change = conn.prepare(&format!(
            "update {} set RandomInteger = ? where rowid = ?",
            table.name()
        ))?;
        let mut numbers = places(rows).enumerate();
        let update = repeat(time, || {
            let (value, number) = numbers.next().unwrap_or_default();
            ensure!(
                change.execute([value as i64, number as i64])? == 1,
                "no row {number}"
            );
            Ok(())
        })?;
        found.push(Format {
            table: table.name().into(),
            format: engine.name().into(),
            bytes,
            integers: None,
            scan,
            row: row.times(1.0 / READS as f64),
            update,
        });
    }
    Ok(found)
}
