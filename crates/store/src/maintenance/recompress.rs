//! What maintenance does to a file, in steps: pages that are not stored as they should be are stored again,
//! dictionaries that no page has any more go, extents move into free space before them.
//!
//! Each step is an ordinary transaction that changes no byte of the database, so readers at any commit
//! go on, and a crash loses nothing. What should be done is for the caller to decide; how far it got is to be
//! seen from the file.

use std::collections::BTreeSet;
use std::sync::Arc;

use litepack_codec::{DictId, Dictionary, Level, Shape};

use crate::error::{Error, Result};
use crate::format::layout::Pointer;
use crate::format::leaf::{Entry, FANOUT};
use crate::format::node::Node;
use crate::snapshot::store::Store;
use litepack_io::storage::Storage;

/// A step stores so many units again, at most.
const UNITS_PER_STEP: usize = 64;
/// A step looks at so many leaves of the map, at most.
const LEAVES_PER_STEP: u64 = 64;

/// A dictionary of a file, and the shapes of the pages that it is for.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its number; 0 if the file does not have it yet.
    pub number: DictId,
    /// The dictionary.
    pub dictionary: Arc<Dictionary>,
    /// Shapes of the pages that it is for; none if it is for all that no other is for.
    pub shapes: Vec<Shape>,
}

impl<D: Storage> Store<D> {
    /// The level that the file's pages were last stored for good at; 0 if they never were.
    pub fn settled_level(&self) -> Level {
        self.catalog.settled_level()
    }

    /// Whether nothing was written since maintenance at this level or a higher one was complete.
    pub fn is_maintained(&self, level: Level) -> bool {
        let (seq, settled) = self.catalog.maintained;
        seq == self.seq() && settled >= level
    }

    /// Differs whenever numbers of dictionaries may mean something else than before.
    pub fn catalog_version(&self) -> (u64, u64) {
        let place = self.commit.map_or(Pointer::NONE, |c| c.record.catalog);
        (place.offset, place.sum)
    }

    /// The dictionaries that pages are stored with now, as many as may be held at once.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn dictionaries(&self) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        let mut room = LISTED_MAX;
        for number in self.catalog.used() {
            let Some(left) = room.checked_sub(self.catalog.len(number)) else {
                break;
            };
            room = left;
            if let Some(dictionary) = self.catalog.get(number, &self.medium)? {
                listed.push(Listed {
                    number,
                    dictionary,
                    shapes: self.catalog.shapes(number).to_vec(),
                });
            }
        }
        Ok(listed)
    }

    /// The number in use now for what a unit is stored with.
    ///
    /// # Errors
    /// When the page map cannot be read.
    pub fn dictionary_of(&mut self, unit: u64) -> Result<DictId> {
        let number = self.entry(unit)?.storage.dict;
        Ok(self.catalog.current(number))
    }

    /// The number for pages with the same dictionary (for 0: none) that are settled at the writing level; a new one if
    /// that is above the level of `number`. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn at_level(&mut self, number: DictId) -> Result<DictId> {
        self.guarded(|store| {
            store.begin()?;
            let number = store.catalog.current(number);
            if store.catalog.level(number) >= store.level() {
                return Ok(number);
            }
            let level = store.level();
            let again = store.catalog.add_at_level(number, level);
            let again = again.ok_or(TOO_MANY)?;
            store.catalog.replace(number, again);
            store.writer.txn().catalog_changed = true;
            Ok(again)
        })
    }

    /// Pages that were stored with `former` are to be stored with `number` from now on. Part of the running
    /// transaction.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn replace_dictionary(&mut self, former: DictId, number: DictId) -> Result<()> {
        self.guarded(|store| {
            store.begin()?;
            store.catalog.replace(former, number);
            store.writer.txn().catalog_changed = true;
            Ok(())
        })
    }

    /// Stores units again that are not stored with the dictionary that `wanted` names for them, or not at the
    /// writing level: some from `from` on. Returns where to go on, and `None` at the end. The caller commits.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn store_again(
        &mut self,
        from: u64,
        wanted: &dyn Fn(u64) -> DictId,
    ) -> Result<Option<u64>> {
        self.guarded(|store| {
            store.begin()?;
            let units = store.size.div_ceil(u64::from(store.unit_size));
            let mut page = litepack_io::memory::zeros(store.unit_size as usize)?;
            let (mut stored, mut at) = (0, from);
            for _ in 0..LEAVES_PER_STEP {
                let Some(leaf) = store.next_leaf(at / FANOUT as u64)? else {
                    return Ok(None);
                };
                let stop = (leaf + 1) * FANOUT as u64;
                for unit in at.max(leaf * FANOUT as u64)..stop.min(units) {
                    if stored == UNITS_PER_STEP {
                        return Ok(Some(unit));
                    }
                    let entry = store.entry(unit)?;
                    let number = store.catalog.current(wanted(unit));
                    if entry.is_zero() || entry.storage.settled && entry.storage.dict == number {
                        continue;
                    }
                    store.load(unit, &entry, &mut page)?;
                    let choice = store.catalog.choice(number, &store.medium)?;
                    store.writer.put(unit, &page, choice)?;
                    stored += 1;
                }
                at = stop;
            }
            Ok(Some(at))
        })
    }

    /// Removes dictionaries that no page is stored with, but not those in `kept`. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn drop_unused_dictionaries(&mut self, kept: &[DictId]) -> Result<()> {
        self.guarded(|store| {
            store.begin()?;
            let mut used: BTreeSet<DictId> = kept.iter().copied().collect();
            store.for_each_entry(|entry| {
                used.insert(entry.storage.dict);
            })?;
            for place in store.catalog.keep(used) {
                store
                    .writer
                    .release_content(place.offset, place.len.into())?;
                store.writer.txn().catalog_changed = true;
            }
            Ok(())
        })
    }

    /// Calls `each` for every stored unit's entry as of the last commit.
    pub(crate) fn for_each_entry(&mut self, mut each: impl FnMut(&Entry)) -> Result<()> {
        let mut next = 0;
        while let Some(leaf) = self.next_leaf(next)? {
            next = leaf + 1;
            if let Some(node) = self.map.leaf_on_disk(leaf, &self.medium)?
                && let Node::Leaf(entries) = &*node
            {
                let stored = entries.iter().filter(|e| !e.is_zero());
                stored.for_each(|entry| each(&entry));
            }
        }
        Ok(())
    }

    /// Notes that everything is as it should be, at the writing level, and gives the file system what lies behind
    /// the end of the file. Commits.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn set_maintained(&mut self) -> Result<()> {
        self.guarded(|store| {
            store.begin()?;
            store.catalog.maintained = (store.seq().saturating_add(1), store.level());
            store.writer.txn().catalog_changed = true;
            Ok(())
        })?;
        self.flush()?;
        self.cut()
    }
}

/// Bytes of dictionaries that are listed, at most: as many as trees have that are packed with the greatest effort.
const LISTED_MAX: usize = 16 << 20;

/// The error when the catalog is full.
pub(crate) const TOO_MANY: Error = Error::Limit("a file has at most 4096 dictionaries");
