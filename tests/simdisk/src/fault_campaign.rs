//! The I/O-error campaign: run a workload once for each call and let that call fail.
//!
//! The error must be one that SQLite has for such a failure; the same connection must go on
//! with the state before or after the step in flight, a new one must find that state sound, and
//! a power loss right after the error must too.

use std::fmt;
use std::time::{Duration, Instant};

use crate::campaign::Points;
use crate::content::Content;
use crate::crash::CrashMode;
use crate::disk::SimDisk;
use crate::driver::{Layer, MakeLayer, Model, Session, Stack};
use crate::fault::Fault;
use crate::inspect::{expect_applied, recover, write_more};
use crate::workload::{Journal, Workload};
use litepack_io::random::SplitMix64;
use rusqlite::ErrorCode;

/// The work of a campaign.
#[derive(Clone, Debug)]
pub struct FaultCampaign {
    /// The work, run once per fault.
    pub workload: Workload,
    /// The fault; its place is set by the campaign.
    pub fault: Fault,
    /// At which of the calls that the fault applies to.
    pub points: Points,
    /// How often the power fails at the moment of the error in each of the random modes, with other choices. That must
    /// leave the last commit intact, too.
    pub rounds: u64,
    /// Another connection is open all the time, reads after each step, and makes the commit that comes after the error.
    pub beside: bool,
    /// Stop after so many failures.
    pub max_failures: usize,
    /// The seed of the random choices.
    pub seed: u64,
}

impl FaultCampaign {
    /// Every call in long mode, else `quick` of them.
    pub fn new(workload: Workload, fault: Fault, quick: u64, seed: u64) -> FaultCampaign {
        let long = crate::long_mode();
        FaultCampaign {
            workload,
            fault,
            points: if long {
                Points::All
            } else {
                Points::Spread(quick)
            },
            rounds: if long { 3 } else { 1 },
            beside: false,
            max_failures: 5,
            seed,
        }
    }
}

/// A failed call after which something was wrong.
#[derive(Clone, Debug)]
pub struct FaultFailure {
    /// Which of the calls that the fault applies to, from 1.
    pub call: u64,
    /// The step in flight.
    pub step: &'static str,
    /// The error that the step gave, if it did.
    pub error: String,
    /// The fault found, in words.
    pub what: String,
}

impl fmt::Display for FaultFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, step) = (self.call, self.step);
        write!(
            f,
            "call {call} in \"{step}\" ({}): {}",
            self.error, self.what
        )
    }
}

/// The result of a campaign.
#[derive(Debug)]
pub struct FaultReport {
    /// The seed it ran with.
    pub seed: u64,
    /// How many calls the fault applies to.
    pub calls: u64,
    /// How many of them were made to fail.
    pub runs: u64,
    /// How many of these were reported as errors; SQLite may do without the call.
    pub reported: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The failures found.
    pub failures: Vec<FaultFailure>,
}

impl FaultReport {
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
/// If the workload fails without any fault.
pub fn fault_campaign(campaign: &FaultCampaign, layer: &dyn Fn(&str) -> Layer) -> FaultReport {
    let started = Instant::now();
    let states = Model::states(&campaign.workload).expect("the model");
    let run = Run {
        campaign,
        layer,
        states,
    };
    let calls = run.count_calls();
    let mut report = FaultReport {
        seed: campaign.seed,
        calls,
        runs: 0,
        reported: 0,
        elapsed: Duration::ZERO,
        failures: Vec::new(),
    };
    for call in campaign.points.below(calls, campaign.seed) {
        let mut progress = Progress {
            step: "open",
            error: None,
        };
        let outcome = run.with_fault_at(call + 1, &mut progress);
        report.runs += 1;
        report.reported += u64::from(progress.error.is_some());
        if let Err(what) = outcome {
            report.failures.push(FaultFailure {
                call: call + 1,
                step: progress.step,
                error: progress.error.unwrap_or_default(),
                what,
            });
            if report.failures.len() >= campaign.max_failures {
                break;
            }
        }
    }
    report.elapsed = started.elapsed();
    report
}

/// How far a run came.
struct Progress {
    step: &'static str,
    error: Option<String>,
}

struct Run<'a> {
    campaign: &'a FaultCampaign,
    layer: MakeLayer<'a>,
    states: Vec<Content>,
}

impl Run<'_> {
    fn count_calls(&self) -> u64 {
        let disk = self.campaign.workload.disk();
        disk.inject(self.campaign.fault.clone().at(u64::MAX));
        let stack = Stack::new(&disk, self.layer);
        let work = &self.campaign.workload;
        let mut session = Session::new(&stack, work).expect("opening without faults");
        let beside = self.beside(&stack).expect("opening without faults");
        for step in &work.steps {
            let label = step.label();
            session
                .apply(step)
                .unwrap_or_else(|e| panic!("{label} without faults: {e}"));
            let found = beside
                .as_ref()
                .map_or(Ok(()), |other| other.content().map(drop));
            found.unwrap_or_else(|e| panic!("read beside {label} without faults: {e}"));
        }
        disk.fault_candidates()
    }

    fn with_fault_at(&self, call: u64, progress: &mut Progress) -> Result<(), String> {
        let work = &self.campaign.workload;
        let disk = work.disk();
        disk.inject(self.campaign.fault.clone().at(call));
        let stack = Stack::new(&disk, self.layer);
        let mut session = match Session::new(&stack, work) {
            Ok(session) => session,
            Err(error) => {
                self.note(progress, error)?;
                disk.clear_faults();
                return self.settle(&stack, &self.states[..1]);
            }
        };
        let beside = self.beside(&stack).map_err(|e| format!("beside it: {e}"))?;
        // Opening may go on without the journal mode that was asked for.
        let as_asked = disk.fault_hits() == 0;
        for (index, step) in work.steps.iter().enumerate() {
            progress.step = step.label();
            let Err(error) = session.apply(step) else {
                if let Some(other) = &beside {
                    other
                        .content()
                        .map_err(|e| format!("read beside it: {e}"))?;
                }
                continue;
            };
            self.note(progress, error)?;
            let allowed = &self.states[index..=index + 1];
            disk.clear_faults();
            if as_asked {
                self.lose_power(&disk, allowed, call)?;
            }
            session
                .roll_back()
                .map_err(|e| format!("rolling back: {e}"))?;
            let found = session.content().map_err(|e| format!("reading on: {e}"))?;
            if !self.allows(allowed, &found) {
                return Err("the connection sees neither the old nor the new state".to_owned());
            }
            let later = beside
                .as_ref()
                .unwrap_or(&session)
                .commit_more()
                .map_err(|e| format!("a commit after the error: {e}"))?;
            if as_asked {
                self.lose_power(&disk, std::slice::from_ref(&later), !call)
                    .map_err(|what| format!("a commit later: {what}"))?;
            }
            drop((session, beside));
            return self.settle(&stack, &[later]);
        }
        progress.step = "the end";
        disk.clear_faults();
        drop((session, beside));
        self.settle(&stack, &self.states[self.states.len() - 1..])
    }

    /// The other connection, if there is to be one.
    fn beside<'s>(&'s self, stack: &'s Stack) -> rusqlite::Result<Option<Session<'s>>> {
        let open = || Session::new(stack, &self.campaign.workload);
        self.campaign.beside.then(open).transpose()
    }

    /// Notes the error of a step, which must be of a kind that such a failure may give.
    fn note(&self, progress: &mut Progress, error: rusqlite::Error) -> Result<(), String> {
        progress.error = Some(error.to_string());
        match error.sqlite_error_code() {
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly,
            ) => Ok(()),
            code => Err(format!("not the error of a failing disk: {code:?}")),
        }
    }

    fn lose_power(&self, disk: &SimDisk, allowed: &[Content], call: u64) -> Result<(), String> {
        let mut rng = SplitMix64::derived(self.campaign.seed, call);
        let random = (0..self.campaign.rounds).flat_map(|_| CrashMode::RANDOM);
        for mode in CrashMode::FIXED.into_iter().chain(random) {
            let images = disk.crash_images(disk.op_count(), mode, rng.next_u64());
            let restarted = SimDisk::from_images(images);
            let stack = Stack::new(&restarted, self.layer);
            let found = recover(&stack, &self.campaign.workload)
                .map_err(|e| format!("after the error and a power loss ({mode:?}): {e}"))?;
            expect_applied(&restarted)?;
            if !self.allows(allowed, &found) {
                return Err(format!(
                    "wrong content after the error and a power loss ({mode:?})"
                ));
            }
        }
        Ok(())
    }

    /// Whether it is one of the states; with a WAL, SQLite promises that of each file alone.
    fn allows(&self, allowed: &[Content], found: &Content) -> bool {
        let same = |db: usize| allowed.iter().any(|state| state[db] == found[db]);
        match self.campaign.workload.journal {
            Journal::Wal => (0..found.len()).all(same),
            _ => allowed.contains(found),
        }
    }

    /// A new connection must find one of the allowed states, sound and writable.
    fn settle(&self, stack: &Stack, allowed: &[Content]) -> Result<(), String> {
        let work = &self.campaign.workload;
        let found = recover(stack, work).map_err(|e| format!("opened again: {e}"))?;
        if !self.allows(allowed, &found) {
            return Err("opened again, it holds another state".to_owned());
        }
        let written = write_more(stack, work).map(drop);
        written.map_err(|e| format!("writing after the error: {e}"))
    }
}
