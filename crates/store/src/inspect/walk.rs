//! Walking over everything that a commit refers to, and noting what is damaged or claimed twice.
//!
//! No extent of the map is visited twice, so a hostile map cannot be larger than its file. An interrupt ends it.

use std::ops::Range;

use litepack_io::storage::ReadAt;

use crate::error::{Damage, Error, Result};
use crate::format::catalog::Catalog;
use crate::format::guard::Kind;
use crate::format::layout::{Pointer, extent_is_sane};
use crate::format::leaf::{FANOUT, Leaf};
use crate::format::node::{Node, TreeKind};
use crate::format::offset::FileOffset;
use crate::format::record::Record;
use crate::format::unit::Unit;
use crate::snapshot::handle::Snapshot;
use crate::space::free_space::Space;
use crate::space::ranges::RangeSet;

/// Damage found is listed up to this many pieces.
const LISTED_MAX: usize = 100;

/// The findings so far.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Everything wrong, up to a hundred pieces.
    pub(crate) damage: Vec<Damage>,
    /// The extents that were claimed.
    pub(crate) used: RangeSet,
    /// Map nodes read, and their length.
    pub(crate) nodes: u64,
    pub(crate) node_bytes: u64,
    /// The used part of the file, behind its head.
    extents: Range<FileOffset>,
}

impl Walk {
    /// Of a file that has its extents in this range.
    pub(crate) fn new(extents: Range<FileOffset>) -> Walk {
        Walk {
            extents,
            ..Walk::default()
        }
    }

    pub(crate) fn add(&mut self, damage: Damage) {
        if self.damage.len() < LISTED_MAX {
            self.damage.push(damage);
        }
    }

    /// Notes an extent as used; false if it cannot be one.
    pub(crate) fn claim(&mut self, what: &str, offset: FileOffset, len: u64) -> bool {
        let why = if !extent_is_sane(offset, len, &self.extents) {
            "lies outside the file"
        } else if !self.used.insert(offset, len) {
            "overlaps another extent"
        } else {
            return true;
        };
        self.add(Damage {
            what: what.into(),
            offset,
            why: why.into(),
        });
        false
    }

    /// Turns damage into a note; other errors stay errors.
    pub(crate) fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damaged(damage)) => {
                self.add(damage);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl<R: ReadAt> Snapshot<R> {
    /// Calls `leaf` with each leaf of a commit's map, or of its item tree, in order: its first unit, and the entries.
    pub(crate) fn walk_tree(
        &mut self,
        walk: &mut Walk,
        record: &Record,
        kind: TreeKind,
        mut leaf: impl FnMut(&mut Self, &mut Walk, Unit, &Leaf) -> Result<()>,
    ) -> Result<()> {
        let mut waiting = Vec::new();
        let (root, height) = record.tree(kind);
        if let Some(level) = height.checked_sub(1) {
            waiting.push((root, level, 0));
        }
        while let Some((pointer, level, index)) = waiting.pop() {
            litepack_io::memory::check()?;
            litepack_io::interrupt::check()?;
            if pointer.is_none() || !walk.claim(kind.name(), pointer.offset, pointer.len.into()) {
                continue;
            }
            // From the file, not from where it was kept.
            let node = self.medium().read_node(pointer, level);
            let Some(node) = walk.note(node)? else {
                continue;
            };
            if !node.is_of(kind) {
                walk.add(Damage {
                    what: kind.name().into(),
                    offset: pointer.offset,
                    why: "malformed".into(),
                });
                continue;
            }
            walk.nodes += 1;
            walk.node_bytes += u64::from(pointer.len);
            match &*node {
                Node::Inner(children) => {
                    let first = index * FANOUT as u64;
                    // The last one in comes out first.
                    let below = children.iter().enumerate().rev();
                    waiting.extend(below.map(|(at, child)| (*child, level - 1, first + at as u64)));
                }
                Node::Leaf(entries) => leaf(self, walk, Unit::first_in(index), entries)?,
            }
        }
        Ok(())
    }

    /// Makes sure that the page map of the newest commit, and its item tree, are trees and no longer than their file: going
    /// through all of them ends then.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not.
    pub fn verify_map(&mut self) -> Result<()> {
        let Some(commit) = self.commit() else {
            return Ok(());
        };
        let mut walk = Walk::new(self.extents(&commit.record));
        for kind in [TreeKind::Map, TreeKind::Items] {
            self.walk_tree(&mut walk, &commit.record, kind, |_, _, _, _| Ok(()))?;
        }
        match walk.damage.into_iter().next() {
            Some(damage) => Err(Error::Damaged(damage)),
            None => Ok(()),
        }
    }

    /// Reads the catalog and all dictionaries.
    pub(crate) fn walk_catalog(&self, walk: &mut Walk, pointer: Pointer) -> Result<()> {
        if pointer.is_none() || !walk.claim("catalog", pointer.offset, pointer.len.into()) {
            return Ok(());
        }
        let bytes = self.medium().extent(pointer, Kind::Catalog);
        let Some(bytes) = walk.note(bytes)? else {
            return Ok(());
        };
        let Some(catalog) = Catalog::decode(&bytes) else {
            walk.add(Damage {
                what: "catalog".into(),
                offset: pointer.offset,
                why: "malformed".into(),
            });
            return Ok(());
        };
        for pointer in catalog.pointers() {
            walk.claim("dictionary", pointer.offset, pointer.len.into());
        }
        for number in catalog.numbers() {
            litepack_io::interrupt::check()?;
            let found = self.medium().verify_dictionary(&catalog, number);
            walk.note(found)?;
        }
        Ok(())
    }

    /// Reads the prefetch segment and compares it with what it has copies of.
    pub(crate) fn walk_segment(&self, walk: &mut Walk, pointer: Pointer) -> Result<()> {
        if pointer.is_none() || !walk.claim("prefetch segment", pointer.offset, pointer.len.into())
        {
            return Ok(());
        }
        let segment = self.medium().read_segment(pointer);
        let Some(segment) = walk.note(segment)? else {
            return Ok(());
        };
        let differs = |why| Damage {
            what: "prefetch segment".into(),
            offset: pointer.offset,
            why,
        };
        for (unit, entry) in segment.units() {
            let known = self.image().map.get(unit, self.medium());
            if walk.note(known)?.is_some_and(|known| known != entry) {
                let name = self.image().name_of(unit);
                walk.add(differs(format!("has another place of {name}")));
            }
        }
        for (offset, copy) in segment.extents() {
            litepack_io::interrupt::check()?;
            let mut original = litepack_io::memory::zeros(copy.len())?;
            let n = self.medium().disk.read_at(&mut original, offset.0)?;
            if original.get(..n) != Some(copy) {
                walk.add(differs(format!("no copy of what lies at offset {offset}")));
            }
        }
        Ok(())
    }

    /// Reads the free-space chain and returns its length in bytes.
    pub(crate) fn walk_space(&self, walk: &mut Walk, head: Pointer) -> Result<u64> {
        let read = |pointer| self.medium().extent(pointer, Kind::Space);
        let space = Space::load(head, walk.extents.clone(), self.disk().len()?, read);
        let Some(space) = walk.note(space)? else {
            return Ok(0);
        };
        for pointer in space.chain() {
            walk.claim("free-space chain", pointer.offset, pointer.len.into());
        }
        space.probe()?;
        let Some(all) = walk.note(space.all_free())? else {
            return Ok(0);
        };
        for (offset, len) in all.iter() {
            litepack_io::memory::check()?;
            litepack_io::interrupt::check()?;
            walk.claim("free space", offset, len);
        }
        Ok(space
            .chain()
            .iter()
            .map(|pointer| u64::from(pointer.len))
            .sum())
    }
}
