//! Scans of all rows: their number, or one column.

use std::time::Instant;

use anyhow::Result;
use rusqlite::Connection;

use super::session::Session;
use crate::dataset::Dataset;
use crate::lab::{Scale, Turn};
use crate::rows::{Setting, Unit};

/// Every value of the column, once.
pub struct Scan;

impl Session for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn about(&self) -> &'static str {
        "Every value of the column, given to the program."
    }

    fn title(&self) -> String {
        "Full scan".into()
    }

    fn data(&self) -> Dataset {
        Dataset::Titles
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::DELETE_FULL]
    }

    fn unit(&self) -> Unit {
        Unit::Seconds
    }

    fn writes(&self) -> bool {
        false
    }

    fn turn(&self, _scale: Scale, conn: &Connection, _round: u32) -> Result<Turn> {
        let mut statement = conn.prepare("select data from title")?;
        let mut answer = 0;
        let start = Instant::now();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            answer = super::mix(answer, row.get_ref(0)?.as_bytes()?);
        }
        let value = start.elapsed().as_secs_f64();
        Ok(Turn { value, answer })
    }
}

/// How many rows there are.
pub struct Count;

impl Session for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn about(&self) -> &'static str {
        "The number of rows, for which SQLite reads all leaves."
    }

    fn title(&self) -> String {
        "Count of all rows".into()
    }

    fn data(&self) -> Dataset {
        Dataset::Titles
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::DELETE_FULL]
    }

    fn unit(&self) -> Unit {
        Unit::Seconds
    }

    fn writes(&self) -> bool {
        false
    }

    fn turn(&self, _scale: Scale, conn: &Connection, _round: u32) -> Result<Turn> {
        let start = Instant::now();
        let rows: i64 = conn.query_row("select count(*) from title", [], |row| row.get(0))?;
        let value = start.elapsed().as_secs_f64();
        Ok(Turn {
            value,
            answer: rows as u64,
        })
    }
}
