//! Cost as the file grows: each engine's file is filled step by step, and the same few operations are timed at each.
//!
//! All engines get the same rows in the same transactions, through SQLite. With the usual number of rows
//! the steps go from 10 MB to 10 GB, in a quick run to 200 MB; one for which the disk has no room is left out.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use litepack_testdata::titles::{self, Titles};
use rusqlite::{Connection, params};

use super::task::read_all;
use super::{Workload, point_reads};
use crate::dataset::SEED;
use crate::engines::{Engine, Group, settle, stored_bytes};
use crate::lab::{Lab, Scale, Turn};
use crate::machine::free_bytes;
use crate::report::number;
use crate::rows::{Cache, Row, Setting, Unit, compare};

const SETTING: Setting = Setting::DELETE_FULL;
/// Bytes of a row in a plain file.
const ROW_LEN: u64 = 236;
/// Rows of the steps, for each thousand rows of the run.
const STEPS: [u64; 4] = [42, 424, 4240, 42_400];
const QUICK_STEPS: [u64; 3] = [424, 2120, 8480];
/// Rows of a transaction that fills.
const BATCH: u64 = 50_000;
/// Batches that wait for an engine.
const AHEAD: usize = 2;
/// The files of all engines take at most so many times the bytes of the plain one.
const ROOM: f64 = 1.5;

const OPENS: u32 = 100;
const READS: u32 = 20_000;
const COMMITS: u32 = 100;

/// The operations timed at each step, in the order of the report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Open,
    PointRead,
    /// By a connection that has read the whole table before.
    PointReadAgain,
    Commit,
}

impl Operation {
    const ALL: [Self; 4] = [
        Self::Open,
        Self::PointRead,
        Self::PointReadAgain,
        Self::Commit,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::PointRead => "point read",
            Self::PointReadAgain => "point read, all read before",
            Self::Commit => "small commit",
        }
    }
}

/// Grows files and times them.
pub struct Growth;

struct Contestant<'a> {
    engine: &'a dyn Engine,
    path: PathBuf,
}

impl Workload for Growth {
    fn name(&self) -> &'static str {
        "growth"
    }

    fn about(&self) -> &'static str {
        "The same operations on a file that grows: to open it and read one row; to read a random row of all, and the same \
         once the connection has read all of them; to give a random row new text in a durable transaction of its own. \
         Means of a turn. The files are filled through SQLite by transactions of 50000 rows, sizes are of the plain one. \
         Most rows of the second are of pages that the process reads for the first time. Reads anywhere in a large file \
         find less of it in any cache, with plain SQLite too. The last column is what the operation costs beside the \
         smallest size, with the same engine. Aim: at most 1.5 × in a full run."
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let mut contestants = Vec::new();
        for engine in lab.engines(self.group()) {
            contestants.push(self.enter(lab, &**engine));
        }
        let mut titles = Titles::new(SEED);
        let mut rows = 0;
        // For each operation, the groups of all steps.
        let mut found = Operation::ALL.map(|operation| (operation, Vec::new()));
        for wanted in steps(lab.scale) {
            if lab.leave_out_if_stopped("growth") {
                break;
            }
            let needed = ((wanted - rows) * ROW_LEN) as f64 * ROOM;
            let size = size(wanted);
            if let Some(free) = free_bytes(lab.scratch()).filter(|free| (*free as f64) < needed) {
                let reason = format!(
                    "the step to {size} needs {} GB of disk, {} GB are free",
                    number(needed / 1e9),
                    number(free as f64 / 1e9)
                );
                lab.leave_out("growth", reason);
                break;
            }
            lab.say(format!("Growth: filling up to {size}"));
            fill(&mut contestants, &mut titles, wanted - rows)?;
            rows = wanted;
            for (operation, groups) in &mut found {
                groups.push(self.step(lab, *operation, rows, &mut contestants));
            }
        }
        for one in contestants.into_iter().flatten() {
            std::fs::remove_file(one.path)?;
        }
        let mut groups = Vec::new();
        for (_, mut steps) in found {
            add_growth(&mut steps);
            groups.extend(steps);
        }
        Ok(groups)
    }
}

impl Growth {
    /// An empty database.
    fn enter<'a>(&self, lab: &Lab, engine: &'a dyn Engine) -> Result<Contestant<'a>> {
        let path = lab.free_path();
        let empty = lab.free_path().with_extension("empty");
        titles::create(&Connection::open(&empty)?, 0, SEED)?;
        engine.prepare(&empty, &path)?;
        std::fs::remove_file(empty)?;
        Ok(Contestant { engine, path })
    }

    fn step(
        &self,
        lab: &Lab,
        operation: Operation,
        rows: u64,
        contestants: &mut [Result<Contestant>],
    ) -> Vec<Row> {
        let data = format!("titles, {}", size(rows));
        let label = format!("Growth: {}, {data}", operation.name());
        let mut open: Vec<Result<_>> = contestants
            .iter()
            .map(|one| {
                let one = one.as_ref().map_err(|error| anyhow!("{error:#}"))?;
                let conn = match operation {
                    Operation::Open => None,
                    Operation::PointRead | Operation::PointReadAgain | Operation::Commit => {
                        Some(one.open()?)
                    }
                };
                if let (Operation::PointReadAgain, Some(conn)) = (operation, &conn) {
                    read_all(conn)?;
                }
                operation.turn(lab.scale, one, conn.as_ref(), rows, 0)?;
                Ok((one, conn))
            })
            .collect();
        let all = lab.take_turns(&label, lab.rounds, &mut open, |(one, conn), round| {
            operation.turn(lab.scale, one, conn.as_ref(), rows, round)
        });
        let mut group = Vec::new();
        for ((engine, one), turns) in lab.engines(self.group()).iter().zip(open).zip(all) {
            group.push(Row {
                workload: self.name(),
                title: "Cost as the file grows".into(),
                data: data.clone(),
                engine: engine.name(),
                way: Some(operation.name()),
                setting: Some(SETTING),
                cache: Cache::Warm,
                unit: Unit::Seconds,
                values: turns.values,
                file_bytes: one
                    .ok()
                    .filter(|_| operation == Operation::Commit)
                    .map(|(one, _)| stored_bytes(&one.path)),
                failure: turns.failure,
                ..Row::EMPTY
            });
        }
        compare(&mut group);
        group
    }
}

impl Contestant<'_> {
    fn open(&self) -> Result<Connection> {
        self.engine
            .open(&self.path, SETTING.journal, SETTING.synchronous)
    }
}

impl Operation {
    /// On this connection or, without one, on new ones.
    fn turn(
        self,
        scale: Scale,
        one: &Contestant,
        conn: Option<&Connection>,
        rows: u64,
        round: u32,
    ) -> Result<Turn> {
        let mut rng = super::random(self.name(), round);
        let (times, taken, answer) = match (self, conn) {
            (Self::Commit, Some(conn)) => {
                let times = scale.operations(COMMITS);
                let (taken, answer) = commit(conn, rows, times, round, &mut rng)?;
                (times, taken, answer)
            }
            (_, Some(conn)) => {
                let times = scale.operations(READS);
                let mut statement = conn.prepare(point_reads::SQL)?;
                let start = Instant::now();
                let answer = point_reads::read(&mut statement, rows, times, &mut rng)?;
                (times, start.elapsed(), answer)
            }
            (_, None) => {
                let times = scale.operations(OPENS);
                let start = Instant::now();
                let mut answer = 0;
                for _ in 0..times {
                    let conn = one.open()?;
                    let mut statement = conn.prepare(point_reads::SQL)?;
                    answer ^= point_reads::read(&mut statement, rows, 1, &mut rng)?;
                }
                (times, start.elapsed(), answer)
            }
        };
        Ok(Turn {
            value: taken.as_secs_f64() / f64::from(times),
            answer,
        })
    }
}

/// Updates rows one by one, then reads them again, outside the time.
fn commit(
    conn: &Connection,
    rows: u64,
    commits: u32,
    round: u32,
    rng: &mut fastrand::Rng,
) -> Result<(Duration, u64)> {
    let work: Vec<(i64, String)> = Titles::new(SEED + 1 + u64::from(round))
        .take(commits as usize)
        .map(|title| (rng.i64(1..=rows as i64), title.to_json()))
        .collect();
    let mut update = conn.prepare("update title set data = ? where id = ?")?;
    let start = Instant::now();
    for (id, text) in &work {
        update.execute(params![text, id])?;
    }
    let taken = start.elapsed();
    let mut statement = conn.prepare(point_reads::SQL)?;
    let answer = work.iter().try_fold(0, |answer, (id, _)| {
        statement.query_row([id], |row| {
            Ok(super::mix(answer, row.get_ref(0)?.as_bytes()?))
        })
    })?;
    Ok((taken, answer))
}

/// How many rows there are at each step.
fn steps(scale: Scale) -> Vec<u64> {
    let parts: &[u64] = if scale.quick { &QUICK_STEPS } else { &STEPS };
    let rows = parts.iter().map(|part| scale.size.rows * part / 1000);
    rows.collect()
}

/// Of a plain file with so many rows.
fn size(rows: u64) -> String {
    let megabytes = (rows * ROW_LEN) as f64 / 1e6;
    match megabytes {
        large if large >= 999.5 => format!("{:.0} GB", large / 1e3),
        small => format!("{small:.0} MB"),
    }
}

/// Appends the next rows to the files of all engines, side by side, and leaves them flushed and in the
/// cache of the operating system. One that fails is told so.
fn fill(contestants: &mut [Result<Contestant>], titles: &mut Titles, rows: u64) -> Result<()> {
    std::thread::scope(|scope| {
        let mut fillers = Vec::new();
        for contestant in contestants.iter_mut() {
            let (send, batches) = sync_channel::<Arc<Vec<String>>>(AHEAD);
            if let Ok(one) = contestant {
                let conn = one.open();
                let thread = scope.spawn(move || append(&conn?, &batches));
                fillers.push((send, thread, contestant));
            }
        }
        let mut left = rows;
        while left > 0 {
            let count = left.min(BATCH);
            let batch = titles.by_ref().take(count as usize);
            let batch = Arc::new(batch.map(|title| title.to_json()).collect::<Vec<_>>());
            for (send, ..) in &fillers {
                // One that has failed takes no more.
                let _ = send.send(Arc::clone(&batch));
            }
            left -= count;
        }
        for (send, thread, contestant) in fillers {
            drop(send);
            let filled = thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("filling has panicked")));
            if let (Err(error), Ok(_)) = (filled, &contestant) {
                *contestant = Err(error);
            }
        }
    });
    for one in contestants.iter().flatten() {
        settle(&one.path)?;
    }
    Ok(())
}

fn append(conn: &Connection, batches: &Receiver<Arc<Vec<String>>>) -> Result<()> {
    // A file that is thrown away when this fails needs no care for power losses.
    conn.execute_batch("pragma synchronous = off")?;
    for batch in batches {
        let transaction = conn.unchecked_transaction()?;
        let mut insert = transaction.prepare_cached("insert into title(data) values (?)")?;
        for text in batch.iter() {
            insert.execute([text])?;
        }
        drop(insert);
        transaction.commit()?;
    }
    // The file is then as an application leaves it, with its last commit known to be on the disk.
    conn.execute_batch(
        "pragma synchronous = full; update title set data = data || ' ' where id = 1",
    )?;
    Ok(())
}

/// Compares the steps of each engine with its first one.
fn add_growth(steps: &mut [Vec<Row>]) {
    let Some((first, others)) = steps.split_first_mut() else {
        return;
    };
    for group in others {
        for (row, first) in group.iter_mut().zip(first.iter()) {
            row.growth = match (row.summary, first.summary) {
                (Some(own), Some(first)) => Some(own.median / first.median),
                _ => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Size;

    #[test]
    fn a_full_run_goes_from_ten_megabytes_to_ten_gigabytes() {
        let sizes = |rows, quick| -> Vec<String> {
            let scale_factor = 1.0;
            let size = Size { rows, scale_factor };
            steps(Scale { size, quick })
                .into_iter()
                .map(super::size)
                .collect()
        };
        assert_eq!(
            sizes(1_000_000, false),
            ["10 MB", "100 MB", "1 GB", "10 GB"]
        );
        assert_eq!(sizes(100_000, true), ["10 MB", "50 MB", "200 MB"]);
    }

    #[test]
    fn growth_is_told_beside_the_engines_own_first_step() {
        let step = |values: [f64; 2]| {
            let row = |value| Row {
                values: vec![value],
                ..Row::EMPTY
            };
            let mut rows = values.map(row).to_vec();
            compare(&mut rows);
            rows
        };
        let mut steps = [step([1.0, 2.0]), step([3.0, 2.0])];
        add_growth(&mut steps);
        let found = steps.map(|rows| rows.iter().map(|row| row.growth).collect::<Vec<_>>());
        assert_eq!(found, [[None, None], [Some(3.0), Some(1.0)]]);
    }
}
