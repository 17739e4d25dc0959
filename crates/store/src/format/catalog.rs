//! The catalog: how a file's pages are stored. Each item is a dictionary, or none, and the level of
//! the pages that are up to date with it; the page map's entries name items by number.
//!
//! An item also says which pages it is for: those of certain signatures. New pages go by that, pages that
//! are written again by what they were stored with before. An item that has a successor is given to no
//! new page; maintenance recompresses the pages that still have it, and removes it then. But an item with a long
//! dictionary, which is of use at the highest levels only, stays: its successor is what ordinary writes use.

use std::collections::BTreeSet;
use std::sync::Arc;

use litepack_codec::{
    Codec, DictId, Dictionary, Encoding, LEVELS, Level, RowSignature, SHORT_LEN_MAX,
};
use litepack_io::bytes::{Reader, put_varint};
use litepack_io::memory::OutOfMemory;

use crate::error::{Error, Result};
use crate::format::layout::Pointer;
use crate::format::offset::FileOffset;
use crate::format::record::CommitNumber;

/// No file has more items.
pub(crate) const DICTIONARIES_MAX: usize = 4096;
/// Largest dictionary, and the most that it takes in the file: zstd's bound for what it cannot compress.
pub(crate) const DICTIONARY_LEN_MAX: usize = 8 << 20;
pub(crate) const DICTIONARY_STORED_MAX: usize = DICTIONARY_LEN_MAX + (DICTIONARY_LEN_MAX >> 8);
/// The most bytes that the long dictionaries of a file have together: what a process may have to hold for it.
pub(crate) const LONG_DICTIONARIES_MAX: usize = 16 << 20;
/// No item is for more signatures.
pub(crate) const SIGNATURES_MAX: usize = 64;

/// One item.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Where the dictionary is; [`Pointer::NONE`] for an item without one. Items that differ in
    /// level only have one place.
    pub(crate) pointer: Pointer,
    /// Length and hash of the dictionary's bytes, which are stored compressed.
    pub(crate) len: u32,
    pub(crate) hash: u128,
    /// Level of the pages that are up to date with this item; 0 if the item is free to be another one.
    level: u8,
    /// The item to use instead, 0 if this one is in use.
    successor: DictId,
    signatures: Vec<RowSignature>,
    /// Of a dictionary that came with the running transaction: it may not be in the file yet.
    pub(crate) fresh: Option<Arc<Dictionary>>,
}

impl Item {
    fn free() -> Item {
        Item {
            pointer: Pointer::NONE,
            len: 0,
            hash: 0,
            level: 0,
            successor: 0,
            signatures: Vec::new(),
            fresh: None,
        }
    }

    fn is_free(&self) -> bool {
        self.level == 0
    }

    fn has_dictionary(&self) -> bool {
        !self.pointer.is_none()
    }

    fn is_used(&self) -> bool {
        !self.is_free() && self.successor == 0
    }

    /// Also of one that is free, in a file from elsewhere.
    fn is_long(&self) -> bool {
        self.len as usize > SHORT_LEN_MAX
    }
}

/// The items of one commit, numbered from 1. Number 0 is no dictionary, and up to date at no level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// The commit after which nothing was left to maintain, and at which level; (0, 0) at first.
    pub(crate) maintained: (CommitNumber, Level),
    /// The item to use instead of number 0, if there is one.
    instead_of_none: DictId,
    items: Vec<Item>,
}

impl Catalog {
    /// The bytes on disk, as docs/format.md has them.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, OutOfMemory> {
        let signatures: usize = self.items.iter().map(|item| item.signatures.len()).sum();
        let mut out = litepack_io::memory::with_room(32 + self.items.len() * 64 + signatures * 4)?;
        put_varint(&mut out, self.maintained.0.0);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "levels are those of `LEVELS`"
        )]
        out.push(self.maintained.1 as u8);
        put_varint(&mut out, self.instead_of_none.into());
        put_varint(&mut out, self.items.len() as u64);
        for item in &self.items {
            out.extend(item.pointer.offset.0.to_le_bytes());
            out.extend(item.pointer.len.to_le_bytes());
            out.extend(item.pointer.sum.to_le_bytes());
            out.extend(item.len.to_le_bytes());
            out.extend(item.hash.to_le_bytes());
            out.push(item.level);
            put_varint(&mut out, item.successor.into());
            put_varint(&mut out, item.signatures.len() as u64);
            for row_signature in &item.signatures {
                out.extend(row_signature.to_le_bytes());
            }
        }
        Ok(out)
    }

    /// Reads a catalog; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Catalog> {
        let mut fields = Reader::new(bytes);
        let most = |value: u64, most: usize| usize::try_from(value).ok().filter(|n| *n <= most);
        let level = |level: u8| Some(level).filter(|level| Level::from(*level) <= *LEVELS.end());
        let maintained = (CommitNumber(fields.varint()?), level(fields.u8()?)?.into());
        let instead_of_none = most(fields.varint()?, DICTIONARIES_MAX)?;
        let count = most(fields.varint()?, DICTIONARIES_MAX)?;
        (instead_of_none <= count).then_some(())?;
        let mut items = Vec::new();
        for number in 1..=count {
            let (offset, len) = (FileOffset(fields.u64()?), fields.u32()?);
            let pointer = Pointer {
                offset,
                len,
                sum: fields.u64()?,
            };
            (len as usize <= DICTIONARY_STORED_MAX && pointer.is_plausible()).then_some(())?;
            let len = fields.u32()?;
            (len as usize <= DICTIONARY_LEN_MAX).then_some(())?;
            let hash = fields.u128()?;
            let level = level(fields.u8()?)?;
            let successor = most(fields.varint()?, count)?;
            // Successors come later or took a free number: a chain of them must still end.
            (successor != number).then_some(())?;
            let signatures = most(fields.varint()?, SIGNATURES_MAX)?;
            let signatures = (0..signatures).map(|_| fields.u32());
            items.push(Item {
                pointer,
                len,
                hash,
                level,
                successor: DictId::try_from(successor).ok()?,
                signatures: signatures.collect::<Option<_>>()?,
                fresh: None,
            });
        }
        let catalog = Catalog {
            maintained,
            instead_of_none: DictId::try_from(instead_of_none).ok()?,
            items,
        };
        (catalog.long_len() <= LONG_DICTIONARIES_MAX).then_some(catalog)
    }

    /// The bytes of all dictionaries, each once.
    pub(crate) fn dictionary_len(&self) -> u64 {
        let mut seen = BTreeSet::new();
        let items = self.items.iter().filter(|item| item.has_dictionary());
        let items = items.filter(|item| seen.insert(item.pointer.offset));
        items.map(|item| u64::from(item.len)).sum()
    }

    /// The bytes of all long dictionaries.
    pub(crate) fn long_len(&self) -> usize {
        let long = self.items.iter().filter(|item| item.is_long());
        long.map(|item| item.len as usize).sum()
    }

    fn item(&self, number: DictId) -> Option<&Item> {
        self.items.get(usize::from(number).checked_sub(1)?)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most `DICTIONARIES_MAX`"
    )]
    fn numbered(&self) -> impl DoubleEndedIterator<Item = (DictId, &Item)> {
        let items = self.items.iter().enumerate();
        items
            .filter(|(_, item)| !item.is_free())
            .map(|(index, item)| (index as DictId + 1, item))
    }

    /// The item to use for pages that have `number`: the end of its chain of successors.
    pub(crate) fn current(&self, number: DictId) -> DictId {
        let mut number = number;
        // A hostile file's chain may be a ring.
        for _ in 0..=self.items.len() {
            number = match self.item(number) {
                None => self.instead_of_none,
                Some(item) if item.successor != 0 => item.successor,
                Some(_) => return number,
            };
            if number == 0 {
                break;
            }
        }
        0
    }

    /// Whether an item has a long dictionary.
    pub(crate) fn is_long(&self, number: DictId) -> bool {
        self.item(number).is_some_and(Item::is_long)
    }

    /// The item that maintenance keeps pages with that have `number`: [`Catalog::current`], but one with a long
    /// dictionary stays itself.
    pub(crate) fn lasting(&self, number: DictId) -> DictId {
        match self.is_long(number) {
            true => number,
            false => self.current(number),
        }
    }

    /// The number for a page of this row signature that was stored with `former` before.
    pub(crate) fn number_for(&self, row_signature: Option<RowSignature>, former: DictId) -> DictId {
        let former = self.current(former);
        let fits = |item: &Item| {
            row_signature.is_some_and(|row_signature| item.signatures.contains(&row_signature))
        };
        if self.item(former).is_some_and(fits) {
            return former;
        }
        let mut used = self.numbered().filter(|(_, item)| item.is_used());
        used.find(|(_, item)| fits(item))
            .map(|(number, _)| number)
            .or((former != self.current(0)).then_some(former))
            .unwrap_or_else(|| self.default_number())
    }

    /// The number for pages of unknown row signature: the newest item that is for no pages in particular.
    pub(crate) fn default_number(&self) -> DictId {
        let mut newest = self.numbered().rev().filter(|(_, item)| item.is_used());
        newest
            .find(|(_, item)| item.signatures.is_empty() && item.has_dictionary())
            .map_or_else(|| self.current(0), |(number, _)| number)
    }

    /// The level from which on pages with an item are up to date.
    pub(crate) fn level(&self, number: DictId) -> Level {
        self.item(number).map_or(0, |item| item.level.into())
    }

    /// Length of all dictionaries that are given to pages.
    pub(crate) fn used_len(&self) -> u64 {
        let used = self.items.iter().filter(|item| item.is_used());
        used.map(|item| u64::from(item.len)).sum()
    }

    /// Whether any item is for pages of certain signatures.
    pub(crate) fn has_signatures(&self) -> bool {
        let mut used = self.items.iter().filter(|item| item.is_used());
        used.any(|item| !item.signatures.is_empty())
    }

    /// Numbers of the items that are given to pages, by ordinary writes or by maintenance.
    pub(crate) fn used(&self) -> impl Iterator<Item = DictId> {
        let used = self.numbered();
        let used = used.filter(|(_, item)| item.is_used() || item.is_long());
        used.map(|(number, _)| number)
    }

    /// Whether a unit stored so is decoded with a dictionary.
    pub(crate) fn is_needed_by(&self, storage: Encoding) -> bool {
        let item = self.item(storage.dict);
        storage.codec != Codec::Raw && item.is_some_and(|item| !item.pointer.is_none())
    }

    /// The length of an item's dictionary.
    pub(crate) fn len(&self, number: DictId) -> usize {
        self.item(number).map_or(0, |item| item.len as usize)
    }

    /// The transaction that brought dictionaries has written them: they are found in the file from now on.
    pub(crate) fn is_written(&mut self) {
        for item in &mut self.items {
            item.fresh = None;
        }
    }

    /// The signatures of the pages that an item is for.
    pub(crate) fn signatures(&self, number: DictId) -> &[RowSignature] {
        self.item(number).map_or(&[], |item| &item.signatures)
    }

    /// The highest level that pages were recompressed at.
    pub(crate) fn maintained_level(&self) -> Level {
        let used = self.items.iter().filter(|item| item.is_used());
        let highest = used.map(|item| Level::from(item.level)).max();
        highest.unwrap_or(0).max(self.maintained.1)
    }

    /// Numbers of all items.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = DictId> {
        self.numbered().map(|(number, _)| number)
    }

    /// Places of all dictionaries, each once.
    pub(crate) fn pointers(&self) -> impl Iterator<Item = Pointer> {
        let mut seen = BTreeSet::new();
        let places = self.items.iter().map(|item| item.pointer);
        places.filter(move |place| !place.is_none() && seen.insert(place.offset))
    }

    /// Adds an item with a dictionary that lives at `pointer`, or with none, and returns its number.
    /// `None` if there are too many.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no dictionary has 4 GiB; the level is one of `LEVELS`"
    )]
    pub(crate) fn add(
        &mut self,
        dictionary: Option<(Arc<Dictionary>, Pointer)>,
        level: Level,
        mut signatures: Vec<RowSignature>,
    ) -> Option<DictId> {
        signatures.truncate(SIGNATURES_MAX);
        let (dictionary, pointer) = dictionary.unzip();
        let (len, hash) = dictionary.as_ref().map_or((0, 0), |dictionary| {
            (dictionary.bytes().len() as u32, dictionary.hash())
        });
        self.add_item(Item {
            pointer: pointer.unwrap_or(Pointer::NONE),
            len,
            hash,
            level: level.clamp(*LEVELS.start(), *LEVELS.end()) as u8,
            successor: 0,
            signatures,
            fresh: dictionary,
        })
    }

    /// Adds an item that differs from `number` in its level only, and returns its number. `None` if there
    /// are too many.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "levels are those of `LEVELS`"
    )]
    pub(crate) fn add_at_level(&mut self, number: DictId, level: Level) -> Option<DictId> {
        match self.item(number) {
            None => self.add(None, level, Vec::new()),
            Some(item) => self.add_item(Item {
                level: level as u8,
                ..item.clone()
            }),
        }
    }

    fn add_item(&mut self, item: Item) -> Option<DictId> {
        let mut numbered = (1..).zip(&mut self.items);
        if let Some((number, free)) = numbered.find(|(_, item)| item.is_free()) {
            *free = item;
            return Some(number);
        }
        if self.items.len() >= DICTIONARIES_MAX {
            return None;
        }
        self.items.push(item);
        DictId::try_from(self.items.len()).ok()
    }

    /// From now on `successor` is used instead of `number`.
    pub(crate) fn replace(&mut self, number: DictId, successor: DictId) {
        let Some(index) = usize::from(number).checked_sub(1) else {
            self.instead_of_none = successor;
            return;
        };
        // No item with that number: it is damage to be found when it is needed.
        if let Some(item) = self.items.get_mut(index) {
            item.successor = successor;
        }
    }

    /// Frees the items that are not in `used`, unless one of those needs them as its successor, and returns
    /// the places of dictionaries that nothing refers to now.
    pub(crate) fn keep(&mut self, mut used: BTreeSet<DictId>) -> Vec<Pointer> {
        used.insert(0);
        let kept: Vec<DictId> = used.iter().copied().collect();
        for number in kept {
            // Dictionaries between an item and the end of its chain are not needed.
            let current = self.current(number);
            used.insert(current);
            if current != number {
                self.replace(number, current);
            }
        }
        let mut free = Vec::new();
        for (number, item) in (1..).zip(&mut self.items) {
            if !item.is_free() && !used.contains(&number) {
                free.push(item.pointer);
                *item = Item::free();
            }
        }
        let places: Vec<_> = self.items.iter().map(|item| item.pointer.offset).collect();
        free.retain(|place| !place.is_none() && !places.contains(&place.offset));
        free.sort_by_key(|place| place.offset);
        free.dedup();
        free
    }

    /// A dictionary was copied elsewhere.
    pub(crate) fn moved(&mut self, from: Pointer, to: Pointer) {
        for item in &mut self.items {
            if item.pointer == from {
                item.pointer = to;
            }
        }
    }

    /// The item with this number.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn used_item(&self, number: DictId) -> Result<&Item> {
        let item = self.item(number).filter(|item| !item.is_free());
        item.ok_or_else(|| {
            Error::damaged(
                format!("dictionary {number}"),
                FileOffset::START,
                "the catalog has no such dictionary",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        for (byte, signatures) in [(1, vec![10, 11]), (2, vec![20, 11]), (3, vec![])] {
            let pointer = Pointer {
                offset: FileOffset(4096 * u64::from(byte)),
                len: 100,
                sum: 7,
            };
            let dictionary = Dictionary::shared(vec![byte; 100]);
            let number = catalog.add(Some((dictionary, pointer)), 3, signatures);
            assert_eq!(number, Some(byte.into()));
        }
        catalog
    }

    /// A long dictionary is not given to new pages, nor to pages that had it: those get its successor. Maintenance keeps
    /// it, and it goes with the last page that needs it.
    #[test]
    fn a_long_dictionary_leaves_ordinary_writes_to_its_successor() {
        let mut catalog = catalog();
        let pointer = Pointer {
            offset: FileOffset(40_960),
            len: 100,
            sum: 7,
        };
        let dictionary = Dictionary::shared(vec![9; SHORT_LEN_MAX + 1]);
        let long = catalog.add(Some((dictionary, pointer)), 19, vec![10]);
        let long = long.unwrap();
        catalog.replace(long, 1);
        assert_eq!(catalog.current(long), 1);
        assert_eq!(catalog.lasting(long), long);
        assert_eq!(catalog.lasting(2), 2);
        assert_eq!(catalog.number_for(Some(10), 0), 1);
        assert_eq!(catalog.number_for(Some(10), long), 1);
        assert_eq!(catalog.number_for(None, long), 1);
        assert!(catalog.used().any(|number| number == long));
        let mut again = Catalog::decode(&catalog.encode().unwrap()).unwrap();
        assert_eq!(again.lasting(long), long);
        assert_eq!(again.keep(BTreeSet::from([long])).len(), 2);
        assert_eq!(again.current(long), 1, "its successor is needed");
        assert_eq!(again.keep(BTreeSet::from([1])), [pointer]);
    }

    /// A few bytes claim dictionaries that decompress to gigabytes.
    #[test]
    fn long_dictionaries_have_a_limit_together() {
        let mut catalog = catalog();
        for at in 0..=LONG_DICTIONARIES_MAX / DICTIONARY_LEN_MAX {
            assert_eq!(catalog.long_len(), at * DICTIONARY_LEN_MAX);
            let bytes = catalog.encode().unwrap();
            assert!(Catalog::decode(&bytes).is_some());
            let mut item = catalog.items[0].clone();
            item.len = DICTIONARY_LEN_MAX as u32;
            catalog.items.push(item);
        }
        assert!(Catalog::decode(&catalog.encode().unwrap()).is_none());
        catalog.items.pop();
        catalog.items[0].len = DICTIONARY_LEN_MAX as u32 + 1;
        catalog.items.pop();
        assert!(Catalog::decode(&catalog.encode().unwrap()).is_none());
    }

    #[test]
    fn pages_go_by_their_row_signature_then_by_what_they_had() {
        let catalog = catalog();
        assert_eq!(catalog.number_for(Some(10), 0), 1);
        assert_eq!(catalog.number_for(Some(20), 1), 2);
        assert_eq!(catalog.number_for(Some(11), 0), 1);
        assert_eq!(catalog.number_for(Some(11), 2), 2);
        assert_eq!(catalog.number_for(Some(99), 2), 2);
        assert_eq!(catalog.number_for(None, 1), 1);
        assert_eq!(catalog.number_for(Some(99), 0), 3);
        assert_eq!(catalog.number_for(None, 0), 3);
        assert_eq!(Catalog::default().number_for(Some(1), 0), 0);
    }

    #[test]
    fn an_item_that_was_replaced_is_given_to_no_page() {
        let mut catalog = catalog();
        let newer = catalog.add(None, 19, vec![10]).unwrap();
        catalog.replace(1, newer);
        assert_eq!(catalog.current(1), newer);
        assert_eq!(catalog.number_for(Some(10), 0), newer);
        assert_eq!(catalog.number_for(None, 1), newer);
        assert_eq!(catalog.level(newer), 19);
        let bare = catalog.add(None, 19, vec![]).unwrap();
        catalog.replace(0, bare);
        assert_eq!(catalog.current(0), bare);
        // A page that had no dictionary gets the one for pages of no signature in particular.
        for former in [0, bare] {
            assert_eq!(catalog.number_for(Some(99), former), 3);
            assert_eq!(catalog.number_for(None, former), 3);
        }
        let read = Catalog::decode(&catalog.encode().unwrap()).unwrap();
        assert_eq!(read.encode(), catalog.encode());
        assert_eq!(read.current(1), newer);
        assert_eq!(read.pointers().count(), 3);
    }

    #[test]
    fn what_no_page_has_is_dropped_and_its_place_given_back_once() {
        let mut catalog = catalog();
        // 1 is stored again at another level, twice; pages still have the first.
        let four = catalog.add_at_level(1, 9).unwrap();
        catalog.replace(1, four);
        let five = catalog.add_at_level(four, 19).unwrap();
        catalog.replace(four, five);
        let dropped = catalog.keep(BTreeSet::from([1]));
        assert_eq!(dropped.len(), 2, "those of 2 and 3: {dropped:?}");
        assert_eq!(catalog.current(1), five);
        assert_eq!(catalog.numbers().collect::<Vec<_>>(), [1, five]);
        assert_eq!(catalog.keep(BTreeSet::from([five])), []);
        assert_eq!(catalog.pointers().count(), 1);
        // Free numbers are used again.
        assert_eq!(catalog.add(None, 3, vec![]), Some(1));
        let places = catalog.keep(BTreeSet::new());
        assert_eq!((places.len(), catalog.numbers().count()), (1, 0));
    }

    #[test]
    fn a_ring_of_successors_is_no_endless_loop() {
        let mut catalog = catalog();
        catalog.replace(1, 2);
        catalog.replace(2, 1);
        assert_eq!(catalog.current(1), 0);
        assert_eq!(catalog.number_for(Some(10), 1), 3);
    }
}
