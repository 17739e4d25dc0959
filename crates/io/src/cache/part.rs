//! Entries of one kind, least useful ones dropped first.

use std::hash::Hash;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use quick_cache::sync::Cache as Sharded;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

/// A key of a cache.
pub(super) trait Key: Copy + Eq + Hash {}

impl<K: Copy + Eq + Hash> Key for K {}

/// A value of a cache.
pub(super) trait Weigh: Clone {
    /// How many bytes it takes.
    fn weight(&self) -> u64;
}

/// How a part is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// `None` for as many as threads may meet in.
    pub(super) shards: Option<usize>,
    /// The share for what was used more than once, if it is not the usual one.
    pub(super) hot: Option<f64>,
    /// About how many entries there will be in `bytes`.
    pub(super) items: usize,
    pub(super) bytes: u64,
}

#[derive(Clone)]
pub(super) struct ByWeight;

impl<K, V: Weigh> Weighter<K, V> for ByWeight {
    fn weight(&self, _: &K, value: &V) -> u64 {
        value.weight()
    }
}

/// Entries that one insertion pushed out or replaced, to be dropped once the part is unlocked.
pub(super) struct PushedOut<K, V> {
    /// As a rule it is one entry, or none.
    first: Option<(K, V)>,
    others: Vec<(K, V)>,
}

impl<K, V> Default for PushedOut<K, V> {
    fn default() -> PushedOut<K, V> {
        PushedOut {
            first: None,
            others: Vec::new(),
        }
    }
}

impl<K, V> IntoIterator for PushedOut<K, V> {
    type Item = (K, V);
    type IntoIter = std::iter::Chain<std::option::IntoIter<(K, V)>, std::vec::IntoIter<(K, V)>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.others)
    }
}

#[derive(Clone)]
pub(super) struct Keeping;

impl<K, V: Weigh> Lifecycle<K, V> for Keeping {
    type RequestState = PushedOut<K, V>;

    fn on_evict(&self, out: &mut PushedOut<K, V>, key: K, value: V) {
        match out.first {
            None => out.first = Some((key, value)),
            Some(_) => out.others.push((key, value)),
        }
    }
}

/// Bytes that the tables take for an entry, about, while they grow.
const ENTRY_IN_TABLES: usize = 256;
/// So few entries, in [`SHARDS_MIN`] tables, are small enough for what stands behind small requests.
const FEW: usize = 16 << 10;
/// Tables there are at least where there are several; each grows by itself.
const SHARDS_MIN: usize = 4;
const PUTS_PER_COUNT: usize = 256;
/// A part that is to have less than this share of what it was made for holds nothing. The table keeps its size then: it
/// remembers entries that it dropped, as many as fit its size, and would not do so again after a size of nearly 0.
const NOTHING: u64 = 64;

/// Entries of one kind, as the division sees them.
pub(super) trait Resize {
    /// Changes how many bytes may be kept, and makes the tables if they are not there yet.
    fn resize(&self, bytes: u64);
    /// Whether it was given a size.
    fn is_made(&self) -> bool;
    /// The bytes that are kept.
    fn weight(&self) -> u64;
    fn clear(&self);
}

/// The entries, made when the first handle uses them.
pub(super) struct Part<K, V: Weigh> {
    entries: OnceLock<Sharded<K, V, ByWeight, DefaultHashBuilder, Keeping>>,
    shape: Shape,
    holds_nothing: AtomicBool,
    /// The tables of the entries have grown for about so many.
    grown: AtomicUsize,
    puts: AtomicUsize,
}

impl<K: Key, V: Weigh> Part<K, V> {
    pub(super) fn new(shape: Shape) -> Part<K, V> {
        let tables = shape
            .shards
            .map_or(SHARDS_MIN, |shards| shards.min(SHARDS_MIN));
        Part {
            entries: OnceLock::new(),
            shape,
            holds_nothing: AtomicBool::new(false),
            grown: AtomicUsize::new(FEW / SHARDS_MIN * tables),
            puts: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.entries.get()?.get(key)
    }

    #[inline]
    pub(super) fn peek(&self, key: &K) -> Option<V> {
        self.entries.get()?.peek(key)
    }

    pub(super) fn has(&self, key: &K) -> bool {
        self.entries
            .get()
            .is_some_and(|entries| entries.contains_key(key))
    }

    /// Drops a value. False if it was not here.
    pub(super) fn remove(&self, key: &K) -> bool {
        self.entries
            .get()
            .is_some_and(|entries| entries.remove(key).is_some())
    }

    /// Drops all values but those of these keys.
    pub(super) fn retain(&self, is_kept: impl Fn(&K) -> bool) {
        if let Some(entries) = self.entries.get() {
            entries.retain(|key, _| is_kept(key));
        }
    }

    /// Keeps a value, if there is memory for it, and says what had to go.
    pub(super) fn put(&self, key: K, value: V) -> PushedOut<K, V> {
        let mut out = PushedOut::default();
        if let Some(entries) = self.entries.get()
            && !self.holds_nothing.load(Ordering::Relaxed)
            && self.may_grow(entries.num_shards(), || entries.len())
        {
            entries.insert_with_lifecycle(key, value, &mut out);
        }
        out
    }

    /// Whether there is memory for the tables of one more entry. They grow by themselves, and would not survive it if
    /// not.
    fn may_grow(&self, shards: usize, len: impl Fn() -> usize) -> bool {
        // To count the entries takes long.
        let puts = self.puts.fetch_add(1, Ordering::Relaxed);
        if !puts.is_multiple_of(PUTS_PER_COUNT) {
            return crate::memory::check().is_ok();
        }
        let len = len();
        if len < self.grown.load(Ordering::Relaxed) {
            return crate::memory::check().is_ok();
        }
        let more = len + len / 8;
        if crate::memory::probe(more * ENTRY_IN_TABLES / shards.min(SHARDS_MIN)).is_err() {
            return false;
        }
        self.grown.store(more, Ordering::Relaxed);
        true
    }

    fn make(&self) -> Sharded<K, V, ByWeight, DefaultHashBuilder, Keeping> {
        let mut options = OptionsBuilder::new();
        options
            .estimated_items_capacity(self.shape.items)
            .weight_capacity(self.shape.bytes);
        if let Some(shards) = self.shape.shards {
            options.shards(shards);
        }
        if let Some(hot) = self.shape.hot {
            options.hot_allocation(hot);
        }
        let options = options.build().expect("both capacities are given");
        Sharded::with_options(options, ByWeight, DefaultHashBuilder::default(), Keeping)
    }
}

impl<K: Key, V: Weigh> Resize for Part<K, V> {
    fn resize(&self, bytes: u64) {
        let entries = self.entries.get_or_init(|| self.make());
        let holds_nothing = bytes < self.shape.bytes / NOTHING || bytes == 0;
        self.holds_nothing.store(holds_nothing, Ordering::Relaxed);
        if holds_nothing {
            entries.clear();
        } else if entries.capacity() != bytes {
            entries.set_capacity(bytes);
        }
    }

    fn is_made(&self) -> bool {
        self.entries.get().is_some()
    }

    fn weight(&self) -> u64 {
        self.entries.get().map_or(0, Sharded::weight)
    }

    fn clear(&self) {
        if let Some(entries) = self.entries.get() {
            entries.clear();
        }
    }
}
