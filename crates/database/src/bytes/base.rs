//! The pages of a packed database that its log stands on, for who reads the log without SQLite.

use std::fs::File;
use std::io;
use std::sync::Arc;

use litepack_cipher::Keys;
use litepack_io::storage::ReadAt;
use litepack_log::{BaseCommit, BoundTo, FileState};
use litepack_replace::held::Held;
use litepack_store::{Cache, CommitRecord, FileId, FormerPages, Options, Result, Snapshot, Spare};

/// For map nodes, items and dictionaries.
const CACHE_BYTES: u64 = 4 << 20;

/// The database, as a commit has it that pages are asked of.
#[derive(Debug)]
pub(super) struct Base {
    file: Shared,
    keys: Option<Arc<Keys>>,
    /// Other copies of it, for what is damaged.
    spares: Vec<Arc<dyn Spare>>,
    pages: FormerPages<Shared>,
}

/// One descriptor for all commits: each is kept as long as the program has the database open.
#[derive(Clone, Debug)]
struct Shared(Arc<Held>);

impl ReadAt for Shared {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&*self.0)
    }
}

impl Base {
    /// That in this file, which is encrypted with these keys if there are any, and of which there may be other copies.
    pub(super) fn of(
        file: &File,
        keys: Option<&Arc<Keys>>,
        spares: &[Arc<dyn Spare>],
    ) -> io::Result<Base> {
        Ok(Base {
            file: Shared(Arc::new(Held::new(file.try_clone()?))),
            keys: keys.cloned(),
            spares: spares.to_vec(),
            pages: FormerPages::default(),
        })
    }

    fn at(&self, record: &CommitRecord) -> Result<Snapshot<Shared>> {
        let options = Options {
            threads: 1,
            cache: Arc::new(Cache::new(CACHE_BYTES)),
            file: FileId::unique(),
            spares: self.spares.clone(),
            ..Options::default()
        };
        let file = self.file.clone();
        Snapshot::at(file, record, self.keys.as_ref(), &options)
    }
}

impl BoundTo for Base {
    /// Not asked of who reads a log whatever it follows.
    fn state(&self) -> io::Result<Option<FileState>> {
        Ok(None)
    }

    fn make_durable(&self) -> io::Result<()> {
        Ok(())
    }

    fn base_page(&self, commit: &BaseCommit, page: u32, buf: &mut [u8]) -> io::Result<bool> {
        let record = CommitRecord(commit.0);
        (self.pages).read(&record, page, buf, || self.at(&record))
    }
}
