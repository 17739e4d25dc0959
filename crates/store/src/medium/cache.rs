//! The process-wide cache of decoded pages, map nodes and dictionaries, with one byte budget for all open files.
//!
//! Keys hold the extent's offset, length and checksum as well as the file, so an entry is never
//! wrong: when a page moves or changes its key changes, and the old entry ages out.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use litepack_codec::Dictionary;
use litepack_io::memory::OutOfMemory;
use quick_cache::sync::Cache as Sharded;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::format::layout::Pointer;
use crate::format::leaf::Entry;
use crate::format::node::Node;

/// The budget when nobody asks for another one: 64 MB with what else a process takes for a packed file.
pub const DEFAULT_BUDGET: u64 = 40 << 20;

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
            Value::Node(node) => OVERHEAD + node.bytes() as u64,
            // zstd prepares tables from it, and a copy.
            Value::Dictionary(dictionary) => (32 << 10) + 2 * dictionary.bytes().len() as u64,
        }
    }
}

/// What one insertion pushed out: dropped when the cache is no longer locked, except for the memory of a page.
#[derive(Default)]
struct PushedOut {
    page: Option<Arc<[u8]>>,
    others: Vec<Value>,
}

#[derive(Clone)]
struct Keeping;

impl Lifecycle<Key, Value> for Keeping {
    type RequestState = PushedOut;

    fn on_evict(&self, out: &mut PushedOut, _: Key, value: Value) {
        match value {
            Value::Page(page) if out.page.is_none() => out.page = Some(page),
            value => out.others.push(value),
        }
    }
}

/// Memory of a page that was pushed out of the cache, for the next one that whoever has it puts there. A full cache
/// then neither allocates nor frees: threads that do both in each other's memory wait for each other, and leave holes.
#[derive(Debug, Default)]
pub(crate) struct Spare(Option<Arc<[u8]>>);

/// A copy of `bytes`, in the memory of a former page if nobody else has that and it fits.
pub(crate) fn copy_into(former: Option<Arc<[u8]>>, bytes: &[u8]) -> Result<Arc<[u8]>, OutOfMemory> {
    let reused = former.and_then(|mut page| {
        let memory = Arc::get_mut(&mut page).filter(|memory| memory.len() == bytes.len())?;
        memory.copy_from_slice(bytes);
        Some(page)
    });
    reused.map_or_else(|| litepack_io::memory::shared(bytes), Ok)
}

/// Decoded pages, nodes and dictionaries, least useful ones dropped first.
pub struct Cache {
    entries: Sharded<Key, Value, Bytes, DefaultHashBuilder, Keeping>,
    shares: Mutex<Shares>,
    /// The tables of the entries have grown for about so many.
    grown: AtomicUsize,
    puts: AtomicUsize,
}

/// Bytes that the tables take for an entry, about, while they grow.
const ENTRY_IN_TABLES: usize = 256;
/// So few entries have tables small enough for what stands behind small requests.
const FEW: usize = 16 << 10;
/// Tables there are at least; each grows by itself.
const SHARDS_MIN: usize = 4;
const PUTS_PER_COUNT: usize = 256;

/// Who has the memory, in bytes.
#[derive(Debug)]
struct Shares {
    budget: u64,
    lent: u64,
}

impl Shares {
    /// What is left to keep entries in. Half of the budget is, whatever was lent.
    fn left(&self) -> u64 {
        self.budget - self.lent.min(self.budget / 2)
    }
}

/// A part of a cache's budget that someone has for something else until this is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    cache: Arc<Cache>,
    bytes: u64,
}

impl Loan {
    pub(crate) fn new(cache: &Arc<Cache>, bytes: u64) -> Loan {
        cache.share(|shares| shares.lent += bytes);
        let cache = Arc::clone(cache);
        Loan { cache, bytes }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.cache.share(|shares| shares.lent -= self.bytes);
    }
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
            entries: Sharded::with(
                expected,
                budget,
                Bytes,
                DefaultHashBuilder::default(),
                Keeping,
            ),
            shares: Mutex::new(Shares { budget, lent: 0 }),
            grown: AtomicUsize::new(FEW),
            puts: AtomicUsize::new(0),
        }
    }

    /// The cache that all files of the process share.
    pub fn shared() -> &'static Arc<Cache> {
        static SHARED: OnceLock<Arc<Cache>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Cache::new(DEFAULT_BUDGET)))
    }

    /// Changes the budget; what no longer fits is dropped.
    pub fn set_budget(&self, bytes: u64) {
        self.share(|shares| shares.budget = bytes);
    }

    /// The budget in bytes.
    pub fn budget(&self) -> u64 {
        self.shares().budget
    }

    /// Drops everything.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.entries.weight()
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn share(&self, change: impl FnOnce(&mut Shares)) {
        let mut shares = self.shares();
        let before = shares.left();
        change(&mut shares);
        if shares.left() != before {
            self.entries.set_capacity(shares.left());
        }
    }

    pub(crate) fn page(&self, file: FileId, entry: &Entry) -> Option<Arc<[u8]>> {
        Cache::as_page(self.entries.get(&page_key(file, entry))?)
    }

    /// The same without making it more useful by asking.
    pub(crate) fn peek_page(&self, file: FileId, entry: &Entry) -> Option<Arc<[u8]>> {
        Cache::as_page(self.entries.peek(&page_key(file, entry))?)
    }

    /// Whether there is memory for the tables of one more entry. They grow by themselves, and would not survive it if not.
    fn may_grow(&self) -> bool {
        // To count the entries takes long.
        let puts = self.puts.fetch_add(1, Ordering::Relaxed);
        if !puts.is_multiple_of(PUTS_PER_COUNT) {
            return litepack_io::memory::check().is_ok();
        }
        let len = self.entries.len();
        if len < self.grown.load(Ordering::Relaxed) {
            return litepack_io::memory::check().is_ok();
        }
        let more = len + len / 8;
        if litepack_io::memory::probe(more * ENTRY_IN_TABLES / SHARDS_MIN).is_err() {
            return false;
        }
        self.grown.store(more, Ordering::Relaxed);
        true
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

    /// Keeps a copy of a page.
    pub(crate) fn put_page(&self, file: FileId, entry: &Entry, bytes: &[u8], spare: &mut Spare) {
        let Ok(page) = copy_into(spare.0.take(), bytes) else {
            return;
        };
        if !self.may_grow() {
            return;
        }
        let mut out = PushedOut::default();
        self.entries
            .insert_with_lifecycle(page_key(file, entry), Value::Page(page), &mut out);
        spare.0 = out.page;
    }

    pub(crate) fn node(&self, file: FileId, pointer: &Pointer) -> Option<Arc<Node>> {
        match self.entries.get(&metadata_key(file, pointer))? {
            Value::Node(node) => Some(node),
            Value::Page(_) | Value::Dictionary(_) => None,
        }
    }

    pub(crate) fn put_node(&self, file: FileId, pointer: &Pointer, node: Arc<Node>) {
        if self.may_grow() {
            self.entries
                .insert(metadata_key(file, pointer), Value::Node(node));
        }
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
        if self.may_grow() {
            self.entries
                .insert(metadata_key(file, pointer), Value::Dictionary(dictionary));
        }
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
            cache.put_page(file, &entry(offset), &[0; 4096], &mut Spare::default());
        }
        assert!(cache.has_page(file, &entry(50)));
        cache.set_budget(0);
        cache.set_budget(DEFAULT_BUDGET);
        assert!((1..100).all(|offset| !cache.has_page(file, &entry(offset))));
    }

    #[test]
    fn what_is_lent_is_given_back() {
        let cache = Arc::new(Cache::new(64 << 20));
        let lend = || Loan::new(&cache, 24 << 20);
        let loans = (lend(), lend());
        assert_eq!(cache.entries.capacity(), 32 << 20);
        drop(loans.0);
        assert_eq!(cache.entries.capacity(), 40 << 20);
        cache.set_budget(80 << 20);
        assert_eq!(cache.entries.capacity(), 56 << 20);
        drop(loans.1);
        assert_eq!(cache.entries.capacity(), 80 << 20);
        assert_eq!(cache.budget(), 80 << 20);
    }

    #[test]
    fn what_is_pushed_out_is_memory_for_what_comes_unless_someone_has_it() {
        let cache = Cache::new(1 << 20);
        let file = FileId::unique();
        let entry = |offset| Entry {
            offset,
            len: 100,
            ..Entry::ZERO
        };
        let mut spare = Spare::default();
        let mut held = Vec::new();
        let mut reused = 0;
        for number in 1..4000_u64 {
            let bytes = [number as u8; 4096];
            let former = spare.0.as_ref().filter(|page| Arc::strong_count(page) == 1);
            let former = former.map(|page| page.as_ptr());
            cache.put_page(file, &entry(number), &bytes, &mut spare);
            let page = cache.peek_page(file, &entry(number)).expect("just put");
            assert!(*page == bytes);
            reused += u32::from(former == Some(page.as_ptr()));
            if number % 3 == 0 {
                held.push((number, page));
            }
        }
        assert!(reused > 2000, "{reused}");
        for (number, page) in held {
            assert!(*page == [number as u8; 4096], "page {number}");
        }
    }
}
