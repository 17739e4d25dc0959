//! Speed at equal memory: each engine in a process of its own, in a group whose limit counts the process and its part
//! of the system's page cache alike.
//!
//! Before work with a limit the system has forgotten the file, else its pages would be counted as another group's. Turns
//! that are not measured fill caches as far as the limit lets them.

use anyhow::Result;

use super::session::Session;
use super::task::{Done, Order, Task};
use super::{Workload, point_reads, range_reads, scan, tpch_queries};
use crate::cold::Cold;
use crate::dataset::Size;
use crate::engines::Group;
use crate::lab::{Lab, Scale};
use crate::memory_limit::MemoryLimit;
use crate::rows::{Cache, Row, Setting, Unit, compare};

const SETTING: Setting = Setting::DELETE_FULL;
/// Reads from the disk make turns long.
const ROUNDS: u32 = 3;
/// The rounds of turns that are not measured; rounds are counted from 1. Without a limit, caches are to be full: all is
/// read before. Twelve turns alone leave two fifths of the pages of titles unread, and reading one of those for the
/// first time takes many times as long as the next time.
const WARM_UPS: std::ops::RangeInclusive<u32> = 1_000..=1_000;
const WARM_UPS_WITHOUT_LIMIT: std::ops::RangeInclusive<u32> = 1_000..=1_011;

/// Of TPC-H, at most. At 1, a process of plain SQLite in 32 MB had not ended two turns of Q8 after four minutes.
const SCALE_FACTOR: f64 = 0.1;

/// A limit in MB, and how reports call it.
type Limit = (Option<u64>, &'static str);

const NONE: Limit = (None, "no limit");
const LIMITS: [Limit; 6] = [
    (Some(32), "in 32 MB"),
    (Some(64), "in 64 MB"),
    (Some(128), "in 128 MB"),
    (Some(256), "in 256 MB"),
    (Some(512), "in 512 MB"),
    NONE,
];
const QUICK_LIMITS: [Limit; 2] = [(Some(32), "in 32 MB"), NONE];

fn works() -> [Box<dyn Session>; 6] {
    [
        Box::new(point_reads::PointReads),
        Box::new(point_reads::ZipfReads),
        Box::new(range_reads::RangeReads),
        Box::new(scan::Count),
        Box::new(tpch_queries::PRICING_SUMMARY),
        Box::new(tpch_queries::MARKET_SHARE),
    ]
}

/// The work at all limits.
pub struct EqualMemory;

/// An engine's part of the work, and what it last had in memory.
struct Contestant {
    task: Task,
    kept: Vec<f64>,
}

impl Workload for EqualMemory {
    fn name(&self) -> &'static str {
        "equal-memory"
    }

    fn about(&self) -> &'static str {
        "Work from above by a new process in a memory cgroup, whose limit counts the process and the part of the system's page \
         cache that it uses. With a limit it begins with nothing in memory, and one turn that is not measured goes before; \
         without one the file is in memory, and before the turn all tables are read once, then twelve turns done: each page was \
         read before. Reads are a fifth as many as above. The memory is that which the system cannot take back, after the work \
         without a limit: anonymous memory without what was offered to the system. Aims: at least 1 × the rate at every limit; where the limit is less than half \
         the plain file, 2 × the rate of point reads; at most 24 MB more memory."
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let cold = Cold::find(lab.scratch())
            .and_then(|cold| MemoryLimit::new(64 << 20).map(|_works| cold));
        let cold = match cold {
            Ok(cold) => cold,
            Err(reason) => {
                lab.leave_out("equal-memory", format!("{reason:#}"));
                return Ok(Vec::new());
            }
        };
        let limits = match lab.scale.quick {
            true => &QUICK_LIMITS[..],
            false => &LIMITS[..],
        };
        let mut groups = Vec::new();
        for work in works() {
            for limit in limits {
                if lab.leave_out_if_stopped("equal-memory") {
                    return Ok(groups);
                }
                groups.extend(self.run_work(lab, cold, &*work, *limit)?);
            }
        }
        Ok(groups)
    }
}

impl EqualMemory {
    /// A group of rows for the speed, and one for the memory if there is no limit.
    fn run_work(
        &self,
        lab: &Lab,
        cold: Cold,
        work: &dyn Session,
        (limit, name): Limit,
    ) -> Result<Vec<Vec<Row>>> {
        let group = match limit {
            Some(megabytes) => Some(MemoryLimit::new(megabytes << 20)?),
            None => None,
        };
        let engines = lab.engines(Group::Files);
        let size = Size {
            scale_factor: lab.scale.size.scale_factor.min(SCALE_FACTOR),
            ..lab.scale.size
        };
        let scale = Scale { quick: true, size };
        let mut contestants: Vec<Result<Contestant>> = engines
            .iter()
            .map(|engine| {
                let task = Task::of(lab, Group::Files, &**engine, work, SETTING, scale)?;
                let kept = Vec::new();
                Ok(Contestant { task, kept })
            })
            .collect();
        let label = format!("{}, {name}", work.name());
        let rounds = lab.rounds.min(ROUNDS);
        let all = lab.take_turns(&label, rounds, &mut contestants, |contestant, round| {
            let (mut child, warm_ups) = match &group {
                Some(limit) => {
                    cold.forget(&contestant.task.database.path)?;
                    (contestant.task.start_within(lab, limit)?, WARM_UPS)
                }
                None => (contestant.task.start(lab)?, WARM_UPS_WITHOUT_LIMIT),
            };
            let mut order = |order| -> Result<Done> {
                child.order(&order)?;
                child.answer()
            };
            if limit.is_none() {
                order(Order::ReadAll)?;
            }
            for round in warm_ups {
                order(Order::Turn(round))?;
            }
            let done = order(Order::Turn(round))?;
            if let Some(bytes) = done.kept_bytes {
                contestant.kept.push(bytes as f64);
            }
            Ok(done.turn())
        });
        let row = |engine| Row {
            workload: self.name(),
            title: "Speed at equal memory".into(),
            data: format!("{}: {}", work.title(), work.data().title(size)),
            engine,
            way: Some(name),
            setting: Some(SETTING),
            cache: Cache::Irrelevant,
            ..Row::EMPTY
        };
        let (mut speeds, mut memories) = (Vec::new(), Vec::new());
        for ((engine, contestant), turns) in engines.iter().zip(contestants).zip(all) {
            speeds.push(Row {
                unit: work.unit(),
                values: turns.values,
                failure: turns.failure,
                ..row(engine.name())
            });
            if let (None, Ok(contestant)) = (limit, contestant) {
                memories.push(Row {
                    unit: Unit::Memory,
                    values: contestant.kept,
                    way: Some("memory"),
                    ..row(engine.name())
                });
            }
        }
        let mut groups = vec![speeds, memories];
        groups.retain(|rows| !rows.is_empty());
        groups.iter_mut().for_each(|rows| compare(rows));
        Ok(groups)
    }
}
