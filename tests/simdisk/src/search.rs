//! Judges the state of a disk after a crash: does it open, is it sound, is it a state that the
//! promised durability allows, and does a second crash during recovery change anything?

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::campaign::{Campaign, Durability};
use crate::content::{Content, content_of};
use crate::crash::CrashMode;
use crate::disk::{Images, SimDisk};
use crate::driver::{Log, MakeLayer, Stack};
use crate::inspect::{expect_applied, recover, write_more};
use litepack_io::random::SplitMix64;

/// The states seen so far and what to make of them.
pub(crate) struct Search<'a> {
    campaign: &'a Campaign,
    layer: MakeLayer<'a>,
    /// The content found in each state of the disk.
    seen: HashMap<u64, Result<Content, String>>,
    /// Rotten states that were answered with an error.
    refused: u64,
}

impl<'a> Search<'a> {
    pub fn new(campaign: &'a Campaign, layer: MakeLayer<'a>) -> Search<'a> {
        Search {
            campaign,
            layer,
            seen: HashMap::new(),
            refused: 0,
        }
    }

    /// How many different states there were.
    pub fn states(&self) -> u64 {
        self.seen.len() as u64
    }

    /// How many rotten states were answered with an error.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// An error in words if `images`, in which a bit flips, answers with what is no state to be in after a crash at
    /// `op`. Nothing but the content is looked at: a program runs no `integrity_check`.
    pub fn judge_rotten(
        &mut self,
        mut images: Images,
        log: &Log,
        op: u64,
        seed: u64,
    ) -> Result<(), String> {
        let mut rng = SplitMix64::derived(seed, op);
        let Some(flipped) = flip(&mut images, &mut rng) else {
            return Ok(());
        };
        let disk = SimDisk::from_images(images);
        let stack = Stack::new(&disk, self.layer);
        let work = &self.campaign.workload;
        let found = stack
            .open(work.attach)
            .and_then(|db| content_of(&db, work.schemas()));
        match found {
            Err(_) => self.refused += 1,
            Ok(found) => self
                .expect(log, op, &found)
                .map_err(|e| format!("{flipped}: {e}"))?,
        }
        Ok(())
    }

    /// An error in words if `images` is no state to be in after a crash at `op`.
    pub fn judge(&mut self, images: Images, log: &Log, op: u64) -> Result<(), String> {
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
        self.expect(log, op, &found?)
    }

    /// An error in words if this is no content to have after a crash at `op`.
    fn expect(&self, log: &Log, op: u64, found: &Content) -> Result<(), String> {
        if self.allowed(log, op, found) {
            return Ok(());
        }
        let nearest = log.states.iter().rposition(|state| state == found);
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
        let found = recover(&stack, &self.campaign.workload)?;
        expect_applied(&disk)?;
        let Some(seed) = deep else {
            return Ok(found);
        };
        // Crash again somewhere in the recovery: it must come to the same end.
        let mut rng = SplitMix64::derived(self.campaign.seed, seed);
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
        let second =
            recover(&stack, &self.campaign.workload).map_err(|e| format!("{}: {e}", where_()))?;
        expect_applied(&again)?;
        if second != found {
            return Err(format!("{}: other content than at first", where_()));
        }
        let later = write_more(&stack, &self.campaign.workload)
            .map_err(|e| format!("writing after the crash: {e}"))?;
        if self.campaign.durability == Durability::Acknowledged {
            self.crash_later(&again, &later, seed)
                .map_err(|e| format!("crashed after it was written to again: {e}"))?;
        }
        Ok(found)
    }

    /// Nothing of the crashes before may come back with another one.
    fn crash_later(&self, disk: &SimDisk, expected: &Content, seed: u64) -> Result<(), String> {
        let killed = [CrashMode::KeepAll].as_slice();
        let modes = if self.campaign.modes == killed {
            killed
        } else {
            &[CrashMode::LoseAll, CrashMode::Subset]
        };
        for mode in modes {
            let images = disk.crash_images(disk.op_count(), *mode, seed);
            let disk = SimDisk::from_images(images);
            let stack = Stack::new(&disk, self.layer);
            let found = recover(&stack, &self.campaign.workload)?;
            expect_applied(&disk)?;
            if found != *expected {
                return Err(format!("{mode:?}: what was written then is not there"));
            }
        }
        Ok(())
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

/// Flips a bit of a database, half of the time near its head. `None` if there is none yet.
fn flip(images: &mut Images, rng: &mut SplitMix64) -> Option<String> {
    const HEAD: u64 = 2048;
    let databases = images
        .iter_mut()
        .filter(|(name, data)| name.ends_with(".db") && !data.is_empty());
    let mut databases: Vec<_> = databases.collect();
    let chosen = rng.below(databases.len().max(1) as u64) as usize;
    let (name, data) = databases.get_mut(chosen)?;
    let len = data.len() as u64;
    let reach = if rng.chance(50) { len.min(HEAD) } else { len };
    let (at, bit) = (rng.below(reach), rng.below(8));
    data[at as usize] ^= 1 << bit;
    Some(format!("bit {bit} of byte {at} of {name} flipped"))
}
