//! Makes references: units that have text of former ones are stored as aliases of them, or as their difference to them.
//!
//! A reference is made only if it saves a third of the unit. That is measured: by the length that the unit takes alone,
//! or where the difference is so short that there is no doubt, by that of the units it is like. What the finder says is
//! believed in nothing: the store compares each reference before it counts.

use litepack_codec::{DictId, DifferenceEncoder, Level};
use litepack_io::interrupt::{self, Halt};
use litepack_io::memory::OutOfMemory;
use litepack_io::parallel::parallel;
use litepack_io::storage::Storage;
use litepack_store::{ItemNumber, Reference, Result, Store, Unit};

use super::estimate::Estimate;
use super::finder::{Finder, Found};
use super::{is_zero, pays};
use crate::plan::Source;

/// Bytes of the database that a step of maintenance looks at, or one unit.
const BYTES_PER_STEP: u32 = 256 << 10;
/// Most differences that it makes. They take three times as many bytes for what they are the difference to.
const DIFFERENCES_PER_STEP: usize = 32;
/// A thread is worth its start for so many differences.
const PER_THREAD: usize = 8;

/// Makes references between the units of one database.
#[derive(Debug)]
pub struct References {
    finder: Finder,
    unit_size: u32,
    level: Level,
    threads: usize,
}

/// A unit that has text of others.
struct Candidate<'a> {
    unit: Unit,
    page: &'a [u8],
    bases: Vec<Unit>,
    /// The bases' bytes; none if the unit has the same.
    prefix: Vec<u8>,
}

impl Candidate<'_> {
    /// Whether it is taken to have the same bytes as its only base.
    fn is_same(&self) -> bool {
        self.prefix.is_empty()
    }
}

impl References {
    /// For the database that the estimate is of, with notes as large as its effort says.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn new(estimate: &Estimate) -> std::result::Result<References, OutOfMemory> {
        let Estimate {
            units,
            unit_size,
            effort,
            ..
        } = *estimate;
        Ok(References {
            finder: Finder::new(effort.notes_max, units, unit_size)?,
            unit_size,
            level: effort.level,
            threads: effort.threads,
        })
    }

    /// Writes units, the first of which is `first`: as references, or with the dictionary that `number` says. All units
    /// before them were written by this too, and `source` has them. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn write<D: Storage>(
        &mut self,
        store: &mut Store<D>,
        source: &mut impl Source,
        (first, pages): (Unit, &[u8]),
        number: &dyn Fn(Unit) -> DictId,
    ) -> Result<()> {
        let unit_size = self.unit_size;
        let mut candidates = Vec::new();
        for (at, page) in pages.chunks(unit_size as usize).enumerate() {
            interrupt::check()?;
            let unit = Unit(first.0 + at as u64);
            match self.look(unit, page, source)? {
                Some(candidate) => candidates.push(candidate),
                None => store.write_with(unit.start(unit_size), page, number(unit))?,
            }
        }
        if candidates.is_empty() {
            return Ok(());
        }
        let differences = self.differences(&candidates)?;
        let mut doubtful = Vec::new();
        for (candidate, stored) in candidates.iter().zip(&differences) {
            interrupt::check()?;
            let unit = candidate.unit;
            let mut lens = 0;
            for base in &candidate.bases {
                lens += u64::from(store.extent_len(*base)?);
            }
            let usual = lens / candidate.bases.len().max(1) as u64;
            let len = stored.len() as u64;
            let is_encoded = candidate.is_same() || len > 0;
            // Even if the unit were a quarter shorter than those it is like.
            let is_certain = is_encoded && pays(len, usual - usual / 4);
            let number = number(unit);
            if is_certain && refer(store, candidate, stored, number)? {
                continue;
            }
            store.write_with(unit.start(unit_size), candidate.page, number)?;
            if !is_certain && is_encoded && len < usual * 2 {
                doubtful.push((candidate, stored, number));
            } else {
                self.keep(candidate);
            }
        }
        for (candidate, stored, number) in doubtful {
            interrupt::check()?;
            let alone = store.extent_len(candidate.unit)?;
            if !pays(stored.len() as u64, alone.into()) || !refer(store, candidate, stored, number)?
            {
                self.keep(candidate);
            }
        }
        Ok(())
    }

    /// Looks at some units of a store, `from` on, that are stored already, and stores those by reference that are worth
    /// it. Returns where to go on, and `None` at the end. Units that are damaged are passed over. Part of the running
    /// transaction.
    ///
    /// What is known of former units may be out of date: their content is read again, and each reference is compared.
    ///
    /// # Errors
    /// The caller rolls the transaction back.
    pub fn refer_some<D: Storage>(
        &mut self,
        store: &mut Store<D>,
        from: Unit,
    ) -> Result<Option<Unit>> {
        let unit_size = self.unit_size;
        // The last unit may not be whole.
        let units = Unit(store.size() / u64::from(unit_size));
        if store.unit_size() != unit_size || from >= units || !store.may_refer() {
            return Ok(None);
        }
        let wanted = (BYTES_PER_STEP / unit_size).max(1);
        let stop = units.min(Unit(from.0 + u64::from(wanted)));
        let len = (stop.0 - from.0) as usize * unit_size as usize;
        let mut pages = litepack_io::memory::zeros(len)?;
        let (mut candidates, mut lens, mut next) = (Vec::new(), Vec::new(), from);
        for (unit, page) in from.up_to(stop).zip(pages.chunks_mut(unit_size as usize)) {
            if candidates.len() == DIFFERENCES_PER_STEP {
                break;
            }
            interrupt::check()?;
            next = Unit(unit.0 + 1);
            let alone = match store.reference(unit)? {
                Reference::Own { len } => Some(len),
                Reference::Alias { .. } => None,
                Reference::Zero | Reference::Difference { .. } | Reference::Private { .. } => {
                    continue;
                }
            };
            if !crate::pages::read(store, unit.start(unit_size), page)? {
                continue;
            }
            let Some(alone) = alone else {
                // Others have its text already, and more may.
                self.finder.look(page);
                self.finder.keep(unit);
                continue;
            };
            if let Some(candidate) = self.look(unit, page, store)? {
                candidates.push(candidate);
                lens.push(u64::from(alone));
            }
        }
        let differences = self.differences(&candidates)?;
        for ((candidate, stored), alone) in candidates.iter().zip(&differences).zip(lens) {
            interrupt::check()?;
            let is_encoded = candidate.is_same() || !stored.is_empty();
            let number = store.dictionary_of(candidate.unit)?;
            let pays = is_encoded && pays(stored.len() as u64, alone);
            if !pays || !refer(store, candidate, stored, number)? {
                self.keep(candidate);
            }
        }
        Ok((next < units).then_some(next))
    }

    /// Looks for text that a unit has in common with former ones; if there is none, later ones may have its own.
    fn look<'a>(
        &mut self,
        unit: Unit,
        page: &'a [u8],
        source: &mut impl Source,
    ) -> Result<Option<Candidate<'a>>> {
        let unit_size = self.unit_size as usize;
        if unit == Unit::FIRST || page.len() != unit_size || is_zero(page) {
            return Ok(None);
        }
        let (bases, prefixed) = match self.finder.look(page) {
            Found::Nothing => (Vec::new(), false),
            Found::Same(base) => (vec![base], false),
            Found::Alike(bases) => (bases, true),
        };
        if bases.is_empty() {
            self.finder.keep(unit);
            return Ok(None);
        }
        let len = if prefixed { bases.len() * unit_size } else { 0 };
        let mut prefix = litepack_io::memory::zeros(len)?;
        for (base, part) in bases.iter().zip(prefix.chunks_mut(unit_size)) {
            if !source.read(base.start(self.unit_size), part) {
                return Ok(None);
            }
        }
        Ok(Some(Candidate {
            unit,
            page,
            bases,
            prefix,
        }))
    }

    /// A unit is stored alone although it has text of others: later ones may have the rest of its text.
    fn keep(&mut self, candidate: &Candidate<'_>) {
        self.finder.look(candidate.page);
        self.finder.keep(candidate.unit);
    }

    /// The difference of each to its bases, on all threads. No bytes where it saves nothing, or the unit is the same.
    fn differences(&self, candidates: &[Candidate<'_>]) -> Result<Vec<Vec<u8>>, Halt> {
        let each = candidates.len().div_ceil(self.threads.max(1));
        let shares = candidates.chunks(each.max(PER_THREAD));
        let encoded = parallel(shares, |share| {
            let mut encoder = DifferenceEncoder::new(self.level);
            let mut all = litepack_io::memory::with_room(share.len())?;
            for candidate in share {
                interrupt::check()?;
                let mut stored = Vec::new();
                if !candidate.is_same() {
                    encoder.encode(candidate.page, &candidate.prefix, &mut stored)?;
                }
                all.push(stored);
            }
            Ok::<_, Halt>(all)
        });
        let encoded: Vec<Vec<Vec<u8>>> = encoded.into_iter().collect::<Result<_, _>>()?;
        Ok(encoded.into_iter().flatten().collect())
    }
}

/// Stores a unit by reference; false if that cannot be.
fn refer<D: Storage>(
    store: &mut Store<D>,
    candidate: &Candidate<'_>,
    stored: &[u8],
    number: DictId,
) -> Result<bool> {
    // Before any of them becomes an item that nothing else would name.
    for base in &candidate.bases {
        let reference = store.reference(*base)?;
        if !matches!(reference, Reference::Own { .. } | Reference::Alias { .. }) {
            return Ok(false);
        }
    }
    let mut items: Vec<ItemNumber> = Vec::with_capacity(candidate.bases.len());
    for base in &candidate.bases {
        match store.share(*base)? {
            Some(item) => items.push(item),
            None => return Ok(false),
        }
    }
    let (unit, page) = (candidate.unit, candidate.page);
    match (candidate.is_same(), items.as_slice()) {
        (true, [item]) => store.write_alias(unit, page, *item, 0),
        (true, _) => Ok(false),
        (false, items) => store.write_difference(unit, page, number, stored, items),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use litepack_io::interrupt::listen;
    use litepack_io::random::SplitMix64;
    use litepack_io::testing::MemoryStorage;
    use litepack_store::{Cache, Erase, FileId, Options, StoredKind};

    use super::*;
    use crate::plan::{Effort, Plan};

    const PAGE: u32 = 4096;

    /// Pages that are kept apart by nothing but their bytes, and how often they were asked for.
    struct Plain<'a>(&'a [u8], u64);

    impl Source for Plain<'_> {
        fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
            self.1 += 1;
            let found = self
                .0
                .get(offset as usize..)
                .and_then(|rest| rest.get(..buf.len()));
            found.is_some_and(|found| {
                buf.copy_from_slice(found);
                true
            })
        }

        fn dictionary_of(&mut self, _: Unit) -> DictId {
            0
        }
    }

    /// Words and numbers, of which no two seeds have more than words in common.
    fn text(seed: u64, len: usize) -> Vec<u8> {
        // Neighbouring seeds would give the same numbers, one later.
        let mut random = SplitMix64::new(SplitMix64::new(seed).next_u64());
        let mut text = Vec::new();
        while text.len() < len {
            text.extend(format!("{:x} ", random.next_u64() >> 20).into_bytes());
        }
        text.truncate(len);
        text
    }

    fn effort(threads: usize) -> Effort {
        Effort::ordinary(5, threads)
    }

    fn open(disk: &MemoryStorage) -> Store<&MemoryStorage> {
        let options = Options {
            threads: 1,
            cache: Arc::new(Cache::new(1 << 20)),
            file: FileId::unique(),
            ..Options::default()
        };
        Store::open(disk, options).unwrap()
    }

    fn make(plain: &[u8], unit_size: u32, threads: usize) -> Option<References> {
        let (effort, size) = (effort(threads), plain.len() as u64);
        let mut source = Plain(plain, 0);
        let plan = Plan::make(size, unit_size, effort, Vec::new(), &mut source).unwrap();
        let estimate = Estimate::of(size, unit_size, effort, &plan, &mut source).unwrap();
        estimate.map(|estimate| References::new(&estimate).unwrap())
    }

    /// Writes it as `pack` does, and compares each byte. Returns the bytes of the file.
    fn pack(plain: &[u8], unit_size: u32, references: Option<&mut References>) -> u64 {
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        fill(&mut store, plain, unit_size, references);
        store.flush_both_slots().unwrap();
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
        let mut found = vec![0; plain.len()];
        assert_eq!(store.read(0, &mut found).unwrap(), plain.len());
        assert!(found == plain);
        assert_eq!(store.size(), plain.len() as u64);
        store.end()
    }

    fn fill(
        store: &mut Store<&MemoryStorage>,
        plain: &[u8],
        unit_size: u32,
        mut references: Option<&mut References>,
    ) {
        let mut source = Plain(plain, 0);
        let chunk = 1 << 20;
        for (at, pages) in plain.chunks(chunk).enumerate() {
            let first = Unit::holding((at * chunk) as u64, unit_size);
            if let Some(references) = &mut references {
                let written = references.write(store, &mut source, (first, pages), &|_| 0);
                written.unwrap();
                continue;
            }
            for (page, unit) in pages.chunks(unit_size as usize).zip(first.0..) {
                let offset = Unit(unit).start(unit_size);
                store.write_with(offset, page, 0).unwrap();
            }
        }
        // Once for each unit and base.
        assert!(source.1 <= 3 * plain.len() as u64 / u64::from(unit_size));
        store.commit().unwrap();
    }

    fn sizes(plain: &[u8], unit_size: u32) -> (u64, u64) {
        let alone = pack(plain, unit_size, None);
        let with = make(plain, unit_size, 2).map_or(alone, |mut references| {
            pack(plain, unit_size, Some(&mut references))
        });
        (alone, with)
    }

    /// Files that come again at another offset, as rows do, with text between them.
    fn repeated(files: u64, len: usize) -> Vec<u8> {
        let mut plain = Vec::new();
        for turn in 0..3 {
            for file in 0..files {
                plain.extend(text(file, len));
                plain.extend(text(1000 + turn * files + file, 77));
            }
        }
        plain
    }

    #[test]
    fn text_that_comes_again_is_stored_once() {
        for unit_size in [4096, 65_536] {
            // The last unit is not whole.
            let plain = repeated(40, 40_000);
            assert_ne!(plain.len() % unit_size as usize, 0);
            let (alone, with) = sizes(&plain, unit_size);
            assert!(with * 2 < alone, "{unit_size}: {alone} -> {with}");
        }
    }

    #[test]
    fn pages_that_come_again_are_aliases() {
        let mut plain = text(1, 3_000_000);
        plain.truncate(700 * 4096);
        plain.extend_from_within(..);
        let mut references = make(&plain, PAGE, 1).unwrap();
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        fill(&mut store, &plain, PAGE, Some(&mut references));
        let mut aliases = 0;
        let mut count = |unit: litepack_store::StoredUnit| {
            aliases += u64::from(unit.kind == StoredKind::Alias);
        };
        store.units(&mut count).unwrap();
        // The first unit stands alone, and so does its copy.
        assert_eq!(aliases, 2 * 699);
    }

    /// With one thread or many, and twice in turn: the same file.
    #[test]
    fn the_number_of_threads_changes_nothing() {
        let plain = repeated(30, 20_000);
        let len = |threads| pack(&plain, PAGE, make(&plain, PAGE, threads).as_mut());
        let one = len(1);
        assert_eq!([len(1), len(4)], [one, one]);
    }

    #[test]
    fn nothing_in_common_is_not_looked_for() {
        assert!(make(&text(1, 3_000_000), PAGE, 1).is_none());
        assert!(make(&repeated(1, 40_000), PAGE, 1).is_none(), "too small");
        assert!(make(&vec![0; 1 << 20], PAGE, 1).is_none());
        assert!(make(&[], PAGE, 1).is_none());
    }

    /// As maintenance does it, in steps, a commit each: as small as when it is packed, and a second time nothing is left.
    #[test]
    fn what_is_stored_already_is_referred_to_in_steps() {
        let plain = repeated(40, 20_000);
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        fill(&mut store, &plain, PAGE, None);
        let stored = |store: &mut Store<&MemoryStorage>| {
            let info = store.info().unwrap();
            (info.stored_bytes, info.items)
        };
        let (alone, _) = stored(&mut store);
        let mut least = 0;
        for turn in 0..2 {
            let mut references = make(&plain, PAGE, 2).unwrap();
            let mut next = Some(Unit::FIRST);
            while let Some(from) = next {
                next = references.refer_some(&mut store, from).unwrap();
                store.commit().unwrap();
            }
            let (now, items) = stored(&mut store);
            assert!(
                now * 2 < alone && items > 100,
                "{alone} -> {now}, {items} items"
            );
            assert!(turn == 0 || now == least, "{least} -> {now}");
            least = now;
            let mut found = vec![0; plain.len()];
            store.read(0, &mut found).unwrap();
            assert!(found == plain);
            let report = store.check(&mut |_| Ok(())).unwrap();
            assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
        }
    }

    /// Of three bases one is no more what it was: then the others do not become items that nothing names.
    #[test]
    fn no_base_becomes_an_item_in_vain() {
        let mut plain: Vec<u8> = (0..100).flat_map(|seed| text(seed, 4096)).collect();
        // Most of the last one, without which it is still smaller than alone.
        let parts = [(3, 1100), (5, 1300), (4, 1696)].map(|(seed, len)| text(seed, len));
        let parts = parts.concat();
        plain[90 * 4096..91 * 4096].copy_from_slice(&parts);
        for changed in [true, false] {
            let disk = MemoryStorage::default();
            let mut store = open(&disk);
            fill(&mut store, &plain, PAGE, None);
            let mut references = make(&repeated(40, 20_000), PAGE, 1).unwrap();
            let next = references.refer_some(&mut store, Unit::FIRST).unwrap();
            store.commit().unwrap();
            if changed {
                store.write(4 * 4096, &[0; 4096]).unwrap();
                store.commit().unwrap();
            }
            references.refer_some(&mut store, next.unwrap()).unwrap();
            store.commit().unwrap();
            // With all as they were, all are items.
            let items = store.info().unwrap().items;
            assert_eq!(items, if changed { 0 } else { 3 });
            let report = store.check(&mut |_| Ok(())).unwrap();
            assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
        }
    }

    /// Pages that look alike to the finder, and are no smaller with others before them.
    #[test]
    fn text_that_saves_nothing_is_not_referred_to() {
        let mut plain = Vec::new();
        let mut random = SplitMix64::new(5);
        for _ in 0..600 {
            // Half of it is one text, which compresses to nothing; the rest does not compress.
            let page = text(7, 64).repeat(32);
            plain.extend(page);
            plain.extend((0..2048).map(|_| random.next_u64() as u8));
        }
        assert!(make(&plain, PAGE, 1).is_none());
        let other = repeated(40, 20_000);
        let mut references = make(&other, PAGE, 1).unwrap();
        let (alone, with) = (
            pack(&plain, PAGE, None),
            pack(&plain, PAGE, Some(&mut references)),
        );
        assert!(with <= alone + alone / 100, "{alone} -> {with}");
    }

    /// Three tenths of a page are another one's text: there is a difference, and it saves less than a third.
    #[test]
    fn a_difference_that_saves_less_than_a_third_is_not_kept() {
        let mut plain = text(1, 4096);
        for number in 2..600 {
            plain.extend(text(number, 2870));
            plain.extend(text(number / 2 * 1000, 4096 - 2870));
        }
        let mut references = make(&repeated(40, 20_000), PAGE, 1).unwrap();
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        fill(&mut store, &plain, PAGE, Some(&mut references));
        assert_eq!(store.info().unwrap().items, 0);
    }

    /// Each unit costs the same whatever it is like: [`fill`] counts what is read.
    #[test]
    fn equal_pages_take_no_longer_than_others() {
        let equal = text(1, 4096).repeat(1000);
        let mut alike = equal.clone();
        for (number, page) in alike.chunks_mut(4096).enumerate() {
            page[..8].copy_from_slice(&(number as u64).to_le_bytes());
        }
        let other = repeated(40, 20_000);
        for plain in [equal, alike] {
            // A dictionary would make them as small.
            let mut references = make(&other, PAGE, 2);
            let with = pack(&plain, PAGE, references.as_mut());
            let alone = pack(&plain, PAGE, None);
            assert!(with * 5 < alone, "{alone} -> {with}");
        }
    }

    /// A finder that is wrong in all it says costs time, and no page.
    #[test]
    fn wrong_bases_change_no_page() {
        let plain = repeated(40, 20_000);
        let other: Vec<u8> = plain.chunks(4096).rev().flatten().copied().collect();
        let mut references = make(&plain, PAGE, 2).unwrap();
        // What it knows of units is of another database.
        for (number, page) in other.chunks(4096).enumerate() {
            references.finder.look(page);
            references.finder.keep(Unit(number as u64 % 100));
        }
        pack(&plain, PAGE, Some(&mut references));
    }

    #[test]
    fn none_is_made_where_deleted_content_is_erased() {
        let plain = repeated(40, 20_000);
        let mut references = make(&plain, PAGE, 2).unwrap();
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        store.set_erase(Erase::WithCommit);
        fill(&mut store, &plain, PAGE, Some(&mut references));
        assert_eq!(store.info().unwrap().items, 0);
    }

    #[test]
    fn an_interrupt_ends_it() {
        let plain = repeated(40, 20_000);
        let mut references = make(&plain, PAGE, 2).unwrap();
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        let mut source = Plain(&plain, 0);
        let write = || references.write(&mut store, &mut source, (Unit(0), &plain), &|_| 0);
        let ended = listen(|| true, write);
        assert!(
            matches!(ended, Err(ref error) if error.is_interrupted()),
            "{ended:?}"
        );
        let ended = listen(
            || true,
            || {
                let plan =
                    Plan::make(0, PAGE, effort(1), Vec::new(), &mut Plain(&plain, 0)).unwrap();
                let (size, source) = (plain.len() as u64, &mut Plain(&plain, 0));
                Estimate::of(size, PAGE, effort(1), &plan, source).map(|_| ())
            },
        );
        assert_eq!(ended, Err(Halt::Interrupted));
    }
}
