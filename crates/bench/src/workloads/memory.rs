//! Peak memory: each piece of work is done once in a process of its own, whose largest extent the system remembers.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::session::Session;
use super::{Workload, columns, point_reads, range_reads, tpch_queries, transactions};
use crate::child::{Child, Database, Part};
use crate::data::dataset::Dataset;
use crate::engines::{Engine, Group};
use crate::lab::{Lab, Scale, Turn};
use crate::rows::{Cache, Row, Setting, Unit, compare};

const SETTING: Setting = Setting::DELETE_FULL;
/// The figures hardly differ.
const ROUNDS: u32 = 3;

/// What is done, each with the engines that it is done with.
fn works() -> [(Box<dyn Session>, Group); 6] {
    [
        (Box::new(point_reads::PointReads), Group::Files),
        (Box::new(range_reads::RangeReads), Group::Files),
        (Box::new(tpch_queries::PRICING_SUMMARY), Group::Archives),
        (Box::new(tpch_queries::MARKET_SHARE), Group::Archives),
        (Box::new(transactions::UPDATE_RANDOM), Group::Files),
        (Box::new(columns::POINT_READS), Group::Columns),
    ]
}

/// Some of the other work again, for the memory it takes.
pub struct Memory;

/// What a child process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    database: Database,
    /// The name of one of [`works`].
    work: String,
    scale: Scale,
}

/// What it took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Peak {
    /// All of the process that was in main memory at once.
    bytes: u64,
    answer: u64,
}

impl Task {
    /// Does the work as in this round.
    pub fn run(&self, round: u32) -> Result<Peak> {
        let works = works();
        let work = works.iter().find(|(work, _)| work.name() == self.work);
        let (work, _) = work.with_context(|| format!("there is no work {}", self.work))?;
        let conn = self.database.open()?;
        let turn = work.turn(self.scale, &conn, round)?;
        Ok(Peak {
            bytes: peak_bytes()?,
            answer: turn.answer,
        })
    }
}

/// The most that this process had in main memory.
fn peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .context("this system does not tell how much memory a process took")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let Some((kibibytes, "kB")) = line.and_then(|line| line.trim().split_once(' ')) else {
        bail!("this system does not tell the peak memory of a process");
    };
    Ok(kibibytes.parse::<u64>()? << 10)
}

impl Workload for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "The most that a process had in main memory (VmHWM) which did nothing but one turn of some of the work above; the program \
         itself and SQLite's page cache are part of it. The last column is what it took more than with plain SQLite. Aim: at most \
         64 MB more, which the setting `cache_mb` changes."
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        if let Err(reason) = peak_bytes() {
            lab.leave_out("peak memory", reason);
            return Ok(Vec::new());
        }
        let groups = works()
            .into_iter()
            .map(|(work, group)| self.run_work(lab, &*work, group));
        Ok(groups.collect())
    }
}

impl Memory {
    fn run_work(&self, lab: &Lab, work: &dyn Session, group: Group) -> Vec<Row> {
        let engines = lab.engines(group);
        let mut contestants: Vec<Result<Task>> = engines
            .iter()
            .map(|engine| {
                Ok(Task {
                    database: database(lab, &**engine, work.data(), work.writes(), group)?,
                    work: work.name().into(),
                    scale: lab.scale,
                })
            })
            .collect();
        let label = format!("Peak memory, {}", work.name());
        let rounds = lab.rounds.min(ROUNDS);
        let all = lab.take_turns(&label, rounds, &mut contestants, |task, round| {
            let mut child = Child::start(lab.program(), &Part::Memory(task.clone()))?;
            child.order(&round)?;
            let peak: Peak = child.answer()?;
            Ok(Turn {
                value: peak.bytes as f64,
                answer: peak.answer,
            })
        });
        let mut rows = Vec::new();
        for ((engine, task), turns) in engines.iter().zip(contestants).zip(all) {
            if let (Ok(task), true) = (task, work.writes()) {
                // A leftover goes with the scratch folder.
                let _ = std::fs::remove_file(task.database.path);
            }
            rows.push(Row {
                workload: self.name(),
                title: "Peak memory".into(),
                data: work.data().title(lab.scale.size),
                engine: engine.name(),
                way: Some(work.name()),
                setting: Some(SETTING),
                cache: Cache::Warm,
                unit: Unit::Memory,
                values: turns.values,
                failure: turns.failure,
                ..Row::EMPTY
            });
        }
        compare(&mut rows);
        rows
    }
}

/// A database to work on, which may be written to if that is needed.
fn database(
    lab: &Lab,
    engine: &dyn Engine,
    data: Dataset,
    writes: bool,
    group: Group,
) -> Result<Database> {
    Ok(Database {
        group,
        engine: engine.name().into(),
        path: match writes {
            true => lab.copy(engine, data)?,
            false => lab.prepared(engine, data)?,
        },
        setting: SETTING,
    })
}
