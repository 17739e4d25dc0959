//! Counting again who names the items of a commit.
//!
//! A count that is too low is the worst that can be wrong with an item: it would be given back while units need it. One
//! that is too high, or of an item that no unit names, keeps space that nothing needs.

use crate::error::{Damage, Result};
use crate::format::basis::{Item, ItemNumber};
use crate::format::offset::FileOffset;

/// The items of a commit, in the order of their numbers, and how many names of each were found.
#[derive(Debug, Default)]
pub(crate) struct NameCount {
    items: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    number: ItemNumber,
    units: u8,
    /// As the item says.
    users: u32,
    /// As was found.
    found: u32,
    offset: FileOffset,
}

impl NameCount {
    /// Notes an item. They come in the order of their numbers.
    pub(crate) fn add(&mut self, number: ItemNumber, item: &Item) -> Result<()> {
        let counted = Counted {
            number,
            units: item.units,
            users: item.users,
            found: 0,
            offset: item.extent.offset,
        };
        Ok(litepack_io::memory::push(&mut self.items, counted)?)
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> u64 {
        self.items.len() as u64
    }

    /// Counts a name. Returns how many units the item has; `None` if there is no such item.
    pub(crate) fn name(&mut self, number: ItemNumber) -> Option<u8> {
        let at = self.items.binary_search_by_key(&number, |item| item.number);
        let item = self.items.get_mut(at.ok()?)?;
        item.found = item.found.saturating_add(1);
        Some(item.units)
    }

    /// The items whose counts are wrong, or that no unit names.
    pub(crate) fn wrong(&self) -> impl Iterator<Item = Damage> {
        let is_wrong = |item: &&Counted| item.users != item.found || item.found == 0;
        self.items.iter().filter(is_wrong).map(|item| {
            let Counted { found, users, .. } = item;
            let harm = if found > users {
                "do not write to this file, pages may be lost"
            } else {
                "its space is not given back, no page is harmed"
            };
            Damage {
                what: format!("item {}", item.number.0),
                offset: item.offset,
                why: format!("{found} units name it, and it counts {users}: {harm}"),
            }
        })
    }
}
