//! Writing pages: they are collected in memory, then encoded and placed in batches.
//!
//! Memory is bounded: at [`BUFFER_MAX`] bytes of pages a batch is encoded and written to free space
//! (where no commit knows of it yet), and changed map leaves beyond [`LEAVES_MAX`] are written too. Where memory is short
//! both are less (`litepack_io::fixed`).

use litepack_btree::page_size;
use litepack_codec::{DictId, row_signature};
use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::basis::Basis;
use crate::format::catalog::Catalog;
use crate::format::layout::unit_size_for;
use crate::format::leaf::Entry;
use crate::format::node::TreeKind;
use crate::format::offset::FileOffset;
use crate::format::unit::Unit;
use crate::medium::dictionaries::Choice;
use crate::snapshot::page_map::Gone;
use crate::space::allocate::ExtentKind;
use crate::space::erase::{Erase, Eraser};
use crate::space::free_space::Space;
use crate::transaction::changes::Transaction;
use crate::transaction::write_buffer::Recipe;
use litepack_io::cache::CacheReservation;
use litepack_io::fixed;

/// Bytes of changed pages kept in memory before a batch is written.
const BUFFER_MAX: usize = 8 << 20;
/// Bytes of stored pages that are worth a write while workers encode the next.
const WRITTEN_TOGETHER: usize = 16 << 10;
/// A transaction with more changed pages reserves memory of the cache's budget from then on, for them, what they were
/// before, and what encodes them.
const RESERVATION_MIN: usize = 1 << 20;
/// How much.
const RESERVATION: u64 = 20 << 20;
/// Changed map leaves kept in memory before they are written.
pub(crate) const LEAVES_MAX: usize = 2048;

/// Gives back what was cut off a tree.
pub(super) fn release_gone(gone: &Gone, eraser: &mut Eraser, space: &mut Space) -> Result<()> {
    match gone {
        Gone::Node(pointer) => space.release(pointer.offset, pointer.len.into()),
        Gone::Entry(entry) => entry.extents().try_for_each(|extent| {
            eraser.add(extent.offset, extent.len.into())?;
            space.release(extent.offset, extent.len.into())
        }),
    }
}

impl<D: Storage> Transaction<'_, D> {
    /// Writes `bytes` at `offset` of the database.
    ///
    /// # Errors
    /// When there is no memory or space for them, or the file cannot be read or written.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_as(offset, bytes, None)
    }

    /// As [`Transaction::write`], for callers that already chose the dictionary. The store trains none from then on.
    ///
    /// # Errors
    /// As [`Transaction::write`].
    pub fn write_with(&mut self, offset: u64, bytes: &[u8], dictionary: DictId) -> Result<()> {
        self.store.writer.training_due_at = u64::MAX;
        self.write_as(offset, bytes, Some(dictionary))
    }

    fn write_as(&mut self, offset: u64, bytes: &[u8], dictionary: Option<DictId>) -> Result<()> {
        let stop = offset
            .checked_add(bytes.len() as u64)
            .filter(|stop| *stop <= i64::MAX as u64);
        let stop = stop.ok_or(Error::Limit("databases end at 2^63 bytes"))?;
        let (image, buffer) = (&mut self.changes.image, &self.store.writer.buffer);
        if image.size == 0 && buffer.is_empty() && !image.map.is_changed() {
            // SQLite writes whole pages: the first write of an empty database tells their size.
            let len = u32::try_from(bytes.len()).unwrap_or(0);
            if len.is_power_of_two() && unit_size_for(len) >= len {
                image.unit_size = unit_size_for(len);
            }
        }
        if offset == 0
            && let Some(page_size) = page_size(bytes)
        {
            self.changes.page_size = Some(page_size);
            self.changes.image.page_size = page_size;
        }
        let unit_size = self.changes.image.unit_size;
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let unit = Unit::holding(at, unit_size);
            #[expect(clippy::cast_possible_truncation, reason = "it is below `unit_size`")]
            let within = (at % u64::from(unit_size)) as usize;
            let len = (unit_size as usize - within).min(bytes.len() - done);
            #[expect(clippy::indexing_slicing, reason = "`len` is at most what is left")]
            self.buffer(unit, within, &bytes[done..done + len], dictionary)?;
            done += len;
        }
        let image = &mut self.changes.image;
        image.size = image.size.max(stop);
        self.relieve()
    }

    /// Sets the length of the database.
    ///
    /// # Errors
    /// As [`Transaction::write`].
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        let unit_size = u64::from(self.changes.image.unit_size);
        if size < self.changes.image.size {
            self.changes.shrunk = true;
            let kept = size.div_ceil(unit_size);
            if !size.is_multiple_of(unit_size) {
                // The bytes cut off must read as zeros if the database grows again.
                let last = Unit(kept - 1);
                let mut page = self.unit_before_change(last)?;
                #[expect(
                    clippy::indexing_slicing,
                    clippy::cast_possible_truncation,
                    reason = "it is below `unit_size`, the length of `page`"
                )]
                page[(size % unit_size) as usize..].fill(0);
                self.buffer(last, 0, &page, None)?;
            }
            self.store.writer.buffer.truncate(kept);
            self.cut_map(kept)?;
        }
        self.changes.image.size = size;
        Ok(())
    }

    /// Cuts the map to this many units.
    fn cut_map(&mut self, units: u64) -> Result<()> {
        self.drop_references(units)?;
        let (eraser, medium) = (&mut self.store.writer.eraser, self.store.snapshot.medium());
        let changes = &mut *self.changes;
        let (map, space, stored) = (
            &mut changes.image.map,
            &mut changes.space,
            &mut changes.stored,
        );
        map.truncate(units, medium, &mut |gone| {
            if let Gone::Entry(entry) = &gone {
                stored.remove(entry);
            }
            release_gone(&gone, eraser, space)
        })
    }

    /// Makes the units from this one on zero that name items: what they name goes with the last name.
    fn drop_references(&mut self, units: u64) -> Result<()> {
        if self.image().items.is_empty() {
            return Ok(());
        }
        // A leaf has more than a byte in the file.
        let mut left = self.medium().disk.len()?;
        let mut next = Unit(units).leaf();
        while let Some(leaf) = self.image().map.next_or_changed(0, next, self.medium())? {
            next = leaf + 1;
            litepack_io::interrupt::check()?;
            left = left.checked_sub(1).ok_or_else(|| {
                let why = "more nodes are named than the file has room for";
                Error::damaged("page map", FileOffset::START, why)
            })?;
            for unit in Unit::first_in(leaf).up_to(Unit::first_in(next)) {
                if unit.0 >= units {
                    let entry = self.image().map.get(unit, self.medium())?;
                    if !entry.basis.items().is_empty() {
                        self.set_entry(unit, Entry::ZERO)?;
                    }
                }
            }
            self.write_many_leaves()?;
        }
        Ok(())
    }

    /// Writes a batch if the buffer is full, else has workers begin to encode it.
    pub(super) fn relieve(&mut self) -> Result<()> {
        let writer = &mut self.store.writer;
        if writer.reservation.is_none() && writer.buffer.bytes() > RESERVATION_MIN {
            let cache = &self.store.snapshot.medium().cache.cache;
            writer.reservation = Some(CacheReservation::new(cache, RESERVATION));
        }
        if writer.buffer.bytes() >= fixed::part(BUFFER_MAX) {
            self.write_batch()?;
            self.write_queue()?;
        }
        self.encode_early()
    }

    /// Has workers begin to encode what is buffered, once that is much. Not if a dictionary is about to be
    /// trained: it takes all pages there are and helps them all.
    fn encode_early(&mut self) -> Result<()> {
        let limit = self.store.snapshot.pages().workers_max();
        if limit == 0 {
            return Ok(());
        }
        if self.store.writer.buffer.is_worth_comparing() {
            self.compare_buffered()?;
        }
        let is_worth_it = self.store.writer.buffer.is_worth_beginning();
        if is_worth_it && self.training_due().is_none() {
            let recipe = self.recipe()?;
            let workers = &mut self.store.snapshot.pages().workers;
            self.store.writer.buffer.begin(&recipe, limit, workers)?;
        }
        Ok(())
    }

    /// Puts `bytes` into the buffered unit, `within` it.
    pub(super) fn buffer(
        &mut self,
        unit: Unit,
        within: usize,
        bytes: &[u8],
        dictionary: Option<DictId>,
    ) -> Result<()> {
        if self.store.writer.buffer.change(unit, within, bytes)? {
            return Ok(());
        }
        let unit_size = self.changes.image.unit_size as usize;
        if bytes.len() == unit_size {
            self.insert(unit, bytes, dictionary)
        } else {
            let mut page = self.unit_before_change(unit)?;
            #[expect(
                clippy::indexing_slicing,
                reason = "`bytes` do not reach past their unit"
            )]
            page[within..within + bytes.len()].copy_from_slice(bytes);
            self.insert(unit, &page, dictionary)
        }
    }

    /// Buffers a whole unit that is not buffered yet.
    fn insert(&mut self, unit: Unit, page: &[u8], dictionary: Option<DictId>) -> Result<()> {
        let choice = self.choice_for(unit, page, dictionary)?;
        let may_differ = dictionary.is_none() && self.may_differ(unit);
        let buffer = &mut self.store.writer.buffer;
        match may_differ {
            true => buffer.insert_undecided(unit, page, choice),
            false => buffer.insert(unit, page, choice),
        }
    }

    /// How to store a unit that is about to become this.
    fn choice_for(
        &mut self,
        unit: Unit,
        bytes: &[u8],
        dictionary: Option<DictId>,
    ) -> Result<Choice> {
        let writer = &self.store.writer;
        let number = match dictionary {
            Some(number) => self.image().catalog.lasting(number),
            // A dictionary has samples of what has been deleted; this is when the file can do without.
            None if writer.rewriting && writer.eraser.when == Erase::WithCommit => {
                self.image().catalog.current(0)
            }
            None => {
                let entry = self.entry(unit)?;
                let former = self.image().dictionary_of(&entry, self.medium())?;
                let image = self.image();
                number_for(&image.catalog, image.page_size, bytes, former)
            }
        };
        self.choice(number)
    }

    /// The whole unit, zero-filled past the end of the database.
    fn unit_before_change(&mut self, unit: Unit) -> Result<Vec<u8>> {
        let unit_size = self.image().unit_size;
        let mut page = litepack_io::memory::zeros(unit_size as usize)?;
        self.read(unit.start(unit_size), &mut page)?;
        Ok(page)
    }

    /// Encodes and places all buffered units.
    pub(super) fn write_batch(&mut self) -> Result<()> {
        if self.store.writer.buffer.is_empty() {
            return Ok(());
        }
        self.compare_buffered()?;
        if self.train_if_due()? {
            self.choose_again()?;
        }
        self.place_differing()?;
        let recipe = self.recipe()?;
        let pages = self.store.snapshot.pages();
        let (limit, workers) = (pages.workers_max(), &mut pages.workers);
        let in_groups = self.changes.in_order.is_some();
        let buffer = &mut self.store.writer.buffer;
        let mut finishing = buffer.finish(recipe, limit, workers, in_groups)?;
        loop {
            let pages = self.store.snapshot.pages();
            let Some(finished) = finishing.group(&pages.workers, &mut pages.tools)? else {
                break;
            };
            // They come in order.
            let first = finished.iter().next().map(|stored| stored.unit);
            let last = finished.iter().last().map(|stored| stored.unit);
            if let (Some(full), Some(first)) = (self.changes.in_order, first)
                && first.leaf() < full
            {
                // A leaf changes again that was written. Extents in the queue can neither be read nor be given back.
                self.changes.in_order = None;
                self.write_queue()?;
            }
            let lens = finished.iter().map(|stored| stored.bytes.len());
            let offsets = self.changes.space.allocate(ExtentKind::Units, lens)?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a stored unit is no longer than a unit"
            )]
            for (stored, offset) in finished.iter().zip(offsets) {
                let entry = if stored.bytes.is_empty() {
                    Entry::ZERO
                } else {
                    self.queue(offset, stored.bytes)?;
                    Entry {
                        offset,
                        len: stored.bytes.len() as u32,
                        sum: stored.voucher.sum,
                        nonce: stored.voucher.nonce,
                        storage: stored.storage,
                        basis: Basis::Alone,
                    }
                };
                self.set_page(stored.unit, entry, stored.page)?;
            }
            self.store.writer.buffer.reuse(finished);
            if let (Some(full), Some(last)) = (&mut self.changes.in_order, last) {
                *full = Unit(last.0 + 1).leaf();
                let full = *full;
                self.write_level(TreeKind::Map, 0, ..full)?;
            }
            if self.store.writer.queue.bytes() >= WRITTEN_TOGETHER {
                self.write_queue()?;
            }
        }
        for kind in [TreeKind::Map, TreeKind::Items] {
            if self.image().tree(kind).changed_leaves() > fixed::part(LEAVES_MAX) {
                self.write_level(kind, 0, ..)?;
                // The next units may name items in them.
                self.write_queue()?;
            }
        }
        Ok(())
    }

    /// Decides again how buffered units are stored, now that there is a new dictionary.
    fn choose_again(&mut self) -> Result<()> {
        let image = &self.changes.image;
        let pages = self.store.snapshot.pages();
        let medium = &pages.medium;
        let choose = |page: &[u8], former| {
            let number = number_for(&image.catalog, image.page_size, page, former);
            medium.choice(&image.catalog, number)
        };
        let buffer = &mut self.store.writer.buffer;
        buffer.choose_again(&mut pages.workers, choose)
    }

    /// How units are encoded from now on.
    fn recipe(&mut self) -> Result<Recipe> {
        Ok(Recipe {
            level: self.store.writer.level,
            columnar: self.store.writer.columnar,
            sealer: self.sealer()?,
        })
    }
}

/// The number to store a unit with: by the row signature of its first page, and what it was stored with.
fn number_for(catalog: &Catalog, page_size: u32, unit: &[u8], former: DictId) -> DictId {
    let first_page = unit.get(..page_size as usize).unwrap_or(unit);
    catalog.number_for(row_signature(first_page), former)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::testing::options;
    use crate::transaction::store::Store;
    use litepack_io::testing::{Call, MemoryStorage, Watched};

    #[test]
    fn a_page_that_was_in_the_cache_is_there_after_it_has_changed_or_moved() {
        const PAGES: u64 = 200;
        let disk = MemoryStorage::default();
        let reads = Cell::new(0);
        let watched = Watched::new(&disk, |call| {
            let is_read = matches!(call, Call::Read { .. });
            reads.set(reads.get() + u64::from(is_read));
            Ok(())
        });
        let page = |number: u64, version: u64| -> Vec<u8> {
            let words = (0..512_u64).map(|word| number * 31 + word * version);
            words.flat_map(u64::to_le_bytes).collect()
        };
        let mut store = Store::open(&watched, options()).unwrap();
        let write = |store: &mut Store<_>, version| {
            for number in 0..PAGES {
                store.write(number * 4096, &page(number, version)).unwrap();
            }
            store.commit().unwrap();
            store.flush().unwrap();
        };
        let read = |store: &mut Store<_>, version| {
            reads.set(0);
            let mut found = vec![0; 4096];
            for number in 0..PAGES {
                store.read(number * 4096, &mut found).unwrap();
                assert!(found == page(number, version), "page {number}");
            }
            reads.get()
        };
        write(&mut store, 1);
        assert!(read(&mut store, 1) > 0, "what was never read is not kept");
        for version in 2..9 {
            write(&mut store, version);
            assert!(read(&mut store, version) < PAGES / 50);
        }
        // Out of order, and put into order again.
        for number in (0..PAGES).rev() {
            store.write(number * 4096, &page(number, 9)).unwrap();
            store.commit().unwrap();
        }
        store.flush().unwrap();
        let entries = |store: &mut Store<_>| -> Vec<_> {
            let units = Unit(0).up_to(Unit(PAGES));
            units.map(|unit| store.entry(unit).unwrap()).collect()
        };
        let before = entries(&mut store);
        let mut at = store.reorder().unwrap();
        while let Some(next) = at {
            at = store.reorder_some(next).unwrap();
        }
        let after = entries(&mut store);
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert!(moved > PAGES as usize / 4, "{moved} moved");
        assert!(read(&mut store, 9) < PAGES / 50);
    }
}
