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
mod ints;
mod json;
mod page;
#[cfg(test)]
mod page_test;
#[cfg(feature = "parts")]
pub mod parts;
mod pattern;
mod record;
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
    /// The stream of `page`, at most as long as the page. `None` if it is not a b-tree page, or if the stream does not
    /// decode to the page byte for byte: every stream is decoded and compared.
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
    /// Where it is on the page.
    start: usize,
    rowid: i64,
    /// Where its fields begin and end.
    fields: (usize, usize),
}

/// Appends the stream of `page` to `out`; false if it is no b-tree page.
#[expect(
    clippy::indexing_slicing,
    reason = "`Layout::parse` has found the header and all cells on the page, and the fields of a row are among `fields`"
)]
fn encode(page: &[u8], work: &mut PageWork, out: &mut Vec<u8>) -> bool {
    let Some(layout) = Layout::parse(page) else {
        return false;
    };
    let kind = layout.kind;
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
    for cell in &layout.cells {
        let first = fields.len();
        let regular = cell.regular
            && (!kind.has_payload()
                || record::parse(page, cell.payload, cell.end, fields).is_some());
        verbatim.push(!regular);
        if regular {
            rows.push(Row {
                start: cell.start,
                rowid: cell.rowid,
                fields: (first, fields.len()),
            });
        } else {
            fields.truncate(first);
        }
    }
    let some_verbatim = rows.len() < layout.cells.len();
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
        put_bits(verbatim.iter().copied(), out);
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
            column::encode(page, values, work, out);
        }
    }
    true
}
