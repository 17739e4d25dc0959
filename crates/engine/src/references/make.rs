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
use super::groups::{Groups, Waiting};
use super::{is_zero, pays};
use crate::plan::{Effort, Source};

/// Bytes of the database that a step of maintenance looks at, or one unit.
const BYTES_PER_STEP: u32 = 256 << 10;
/// Most differences that it makes. They take three times as many bytes for what they are the difference to.
const DIFFERENCES_PER_STEP: usize = 32;
/// A thread is worth its start for so many differences.
const PER_THREAD: usize = 8;

/// Makes references between the units of one database.
#[derive(Debug)]
pub struct References {
    /// `None` if no text in common is looked for.
    finder: Option<Finder>,
    /// Units that are stored together where they have no text of others.
    groups: Option<Groups>,
    unit_size: u32,
    level: Level,
    threads: usize,
}

/// A unit that has text of others.
struct Candidate<'a> {
    unit: Unit,
    page: &'a [u8],
    bases: Vec<Unit>,
    /// How the store names them.
    named: Vec<Base>,
    /// The bytes of all that is named; none if the unit has the same as its only base.
    prefix: Vec<u8>,
}

/// A base by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// A unit that is or becomes an item.
    Unit(Unit),
    /// An item of several units, and which of them it is. All of them are in the prefix.
    Slice(ItemNumber, u8),
}

impl Candidate<'_> {
    /// Whether it is taken to have the same bytes as its only base.
    fn is_same(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Finds out which bases are stored together with others: then all of these are the prefix.
    fn name<D: Storage>(&mut self, store: &mut Store<D>, unit_size: usize) -> Result<()> {
        let is_same = self.is_same();
        let (mut prefix, mut pages) = (Vec::new(), Vec::new());
        let mut named = Vec::with_capacity(self.bases.len());
        for (base, page) in self.bases.iter().zip(0..) {
            let start = page * unit_size;
            let mut name = Base::Unit(*base);
            if let Reference::Alias { item, slice } = store.reference(*base)?
                && store.read_item(item, &mut pages)?
                && pages.len() > unit_size
            {
                name = Base::Slice(item, slice);
            }
            let of_item = |known: &Base| match (known, name) {
                (Base::Slice(known, _), Base::Slice(item, _)) => *known == item,
                _ => false,
            };
            if named.iter().any(of_item) {
                continue;
            }
            let bytes = match name {
                Base::Slice(..) => Some(pages.as_slice()),
                Base::Unit(_) => self.prefix.get(start..start + unit_size),
            };
            if !is_same {
                litepack_io::memory::append(&mut prefix, bytes.unwrap_or_default())?;
            }
            named.push(name);
        }
        (self.named, self.prefix) = (named, prefix);
        Ok(())
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
            finder: Some(Finder::new(effort.notes_max, units, unit_size)?),
            groups: None,
            unit_size,
            level: effort.level,
            threads: effort.threads,
        })
    }

    /// For a file that is written anew: text in common if there is an estimate, and units that are stored together if there
    /// are such. `None` without either.
    ///
    /// # Errors
    /// As [`References::new`].
    pub fn with_groups(
        estimate: Option<&Estimate>,
        groups: Option<Groups>,
        unit_size: u32,
        effort: Effort,
    ) -> std::result::Result<Option<References>, OutOfMemory> {
        match estimate {
            Some(estimate) => Ok(Some(References {
                groups,
                ..References::new(estimate)?
            })),
            None => Ok(groups.map(|groups| References {
                finder: None,
                groups: Some(groups),
                unit_size,
                level: effort.level,
                threads: effort.threads,
            })),
        }
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
        let count = self.groups.as_ref().map_or(1, Groups::count);
        let (mut candidates, mut waiting) = (Vec::new(), Waiting::for_groups_of(count));
        for (at, page) in pages.chunks(unit_size as usize).enumerate() {
            interrupt::check()?;
            let unit = Unit(first.0 + at as u64);
            let groups = self.groups.as_ref();
            let may_join = groups.is_some_and(|groups| groups.takes(unit, page));
            match self.look(unit, page, source)? {
                Some(candidate) => candidates.push(candidate),
                None if may_join => waiting.add(unit, page, number(unit))?,
                None => store.write_with(unit.start(unit_size), page, number(unit))?,
            }
        }
        if self.groups.is_some() {
            store.write_groups(waiting.take())?;
            for candidate in &mut candidates {
                interrupt::check()?;
                candidate.name(store, unit_size as usize)?;
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
                self.keep(unit, candidate.page);
            }
        }
        for (candidate, stored, number) in doubtful {
            interrupt::check()?;
            let alone = store.extent_len(candidate.unit)?;
            if !pays(stored.len() as u64, alone.into()) || !refer(store, candidate, stored, number)?
            {
                self.keep(candidate.unit, candidate.page);
            }
        }
        Ok(())
    }

    /// Looks at some units of a store, `from` on, that are stored already, and stores those by reference that are worth
    /// it. Returns where to go on, and `None` at the end. Units that are damaged are passed over. Part of the running
    /// transaction.
    ///
    /// Notes of former units may be out of date: their content is read again, and each reference is compared.
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
                self.keep(unit, page);
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
                self.keep(candidate.unit, candidate.page);
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
        let Some(finder) = &mut self.finder else {
            return Ok(None);
        };
        if unit == Unit::FIRST || page.len() != unit_size || is_zero(page) {
            return Ok(None);
        }
        let (bases, prefixed) = match finder.look(page) {
            Found::Nothing => (Vec::new(), false),
            Found::Same(base) => (vec![base], false),
            Found::Alike(bases) => (bases, true),
        };
        if bases.is_empty() {
            finder.keep(unit);
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
            named: bases.iter().copied().map(Base::Unit).collect(),
            bases,
            prefix,
        }))
    }

    /// A unit is stored alone although it has text of others: later ones may have the rest of its text.
    fn keep(&mut self, unit: Unit, page: &[u8]) {
        if let Some(finder) = &mut self.finder {
            finder.look(page);
            finder.keep(unit);
        }
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
    let units = || {
        let named = candidate.named.iter();
        named.filter_map(|base| match base {
            Base::Unit(unit) => Some(*unit),
            Base::Slice(..) => None,
        })
    };
    for base in units() {
        let reference = store.reference(base)?;
        if !matches!(reference, Reference::Own { .. } | Reference::Alias { .. }) {
            return Ok(false);
        }
    }
    let (mut items, mut slice): (Vec<ItemNumber>, _) = (Vec::new(), 0);
    for base in &candidate.named {
        match *base {
            Base::Slice(item, its) => {
                slice = its;
                items.push(item);
            }
            Base::Unit(unit) => match store.share(unit)? {
                Some(item) => items.push(item),
                None => return Ok(false),
            },
        }
    }
    let (unit, page) = (candidate.unit, candidate.page);
    match (candidate.is_same(), items.as_slice()) {
        (true, [item]) => store.write_alias(unit, page, *item, slice),
        (true, _) => Ok(false),
        (false, items) => store.write_difference(unit, page, number, stored, items),
    }
}

#[cfg(test)]
#[path = "make_test.rs"]
mod tests;
