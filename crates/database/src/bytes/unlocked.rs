//! The key of an encrypted file, tried once when the file is opened.
//!
//! A file without a key that needs one, a wrong key, and a key for a file that needs none are errors here, before anything
//! is read, locked or written.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use litepack_archive::SeekTable;
use litepack_cipher::{Key, Keys};
use litepack_engine::FileKind;
use litepack_store::Error as StoreError;

use crate::error::{Cause as _, Context, cannot_read};
use crate::{Error, Result};

/// What opens an encrypted file.
#[derive(Clone, Debug)]
pub struct Unlocked {
    key: Arc<Key>,
    keys: Arc<Keys>,
}

impl Unlocked {
    /// Tries the user's key on an open file of this kind. `None` if the file is not encrypted and there is no key, and of an
    /// archive, which has no keys that others need.
    ///
    /// # Errors
    /// [`Error::Encrypted`], [`Error::WrongKey`], [`Error::NotEncrypted`], or when the places of the key cannot be read.
    pub fn of(
        file: &File,
        kind: FileKind,
        key: Option<&Arc<Key>>,
        shown: &Path,
    ) -> Result<Option<Unlocked>> {
        let path = || shown.to_owned();
        if kind == FileKind::Zstd {
            return match key {
                None => Ok(None),
                Some(key) => try_archive(file, key, shown).map(|()| None),
            };
        }
        let is_encrypted = is_encrypted(file, kind);
        let Some(key) = key else {
            return match is_encrypted {
                Ok(true) => Err(Error::Encrypted { path: path() }),
                // If the header is damaged, reading it is the error.
                _ => Ok(None),
            };
        };
        let keys = match is_encrypted {
            Ok(true) => litepack_store::unlock(file, key),
            Ok(false) => Err(StoreError::NotEncrypted),
            Err(error) => Err(error),
        };
        match keys {
            Ok(Some(keys)) => Ok(Some(Unlocked {
                key: Arc::clone(key),
                keys,
            })),
            Err(StoreError::WrongKey) => Err(Error::WrongKey { path: path() }),
            Ok(None) | Err(StoreError::NotEncrypted) => Err(Error::NotEncrypted { path: path() }),
            Err(error) => Err(error).with_context(|| cannot_read(shown)),
        }
    }

    /// The user's key.
    pub fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// The file's keys.
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }
}

/// Tries the user's key on an archive.
///
/// # Errors
/// As [`Unlocked::of`].
pub fn try_archive(file: &File, key: &Key, shown: &Path) -> Result<()> {
    match SeekTable::read_with(&file, Some(key)) {
        Ok(_) => Ok(()),
        Err(error) => Err(of_archive(error, shown)),
    }
}

/// Why an archive does not open. What is about its key names it.
pub fn of_archive(error: litepack_archive::Error, shown: &Path) -> Error {
    let path = shown.to_owned();
    match error {
        litepack_archive::Error::NoKey => Error::Encrypted { path },
        litepack_archive::Error::WrongKey => Error::WrongKey { path },
        litepack_archive::Error::NotEncrypted => Error::NotEncrypted { path },
        error => error.explained(cannot_read(shown)),
    }
}

/// Whether an open file of this kind is encrypted.
pub fn is_encrypted(file: &File, kind: FileKind) -> litepack_store::Result<bool> {
    match kind {
        FileKind::Zstd => Ok(litepack_archive::is_encrypted(&file).unwrap_or(false)),
        FileKind::Packed => litepack_store::is_encrypted(file),
        _ => Ok(false),
    }
}
