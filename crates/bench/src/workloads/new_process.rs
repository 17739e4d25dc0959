//! New processes: reads of pages that none of them has read before, and one query from start to end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::session::Session;
use super::task::{Done, Order, Task};
use super::{Workload, compared, fingerprint, point_reads};
use crate::command::run;
use crate::dataset::Dataset;
use crate::engines::{Group, litepack_command};
use crate::lab::{Lab, Scale, Turn};
use crate::rows::{Cache, Row, Setting, Unit};

const SETTING: Setting = Setting::DELETE_FULL;

/// Random rows, each read by a process that has read no other page.
pub struct FirstTouch;

impl Workload for FirstTouch {
    fn name(&self) -> &'static str {
        "first-touch"
    }

    fn about(&self) -> &'static str {
        "A new process reads random rows by primary key, a fifth as many as above, so that most pages are read for the first \
         time. The file is in the system's memory; starting and opening are not counted. Aim: at least 0.9 × the rate."
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let work = point_reads::PointReads;
        let scale = Scale {
            quick: true,
            ..lab.scale
        };
        let engines = lab.engines(Group::Files);
        let mut tasks: Vec<Result<Task>> = engines
            .iter()
            .map(|engine| Task::of(lab, Group::Files, &**engine, &work, SETTING, scale))
            .collect();
        let title = "Random point reads, the first time in a process";
        let turns = lab.take_turns(title, lab.rounds, &mut tasks, |task, round| {
            let mut child = task.start(lab)?;
            child.order(&Order::Turn(round))?;
            Ok(child.answer::<Done>()?.turn())
        });
        let row = Row {
            workload: self.name(),
            title: title.into(),
            data: work.data().title(scale.size),
            setting: Some(SETTING),
            cache: Cache::Warm,
            unit: work.unit(),
            ..Row::EMPTY
        };
        let names = engines.iter().map(|engine| engine.name());
        Ok(vec![compared(&row, names, turns)])
    }
}

/// One query in a process: starting it, loading the extension, opening the database, a row by its key, and ending.
pub struct OneQuery;

/// Starts in one turn.
const STARTS: u32 = 25;
const DATA: Dataset = Dataset::Titles;
const SQL: &str = "select data from title where id = 4711";

/// A program that runs a query on a database.
#[derive(Clone, Copy)]
enum Host {
    Shell,
    OwnShell,
    Python,
}

/// In Python. Its arguments are the database, the query, and the extension if there is one. A Python that loads no
/// extensions fails on plain databases, too, and is left out.
const PYTHON: &str = "
import sqlite3, sys
sqlite3.Connection.enable_load_extension
if len(sys.argv) > 3:
    loader = sqlite3.connect(':memory:')
    loader.enable_load_extension(True)
    loader.load_extension(sys.argv[3])
db = sqlite3.connect(sys.argv[1], uri=True)
print(db.execute(sys.argv[2]).fetchone()[0])
";

impl Host {
    fn name(self) -> &'static str {
        match self {
            Self::Shell => "sqlite3 with .load",
            Self::OwnShell => "litepack shell",
            Self::Python => "Python",
        }
    }

    /// The query on this database.
    fn command(self, database: &Contestant) -> Result<Command> {
        let Contestant { path, uri, .. } = database;
        let extension = database.extension.as_deref();
        let mut command = match (self, extension) {
            (Self::OwnShell, Some(_)) => Command::new(litepack_command()?),
            (Self::Shell | Self::OwnShell, _) => Command::new("sqlite3"),
            (Self::Python, _) => Command::new("python3"),
        };
        match (self, extension) {
            (Self::OwnShell, Some(_)) => command.arg("shell").arg(path).arg(SQL),
            (Self::Shell, Some(extension)) => {
                let load = format!(".load {}", extension.display());
                command.args([":memory:", &load, &format!(".open {uri}"), SQL])
            }
            (Self::Shell | Self::OwnShell, _) => command.args([uri, SQL]),
            (Self::Python, extension) => command.args(["-c", PYTHON, uri, SQL]).args(extension),
        };
        Ok(command)
    }
}

/// An engine's file as a host opens it; a packed one needs the extension.
struct Contestant {
    path: PathBuf,
    uri: String,
    extension: Option<PathBuf>,
}

impl Workload for OneQuery {
    fn name(&self) -> &'static str {
        "one-query"
    }

    fn about(&self) -> &'static str {
        "From the start of a process to its end: it loads the extension, opens the database, and reads one row by primary key. \
         25 starts a turn (a quick run 5); a value is one start. `litepack shell` is beside `sqlite3`, which it runs. Aims: \
         at most 1 ms more than plain SQLite; `litepack shell` 2 ms."
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let extension = match extension() {
            Ok(extension) => extension,
            Err(reason) => {
                lab.leave_out(self.name(), reason);
                return Ok(Vec::new());
            }
        };
        let mut groups = Vec::new();
        for host in [Host::Shell, Host::OwnShell, Host::Python] {
            if lab.leave_out_if_stopped(self.name()) {
                break;
            }
            groups.extend(self.run_host(lab, host, &extension)?);
        }
        Ok(groups)
    }
}

impl OneQuery {
    /// Nothing if the machine has no such host.
    fn run_host(&self, lab: &Lab, host: Host, extension: &Path) -> Result<Option<Vec<Row>>> {
        let engines = lab.engines(Group::Files);
        let mut contestants: Vec<Result<Contestant>> = engines
            .iter()
            .enumerate()
            .map(|(index, engine)| {
                let path = lab.prepared(&**engine, DATA)?;
                let is_plain = index == 0;
                Ok(Contestant {
                    uri: engine.uri(&path),
                    path,
                    extension: (!is_plain).then(|| extension.to_owned()),
                })
            })
            .collect();
        if let Some(Ok(plain)) = contestants.first()
            && let Err(reason) = run(&mut host.command(plain)?)
        {
            lab.leave_out(host.name(), reason);
            return Ok(None);
        }
        let starts = lab.scale.operations(STARTS);
        let title = format!("One query in a process: {}", host.name());
        let turns = lab.take_turns(&title, lab.rounds, &mut contestants, |one, _| {
            let mut answer = Vec::new();
            let start = Instant::now();
            for _ in 0..starts {
                answer = run(&mut host.command(one)?)?;
            }
            let value = start.elapsed().as_secs_f64() / f64::from(starts);
            ensure!(!answer.trim_ascii().is_empty(), "there is no answer");
            let answer = fingerprint(&answer);
            Ok(Turn { value, answer })
        });
        let row = Row {
            workload: self.name(),
            title,
            data: DATA.title(lab.scale.size),
            cache: Cache::Warm,
            unit: Unit::Seconds,
            ..Row::EMPTY
        };
        let names = engines.iter().map(|engine| engine.name());
        Ok(Some(compared(&row, names, turns)))
    }
}

/// The extension that was built together with this program.
fn extension() -> Result<PathBuf> {
    let name = format!(
        "{}litepack{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let path = litepack_command()?.with_file_name(name);
    ensure!(
        path.is_file(),
        "there is no extension beside this program; build it with the same profile, \
         `cargo build --profile dist -p litepack-extension`"
    );
    Ok(path)
}
