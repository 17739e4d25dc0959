//! Map nodes that a handle keeps at hand. The cache has them too, but all handles of a process share that one, and threads
//! that read the same nodes there wait for each other's counting of references.

use std::cell::RefCell;
use std::sync::Arc;

use crate::layout::Pointer;
use crate::node::Node;

/// Map nodes that a handle keeps at hand, at most: those of a database of 256 MiB in pages of 4 KiB.
const AT_HAND: usize = 512;

/// Map nodes this handle has used, where they are found without asking the cache that all handles share. A node
/// is known by its pointer, so that what is here is never wrong.
#[derive(Debug, Default)]
pub(crate) struct AtHand {
    slots: RefCell<Vec<Slot>>,
}

type Slot = Option<(Pointer, Arc<Node>)>;

impl AtHand {
    /// Checksums are as good as any hash.
    fn slot(pointer: &Pointer) -> usize {
        pointer.sum as usize % AT_HAND
    }

    pub(crate) fn get(&self, pointer: &Pointer) -> Option<Arc<Node>> {
        let slots = self.slots.borrow();
        let (known, node) = slots.get(AtHand::slot(pointer))?.as_ref()?;
        (known == pointer).then(|| Arc::clone(node))
    }

    pub(crate) fn put(&self, pointer: Pointer, node: &Arc<Node>) {
        let mut slots = self.slots.borrow_mut();
        slots.resize(AT_HAND, None);
        slots[AtHand::slot(&pointer)] = Some((pointer, Arc::clone(node)));
    }
}

/// Leaves of the map of one commit, by their index: a read finds its entry without going down the map, and without
/// counting references.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    slots: Vec<Option<(u64, Arc<Node>)>>,
}

/// Leaves kept, at most: those of a database of 256 MiB in pages of 4 KiB.
const LEAVES: usize = 512;

impl Leaves {
    /// Another commit has other leaves.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Node> {
        let (known, leaf) = self.slots.get(index as usize % LEAVES)?.as_ref()?;
        (*known == index).then_some(leaf)
    }

    pub(crate) fn put(&mut self, index: u64, leaf: Arc<Node>) {
        self.slots.resize(LEAVES, None);
        self.slots[index as usize % LEAVES] = Some((index, leaf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_not_taken_for_another() {
        let mut leaves = Leaves::default();
        assert!(leaves.get(0).is_none());
        leaves.put(3, Arc::new(Node::empty(0)));
        assert!(leaves.get(3).is_some());
        assert!(leaves.get(3 + LEAVES as u64).is_none());
        leaves.clear();
        assert!(leaves.get(3).is_none());
    }
}
