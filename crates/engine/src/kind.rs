//! What a file is, by its first bytes, and what the header of a plain database says.

use litepack_archive::begins_like_zstd;
use litepack_store::{HeaderKind, SQLITE_MAGIC, kind_of};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// No bytes at all.
    Empty,
    /// A plain SQLite database.
    Plain,
    /// A packed file.
    Packed,
    /// An archive, or a zstd file that is none.
    Zstd,
    /// Something else.
    Other,
}

impl FileKind {
    /// The kind of a file of `len` bytes that begins with `head`, its first [`litepack_store::HEAD_LEN`] bytes.
    pub fn of(head: &[u8], len: u64) -> FileKind {
        match kind_of(head, len) {
            HeaderKind::Packed => FileKind::Packed,
            HeaderKind::Empty if len == 0 => FileKind::Empty,
            _ if head.starts_with(SQLITE_MAGIC) => FileKind::Plain,
            _ if begins_like_zstd(head) => FileKind::Zstd,
            _ => FileKind::Other,
        }
    }
}

/// The page size in the header of a plain database; `None` if it is none, or its header makes no sense
/// (<https://sqlite.org/fileformat2.html#page_size>).
pub fn page_size(head: &[u8]) -> Option<u32> {
    let rest = head.strip_prefix(b"SQLite format 3\0")?;
    match u16::from_be_bytes([*rest.first()?, *rest.get(1)?]) {
        1 => Some(65536),
        size if size >= 512 && size.is_power_of_two() => Some(size.into()),
        _ => None,
    }
}

/// How long a plain database is in bytes, as the first 100 of them say; `None` if they do not
/// (<https://sqlite.org/fileformat.html#the_database_header>).
pub fn stated_size(head: &[u8]) -> Option<u64> {
    let word = |at: usize| {
        let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_be_bytes)
    };
    let pages = word(28)?;
    // The page count is valid only if the last writer knew of it.
    let is_valid = pages > 0 && word(24)? == word(92)?;
    is_valid.then_some(u64::from(pages) * u64::from(page_size(head)?))
}

/// How many bytes shorter a plain database of `len` bytes is than its header says.
pub fn missing_bytes(head: &[u8; 100], len: u64) -> Option<u64> {
    stated_size(head)?
        .checked_sub(len)
        .filter(|missing| *missing > 0)
}
