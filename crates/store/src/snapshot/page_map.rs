//! The page map: a copy-on-write radix tree from unit number to [`Entry`].
//!
//! A node of level `l` with index `i` covers units `i * FANOUT^(l+1)` and up. Changed nodes are kept
//! in memory until the transaction gives them new extents, children before parents; the old
//! extents are released, never overwritten. The item tree (`item_tree.rs`) is such a tree, too, from the numbers of items.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::layout::Pointer;
use crate::format::leaf::{Entry, FANOUT};
use crate::format::node::{Node, TreeKind};
use crate::format::offset::FileOffset;
use crate::format::unit::Unit;
use crate::medium::verified::NodeSource;

/// Levels that cover every unit of the largest possible file.
pub(crate) const HEIGHT_MAX: u8 = 8;

/// The tree as of one commit, plus the changes of the running transaction.
#[derive(Clone, Debug)]
pub(crate) struct PageMap {
    /// The map, or the item tree.
    kind: TreeKind,
    root: Pointer,
    height: u8,
    /// Changed nodes by (level, index).
    changed: BTreeMap<(u8, u64), Node>,
}

/// Units covered by one child of a node of `level`.
fn span(level: u8) -> u64 {
    (FANOUT as u64).saturating_pow(level.into())
}

/// Units covered by a tree of this height.
fn capacity(height: u8) -> u64 {
    if height == 0 { 0 } else { span(height) }
}

#[expect(clippy::cast_possible_truncation, reason = "it is below `FANOUT`")]
fn slot(index: u64) -> usize {
    (index % FANOUT as u64) as usize
}

/// So many children of a node, or all of them.
fn children(count: u64) -> usize {
    usize::try_from(count).unwrap_or(FANOUT).min(FANOUT)
}

fn damaged(why: &str) -> Error {
    Error::damaged("page map", FileOffset::START, why)
}

/// A part that is cut off a tree.
pub(crate) enum Gone {
    Entry(Entry),
    Node(Pointer),
}

impl PageMap {
    /// The tree of a commit.
    pub(crate) fn new(kind: TreeKind, root: Pointer, height: u8) -> PageMap {
        PageMap {
            kind,
            root,
            height,
            changed: BTreeMap::new(),
        }
    }

    pub(crate) fn root(&self) -> Pointer {
        self.root
    }

    pub(crate) fn height(&self) -> u8 {
        self.height
    }

    /// Changed leaves held in memory.
    pub(crate) fn changed_leaves(&self) -> usize {
        self.changed.range(..(1, 0)).count()
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The unchanged leaf with this index, straight from disk; `None` where nothing is stored or
    /// the leaf is changed.
    pub(crate) fn leaf_on_disk(
        &self,
        index: u64,
        source: &impl NodeSource,
    ) -> Result<Option<Arc<Node>>> {
        // Its place is still known, since it was read from there. But its entries there are no longer true.
        if self.changed.contains_key(&(0, index)) {
            return Ok(None);
        }
        self.stored_leaf(index, source)
    }

    /// The leaf with this index as it is stored, changed or not.
    fn stored_leaf(&self, index: u64, source: &impl NodeSource) -> Result<Option<Arc<Node>>> {
        if self.height == 0 || index >= span(self.height - 1) {
            return Ok(None);
        }
        self.node_on_disk(0, index, source)
    }

    /// Has the leaf with this index come together with its units, if the file is remote. Where units were written in
    /// order, those of a leaf lie between the leaf before it and itself. The first leaf of a node would take another
    /// node to tell.
    pub(crate) fn bring(&self, index: u64, source: &impl NodeSource) -> Result<()> {
        let is_worth_it = source.is_remote() && self.height > 1 && slot(index) > 0;
        if is_worth_it && index < span(self.height - 1) {
            let before = self.pointer(0, index - 1, source)?;
            let leaf = self.pointer(0, index, source)?;
            if !before.is_none() && !leaf.is_none() {
                source.bring(&leaf, before.end());
            }
        }
        Ok(())
    }

    /// The lowest index from `from` on of a node of this level that is stored. How many units a file claims to have
    /// costs nothing that way.
    pub(crate) fn next(
        &self,
        level: u8,
        from: u64,
        source: &impl NodeSource,
    ) -> Result<Option<u64>> {
        if level + 1 >= self.height {
            let is_there = from == 0 && level < self.height && !self.root.is_none();
            return Ok(is_there.then_some(0));
        }
        let (up, mut at) = (level + 1, from);
        while let Some(parent) = self.next_or_changed(up, at / FANOUT as u64, source)? {
            let first = (parent * FANOUT as u64).max(at);
            let on_disk;
            let node = match self.changed.get(&(up, parent)) {
                Some(node) => Some(node),
                None => {
                    on_disk = self.node_on_disk(up, parent, source)?;
                    on_disk.as_deref()
                }
            };
            if let Some(Node::Inner(children)) = node
                && let mut from_first = children.iter().enumerate().skip(slot(first))
                && let Some((found, _)) = from_first.find(|(_, child)| !child.is_none())
            {
                return Ok(Some(parent * FANOUT as u64 + found as u64));
            }
            at = (parent + 1) * FANOUT as u64;
        }
        Ok(None)
    }

    /// As [`PageMap::next`], or a node that has changed: the top of a tree that has grown is not stored yet.
    pub(crate) fn next_or_changed(
        &self,
        level: u8,
        from: u64,
        source: &impl NodeSource,
    ) -> Result<Option<u64>> {
        let changed = self.changed.range((level, from)..=(level, u64::MAX));
        let changed = changed.map(|((_, index), _)| *index).next();
        let stored = self.next(level, from, source)?;
        Ok([changed, stored].into_iter().flatten().min())
    }

    /// The entry of a unit.
    pub(crate) fn get(&self, unit: Unit, source: &impl NodeSource) -> Result<Entry> {
        if let Some(Node::Leaf(entries)) = self.changed.get(&(0, unit.leaf())) {
            return Ok(entries.get(unit.slot()));
        }
        Ok(match self.stored_leaf(unit.leaf(), source)?.as_deref() {
            Some(Node::Leaf(entries)) => entries.get(unit.slot()),
            _ => Entry::ZERO,
        })
    }

    /// Where the node (level, index) is on disk according to its parent.
    #[expect(
        clippy::indexing_slicing,
        reason = "a slot is below `FANOUT`, and a node has as many children"
    )]
    fn pointer(&self, level: u8, index: u64, source: &impl NodeSource) -> Result<Pointer> {
        if level + 1 >= self.height {
            return Ok(if index == 0 { self.root } else { Pointer::NONE });
        }
        let (up, parent) = (level + 1, index / FANOUT as u64);
        if let Some(Node::Inner(children)) = self.changed.get(&(up, parent)) {
            return Ok(children[slot(index)]);
        }
        Ok(match self.node_on_disk(up, parent, source)?.as_deref() {
            Some(Node::Inner(children)) => children[slot(index)],
            _ => Pointer::NONE,
        })
    }

    fn node_on_disk(
        &self,
        level: u8,
        index: u64,
        source: &impl NodeSource,
    ) -> Result<Option<Arc<Node>>> {
        let pointer = self.pointer(level, index, source)?;
        if pointer.is_none() {
            Ok(None)
        } else {
            let node = source.node(pointer, level)?;
            if !node.is_of(self.kind) {
                return Err(Error::damaged(
                    self.kind.name(),
                    pointer.offset,
                    "malformed",
                ));
            }
            Ok(Some(node))
        }
    }

    /// The node (level, index), ready to be changed.
    fn change(&mut self, level: u8, index: u64, source: &impl NodeSource) -> Result<&mut Node> {
        if !self.changed.contains_key(&(level, index)) {
            litepack_io::memory::check()?;
            let node = match self.node_on_disk(level, index, source)? {
                Some(node) => Node::clone(&node),
                None => Node::empty(level),
            };
            self.changed.insert((level, index), node);
        }
        Ok(self
            .changed
            .get_mut(&(level, index))
            .expect("it was just put there"))
    }

    /// Sets the entry of a unit and returns the former one.
    pub(crate) fn set(
        &mut self,
        unit: Unit,
        entry: Entry,
        source: &impl NodeSource,
    ) -> Result<Entry> {
        while unit.0 >= capacity(self.height) {
            if entry.is_zero() {
                return Ok(Entry::ZERO);
            }
            self.grow()?;
        }
        let leaf = self.change(0, unit.leaf(), source)?;
        match leaf {
            Node::Leaf(entries) => Ok(entries.set(unit.slot(), entry)),
            Node::Inner(_) => Err(damaged("a leaf is no leaf")),
        }
    }

    fn grow(&mut self) -> Result<()> {
        if self.height == HEIGHT_MAX {
            return Err(Error::Limit("the page map is full"));
        }
        if self.height > 0 {
            let mut top = Node::empty(self.height);
            if let Node::Inner(children) = &mut top {
                let [first, ..] = &mut **children;
                *first = self.root;
            }
            self.changed.insert((self.height, 0), top);
            self.root = Pointer::NONE;
        }
        self.height += 1;
        Ok(())
    }

    /// Forgets all but the first `units` units, handing each entry and node that was held to `release`.
    pub(crate) fn truncate(
        &mut self,
        units: u64,
        source: &impl NodeSource,
        release: &mut impl FnMut(Gone) -> Result<()>,
    ) -> Result<()> {
        if self.height > 0 && units < capacity(self.height) {
            self.cut(self.height - 1, 0, units, source, release)?;
        }
        Ok(())
    }

    /// Cuts the subtree of (level, index) at `units`. The depth of the recursion is the tree's height.
    fn cut(
        &mut self,
        level: u8,
        index: u64,
        units: u64,
        source: &impl NodeSource,
        release: &mut impl FnMut(Gone) -> Result<()>,
    ) -> Result<()> {
        let known = self.changed.contains_key(&(level, index));
        if !known && self.pointer(level, index, source)?.is_none() {
            return Ok(());
        }
        let kept = units.saturating_sub(index * span(level + 1));
        let first_gone = children(kept.div_ceil(span(level)));
        if level > 0 {
            // The child that straddles the cut stays, shortened; those behind it go.
            for child in children(kept / span(level))..FANOUT {
                self.cut(
                    level - 1,
                    index * FANOUT as u64 + child as u64,
                    units,
                    source,
                    release,
                )?;
            }
        }
        match self.change(level, index, source)? {
            Node::Leaf(entries) => {
                for slot in first_gone..FANOUT {
                    let entry = entries.set(slot, Entry::ZERO);
                    if !entry.is_zero() {
                        release(Gone::Entry(entry))?;
                    }
                }
            }
            Node::Inner(children) => {
                let gone = children.iter_mut().skip(first_gone);
                let gone: Vec<Pointer> = gone.map(std::mem::take).collect();
                for pointer in gone.into_iter().filter(|pointer| !pointer.is_none()) {
                    release(Gone::Node(pointer))?;
                }
                for child in first_gone..FANOUT {
                    self.changed
                        .remove(&(level - 1, index * FANOUT as u64 + child as u64));
                }
            }
        }
        Ok(())
    }

    /// Indexes of the changed nodes of a level, in order.
    pub(crate) fn changed_at(&self, level: u8) -> Vec<u64> {
        self.changed
            .range((level, 0)..=(level, u64::MAX))
            .map(|((_, index), _)| *index)
            .collect()
    }

    /// Where an unchanged node is on disk; `None` if it is changed or does not exist.
    pub(crate) fn place_of(
        &self,
        level: u8,
        index: u64,
        source: &impl NodeSource,
    ) -> Result<Option<Pointer>> {
        if self.changed.contains_key(&(level, index)) {
            return Ok(None);
        }
        Ok(Some(self.pointer(level, index, source)?).filter(|pointer| !pointer.is_none()))
    }

    /// Marks a node as changed although its content stays, so that it gets a new place.
    pub(crate) fn touch(&mut self, level: u8, index: u64, source: &impl NodeSource) -> Result<()> {
        self.change(level, index, source).map(|_| ())
    }

    /// The content of a changed node.
    pub(crate) fn changed_node(&self, level: u8, index: u64) -> Option<&Node> {
        self.changed.get(&(level, index))
    }

    /// A changed node was written at `place` (or nowhere, if it is empty): updates its parent, forgets the change and
    /// returns where the node was before, and the node.
    #[expect(
        clippy::indexing_slicing,
        reason = "a slot is below `FANOUT`, and a node has as many children"
    )]
    pub(crate) fn node_written(
        &mut self,
        level: u8,
        index: u64,
        place: Pointer,
        source: &impl NodeSource,
    ) -> Result<(Pointer, Option<Node>)> {
        let former = if level + 1 >= self.height {
            std::mem::replace(&mut self.root, place)
        } else {
            match self.change(level + 1, index / FANOUT as u64, source)? {
                Node::Inner(children) => std::mem::replace(&mut children[slot(index)], place),
                Node::Leaf(_) => return Err(damaged("a node has no parent")),
            }
        };
        Ok((former, self.changed.remove(&(level, index))))
    }

    /// An empty tree has no levels.
    pub(crate) fn lower_if_empty(&mut self) {
        if self.root.is_none() && self.changed.is_empty() {
            self.height = 0;
        }
    }
}
