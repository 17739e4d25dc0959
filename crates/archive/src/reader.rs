//! An opened archive: the bytes of the database by offset.

use std::sync::Arc;

use crate::ahead::{Ahead, CachePlace, JOB_FRAMES, JOB_SIZE, Job};
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::large::{Large, PIECE};
use crate::seek_table::{Frame, SeekTable};
use litepack_cipher::Key;
use litepack_io::cache::{Cache, CacheKind, FileId};
use litepack_io::fixed;
use litepack_io::storage::ReadAt;

use crate::source::read_exact;

/// Frames up to this size are decoded whole, however small the cache is.
const WHOLE_MIN: u64 = 4 << 20;
/// Cached frames to look beyond for what is to be decoded ahead, at most.
const PASSED_MAX: u32 = 64;
/// All scans together hold at most this share of the cache beside it, and what is given at once.
const HELD_SHARE: u64 = 4;
/// Of a frame decoded ahead the cache must have room for so many.
const AHEAD_SHARE: u64 = 16;

/// How an archive is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cache of decoded frames.
    pub cache: Arc<Cache>,
    /// The archive's name in the cache; handles of the same file have the same.
    pub file: FileId,
    /// Threads that decode, the reading one included.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache: Arc::clone(Cache::shared()),
            file: FileId::unique(),
            threads: fixed::threads(
                std::thread::available_parallelism().map_or(1, |n| n.get().min(4)),
            ),
        }
    }
}

/// One handle on an archive. Not shared between threads; several handles share what is decoded by the cache.
#[derive(Debug)]
pub struct Archive<S> {
    source: S,
    table: Arc<SeekTable>,
    pub(crate) place: CachePlace,
    decoder: Decoder,
    large: Large,
    pub(crate) ahead: Ahead,
    stored: Vec<u8>,
    /// The bytes read last: they mostly are read next, too.
    current: Chunk,
}

/// Some bytes of the database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    start: u64,
    bytes: Arc<Vec<u8>>,
}

impl Chunk {
    /// The bytes from `position` on, if they begin in here.
    fn at(&self, position: u64) -> Option<&[u8]> {
        let skip = usize::try_from(position.checked_sub(self.start)?).ok()?;
        self.bytes.get(skip..).filter(|rest| !rest.is_empty())
    }
}

impl<S: ReadAt> Archive<S> {
    /// Opens an archive by reading its seek table.
    ///
    /// # Errors
    /// [`Error::NotZstd`] and [`Error::NoSeekTable`] for files that are no archives, others for damaged ones.
    pub fn open(source: S, options: Options) -> Result<Archive<S>> {
        let table = Arc::new(SeekTable::read(&source)?);
        Ok(Archive::with_table(source, table, options))
    }

    /// The same with the key of an encrypted archive.
    ///
    /// # Errors
    /// As [`Archive::open`]; [`Error::WrongKey`], [`Error::NotEncrypted`].
    pub fn open_with(source: S, key: Option<&Key>, options: Options) -> Result<Archive<S>> {
        let table = Arc::new(SeekTable::read_with(&source, key)?);
        Ok(Archive::with_table(source, table, options))
    }

    /// Opens an archive whose seek table is known from another handle.
    pub fn with_table(source: S, table: Arc<SeekTable>, options: Options) -> Archive<S> {
        options.cache.begin_use(CacheKind::Frames);
        let place = CachePlace {
            cache: options.cache,
            file: options.file,
            table: table.identity(),
        };
        Archive {
            source,
            table,
            ahead: Ahead::new(options.threads.saturating_sub(1)),
            place,
            decoder: Decoder::default(),
            large: Large::default(),
            stored: Vec::new(),
            current: Chunk::default(),
        }
    }

    /// The seek table.
    pub fn table(&self) -> &Arc<SeekTable> {
        &self.table
    }

    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    /// Threads that decode, the reading one included.
    pub fn threads(&self) -> usize {
        self.ahead.limit() + 1
    }

    /// Changes that number; workers there are now end first.
    pub fn set_threads(&mut self, threads: usize) {
        self.ahead = Ahead::new(threads.saturating_sub(1));
    }

    /// The size of the database.
    pub fn size(&self) -> u64 {
        self.table.size()
    }

    /// Fills `buf` with the bytes of the database from `offset`, and returns how many there were; fewer than asked only
    /// at the end.
    ///
    /// # Errors
    /// When the medium fails, or a frame is not what the seek table says; `buf` is then undefined.
    pub fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let Some(position) = offset.checked_add(filled as u64) else {
                break;
            };
            let here = match self.current.at(position) {
                Some(here) => here,
                None => {
                    let Some(frame) = self.table.frame_at(position) else {
                        break;
                    };
                    self.current = self.load(&frame, position)?;
                    let here = self.current.at(position);
                    here.ok_or_else(|| Error::frame(&frame, "it is too short"))?
                }
            };
            let len = here.len().min(rest.len());
            if let (Some(rest), Some(here)) = (rest.get_mut(..len), here.get(..len)) {
                rest.copy_from_slice(here);
            }
            filled += len;
        }
        Ok(filled)
    }

    /// The bytes around `position`, which is in `frame`.
    pub(crate) fn load(&mut self, frame: &Frame, position: u64) -> Result<Chunk> {
        if !self.is_whole(frame) {
            return self.load_piece(frame, position);
        }
        self.read_ahead(frame);
        let key = self.place.key(frame, None);
        let chunk = |bytes| Chunk {
            start: frame.start,
            bytes,
        };
        if let Some(bytes) = self.place.cache.frame(&key) {
            return Ok(chunk(bytes));
        }
        if let Some(bytes) = self.ahead.frame(frame.number, &mut self.decoder) {
            self.place.cache.put_frame(key, Arc::clone(&bytes));
            return Ok(chunk(bytes));
        }
        litepack_io::memory::resize(&mut self.stored, frame.stored as usize)?;
        read_exact(&self.source, &mut self.stored, frame.offset)?;
        let opener = self.table.opener().map(|opener| &**opener);
        let bytes = Arc::new(self.decoder.open(frame, opener, &self.stored)?);
        self.place.cache.put_frame(key, Arc::clone(&bytes));
        Ok(chunk(bytes))
    }

    /// Decodes a frame and gives nothing out: whether it is what the seek table says.
    pub(crate) fn decode_once(&mut self, frame: &Frame) -> Result<()> {
        match frame.size > 0 || self.is_whole(frame) {
            true => self.load(frame, frame.start).map(drop),
            // There is no piece of what is empty.
            false => self.large.expect_sound(&self.source, frame),
        }
    }

    fn load_piece(&mut self, frame: &Frame, position: u64) -> Result<Chunk> {
        let Ok(number) = u32::try_from((position - frame.start) / PIECE) else {
            return Err(Error::frame(frame, "it has no such piece"));
        };
        let key = self.place.key(frame, Some(number));
        let bytes = match self.place.cache.frame(&key) {
            Some(bytes) => bytes,
            None => {
                let place = &self.place;
                let keep = |passed, bytes: &Arc<Vec<u8>>| {
                    let key = place.key(frame, Some(passed));
                    place.cache.put_frame(key, Arc::clone(bytes));
                };
                self.large.piece(&self.source, frame, number, keep)?
            }
        };
        let start = frame.start + u64::from(number) * PIECE;
        Ok(Chunk { start, bytes })
    }

    /// Whether a frame is decoded at once, in buffers for all of it.
    fn is_whole(&self, frame: &Frame) -> bool {
        let most = WHOLE_MIN.max(self.place.cache.share() / 2);
        u64::from(frame.size) <= most && u64::from(frame.stored) <= most
    }

    /// Has workers decode what probably comes next.
    fn read_ahead(&mut self, frame: &Frame) {
        let Some((jobs, from)) = self.ahead.next(frame.number) else {
            return;
        };
        if self.ahead.held() > self.place.cache.share() / HELD_SHARE {
            return;
        }
        let mut next = if from == frame.number + 1 {
            self.table.next(frame)
        } else {
            self.table.frame(from)
        };
        let mut planned = Vec::new();
        let mut passed = 0;
        while planned.len() < jobs {
            while let Some(frame) =
                next.filter(|frame| passed < PASSED_MAX && self.is_cached(frame))
            {
                next = self.table.next(&frame);
                passed += 1;
            }
            let frames = self.for_worker(next);
            let Some(last) = frames.last() else { break };
            next = self.table.next(last);
            planned.push(frames);
        }
        self.give(planned);
    }

    fn is_cached(&self, frame: &Frame) -> bool {
        self.place.cache.has_frame(&self.place.key(frame, None))
    }

    /// As many of the frames from `next` on as make a job; none if the first is not for workers.
    fn for_worker(&self, mut next: Option<Frame>) -> Vec<Frame> {
        let share = self.place.cache.share() / AHEAD_SHARE;
        let mut frames = Vec::new();
        let (mut size, mut stored) = (0, 0);
        while let Some(frame) = next {
            let small = |len: u32| u64::from(len) <= share;
            let fits = small(frame.size) && small(frame.stored) && self.is_whole(&frame);
            if !fits || self.is_cached(&frame) {
                break;
            }
            size += u64::from(frame.size);
            stored += u64::from(frame.stored);
            next = self.table.next(&frame);
            frames.push(frame);
            if size >= JOB_SIZE || stored >= JOB_SIZE || frames.len() >= JOB_FRAMES {
                break;
            }
        }
        frames
    }

    /// Reads the stored bytes of what is planned, in one call where frames follow each other, and hands them out.
    fn give(&mut self, mut planned: Vec<Vec<Frame>>) {
        let follows = |before: &Vec<Frame>, frames: &Vec<Frame>| {
            let end = before
                .last()
                .map(|frame| frame.offset + u64::from(frame.stored));
            end == frames.first().map(|frame| frame.offset)
        };
        let stored = |frames: &[Frame]| frames.iter().map(|frame| frame.stored as usize).sum();
        for together in planned.chunk_by_mut(follows) {
            let Some(first) = together.first().and_then(|frames| frames.first()) else {
                return;
            };
            let total: usize = together.iter().map(|frames| stored(frames)).sum();
            let Ok(mut bytes) = litepack_io::memory::zeros(total) else {
                return;
            };
            // An error here is for the reader to report when it gets there.
            if read_exact(&self.source, &mut bytes, first.offset).is_err() {
                return;
            }
            let mut rest = bytes.as_slice();
            for frames in together {
                let (stored, behind) = rest.split_at(stored(frames));
                rest = behind;
                let Ok(stored) = litepack_io::memory::copy(stored) else {
                    return;
                };
                self.ahead.give(Job {
                    frames: std::mem::take(frames),
                    stored,
                    opener: self.table.opener().cloned(),
                });
            }
        }
    }
}
