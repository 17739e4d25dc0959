//! Processes of their own: this program started again for a part of a measurement.
//!
//! The part is told as JSON on the command line. Each further line of JSON on standard input is an order, and
//! is answered by a line on standard output; the end of the input ends the process.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engines::{Engines, Group};
use crate::memory_limit::MemoryLimit;
use crate::rows::Setting;
use crate::workloads::beside_writer::Reader;
use crate::workloads::task::Task;
#[cfg(target_os = "linux")]
use crate::workloads::written::Work;

/// The option that makes this program a child.
pub const OPTION: &str = "--child";

/// An engine's database, named so that another process can open it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Database {
    /// Where the engine is found.
    pub group: Group,
    /// Its name.
    pub engine: String,
    /// The file.
    pub path: PathBuf,
    /// Journal mode and flushing.
    pub setting: Setting,
}

impl Database {
    /// Opens it.
    ///
    /// # Errors
    /// Also where the group has no such engine.
    pub fn open(&self) -> Result<Connection> {
        let engines = Engines::of(self.group, true);
        let engine = engines.ready.iter().find(|one| one.name() == self.engine);
        let engine = engine.with_context(|| format!("there is no engine {}", self.engine))?;
        engine.open(&self.path, self.setting.journal, self.setting.synchronous)
    }
}

/// The purpose of a child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Part {
    /// One of the readers beside a writer.
    Reader(Reader),
    /// Work on an open connection.
    Task(Task),
    /// Work from opening a database to closing it.
    #[cfg(target_os = "linux")]
    Work(Work),
}

/// Runs as a child: it takes its part from the text, then orders from standard input.
pub fn run(part: &str) -> Result<()> {
    match serde_json::from_str(part)? {
        Part::Reader(reader) => {
            let conn = reader.open()?;
            serve(|order| reader.read(&conn, order))
        }
        Part::Task(task) => {
            let conn = task.database.open()?;
            serve(|order| task.run(&conn, *order))
        }
        #[cfg(target_os = "linux")]
        Part::Work(work) => serve(|order| work.run(*order)),
    }
}

fn serve<O: DeserializeOwned, R: Serialize>(mut work: impl FnMut(&O) -> Result<R>) -> Result<()> {
    for line in std::io::stdin().lines() {
        let answer = work(&serde_json::from_str(&line?)?)?;
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// A running child. It ends with this value.
pub struct Child {
    process: std::process::Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts the benchmark's program for a part.
    pub fn start(program: &Path, part: &Part) -> Result<Self> {
        Self::start_as(Command::new(program), program, part)
    }

    /// The same within a limit of memory.
    pub fn start_within(limit: &MemoryLimit, program: &Path, part: &Part) -> Result<Self> {
        Self::start_as(limit.command(program), program, part)
    }

    fn start_as(mut command: Command, program: &Path, part: &Part) -> Result<Self> {
        let mut process = command
            .arg(OPTION)
            .arg(serde_json::to_string(part)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let answers = process.stdout.take().context("the child has no output")?;
        Ok(Self {
            orders: process.stdin.take(),
            answers: BufReader::new(answers),
            process,
        })
    }

    /// Gives an order; the child begins at once.
    pub fn order(&mut self, order: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(order)? + "\n";
        let orders = self.orders.as_mut().context("the child takes no orders")?;
        orders.write_all(line.as_bytes())?;
        Ok(())
    }

    /// Waits for the answer to the oldest order that has none yet.
    pub fn answer<R: DeserializeOwned>(&mut self) -> Result<R> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(
            !line.is_empty(),
            "a child process failed; its error is above"
        );
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The end of its orders ends it. Waiting cannot fail for one that was started.
        self.orders = None;
        let _ = self.process.wait();
    }
}
