//! Short scans: 1000 rows in key order from a random key on.

use std::time::Instant;

use anyhow::Result;
use rusqlite::Connection;

use super::session::Session;
use crate::data::dataset::Dataset;
use crate::lab::{Lab, Turn};
use crate::rows::{Setting, Unit};

const SCANS: u32 = 500;
const LENGTH: u32 = 1000;

/// Reads in key order.
pub struct RangeReads;

impl Session for RangeReads {
    fn name(&self) -> &'static str {
        "range-reads"
    }

    fn about(&self) -> &'static str {
        "1000 rows in key order from a random key on; the rate counts such scans."
    }

    fn title(&self, _lab: &Lab) -> String {
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

    fn turn(&self, lab: &Lab, conn: &Connection, round: u32) -> Result<Turn> {
        let scans = lab.operations(SCANS);
        let mut rng = super::random("range-reads", round);
        let last = lab.size.rows.saturating_sub(LENGTH.into()).max(1) as i64;
        let mut statement =
            conn.prepare("select data from title where id >= ? order by id limit ?")?;
        let mut answer = 0;
        let start = Instant::now();
        for _ in 0..scans {
            let mut rows = statement.query([rng.i64(1..=last), LENGTH.into()])?;
            while let Some(row) = rows.next()? {
                answer = super::mix(answer, row.get_ref(0)?.as_bytes()?);
            }
        }
        let value = f64::from(scans) / start.elapsed().as_secs_f64();
        Ok(Turn { value, answer })
    }
}
