//! The database header, and the pages that by the header alone belong to no tree (sqlite.org/fileformat2.html, sections
//! 1.3, 1.4 and 1.8).

use crate::page::{be16, be32, number_at};
use crate::page_number::PageNumber;

/// Length of the database header in bytes.
pub const HEADER_LEN: usize = 100;

/// First bytes of every plain database.
pub const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The byte that SQLite's locks begin at; the page around it is never used.
const PENDING_BYTE: u32 = 0x4000_0000;
/// Largest page number.
const PAGES_MAX: u32 = u32::MAX - 1;
/// Fewest bytes of a page that b-trees may use.
const USABLE_MIN: usize = 480;
/// Bytes of an entry of the pointer map.
const POINTER_MAP_ENTRY: usize = 5;

/// How a database stores text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// The fields of the header about pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes at the end of each page that b-trees do not use.
    pub reserved: u8,
    /// Number of pages; the last one has this number.
    pub pages: u32,
    /// How text is stored.
    pub encoding: Encoding,
    /// First page of the list of free pages, if there is one.
    pub(crate) first_free: Option<PageNumber>,
    /// How many pages the list has, as the header counts them.
    pub free_pages: u32,
    /// Whether there are pointer map pages.
    pub auto_vacuum: bool,
}

/// The page size in bytes that the head of a plain database states; `None` if it is none, or its header makes no sense
/// (<https://sqlite.org/fileformat2.html#page_size>).
pub fn page_size(head: &[u8]) -> Option<u32> {
    match be16(head, 16)? {
        _ if !head.starts_with(SQLITE_MAGIC) => None,
        1 => Some(65536),
        size if size >= 512 && size.is_power_of_two() => Some(size.into()),
        _ => None,
    }
}

impl Header {
    /// Reads the first [`HEADER_LEN`] bytes of a database that is `len` bytes long; `None` if they are
    /// no header, or if the database is encrypted.
    ///
    /// The page count in the header is valid only if the last program that wrote it knew of it; else
    /// the length says how many pages there are.
    pub fn parse(head: &[u8], len: u64) -> Option<Header> {
        let head = head.get(..HEADER_LEN)?;
        let page_size = page_size(head)?;
        let reserved = *head.get(20)?;
        if page_size as usize - usize::from(reserved) < USABLE_MIN {
            return None;
        }
        let word = |at: usize| be32(head, at).unwrap_or(0);
        let there = len.div_ceil(page_size.into());
        let there = u32::try_from(there).map_or(PAGES_MAX, |n| n.min(PAGES_MAX));
        let pages = match word(28) {
            counted if counted > 0 && word(24) == word(92) => counted.min(there),
            _ => there,
        };
        Some(Header {
            page_size,
            reserved,
            pages,
            encoding: match word(56) {
                2 => Encoding::Utf16Le,
                3 => Encoding::Utf16Be,
                _ => Encoding::Utf8,
            },
            first_free: number_at(head, 32),
            free_pages: word(36),
            auto_vacuum: word(52) != 0,
        })
    }

    /// Bytes of a page that b-trees use.
    pub fn usable(&self) -> usize {
        self.page_size as usize - usize::from(self.reserved)
    }

    /// Whether there is such a page, and it may be free: it is not one of those that have a purpose by their number.
    pub(crate) fn can_be_free(&self, page: PageNumber) -> bool {
        page.get() > 1
            && page.get() <= self.pages
            && !self.is_pending_byte(page)
            && !self.is_pointer_map(page)
    }

    /// Whether this is the page around SQLite's lock bytes.
    pub(crate) fn is_pending_byte(&self, page: PageNumber) -> bool {
        page.get() == self.pending_byte()
    }

    fn pending_byte(&self) -> u32 {
        PENDING_BYTE / self.page_size + 1
    }

    /// Whether this page holds a part of the pointer map: page 2, and then one before each run of as many
    /// pages as it describes. One that would be the page around the lock bytes comes one later.
    pub(crate) fn is_pointer_map(&self, page: PageNumber) -> bool {
        let page = page.get();
        if !self.auto_vacuum || page < 2 {
            return false;
        }
        let Ok(entries) = u32::try_from(self.usable() / POINTER_MAP_ENTRY) else {
            return false;
        };
        let run = entries + 1;
        let first = page - (page - 2) % run;
        page == if first == self.pending_byte() {
            first + 1
        } else {
            first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Vec<u8> {
        let mut head = vec![0; HEADER_LEN];
        head[..16].copy_from_slice(SQLITE_MAGIC);
        head[16] = 16;
        head[28..32].copy_from_slice(&7_u32.to_be_bytes());
        head
    }

    #[test]
    fn the_page_count_is_the_headers_only_if_its_last_writer_knew_of_it() {
        let mut head = head();
        let pages = |head: &[u8], len| Header::parse(head, len).unwrap().pages;
        assert_eq!(pages(&head, 8 * 4096), 7);
        assert_eq!(pages(&head, 3 * 4096), 3);
        head[27] = 1;
        assert_eq!(pages(&head, 8 * 4096), 8);
        assert_eq!(pages(&head, u64::MAX), PAGES_MAX);
    }

    #[test]
    fn what_is_no_header() {
        assert!(Header::parse(&head()[..99], 4096).is_none());
        for (at, byte) in [(0, b'X'), (16, 17), (16, 1)] {
            let mut head = head();
            head[at] = byte;
            assert!(Header::parse(&head, 4096).is_none(), "{at}");
        }
        let mut small = head();
        small[16] = 2;
        small[20] = 32;
        assert!(Header::parse(&small, 4096).is_some());
        small[20] = 33;
        assert!(Header::parse(&small, 4096).is_none());
    }

    #[test]
    fn the_pointer_map_avoids_the_pending_byte() {
        let mut head = head();
        head[16] = 2;
        head[55] = 1;
        let header = Header::parse(&head, 1 << 40).unwrap();
        // 102 entries a page: one on page 2, the next on page 105.
        let found: Vec<u32> = (1..=208)
            .filter_map(PageNumber::new)
            .filter(|page| header.is_pointer_map(*page))
            .map(PageNumber::get)
            .collect();
        assert_eq!(found, [2, 105, 208]);
        let around = header.pending_byte() - 200..header.pending_byte() + 200;
        let around = around.filter_map(PageNumber::new);
        for page in around.filter(|page| header.is_pointer_map(*page)) {
            assert!(!header.is_pending_byte(page));
        }
    }
}
