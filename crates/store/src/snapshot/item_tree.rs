//! The item tree: from the number of an item to its extent, and to how many entries of the page map name it.
//!
//! It is a radix tree as the page map is, and is changed and written with it: so the counts are right in every commit.

use crate::error::Result;
use crate::format::basis::{Item, ItemNumber};
use crate::format::layout::Pointer;
use crate::format::leaf::Entry;
use crate::format::node::TreeKind;
use crate::format::unit::Unit;
use crate::medium::verified::NodeSource;
use crate::snapshot::page_map::PageMap;

/// The items as of one commit, plus the changes of the running transaction.
#[derive(Clone, Debug)]
pub(crate) struct ItemTree(pub(crate) PageMap);

impl ItemTree {
    /// Those of a commit.
    pub(crate) fn new(root: Pointer, height: u8) -> ItemTree {
        ItemTree(PageMap::new(TreeKind::Items, root, height))
    }

    /// No items.
    pub(crate) fn empty() -> ItemTree {
        ItemTree::new(Pointer::NONE, 0)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.height() == 0
    }

    /// An item; `None` if there is none of this number.
    pub(crate) fn get(&self, number: ItemNumber, source: &impl NodeSource) -> Result<Option<Item>> {
        let entry = self.0.get(place(number), source)?;
        Ok(Item::of(&entry))
    }

    /// Sets an item, or removes it.
    pub(crate) fn set(
        &mut self,
        number: ItemNumber,
        item: Option<Item>,
        source: &impl NodeSource,
    ) -> Result<()> {
        let entry = item.map_or(Entry::ZERO, |item| item.entry());
        self.0.set(place(number), entry, source).map(|_| ())
    }
}

/// Where the tree has the item.
fn place(number: ItemNumber) -> Unit {
    Unit(number.0.into())
}

/// The item that a place of the tree is for. `None` behind the last one: no entry can name it.
pub(crate) fn number_at(place: Unit) -> Option<ItemNumber> {
    u32::try_from(place.0).ok().map(ItemNumber)
}
