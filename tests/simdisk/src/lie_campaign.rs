//! The campaign of lies: run a workload once for each call that the disk could lie about, and look at every answer.
//!
//! Each answer has to be right, or an error that says that the disk is at fault: while the workload goes on, to the
//! same connection and to another process, and after the process was killed or the power lost. Where less is promised,
//! a bound says how much less: an earlier state of a database may come back, but only as a whole.

use std::fmt;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use crate::campaign::Points;
use crate::content::{Content, content_of};
use crate::crash::CrashMode;
use crate::disk::{Images, SimDisk};
use crate::driver::{Layer, MakeLayer, Model, Session, Stack};
use crate::lie::Lie;
use crate::workload::Workload;
use litepack_io::random::SplitMix64;

/// The states of a database that an answer without an error may come from: not before
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// the last one that was acknowledged. One that was under way is right, too.
    Right,
    /// the last one before that with another content.
    AllButLast,
    /// the last one in which a sync of the file succeeded.
    Synced,
    /// all of them. But it is one of them.
    Earlier,
}

/// So many calls are shown with a failure.
const LAST: u64 = 12;

/// The names of databases end so.
const DATABASE: &str = ".db";

/// The promise, and at which moment it counts.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// To those who have the database open when the disk lies, and to those who open it beside them.
    pub live: Bound,
    /// After all of them were killed.
    pub killed: Bound,
    /// After a power loss.
    pub power: Bound,
}

impl Bounds {
    /// Nothing less than the right answer, at any time.
    pub const RIGHT: Bounds = Bounds {
        live: Bound::Right,
        killed: Bound::Right,
        power: Bound::Right,
    };
}

/// The work of a campaign.
#[derive(Clone, Debug)]
pub struct LieCampaign {
    /// The work, run once for each lie.
    pub workload: Workload,
    /// The lie.
    pub lie: Lie,
    /// It is about files whose name ends so.
    pub files: &'static str,
    /// At which of the calls that it could be about.
    pub points: Points,
    /// The condition that has to hold.
    pub bounds: Bounds,
    /// Stop after so many failures.
    pub max_failures: usize,
    /// The seed of the random choices.
    pub seed: u64,
}

/// A lie after which an answer was wrong.
#[derive(Clone, Debug)]
pub struct LieFailure {
    /// Which of the calls, from 1.
    pub call: u64,
    /// The call, in words.
    pub told: String,
    /// The step in flight.
    pub step: &'static str,
    /// The fault found, in words.
    pub what: String,
    /// The last calls of the disk.
    pub calls: Vec<String>,
}

impl fmt::Display for LieFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LieFailure {
            call,
            told,
            step,
            what,
            calls,
        } = self;
        let calls = calls.join("\n    ");
        write!(
            f,
            "call {call} ({told}), in or after \"{step}\": {what}\n    {calls}"
        )
    }
}

/// The result of a campaign.
#[derive(Debug, Default)]
pub struct LieReport {
    /// The seed it ran with.
    pub seed: u64,
    /// How many calls the lie could be about.
    pub calls: u64,
    /// How many lies were told.
    pub runs: u64,
    /// Looks that were answered right.
    pub right: u64,
    /// Looks that were answered with an error.
    pub errors: u64,
    /// Looks that were answered with an earlier state, as the bounds allow.
    pub earlier: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The failures found.
    pub failures: Vec<LieFailure>,
}

impl LieReport {
    /// # Panics
    ///
    /// If anything went wrong, saying what.
    pub fn assert_clean(&self) {
        crate::assert_none(&self.failures, self.seed);
    }
}

/// Runs the campaign with the VFS that `layer` registers over the simulated VFS it is told.
///
/// # Panics
///
/// If the workload fails without any lie.
pub fn lie_campaign(campaign: &LieCampaign, layer: &dyn Fn(&str) -> Layer) -> LieReport {
    let started = Instant::now();
    let states = Model::states(&campaign.workload).expect("the model");
    let mut report = LieReport {
        seed: campaign.seed,
        ..LieReport::default()
    };
    let honest = Run::new(campaign, layer, u64::MAX, &mut report).run(&states);
    let (disk, _, outcome) = honest;
    outcome.unwrap_or_else(|what| panic!("seed {}, without a lie: {what}", campaign.seed));
    report = LieReport {
        seed: campaign.seed,
        calls: disk.lie_candidates(),
        ..LieReport::default()
    };
    for call in campaign.points.below(report.calls, campaign.seed) {
        let (disk, step, outcome) = Run::new(campaign, layer, call + 1, &mut report).run(&states);
        report.runs += 1;
        if let Err(what) = outcome {
            report.failures.push(LieFailure {
                call: call + 1,
                told: disk.lie_told().unwrap_or_default(),
                step,
                what,
                calls: (disk.op_count().saturating_sub(LAST)..disk.op_count())
                    .map(|op| disk.describe(op + 1))
                    .collect(),
            });
            if report.failures.len() >= campaign.max_failures {
                break;
            }
        }
    }
    report.elapsed = started.elapsed();
    report
}

/// One run of the workload, in which the disk lies once.
struct Run<'a> {
    campaign: &'a LieCampaign,
    layer: MakeLayer<'a>,
    report: &'a mut LieReport,
    disk: SimDisk,
    call: u64,
    /// All that were, and those under way.
    states: Vec<Content>,
    /// The last one that was acknowledged.
    acknowledged: usize,
    /// The last one in which a sync succeeded.
    synced: usize,
    /// Whether it is not known what a step that failed has done.
    is_unsure: bool,
}

impl<'a> Run<'a> {
    fn new(
        campaign: &'a LieCampaign,
        layer: MakeLayer<'a>,
        call: u64,
        report: &'a mut LieReport,
    ) -> Run<'a> {
        let disk = campaign.workload.disk();
        disk.lie(campaign.lie, campaign.files, call, campaign.seed);
        Run {
            campaign,
            layer,
            report,
            disk,
            call,
            states: Vec::new(),
            acknowledged: 0,
            synced: 0,
            is_unsure: false,
        }
    }

    fn run(mut self, states: &[Content]) -> (SimDisk, &'static str, Result<(), String>) {
        let mut step = "open";
        let outcome = self.go(states, &mut step);
        (self.disk, step, outcome)
    }

    fn go(&mut self, states: &[Content], label: &mut &'static str) -> Result<(), String> {
        let work = &self.campaign.workload;
        let bounds = self.campaign.bounds;
        let disk = self.disk.clone();
        let stack = Stack::new(&disk, self.layer);
        self.states = states[..1].to_vec();
        let mut session = match Session::new(&stack, work) {
            Ok(session) => Some(session),
            Err(error) => {
                expect_told(&error)?;
                None
            }
        };
        let (mut is_told, mut syncs) = (false, disk.syncs_of(DATABASE));
        for (index, step) in work.steps.iter().enumerate() {
            let Some(session) = &mut session else { break };
            *label = step.label();
            if bounds.live != Bound::Right && session.db.is_some() {
                let found = session.content();
                let is_last = found.as_ref().ok() == self.states.last();
                self.judge("the connection", bounds.live, found)?;
                if !is_last {
                    // A state that follows an earlier one was never expected.
                    break;
                }
            }
            self.states.push(states[index + 1].clone());
            let result = session.apply(step);
            match &result {
                Ok(()) => self.acknowledged = index + 1,
                Err(error) => {
                    expect_told(error)?;
                    // Its own report may be an error, too.
                    let _ = session.roll_back();
                }
            }
            let now = disk.syncs_of(DATABASE);
            if result.is_ok() && now > syncs {
                self.synced = self.acknowledged;
            }
            syncs = now;
            if session.db.is_some() {
                let found = session.content();
                let is_there = found.as_ref().ok() == self.states.last();
                self.is_unsure = found.is_err();
                self.judge("the connection", bounds.live, found)?;
                if result.is_err() {
                    self.go_on(session, index + usize::from(is_there))?;
                }
            }
            if !is_told && disk.lie_told().is_some() {
                is_told = true;
                self.ask_another("another process right after it")?;
                self.stop("right after it")?;
            }
            if result.is_err() {
                break;
            }
        }
        disk.lie_now();
        self.ask_another("another process at the end")?;
        self.stop("at the end")?;
        drop(session);
        self.start(disk.live_images(), "after it was closed", bounds.killed)
    }

    /// All who run are killed, or the power is lost.
    fn stop(&mut self, when: &str) -> Result<(), String> {
        let disk = self.disk.clone();
        let bounds = self.campaign.bounds;
        let killed = format!("after a kill {when}");
        self.start(disk.live_images(), &killed, bounds.killed)?;
        let mut rng = SplitMix64::derived(self.campaign.seed, self.call);
        for mode in CrashMode::ALL {
            let images = disk.crash_images(disk.op_count(), mode, rng.next_u64());
            let lost = format!("after a power loss {when}, {mode:?}");
            self.start(images, &lost, bounds.power)?;
        }
        Ok(())
    }

    /// After an error, the connection commits once more, on top of so many steps.
    fn go_on(&mut self, session: &Session<'_>, steps: usize) -> Result<(), String> {
        let work = &self.campaign.workload;
        let expected = Model::later(work, steps).map_err(|e| format!("the model: {e}"))?;
        // A transaction that was rolled back never was.
        if !self.is_unsure {
            self.states.truncate(steps + 1);
        }
        self.states.push(expected);
        let syncs = self.disk.syncs_of(DATABASE);
        match session.commit_more() {
            Ok(found) => {
                self.acknowledged = self.states.len() - 1;
                if self.disk.syncs_of(DATABASE) > syncs {
                    self.synced = self.acknowledged;
                }
                self.judge(
                    "a commit after the error",
                    self.campaign.bounds.live,
                    Ok(found),
                )
            }
            Err(error) => expect_told(&error),
        }
    }

    /// A process opens the database beside those who have it open.
    fn ask_another(&mut self, who: &str) -> Result<(), String> {
        let disk = self.disk.clone();
        let stack = Stack::new(&disk, self.layer);
        let found = self.read(&stack);
        self.judge(who, self.campaign.bounds.live, found)
    }

    /// The machine, or the process, starts again.
    fn start(&mut self, images: Images, when: &str, bound: Bound) -> Result<(), String> {
        let disk = SimDisk::from_images(images);
        let stack = Stack::new(&disk, self.layer);
        let found = self.read(&stack);
        self.judge(when, bound, found)
    }

    fn read(&self, stack: &Stack) -> rusqlite::Result<Content> {
        let work = &self.campaign.workload;
        let db = stack.open(work.attach)?;
        let found = content_of(&db, work.schemas())?;
        for schema in work.schemas() {
            expect_sound(&db, schema)?;
        }
        Ok(found)
    }

    /// An error in words if an answer is neither an error of the disk nor within the bound.
    fn judge(
        &mut self,
        who: &str,
        bound: Bound,
        found: rusqlite::Result<Content>,
    ) -> Result<(), String> {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.report.errors += 1;
                return expect_told(&error).map_err(|what| format!("{who}: {what}"));
            }
        };
        let mut is_right = true;
        for (db, content) in found.iter().enumerate() {
            let value = |state: usize| self.states[state][db];
            let last = self.acknowledged;
            let first = match bound {
                Bound::Right => last,
                Bound::AllButLast => (0..last)
                    .rev()
                    .find(|at| value(*at) != value(last))
                    .unwrap_or(0),
                Bound::Synced => self.synced,
                Bound::Earlier => 0,
            };
            let from = |first: usize| (first..self.states.len()).any(|at| value(at) == *content);
            if !from(0) {
                return Err(format!("{who}: a state that never was, of database {db}"));
            }
            if !from(first) {
                return Err(format!(
                    "{who}: an earlier state, of database {db}; {last} steps were acknowledged"
                ));
            }
            is_right = is_right && from(last);
        }
        match is_right {
            true => self.report.right += 1,
            false => self.report.earlier += 1,
        }
        Ok(())
    }
}

/// An error in words if this is not one of a disk at fault. "No such table" is a wrong answer.
fn expect_told(error: &rusqlite::Error) -> Result<(), String> {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::CannotOpen
            | ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            // A key, where the head of an encrypted file is not there.
            | ErrorCode::ApiMisuse,
        ) => Ok(()),
        code => Err(format!("not the error of a disk: {code:?}, {error}")),
    }
}

/// `integrity_check`, whose complaints of pages that cannot be read are errors as well. Any other one is of a mixture.
fn expect_sound(db: &Connection, schema: &str) -> rusqlite::Result<()> {
    let sql = format!("PRAGMA {schema}.integrity_check(3)");
    let said: String = db.query_row(&sql, [], |row| row.get(0))?;
    if said == "ok" {
        return Ok(());
    }
    // "unable to get the page", "failed to get page".
    let code = match said.contains(" to get ") {
        true => rusqlite::ffi::SQLITE_CORRUPT,
        false => rusqlite::ffi::SQLITE_INTERNAL,
    };
    let error = rusqlite::ffi::Error::new(code);
    Err(rusqlite::Error::SqliteFailure(error, Some(said)))
}
