//! Pages of a database as a former commit has them: a log stands on them (docs/internals/log.md, "First versions").

use std::cell::RefCell;
use std::io;

use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::record::CommitRecord;
use crate::snapshot::handle::Snapshot;

/// The commit that pages were last asked of stays open.
#[derive(Debug)]
pub struct FormerPages<R: ReadAt>(RefCell<Option<(CommitRecord, Snapshot<R>)>>);

impl<R: ReadAt> Default for FormerPages<R> {
    fn default() -> Self {
        FormerPages(RefCell::default())
    }
}

impl<R: ReadAt> FormerPages<R> {
    /// Fills `page`, which has the size of the database's pages, with the page of this number, from 1 on, as the commit
    /// of this record has it. False if the commit has none. `open` opens a file at that commit ([`Snapshot::at`]).
    ///
    /// # Errors
    /// Of the kind `InvalidData` if the page or the commit is damaged, or no longer there; else the medium's.
    pub fn read(
        &self,
        record: &CommitRecord,
        number: u32,
        page: &mut [u8],
        open: impl FnOnce() -> Result<Snapshot<R>>,
    ) -> io::Result<bool> {
        let read = self.with(record, number, page, open, |database, offset, page| {
            Ok(database.read(offset, page)? == page.len())
        });
        read.map_err(as_io)
    }

    /// The same if the page is in the cache of that file. False as well if it is not, or cannot be read: `page` is in no
    /// known state then.
    pub fn read_cached(
        &self,
        record: &CommitRecord,
        number: u32,
        page: &mut [u8],
        open: impl FnOnce() -> Result<Snapshot<R>>,
    ) -> bool {
        let read = self.with(record, number, page, open, Snapshot::read_cached);
        read.unwrap_or(false)
    }

    /// Does `read` with the file at that commit and the offset of the page; false if no page has this number.
    fn with(
        &self,
        record: &CommitRecord,
        number: u32,
        page: &mut [u8],
        open: impl FnOnce() -> Result<Snapshot<R>>,
        read: impl FnOnce(&mut Snapshot<R>, u64, &mut [u8]) -> Result<bool>,
    ) -> Result<bool> {
        let mut opened = self.0.borrow_mut();
        let (_, database) = match opened.take().filter(|(known, _)| known == record) {
            Some(known) => opened.insert(known),
            None => opened.insert((*record, open()?)),
        };
        let before = number.checked_sub(1);
        before.map_or(Ok(false), |before| {
            read(database, u64::from(before) * page.len() as u64, page)
        })
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
