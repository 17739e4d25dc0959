//! Where workloads run: the engines, the databases they work on, progress, and the taking of turns.
//!
//! A prepared database is made once for each engine and data set. Work that only reads uses it;
//! work that writes gets a copy of its own, so that every workload starts from the same file.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, Size};
use crate::engines::{Engine, Engines, Group, settle};
use crate::report::INTERRUPTED;

/// How much data and work there is in a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Scale {
    /// Of data.
    pub size: Size,
    /// Long work is cut to a fifth.
    pub quick: bool,
}

impl Scale {
    /// `full`, or a fifth of it in a quick run.
    pub fn operations(self, full: u32) -> u32 {
        if self.quick { (full / 5).max(1) } else { full }
    }
}

/// The result of a turn of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The figure in the workload's unit.
    pub value: f64,
    /// A number that depends on all that was read or written; equal for all engines.
    pub answer: u64,
}

/// All turns of one engine, or why it has none.
pub struct Turns {
    /// In the order of the rounds.
    pub values: Vec<f64>,
    /// An error, or an answer that differs from plain SQLite's.
    pub failure: Option<String>,
}

/// Where workloads run.
pub struct Lab {
    files: Engines,
    archives: Engines,
    columns: Engines,
    sizes: Engines,
    apart: Engines,
    /// How much data and work.
    pub scale: Scale,
    /// How many turns each engine takes.
    pub rounds: u32,
    program: PathBuf,
    folder: PathBuf,
    scratch: tempfile::TempDir,
    made: RefCell<HashSet<PathBuf>>,
    left_out: RefCell<Vec<(&'static str, String)>>,
    progress: ProgressBar,
}

static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on the first interruption ends the run after the work under way, with a report of what is measured by then,
/// and the second one at once.
///
/// # Errors
/// The system's.
pub fn heed_interruptions() -> Result<()> {
    // One that is ignored stays so, as for jobs of a shell in the background.
    let watching = ctrlc::try_set_handler(|| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            const INTERRUPTED: i32 = 130;
            std::process::exit(INTERRUPTED);
        }
        eprintln!("stopping after what is under way; once more to stop at once");
    });
    match watching {
        Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        watching => watching.context("cannot watch for interruptions"),
    }
}

impl Lab {
    /// Uses `folder` for databases: generated ones stay there, all others go when the lab ends.
    /// `program` is the benchmark's, which takes parts as a [child](crate::child).
    pub fn new(program: PathBuf, folder: &Path, scale: Scale, rounds: u32) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let scratch = tempfile::Builder::new().prefix("run-").tempdir_in(folder)?;
        let progress = ProgressBar::no_length().with_style(
            ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}")
                .expect("the template is well-formed"),
        );
        progress.enable_steady_tick(std::time::Duration::from_millis(200));
        Ok(Self {
            files: Engines::of(Group::Files, false),
            archives: Engines::of(Group::Archives, false),
            columns: Engines::of(Group::Columns, false),
            sizes: Engines::of(Group::Sizes, false),
            apart: Engines::of(Group::Apart, false),
            scale,
            rounds,
            program,
            folder: folder.to_owned(),
            scratch,
            made: Default::default(),
            left_out: Default::default(),
            progress,
        })
    }

    /// Adds the engines that are not ours to a group; to fetch and build them takes minutes and the
    /// package registries.
    pub fn add_peers(&mut self, group: Group) {
        self.say("fetching what Litepack is compared with");
        let engines = Engines::of(group, true);
        match group {
            Group::Files => self.files = engines,
            Group::Archives => self.archives = engines,
            Group::Columns => self.columns = engines,
            Group::Sizes => self.sizes = engines,
            Group::Apart => self.apart = engines,
        }
    }

    /// Who takes turns.
    pub fn engines(&self, group: Group) -> &[Box<dyn Engine>] {
        match group {
            Group::Files => &self.files.ready,
            Group::Archives => &self.archives.ready,
            Group::Columns => &self.columns.ready,
            Group::Sizes => &self.sizes.ready,
            Group::Apart => &self.apart.ready,
        }
    }

    /// Leaves something out of the run, and says why in every report.
    pub fn leave_out(&self, what: &'static str, reason: impl std::fmt::Display) {
        self.left_out
            .borrow_mut()
            .push((what, format!("{reason:#}")));
    }

    /// Leaves the rest of a workload out if the user wants the run to end; true then.
    pub fn leave_out_if_stopped(&self, workload: &'static str) -> bool {
        let is_stopped = self.is_stopped();
        if is_stopped {
            self.leave_out(workload, INTERRUPTED);
        }
        is_stopped
    }

    /// Whether the user wants the run to end.
    pub fn is_stopped(&self) -> bool {
        STOPPED.load(Ordering::Relaxed)
    }

    /// Who cannot take part and what is left out, each once with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (String, String)> {
        let groups = [
            &self.files,
            &self.archives,
            &self.columns,
            &self.sizes,
            &self.apart,
        ];
        let mut missing = groups.map(|group| &group.missing[..]).concat();
        missing.extend_from_slice(&self.left_out.borrow());
        missing
            .into_iter()
            .map(|(what, reason)| (what.to_string(), reason))
    }

    /// Says what is being done; shown on standard error if that is a terminal.
    pub fn say(&self, message: impl Into<std::borrow::Cow<'static, str>>) {
        self.progress.set_message(message);
    }

    /// Ends the display of progress.
    pub fn finish(&self) {
        self.progress.finish_and_clear();
    }

    /// The plain database of a data set.
    pub fn source(&self, data: Dataset) -> Result<PathBuf> {
        self.source_of(data, self.scale.size)
    }

    /// The same with another number of rows.
    pub fn source_of(&self, data: Dataset, size: Size) -> Result<PathBuf> {
        self.say(format!("making {}", data.title(size)));
        data.find_or_make(&self.folder, size)
    }

    /// The engine's database of a data set, in the cache of the operating system. Not to be
    /// written to.
    pub fn prepared(&self, engine: &dyn Engine, data: Dataset) -> Result<PathBuf> {
        self.prepared_of(engine, data, self.scale.size)
    }

    /// The same with another number of rows.
    pub fn prepared_of(&self, engine: &dyn Engine, data: Dataset, size: Size) -> Result<PathBuf> {
        let source = self.source_of(data, size)?;
        let target = self.prepared_path(engine, &source);
        if !self.made.borrow().contains(&target) {
            self.say(format!(
                "preparing {} for {}",
                data.title(size),
                engine.name()
            ));
            engine.prepare(&source, &target)?;
            self.made.borrow_mut().insert(target.clone());
        }
        settle(&target)?;
        Ok(target)
    }

    /// Takes a database that a loader of the engine has made as the prepared one, to save making it
    /// again.
    pub fn keep(&self, engine: &dyn Engine, data: Dataset, made: &Path) -> Result<()> {
        let target = self.prepared_path(engine, &self.source(data)?);
        std::fs::rename(made, &target)?;
        self.made.borrow_mut().insert(target);
        Ok(())
    }

    fn prepared_path(&self, engine: &dyn Engine, source: &Path) -> PathBuf {
        let name = format!("{}-{}", engine.name(), stem(source));
        self.scratch.path().join(name)
    }

    /// A copy of the same that may be written to.
    pub fn copy(&self, engine: &dyn Engine, data: Dataset) -> Result<PathBuf> {
        let prepared = self.prepared(engine, data)?;
        let target = self.free_path();
        std::fs::copy(prepared, &target)?;
        settle(&target)?;
        Ok(target)
    }

    /// The program to start for a child process.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where generated data are kept for the next run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where databases are made that go when the lab ends.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// A path at which there is no file.
    pub fn free_path(&self) -> PathBuf {
        (0_u32..)
            .map(|number| self.scratch.path().join(format!("copy-{number}.db")))
            .find(|path| !path.exists())
            .expect("there are numbers left")
    }

    /// Lets the contestants take turns: first, second, first, second, in rounds counted from 1.
    /// One that fails sits out the rest; one that answers otherwise than the first is told so.
    pub fn take_turns<C>(
        &self,
        title: &str,
        rounds: u32,
        contestants: &mut [Result<C>],
        mut turn: impl FnMut(&mut C, u32) -> Result<Turn>,
    ) -> Vec<Turns> {
        let mut all: Vec<Turns> = contestants
            .iter()
            .map(|contestant| Turns {
                values: Vec::new(),
                failure: contestant.as_ref().err().map(|error| format!("{error:#}")),
            })
            .collect();
        for round in 1..=rounds {
            self.say(format!("{title} ({round} of {rounds})"));
            let mut expected = None;
            for (contestant, turns) in contestants.iter_mut().zip(&mut all) {
                let (Ok(contestant), None) = (contestant, &turns.failure) else {
                    continue;
                };
                match turn(contestant, round) {
                    Ok(Turn { value, answer }) => {
                        turns.values.push(value);
                        if *expected.get_or_insert(answer) != answer {
                            turns.failure = Some("the answer differs from plain SQLite's".into());
                        }
                    }
                    Err(error) => {
                        turns.values.clear();
                        turns.failure = Some(format!("{error:#}"));
                    }
                }
            }
        }
        all
    }
}

fn stem(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(folder: &Path) -> Lab {
        let scale = Scale {
            size: Size {
                rows: 100,
                scale_factor: 0.01,
            },
            quick: true,
        };
        Lab::new(PathBuf::new(), folder, scale, 2).unwrap()
    }

    #[test]
    fn contestants_alternate() {
        let folder = tempfile::tempdir().unwrap();
        let mut order = Vec::new();
        lab(folder.path()).take_turns("t", 2, &mut [Ok(1), Ok(2)], |contestant, round| {
            order.push((round, *contestant));
            Ok(Turn {
                value: 1.0,
                answer: 0,
            })
        });
        assert_eq!(order, [(1, 1), (1, 2), (2, 1), (2, 2)]);
    }

    #[test]
    fn a_wrong_answer_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let turns = lab(folder.path()).take_turns("t", 2, &mut [Ok(1), Ok(2)], |contestant, _| {
            Ok(Turn {
                value: 1.0,
                answer: *contestant,
            })
        });
        assert!(turns[0].failure.is_none());
        assert!(turns[1].failure.as_ref().unwrap().contains("differs"));
    }

    #[test]
    fn writers_get_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let lab = lab(folder.path());
        let engine = &*lab.engines(Group::Files)[0];
        let prepared = lab.prepared(engine, Dataset::Titles).unwrap();
        assert_eq!(lab.prepared(engine, Dataset::Titles).unwrap(), prepared);
        let (one, two) = (
            lab.copy(engine, Dataset::Titles).unwrap(),
            lab.copy(engine, Dataset::Titles).unwrap(),
        );
        assert!(one != two && one != prepared);
    }
}
