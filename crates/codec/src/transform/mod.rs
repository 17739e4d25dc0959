//! The page transform: a b-tree page laid out by column, so that what is alike stands together.
//!
//! [`Transform`] turns a page into a stream that an entropy coder with a dictionary stores in less, and
//! [`Undo`] turns it back, byte for byte. A page that is not laid out as SQLite does it is not taken.
//!
//! ```text
//! page.rs     the layout: header, cells, gaps     record.rs   records: varints, serial types
//! column.rs   one column of the records           bytes.rs    reading and writing streams
//! ints.rs  strings.rs  json.rs                    the coders columns go to
//! ```
//!
//! docs/format.md has the stream byte by byte.

mod bytes;
mod column;
mod ints;
mod json;
mod page;
#[cfg(test)]
mod page_test;
mod record;
mod strings;

use bytes::{Arena, Malformed, Reader, Result, Span, put_number};
use page::{FILE_HEADER_LEN, Kind, Layout, Rest, header_len};
use record::{Field, Value};

/// Flags beside the kind in the first byte.
const PAGE_ONE: u8 = 0x10;
const VERBATIM: u8 = 0x20;
const KIND: u8 = 0x0f;

/// More columns than this, and a page is not worth the trouble (SQLite's own limit is 2000).
const COLUMNS_MAX: usize = 2000;

/// Turns pages into streams.
#[derive(Default)]
pub(crate) struct Transform {
    work: Work,
    stream: Vec<u8>,
    /// The page that the stream gives back.
    page: Vec<u8>,
    undo: Undo,
}

impl Transform {
    /// The stream of `page`, not longer than it. `None` if it is not a b-tree page, or one of a kind that the
    /// stream would not give back byte for byte: that is tried out with every page.
    pub(crate) fn of(&mut self, page: &[u8]) -> Option<&[u8]> {
        self.stream.clear();
        if !encode(page, &mut self.work, &mut self.stream) || self.stream.len() > page.len() {
            return None;
        }
        self.page.resize(page.len(), 0);
        self.undo.decode(&self.stream, &mut self.page).ok()?;
        (self.page == page).then_some(&self.stream)
    }
}

/// Whether the stream of `page` gives it back, without the check that [`Transform::of`] makes.
#[cfg(fuzzing)]
pub(crate) fn comes_back(page: &[u8]) -> bool {
    let (mut stream, mut back) = (Vec::new(), vec![0; page.len()]);
    !encode(page, &mut Work::default(), &mut stream)
        || Undo::default().decode(&stream, &mut back).is_ok() && back == page
}

/// What encoding needs beside its result; kept from page to page.
#[derive(Default)]
struct Work {
    fields: Vec<Field>,
    /// Where the fields of each record begin and end; cells that are stored as they are have none.
    records: Vec<(usize, usize)>,
    verbatim: Vec<bool>,
    values: Vec<Field>,
    integers: Vec<i64>,
    column: column::Work,
}

/// Appends the stream of `page` to `out`; false if it is no b-tree page.
fn encode(page: &[u8], work: &mut Work, out: &mut Vec<u8>) -> bool {
    let Some(layout) = Layout::parse(page) else {
        return false;
    };
    let kind = layout.kind;
    let Work {
        fields,
        records,
        verbatim,
        values,
        integers,
        column: work,
    } = work;
    fields.clear();
    records.clear();
    verbatim.clear();
    for cell in &layout.cells {
        let first = fields.len();
        let regular = cell.regular
            && (!kind.has_payload()
                || record::parse(page, cell.payload, cell.end, fields).is_some());
        if !regular {
            fields.truncate(first);
        }
        verbatim.push(!regular);
        records.push((first, fields.len()));
    }
    let some_verbatim = verbatim.contains(&true);
    let mut tag = kind as u8;
    if layout.header > 0 {
        tag |= PAGE_ONE;
    }
    if some_verbatim {
        tag |= VERBATIM;
    }
    out.push(tag);
    out.extend_from_slice(&page[..layout.header]);
    put_number(out, layout.cells.len() as u64);
    layout.put(page, out);
    let be32 = |at: usize| u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    if kind.is_interior() {
        out.extend_from_slice(&page[layout.header + 8..layout.header + 12]);
    }
    if some_verbatim {
        column::put_bits(verbatim.iter().copied(), out);
        for (cell, _) in layout
            .cells
            .iter()
            .zip(&*verbatim)
            .filter(|(_, verbatim)| **verbatim)
        {
            put_number(out, (cell.end - cell.start) as u64);
            out.extend_from_slice(&page[cell.start..cell.end]);
        }
    }
    let regular = || {
        let cells = layout.cells.iter().zip(&*records).zip(&*verbatim);
        cells
            .filter(|(_, verbatim)| !**verbatim)
            .map(|(cell, _)| cell)
    };
    if kind.is_interior() {
        integers.clear();
        integers.extend(regular().map(|(cell, _)| i64::from(be32(cell.start))));
        ints::encode(integers, out);
    }
    if kind.has_rowid() {
        integers.clear();
        integers.extend(regular().map(|(cell, _)| cell.rowid));
        ints::encode(integers, out);
    }
    if kind.has_payload() {
        ints::encode_sizes(regular().map(|(_, (first, end))| end - first), out);
        let columns = regular()
            .map(|(_, (first, end))| end - first)
            .max()
            .unwrap_or(0);
        if columns > COLUMNS_MAX {
            return false;
        }
        for column in 0..columns {
            values.clear();
            for (_, (first, end)) in regular() {
                if first + column < *end {
                    values.push(fields[first + column]);
                }
            }
            column::encode(page, values, work, out);
        }
    }
    true
}

/// What decoding needs beside its result; kept from page to page, so that nothing is allocated.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The stream, and behind it the bytes of texts and blobs that do not stand in it as they are.
    arena: Arena,
    spans: Vec<Span>,
    integers: Vec<i64>,
    json: json::Scratch,
}

/// Turns streams back into pages.
#[derive(Default)]
pub(crate) struct Undo {
    buffers: Buffers,
    children: Vec<i64>,
    rowids: Vec<i64>,
    records: Records,
    lens: Vec<usize>,
    starts: Vec<usize>,
}

impl Undo {
    /// Fills `page` with the page that `stream` was made from.
    pub(crate) fn decode(&mut self, stream: &[u8], page: &mut [u8]) -> Result<()> {
        let mut input = Reader::new(stream);
        let tag = input.byte()?;
        let kind = Kind::of(tag & KIND).ok_or(Malformed)?;
        let header = if tag & PAGE_ONE == 0 {
            0
        } else {
            FILE_HEADER_LEN
        };
        if header + header_len(kind) > page.len() {
            return Err(Malformed);
        }
        page.fill(0);
        page[..header].copy_from_slice(input.take(header)?);
        // A cell and its pointer take four bytes at least.
        let cells = input.count(page.len() / 4)?;
        let rest = Rest::take(&mut input, cells, page.len())?;
        if kind.is_interior() {
            page[header + 8..header + 12].copy_from_slice(input.take(4)?);
        }
        let verbatim = Verbatim::take(&mut input, tag & VERBATIM != 0, cells, page.len())?;
        let regular = cells - verbatim.count;
        self.children.clear();
        if kind.is_interior() {
            ints::decode(&mut input, regular, &mut self.children)?;
        }
        self.rowids.clear();
        if kind.has_rowid() {
            ints::decode(&mut input, regular, &mut self.rowids)?;
        }
        // Most texts are copied to the page from where they are in the stream.
        self.buffers.arena.begin(stream, 4 * page.len());
        self.records.clear();
        if kind.has_payload() {
            self.records
                .take(&mut input, regular, page.len(), &mut self.buffers)?;
        }
        if !input.is_empty() {
            return Err(Malformed);
        }
        // Lengths first: they say where the cells lie.
        self.lens.clear();
        let mut row = 0;
        let mut cells_as_they_are = verbatim.cells();
        for cell in 0..cells {
            if verbatim.has(cell) {
                self.lens
                    .push(cells_as_they_are.next().ok_or(Malformed)??.len());
                continue;
            }
            let mut len = if kind.is_interior() { 4 } else { 0 };
            if kind.has_rowid() {
                len += record::varint_len(self.rowids[row] as u64);
            }
            if kind.has_payload() {
                let payload = self.records.lens[row];
                len += record::varint_len(payload as u64) + payload;
            }
            self.lens.push(len);
            row += 1;
        }
        rest.place(page, header, kind, &self.lens, &mut self.starts)?;
        let mut row = 0;
        let mut cells_as_they_are = verbatim.cells();
        for (cell, (start, len)) in self.starts.iter().zip(&self.lens).enumerate() {
            let place = page.get_mut(*start..start + len).ok_or(Malformed)?;
            if verbatim.has(cell) {
                place.copy_from_slice(cells_as_they_are.next().ok_or(Malformed)??);
                continue;
            }
            let mut at = 0;
            if kind.is_interior() {
                let child = u32::try_from(self.children[row]).map_err(|_| Malformed)?;
                place[..4].copy_from_slice(&child.to_be_bytes());
                at = 4;
            }
            if kind.has_payload() {
                at += record::put_varint(self.records.lens[row] as u64, &mut place[at..]);
            }
            if kind.has_rowid() {
                at += record::put_varint(self.rowids[row] as u64, &mut place[at..]);
            }
            if kind.has_payload() {
                self.records
                    .put(row, self.buffers.arena.bytes(), &mut place[at..]);
            }
            row += 1;
        }
        Ok(())
    }
}

/// The cells of a page that are stored as they are.
struct Verbatim<'a> {
    bits: &'a [u8],
    count: usize,
    /// Each with its length before it.
    bytes: Reader<'a>,
    page_len: usize,
}

impl<'a> Verbatim<'a> {
    fn take(input: &mut Reader<'a>, some: bool, cells: usize, page_len: usize) -> Result<Self> {
        let bits = if some {
            input.take(cells.div_ceil(8))?
        } else {
            &[]
        };
        let mut verbatim = Verbatim {
            bits,
            count: 0,
            bytes: *input,
            page_len,
        };
        verbatim.count = (0..cells).filter(|cell| verbatim.has(*cell)).count();
        for _ in 0..verbatim.count {
            let len = input.count(page_len)?;
            input.take(len)?;
        }
        Ok(verbatim)
    }

    fn has(&self, cell: usize) -> bool {
        self.bits
            .get(cell / 8)
            .is_some_and(|bits| bits >> (cell % 8) & 1 == 1)
    }

    fn cells(&self) -> impl Iterator<Item = Result<&'a [u8]>> {
        let (mut bytes, page_len) = (self.bytes, self.page_len);
        std::iter::repeat_with(move || {
            let len = bytes.count(page_len)?;
            bytes.take(len)
        })
    }
}

/// The records of a page.
#[derive(Default)]
struct Records {
    /// The number of columns of each record.
    counts: Vec<i64>,
    /// Where the values of each record begin.
    firsts: Vec<usize>,
    values: Vec<Value>,
    /// One column, before its values go to their records.
    column: Vec<Value>,
    /// The length of each record, and of its header.
    lens: Vec<usize>,
    headers: Vec<usize>,
}

impl Records {
    fn clear(&mut self) {
        self.counts.clear();
        self.firsts.clear();
        self.values.clear();
        self.lens.clear();
        self.headers.clear();
    }

    fn take(
        &mut self,
        input: &mut Reader<'_>,
        rows: usize,
        page_len: usize,
        buffers: &mut Buffers,
    ) -> Result<()> {
        ints::decode(input, rows, &mut self.counts)?;
        let (mut columns, mut total) = (0, 0);
        for count in &self.counts {
            let count = usize::try_from(*count)
                .ok()
                .filter(|count| *count <= COLUMNS_MAX);
            let count = count.ok_or(Malformed)?;
            self.firsts.push(total);
            total += count;
            columns = columns.max(count);
        }
        // Each value has a byte in its record's header at least.
        if total > page_len {
            return Err(Malformed);
        }
        self.values.resize(total, Value::NULL);
        for column in 0..columns {
            let has = |(_, count): &(&usize, &i64)| column < **count as usize;
            let rows = || self.firsts.iter().zip(&self.counts).filter(has);
            let count = rows().count();
            column::decode(input, count, buffers, &mut self.column)?;
            for ((first, _), value) in rows().zip(&self.column) {
                self.values[first + column] = *value;
            }
        }
        for (first, count) in self.firsts.iter().zip(&self.counts) {
            let (mut types, mut body) = (0, 0);
            for value in &self.values[*first..first + *count as usize] {
                types += record::varint_len(value.serial);
                body += value.len();
            }
            let header = record::header_len(types);
            self.headers.push(header);
            self.lens.push(header + body);
        }
        Ok(())
    }

    /// Writes a record into `place`, which is as long as it is.
    fn put(&self, row: usize, arena: &[u8], place: &mut [u8]) {
        let header = self.headers[row];
        let mut at = record::put_varint(header as u64, place);
        let mut start = header;
        let first = self.firsts[row];
        for value in &self.values[first..first + self.counts[row] as usize] {
            at += record::put_varint(value.serial, &mut place[at..]);
            let end = start + value.len();
            value.put(arena, &mut place[start..end]);
            start = end;
        }
    }
}
