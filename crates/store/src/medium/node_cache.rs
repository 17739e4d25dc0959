//! Map nodes and dictionaries that a handle keeps at hand. The cache has them too, but all handles of a process share that one, and threads
//! that read the same nodes there wait for each other's counting of references.

use std::cell::{Ref, RefCell};
use std::sync::Arc;

use litepack_codec::Dictionary;

use crate::format::layout::Pointer;
use crate::format::node::Node;

/// Map nodes that a handle keeps at hand, at most: those of a database of 256 MiB in pages of 4 KiB.
const AT_HAND: usize = 512;

/// Map nodes this handle has used, where they are found without asking the cache that all handles share. A node
/// is known by its pointer, so that what is here is never wrong.
#[derive(Debug, Default)]
pub(crate) struct AtHand {
    slots: RefCell<Vec<Slot>>,
    dictionaries: RefCell<Vec<(Pointer, Arc<Dictionary>)>>,
}

/// Dictionaries that a handle keeps at hand, at most, and their bytes, of which one alone may have more. zstd's
/// tables for decoding take about as much again.
const DICTIONARIES: usize = 16;
const DICTIONARY_BYTES: usize = 2 << 20;

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

impl AtHand {
    /// The dictionary that is stored there, if it is at hand and the right one.
    pub(crate) fn dictionary(
        &self,
        pointer: &Pointer,
        is_right: impl Fn(&Dictionary) -> bool,
    ) -> Option<Ref<'_, Arc<Dictionary>>> {
        let held = self.dictionaries.borrow();
        let at = held
            .iter()
            .position(|(known, found)| known == pointer && is_right(found))?;
        Some(Ref::map(held, |held| &held[at].1))
    }

    /// Keeps a dictionary at hand, in the place of those that came first.
    pub(crate) fn put_dictionary(
        &self,
        pointer: Pointer,
        dictionary: Arc<Dictionary>,
    ) -> Ref<'_, Arc<Dictionary>> {
        let mut held = self.dictionaries.borrow_mut();
        held.retain(|(known, _)| *known != pointer);
        let mut bytes: usize = held.iter().map(|(_, known)| known.bytes().len()).sum();
        bytes += dictionary.bytes().len();
        while !held.is_empty() && (held.len() >= DICTIONARIES || bytes > DICTIONARY_BYTES) {
            bytes -= held.remove(0).1.bytes().len();
        }
        held.push((pointer, dictionary));
        drop(held);
        Ref::map(self.dictionaries.borrow(), |held| &held[held.len() - 1].1)
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
    fn dictionaries_at_hand_have_a_limit() {
        let at_hand = AtHand::default();
        let place = |offset| Pointer {
            offset,
            len: 100,
            sum: 7,
        };
        let put = |offset: u64, len: usize| {
            let dictionary = Dictionary::shared(vec![offset as u8; len]);
            let held = at_hand.put_dictionary(place(offset), dictionary);
            assert_eq!(held.bytes()[0], offset as u8);
        };
        let held = || {
            let held = at_hand.dictionaries.borrow();
            held.iter().map(|(at, _)| at.offset).collect::<Vec<_>>()
        };
        (0..20).for_each(|offset| put(offset, 1000));
        assert_eq!(held(), (4..20).collect::<Vec<_>>());
        assert!(at_hand.dictionary(&place(7), |_| true).is_some());
        assert!(at_hand.dictionary(&place(7), |_| false).is_none());
        put(50, DICTIONARY_BYTES - 1500);
        assert_eq!(held(), [19, 50]);
        put(51, 2 * DICTIONARY_BYTES);
        assert_eq!(held(), [51]);
        put(51, 10);
        assert_eq!(held(), [51]);
    }

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
