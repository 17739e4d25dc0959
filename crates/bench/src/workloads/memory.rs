//! Peak memory: each piece of work is done once in a process of its own, whose largest extent the system remembers.

use anyhow::{Context, Result};

use super::session::Session;
use super::task::{Done, Order, Task, peak_bytes};
use super::{Workload, columns, compared, point_reads, range_reads, tpch_queries, transactions};
use crate::engines::Group;
use crate::lab::{Lab, Turn};
use crate::rows::{Row, Setting, Unit};

const SETTING: Setting = Setting::DELETE_FULL;
/// The figures hardly differ.
const ROUNDS: u32 = 2;

/// The works, each with the engines that it is done with.
fn works() -> [(Box<dyn Session>, Group); 6] {
    [
        (Box::new(point_reads::PointReads), Group::Apart),
        (Box::new(range_reads::RangeReads), Group::Apart),
        (Box::new(tpch_queries::PRICING_SUMMARY), Group::Archives),
        (Box::new(tpch_queries::MARKET_SHARE), Group::Archives),
        (Box::new(transactions::UPDATE_RANDOM), Group::Apart),
        (Box::new(columns::POINT_READS), Group::Columns),
    ]
}

/// Some of the other work again, for the memory it takes.
pub struct Memory;

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
            .map(|engine| Task::new(lab, group, &**engine, work, SETTING))
            .collect();
        let label = format!("Peak memory, {}", work.name());
        let rounds = lab.rounds.min(ROUNDS);
        let all = lab.take_turns(&label, rounds, &mut contestants, |task, round| {
            let mut child = task.start(lab)?;
            child.order(&Order::Turn(round))?;
            let done: Done = child.answer()?;
            let bytes = done.peak_bytes.context("the child has not told")?;
            Ok(Turn {
                value: bytes as f64,
                ..done.turn()
            })
        });
        for task in contestants.into_iter().flatten().filter(|_| work.writes()) {
            // A leftover goes with the scratch folder.
            let _ = std::fs::remove_file(task.database.path);
        }
        let row = Row {
            workload: self.name(),
            title: "Peak memory".into(),
            data: work.data().title(lab.scale.size),
            way: Some(work.name()),
            setting: Some(SETTING),
            cache: work.cache(),
            unit: Unit::Memory,
            ..Row::EMPTY
        };
        compared(&row, engines.iter().map(|engine| engine.name()), all)
    }
}
