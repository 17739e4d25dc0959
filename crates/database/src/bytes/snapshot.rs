//! The bytes of a database in WAL mode as they were committed at one moment, beside others that read and write it.
//!
//! A read transaction of SQLite keeps that moment: as long as it lasts, no checkpoint puts a later page into the file,
//! and no writer begins the WAL anew (<https://sqlite.org/walformat.html#locks>). So a page is its last frame in the
//! transaction's part of the WAL, and if it has none, the page in the file. The index of the WAL tells how long that
//! part is. It is read before and after the transaction begins, and counts only if it has not changed in between.
//!
//! The bytes of the index and the WAL are not trusted: they lead to an error, or to the pages that SQLite would read.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use litepack_engine::FileKind;
use litepack_io::storage::ReadAt;
use litepack_store::Spare;

use crate::bytes::committed;
use crate::bytes::free_pages::FreePages;
use crate::bytes::unlocked::Unlocked;
use crate::bytes::wal::WalFile;
use crate::error::{Context, cannot_read, refuse};
use crate::{Job, Result};

/// Length of the header of the index, which is there twice, and of that and the number of frames that are in the file.
const INDEX_HEADER: usize = 48;
const INDEX_HEAD: usize = 2 * INDEX_HEADER + 4;
/// Frames that are read between two looks whether to stop.
const FRAMES_AT_ONCE: u32 = 4096;

/// The state of the WAL, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIndex {
    head: [u8; INDEX_HEADER],
    /// Frames that a checkpoint has brought into the file.
    backfilled: u32,
}

impl WalIndex {
    /// Reads it from its file; `None` if it is being written, or is not one.
    pub fn read(file: &File) -> io::Result<Option<WalIndex>> {
        let mut bytes = [0; INDEX_HEAD];
        if ReadAt::read_at(file, &mut bytes, 0)? < bytes.len() {
            return Ok(None);
        }
        let (head, rest) = bytes.split_at(INDEX_HEADER);
        let (again, backfilled) = rest.split_at(INDEX_HEADER);
        let is_begun = head.get(12).is_some_and(|begun| *begun == 1);
        let (Ok(same), Ok(backfilled)) = (head.try_into(), backfilled.try_into()) else {
            return Ok(None);
        };
        Ok((head == again && is_begun).then_some(WalIndex {
            head: same,
            backfilled: u32::from_ne_bytes(backfilled),
        }))
    }

    /// Whether no commit and no new beginning of the WAL is between this and another one.
    pub fn is_of_the_moment(&self, other: &WalIndex) -> bool {
        self.head == other.head
    }

    /// A number of this machine's byte order.
    fn word(&self, at: usize) -> u32 {
        let bytes = self
            .head
            .get(at..at + 4)
            .and_then(|word| word.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn page_size(&self) -> u32 {
        match self.word(12).to_ne_bytes() {
            [_, _, a, b] => match u16::from_ne_bytes([a, b]) {
                1 => 65536,
                size => size.into(),
            },
        }
    }

    pub(super) fn frames(&self) -> u32 {
        self.word(16)
    }

    fn pages(&self) -> u32 {
        self.word(20)
    }

    fn salts(&self) -> &[u8] {
        self.head.get(32..40).unwrap_or_default()
    }
}

/// A WAL, and the database that it is beside.
#[derive(Clone, Copy, Debug)]
pub struct WalOf<'a> {
    /// Its name.
    pub wal: &'a Path,
    /// The file of the database.
    pub database: &'a File,
    /// Its kind.
    pub kind: FileKind,
    /// The keys of one that is encrypted.
    pub unlocked: Option<&'a Unlocked>,
    /// Other copies of it, for pages that the WAL stands on.
    pub spares: &'a [Arc<dyn Spare>],
}

impl WalOf<'_> {
    fn open(&self) -> Result<Option<WalFile>> {
        let cannot = || cannot_read(self.wal);
        let file = File::open(self.wal).with_context(cannot)?;
        let keys = self.unlocked.map(Unlocked::keys);
        WalFile::of(file, self.database, self.kind, keys, self.spares).with_context(cannot)
    }
}

/// The pages that are newer in the WAL than in the file.
#[derive(Debug)]
pub struct Frames {
    wal: WalFile,
    page_size: u64,
    /// Where each page is in the WAL.
    places: HashMap<u64, u64>,
    /// The length of the database.
    size: u64,
}

impl Frames {
    /// Those of the moment that the index is of; `None` if all are in the file. A read transaction of that moment goes on.
    pub fn of(index: &WalIndex, wal: WalOf<'_>, job: &Job<'_>) -> Result<Option<Frames>> {
        if index.backfilled >= index.frames() {
            return Ok(None);
        }
        let cannot = || cannot_read(wal.wal);
        let damaged = |what: String| {
            let name = wal.wal.display();
            format!("{name} is not the WAL that its index is of: {what}")
        };
        let page_size = index.page_size();
        let is_own =
            |wal: &WalFile| wal.page_size() == page_size && wal.salts()[..] == *index.salts();
        let Some(file) = wal.open()?.filter(is_own) else {
            refuse!("{}", damaged("its header".into()));
        };
        let mut frames = Frames {
            wal: file,
            page_size: page_size.into(),
            places: HashMap::new(),
            size: u64::from(index.pages()) * u64::from(page_size),
        };
        for number in 0..index.frames() {
            if number % FRAMES_AT_ONCE == 0 {
                job.check()?;
            }
            let Some(frame) = frames.wal.frame(number).with_context(cannot)? else {
                refuse!("{}", damaged(format!("frame {}", number + 1)));
            };
            frames.places.insert(frame.page.into(), frame.place);
        }
        Ok(Some(frames))
    }

    /// Those that are committed, where SQLite does not find them; `None` if there are none. The WAL follows the database.
    /// No lock keeps them.
    pub fn committed(wal: WalOf<'_>, job: &Job<'_>) -> Result<Option<Frames>> {
        let Some(file) = wal.open()? else {
            return Ok(None);
        };
        let found = committed::find(&file, wal.wal, job)?;
        let page_size = u64::from(file.page_size());
        Ok((found.frames > 0).then_some(Frames {
            wal: file,
            page_size,
            places: found.places,
            size: u64::from(found.pages) * page_size,
        }))
    }

    /// Whether the WAL was begun anew. What was read meanwhile may be wrong.
    pub fn are_gone(&self) -> io::Result<bool> {
        self.wal.is_begun_anew()
    }

    /// The length of its pages.
    pub fn page_size(&self) -> u64 {
        self.page_size
    }

    /// Whether this is the page that begins there, by the checksum of its frame. A checkpoint may have brought it into
    /// the file, so that it is known although it cannot be read in the WAL.
    pub fn is_page(&self, offset: u64, page: &[u8]) -> io::Result<bool> {
        let place = self.places.get(&(offset / self.page_size));
        let Some(number) = place.and_then(|place| self.wal.number_of(*place)) else {
            return Ok(false);
        };
        let before = match number.checked_sub(1) {
            Some(before) => match self.wal.frame(before)? {
                Some(frame) => Some(frame.header),
                None => return Ok(false),
            },
            None => None,
        };
        let frame = self.wal.frame(number)?;
        Ok(page.len() as u64 == self.page_size
            && frame.is_some_and(|frame| {
                committed::is_page(&self.wal, before.as_ref(), &frame.header, page)
            }))
    }

    /// The length of the database.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the page that begins there is in the WAL.
    pub fn has_page(&self, offset: u64) -> bool {
        self.places.contains_key(&(offset / self.page_size))
    }

    /// Puts the newer pages over what the file has from `offset` on. Nothing in `buf` is behind the database's end.
    pub fn lay_over(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let (mut offset, mut buf) = (offset, buf);
        while !buf.is_empty() {
            let within = offset % self.page_size;
            let len = usize::try_from(self.page_size - within).unwrap_or(usize::MAX);
            let (part, rest) = buf.split_at_mut(len.min(buf.len()));
            if let Some(place) = self.places.get(&(offset / self.page_size))
                && self.wal.read_at(part, place + within)? < part.len()
            {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the WAL became shorter",
                ));
            }
            offset += part.len() as u64;
            buf = rest;
        }
        Ok(())
    }
}

/// A file, and what is newer in its WAL. Free pages are zeros if they are named.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    /// The file.
    pub file: &'a File,
    /// Newer pages, in its WAL.
    pub frames: Option<&'a Frames>,
    /// Pages that are zeros.
    pub free: Option<&'a FreePages>,
    /// The keys of one that is encrypted.
    pub unlocked: Option<&'a Unlocked>,
}

impl<'a> From<&'a File> for Bytes<'a> {
    fn from(file: &'a File) -> Bytes<'a> {
        Bytes {
            file,
            frames: None,
            free: None,
            unlocked: None,
        }
    }
}

impl Bytes<'_> {
    fn read_all_pages(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(frames) = self.frames else {
            return ReadAt::read_at(self.file, buf, offset);
        };
        let left = usize::try_from(frames.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buf.len().min(left);
        let Some(buf) = buf.get_mut(..wanted) else {
            return Ok(0);
        };
        let n = ReadAt::read_at(self.file, buf, offset)?;
        // Bytes that neither has are zeros to SQLite, too.
        if let Some(beyond) = buf.get_mut(n..) {
            beyond.fill(0);
        }
        frames.lay_over(offset, buf)?;
        Ok(wanted)
    }
}

/// A plain database.
impl ReadAt for Bytes<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let n = self.read_all_pages(buf, offset)?;
        if let (Some(free), Some(read)) = (self.free, buf.get_mut(..n)) {
            free.blank(offset, read);
        }
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        match self.frames {
            Some(frames) => Ok(frames.size),
            None => ReadAt::len(self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// The frames of a WAL by its index, with some bytes of one of them changed.
    fn frames(change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> Result<Option<Frames>> {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let db = Connection::open(path("a.db")).unwrap();
        db.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1);")
            .unwrap();
        let mut wal = std::fs::read(path("a.db-wal")).unwrap();
        let mut index = std::fs::read(path("a.db-shm")).unwrap();
        change(&mut wal, &mut index);
        std::fs::write(path("wal"), &wal).unwrap();
        std::fs::write(path("index"), &index).unwrap();
        let index = WalIndex::read(&File::open(path("index")).unwrap()).unwrap();
        let index = index.expect("it is whole");
        let wal = WalOf {
            wal: &path("wal"),
            database: &File::open(path("a.db")).unwrap(),
            kind: FileKind::Plain,
            unlocked: None,
            spares: &[],
        };
        Frames::of(&index, wal, &Job::default())
    }

    #[test]
    fn only_frames_that_the_index_is_of_are_pages() {
        let found = frames(|_, _| {}).unwrap().unwrap();
        assert_eq!((found.size(), found.places.len()), (8192, 2));
        let mut page = vec![0; 8192];
        found.lay_over(0, &mut page).unwrap();
        assert_eq!(&page[..16], b"SQLite format 3\0");
        // All of it is in the file.
        let done = frames(|_, index| index.copy_within(16..20, 96)).unwrap();
        assert!(done.is_none());
        for change in [
            |wal: &mut Vec<u8>| wal[32 + 9] ^= 1,
            |wal: &mut Vec<u8>| wal[17] ^= 1,
            |wal: &mut Vec<u8>| wal[9] ^= 1,
            |wal: &mut Vec<u8>| wal[32..36].fill(0),
            |wal: &mut Vec<u8>| wal.truncate(32 + 10),
            Vec::clear,
        ] {
            let error = frames(|wal, _| change(wal)).unwrap_err().to_string();
            assert!(error.contains("is not the WAL"), "{error}");
        }
    }

    #[test]
    fn an_index_that_is_being_written_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("index");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            WalIndex::read(&File::open(&path).unwrap()).unwrap()
        };
        let mut index = vec![0; INDEX_HEAD];
        assert_eq!(read(&index), None);
        index[12] = 1;
        assert_eq!(read(&index), None);
        index[INDEX_HEADER + 12] = 1;
        assert!(read(&index).is_some());
        assert_eq!(read(&index[..INDEX_HEAD - 1]), None);
    }
}
