//! An archive that is read once, from beginning to end.

use std::sync::Arc;

use litepack_archive::{Archive, Cache, Error, FileId, Options};
use litepack_cipher::Key;
use litepack_io::storage::ReadAt;

use crate::bytes::reader::threads;

/// For frames that are read once, from beginning to end.
const CACHE_BYTES: u64 = 32 << 20;

/// Opens an archive to read it from beginning to end.
///
/// # Errors
/// If it is none, or cannot be read.
pub fn open<S: ReadAt>(source: S) -> Result<Archive<S>, Error> {
    open_with(source, None)
}

/// The same with the key of an encrypted archive.
///
/// # Errors
/// As [`open`]; if the key is wrong, or the archive is not encrypted.
pub fn open_with<S: ReadAt>(source: S, key: Option<&Key>) -> Result<Archive<S>, Error> {
    let options = Options {
        cache: Arc::new(Cache::new(CACHE_BYTES)),
        file: FileId::unique(),
        threads: threads(),
    };
    Archive::open_with(source, key, options)
}
