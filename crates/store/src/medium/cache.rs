//! The store's entries in the process's cache: decoded pages, map nodes and dictionaries, by the place and the checksum
//! of the extents they are made from.

use std::any::Any;
use std::sync::Arc;

use litepack_codec::{Dictionary, Encoding};
use litepack_io::cache::{Cache, FileId, OBJECT_COPY, PageKey, PageRole, Spare};

use crate::format::layout::Pointer;
use crate::format::leaf::{Entry, Leaf};
use crate::format::node::Node;
use crate::format::unit::Unit;
use crate::medium::source::{DecodedFrom, Source};

/// The entries of one file in the cache.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    pub(crate) cache: Arc<Cache>,
    pub(crate) file: FileId,
}

impl PageCache {
    /// Copies a page to `out`, which has its size. `is_use` makes it more useful. If it is not here, `out` is in no known
    /// state.
    #[inline]
    pub(crate) fn read_page(&self, entry: &impl DecodedFrom, out: &mut [u8], is_use: bool) -> bool {
        let key = page_key(self.file, entry);
        self.cache.read_page(&key, out, is_use)
    }

    /// A page that leads to others, if it is where those are.
    #[inline]
    pub(crate) fn upper_page(&self, entry: &impl DecodedFrom) -> Option<Arc<[u8]>> {
        self.cache.upper_page(&page_key(self.file, entry), true)
    }

    /// Whether a page of this size is here, without making it more useful by asking.
    pub(crate) fn has_page(&self, entry: &impl DecodedFrom, size: u32) -> bool {
        let key = page_key(self.file, entry);
        self.cache.has_page(&key, size as usize)
    }

    /// Keeps a copy of a page.
    pub(crate) fn put_page(
        &self,
        unit: Unit,
        entry: &impl DecodedFrom,
        bytes: &[u8],
        spare: &mut Spare,
    ) {
        self.put_page_as(PageRole::Leaf, unit, entry, bytes, spare);
    }

    /// As [`PageCache::put_page`], of a page that the caller has just written.
    pub(crate) fn put_known(
        &self,
        unit: Unit,
        entry: &impl DecodedFrom,
        bytes: &[u8],
        spare: &mut Spare,
    ) {
        self.put_page_as(PageRole::Known, unit, entry, bytes, spare);
    }

    /// As [`PageCache::put_page`]; if the page leads to others, that is its role.
    fn put_page_as(
        &self,
        role: PageRole,
        unit: Unit,
        entry: &impl DecodedFrom,
        bytes: &[u8],
        spare: &mut Spare,
    ) {
        let role = match is_upper(unit, bytes) {
            true => PageRole::Upper,
            false => role,
        };
        let key = page_key(self.file, entry);
        self.cache.put_page(key, bytes, role, spare);
    }

    /// A page has been stored at `entry` instead of `former`: its copy follows, if there is one.
    ///
    /// Entries of the new place are dropped in any case. So a page that was once stored there, with the same length and
    /// the same checksum, is not taken for the one of now.
    pub(crate) fn replace_page(
        &self,
        unit: Unit,
        former: &Entry,
        entry: &Entry,
        bytes: &[u8],
        spare: &mut Spare,
    ) {
        let was_here = self.remove_page(former, bytes.len());
        self.remove_page(entry, bytes.len());
        if was_here && !entry.is_zero() && entry.is_alone() {
            self.put_page_as(PageRole::Known, unit, entry, bytes, spare);
        }
    }

    /// As [`PageCache::replace_page`], of a page that was moved. `page` is room for it.
    pub(crate) fn move_page(
        &self,
        unit: Unit,
        former: &Entry,
        entry: &Entry,
        page: &mut [u8],
        spare: &mut Spare,
    ) {
        // A unit that is stored by reference is decoded again.
        let is_here = former.is_alone() && self.read_page(former, page, false);
        self.remove_page(former, page.len());
        self.remove_page(entry, page.len());
        if is_here {
            self.put_page_as(PageRole::Known, unit, entry, page, spare);
        }
    }

    /// Pages of an item belong to its other users too, and a difference is known by its bases: of those nothing is
    /// removed.
    fn remove_page(&self, entry: &Entry, size: usize) -> bool {
        let is_known = !entry.is_zero() && entry.is_alone();
        is_known && self.cache.remove_page(&page_key(self.file, entry), size)
    }

    /// Forgets what was known of a source, before another page is stored there.
    pub(crate) fn forget(&self, source: &Source, size: usize) {
        self.cache.remove_page(&page_key(self.file, source), size);
    }

    /// A node. That of a leaf of the map which had no room any more is made of its copy, and kept again.
    pub(crate) fn node(&self, pointer: &Pointer) -> Option<Arc<Node>> {
        let key = node_key(self.file, pointer);
        self.cache.object(&key).or_else(|| {
            let leaf = Leaf::from_copy(&self.cache.object_copy(&key)?);
            let node = Arc::new(Node::Leaf(leaf));
            self.put_node(pointer, Arc::clone(&node));
            Some(node)
        })
    }

    pub(crate) fn put_node(&self, pointer: &Pointer, node: Arc<Node>) {
        let (key, bytes) = (node_key(self.file, pointer), node.bytes() as u64);
        self.cache.put_object(key, node, bytes, Some(copy_leaf));
    }

    /// Another node has taken the place of this one in the map.
    pub(crate) fn remove_node(&self, pointer: &Pointer) {
        self.cache.remove_object(&node_key(self.file, pointer));
    }

    pub(crate) fn dictionary(&self, pointer: &Pointer) -> Option<Arc<Dictionary>> {
        self.cache.object(&dictionary_key(self.file, pointer))
    }

    pub(crate) fn put_dictionary(&self, pointer: &Pointer, dictionary: Arc<Dictionary>) {
        let key = dictionary_key(self.file, pointer);
        // zstd prepares tables from it, and a copy.
        let bytes = (32 << 10) + 2 * dictionary.bytes().len() as u64;
        self.cache.put_object(key, dictionary, bytes, None);
    }
}

/// A [`litepack_io::cache::MakeCopy`] of leaves of the map.
fn copy_leaf(object: &(dyn Any + Send + Sync), copy: &mut [u8; OBJECT_COPY]) -> bool {
    match object.downcast_ref::<Node>() {
        Some(Node::Leaf(leaf)) => leaf.copy_to(copy),
        _ => false,
    }
}

/// Whether a page leads to others: the first, where SQLite looks at the beginning of every transaction, and those of
/// b-trees above the leaves (<https://sqlite.org/fileformat2.html#b_tree_pages>). If another page looks like one, it is
/// kept where those are.
fn is_upper(unit: Unit, page: &[u8]) -> bool {
    unit == Unit(0) || matches!(page.first(), Some(2 | 5))
}

/// The same bytes are another page with another dictionary, codec or base, and hold several, so all that is part of the
/// checksum.
fn page_key(file: FileId, source: &impl DecodedFrom) -> PageKey {
    let extent = source.extent();
    let Encoding { codec, dict, .. } = extent.storage;
    let encoding = u32::from(dict) << 8 | u32::from(source.part()) << 4 | codec as u32;
    PageKey::Page {
        file,
        offset: extent.offset.0,
        len: extent.len,
        // An odd factor: different ones stay different.
        sum: extent.sum ^ encoding.wrapping_mul(0x9e37_79b1) ^ source.bases_hash(),
    }
}

fn node_key(file: FileId, pointer: &Pointer) -> PageKey {
    let Pointer { offset, len, sum } = *pointer;
    PageKey::Node {
        file,
        offset: offset.0,
        len,
        sum,
    }
}

fn dictionary_key(file: FileId, pointer: &Pointer) -> PageKey {
    let Pointer { offset, len, sum } = *pointer;
    PageKey::Dictionary {
        file,
        offset: offset.0,
        len,
        sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::leaf::Extent;
    use crate::format::offset::FileOffset;
    use crate::medium::source::Base;
    use litepack_codec::Codec;
    use litepack_io::cache::{CacheKind, CachedFile, FileSize};
    use litepack_skip::{Expected, skip};

    #[test]
    fn what_was_once_stored_in_a_place_is_not_taken_for_what_is_there_now() {
        let cache = Arc::new(Cache::new(40 << 20));
        cache.begin_use(CacheKind::Pages);
        let file = FileId::unique();
        let cache = PageCache { cache, file };
        let spare = &mut Spare::default();
        let entry = |offset| Entry {
            offset: FileOffset(offset),
            len: 700,
            sum: 1,
            ..Entry::ZERO
        };
        let mut found = vec![0; 4096];
        // A leaf of a b-tree, and a page above it.
        for kind in [13, 5] {
            let page = |byte| [[kind].as_slice(), &[byte; 4095]].concat();
            let unit = Unit(7);
            cache.put_page(unit, &entry(1), &page(1), spare);
            cache.put_page(unit, &entry(2), &page(2), spare);
            // A page that is not in the cache comes to a place that had one.
            cache.replace_page(unit, &Entry::ZERO, &entry(1), &page(3), spare);
            assert!(!cache.read_page(&entry(1), &mut found, true));
            // One that is here comes to a place that is known, too.
            cache.put_page(unit, &entry(1), &page(1), spare);
            cache.replace_page(unit, &entry(2), &entry(1), &page(4), spare);
            assert!(cache.read_page(&entry(1), &mut found, true) && found == page(4));
            assert!(!cache.read_page(&entry(2), &mut found, true));
            cache.put_page(unit, &entry(2), &page(2), spare);
            cache.move_page(unit, &entry(1), &entry(2), &mut [0; 4096], spare);
            assert!(cache.read_page(&entry(2), &mut found, true) && found == page(4));
            cache.put_page(unit, &entry(3), &page(5), spare);
            cache.move_page(unit, &entry(1), &entry(3), &mut [0; 4096], spare);
            assert!(!cache.read_page(&entry(3), &mut found, true));
            cache.replace_page(unit, &entry(2), &Entry::ZERO, &page(0), spare);
            assert!(!cache.read_page(&entry(2), &mut found, true));
        }
    }

    #[test]
    fn the_same_bytes_decoded_otherwise_are_another_page() {
        let entry = |codec, dict, up_to_date| Entry {
            offset: FileOffset(1),
            len: 700,
            sum: 1,
            storage: Encoding {
                codec,
                dict,
                up_to_date,
            },
            ..Entry::ZERO
        };
        let file = FileId::unique();
        let key = |codec, dict| page_key(file, &entry(codec, dict, false));
        let mut keys = std::collections::HashSet::new();
        for codec in Codec::ALL {
            keys.extend((0..1000).map(|dict| key(codec, dict)));
        }
        assert_eq!(keys.len(), 3000);
        let newer = page_key(file, &entry(Codec::Zstd, 1, true));
        assert_eq!(newer, key(Codec::Zstd, 1));
        // Identical pages have identical frames: only their bases tell them apart.
        let base = |offset, len, sum, dict| Base {
            item: None,
            extent: Extent {
                offset: FileOffset(offset),
                len,
                sum,
                nonce: litepack_cipher::Nonce::NONE,
                storage: Encoding {
                    codec: Codec::Zstd,
                    dict,
                    up_to_date: true,
                },
            },
            units: 1,
        };
        let source = |units, slice, bases| Source {
            extent: entry(Codec::Zstd, 1, true).extent(),
            units,
            slice,
            bases,
        };
        let one = base(5, 6, 7, 8);
        let others = [(4, 6, 7, 8), (5, 7, 7, 8), (5, 6, 8, 8), (5, 6, 7, 9)];
        let others = others.map(|(offset, len, sum, dict)| base(offset, len, sum, dict));
        let mut sources = vec![source(1, 0, [Some(one), None, None])];
        sources.extend(others.map(|other| source(1, 0, [Some(other), None, None])));
        for other in others {
            sources.push(source(1, 0, [Some(one), Some(other), None]));
            sources.push(source(1, 0, [Some(other), Some(one), None]));
        }
        for units in [2, 4] {
            sources.extend((0..units).map(|slice| source(units, slice, [None; 3])));
        }
        let count = keys.len() + sources.len();
        keys.extend(sources.iter().map(|source| page_key(file, source)));
        assert_eq!(keys.len(), count);
        let alone = page_key(file, &source(1, 0, [None; 3]));
        assert_eq!(alone, newer, "a unit that becomes an item is still here");
    }

    /// A cache for a file of 10 GB; nothing where the system has no memory that it can take back.
    fn of_ten_gigabytes() -> Option<(PageCache, CachedFile)> {
        let cache = Arc::new(Cache::new(400 << 20));
        cache.begin_use(CacheKind::Pages);
        let file = FileId::unique();
        let mut handle = CachedFile::new(&cache, file);
        handle.tell(FileSize {
            stored: 600 << 20,
            decoded: 10 << 30,
        });
        let pages = PageCache { cache, file };
        let mut leaf = [13; 4096];
        let entry = Entry {
            len: 1,
            ..Entry::ZERO
        };
        pages.put_page(Unit(1), &entry, &leaf, &mut Spare::default());
        assert!(pages.read_page(&entry, &mut leaf, true));
        // In memory that is ours it would be an upper page.
        let is_elastic = pages.upper_page(&entry).is_none();
        if !is_elastic {
            skip(Expected::OnLinux, "no memory that the system may take back");
        }
        is_elastic.then_some((pages, handle))
    }

    fn node(number: u64) -> Arc<Node> {
        let mut leaf = Leaf::empty();
        for slot in 0..128 {
            let entry = Entry {
                offset: FileOffset(number << 20 | slot << 9),
                len: 300,
                sum: u32::try_from(number).unwrap(),
                ..Entry::ZERO
            };
            leaf.set(usize::try_from(slot).unwrap(), entry);
        }
        Arc::new(Node::Leaf(leaf))
    }

    fn pointer(number: u64) -> Pointer {
        Pointer {
            offset: FileOffset(number << 12),
            len: 900,
            sum: number << 32 | 7,
        }
    }

    #[test]
    fn leaves_of_the_map_that_have_no_room_with_the_nodes_are_found_as_copies() {
        const LEAVES: u64 = 20_000;
        let Some((pages, _handle)) = of_ten_gigabytes() else {
            return;
        };
        for number in 1..LEAVES {
            pages.put_node(&pointer(number), node(number));
        }
        let key = |number| node_key(pages.file, &pointer(number));
        let is_object = |number: &u64| pages.cache.object::<Node>(&key(*number)).is_some();
        let objects = (1..LEAVES).filter(is_object).count();
        assert!(objects < 11_000, "{objects} have room");
        for number in 1..LEAVES {
            let sum = pointer(number).sum ^ 1 << 63;
            let other = Pointer {
                sum,
                ..pointer(number)
            };
            assert!(pages.node(&other).is_none(), "half of the checksum differs");
            assert!(pages.node(&pointer(number)) == Some(node(number)));
            assert!(is_object(&number), "it is kept again");
        }
        for number in 1..LEAVES {
            pages.remove_node(&pointer(number));
            assert!(pages.node(&pointer(number)).is_none());
        }
    }

    /// Commits of other processes replace leaves, and do not say which.
    #[test]
    fn copies_of_leaves_have_a_limit() {
        let Some((pages, _handle)) = of_ten_gigabytes() else {
            return;
        };
        let in_use = || (1..1000).filter(|number| pages.node(&pointer(*number)).is_some());
        for number in 1..100_000 {
            pages.put_node(&pointer(number), node(number));
            if number % 5000 == 0 {
                assert_eq!(in_use().count(), 999, "after {number}");
            }
        }
        let bytes = pages.cache.bytes();
        assert!(bytes < (16 + 2 + 400 / 8) << 20, "{bytes}");
    }
}
