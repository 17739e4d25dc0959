//! Storing units by reference: as slices of items, and as differences to them.
//!
//! Who looks for what units have in common is not the store's matter, and need not be right: each reference is compared
//! byte for byte, as it will be read, before it takes the place of what the unit was stored as. Number and hash are not
//! believed. So a wrong one costs time, and no page.
//!
//! Extents written here are in the file when a call returns, so that the next can read them and give them back.

use litepack_codec::{Codec, DictId, Encoding};
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::basis::{BASES_MAX, Bases, Basis, ITEM_UNITS, Item, ItemNumber};
use crate::format::guard::Voucher;
use crate::format::layout::UNIT_MAX;
use crate::format::leaf::{Entry, Extent};
use crate::format::offset::FileOffset;
use crate::format::unit::Unit;
use crate::medium::source::Source;
use crate::space::allocate::ExtentKind;
use crate::space::erase::Erase;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;

/// How a unit is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Not at all: it is zero.
    Zero,
    /// As an extent of its own.
    Own {
        /// Its length in bytes.
        len: u32,
    },
    /// As a slice of an item.
    Alias {
        /// The item.
        item: ItemNumber,
        /// Which of its units.
        slice: u8,
    },
    /// As the difference to items.
    Difference {
        /// Length of the difference in bytes.
        len: u32,
        /// The items, in order.
        bases: Vec<ItemNumber>,
    },
    /// As the difference to an extent that no other unit has.
    Private {
        /// Length of the difference in bytes.
        len: u32,
        /// Length of that extent.
        former: u32,
    },
}

impl<D: Storage> Store<D> {
    /// Whether references may be made. They keep content after the unit that it came from has changed, so none is made
    /// while deleted content is to be erased with the commit.
    pub fn may_refer(&self) -> bool {
        self.erase() != Erase::WithCommit
    }

    /// How a unit is stored, with the changes of the running transaction. If it is buffered, what is buffered is written.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn reference(&mut self, unit: Unit) -> Result<Reference> {
        if !self.in_transaction() {
            let entry = self.entry(unit)?;
            return Ok(described(&entry));
        }
        self.step(|transaction| {
            transaction.write_buffered(unit)?;
            let entry = transaction.entry(unit)?;
            Ok(described(&entry))
        })
    }

    /// The bytes of the extent that a unit is stored in, or its share of the item that it is a slice of: what others cost
    /// that are like it. 0 for a unit that is zero or a difference. If it is buffered, what is buffered is written.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn extent_len(&mut self, unit: Unit) -> Result<u32> {
        self.step(|transaction| {
            transaction.write_buffered(unit)?;
            let entry = transaction.entry(unit)?;
            match entry.basis {
                Basis::Alone | Basis::Shared { .. } => Ok(entry.len),
                Basis::Slice(item, _) => {
                    let item = transaction.item(item)?;
                    Ok(item.map_or(0, |item| item.extent.len.div_ceil(item.units.max(1).into())))
                }
                Basis::Items(_) | Basis::Former(_) => Ok(0),
            }
        })
    }

    /// Makes an item of a unit's own extent, and the unit a slice of it; no byte moves. Returns the item, also of a unit
    /// that is one already. `None` if the unit is zero, the database's first, a difference, or one of several in an item;
    /// or if no references may be made. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn share(&mut self, unit: Unit) -> Result<Option<ItemNumber>> {
        self.step(|transaction| transaction.share(unit))
    }

    /// Stores one, two or four units together as an item, of at most 64 KiB: with this dictionary, at the writing level.
    /// `None` for any other length, or if no references may be made. If no unit names it when the transaction commits,
    /// it is dropped. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn add_item(&mut self, pages: &[u8], dictionary: DictId) -> Result<Option<ItemNumber>> {
        self.step(|transaction| transaction.add_item(pages, dictionary))
    }

    /// Writes a whole unit that is the same as a slice of an item, which it is stored as from then on. False, and nothing
    /// is changed, if there is no such slice or it has other bytes; also for the database's first unit, or if no
    /// references may be made. A database that ends before the unit ends with it then. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn write_alias(
        &mut self,
        unit: Unit,
        page: &[u8],
        item: ItemNumber,
        slice: u8,
    ) -> Result<bool> {
        self.step(|transaction| transaction.write_alias(unit, page, item, slice))
    }

    /// Writes a whole unit as its difference to items: `stored` is what [`litepack_codec::DifferenceEncoder`] makes of it
    /// with their decoded units, one after another, as prefix. `dictionary` is what the unit would be stored with
    /// otherwise. False, and nothing is changed, if an item is missing or named twice, there are none or more than three,
    /// or this does not decode to `page`; also for the database's first unit, or if no references may be made. A database
    /// that ends before the unit ends with it then. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn write_difference(
        &mut self,
        unit: Unit,
        page: &[u8],
        dictionary: DictId,
        stored: &[u8],
        items: &[ItemNumber],
    ) -> Result<bool> {
        self.step(|transaction| transaction.write_difference(unit, page, dictionary, stored, items))
    }

    /// The decoded units of an item, one after another, instead of what `pages` had. False if there is no such item.
    ///
    /// # Errors
    /// When it is damaged. A running transaction is rolled back.
    pub fn read_item(&mut self, item: ItemNumber, pages: &mut Vec<u8>) -> Result<bool> {
        pages.clear();
        let read = |transaction: &mut Transaction<'_, D>| {
            let found = transaction.item(item)?;
            let Some(found) = found.filter(|found| transaction.fits(found)) else {
                return Ok(false);
            };
            transaction.append_item(&found, pages)?;
            Ok(true)
        };
        if self.in_transaction() {
            return self.step(read);
        }
        self.committed(|snapshot| snapshot.read_item(item, pages))
    }
}

fn described(entry: &Entry) -> Reference {
    let len = entry.len;
    match entry.basis {
        Basis::Slice(item, slice) => Reference::Alias { item, slice },
        Basis::Items(bases) => Reference::Difference {
            len,
            bases: bases.as_slice().to_vec(),
        },
        Basis::Former(former) => Reference::Private {
            len,
            former: former.len,
        },
        Basis::Alone | Basis::Shared { .. } if len == 0 => Reference::Zero,
        Basis::Alone | Basis::Shared { .. } => Reference::Own { len },
    }
}

impl<D: Storage> Transaction<'_, D> {
    /// Whether units may be stored by reference, and this one.
    pub(super) fn may_refer(&self, unit: Unit) -> bool {
        // The first page is read before anything else is known, and alone.
        unit != Unit::FIRST && self.store.may_refer()
    }

    /// Whether this may be the content of a whole unit: bytes past the end of the database are zero.
    pub(super) fn is_unit(&self, unit: Unit, page: &[u8]) -> bool {
        let image = self.image();
        let within = image.size.saturating_sub(unit.start(image.unit_size));
        let past = usize::try_from(within).ok().filter(|within| *within > 0);
        let past = past.and_then(|within| page.get(within..));
        page.len() == image.unit_size as usize
            && past.is_none_or(|past| past.iter().all(|byte| *byte == 0))
    }

    /// Writes what is buffered if this unit is among it.
    pub(super) fn write_buffered(&mut self, unit: Unit) -> Result<()> {
        if self.store.writer.buffer.get(unit).is_some() {
            self.write_batch()?;
            self.write_queue()?;
        }
        Ok(())
    }

    /// Whether units are small enough for as many as the item has.
    pub(crate) fn fits(&self, item: &Item) -> bool {
        item.decoded_len(self.image().unit_size).is_some()
    }

    /// An item that one more entry may name; `None` if there is none of this number that could be named.
    fn nameable(&self, number: ItemNumber) -> Result<Option<Item>> {
        let item = self.item(number)?;
        Ok(item.filter(|item| item.users < u32::MAX && self.fits(item)))
    }

    /// Appends an item's decoded units.
    pub(crate) fn append_item(&mut self, item: &Item, pages: &mut Vec<u8>) -> Result<()> {
        let (reader, image) = (self.store.snapshot.pages(), &self.changes.image);
        reader.append_units(image, &Source::of(item, 0), pages)
    }

    fn share(&mut self, unit: Unit) -> Result<Option<ItemNumber>> {
        self.write_buffered(unit)?;
        let entry = self.entry(unit)?;
        if !self.may_refer(unit) {
            return Ok(None);
        }
        match entry.basis {
            Basis::Slice(number, 0) => {
                let item = self.item(number)?;
                return Ok(item.filter(|item| item.units == 1).map(|_| number));
            }
            Basis::Alone if !entry.is_zero() => {}
            _ => return Ok(None),
        }
        let extent = entry.extent();
        let item = Item {
            extent,
            units: 1,
            users: 1,
        };
        let Some(number) = self.new_item(item)? else {
            return Ok(None);
        };
        self.note_order(unit)?;
        // The extent has another owner, and that is all: nothing is taken or given back.
        let medium = self.store.snapshot.medium();
        let map = &mut self.changes.image.map;
        map.set(unit, Entry::slice(number, 0), medium)?;
        Ok(Some(number))
    }

    /// The contrary of [`Store::share`]: the unit that alone names an item of one unit has its extent as its own again.
    /// False if there is no such item.
    pub(crate) fn unshare(&mut self, unit: Unit, number: ItemNumber) -> Result<bool> {
        let item = self.item(number)?;
        let Some(item) = item.filter(|item| (item.units, item.users) == (1, 1)) else {
            return Ok(false);
        };
        self.forget_item(number)?;
        let medium = self.store.snapshot.medium();
        let map = &mut self.changes.image.map;
        map.set(unit, item.extent.entry(), medium)?;
        Ok(true)
    }

    pub(super) fn add_item(
        &mut self,
        pages: &[u8],
        dictionary: DictId,
    ) -> Result<Option<ItemNumber>> {
        let unit_size = self.image().unit_size as usize;
        let units = u8::try_from(pages.len() / unit_size).unwrap_or(0);
        let is_whole = pages.len() == usize::from(units) * unit_size;
        let is_item = is_whole && ITEM_UNITS.contains(&units) && pages.len() <= UNIT_MAX as usize;
        if !is_item || !self.store.may_refer() {
            return Ok(None);
        }
        let extent = self.store_item(pages, units, dictionary)?;
        let item = Item {
            extent,
            units,
            users: 0,
        };
        let added = self.add_stored(item)?;
        if added.is_none() {
            self.release_content(extent.offset, extent.len.into())?;
        }
        Ok(added)
    }

    /// Adds an item whose extent is in the file, until the commit or until it is named. `None` if all numbers are in use.
    pub(super) fn add_stored(&mut self, item: Item) -> Result<Option<ItemNumber>> {
        let added = self.new_item(item)?;
        if let Some(number) = added {
            self.changes.stored.add_bytes(item.extent.len);
            self.changes.items.wait_for_name(number);
        }
        Ok(added)
    }

    /// Stores an item again, with another dictionary or at another level; the same units name it.
    pub(crate) fn replace_item(
        &mut self,
        number: ItemNumber,
        former: &Item,
        pages: &[u8],
        dictionary: DictId,
    ) -> Result<()> {
        let extent = self.store_item(pages, former.units, dictionary)?;
        self.changes.stored.add_bytes(extent.len);
        self.changes.stored.remove_bytes(former.extent.len.into());
        let item = Item { extent, ..*former };
        self.set_item(number, Some(item))?;
        self.release_content(former.extent.offset, former.extent.len.into())
    }

    /// Encodes an item and writes it to a place of its own.
    fn store_item(&mut self, pages: &[u8], units: u8, dictionary: DictId) -> Result<Extent> {
        let choice = self.choice(self.image().catalog.lasting(dictionary))?;
        let (level, columnar) = (self.level(), self.store.writer.columnar);
        let encoder = self.store.snapshot.pages().tools.encoder(level, columnar);
        let mut stored = Vec::new();
        let dictionary = choice.dictionary.as_deref();
        let codec = encoder.encode_item(pages, units.into(), dictionary, &mut stored)?;
        let voucher = self.sealer()?.unit(codec, &mut stored, 0)?;
        let offset = self.place_unit(&stored)?;
        let storage = choice.encoding(codec, level);
        Ok(self.item_extent(offset, &stored, voucher, storage, units))
    }

    /// The extent of a new item of so many units.
    pub(super) fn item_extent(
        &self,
        offset: FileOffset,
        stored: &[u8],
        voucher: Voucher,
        storage: Encoding,
        units: u8,
    ) -> Extent {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is stored is no longer than an item"
        )]
        let extent = Extent {
            offset,
            len: stored.len() as u32,
            sum: voucher.sum,
            nonce: voucher.nonce,
            storage,
        };
        self.forget_place(&extent, units);
        extent
    }

    /// An item comes to a place: what was once stored there, with the same checksum, is not taken for it.
    pub(super) fn forget_place(&self, extent: &Extent, units: u8) {
        let item = Item {
            extent: *extent,
            units,
            users: 0,
        };
        let unit_size = self.image().unit_size as usize;
        for slice in 0..units {
            let cache = &self.medium().cache;
            cache.forget(&Source::of(&item, slice), unit_size);
        }
    }

    /// Writes stored bytes to a place of their own.
    fn place_unit(&mut self, stored: &[u8]) -> Result<FileOffset> {
        let lens = [stored.len()].into_iter();
        let offsets = self.changes.space.allocate(ExtentKind::Units, lens)?;
        let offset = offsets.first().copied().unwrap_or_default();
        self.queue(offset, stored)?;
        self.write_queue()?;
        Ok(offset)
    }

    fn write_alias(
        &mut self,
        unit: Unit,
        page: &[u8],
        number: ItemNumber,
        slice: u8,
    ) -> Result<bool> {
        if !self.may_refer(unit) || !self.is_unit(unit, page) {
            return Ok(false);
        }
        self.write_buffered(unit)?;
        let item = self.nameable(number)?;
        let Some(item) = item.filter(|item| slice < item.units) else {
            return Ok(false);
        };
        let mut pages = Vec::new();
        self.append_item(&item, &mut pages)?;
        if pages.chunks(page.len()).nth(slice.into()) != Some(page) {
            return Ok(false);
        }
        self.refer(unit, Entry::slice(number, slice), page)?;
        Ok(true)
    }

    fn write_difference(
        &mut self,
        unit: Unit,
        page: &[u8],
        dictionary: DictId,
        stored: &[u8],
        items: &[ItemNumber],
    ) -> Result<bool> {
        let is_whole = self.is_unit(unit, page);
        let is_shorter = !stored.is_empty() && stored.len() < page.len();
        let bases = Bases::new(items).filter(|_| is_whole && is_shorter);
        let Some(bases) = bases.filter(|_| self.may_refer(unit)) else {
            return Ok(false);
        };
        self.write_buffered(unit)?;
        let mut prefix = litepack_io::memory::with_room(BASES_MAX * page.len())?;
        for number in items {
            let Some(item) = self.nameable(*number)? else {
                return Ok(false);
            };
            self.append_item(&item, &mut prefix)?;
        }
        let mut found = litepack_io::memory::zeros(page.len())?;
        let decoder = &mut self.store.snapshot.pages().tools.decoder;
        let decoded = decoder.decode_difference(stored, &prefix, &mut found);
        if decoded.is_err() || found != page {
            return Ok(false);
        }
        let choice = self.choice(self.image().catalog.lasting(dictionary))?;
        let (stored, voucher) = self.sealer()?.unit_of(Codec::Zstd, stored)?;
        let offset = self.place_unit(&stored)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is shorter than a unit")]
        let entry = Entry {
            offset,
            len: stored.len() as u32,
            sum: voucher.sum,
            nonce: voucher.nonce,
            storage: choice.encoding(Codec::Zstd, self.level()),
            basis: Basis::Items(bases),
        };
        self.refer(unit, entry, page)?;
        Ok(true)
    }

    /// Puts an entry with a reference into the map.
    pub(super) fn refer(&mut self, unit: Unit, entry: Entry, page: &[u8]) -> Result<()> {
        self.note_order(unit)?;
        self.set_page(unit, entry, page)?;
        if entry.len > 0 {
            // Another page was once stored there, and may have the same checksums: it is not taken for this one.
            let source = self.image().source(unit, &entry, self.medium())?;
            self.medium().cache.forget(&source, page.len());
        }
        let image = &mut self.changes.image;
        if unit.start(image.unit_size) >= image.size {
            image.size = Unit(unit.0 + 1).start(image.unit_size);
        }
        Ok(())
    }
}
