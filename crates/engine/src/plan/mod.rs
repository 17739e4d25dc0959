//! Which dictionaries a database should have: one for each table or index that is large enough, one for all the
//! rest, each as long as it pays on pages that it was not trained on.
//!
//! Trees are told apart by walking the b-trees without their leaves. Pages that this leaves unknown (overflow pages)
//! and small trees are the rest. Pages are sampled at random, but the same ones each time: the same database has the
//! same plan.
//!
//! ```text
//! effort.rs  how much work that is worth     sample.rs  the pages that it is tried on
//! trial.rs   training for one group, and measuring what it saves
//! ```

mod effort;
mod sample;
mod trial;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use litepack_btree::{HEADER_LEN, Header, Owner, PageNumber, PageOwnership};
use litepack_codec::{DictId, Dictionary, SHORT_LEN_MAX};
use litepack_io::interrupt::{self, Halt, Interrupted};
use litepack_io::memory::OutOfMemory;
use litepack_io::parallel::parallel;
use litepack_io::storage::Storage;
use litepack_store::{Listed, Opening, Reference, Store, Unit};

pub use effort::{Effort, PACK_LEVEL};
use trial::{Best, Long, Trial};

/// No dictionary for fewer bytes of pages.
const GROUP_MIN: u64 = 512 << 10;
/// No more trees than this have dictionaries of their own: an encoder keeps as many prepared.
const TREES_MAX: usize = 15;
/// A group too small for a dictionary of its own takes one of others only if it is at least one part in this many of
/// the database: a reader of little from far away need not fetch a dictionary for it.
const SMALL_SHARE: u64 = 16;
/// So many of those are tried.
const SHARED_MAX: usize = 3;
/// A dictionary in use is kept unless another one saves one part in this many.
const KEPT: u64 = 50;
/// A prefetch segment takes at most this share of its file, because only remote readers need it, and at most this many
/// bytes: with four more blocks of 64 KiB, a cold query of one row by an index stays below a megabyte.
const BUNDLE_SHARE: u64 = 256;
const BUNDLE_MAX: u64 = 512 << 10;
/// Not worth having below this.
const BUNDLE_MIN: u64 = 2 << 10;
/// Bytes that a page above the leaves, and a node of the page map for each unit below it, add to a segment at most,
/// mostly.
const UPPER_LEN: u64 = 300;
const NODE_SHARE: u64 = 8;
/// A page above the leaves mostly has more children than this.
const CHILDREN_MIN: usize = 50;

/// Bytes that a plan keeps in memory of each unit, at most: its tree, and its group.
const BYTES_PER_UNIT: usize = 16;
/// No more memory than this is tried beforehand.
const PROBE_MAX: usize = 256 << 20;

/// A database to plan for.
pub trait Source {
    /// Fills `buf` from an offset of the database; false if that cannot be done.
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool;

    /// The number of the dictionary that a unit has now; 0 for none.
    fn dictionary_of(&mut self, unit: Unit) -> DictId;

    /// How a unit is stored in its file now, if it is in one.
    fn reference(&mut self, _: Unit) -> Option<Reference> {
        None
    }
}

/// The dictionaries for a database, and which of its units go with which.
#[derive(Debug)]
pub struct Plan {
    /// `None` if it is not a database.
    owners: Option<PageOwnership>,
    page_size: u32,
    unit: u32,
    /// For each tree the group it is in.
    groups: Vec<usize>,
    /// For each group the dictionary it has: an index into `planned`.
    dictionaries: Vec<Option<usize>>,
    planned: Vec<Listed>,
    /// For some that are long the one of `planned` that ordinary writes use instead.
    beside: HashMap<usize, usize>,
    /// About the bytes that all units will take.
    stored: u64,
    /// About the bytes that they and their dictionaries take less than now.
    saved: i64,
    /// For each group the number that most of its units have had and the dictionary it
    /// gets: an index into `planned`.
    former: Vec<(DictId, Option<usize>)>,
}

/// The group of everything that has none of its own.
const REST: usize = 0;

impl Plan {
    /// Makes dictionaries for a database of `size` bytes that is stored in units of `unit` bytes, where those that
    /// are `known` do not do.
    ///
    /// # Errors
    /// When there is no memory for it, or it was interrupted.
    pub fn make(
        size: u64,
        unit: u32,
        effort: Effort,
        known: Vec<Listed>,
        source: &mut impl Source,
    ) -> Result<Plan, Halt> {
        Plan::make_watched(size, unit, effort, known, source, &|_, _| {})
    }

    /// The same, and tells `watch` how many bytes were tried of how many, from any thread: 0 first, once it is known which
    /// there are.
    ///
    /// # Errors
    /// As [`Plan::make`].
    pub fn make_watched(
        size: u64,
        unit: u32,
        effort: Effort,
        known: Vec<Listed>,
        source: &mut impl Source,
        watch: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Plan, Halt> {
        let units = size / u64::from(unit);
        // How many there are is a mere claim, and what nothing is known of takes no memory.
        let wanted = (units as usize).saturating_mul(BYTES_PER_UNIT);
        litepack_io::memory::probe(wanted.min(PROBE_MAX))?;
        let mut head = [0; HEADER_LEN];
        let there = size >= HEADER_LEN as u64 && source.read(0, &mut head);
        let header = there.then(|| Header::parse(&head, size)).flatten();
        let owners = header.map(|header| {
            let page = |number: PageNumber, to: &mut [u8]| {
                interrupt::check()?;
                Ok::<_, Interrupted>(source.read(number.start(header.page_size), to))
            };
            PageOwnership::find_without_leaves(&header, page)
        });
        let owners = owners.transpose()?;
        let mut plan = Plan::with_groups(owners, units, unit, known);
        let sampled = plan.sample(units, effort)?;
        let groups: Vec<usize> = (0..sampled.len()).rev().collect();
        let bytes_of = |group: usize| sampled[group].units.len() as u64 * u64::from(unit);
        let lens_of = |group: usize| sampled[group].lens(unit, effort) as u64;
        let all = groups
            .iter()
            .map(|group| bytes_of(*group) * lens_of(*group));
        let (all, done) = (all.sum(), AtomicU64::new(0));
        watch(0, all);
        for together in groups.chunks(effort.threads.max(1)) {
            let trials = together
                .iter()
                .map(|group| plan.trial(*group, &sampled[*group], effort, source));
            let trials = trials.collect::<Result<Vec<Trial>, Halt>>()?;
            let tried = together.iter().map(|group| bytes_of(*group));
            let best = parallel(trials.iter().zip(tried), |(trial, bytes)| {
                trial.best(effort, &|| {
                    let before = done.fetch_add(bytes, Ordering::Relaxed);
                    watch(before + bytes, all);
                })
            });
            let best = best.into_iter().collect::<Result<Vec<_>, _>>()?;
            for ((group, trial), best) in together.iter().zip(trials).zip(best) {
                let former = trial.former;
                let cost = best.as_ref().map_or(trial.bytes / 4, |best| best.cost);
                // Pages of zeros are sampled, not tried, and take nothing.
                let tried = (trial.samples.len() + trial.held_out.len()) as u128;
                let of = sampled[*group].units.len().max(1) as u128;
                plan.stored += (u128::from(cost) * tried / of) as u64;
                let now = trial.now;
                let index = match best {
                    Some(best) => {
                        let (index, cost) = plan.choose(trial, best, effort, size)?;
                        // They are shares of the whole group, as if none of its pages were zeros.
                        let less = now.map_or(0, |now| i128::from(now) - i128::from(cost));
                        let less = less * tried as i128 / of as i128;
                        plan.saved += i64::try_from(less).unwrap_or(0);
                        index
                    }
                    None => None,
                };
                plan.dictionaries[*group] = index;
                plan.former.push((former, index));
            }
        }
        Ok(plan)
    }

    /// The dictionaries.
    pub fn planned(&self) -> &[Listed] {
        &self.planned
    }

    /// The owner of each page that is not below a leaf; `None` if it is no database.
    pub fn owners(&self) -> Option<&PageOwnership> {
        self.owners.as_ref()
    }

    /// For those that are long and new: which of them, and the one that ordinary writes use in its place.
    pub fn beside(&self) -> impl Iterator<Item = (usize, usize)> {
        self.beside.iter().map(|(long, short)| (*long, *short))
    }

    /// About the bytes that all units will take that do not stay stored by reference.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// About the bytes that all pages and dictionaries will take less than they do now; below 0 if it is more.
    pub fn saved(&self) -> i64 {
        self.saved
    }

    /// The former number of each dictionary, and the index of the one that takes its place.
    pub fn former(&self) -> &[(DictId, Option<usize>)] {
        &self.former
    }

    /// Which of them goes with this unit.
    pub fn dictionary_of(&self, unit: Unit) -> Option<usize> {
        self.dictionaries[self.group_of(unit)]
    }

    /// The dictionary at this index; `None` for none.
    pub(crate) fn dictionary(&self, index: Option<usize>) -> Option<&Dictionary> {
        Some(&*self.planned.get(index?)?.dictionary)
    }

    /// The bytes that each dictionary takes in a file; the largest tree's comes first.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn dictionary_lens(&self) -> Result<Vec<u64>, OutOfMemory> {
        let lens = self.planned.iter();
        let lens = lens.map(|listed| Ok(listed.dictionary.pack()?.len() as u64));
        lens.collect()
    }

    /// The bytes to keep at the beginning of a file of `units` units for its prefetch segment: less than it wants if
    /// the dictionaries, which come behind it, or at least the one of the largest tree, are then brought by the same
    /// request, and what is left holds the nodes of the page map and, where pages have many children, the uppermost
    /// ones. Every query needs those, and of the pages right above the leaves only one, which may come with its
    /// neighbours. `opening` is the file's, and `dictionaries` are [`Plan::dictionary_lens`].
    pub fn front(&self, opening: Opening, units: u64, dictionaries: &[u64]) -> u64 {
        let (upper, trees) = self.owners.as_ref().map_or((0, 0), |owners| {
            (owners.upper().len(), owners.trees().len())
        });
        let len = |pages: usize| {
            BUNDLE_MIN + opening.of_units(pages as u64, UPPER_LEN) + units / NODE_SHARE
        };
        let wanted = len(upper).min(self.stored / BUNDLE_SHARE);
        let needed = len(trees + upper / CHILDREN_MIN);
        front_beside(opening, dictionaries, wanted, needed)
    }

    /// Notes that there is nothing that maintenance would do better, in a commit with a prefetch segment if that is
    /// worth having.
    ///
    /// # Errors
    /// As [`Store::set_maintained`].
    pub fn finish<D: Storage>(&self, store: &mut Store<D>) -> litepack_store::Result<()> {
        self.lay_prefetch(store)?;
        store.set_maintained()
    }

    /// Gives the file a prefetch segment if that is worth having.
    ///
    /// # Errors
    /// As [`Store::set_prefetch`].
    pub(crate) fn lay_prefetch<D: Storage>(
        &self,
        store: &mut Store<D>,
    ) -> litepack_store::Result<()> {
        // Of a file that is being packed, the last pages are not written yet.
        let len = store.disk().len()?.max(self.stored);
        if let Some((units, room)) = self.prefetch_segment(len) {
            store.set_prefetch(units, room)?;
        }
        Ok(())
    }

    /// The prefetch segment that a file of `len` bytes should have: its units, the most useful first, and the bytes it
    /// may take. `None` if it is not worth having.
    fn prefetch_segment(&self, len: u64) -> Option<(Vec<Unit>, u64)> {
        let room = (len / BUNDLE_SHARE).min(BUNDLE_MAX);
        let owners = self.owners.as_ref().filter(|_| room >= BUNDLE_MIN)?;
        let mut seen = HashSet::new();
        let units = owners.upper().into_iter();
        let units = units.map(|page| self.unit_of(page));
        Some((units.filter(|unit| seen.insert(*unit)).collect(), room))
    }

    /// Gives the largest trees groups of their own.
    fn with_groups(
        owners: Option<PageOwnership>,
        units: u64,
        unit: u32,
        planned: Vec<Listed>,
    ) -> Plan {
        let trees = owners.as_ref().map_or(0, |owners| owners.trees().len());
        let mut plan = Plan {
            page_size: owners.as_ref().map_or(unit, |o| o.header().page_size),
            unit,
            owners,
            groups: vec![REST; trees],
            dictionaries: vec![None],
            planned,
            beside: HashMap::new(),
            stored: 0,
            saved: 0,
            former: Vec::new(),
        };
        let mut sizes = vec![0; trees];
        for tree in plan.known(units).filter_map(|at| plan.tree_of(at)) {
            sizes[tree] += u64::from(unit);
        }
        let mut largest: Vec<_> = (0..trees)
            .filter(|tree| sizes[*tree] >= GROUP_MIN)
            .collect();
        largest.sort_by_key(|tree| Reverse(sizes[*tree]));
        largest.truncate(TREES_MAX);
        // The largest last, because the last is the first to get a dictionary.
        for tree in largest.into_iter().rev() {
            plan.groups[tree] = plan.dictionaries.len();
            plan.dictionaries.push(None);
        }
        plan
    }

    /// Pages in a unit.
    fn share(&self) -> u64 {
        u64::from((self.unit / self.page_size).max(1))
    }

    /// The unit that a page is in.
    fn unit_of(&self, page: PageNumber) -> Unit {
        Unit(u64::from(page.index()) / self.share())
    }

    /// The tree that the first page of a unit belongs to.
    fn tree_of(&self, unit: Unit) -> Option<usize> {
        let page = PageNumber::from_index(unit.0 * self.share())?;
        match self.owners.as_ref()?.owner(page) {
            Owner::Tree { tree, .. } => Some(tree as usize),
            _ => None,
        }
    }

    /// The units of which something may be known, in order. All others have no group of their own. How many there are
    /// is a mere claim of the database, so those are not looked at one by one.
    fn known(&self, units: u64) -> impl Iterator<Item = Unit> + '_ {
        let share = self.share();
        let mut next = Unit::FIRST;
        let stretches = self.owners.iter().flat_map(PageOwnership::known);
        stretches.flat_map(move |pages| {
            // Two stretches may have a unit in common.
            let first = self.unit_of(pages.start).max(next);
            let end = u64::from(pages.end.index()).div_ceil(share);
            next = Unit(end.min(units)).max(first);
            first.up_to(next)
        })
    }

    fn group_of(&self, unit: Unit) -> usize {
        self.tree_of(unit).map_or(REST, |tree| self.groups[tree])
    }

    /// Takes the best dictionary that was trained for a group, or one there is that is better: the one it has had so
    /// far, the file's own for all that no other is for, or that of a larger tree which looks alike. A group too small
    /// for a dictionary of its own takes any that is there for others, if it is much of the database. Returns the cost
    /// as well.
    fn choose(
        &mut self,
        trial: Trial,
        best: Best,
        effort: Effort,
        size: u64,
    ) -> Result<(Option<usize>, u64), Halt> {
        let mut encoder = effort.encoder();
        let shared: Vec<usize> = match trial.is_small() && trial.bytes >= size / SMALL_SHARE {
            true => self.dictionaries.iter().rev().copied().flatten().collect(),
            false => Vec::new(),
        };
        let shared: Vec<usize> = shared.into_iter().take(SHARED_MAX).collect();
        let alike = self.planned.iter().enumerate();
        let alike = alike.filter(|(at, planned)| {
            let mut theirs = planned.signatures.iter();
            theirs.any(|signature| trial.signatures.contains(signature))
                || planned.number != 0
                    && (planned.number == trial.former || planned.signatures.is_empty())
                || shared.contains(at)
        });
        let mut least: Option<(u64, usize, u64)> = None;
        for (at, known) in alike {
            let mut cost = trial.cost(&mut encoder, Some(&known.dictionary))?;
            if trial.is_small() && !self.dictionaries.contains(&Some(at)) {
                // It would be kept for this little alone.
                cost += known.dictionary.pack()?.len() as u64;
            }
            // One that pages have already is left for one that is really better.
            let kept = if known.number == 0 { 0 } else { cost / KEPT };
            least = least.into_iter().chain([(cost - kept, at, cost)]).min();
        }
        let signatures = trial.signatures.iter().copied();
        let long = best.long.filter(|long| self.has_room(long, effort));
        if let Some((low, at, cost)) = least
            && low < long.as_ref().map_or(best.cost, |long| long.cost)
        {
            for at in [Some(at), self.beside.get(&at).copied()]
                .into_iter()
                .flatten()
            {
                let known = &mut self.planned[at].signatures;
                known.extend(signatures.clone());
                known.sort_unstable();
                known.dedup();
            }
            return Ok((Some(at), cost));
        }
        let mut add = |dictionary| {
            self.planned.push(Listed {
                number: 0,
                dictionary: Arc::new(dictionary),
                signatures: signatures.clone().collect(),
            });
            self.planned.len() - 1
        };
        if let Some(long) = long {
            let (at, beside) = (add(long.dictionary), add(long.beside));
            self.beside.insert(at, beside);
            return Ok((Some(at), long.cost));
        }
        let Some(dictionary) = best.dictionary else {
            return Ok((None, best.bare));
        };
        Ok((Some(add(dictionary)), best.cost))
    }

    /// Whether there may be one more long dictionary.
    fn has_room(&self, long: &Long, effort: Effort) -> bool {
        let all = self
            .planned
            .iter()
            .map(|known| known.dictionary.bytes().len());
        let all: usize = all.filter(|len| *len > SHORT_LEN_MAX).sum();
        all + long.dictionary.bytes().len() <= effort.long_max
    }
}

/// The room for a segment that wants so many bytes, and is of use from `needed` or three quarters of that on, beside
/// dictionaries of so many: all of them, or the first.
fn front_beside(opening: Opening, dictionaries: &[u64], wanted: u64, needed: u64) -> u64 {
    if wanted < BUNDLE_MIN {
        return 0;
    }
    let needed = needed.min(wanted - wanted / 4);
    let first = dictionaries.get(..1).unwrap_or_default();
    let beside = [dictionaries, first].map(|lens| opening.beside(lens));
    let enough = beside.into_iter().find(|room| *room >= needed);
    enough.map_or(wanted, |room| room.min(wanted))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A database that has an empty schema, and claims to be as long as SQLite's can be.
    struct Claims {
        reads: u64,
    }

    impl Source for Claims {
        fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
            self.reads += 1;
            buf.fill(0);
            if offset == 0 {
                buf[..16].copy_from_slice(b"SQLite format 3\0");
                buf[16] = 16;
                if let Some(kind) = buf.get_mut(100) {
                    *kind = 13;
                }
            }
            true
        }

        fn dictionary_of(&mut self, _: Unit) -> DictId {
            0
        }
    }

    /// One request brings the segment and the dictionaries behind it, if the segment keeps what is of most use.
    #[test]
    fn the_front_leaves_room_for_dictionaries() {
        const KIB: u64 = 1 << 10;
        let front_beside = |dictionaries: &[u64], wanted, needed| {
            super::front_beside(Opening::of(None), dictionaries, wanted, needed)
        };
        // There is room for both.
        assert_eq!(front_beside(&[70 * KIB], 50 * KIB, 20 * KIB), 50 * KIB);
        // A little less than wanted, and much less.
        assert_eq!(front_beside(&[80 * KIB], 50 * KIB, 48 * KIB), 46 * KIB);
        assert_eq!(front_beside(&[80 * KIB], 250 * KIB, 45 * KIB), 46 * KIB);
        // Both would be too small.
        assert_eq!(front_beside(&[100 * KIB], 50 * KIB, 45 * KIB), 50 * KIB);
        assert_eq!(front_beside(&[360 * KIB], 250 * KIB, 45 * KIB), 250 * KIB);
        // Of several that of the largest tree, if not all.
        let several = [65 * KIB, 118 * KIB, KIB];
        assert_eq!(front_beside(&several, 250 * KIB, 45 * KIB), 61 * KIB);
        assert_eq!(front_beside(&several, 50 * KIB, 45 * KIB), 50 * KIB);
        assert_eq!(front_beside(&several, 250 * KIB, 62 * KIB), 250 * KIB);
        assert_eq!(front_beside(&[10 * KIB; 3], 250 * KIB, 45 * KIB), 96 * KIB);
        assert_eq!(front_beside(&[], 50 * KIB, 45 * KIB), 50 * KIB);
        assert_eq!(front_beside(&[10 * KIB], KIB, KIB), 0);
        // Of 464,000 units that are no database.
        assert_eq!(front_beside(&[1000], 60_048, 60_048), 60_048);
        assert_eq!(front_beside(&[75_000], 60_048, 60_048), 54_024);
        assert_eq!(front_beside(&[100_000], 60_048, 60_048), 60_048);
    }

    #[test]
    fn a_plan_ends_when_it_is_interrupted() {
        let mut source = Claims { reads: 0 };
        let size = u64::from(u32::MAX - 1) * 4096;
        let effort = Effort::ordinary(3, 1);
        let make = || Plan::make(size, 4096, effort, Vec::new(), &mut source).map(|_| ());
        let ended = interrupt::listen(|| true, make);
        assert_eq!(ended, Err(Halt::Interrupted));
    }

    #[test]
    fn a_claimed_length_costs_nothing() {
        let begun = Instant::now();
        let mut source = Claims { reads: 0 };
        let size = u64::from(u32::MAX - 1) * 4096;
        let plan = Plan::make(size, 4096, Effort::ordinary(3, 1), Vec::new(), &mut source);
        assert!(plan.unwrap().planned().is_empty());
        assert!((1..1 << 20).contains(&source.reads), "{}", source.reads);
        assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
    }
}
