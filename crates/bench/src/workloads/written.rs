//! Bytes that a device is given: a disk of flash wears by them, whatever the file takes in the end.

use std::path::Path;

use anyhow::Result;
use litepack_testdata::logs::Requests;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::{Workload, compared};
use crate::child::{Child, Database, Part};
use crate::dataset::SEED;
use crate::device::Device;
use crate::engines::{Engine, Group, Journal, stored_bytes};
use crate::lab::{Lab, Scale, Turn};
use crate::rows::{Row, Setting, Unit, compare};

/// Rows before the work.
const TABLE: u32 = 40_000;
/// Figures of two turns hardly differ.
const ROUNDS: u32 = 1;
const INSERTS: u32 = 4_000;
const TRANSACTIONS: u32 = 400;
const IN_TRANSACTION: u32 = 50;
const UPDATES: u32 = 2_000;
const DELETED: u32 = 20_000;

/// Writes to a device.
pub struct Written;

/// The work on a table of [`TABLE`] rows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Kind {
    Insert,
    InsertMany,
    Update,
    Delete,
}

const KINDS: [Kind; 4] = [Kind::Insert, Kind::InsertMany, Kind::Update, Kind::Delete];
const SETTINGS: [Setting; 3] = [Setting::WAL_NORMAL, Setting::WAL_FULL, Setting::DELETE_FULL];

/// One work on one database: the part of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    database: Database,
    kind: Kind,
    scale: Scale,
}

/// The next thing that a child is to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The work, from opening the database to closing it.
    Do,
    /// To tell what the table holds.
    Content,
}

impl Kind {
    const fn title(self) -> &'static str {
        match self {
            Self::Insert => "single inserts, a commit each",
            Self::InsertMany => "commits of 50 inserts",
            Self::Update => "random single-row updates, a commit each",
            Self::Delete => "deleting half of the rows at once",
        }
    }

    fn run(self, conn: &Connection, scale: Scale) -> Result<()> {
        let rows = scale.operations(TABLE);
        let mut requests = Requests::new(SEED + 1);
        let mut rng = super::random("written", 1);
        match self {
            Self::Insert => insert(conn, &mut requests, scale.operations(INSERTS))?,
            Self::InsertMany => {
                for _ in 0..scale.operations(TRANSACTIONS) {
                    let transaction = conn.unchecked_transaction()?;
                    insert(&transaction, &mut requests, IN_TRANSACTION)?;
                    transaction.commit()?;
                }
            }
            Self::Update => {
                let mut update = conn.prepare("update log set data = ? where id = ?")?;
                for request in requests.by_ref().take(scale.operations(UPDATES) as usize) {
                    let data = serde_json::to_string(&request)?;
                    update.execute(params![data, rng.u32(1..=rows)])?;
                }
            }
            Self::Delete => {
                let last = rows / 4 + scale.operations(DELETED);
                conn.execute("delete from log where id > ? and id <= ?", [rows / 4, last])?;
            }
        }
        Ok(())
    }
}

fn insert(conn: &Connection, requests: &mut Requests, count: u32) -> Result<()> {
    let mut insert = conn.prepare_cached("insert into log(kind, data) values (?, ?)")?;
    for request in requests.by_ref().take(count as usize) {
        let data = serde_json::to_string(&request)?;
        insert.execute(params![
            format!("{} {}", request.method, request.status),
            data
        ])?;
    }
    Ok(())
}

impl Work {
    /// Does what is ordered.
    pub fn run(&self, order: Order) -> Result<u64> {
        let conn = self.database.open()?;
        match order {
            Order::Do => {
                self.kind.run(&conn, self.scale)?;
                conn.close().map_err(|(_, error)| error)?;
                Ok(0)
            }
            Order::Content => {
                let mut rows = conn.prepare("select id, data from log order by id")?;
                let mut rows = rows.query([])?;
                let mut answer = 0;
                while let Some(row) = rows.next()? {
                    let id: i64 = row.get(0)?;
                    answer = super::mix(answer ^ id as u64, row.get_ref(1)?.as_bytes()?);
                }
                Ok(answer)
            }
        }
    }
}

impl Workload for Written {
    fn name(&self) -> &'static str {
        "written"
    }

    fn about(&self) -> &'static str {
        "Bytes that a device with ext4 of its own was given, from opening the database to closing it: journals and checkpoints are \
         in it, and so is the file system's own journal. The table has JSON and an index of few values. Each engine is in a \
         process of its own; sqlite_zstd_vfs has no WAL. Aims: in WAL mode 0.10 to 0.35 of plain's bytes, in DELETE mode 0.15 to 0.40."
    }

    fn group(&self) -> Group {
        Group::Apart
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let device = match Device::new(lab.scratch()) {
            Ok(device) => device,
            Err(reason) => {
                lab.leave_out("bytes written to a device", format!("{reason:#}"));
                return Ok(Vec::new());
            }
        };
        let source = lab.scratch().join("written.db");
        make(&source, lab.scale)?;
        let mut groups = Vec::new();
        for setting in SETTINGS {
            for kind in KINDS {
                if lab.leave_out_if_stopped(self.name()) {
                    return Ok(groups);
                }
                groups.push(self.run_kind(lab, &device, &source, setting, kind));
            }
        }
        Ok(groups)
    }
}

/// An engine, and what the database took when the work was done.
struct Contestant<'a> {
    engine: &'a dyn Engine,
    file_bytes: Option<u64>,
}

impl Written {
    fn run_kind(
        &self,
        lab: &Lab,
        device: &Device,
        source: &Path,
        setting: Setting,
        kind: Kind,
    ) -> Vec<Row> {
        // Those that have a WAL can be in one process, too.
        let group = match setting.journal {
            Journal::Wal => Group::Files,
            Journal::Delete => Group::Apart,
        };
        let engines = lab.engines(group);
        let mut contestants: Vec<Result<Contestant>> = engines
            .iter()
            .map(|engine| {
                Ok(Contestant {
                    engine: &**engine,
                    file_bytes: None,
                })
            })
            .collect();
        let label = format!("Bytes written, {}, {}", kind.title(), setting.name());
        let all = lab.take_turns(&label, ROUNDS, &mut contestants, |one, _| {
            let folder = tempfile::tempdir_in(device.folder())?;
            let path = folder.path().join("work.db");
            one.engine.prepare(source, &path)?;
            let work = Work {
                database: Database {
                    group,
                    engine: one.engine.name().into(),
                    path: path.clone(),
                    setting,
                },
                kind,
                scale: lab.scale,
            };
            let mut child = Child::start(lab.program(), &Part::Work(work))?;
            let mut ask = |order: Order| -> Result<u64> {
                child.order(&order)?;
                child.answer()
            };
            let before = device.written_bytes()?;
            ask(Order::Do)?;
            let written = device.written_bytes()? - before;
            one.file_bytes = Some(stored_bytes(&path));
            Ok(Turn {
                value: written as f64,
                answer: ask(Order::Content)?,
            })
        });
        let sizes = contestants.iter().map(|one| one.as_ref().ok()?.file_bytes);
        let like = Row {
            workload: self.name(),
            title: format!("Bytes written to a device: {}", kind.title()),
            data: format!(
                "logs, {} rows of JSON, an index",
                lab.scale.operations(TABLE)
            ),
            setting: Some(setting),
            unit: Unit::Written,
            ..Row::EMPTY
        };
        let names = engines.iter().map(|engine| engine.name());
        let mut rows = compared(&like, names, all);
        for (row, size) in rows.iter_mut().zip(sizes) {
            row.file_bytes = size;
        }
        compare(&mut rows);
        rows
    }
}

/// The plain database that every engine begins with.
fn make(path: &Path, scale: Scale) -> Result<()> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "create table log(id integer primary key, kind text, data text); \
         create index log_kind on log(kind)",
    )?;
    let transaction = conn.unchecked_transaction()?;
    insert(
        &transaction,
        &mut Requests::new(SEED),
        scale.operations(TABLE),
    )?;
    transaction.commit()?;
    Ok(())
}
