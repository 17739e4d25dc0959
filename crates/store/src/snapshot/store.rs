//! A packed file as one handle sees it: opening, noticing other writers' commits, reading.
//!
//! The way of a page from disk: [`Store::read`] finds its unit's [`Entry`] in the page map, takes the
//! decoded unit from the cache or reads, verifies and decodes the extent. Writing is in `txn.rs` and
//! `commit.rs`.

use std::sync::{Arc, LazyLock};

use litepack_codec::{DecodeError, Level};
use litepack_io::memory::OutOfMemory;

use crate::error::{Damage, Error, Result};
use crate::format::catalog::Catalog;
use crate::format::header::{FileKind, HEAD_LEN, Header, kind_of};
use crate::format::layout::{FileUuid, SLOT_OFFSETS, UNIT_MIN};
use crate::format::leaf::{Entry, FANOUT};
use crate::format::node::Node;
use crate::medium::cache::{Cache, FileId};
use crate::medium::coalesced::Nearby;
use crate::medium::node_cache::{AtHand, Leaves};
use crate::medium::prefetch::Ahead;
use crate::medium::verified::Medium;
use crate::medium::workers::{Crew, Tools};
use crate::snapshot::page_map::PageMap;
use crate::snapshot::recover::{self, Commit, NO_SLOTS, Slots};
use crate::transaction::write::{Writer, page_size_in};
use litepack_io::storage::{ReadAt, Storage};

/// Reads that meet a reused extent are tried again at the newer commit, this often at most.
const STALE_RETRIES: usize = 1000;
/// And what reads all of the file.
const LONG_RETRIES: usize = 5;

/// How a handle works. [`Options::default`] is the recommended configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// zstd level for pages written from now on.
    pub level: Level,
    /// Whether pages are laid out by column before zstd sees them. It is there to be switched off for comparison.
    pub columnar: bool,
    /// Threads that may work at the same time, the handle's own included: compressing when many pages are
    /// written at once, decoding ahead of a scan.
    pub threads: usize,
    /// Decoded pages and map nodes are kept here.
    pub cache: Arc<Cache>,
    /// The file's identity in the cache; handles that give the same one share their pages.
    pub file: FileId,
}

/// The level when nobody asks for another one: as fast as writing gets without giving ratio away.
pub const DEFAULT_LEVEL: Level = 3;

/// Processors at hand, four at most; to ask takes longer than to open a file.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(4)));

impl Default for Options {
    fn default() -> Self {
        Options {
            level: DEFAULT_LEVEL,
            columnar: true,
            threads: *THREADS,
            cache: Arc::clone(Cache::shared()),
            file: FileId::unique(),
        }
    }
}

/// One handle on a packed file. Not shared between threads; several handles, in one process or many,
/// may be open on one file as long as at most one writes at a time, which SQLite's locks see to.
#[derive(Debug)]
pub struct Store<D: Storage> {
    pub(crate) medium: Medium<D>,
    /// The commit this handle reads; `None` while the file is empty.
    pub(crate) commit: Option<Commit>,
    pub(crate) slots: Slots,
    /// The newest commit was cut off by a power loss; this handle is at the one before.
    pub(crate) fell_back: bool,
    pub(crate) catalog: Catalog,
    pub(crate) map: PageMap,
    pub(crate) unit_size: u32,
    /// Logical length in bytes, the running transaction included.
    pub(crate) size: u64,
    /// SQLite's page size, for naming pages; the unit size until page 1 was seen.
    pub(crate) page_size: u32,
    pub(crate) writer: Writer,
    pub(crate) leaves: Leaves,
    pub(crate) tools: Tools,
    pub(crate) crew: Crew,
    pub(crate) ahead: Ahead,
    nearby: Nearby,
    unit: Vec<u8>,
}

impl<D: Storage> Store<D> {
    /// Opens a packed file, or an empty one that becomes packed with its first commit. Reads the
    /// header only; the newest commit is read by [`Store::refresh`], when the caller holds a lock.
    ///
    /// # Errors
    /// [`Error::NotPacked`] for any other file, [`Error::Unsupported`] for a newer format.
    pub fn open(disk: D, options: Options) -> Result<Store<D>> {
        let uuid = read_header(&disk)?.map_or(FileUuid([0; 16]), |header| header.uuid);
        let Options {
            level,
            columnar,
            threads,
            cache,
            file,
        } = options;
        Ok(Store {
            medium: Medium {
                disk,
                uuid,
                file,
                cache,
                at_hand: AtHand::default(),
                bundle: None,
            },
            commit: None,
            slots: NO_SLOTS,
            fell_back: false,
            catalog: Catalog::default(),
            map: PageMap::new(crate::format::layout::Pointer::NONE, 0),
            unit_size: UNIT_MIN,
            size: 0,
            page_size: UNIT_MIN,
            writer: Writer::new(level, columnar, threads),
            leaves: Leaves::default(),
            tools: Tools::default(),
            crew: Crew::default(),
            ahead: Ahead::default(),
            nearby: Nearby::default(),
            unit: Vec::new(),
        })
    }

    /// The file's identity on disk; all zero while it is empty.
    pub fn uuid(&self) -> FileUuid {
        self.medium.uuid
    }

    /// The medium the store is on.
    pub fn disk(&self) -> &D {
        &self.medium.disk
    }

    /// Shares cached pages with other handles of the same file identity from now on.
    pub fn set_file(&mut self, file: FileId) {
        self.medium.file = file;
    }

    /// The zstd level for pages written from now on, clamped to what zstd offers.
    pub fn set_level(&mut self, level: Level) {
        self.writer.set_level(level);
    }

    /// The zstd level in use.
    pub fn level(&self) -> Level {
        self.writer.level()
    }

    /// Threads that may work at the same time, the handle's own included.
    pub fn set_threads(&mut self, threads: usize) {
        self.writer.threads = threads.max(1);
    }

    /// Threads that may work at the same time, the handle's own included.
    pub fn threads(&self) -> usize {
        self.writer.threads
    }

    /// Number of the commit this handle is at; 0 while the file is empty.
    pub fn seq(&self) -> u64 {
        self.commit.map_or(0, |commit| commit.record.seq)
    }

    /// Whether the newest commit was cut off by a power loss, so that this handle is at the one before it. Where
    /// something shows that the newest one was all there once, that is damage, and the caller's to say.
    pub fn fell_back(&self) -> bool {
        self.fell_back
    }

    /// The error to give when the newest commit was all there once, for the reason `why`, and no longer is.
    pub fn newest_is_damaged(&self, why: &str) -> Error {
        let slot = self.commit.map_or(0, |commit| 1 - commit.slot);
        let why = format!("not all of it is there, and {why}");
        Error::damaged("newest commit", SLOT_OFFSETS[slot], why)
    }

    /// Bytes of the database that are stored together.
    pub fn unit_size(&self) -> u32 {
        self.unit_size
    }

    /// Logical length of the database in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Moves to the newest commit, if this handle is not the one writing. True if it moved.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or has become something else.
    pub fn refresh(&mut self) -> Result<bool> {
        if self.writer.in_transaction() {
            return Ok(false);
        }
        self.finish_take_back()?;
        if self.commit.is_some() && recover::read_slots(&self.medium.disk)? == self.slots {
            return Ok(false);
        }
        match read_header(&self.medium.disk)? {
            Some(header) if header.uuid == self.medium.uuid => {}
            // Packed since it was opened, or another file's content was copied over this one's.
            Some(header) => {
                self.medium.uuid = header.uuid;
                self.medium.file = FileId::unique();
                self.medium.at_hand = AtHand::default();
                self.commit = None;
            }
            None if self.commit.is_none() => return Ok(false),
            None => {
                return Err(Error::damaged(
                    "file header",
                    0,
                    "the file has become empty",
                ));
            }
        }
        let (found, catalog) = loop {
            // It tells of places in the commit it was fetched for.
            self.medium.bundle = None;
            let found = recover::current(&self.medium, self.commit.is_some())?;
            match self.fetch_of(&found.commit) {
                Ok(catalog) => break (found, catalog),
                // A writer may have moved on, and reused what was to be read.
                Err(_) if recover::read_slots(&self.medium.disk)? != found.slots => {}
                Err(error) => return Err(error),
            }
        };
        self.slots = found.slots;
        self.fell_back = found.fell_back;
        self.go_to(found.commit, catalog);
        self.writer.forget_space();
        Ok(true)
    }

    /// Takes over the bundle of a commit and returns its catalog.
    fn fetch_of(&mut self, commit: &Commit) -> Result<Catalog> {
        self.medium.bundle = self.fetch_bundle(commit.record.bundle)?;
        self.catalog_of(commit)
    }

    /// Does `work`, which reads much, and does it again at the newer commit if it met damage and others have committed
    /// meanwhile: they may have reused what it read. `is_sound` tells damage that `work` only noted.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Overtaken`] if it met damage again and again.
    pub fn steadily<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T>,
        is_sound: impl Fn(&T) -> bool,
    ) -> Result<T> {
        for _ in 0..LONG_RETRIES {
            let result = work(self);
            let met_damage = match &result {
                Ok(found) => !is_sound(found),
                Err(error) => matches!(error, Error::Damaged(_)),
            };
            if !met_damage || !self.refresh()? {
                return result;
            }
        }
        Err(Error::Overtaken)
    }

    /// The catalog of a commit, read again only if it is another one.
    fn catalog_of(&self, commit: &Commit) -> Result<Catalog> {
        let pointer = commit.record.catalog;
        if pointer.is_none() {
            return Ok(Catalog::default());
        }
        if self.commit.is_some_and(|now| now.record.catalog == pointer) {
            return Ok(self.catalog.clone());
        }
        let bytes = self.medium.extent(pointer, "catalog")?;
        Catalog::decode(&bytes)
            .ok_or_else(|| Error::damaged("catalog", pointer.offset, "malformed"))
    }

    /// Makes `commit` what this handle reads.
    pub(crate) fn go_to(&mut self, commit: Commit, catalog: Catalog) {
        let record = &commit.record;
        self.catalog = catalog;
        self.map = PageMap::new(record.map, record.height);
        self.unit_size = record.unit_size;
        self.size = record.size;
        self.leaves.clear();
        self.commit = Some(commit);
    }

    /// Fills `buf` with the database's bytes from `offset` and returns how many there were; fewer
    /// than asked only at the end of the database.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the page; no byte that fails its checksum is ever returned.
    pub fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.finish_take_back()?;
        for _ in 0..STALE_RETRIES {
            match self.read_once(offset, buf) {
                // Another process may have moved or reused what the map of our commit names.
                Err(Error::Damaged(damage)) => match self.refresh() {
                    Ok(true) => {}
                    Ok(false) => return Err(Error::Damaged(damage)),
                    Err(error) => return Err(error),
                },
                result => return result,
            }
        }
        Err(Error::damaged(
            "page",
            offset,
            "no consistent state in a thousand tries",
        ))
    }

    fn read_once(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let available = self.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        let unit_size = u64::from(self.unit_size);
        let mut done = 0;
        while done < available {
            let at = offset + done as u64;
            let (unit, within) = (at / unit_size, (at % unit_size) as usize);
            let len = (unit_size as usize - within).min(available - done);
            self.read_within(unit, within, &mut buf[done..done + len])?;
            done += len;
        }
        if offset == 0
            && let Some(page_size) = page_size_in(&buf[..available])
        {
            self.page_size = page_size;
        }
        Ok(available)
    }

    /// Fills `buf` from one unit, starting `within` it.
    fn read_within(&mut self, unit: u64, within: usize, buf: &mut [u8]) -> Result<()> {
        if let Some(bytes) = self.writer.buffered(unit) {
            buf.copy_from_slice(&bytes[within..within + buf.len()]);
            return Ok(());
        }
        let entry = self.entry(unit)?;
        if entry.is_zero() {
            buf.fill(0);
            return Ok(());
        }
        self.read_ahead(unit);
        let (cache, file) = (&self.medium.cache, self.medium.file);
        let cached = if self.ahead.is_first_use(unit) {
            cache.peek_page(file, &entry)
        } else {
            cache.page(file, &entry)
        };
        if let Some(page) = cached.filter(|page| page.len() == self.unit_size as usize) {
            buf.copy_from_slice(&page[within..within + buf.len()]);
            return Ok(());
        }
        if buf.len() == self.unit_size as usize {
            self.load(unit, &entry, buf)?;
            self.keep(&entry, buf);
        } else {
            let mut page = std::mem::take(&mut self.unit);
            if let Err(error) = litepack_io::memory::resize(&mut page, self.unit_size as usize) {
                self.unit = page;
                return Err(error.into());
            }
            let loaded = self.load(unit, &entry, &mut page);
            if loaded.is_ok() {
                buf.copy_from_slice(&page[within..within + buf.len()]);
                self.keep(&entry, &page);
            }
            self.unit = page;
            loaded?;
        }
        Ok(())
    }

    fn keep(&mut self, entry: &Entry, page: &[u8]) {
        let file = self.medium.file;
        self.medium
            .cache
            .put_page(file, entry, page, &mut self.tools.spare);
    }

    /// Where a unit is stored.
    pub(crate) fn entry(&mut self, unit: u64) -> Result<Entry> {
        let index = unit / FANOUT as u64;
        if self.map.is_changed() {
            return self.map.get(unit, &self.medium);
        }
        if let Some(entry) = self.medium.bundle.as_ref().and_then(|b| b.entry(unit)) {
            return Ok(entry);
        }
        if self.leaves.get(index).is_none()
            && let Some(leaf) = self.map.leaf_on_disk(index, &self.medium)?
        {
            self.leaves.put(index, leaf);
        }
        Ok(match self.leaves.get(index) {
            Some(Node::Leaf(entries)) => entries.get((unit % FANOUT as u64) as usize),
            _ => Entry::ZERO,
        })
    }

    /// Reads, verifies and decodes a stored unit into `page`.
    pub(crate) fn load(&mut self, unit: u64, entry: &Entry, page: &mut [u8]) -> Result<()> {
        let first_page = self.page_number(unit);
        let named = |why: String| {
            Error::Damaged(Damage {
                what: format!("page {first_page}"),
                offset: entry.offset,
                why,
            })
        };
        let stored = match self.nearby.unit(&self.medium, entry) {
            Err(Error::Damaged(damage)) => return Err(named(damage.why)),
            result => result?,
        };
        let dictionary = self.catalog.for_decoding(entry.storage, &self.medium)?;
        self.tools
            .decoder
            .decode(
                entry.storage.codec,
                stored,
                dictionary.as_deref().map(Arc::as_ref),
                page,
            )
            .map_err(|error| match error {
                DecodeError::OutOfMemory => OutOfMemory.into(),
                error => named(error.to_string()),
            })
    }

    /// SQLite's number for the first page in a unit, for messages.
    pub(crate) fn page_number(&self, unit: u64) -> u64 {
        unit * u64::from(self.unit_size / self.page_size.min(self.unit_size)) + 1
    }
}

/// The header of a packed file; `None` for an empty file.
fn read_header(disk: &impl ReadAt) -> Result<Option<Header>> {
    let mut head = [0; HEAD_LEN];
    let len = disk.len()?;
    let n = disk.read_at(&mut head, 0)?;
    let head = &head[..n];
    match kind_of(head, len) {
        FileKind::Empty => Ok(None),
        FileKind::Packed => Header::decode(head).map(Some),
        FileKind::Other => Err(Error::NotPacked),
    }
}
