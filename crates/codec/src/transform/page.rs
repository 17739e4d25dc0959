//! The layout of a b-tree page: header, cell pointers, cells, and the bytes that belong to none
//! (sqlite.org/fileformat2.html, section 1.6).
//!
//! Cells are found through their pointers and described in key order. Their places follow from their order by address
//! and the gaps between them, so most pages need no bytes for them.

pub(crate) use litepack_btree::page::PageKind;
use litepack_btree::page::be16;
use litepack_btree::record::varint;

use super::bytes::{Malformed, Reader, Result, put_number};
use super::record;

/// Where the parts of a cell lie on its page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) rowid: i64,
    /// Where its payload begins; at `end` if it has none.
    pub(crate) payload: usize,
    /// Whether everything in it can be written again from its values: no payload on overflow
    /// pages, and varints as SQLite writes them.
    pub(crate) regular: bool,
}

/// The length of a page number: of a child, or of the first overflow page.
const POINTER_LEN: usize = 4;

/// Reads the cell at `start`.
pub(crate) fn cell_at(page: &[u8], kind: PageKind, start: usize) -> Option<Cell> {
    let mut at = start;
    let mut regular = true;
    if kind.is_interior() {
        at += POINTER_LEN;
    }
    let mut number = |at: &mut usize| {
        let (value, len) = varint(page.get(*at..)?)?;
        regular &= len == record::varint_len(value);
        *at += len;
        Some(value)
    };
    let payload_len = if kind.has_payload() {
        number(&mut at)?
    } else {
        0
    };
    let rowid = if kind.has_rowid() {
        number(&mut at)? as i64
    } else {
        0
    };
    let payload = at;
    let mut end = payload + kind.local_len(payload_len, page.len());
    if payload_len > (end - payload) as u64 {
        regular = false;
        end += POINTER_LEN;
    }
    if end > page.len() {
        return None;
    }
    Some(Cell {
        start,
        end,
        rowid,
        payload,
        regular,
    })
}

/// A b-tree page taken apart.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) kind: PageKind,
    /// Where the b-tree header begins: 100 on page 1, else 0.
    pub(crate) header: usize,
    /// In key order.
    pub(crate) cells: Vec<Cell>,
    /// The cells' indexes, from the highest address to the lowest.
    order: Vec<u16>,
}

/// No page of SQLite is longer: a cell pointer has 16 bits.
pub(crate) const PAGE_MAX: usize = 1 << 16;
/// The length of the header that page 1 has before its b-tree header.
pub(crate) const FILE_HEADER_LEN: usize = 100;

impl Layout {
    #[expect(
        clippy::indexing_slicing,
        reason = "the order has the indexes of the cells"
    )]
    /// Takes a page apart; `None` when its cells overlap or lie outside, as in a page that is no
    /// b-tree page at all.
    pub(crate) fn parse(page: &[u8]) -> Option<Layout> {
        let header = if page.starts_with(litepack_btree::SQLITE_MAGIC) {
            FILE_HEADER_LEN
        } else {
            0
        };
        let kind = PageKind::of(*page.get(header)?)?;
        let number = be16(page, header + 3)?;
        let count = usize::from(number);
        let pointers = header + kind.header_len();
        let first = pointers + 2 * count;
        if first > page.len() || page.len() > PAGE_MAX {
            return None;
        }
        let mut cells = Vec::with_capacity(count);
        for index in 0..count {
            let start = usize::from(be16(page, pointers + 2 * index)?);
            if start < first {
                return None;
            }
            cells.push(cell_at(page, kind, start)?);
        }
        let mut order: Vec<u16> = (0..number).collect();
        if !cells.is_sorted_by(|a: &Cell, b| a.start >= b.start) {
            order.sort_by_key(|index| std::cmp::Reverse(cells[usize::from(*index)].start));
        }
        let mut above = page.len();
        for index in &order {
            let cell = &cells[usize::from(*index)];
            if cell.end > above {
                return None;
            }
            above = cell.start;
        }
        Some(Layout {
            kind,
            header,
            cells,
            order,
        })
    }

    /// Where the cell at the highest address ends; 0 without cells.
    pub(crate) fn highest(&self) -> usize {
        let highest = self
            .order
            .first()
            .and_then(|index| self.cells.get(usize::from(*index)));
        highest.map_or(0, |cell| cell.end)
    }

    fn first(&self) -> usize {
        self.header + self.kind.header_len() + 2 * self.cells.len()
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`parse` found the header and the cells on the page, the cells apart and behind their pointers"
    )]
    /// Appends what does not follow from the cells: one byte for a page as SQLite fills it.
    pub(crate) fn put(&self, page: &[u8], out: &mut Vec<u8>) {
        let lowest = self
            .order
            .last()
            .map_or(page.len(), |index| self.cells[usize::from(*index)].start);
        let ordered = self
            .order
            .iter()
            .enumerate()
            .all(|(rank, index)| rank == usize::from(*index));
        let mut gaps = Vec::new();
        let mut above = page.len();
        for (rank, index) in self.order.iter().enumerate() {
            let cell = &self.cells[usize::from(*index)];
            if cell.end < above {
                gaps.push((rank, cell.end, above));
            }
            above = cell.start;
        }
        let header = &page[self.header..];
        let usual = header[1..3] == [0, 0]
            && header[7] == 0
            && usize::from(u16::from_be_bytes([header[5], header[6]])) == lowest & 0xffff;
        let free = &page[self.first()..lowest];
        let blank = free.iter().all(|byte| *byte == 0);
        let tag = out.len();
        out.push(0);
        let mut flags = 0;
        if !usual {
            flags |= flag::HEADER;
            out.extend_from_slice(&[header[1], header[2], header[5], header[6], header[7]]);
        }
        if !ordered {
            flags |= flag::ORDER;
            out.extend(self.order.iter().map(|index| index.to_le_bytes()[0]));
            if self.order.len() > 256 {
                out.extend(self.order.iter().map(|index| index.to_le_bytes()[1]));
            }
        }
        if !gaps.is_empty() {
            flags |= flag::GAPS;
            put_number(out, gaps.len() as u64);
            let mut last = 0;
            for (rank, start, end) in &gaps {
                put_number(out, (rank - last) as u64);
                put_number(out, (end - start) as u64);
                last = *rank;
            }
            for (_, start, end) in &gaps {
                out.extend_from_slice(&page[*start..*end]);
            }
        }
        if !blank {
            flags |= flag::FREE;
            put_number(out, free.len() as u64);
            out.extend_from_slice(free);
        }
        out[tag] = flags;
    }
}

/// Flags: what a page has besides its cells.
mod flag {
    /// Freeblocks, fragments, or a content area that does not begin at the lowest cell.
    pub(super) const HEADER: u8 = 1;
    /// The order by address is not the order by key.
    pub(super) const ORDER: u8 = 2;
    /// Bytes between cells, or after the last.
    pub(super) const GAPS: u8 = 4;
    /// Bytes other than zero between the cell pointers and the lowest cell.
    pub(super) const FREE: u8 = 8;
}

/// The parts of a page that [`Layout::put`] wrote.
pub(crate) struct Rest<'a> {
    header: Option<[u8; 5]>,
    order: Option<(&'a [u8], &'a [u8])>,
    /// Which cell by address it lies above, and its bytes.
    gaps: Vec<(usize, &'a [u8])>,
    free: Option<&'a [u8]>,
}

impl<'a> Rest<'a> {
    pub(crate) fn take(input: &mut Reader<'a>, cells: usize, page_len: usize) -> Result<Rest<'a>> {
        let flags = input.byte()?;
        let header = if flags & flag::HEADER != 0 {
            Some(input.array()?)
        } else {
            None
        };
        let order = if flags & flag::ORDER != 0 {
            let low = input.take(cells)?;
            let high = if cells > 256 { input.take(cells)? } else { &[] };
            Some((low, high))
        } else {
            None
        };
        let mut gaps = Vec::new();
        if flags & flag::GAPS != 0 {
            let count = input.count(cells)?;
            let mut sizes = Vec::with_capacity(count);
            let mut rank = 0;
            for _ in 0..count {
                rank += input.count(page_len)?;
                sizes.push((rank, input.count(page_len)?));
            }
            for (rank, size) in sizes {
                gaps.push((rank, input.take(size)?));
            }
        }
        let free = if flags & flag::FREE != 0 {
            let len = input.count(page_len)?;
            Some(input.take(len)?)
        } else {
            None
        };
        Ok(Rest {
            header,
            order,
            gaps,
            free,
        })
    }

    /// The number of the cell that is at this place from the highest.
    #[inline]
    pub(crate) fn index(&self, rank: usize) -> usize {
        match self.order {
            None => rank,
            Some((low, high)) => {
                let byte = |bytes: &[u8]| bytes.get(rank).copied().unwrap_or_default();
                u16::from_le_bytes([byte(low), byte(high)]).into()
            }
        }
    }

    /// Whether each of so many cells has one place.
    pub(crate) fn names_all(&self, cells: usize) -> bool {
        if self.order.is_none() {
            return true;
        }
        let mut named = vec![0_u64; cells.div_ceil(64)];
        for index in (0..cells).map(|rank| self.index(rank)) {
            if let Some(word) = named.get_mut(index / 64) {
                *word |= 1 << (index % 64);
            }
        }
        // As many as there are, and so none beyond them, which would be refused when it is written.
        let count: u32 = named.iter().map(|word| word.count_ones()).sum();
        count as usize == cells
    }

    /// The bytes above cells: which cell by address, from the highest, and what.
    pub(crate) fn gaps(&self) -> &[(usize, &'a [u8])] {
        &self.gaps
    }

    /// How many bytes these are.
    pub(crate) fn gaps_len(&self) -> usize {
        self.gaps.iter().map(|(_, gap)| gap.len()).sum()
    }

    /// Writes the header and everything else that lies before the cells but their pointers.
    pub(crate) fn put(
        &self,
        page: &mut [u8],
        header: usize,
        kind: PageKind,
        cells: usize,
        lowest: usize,
    ) -> Result<()> {
        let before = page.get_mut(header..lowest).ok_or(Malformed)?;
        let (head, rest) = before.split_first_chunk_mut::<8>().ok_or(Malformed)?;
        // The last four bytes of an interior page's header, the rightmost child, are there already.
        let rest = rest.get_mut(kind.header_len() - head.len()..);
        let free = rest
            .and_then(|rest| rest.get_mut(2 * cells..))
            .ok_or(Malformed)?;
        match self.free {
            Some(bytes) if bytes.len() == free.len() => free.copy_from_slice(bytes),
            Some(_) => return Err(Malformed),
            None => free.fill(0),
        }
        let [count, count_low] = u16::try_from(cells).map_err(|_| Malformed)?.to_be_bytes();
        // 65536, where an empty page of that size begins, is written as 0.
        let [lowest, lowest_low] = u16::try_from(lowest).unwrap_or(0).to_be_bytes();
        let [free, free_low, content, content_low, fragments] =
            self.header.unwrap_or([0, 0, lowest, lowest_low, 0]);
        *head = [
            kind as u8,
            free,
            free_low,
            count,
            count_low,
            content,
            content_low,
            fragments,
        ];
        Ok(())
    }
}
