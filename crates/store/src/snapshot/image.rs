//! The database image: what the database is at one commit, or with the changes of a running transaction.

use std::sync::Arc;

use crate::error::Result;
use crate::format::catalog::Catalog;
use crate::format::layout::{Pointer, UNIT_MIN};
use crate::format::leaf::{Entry, FANOUT};
use crate::format::node::Node;
use crate::format::record::Record;
use crate::format::unit::Unit;
use crate::medium::verified::NodeSource;
use crate::snapshot::page_map::PageMap;

/// Where the pages of a database are, and how they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) map: PageMap,
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
            map: PageMap::new(Pointer::NONE, 0),
            catalog: Catalog::default(),
            unit_size: UNIT_MIN,
            size: 0,
            page_size: UNIT_MIN,
        }
    }

    /// The database of a commit.
    pub(crate) fn of(record: &Record, catalog: Catalog, page_size: u32) -> Image {
        Image {
            map: PageMap::new(record.map, record.height),
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

    /// Pages in a unit.
    pub(crate) fn pages_per_unit(&self) -> u64 {
        u64::from(self.unit_size / self.page_size.min(self.unit_size))
    }

    /// What messages call a unit: SQLite's number of its first page. It is no [`litepack_btree::PageNumber`]: a damaged
    /// map may have more units than SQLite can count.
    pub(crate) fn name_of(&self, unit: Unit) -> String {
        format!("page {}", unit.0 * self.pages_per_unit() + 1)
    }

    /// The lowest index from `from` on of a leaf of the map that is stored.
    pub(crate) fn next_leaf(&self, from: u64, source: &impl NodeSource) -> Result<Option<u64>> {
        let next = self.map.next(0, from, source)?;
        Ok(next.filter(|leaf| *leaf < self.leaves()))
    }

    /// Calls `each` for the entry of every stored unit, those in leaves that have changed included.
    pub(crate) fn for_each_entry(
        &self,
        source: &impl NodeSource,
        mut each: impl FnMut(&Entry),
    ) -> Result<()> {
        let mut next = 0;
        while let Some(leaf) = self.next_leaf(next, source)? {
            next = leaf + 1;
            if let Some(node) = self.map.leaf_on_disk(leaf, source)? {
                stored_in(&node).for_each(|entry| each(&entry));
            }
        }
        let changed = self.map.changed_at(0).into_iter();
        let changed = changed.filter_map(|leaf| self.map.changed_node(0, leaf));
        changed.flat_map(stored_in).for_each(|entry| each(&entry));
        Ok(())
    }

    /// Where the nodes of a level of the map are, with their indexes: those that are stored and have not changed.
    pub(crate) fn places(
        &self,
        level: u8,
        source: &impl NodeSource,
    ) -> impl Iterator<Item = Result<(u64, Pointer)>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let index = match self.map.next(level, from, source).transpose()? {
                    Ok(index) => index,
                    Err(error) => return Some(Err(error)),
                };
                from = index + 1;
                match self.map.place_of(level, index, source).transpose() {
                    Some(place) => return Some(place.map(|place| (index, place))),
                    None => continue,
                }
            }
        })
    }

    /// A leaf of the map that is stored and has not changed.
    pub(crate) fn leaf(&self, index: u64, source: &impl NodeSource) -> Result<Option<Arc<Node>>> {
        self.map.leaf_on_disk(index, source)
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
