//! Which units are stored together: four pages of one tree, as one item of 16 KiB.
//!
//! Pages of a tree have much in common, and a dictionary knows only what all of them have. Together they share their
//! columns too. A read of one of them that is not in the cache decodes all four. So this is for databases that are to be
//! small, and of these for trees where a sample says that it saves enough.

use std::collections::BTreeMap;

use litepack_codec::{Codec, DictId, Encoder};
use litepack_io::interrupt::{self, Halt};
use litepack_store::{Group, Result, Unit};

use super::is_zero;
use crate::plan::{Effort, Plan, Source};

/// Bytes that are stored together.
const TOGETHER: u32 = 16 << 10;
/// A tree of fewer units is left as it is.
const UNITS_MIN: u64 = 64;
/// So many groups of a tree are measured.
const MEASURED: u64 = 12;
/// Of the smallest trees all are, so many groups of all of them together: nothing is guessed of a small database.
const MEASURED_WHOLE: u64 = 128;
/// They have to save one byte in so many.
const WORTHWHILE: u64 = 32;

/// The units that are stored together.
#[derive(Debug)]
pub struct Groups {
    /// A bit for each unit: whether it may be.
    units: Vec<u64>,
    /// Units in a group.
    count: usize,
    /// Of trees whose units are stored together, by their planned dictionary, the share of their bytes that remains.
    shares: BTreeMap<Option<usize>, f64>,
}

/// Whether a page leads to others. Such a page is read often and alone.
fn is_interior(page: &[u8]) -> bool {
    matches!(page.first(), Some(2 | 5))
}

impl Groups {
    /// For a database of `size` bytes that is stored in units of `unit_size` bytes, with dictionaries as planned. `None`
    /// if no groups are wanted, or they save too little in all trees.
    ///
    /// # Errors
    /// When there is no memory for it, or it was interrupted.
    pub fn worthwhile(
        size: u64,
        unit_size: u32,
        effort: Effort,
        plan: &Plan,
        source: &mut impl Source,
    ) -> std::result::Result<Option<Groups>, Halt> {
        let count = TOGETHER / unit_size.max(1);
        if !effort.groups || count < 2 {
            return Ok(None);
        }
        // The last unit may not be whole: it stands alone.
        let units = Unit(1)..Unit(size / u64::from(unit_size));
        let all = || units.start.up_to(units.end);
        let mut trees: BTreeMap<Option<usize>, Tree> = BTreeMap::new();
        for unit in all() {
            interrupt::check()?;
            trees.entry(plan.dictionary_of(unit)).or_default().units += 1;
        }
        Tree::measure_whole(trees.values_mut(), count.into());
        for unit in all() {
            interrupt::check()?;
            if let Some(tree) = trees.get_mut(&plan.dictionary_of(unit)) {
                tree.choose(unit, count.into())?;
            }
        }
        let (mut encoder, mut shares) = (effort.encoder(), BTreeMap::new());
        for (planned, tree) in &mut trees {
            let dictionary = plan.dictionary(*planned);
            let mut measured = Measured::default();
            for group in tree.chosen.chunks_exact(count as usize) {
                interrupt::check()?;
                measured.add(group, unit_size, dictionary, &mut encoder, source)?;
            }
            if measured.is_worthwhile() {
                shares.insert(*planned, measured.share());
            }
        }
        if shares.is_empty() {
            return Ok(None);
        }
        let words = usize::try_from(units.end.0.div_ceil(64)).unwrap_or(usize::MAX);
        let mut bits: Vec<u64> = litepack_io::memory::with_room(words)?;
        bits.resize(words, 0);
        for unit in all() {
            if shares.contains_key(&plan.dictionary_of(unit))
                && let Some(word) = bits.get_mut((unit.0 / 64) as usize)
            {
                *word |= 1 << (unit.0 % 64);
            }
        }
        Ok(Some(Groups {
            units: bits,
            count: count as usize,
            shares,
        }))
    }

    /// Of the bytes of units with this planned dictionary, the share that remains where they are stored together.
    pub fn share(&self, planned: Option<usize>) -> f64 {
        self.shares.get(&planned).copied().unwrap_or(1.0)
    }

    /// Units in a group.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether this is a unit to be stored together with others.
    pub(super) fn takes(&self, unit: Unit, page: &[u8]) -> bool {
        let word = usize::try_from(unit.0 / 64)
            .ok()
            .and_then(|at| self.units.get(at));
        word.is_some_and(|word| word >> (unit.0 % 64) & 1 == 1)
            && !is_interior(page)
            && !is_zero(page)
    }
}

/// Units with one dictionary, which is to say of one tree, or of several small ones.
#[derive(Default)]
struct Tree {
    units: u64,
    seen: u64,
    /// Whether all its groups are measured.
    whole: bool,
    /// Whole groups of units, from all over it.
    chosen: Vec<Unit>,
}

impl Tree {
    /// Decides which trees are small enough for all their groups of `count` units to be measured.
    fn measure_whole<'a>(trees: impl Iterator<Item = &'a mut Tree>, count: u64) {
        let mut smallest: Vec<&mut Tree> = trees.filter(|tree| tree.units >= UNITS_MIN).collect();
        smallest.sort_by_key(|tree| tree.units);
        let mut left = MEASURED_WHOLE;
        for tree in smallest {
            let Some(rest) = left.checked_sub(tree.units.div_ceil(count)) else {
                return;
            };
            (left, tree.whole) = (rest, true);
        }
    }

    /// Takes the first `count` units of each of [`MEASURED`] equal stretches, or all units.
    fn choose(&mut self, unit: Unit, count: u64) -> std::result::Result<(), Halt> {
        let stretch = match self.whole {
            true => count,
            false => (self.units / MEASURED).max(count),
        };
        if self.units >= UNITS_MIN && self.seen % stretch < count {
            litepack_io::memory::push(&mut self.chosen, unit)?;
        }
        self.seen += 1;
        Ok(())
    }
}

/// Bytes of some units alone, and together.
#[derive(Default)]
struct Measured {
    alone: u64,
    together: u64,
}

impl Measured {
    fn add(
        &mut self,
        group: &[Unit],
        unit_size: u32,
        dictionary: Option<&litepack_codec::Dictionary>,
        encoder: &mut Encoder,
        source: &mut impl Source,
    ) -> std::result::Result<(), Halt> {
        let mut pages = litepack_io::memory::zeros(group.len() * unit_size as usize)?;
        let mut parts = group.iter().zip(pages.chunks_mut(unit_size as usize));
        let there = parts.all(|(unit, page)| {
            source.read(unit.start(unit_size), page) && !is_zero(page) && !is_interior(page)
        });
        if !there {
            return Ok(());
        }
        let (mut stored, mut alone) = (Vec::new(), 0);
        for page in pages.chunks(unit_size as usize) {
            stored.clear();
            encoder.encode(page, dictionary, &mut stored)?;
            alone += stored.len() as u64;
        }
        stored.clear();
        let codec = encoder.encode_item(&pages, group.len(), dictionary, &mut stored)?;
        self.alone += alone;
        self.together += match codec {
            // They would be stored alone.
            Codec::Raw => alone,
            // The map and the item tree take no more for them than the map for units alone.
            _ => stored.len() as u64,
        };
        Ok(())
    }

    fn is_worthwhile(&self) -> bool {
        self.together < self.alone - self.alone / WORTHWHILE
    }

    fn share(&self) -> f64 {
        self.together as f64 / self.alone.max(1) as f64
    }
}

/// Units that wait for others of their tree.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Units in a group.
    count: usize,
    /// By the dictionary that is chosen for them.
    groups: BTreeMap<DictId, Group>,
    full: Vec<Group>,
}

impl Waiting {
    pub(super) fn for_groups_of(count: usize) -> Waiting {
        Waiting {
            count,
            groups: BTreeMap::new(),
            full: Vec::new(),
        }
    }

    /// Adds a unit. Units come in order.
    pub(super) fn add(&mut self, unit: Unit, page: &[u8], dictionary: DictId) -> Result<()> {
        let empty = || Group {
            dictionary,
            ..Group::default()
        };
        let group = self.groups.entry(dictionary).or_insert_with(empty);
        group.push(unit, page)?;
        if group.units.len() == self.count {
            let full = std::mem::replace(group, empty());
            litepack_io::memory::push(&mut self.full, full)?;
        }
        Ok(())
    }

    /// All that came. Those that found no others are alone.
    pub(super) fn take(self) -> Vec<Group> {
        let rest = self.groups.into_values();
        self.full.into_iter().chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_trees_are_measured_whole_and_large_ones_in_a_dozen_places() {
        let of = |units: u64| Tree {
            units,
            ..Tree::default()
        };
        let mut trees = [of(100_000), of(300), of(40), of(100), of(301)];
        Tree::measure_whole(trees.iter_mut(), 4);
        for tree in &mut trees {
            for unit in Unit(0).up_to(Unit(tree.units)) {
                tree.choose(unit, 4).unwrap();
            }
        }
        let chosen = trees.map(|tree| tree.chosen.len() as u64);
        // 300 units and 100 are 100 groups; there are none left for 301.
        assert_eq!(chosen[1..4], [300, 0, 100]);
        let dozen = MEASURED * 4..=(MEASURED + 1) * 4;
        assert!(dozen.contains(&chosen[0]) && dozen.contains(&chosen[4]));
    }
}
