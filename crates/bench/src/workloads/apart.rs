//! Each engine in a process of its own, so that one can take part which changes all connections of its process.

use anyhow::Result;

use super::session::Session;
use super::task::{Done, Order, Task};
use super::{Workload, commits, point_reads, range_reads, tpch_queries, transactions};
use crate::child::Child;
use crate::engines::{Engine, Group, stored_bytes};
use crate::lab::Lab;
use crate::rows::{Row, Setting, compare};

/// The only one that all engines have.
const SETTING: Setting = Setting::DELETE_FULL;
/// As many as are worth the time of the slowest.
const ROUNDS: u32 = 3;

fn works() -> [Box<dyn Session>; 7] {
    [
        Box::new(tpch_queries::PRICING_SUMMARY),
        Box::new(tpch_queries::MARKET_SHARE),
        Box::new(point_reads::PointReads),
        Box::new(range_reads::RangeReads),
        Box::new(transactions::INSERT),
        Box::new(transactions::UPDATE_RANDOM),
        Box::new(commits::Commits),
    ]
}

/// Some of the other work again, with sqlite_zstd_vfs.
pub struct Apart;

struct Contestant {
    task: Task,
    child: Child,
}

impl Workload for Apart {
    fn name(&self) -> &'static str {
        "apart"
    }

    fn about(&self) -> &'static str {
        "Some of the work above again, each engine in a process of its own: the library of sqlite_zstd_vfs, once loaded, adds itself to \
         every connection of its process. It has its defaults, and no WAL."
    }

    fn group(&self) -> Group {
        Group::Apart
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let groups = works().into_iter().map(|work| self.run_work(lab, &*work));
        Ok(groups.collect())
    }
}

impl Apart {
    fn run_work(&self, lab: &Lab, work: &dyn Session) -> Vec<Row> {
        let label = format!("{}, processes", work.title());
        let enter = |engine: &dyn Engine| -> Result<Contestant> {
            let task = Task::new(lab, self.group(), engine, work, SETTING)?;
            let child = task.start(lab)?;
            let mut one = Contestant { task, child };
            lab.say(format!("{label}, {}: warming up", engine.name()));
            one.ask(Order::Turn(0))?;
            Ok(one)
        };
        let engines = lab.engines(self.group());
        let mut contestants: Vec<Result<Contestant>> =
            engines.iter().map(|engine| enter(&**engine)).collect();
        let rounds = lab.rounds.min(ROUNDS);
        let mut all = lab.take_turns(&label, rounds, &mut contestants, |one, round| {
            Ok(one.ask(Order::Turn(round))?.turn())
        });
        if work.writes() {
            let contents = lab.take_turns(&label, 1, &mut contestants, |one, _| {
                Ok(one.ask(Order::Content)?.turn())
            });
            for (turns, compared) in all.iter_mut().zip(contents) {
                turns.failure = turns.failure.take().or(compared.failure);
            }
        }
        let mut rows = Vec::new();
        for ((engine, one), turns) in engines.iter().zip(contestants).zip(all) {
            rows.push(Row {
                workload: self.name(),
                title: "Beside sqlite_zstd_vfs".into(),
                data: work.data().title(lab.scale.size),
                engine: engine.name(),
                way: Some(work.name()),
                setting: Some(SETTING),
                cache: work.cache(),
                unit: work.unit(),
                values: turns.values,
                file_bytes: one.ok().filter(|_| work.writes()).map(Contestant::leave),
                failure: turns.failure,
                ..Row::EMPTY
            });
        }
        compare(&mut rows);
        rows
    }
}

impl Contestant {
    fn ask(&mut self, order: Order) -> Result<Done> {
        self.child.order(&order)?;
        self.child.answer()
    }

    /// Ends the child; gives the size of the file it wrote to, and removes it.
    fn leave(self) -> u64 {
        drop(self.child);
        let path = self.task.database.path;
        let bytes = stored_bytes(&path);
        // A leftover goes with the scratch folder.
        let _ = std::fs::remove_file(path);
        bytes
    }
}
