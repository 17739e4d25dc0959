//! Random point reads: one row by its key, everywhere in the table.

use std::time::Instant;

use anyhow::Result;
use rusqlite::Connection;

use super::session::Session;
use crate::data::dataset::Dataset;
use crate::lab::{Lab, Turn};
use crate::rows::{Setting, Unit};

const READS: u32 = 100_000;

/// Reads by key.
pub struct PointReads;

impl Session for PointReads {
    fn name(&self) -> &'static str {
        "point-reads"
    }

    fn about(&self) -> &'static str {
        "One row by primary key, keys uniformly random, each read a transaction of its own."
    }

    fn title(&self, _lab: &Lab) -> String {
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

    fn turn(&self, lab: &Lab, conn: &Connection, round: u32) -> Result<Turn> {
        let reads = lab.operations(READS);
        let mut rng = super::random("point-reads", round);
        let mut statement = conn.prepare("select data from title where id = ?")?;
        let mut answer = 0;
        let start = Instant::now();
        for _ in 0..reads {
            let id = rng.i64(1..=lab.size.rows as i64);
            answer = statement.query_row([id], |row| {
                Ok(super::mix(answer, row.get_ref(0)?.as_bytes()?))
            })?;
        }
        let value = f64::from(reads) / start.elapsed().as_secs_f64();
        Ok(Turn { value, answer })
    }
}
