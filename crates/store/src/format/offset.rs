//! Places in the packed file.
//!
//! The file's offsets, those of the database, lengths and counts are all numbers of bytes. Only the first have a type:
//! the difference of two of them is a length, and a length added to one is another. Code that reads and writes storage
//! takes the plain number.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A place in the packed file, as the number of bytes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FileOffset(pub u64);

impl FileOffset {
    /// Where the file begins. No extent is there, so this also stands for "nowhere".
    pub const START: FileOffset = FileOffset(0);
    /// Behind all that a file can have.
    pub(crate) const MAX: FileOffset = FileOffset(u64::MAX);

    /// The place behind `len` bytes that begin here; `None` if no number is as large.
    pub(crate) fn checked_add(self, len: u64) -> Option<FileOffset> {
        self.0.checked_add(len).map(FileOffset)
    }

    /// The place so many bytes before this one, or the start.
    pub(crate) fn saturating_sub(self, len: u64) -> FileOffset {
        FileOffset(self.0.saturating_sub(len))
    }

    /// Bytes from `start` to here; `None` if that comes later.
    pub(crate) fn distance_from(self, start: FileOffset) -> Option<u64> {
        self.0.checked_sub(start.0)
    }

    /// Bytes from `start` to here; 0 if that comes later.
    pub(crate) fn bytes_since(self, start: FileOffset) -> u64 {
        self.0.saturating_sub(start.0)
    }

    /// The jump that leads here from another place, as lists of extents have it.
    pub(crate) fn jump_from(self, other: FileOffset) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// Where a jump leads; `None` if that is no place.
    pub(crate) fn jump(self, by: i64) -> Option<FileOffset> {
        self.0.checked_add_signed(by).map(FileOffset)
    }
}

impl Add<u64> for FileOffset {
    type Output = FileOffset;

    fn add(self, len: u64) -> FileOffset {
        FileOffset(self.0 + len)
    }
}

impl AddAssign<u64> for FileOffset {
    fn add_assign(&mut self, len: u64) {
        self.0 += len;
    }
}

impl Sub for FileOffset {
    type Output = u64;

    fn sub(self, start: FileOffset) -> u64 {
        self.0 - start.0
    }
}

impl fmt::Display for FileOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
