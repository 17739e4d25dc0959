//! The bytes of pages, and new pages above the leaves of a tree.
//!
//! New pages are appended: former ones are read until the root, which is written last, leads to the new ones.

use std::mem;
use std::ops::Range;

use super::scan::{Flat, Item};
use super::{Mend, Pages, slot_of};
use crate::page::{Cell, Page, PageKind};
use crate::page_number::PageNumber;

/// SQLite gives each cell at least so many bytes.
const CELL_MIN: usize = 4;
/// Bytes of a pointer to a cell.
const POINTER: usize = 2;

/// The bytes of a cell.
pub(super) fn bytes_of<'a>(usable: &'a [u8], cell: &Cell) -> Option<&'a [u8]> {
    let spills = cell.payload > cell.local.len() as u64;
    usable.get(cell.start..cell.local.end + if spills { 4 } else { 0 })
}

/// The bytes that a page with this header and these cells takes.
fn len_of<T: AsRef<[u8]>>(header: usize, cells: &[T]) -> usize {
    header + cells.iter().map(|cell| cost(cell.as_ref())).sum::<usize>()
}

fn cost(cell: &[u8]) -> usize {
    cell.len().max(CELL_MIN) + POINTER
}

/// A page with these cells, which fit into its usable bytes. `former` is what it was: the first page keeps the header of
/// the database, and every page what is reserved at its end.
pub(super) fn compact<T: AsRef<[u8]>>(
    former: &[u8],
    usable: usize,
    number: PageNumber,
    (kind, rightmost): (PageKind, Option<PageNumber>),
    cells: &[T],
) -> Vec<u8> {
    let at = number.header();
    let mut page = former.to_vec();
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(to) = page.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    };
    put(at, &vec![0; usable.saturating_sub(at)]);
    let mut end = usable;
    let mut pointer = at + kind.header_len();
    for cell in cells {
        let cell = cell.as_ref();
        end = end.saturating_sub(cell.len().max(CELL_MIN));
        put(end, cell);
        put(pointer, &low16(end));
        pointer += POINTER;
    }
    put(at, &[kind as u8]);
    put(at + 3, &low16(cells.len()));
    // 65536 is written as 0.
    put(at + 5, &low16(end));
    if let Some(child) = rightmost {
        put(at + 8, &child.get().to_be_bytes());
    }
    page
}

fn low16(number: usize) -> [u8; 2] {
    let [.., high, low] = number.to_be_bytes();
    [high, low]
}

/// What is between two pages of a level: the greatest rowid of the first, or a row.
enum Between {
    Rowid(i64),
    Row(Vec<u8>),
}

impl Between {
    /// As a cell of the page above.
    fn cell(&self, child: PageNumber) -> Vec<u8> {
        let mut cell = child.get().to_be_bytes().to_vec();
        match self {
            Between::Rowid(rowid) => put_varint(rowid.cast_unsigned(), &mut cell),
            Between::Row(row) => cell.extend(row),
        }
        cell
    }
}

/// Appends a number as [`crate::record::varint`] reads it.
fn put_varint(number: u64, to: &mut Vec<u8>) {
    if number >> 56 != 0 {
        // Nine bytes: seven bits in each of eight, and the last byte whole.
        let high = number >> 8;
        to.extend((0..8).rev().map(|at| low7(high >> (7 * at)) | 0x80));
        to.extend(number.to_be_bytes().last());
        return;
    }
    let groups = (64 - number.leading_zeros()).div_ceil(7).max(1);
    let group = |at: u32| low7(number >> (7 * at)) | if at > 0 { 0x80 } else { 0 };
    to.extend((0..groups).rev().map(group));
}

fn low7(number: u64) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low & 0x7f
}

/// Pages, and what is between each and the next.
#[derive(Default)]
struct Level {
    pages: Vec<PageNumber>,
    between: Vec<Between>,
}

impl Level {
    /// The leaves of a table with rowids.
    fn of_rowids(items: Vec<Item>) -> Level {
        let mut level = Level::default();
        let mut leaves: Vec<_> = items
            .into_iter()
            .filter_map(|item| match item {
                Item::Leaf { page, rowids } => Some((rowids, page)),
                Item::Row(_) => None,
            })
            .collect();
        // Those that were found again come last.
        leaves.sort_unstable();
        for ((_, last), page) in leaves {
            level.pages.push(page);
            level.between.push(Between::Rowid(last));
        }
        level.between.pop();
        level
    }
}

impl<P: Pages> Mend<'_, P> {
    /// Makes new pages above the leaves of a tree, up to its root.
    pub(super) fn rebuild(
        &mut self,
        at: usize,
        root: PageNumber,
        flat: Flat,
    ) -> Result<(), P::Error> {
        for page in &flat.above {
            self.slots.set(*page, 0);
        }
        self.slots.set(root, slot_of(at));
        let has_rowid = flat.has_rowid != Some(false);
        let (leaf, above) = match has_rowid {
            true => (PageKind::TableLeaf, PageKind::TableInterior),
            false => (PageKind::IndexLeaf, PageKind::IndexInterior),
        };
        let mut level = match has_rowid {
            true => Level::of_rowids(flat.items),
            false => self.repack(at, flat.items)?,
        };
        loop {
            match level.pages.as_slice() {
                [] => return self.write_empty(root, leaf),
                [only] => {
                    let only = *only;
                    return self.raise(root, only, above);
                }
                [.., last] => {
                    let (last, cells) = (*last, Self::cells(&level, 0..level.between.len()));
                    if len_of(root.header() + above.header_len(), &cells) <= self.header.usable() {
                        return self.write_page(root, (above, Some(last)), &cells);
                    }
                }
            }
            level = self.group(at, above, level)?;
        }
    }

    /// The cells of a page that leads to some of these and the next.
    fn cells(level: &Level, children: Range<usize>) -> Vec<Vec<u8>> {
        let pages = level.pages.get(children.clone()).unwrap_or_default();
        let between = level.between.get(children).unwrap_or_default();
        let pairs = pages.iter().zip(between);
        pairs.map(|(page, between)| between.cell(*page)).collect()
    }

    /// The level above: pages that lead to as many of these as fit, and to two at least.
    fn group(&mut self, at: usize, kind: PageKind, mut level: Level) -> Result<Level, P::Error> {
        let mut upper = Level::default();
        let room = self.header.usable() - kind.header_len();
        let last = level.pages.len() - 1;
        let mut from = 0;
        while from <= last {
            let (mut to, mut used) = (from, 0);
            while to < last
                && let [cell] = Self::cells(&level, to..to + 1).as_slice()
                && used + cost(cell) <= room
            {
                used += cost(cell);
                to += 1;
            }
            // No page is left alone: as there is room for four cells of any kind, this one has two children without it.
            if to + 1 == last {
                to -= 1;
            }
            let cells = Self::cells(&level, from..to);
            let number = self.append(at);
            self.write_page(number, (kind, level.pages.get(to).copied()), &cells)?;
            upper.pages.push(number);
            // What was between two groups is so one level up.
            if let Some(between) = level.between.get_mut(to) {
                upper.between.push(mem::replace(between, Between::Rowid(0)));
            }
            from = to + 1;
        }
        Ok(upper)
    }

    /// Puts all rows of a tree without rowids into new leaves.
    fn repack(&mut self, at: usize, items: Vec<Item>) -> Result<Level, P::Error> {
        let mut level = Level::default();
        let mut leaf = Leaf::default();
        for item in items {
            match item {
                Item::Row(row) => self.put(at, row, &mut leaf, &mut level)?,
                Item::Leaf { page, .. } => {
                    for row in self.rows_of(page)? {
                        self.put(at, row, &mut leaf, &mut level)?;
                    }
                    self.slots.set(page, 0);
                }
            }
        }
        // A row that is between leaves has one behind it.
        if leaf.rows.is_empty()
            && let Some(mut full) = leaf.full.take()
        {
            leaf.rows.push(full.1);
            full.1 = full.0.pop().unwrap_or_default();
            leaf.full = Some(full);
        }
        self.flush(at, &mut leaf, &mut level)?;
        if !leaf.rows.is_empty() {
            let number = self.append(at);
            self.write_page(number, (PageKind::IndexLeaf, None), &leaf.rows)?;
            level.pages.push(number);
        }
        Ok(level)
    }

    /// Adds a row behind all others.
    fn put(
        &mut self,
        at: usize,
        row: Vec<u8>,
        leaf: &mut Leaf,
        level: &mut Level,
    ) -> Result<(), P::Error> {
        let header = PageKind::IndexLeaf.header_len();
        if len_of(header, &leaf.rows) + cost(&row) > self.header.usable() {
            self.flush(at, leaf, level)?;
            leaf.full = Some((mem::take(&mut leaf.rows), row));
        } else {
            leaf.rows.push(row);
        }
        Ok(())
    }

    /// Writes the full leaf.
    fn flush(&mut self, at: usize, leaf: &mut Leaf, level: &mut Level) -> Result<(), P::Error> {
        if let Some((rows, next)) = leaf.full.take() {
            let number = self.append(at);
            self.write_page(number, (PageKind::IndexLeaf, None), &rows)?;
            level.pages.push(number);
            level.between.push(Between::Row(next));
        }
        Ok(())
    }

    fn rows_of(&mut self, page: PageNumber) -> Result<Vec<Vec<u8>>, P::Error> {
        let mut bytes = vec![0; self.header.page_size as usize];
        if !self.pages.read(page, &mut bytes)? {
            return Ok(Vec::new());
        }
        let usable = bytes.get(..self.header.usable()).unwrap_or_default();
        let cells = Page::parse(usable, page.header());
        let cells = cells.into_iter().flat_map(|page| page.cells()).flatten();
        let rows = cells.filter_map(|cell| bytes_of(usable, &cell).map(<[u8]>::to_vec));
        Ok(rows.collect())
    }

    /// Makes the only page of a level the root.
    fn raise(
        &mut self,
        root: PageNumber,
        only: PageNumber,
        above: PageKind,
    ) -> Result<(), P::Error> {
        if only == root {
            return Ok(());
        }
        let mut bytes = vec![0; self.header.page_size as usize];
        let usable = self.header.usable();
        let is_there = self.pages.read(only, &mut bytes)?;
        let content = bytes.get(..usable).unwrap_or_default();
        let Some(page) = Page::parse(content, only.header()).filter(|_| is_there) else {
            return Ok(());
        };
        let cells = page.cells().flatten();
        let cells: Vec<&[u8]> = cells.filter_map(|cell| bytes_of(content, &cell)).collect();
        let (kind, rightmost) = (page.kind(), page.rightmost());
        if len_of(root.header() + kind.header_len(), &cells) <= usable {
            self.slots.set(only, 0);
            return self.write_page(root, (kind, rightmost), &cells);
        }
        // The first page has less room than others, and may lead to a single one.
        self.write_page(root, (above, Some(only)), &[] as &[&[u8]])
    }

    /// Makes a page an empty tree.
    pub(super) fn write_empty(&mut self, root: PageNumber, kind: PageKind) -> Result<(), P::Error> {
        self.write_page(root, (kind, None), &[] as &[&[u8]])
    }

    fn write_page<T: AsRef<[u8]>>(
        &mut self,
        number: PageNumber,
        kind: (PageKind, Option<PageNumber>),
        cells: &[T],
    ) -> Result<(), P::Error> {
        let mut former = vec![0; self.header.page_size as usize];
        if number == PageNumber::FIRST {
            self.pages.read(number, &mut former)?;
        }
        let page = compact(&former, self.header.usable(), number, kind, cells);
        self.pages.write(number, &page)
    }

    /// The number of a new page.
    fn append(&mut self, at: usize) -> PageNumber {
        self.end += 1;
        let is_none = |end| PageNumber::new(end).is_none_or(|end| self.header.is_pending_byte(end));
        if is_none(self.end) {
            self.end += 1;
        }
        let number = PageNumber::new(self.end).unwrap_or(PageNumber::FIRST);
        self.slots.set(number, slot_of(at));
        number
    }
}

/// Rows on their way to a leaf.
#[derive(Default)]
struct Leaf {
    /// A leaf that has no room for the row behind it, which stands between it and the next.
    full: Option<(Vec<Vec<u8>>, Vec<u8>)>,
    rows: Vec<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::varint;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        let mut numbers: Vec<u64> = (0..64).flat_map(|at| [1 << at, (1 << at) - 1]).collect();
        numbers.extend([u64::MAX, 300, 16_383, 16_384]);
        for number in numbers {
            let mut bytes = Vec::new();
            put_varint(number, &mut bytes);
            assert_eq!(varint(&bytes), Some((number, bytes.len())), "{number:x}");
        }
    }
}
