//! A database that is read from afar: what the file is, by its first bytes, and its content, whatever its kind.
//!
//! What comes need not be what is in the file: whatever is between may have sent something else once, and that was kept.
//! So where something is wrong, all that is kept is forgotten, and it is asked for once more. What comes then is taken
//! only if it is of the same state of the file: SQLite has pages of that.

use std::io;
use std::sync::Arc;

use litepack_archive::{Error as OfArchive, SeekTable};
use litepack_cipher::Key;
use litepack_io::cache::FileId;
use litepack_io::storage::ReadAt;
use litepack_store::{Error as OfStore, HEAD_LEN, Options, Snapshot};

use crate::archive::{ArchiveError, ArchiveReader, SharedArchive};
use crate::kind::{FileKind, expect_database_len};

/// The file, and what the process knows of it.
pub trait Far: ReadAt + Clone {
    /// Where it is, for people.
    fn url(&self) -> String;

    /// Forgets what is kept of it.
    fn forget(&self);

    /// Its name in the cache, as a packed file. One that is encrypted has another with each key.
    fn packed_name(&self, key: Option<u64>) -> Arc<FileId>;

    /// What readers of it share, as an archive with this table.
    fn shared(&self, table: SeekTable) -> Arc<SharedArchive>;
}

/// Why it could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FarError {
    /// The file did not come.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The packed file, or a key.
    #[error(transparent)]
    Store(#[from] OfStore),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// There is a key for a plain database.
    #[error("there is a key, and the file is not encrypted")]
    NotEncrypted,
    /// It is nothing that can be read.
    #[error("{url}: neither a packed file nor an archive nor a SQLite database")]
    NoDatabase {
        /// Where.
        url: String,
    },
    /// A plain database that cannot be as long.
    #[error("{url}: {why}")]
    Length {
        /// Where.
        url: String,
        /// The defect.
        why: String,
    },
    /// Something was wrong, and what came then was of another state of the file.
    #[error(
        "something was damaged, and what the server sent then is of another state of the file: open it again"
    )]
    OtherState,
}

impl From<OfArchive> for FarError {
    fn from(error: OfArchive) -> FarError {
        FarError::Archive(error.into())
    }
}

impl FarError {
    /// Whether the bytes that came contradict their checksums or each other.
    pub fn is_damage(&self) -> bool {
        match self {
            FarError::Store(OfStore::Damaged(_))
            | FarError::Length { .. }
            | FarError::OtherState
            | FarError::Archive(ArchiveError::Length(_)) => true,
            FarError::Archive(ArchiveError::Archive(error)) => matches!(
                error,
                OfArchive::Head { .. } | OfArchive::SeekTable { .. } | OfArchive::Frame { .. }
            ),
            _ => false,
        }
    }

    /// Whether what came is no database, or none that the key opens.
    pub fn is_no_database(&self) -> bool {
        match self {
            FarError::Store(error) => matches!(
                error,
                OfStore::NotPacked | OfStore::NoKey | OfStore::WrongKey | OfStore::NotEncrypted
            ),
            FarError::Archive(ArchiveError::Archive(error)) => matches!(
                error,
                OfArchive::NotZstd
                    | OfArchive::NoSeekTable
                    | OfArchive::NoKey
                    | OfArchive::WrongKey
                    | OfArchive::NotEncrypted
            ),
            FarError::NotEncrypted | FarError::NoDatabase { .. } => true,
            _ => false,
        }
    }
}

/// What is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encrypted {
    /// A packed file.
    Packed,
    /// An archive.
    Archive,
}

/// An open database, by what its file is.
#[derive(Debug)]
pub enum Content<S: Far> {
    /// A plain database.
    Plain,
    /// A packed file.
    Packed(Box<FarPacked<S>>),
    /// An encrypted packed file or archive without its key.
    Locked(Encrypted),
    /// An archive.
    Archive(Box<ArchiveReader<S>>),
    /// What came later was of another state of the file than what was open.
    Other,
}

/// A packed file.
#[derive(Debug)]
pub struct FarPacked<S: Far> {
    /// Its only state.
    pub snapshot: Snapshot<S>,
    /// The first bytes of the file, which say which commit it is.
    head: Box<[u8; HEAD_LEN]>,
    /// Keeps the name of its pages in the cache for others.
    _file: Arc<FileId>,
}

impl<S: Far> FarPacked<S> {
    fn open(
        source: &S,
        head: [u8; HEAD_LEN],
        key: Option<&Arc<Key>>,
    ) -> litepack_store::Result<FarPacked<S>> {
        let mut file = source.packed_name(None);
        let options = Options {
            file: *file,
            key: key.cloned(),
            ..Options::default()
        };
        let mut snapshot = Snapshot::open(source.clone(), &options)?;
        // What a handle without the key has read under the file's name may be anything.
        if let Some(keys) = snapshot.keys() {
            file = source.packed_name(Some(keys.number_of(CACHE_NAME)));
            snapshot.set_file(*file);
        }
        // The file never changes, so this is its commit for good.
        snapshot.refresh()?;
        snapshot.expect_whole()?;
        Ok(FarPacked {
            snapshot,
            head: Box::new(head),
            _file: file,
        })
    }
}

/// A database in a file that is afar.
#[derive(Debug)]
pub struct FarDatabase<S: Far> {
    source: S,
    /// What the file is.
    pub content: Content<S>,
    /// What opens it, if it is encrypted and has been opened.
    key: Option<Arc<Key>>,
    /// Whether what was kept of the file was forgotten, because something was wrong in it.
    is_fetched_again: bool,
}

impl<S: Far> FarDatabase<S> {
    /// Looks what the file is. An encrypted one without a key is locked.
    ///
    /// # Errors
    /// It did not come, is damaged, or no database; [`FarError::is_no_database`] of a wrong key, too.
    pub fn open(source: S, key: Option<&Arc<Key>>) -> Result<FarDatabase<S>, FarError> {
        let mut is_fetched_again = false;
        let content = looked_at(&source, key, &mut is_fetched_again)?;
        Ok(FarDatabase {
            source,
            content,
            key: key.cloned(),
            is_fetched_again,
        })
    }

    /// Opens one that is locked.
    ///
    /// # Errors
    /// As [`FarDatabase::open`].
    pub fn unlock(&mut self, key: &Arc<Key>) -> Result<(), FarError> {
        self.content = looked_at(&self.source, Some(key), &mut self.is_fetched_again)?;
        self.key = Some(Arc::clone(key));
        Ok(())
    }

    /// The file.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// What opened it, if it has a key.
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.key.as_ref()
    }

    /// Fills `buf` with the database's bytes from `offset` and returns how many there were; fewer than asked only at the
    /// end.
    ///
    /// # Errors
    /// They did not come, or are damaged. No byte that fails its checksum is ever returned.
    pub fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, FarError> {
        self.ask(|content, source| match content {
            Content::Plain => Ok(source.read_at(buf, offset)?),
            Content::Packed(file) => Ok(file.snapshot.read(offset, buf)?),
            Content::Archive(archive) => Ok(archive.read(buf, offset)?),
            Content::Locked(_) => Err(OfStore::NoKey.into()),
            Content::Other => Err(FarError::OtherState),
        })
    }

    /// The length of the database in bytes.
    ///
    /// # Errors
    /// As [`FarDatabase::read`].
    pub fn size(&mut self) -> Result<u64, FarError> {
        self.ask(|content, source| match content {
            Content::Plain => Ok(source.len()?),
            Content::Packed(file) => Ok(file.snapshot.size()),
            Content::Archive(archive) => Ok(archive.size()?),
            Content::Locked(_) => Err(OfStore::NoKey.into()),
            Content::Other => Err(FarError::OtherState),
        })
    }

    /// Asks for something, and once more if it is damaged.
    fn ask<T>(
        &mut self,
        mut ask: impl FnMut(&mut Content<S>, &S) -> Result<T, FarError>,
    ) -> Result<T, FarError> {
        match ask(&mut self.content, &self.source) {
            Err(error) if error.is_damage() && !self.is_fetched_again => {
                self.is_fetched_again = true;
                self.source.forget();
                // The table of an archive may be wrong, too. If what came is of another state of the file, the whole of it
                // is sound, and with what SQLite has of the former one it is not.
                let content = content_of(&self.source, self.key.as_ref());
                let content = content.ok().filter(|content| self.content.is_same(content));
                self.content = content.unwrap_or(Content::Other);
                match self.content {
                    Content::Other => Err(error),
                    _ => ask(&mut self.content, &self.source),
                }
            }
            done => done,
        }
    }
}

impl<S: Far> Content<S> {
    /// Whether both are the same state of the file, as far as that is known without reading all of it.
    fn is_same(&self, other: &Content<S>) -> bool {
        match (self, other) {
            (Content::Packed(one), Content::Packed(other)) => one.head == other.head,
            (Content::Archive(one), Content::Archive(other)) => {
                one.shared.table.is_same(&other.shared.table)
            }
            _ => false,
        }
    }
}

/// What the file is, looked at once more if something is wrong in what came, unless that `is_fetched_again`.
fn looked_at<S: Far>(
    source: &S,
    key: Option<&Arc<Key>>,
    is_fetched_again: &mut bool,
) -> Result<Content<S>, FarError> {
    let content = match content_of(source, key) {
        Err(error) if (error.is_damage() || error.is_no_database()) && !*is_fetched_again => {
            *is_fetched_again = true;
            source.forget();
            content_of(source, key)?
        }
        content => content?,
    };
    match content {
        Content::Locked(_) if key.is_some() => Err(OfStore::WrongKey.into()),
        content => Ok(content),
    }
}

fn content_of<S: Far>(source: &S, key: Option<&Arc<Key>>) -> Result<Content<S>, FarError> {
    let mut head = [0; HEAD_LEN];
    let n = source.read_at(&mut head, 0)?;
    let (start, len) = (head.get(..n).unwrap_or_default(), source.len()?);
    match FileKind::of(start, len) {
        FileKind::Packed => match FarPacked::open(source, head, key) {
            Ok(packed) => Ok(Content::Packed(Box::new(packed))),
            Err(OfStore::NoKey | OfStore::WrongKey) => Ok(Content::Locked(Encrypted::Packed)),
            Err(error) => Err(error.into()),
        },
        FileKind::Zstd => match SeekTable::read_with(source, key.map(|key| &**key)) {
            Ok(table) => {
                let shared = source.shared(table);
                let archive = ArchiveReader::new(source.clone(), shared);
                Ok(Content::Archive(Box::new(archive)))
            }
            Err(OfArchive::NoKey | OfArchive::WrongKey) => Ok(Content::Locked(Encrypted::Archive)),
            Err(error) => Err(error.into()),
        },
        FileKind::Plain if key.is_some() => Err(FarError::NotEncrypted),
        FileKind::Plain => match expect_database_len(start, len) {
            Ok(()) => Ok(Content::Plain),
            Err(why) => Err(FarError::Length {
                url: source.url(),
                why,
            }),
        },
        _ => Err(FarError::NoDatabase { url: source.url() }),
    }
}

/// Keeps names of encrypted files in the cache apart from those of others.
const CACHE_NAME: &[u8] = b"litepack remote cache";
