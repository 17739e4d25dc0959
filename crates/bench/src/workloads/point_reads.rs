//! Random point reads: one row by its key, everywhere in the table.

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

/// Reads rows anywhere among so many; a number that depends on all that was read.
pub(super) fn read(
    statement: &mut Statement,
    rows: u64,
    reads: u32,
    rng: &mut fastrand::Rng,
) -> rusqlite::Result<u64> {
    (0..reads).try_fold(0, |answer, _| {
        let id = rng.i64(1..=rows as i64);
        statement.query_row([id], |row| {
            Ok(super::mix(answer, row.get_ref(0)?.as_bytes()?))
        })
    })
}
