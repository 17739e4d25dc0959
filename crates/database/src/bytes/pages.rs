//! The pages of a database that others may be writing, read without any lock.
//!
//! Pages are read from the file, and those that a WAL has newer from there, up to its last commit. Nothing is held
//! between two reads, so no writer ever waits. The price: what is read need not all be of one moment, and a page that
//! is being written can be torn. That is fit for a report of sizes, and for nothing else; code that parses these pages
//! must expect any bytes.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use litepack_archive::Archive;
use litepack_btree::page::{Cell, be32};
use litepack_btree::{HEADER_LEN, Header, PageNumber};
use litepack_codec::DictId;
use litepack_engine::{FileKind, plan};
use litepack_io::interrupt;
use litepack_io::storage::ReadAt;
use litepack_store::{Store, Unit};

use crate::Result;
use crate::bytes::archive;
use crate::bytes::reader;
use crate::bytes::unlocked::{Unlocked, of_archive};
use crate::bytes::wal::{self, WalFile};
use crate::error::{Context, cannot_read, refuse};
use crate::names::{Suffixes, with_suffix};

/// Frames of a WAL that are looked at: those of 4 GiB in pages of 4 KiB.
const FRAMES_MAX: u32 = 1 << 20;

/// The pages.
pub struct Pages<'a> {
    bytes: MainAndWal<'a>,
    /// The header in the first page.
    pub header: Header,
    /// Bytes of the database.
    pub size: u64,
    /// Reads that failed.
    pub failed: u64,
}

/// The bytes of the database, whatever they are.
struct MainAndWal<'a> {
    medium: MainFile<'a>,
    wal: Option<Wal>,
}

enum MainFile<'a> {
    Plain(&'a File),
    Packed(Box<Store<&'a File>>),
    Archive(Box<Archive<&'a File>>),
}

/// A file that is open.
#[derive(Clone, Copy)]
pub struct OpenFile<'a> {
    /// The file.
    pub file: &'a File,
    /// Its kind.
    pub kind: FileKind,
    /// What opens it, if it is encrypted.
    pub unlocked: Option<&'a Unlocked>,
    /// Its name, absolute and without links.
    pub path: &'a Path,
    /// Its name as the user gave it.
    pub shown: &'a Path,
}

impl<'a> Pages<'a> {
    /// Those of an open file.
    ///
    /// # Errors
    /// If it cannot be read, or its first page is that of no database.
    pub fn open(of: OpenFile<'a>) -> Result<Self> {
        let name = of.shown.display();
        match Pages::of_some(of)? {
            Some(pages) => Ok(pages),
            None => refuse!("{name} is not a SQLite database, or an encrypted one"),
        }
    }

    /// The same; `None` if the file is empty.
    ///
    /// # Errors
    /// As [`Pages::open`].
    pub fn of_some(of: OpenFile<'a>) -> Result<Option<Self>> {
        let OpenFile {
            file, kind, shown, ..
        } = of;
        let cannot = || cannot_read(shown);
        let (medium, len) = match kind {
            FileKind::Packed => {
                let store =
                    reader::open(file, &reader::options(of.unlocked)).with_context(cannot)?;
                let size = store.size();
                (MainFile::Packed(Box::new(store)), size)
            }
            FileKind::Zstd => {
                let archive = archive::open(file).map_err(|error| of_archive(error, shown))?;
                let size = archive.size();
                (MainFile::Archive(Box::new(archive)), size)
            }
            _ => (
                MainFile::Plain(file),
                ReadAt::len(file).with_context(cannot)?,
            ),
        };
        // An archive is read as it is, whatever lies beside it.
        let wal = (kind != FileKind::Zstd).then(|| Wal::open(of)).flatten();
        let size = wal.as_ref().map_or(len, |wal| wal.size);
        if size == 0 {
            return Ok(None);
        }
        let mut bytes = MainAndWal { medium, wal };
        let mut head = [0; HEADER_LEN];
        let there = bytes.fill(0, &mut head);
        let header = there.then(|| Header::parse(&head, size)).flatten();
        let Some(header) = header else {
            let name = shown.display();
            refuse!("{name} is not a SQLite database, or an encrypted one");
        };
        Ok(Some(Pages {
            bytes,
            size: u64::from(header.pages) * u64::from(header.page_size),
            header,
            failed: 0,
        }))
    }

    /// Bytes in the WAL that count.
    pub fn wal_bytes(&self) -> u64 {
        self.bytes.wal.as_ref().map_or(0, |wal| wal.len)
    }

    /// Fills `buf` from an offset; false if that cannot be done, or the caller was interrupted: what parses pages then
    /// soon comes to its end.
    pub fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let read = !interrupt::is_interrupted() && self.bytes.fill(offset, buf);
        self.failed += u64::from(!read);
        read
    }

    /// Fills `buf` with a page.
    pub fn page(&mut self, page: PageNumber, buf: &mut [u8]) -> bool {
        self.read_at(page.start(self.header.page_size), buf)
    }

    /// The payload of a cell, of which the beginning is `local`; `None` if its overflow pages cannot be read. The caller
    /// sees to it that it is not too long. `buf` has the length of a page.
    pub fn payload(&mut self, cell: &Cell, local: &[u8], buf: &mut [u8]) -> Option<Vec<u8>> {
        let len = usize::try_from(cell.payload).ok()?;
        let mut payload = local.to_vec();
        let mut next = cell.overflow;
        while payload.len() < len {
            let page = next.filter(|page| page.get() <= self.header.pages)?;
            if !self.page(page, buf) {
                return None;
            }
            let here = (len - payload.len()).min(self.header.usable() - 4);
            payload.extend_from_slice(buf.get(4..4 + here)?);
            next = be32(buf, 0).and_then(PageNumber::new);
        }
        Some(payload)
    }
}

impl MainAndWal<'_> {
    /// Fills `buf` from an offset; false if that cannot be done.
    fn fill(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let Some(wal) = &self.wal else {
            return self.medium.read_at(offset, buf);
        };
        // Page by page: each may be in either file.
        let page_size = u64::from(wal.file.page_size());
        let (mut offset, mut buf) = (offset, buf);
        while !buf.is_empty() {
            let within = offset % page_size;
            let len = buf.len().min((page_size - within) as usize);
            let (part, rest) = buf.split_at_mut(len);
            let page = u32::try_from(offset / page_size).unwrap_or(u32::MAX);
            let read = match wal.frames.get(&page) {
                Some(at) => wal.file.read_at(part, at + within).is_ok_and(|n| n == len),
                None => self.medium.read_at(offset, part),
            };
            if !read {
                return false;
            }
            (offset, buf) = (offset + len as u64, rest);
        }
        true
    }
}

impl MainFile<'_> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let read = match self {
            MainFile::Plain(file) => ReadAt::read_at(*file, buf, offset).ok(),
            MainFile::Archive(archive) => archive.read_at(offset, buf).ok(),
            MainFile::Packed(store) => match store.read(offset, buf) {
                Ok(read) => Some(read),
                // The store's state is of a commit whose pages others have overwritten.
                Err(_) => {
                    let again = store.refresh().and_then(|_| store.read(offset, buf));
                    again.ok()
                }
            },
        };
        read == Some(buf.len())
    }
}

impl plan::Source for Pages<'_> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        self.read_at(offset, buf)
    }

    fn dictionary_of(&mut self, _: Unit) -> DictId {
        0
    }
}

/// The pages that a WAL has, up to its last commit.
struct Wal {
    file: WalFile,
    /// Where each page is in it.
    frames: HashMap<u32, u64>,
    /// Bytes of the database after the last commit.
    size: u64,
    /// Bytes up to the last commit.
    len: u64,
}

impl Wal {
    /// The WAL beside a database; `None` if there is none, or no commit in it. No more depends on its frames than a
    /// number in a report.
    fn open(of: OpenFile<'_>) -> Option<Wal> {
        let kind = of.kind;
        let keys = of.unlocked.map(Unlocked::keys);
        let path = with_suffix(of.path, Suffixes::of(kind).wal);
        // Opening a pipe would wait for its other end.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        if kind == FileKind::Packed && wal::refusal(&path, of.file, keys).ok()?.is_some() {
            return None;
        }
        let mut wal = Wal {
            file: WalFile::of(File::open(path).ok()?, of.file, kind, keys, &[]).ok()??,
            frames: HashMap::new(),
            size: 0,
            len: 0,
        };
        let mut pending = Vec::new();
        for number in 0..FRAMES_MAX {
            let Some(frame) = wal.file.frame(number).ok()? else {
                break;
            };
            pending.push((frame.page, frame.place));
            if frame.pages > 0 {
                wal.frames.extend(pending.drain(..));
                wal.size = u64::from(frame.pages) * u64::from(wal.file.page_size());
                wal.len = wal.file.end_of(number + 1);
            }
        }
        (wal.size > 0).then_some(wal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::source::open_file;
    use crate::names::PACKED;
    use rusqlite::Connection;

    fn opened(path: &Path, test: impl FnOnce(Pages<'_>)) {
        let (file, real) = open_file(path, false).unwrap();
        let kind = crate::bytes::header::kind(&file).unwrap();
        let of = OpenFile {
            file: &file,
            kind,
            unlocked: None,
            path: &real,
            shown: path,
        };
        test(Pages::open(of).unwrap());
    }

    /// Pages that are only in the WAL count, up to the last commit, in plain and in packed files.
    #[test]
    fn the_wal_is_read() {
        crate::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        for packed in [false, true] {
            let path = place.path().join(format!("wal-{packed}.db"));
            let db = match packed {
                true => crate::open(&path).unwrap(),
                false => Connection::open(&path).unwrap(),
            };
            db.execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                 INSERT INTO t SELECT hex(randomblob(100)) FROM n;",
            )
            .unwrap();
            let pages: u32 = db
                .query_row("PRAGMA page_count", [], |row| row.get(0))
                .unwrap();
            // A transaction that is not committed is not seen.
            db.execute_batch(
                "PRAGMA cache_size=1; PRAGMA cache_spill=1; BEGIN; UPDATE t SET a = zeroblob(200);",
            )
            .unwrap();
            opened(&path, |mut seen| {
                assert_eq!(seen.header.pages, pages);
                assert!(seen.wal_bytes() > u64::from(pages) * 4096);
                let mut page = vec![0; 4096];
                for number in (1..=pages).filter_map(PageNumber::new) {
                    assert!(seen.page(number, &mut page), "{number}");
                }
                // The last leaf has rows as they were committed.
                assert!(page.iter().any(u8::is_ascii_hexdigit));
                assert_eq!(seen.failed, 0);
                assert!(!seen.read_at(seen.size, &mut page));
                assert_eq!(seen.failed, 1);
            });
            drop(db);
            opened(&path, |seen| assert_eq!(seen.wal_bytes(), 0));
        }
    }

    /// A backup of the file has come back, and beside it is the log of what was there since.
    #[test]
    fn a_log_that_is_not_applied_is_not_read() {
        crate::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        let (path, killed) = (place.path().join("a.db"), place.path().join("killed.db"));
        let [log, killed_log] = [&path, &killed].map(|path| with_suffix(path, PACKED.wal));
        let db = crate::open(&path).unwrap();
        let more = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                 INSERT INTO t SELECT hex(randomblob(100)) FROM n;";
        db.execute_batch(&format!(
            "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a); {more}
             PRAGMA wal_checkpoint(RESTART)"
        ))
        .unwrap();
        // No other handle has it open, which could use the locks that go with this.
        let backup = std::fs::read(&path).unwrap();
        db.execute_batch(&format!("{more} PRAGMA wal_checkpoint(RESTART); {more}"))
            .unwrap();
        std::fs::copy(&path, &killed).unwrap();
        std::fs::copy(&log, &killed_log).unwrap();
        let mut pages = Vec::new();
        opened(&killed, |seen| {
            assert!(seen.wal_bytes() > 0, "its own");
            pages.push(seen.header.pages);
        });
        std::fs::write(&killed, &backup).unwrap();
        opened(&killed, |seen| {
            assert_eq!(seen.wal_bytes(), 0);
            pages.push(seen.header.pages);
        });
        assert!(pages.is_sorted_by(|more, fewer| more > fewer), "{pages:?}");
    }

    #[test]
    fn an_interrupt_ends_what_reads_pages() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch("CREATE TABLE t(a)").unwrap();
        opened(&path, |mut pages| {
            let mut page = vec![0; 4096];
            let mut read = || pages.page(PageNumber::FIRST, &mut page);
            assert!(read() && !interrupt::listen(|| true, &mut read) && read());
        });
    }

    #[test]
    fn a_wal_of_any_bytes_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE t(a)")
            .unwrap();
        let mut wal = vec![0x37, 0x7f, 6, 0x82, 0, 0, 0, 0, 0, 0, 0x10, 0];
        for len in [0, 5, 12, 40, 5000] {
            wal.resize(len, 7);
            std::fs::write(with_suffix(&path, "-wal"), &wal).unwrap();
            opened(&path, |seen| assert_eq!(seen.header.pages, 2));
        }
    }
}
