//! The columnar layout of a b-tree page: equal columns of all records stand together.
//!
//! [`Transform`] turns a page into a stream that zstd compresses better, and [`Undo`] turns it back, byte for byte. A
//! page that would not come back is not transformed.
//!
//! ```text
//! page.rs     the layout: header, cells, gaps     record.rs   records: varints, serial types
//! column.rs   one column of the records           bytes.rs    reading and writing streams
//! ints.rs  strings.rs  pattern.rs  json.rs        the coders columns go to
//! decimals.rs  dates.rs                           numbers and texts as integers
//! repeated.rs  front.rs  hex.rs                   values that come again, strings in order, hexadecimal digits
//! several.rs  several pages in one stream
//! undo.rs     decoding                            arena.rs  digits.rs    its buffers and digits
//! parts.rs    the coders on their own, for measurements
//! ```
//!
//! docs/format.md has the stream byte by byte.

mod arena;
mod bytes;
mod column;
mod dates;
mod decimals;
mod digits;
mod front;
mod hex;
mod ints;
mod json;
mod page;
#[cfg(test)]
mod page_test;
#[cfg(feature = "parts")]
pub mod parts;
mod pattern;
mod record;
mod repeated;
mod several;
#[cfg(test)]
mod several_test;
mod strings;
mod undo;

use bytes::{put_bits, put_number};
use page::Layout;
use record::Field;
pub(crate) use undo::Undo;

pub(crate) use page::{PageKind, cell_at};
pub(crate) use record::varint;

/// Flags beside the kind in the first byte.
const PAGE_ONE: u8 = 0x10;
const VERBATIM: u8 = 0x20;
const KIND: u8 = 0x0f;

/// Pages with more columns than this are not transformed (SQLite's default limit is 2000).
const COLUMNS_MAX: usize = 2000;

/// Turns pages into streams.
#[derive(Default)]
pub(crate) struct Transform {
    work: PageWork,
    stream: Vec<u8>,
    /// The page decoded from the stream, for comparison.
    page: Vec<u8>,
    undo: Undo,
}

impl Transform {
    /// The stream of `page`, a unit of one page or several, at most as long as it is. `None` if it has no b-tree page, or
    /// if the stream does not decode to it byte for byte: every stream is decoded and compared.
    pub(crate) fn of(&mut self, page: &[u8]) -> Option<&[u8]> {
        self.checked(page, encode)
    }

    /// The same of an item that has so many units, each of them a page.
    pub(crate) fn of_item(&mut self, pages: &[u8], units: usize) -> Option<&[u8]> {
        self.checked(pages, |pages, work, out| {
            several::encode(pages, units, work, out)
        })
    }

    fn checked(
        &mut self,
        page: &[u8],
        encode: impl FnOnce(&[u8], &mut PageWork, &mut Vec<u8>) -> bool,
    ) -> Option<&[u8]> {
        self.stream.clear();
        if !encode(page, &mut self.work, &mut self.stream) || self.stream.len() > page.len() {
            return None;
        }
        self.page.resize(page.len(), 0);
        self.undo.decode(&self.stream, &mut self.page).ok()?;
        (self.page == page).then_some(&self.stream)
    }
}

/// Whether the stream of `page` decodes to it, without the check that [`Transform::of`] makes, also after an untrusted
/// stream.
#[cfg(fuzzing)]
pub(crate) fn comes_back(page: &[u8], hostile: &[u8]) -> bool {
    let (mut stream, mut back, mut undo) = (Vec::new(), vec![0; page.len()], Undo::default());
    let _ = undo.decode(hostile, &mut back);
    !encode(page, &mut PageWork::default(), &mut stream)
        || undo.decode(&stream, &mut back).is_ok() && back == page
}

/// Scratch memory of encoding, reused for every page.
#[derive(Default)]
struct PageWork {
    /// The fields of all records.
    fields: Vec<Field>,
    rows: Vec<Row>,
    /// Which cells are stored as they are.
    verbatim: Vec<bool>,
    values: Vec<Field>,
    integers: Vec<i64>,
    column: column::ColumnWork,
}

/// A cell that is not stored as it is.
struct Row {
    /// Where it is in the unit.
    start: usize,
    rowid: i64,
    /// Where its fields begin and end.
    fields: (usize, usize),
}

/// Appends the stream of `unit` to `out`; false if it is no b-tree page, and has none.
fn encode(unit: &[u8], work: &mut PageWork, out: &mut Vec<u8>) -> bool {
    let whole = Layout::parse(unit);
    if !whole
        .as_ref()
        .is_some_and(|whole| several::is_one(unit, whole))
    {
        let start = out.len();
        if several::count(unit).is_some_and(|count| several::encode(unit, count, work, out)) {
            return true;
        }
        out.truncate(start);
    }
    whole.is_some_and(|layout| {
        let page = several::UnitPage { start: 0, layout };
        encode_alike(unit, unit.len(), &[page], work, out)
    })
}

/// Appends the stream of pages of one kind, which have `len` bytes each; false if they have too many columns. Only the
/// first page may have the header of a file.
#[expect(
    clippy::indexing_slicing,
    reason = "`Layout::parse` has found the header and all cells on the page, and the fields of a row are among `fields`"
)]
fn encode_alike(
    unit: &[u8],
    len: usize,
    pages: &[several::UnitPage],
    work: &mut PageWork,
    out: &mut Vec<u8>,
) -> bool {
    let Some(first) = pages.first() else {
        return true;
    };
    let kind = first.layout.kind;
    let PageWork {
        fields,
        rows,
        verbatim,
        values,
        integers,
        column: work,
    } = work;
    fields.clear();
    rows.clear();
    verbatim.clear();
    for page in pages {
        let start = page.start;
        for cell in &page.layout.cells {
            let first = fields.len();
            let (payload, end) = (start + cell.payload, start + cell.end);
            let regular = cell.regular
                && (!kind.has_payload() || record::parse(unit, payload, end, fields).is_some());
            verbatim.push(!regular);
            if regular {
                rows.push(Row {
                    start: start + cell.start,
                    rowid: cell.rowid,
                    fields: (first, fields.len()),
                });
            } else {
                fields.truncate(first);
            }
        }
    }
    let some_verbatim = rows.len() < verbatim.len();
    let mut tag = kind as u8;
    if first.layout.header > 0 {
        tag |= PAGE_ONE;
    }
    if some_verbatim {
        tag |= VERBATIM;
    }
    out.push(tag);
    for several::UnitPage { start, layout } in pages {
        let page = &unit[*start..start + len];
        out.extend_from_slice(&page[..layout.header]);
        put_number(out, layout.cells.len() as u64);
        layout.put(page, out);
        if kind.is_interior() {
            out.extend_from_slice(&page[layout.header + 8..layout.header + 12]);
        }
    }
    if some_verbatim {
        put_bits(verbatim.iter().copied(), out);
        let cells = pages.iter().flat_map(|page| {
            let cells = page.layout.cells.iter();
            cells.map(|cell| page.start + cell.start..page.start + cell.end)
        });
        for (cell, _) in cells.zip(&*verbatim).filter(|(_, verbatim)| **verbatim) {
            put_number(out, cell.len() as u64);
            out.extend_from_slice(&unit[cell]);
        }
    }
    let be32 = |at: usize| u32::from_be_bytes([unit[at], unit[at + 1], unit[at + 2], unit[at + 3]]);
    if kind.is_interior() {
        integers.clear();
        integers.extend(rows.iter().map(|row| i64::from(be32(row.start))));
        ints::encode(integers, out);
    }
    if kind.has_rowid() {
        integers.clear();
        integers.extend(rows.iter().map(|row| row.rowid));
        ints::encode(integers, out);
    }
    if kind.has_payload() {
        let columns_of = |row: &Row| row.fields.1 - row.fields.0;
        integers.clear();
        integers.extend(rows.iter().map(|row| columns_of(row) as i64));
        ints::encode(integers, out);
        let columns = rows.iter().map(columns_of).max().unwrap_or(0);
        if columns > COLUMNS_MAX {
            return false;
        }
        for column in 0..columns {
            values.clear();
            for row in &*rows {
                let (first, end) = row.fields;
                if first + column < end {
                    values.push(fields[first + column]);
                }
            }
            column::encode(unit, values, work, out);
        }
    }
    true
}
