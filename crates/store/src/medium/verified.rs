//! Verified reads: a file, the identity that seeds its checksums, and the caches in front of it.
//!
//! Nothing is returned whose checksum is not the one that its parent states.

use std::sync::Arc;

use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::layout::{FileUuid, METADATA_MAX, Pointer, UNIT_MAX};
use crate::format::leaf::Extent;
use crate::format::node::Node;
use crate::format::offset::FileOffset;
use crate::format::prefetch_segment::{PrefetchSegment, SEGMENT_LEN_MAX};
use crate::medium::cache::PageCache;
use crate::medium::held_dictionaries::HeldDictionaries;

/// No map node is longer; a longer one is refused before memory is taken for it.
pub(crate) const NODE_LEN_MAX: u32 = 1 << 16;

/// No more bytes come together with a leaf of the map: in the time of a request at 50 ms and 10 MB/s come four times as
/// many.
const TOGETHER_MAX: usize = 128 << 10;

/// Reads map nodes that are in the file.
pub(crate) trait NodeSource {
    /// The node of `level` that `pointer` refers to.
    fn node(&self, pointer: Pointer, level: u8) -> Result<Arc<Node>>;

    /// Whether [`NodeSource::bring`] does anything.
    fn is_remote(&self) -> bool {
        false
    }

    /// The units that a leaf of the map lists probably lie between `from` and itself: has them come with it, if it is not
    /// here and that is worth a request. Errors are left to those who read them.
    fn bring(&self, _leaf: &Pointer, _from: FileOffset) {}
}

/// A file, read extent by extent.
#[derive(Debug)]
pub(crate) struct Medium<D> {
    pub(crate) disk: D,
    pub(crate) uuid: FileUuid,
    pub(crate) cache: PageCache,
    pub(crate) dictionaries: HeldDictionaries,
    /// Of the commit that the handle is at, if the file is remote.
    pub(crate) segment: Option<PrefetchSegment>,
}

impl<D: ReadAt> Medium<D> {
    /// The verified bytes of a metadata extent.
    pub(crate) fn extent(&self, pointer: Pointer, what: &str) -> Result<Vec<u8>> {
        if pointer.len > METADATA_MAX {
            return Err(Error::damaged(what, pointer.offset, "implausible length"));
        }
        let mut bytes = litepack_io::memory::zeros(pointer.len as usize)?;
        self.fill(&mut bytes, pointer.offset, what)?;
        if self.uuid.sum64(&bytes) != pointer.sum {
            return Err(Error::damaged(what, pointer.offset, "checksum mismatch"));
        }
        Ok(bytes)
    }

    /// A prefetched copy of an extent.
    pub(crate) fn prefetched(&self, offset: FileOffset, len: usize) -> Option<&[u8]> {
        self.segment.as_ref()?.extent(offset, len)
    }

    /// Fills `bytes` from the file, or a copy of that part of it.
    pub(crate) fn fill(&self, bytes: &mut [u8], offset: FileOffset, what: &str) -> Result<()> {
        if let Some(copy) = self.prefetched(offset, bytes.len()) {
            bytes.copy_from_slice(copy);
            return Ok(());
        }
        if self.disk.read_at(bytes, offset.0)? == bytes.len() {
            Ok(())
        } else {
            Err(Error::damaged(what, offset, "the file ends before it"))
        }
    }

    /// The stored bytes of a unit or an item, verified, into `stored`.
    pub(crate) fn stored_unit(&self, extent: &Extent, stored: &mut Vec<u8>) -> Result<()> {
        if extent.len > UNIT_MAX {
            return Err(Error::damaged("page", extent.offset, "implausible length"));
        }
        litepack_io::memory::resize(stored, extent.len as usize)?;
        self.fill(stored, extent.offset, "page")?;
        if self.uuid.sum32(stored) != extent.sum {
            return Err(Error::damaged("page", extent.offset, "checksum mismatch"));
        }
        Ok(())
    }

    /// The prefetch segment of a commit, from the file.
    pub(crate) fn read_segment(&self, pointer: Pointer) -> Result<PrefetchSegment> {
        let malformed = || Error::damaged("prefetch segment", pointer.offset, "malformed");
        if u64::from(pointer.len) > SEGMENT_LEN_MAX {
            return Err(malformed());
        }
        let bytes = self.extent(pointer, "prefetch segment")?;
        PrefetchSegment::decode(bytes).ok_or_else(malformed)
    }

    /// A map node from the file.
    pub(crate) fn read_node(&self, pointer: Pointer, level: u8) -> Result<Arc<Node>> {
        const WHAT: &str = "page map node";
        if pointer.len > NODE_LEN_MAX {
            return Err(Error::damaged(WHAT, pointer.offset, "implausible length"));
        }
        let bytes = self.extent(pointer, WHAT)?;
        let node = Node::decode(&bytes, level)
            .ok_or_else(|| Error::damaged(WHAT, pointer.offset, "malformed"))?;
        Ok(Arc::new(node))
    }

    /// The pointer to `bytes` when they are at `offset`.
    pub(crate) fn pointer_to(&self, bytes: &[u8], offset: FileOffset) -> Result<Pointer> {
        let len = u32::try_from(bytes.len())
            .ok()
            .filter(|len| *len <= METADATA_MAX)
            .ok_or(Error::Limit("metadata extents end at 256 MiB"))?;
        Ok(Pointer {
            offset,
            len,
            sum: self.uuid.sum64(bytes),
        })
    }
}

impl<D: ReadAt> NodeSource for Medium<D> {
    fn is_remote(&self) -> bool {
        self.disk.is_remote()
    }

    fn bring(&self, leaf: &Pointer, from: FileOffset) {
        let len = leaf.end().distance_from(from);
        let len = len.and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|len| *len <= TOGETHER_MAX && leaf.offset > from);
        let is_here = || self.cache.node(leaf).is_some();
        if let Some(len) = len.filter(|_| !is_here())
            && let Ok(mut bytes) = litepack_io::memory::zeros(len)
        {
            let _ = self.disk.read_at(&mut bytes, from.0);
        }
    }

    fn node(&self, pointer: Pointer, level: u8) -> Result<Arc<Node>> {
        litepack_io::memory::check()?;
        let is_right = |node: &Arc<Node>| matches!(**node, Node::Leaf(_)) == (level == 0);
        if let Some(node) = self.cache.node(&pointer).filter(is_right) {
            return Ok(node);
        }
        let node = self.read_node(pointer, level)?;
        self.cache.put_node(&pointer, Arc::clone(&node));
        Ok(node)
    }
}
