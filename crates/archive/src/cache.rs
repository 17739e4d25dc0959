//! The process-wide cache of decoded frames, with one byte budget for all open archives.
//!
//! Keys hold a hash of the seek table as well as the file's identity: a file that was replaced by another one
//! under the same name does not find the frames of the former. Frames can be large, so the cache is one piece: divided
//! among shards, as caches of many small things are, a frame larger than a shard would never be kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use quick_cache::sync::{Cache as Entries, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// The budget when nobody asks for another one.
pub const DEFAULT_BUDGET: u64 = 64 << 20;

/// Identity of an archive within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u64);

impl FileId {
    /// An identity nobody else has: what is decoded is then shared with no other handle.
    pub fn unique() -> FileId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        FileId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What of which archive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) file: FileId,
    pub(crate) table: u64,
    pub(crate) frame: u32,
    /// `None` for the whole frame.
    pub(crate) piece: Option<u32>,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Arc<Vec<u8>>> for Bytes {
    fn weight(&self, _: &Key, value: &Arc<Vec<u8>>) -> u64 {
        const OVERHEAD: u64 = 128;
        OVERHEAD + value.capacity() as u64
    }
}

/// Decoded frames, least useful ones dropped first.
pub struct Cache {
    entries: Entries<Key, Arc<Vec<u8>>, Bytes>,
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
        const MOST: usize = 1 << 16;
        let items = usize::try_from(budget >> 16).map_or(MOST, |items| items.clamp(64, MOST));
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(items)
            .weight_capacity(budget)
            .build()
            .expect("both capacities are given");
        Cache {
            entries: Entries::with_options(
                options,
                Bytes,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
        }
    }

    /// The cache that all archives of the process share.
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

    /// Drops everything.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// The bytes in use.
    pub fn used(&self) -> u64 {
        self.entries.weight()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Vec<u8>>> {
        self.entries.get(key)
    }

    /// Whether it is here, without making it more useful by asking.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    pub(crate) fn put(&self, key: Key, bytes: Arc<Vec<u8>>) {
        self.entries.insert(key, bytes);
    }
}
