//! A database on a web server, as one that is only read: a packed file, an archive or a plain database, told by its
//! first bytes. Its content is read by range when it is needed.

use std::io;
use std::sync::Arc;

use litepack_archive::{SeekTable, page_size_without_key};
use litepack_btree::PageNumber;
use litepack_cipher::Key as UserKey;
use litepack_engine::archive::SharedArchive;
use litepack_engine::far::{Content, Encrypted, Far, FarDatabase, FarError};
use litepack_engine::page_size;
use litepack_engine::report::{check_text, info_json};
use litepack_io::cache::{Cache, FileId};
use litepack_io::storage::ReadAt;
use litepack_remote::{Error, Options, Remote};
use litepack_store::{Error as StoreError, without_key};
use serde_json::{Value, json};

use crate::beside::open_files::{self, Key};
use crate::c::codes::{CANTOPEN, CORRUPT, ERROR, IOERR_READ, MISUSE, NOTADB};
use crate::failure::{Failure, While, code_of};
use crate::files::archive;
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

impl Far for RemoteBytes {
    fn url(&self) -> String {
        self.0.url()
    }

    fn forget(&self) {
        self.0.forget();
    }

    fn packed_name(&self, key: Option<u64>) -> Arc<FileId> {
        let name = self.0.identity() ^ u128::from(key.unwrap_or_default());
        open_files::name(Key::RemotePacked(name))
    }

    fn shared(&self, table: SeekTable) -> Arc<SharedArchive> {
        archive::share(Some(Key::RemoteArchive(self.0.identity())), table)
    }
}

/// An open database on a server.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    database: FarDatabase<RemoteBytes>,
    /// For what is still locked.
    settings: Vec<Setting>,
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
        let database = FarDatabase::open(RemoteBytes(Arc::new(remote)), key).map_err(failed)?;
        Ok(RemoteFile {
            database,
            settings: Vec::new(),
        })
    }

    fn remote(&self) -> &Remote {
        &self.database.source().0
    }
}

impl File for RemoteFile {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.database.read(buf, offset).map_err(failed)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.database.size().map_err(failed)
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }
}

/// The file as connections have it if it is encrypted.
pub(crate) type KeyedRemoteFile = KeyedReader<RemoteFile>;

/// Makes an encrypted file what connections have.
pub(crate) fn keyed(file: RemoteFile, wishes: Wishes) -> Result<KeyedRemoteFile, RemoteFile> {
    let is_open = match &file.database.content {
        Content::Locked(_) => false,
        Content::Packed(packed) if packed.snapshot.keys().is_some() => true,
        Content::Archive(archive) if archive.shared.table.is_sealed() => true,
        _ => return Err(file),
    };
    let key = file.database.key().cloned().filter(|_| is_open);
    Ok(KeyedReader::new(file, wishes, key))
}

impl Lockable for RemoteFile {
    fn is_locked(&self) -> bool {
        matches!(self.database.content, Content::Locked(_))
    }

    fn other_page_size(&self) -> PageSize {
        let bytes = self.database.source();
        let size = match &self.database.content {
            Content::Locked(Encrypted::Archive) => page_size_without_key(bytes).ok().flatten(),
            _ => without_key(bytes).ok().map(|known| known.unit_size),
        };
        PageSize::other_than(size.unwrap_or_default())
    }

    fn unlock(&mut self, key: &Arc<UserKey>) -> Result<(), Failure> {
        self.database.unlock(key).map_err(failed)?;
        for setting in std::mem::take(&mut self.settings) {
            self.apply(setting)
                .map_err(|why| Failure::new(MISUSE, why))?;
        }
        Ok(())
    }
}

impl Database for RemoteFile {
    fn setting(&self, name: Name) -> Result<String, String> {
        match (&self.database.content, name) {
            (_, Name::Level) => Err(LEVEL.into()),
            (Content::Packed(file), Name::Threads) => Ok(file.snapshot.threads().to_string()),
            (Content::Archive(reader), name) => archive::setting_of(&reader.archive, name),
            (Content::Plain, Name::Threads) => Err(THREADS.into()),
            (Content::Locked(_), Name::Threads) => Err(StoreError::NoKey.to_string()),
            (Content::Other, Name::Threads) => Err(FarError::OtherState.to_string()),
            (_, Name::CacheMb) => Ok((Cache::shared().limit() >> 20).to_string()),
        }
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        if let Setting::CacheMb(mb) = setting {
            Cache::shared().set_budget(mb << 20);
        }
        match (&mut self.database.content, setting) {
            (_, Setting::Level(_)) => Err(LEVEL.into()),
            (Content::Packed(file), Setting::Threads(threads)) => {
                file.snapshot.set_threads(threads);
                Ok(())
            }
            (Content::Archive(reader), setting) => archive::apply_to(&mut reader.archive, setting),
            (Content::Plain, Setting::Threads(_)) => Err(THREADS.into()),
            (Content::Locked(_), setting @ Setting::Threads(_)) => {
                self.settings.push(setting);
                Ok(())
            }
            (Content::Other, Setting::Threads(_)) => Err(FarError::OtherState.to_string()),
            (_, Setting::CacheMb(_)) => Ok(()),
        }
    }

    fn info(&mut self) -> Result<String, Failure> {
        self.report().map(|report| report.to_string())
    }

    fn check(&mut self) -> Result<String, Failure> {
        match &mut self.database.content {
            Content::Plain => {
                let why = "a plain database has no checksums; PRAGMA integrity_check looks at its structure";
                Err(Failure::new(ERROR, why))
            }
            Content::Packed(file) => {
                let report = file.snapshot.check(&mut |_| Ok(())).map_err(of_store)?;
                Ok(check_text(&report))
            }
            Content::Archive(reader) => archive::check_of(&mut reader.archive),
            Content::Locked(_) => Err(of_store(StoreError::NoKey)),
            Content::Other => Err(failed(FarError::OtherState)),
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
    /// Where the file is, which version of it, and what reading it took so far. docs/reference/json.md lists the
    /// fields.
    fn traffic(&self) -> Value {
        let traffic = self.remote().traffic();
        json!({
            "url": self.remote().url(),
            "size": self.remote().len(),
            "validator": self.remote().validator(),
            "kind": match self.database.content {
                Content::Plain => "plain",
                Content::Packed(_) | Content::Locked(Encrypted::Packed) => "packed",
                Content::Archive(_) | Content::Locked(Encrypted::Archive) => "archive",
                Content::Other => "other",
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
        let mut report = match &mut self.database.content {
            Content::Plain => {
                let mut head = [0; 100];
                let n = self
                    .remote()
                    .read_at(&mut head, 0)
                    .map_err(|error| failed(FarError::Io(error.into())))?;
                let (len, page_size) = (self.remote().len(), page_size(&head[..n]));
                json!({
                    "format": "sqlite",
                    "page_size": page_size,
                    "pages": page_size.map(|size| len / u64::from(size)),
                    "logical_bytes": len,
                    "file_bytes": len,
                })
            }
            Content::Packed(file) => info_json(&file.snapshot.info().map_err(of_store)?),
            Content::Archive(reader) => archive::report_of(&mut reader.archive)?,
            Content::Other => return Err(failed(FarError::OtherState)),
            Content::Locked(Encrypted::Archive) => {
                json!({"format": "zstd seekable", "file_bytes": self.remote().len()})
            }
            Content::Locked(Encrypted::Packed) => {
                let known = without_key(self.database.source()).map_err(of_store)?;
                json!({
                    "format": "packed",
                    "logical_bytes": known.logical_bytes,
                    "file_bytes": known.file_bytes,
                })
            }
        };
        if self.database.key().is_some() || self.is_locked() {
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

const LEVEL: &str = "a file on a server is not written, so it has no level";
const THREADS: &str = "a plain database is not decoded, so it needs no threads";

fn failed(error: FarError) -> Failure {
    match error {
        FarError::Store(error) => of_store(error),
        FarError::Archive(error) => archive::unread(error),
        FarError::Io(error) => Failure::new(IOERR_READ, error.to_string()),
        error if error.is_damage() => Failure::new(CORRUPT, error.to_string()),
        error => Failure::new(NOTADB, error.to_string()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_store(error: StoreError) -> Failure {
    Failure::new(code_of(&error, While::Reading), error.to_string())
}
