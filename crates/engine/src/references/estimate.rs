//! Whether references pay in a database, and what they save: an estimate from runs of units all over it.
//!
//! Of units in a sample of one in `n`, those that have text of another one find it in the sample one time in `n`, as
//! the other one may be anywhere: so each that is found counts `n` times. One that is found in the same run counts once,
//! as neighbours are sampled together. Of those found, some are measured: numbers, and rows with the same few words, look
//! alike and are no smaller for it.
//!
//! A unit whose difference does not pay stands alone, and is what later ones may be a difference to: versions of a text
//! grow apart. Which these are is measured for all that are found, at the lowest level.

use std::collections::BTreeMap;

use litepack_codec::{BriefDifferenceEncoder, Encoder};
use litepack_io::interrupt::{self, Halt};
use litepack_io::memory::OutOfMemory;
use litepack_io::random::SplitMix64;
use litepack_store::{Reference, Unit};

use super::finder::{Finder, Found};
use super::{BESIDE, is_zero, pays};
use crate::plan::{Effort, Plan, Source};

/// Fewer units are not worth a tree of items.
const UNITS_MIN: u64 = 64;
/// Of so many units all are looked at. Of more, as many that ten are found where one in a hundred has text of others.
const ALL: u64 = 1000;
/// Neighbours that are looked at together.
const RUN: u64 = 16;
/// They have to save one byte in so many.
const WORTHWHILE: u64 = 100;
/// So many are measured of those that have text of neighbours, and of the others; and of a larger sample.
const MEASURED: usize = 32;
const MEASURED_MORE: usize = 256;
/// With each dictionary so many are encoded to know what it saves.
const EXACT: usize = 16;

/// The savings of references in a database.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub(super) units: u64,
    pub(super) unit_size: u32,
    pub(super) effort: Effort,
    saved: u64,
}

/// Units that have text of others, and an even choice of at most so many: each has the same chance.
struct Alike {
    count: u64,
    most: usize,
    chosen: Vec<(Unit, Vec<Unit>)>,
}

impl Alike {
    fn of_at_most(most: usize) -> Alike {
        Alike {
            count: 0,
            most,
            chosen: Vec::new(),
        }
    }

    fn add(&mut self, unit: Unit, bases: Vec<Unit>, random: &mut SplitMix64) {
        self.count += 1;
        let place = (random.next_u64() % self.count) as usize;
        if self.chosen.len() < self.most {
            self.chosen.push((unit, bases));
        } else if let Some(place) = self.chosen.get_mut(place) {
            *place = (unit, bases);
        }
    }
}

impl Estimate {
    /// For a database of `size` bytes that is stored in units of `unit_size` bytes, with dictionaries as planned. `None`
    /// if no references are wanted, or they would save less than is worth their time. In a file that has references
    /// it is for those that could be made besides.
    ///
    /// # Errors
    /// When there is no memory for it, or it was interrupted.
    pub fn of(
        size: u64,
        unit_size: u32,
        effort: Effort,
        plan: &Plan,
        source: &mut impl Source,
    ) -> Result<Option<Estimate>, Halt> {
        // The last unit may not be whole: it stands alone.
        let units = size / u64::from(unit_size);
        if effort.notes_max == 0 || units < UNITS_MIN {
            return Ok(None);
        }
        let step = (units / ALL).isqrt().max(1);
        let estimate = Estimate {
            units,
            unit_size,
            effort,
            saved: 0,
        };
        let estimate = estimate.sampled(step, MEASURED, plan, source)?;
        let is_worthwhile = estimate.saved.saturating_mul(WORTHWHILE) >= plan.stored().max(1);
        Ok(is_worthwhile.then_some(estimate))
    }

    /// The same from a sample of about so many units, and whether those are all: for who wants to know it better.
    ///
    /// # Errors
    /// As [`Estimate::of`].
    pub fn of_more(
        &self,
        sample: u64,
        plan: &Plan,
        source: &mut impl Source,
    ) -> Result<(Estimate, bool), Halt> {
        let step = self.units.div_ceil(sample.max(1)).max(1);
        let estimate = self.sampled(step, MEASURED_MORE, plan, source)?;
        Ok((estimate, step == 1))
    }

    /// From runs of one unit in `step`, of which at most so many are measured of each kind.
    fn sampled(
        self,
        step: u64,
        most: usize,
        plan: &Plan,
        source: &mut impl Source,
    ) -> Result<Estimate, Halt> {
        let Estimate {
            units,
            unit_size,
            effort,
            ..
        } = self;
        let [mut near, mut far] = [Alike::of_at_most(most), Alike::of_at_most(most)];
        sample(&self, step, plan, source, [&mut near, &mut far])?;
        // Each unit of the sample stands for `step` of them, and finds only one in `step` of those far away.
        let near_units = near.count.saturating_mul(step).min(units);
        let far_units = far.count.saturating_mul(step).saturating_mul(step);
        let far_units = far_units.min(units - near_units);
        let mut saved = 0_u128;
        for (alike, of) in [(&near, near_units), (&far, far_units)] {
            let measured = measure(&alike.chosen, unit_size, effort, plan, source)?;
            saved += u128::from(measured) * u128::from(of) / alike.chosen.len().max(1) as u128;
        }
        let saved = u64::try_from(saved).unwrap_or(u64::MAX);
        Ok(Estimate { saved, ..self })
    }

    /// About the bytes that references save.
    pub fn saved(&self) -> u64 {
        self.saved
    }
}

/// Adds units of runs all over the database that have text of others in the sample: of neighbours, and of others.
fn sample(
    of: &Estimate,
    step: u64,
    plan: &Plan,
    source: &mut impl Source,
    [near, far]: [&mut Alike; 2],
) -> Result<(), Halt> {
    let Estimate {
        units,
        unit_size,
        effort,
        ..
    } = *of;
    let mut finder = Finder::sampling(effort.notes_max, units, units / step, unit_size)?;
    let mut random = SplitMix64::new(units);
    let mut page = litepack_io::memory::zeros(unit_size as usize)?;
    let mut roughly = Roughly {
        plan,
        differences: BriefDifferenceEncoder::default(),
        encoder: effort.encoder(),
        known: BTreeMap::new(),
        prefix: Vec::new(),
        stored: Vec::new(),
    };
    for stretch in (0..units).step_by((RUN * step) as usize) {
        let start = Unit(stretch + random.next_u64() % (RUN * step - RUN + 1));
        let stop = Unit(start.0.saturating_add(RUN).min(units));
        for unit in start.up_to(stop) {
            interrupt::check()?;
            let reference = source.reference(unit);
            let is_difference = matches!(reference, Some(Reference::Difference { .. }));
            let there = unit != Unit::FIRST && !is_difference;
            if !there || !source.read(unit.start(unit_size), &mut page) || is_zero(&page) {
                continue;
            }
            let (bases, is_same) = match finder.look(&page) {
                Found::Nothing => (None, false),
                Found::Same(base) => (Some(vec![base]), true),
                Found::Alike(bases) => (Some(bases), false),
            };
            let (Some(bases), false) = (bases, matches!(reference, Some(Reference::Alias { .. })))
            else {
                finder.keep(unit);
                continue;
            };
            if !is_same && !roughly.pays(unit, &page, &bases, source)? {
                // It will stand alone, and later ones may have more of its text.
                finder.keep(unit);
            }
            if bases.iter().any(|base| *base >= start) {
                near.add(unit, bases, &mut random);
            } else {
                far.add(unit, bases, &mut random);
            }
        }
    }
    Ok(())
}

/// Says roughly whether a unit is worth being a difference, in a few microseconds: by lengths at the lowest level.
struct Roughly<'a> {
    plan: &'a Plan,
    differences: BriefDifferenceEncoder,
    encoder: Encoder,
    /// By the planned dictionary: how many units were encoded with it, their bytes, and those at the lowest level
    /// without it.
    known: BTreeMap<Option<usize>, (usize, u64, u64)>,
    prefix: Vec<u8>,
    stored: Vec<u8>,
}

impl Roughly<'_> {
    fn pays(
        &mut self,
        unit: Unit,
        page: &[u8],
        bases: &[Unit],
        source: &mut impl Source,
    ) -> Result<bool, OutOfMemory> {
        let len = page.len();
        litepack_io::memory::resize(&mut self.prefix, bases.len() * len)?;
        for (base, part) in bases.iter().zip(self.prefix.chunks_mut(len.max(1))) {
            if !source.read(base.0.saturating_mul(len as u64), part) {
                return Ok(false);
            }
        }
        let brief = self.encoded(page, true)?;
        let planned = self.plan.dictionary_of(unit);
        let known = self.known.get(&planned).copied();
        let (count, exact, briefly) = known.unwrap_or_default();
        let alone = if count < EXACT {
            let dictionary = self.plan.dictionary(planned);
            self.stored.clear();
            (self.encoder).encode(page, dictionary, &mut self.stored)?;
            let alone = self.stored.len() as u64;
            let now = (count + 1, exact + alone, briefly + brief);
            self.known.insert(planned, now);
            alone
        } else {
            brief * exact / briefly.max(1)
        };
        Ok(pays(self.encoded(page, false)?, alone))
    }

    /// The bytes of a page at the lowest level, alone or as a difference.
    fn encoded(&mut self, page: &[u8], alone: bool) -> Result<u64, OutOfMemory> {
        let prefix = if alone { &[] } else { self.prefix.as_slice() };
        self.stored.clear();
        let fits = (self.differences).encode(page, prefix, page.len(), &mut self.stored)?;
        Ok(if fits { self.stored.len() } else { page.len() } as u64)
    }
}

/// The bytes that these units take less as differences to their bases, or as the same, than alone.
fn measure(
    chosen: &[(Unit, Vec<Unit>)],
    unit_size: u32,
    effort: Effort,
    plan: &Plan,
    source: &mut impl Source,
) -> Result<u64, Halt> {
    let (mut encoder, mut differences) = (
        effort.encoder(),
        BriefDifferenceEncoder::at_level(effort.level),
    );
    let mut page = litepack_io::memory::zeros(unit_size as usize)?;
    let (mut prefix, mut stored) = (Vec::new(), Vec::new());
    let mut saved = 0;
    for (unit, bases) in chosen {
        interrupt::check()?;
        litepack_io::memory::resize(&mut prefix, bases.len() * unit_size as usize)?;
        let mut parts = bases.iter().zip(prefix.chunks_mut(unit_size as usize));
        let there = source.read(unit.start(unit_size), &mut page)
            && parts.all(|(base, part)| source.read(base.start(unit_size), part));
        if !there {
            continue;
        }
        stored.clear();
        let dictionary = plan.dictionary(plan.dictionary_of(*unit));
        encoder.encode(&page, dictionary, &mut stored)?;
        let len = stored.len();
        stored.clear();
        let is_encoded = page == prefix || differences.encode(&page, &prefix, len, &mut stored)?;
        let (difference, len) = (stored.len() as u64, len as u64);
        if is_encoded && pays(difference, len) {
            saved += len - difference - BESIDE;
        }
    }
    Ok(saved)
}
