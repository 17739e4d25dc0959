//! Which frames of a WAL are committed, found without SQLite.
//!
//! SQLite finds them by itself when the first connection opens a database (its *recovery*), and reads every frame for
//! that. Where one frame of a log stands on a page of the database that is damaged, recovery ends, and with it SQLite.
//! This goes on. It gives the frames that recovery would have found in the undamaged file:
//!
//! - Recovery takes one frame after another as long as each has the salts of the WAL and its checksum, which runs from the
//!   header of the WAL through all pages. Those up to the last that ends a transaction are committed. So it is here.
//! - A frame whose page cannot be read cannot be compared with its checksum. But its header says that checksum, and has one
//!   of the log's own. So what comes behind is compared from there on.
//! - Such a frame may be a leftover. A transaction was given up, after its last frame in the log even. The next one was
//!   shorter, and left frames of the former one behind its own. These agree with each other, and not with what is before
//!   them. They are told by their places: a log is written from its beginning to its end, so the header of a leftover is
//!   in front of that of the frame before it. In what one writer after another has added it is behind, also if SQLite has
//!   written headers of a transaction again, which it does in their order.
//!
//! A frame whose header cannot be read is an error: it may end a transaction, and its page is not known.

use std::collections::HashMap;
use std::path::Path;

use litepack_btree::page::be32;

use crate::bytes::wal::{FRAME_HEADER, WalFile, is_lost};
use crate::error::{Context, cannot_read};
use crate::{Job, Result};

/// Frames that are read between two looks whether to stop.
const FRAMES_AT_ONCE: u32 = 256;

/// The committed frames of a WAL.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// Where the newest version of each page is in the WAL.
    pub(super) places: HashMap<u64, u64>,
    /// The number of pages of the database.
    pub(super) pages: u32,
    /// How many frames there are.
    pub(super) frames: u32,
}

/// Finds it in a WAL of this name.
pub(super) fn find(wal: &WalFile, name: &Path, job: &Job<'_>) -> Result<Committed> {
    let cannot = || cannot_read(name);
    let mut found = Committed::default();
    let Some(mut sum) = Sum::of_wal(wal) else {
        return Ok(found);
    };
    let mut page = vec![0; wal.page_size() as usize];
    let (mut last, mut pending) = (None, Vec::new());
    for number in 0.. {
        if number % FRAMES_AT_ONCE == 0 {
            job.check()?;
        }
        let Some(frame) = wal.frame(number).with_context(cannot)? else {
            break;
        };
        let place = wal.header_place(number).with_context(cannot)?;
        let goes_on = match wal.read_at(&mut page, frame.place) {
            Ok(n) => n == page.len() && sum.is_of(&frame.header, &page),
            Err(error) if is_lost(&error) => place > last,
            Err(error) => return Err(error).with_context(cannot),
        };
        if !goes_on {
            break;
        }
        (sum, last) = (sum.behind(&frame.header), place);
        pending.push((u64::from(frame.page), frame.place));
        if frame.pages > 0 {
            found.places.extend(pending.drain(..));
            (found.pages, found.frames) = (frame.pages, number + 1);
        }
    }
    Ok(found)
}

/// Whether a frame with this header holds this page, behind one with this header, or at the beginning of the WAL.
pub(super) fn is_page(
    wal: &WalFile,
    before: Option<&[u8; FRAME_HEADER]>,
    header: &[u8; FRAME_HEADER],
    page: &[u8],
) -> bool {
    let sum = Sum::of_wal(wal);
    let sum = sum.map(|sum| before.map_or(sum, |before| sum.behind(before)));
    sum.is_some_and(|sum| sum.is_of(header, page))
}

/// A checksum of SQLite's, which runs through the WAL, and in which order it takes the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    of: (u32, u32),
    is_big_endian: bool,
}

impl Sum {
    /// That of the header of a WAL; `None` if it is not what the header says.
    fn of_wal(wal: &WalFile) -> Option<Sum> {
        let (said, sum) = (wal.header(), wal.header().get(..24)?);
        let begin = Sum {
            of: (0, 0),
            is_big_endian: be32(said, 0)? & 1 == 1,
        };
        let found = begin.with(sum);
        (found.of == (be32(said, 24)?, be32(said, 28)?)).then_some(found)
    }

    fn with(self, bytes: &[u8]) -> Sum {
        let word = |bytes: &[u8]| {
            let bytes = bytes.try_into().unwrap_or_default();
            match self.is_big_endian {
                true => u32::from_be_bytes(bytes),
                false => u32::from_le_bytes(bytes),
            }
        };
        let (mut first, mut second) = self.of;
        for pair in bytes.chunks_exact(8) {
            let (a, b) = pair.split_at(4);
            first = first.wrapping_add(word(a)).wrapping_add(second);
            second = second.wrapping_add(word(b)).wrapping_add(first);
        }
        Sum {
            of: (first, second),
            ..self
        }
    }

    /// The one that the header of a frame says for what is up to its end.
    fn behind(self, header: &[u8; FRAME_HEADER]) -> Sum {
        let word = |at| be32(header, at).unwrap_or(0);
        Sum {
            of: (word(16), word(20)),
            ..self
        }
    }

    /// Whether the next frame says what comes of this header and page.
    fn is_of(self, header: &[u8; FRAME_HEADER], page: &[u8]) -> bool {
        let begin = header.get(..8).unwrap_or_default();
        self.with(begin).with(page) == self.behind(header)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::io;
    use std::sync::{Arc, Mutex};

    use litepack_engine::FileKind;
    use litepack_io::random::SplitMix64;
    use litepack_log::{BaseCommit, BoundTo, FileState, Log};
    use rusqlite::Connection;

    use super::*;
    use crate::bytes::snapshot::WalIndex;

    const PAGE: usize = 512;

    /// A database whose pages have their number in each byte, but for those that are damaged.
    #[derive(Clone, Default)]
    struct Database(Arc<Mutex<BTreeSet<u32>>>);

    impl BoundTo for Database {
        fn state(&self) -> io::Result<Option<FileState>> {
            Ok(Some(FileState {
                identity: [1; 16],
                current: 0,
                next: 1,
                end: litepack_log::End::default(),
                is_unfinished: false,
                is_durable: true,
            }))
        }

        fn make_durable(&self) -> io::Result<()> {
            Ok(())
        }

        fn base_commit(&self) -> io::Result<Option<BaseCommit>> {
            Ok(Some(BaseCommit([1; 256])))
        }

        fn base_page(&self, _: &BaseCommit, page: u32, buf: &mut [u8]) -> io::Result<bool> {
            if self.0.lock().unwrap().contains(&page) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            buf.fill(page as u8);
            Ok(true)
        }
    }

    /// Writes frames to a log as SQLite does.
    struct Writer {
        log: Log<File>,
        number: u64,
        sum: Sum,
    }

    impl Writer {
        fn new(file: &File, database: &Database) -> Writer {
            let mut log = Log::bound(file.try_clone().unwrap(), Box::new(database.clone()));
            let words = [0x377f_0682, 3_007_000, PAGE as u32, 0, 7, 8];
            let mut header: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let none = Sum {
                of: (0, 0),
                is_big_endian: false,
            };
            let sum = none.with(&header);
            header.extend(sum.of.0.to_be_bytes());
            header.extend(sum.of.1.to_be_bytes());
            log.write(&header, 0).unwrap();
            Writer {
                log,
                number: 0,
                sum,
            }
        }

        /// A frame of this page, which ends a transaction if the database has pages then.
        fn frame(&mut self, page: u32, pages: u32) {
            let mut content = [page as u8; PAGE];
            content[..4].copy_from_slice(&u32::to_be_bytes(100 + self.number as u32));
            let words = [page, pages, 7, 8];
            let mut frame: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            self.sum = self.sum.with(&frame[..8]).with(&content);
            frame.extend(self.sum.of.0.to_be_bytes());
            frame.extend(self.sum.of.1.to_be_bytes());
            frame.extend(content);
            let at = 32 + self.number * (PAGE + FRAME_HEADER) as u64;
            self.log.write(&frame, at).unwrap();
            self.number += 1;
        }
    }

    fn found(file: &File, database: &Database) -> (WalFile, Committed) {
        let log = Log::over(file.try_clone().unwrap(), Box::new(database.clone()));
        let wal = WalFile::of_log(log).unwrap().expect("a WAL");
        let found = find(&wal, Path::new("log"), &Job::default()).unwrap();
        (wal, found)
    }

    fn pages(found: &Committed) -> BTreeSet<u64> {
        found.places.keys().map(|page| page + 1).collect()
    }

    /// The frames of a transaction that failed when all of it was written, and of a shorter one that came after it.
    #[test]
    fn a_leftover_is_no_frame_whether_it_can_be_read_or_not() {
        let (file, database) = (tempfile::tempfile().unwrap(), Database::default());
        let mut writer = Writer::new(&file, &database);
        (1..4).for_each(|page| writer.frame(page, page / 3 * 9));
        let before = (writer.number, writer.sum);
        (4..8).for_each(|page| writer.frame(page, page / 7 * 9));
        (writer.number, writer.sum) = before;
        writer.frame(8, 9);
        for damaged in [0, 1, 2, 3, 5, 6, 7, 8] {
            *database.0.lock().unwrap() = BTreeSet::from([damaged]);
            let (_, found) = found(&file, &database);
            assert_eq!(pages(&found), BTreeSet::from([1, 2, 3, 8]), "{damaged}");
            assert_eq!((found.frames, found.pages), (4, 9), "{damaged}");
        }
    }

    #[test]
    fn a_page_is_known_by_the_checksum_of_its_frame() {
        let (file, database) = (tempfile::tempfile().unwrap(), Database::default());
        let mut writer = Writer::new(&file, &database);
        (1..4).for_each(|page| writer.frame(page, page / 3 * 9));
        database.0.lock().unwrap().insert(2);
        let (wal, found) = found(&file, &database);
        let headers: Vec<_> = (0..3)
            .map(|number| wal.frame(number).unwrap().unwrap().header)
            .collect();
        let mut page = [2; PAGE];
        assert!(wal.read_at(&mut page, found.places[&1]).is_err());
        page = [2; PAGE];
        page[..4].copy_from_slice(&101u32.to_be_bytes());
        assert!(is_page(&wal, Some(&headers[0]), &headers[1], &page));
        assert!(!is_page(&wal, None, &headers[1], &page));
        page[9] ^= 1;
        assert!(!is_page(&wal, Some(&headers[0]), &headers[1], &page));
    }

    /// Of a WAL as SQLite has it, of which any byte may be another one.
    #[test]
    fn the_frames_that_count_are_those_of_sqlite() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let db = Connection::open(path("a.db")).unwrap();
        db.execute_batch(
            "PRAGMA page_size = 512; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size = 5;
             CREATE TABLE t(a);
             INSERT INTO t VALUES(randomblob(9000)), (randomblob(3000));
             BEGIN; INSERT INTO t VALUES(randomblob(9000)); UPDATE t SET a = randomblob(4000); ROLLBACK;
             INSERT INTO t VALUES(1);
             BEGIN; UPDATE t SET a = randomblob(5000); UPDATE t SET a = randomblob(5001); COMMIT;
             BEGIN; UPDATE t SET a = randomblob(9000); ROLLBACK;",
        )
        .unwrap();
        let wal = std::fs::read(path("a.db-wal")).unwrap();
        let mut random = SplitMix64::new(7);
        let mut counts = BTreeSet::new();
        for round in 0..80 {
            let mut wal = wal.clone();
            if round > 0 {
                let most = if round % 8 == 0 { 32 } else { wal.len() as u64 };
                wal[random.below(most) as usize] ^= 1 << (round % 8);
            }
            let copy = tempfile::tempdir().unwrap();
            let copied = |name: &str| copy.path().join(name);
            std::fs::copy(path("a.db"), copied("b.db")).unwrap();
            std::fs::write(copied("b.db-wal"), &wal).unwrap();
            let by_sqlite = {
                let db = Connection::open(copied("b.db")).unwrap();
                // Also if that leaves a database that is none.
                let _ = db.execute_batch("BEGIN; PRAGMA schema_version");
                let index = File::open(copied("b.db-shm")).unwrap();
                let index = WalIndex::read(&index).unwrap().expect("it is whole");
                index.frames()
            };
            std::fs::write(copied("b.db-wal"), &wal).unwrap();
            let file = File::open(copied("b.db-wal")).unwrap();
            let database = File::open(copied("b.db")).unwrap();
            let found = WalFile::of(file, &database, FileKind::Plain, None, &[]).unwrap();
            let job = Job::default();
            let found = found.map_or(0, |wal| find(&wal, Path::new("wal"), &job).unwrap().frames);
            assert_eq!(found, by_sqlite, "{round}");
            counts.insert(found);
        }
        assert!(counts.len() > 2, "{counts:?}");
    }
}
