//! The states of the disk after a crash: which of the pending operations survived.

use std::collections::{BTreeMap, HashMap};

use crate::disk::Images;
use crate::history::{Inode, Op, write_at};
use crate::replay::{Durable, Replay};
use litepack_io::random::SplitMix64;

/// The unit in which a write can be torn.
const SECTOR: u64 = 512;

/// The fate of the operations not yet synced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CrashMode {
    /// None survives.
    LoseAll,
    /// All survive: the process was killed, the machine was not.
    KeepAll,
    /// Those before a random moment survive, over all files.
    Prefix,
    /// Any of them may survive, each write whole (names: a prefix of each name's changes).
    Subset,
    /// Any sector of any write may survive, and any change of length.
    Torn,
}

impl CrashMode {
    /// Those that leave the same each time.
    pub const FIXED: [CrashMode; 2] = [CrashMode::LoseAll, CrashMode::KeepAll];

    /// Those that follow from a seed.
    pub const RANDOM: [CrashMode; 3] = [CrashMode::Prefix, CrashMode::Subset, CrashMode::Torn];

    /// All modes.
    pub const ALL: [CrashMode; 5] = [
        CrashMode::LoseAll,
        CrashMode::KeepAll,
        CrashMode::Prefix,
        CrashMode::Subset,
        CrashMode::Torn,
    ];
}

/// How the dice fall in one crash.
struct Dice<'a> {
    mode: CrashMode,
    /// In `Prefix`, the last operation to survive.
    last: u64,
    /// In `Subset` and `Torn`, how likely survival is; extremes are worth trying too.
    percent: u64,
    /// The last name change or truncation to survive, if these survive in order only.
    last_metadata: Option<u64>,
    rng: &'a mut SplitMix64,
}

impl Dice<'_> {
    /// Whether a name change or a truncation survives.
    fn metadata_survives(&mut self, op: u64) -> bool {
        match (self.mode, self.last_metadata) {
            (CrashMode::Subset | CrashMode::Torn, Some(last)) => op <= last,
            _ => self.survives(op),
        }
    }

    fn survives(&mut self, op: u64) -> bool {
        match self.mode {
            CrashMode::LoseAll => false,
            CrashMode::KeepAll => true,
            CrashMode::Prefix => op <= self.last,
            CrashMode::Subset | CrashMode::Torn => self.rng.chance(self.percent),
        }
    }
}

/// The files after a crash in the state of `replay`. With `ordered` metadata, changes of names
/// and truncations survive only in the order they were made, as with a journaling file system.
pub(crate) fn images(
    replay: &Replay,
    history: &[Op],
    mode: CrashMode,
    ordered: bool,
    rng: &mut SplitMix64,
) -> Images {
    let last = match mode {
        CrashMode::Prefix => last_survivor(replay, rng, |_| true),
        _ => 0,
    };
    let percent = [4, 50, 50, 96][rng.below(4) as usize];
    let metadata = |op: u64| !matches!(history[op as usize - 1], Op::Write { .. });
    let last_metadata = ordered.then(|| last_survivor(replay, rng, metadata));
    let mut dice = Dice {
        mode,
        last,
        percent,
        last_metadata,
        rng,
    };
    let names = surviving_names(replay, &mut dice);
    let empty = Durable::default();
    let content = |(name, inode): (&String, Inode)| {
        let file = replay.files.get(&inode).unwrap_or(&empty);
        (name.clone(), surviving_content(file, history, &mut dice))
    };
    names.into_iter().map(content).collect()
}

/// The part of a file that has reached the medium when a sync of it fails as operation `at`.
pub(crate) fn what_was_written(replay: &Replay, history: &[Op], inode: Inode, at: u64) -> Vec<u8> {
    let mut rng = SplitMix64::derived(at, 12);
    let modes = [CrashMode::LoseAll, CrashMode::Subset, CrashMode::Torn];
    let mut dice = Dice {
        mode: modes[rng.below(3) as usize],
        last: 0,
        percent: 50,
        last_metadata: None,
        rng: &mut rng,
    };
    let empty = Durable::default();
    let file = replay.files.get(&inode).unwrap_or(&empty);
    surviving_content(file, history, &mut dice)
}

/// One of the pending operations that count, or 0.
fn last_survivor(replay: &Replay, rng: &mut SplitMix64, counts: impl Fn(u64) -> bool) -> u64 {
    let writes = replay
        .files
        .values()
        .flat_map(|file| file.pending.iter().copied());
    let mut pending: Vec<u64> = writes
        .chain(replay.pending_names.iter().map(|change| change.op))
        .collect();
    pending.retain(|op| counts(*op));
    pending.sort_unstable();
    match rng.below(pending.len() as u64 + 1) {
        0 => 0,
        n => pending[n as usize - 1],
    }
}

/// The names that exist after the crash: of each name's pending changes a prefix survives.
fn surviving_names<'a>(replay: &'a Replay, dice: &mut Dice) -> BTreeMap<&'a String, Inode> {
    let mut names: BTreeMap<_, _> = replay.names.iter().map(|(name, i)| (name, *i)).collect();
    let mut cut_off: HashMap<&String, bool> = HashMap::new();
    for change in &replay.pending_names {
        let cut = cut_off.entry(&change.name).or_default();
        *cut = *cut || !dice.metadata_survives(change.op);
        if !*cut {
            match change.to {
                Some(inode) => names.insert(&change.name, inode),
                None => names.remove(&change.name),
            };
        }
    }
    names
}

fn surviving_content(file: &Durable, history: &[Op], dice: &mut Dice) -> Vec<u8> {
    let mut data = file.data.clone();
    for op in &file.pending {
        let what = &history[*op as usize - 1];
        match what {
            Op::Write {
                offset, data: new, ..
            } if dice.mode == CrashMode::Torn => {
                tear(&mut data, *offset, new, dice);
            }
            Op::Truncate { .. } if !dice.metadata_survives(*op) => {}
            Op::Write { .. } if !dice.survives(*op) => {}
            _ => what.apply(&mut data),
        }
    }
    data
}

/// Lets each sector of a write survive or not; the new length may survive without them.
fn tear(data: &mut Vec<u8>, offset: u64, new: &[u8], dice: &mut Dice) {
    let whole = if dice.rng.chance(66) {
        Some(dice.survives(0))
    } else {
        None
    };
    let mut done = 0;
    while done < new.len() as u64 {
        let at = offset + done;
        let next = (new.len() as u64).min(done + SECTOR - at % SECTOR);
        if whole.unwrap_or_else(|| dice.survives(0)) {
            write_at(data, at, &new[done as usize..next as usize]);
        }
        done = next;
    }
    let end = offset as usize + new.len();
    if data.len() < end && dice.survives(0) {
        data.resize(end, 0);
    }
}
