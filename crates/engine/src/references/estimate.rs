//! Whether references pay in a database: an estimate from runs of units all over it.
//!
//! Of units in a sample of one in `n`, those that have text of another one find it in the sample one time in `n`, as
//! the other one may be anywhere. So a sample of one in `n` tells of `n` times the share that it finds. Of those it
//! finds, some are measured: numbers, and rows with the same few words, look alike and are no smaller for it.

use litepack_codec::{Dictionary, DifferenceEncoder};
use litepack_io::interrupt::{self, Halt};
use litepack_io::random::SplitMix64;
use litepack_store::Unit;

use super::finder::{Finder, Found};
use super::{BESIDE, is_zero, pays};
use crate::plan::{Effort, Source};

/// Fewer units are not worth a tree of items.
const UNITS_MIN: u64 = 64;
/// Of so many units all are looked at. Of more, as many that ten are found where one in a hundred has text of others.
const ALL: u64 = 1000;
/// Neighbours that are looked at together.
const RUN: u64 = 16;
/// They have to save one byte in so many.
const WORTHWHILE: u64 = 100;
/// So many are measured.
const MEASURED: usize = 48;

/// Whether references save at least one byte in a hundred, as far as a sample tells. `dictionary` is what a unit is
/// compressed with otherwise.
///
/// # Errors
/// When there is no memory for it, or it was interrupted.
pub(super) fn worthwhile<'d>(
    units: u64,
    unit_size: u32,
    effort: Effort,
    dictionary: &dyn Fn(Unit) -> Option<&'d Dictionary>,
    source: &mut impl Source,
) -> Result<bool, Halt> {
    if units < UNITS_MIN {
        return Ok(false);
    }
    let step = (units / ALL).isqrt().max(1);
    let mut finder = Finder::sampling(units, units / step, unit_size)?;
    let mut random = SplitMix64::new(units);
    let mut page = litepack_io::memory::zeros(unit_size as usize)?;
    let (mut looked_at, mut count) = (0_u64, 0);
    // An even choice of those found so far: each of them has the same chance.
    let mut chosen: Vec<(Unit, Vec<Unit>)> = Vec::new();
    for stretch in (0..units).step_by((RUN * step) as usize) {
        let start = stretch + random.next_u64() % (RUN * step - RUN + 1);
        for unit in Unit(start).up_to(Unit(start.saturating_add(RUN).min(units))) {
            interrupt::check()?;
            let there = unit != Unit::FIRST && source.read(unit.start(unit_size), &mut page);
            if !there || is_zero(&page) {
                continue;
            }
            looked_at += 1;
            let bases = match finder.look(&page) {
                Found::Nothing => {
                    finder.keep(unit);
                    continue;
                }
                Found::Same(_) => Vec::new(),
                Found::Alike(bases) => bases,
            };
            count += 1;
            let place = (random.next_u64() % count) as usize;
            if chosen.len() < MEASURED {
                chosen.push((unit, bases));
            } else if let Some(place) = chosen.get_mut(place) {
                *place = (unit, bases);
            }
        }
    }
    let (mut saved, mut alone) = (0, 0);
    let mut encoder = effort.encoder();
    let (mut prefix, mut stored) = (Vec::new(), Vec::new());
    for (unit, bases) in &chosen {
        interrupt::check()?;
        litepack_io::memory::resize(&mut prefix, bases.len() * unit_size as usize)?;
        let mut parts = bases.iter().zip(prefix.chunks_mut(unit_size as usize));
        let there = source.read(unit.start(unit_size), &mut page)
            && parts.all(|(base, part)| source.read(base.start(unit_size), part));
        if !there {
            continue;
        }
        stored.clear();
        encoder.encode(&page, dictionary(*unit), &mut stored)?;
        let len = stored.len() as u64;
        alone += len;
        stored.clear();
        let mut differences = DifferenceEncoder::new(effort.level);
        let is_same = bases.is_empty();
        let encoded = is_same || differences.encode(&page, &prefix, &mut stored)?;
        let difference = stored.len() as u64;
        if encoded && pays(difference, len) {
            saved += len - difference - BESIDE;
        }
    }
    // As much of all that were found as of those that were measured.
    let saved = u128::from(saved) * u128::from(count) * u128::from(step);
    Ok(saved * u128::from(WORTHWHILE) >= u128::from(alone.max(1)) * u128::from(looked_at.max(1)))
}
