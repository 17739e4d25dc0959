//! The pages of a packed database that its log stands on, for who reads the log without SQLite.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::sync::Arc;

use litepack_cipher::Keys;
use litepack_log::{BaseCommit, BoundTo, FileState};
use litepack_replace::held::Held;
use litepack_store::{Cache, CommitRecord, Error, FileId, Options, Snapshot};

/// For map nodes, and pages that several versions stand on.
const CACHE_BYTES: u64 = 4 << 20;

/// The database, as a commit has it that pages are asked of.
#[derive(Debug)]
pub(super) struct Base {
    file: Held,
    keys: Option<Arc<Keys>>,
    opened: RefCell<Option<(BaseCommit, Snapshot<Held>)>>,
}

impl Base {
    /// That in this file, which is encrypted with these keys if there are any.
    pub(super) fn of(file: &File, keys: Option<&Arc<Keys>>) -> io::Result<Base> {
        Ok(Base {
            file: Held::new(file.try_clone()?),
            keys: keys.cloned(),
            opened: RefCell::default(),
        })
    }

    fn open(&self, commit: &BaseCommit) -> io::Result<Snapshot<Held>> {
        let file = Held::new(self.file.try_clone()?);
        let (record, keys) = (CommitRecord(commit.0), self.keys.as_ref());
        let options = Options {
            threads: 1,
            cache: Arc::new(Cache::new(CACHE_BYTES)),
            file: FileId::unique(),
            ..Options::default()
        };
        Snapshot::at(file, &record, keys, &options).map_err(as_io)
    }
}

/// Pages that are gone are told from a medium that fails.
fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        error @ (Error::Damaged(_) | Error::Unsupported(_)) => {
            io::Error::new(io::ErrorKind::InvalidData, error)
        }
        error => io::Error::other(error),
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
        let mut opened = self.opened.borrow_mut();
        let (_, database) = match opened.take().filter(|(known, _)| known == commit) {
            Some(known) => opened.insert(known),
            None => opened.insert((*commit, self.open(commit)?)),
        };
        let Some(before) = page.checked_sub(1) else {
            return Ok(false);
        };
        let read = database.read(u64::from(before) * buf.len() as u64, buf);
        Ok(read.map_err(as_io)? == buf.len())
    }
}
