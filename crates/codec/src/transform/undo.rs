//! Decoding: from a stream to the page it was made from.
//!
//! The columns are read first, each value as a piece of the arena, because their lengths say where the cells are. Then
//! the page is written from its lowest cell to the highest. So each piece can be copied as a whole chunk: the next
//! piece overwrites the excess.

use super::arena::{Arena, copy};
use super::bytes::{Bits, Malformed, Reader, Result, Span};
use super::page::{FILE_HEADER_LEN, PAGE_MAX, PageKind, Rest};
use super::record::{self, Values};
use super::{COLUMNS_MAX, KIND, PAGE_ONE, VERBATIM, column, ints, json, strings};

/// Room in the arena for what is not copied from the stream, in pages: JSON texts and the values they are made of, and
/// integers, which take up to eight bytes each, and no less than one on the page.
const ROOM: usize = 12;

/// Places for values, at most so many times the bytes of a page.
const PLACES_MAX: usize = 4;

/// Scratch memory of decoding, reused for every page, so that nothing is allocated.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) arena: Arena,
    pub(crate) integers: Vec<i64>,
    pub(crate) strings: strings::Scratch,
    pub(crate) json: json::Scratch,
    pub(crate) blob: Vec<u8>,
}

/// Turns streams back into pages.
#[derive(Default)]
pub(crate) struct Undo {
    buffers: Buffers,
    contents: Vec<Content>,
    children: Vec<i64>,
    rowids: Vec<i64>,
    records: Records,
    lens: Vec<usize>,
    starts: Vec<usize>,
}

/// What a cell is made of.
#[derive(Clone, Copy)]
enum Content {
    /// The bytes of a cell that is stored as it is.
    Bytes(Span),
    /// The child, rowid and record of this number.
    Row(usize),
}

impl Undo {
    /// Fills `page` with the page that `stream` was made from.
    pub(crate) fn decode(&mut self, stream: &[u8], page: &mut [u8]) -> Result<()> {
        let mut input = Reader::new(stream);
        let tag = input.byte()?;
        let kind = PageKind::of(tag & KIND).ok_or(Malformed)?;
        let header = if tag & PAGE_ONE == 0 {
            0
        } else {
            FILE_HEADER_LEN
        };
        if header + kind.header_len() > page.len() || page.len() > PAGE_MAX {
            return Err(Malformed);
        }
        let file_header = page.get_mut(..header).ok_or(Malformed)?;
        file_header.copy_from_slice(input.take(header)?);
        // A cell and its pointer take four bytes at least.
        let cells = input.count(page.len() / 4)?;
        let rest = Rest::take(&mut input, cells, page.len())?;
        if kind.is_interior() {
            let rightmost = page.get_mut(header + 8..header + 12).ok_or(Malformed)?;
            rightmost.copy_from_slice(input.take(4)?);
        }
        let rows = self.take_contents(&mut input, tag & VERBATIM != 0, cells)?;
        self.children.clear();
        if kind.is_interior() {
            ints::decode(&mut input, rows, &mut self.children)?;
        }
        self.rowids.clear();
        if kind.has_rowid() {
            ints::decode(&mut input, rows, &mut self.rowids)?;
        }
        self.buffers.arena.begin(stream, ROOM * page.len());
        if kind.has_payload() {
            self.records
                .take(&mut input, rows, page.len(), &mut self.buffers)?;
        }
        if !input.is_empty() {
            return Err(Malformed);
        }
        self.measure(kind);
        let first = header + kind.header_len() + 2 * cells;
        let lowest = rest.place(first, page.len(), &self.lens, &mut self.starts)?;
        for rank in (0..cells).rev() {
            self.put_cell(kind, rest.index(rank), page)?;
        }
        rest.put(page, header, kind, &self.lens, &self.starts, lowest)
    }

    /// Reads the cells that are stored as they are, and says how many there are of the others.
    fn take_contents(
        &mut self,
        input: &mut Reader<'_>,
        some_verbatim: bool,
        cells: usize,
    ) -> Result<usize> {
        self.contents.clear();
        if !some_verbatim {
            self.contents.extend((0..cells).map(Content::Row));
            return Ok(cells);
        }
        let verbatim = Bits::take(input, true, cells)?;
        let mut rows = 0;
        for cell in 0..cells {
            self.contents.push(if verbatim.has(cell) {
                let len = usize::try_from(input.number()?).map_err(|_| Malformed)?;
                Content::Bytes(input.span(len)?)
            } else {
                rows += 1;
                Content::Row(rows - 1)
            });
        }
        Ok(rows)
    }

    /// Finds the lengths of the cells.
    #[expect(
        clippy::indexing_slicing,
        reason = "`take_contents` counted the rows, and as many rowids and records were decoded"
    )]
    fn measure(&mut self, kind: PageKind) {
        let len = |content: &Content| match *content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Row(row) => {
                let mut len = if kind.is_interior() { 4 } else { 0 };
                if kind.has_rowid() {
                    len += record::varint_len(self.rowids[row] as u64);
                }
                if kind.has_payload() {
                    let payload = self.records.lens[row];
                    len += record::varint_len(payload.into()) + payload as usize;
                }
                len
            }
        };
        self.lens.clear();
        self.lens.extend(self.contents.iter().map(len));
    }

    /// Writes a cell; bytes behind it are undefined.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "`Rest::place` has checked that the cell is one, and that its place on the page is as long as `measure` \
                  found it; children, rowids and records are as many as rows"
    )]
    fn put_cell(&self, kind: PageKind, cell: usize, page: &mut [u8]) -> Result<()> {
        let mut at = self.starts[cell];
        let row = match self.contents[cell] {
            Content::Bytes(bytes) => {
                copy(self.buffers.arena.bytes(), bytes, &mut page[at..])?;
                return Ok(());
            }
            Content::Row(row) => row,
        };
        if kind.is_interior() {
            let child = u32::try_from(self.children[row]).map_err(|_| Malformed)?;
            page[at..at + 4].copy_from_slice(&child.to_be_bytes());
            at += 4;
        }
        if kind.has_payload() {
            at += record::put_varint(self.records.lens[row].into(), &mut page[at..]);
        }
        if kind.has_rowid() {
            at += record::put_varint(self.rowids[row] as u64, &mut page[at..]);
        }
        if kind.has_payload() {
            self.records.put(row, &self.buffers.arena, page, at)?;
        }
        Ok(())
    }
}

/// The records of a page.
#[derive(Default)]
struct Records {
    /// How many columns each has.
    counts: Vec<i64>,
    /// The length of the serial types of each.
    types: Vec<u32>,
    /// The length of each, first without its header.
    lens: Vec<u32>,
    /// A value for each row, column after column; those that short records do not have are NULL.
    values: Values,
}

impl Records {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no record has more than `COLUMNS_MAX` columns, nor a header longer than they need"
    )]
    fn take(
        &mut self,
        input: &mut Reader<'_>,
        rows: usize,
        page_len: usize,
        buffers: &mut Buffers,
    ) -> Result<()> {
        self.counts.clear();
        ints::decode(input, rows, &mut self.counts)?;
        let most = self.counts.iter().copied().max().unwrap_or(0);
        let least = self.counts.iter().copied().min().unwrap_or(0);
        let columns = usize::try_from(most).map_err(|_| Malformed)?;
        // Each value has a byte in its record's header at least, but there may be places without a value.
        if least < 0 || columns > COLUMNS_MAX || columns * rows > PLACES_MAX * page_len {
            return Err(Malformed);
        }
        self.types.clear();
        self.types
            .extend(self.counts.iter().map(|count| *count as u32));
        self.lens.clear();
        self.lens.resize(rows, 0);
        self.values.clear();
        for column in 0..most {
            self.take_column(column, column < least, input, buffers)?;
        }
        for (len, types) in self.lens.iter_mut().zip(&self.types) {
            *len += record::header_len(*types as usize) as u32;
        }
        Ok(())
    }

    /// Reads a column, which all records have or only some, and adds its values to the lengths of their records.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a varint has at most nine bytes"
    )]
    fn take_column(
        &mut self,
        column: i64,
        all: bool,
        input: &mut Reader<'_>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let Records {
            counts,
            types,
            lens,
            values,
        } = self;
        let first = values.len();
        if all {
            column::decode(input, counts.len(), buffers, values)?;
        } else {
            let having = counts.iter().filter(|count| column < **count).count();
            column::decode(input, having, buffers, values)?;
            let has = |row| counts.get(row).is_some_and(|count| column < *count);
            values.spread(first, counts.len(), has);
        }
        let serials = values.serials.get(first..).ok_or(Malformed)?;
        let pieces = values.pieces.get(first..).ok_or(Malformed)?;
        if serials.iter().fold(0, |all, serial| all | serial) > 0x7f {
            for (types, serial) in types.iter_mut().zip(serials) {
                *types += record::varint_len((*serial).into()) as u32 - 1;
            }
        }
        for (len, piece) in lens.iter_mut().zip(pieces) {
            *len += piece.len;
        }
        Ok(())
    }

    /// Writes a record to `at`; bytes behind it are undefined. Kept out of its caller, so that the processor has enough
    /// registers.
    #[inline(never)]
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "the record's place is as long as `take` added up; each column has a value for each row; a serial type is \
                  written as a byte only if all are, and `take` refuses a negative count"
    )]
    fn put(&self, row: usize, arena: &Arena, page: &mut [u8], at: usize) -> Result<()> {
        let rows = self.counts.len();
        let columns = self.counts[row] as usize;
        let types = self.types[row] as usize;
        let header = record::header_len(types);
        let (head, mut body) = page[at..].split_at_mut(header);
        let own = record::put_varint(header as u64, head);
        let head = &mut head[own..];
        let mut place = row;
        if types == columns {
            for serial in head {
                *serial = self.values.serials[place] as u8;
                place += rows;
            }
        } else {
            let mut at = 0;
            for _ in 0..columns {
                at += record::put_varint(self.values.serials[place].into(), &mut head[at..]);
                place += rows;
            }
        }
        place = row;
        let from = arena.bytes();
        for _ in 0..columns {
            body = copy(from, self.values.pieces[place], body)?;
            place += rows;
        }
        Ok(())
    }
}
