//! Recompression, in steps: outdated pages are stored again; dictionaries that no page needs, and units whose content
//! means nothing, are dropped.
//!
//! Each step is an ordinary transaction that changes no byte of the database that is still needed, so readers at any
//! commit go on, and a crash loses nothing. The caller decides what should be done; the file shows how far it got.

use std::collections::BTreeSet;
use std::sync::Arc;

use litepack_codec::{DictId, Dictionary, Encoding, Level, RowSignature};
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::basis::{Basis, Item, ItemNumber};
use crate::format::layout::Pointer;
use crate::format::leaf::Entry;
use crate::format::node::TreeKind;
use crate::format::unit::Unit;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;

/// Most units that a step stores again.
const UNITS_PER_STEP: usize = 64;
/// Most leaves of the map that a step looks at.
const LEAVES_PER_STEP: u64 = 64;
/// Most bytes of dictionaries that are listed: as many as trees have that are packed with the greatest effort.
const LISTED_MAX: usize = 16 << 20;

/// A dictionary of a file, and the signatures of the pages that it is for.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its number; 0 if the file does not have it yet.
    pub number: DictId,
    /// The dictionary.
    pub dictionary: Arc<Dictionary>,
    /// Row signatures of the pages that it is for; none if it is for all that no other is for.
    pub signatures: Vec<RowSignature>,
}

impl<D: Storage> Store<D> {
    /// The highest level that pages of the file were recompressed at; 0 if they never were.
    pub fn maintained_level(&self) -> Level {
        self.image().catalog.maintained_level()
    }

    /// Whether nothing was written since maintenance at this level or a higher one was complete.
    pub fn is_maintained(&self, level: Level) -> bool {
        let (seq, up_to_date) = self.image().catalog.maintained;
        seq.0 == self.seq() && up_to_date >= level
    }

    /// Differs whenever numbers of dictionaries may mean something else than before.
    pub fn catalog_version(&self) -> (u64, u64) {
        let commit = self.snapshot().commit();
        let place = commit.map_or(Pointer::NONE, |commit| commit.record.catalog);
        (place.offset.0, place.sum)
    }

    /// The dictionaries that pages are stored with now, as many as may be held at once.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn dictionaries(&self) -> Result<Vec<Listed>> {
        let catalog = &self.image().catalog;
        let mut listed = Vec::new();
        let mut room = LISTED_MAX;
        for number in catalog.used() {
            let Some(left) = room.checked_sub(catalog.len(number)) else {
                break;
            };
            room = left;
            let dictionary = self.snapshot().medium().dictionary(catalog, number)?;
            if let Some(dictionary) = dictionary {
                listed.push(Listed {
                    number,
                    dictionary,
                    signatures: catalog.signatures(number).to_vec(),
                });
            }
        }
        Ok(listed)
    }

    /// The number in use now for what a unit is stored with; a long dictionary's own.
    ///
    /// # Errors
    /// When the page map cannot be read.
    pub fn dictionary_of(&mut self, unit: Unit) -> Result<DictId> {
        let entry = self.entry(unit)?;
        let number = self
            .image()
            .dictionary_of(&entry, self.snapshot().medium())?;
        Ok(self.image().catalog.lasting(number))
    }

    /// The bytes that a unit takes in the file.
    ///
    /// # Errors
    /// When the page map cannot be read.
    pub fn stored_len(&mut self, unit: Unit) -> Result<u32> {
        let len = self.entry(unit)?.stored_len();
        Ok(u32::try_from(len).unwrap_or(u32::MAX))
    }

    /// Whether a unit is stored by reference to others.
    ///
    /// # Errors
    /// When the page map cannot be read.
    pub fn is_reference(&mut self, unit: Unit) -> Result<bool> {
        Ok(!self.entry(unit)?.is_alone())
    }

    /// Stores units again that are private differences, or are not stored with the dictionary that `wanted` names for
    /// them or not at the writing level: some from `from` on. Returns where to go on, and `None` at the end. Earlier
    /// writes are committed first; the caller commits those of this call.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn recompress(
        &mut self,
        from: Unit,
        wanted: &dyn Fn(Unit) -> DictId,
    ) -> Result<Option<Unit>> {
        // A page that is buffered would be replaced by what it was.
        self.commit()?;
        self.step(|transaction| transaction.recompress(from, wanted))
    }

    /// Makes units zero whose content means nothing: they take no space from then on. Units that are zero, or behind
    /// the end, are passed over. Earlier writes are committed first; the caller commits those of this call.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn drop_units(&mut self, units: &[Unit]) -> Result<()> {
        // A page that is buffered would come back.
        self.commit()?;
        self.step(|transaction| {
            let zeros = litepack_io::memory::zeros(transaction.image().unit_size as usize)?;
            let end = Unit(transaction.image().units());
            for unit in units.iter().filter(|unit| **unit < end) {
                if !transaction.entry(*unit)?.is_zero() {
                    transaction.set_page(*unit, Entry::ZERO, &zeros)?;
                }
            }
            Ok(())
        })
    }

    /// Removes dictionaries that no page is stored with, but not those in `kept`. Earlier writes are committed first;
    /// the caller commits those of this call.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn drop_unused_dictionaries(&mut self, kept: &[DictId]) -> Result<()> {
        // The map does not say what pages will be stored with that are still buffered.
        self.commit()?;
        self.step(|transaction| {
            let mut used: BTreeSet<DictId> = kept.iter().copied().collect();
            let (image, medium) = (transaction.image(), transaction.medium());
            // Of items, too: a dictionary may be needed by what many units share, and by no unit alone.
            image.for_each_entry(medium, |entry| {
                used.extend(entry.extents().map(|extent| extent.storage.dict));
            })?;
            for place in transaction.keep_dictionaries(used) {
                transaction.release_content(place.offset, place.len.into())?;
            }
            Ok(())
        })
    }

    /// Notes that everything is up to date at the writing level, and gives the file system what lies behind
    /// the end of the file. Commits.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn set_maintained(&mut self) -> Result<()> {
        self.step(|transaction| {
            let maintained = (transaction.seq(), transaction.level());
            transaction.change_catalog().maintained = maintained;
            Ok(())
        })?;
        self.flush()?;
        self.give_back();
        Ok(())
    }
}

impl<D: Storage> Transaction<'_, D> {
    fn recompress(&mut self, from: Unit, wanted: &dyn Fn(Unit) -> DictId) -> Result<Option<Unit>> {
        let units = self.image().units();
        let mut page = litepack_io::memory::zeros(self.image().unit_size as usize)?;
        let (mut stored, mut at) = (0, from);
        for _ in 0..LEAVES_PER_STEP {
            let Some(leaf) = self.next_leaf(TreeKind::Map, at.leaf())? else {
                return Ok(None);
            };
            let stop = Unit::first_in(leaf + 1);
            for unit in at.max(Unit::first_in(leaf)).up_to(stop.min(Unit(units))) {
                if stored == UNITS_PER_STEP {
                    return Ok(Some(unit));
                }
                let entry = self.entry(unit)?;
                let number = self.image().catalog.lasting(wanted(unit));
                let is_current = |storage: Encoding| storage.up_to_date && storage.dict == number;
                if entry.is_zero() || entry.is_alone() && is_current(entry.storage) {
                    continue;
                }
                if !entry.is_alone()
                    && let Some(renewed) = self.keep_reference(unit, &entry, number)?
                {
                    stored += renewed;
                    continue;
                }
                // It may stand alone now.
                let entry = self.entry(unit)?;
                self.load(unit, &entry, &mut page)?;
                let choice = self.choice(number)?;
                self.put(unit, &page, choice)?;
                stored += 1;
            }
            at = stop;
        }
        Ok(Some(at))
    }

    /// Whether a unit stays stored by reference. A private difference does not. Nor does a unit that is the only one to
    /// need an item, or one of few that need a part of it: it is cheaper alone. Returns `None` then, else how many items
    /// were stored again.
    fn keep_reference(
        &mut self,
        unit: Unit,
        entry: &Entry,
        number: DictId,
    ) -> Result<Option<usize>> {
        if let Basis::Former(_) = entry.basis {
            return Ok(None);
        }
        let mut renewed = 0;
        for named in entry.basis.items() {
            let Some(item) = self.item(*named)? else {
                // Reading the unit tells of the damage.
                return Ok(None);
            };
            let is_slice = matches!(entry.basis, Basis::Slice(..));
            if is_slice && self.unshare(unit, *named)? {
                let storage = item.extent.storage;
                let is_current = storage.up_to_date && storage.dict == number;
                return Ok(is_current.then_some(0));
            }
            let few = if is_slice {
                u32::from(item.units) / 2
            } else {
                2
            };
            if item.users < few {
                return Ok(None);
            }
            renewed += usize::from(self.renew_item(*named, &item)?);
        }
        if !matches!(entry.basis, Basis::Slice(..)) && entry.storage.dict != number {
            // It is not decoded with it, only remembered for when the unit is written again.
            let storage = Encoding {
                dict: number,
                ..entry.storage
            };
            self.set_entry(unit, Entry { storage, ..*entry })?;
        }
        Ok(Some(renewed))
    }

    /// Stores an item again whose dictionary has a successor, or that another level was chosen for. True if it was.
    fn renew_item(&mut self, number: ItemNumber, item: &Item) -> Result<bool> {
        let (storage, catalog) = (item.extent.storage, &self.image().catalog);
        let current = catalog.lasting(storage.dict);
        let may_be_better = !storage.up_to_date && self.level() >= catalog.level(current);
        let is_outdated = current != storage.dict || current != 0 && may_be_better;
        if !is_outdated || !self.fits(item) {
            return Ok(false);
        }
        let mut pages = Vec::new();
        self.append_item(item, &mut pages)?;
        self.replace_item(number, item, &pages, current)?;
        Ok(true)
    }
}
