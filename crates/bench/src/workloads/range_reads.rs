//! Short scans: 1000 rows in key order from a random key on.

use std::time::Instant;

use anyhow::Result;
use rusqlite::{Connection, Statement};

use super::session::Session;
use crate::dataset::Dataset;
use crate::lab::{Scale, Turn};
use crate::rows::{Setting, Unit};

const SCANS: u32 = 500;
const LENGTH: u32 = 1000;
/// Rows in key order from a key on.
pub(super) const SQL: &str = "select data from title where id >= ? order by id limit ?";

/// Reads in key order.
pub struct RangeReads;

impl Session for RangeReads {
    fn name(&self) -> &'static str {
        "range-reads"
    }

    fn about(&self) -> &'static str {
        "1000 rows in key order from a random key on; the rate counts such scans. \
         Aim: at least 1 × the rate."
    }

    fn title(&self) -> String {
        format!("{LENGTH} sequential rows")
    }

    fn data(&self) -> Dataset {
        Dataset::Titles
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::DELETE_FULL]
    }

    fn unit(&self) -> Unit {
        Unit::PerSecond
    }

    fn writes(&self) -> bool {
        false
    }

    fn turn(&self, scale: Scale, conn: &Connection, round: u32) -> Result<Turn> {
        let scans = scale.operations(SCANS);
        let mut rng = super::random("range-reads", round);
        let mut statement = conn.prepare(SQL)?;
        let start = Instant::now();
        let answer = read(&mut statement, scale.size.rows, scans, &mut rng)?;
        let value = f64::from(scans) / start.elapsed().as_secs_f64();
        Ok(Turn { value, answer })
    }
}

/// Scans so often from anywhere among so many rows; a number that depends on all that was read.
pub(super) fn read(
    statement: &mut Statement,
    rows: u64,
    scans: u32,
    rng: &mut fastrand::Rng,
) -> Result<u64> {
    let last = rows.saturating_sub(LENGTH.into()).max(1) as i64;
    let mut answer = 0;
    for _ in 0..scans {
        let mut rows = statement.query([rng.i64(1..=last), LENGTH.into()])?;
        while let Some(row) = rows.next()? {
            answer = super::mix(answer, row.get_ref(0)?.as_bytes()?);
        }
    }
    Ok(answer)
}
