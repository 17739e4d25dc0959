//! The process-wide cache of blocks, with one byte budget for all files on servers.
//!
//! Keys hold a hash of all that names the file and its version, so handles share blocks exactly if they would get the same
//! ones. The cache is one piece: divided among shards a small budget would hold nothing.

use std::sync::{Arc, OnceLock};

use quick_cache::sync::{Cache as Entries, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// Bytes in a block, but for the last one of a file: what is fetched and kept at once.
pub const BLOCK_SIZE: u64 = 64 << 10;
/// The budget when nobody asks for another one, in bytes.
pub const DEFAULT_BUDGET: u64 = 64 << 20;

/// The share of the budget for blocks that were used more than once.
const HOT: f64 = 0.5;

/// The bytes of a block.
pub(crate) type Bytes = Arc<Vec<u8>>;

/// Which block of which version of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) file: u128,
    pub(crate) block: u64,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Bytes> for Weight {
    fn weight(&self, _: &Key, value: &Bytes) -> u64 {
        const OVERHEAD: u64 = 128;
        OVERHEAD + value.capacity() as u64
    }
}

/// Blocks in memory, least useful ones dropped first.
pub struct Cache {
    entries: Entries<Key, Bytes, Weight>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.used(), self.budget())
    }
}

impl Cache {
    /// A cache of its own with a budget in bytes.
    pub fn new(budget: u64) -> Cache {
        let options = OptionsBuilder::new()
            .shards(1)
            // What was fetched ahead is new, and has to stay until it is read once.
            .hot_allocation(HOT)
            .estimated_items_capacity((budget / BLOCK_SIZE).clamp(16, 1 << 16) as usize)
            .weight_capacity(budget)
            .build()
            .expect("both capacities are given");
        Cache {
            entries: Entries::with_options(
                options,
                Weight,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
        }
    }

    /// The cache that all handles of the process share.
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

    /// The bytes in use.
    pub fn used(&self) -> u64 {
        self.entries.weight()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Bytes> {
        self.entries.get(key)
    }

    /// Whether it is here, without making it more useful by asking.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    pub(crate) fn put(&self, key: Key, bytes: Bytes) {
        self.entries.insert(key, bytes);
    }
}
