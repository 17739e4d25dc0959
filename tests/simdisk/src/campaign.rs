//! The power-loss campaign: run a workload once, then crash it everywhere and look.
//!
//! After each crash the databases must open, pass `integrity_check`, and hold exactly a state
//! that the promised durability allows; crashing again while recovering must change nothing.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::crash::CrashMode;
use crate::disk::Images;
use crate::driver::{Layer, Stack, run};
use crate::search::Search;
use crate::workload::{Journal, Workload};
use litepack_io::random::SplitMix64;

/// The commits that may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Nothing acknowledged.
    Acknowledged,
    /// The last change of each database: what SQLite's rollback journals promise under
    /// `synchronous=FULL`, as deleting the journal is not synced there (it is under EXTRA).
    AllButLast,
    /// Anything, but only in order: `synchronous=NORMAL` with a WAL.
    OrderOnly,
}

/// At which operations or calls to interfere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Points {
    /// Every one.
    All,
    /// So many, spread over the run with random steps.
    Spread(u64),
    /// This one, to look at a failure again.
    Only(u64),
}

impl Points {
    /// The chosen ones of the numbers below `end`, in order.
    pub(crate) fn below(self, end: u64, seed: u64) -> Vec<u64> {
        match self {
            Points::All => (0..end).collect(),
            Points::Only(at) => vec![at],
            Points::Spread(count) => {
                let mut rng = SplitMix64::derived(seed, 3);
                let step = (end / count.max(1)).max(1);
                let chosen = (0..end)
                    .step_by(step as usize)
                    .map(|at| at + rng.below(step));
                chosen.filter(|at| *at < end).collect()
            }
        }
    }
}

/// The work of a campaign, and its expectations.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The work.
    pub workload: Workload,
    /// The commits that may be lost.
    pub durability: Durability,
    /// Where to crash.
    pub points: Points,
    /// How to crash there.
    pub modes: Vec<CrashMode>,
    /// How often to repeat the random modes at each point, with other choices.
    pub rounds: u64,
    /// Crash again during recovery, and write afterwards, at every so-many-th state (0: never).
    pub deep_every: u64,
    /// Whether names and lengths survive in order ([`SimDisk::set_ordered_metadata`](crate::SimDisk::set_ordered_metadata)).
    pub ordered_metadata: bool,
    /// One bit of a database flips in each state: then it is right, or an error.
    pub rot: bool,
    /// Stop after so many failures.
    pub max_failures: usize,
    /// The seed of the random choices.
    pub seed: u64,
}

impl Campaign {
    /// All modes over `workload`: everywhere in long mode, else at `quick` points.
    pub fn new(workload: Workload, durability: Durability, quick: u64, seed: u64) -> Campaign {
        let long = crate::long_mode();
        Campaign {
            workload,
            durability,
            points: if long {
                Points::All
            } else {
                Points::Spread(quick)
            },
            modes: CrashMode::ALL.to_vec(),
            rounds: if long { 2 } else { 1 },
            deep_every: if long { 4 } else { 8 },
            ordered_metadata: false,
            rot: false,
            max_failures: 5,
            seed,
        }
    }

    /// Whether a state must be right for all databases together. SQLite does not promise this
    /// for WAL, nor when each file may separately lose its last change.
    pub(crate) fn together(&self) -> bool {
        self.workload.journal != Journal::Wal && self.durability == Durability::Acknowledged
    }
}

/// A crash after which something was wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The campaign's seed.
    pub seed: u64,
    /// Which repetition.
    pub round: u64,
    /// Where the crash was, in words.
    pub place: String,
    /// How the disk lost its memory.
    pub mode: CrashMode,
    /// The fault found, in words.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            seed,
            round,
            place,
            mode,
            what,
        } = self;
        write!(
            f,
            "seed {seed} round {round}, {mode:?} after {place}: {what}"
        )
    }
}

/// The result of a campaign.
#[derive(Debug)]
pub struct Report {
    /// Operations of the run.
    pub ops: u64,
    /// Crashes looked at.
    pub crashes: u64,
    /// Different disk states among them.
    pub states: u64,
    /// With rot: how many of the crashes were answered with an error.
    pub refused: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The failures found.
    pub failures: Vec<Failure>,
}

impl Report {
    /// # Panics
    ///
    /// If anything went wrong, saying what.
    pub fn assert_clean(&self) {
        let list: Vec<String> = self.failures.iter().map(ToString::to_string).collect();
        assert!(
            list.is_empty(),
            "{} failures:\n{}",
            list.len(),
            list.join("\n")
        );
    }
}

/// Runs the campaign with the VFS that `layer` registers over the simulated VFS it is told.
///
/// # Panics
///
/// If the workload fails or gives wrong content without any crash.
pub fn crash_campaign(campaign: &Campaign, layer: &dyn Fn(&str) -> Layer) -> Report {
    let started = Instant::now();
    let disk = campaign.workload.disk();
    disk.set_ordered_metadata(campaign.ordered_metadata);
    let log = {
        let stack = Stack::new(&disk, layer);
        run(&disk, &stack, &campaign.workload)
            .unwrap_or_else(|error| panic!("seed {}: {error}", campaign.seed))
    };
    let mut search = Search::new(campaign, layer);
    let ops = disk.op_count();
    let mut report = Report {
        ops,
        crashes: 0,
        states: 0,
        refused: 0,
        elapsed: Duration::ZERO,
        failures: Vec::new(),
    };
    'search: for op in campaign.points.below(ops + 1, campaign.seed) {
        for (mode, round) in dice(campaign) {
            report.crashes += 1;
            let seed = campaign.seed.wrapping_add(round << 32);
            let images = disk.crash_images(op, mode, seed);
            let judged = if campaign.rot {
                search.judge_rotten(images, &log, op, seed)
            } else {
                search.judge(images, &log, op)
            };
            if let Err(what) = judged {
                let images = disk.crash_images(op, mode, seed);
                keep(&format!("seed{seed}-op{op}-{mode:?}"), &images);
                let place = disk.describe(op);
                report.failures.push(Failure {
                    seed: campaign.seed,
                    round,
                    place,
                    mode,
                    what,
                });
                if report.failures.len() >= campaign.max_failures {
                    break 'search;
                }
            }
        }
    }
    report.states = search.states();
    report.refused = search.refused();
    report.elapsed = started.elapsed();
    report
}

/// Each mode, the random ones so often as the campaign wants.
fn dice(campaign: &Campaign) -> impl Iterator<Item = (CrashMode, u64)> + '_ {
    campaign.modes.iter().flat_map(|mode| {
        // Rot falls elsewhere each time.
        let fixed = CrashMode::FIXED.contains(mode) && !campaign.rot;
        (0..if fixed { 1 } else { campaign.rounds }).map(|round| (*mode, round))
    })
}

/// Writes the files of a failure to the directory that `LITEPACK_KEEP` names, if it does.
fn keep(failure: &str, images: &Images) {
    let Some(dir) = std::env::var_os("LITEPACK_KEEP") else {
        return;
    };
    let dir = Path::new(&dir).join(failure);
    let written = std::fs::create_dir_all(&dir).and_then(|()| {
        images.iter().try_for_each(|(name, data)| {
            std::fs::write(
                dir.join(name.trim_start_matches('/').replace('/', "_")),
                data,
            )
        })
    });
    if let Err(error) = written {
        eprintln!("cannot keep {}: {error}", dir.display());
    }
}
