//! Leaves of the page map that a handle has used last. The shared cache has them too, but there threads that read the
//! same leaves wait for each other to count references.

use std::sync::Arc;

use litepack_io::fixed;

use crate::format::node::Node;

/// Most leaves a handle keeps: those of a database of 256 MiB in pages of 4 KiB.
const LEAVES: usize = 512;

/// The same where memory is shortest.
const LEAVES_MIN: usize = 32;

/// How many leaves a handle keeps now.
fn room() -> usize {
    fixed::part(LEAVES).max(LEAVES_MIN)
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
            self.slots.resize(room(), None);
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
