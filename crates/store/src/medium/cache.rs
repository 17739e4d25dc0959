//! What the store keeps in the process's cache: decoded pages, map nodes and dictionaries, by the place and the
//! checksum of the extents they are made from.

use std::sync::Arc;

use litepack_codec::Dictionary;
use litepack_io::cache::{Cache, FileId, PageKey, Spare};

use crate::format::layout::Pointer;
use crate::format::leaf::Entry;
use crate::format::node::Node;
use crate::format::unit::Unit;

/// What one file has in the cache.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    pub(crate) cache: Arc<Cache>,
    pub(crate) file: FileId,
}

impl PageCache {
    /// Copies a page to `out`, which has its size. `is_use` makes it more useful. If it is not here, `out` is in no known
    /// state.
    #[inline]
    pub(crate) fn read_page(&self, entry: &Entry, out: &mut [u8], is_use: bool) -> bool {
        let key = page_key(self.file, entry);
        self.cache.read_page(&key, out, is_use)
    }

    /// A page that leads to others, if it is here.
    #[inline]
    pub(crate) fn upper_page(&self, entry: &Entry) -> Option<Arc<[u8]>> {
        self.cache.upper_page(&page_key(self.file, entry), true)
    }

    /// Whether a page of this size is here, without making it more useful by asking.
    pub(crate) fn has_page(&self, entry: &Entry, size: u32) -> bool {
        let key = page_key(self.file, entry);
        self.cache.has_page(&key, size as usize)
    }

    /// Keeps a copy of a page.
    pub(crate) fn put_page(&self, unit: Unit, entry: &Entry, bytes: &[u8], spare: &mut Spare) {
        let key = page_key(self.file, entry);
        self.cache
            .put_page(key, bytes, is_upper(unit, bytes), spare);
    }

    pub(crate) fn node(&self, pointer: &Pointer) -> Option<Arc<Node>> {
        self.cache.object(&node_key(self.file, pointer))
    }

    pub(crate) fn put_node(&self, pointer: &Pointer, node: Arc<Node>) {
        let (key, bytes) = (node_key(self.file, pointer), node.bytes() as u64);
        self.cache.put_object(key, node, bytes);
    }

    pub(crate) fn dictionary(&self, pointer: &Pointer) -> Option<Arc<Dictionary>> {
        self.cache.object(&dictionary_key(self.file, pointer))
    }

    pub(crate) fn put_dictionary(&self, pointer: &Pointer, dictionary: Arc<Dictionary>) {
        let key = dictionary_key(self.file, pointer);
        // zstd prepares tables from it, and a copy.
        let bytes = (32 << 10) + 2 * dictionary.bytes().len() as u64;
        self.cache.put_object(key, dictionary, bytes);
    }
}

/// Whether a page leads to others: the first, where SQLite looks at the beginning of every transaction, and those of
/// b-trees above the leaves (<https://sqlite.org/fileformat2.html#b_tree_pages>). If another page looks like one, it is
/// kept where those are.
fn is_upper(unit: Unit, page: &[u8]) -> bool {
    unit == Unit(0) || matches!(page.first(), Some(2 | 5))
}

fn page_key(file: FileId, entry: &Entry) -> PageKey {
    PageKey::Page {
        file,
        offset: entry.offset.0,
        len: entry.len,
        sum: entry.sum,
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
