//! One writer and four readers at the same time, the readers as threads or as processes.
//!
//! The writer commits at a set pace, the same for every engine: one that commits as fast as it can leaves the less to
//! the readers the faster it is, and in DELETE mode nothing. The readers read rows by key as fast as they can. What
//! each has read is compared with what was in the table before.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use litepack_testdata::titles::Titles;
use rusqlite::{Connection, Statement};
use serde::{Deserialize, Serialize};

use super::{Workload, point_reads};
use crate::child::{Child, Database, Part};
use crate::dataset::{Dataset, SEED};
use crate::engines::{Engine, Group, stored_bytes};
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, Row, Setting, Unit, compare};

const DATA: Dataset = Dataset::Titles;
const SETTINGS: [Setting; 2] = [Setting::WAL_FULL, Setting::DELETE_FULL];
const READERS: u32 = 4;
const MILLISECONDS: u32 = 2000;
/// From the beginning of a commit to that of the next one, if it is over by then.
const PACE: Duration = Duration::from_millis(10);
/// The writer begins with the first of these again after the last.
const TEXTS: usize = 1000;
/// In DELETE mode all wait for each other, but never as long as this.
const BUSY: Duration = Duration::from_secs(60);

/// The kind of readers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Threads,
    Processes,
}

/// A writer with readers of one kind.
pub struct BesideWriter {
    name: &'static str,
    about: &'static str,
    title: &'static str,
    kind: Kind,
}

/// Readers in the writer's process.
pub const THREADS: BesideWriter = BesideWriter {
    name: "beside-writer-threads",
    about: "One thread commits a new row every 10 ms while four others read random rows by key as fast as they can, each on a \
            connection of its own. Reads are those of all four, the commit's time is the mean of a turn. \
            Aim: at least 0.95 × the rate of reads in WAL mode.",
    title: "One writer and 4 reader threads",
    kind: Kind::Threads,
};

/// Readers with processes of their own.
pub const PROCESSES: BesideWriter = BesideWriter {
    name: "beside-writer-processes",
    about: "The same with each reader a process of its own, so that readers share no cache but the operating system's. \
            Aim: at least 0.95 × the rate of reads in WAL mode.",
    title: "One writer and 4 reader processes",
    kind: Kind::Processes,
};

/// A reader and its database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reader {
    database: Database,
    /// Reads rows with keys up to this one.
    rows: u64,
    /// Which of the readers.
    number: u32,
}

/// The work of a reader.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Order {
    round: u32,
    milliseconds: u32,
}

/// The result of a reader.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reading {
    reads: u64,
    seconds: f64,
    /// Depends on all that was read.
    answer: u64,
}

impl Reader {
    /// A connection to its database.
    pub fn open(&self) -> Result<Connection> {
        let conn = self.database.open()?;
        conn.busy_timeout(BUSY)?;
        Ok(conn)
    }

    /// Reads for the time ordered.
    pub fn read(&self, conn: &Connection, order: &Order) -> Result<Reading> {
        let time = Duration::from_millis(order.milliseconds.into());
        let mut statement = conn.prepare_cached(point_reads::SQL)?;
        let mut ids = self.ids(order.round);
        let (mut reads, mut answer) = (0, 0_u64);
        let start = Instant::now();
        while start.elapsed() < time {
            let id = ids.next().unwrap_or_default();
            answer = answer.wrapping_add(text(&mut statement, id)?);
            reads += 1;
        }
        Ok(Reading {
            reads,
            seconds: start.elapsed().as_secs_f64(),
            answer,
        })
    }

    /// The keys that it reads in a round, without end.
    fn ids(&self, round: u32) -> impl Iterator<Item = i64> + use<> {
        let mut rng = super::random(&format!("reader {}", self.number), round);
        let last = self.rows as i64;
        std::iter::repeat_with(move || rng.i64(1..=last))
    }

    /// Compares what it has read with the texts, of which the first has key 1.
    fn check(&self, round: u32, reading: Reading, texts: &[u64]) -> Result<()> {
        let expected = self
            .ids(round)
            .take(reading.reads as usize)
            .filter_map(|id| texts.get(id as usize - 1))
            .fold(0, |answer: u64, text| answer.wrapping_add(*text));
        ensure!(
            reading.answer == expected,
            "a reader has read what was never written"
        );
        Ok(())
    }
}

/// A number that depends on a row's text.
fn text(statement: &mut Statement, id: i64) -> Result<u64> {
    Ok(statement.query_row([id], |row| Ok(super::mix(0, row.get_ref(0)?.as_bytes()?)))?)
}

/// Readers that are ready to start.
enum Readers {
    Threads(Vec<(Reader, Connection)>),
    Processes(Vec<(Reader, Child)>),
}

impl Readers {
    /// Has all of them read, and meanwhile does something else.
    fn read<T>(
        &mut self,
        order: Order,
        meanwhile: impl FnOnce() -> Result<T>,
    ) -> Result<(Vec<Reading>, T)> {
        match self {
            Self::Threads(readers) => std::thread::scope(|scope| {
                let threads: Vec<_> = readers
                    .iter_mut()
                    .map(|(reader, conn)| scope.spawn(move || reader.read(conn, &order)))
                    .collect();
                let done = meanwhile();
                let readings = threads.into_iter().map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| Err(anyhow::anyhow!("a reader has panicked")))
                });
                Ok((readings.collect::<Result<_>>()?, done?))
            }),
            Self::Processes(readers) => {
                for (_, child) in readers.iter_mut() {
                    child.order(&order)?;
                }
                let done = meanwhile();
                let readings = readers.iter_mut().map(|(_, child)| child.answer());
                Ok((readings.collect::<Result<_>>()?, done?))
            }
        }
    }

    fn who(&self) -> Vec<&Reader> {
        match self {
            Self::Threads(readers) => readers.iter().map(|(reader, _)| reader).collect(),
            Self::Processes(readers) => readers.iter().map(|(reader, _)| reader).collect(),
        }
    }
}

struct Contestant {
    path: PathBuf,
    writer: Connection,
    readers: Readers,
    /// In all turns.
    committed: u64,
    /// Seconds, one mean for each turn.
    commit_times: Vec<f64>,
}

impl Workload for BesideWriter {
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
        let texts = texts(lab)?;
        let mut groups = Vec::new();
        for setting in SETTINGS {
            groups.extend(self.run_setting(lab, setting, &texts)?);
        }
        Ok(groups)
    }
}

impl BesideWriter {
    /// A group for the reads, and one for the commits.
    fn run_setting(&self, lab: &Lab, setting: Setting, texts: &[u64]) -> Result<[Vec<Row>; 2]> {
        let new_texts: Vec<String> = Titles::new(SEED + 1)
            .take(TEXTS)
            .map(|title| title.to_json())
            .collect();
        let turn = |one: &mut Contestant, round| one.turn(lab, round, &new_texts, texts);
        let engines = lab.engines(self.group());
        let mut contestants: Vec<Result<Contestant>> = engines
            .iter()
            .map(|engine| {
                let mut one = self.enter(lab, &**engine, setting)?;
                turn(&mut one, 0)?;
                one.commit_times.clear();
                Ok(one)
            })
            .collect();
        let label = format!("{}, {}", self.title, setting.name());
        let all = lab.take_turns(&label, lab.rounds, &mut contestants, turn);

        let mut groups = [Vec::new(), Vec::new()];
        for ((engine, contestant), mut turns) in engines.iter().zip(contestants).zip(all) {
            let (mut commit_times, mut file_bytes) = (Vec::new(), None);
            if let Ok(one) = contestant {
                commit_times.clone_from(&one.commit_times);
                match one.leave(lab.scale.size.rows) {
                    Ok(bytes) => file_bytes = Some(bytes),
                    Err(error) => turns.failure = turns.failure.or(Some(format!("{error:#}"))),
                }
            }
            if turns.values.is_empty() {
                commit_times.clear();
            }
            let ways = [
                ("reads", Unit::PerSecond, turns.values, None),
                ("a commit", Unit::Seconds, commit_times, file_bytes),
            ];
            for ((way, unit, values, file_bytes), group) in ways.into_iter().zip(&mut groups) {
                group.push(Row {
                    workload: self.name,
                    title: self.title.into(),
                    data: DATA.title(lab.scale.size),
                    engine: engine.name(),
                    way: Some(way),
                    setting: Some(setting),
                    cache: Cache::Warm,
                    unit,
                    values,
                    file_bytes,
                    failure: turns.failure.clone(),
                    ..Row::EMPTY
                });
            }
        }
        groups.iter_mut().for_each(|group| compare(group));
        Ok(groups)
    }

    fn enter(&self, lab: &Lab, engine: &dyn Engine, setting: Setting) -> Result<Contestant> {
        let path = lab.copy(engine, DATA)?;
        let database = Database {
            group: self.group(),
            engine: engine.name().into(),
            path: path.clone(),
            setting,
        };
        let writer = database.open()?;
        writer.busy_timeout(BUSY)?;
        let who = (0..READERS).map(|number| Reader {
            database: database.clone(),
            rows: lab.scale.size.rows,
            number,
        });
        let readers = match self.kind {
            Kind::Threads => {
                let ready = who.map(|reader| Ok((reader.clone(), reader.open()?)));
                Readers::Threads(ready.collect::<Result<_>>()?)
            }
            Kind::Processes => {
                let ready = who.map(|reader| {
                    let child = Child::start(lab.program(), &Part::Reader(reader.clone()))?;
                    Ok((reader, child))
                });
                Readers::Processes(ready.collect::<Result<_>>()?)
            }
        };
        Ok(Contestant {
            path,
            writer,
            readers,
            committed: 0,
            commit_times: Vec::new(),
        })
    }
}

impl Contestant {
    fn turn(&mut self, lab: &Lab, round: u32, new_texts: &[String], texts: &[u64]) -> Result<Turn> {
        let order = Order {
            round,
            milliseconds: lab.scale.operations(MILLISECONDS),
        };
        let time = Duration::from_millis(order.milliseconds.into());
        let writer = &self.writer;
        let write = || -> Result<(u64, f64)> {
            let mut insert = writer.prepare_cached("insert into title(data) values (?)")?;
            let (mut commits, mut taken, end) = (0, Duration::ZERO, Instant::now() + time);
            for text in new_texts.iter().cycle() {
                let start = Instant::now();
                insert.execute([text])?;
                commits += 1;
                taken += start.elapsed();
                std::thread::sleep(PACE.saturating_sub(start.elapsed()));
                if Instant::now() >= end {
                    break;
                }
            }
            Ok((commits, taken.as_secs_f64() / commits as f64))
        };
        let (readings, (commits, commit_time)) = self.readers.read(order, write)?;
        self.committed += commits;
        self.commit_times.push(commit_time);
        for (reader, reading) in self.readers.who().into_iter().zip(&readings) {
            reader.check(round, *reading, texts)?;
        }
        let rates = readings
            .iter()
            .map(|reading| reading.reads as f64 / reading.seconds);
        // How much is read is not the same for all, so that `check` has compared.
        Ok(Turn {
            value: rates.sum(),
            answer: 0,
        })
    }

    /// Ends the readers, looks whether every commit is there, and removes the file; gives its size.
    fn leave(self, rows: u64) -> Result<u64> {
        drop(self.readers);
        let count = "select count(*) from title";
        let found: i64 = self.writer.query_row(count, [], |row| row.get(0))?;
        drop(self.writer);
        let bytes = stored_bytes(&self.path);
        std::fs::remove_file(&self.path)?;
        ensure!(
            found as u64 == rows + self.committed,
            "{found} rows are there after {} commits to {rows}",
            self.committed
        );
        Ok(bytes)
    }
}

/// The values that readers must find, in the order of keys.
fn texts(lab: &Lab) -> Result<Vec<u64>> {
    let conn = Connection::open(lab.source(DATA)?)?;
    let mut statement = conn.prepare("select data from title order by id")?;
    let texts = statement.query_map([], |row| Ok(super::mix(0, row.get_ref(0)?.as_bytes()?)))?;
    Ok(texts.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Plain;

    #[test]
    fn what_was_never_written_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        litepack_testdata::titles::create(&conn, 50, 1).unwrap();
        let reader = Reader {
            database: Database {
                group: Group::Files,
                engine: Plain::NAME.into(),
                path,
                setting: Setting::WAL_FULL,
            },
            rows: 50,
            number: 2,
        };
        let order = Order {
            round: 3,
            milliseconds: 50,
        };
        let reading = reader.read(&reader.open().unwrap(), &order).unwrap();
        assert!(reading.reads > 50, "it reads as long as it is told");
        let mut statement = conn.prepare(point_reads::SQL).unwrap();
        let mut texts: Vec<u64> = (1..=50)
            .map(|id| text(&mut statement, id).unwrap())
            .collect();
        reader.check(order.round, reading, &texts).unwrap();
        texts.iter_mut().for_each(|text| *text ^= 1);
        assert!(reader.check(order.round, reading, &texts).is_err());
    }
}
