//! Map nodes and dictionaries that one handle has used. The shared cache has them too, but there threads that read the
//! same nodes wait for each other to count references.

use std::cell::{Ref, RefCell};
use std::sync::Arc;

use litepack_codec::{Dictionary, SHORT_LEN_MAX};
use litepack_io::fixed;

use crate::format::layout::Pointer;
use crate::format::node::Node;

/// Most nodes a handle keeps: those of a database of 256 MiB in pages of 4 KiB.
const NODES: usize = 512;

/// The same where memory is shortest.
const NODES_MIN: usize = 32;

/// How many nodes, or leaves, a handle keeps now.
fn nodes() -> usize {
    fixed::part(NODES).max(NODES_MIN)
}

/// The nodes and dictionaries of a handle, by their pointers: a pointer has the checksum, so an entry is never wrong.
#[derive(Debug, Default)]
pub(crate) struct NodeCache {
    /// As many as there were to be when the first node came.
    slots: RefCell<Vec<Slot>>,
    dictionaries: RefCell<Vec<(Pointer, Arc<Dictionary>)>>,
}

/// Most dictionaries a handle keeps, and their bytes; a single one may have more. zstd's tables for decoding take about
/// as much again. A page whose dictionary is not here may have to wait a millisecond for it, so they are not many times
/// fewer where memory is short.
const DICTIONARIES: usize = 16;
const DICTIONARY_BYTES: usize = 2 << 20;
const DICTIONARY_BYTES_MIN: usize = 256 << 10;
/// The same for long dictionaries, in a container of any size: all that a file is packed with. It takes some milliseconds
/// to read one, and a page of another tree may need the other one.
const LONG_BYTES: usize = 16 << 20;

type Slot = Option<(Pointer, Arc<Node>)>;

impl NodeCache {
    /// Checksums are as good as any hash.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "any bits of a checksum will do"
    )]
    fn slot(pointer: &Pointer, slots: &[Slot]) -> usize {
        pointer.sum as usize % slots.len().max(1)
    }

    pub(crate) fn get(&self, pointer: &Pointer) -> Option<Arc<Node>> {
        let slots = self.slots.borrow();
        let (known, node) = slots.get(NodeCache::slot(pointer, &slots))?.as_ref()?;
        (known == pointer).then(|| Arc::clone(node))
    }

    pub(crate) fn put(&self, pointer: Pointer, node: &Arc<Node>) {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(nodes(), None);
        }
        let at = NodeCache::slot(&pointer, &slots);
        if let Some(slot) = slots.get_mut(at) {
            *slot = Some((pointer, Arc::clone(node)));
        }
    }
}

impl NodeCache {
    /// The dictionary that is stored at `pointer`, if it is here and `is_right`.
    pub(crate) fn dictionary(
        &self,
        pointer: &Pointer,
        is_right: impl Fn(&Dictionary) -> bool,
    ) -> Option<Ref<'_, Arc<Dictionary>>> {
        let held = self.dictionaries.borrow();
        let found = Ref::filter_map(held, |held| {
            let mut held = held.iter();
            let found = held.find(|(known, found)| known == pointer && is_right(found))?;
            Some(&found.1)
        });
        found.ok()
    }

    /// Keeps a dictionary, in the place of those that came first.
    #[expect(clippy::indexing_slicing, reason = "one was just put there")]
    pub(crate) fn put_dictionary(
        &self,
        pointer: Pointer,
        dictionary: Arc<Dictionary>,
    ) -> Ref<'_, Arc<Dictionary>> {
        let mut held = self.dictionaries.borrow_mut();
        held.retain(|(known, _)| *known != pointer);
        let is_long = |known: &Dictionary| known.bytes().len() > SHORT_LEN_MAX;
        let (most, long) = match is_long(&dictionary) {
            true => (LONG_BYTES, true),
            false => {
                let most = fixed::part(DICTIONARY_BYTES).max(DICTIONARY_BYTES_MIN);
                (most, false)
            }
        };
        let alike = held.iter().filter(|(_, known)| is_long(known) == long);
        let (mut count, mut bytes) = alike.fold((0, 0), |(count, bytes), (_, known)| {
            (count + 1, bytes + known.bytes().len())
        });
        bytes += dictionary.bytes().len();
        while count >= DICTIONARIES || bytes > most {
            let first = held.iter().position(|(_, known)| is_long(known) == long);
            let Some(first) = first else {
                break;
            };
            bytes -= held.remove(first).1.bytes().len();
            count -= 1;
        }
        held.push((pointer, dictionary));
        drop(held);
        Ref::map(self.dictionaries.borrow(), |held| &held[held.len() - 1].1)
    }
}

/// Leaves of one commit's map by their index: a read finds its entry without going down the map or counting references.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    slots: Vec<Option<(u64, Arc<Node>)>>,
}

impl Leaves {
    /// Another commit has other leaves.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low bits choose the slot"
    )]
    pub(crate) fn get(&self, index: u64) -> Option<&Node> {
        let at = index as usize % self.slots.len().max(1);
        let (known, leaf) = self.slots.get(at)?.as_ref()?;
        (*known == index).then_some(leaf)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low bits choose the slot"
    )]
    pub(crate) fn put(&mut self, index: u64, leaf: Arc<Node>) {
        if self.slots.is_empty() {
            self.slots.resize(nodes(), None);
        }
        let at = index as usize % self.slots.len().max(1);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some((index, leaf));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::offset::FileOffset;

    #[test]
    fn held_dictionaries_have_a_limit() {
        let cache = NodeCache::default();
        let place = |offset| Pointer {
            offset: FileOffset(offset),
            len: 100,
            sum: 7,
        };
        let put = |offset: u64, len: usize| {
            let dictionary = Dictionary::shared(vec![offset as u8; len]);
            let held = cache.put_dictionary(place(offset), dictionary);
            assert_eq!(held.bytes()[0], offset as u8);
        };
        let held = || {
            let held = cache.dictionaries.borrow();
            held.iter().map(|(at, _)| at.offset.0).collect::<Vec<_>>()
        };
        (0..20).for_each(|offset| put(offset, 1000));
        assert_eq!(held(), (4..20).collect::<Vec<_>>());
        assert!(cache.dictionary(&place(7), |_| true).is_some());
        assert!(cache.dictionary(&place(7), |_| false).is_none());
        put(50, DICTIONARY_BYTES / 2);
        put(51, DICTIONARY_BYTES / 2 - 1500);
        assert_eq!(held(), [19, 50, 51]);
        // Long ones have a limit of their own: two trees that are read in turn keep theirs.
        put(60, 8 << 20);
        put(61, 7 << 20);
        assert_eq!(held(), [19, 50, 51, 60, 61]);
        put(62, 2 << 20);
        assert_eq!(held(), [19, 50, 51, 61, 62]);
        put(63, 40 << 20);
        assert_eq!(held(), [19, 50, 51, 63]);
    }

    #[test]
    fn a_leaf_is_not_taken_for_another() {
        let mut leaves = Leaves::default();
        assert!(leaves.get(0).is_none());
        leaves.put(3, Arc::new(Node::empty(0)));
        assert!(leaves.get(3).is_some());
        assert!(leaves.get(3 + NODES as u64).is_none());
        leaves.clear();
        assert!(leaves.get(3).is_none());
    }
}
