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
        let mut opened = self.0.borrow_mut();
        let (_, database) = match opened.take().filter(|(known, _)| known == record) {
            Some(known) => opened.insert(known),
            None => opened.insert((*record, open().map_err(as_io)?)),
        };
        let Some(before) = number.checked_sub(1) else {
            return Ok(false);
        };
        let read = database.read(u64::from(before) * page.len() as u64, page);
        Ok(read.map_err(as_io)? == page.len())
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
