//! Storing units together: two or four of them as one item, of which each is a slice.
//!
//! What several pages have in common is stored once, and laid out by column across them. A read of one decodes all. A
//! unit that is written again is stored alone: the others stay as they are.
//!
//! Groups are encoded by the workers that encode units, and by the handle's own thread.

use litepack_codec::{Codec, DictId, Level};
use litepack_io::results::Results;
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::basis::{ITEM_UNITS, Item};
use crate::format::layout::UNIT_MAX;
use crate::format::leaf::{Entry, Extent};
use crate::format::unit::Unit;
use crate::medium::dictionaries::Choice;
use crate::medium::tools::Tools;
use crate::space::allocate::ExtentKind;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;

/// Whole units to be stored together, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Two or four of them, none twice.
    pub units: Vec<Unit>,
    /// Their bytes, one unit after another.
    pub pages: Vec<u8>,
    /// The dictionary that the caller chose.
    pub dictionary: DictId,
}

impl Group {
    /// Adds a unit.
    ///
    /// # Errors
    /// When there is no memory for it; the group is then unchanged.
    pub fn push(&mut self, unit: Unit, page: &[u8]) -> Result<()> {
        litepack_io::memory::room(&mut self.pages, page.len())?;
        litepack_io::memory::push(&mut self.units, unit)?;
        self.pages.extend_from_slice(page);
        Ok(())
    }

    /// How many units there are; 0 if they are more than an item could have.
    fn count(&self) -> u8 {
        u8::try_from(self.units.len()).unwrap_or(0)
    }

    /// The units, each with its bytes.
    fn parts(&self) -> impl Iterator<Item = (Unit, &[u8])> {
        let len = self.pages.len() / self.units.len().max(1);
        let units = self.units.iter().copied();
        units.zip(self.pages.chunks(len.max(1)))
    }
}

/// A group that is on its way to an encoder, and back.
struct Encoded {
    index: usize,
    codec: Codec,
    stored: Vec<u8>,
}

impl<D: Storage> Store<D> {
    /// Writes groups of whole units, each of them stored together at the writing level. Units are stored alone, as by
    /// [`Store::write_with`], if they cannot be stored together or that saves nothing: the first one, all of a group that
    /// has not two or four or is longer than 64 KiB, and all if one is written twice or no references may be made. A
    /// database that ends before a unit ends with it then. Part of the running transaction.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn write_groups(&mut self, groups: Vec<Group>) -> Result<()> {
        self.step(|transaction| transaction.write_groups(groups))
    }
}

impl<D: Storage> Transaction<'_, D> {
    fn write_groups(&mut self, groups: Vec<Group>) -> Result<()> {
        let count = groups.iter().map(|group| group.units.len()).sum();
        let mut units: Vec<Unit> = litepack_io::memory::with_room(count)?;
        units.extend(groups.iter().flat_map(|group| &group.units));
        units.sort_unstable();
        // The last one counts of a unit that is written twice: so they are written one after another.
        let are_apart = units.is_sorted_by(|one, next| one < next);
        let (groups, others): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .partition(|group| are_apart && self.can_be_item(group));
        for group in &others {
            self.write_alone(group)?;
        }
        for group in &groups {
            for unit in &group.units {
                self.write_buffered(*unit)?;
            }
        }
        let mut encoded = self.encode_groups(&groups)?;
        let sealer = self.sealer()?;
        let mut vouchers = litepack_io::memory::with_room(encoded.len())?;
        for item in &mut encoded {
            vouchers.push(sealer.unit(item.codec, &mut item.stored, 0)?);
        }
        let lens = encoded.iter().map(|item| item.stored.len());
        let offsets = self.changes.space.allocate(ExtentKind::Units, lens)?;
        for (item, offset) in encoded.iter().zip(&offsets) {
            self.queue(*offset, &item.stored)?;
        }
        // Before anything is given back: extents in the queue cannot be.
        self.write_queue()?;
        for ((item, offset), voucher) in encoded.iter().zip(offsets).zip(vouchers) {
            litepack_io::interrupt::check()?;
            let Some(group) = groups.get(item.index) else {
                continue;
            };
            let choice = self.group_choice(group)?;
            let storage = choice.encoding(item.codec, self.level());
            let units = group.count();
            let extent = self.item_extent(offset, &item.stored, voucher, storage, units);
            if item.codec == Codec::Raw || !self.name_group(group, extent)? {
                self.release_content(offset, extent.len.into())?;
                self.write_alone(group)?;
            }
        }
        Ok(())
    }

    /// Whether a group may become an item.
    fn can_be_item(&self, group: &Group) -> bool {
        let count = group.count();
        let several = count > 1 && ITEM_UNITS.contains(&count);
        several
            && group.pages.len() <= UNIT_MAX as usize
            && group.pages.len() == group.units.len() * self.image().unit_size as usize
            && group.units.is_sorted_by(|one, next| one < next)
            && group
                .parts()
                .all(|(unit, page)| self.may_refer(unit) && self.is_unit(unit, page))
    }

    fn group_choice(&self, group: &Group) -> Result<Choice> {
        self.choice(self.image().catalog.lasting(group.dictionary))
    }

    fn write_alone(&mut self, group: &Group) -> Result<()> {
        let unit_size = self.image().unit_size;
        for (unit, page) in group.parts() {
            self.write_with(unit.start(unit_size), page, group.dictionary)?;
        }
        Ok(())
    }

    /// Encodes groups on all threads, in order.
    fn encode_groups(&mut self, groups: &[Group]) -> Result<Vec<Encoded>> {
        let (level, columnar) = (self.level(), self.store.writer.columnar);
        let mut encoded: Vec<Option<Encoded>> = Vec::new();
        encoded.resize_with(groups.len(), || None);
        let results = Results::default();
        let limit = self.store.snapshot.pages().workers_max();
        if limit > 0 && groups.len() > 1 {
            for (index, group) in groups.iter().enumerate() {
                let choice = self.group_choice(group)?;
                let mut copy = litepack_io::memory::with_room(group.pages.len())?;
                copy.extend_from_slice(&group.pages);
                let units = group.units.len();
                let promise = results.promise();
                let job = move |tools: &mut Tools| {
                    // Without memory there is no result: the handle will find out itself.
                    if let Ok(item) = encode(index, &copy, units, &choice, (level, columnar), tools)
                    {
                        promise.keep(item);
                    }
                };
                let workers = &mut self.store.snapshot.pages().workers;
                workers.give(limit, Box::new(job));
            }
            let pages = self.store.snapshot.pages();
            loop {
                litepack_io::interrupt::check()?;
                let arrived = match results.take() {
                    None if pages.workers.work_some(&mut pages.tools) => continue,
                    None => results.wait(),
                    arrived => arrived,
                };
                let Some(item) = arrived else {
                    break;
                };
                if let Some(place) = encoded.get_mut(item.index) {
                    *place = Some(item);
                }
            }
        }
        let mut all = litepack_io::memory::with_room(groups.len())?;
        for (index, (group, item)) in groups.iter().zip(encoded).enumerate() {
            let item = match item {
                Some(item) => item,
                None => {
                    litepack_io::interrupt::check()?;
                    let choice = self.group_choice(group)?;
                    let tools = &mut self.store.snapshot.pages().tools;
                    let (pages, units) = (&group.pages, group.units.len());
                    encode(index, pages, units, &choice, (level, columnar), tools)?
                }
            };
            all.push(item);
        }
        Ok(all)
    }

    /// Makes an item of an extent, and the units slices of it. False if all numbers of items are in use.
    fn name_group(&mut self, group: &Group, extent: Extent) -> Result<bool> {
        let item = Item {
            extent,
            units: group.count(),
            users: 0,
        };
        let Some(number) = self.add_stored(item)? else {
            return Ok(false);
        };
        for ((unit, page), slice) in group.parts().zip(0..) {
            self.refer(unit, Entry::slice(number, slice), page)?;
        }
        Ok(true)
    }
}

fn encode(
    index: usize,
    pages: &[u8],
    units: usize,
    choice: &Choice,
    (level, columnar): (Level, bool),
    tools: &mut Tools,
) -> Result<Encoded> {
    let encoder = tools.encoder(level, columnar);
    let mut stored = Vec::new();
    let codec = encoder.encode_item(pages, units, choice.dictionary.as_deref(), &mut stored)?;
    Ok(Encoded {
        index,
        codec,
        stored,
    })
}
