//! The pages of a packed database that its log stands on, for who reads the log without SQLite.

use std::fs::File;
use std::io;
use std::sync::Arc;

use litepack_cipher::Keys;
use litepack_log::{BaseCommit, BoundTo, FileState};
use litepack_replace::held::Held;
use litepack_store::{Cache, CommitRecord, FileId, FormerPages, Options, Result, Snapshot, Spare};

/// For map nodes, and pages that several versions stand on.
const CACHE_BYTES: u64 = 4 << 20;

/// The database, as a commit has it that pages are asked of.
#[derive(Debug)]
pub(super) struct Base {
    file: Held,
    keys: Option<Arc<Keys>>,
    /// Other copies of it, for what is damaged.
    spares: Vec<Arc<dyn Spare>>,
    pages: FormerPages<Held>,
}

impl Base {
    /// That in this file, which is encrypted with these keys if there are any, and of which there may be other copies.
    pub(super) fn of(
        file: &File,
        keys: Option<&Arc<Keys>>,
        spares: &[Arc<dyn Spare>],
    ) -> io::Result<Base> {
        Ok(Base {
            file: Held::new(file.try_clone()?),
            keys: keys.cloned(),
            spares: spares.to_vec(),
            pages: FormerPages::default(),
        })
    }

    fn at(&self, record: &CommitRecord) -> Result<Snapshot<Held>> {
        let file = Held::new(self.file.try_clone()?);
        let options = Options {
            threads: 1,
            cache: Arc::new(Cache::new(CACHE_BYTES)),
            file: FileId::unique(),
            spares: self.spares.clone(),
            ..Options::default()
        };
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
