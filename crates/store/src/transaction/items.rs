//! Items of a running transaction: who names them, and when they go.
//!
//! The count of an item is how many entries of the page map name it. It changes with those entries, in the same
//! transaction, so it is right in every commit. An item goes with its last name. One that was made and never named goes
//! when the transaction commits.

use std::collections::BTreeSet;

use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::basis::{Item, ItemNumber};
use crate::format::leaf::Entry;
use crate::format::offset::FileOffset;
use crate::format::record::{REFERENCES, Record};
use crate::format::unit::Unit;
use crate::transaction::changes::Transaction;

/// What a transaction has done to items, besides their tree.
#[derive(Debug)]
pub(super) struct ItemChanges {
    /// How many items there are.
    count: u64,
    /// Items that were made by the transaction, and that no entry names yet.
    unnamed: BTreeSet<ItemNumber>,
    /// The commit may have references.
    has_references: bool,
}

impl ItemChanges {
    /// None yet, after this commit.
    pub(super) fn after(record: &Record) -> ItemChanges {
        ItemChanges {
            count: record.item_count,
            unnamed: BTreeSet::new(),
            has_references: record.features & REFERENCES != 0,
        }
    }

    /// All items and references are gone.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.unnamed.clear();
        self.has_references = false;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The features that the commit's record is to have for them.
    pub(super) fn features(&self) -> u32 {
        if self.has_references { REFERENCES } else { 0 }
    }

    /// An entry refers to something, perhaps.
    pub(super) fn note_entry(&mut self, entry: &Entry) {
        self.has_references |= !entry.is_alone();
    }

    /// The item goes with the commit, unless an entry names it before.
    pub(super) fn wait_for_name(&mut self, number: ItemNumber) {
        self.unnamed.insert(number);
    }

    /// Whatever becomes of the item, it needs no name any more.
    pub(super) fn is_named(&mut self, number: ItemNumber) {
        self.unnamed.remove(&number);
    }
}

impl<D: Storage> Transaction<'_, D> {
    /// An item; `None` if there is none of this number.
    pub(crate) fn item(&self, number: ItemNumber) -> Result<Option<Item>> {
        self.image().items.get(number, self.medium())
    }

    /// Sets an item, or removes it.
    pub(super) fn set_item(&mut self, number: ItemNumber, item: Option<Item>) -> Result<()> {
        let medium = self.store.snapshot.medium();
        self.changes.image.items.set(number, item, medium)
    }

    /// Counts the names that an entry begins to use.
    pub(super) fn name_items(&mut self, entry: &Entry) -> Result<()> {
        for number in entry.basis.items() {
            let missing = || {
                let what = format!("item {}", number.0);
                Error::damaged(what, FileOffset::START, "is missing")
            };
            let item = self.item(*number)?.ok_or_else(missing)?;
            let full = Error::Limit("an item with 2^32 names");
            let users = item.users.checked_add(1).ok_or(full)?;
            self.set_item(*number, Some(Item { users, ..item }))?;
            self.changes.items.is_named(*number);
        }
        Ok(())
    }

    /// Counts the names that an entry no longer uses. Of a file that is damaged an item may be missing: then there is
    /// nothing to let go.
    pub(super) fn unname_items(&mut self, entry: &Entry) -> Result<()> {
        for number in entry.basis.items() {
            let Some(item) = self.item(*number)? else {
                continue;
            };
            match item.users.saturating_sub(1) {
                0 => self.drop_item(*number, &item)?,
                users => self.set_item(*number, Some(Item { users, ..item }))?,
            }
        }
        Ok(())
    }

    /// Removes an item and gives its extent back.
    fn drop_item(&mut self, number: ItemNumber, item: &Item) -> Result<()> {
        self.forget_item(number)?;
        let len = item.extent.len.into();
        self.changes.stored.remove_bytes(len);
        self.release_content(item.extent.offset, len)
    }

    /// Removes an item whose extent has another owner.
    pub(super) fn forget_item(&mut self, number: ItemNumber) -> Result<()> {
        self.set_item(number, None)?;
        let items = &mut self.changes.items;
        items.count = items.count.saturating_sub(1);
        Ok(())
    }

    /// Removes items that were made and not named: no commit has such.
    pub(super) fn drop_unnamed(&mut self) -> Result<()> {
        while let Some(number) = self.changes.items.unnamed.pop_first() {
            if let Some(item) = self.item(number)? {
                self.drop_item(number, &item)?;
            }
        }
        Ok(())
    }

    /// Adds an item under a number of its own. `None` if all numbers are in use.
    pub(super) fn new_item(&mut self, item: Item) -> Result<Option<ItemNumber>> {
        let Some(number) = self.free_number()? else {
            return Ok(None);
        };
        self.set_item(number, Some(item))?;
        self.changes.items.count += 1;
        self.changes.items.has_references = true;
        Ok(Some(number))
    }

    /// A number that no item has. Looking begins at the number of items: so numbers stay below about twice that many,
    /// and nothing is kept of free ones.
    fn free_number(&mut self) -> Result<Option<ItemNumber>> {
        let count = u32::try_from(self.changes.items.count).unwrap_or(u32::MAX);
        let mut next = self.store.writer.newest.next_item().unwrap_or(count);
        // An item has more than a byte in the file.
        let mut left = self.medium().disk.len()?;
        while self.item(ItemNumber(next))?.is_some() {
            litepack_io::interrupt::check()?;
            left = left.checked_sub(1).ok_or_else(|| {
                let why = "it has more items than the file has room for";
                Error::damaged("item tree", FileOffset::START, why)
            })?;
            let Some(after) = next.checked_add(1) else {
                return Ok(None);
            };
            next = after;
        }
        let after = next.checked_add(1);
        self.store.writer.newest.set_next_item(after);
        Ok(Some(ItemNumber(next)))
    }

    /// An item's extent has another place from now on.
    pub(crate) fn item_moved(
        &mut self,
        number: ItemNumber,
        item: &Item,
        offset: FileOffset,
    ) -> Result<()> {
        let mut moved = *item;
        moved.extent.offset = offset;
        self.forget_place(&moved.extent, item.units);
        self.set_item(number, Some(moved))?;
        let len = item.extent.len.into();
        self.release_content(item.extent.offset, len)
    }

    /// Has the next units in order, or notes that they are not.
    pub(super) fn note_order(&mut self, unit: Unit) -> Result<()> {
        if self.changes.in_order.is_some_and(|full| unit.leaf() < full) {
            self.changes.in_order = None;
            self.write_queue()?;
        }
        Ok(())
    }
}
