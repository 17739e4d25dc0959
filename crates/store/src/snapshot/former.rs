//! Pages of a database as a former commit has them: a log stands on them (docs/internals/log.md, "First versions").

use std::cell::RefCell;
use std::io;

use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::record::CommitRecord;
use crate::snapshot::handle::Snapshot;

/// The commit that pages were last asked of stays open.
#[derive(Debug)]
pub struct FormerPages<R: ReadAt>(RefCell<Option<Former<R>>>);

#[derive(Debug)]
struct Former<R: ReadAt> {
    record: CommitRecord,
    /// `None` if it cannot be opened.
    at: Option<Snapshot<R>>,
}

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
        let mut known = self.0.borrow_mut();
        // It may be possible now.
        let opened = known.take_if(|known| known.record == *record && known.at.is_some());
        let former = known.insert(opened.unwrap_or(Former {
            record: *record,
            at: None,
        }));
        let at = match &mut former.at {
            Some(at) => at,
            at => at.insert(open().map_err(as_io)?),
        };
        let offset = offset_of(number, page);
        offset.map_or(Ok(false), |offset| {
            at.read_once(offset, page).map_err(as_io)
        })
    }

    /// The same if it takes no read of the page. False as well if it does, or if the page cannot be read: `page` is in no
    /// known state then.
    pub fn read_cached(
        &self,
        record: &CommitRecord,
        number: u32,
        page: &mut [u8],
        open: impl FnOnce() -> Result<Snapshot<R>>,
    ) -> bool {
        let mut known = self.0.borrow_mut();
        let former = match known.take_if(|known| known.record == *record) {
            Some(former) => known.insert(former),
            // Not tried again for each page.
            None => known.insert(Former {
                record: *record,
                at: open().ok(),
            }),
        };
        let (at, offset) = (former.at.as_mut(), offset_of(number, page));
        at.zip(offset)
            .is_some_and(|(at, offset)| at.read_cached(offset, page).unwrap_or(false))
    }
}

/// Where the page of this number is in the database.
fn offset_of(number: u32, page: &[u8]) -> Option<u64> {
    Some(u64::from(number.checked_sub(1)?) * page.len() as u64)
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
