//! Durable commits: one inserted row a transaction, under each usual durability.

use std::time::Instant;

use anyhow::Result;
use litepack_testdata::titles::Titles;
use rusqlite::Connection;

use super::session::Session;
use crate::dataset::{Dataset, SEED};
use crate::lab::{Scale, Turn};
use crate::rows::{Setting, Unit};

const COMMITS: u32 = 300;

/// Single-row commits.
pub struct Commits;

impl Session for Commits {
    fn name(&self) -> &'static str {
        "commits"
    }

    fn about(&self) -> &'static str {
        "One new row in each transaction, one after the other; FULL waits for the disk each time. \
         Aims: at least 2 × the rate in DELETE mode, 1 × in WAL mode."
    }

    fn title(&self) -> String {
        "Single-row commits".into()
    }

    fn data(&self) -> Dataset {
        Dataset::Titles
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::DELETE_FULL, Setting::WAL_FULL, Setting::WAL_NORMAL]
    }

    fn unit(&self) -> Unit {
        Unit::PerSecond
    }

    fn writes(&self) -> bool {
        true
    }

    fn turn(&self, scale: Scale, conn: &Connection, round: u32) -> Result<Turn> {
        let commits = scale.operations(COMMITS);
        let texts: Vec<String> = Titles::new(SEED + 1 + u64::from(round))
            .take(commits as usize)
            .map(|title| title.to_json())
            .collect();
        let mut insert = conn.prepare("insert into title(data) values (?)")?;
        let start = Instant::now();
        for text in &texts {
            insert.execute([text])?;
        }
        let value = f64::from(commits) / start.elapsed().as_secs_f64();
        Ok(Turn {
            value,
            answer: conn.last_insert_rowid() as u64,
        })
    }
}
