//! Reads with cold caches: the operating system has forgotten the file, and the connection is a new one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;

use super::{Workload, compared, point_reads, range_reads};
use crate::cold::Cold;
use crate::dataset::Dataset;
use crate::engines::{Engine, Group};
use crate::lab::{Lab, Turn};
use crate::rows::{Row, Setting, Unit};

const DATA: Dataset = Dataset::Titles;
const SETTING: Setting = Setting::DELETE_FULL;

/// Reads of one kind.
pub struct ColdReads {
    name: &'static str,
    about: &'static str,
    title: &'static str,
    /// Before each start, of which a turn has so many, all is forgotten.
    starts: u32,
    /// Reads after each start.
    reads: u32,
    work: fn(&Connection, u64, u32, &mut fastrand::Rng) -> Result<u64>,
}

/// Rows by key.
pub const POINTS: ColdReads = ColdReads {
    name: "cold-point-reads",
    about: "A new connection to a file that the operating system has forgotten, then 1000 reads (a quick run 200) of one row \
         by primary key, keys uniformly random; opening is part of the time. Aim: at least 2 × the rate.",
    title: "Random point reads, cold",
    starts: 5,
    reads: 1000,
    work: |conn, rows, reads, rng| {
        let mut statement = conn.prepare(point_reads::SQL)?;
        Ok(point_reads::read(&mut statement, rows, reads, rng)?)
    },
};

/// Rows in key order.
pub const RANGES: ColdReads = ColdReads {
    name: "cold-range-reads",
    about: "A new connection to a file that the operating system has forgotten, then 1000 rows in key order from a random key on; \
         opening is part of the time. The rate counts such scans. Aim: at least 1.5 × the rate.",
    title: "1000 sequential rows, cold",
    starts: 50,
    reads: 1,
    work: |conn, rows, scans, rng| {
        let mut statement = conn.prepare(range_reads::SQL)?;
        range_reads::read(&mut statement, rows, scans, rng)
    },
};

struct Contestant<'a> {
    engine: &'a dyn Engine,
    path: PathBuf,
}

impl Workload for ColdReads {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let cold = match Cold::find(lab.scratch()) {
            Ok(cold) => cold,
            Err(reason) => {
                lab.leave_out(self.title, reason);
                return Ok(Vec::new());
            }
        };
        let engines = lab.engines(self.group());
        let mut contestants: Vec<Result<Contestant>> = engines
            .iter()
            .map(|engine| {
                let engine = &**engine;
                let path = lab.prepared(engine, DATA)?;
                Ok(Contestant { engine, path })
            })
            .collect();
        let turns = lab.take_turns(self.title, lab.rounds, &mut contestants, |one, round| {
            self.turn(lab, cold, one, round)
        });
        let row = Row {
            workload: self.name,
            title: self.title.into(),
            data: DATA.title(lab.scale.size),
            setting: Some(SETTING),
            cache: cold.state(),
            unit: Unit::PerSecond,
            ..Row::EMPTY
        };
        Ok(vec![compared(
            &row,
            engines.iter().map(|engine| engine.name()),
            turns,
        )])
    }
}

impl ColdReads {
    fn turn(&self, lab: &Lab, cold: Cold, one: &Contestant, round: u32) -> Result<Turn> {
        let starts = lab.scale.operations(self.starts);
        let reads = lab.scale.operations(self.reads);
        let mut rng = super::random(self.name, round);
        let (mut taken, mut answer) = (Duration::ZERO, 0);
        for _ in 0..starts {
            cold.forget(&one.path)?;
            let start = Instant::now();
            let conn = one
                .engine
                .open(&one.path, SETTING.journal, SETTING.synchronous)?;
            answer ^= (self.work)(&conn, lab.scale.size.rows, reads, &mut rng)?;
            taken += start.elapsed();
        }
        let value = f64::from(starts * reads) / taken.as_secs_f64();
        Ok(Turn { value, answer })
    }
}
