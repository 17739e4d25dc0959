//! Verified reads: a file, how its bytes are vouched for, and the caches in front of it.
//!
//! Nothing is returned that is not what its parent states.

use std::sync::Arc;

use litepack_io::storage::ReadAt;

use crate::error::{Error, Result, SOME_PAGE};
use crate::format::guard::{Guard, Kind};
use crate::format::layout::{METADATA_MAX, Pointer, UNIT_MAX};
use crate::format::leaf::Extent;
use crate::format::node::Node;
use crate::format::offset::FileOffset;
use crate::format::prefetch_segment::{PrefetchSegment, SEGMENT_LEN_MAX};
use crate::medium::cache::PageCache;
use crate::medium::held_dictionaries::HeldDictionaries;
use crate::options::Spare;

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
    /// How what is read is known to be right.
    pub(crate) guard: Guard,
    pub(crate) cache: PageCache,
    pub(crate) dictionaries: HeldDictionaries,
    /// Of the commit that the handle is at, if the file is remote.
    pub(crate) segment: Option<PrefetchSegment>,
    /// Other copies of the file, for what cannot be read in this one.
    pub(crate) spares: Vec<Arc<dyn Spare>>,
}

impl<D: ReadAt> Medium<D> {
    /// The verified content of a metadata extent.
    pub(crate) fn extent(&self, pointer: Pointer, kind: Kind) -> Result<Vec<u8>> {
        self.read_any_copy(|copy| {
            let stored = self.stored(copy, pointer, kind)?;
            let opened = self.guard.open(kind, stored)?;
            opened.ok_or_else(|| mismatch(kind, pointer.offset))
        })
    }

    /// What `read` gives of this file, or else of one of its spares.
    pub(crate) fn read_any_copy<T>(
        &self,
        mut read: impl FnMut(Option<&dyn Spare>) -> Result<T>,
    ) -> Result<T> {
        let found = read(None);
        if let Err(Error::Damaged(_) | Error::Io(_)) = found {
            for spare in &self.spares {
                if let Ok(other) = read(Some(&**spare)) {
                    return Ok(other);
                }
            }
        }
        found
    }

    /// The verified bytes of a metadata extent, as they are in the file.
    pub(crate) fn stored_extent(&self, pointer: Pointer, kind: Kind) -> Result<Vec<u8>> {
        self.read_any_copy(|copy| {
            let stored = self.stored(copy, pointer, kind)?;
            if self.guard.is_encrypted() {
                let copy = litepack_io::memory::collect(stored.iter().copied())?;
                let opened = self.guard.open(kind, copy)?;
                opened.ok_or_else(|| mismatch(kind, pointer.offset))?;
            }
            Ok(stored)
        })
    }

    /// The bytes of a metadata extent as its pointer has them. If they are sealed, the seal is to be looked at still.
    fn stored(&self, copy: Option<&dyn Spare>, pointer: Pointer, kind: Kind) -> Result<Vec<u8>> {
        let what = kind.name();
        if pointer.len > METADATA_MAX {
            return Err(Error::damaged(what, pointer.offset, "implausible length"));
        }
        let mut bytes = litepack_io::memory::zeros(pointer.len as usize)?;
        self.fill_from(copy, &mut bytes, pointer.offset, what)?;
        if self.guard.sum64(&bytes) != pointer.sum {
            return Err(mismatch(kind, pointer.offset));
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

    /// The same from another copy of the file, if that is given.
    pub(crate) fn fill_from(
        &self,
        copy: Option<&dyn Spare>,
        bytes: &mut [u8],
        offset: FileOffset,
        what: &str,
    ) -> Result<()> {
        match copy {
            None => self.fill(bytes, offset, what),
            Some(copy) if copy.read_at(bytes, offset.0)? == bytes.len() => Ok(()),
            Some(_) => Err(Error::damaged(what, offset, "the file ends before it")),
        }
    }

    /// Most bytes that a unit or an item takes as it is stored.
    pub(crate) fn unit_max(&self) -> u32 {
        UNIT_MAX + self.guard.unit_excess()
    }

    /// The stored bytes of a unit or an item, verified, into `stored`.
    pub(crate) fn stored_unit(&self, extent: &Extent, stored: &mut Vec<u8>) -> Result<()> {
        if extent.len > self.unit_max() {
            return Err(Error::damaged(
                SOME_PAGE,
                extent.offset,
                "implausible length",
            ));
        }
        litepack_io::memory::resize(stored, extent.len as usize)?;
        self.read_any_copy(|copy| {
            self.fill_from(copy, stored, extent.offset, SOME_PAGE)?;
            match self.guard.open_unit_of(stored, extent, &mut Vec::new())? {
                Some(_) => Ok(()),
                None => Err(mismatch(Kind::Unit, extent.offset)),
            }
        })
    }

    /// The prefetch segment of a commit, from the file.
    pub(crate) fn read_segment(&self, pointer: Pointer) -> Result<PrefetchSegment> {
        let malformed = || Error::damaged("prefetch segment", pointer.offset, "malformed");
        if u64::from(pointer.len) > SEGMENT_LEN_MAX {
            return Err(malformed());
        }
        let bytes = self.extent(pointer, Kind::Segment)?;
        PrefetchSegment::decode(bytes, self.guard.is_encrypted()).ok_or_else(malformed)
    }

    /// A map node from the file.
    pub(crate) fn read_node(&self, pointer: Pointer, level: u8) -> Result<Arc<Node>> {
        let what = Kind::Node.name();
        if pointer.len > NODE_LEN_MAX {
            return Err(Error::damaged(what, pointer.offset, "implausible length"));
        }
        let bytes = self.extent(pointer, Kind::Node)?;
        let node = Node::decode(&bytes, level);
        // In an encrypted file nothing is known by a checksum, and in any other nothing is sealed.
        let node = node.filter(|node| match node {
            Node::Leaf(leaf) if leaf.is_sealed() => self.guard.is_encrypted(),
            Node::Leaf(leaf) => !self.guard.is_encrypted() || !leaf.has_extents(),
            Node::Inner(_) => true,
        });
        let node = node.ok_or_else(|| Error::damaged(what, pointer.offset, "malformed"))?;
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
            sum: self.guard.sum64(bytes),
        })
    }
}

fn mismatch(kind: Kind, offset: FileOffset) -> Error {
    Error::damaged(kind.name(), offset, MISMATCH)
}

/// Why an extent is damaged that is not what its parent states.
pub(crate) const MISMATCH: &str = "checksum mismatch";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::testing::plain_options;
    use crate::transaction::store::Store;
    use litepack_io::testing::MemoryStorage;

    /// Pages that do not compress are stored so that nearly any bytes in their place would be a page.
    #[test]
    fn another_copy_gives_only_what_the_parent_states() {
        let mut state = 1u64;
        let mut noise = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        let pages: Vec<Vec<u8>> = (0..8)
            .map(|_| (0..4096).map(|_| noise()).collect())
            .collect();
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, plain_options()).unwrap();
        for (at, page) in (0..).zip(&pages) {
            store.write(at * 4096, page).unwrap();
        }
        store.commit().unwrap();
        store.flush().unwrap();
        let image = disk.snapshot();
        let map = store.snapshot().commit().unwrap().record.map;
        // In a page, and in the leaf of the map, which comes after them.
        let in_the_map = map.offset.0 as usize + map.len as usize / 2;
        assert!(in_the_map > pages.len() * 4096);
        for at in [20_000, in_the_map] {
            let with = |flip: u8| {
                let mut image = image.clone();
                image[at] ^= flip;
                image
            };
            let read = |spares: &[u8]| -> Result<()> {
                let spares = spares
                    .iter()
                    .map(|flip| Arc::new(MemoryStorage::new(with(*flip))) as _);
                let options = Options {
                    spares: spares.collect(),
                    ..plain_options()
                };
                let mut store = Store::open(MemoryStorage::new(with(1)), options)?;
                store.refresh()?;
                let mut page = vec![0; 4096];
                for at in (0..).take(pages.len()) {
                    store.read(at * 4096, &mut page)?;
                    assert!(page == pages[at as usize], "{at}");
                }
                Ok(())
            };
            assert!(read(&[]).is_err());
            assert!(read(&[2]).is_err(), "other bytes were taken");
            read(&[2, 0]).unwrap();
        }
    }
}
