//! Decoding: from a stream to the page it was made from.
//!
//! The columns are read first, each value as a piece of the arena, because their lengths say where the cells are. Then
//! the page is written from its lowest cell to the highest. So each piece can be copied as a whole chunk: the next
//! piece overwrites the excess.

use std::ops::Range;

use super::arena::{Arena, copy, repeat};
use super::bytes::{Bits, Malformed, Reader, Result, Span};
use super::page::{FILE_HEADER_LEN, PAGE_MAX, PageKind, Rest};
use super::record::{self, Values};
use super::{COLUMNS_MAX, KIND, PAGE_ONE, VERBATIM, column, ints, json, several, strings};

/// Room in the arena for what is not copied from the stream, in pages: JSON texts and the values they are made of, and
/// integers, which take up to eight bytes each, and no less than one on the page.
const ROOM_MAX: usize = 12;

/// The room that a page gets first. Most need no more, and of 64 KiB the most are 850 KB.
pub(super) const ROOM: usize = 2;

/// Places for values, at most so many times the bytes of a page.
const PLACES_MAX: usize = 4;

/// Scratch memory of decoding, reused for every page.
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
    /// Empty if all are rows, in their order.
    contents: Vec<CellContent>,
    children: Vec<i64>,
    rowids: Vec<i64>,
    records: Records,
}

/// The content of a cell.
#[derive(Clone, Copy)]
enum CellContent {
    /// The bytes of a cell that is stored as it is.
    Bytes(Span),
    /// The child, rowid and record of this number.
    Row(usize),
}

/// The length of a page number.
const POINTER_LEN: usize = 4;

impl Undo {
    /// Fills `unit` with the page or pages that `stream` was made from.
    pub(crate) fn decode(&mut self, stream: &[u8], unit: &mut [u8]) -> Result<()> {
        if unit.len() > PAGE_MAX {
            return Err(Malformed);
        }
        let most = ROOM_MAX * unit.len();
        let capacity = self.buffers.arena.capacity().saturating_sub(stream.len());
        let room = capacity.clamp(ROOM * unit.len(), most);
        match self.decode_within(room, stream, unit) {
            // Damaged, or one that needs more room. The arena keeps it for the next.
            Err(Malformed) if room < most => self.decode_within(most, stream, unit),
            decoded => decoded,
        }
    }

    /// The same with room for so many bytes.
    pub(super) fn decode_within(
        &mut self,
        room: usize,
        stream: &[u8],
        unit: &mut [u8],
    ) -> Result<()> {
        let mut input = Reader::new(stream);
        let tag = input.byte()?;
        self.buffers.arena.begin(stream, room);
        if tag == several::TAG {
            several::decode(self, &mut input, unit)?;
        } else {
            self.decode_alike::<1>(&mut input, tag, &mut [unit])?;
        }
        if input.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    /// How long a stream and its room may be without more memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffers.arena.capacity()
    }

    /// Fills pages of one kind, `MOST` at most, of a stream that the arena has begun with.
    pub(super) fn decode_alike<const MOST: usize>(
        &mut self,
        input: &mut Reader<'_>,
        tag: u8,
        pages: &mut [&mut [u8]],
    ) -> Result<()> {
        let kind = PageKind::of(tag & KIND).ok_or(Malformed)?;
        let mut header = if tag & PAGE_ONE == 0 {
            0
        } else {
            FILE_HEADER_LEN
        };
        let mut heads = [const { None }; MOST];
        let (mut cells, mut len) = (0, 0);
        for (page, head) in pages.iter_mut().zip(&mut heads) {
            if header + kind.header_len() > page.len() {
                return Err(Malformed);
            }
            let file_header = page.get_mut(..header).ok_or(Malformed)?;
            file_header.copy_from_slice(input.take(header)?);
            // A cell and its pointer take four bytes at least.
            let own = input.count(page.len() / 4)?;
            let rest = Rest::take(input, own, page.len())?;
            if kind.is_interior() {
                let rightmost = page.get_mut(header + 8..header + 12).ok_or(Malformed)?;
                rightmost.copy_from_slice(input.take(4)?);
            }
            *head = Some((header, own, rest));
            cells += own;
            len += page.len();
            // Only the first page may be page 1.
            header = 0;
        }
        let rows = self.take_contents(input, tag & VERBATIM != 0, cells)?;
        self.children.clear();
        if kind.is_interior() {
            ints::decode(input, rows, &mut self.children)?;
        }
        self.rowids.clear();
        if kind.has_rowid() {
            ints::decode(input, rows, &mut self.rowids)?;
        }
        if kind.has_payload() {
            self.records.take(input, rows, len, &mut self.buffers)?;
        }
        let (mut cell, mut row) = (0, 0);
        for (page, head) in pages.iter_mut().zip(&heads) {
            let (header, cells, rest) = head.as_ref().ok_or(Malformed)?;
            let rows = self.rows_among(cell, *cells);
            let first = header + kind.header_len() + 2 * cells;
            let len = self.measure(kind, cell..cell + cells, row..row + rows) + rest.gaps_len();
            let lowest = page.len().checked_sub(len).ok_or(Malformed)?;
            if lowest < first || !rest.names_all(*cells) {
                return Err(Malformed);
            }
            self.put_cells(kind, cell, rest, first - 2 * cells..first, lowest, page)?;
            rest.put(page, *header, kind, *cells, lowest)?;
            (cell, row) = (cell + cells, row + rows);
        }
        Ok(())
    }

    /// How many of these cells are not stored as they are.
    fn rows_among(&self, first: usize, cells: usize) -> usize {
        if self.contents.is_empty() {
            return cells;
        }
        let contents = self.contents.iter().skip(first).take(cells);
        contents
            .filter(|content| matches!(content, CellContent::Row(_)))
            .count()
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
            return Ok(cells);
        }
        let verbatim = Bits::take(input, true, cells)?;
        let mut rows = 0;
        for cell in 0..cells {
            self.contents.push(if verbatim.has(cell) {
                let len = usize::try_from(input.number()?).map_err(|_| Malformed)?;
                CellContent::Bytes(input.span(len)?)
            } else {
                rows += 1;
                CellContent::Row(rows - 1)
            });
        }
        Ok(rows)
    }

    /// The length of the cells of a page, which are asked for once.
    fn measure(&mut self, kind: PageKind, cells: Range<usize>, rows: Range<usize>) -> usize {
        let mut all = 0;
        if kind.is_interior() {
            all += POINTER_LEN * rows.len();
        }
        for content in self.contents.get(cells).unwrap_or_default() {
            if let CellContent::Bytes(bytes) = content {
                all += bytes.len();
            }
        }
        for rowid in self.rowids.get(rows.clone()).unwrap_or_default() {
            all += record::varint_len(*rowid as u64);
        }
        if kind.has_payload() {
            all += self.records.measure(rows);
        }
        all
    }

    /// Writes the cells of a page, from the one of this number on, and their pointers, from the lowest cell up.
    #[inline(never)]
    fn put_cells(
        &self,
        kind: PageKind,
        first: usize,
        rest: &Rest<'_>,
        pointers: Range<usize>,
        lowest: usize,
        page: &mut [u8],
    ) -> Result<()> {
        let (head, mut free) = page.split_at_mut_checked(lowest).ok_or(Malformed)?;
        let pointers = head.get_mut(pointers).ok_or(Malformed)?;
        let pointers = pointers.as_chunks_mut().0;
        let end = lowest + free.len();
        let mut gaps = rest.gaps().iter().rev().peekable();
        for rank in (0..pointers.len()).rev() {
            let cell = rest.index(rank);
            let pointer = pointers.get_mut(cell).ok_or(Malformed)?;
            let start = u16::try_from(end - free.len()).map_err(|_| Malformed)?;
            *pointer = start.to_be_bytes();
            free = match self.contents.get(first + cell) {
                None => self.put_row(kind, first + cell, free)?,
                Some(CellContent::Row(row)) => self.put_row(kind, *row, free)?,
                Some(CellContent::Bytes(bytes)) => copy(self.buffers.arena.bytes(), *bytes, free)?,
            };
            if let Some((_, gap)) = gaps.next_if(|(at, _)| *at == rank) {
                let (place, above) = free.split_at_mut_checked(gap.len()).ok_or(Malformed)?;
                place.copy_from_slice(gap);
                free = above;
            }
        }
        // A gap that was not met has no place.
        if free.is_empty() && gaps.next().is_none() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    /// Writes a cell to the start of `place` and returns what is behind it, where a chunk may have changed.
    #[inline]
    fn put_row<'a>(
        &self,
        kind: PageKind,
        row: usize,
        mut place: &'a mut [u8],
    ) -> Result<&'a mut [u8]> {
        if let Some(child) = self.children.get(row) {
            let child = u32::try_from(*child).map_err(|_| Malformed)?;
            let (four, behind) = place
                .split_first_chunk_mut::<POINTER_LEN>()
                .ok_or(Malformed)?;
            *four = child.to_be_bytes();
            place = behind;
        }
        if kind.has_payload() {
            let payload = *self.records.lens.get(row).ok_or(Malformed)?;
            place = record::put_varint(payload.into(), place).ok_or(Malformed)?;
        }
        if let Some(rowid) = self.rowids.get(row) {
            place = record::put_varint(*rowid as u64, place).ok_or(Malformed)?;
        }
        if kind.has_payload() {
            place = self.records.put(row, &self.buffers.arena, place)?;
        }
        Ok(place)
    }
}

/// The records of a page.
#[derive(Default)]
struct Records {
    /// How many columns each has.
    counts: Vec<i64>,
    /// The serial types of the first columns, as long as each has one byte in each record, or the bits that all have in
    /// common.
    least: Vec<u8>,
    /// Those of these columns that have several.
    varying: Vec<usize>,
    /// The serial types of each as they are written, at places of `stride` bytes.
    heads: Vec<u8>,
    stride: usize,
    /// The length of the serial types of each; empty as long as each serial type of each record has one byte.
    types: Vec<u32>,
    /// The length of each, first without its header.
    lens: Vec<u32>,
    /// A value for each row, column after column; those that short records do not have are NULL.
    values: Values,
}

/// Most bytes of a serial type: the values of a longer one do not fit a page.
const TYPE_MAX: usize = 3;

impl Records {
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
        self.stride = TYPE_MAX * columns;
        if self.heads.len() < rows * self.stride {
            self.heads.resize(rows * self.stride, 0);
        }
        self.least.clear();
        self.varying.clear();
        self.types.clear();
        self.lens.clear();
        self.lens.resize(rows, 0);
        self.values.clear();
        for column in 0..columns {
            self.take_column(column, least > column as i64, input, buffers)?;
        }
        if self.types.is_empty() {
            self.make_heads();
        }
        Ok(())
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most `COLUMNS_MAX` columns, and these serial types have one byte"
    )]
    /// Makes the serial types of the first columns: those that all records have in common, and then the others.
    fn make_heads(&mut self) {
        let rows = self.counts.len();
        self.types.resize(rows, self.least.len() as u32);
        let heads = self.heads.get_mut(..rows * self.stride).unwrap_or_default();
        if let Some(first) = heads.get_mut(..self.least.len()) {
            first.copy_from_slice(&self.least);
        }
        repeat(heads, self.stride);
        for column in &self.varying {
            let serials = self.values.serials.get(column * rows..).unwrap_or_default();
            let places = heads.get_mut(*column..).unwrap_or_default();
            for (place, serial) in places.iter_mut().step_by(self.stride).zip(serials) {
                *place = *serial as u8;
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a serial type is taken for a byte only if it is one, and no varint is longer than nine bytes"
    )]
    /// Reads a column, which all records have or only some, and adds its values to their records.
    fn take_column(
        &mut self,
        column: usize,
        all: bool,
        input: &mut Reader<'_>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let Records {
            counts,
            least,
            varying,
            types,
            lens,
            values,
            ..
        } = self;
        let first = values.len();
        if all {
            column::decode(input, counts.len(), buffers, values)?;
        } else {
            let has = |row| counts.get(row).is_some_and(|count| *count > column as i64);
            let having = (0..counts.len()).filter(|row| has(*row)).count();
            column::decode(input, having, buffers, values)?;
            values.spread(first, counts.len(), has);
        }
        let serials = values.serials.get(first..).ok_or(Malformed)?;
        let pieces = values.pieces.get(first..).ok_or(Malformed)?;
        for (len, piece) in lens.iter_mut().zip(pieces) {
            *len += piece.len;
        }
        let (some, every) = serials.iter().fold((0, u32::MAX), |(some, every), serial| {
            (some | serial, every & serial)
        });
        if all && some < 0x80 && types.is_empty() {
            least.push(every as u8);
            if some != every {
                varying.push(column);
            }
            return Ok(());
        }
        if self.types.is_empty() {
            self.make_heads();
        }
        let Records {
            counts,
            heads,
            stride,
            types,
            values,
            ..
        } = self;
        let serials = values.serials.get(first..).ok_or(Malformed)?;
        let heads = heads.chunks_exact_mut(*stride);
        for ((head, types), (serial, count)) in heads.zip(types).zip(serials.iter().zip(counts)) {
            if *count > column as i64 {
                let place = head.get_mut(*types as usize..).ok_or(Malformed)?;
                let room = place.len();
                let behind = record::put_varint((*serial).into(), place).ok_or(Malformed)?;
                *types += (room - behind.len()) as u32;
            }
        }
        Ok(())
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "no header is longer than the serial types of `COLUMNS_MAX` columns"
    )]
    /// Adds the headers to the lengths of these records, and says how long all are with their lengths before them.
    fn measure(&mut self, rows: Range<usize>) -> usize {
        let mut all = 0;
        let lens = self.lens.get_mut(rows.clone()).unwrap_or_default();
        let types = self.types.get(rows).unwrap_or_default();
        for (len, types) in lens.iter_mut().zip(types) {
            *len += record::header_len(*types as usize) as u32;
            all += record::varint_len((*len).into()) + *len as usize;
        }
        all
    }

    /// Writes a record to the start of `place` and returns what is behind it, where a chunk may have changed.
    #[inline]
    fn put<'a>(&self, row: usize, arena: &Arena, mut place: &'a mut [u8]) -> Result<&'a mut [u8]> {
        let rows = self.counts.len();
        let lens = self.counts.get(row).zip(self.types.get(row));
        let (columns, types) = lens.ok_or(Malformed)?;
        let header = record::header_len(*types as usize) as u64;
        place = record::put_varint(header, place).ok_or(Malformed)?;
        let start = row * self.stride;
        let types = Span::new(start, start + *types as usize);
        place = copy(&self.heads, types, place)?;
        let from = arena.bytes();
        let mut at = row;
        for _ in 0..*columns {
            let piece = self.values.pieces.get(at).ok_or(Malformed)?;
            place = copy(from, *piece, place)?;
            at += rows;
        }
        Ok(place)
    }
}
