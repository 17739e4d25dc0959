//! B-tree pages: header, cell pointers, cells (sqlite.org/fileformat2.html, section 1.6).

use std::ops::Range;

use crate::page_number::PageNumber;
use crate::record::varint;

/// The four kinds of b-tree pages, by the first byte of their header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PageKind {
    IndexInterior = 2,
    TableInterior = 5,
    IndexLeaf = 10,
    TableLeaf = 13,
}

impl PageKind {
    /// The kind with this byte.
    #[inline]
    pub fn of(byte: u8) -> Option<PageKind> {
        match byte {
            2 => Some(PageKind::IndexInterior),
            5 => Some(PageKind::TableInterior),
            10 => Some(PageKind::IndexLeaf),
            13 => Some(PageKind::TableLeaf),
            _ => None,
        }
    }

    /// Whether its cells lead to other pages of the tree.
    #[inline]
    pub fn is_interior(self) -> bool {
        matches!(self, PageKind::IndexInterior | PageKind::TableInterior)
    }

    /// Whether its cells have a rowid: pages of ordinary tables, not of indexes and WITHOUT ROWID tables.
    #[inline]
    pub fn has_rowid(self) -> bool {
        matches!(self, PageKind::TableInterior | PageKind::TableLeaf)
    }

    /// Whether its cells have a payload.
    #[inline]
    pub fn has_payload(self) -> bool {
        self != PageKind::TableInterior
    }

    /// Length of the page header in bytes.
    #[inline]
    pub fn header_len(self) -> usize {
        if self.is_interior() { 12 } else { 8 }
    }

    /// How many of `payload` bytes are on the page itself, of which `usable` bytes (at least 480) are
    /// used; the rest is on overflow pages.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both numbers are below `usable`"
    )]
    pub fn local_len(self, payload: u64, usable: usize) -> usize {
        let most = match self {
            PageKind::TableLeaf => usable - 35,
            _ => (usable - 12) * 64 / 255 - 23,
        };
        if payload <= most as u64 {
            return payload as usize;
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let local = least + ((payload - least as u64) % (usable as u64 - 4)) as usize;
        if local <= most { local } else { least }
    }
}

/// A cell of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Where it begins on the page.
    pub start: usize,
    /// The key of a row of a table, 0 in indexes.
    pub rowid: u64,
    /// The page of smaller keys; `None` in a leaf, or if none is named.
    pub child: Option<PageNumber>,
    /// Bytes of payload, on overflow pages too.
    pub payload: u64,
    /// The range of the payload on this page.
    pub local: Range<usize>,
    /// The first overflow page, if one is named.
    pub overflow: Option<PageNumber>,
}

/// A b-tree page with a valid header and cell pointers.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    bytes: &'a [u8],
    kind: PageKind,
    header: usize,
    count: usize,
}

impl<'a> Page<'a> {
    /// Parses the usable bytes of a page (at least 480) with its header at `header`: 100 on page 1, else 0. `None` if
    /// it is not a b-tree page.
    pub fn parse(bytes: &'a [u8], header: usize) -> Option<Page<'a>> {
        let kind = PageKind::of(*bytes.get(header)?)?;
        let count = usize::from(be16(bytes, header + 3)?);
        let page = Page {
            bytes,
            kind,
            header,
            count,
        };
        (page.pointers().end <= bytes.len()).then_some(page)
    }

    /// Its kind.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// How many cells it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The page of the largest keys; `None` in a leaf, or if none is named.
    pub fn rightmost(&self) -> Option<PageNumber> {
        self.kind
            .is_interior()
            .then(|| number_at(self.bytes, self.header + 8))?
    }

    fn pointers(&self) -> Range<usize> {
        let start = self.header + self.kind.header_len();
        start..start + 2 * self.count
    }

    /// The cells in key order. `None` is a cell that is not on the page, or that must overlap others because those
    /// before it fill the page: no more bytes are read than a page has.
    pub fn cells(&self) -> impl Iterator<Item = Option<Cell>> + use<'a> {
        let (page, mut left) = (*self, self.bytes.len());
        self.pointers().step_by(2).map(move |pointer| {
            let start = usize::from(be16(page.bytes, pointer)?);
            if start < page.pointers().end {
                return None;
            }
            let cell = page.cell(start)?;
            left = left.checked_sub(cell.local.len())?;
            Some(cell)
        })
    }

    fn cell(&self, start: usize) -> Option<Cell> {
        let mut at = start;
        let (mut child, mut rowid) = (None, 0);
        if self.kind.is_interior() {
            child = PageNumber::new(be32(self.bytes, at)?);
            at += 4;
        }
        let mut number = || {
            let (value, len) = varint(self.bytes.get(at..)?)?;
            at += len;
            Some(value)
        };
        let payload = if self.kind.has_payload() {
            number()?
        } else {
            0
        };
        if self.kind.has_rowid() {
            rowid = number()?;
        }
        let end = at + self.kind.local_len(payload, self.bytes.len());
        let spills = payload > (end - at) as u64;
        let overflow = if spills {
            PageNumber::new(be32(self.bytes, end)?)
        } else {
            None
        };
        (end <= self.bytes.len()).then_some(Cell {
            start,
            rowid,
            child,
            payload,
            local: at..end,
            overflow,
        })
    }
}

/// The big-endian number of two bytes at `at`.
#[inline]
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// The big-endian number of four bytes at `at`.
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// The page that is named at `at`; `None` if it is 0, or not there.
pub(crate) fn number_at(bytes: &[u8], at: usize) -> Option<PageNumber> {
    be32(bytes, at).and_then(PageNumber::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_of_a_payload_is_local() {
        // The largest that stays on a page of 4096 bytes, and one byte more, as SQLite does it.
        assert_eq!(PageKind::TableLeaf.local_len(4061, 4096), 4061);
        assert_eq!(PageKind::TableLeaf.local_len(4062, 4096), 489);
        assert_eq!(PageKind::IndexLeaf.local_len(1002, 4096), 1002);
        assert_eq!(PageKind::IndexInterior.local_len(1003, 4096), 489);
        assert_eq!(PageKind::TableLeaf.local_len(4092 + 600, 4096), 600);
        for usable in [480, 512, 65536] {
            assert!(PageKind::IndexLeaf.local_len(u64::MAX, usable) < usable);
        }
    }

    #[test]
    fn cells_that_must_overlap_are_not_read() {
        let mut bytes = vec![0; 512];
        bytes[0] = PageKind::TableLeaf as u8;
        bytes[4] = 200;
        for index in 0..200 {
            bytes[8 + 2 * index..][..2].copy_from_slice(&420_u16.to_be_bytes());
        }
        bytes[420] = 80;
        let page = Page::parse(&bytes, 0).unwrap();
        assert_eq!(page.cells().filter(Option::is_some).count(), 512 / 80);
    }
}
