//! A snapshot: the newest commit of a file when it was last looked at, for reading.

use std::ops::Range;
use std::sync::Arc;

use litepack_cipher::{Key, Keys};
use litepack_io::cache::{CacheKind, CachedFile, FileId, FileSize};
use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::catalog::Catalog;
use crate::format::guard::{Guard, Kind};
use crate::format::header::read_header;
use crate::format::key_place;
use crate::format::layout::{FileUuid, SLOT_OFFSETS};
use crate::format::leaf::Entry;
use crate::format::offset::FileOffset;
use crate::format::record::{CommitNumber, CommitRecord, Record};
use crate::format::unit::Unit;
use crate::medium::cache::PageCache;
use crate::medium::held_dictionaries::HeldDictionaries;
use crate::medium::verified::Medium;
use crate::options::Options;
use crate::snapshot::image::Image;
use crate::snapshot::pages::{NoOverlay, PageReader, Reads};
use crate::snapshot::recover::{self, Commit, NO_SLOTS, SlotBytes, Slots};

/// Reads that meet a reused extent are tried again at the newer commit, this often at most.
const STALE_RETRIES: usize = 1000;
/// As [`STALE_RETRIES`], for work that reads all of the file.
const LONG_RETRIES: usize = 5;

/// A packed file at its newest commit, for reading. [`Snapshot::refresh`] moves it to the newest commit of then.
///
/// One thread uses it at a time; several handles, in one process or many, may be open on one file.
#[derive(Debug)]
pub struct Snapshot<R: ReadAt> {
    pub(super) pages: PageReader<R>,
    /// The key of the file, if it is or is to be encrypted.
    key: Option<Arc<Key>>,
    /// The file's registration with the cache.
    cached: CachedFile,
    image: Image,
    /// `None` while the file is empty.
    commit: Option<Commit>,
    slots: Slots,
    /// The newest commit was cut off by a power loss; this is the one before.
    fell_back: bool,
    /// Times it has moved.
    moves: u64,
    /// It stays at its commit: a transaction that follows it is running.
    pinned: bool,
    /// The newest commit that this handle has made and not undone, unless others may have put the file back since.
    own: Option<CommitNumber>,
}

/// The key of a padded file is for files of this padding. So a copy that is made with it, as by `VACUUM INTO`, tells no
/// more by its lengths, and a handle does not go on in a file that was put in the place of its own.
fn for_padding_of(guard: &Guard, key: Option<Arc<Key>>) -> Result<Option<Arc<Key>>> {
    match (guard.padding().filter(|_| guard.is_padded()), key) {
        (Some(padding), Some(key)) if key.padding() != Some(padding) => {
            Ok(Some(Arc::new(key.with_padding(padding)?)))
        }
        (_, key) => Ok(key),
    }
}

impl<R: ReadAt> Snapshot<R> {
    /// Opens a packed file, or an empty one. Reads the header only; the newest commit is read by [`Snapshot::refresh`],
    /// when the caller holds a lock.
    ///
    /// # Errors
    /// [`Error::NotPacked`] for any other file, [`Error::Unsupported`] for a newer format.
    pub fn open(disk: R, options: &Options) -> Result<Snapshot<R>> {
        let key = options.key.clone();
        let guard = match read_header(&disk)? {
            Some(header) => key_place::guard(&disk, &header, key.as_deref())?,
            None => Guard::sums(FileUuid([0; 16])),
        };
        let key = for_padding_of(&guard, key)?;
        Ok(Snapshot::guarded(disk, guard, key, options))
    }

    /// At no commit yet.
    fn guarded(disk: R, guard: Guard, key: Option<Arc<Key>>, options: &Options) -> Snapshot<R> {
        options.cache.begin_use(CacheKind::Pages);
        let medium = Medium {
            disk,
            guard,
            cache: PageCache {
                cache: Arc::clone(&options.cache),
                file: options.file,
            },
            dictionaries: HeldDictionaries::default(),
            segment: None,
            spares: options.spares.clone(),
        };
        Snapshot {
            cached: CachedFile::new(&options.cache, options.file),
            key,
            pages: PageReader::new(medium, options.threads),
            image: Image::empty(),
            commit: None,
            slots: NO_SLOTS,
            fell_back: false,
            moves: 0,
            pinned: false,
            own: None,
        }
    }

    /// Opens a packed file at the commit of this record, which may be a former one, and stays there. `keys` are those of
    /// an encrypted file; of `options` the key counts for nothing.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the commit is none of this file, or its catalog is no longer there.
    pub fn at(
        disk: R,
        record: &CommitRecord,
        keys: Option<&Arc<Keys>>,
        options: &Options,
    ) -> Result<Snapshot<R>> {
        let header = read_header(&disk)?.ok_or(Error::NotPacked)?;
        let guard = Guard::of(header.uuid, header.is_encrypted, keys)?;
        let mut snapshot = Snapshot::guarded(disk, guard, None, options);
        let commit = Commit {
            record: recover::record_of(record, snapshot.medium())?,
            slot: 0,
            durable: true,
        };
        let catalog = snapshot.fetch_of(&commit)?;
        let image = Image::of(&commit.record, catalog, snapshot.image.page_size);
        // The cache goes by the file's size in its newest commit, which others tell it.
        (snapshot.commit, snapshot.image) = (Some(commit), image);
        snapshot.pinned = true;
        Ok(snapshot)
    }

    /// The file's identity on disk; all zero while it is empty.
    pub fn uuid(&self) -> FileUuid {
        self.pages.medium.guard.uuid
    }

    /// How the file's bytes are vouched for.
    pub(crate) fn guard(&self) -> &Guard {
        &self.pages.medium.guard
    }

    /// The keys of an encrypted file: for what is kept beside it.
    pub fn keys(&self) -> Option<&Arc<Keys>> {
        self.guard().file_keys()
    }

    /// The key of the file, if it is or is to be encrypted.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_deref()
    }

    pub(crate) fn shared_key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref()
    }

    /// The key of the file is another one now, or it is to be encrypted when it is made.
    pub(crate) fn set_key(&mut self, key: Arc<Key>) -> Result<()> {
        self.key = for_padding_of(self.guard(), Some(key))?;
        Ok(())
    }

    /// The file that this reads.
    pub fn disk(&self) -> &R {
        &self.pages.medium.disk
    }

    /// Shares cached pages with other handles of the same file identity from now on.
    pub fn set_file(&mut self, file: FileId) {
        let cache = &mut self.pages.medium.cache;
        cache.file = file;
        self.cached = CachedFile::new(&cache.cache, file);
    }

    /// Threads that may work at the same time, the handle's own included.
    pub fn set_threads(&mut self, threads: usize) {
        self.pages.threads = threads.max(1);
    }

    /// Threads that may work at the same time, the handle's own included.
    pub fn threads(&self) -> usize {
        self.pages.threads
    }

    /// Number of the commit; 0 while the file is empty.
    pub fn seq(&self) -> u64 {
        self.commit.map_or(0, |commit| commit.record.seq.0)
    }

    /// Whether the newest commit was cut off by a power loss, so that this is the one before it. If the caller knows
    /// that the newest one was complete once, that is damage: see [`Snapshot::newest_is_damaged`].
    pub fn fell_back(&self) -> bool {
        self.fell_back
    }

    /// The error for a newest commit that is incomplete now although, for the reason `why`, it was complete once.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub fn newest_is_damaged(&self, why: &str) -> Error {
        let slot = self.commit.map_or(0, |commit| 1 - commit.slot);
        let why = format!("not all of it is there, and {why}");
        Error::damaged("newest commit", SLOT_OFFSETS[slot], why)
    }

    /// An error if the newest commit is of a checkpoint that brought a part of a WAL into the file. For readers that look
    /// at no WAL: with it the database is whole.
    ///
    /// # Errors
    /// [`Error::Damaged`] in that case.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub fn expect_whole(&self) -> Result<()> {
        let Some(commit) = self
            .commit
            .filter(|commit| commit.record.log.unfinished != 0)
        else {
            return Ok(());
        };
        let why = "a part of its WAL is in it, in the midst of a checkpoint, and the WAL (-lpw) is not here";
        Err(Error::damaged("database", SLOT_OFFSETS[commit.slot], why))
    }

    /// Bytes of the database that are stored together.
    pub fn unit_size(&self) -> u32 {
        self.image.unit_size
    }

    /// Length of the database in bytes.
    pub fn size(&self) -> u64 {
        self.image.size
    }

    /// Moves to the newest commit. True if it moved.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or has become something else.
    pub fn refresh(&mut self) -> Result<bool> {
        if self.pinned {
            return Ok(false);
        }
        let medium = &mut self.pages.medium;
        if self.commit.is_some() && recover::read_slots(&medium.disk)? == self.slots {
            return Ok(false);
        }
        match read_header(&medium.disk)? {
            Some(header) if header.uuid == medium.guard.uuid => {}
            // Packed since it was opened, or another file's content was copied over this one's.
            Some(header) => {
                let guard = key_place::guard(&medium.disk, &header, self.key.as_deref())?;
                self.key = for_padding_of(&guard, self.key.clone())?;
                medium.guard = guard;
                medium.cache.file = FileId::unique();
                self.cached = CachedFile::new(&medium.cache.cache, medium.cache.file);
                medium.dictionaries = HeldDictionaries::default();
                self.commit = None;
                self.own = None;
            }
            None if self.commit.is_none() => return Ok(false),
            None => {
                return Err(Error::damaged(
                    "file header",
                    FileOffset::START,
                    "the file has become empty",
                ));
            }
        }
        let (found, catalog) = loop {
            // It names places of the commit that it was read for.
            self.pages.medium.segment = None;
            let found = recover::current(&self.pages.medium, self.commit.is_some())?;
            match self.fetch_of(&found.commit) {
                Ok(catalog) => break (found, catalog),
                // A writer may have moved on, and reused what was to be read.
                Err(_) if recover::read_slots(&self.pages.medium.disk)? != found.slots => {}
                Err(error) => return Err(error),
            }
        };
        self.expect_own(&found.commit)?;
        self.slots = found.slots;
        self.fell_back = found.fell_back;
        let image = Image::of(&found.commit.record, catalog, self.image.page_size);
        self.go_to(found.commit, image);
        self.moves += 1;
        Ok(true)
    }

    /// An error if the newest commit comes before one that this handle has made. Others undo only what they have made
    /// themselves, so the record was lost. Nothing may be built on the commit before: what the lost one was made from,
    /// such as a WAL, is then thought to be in the file.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    fn expect_own(&self, newest: &Commit) -> Result<()> {
        let Some(lost) = self.own.filter(|own| *own > newest.record.seq) else {
            return Ok(());
        };
        let why = format!(
            "commit {lost}, which was made here, is gone, and commit {} is the newest: the disk has lost a write, or \
             the file was replaced while it was in use",
            newest.record.seq
        );
        let slot = SLOT_OFFSETS[1 - newest.slot];
        Err(Error::damaged("commit record", slot, why))
    }

    /// No lock has kept others from putting the file back to an earlier commit, as from a backup.
    pub(crate) fn forget_own(&mut self) {
        self.own = None;
    }

    /// Reads the prefetch segment of a commit, if the file is remote, and returns the commit's catalog.
    fn fetch_of(&mut self, commit: &Commit) -> Result<Catalog> {
        let medium = &mut self.pages.medium;
        let segment = commit.record.segment;
        if !segment.is_none() && medium.disk.is_remote() {
            medium.segment = Some(medium.read_segment(segment)?);
        }
        let pointer = commit.record.catalog;
        if pointer.is_none() {
            return Ok(Catalog::default());
        }
        // Read again only if it is another one.
        if self.commit.is_some_and(|now| now.record.catalog == pointer) {
            return Ok(self.image.catalog.clone());
        }
        let bytes = medium.extent(pointer, Kind::Catalog)?;
        Catalog::decode(&bytes)
            .ok_or_else(|| Error::damaged("catalog", pointer.offset, "malformed"))
    }

    /// Fills `buf` with the database's bytes from `offset` and returns how many there were; fewer
    /// than asked only at the end of the database.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the page; no byte that fails its checksum is ever returned. [`Error::Conflict`] if others
    /// committed between each of many tries.
    pub fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        for _ in 0..STALE_RETRIES {
            let result = self.pages.read(&mut self.image, &NoOverlay, offset, buf);
            match result {
                // Another process may have moved or reused what the map of our commit names.
                Err(Error::Damaged(damage)) => match self.refresh() {
                    Ok(true) => {}
                    Ok(false) => return Err(Error::Damaged(damage)),
                    Err(error) => return Err(error),
                },
                result => return result,
            }
        }
        Err(Error::Conflict)
    }

    /// As [`Snapshot::read`], of a commit that stays, for who needs the bytes once: whole pages are not kept in the cache.
    /// False if the database ends before: then `buf` is in no known state.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn read_once(&mut self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        (self.pages).read_once(&self.image, offset, buf, Reads::File)
    }

    /// The same, if it takes no read of the file. False as well if it does.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn read_cached(&mut self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        (self.pages).read_once(&self.image, offset, buf, Reads::None)
    }

    /// Does `work`, which reads much, and does it again at the newer commit if it met damage and others have committed
    /// meanwhile: they may have reused what it read. `is_sound` recognises damage that `work` only noted.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Conflict`] if it met damage again and again.
    pub fn retry_if_stale<T>(
        &mut self,
        work: impl FnMut(&mut Self) -> Result<T>,
        is_sound: impl Fn(&T) -> bool,
    ) -> Result<T> {
        retry_if_stale(self, Self::refresh, work, is_sound)
    }

    /// Where a unit is stored.
    pub(crate) fn entry(&mut self, unit: Unit) -> Result<Entry> {
        self.pages.entry(&self.image, unit)
    }

    /// Reads, verifies and decodes a stored unit into `page`.
    pub(crate) fn load(&mut self, unit: Unit, entry: &Entry, page: &mut [u8]) -> Result<()> {
        self.pages.load(&self.image, unit, entry, page)
    }

    pub(crate) fn medium(&self) -> &Medium<R> {
        &self.pages.medium
    }

    pub(crate) fn medium_mut(&mut self) -> &mut Medium<R> {
        &mut self.pages.medium
    }

    /// For reading an image that follows this one.
    pub(crate) fn pages(&mut self) -> &mut PageReader<R> {
        &mut self.pages
    }

    /// The reading side, and the image that it reads.
    pub(crate) fn reader(&mut self) -> (&mut PageReader<R>, &Image) {
        (&mut self.pages, &self.image)
    }

    /// The part of the file that has the extents of this commit.
    pub(crate) fn extents(&self, record: &Record) -> Range<FileOffset> {
        self.guard().data_start()..record.end
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    pub(crate) fn commit(&self) -> Option<Commit> {
        self.commit
    }

    /// The commit, if it is known to have reached the medium.
    pub(crate) fn durable_commit(&self) -> Option<Commit> {
        self.commit.filter(|commit| commit.durable)
    }

    /// The bytes of both slots when they were last read or written.
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Times it has moved: what is known of a commit for writing holds until then.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Keeps it at its commit, or lets it move again.
    pub(crate) fn pin(&mut self, pinned: bool) {
        self.pinned = pinned;
    }

    /// Makes `commit` what this reads.
    pub(crate) fn go_to(&mut self, commit: Commit, image: Image) -> Image {
        self.pages.forget_leaves();
        // Of a remote file the system's page cache has nothing.
        if !self.pages.medium.disk.is_remote() {
            self.cached.tell(FileSize {
                stored: commit.record.end.0,
                decoded: image.size,
            });
        }
        self.commit = Some(commit);
        std::mem::replace(&mut self.image, image)
    }

    /// This handle has written a slot. Returns what was in it.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(crate) fn slot_written(&mut self, slot: usize, bytes: SlotBytes) -> SlotBytes {
        std::mem::replace(&mut self.slots[slot], bytes)
    }

    /// This handle has written its commit in the place of a later one, which was cut off.
    pub(crate) fn has_no_later(&mut self, slot: usize, bytes: SlotBytes) {
        self.fell_back = false;
        self.slot_written(slot, bytes);
    }

    /// This handle has published a commit. Returns the image before it.
    pub(crate) fn published(&mut self, commit: Commit, image: Image) -> Image {
        self.fell_back = false;
        self.own = Some(commit.record.seq);
        self.go_to(commit, image)
    }

    /// This handle has undone its commit, and is at the one before.
    pub(crate) fn undone(&mut self, before: Commit, image: Image) {
        self.own = self.own.min(Some(before.record.seq));
        self.go_to(before, image);
    }

    /// The commit has reached the medium.
    pub(crate) fn set_durable(&mut self) {
        if let Some(commit) = &mut self.commit {
            commit.durable = true;
        }
    }

    pub(crate) fn into_disk(self) -> R {
        self.pages.medium.disk
    }
}

/// [`Snapshot::retry_if_stale`] for any handle that can be refreshed.
pub(crate) fn retry_if_stale<H, T>(
    handle: &mut H,
    refresh: impl Fn(&mut H) -> Result<bool>,
    mut work: impl FnMut(&mut H) -> Result<T>,
    is_sound: impl Fn(&T) -> bool,
) -> Result<T> {
    for _ in 0..LONG_RETRIES {
        let result = work(handle);
        let met_damage = match &result {
            Ok(found) => !is_sound(found),
            Err(error) => matches!(error, Error::Damaged(_)),
        };
        if !met_damage || !refresh(handle)? {
            return result;
        }
    }
    Err(Error::Conflict)
}
