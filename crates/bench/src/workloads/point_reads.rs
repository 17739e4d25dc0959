//! Random point reads: one row by its key, everywhere in the table, or some rows far more often than others.

use std::time::Instant;

use anyhow::Result;
use rusqlite::{Connection, Statement};

use super::session::Session;
use crate::dataset::Dataset;
use crate::lab::{Scale, Turn};
use crate::rows::{Setting, Unit};

const READS: u32 = 100_000;
/// One row by its key.
pub(super) const SQL: &str = "select data from title where id = ?";

/// Reads by key.
pub struct PointReads;

impl Session for PointReads {
    fn name(&self) -> &'static str {
        "point-reads"
    }

    fn about(&self) -> &'static str {
        "One row by primary key, keys uniformly random, each read a transaction of its own. \
         Aim: at least 0.9 × the rate."
    }

    fn title(&self) -> String {
        "Random point reads".into()
    }

    fn data(&self) -> Dataset {
        Dataset::Titles
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::DELETE_FULL, Setting::WAL_FULL]
    }

    fn unit(&self) -> Unit {
        Unit::PerSecond
    }

    fn writes(&self) -> bool {
        false
    }

    fn turn(&self, scale: Scale, conn: &Connection, round: u32) -> Result<Turn> {
        let reads = scale.operations(READS);
        let mut rng = super::random("point-reads", round);
        let mut statement = conn.prepare(SQL)?;
        let start = Instant::now();
        let answer = read(&mut statement, scale.size.rows, reads, &mut rng)?;
        let value = f64::from(reads) / start.elapsed().as_secs_f64();
        Ok(Turn { value, answer })
    }
}

/// Reads by key, of which few are read often.
pub struct ZipfReads;

impl Session for ZipfReads {
    fn name(&self) -> &'static str {
        "zipf-point-reads"
    }

    fn about(&self) -> &'static str {
        "One row by primary key, by Zipf's law with exponent 0.99; rows that are read often lie all over the table."
    }

    fn title(&self) -> String {
        "Point reads by Zipf's law".into()
    }

    fn data(&self) -> Dataset {
        PointReads.data()
    }

    fn settings(&self) -> &'static [Setting] {
        PointReads.settings()
    }

    fn unit(&self) -> Unit {
        PointReads.unit()
    }

    fn writes(&self) -> bool {
        false
    }

    fn turn(&self, scale: Scale, conn: &Connection, round: u32) -> Result<Turn> {
        let reads = scale.operations(READS);
        let mut rng = super::random("zipf-point-reads", round);
        let mut statement = conn.prepare(SQL)?;
        let rows = scale.size.rows;
        let start = Instant::now();
        let answer = read_ids(&mut statement, reads, || zipf(rows, rng.f64()))?;
        let value = f64::from(reads) / start.elapsed().as_secs_f64();
        Ok(Turn { value, answer })
    }
}

/// The key for a uniformly random number below 1: the distribution is inverted, as if ranks were continuous.
fn zipf(rows: u64, uniform: f64) -> i64 {
    const EXPONENT: f64 = 0.99;
    /// A prime, to put neighbouring ranks far from each other.
    const SPREAD: u64 = 2_654_435_761;
    let power = 1.0 - EXPONENT;
    let most = (rows as f64).powf(power) - 1.0;
    let rank = (uniform * most + 1.0).powf(power.recip()) as u64;
    (rank.wrapping_mul(SPREAD) % rows) as i64 + 1
}

/// Reads rows anywhere among so many; a number that depends on all that was read.
pub(super) fn read(
    statement: &mut Statement,
    rows: u64,
    reads: u32,
    rng: &mut fastrand::Rng,
) -> rusqlite::Result<u64> {
    read_ids(statement, reads, || rng.i64(1..=rows as i64))
}

fn read_ids(
    statement: &mut Statement,
    reads: u32,
    mut next: impl FnMut() -> i64,
) -> rusqlite::Result<u64> {
    (0..reads).try_fold(0, |answer, _| {
        statement.query_row([next()], |row| {
            Ok(super::mix(answer, row.get_ref(0)?.as_bytes()?))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_are_read_often_and_all_are_there() {
        const ROWS: u64 = 10_000;
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = vec![0; ROWS as usize];
        for _ in 0..100_000 {
            counts[zipf(ROWS, rng.f64()) as usize - 1] += 1;
        }
        counts.sort_unstable();
        let hundredth: u32 = counts.iter().rev().take(100).sum();
        assert!((45_000..60_000).contains(&hundredth), "{hundredth}");
        let seen = counts.iter().filter(|count| **count > 0).count();
        assert!(seen > ROWS as usize / 2, "{seen}");
        for uniform in [0.0, 0.999_999_999] {
            assert!((1..=ROWS as i64).contains(&zipf(ROWS, uniform)));
        }
    }
}
