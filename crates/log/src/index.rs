//! Which records have the newest version of a frame: those since the last root in memory, all others by the tree in the
//! file. So memory is bounded at any length of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use litepack_io::memory::with_room;

use crate::error::{Error, Result};
use crate::format::node::{FANOUT, Node, Places, Root};

/// A root is due when so many frames have new versions.
pub(crate) const RECENT_MAX: usize = 2048;
/// And when there were so many records since the last one.
const RECORDS_MAX: u32 = 1 << 14;
/// Bytes of leaves that are kept, enough for 130,000 frames, and the fewest leaves.
const LEAVES_BYTES: usize = 2 << 20;
const LEAVES_MIN: usize = 64;
/// Inner nodes that are kept.
const INNER_KEPT: usize = 8;

/// Reads the content of the node at a place.
pub(crate) trait ReadNode {
    /// The node there, whatever it is.
    fn node(&self, place: u64) -> Result<(u32, Node)>;
}

/// The index of one generation.
#[derive(Debug)]
pub(crate) struct FrameIndex {
    /// What is newer than the root.
    recent: BTreeMap<u32, Places>,
    /// Records of frames since the root.
    records: u32,
    root: Root,
    /// Frames in the log.
    frames: u32,
    kept: [Vec<Kept>; 2],
}

/// A node with its place.
type Kept = Option<(u64, Arc<Node>)>;

impl Default for FrameIndex {
    fn default() -> FrameIndex {
        let leaf = FANOUT as usize * size_of::<Places>();
        let leaves = (litepack_io::fixed::part(LEAVES_BYTES) / leaf).max(LEAVES_MIN);
        FrameIndex {
            recent: BTreeMap::new(),
            records: 0,
            root: Root::default(),
            frames: 0,
            kept: [leaves, INNER_KEPT].map(|count| (0..count).map(|_| None).collect()),
        }
    }
}

impl FrameIndex {
    /// How many frames there are.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Goes on from a root in the file, which knows everything that came before it.
    pub fn begin_at(&mut self, root: Root) {
        self.recent.clear();
        self.records = 0;
        self.frames = root.frames;
        self.root = root;
    }

    /// Notes a record of a frame at `place`, which has these halves of it.
    pub fn note(
        &mut self,
        number: u32,
        place: u64,
        has_header: bool,
        has_page: bool,
    ) -> Result<()> {
        litepack_io::memory::check()?;
        let is_new = number == self.frames.saturating_add(1) && has_header && has_page;
        if number == 0 || number > self.frames && !is_new {
            return Err(Error::damaged(place, "a frame follows none"));
        }
        self.records += 1;
        if self.recent.len() > 2 * RECENT_MAX || self.records > 2 * RECORDS_MAX {
            return Err(Error::damaged(place, "the index is missing"));
        }
        self.frames = self.frames.max(number);
        let of = |is_there| if is_there { place } else { 0 };
        let new = Places {
            header: of(has_header),
            page: of(has_page),
        };
        let entry = self.recent.entry(number).or_default();
        *entry = new.over(*entry);
        Ok(())
    }

    /// Frames from this number on are no more.
    pub fn cut(&mut self, frames: u32, place: u64) -> Result<()> {
        if frames > self.frames {
            return Err(Error::damaged(place, "frames are cut that are not there"));
        }
        self.frames = frames;
        self.recent.split_off(&frames.saturating_add(1));
        Ok(())
    }

    /// Where the halves of a frame are; `None` if there is no such frame.
    pub fn find(&mut self, number: u32, nodes: &impl ReadNode) -> Result<Option<Places>> {
        if number == 0 || number > self.frames {
            return Ok(None);
        }
        let recent = self.recent.get(&number).copied().unwrap_or_default();
        if recent.header != 0 && recent.page != 0 {
            return Ok(Some(recent));
        }
        let leaf = self.leaf((number - 1) / FANOUT, nodes)?;
        let within = ((number - 1) % FANOUT) as usize;
        let older = match leaf.as_deref() {
            Some(Node::Leaf(frames)) => frames.get(within).copied(),
            _ => None,
        };
        let found = recent.over(older.unwrap_or_default());
        if found.header == 0 || found.page == 0 {
            return Err(Error::damaged(self.root.witness, "a frame is in no index"));
        }
        Ok(Some(found))
    }

    /// The leaf of this index, as the file has it.
    fn leaf(&mut self, index: u32, nodes: &impl ReadNode) -> Result<Option<Arc<Node>>> {
        let above = self.root.inner.get((index / FANOUT) as usize).copied();
        let Some(above) = above else { return Ok(None) };
        let inner = self.node(1, index / FANOUT, above, nodes)?;
        let within = (index % FANOUT) as usize;
        let place = match &*inner {
            Node::Inner(leaves) => leaves.get(within).copied(),
            Node::Leaf(_) => None,
        };
        let Some(place) = place else { return Ok(None) };
        if place >= above {
            return Err(Error::damaged(above, "a node names what comes after it"));
        }
        self.node(0, index, place, nodes).map(Some)
    }

    fn node(
        &mut self,
        level: usize,
        index: u32,
        place: u64,
        nodes: &impl ReadNode,
    ) -> Result<Arc<Node>> {
        let kept = self.kept.get_mut(level).map(Vec::as_mut_slice);
        let kept = kept.unwrap_or_default();
        let slot = index as usize % kept.len().max(1);
        let slot = kept.get_mut(slot);
        if let Some(Some((at, node))) = &slot
            && *at == place
        {
            return Ok(Arc::clone(node));
        }
        let (found, node) = nodes.node(place)?;
        let is_level = matches!((&node, level), (Node::Leaf(_), 0) | (Node::Inner(_), 1));
        if found != index || !is_level {
            return Err(Error::damaged(place, "another node is there"));
        }
        let node = Arc::new(node);
        if let Some(slot) = slot {
            *slot = Some((place, Arc::clone(&node)));
        }
        Ok(node)
    }

    /// Whether the tree should be written.
    pub fn is_due(&self) -> bool {
        self.recent.len() >= RECENT_MAX || self.records >= RECORDS_MAX
    }

    /// Writes what is new into the tree: `write` appends a node and gives its place. Gives the new root, which the
    /// caller writes next.
    pub fn grow(&mut self, nodes: &mut (impl ReadNode + WriteNode), witness: u64) -> Result<Root> {
        let recent = std::mem::take(&mut self.recent);
        let mut root = std::mem::take(&mut self.root);
        // Until the caller says where the new root is, the old one is what there is.
        self.root = root.clone();
        root.frames = self.frames;
        root.witness = witness;
        root.inner
            .truncate(self.frames.div_ceil(FANOUT * FANOUT) as usize);
        let mut recent = recent.into_iter().peekable();
        while let Some(&(first, _)) = recent.peek() {
            let above = (first - 1) / FANOUT / FANOUT;
            let old = match root.inner.get(above as usize).copied() {
                Some(place) => Some(self.node(1, above, place, nodes)?),
                None => None,
            };
            let mut leaves = match old.as_deref() {
                Some(Node::Inner(leaves)) => litepack_io::memory::collect(leaves.iter().copied())?,
                _ => with_room(FANOUT as usize)?,
            };
            let in_inner = |number: u32| (number - 1) / FANOUT / FANOUT == above;
            while let Some(&(first, _)) = recent.peek()
                && in_inner(first)
            {
                let index = (first - 1) / FANOUT;
                let within = (index % FANOUT) as usize;
                let mut frames = match leaves.get(within).copied() {
                    Some(place) => self.frames_of(index, place, nodes)?,
                    None => Vec::new(),
                };
                let start = index * FANOUT;
                let len = (self.frames - start).min(FANOUT) as usize;
                frames.resize(len, Places::default());
                while let Some((number, places)) =
                    recent.next_if(|(number, _)| (number - 1) / FANOUT == index)
                {
                    if let Some(frame) = frames.get_mut((number - 1 - start) as usize) {
                        *frame = places.over(*frame);
                    }
                }
                let place = nodes.write_node(index, &Node::Leaf(frames))?;
                leaves.resize(leaves.len().max(within + 1), 0);
                if let Some(leaf) = leaves.get_mut(within) {
                    *leaf = place;
                }
            }
            let all = self.frames.div_ceil(FANOUT) - above * FANOUT;
            leaves.truncate(all.min(FANOUT) as usize);
            let place = nodes.write_node(above, &Node::Inner(leaves))?;
            root.inner
                .resize(root.inner.len().max(above as usize + 1), 0);
            if let Some(inner) = root.inner.get_mut(above as usize) {
                *inner = place;
            }
        }
        Ok(root)
    }

    fn frames_of(&mut self, index: u32, place: u64, nodes: &impl ReadNode) -> Result<Vec<Places>> {
        Ok(match &*self.node(0, index, place, nodes)? {
            Node::Leaf(frames) => litepack_io::memory::collect(frames.iter().copied())?,
            Node::Inner(_) => Vec::new(),
        })
    }
}

/// Appends nodes.
pub(crate) trait WriteNode {
    /// Appends a node, and gives its place.
    fn write_node(&mut self, index: u32, node: &Node) -> Result<u64>;
}
