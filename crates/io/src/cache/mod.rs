//! The cache of all that a process keeps decoded or fetched, with one budget in bytes.
//!
//! ```text
//! part.rs      entries of one kind, least useful ones dropped first
//! elastic.rs   decoded pages, and copies of objects, in memory that the system may take back; index.rs: where each is
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
mod elastic;
mod index;
mod part;

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use litepack_reclaimable::Key;

use crate::fixed;
use crate::limits::{self, Limits};
use crate::memory::OutOfMemory;
use division::{Division, KINDS};
use elastic::Elastic;
use part::{Part, PushedOut, Resize, Shape, Weigh};

/// The budget unless another one is set and only packed files are read. Where the system can take memory back,
/// most pages are in such memory, and the budget is for the rest.
pub const DEFAULT_BUDGET: u64 = 40 << 20;
/// The same when archives or files on servers are read. With less, filters by an index on an archive take three times
/// as long (measured on a table of 200,000 rows).
pub const DEFAULT_BUDGET_OF_MANY: u64 = 64 << 20;

/// Identity of an open file within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u64);

impl FileId {
    /// An identity that no other handle has: what is kept of the file is then shared with no other handle.
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

/// The role of a page for its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRole {
    /// It leads to others.
    Upper,
    /// It does not.
    Leaf,
    /// It does not, and was in the cache until now: in another version, or from another place.
    Known,
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
    /// A node or a dictionary.
    Object {
        object: Arc<dyn Any + Send + Sync>,
        weight: u64,
        copy: Option<MakeCopy>,
    },
}

/// Bytes of an object's copy.
pub const OBJECT_COPY: usize = OBJECT_SLOT - size_of::<u64>();
/// The same with the object's checksum, of which the cache compares a half before.
const OBJECT_SLOT: usize = 2048;

/// Copies an object to memory that holds nothing but bytes. False for one that does not fit.
pub type MakeCopy = fn(&(dyn Any + Send + Sync), &mut [u8; OBJECT_COPY]) -> bool;

/// Bytes that the tables take for an entry.
const OVERHEAD: u64 = 128;

impl Weigh for PageValue {
    fn weight(&self) -> u64 {
        match self {
            PageValue::Page(page) => OVERHEAD + page.len() as u64,
            PageValue::Object { weight, .. } => OVERHEAD + weight,
        }
    }
}

impl Weigh for Bytes {
    fn weight(&self) -> u64 {
        OVERHEAD + self.capacity() as u64
    }
}

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Pages, map nodes and dictionaries.
    Pages,
    /// Frames of archives.
    Frames,
    /// Blocks of files on servers.
    Blocks,
}

/// Memory of a page that was pushed out of the cache, for the next one that its owner puts there. A full cache
/// then neither allocates nor frees: threads that do both in each other's memory wait for each other, and leave holes.
#[derive(Debug, Default)]
pub struct Spare(Option<Arc<[u8]>>);

/// A copy of `bytes`, in the memory of a former page if that is not shared and fits.
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
    /// Where the system has such memory: decoded pages, but of those that lead to others only what the part of pages has no
    /// room for, and copies of objects.
    elastic: Option<Elastic>,
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
        Cache::with(Some(budget))
    }

    /// Without a budget it may be as large as the machine and its limits allow.
    fn with(budget: Option<u64>) -> Cache {
        let limits = Limits::now();
        let elastic = Elastic::new(limits.machine);
        let system = limits.share().filter(|_| elastic.is_some());
        let fixed = fixed::of(limits.memory());
        Cache::divided(Division::new(budget, system, fixed), elastic)
    }

    fn divided(division: Division, elastic: Option<Elastic>) -> Cache {
        let budget = division.budget();
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^20 entries")]
        let shape = |shards, hot, typical: u64, items_min| Shape {
            shards,
            hot,
            items: (budget / typical).clamp(items_min, 1 << 20) as usize,
            bytes: budget,
        };
        Cache {
            // A dictionary may be larger than a shard of a small part would be. Without leaf pages few threads meet here.
            pages: Part::new(shape(elastic.as_ref().map(|_| 4), None, 4096, 16)),
            frames: Part::new(shape(Some(1), None, 64 << 10, 64)),
            blocks: Part::new(shape(Some(1), Some(0.5), 64 << 10, 16)),
            elastic,
            share: AtomicU64::new(division.share()),
            division: Mutex::new(division),
        }
    }

    /// The cache of the process.
    pub fn shared() -> &'static Arc<Cache> {
        static SHARED: OnceLock<Arc<Cache>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Cache::with(None)))
    }

    /// To be called before entries of this kind are put here. From the first time on the kind has its part.
    pub fn begin_use(&self, kind: CacheKind) {
        // Every handle comes here. A lock that another thread has while the process forks would stay locked in the
        // child.
        if !self.part(kind).is_made() {
            self.divide(|division| division.begin_use(kind));
        }
        if let Some(limits) = limits::changed() {
            self.divide_soon(|division| {
                division.system = limits.share().filter(|_| self.elastic.is_some());
                division.fixed = fixed::of(limits.memory());
            });
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

    /// All that is kept at most, in bytes, what the system can take back included.
    pub fn limit(&self) -> u64 {
        self.division().limit()
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
        if let Some(elastic) = &self.elastic {
            elastic.clear();
        }
    }

    /// Bytes that are kept, those included that the system has taken back.
    pub fn bytes(&self) -> u64 {
        let elastic = self.elastic.as_ref().map_or(0, Elastic::bytes);
        let ours: u64 = KINDS.into_iter().map(|kind| self.part(kind).weight()).sum();
        ours + elastic
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
        self.divide_locked(self.division(), change);
    }

    /// The same, but not while another thread is at it. False then.
    fn try_divide(&self, change: impl FnOnce(&mut Division)) -> bool {
        let division = match self.division.try_lock() {
            Ok(division) => division,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.divide_locked(division, change);
        true
    }

    /// The same, but not for long. In a child that was forked while another thread divided, the lock is never free.
    fn divide_soon(&self, change: impl Fn(&mut Division)) -> bool {
        (0..DIVIDE_TRIES).any(|tries| {
            if tries > 0 {
                std::thread::yield_now();
            }
            self.try_divide(&change)
        })
    }

    fn divide_locked(
        &self,
        mut division: MutexGuard<'_, Division>,
        change: impl FnOnce(&mut Division),
    ) {
        change(&mut division);
        self.share.store(division.share(), Ordering::Relaxed);
        for kind in KINDS {
            if let Some(bytes) = division.part(kind) {
                self.part(kind).resize(bytes);
            }
        }
        if let Some(elastic) = &self.elastic {
            elastic.bound(division.fixed);
            elastic.resize(division.elastic());
            elastic.resize_copies(division.copies());
        }
    }

    /// Copies a page to `out`, which has its size. `is_use` makes it more useful. If it is not here, `out` is in no known
    /// state.
    #[inline]
    pub fn read_page(&self, key: &PageKey, out: &mut [u8], is_use: bool) -> bool {
        if let Some(elastic) = &self.elastic
            && let Some(short) = short(key)
            && elastic.read(short, out, is_use)
        {
            return true;
        }
        let page = self.upper_page(key, is_use);
        let page = page.filter(|page| page.len() == out.len());
        page.inspect(|page| out.copy_from_slice(page)).is_some()
    }

    /// A page that leads to others, if it has room in memory of ours, or that is there for want of any other.
    #[inline]
    pub fn upper_page(&self, key: &PageKey, is_use: bool) -> Option<Arc<[u8]>> {
        as_page(if is_use {
            self.pages.get(key)?
        } else {
            self.pages.peek(key)?
        })
    }

    /// Whether a page of this size is here, without making it more useful by asking.
    pub fn has_page(&self, key: &PageKey, size: usize) -> bool {
        let elastic = self.elastic.as_ref().zip(short(key));
        elastic.is_some_and(|(elastic, short)| elastic.has(short, size)) || self.pages.has(key)
    }

    /// Keeps a copy of a page.
    pub fn put_page(&self, key: PageKey, bytes: &[u8], role: PageRole, spare: &mut Spare) {
        if let Some(elastic) = self.elastic.as_ref().filter(|elastic| elastic.is_on())
            && let Some(short) = short(&key).filter(|_| role != PageRole::Upper)
            && elastic.put(short, bytes, role == PageRole::Known)
        {
            return;
        }
        let Ok(page) = copy_into(spare.0.take(), bytes) else {
            return;
        };
        let out = self.pages.put(key, PageValue::Page(page));
        spare.0 = self.keep_pushed_out(&key, out);
    }

    /// Keeps the entries that `put` pushed out of their part: upper pages, and copies of objects, go where all pages
    /// are. Returns the memory of a page.
    fn keep_pushed_out(
        &self,
        put: &PageKey,
        out: PushedOut<PageKey, PageValue>,
    ) -> Option<Arc<[u8]>> {
        let elastic = self.elastic.as_ref().filter(|elastic| elastic.is_on());
        let mut last = None;
        for (key, value) in out {
            // A replaced entry is reported as pushed out, too.
            if let Some(elastic) = elastic.filter(|_| key != *put)
                && let Some(short) = short(&key)
            {
                match &value {
                    PageValue::Page(page) => self.keep_page(elastic, &key, short, page),
                    PageValue::Object { object, copy, .. } => {
                        keep_copy(elastic, &key, short, &**object, *copy);
                    }
                }
            }
            last = as_page(value).or(last);
        }
        last
    }

    fn keep_page(&self, elastic: &Elastic, key: &PageKey, short: Key, page: &[u8]) {
        elastic.put(short, page, true);
        // Another thread has put the page there again meanwhile. It may be another with the same checksum, and would
        // not be found as long as this one is.
        if self.pages.has(key) {
            elastic.remove(short, page.len());
        }
    }

    /// Drops a page of this size. False if it was not here.
    pub fn remove_page(&self, key: &PageKey, size: usize) -> bool {
        let elastic = self.elastic.as_ref().zip(short(key));
        let was_here = elastic.is_some_and(|(elastic, short)| elastic.remove(short, size));
        self.pages.remove(key) || was_here
    }

    /// A node or a dictionary.
    pub fn object<T: Any + Send + Sync>(&self, key: &PageKey) -> Option<Arc<T>> {
        match self.pages.get(key)? {
            PageValue::Object { object, .. } => object.downcast().ok(),
            PageValue::Page(_) => None,
        }
    }

    /// Keeps a node or a dictionary, which takes so many bytes. When it has no room any more, `copy` makes the copy that is
    /// kept instead.
    pub fn put_object<T: Any + Send + Sync>(
        &self,
        key: PageKey,
        object: Arc<T>,
        bytes: u64,
        copy: Option<MakeCopy>,
    ) {
        let object = PageValue::Object {
            object,
            weight: bytes,
            copy,
        };
        let out = self.pages.put(key, object);
        self.keep_pushed_out(&key, out);
    }

    /// The copy of an object that had no room any more.
    pub fn object_copy(&self, key: &PageKey) -> Option<[u8; OBJECT_COPY]> {
        let elastic = self.elastic.as_ref().filter(|elastic| elastic.has_copies());
        let mut slot = [0; OBJECT_SLOT];
        let found = elastic?.read(short(key)?, &mut slot, true);
        let (sum, copy) = slot.split_first_chunk().filter(|_| found)?;
        let is_it = *sum == sum_of(key)?.to_le_bytes();
        copy.first_chunk().copied().filter(|_| is_it)
    }

    /// Drops an object and its copy.
    pub fn remove_object(&self, key: &PageKey) {
        self.pages.remove(key);
        let elastic = self.elastic.as_ref().filter(|elastic| elastic.has_copies());
        if let Some((elastic, short)) = elastic.zip(short(key)) {
            elastic.remove(short, OBJECT_SLOT);
        }
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

    /// Drops a block.
    pub fn remove_block(&self, key: &BlockKey) {
        self.blocks.remove(key);
    }

    /// Drops all blocks of a file.
    pub fn remove_blocks(&self, file: u128) {
        self.blocks.retain(|key| key.file != file);
    }
}

fn keep_copy(
    elastic: &Elastic,
    key: &PageKey,
    short: Key,
    object: &(dyn Any + Send + Sync),
    copy: Option<MakeCopy>,
) {
    let mut slot = [0; OBJECT_SLOT];
    if let Some(copy) = copy.filter(|_| elastic.has_copies())
        && let Some(of_key) = sum_of(key)
        && let Some((sum, rest)) = slot.split_first_chunk_mut()
        && let Some(room) = rest.first_chunk_mut()
        && copy(object, room)
    {
        *sum = of_key.to_le_bytes();
        elastic.put(short, &slot, false);
    }
}

/// The checksum of a node or a dictionary.
fn sum_of(key: &PageKey) -> Option<u64> {
    match *key {
        PageKey::Page { .. } => None,
        PageKey::Node { sum, .. } | PageKey::Dictionary { sum, .. } => Some(sum),
    }
}

/// The key of a page or a node in 128 bits, with half of a node's checksum. `None` if a field is larger than any file
/// and machine makes it, and of dictionaries.
#[expect(clippy::cast_possible_truncation, reason = "half of it is meant")]
fn short(key: &PageKey) -> Option<Key> {
    let (file, offset, len, sum, is_node) = match *key {
        PageKey::Page {
            file,
            offset,
            len,
            sum,
        } => (file, offset, len, sum, false),
        PageKey::Node {
            file,
            offset,
            len,
            sum,
        } => (file, offset, len, sum as u32, true),
        PageKey::Dictionary { .. } => return None,
    };
    let FileId(file) = file;
    let fits = offset >> 48 == 0 && len >> 19 == 0 && file >> 28 == 0;
    let [len, is_node] = [len, is_node.into()].map(u64::from);
    // Both have a length, so the key is not 0.
    fits.then_some(Key([
        offset | file << 48,
        u64::from(sum) | len << 32 | is_node << 51 | file >> 16 << 52,
    ]))
}

fn as_page(value: PageValue) -> Option<Arc<[u8]>> {
    match value {
        PageValue::Page(page) => Some(page),
        PageValue::Object { .. } => None,
    }
}

/// How large a packed file is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSize {
    /// As it is stored.
    pub stored: u64,
    /// The database in it.
    pub decoded: u64,
}

impl FileSize {
    /// Whether it makes no difference which of both it is.
    fn is_like(self, other: FileSize) -> bool {
        let like = |a: u64, b: u64| a.abs_diff(b) <= a.max(b) / 16;
        like(self.stored, other.stored) && like(self.decoded, other.decoded)
    }
}

/// Times that a handle tries to change the division before it goes on without.
const DIVIDE_TRIES: usize = 100;

/// A handle of a packed file whose pages are kept in the cache: how much of those is kept depends on the file's size.
#[derive(Debug)]
pub struct CachedFile {
    cache: Arc<Cache>,
    file: FileId,
    /// The size last told to the cache.
    told: Option<FileSize>,
}

impl CachedFile {
    /// A handle that has told no size yet.
    pub fn new(cache: &Arc<Cache>, file: FileId) -> CachedFile {
        CachedFile {
            cache: Arc::clone(cache),
            file,
            told: None,
        }
    }

    /// Tells the size of the file.
    pub fn tell(&mut self, size: FileSize) {
        if self.told.is_some_and(|told| told.is_like(size)) {
            return;
        }
        let (file, is_new) = (self.file, self.told.is_none());
        let change = |division: &mut Division| division.note_file(file, size, is_new);
        if self.cache.try_divide(change) {
            self.told = Some(size);
        }
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        if self.told.is_none() {
            return;
        }
        // If that fails, the file counts as open.
        let forget = |division: &mut Division| division.forget_file(self.file);
        self.cache.divide_soon(forget);
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
    /// Takes so many bytes out of the part of pages, unless others are dividing the cache all the time.
    pub fn new(cache: &Arc<Cache>, bytes: u64) -> CacheReservation {
        let is_taken = cache.divide_soon(|division| division.reserved += bytes);
        CacheReservation {
            cache: Arc::clone(cache),
            bytes: if is_taken { bytes } else { 0 },
        }
    }
}

impl Drop for CacheReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let give_back = |division: &mut Division| division.reserved -= self.bytes;
            self.cache.divide_soon(give_back);
        }
    }
}

#[cfg(test)]
mod tests;
