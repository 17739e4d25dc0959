//! Maintenance: compresses the rows that are not compressed yet, in short steps.
//!
//! A step reads a batch of rows without holding a lock, compresses it on all cores, and writes it in
//! one short transaction, each row only if it still holds what was read. So it may be interrupted or
//! killed at any time, and others may write at any time; the next pass finds their changes. The
//! progress of a pass is written with the rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use litepack_codec::Dictionary;

use crate::batch::{BatchCompressor, Task};
use crate::column::{Column, Row, Which};
use crate::dictionary::{NO_DICTIONARY, ensure_tables, save};
use crate::group::{Decision, Groups};
use crate::sampler::{Sampler, Verdict, stored_len};
use crate::sql::{Error, OwnedValue, Result, Sql, Value};
use crate::state::{Rows, State, note_dictionary};
use crate::transaction::{Quiet, atomically, lock};

/// Most passes of a single call through a column: others may write faster than it compresses.
const PASSES: u32 = 2;
/// A pause is not longer than this many times the work, however small a load is asked for.
const PAUSE_MAX: f64 = 1000.0;

/// How long to work, and how hard.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    until: Option<Instant>,
    load: f64,
}

impl Limits {
    /// For about so many seconds (`None`: until all is done; at least one step is made), so that the
    /// database is locked for writing at most this share of the time.
    ///
    /// # Errors
    /// When a number makes no sense.
    pub fn new(seconds: Option<f64>, load: f64) -> Result<Limits> {
        if seconds.is_some_and(|seconds| seconds.is_nan() || seconds < 0.0) {
            return Err(Error::new(
                "the time must be a number of seconds from 0 on, or NULL",
            ));
        }
        if !(load > 0.0 && load <= 1.0) {
            return Err(Error::new(
                "the load must be above 0 and at most 1, the share of time in which others wait",
            ));
        }
        // A time too long to be added is none.
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Limits {
            until: time.and_then(|time| Instant::now().checked_add(time)),
            load,
        })
    }

    /// Whether the time is over.
    pub fn over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Lets others work after the database was locked for some time.
    ///
    /// # Errors
    /// SQLite's "interrupted".
    pub fn pause(&self, db: &impl Sql, locked: Duration) -> Result<()> {
        // Inside a user's transaction the lock stays, so waiting would not help others.
        if self.load >= 1.0 || !db.autocommit() {
            return Ok(());
        }
        let mut pause = locked.mul_f64((1.0 / self.load - 1.0).min(PAUSE_MAX));
        if let Some(until) = self.until {
            pause = pause.min(until.saturating_duration_since(Instant::now()));
        }
        db.sleep(pause)
    }
}

/// The new content of a row.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) row: &'a Row,
    pub(crate) stored: OwnedValue,
    pub(crate) dictionary: Option<i64>,
}

/// Compresses what is not compressed in all columns of the main database. True if there is more to do.
///
/// # Errors
/// SQLite's; what was done before the step that failed stays done.
pub fn maintain(db: &impl Sql, limits: &Limits) -> Result<bool> {
    let _quiet = Quiet::new(db)?;
    let mut stepped = false;
    for column in Column::all(db)? {
        let mut pass = Pass::new(db, &column)?;
        for _ in 0..PASSES {
            if pass.is_done()? {
                break;
            }
            if stepped && limits.over() {
                return Ok(true);
            }
            stepped = true;
            if !pass.run(limits)? {
                return Ok(true);
            }
        }
        if !pass.is_done()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Maintenance of one column.
struct Pass<'a, S: Sql> {
    db: &'a S,
    column: &'a Column,
    compressor: BatchCompressor,
    groups: Groups,
    surveyed: bool,
    state: State,
    saved: State,
}

impl<'a, S: Sql> Pass<'a, S> {
    fn new(db: &'a S, column: &'a Column) -> Result<Self> {
        let state = State::load(db, column)?;
        Ok(Pass {
            db,
            column,
            compressor: BatchCompressor::new(column.config.compression_level),
            groups: Groups::default(),
            surveyed: false,
            saved: state.clone(),
            state,
        })
    }

    /// Whether a pass has seen all rows that are not compressed, and nothing has changed since.
    fn is_done(&mut self) -> Result<bool> {
        if !self.state.complete {
            return Ok(false);
        }
        for name in self.state.groups.keys() {
            // Someone else has given the group a dictionary meanwhile.
            if matches!(
                Groups::default().decide(self.db, Some(name))?,
                Some(Decision::With(..))
            ) {
                return Ok(false);
            }
        }
        Ok(self.state.left == Rows::not_compressed(self.db, self.column)?)
    }

    /// Goes through the column; false if it stopped at the time limit.
    fn run(&mut self, limits: &Limits) -> Result<bool> {
        if self.state.complete {
            self.state.restart();
        }
        self.recall();
        self.surveyed = false;
        loop {
            let after = self.state.position();
            let rows = self.column.read(self.db, Which::Raw, after.as_ref())?;
            let Some(last) = rows.last() else {
                self.state.complete = true;
                self.state.set_position(None);
                self.save()?;
                return Ok(true);
            };
            self.state.set_position(Some(&last.key));
            let locked = self.step(&rows)?;
            if limits.over() {
                self.save()?;
                return Ok(false);
            }
            limits.pause(self.db, locked)?;
        }
    }

    /// Keeps the state if it is not kept yet.
    fn save(&mut self) -> Result<()> {
        if self.state != self.saved {
            atomically(self.db, || self.state.save(self.db, self.column))?;
            self.saved = self.state.clone();
        }
        Ok(())
    }

    /// Compresses a batch; returns how long the database was locked for it.
    fn step(&mut self, rows: &[Row]) -> Result<Duration> {
        let mut decisions = Vec::with_capacity(rows.len());
        for row in rows {
            decisions.push(match self.column.content(&row.stored) {
                Some(_) => self.decide(row.group.as_deref())?,
                None => Some(Decision::Leave),
            });
        }
        let changes = changes(&mut self.compressor, self.column, rows, &decisions)?;
        let mut changing = changes.iter().map(|change| change.row).peekable();
        for (row, decision) in std::iter::zip(rows, &decisions) {
            let changes = changing
                .next_if(|changed| std::ptr::eq(*changed, row))
                .is_some();
            if !changes && decision.is_some() {
                self.state.left.add(&row.key);
            }
        }
        let started = Instant::now();
        if !changes.is_empty() {
            let written = atomically(self.db, || {
                write(self.db, self.column, &changes, &self.state)
            })?;
            self.saved = self.state.clone();
            if !written {
                // These rows are for the next pass, and another dictionary.
                self.groups.clear();
            }
        }
        Ok(started.elapsed())
    }

    /// The decision for the rows of a group, after sampling if it has no dictionary; `None` if the next pass has to
    /// decide.
    fn decide(&mut self, group: Option<&str>) -> Result<Option<Decision>> {
        let decision = self.groups.decide(self.db, group)?;
        if decision.is_some() {
            return Ok(decision);
        }
        if !self.surveyed {
            self.surveyed = true;
            self.sample_groups()?;
            return self.decide(group);
        }
        Ok(self.state.crowded.then_some(Decision::Leave))
    }

    /// Trains a dictionary for every group of this column where it pays, and notes the other groups.
    fn sample_groups(&mut self) -> Result<()> {
        loop {
            let mut sampler = Sampler::new(&self.column.config);
            let mut position = None;
            loop {
                let rows = self.column.read(self.db, Which::Raw, position.as_ref())?;
                for row in &rows {
                    if let (Some(group), Some(content)) =
                        (&row.group, self.column.content(&row.stored))
                        && self.groups.decide(self.db, Some(group))?.is_none()
                    {
                        sampler.add(group, content);
                    }
                }
                match rows.into_iter().next_back() {
                    Some(last) => position = Some(last.key),
                    None => break,
                }
            }
            self.state.crowded = sampler.is_crowded();
            let (mut unfinished, mut adopted) = (self.state.crowded, false);
            for verdict in sampler.verdicts() {
                match verdict? {
                    (group, Verdict::Dictionary(bytes)) => {
                        adopt(self.db, &group, &bytes)?;
                        adopted = true;
                    }
                    (group, Verdict::Left(left)) => {
                        self.state.groups.insert(group, left);
                    }
                    (_, Verdict::Later) => unfinished = true,
                }
            }
            self.recall();
            if !unfinished || !adopted {
                return Ok(());
            }
        }
    }

    /// Knows of the groups only what the state says.
    fn recall(&mut self) {
        self.groups.clear();
        for name in self.state.groups.keys() {
            self.groups.leave(name);
        }
    }
}

/// Stores a dictionary for a group, unless another connection was first.
fn adopt(db: &impl Sql, group: &str, bytes: &[u8]) -> Result<()> {
    atomically(db, || {
        // Under the lock, the groups read next stay as they are.
        lock(db)?;
        ensure_tables(db)?;
        if Groups::default().decide(db, Some(group))?.is_some() {
            return Ok(());
        }
        let id = save(db, Some(group), bytes)?;
        note_dictionary(db, id)
    })
}

/// The new content of a batch's rows, for those that get smaller.
fn changes<'a>(
    compressor: &mut BatchCompressor,
    column: &Column,
    rows: &'a [Row],
    decisions: &[Option<Decision>],
) -> Result<Vec<Change<'a>>> {
    let mut chosen: Vec<(&Row, i64)> = Vec::new();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for (row, decision) in std::iter::zip(rows, decisions) {
        let Some(decision) = decision else {
            continue;
        };
        if let (Some(content), Some(id)) = (column.content(&row.stored), decision.marker()) {
            let dictionary: Option<&Arc<Dictionary>> = decision.dictionary();
            chosen.push((row, id));
            tasks.push(Task {
                content,
                dictionary,
            });
        }
    }
    let frames = compressor.compress(&tasks)?;
    let changes = std::iter::zip(chosen, std::iter::zip(&tasks, frames))
        .filter(|((_, id), (task, frame))| stored_len(frame.len(), *id) < task.content.len())
        .map(|((row, id), (_, frame))| Change {
            row,
            stored: OwnedValue::Blob(frame),
            dictionary: Some(id),
        });
    Ok(changes.collect())
}

/// Writes changes and the state that goes with them; false, and nothing written, if a dictionary is
/// gone that a row is to refer to.
pub(crate) fn write<S: Sql>(
    db: &S,
    column: &Column,
    changes: &[Change<'_>],
    state: &State,
) -> Result<bool> {
    // First of all, because it takes the lock: from here on no dictionary can go.
    state.save(db, column)?;
    let mut ids: Vec<i64> = changes
        .iter()
        .filter_map(|change| change.dictionary)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids.into_iter().filter(|id| *id != NO_DICTIONARY) {
        let sql = "select 1 from main._zstd_dicts where id = ?1";
        if db.row(sql, &[Value::Integer(id)], |_| Ok(()))?.is_none() {
            return Ok(false);
        }
    }
    let mut replace = column.prepare_replace(db)?;
    for change in changes {
        replace.run(change.row, change.stored.as_value(), change.dictionary)?;
    }
    Ok(true)
}
