//! Work on an open connection, done by a child process: for engines that cannot share one, and to see what a process
//! takes.

use anyhow::{Context, Result, bail};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::session::{Session, content};
use super::{columns, commits, point_reads, range_reads, scan, tpch_queries, transactions};
use crate::child::{Child, Database, Part};
use crate::engines::{Engine, Group};
use crate::lab::{Lab, Scale, Turn};
use crate::memory_limit::MemoryLimit;
use crate::rows::Setting;

/// Work that children know, by its name.
fn sessions() -> [Box<dyn Session>; 10] {
    [
        Box::new(point_reads::PointReads),
        Box::new(point_reads::ZipfReads),
        Box::new(scan::Count),
        Box::new(range_reads::RangeReads),
        Box::new(tpch_queries::PRICING_SUMMARY),
        Box::new(tpch_queries::MARKET_SHARE),
        Box::new(transactions::INSERT),
        Box::new(transactions::UPDATE_RANDOM),
        Box::new(commits::Commits),
        Box::new(columns::POINT_READS),
    ]
}

/// The task of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// A file of its own if it is written to.
    pub database: Database,
    work: String,
    scale: Scale,
}

/// The child's next order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The work as in this round.
    Turn(u32),
    /// To tell what the table holds.
    Content,
    /// To read all rows of all tables, so that caches have their pages.
    ReadAll,
}

/// The result of an order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Done {
    value: f64,
    answer: u64,
    /// All of the process that was in main memory at once, so far; nothing if the system does not tell.
    pub peak_bytes: Option<u64>,
    /// Bytes of main memory that the system cannot take back now: all but files and memory offered to it.
    pub kept_bytes: Option<u64>,
}

impl Done {
    /// As a turn with the figure of the work.
    pub fn turn(self) -> Turn {
        Turn {
            value: self.value,
            answer: self.answer,
        }
    }
}

impl Task {
    /// Some work by an engine of this group.
    pub fn new(
        lab: &Lab,
        group: Group,
        engine: &dyn Engine,
        work: &dyn Session,
        setting: Setting,
    ) -> Result<Self> {
        Self::of(lab, group, engine, work, setting, lab.scale)
    }

    /// The same with more or less work or data. Work that writes has all data.
    pub fn of(
        lab: &Lab,
        group: Group,
        engine: &dyn Engine,
        work: &dyn Session,
        setting: Setting,
        scale: Scale,
    ) -> Result<Self> {
        Ok(Self {
            database: Database {
                group,
                engine: engine.name().into(),
                path: match work.writes() {
                    true => lab.copy(engine, work.data())?,
                    false => lab.prepared_of(engine, work.data(), scale.size)?,
                },
                setting,
            },
            work: work.name().into(),
            scale,
        })
    }

    /// Starts a child for it.
    pub fn start(&self, lab: &Lab) -> Result<Child> {
        Child::start(lab.program(), &Part::Task(self.clone()))
    }

    /// The same within a limit of memory.
    pub fn start_within(&self, lab: &Lab, limit: &MemoryLimit) -> Result<Child> {
        Child::start_within(limit, lab.program(), &Part::Task(self.clone()))
    }

    /// Does what is ordered, on a connection to its database.
    pub fn run(&self, conn: &Connection, order: Order) -> Result<Done> {
        let works = sessions();
        let work = works.iter().find(|work| work.name() == self.work);
        let work = work.with_context(|| format!("there is no work {}", self.work))?;
        let Turn { value, answer } = match order {
            Order::Turn(round) => work.turn(self.scale, conn, round)?,
            Order::Content => Turn {
                value: 0.0,
                answer: content(conn)?,
            },
            Order::ReadAll => Turn {
                value: 0.0,
                answer: read_all(conn)?,
            },
        };
        Ok(Done {
            value,
            answer,
            peak_bytes: peak_bytes().ok(),
            kept_bytes: kept_bytes(),
        })
    }
}

/// Reads the leaves of all tables, and says how many rows they have.
pub(super) fn read_all(conn: &Connection) -> Result<u64> {
    let mut tables = conn.prepare("select name from sqlite_schema where type = 'table'")?;
    let mut rows = 0;
    for table in tables.query_map([], |row| row.get::<_, String>(0))? {
        let name = table?.replace('"', "\"\"");
        let count = format!("select count(*) from \"{name}\" not indexed");
        rows += conn.query_row(&count, [], |row| row.get::<_, i64>(0))?;
    }
    Ok(rows.unsigned_abs())
}

/// The most that this process had in main memory.
///
/// # Errors
/// Where the system does not tell.
pub fn peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .context("this system does not tell how much memory a process took")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let Some((kibibytes, "kB")) = line.and_then(|line| line.trim().split_once(' ')) else {
        bail!("this system does not tell the peak memory of a process");
    };
    Ok(kibibytes.parse::<u64>()? << 10)
}

/// See [`Done::kept_bytes`]. Nothing where the system does not tell.
fn kept_bytes() -> Option<u64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let bytes = |name: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes << 10)
    };
    Some(bytes("Anonymous:")?.saturating_sub(bytes("LazyFree:")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_skip::{Expected, skip};

    #[test]
    fn the_peak_stays_when_memory_is_given_back() {
        const MUCH: usize = 48 << 20;
        if let Err(error) = peak_bytes() {
            return skip(Expected::OnLinux, error);
        }
        let memory = std::hint::black_box(vec![1_u8; MUCH]);
        drop(memory);
        assert!(peak_bytes().unwrap() > MUCH as u64);
    }
}
