//! How a handle works.

use std::fmt;
use std::sync::{Arc, LazyLock};

use litepack_cipher::Key;
use litepack_codec::Level;

use litepack_io::cache::{Cache, FileId};
use litepack_io::fixed;
use litepack_io::storage::ReadAt;

/// How a handle works. [`Options::default`] is the recommended configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// zstd level for pages written from now on.
    pub level: Level,
    /// Whether pages are laid out by column before zstd sees them. It is there to be switched off for comparison.
    pub columnar: bool,
    /// Whether units that changed a little are stored as their difference to what they were: less time and fewer bytes
    /// for those that update, and a file of wholes for those that make one, as by default.
    pub differences: bool,
    /// Threads that may work at the same time, the handle's own included: compressing when many pages are
    /// written at once, decoding ahead of a scan. By default as many as there are processors, four at most; fewer where
    /// memory is short.
    pub threads: usize,
    /// The key of an encrypted file, and of a new one that is to be encrypted.
    pub key: Option<Arc<Key>>,
    /// Decoded pages and map nodes are kept here.
    pub cache: Arc<Cache>,
    /// The file's identity in the cache; handles that give the same one share their pages.
    pub file: FileId,
    /// Other copies of the file, also of earlier commits. What cannot be read in this one is looked for at the same place
    /// there, and counts if it is what its parent states.
    pub spares: Vec<Arc<dyn Spare>>,
}

/// Another copy of a file.
pub trait Spare: ReadAt + fmt::Debug + Send + Sync {}

impl<T: ReadAt + fmt::Debug + Send + Sync> Spare for T {}

/// The default level: as fast as writing gets without a worse ratio.
pub const DEFAULT_LEVEL: Level = 3;

/// Available processors, four at most; to ask takes longer than to open a file.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(4)));

impl Default for Options {
    fn default() -> Self {
        Options {
            level: DEFAULT_LEVEL,
            columnar: true,
            differences: false,
            key: None,
            threads: fixed::threads(*THREADS),
            cache: Arc::clone(Cache::shared()),
            file: FileId::unique(),
            spares: Vec::new(),
        }
    }
}
