//! The size of a file by `litepack pack`: dictionaries are planned as it plans them, and a sample of the units of each
//! table and index is compressed with them.
//!
//! `--best` trains longer dictionaries on more pages, which takes minutes. Its gain is put together from what can
//! be measured: the same units at its level, alone and together, and for the largest trees dictionaries of its lengths,
//! trained on fewer pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use litepack::PACK_LEVEL;
use litepack_btree::{Owner, PageNumber, PageOwnership};
use litepack_codec::{Dictionary, Encoder, LEVELS, Samples};
use litepack_database::Result;
use litepack_database::bytes::pages::Pages;
use litepack_database::bytes::reader;
use litepack_database::error::Context;
use litepack_engine::plan::{Effort, Plan};
use litepack_engine::references::{Estimate, Groups};
use litepack_io::interrupt::{self, Halt};
use litepack_io::parallel::parallel;
use litepack_io::random::SplitMix64;
use litepack_store::{Opening, Unit as UnitNumber};

use super::encode::{self, Unit};
use super::gain::Gain;
use super::{Mean, Predicted};

/// Of the bytes that are read of leaves so much is compressed: at the usual level, and of this at the best one.
const SAMPLE: (u64, u64) = (3, 8);
const BEST_OF: u64 = 4;
/// Fewest units of a stratum, if it has them.
const UNITS_MIN: u64 = 32;
/// Trees that are strata of their own.
const STRATA: usize = 64;
/// The page map's share of each unit, the header and the catalog.
const MAP: f64 = 6.4;
const HEAD: f64 = 2048.0 + 600.0;
/// The possible error of these, in bytes: much of a small file.
const HEAD_UNSURE: u64 = 800;
/// Where many dictionaries are planned, they are trained on less than packing does, which makes them a little worse.
const SAMPLES_MAX: usize = 16 << 20;
/// A tree of fewer bytes has a dictionary as `pack` without `--best` makes it, or nearly so.
const LONGER_MIN: u64 = 4 << 20;
/// The longest dictionary of `--best` that is trained, and the longest one that has pieces of pages behind it. Such a one
/// of 4 MiB would take too long here.
const TRAINED_MAX: u64 = 1 << 20;
const LONG_MAX: u64 = 2 << 20;
/// These have at most this share of their pages.
const SHARE: u64 = 100;
const LONG_SHARE: u64 = 16;
/// A page of which there is a piece in the dictionary takes so much less.
const IN_DICTIONARY: f64 = 0.5;
/// Bytes of sample for each byte of a dictionary that is trained, and in all.
const SAMPLED: u64 = 16;
const SAMPLED_MAX: u64 = 8 << 20;
/// Trees that it is tried for, and about how long that takes.
const TRIED: usize = 2;
const TRAINING: Duration = Duration::from_millis(1200);
/// The first byte of a leaf page of an index.
const INDEX_LEAF: u8 = 10;
/// The possible error for `--best`, as a share: of small trees, of those that longer dictionaries were tried for, and
/// where there was no time for that. They save up to a tenth of it then.
const UNSURE: f64 = 0.025;
const UNSURE_TRIED: f64 = 0.035;
/// And where units are stored together.
const UNSURE_TOGETHER: f64 = 0.035;
/// Groups save up to a seventh.
const UNTRIED_TOGETHER: Longer = Longer {
    ratio: 0.93,
    unsure: 0.07,
};
const UNTRIED: Longer = Longer {
    ratio: 0.95,
    unsure: 0.08,
};

/// Leaves are read for a sample. Text that comes again is looked for in so many times their bytes.
const IN_COMMON: u64 = 2;
/// The saving may be so much less than told, as a share of it: if all was looked at, and from a sample.
const LESS: f64 = 0.3;
const LESS_SAMPLED: f64 = 0.5;
/// And so much more: where a page has text of several others, packing finds more of them than the sample.
const MORE: f64 = 0.3;
const MORE_SAMPLED: f64 = 1.0;
/// But at most so much of what remains.
const UNSURE_IN_COMMON: f64 = 0.5;

/// The result of packing.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) ordinary: Predicted,
    pub(crate) best: Predicted,
    /// For each tree the share of its bytes that remains, with its part of the page map.
    pub(crate) trees: Vec<f64>,
    /// The same for free pages, and for everything else.
    pub(crate) free: f64,
    pub(crate) rest: f64,
    /// The share of the sampled units, but for the first of each content, that are the same as another.
    pub(crate) same: f64,
}

/// How much time there is for it.
pub(crate) struct Deadlines {
    pub(crate) ordinary: Instant,
    pub(crate) best: Instant,
}

fn effort() -> Effort {
    Effort {
        samples_max: SAMPLES_MAX,
        ..Effort::ordinary(PACK_LEVEL, reader::threads())
    }
}

/// Text that comes again, which packing stores once.
#[derive(Default)]
struct InCommon {
    /// About the bytes that this saves, and the shares of it that it may be less and more.
    saved: f64,
    less: f64,
    more: f64,
}

impl InCommon {
    /// Nothing where `litepack pack` does not look for it.
    fn of(pages: &mut Pages<'_>, plan: &Plan, sample: u64) -> Result<InCommon> {
        let unit = pages.header.page_size.max(4096);
        let find = |pages: &mut Pages<'_>| {
            let Some(estimate) = Estimate::of(pages.size, unit, effort(), plan, pages)? else {
                return Ok(InCommon::default());
            };
            let units = sample * IN_COMMON / u64::from(unit);
            let (estimate, is_all) = estimate.of_more(units, plan, pages)?;
            let (less, more) = match is_all {
                true => (LESS, MORE),
                false => (LESS_SAMPLED, MORE_SAMPLED),
            };
            Ok::<_, Halt>(InCommon {
                saved: estimate.saved() as f64,
                less,
                more,
            })
        };
        find(pages)
            .map_err(litepack_store::Error::from)
            .context("cannot look for text that comes again")
    }

    /// At most all of so many bytes, of which a share remains by other means.
    fn within(&self, bytes: f64, ratio: f64) -> InCommon {
        InCommon {
            saved: self.saved.min(bytes) * ratio,
            ..*self
        }
    }

    /// Takes it off a size that was worked out without it.
    fn off(&self, size: Predicted) -> Predicted {
        let without = |from: u64| (from as f64 - self.saved).max(0.0);
        // Where it saves most, few pages are left that could have been told wrong.
        let most = without(size.bytes) * UNSURE_IN_COMMON;
        let (less, more) = (self.saved * self.less, self.saved * self.more);
        Predicted {
            bytes: without(size.bytes) as u64,
            low: (without(size.low) - more.min(most)).max(0.0) as u64,
            high: (without(size.high) + less.min(most)) as u64,
        }
    }
}

/// Plans dictionaries as `litepack pack` does.
pub(crate) fn plan(pages: &mut Pages<'_>) -> Result<Plan> {
    let unit = pages.header.page_size.max(4096);
    let plan = Plan::make(pages.size, unit, effort(), Vec::new(), pages);
    plan.map_err(litepack_store::Error::from)
        .context("cannot plan dictionaries")
}

/// The units that `--best` stores together.
fn groups(pages: &mut Pages<'_>, plan: &Plan) -> Result<Option<Groups>> {
    let unit = pages.header.page_size.max(4096);
    let effort = Effort::best(*LEVELS.end(), reader::threads());
    let groups = Groups::worthwhile(pages.size, unit, effort, plan, pages);
    groups
        .map_err(litepack_store::Error::from)
        .context("cannot compress a sample")
}

/// Predicts both sizes.
pub(crate) fn predict(
    pages: &mut Pages<'_>,
    plan: &Plan,
    owners: &PageOwnership,
    sample: u64,
    deadlines: &Deadlines,
) -> Result<Packed> {
    let out_of_memory = |error| litepack_store::Error::from(error);
    let strata = Strata::new(pages, owners);
    let in_common = InCommon::of(pages, plan, sample)?;
    let sample = sample / SAMPLE.1 * SAMPLE.0;
    let units = strata.units(pages, owners, plan, sample);
    let dictionaries: Vec<&Dictionary> = plan.planned().iter().map(|d| &*d.dictionary).collect();
    let threads = reader::threads();
    let count = strata.sizes.len();
    let encode = |units: &[Unit], dictionaries: &[&Dictionary], level, deadline| {
        encode::all(units, count, dictionaries, level, threads, deadline)
            .map_err(out_of_memory)
            .context("cannot compress a sample")
    };
    let (means, lens) = encode(&units, &dictionaries, PACK_LEVEL, deadlines.ordinary)?;
    let same = same_units(&units);
    let in_map = in_map(&units, count);

    // A part of them again, at the best level.
    let unit = u64::from(strata.unit);
    let step = (units.len() as u64 * unit)
        .div_ceil(sample / BEST_OF)
        .max(1) as usize;
    let mut again = Vec::new();
    let mut before = Vec::new();
    let mut turn = vec![0; count];
    for (unit, len) in units.into_iter().zip(&lens) {
        let seen = &mut turn[unit.stratum];
        *seen += 1;
        if let Some(len) = len.filter(|_| (*seen - 1_usize).is_multiple_of(step)) {
            before.push(len);
            again.push(unit);
        }
    }
    // They save more than longer dictionaries, and take less time.
    let in_time = Instant::now() < deadlines.best;
    let groups = match in_time {
        true => groups(pages, plan)?,
        false => None,
    };
    let longer = strata.longer(pages, owners, &dictionaries, plan, deadlines.best)?;
    let level = *LEVELS.end();
    let (_, after) = encode(&again, &dictionaries, level, deadlines.best)?;
    let mut gains = vec![Gain::default(); count];
    for ((unit, before), after) in again.iter().zip(&before).zip(&after) {
        if let Some(after) = after {
            gains[unit.stratum].add(f64::from(*before), f64::from(*after));
        }
    }
    let mut together = vec![Gain::default(); count];
    for (unit, after) in again.iter().zip(&after) {
        if let Some(after) = after.map(f64::from) {
            let share = match (&groups, in_time) {
                (Some(groups), _) => groups.share(unit.dictionary),
                (None, true) => 1.0,
                (None, false) => UNTRIED_TOGETHER.ratio,
            };
            together[unit.stratum].add(after, after * share);
        }
    }
    let all_gains = gains
        .iter()
        .fold(Gain::default(), |all, gain| all.with(*gain));

    let mut packed = Packed {
        ordinary: Predicted::default(),
        best: Predicted::default(),
        trees: vec![0.0; owners.trees().len()],
        free: 0.0,
        rest: 0.0,
        same,
    };
    let all: Mean = means.iter().fold(Mean::default(), |mut all, mean| {
        all.merge(*mean);
        all
    });
    let (mut bytes, mut variance, mut best, mut best_variance) = (0.0, 0.0, 0.0, 0.0);
    let mut map = 0.0;
    let mut shares = vec![0.0; count];
    for (at, (mean, of)) in means.iter().zip(&strata.sizes).enumerate() {
        let mean = if mean.count > 0 { *mean } else { all };
        let of = *of as f64;
        let total = mean.mean() * of;
        shares[at] = (mean.mean() + MAP * in_map[at]) / unit as f64;
        map += MAP * in_map[at] * of;
        bytes += total;
        variance += mean.variance_of_total(of);
        let gain = gains[at];
        let ratio = match gain.before > 0.0 {
            true => gain.ratio(),
            false => all_gains.ratio(),
        };
        let longer = if strata.is_long(at) {
            longer.ratio
        } else {
            1.0
        };
        let together = match together[at].before > 0.0 {
            true => together[at].ratio(),
            false => 1.0,
        };
        best += total * ratio * longer * together;
        best_variance += mean.variance_of_total(of) * ratio * ratio + gain.variance(total);
    }
    // Whose text it is that is stored once is not known.
    let saved = in_common.within(bytes, 1.0);
    let kept = 1.0 - saved.saved / bytes.max(1.0);
    for (tree, share) in packed.trees.iter_mut().enumerate() {
        *share = shares[strata.of_tree(tree)] * kept;
    }
    (packed.rest, packed.free) = (shares[REST] * kept, shares[FREE]);
    let number = pages.size.div_ceil(unit);
    let dictionaries = plan.dictionary_lens();
    let dictionaries = dictionaries
        .map_err(out_of_memory)
        .context("cannot compress a dictionary")?;
    let front = plan.front(Opening::of(None), number, &dictionaries);
    let lens = dictionaries.iter().sum::<u64>() as f64;
    let rest = HEAD + map + front as f64;
    packed.ordinary = Predicted::new(bytes + lens + rest, variance, 0.0);
    let unsure = match (groups, in_time) {
        // They save less where a long dictionary knows more of the pages.
        (Some(_), _) => longer.unsure + UNSURE_TOGETHER,
        (None, true) => longer.unsure,
        (None, false) => longer.unsure + UNTRIED_TOGETHER.unsure,
    };
    packed.best = Predicted::new(best + lens + rest, best_variance, unsure);
    for size in [&mut packed.ordinary, &mut packed.best] {
        size.low = size.low.saturating_sub(HEAD_UNSURE);
        size.high += HEAD_UNSURE;
    }
    packed.ordinary = saved.off(packed.ordinary);
    let ratio = best / bytes.max(1.0);
    packed.best = saved.within(bytes, ratio).off(packed.best);
    Ok(packed)
}

/// For each stratum the share of its units that the page map names: zeros are stored nowhere.
fn in_map(units: &[Unit], strata: usize) -> Vec<f64> {
    let mut seen = vec![(0_u32, 0_u32); strata];
    for unit in units {
        let (all, stored) = &mut seen[unit.stratum];
        *all += 1;
        *stored += u32::from(unit.bytes.iter().any(|byte| *byte != 0));
    }
    let share = |(all, stored)| match all {
        0 => 1.0,
        all => f64::from(stored) / f64::from(all),
    };
    seen.into_iter().map(share).collect()
}

/// The share of units that are the same as another, but for the first of each content.
fn same_units(units: &[Unit]) -> f64 {
    // Two indexes of the same columns are another finding.
    let is_index = |unit: &Unit| unit.bytes[0] == INDEX_LEAF;
    let mut hashes: Vec<u64> = (units.iter())
        .filter(|unit| !is_index(unit) && unit.stratum != FREE)
        .filter(|unit| unit.bytes.iter().any(|byte| *byte != 0))
        // An overflow page begins with the number of the next one.
        .map(|unit| {
            if unit.stratum == REST {
                &unit.bytes[4..]
            } else {
                &unit.bytes
            }
        })
        .map(twox_hash::XxHash3_64::oneshot)
        .collect();
    hashes.sort_unstable();
    let again = hashes.windows(2).filter(|pair| pair[0] == pair[1]).count();
    again as f64 / hashes.len().max(1) as f64
}

/// Pages that belong to no large tree, and free ones.
const REST: usize = 0;
const FREE: usize = 1;

/// Units in strata: each large tree is one, all others and what is not known are the first, free pages the second.
struct Strata {
    unit: u32,
    /// Pages in a unit.
    share: u32,
    /// For each tree its stratum.
    trees: Vec<usize>,
    /// For each stratum how many units it has.
    sizes: Vec<u64>,
}

impl Strata {
    fn new(pages: &Pages<'_>, owners: &PageOwnership) -> Strata {
        let page_size = pages.header.page_size;
        let unit = page_size.max(4096);
        let mut strata = Strata {
            unit,
            share: unit / page_size,
            trees: Vec::new(),
            sizes: Vec::new(),
        };
        let mut sizes = vec![0_u64; owners.trees().len()];
        let number = pages.size.div_ceil(u64::from(unit));
        let mut known = 0;
        for page in strata.firsts(owners) {
            if let Some(tree) = tree_of(owners, page) {
                sizes[tree] += 1;
            }
            known += 1;
        }
        let mut largest: Vec<usize> = (0..sizes.len()).filter(|tree| sizes[*tree] > 0).collect();
        largest.sort_by_key(|tree| std::cmp::Reverse(sizes[*tree]));
        strata.trees = vec![REST; sizes.len()];
        strata.sizes = vec![number.saturating_sub(known), 0];
        for tree in largest.into_iter().take(STRATA) {
            strata.trees[tree] = strata.sizes.len();
            strata.sizes.push(0);
        }
        let firsts: Vec<usize> = (strata.firsts(owners))
            .map(|page| strata.of(owners, page))
            .collect();
        for stratum in firsts {
            strata.sizes[stratum] += 1;
        }
        strata
    }

    /// The first page of each unit of which something may be known.
    fn firsts<'a>(&self, owners: &'a PageOwnership) -> impl Iterator<Item = PageNumber> + use<'a> {
        let share = self.share;
        let pages = owners
            .known()
            .flat_map(|range| range.start.up_to(range.end));
        pages.filter(move |page| page.index().is_multiple_of(share))
    }

    fn of(&self, owners: &PageOwnership, page: PageNumber) -> usize {
        match owners.owner(page) {
            Owner::Tree { tree, .. } => self.trees[tree as usize],
            Owner::FreeTrunk | Owner::FreeLeaf => FREE,
            _ => REST,
        }
    }

    fn of_tree(&self, tree: usize) -> usize {
        self.trees[tree]
    }

    /// Whether `--best` has a longer dictionary for it.
    fn is_long(&self, stratum: usize) -> bool {
        stratum != FREE && self.sizes[stratum] * u64::from(self.unit) > LONGER_MIN
    }

    /// Units from all over each stratum, in no order that means anything.
    fn units(
        &self,
        pages: &mut Pages<'_>,
        owners: &PageOwnership,
        plan: &Plan,
        sample: u64,
    ) -> Vec<Unit> {
        let number: u64 = self.sizes.iter().sum();
        let budget = sample / u64::from(self.unit);
        let shares: Vec<u64> = (self.sizes.iter())
            .map(|size| {
                let wanted = (size * budget / number.max(1)).max(UNITS_MIN);
                if wanted >= *size {
                    u64::MAX
                } else {
                    u64::MAX / size * wanted
                }
            })
            .collect();
        let mut chosen: Vec<(u64, PageNumber, usize)> = (self.firsts(owners))
            .map(|page| (scattered(page, 1), page, self.of(owners, page)))
            .filter(|(hash, _, stratum)| *hash <= shares[*stratum])
            .collect();
        let unknown = self.unknown(
            pages,
            owners,
            (number / budget.max(1)).min(self.sizes[REST] / UNITS_MIN),
        );
        chosen.extend(unknown.map(|page| (scattered(page, 1), page, REST)));
        chosen.sort_unstable_by_key(|(_, page, _)| *page);
        let mut units = Vec::new();
        for (_, page, stratum) in chosen {
            let start = page.start(pages.header.page_size);
            if let Some(bytes) = read(pages, start, self.unit) {
                units.push(Unit {
                    stratum,
                    dictionary: plan.dictionary_of(UnitNumber::holding(start, self.unit)),
                    bytes,
                });
            }
        }
        units
    }

    /// The first page of every so many units in stretches of which nothing is known: how long they are is a mere claim.
    fn unknown<'a>(
        &self,
        pages: &Pages<'_>,
        owners: &'a PageOwnership,
        step: u64,
    ) -> impl Iterator<Item = PageNumber> + use<'a> {
        let share = u64::from(self.share);
        let step = step.max(1) * share;
        let starts =
            std::iter::once(0).chain(owners.known().map(|range| u64::from(range.end.index())));
        let ends = (owners.known().map(|range| u64::from(range.start.index())))
            .chain(std::iter::once(u64::from(pages.header.pages)));
        starts.zip(ends).flat_map(move |(start, end)| {
            let first = start.next_multiple_of(share);
            let firsts = (first..end).step_by(step as usize);
            firsts.filter_map(PageNumber::from_index)
        })
    }

    /// The ratio of sizes with the longer dictionaries of `--best`, which are counted in, to those with the ordinary
    /// ones. It is measured on the largest trees, if there is time for it.
    fn longer(
        &self,
        pages: &mut Pages<'_>,
        owners: &PageOwnership,
        dictionaries: &[&Dictionary],
        plan: &Plan,
        deadline: Instant,
    ) -> Result<Longer> {
        let mut largest: Vec<usize> = (0..self.sizes.len())
            .filter(|at| self.is_long(*at))
            .collect();
        largest.sort_by_key(|at| std::cmp::Reverse(self.sizes[*at]));
        if largest.is_empty() {
            return Ok(Longer {
                ratio: 1.0,
                unsure: UNSURE,
            });
        }
        let mut trials = Vec::new();
        for stratum in largest.into_iter().take(TRIED) {
            if Instant::now() + TRAINING < deadline {
                trials.extend(self.long_trial(pages, owners, dictionaries, plan, stratum));
            }
        }
        let (mut before, mut after) = (0.0, 0.0);
        for costs in parallel(&trials, LongTrial::costs) {
            let costs = costs.map_err(litepack_store::Error::from);
            let (own, long) = costs.context("cannot compress a sample")?;
            before += own;
            after += long;
        }
        Ok(match before > 0.0 {
            true => Longer {
                ratio: after / before,
                unsure: UNSURE_TRIED,
            },
            false => UNTRIED,
        })
    }

    /// Pages of a tree to train a longer dictionary on, and others to measure it on.
    fn long_trial<'a>(
        &self,
        pages: &mut Pages<'_>,
        owners: &PageOwnership,
        dictionaries: &[&'a Dictionary],
        plan: &Plan,
        stratum: usize,
    ) -> Option<LongTrial<'a>> {
        let size = self.sizes[stratum];
        let bytes = size * u64::from(self.unit);
        let trained = (bytes / SHARE).min(TRAINED_MAX);
        let long = (bytes / LONG_SHARE).min(LONG_MAX);
        let wanted = (trained * SAMPLED).max(long).min(SAMPLED_MAX) / u64::from(self.unit);
        let share = u64::MAX / size * wanted.min(size);
        let mut encoder = Encoder::new(*LEVELS.end());
        let mut trial = LongTrial {
            trained: trained as usize,
            long: long as usize,
            bytes: bytes as f64,
            own: None,
            samples: Arc::default(),
            held_out: Vec::new(),
        };
        let mut samples = Samples::default();
        let chosen = (self.firsts(owners))
            .filter(|page| self.of(owners, *page) == stratum && scattered(*page, 2) <= share);
        // Where nothing is known there are long values, mostly.
        let unknown =
            (self.unknown(pages, owners, size / wanted.max(1))).filter(|_| stratum == REST);
        let chosen: Vec<PageNumber> = chosen.chain(unknown).collect();
        for (at, page) in chosen.into_iter().enumerate() {
            let start = page.start(pages.header.page_size);
            let Some(bytes) = read(pages, start, self.unit) else {
                continue;
            };
            if at % 8 == 7 {
                let own = plan.dictionary_of(UnitNumber::holding(start, self.unit));
                trial.own = own.map(|at| dictionaries[at]);
                trial.held_out.push(bytes);
            } else {
                samples.push(encoder.sample(&bytes)).ok()?;
            }
        }
        trial.samples = Arc::new(samples);
        (!trial.held_out.is_empty()).then_some(trial)
    }
}

/// The gain of the longer dictionaries of `--best`.
struct Longer {
    /// The bytes of large trees with them, beside those with the ordinary ones.
    ratio: f64,
    /// The possible error of the size of the file, as a share.
    unsure: f64,
}

/// Longer dictionaries for a tree, beside the one that it has.
struct LongTrial<'a> {
    /// The length of the one that is trained, and of the one that has pieces of pages behind it.
    trained: usize,
    long: usize,
    /// Bytes of the tree.
    bytes: f64,
    own: Option<&'a Dictionary>,
    samples: Arc<Samples>,
    held_out: Vec<Vec<u8>>,
}

impl LongTrial<'_> {
    /// The bytes of the tree at the level of `--best`: with its own dictionary, and with the best of all and what that
    /// one adds to the file.
    fn costs(&self) -> std::result::Result<(f64, f64), Halt> {
        let own = self.cost(self.own)?;
        let Some(trained) = self.samples.train(self.trained)? else {
            return Ok((own, own));
        };
        let packed = |dictionary: &Dictionary| Ok::<_, Halt>(dictionary.pack()?.len() as f64);
        let before = self.own.map_or(Ok(0.0), packed)?;
        let short = self.cost(Some(&trained))? + packed(&trained)? - before;
        let mut best = own.min(short);
        if let Some(long) = self.samples.extend(&trained, self.long)? {
            // Pages of which it has pieces are in the file as well, and not among those that are held out.
            let inside = (long.bytes().len() - trained.bytes().len()) as f64 / self.bytes;
            let pages = self.cost(Some(&long))? * (1.0 - inside * IN_DICTIONARY);
            // The own one, or one like it, stays for what is written later.
            best = best.min(pages + packed(&long)?);
        }
        Ok((own, best))
    }

    fn cost(&self, dictionary: Option<&Dictionary>) -> std::result::Result<f64, Halt> {
        let mut encoder = Encoder::new(*LEVELS.end());
        let mut stored = Vec::new();
        for bytes in &self.held_out {
            interrupt::check()?;
            encoder.encode(bytes, dictionary, &mut stored)?;
        }
        let held_out: usize = self.held_out.iter().map(Vec::len).sum();
        Ok(stored.len() as f64 * self.bytes / held_out.max(1) as f64)
    }
}

fn tree_of(owners: &PageOwnership, page: PageNumber) -> Option<usize> {
    match owners.owner(page) {
        Owner::Tree { tree, .. } => Some(tree as usize),
        _ => None,
    }
}

/// A unit; zeros after the end of the database.
fn read(pages: &mut Pages<'_>, start: u64, unit: u32) -> Option<Vec<u8>> {
    let mut bytes = litepack_io::memory::zeros(unit as usize).ok()?;
    let there = pages.size.saturating_sub(start).min(u64::from(unit));
    let there = &mut bytes[..there as usize];
    pages.read_at(start, there).then_some(bytes)
}

fn scattered(page: PageNumber, purpose: u64) -> u64 {
    SplitMix64::derived(u64::from(page.get()), purpose).next_u64()
}
