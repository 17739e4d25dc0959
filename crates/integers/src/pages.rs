//! Whole pages: what a row of one column takes in SQLite, under zstd, and laid out by column, by column type and page size.
//!
//! The figures are those of leaf pages of a table with nothing but the column: rowid, header and cell pointer are
//! in them. Packed files have dictionaries as well, which these pages do without.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use litepack_codec::{Codec, Decoder, Encoder};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::data::{Distribution, SEED};
use crate::stats::{Spread, repeat};

/// Page sizes that are compared.
pub const PAGE_SIZES: [usize; 3] = [4096, 16_384, 65_536];
/// Bytes of pages that a turn goes through.
const SAMPLE: usize = 1 << 20;
/// The first byte of a leaf page of a table.
const TABLE_LEAF: u8 = 13;

/// A way to store pages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Way {
    /// As reports call it.
    pub name: String,
    /// Stored bytes for a row.
    pub bytes: f64,
    /// Nanoseconds to decode a row.
    pub decode: Spread,
    /// Nanoseconds to encode a row.
    pub encode: Spread,
}

/// The bytes of a column in pages of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pages {
    /// The distribution's name.
    pub distribution: String,
    /// How the values are stored in SQLite.
    pub column: String,
    /// Bytes of a page.
    pub page_size: usize,
    /// Rows on a page, on average.
    pub rows: f64,
    /// Bytes for a row in SQLite.
    pub bytes: f64,
    /// The ways to store it in less.
    pub ways: Vec<Way>,
}

/// How a column has its values.
type AsValue = fn(i64) -> Value;

fn integer(value: i64) -> Value {
    Value::Integer(value)
}

fn digits(value: i64) -> Value {
    Value::Text(value.to_string())
}

fn real(bits: i64) -> Value {
    Value::Real(f64::from_bits(bits as u64))
}

fn cents(bits: i64) -> Value {
    Value::Integer((f64::from_bits(bits as u64) * 100.0).round() as i64)
}

fn decimal_text(bits: i64) -> Value {
    Value::Text(format!("{:.2}", f64::from_bits(bits as u64)))
}

/// As SQLite's date functions write it.
fn date(milliseconds: i64) -> Value {
    let date = OffsetDateTime::UNIX_EPOCH + time::Duration::milliseconds(milliseconds);
    Value::Text(format!(
        "{} {:02}:{:02}:{:02}.{:03}",
        date.date(),
        date.hour(),
        date.minute(),
        date.second(),
        date.millisecond()
    ))
}

fn seconds(milliseconds: i64) -> Value {
    Value::Real(milliseconds as f64 / 1000.0)
}

/// Each distribution in the column types that people choose for it, the usual one first.
const COLUMNS: [(Distribution, &str, &str, AsValue); 13] = [
    (Distribution::Lengths, "integer", "INTEGER", integer),
    (Distribution::Lengths, "text", "TEXT", digits),
    (Distribution::SortedIds, "integer", "INTEGER", integer),
    (Distribution::SortedIds, "text", "TEXT", digits),
    (
        Distribution::Timestamps,
        "integer",
        "INTEGER, milliseconds",
        integer,
    ),
    (Distribution::Timestamps, "real", "REAL, seconds", seconds),
    (Distribution::Timestamps, "text", "TEXT, ISO 8601", date),
    (Distribution::Uniform, "integer", "INTEGER", integer),
    (Distribution::Enumeration, "integer", "INTEGER", integer),
    (Distribution::Decimals, "real", "REAL", real),
    (Distribution::Decimals, "integer", "INTEGER, cents", cents),
    (Distribution::Decimals, "text", "TEXT", decimal_text),
    (Distribution::Measurements, "real", "REAL", real),
];

/// Measures all columns in tables of so many rows, made in `folder`.
///
/// # Errors
/// SQLite's, and if a page does not come back.
pub fn measure(
    folder: &Path,
    rows: usize,
    time: Duration,
    say: &dyn Fn(String),
) -> Result<Vec<Pages>> {
    let mut found = Vec::new();
    for (distribution, affinity, column, as_value) in COLUMNS {
        say(format!("pages: {}, {column}", distribution.name()));
        for page_size in PAGE_SIZES {
            let values = distribution.column(rows, SEED).values;
            let path = folder.join("pages.db");
            make(&path, page_size, affinity, &values, as_value)?;
            let leaves = leaves(&path, page_size)?;
            std::fs::remove_file(&path)?;
            let count: usize = leaves.iter().map(|page| cells(page)).sum();
            found.push(Pages {
                distribution: distribution.name().into(),
                column: column.into(),
                page_size,
                rows: count as f64 / leaves.len() as f64,
                bytes: (leaves.len() * page_size) as f64 / count as f64,
                ways: [(3, false), (3, true), (19, true)]
                    .into_iter()
                    .map(|(level, columns)| way(&leaves, count, level, columns, time))
                    .collect::<Result<_>>()?,
            });
        }
    }
    Ok(found)
}

fn make(
    path: &Path,
    page_size: usize,
    affinity: &str,
    values: &[i64],
    as_value: AsValue,
) -> Result<()> {
    let mut conn = Connection::open(path)?;
    conn.execute_batch(&format!(
        "pragma page_size = {page_size}; pragma journal_mode = off; pragma synchronous = off;
         create table t (v {affinity})"
    ))?;
    let transaction = conn.transaction()?;
    let mut insert = transaction.prepare("insert into t values (?)")?;
    for value in values {
        insert.execute([as_value(*value)])?;
    }
    drop(insert);
    transaction.commit()?;
    Ok(())
}

/// Leaf pages from all over the table, full ones.
fn leaves(path: &Path, page_size: usize) -> Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(path)?;
    let pages = bytes.chunks_exact(page_size).skip(1);
    let mut leaves: Vec<Vec<u8>> = pages
        .filter(|page| page[0] == TABLE_LEAF)
        .map(Vec::from)
        .collect();
    // The last one is not full.
    leaves.pop();
    ensure!(!leaves.is_empty(), "too few rows for a page");
    let step = (leaves.len() * page_size).div_ceil(SAMPLE);
    Ok(leaves.into_iter().step_by(step).collect())
}

/// The rows on a leaf page.
fn cells(page: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([page[3], page[4]]))
}

fn way(pages: &[Vec<u8>], rows: usize, level: i32, columnar: bool, time: Duration) -> Result<Way> {
    let mut encoder = Encoder::with_columnar(level, columnar);
    let mut stored: Vec<(Codec, Vec<u8>)> = vec![(Codec::Raw, Vec::new()); pages.len()];
    let encode = repeat(time, || {
        for (page, (codec, out)) in pages.iter().zip(&mut stored) {
            out.clear();
            *codec = encoder.encode(page, None, out)?;
        }
        Ok(())
    })?;
    let (mut decoder, mut back) = (Decoder::default(), vec![0; pages[0].len()]);
    for (page, (codec, bytes)) in pages.iter().zip(&stored) {
        decoder.decode(*codec, bytes, None, &mut back)?;
        ensure!(back == *page, "a page does not come back");
    }
    let decode = repeat(time, || {
        for (codec, bytes) in &stored {
            decoder.decode(*codec, bytes, None, &mut back)?;
        }
        Ok(())
    })?;
    let each = 1e9 / rows as f64;
    let bytes: usize = stored.iter().map(|(_, bytes)| bytes.len()).sum();
    Ok(Way {
        name: format!("{}zstd {level}", if columnar { "by column, " } else { "" }),
        bytes: bytes as f64 / rows as f64,
        decode: decode.times(each),
        encode: encode.times(each),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_on_pages_of_every_size() {
        let folder = tempfile::tempdir().unwrap();
        let found = measure(folder.path(), 20_000, Duration::ZERO, &|_| ()).unwrap();
        assert_eq!(found.len(), COLUMNS.len() * PAGE_SIZES.len());
        for pages in &found {
            let full = pages.rows * pages.bytes / pages.page_size as f64;
            assert!((0.99..1.01).contains(&full), "{pages:?}");
            assert!(
                pages
                    .ways
                    .iter()
                    .all(|way| way.bytes > 0.0 && way.bytes < pages.bytes * 1.001)
            );
        }
        let bytes = |column: &str| {
            let pages = found.iter().find(|pages| pages.column == column).unwrap();
            pages.bytes
        };
        // The date has 23 letters, and a number of milliseconds six bytes.
        let more = bytes("TEXT, ISO 8601") - bytes("INTEGER, milliseconds");
        assert!((16.8..17.4).contains(&more), "{more}");
    }
}
