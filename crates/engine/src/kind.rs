//! The kind of a file, by its first bytes, and the facts in the header of a plain database.

use litepack_archive::begins_like_zstd;
use litepack_btree::SQLITE_MAGIC;
pub use litepack_btree::page_size;
use litepack_store::{HeaderKind, kind_of};

/// The kind of a file.
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

    /// Whether there is nothing in the file yet: no bytes, or a packed file that was cut off before it had a header.
    pub fn is_new(head: &[u8], len: u64) -> bool {
        kind_of(head, len) == HeaderKind::Empty
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

/// The largest number of a page in SQLite.
const PAGES_MAX: u64 = u32::MAX as u64 - 1;
/// The largest page.
const PAGE_MAX: u32 = 65536;

/// Whether a database that begins with `head` can have `len` bytes. SQLite counts pages in 32 bits: of a longer one it
/// would see another number of pages, or none.
///
/// # Errors
/// In words.
pub fn expect_database_len(head: &[u8], len: u64) -> Result<(), String> {
    let page = page_size(head).unwrap_or(PAGE_MAX);
    let most = PAGES_MAX * u64::from(page);
    if len <= most {
        return Ok(());
    }
    Err(format!(
        "it is said to have {len} bytes, and a database with pages of {page} bytes has at most {most}: the file is \
         damaged, or who says so is wrong"
    ))
}

/// How many bytes shorter a plain database of `len` bytes is than its header says.
pub fn missing_bytes(head: &[u8; 100], len: u64) -> Option<u64> {
    stated_size(head)?
        .checked_sub(len)
        .filter(|missing| *missing > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_sqlite_would_count_wrongly_is_none() {
        let mut head = SQLITE_MAGIC.to_vec();
        head.extend_from_slice(&[0x10, 0]);
        let most = PAGES_MAX * 4096;
        assert!(expect_database_len(&head, most).is_ok());
        for len in [
            most + 1,
            (1 << 32) * 4096,
            (1 << 44) + 4096,
            1 << 62,
            u64::MAX,
        ] {
            assert!(expect_database_len(&head, len).is_err(), "{len}");
        }
        // Of one that is no database it is the page size that allows most.
        assert!(expect_database_len(b"", PAGES_MAX * 65536).is_ok());
        assert!(expect_database_len(b"", 1 << 48).is_err());
    }
}
