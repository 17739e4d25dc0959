//! The cache of all that a process keeps decoded or fetched, with one budget in bytes.
//!
//! ```text
//! part.rs      entries of one kind, least useful ones dropped first
//! division.rs  how the kinds divide the budget
//! ```
//! Three kinds have a part each, as they want different ones. Pages, map nodes and dictionaries are small and many, and
//! threads meet in them: their part is divided into shards. Frames of archives can be larger than a shard, so theirs is
//! one piece. Blocks fetched from servers come before they are used for the first time: half of their part is for
//! those that were not used twice. The first handle of a kind says so with [`Cache::begin_use`].
//!
//! Keys hold all that tells an entry from others (of a page its place and checksum), so an entry is never wrong: when
//! something changes its key changes, and the old entry ages out.

mod division;
mod part;

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::memory::OutOfMemory;
use division::{Division, KINDS};
use part::{Part, Resize, Shape, Weigh};

/// The budget when nobody asks for another one and only packed files are read. With what else a process takes for them
/// that is 64 MB, the memory that docs promise.
pub const DEFAULT_BUDGET: u64 = 40 << 20;
/// The same when archives or files on servers are read. With less, filters by an index on an archive take three times
/// as long (measured on a table of 200,000 rows).
pub const DEFAULT_BUDGET_OF_MANY: u64 = 64 << 20;

/// Identity of an open file within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u64);

impl FileId {
    /// An identity nobody else has: what is kept of the file is then shared with no other handle.
    pub fn unique() -> FileId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        FileId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A page of a packed file, or what leads to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "what each field is, is said once")]
pub enum PageKey {
    /// A decoded page: where it is stored, in how many bytes, and their checksum.
    Page {
        file: FileId,
        offset: u64,
        len: u32,
        sum: u32,
    },
    /// A node of the page map: the same.
    Node {
        file: FileId,
        offset: u64,
        len: u32,
        sum: u64,
    },
    /// A dictionary: the same.
    Dictionary {
        file: FileId,
        offset: u64,
        len: u32,
        sum: u64,
    },
}

/// A decoded frame of an archive, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKey {
    /// Which archive.
    pub file: FileId,
    /// A hash of its seek table: a file that took the place of another one does not find the frames of the former.
    pub table: u64,
    /// The frame's number.
    pub frame: u32,
    /// `None` for the whole frame.
    pub piece: Option<u32>,
}

/// A block of a file on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// A hash of all that names the file and its version.
    pub file: u128,
    /// The block's number.
    pub block: u64,
}

/// The bytes of a frame or a block.
pub type Bytes = Arc<Vec<u8>>;

#[derive(Clone)]
enum PageValue {
    Page(Arc<[u8]>),
    /// A node or a dictionary, and its weight.
    Object(Arc<dyn Any + Send + Sync>, u64),
}

/// What the tables take for an entry.
const OVERHEAD: u64 = 128;

impl Weigh for PageValue {
    fn weight(&self) -> u64 {
        match self {
            PageValue::Page(page) => OVERHEAD + page.len() as u64,
            PageValue::Object(_, weight) => OVERHEAD + weight,
        }
    }

    fn is_reusable(&self) -> bool {
        matches!(self, PageValue::Page(_))
    }
}

impl Weigh for Bytes {
    fn weight(&self) -> u64 {
        OVERHEAD + self.capacity() as u64
    }
}

/// What is kept, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Pages, map nodes and dictionaries.
    Pages,
    /// Frames of archives.
    Frames,
    /// Blocks of files on servers.
    Blocks,
}

/// Memory of a page that was pushed out of the cache, for the next one that whoever has it puts there. A full cache
/// then neither allocates nor frees: threads that do both in each other's memory wait for each other, and leave holes.
#[derive(Debug, Default)]
pub struct Spare(Option<Arc<[u8]>>);

/// A copy of `bytes`, in the memory of a former page if nobody else has that and it fits.
///
/// # Errors
/// When there is no memory for it.
pub fn copy_into(former: Option<Arc<[u8]>>, bytes: &[u8]) -> Result<Arc<[u8]>, OutOfMemory> {
    let reused = former.and_then(|mut page| {
        let memory = Arc::get_mut(&mut page).filter(|memory| memory.len() == bytes.len())?;
        memory.copy_from_slice(bytes);
        Some(page)
    });
    reused.map_or_else(|| crate::memory::shared(bytes), Ok)
}

/// The cache.
pub struct Cache {
    pages: Part<PageKey, PageValue>,
    frames: Part<FrameKey, Bytes>,
    blocks: Part<BlockKey, Bytes>,
    division: Mutex<Division>,
    /// [`Division::share`].
    share: AtomicU64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.bytes(), self.budget())
    }
}

impl Cache {
    /// A cache of its own with a budget in bytes.
    pub fn new(budget: u64) -> Cache {
        Cache::with(Division::new(Some(budget)))
    }

    fn with(division: Division) -> Cache {
        let budget = division.budget();
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^20 entries")]
        let shape = |shards, hot, typical: u64, items_min| Shape {
            shards,
            hot,
            items: (budget / typical).clamp(items_min, 1 << 20) as usize,
            bytes: budget,
        };
        Cache {
            pages: Part::new(shape(None, None, 4096, 16)),
            frames: Part::new(shape(Some(1), None, 64 << 10, 64)),
            blocks: Part::new(shape(Some(1), Some(0.5), 64 << 10, 16)),
            share: AtomicU64::new(division.share()),
            division: Mutex::new(division),
        }
    }

    /// The cache of the process.
    pub fn shared() -> &'static Arc<Cache> {
        static SHARED: OnceLock<Arc<Cache>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Cache::with(Division::new(None))))
    }

    /// To be called before entries of this kind are put here. From the first time on the kind has its part.
    pub fn begin_use(&self, kind: CacheKind) {
        // Every handle comes here. A lock that another thread has while the process forks would stay locked in the
        // child.
        if !self.part(kind).is_made() {
            self.divide(|division| division.begin_use(kind));
        }
    }

    /// Changes the budget; what no longer fits is dropped.
    pub fn set_budget(&self, bytes: u64) {
        self.divide(|division| division.asked = Some(bytes));
    }

    /// The budget in bytes.
    pub fn budget(&self) -> u64 {
        self.division().budget()
    }

    /// The part that each kind in use has, in bytes, but for what is reserved.
    pub fn share(&self) -> u64 {
        self.share.load(Ordering::Relaxed)
    }

    /// Drops everything.
    pub fn clear(&self) {
        for kind in KINDS {
            self.part(kind).clear();
        }
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        KINDS.into_iter().map(|kind| self.part(kind).weight()).sum()
    }

    fn division(&self) -> MutexGuard<'_, Division> {
        self.division.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, kind: CacheKind) -> &dyn Resize {
        match kind {
            CacheKind::Pages => &self.pages,
            CacheKind::Frames => &self.frames,
            CacheKind::Blocks => &self.blocks,
        }
    }

    /// Changes what the division depends on, and divides anew.
    fn divide(&self, change: impl FnOnce(&mut Division)) {
        let mut division = self.division();
        change(&mut division);
        self.share.store(division.share(), Ordering::Relaxed);
        for kind in KINDS {
            if let Some(bytes) = division.part(kind) {
                self.part(kind).resize(bytes);
            }
        }
    }

    /// A page.
    #[inline]
    pub fn page(&self, key: &PageKey) -> Option<Arc<[u8]>> {
        as_page(self.pages.get(key)?)
    }

    /// The same without making it more useful by asking.
    #[inline]
    pub fn peek_page(&self, key: &PageKey) -> Option<Arc<[u8]>> {
        as_page(self.pages.peek(key)?)
    }

    /// Whether a page is here, without making it more useful by asking.
    pub fn has_page(&self, key: &PageKey) -> bool {
        self.pages.has(key)
    }

    /// Keeps a copy of a page.
    pub fn put_page(&self, key: PageKey, bytes: &[u8], spare: &mut Spare) {
        let Ok(page) = copy_into(spare.0.take(), bytes) else {
            return;
        };
        let out = self.pages.put(key, PageValue::Page(page));
        spare.0 = out.reusable().and_then(as_page);
    }

    /// A node or a dictionary.
    pub fn object<T: Any + Send + Sync>(&self, key: &PageKey) -> Option<Arc<T>> {
        match self.pages.get(key)? {
            PageValue::Object(object, _) => object.downcast().ok(),
            PageValue::Page(_) => None,
        }
    }

    /// Keeps a node or a dictionary, which takes so many bytes.
    pub fn put_object<T: Any + Send + Sync>(&self, key: PageKey, object: Arc<T>, bytes: u64) {
        self.pages.put(key, PageValue::Object(object, bytes));
    }

    /// A frame, or a piece of one.
    pub fn frame(&self, key: &FrameKey) -> Option<Bytes> {
        self.frames.get(key)
    }

    /// Whether it is here, without making it more useful by asking.
    pub fn has_frame(&self, key: &FrameKey) -> bool {
        self.frames.has(key)
    }

    /// Keeps a frame.
    pub fn put_frame(&self, key: FrameKey, bytes: Bytes) {
        self.frames.put(key, bytes);
    }

    /// A block.
    pub fn block(&self, key: &BlockKey) -> Option<Bytes> {
        self.blocks.get(key)
    }

    /// Whether it is here, without making it more useful by asking.
    pub fn has_block(&self, key: &BlockKey) -> bool {
        self.blocks.has(key)
    }

    /// Keeps a block.
    pub fn put_block(&self, key: BlockKey, bytes: Bytes) {
        self.blocks.put(key, bytes);
    }
}

fn as_page(value: PageValue) -> Option<Arc<[u8]>> {
    match value {
        PageValue::Page(page) => Some(page),
        PageValue::Object(..) => None,
    }
}

/// A part of the memory for pages that a writer has for something else until this is dropped. At least half of it stays
/// with the cache, whatever is reserved.
#[derive(Debug)]
pub struct CacheReservation {
    cache: Arc<Cache>,
    bytes: u64,
}

impl CacheReservation {
    /// Takes so many bytes out of the part of pages.
    pub fn new(cache: &Arc<Cache>, bytes: u64) -> CacheReservation {
        cache.divide(|division| division.reserved += bytes);
        let cache = Arc::clone(cache);
        CacheReservation { cache, bytes }
    }
}

impl Drop for CacheReservation {
    fn drop(&mut self) {
        self.cache
            .divide(|division| division.reserved -= self.bytes);
    }
}

#[cfg(test)]
mod tests;
