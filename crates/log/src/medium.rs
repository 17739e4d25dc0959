//! The file. Records are appended, each by one write, so that other processes see it at once.
//!
//! The file grows by zeros written ahead, so that a sync of what is written into them need not write how long the file
//! is.

use litepack_cipher::Keys;
use litepack_io::memory::{resize, zeros};
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::head::{Head, RECORDS_START};

/// The file grows by so many bytes.
const PIECE: u64 = 1 << 16;
/// Bytes that are written again at once after a failed sync.
const PART: usize = 1 << 16;

/// So many bytes at the place of the first record tell that one is there.
pub(crate) const FIRST_LEN: usize = 16;

/// The file, and where its records end.
#[derive(Debug)]
pub(crate) struct Medium<S> {
    storage: S,
    tail: u64,
    /// The file has at least this length.
    len: u64,
}

impl<S: Storage> Medium<S> {
    pub fn new(storage: S) -> Medium<S> {
        Medium {
            storage,
            tail: RECORDS_START,
            len: 0,
        }
    }

    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Where the next record goes.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Records end here, as was found.
    pub fn go_to(&mut self, tail: u64) {
        self.tail = tail;
    }

    /// No records, in a file that may have become shorter.
    pub fn begin(&mut self) -> Result<()> {
        self.tail = RECORDS_START;
        self.len = self.storage.len()?;
        Ok(())
    }

    /// The bytes from `place` on, at most so many.
    pub fn read(&self, place: u64, most: usize) -> Result<Vec<u8>> {
        let mut bytes = zeros(most)?;
        let n = self.storage.read_at(&mut bytes, place)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    /// Reads these bytes as the head. If only the first slot was written and no record is there, it was torn: the log
    /// is empty.
    pub fn head_of(&self, bytes: &[u8], keys: Option<&Keys>) -> Result<Head> {
        Ok(match Head::decode(bytes, keys) {
            Head::Torn if self.is_blank()? => Head::Empty,
            head => head,
        })
    }

    /// Whether nothing is at the place of the first record.
    pub fn is_blank(&self) -> Result<bool> {
        let first = self.read(RECORDS_START, FIRST_LEN)?;
        Ok(first.iter().all(|byte| *byte == 0))
    }

    /// Writes a record at the tail. After an error any of its bytes may be there.
    pub fn append(&mut self, record: &mut Vec<u8>) -> Result<()> {
        let end = self.tail + record.len() as u64;
        if end > self.len {
            let len = record.len();
            let to = end.next_multiple_of(PIECE);
            // With little memory or disk left the file grows by what is needed.
            let with_zeros = usize::try_from(to - self.tail).unwrap_or(len);
            let has_grown = resize(record, with_zeros).is_ok()
                && self.storage.write_at(record, self.tail).is_ok();
            record.truncate(len);
            if has_grown {
                (self.tail, self.len) = (end, to);
                return Ok(());
            }
        }
        self.storage.write_at(record, self.tail)?;
        self.tail = end;
        self.len = self.len.max(end);
        Ok(())
    }

    /// Writes a part of the file as it is: after a failed sync the system may have given it up, and the next sync that
    /// succeeds is to count for it.
    pub fn write_again(&self, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let wanted = usize::try_from(to - at).map_or(PART, |n| n.min(PART));
            let part = self.read(at, wanted)?;
            self.storage.write_at(&part, at)?;
            if part.len() < wanted {
                break;
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// The same of the head. Where the file was cut, what the cut took off there must not come back either.
    pub fn write_head_again(&self) -> Result<()> {
        let len = self.storage.len()?;
        if len >= RECORDS_START {
            return self.write_again(0, RECORDS_START);
        }
        let mut head = self.read(0, PART)?;
        resize(&mut head, usize::try_from(RECORDS_START).unwrap_or(PART))?;
        self.storage.write_at(&head, 0)?;
        Ok(self.storage.truncate(len)?)
    }

    /// Cuts the file to `len` bytes if it is longer, but not into its records.
    pub fn shorten(&mut self, len: u64) -> Result<()> {
        let len = len.max(self.tail);
        if self.storage.len()? > len {
            self.storage.truncate(len)?;
        }
        self.len = self.len.min(len);
        Ok(())
    }
}
