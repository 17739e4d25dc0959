//! An open database, and why something in it could not be read.

use std::fmt::Display;
use std::sync::Arc;

use litepack_archive::SeekTable;
use litepack_cipher::Key;
use litepack_engine::archive::SharedArchive;
use litepack_engine::far::{Content, Encrypted, Far, FarDatabase, FarError};
use litepack_io::cache::{Cache, FileId};
use litepack_io::storage::ReadAt;
use litepack_ranges::{Handling, RangedFile};
use serde_json::json;

use crate::host::{Host, HostFetch};

/// Blocks as they came and pages as they are decoded have this much together, in bytes.
const CACHE: u64 = 24 << 20;

/// SQLite's numbers for failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// `SQLITE_CORRUPT`: it is damaged.
    Corrupt = 11,
    /// `SQLITE_CANTOPEN`: it cannot be opened.
    CannotOpen = 14,
    /// `SQLITE_NOTADB`: it is no database, or none that the key opens.
    NoDatabase = 26,
    /// `SQLITE_IOERR_READ`: it does not come.
    Read = 266,
}

/// A failure, for SQLite and for people.
#[derive(Clone, Debug)]
pub struct Failure {
    /// For SQLite.
    pub code: Code,
    /// What, where, and what to do.
    pub why: String,
}

impl Failure {
    fn new(code: Code, why: impl Display) -> Failure {
        Failure {
            code,
            why: why.to_string(),
        }
    }

    fn of(error: &FarError) -> Failure {
        let code = match error {
            error if error.is_damage() => Code::Corrupt,
            error if error.is_no_database() => Code::NoDatabase,
            _ => Code::Read,
        };
        Failure::new(code, error)
    }
}

/// The file, as what is above it wants its bytes.
#[derive(Debug)]
struct Bytes<H: Host>(Arc<RangedFile<HostFetch<H>>>, Arc<FileId>);

impl<H: Host> Clone for Bytes<H> {
    fn clone(&self) -> Bytes<H> {
        Bytes(Arc::clone(&self.0), Arc::clone(&self.1))
    }
}

impl<H: Host> ReadAt for Bytes<H> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        Ok(self.0.read_at(buf, offset)?)
    }

    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.len())
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Every database has names of its own in the cache.
impl<H: Host> Far for Bytes<H> {
    fn url(&self) -> String {
        self.0.url()
    }

    fn forget(&self) {
        self.0.forget();
    }

    fn packed_name(&self, key: Option<u64>) -> Arc<FileId> {
        match key {
            Some(_) => Arc::new(FileId::unique()),
            None => Arc::clone(&self.1),
        }
    }

    fn shared(&self, table: SeekTable) -> Arc<SharedArchive> {
        SharedArchive::new(FileId::unique(), table)
    }
}

/// A database on a server, open for reading.
#[derive(Debug)]
pub struct Database<H: Host>(FarDatabase<Bytes<H>>);

impl<H: Host> Database<H> {
    /// Opens the database that `fetch` brings. An encrypted one needs its key.
    ///
    /// # Errors
    /// It does not come, is damaged, or no database, or the key is missing or wrong.
    pub fn open(fetch: HostFetch<H>, key: Option<&Arc<Key>>) -> Result<Database<H>, Failure> {
        Cache::shared().set_budget(CACHE);
        let handling = Handling {
            at_once: 1,
            cache: Arc::clone(Cache::shared()),
            kept: None,
        };
        let file = RangedFile::open(fetch, handling)
            .map_err(|error| Failure::new(Code::CannotOpen, error))?;
        let bytes = Bytes(Arc::new(file), Arc::new(FileId::unique()));
        let database = FarDatabase::open(bytes, key).map_err(|error| Failure::of(&error))?;
        if let Content::Locked(_) = database.content {
            let why = "the database is encrypted: open it with its key";
            return Err(Failure::new(Code::NoDatabase, why));
        }
        Ok(Database(database))
    }

    /// The length of the database in bytes.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub fn size(&mut self) -> Result<u64, Failure> {
        self.0.size().map_err(|error| Failure::of(&error))
    }

    /// Fills `buf` with the database's bytes from `offset` and returns how many there were; fewer than asked only at the
    /// end.
    ///
    /// # Errors
    /// They do not come, or are damaged.
    pub fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.0
            .read(buf, offset)
            .map_err(|error| Failure::of(&error))
    }

    /// Where it is, which version of it, and what reading it took so far, as JSON: the fields of `PRAGMA
    /// litepack_remote`.
    pub fn traffic(&self) -> String {
        let file = &self.0.source().0;
        let traffic = file.traffic();
        json!({
            "url": file.url(),
            "size": file.len(),
            "validator": file.validator(),
            "kind": match self.0.content {
                Content::Plain => "plain",
                Content::Packed(_) | Content::Locked(Encrypted::Packed) => "packed",
                Content::Archive(_) | Content::Locked(Encrypted::Archive) => "archive",
                Content::Other => "other",
            },
            "requests": traffic.requests,
            "bytes": traffic.bytes,
            "hits": traffic.hits,
            "retries": traffic.retries,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostAnswer;
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A page before a server with one file.
    #[derive(Debug)]
    struct Page {
        file: Vec<u8>,
        /// What the page can see of the headers.
        headers: fn(&Range<u64>, usize) -> String,
        /// Bytes that follow those asked for.
        more: usize,
    }

    fn all(range: &Range<u64>, len: usize) -> String {
        format!(
            "content-range: bytes {}-{}/{len}\netag: \"a\"",
            range.start,
            range.end - 1
        )
    }

    impl Host for Page {
        fn fetch(&self, _: &str, bytes: &Range<u64>) -> Result<HostAnswer, String> {
            let len = self.file.len();
            let end = bytes.end.min(len as u64);
            let range = bytes.start..end;
            let mut body = self.file[range.start as usize..range.end as usize].to_vec();
            body.resize(body.len() + self.more, 0);
            Ok(HostAnswer {
                status: 206,
                headers: (self.headers)(&range, len),
                body,
            })
        }

        fn wait() -> fn(Duration) {
            |_| ()
        }
    }

    /// It begins as a database does, and is longer than what opening brings.
    fn page() -> Page {
        let mut file: Vec<u8> = (0..300_000u32).map(|n| (n * 7 % 251) as u8).collect();
        file[..16].copy_from_slice(b"SQLite format 3\0");
        file[16..18].copy_from_slice(&4096u16.to_be_bytes());
        Page {
            file,
            headers: all,
            more: 0,
        }
    }

    const URL: &str = "https://user:s3cret@data.example/a.db?token=s3cret";

    fn open(page: Page, is_elsewhere: bool) -> Result<Database<Page>, String> {
        Database::open(HostFetch::new(page, URL, is_elsewhere), None).map_err(|error| error.why)
    }

    #[test]
    fn what_comes_is_what_is_there_and_no_secret_is_shown() {
        let mut database = open(page(), true).unwrap();
        let mut found = vec![0; 1000];
        assert_eq!(database.read(&mut found, 200_000).unwrap(), 1000);
        assert_eq!(found, page().file[200_000..201_000]);
        assert_eq!(database.read(&mut found, 299_900).unwrap(), 100);
        assert_eq!(database.size().unwrap(), 300_000);
        let traffic = database.traffic();
        assert!(traffic.contains("https://data.example/a.db"), "{traffic}");
        assert!(!traffic.contains("s3cret"), "{traffic}");
    }

    #[test]
    fn headers_that_a_page_cannot_see_are_named() {
        for (headers, missing) in [
            (
                (|_, _| String::new()) as fn(&Range<u64>, usize) -> String,
                "Content-Range",
            ),
            (
                |range, len| all(range, len).replace("etag", "x-etag"),
                "ETag",
            ),
        ] {
            let hidden = || Page { headers, ..page() };
            let error = open(hidden(), true).unwrap_err();
            assert!(error.contains("Access-Control-Expose-Headers"), "{error}");
            assert!(
                error.contains(missing) && !error.contains("s3cret"),
                "{error}"
            );
            // On its own origin a page sees all there is.
            let error = open(hidden(), false).unwrap_err();
            assert!(!error.contains("Access-Control"), "{error}");
        }
    }

    #[test]
    fn another_version_in_the_middle_is_an_error() {
        let headers = |range: &Range<u64>, len| {
            let first = all(range, len);
            match range.start {
                0 => first,
                _ => first.replace("\"a\"", "\"b\""),
            }
        };
        let mut database = open(Page { headers, ..page() }, false).unwrap();
        let error = database.read(&mut [0; 100], 200_000).unwrap_err();
        assert!(error.why.contains("has changed since"), "{}", error.why);
    }

    /// A page before a server that has one file, and then none.
    #[derive(Debug)]
    struct Gone(Page, Arc<AtomicU64>);

    impl Host for Gone {
        fn fetch(&self, url: &str, bytes: &Range<u64>) -> Result<HostAnswer, String> {
            match self.1.fetch_add(1, Ordering::Relaxed) {
                0 => self.0.fetch(url, bytes),
                _ => Ok(HostAnswer {
                    status: 404,
                    ..HostAnswer::default()
                }),
            }
        }

        fn wait() -> fn(Duration) {
            Page::wait()
        }
    }

    #[test]
    fn a_file_that_was_there_is_asked_for_once_when_it_is_gone() {
        let sent = Arc::new(AtomicU64::new(0));
        let url = "https://data.example/gone.db";
        let open = || {
            Database::open(
                HostFetch::new(Gone(page(), Arc::clone(&sent)), url, false),
                None,
            )
        };
        let database = open().unwrap();
        let before = sent.load(Ordering::Relaxed);
        let error = open().unwrap_err();
        assert!(error.why.contains("404"), "{}", error.why);
        assert_eq!(sent.load(Ordering::Relaxed) - before, 1);
        drop(database);
    }

    #[test]
    fn a_page_is_believed_no_more_than_a_server() {
        let error = open(Page { more: 1, ..page() }, false).unwrap_err();
        assert!(error.contains("goes on after"), "{error}");
        let shifted = |range: &Range<u64>, len| all(&(range.start + 1..range.end), len);
        let error = open(
            Page {
                headers: shifted,
                ..page()
            },
            false,
        )
        .unwrap_err();
        assert!(error.contains("were asked for"), "{error}");
        let lines = |_: &Range<u64>, _| "no header\nbad name: 1\nx:\u{1}".repeat(1000);
        assert!(
            open(
                Page {
                    headers: lines,
                    ..page()
                },
                false
            )
            .is_err()
        );
    }
}
