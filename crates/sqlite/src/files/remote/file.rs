//! A database on a web server, as one that is only read: a packed file, an archive or a plain database, told by its
//! first bytes. Its content is read by range when it is needed.

use std::io;
use std::sync::Arc;

use litepack_archive::{Error as ArchiveError, SeekTable, page_size_without_key};
use litepack_btree::PageNumber;
use litepack_cipher::Key as UserKey;
use litepack_engine::report::{check_text, info_json};
use litepack_engine::{FileKind, expect_database_len, page_size};
use litepack_io::cache::{Cache, FileId};
use litepack_io::storage::ReadAt;
use litepack_remote::{Error, Options, Remote};
use litepack_store::{Error as StoreError, HEAD_LEN, Snapshot, without_key};
use serde_json::{Value, json};

use crate::beside::open_files::{self, Key};
use crate::c::codes::{CANTOPEN, CORRUPT, ERROR, IOERR_READ, MISUSE, NOTADB};
use crate::failure::{Failure, While, code_of};
use crate::files::archive::{self, ArchiveFile};
use crate::files::company::Wishes;
use crate::files::keyed_reader::{KeyedReader, Lockable, PageSize};
use crate::files::split::split_file;
use crate::files::{Database, File};
use crate::options::{Name, Setting};

/// The first request brings as much as the store expects of it.
const _: () = assert!(litepack_remote::OPENING >= litepack_store::OPENING);

/// The file, as what is above it wants its bytes.
#[derive(Clone, Debug)]
struct RemoteBytes(Arc<Remote>);

impl ReadAt for RemoteBytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.read_at(buf, offset)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len())
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// An open database on a server.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    remote: Arc<Remote>,
    content: RemoteContent,
    /// What opens it, if it is encrypted and has been opened.
    key: Option<Arc<UserKey>>,
    /// Whether what was kept of the file was forgotten, because something was wrong in it.
    is_fetched_again: bool,
    /// For what is still locked.
    settings: Vec<Setting>,
}

#[derive(Debug)]
enum RemoteContent {
    Plain,
    Packed(Box<RemotePackedFile>),
    /// An encrypted packed file or archive without its key.
    Locked(Encrypted),
    Archive(Box<ArchiveFile<RemoteBytes>>),
    /// What came later was of another state of the file than what was open. SQLite has pages of that.
    Other,
}

/// What is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encrypted {
    Packed,
    Archive,
}

#[derive(Debug)]
struct RemotePackedFile {
    snapshot: Snapshot<RemoteBytes>,
    /// The first bytes of the file, which say which commit it is.
    head: Box<[u8; HEAD_LEN]>,
    /// Keeps the name of its pages in the cache for other connections.
    _file: Arc<FileId>,
}

impl RemotePackedFile {
    fn open(
        remote: &Arc<Remote>,
        head: [u8; HEAD_LEN],
        key: Option<&Arc<UserKey>>,
    ) -> litepack_store::Result<RemotePackedFile> {
        let mut file = open_files::name(Key::RemotePacked(remote.identity()));
        let options = litepack_store::Options {
            file: *file,
            key: key.cloned(),
            ..litepack_store::Options::default()
        };
        let mut snapshot = Snapshot::open(RemoteBytes(Arc::clone(remote)), &options)?;
        // What a handle without the key has read under the file's name may be anything.
        if let Some(keys) = snapshot.keys() {
            let name = remote.identity() ^ u128::from(keys.number_of(CACHE_NAME));
            file = open_files::name(Key::RemotePacked(name));
            snapshot.set_file(*file);
        }
        // The file never changes, so this is its commit for good.
        snapshot.refresh()?;
        Ok(RemotePackedFile {
            snapshot,
            head: Box::new(head),
            _file: file,
        })
    }
}

impl RemoteFile {
    /// Opens the database at a URL. An encrypted one without a key is locked.
    pub(crate) fn open(
        url: &str,
        options: Options,
        key: Option<&Arc<UserKey>>,
    ) -> Result<RemoteFile, Failure> {
        let remote = Remote::open(url, options).map_err(|error| {
            let is_wrong = matches!(error, Error::Settings(_));
            Failure::new(if is_wrong { MISUSE } else { CANTOPEN }, error.to_string())
        })?;
        let remote = Arc::new(remote);
        let mut is_fetched_again = false;
        let content = RemoteContent::new(&remote, key, &mut is_fetched_again)?;
        Ok(RemoteFile {
            remote,
            content,
            key: key.cloned(),
            is_fetched_again,
            settings: Vec::new(),
        })
    }
}

impl RemoteContent {
    /// What the file is, looked at once more if something is wrong in what came, unless that `is_fetched_again`.
    fn new(
        remote: &Arc<Remote>,
        key: Option<&Arc<UserKey>>,
        is_fetched_again: &mut bool,
    ) -> Result<RemoteContent, Failure> {
        let content = match RemoteContent::of(remote, key) {
            Err(failure) if matches!(failure.code, CORRUPT | NOTADB) && !*is_fetched_again => {
                *is_fetched_again = true;
                remote.forget();
                RemoteContent::of(remote, key)?
            }
            content => content?,
        };
        match content {
            RemoteContent::Locked(_) if key.is_some() => Err(of_store(StoreError::WrongKey)),
            content => Ok(content),
        }
    }

    fn of(remote: &Arc<Remote>, key: Option<&Arc<UserKey>>) -> Result<RemoteContent, Failure> {
        let mut head = [0; HEAD_LEN];
        let n = remote.read_at(&mut head, 0).map_err(unread)?;
        match FileKind::of(&head[..n], remote.len()) {
            FileKind::Packed => match RemotePackedFile::open(remote, head, key) {
                Ok(packed) => Ok(RemoteContent::Packed(Box::new(packed))),
                Err(StoreError::NoKey | StoreError::WrongKey) => {
                    Ok(RemoteContent::Locked(Encrypted::Packed))
                }
                Err(error) => Err(of_store(error)),
            },
            FileKind::Zstd => {
                let bytes = RemoteBytes(Arc::clone(remote));
                let which = Some(Key::RemoteArchive(remote.identity()));
                match SeekTable::read_with(&bytes, key.map(|key| &**key)) {
                    Ok(table) => {
                        let archive = ArchiveFile::with_table(bytes, table, which);
                        Ok(RemoteContent::Archive(Box::new(archive)))
                    }
                    Err(ArchiveError::NoKey | ArchiveError::WrongKey) => {
                        Ok(RemoteContent::Locked(Encrypted::Archive))
                    }
                    Err(error) => Err(archive::failure(error)),
                }
            }
            FileKind::Plain if key.is_some() => {
                let why = "there is a key, and the file is not encrypted";
                Err(Failure::new(NOTADB, why))
            }
            FileKind::Plain => match expect_database_len(&head[..n], remote.len()) {
                Ok(()) => Ok(RemoteContent::Plain),
                Err(why) => Err(Failure::new(CORRUPT, format!("{}: {why}", remote.url()))),
            },
            _ => {
                let what = "neither a packed file nor an archive nor a SQLite database";
                let why = format!("{}: {what}", remote.url());
                Err(Failure::new(NOTADB, why))
            }
        }
    }

    fn read(&mut self, remote: &Remote, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match self {
            RemoteContent::Plain => remote.read_at(buf, offset).map_err(unread),
            RemoteContent::Packed(file) => file.snapshot.read(offset, buf).map_err(of_store),
            RemoteContent::Archive(archive) => archive.read(buf, offset),
            RemoteContent::Locked(_) => Err(of_store(StoreError::NoKey)),
            RemoteContent::Other => Err(other_state()),
        }
    }

    /// Whether both are the same state of the file, as far as that is known without reading all of it.
    fn is_same(&self, other: &RemoteContent) -> bool {
        match (self, other) {
            (RemoteContent::Packed(one), RemoteContent::Packed(other)) => one.head == other.head,
            (RemoteContent::Archive(one), RemoteContent::Archive(other)) => one.is_same(other),
            _ => false,
        }
    }
}

impl File for RemoteFile {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.ask(|content, remote| content.read(remote, buf, offset))
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.ask(|content, remote| match content {
            RemoteContent::Plain => Ok(remote.len()),
            RemoteContent::Packed(file) => Ok(file.snapshot.size()),
            RemoteContent::Archive(archive) => archive.size(),
            RemoteContent::Locked(_) => Err(of_store(StoreError::NoKey)),
            RemoteContent::Other => Err(other_state()),
        })
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }
}

/// The file as connections have it if it is encrypted.
pub(crate) type KeyedRemoteFile = KeyedReader<RemoteFile>;

/// Makes an encrypted file what connections have.
pub(crate) fn keyed(file: RemoteFile, wishes: Wishes) -> Result<KeyedRemoteFile, RemoteFile> {
    let is_open = match &file.content {
        RemoteContent::Locked(_) => false,
        RemoteContent::Packed(packed) if packed.snapshot.keys().is_some() => true,
        RemoteContent::Archive(archive) if archive.is_encrypted() => true,
        _ => return Err(file),
    };
    let key = file.key.clone().filter(|_| is_open);
    Ok(KeyedReader::new(file, wishes, key))
}

impl Lockable for RemoteFile {
    fn is_locked(&self) -> bool {
        matches!(self.content, RemoteContent::Locked(_))
    }

    fn other_page_size(&self) -> PageSize {
        let bytes = RemoteBytes(Arc::clone(&self.remote));
        let size = match &self.content {
            RemoteContent::Locked(Encrypted::Archive) => {
                page_size_without_key(&bytes).ok().flatten()
            }
            _ => without_key(&bytes).ok().map(|known| known.unit_size),
        };
        PageSize::other_than(size.unwrap_or_default())
    }

    fn unlock(&mut self, key: &Arc<UserKey>) -> Result<(), Failure> {
        let (remote, again) = (&self.remote, &mut self.is_fetched_again);
        self.content = RemoteContent::new(remote, Some(key), again)?;
        self.key = Some(Arc::clone(key));
        for setting in std::mem::take(&mut self.settings) {
            self.apply(setting)
                .map_err(|why| Failure::new(MISUSE, why))?;
        }
        Ok(())
    }
}

impl Database for RemoteFile {
    fn setting(&self, name: Name) -> Result<String, String> {
        match (&self.content, name) {
            (_, Name::Level) => Err(LEVEL.into()),
            (RemoteContent::Packed(file), Name::Threads) => Ok(file.snapshot.threads().to_string()),
            (RemoteContent::Archive(archive), name) => archive.setting(name),
            (RemoteContent::Plain, Name::Threads) => Err(THREADS.into()),
            (RemoteContent::Locked(_), Name::Threads) => Err(StoreError::NoKey.to_string()),
            (RemoteContent::Other, Name::Threads) => Err(OTHER_STATE.into()),
            (_, Name::CacheMb) => Ok((Cache::shared().limit() >> 20).to_string()),
        }
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        if let Setting::CacheMb(mb) = setting {
            Cache::shared().set_budget(mb << 20);
        }
        match (&mut self.content, setting) {
            (_, Setting::Level(_)) => Err(LEVEL.into()),
            (RemoteContent::Packed(file), Setting::Threads(threads)) => {
                file.snapshot.set_threads(threads);
                Ok(())
            }
            (RemoteContent::Archive(archive), setting) => archive.apply(setting),
            (RemoteContent::Plain, Setting::Threads(_)) => Err(THREADS.into()),
            (RemoteContent::Locked(_), setting @ Setting::Threads(_)) => {
                self.settings.push(setting);
                Ok(())
            }
            (RemoteContent::Other, Setting::Threads(_)) => Err(OTHER_STATE.into()),
            (_, Setting::CacheMb(_)) => Ok(()),
        }
    }

    fn info(&mut self) -> Result<String, Failure> {
        self.report().map(|report| report.to_string())
    }

    fn check(&mut self) -> Result<String, Failure> {
        match &mut self.content {
            RemoteContent::Plain => {
                let why = "a plain database has no checksums; PRAGMA integrity_check looks at its structure";
                Err(Failure::new(ERROR, why))
            }
            RemoteContent::Packed(file) => {
                let report = file.snapshot.check(&mut |_| Ok(())).map_err(of_store)?;
                Ok(check_text(&report))
            }
            RemoteContent::Archive(archive) => archive.check(),
            RemoteContent::Locked(_) => Err(of_store(StoreError::NoKey)),
            RemoteContent::Other => Err(other_state()),
        }
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        split_file(self, root, parts)
    }

    fn remote(&self) -> Option<String> {
        Some(self.traffic().to_string())
    }
}

impl RemoteFile {
    /// Asks for something, and once more if it is damaged. It need not be the file: what is between may have sent
    /// something else once, and that was kept.
    fn ask<T>(
        &mut self,
        mut ask: impl FnMut(&mut RemoteContent, &Remote) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match ask(&mut self.content, &self.remote) {
            Err(failure) if failure.code == CORRUPT && !self.is_fetched_again => {
                self.is_fetched_again = true;
                self.remote.forget();
                // The table of an archive may be wrong, too. If what came is of another state of the file, the whole of it
                // is sound, and with what SQLite has of the former one it is not.
                let content = RemoteContent::of(&self.remote, self.key.as_ref());
                let content = content.ok().filter(|content| self.content.is_same(content));
                self.content = content.unwrap_or(RemoteContent::Other);
                match self.content {
                    RemoteContent::Other => Err(failure),
                    _ => ask(&mut self.content, &self.remote),
                }
            }
            done => done,
        }
    }

    /// Where the file is, which version of it, and what reading it took so far. docs/reference/json.md lists the
    /// fields.
    fn traffic(&self) -> Value {
        let traffic = self.remote.traffic();
        json!({
            "url": self.remote.url(),
            "size": self.remote.len(),
            "validator": self.remote.validator(),
            "kind": match self.content {
                RemoteContent::Plain => "plain",
                RemoteContent::Packed(_) | RemoteContent::Locked(Encrypted::Packed) => "packed",
                RemoteContent::Archive(_) | RemoteContent::Locked(Encrypted::Archive) => "archive",
                RemoteContent::Other => "other",
            },
            "requests": traffic.requests,
            "bytes": traffic.bytes,
            "hits": traffic.hits,
            "disk_hits": traffic.disk_hits,
            "retries": traffic.retries,
        })
    }

    /// The report of `info` on such a file elsewhere, and `remote`.
    pub(crate) fn report(&mut self) -> Result<Value, Failure> {
        let mut report = match &mut self.content {
            RemoteContent::Plain => {
                let mut head = [0; 100];
                let n = self.remote.read_at(&mut head, 0).map_err(unread)?;
                let (len, page_size) = (self.remote.len(), page_size(&head[..n]));
                json!({
                    "format": "sqlite",
                    "page_size": page_size,
                    "pages": page_size.map(|size| len / u64::from(size)),
                    "logical_bytes": len,
                    "file_bytes": len,
                })
            }
            RemoteContent::Packed(file) => info_json(&file.snapshot.info().map_err(of_store)?),
            RemoteContent::Archive(archive) => archive.report()?,
            RemoteContent::Other => return Err(other_state()),
            RemoteContent::Locked(Encrypted::Archive) => {
                json!({"format": "zstd seekable", "file_bytes": self.remote.len()})
            }
            RemoteContent::Locked(Encrypted::Packed) => {
                let bytes = RemoteBytes(Arc::clone(&self.remote));
                let known = without_key(&bytes).map_err(of_store)?;
                json!({
                    "format": "packed",
                    "logical_bytes": known.logical_bytes,
                    "file_bytes": known.file_bytes,
                })
            }
        };
        if self.key.is_some() || self.is_locked() {
            report["encrypted"] = true.into();
        }
        report["remote"] = self.traffic();
        Ok(report)
    }
}

/// The report on a database on a server as a JSON object, with what making it took as `remote`. On an encrypted one
/// without its key it says what anyone can see.
///
/// # Errors
/// In words.
pub fn remote_info(
    url: &str,
    options: Options,
    key: Option<&Arc<UserKey>>,
) -> Result<Value, String> {
    let report = RemoteFile::open(url, options, key).and_then(|mut file| file.report());
    report.map_err(|failure| failure.why.into_owned())
}

/// Keeps names of encrypted files in the cache apart from those of others.
const CACHE_NAME: &[u8] = b"litepack remote cache";
const OTHER_STATE: &str = "something was damaged, and what the server sent then is of another state of the file: open it again";
const LEVEL: &str = "a file on a server is not written, so it has no level";
const THREADS: &str = "a plain database is not decoded, so it needs no threads";

fn other_state() -> Failure {
    Failure::new(CORRUPT, OTHER_STATE)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unread(error: Error) -> Failure {
    Failure::new(IOERR_READ, error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_store(error: StoreError) -> Failure {
    Failure::new(code_of(&error, While::Reading), error.to_string())
}
