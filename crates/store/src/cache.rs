//! The process-wide cache of decoded pages, map nodes and dictionaries, with one byte budget for all open files.
//!
//! Keys hold the extent's offset, length and checksum as well as the file, so an entry is never
//! wrong: when a page moves or changes its key changes, and the old entry ages out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use litepack_codec::Dictionary;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Sharded;

use crate::layout::Pointer;
use crate::node::{Entry, FANOUT, Node};

/// The budget when nobody asks for another one.
pub const DEFAULT_BUDGET: u64 = 64 << 20;

/// Identity of an open file within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u64);

impl FileId {
    /// An identity nobody else has: the file's pages are then shared with no other handle.
    pub fn unique() -> FileId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        FileId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Page {
        file: FileId,
        offset: u64,
        len: u32,
        sum: u32,
    },
    Metadata {
        file: FileId,
        offset: u64,
        len: u32,
        sum: u64,
    },
}

#[derive(Clone)]
enum Value {
    Page(Arc<[u8]>),
    Node(Arc<Node>),
    Dictionary(Arc<Dictionary>),
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Value> for Bytes {
    fn weight(&self, _: &Key, value: &Value) -> u64 {
        const OVERHEAD: u64 = 128;
        match value {
            Value::Page(page) => OVERHEAD + page.len() as u64,
            Value::Node(_) => OVERHEAD + (FANOUT * size_of::<Entry>()) as u64,
            // zstd prepares tables from it, and a copy.
            Value::Dictionary(dictionary) => (32 << 10) + 2 * dictionary.bytes().len() as u64,
        }
    }
}

/// Decoded pages, nodes and dictionaries, least useful ones dropped first.
pub struct Cache {
    entries: Sharded<Key, Value, Bytes>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Cache({} of {} bytes)",
            self.entries.weight(),
            self.entries.capacity()
        )
    }
}

impl Cache {
    /// A cache of its own with a budget in bytes.
    pub fn new(budget: u64) -> Cache {
        let expected = (budget / 4096).max(16) as usize;
        Cache {
            entries: Sharded::with_weighter(expected, budget, Bytes),
        }
    }

    /// The cache that all files of the process share.
    pub fn shared() -> &'static Arc<Cache> {
        static SHARED: OnceLock<Arc<Cache>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Cache::new(DEFAULT_BUDGET)))
    }

    /// Changes the budget; what no longer fits is dropped.
    pub fn set_budget(&self, bytes: u64) {
        self.entries.set_capacity(bytes);
    }

    /// The budget in bytes.
    pub fn budget(&self) -> u64 {
        self.entries.capacity()
    }

    pub(crate) fn page(&self, file: FileId, entry: &Entry) -> Option<Arc<[u8]>> {
        Cache::as_page(self.entries.get(&page_key(file, entry))?)
    }

    /// The same without making it more useful by asking.
    pub(crate) fn peek_page(&self, file: FileId, entry: &Entry) -> Option<Arc<[u8]>> {
        Cache::as_page(self.entries.peek(&page_key(file, entry))?)
    }

    fn as_page(value: Value) -> Option<Arc<[u8]>> {
        match value {
            Value::Page(page) => Some(page),
            Value::Node(_) | Value::Dictionary(_) => None,
        }
    }

    /// Whether a page is here, without making it more useful by asking.
    pub(crate) fn has_page(&self, file: FileId, entry: &Entry) -> bool {
        self.entries.contains_key(&page_key(file, entry))
    }

    pub(crate) fn put_page(&self, file: FileId, entry: &Entry, page: Arc<[u8]>) {
        self.entries
            .insert(page_key(file, entry), Value::Page(page));
    }

    pub(crate) fn node(&self, file: FileId, pointer: &Pointer) -> Option<Arc<Node>> {
        match self.entries.get(&metadata_key(file, pointer))? {
            Value::Node(node) => Some(node),
            Value::Page(_) | Value::Dictionary(_) => None,
        }
    }

    pub(crate) fn put_node(&self, file: FileId, pointer: &Pointer, node: Arc<Node>) {
        self.entries
            .insert(metadata_key(file, pointer), Value::Node(node));
    }

    pub(crate) fn dictionary(&self, file: FileId, pointer: &Pointer) -> Option<Arc<Dictionary>> {
        match self.entries.get(&metadata_key(file, pointer))? {
            Value::Dictionary(dictionary) => Some(dictionary),
            Value::Page(_) | Value::Node(_) => None,
        }
    }

    pub(crate) fn put_dictionary(
        &self,
        file: FileId,
        pointer: &Pointer,
        dictionary: Arc<Dictionary>,
    ) {
        self.entries
            .insert(metadata_key(file, pointer), Value::Dictionary(dictionary));
    }
}

fn page_key(file: FileId, entry: &Entry) -> Key {
    Key::Page {
        file,
        offset: entry.offset,
        len: entry.len,
        sum: entry.sum,
    }
}

fn metadata_key(file: FileId, pointer: &Pointer) -> Key {
    Key::Metadata {
        file,
        offset: pointer.offset,
        len: pointer.len,
        sum: pointer.sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_budget_nothing_is_kept() {
        let cache = Cache::new(DEFAULT_BUDGET);
        let file = FileId::unique();
        let entry = |offset| Entry {
            offset,
            len: 100,
            ..Entry::ZERO
        };
        for offset in 1..100 {
            cache.put_page(file, &entry(offset), Arc::from([0; 4096]));
        }
        assert!(cache.has_page(file, &entry(50)));
        cache.set_budget(0);
        cache.set_budget(DEFAULT_BUDGET);
        assert!((1..100).all(|offset| !cache.has_page(file, &entry(offset))));
    }
}
