//! The database image: what the database is at one commit, or with the changes of a running transaction.

use std::sync::Arc;

use crate::error::Result;
use crate::format::catalog::Catalog;
use crate::format::layout::{Pointer, UNIT_MIN};
use crate::format::leaf::{Entry, FANOUT};
use crate::format::node::{Node, TreeKind};
use crate::format::record::Record;
use crate::format::unit::Unit;
use crate::medium::verified::NodeSource;
use crate::snapshot::item_tree::ItemTree;
use crate::snapshot::page_map::PageMap;

/// Leaves of items whose number an entry can name.
const ITEM_LEAVES: u64 = (1 << 32) / FANOUT as u64;

/// Where the pages of a database are, and how they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) map: PageMap,
    /// The items that units are stored by reference to.
    pub(crate) items: ItemTree,
    pub(crate) catalog: Catalog,
    /// Bytes of the database that are stored together.
    pub(crate) unit_size: u32,
    /// Length of the database in bytes.
    pub(crate) size: u64,
    /// SQLite's page size, for naming pages; the unit size until page 1 was seen.
    pub(crate) page_size: u32,
}

impl Image {
    /// The empty database.
    pub(crate) fn empty() -> Image {
        Image {
            map: PageMap::new(TreeKind::Map, Pointer::NONE, 0),
            items: ItemTree::empty(),
            catalog: Catalog::default(),
            unit_size: UNIT_MIN,
            size: 0,
            page_size: UNIT_MIN,
        }
    }

    /// The database of a commit.
    pub(crate) fn of(record: &Record, catalog: Catalog, page_size: u32) -> Image {
        Image {
            map: PageMap::new(TreeKind::Map, record.map, record.height),
            items: ItemTree::new(record.items, record.items_height),
            catalog,
            unit_size: record.unit_size,
            size: record.size,
            page_size,
        }
    }

    /// How many units the database has, unstored ones included.
    pub(crate) fn units(&self) -> u64 {
        self.size.div_ceil(self.unit_size.into())
    }

    /// Leaves of the map, unstored ones included.
    pub(crate) fn leaves(&self) -> u64 {
        let per_leaf = u64::from(self.unit_size) * FANOUT as u64;
        self.size.div_ceil(per_leaf)
    }

    /// Leaves that the item tree has room for.
    pub(crate) fn item_leaves(&self) -> u64 {
        match self.items.0.height() {
            0 => 0,
            height => (FANOUT as u64)
                .saturating_pow(u32::from(height) - 1)
                .min(ITEM_LEAVES),
        }
    }

    /// Pages in a unit.
    pub(crate) fn pages_per_unit(&self) -> u64 {
        u64::from(self.unit_size / self.page_size.min(self.unit_size))
    }

    /// The name of a unit in messages: SQLite's number of its first page. It is no [`litepack_btree::PageNumber`]: a
    /// damaged map may have more units than SQLite can count.
    pub(crate) fn name_of(&self, unit: Unit) -> String {
        format!("page {}", unit.0 * self.pages_per_unit() + 1)
    }

    /// The page map, or the item tree.
    pub(crate) fn tree(&self, kind: TreeKind) -> &PageMap {
        match kind {
            TreeKind::Map => &self.map,
            TreeKind::Items => &self.items.0,
        }
    }

    /// The same, to be changed.
    pub(crate) fn tree_mut(&mut self, kind: TreeKind) -> &mut PageMap {
        match kind {
            TreeKind::Map => &mut self.map,
            TreeKind::Items => &mut self.items.0,
        }
    }

    /// The lowest index from `from` on of a leaf of the tree that is stored. Of the map none behind the database's end,
    /// of items none whose number no entry can name.
    pub(crate) fn next_leaf(
        &self,
        kind: TreeKind,
        from: u64,
        source: &impl NodeSource,
    ) -> Result<Option<u64>> {
        let end = match kind {
            TreeKind::Map => self.leaves(),
            TreeKind::Items => ITEM_LEAVES,
        };
        let next = self.tree(kind).next(0, from, source)?;
        Ok(next.filter(|leaf| *leaf < end))
    }

    /// Calls `each` for the entry of every stored unit and every item, those in leaves that have changed included.
    pub(crate) fn for_each_entry(
        &self,
        source: &impl NodeSource,
        mut each: impl FnMut(&Entry),
    ) -> Result<()> {
        for kind in [TreeKind::Map, TreeKind::Items] {
            let tree = self.tree(kind);
            let mut next = 0;
            while let Some(leaf) = self.next_leaf(kind, next, source)? {
                next = leaf + 1;
                if let Some(node) = tree.leaf_on_disk(leaf, source)? {
                    stored_in(&node).for_each(|entry| each(&entry));
                }
            }
            let changed = tree.changed_at(0).into_iter();
            let changed = changed.filter_map(|leaf| tree.changed_node(0, leaf));
            changed.flat_map(stored_in).for_each(|entry| each(&entry));
        }
        Ok(())
    }

    /// Where the nodes of a level of a tree are, with their indexes: those that are stored and have not changed.
    pub(crate) fn places(
        &self,
        kind: TreeKind,
        level: u8,
        source: &impl NodeSource,
    ) -> impl Iterator<Item = Result<(u64, Pointer)>> {
        let tree = self.tree(kind);
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let index = match tree.next(level, from, source).transpose()? {
                    Ok(index) => index,
                    Err(error) => return Some(Err(error)),
                };
                from = index + 1;
                match tree.place_of(level, index, source).transpose() {
                    Some(place) => return Some(place.map(|place| (index, place))),
                    None => continue,
                }
            }
        })
    }

    /// A leaf of a tree that is stored and has not changed.
    pub(crate) fn leaf(
        &self,
        kind: TreeKind,
        index: u64,
        source: &impl NodeSource,
    ) -> Result<Option<Arc<Node>>> {
        self.tree(kind).leaf_on_disk(index, source)
    }
}

/// The entries of the units that a leaf of the map has; none of another node.
fn stored_in(node: &Node) -> impl Iterator<Item = Entry> {
    let leaf = match node {
        Node::Leaf(entries) => Some(entries),
        Node::Inner(_) => None,
    };
    let entries = leaf.into_iter().flat_map(|leaf| leaf.iter());
    entries.filter(|entry| !entry.is_zero())
}
