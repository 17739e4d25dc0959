//! An archive as the database in it, and what readers of the same archive share. A byte is given out only where
//! something vouches for its place.

use std::sync::{Arc, OnceLock};

use litepack_archive::{Archive, Error, FileId, Options, SeekTable, Sizes};
use litepack_io::storage::ReadAt;

use crate::kind::{expect_database_len, stated_size};

/// Why an archive could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive itself.
    #[error(transparent)]
    Archive(#[from] Error),
    /// It has more bytes than a database can have.
    #[error("{0}")]
    Length(String),
}

/// What readers of the same archive share.
#[derive(Debug)]
pub struct SharedArchive {
    /// The archive's name in the cache.
    pub file: FileId,
    /// Where its frames are.
    pub table: Arc<SeekTable>,
    /// Whether the database states the sum of the sizes in the table.
    is_sum_right: OnceLock<bool>,
    /// If it does not: how far they were found to be right.
    sizes: Sizes,
}

impl SharedArchive {
    /// Of an archive that nobody reads yet.
    pub fn new(file: FileId, table: SeekTable) -> Arc<SharedArchive> {
        Arc::new(SharedArchive {
            file,
            table: Arc::new(table),
            is_sum_right: OnceLock::new(),
            sizes: Sizes::default(),
        })
    }
}

/// One reader of an archive.
#[derive(Debug)]
pub struct ArchiveReader<S> {
    /// The archive, for what does not ask for bytes of a place.
    pub archive: Archive<S>,
    /// What it shares with others.
    pub shared: Arc<SharedArchive>,
}

impl<S: ReadAt> ArchiveReader<S> {
    /// Reads the archive in `source`.
    pub fn new(source: S, shared: Arc<SharedArchive>) -> ArchiveReader<S> {
        let options = Options {
            file: shared.file,
            ..Options::default()
        };
        ArchiveReader {
            archive: Archive::with_table(source, Arc::clone(&shared.table), options),
            shared,
        }
    }

    /// Fills `buf` with the database's bytes from `offset` and returns how many there were; fewer than asked only at the
    /// end.
    ///
    /// # Errors
    /// When the medium fails, or a frame or the seek table is not what it should be.
    pub fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, ArchiveError> {
        // Where the last byte is, all before it are.
        let last = offset.saturating_add(buf.len() as u64).saturating_sub(1);
        self.expect_place(last.min(self.archive.size().saturating_sub(1)))?;
        Ok(self.archive.read_at(offset, buf)?)
    }

    /// As the seek table says. Whether a page is there, and where, is found out when it is read.
    ///
    /// # Errors
    /// As [`ArchiveReader::read`].
    pub fn size(&mut self) -> Result<u64, ArchiveError> {
        self.expect_place(0)?;
        Ok(self.archive.size())
    }

    /// Whether the bytes of the database from `position` on are where the seek table says. Nothing else vouches for the
    /// sizes in it: a bit that rots there changes their sum, which the header of the database has, too. Where that is not
    /// so, as after a very old SQLite, the frames before are asked. Opening never looks at those behind.
    fn expect_place(&mut self, position: u64) -> Result<(), ArchiveError> {
        let is_sum_right = match self.shared.is_sum_right.get() {
            Some(is_right) => *is_right,
            None => {
                let mut head = [0; 100];
                let found = self.archive.read_at(0, &mut head)?;
                let (head, size) = (head.get(..found).unwrap_or_default(), self.archive.size());
                expect_database_len(head, size).map_err(ArchiveError::Length)?;
                let is_right = stated_size(head) == Some(size);
                *self.shared.is_sum_right.get_or_init(|| is_right)
            }
        };
        if is_sum_right {
            return Ok(());
        }
        let done = self.archive.expect_place(position, &self.shared.sizes);
        Ok(done?)
    }
}
