//! The power-loss campaign: run a workload once, then crash it everywhere and look.
//!
//! After each crash the databases must open, pass `integrity_check`, and hold exactly a state
//! that the promised durability allows; crashing again while recovering must change nothing.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::content::{Content, content_of};
use crate::crash::CrashMode;
use crate::disk::{Images, SimDisk};
use crate::driver::{Layer, Log, MakeLayer, Stack, close, run};
use crate::rng::Rng;
use crate::workload::{Journal, Workload};

/// What may be lost.
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

/// At which operations to crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Points {
    /// After every one.
    All,
    /// After so many, spread over the run with random steps.
    Spread(u64),
}

/// What to do and what to expect.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The work.
    pub workload: Workload,
    /// What may be lost.
    pub durability: Durability,
    /// Where to crash.
    pub points: Points,
    /// How to crash there.
    pub modes: Vec<CrashMode>,
    /// How often to repeat the random modes at each point, with other choices.
    pub rounds: u64,
    /// Crash again during recovery, and write afterwards, at every so-many-th state (0: never).
    pub deep_every: u64,
    /// Whether names and lengths survive in order ([`SimDisk::set_ordered_metadata`]).
    pub ordered_metadata: bool,
    /// Stop after so many failures.
    pub max_failures: usize,
    /// What the random choices follow from.
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
            max_failures: 5,
            seed,
        }
    }

    /// Whether a state must be right for all databases together. SQLite does not promise this
    /// for WAL, nor when each file may separately lose its last change.
    fn together(&self) -> bool {
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
    /// What was wrong.
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

/// What a campaign saw.
#[derive(Debug)]
pub struct Report {
    /// Operations of the run.
    pub ops: u64,
    /// Crashes looked at.
    pub crashes: u64,
    /// Different disk states among them.
    pub states: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What went wrong.
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
    let disk = SimDisk::new();
    disk.set_ordered_metadata(campaign.ordered_metadata);
    let log = {
        let stack = Stack::new(&disk, layer);
        run(&disk, &stack, &campaign.workload)
            .unwrap_or_else(|error| panic!("seed {}: {error}", campaign.seed))
    };
    let mut search = Search {
        campaign,
        layer,
        seen: HashMap::new(),
    };
    let ops = disk.op_count();
    let mut report = Report {
        ops,
        crashes: 0,
        states: 0,
        elapsed: Duration::ZERO,
        failures: Vec::new(),
    };
    'search: for op in points(campaign, ops) {
        for (mode, round) in dice(campaign) {
            report.crashes += 1;
            let seed = campaign.seed.wrapping_add(round << 32);
            let images = disk.crash_images(op, mode, seed);
            if let Err(what) = search.judge(images, &log, op) {
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
    report.states = search.seen.len() as u64;
    report.elapsed = started.elapsed();
    report
}

fn points(campaign: &Campaign, ops: u64) -> Vec<u64> {
    match campaign.points {
        Points::All => (0..=ops).collect(),
        Points::Spread(count) => {
            let mut rng = Rng::derived(campaign.seed, 3);
            let step = (ops / count.max(1)).max(1);
            (0..=ops)
                .step_by(step as usize)
                .map(|at| at + rng.below(step))
                .collect()
        }
    }
}

/// Each mode, the random ones so often as the campaign wants.
fn dice(campaign: &Campaign) -> impl Iterator<Item = (CrashMode, u64)> + '_ {
    campaign.modes.iter().flat_map(|mode| {
        let fixed = matches!(mode, CrashMode::LoseAll | CrashMode::KeepAll);
        (0..if fixed { 1 } else { campaign.rounds }).map(|round| (*mode, round))
    })
}

struct Search<'a> {
    campaign: &'a Campaign,
    layer: MakeLayer<'a>,
    /// What each state of the disk turned out to hold.
    seen: HashMap<u64, Result<Content, String>>,
}

impl Search<'_> {
    fn judge(&mut self, images: Images, log: &Log, op: u64) -> Result<(), String> {
        let mut hasher = DefaultHasher::new();
        images.hash(&mut hasher);
        let key = hasher.finish();
        let found = match self.seen.get(&key) {
            Some(found) => found.clone(),
            None => {
                let every = self.campaign.deep_every;
                let deep = every > 0 && (self.seen.len() as u64).is_multiple_of(every);
                let found = self.look(images, deep.then_some(key));
                self.seen.insert(key, found.clone());
                found
            }
        };
        let found = found?;
        if self.allowed(log, op, &found) {
            return Ok(());
        }
        let nearest = log.states.iter().rposition(|state| *state == found);
        let acked = log.events.iter().rposition(|event| event.end <= op);
        let name = |index: Option<usize>| index.map_or("nothing", |at| log.events[at].label);
        Err(match nearest {
            Some(at) => format!(
                "the state after step {at} ({}), but step {acked:?} ({}) was acknowledged",
                name(at.checked_sub(1)),
                name(acked)
            ),
            None => "a state that never was".to_owned(),
        })
    }

    /// Starts from `images`, checks them and says what they hold.
    fn look(&self, images: Images, deep: Option<u64>) -> Result<Content, String> {
        let disk = SimDisk::from_images(images);
        disk.set_ordered_metadata(self.campaign.ordered_metadata);
        let stack = Stack::new(&disk, self.layer);
        let found = self.recover(&stack)?;
        let Some(seed) = deep else {
            return Ok(found);
        };
        // Crash again somewhere in the recovery: it must come to the same end.
        let mut rng = Rng::derived(self.campaign.seed, seed);
        let op = rng.below(disk.op_count() + 1);
        let mode = CrashMode::ALL[rng.below(5) as usize];
        let again = SimDisk::from_images(disk.crash_images(op, mode, seed));
        let stack = Stack::new(&again, self.layer);
        let where_ = || {
            format!(
                "second crash, {mode:?} after {} of the recovery",
                disk.describe(op)
            )
        };
        let second = self
            .recover(&stack)
            .map_err(|e| format!("{}: {e}", where_()))?;
        if second != found {
            return Err(format!("{}: other content than at first", where_()));
        }
        self.write(&stack)
            .map_err(|e| format!("writing after the crash: {e}"))?;
        Ok(found)
    }

    fn recover(&self, stack: &Stack) -> Result<Content, String> {
        let work = &self.campaign.workload;
        let db = stack
            .open(work.attach)
            .map_err(|e| format!("does not open: {e}"))?;
        check(&db, work)?;
        let found = content_of(&db, work.schemas()).map_err(|e| format!("cannot be read: {e}"))?;
        close(db).map_err(|e| format!("close: {e}"))?;
        Ok(found)
    }

    /// The databases must be good for more work.
    fn write(&self, stack: &Stack) -> Result<(), String> {
        let work = &self.campaign.workload;
        let db = stack.open(work.attach).map_err(|e| e.to_string())?;
        for schema in work.schemas() {
            db.execute_batch(&format!(
                "CREATE TABLE {schema}.later(x); \
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) \
                 INSERT INTO {schema}.later SELECT hex(i) || 'some text' FROM n;"
            ))
            .map_err(|e| e.to_string())?;
        }
        check(&db, work)?;
        close(db).map_err(|e| e.to_string())
    }

    fn allowed(&self, log: &Log, op: u64, found: &Content) -> bool {
        let acked = log
            .events
            .iter()
            .rposition(|event| event.end <= op)
            .map_or(0, |at| at + 1);
        let begun = log
            .events
            .iter()
            .filter(|event| event.start < op)
            .count()
            .max(acked);
        if self.campaign.together() {
            return log.states[acked..=begun].contains(found);
        }
        (0..found.len()).all(|db| {
            let value = |state: usize| log.states[state][db];
            let mut earliest = acked;
            match self.campaign.durability {
                Durability::Acknowledged => {}
                Durability::OrderOnly => earliest = 0,
                Durability::AllButLast => {
                    while earliest > 0 && value(earliest) == value(acked) {
                        earliest -= 1;
                    }
                }
            }
            (earliest..=begun).any(|state| value(state) == found[db])
        })
    }
}

/// `integrity_check` of every database.
pub(crate) fn check(db: &rusqlite::Connection, work: &Workload) -> Result<(), String> {
    for schema in work.schemas() {
        let sql = format!("PRAGMA {schema}.integrity_check(3)");
        let said: Result<String, _> = db.query_row(&sql, [], |row| row.get(0));
        match said.as_deref() {
            Ok("ok") => {}
            Ok(said) => return Err(format!("integrity_check of {schema}: {said}")),
            Err(error) => return Err(format!("integrity_check of {schema}: {error}")),
        }
    }
    Ok(())
}
