//! Which pages of a group dictionaries are trained and measured on: from all over it, the same ones each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use litepack_codec::{Samples, row_signature};
use litepack_io::interrupt::{self, Halt, Interrupted};
use litepack_io::random::SplitMix64;
use litepack_store::{Reference, Unit};

use super::effort::Effort;
use super::trial::Trial;
use super::{GROUP_MIN, Plan, REST, Source};

/// One sampled unit in this many is kept back to measure what a dictionary saves.
const HELD_OUT: usize = 8;
/// Fewest bytes of sample: for short dictionaries, and for a measurement worth the name.
const SAMPLE_MIN: usize = 512 << 10;
/// A row signature that fewer than one page in this many has is not noted.
const SIGNATURE_SHARE: usize = 50;
/// Units that are known to be known together.
const STRETCH: u64 = 64;

/// Some units of a group.
#[derive(Default)]
pub(super) struct Sampled {
    pub(super) units: Vec<Unit>,
    /// How many there are in the group.
    of: u64,
}

impl Sampled {
    /// How many lengths of dictionaries are tried on them.
    pub(super) fn lens(&self, unit: u32, effort: Effort) -> usize {
        match self.of * u64::from(unit) {
            bytes if bytes < GROUP_MIN => 0,
            bytes => effort.lengths(bytes).count(),
        }
    }
}

impl Plan {
    /// Units from all over each group, about as many as its longest dictionary needs.
    ///
    /// # Errors
    /// When it is interrupted.
    pub(super) fn sample(&self, units: u64, effort: Effort) -> Result<Vec<Sampled>, Interrupted> {
        let mut sampled = Vec::new();
        sampled.resize_with(self.dictionaries.len(), Sampled::default);
        sampled[REST].of = units;
        for at in self.known(units) {
            look_at_times(at)?;
            sampled[REST].of -= 1;
            sampled[self.group_of(at)].of += 1;
        }
        let unit = u64::from(self.unit);
        let longest = |of: u64| effort.lengths(of * unit).next().unwrap_or(0);
        let lengths = sampled.iter().map(|Sampled { of, .. }| longest(*of));
        let samples = effort.samples_for(lengths.sum());
        let wanted = |of: u64| (longest(of) * samples).max(SAMPLE_MIN) as u64 / unit + 1;
        // Of all numbers that a unit's number can be scattered to, the share that is taken.
        let shares: Vec<u64> = sampled
            .iter()
            .map(|Sampled { of, .. }| (u64::MAX / of.max(&1)).saturating_mul(wanted(*of)))
            .collect();
        let mut known = BTreeSet::new();
        for at in self.known(units) {
            look_at_times(at)?;
            let group = self.group_of(at);
            if scattered(at.0) <= shares[group] {
                sampled[group].units.push(at);
            }
            known.insert(at.0 / STRETCH);
        }
        // Of all others as many as they are worth, from all over.
        let step = (units / wanted(sampled[REST].of)).max(1);
        for from in (0..units).step_by(step as usize) {
            look_at_times(Unit(from / step))?;
            let at = from + scattered(from) % step;
            if at < units && !known.contains(&(at / STRETCH)) {
                sampled[REST].units.push(Unit(at));
            }
        }
        Ok(sampled)
    }

    /// Reads what was sampled of a group.
    pub(super) fn trial(
        &self,
        group: usize,
        sampled: &Sampled,
        effort: Effort,
        source: &mut impl Source,
    ) -> Result<Trial, Halt> {
        let unit = u64::from(self.unit);
        let mut trial = Trial {
            bytes: sampled.of * unit,
            ..Trial::default()
        };
        let (mut encoder, mut page) =
            (effort.encoder(), litepack_io::memory::zeros(unit as usize)?);
        let (mut signatures, mut numbers) = (Vec::new(), BTreeMap::new());
        let mut samples = Samples::default();
        let mut now = Some(0);
        let first_page = self.page_size.min(self.unit) as usize;
        for at in &sampled.units {
            litepack_io::memory::check()?;
            interrupt::check()?;
            let stored = match source.reference(*at) {
                Some(Reference::Own { len }) => Some(len),
                // Maintenance stores it alone.
                Some(Reference::Private { len, former }) => Some(len.saturating_add(former)),
                Some(Reference::Zero) | None => None,
                // Maintenance leaves it as it is.
                Some(_) => continue,
            };
            if !source.read(at.start(self.unit), &mut page) || page.iter().all(|byte| *byte == 0) {
                continue;
            }
            *numbers.entry(source.dictionary_of(*at)).or_insert(0) += 1;
            signatures.extend(row_signature(&page[..first_page]).filter(|_| group != REST));
            let tried = samples.len() + trial.held_out.len();
            if trial.is_small() || tried % HELD_OUT == HELD_OUT - 1 {
                now = now.zip(stored).map(|(now, stored)| now + u64::from(stored));
                litepack_io::memory::push(&mut trial.held_out, litepack_io::memory::copy(&page)?)?;
            } else {
                samples.push(encoder.sample(&page))?;
            }
        }
        trial.samples = Arc::new(samples);
        trial.now = now.map(|now| trial.of_all(now));
        let most = numbers.into_iter().max_by_key(|(_, pages)| *pages);
        trial.former = most.map_or(0, |(number, _)| number);
        signatures.sort_unstable();
        let many = signatures.len() / SIGNATURE_SHARE;
        let same = signatures.chunk_by(|a, b| a == b);
        let frequent = same.filter(|same| same.len() > many);
        trial.signatures = frequent.map(|same| same[0]).collect();
        Ok(trial)
    }
}

/// Looks for an interrupt, but not at each of millions of units.
fn look_at_times(at: Unit) -> Result<(), Interrupted> {
    match at.0 % 1024 {
        0 => interrupt::check(),
        _ => Ok(()),
    }
}

/// Numbers in a row, scattered over all there are.
fn scattered(number: u64) -> u64 {
    SplitMix64::new(number.wrapping_mul(SplitMix64::STEP)).next_u64()
}
