//! Full-text tables that keep a copy of the text of another table.
//!
//! An FTS5 table without `content=` has a table of its own, `NAME_content`, with a copy of all that it indexes. Where the
//! rows of another table have the same text, one of the two is enough. Some rows of the copy are looked up by their rowid
//! in other tables: by its rowid an index without a copy would find them, too.
//!
//! Nothing of the pages is trusted. A look-up goes down a bounded number of pages, and only what of a row is on its leaf is
//! compared.

use std::time::Instant;

use litepack_btree::page::{Page, PageKind};
use litepack_btree::record::{len_of, varint};
use litepack_btree::{PageNumber, Tree, TreeKind};
use litepack_database::bytes::pages::Pages;
use litepack_io::random::SplitMix64;

use super::sample::Samples;
use super::schema::{Schema, TableSchema};

/// Full-text tables that are looked at, rows of each, and tables that each is compared with, the largest ones.
const TABLES: usize = 16;
const ROWS: u64 = 40;
const OTHERS: usize = 8;
/// Fewer rows say nothing.
const ROWS_MIN: u32 = 12;
/// No tree has more levels.
const DEPTH: usize = 20;
/// Columns of a full-text table and of another one that are compared.
const COLUMNS: usize = 64;
const COLUMNS_OTHER: usize = 256;
/// Two values of one length are taken to be equal if so many bytes are, or all.
const SAME: usize = 48;

/// A full-text table whose text is in another table, too.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The full-text table.
    pub(crate) name: String,
    /// Where its copy is among the trees.
    pub(crate) copy: usize,
    /// The table that has the text.
    pub(crate) table: String,
    /// The columns of that table which it is a copy of, in its own order.
    pub(crate) columns: Vec<usize>,
}

/// Finds them, until `deadline`.
pub(crate) fn find(
    pages: &mut Pages<'_>,
    trees: &[Tree],
    schema: &Schema,
    samples: &Samples,
    deadline: Instant,
) -> Vec<Copied> {
    let place = |name: &str| {
        (trees.iter()).position(|tree| tree.kind == TreeKind::Table && tree.name == name)
    };
    let mut others: Vec<(usize, &TableSchema)> = (schema.tables.iter())
        .filter(|(_, table)| !table.shadow && !table.without_rowid)
        .filter_map(|(name, table)| Some((place(name)?, table)))
        .collect();
    others.sort_by_key(|(at, _)| std::cmp::Reverse(samples.trees[*at].leaves));
    others.truncate(OTHERS);
    let mut look = Look {
        page: vec![0; pages.header.page_size as usize],
        pages,
        deadline,
    };
    let mut found = Vec::new();
    for (name, content) in schema.full_text.iter().take(TABLES) {
        let Some(copy) = place(content) else {
            continue;
        };
        let rows = look.some_rows(trees[copy].root);
        let same = others.iter().find_map(|(at, table)| {
            let columns = look.compared(&rows, trees[*at].root, table)?;
            Some((*at, columns))
        });
        if let Some((at, columns)) = same {
            found.push(Copied {
                name: name.clone(),
                copy,
                table: trees[at].name.clone(),
                columns,
            });
        }
    }
    found
}

/// A row: what is on its leaf of each field.
#[derive(Debug, Default)]
struct Row {
    rowid: u64,
    fields: Vec<Field>,
}

/// A field: its type, how long it is, and the first bytes of it.
#[derive(Debug)]
struct Field {
    serial: u64,
    len: usize,
    begins: Vec<u8>,
}

impl Row {
    fn parse(rowid: u64, payload: &[u8], columns: usize) -> Option<Row> {
        let (len, at) = varint(payload)?;
        let mut serials = payload.get(at..usize::try_from(len).ok()?)?;
        let mut body = usize::try_from(len).ok()?;
        let mut fields = Vec::new();
        while !serials.is_empty() && fields.len() < columns {
            let (serial, taken) = varint(serials)?;
            serials = serials.get(taken..)?;
            let len = len_of(serial)?;
            let there = payload.get(body.min(payload.len())..).unwrap_or_default();
            let begins = there.get(..len.min(SAME)).unwrap_or(there).to_vec();
            fields.push(Field {
                serial,
                len,
                begins,
            });
            body = body.saturating_add(len);
        }
        Some(Row { rowid, fields })
    }
}

impl Field {
    /// Whether two fields are the same; `None` if too little of them is on the leaves to say so.
    fn is(&self, other: &Field) -> Option<bool> {
        if (self.serial, self.len) != (other.serial, other.len) {
            return Some(false);
        }
        let there = self.begins.len().min(other.begins.len());
        if self.begins[..there] != other.begins[..there] {
            return Some(false);
        }
        (there >= self.len.min(SAME)).then_some(true)
    }

    /// Whether it is this integer; `None` if it is not on the leaf.
    fn is_integer(&self, value: u64) -> Option<bool> {
        let number = || {
            let first = self.begins.first().map_or(0, |first| (*first as i8).into());
            let rest = self.begins.get(1..).unwrap_or_default();
            rest.iter()
                .fold(first, |number: i64, byte| (number << 8) | i64::from(*byte))
        };
        match self.serial {
            1..=6 if self.begins.len() < self.len => None,
            1..=6 => Some(number() as u64 == value),
            8 | 9 => Some(self.serial - 8 == value),
            _ => Some(false),
        }
    }
}

/// How often a column of a full-text table was like one of another table.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    same: u32,
    other: u32,
}

struct Look<'a, 'b> {
    pages: &'a mut Pages<'b>,
    page: Vec<u8>,
    deadline: Instant,
}

impl Look<'_, '_> {
    /// Goes down from a root to a leaf: `choose` says by which of the children, of which it gets the greatest rowids, and
    /// how many there are. Leaves the leaf in `page`, and returns where its header is.
    fn go_down(
        &mut self,
        root: PageNumber,
        mut choose: impl FnMut(&mut dyn Iterator<Item = u64>, usize) -> usize,
    ) -> Option<usize> {
        let mut number = root;
        for _ in 0..DEPTH {
            if number.get() > self.pages.header.pages
                || Instant::now() > self.deadline
                || !self.pages.page(number, &mut self.page)
            {
                return None;
            }
            let header = number.header();
            let usable = self.page.get(..self.pages.header.usable())?;
            let page = Page::parse(usable, header)?;
            match page.kind() {
                PageKind::TableLeaf => return Some(header),
                PageKind::TableInterior => {}
                _ => return None,
            }
            let mut rowids = page.cells().flatten().map(|cell| cell.rowid);
            let chosen = choose(&mut rowids, page.count());
            number = match page.cells().nth(chosen) {
                Some(cell) => cell?.child?,
                None => page.rightmost()?,
            };
        }
        None
    }

    /// A row of the leaf that was read: the one that `wanted` is true of.
    fn row(
        &self,
        header: usize,
        columns: usize,
        mut wanted: impl FnMut(usize, u64) -> bool,
    ) -> Option<Row> {
        let usable = self.page.get(..self.pages.header.usable())?;
        let cells = Page::parse(usable, header)?.cells().flatten().enumerate();
        let (_, cell) = cells
            .into_iter()
            .find(|(at, cell)| wanted(*at, cell.rowid))?;
        Row::parse(cell.rowid, usable.get(cell.local)?, columns)
    }

    /// Rows from all over a table.
    fn some_rows(&mut self, root: PageNumber) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for turn in 0..ROWS {
            let mut random = SplitMix64::derived(u64::from(root.get()), turn);
            let Some(header) =
                self.go_down(root, |_, count| random.below(count as u64 + 1) as usize)
            else {
                continue;
            };
            let usable = &self.page[..self.pages.header.usable()];
            let count = Page::parse(usable, header).map_or(0, |page| page.count());
            let chosen = random.below(count.max(1) as u64) as usize;
            // The first field is the rowid, again.
            let row = self.row(header, COLUMNS + 1, |at, _| at == chosen);
            let is_new = |row: &Row| rows.iter().all(|other| other.rowid != row.rowid);
            rows.extend(row.filter(is_new));
        }
        rows
    }

    /// The columns of a table that have what these rows of a copy have; `None` if it does not have all of it.
    fn compared(
        &mut self,
        rows: &[Row],
        root: PageNumber,
        table: &TableSchema,
    ) -> Option<Vec<usize>> {
        let columns = rows
            .iter()
            .map(|row| row.fields.len())
            .max()?
            .saturating_sub(1);
        let others = table.fields.len().min(COLUMNS_OTHER);
        let mut counts = vec![vec![Count::default(); others]; columns];
        let (mut there, mut looked) = (0, 0);
        for row in rows {
            looked += 1;
            let rowid = row.rowid as i64;
            let header = self.go_down(root, |rowids, _| {
                rowids
                    .take_while(|greatest| (*greatest as i64) < rowid)
                    .count()
            });
            let other = header.and_then(|header| self.row(header, others, |_, at| at == row.rowid));
            // A table that has none of the first rows is not the one.
            if other.is_none() && there == 0 && looked >= ROWS_MIN {
                return None;
            }
            let Some(other) = other else {
                continue;
            };
            there += 1;
            for (field, counts) in row.fields.iter().skip(1).zip(&mut counts) {
                for (at, count) in counts.iter_mut().enumerate() {
                    let is_rowid = table.fields.get(at) == table.rowid.as_ref();
                    let same = match other.fields.get(at) {
                        _ if is_rowid => field.is_integer(row.rowid),
                        Some(other) => field.is(other),
                        // It was added later, and has its default there.
                        None => None,
                    };
                    match same {
                        Some(true) => count.same += 1,
                        Some(false) => count.other += 1,
                        None => {}
                    }
                }
            }
        }
        // Nearly all: others may write meanwhile.
        if there < ROWS_MIN || there * 20 < looked * 19 {
            return None;
        }
        let of = |counts: &Vec<Count>| {
            let enough = |count: &Count| {
                count.same >= ROWS_MIN && count.same * 20 >= (count.same + count.other) * 19
            };
            let at = counts.iter().position(enough)?;
            table.fields.get(at).copied()
        };
        let found: Option<Vec<usize>> = counts.iter().map(of).collect();
        found.filter(|found| !found.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(serial: u64, len: usize, begins: &[u8]) -> Field {
        Field {
            serial,
            len,
            begins: begins.to_vec(),
        }
    }

    #[test]
    fn fields_are_compared_as_far_as_they_are_there() {
        let text = |len: usize, begins: &[u8]| field(13 + 2 * len as u64, len, begins);
        assert_eq!(text(3, b"abc").is(&text(3, b"abc")), Some(true));
        assert_eq!(text(3, b"abc").is(&text(3, b"abd")), Some(false));
        assert_eq!(text(3, b"abc").is(&text(4, b"abcd")), Some(false));
        let long = [b'x'; SAME];
        assert_eq!(text(900, &long).is(&text(900, &long)), Some(true));
        assert_eq!(text(900, &long).is(&text(900, &long[..9])), None);
        assert_eq!(text(900, &long).is(&text(900, b"y")), Some(false));
    }

    #[test]
    fn integers_are_read_as_records_have_them() {
        assert_eq!(field(8, 0, &[]).is_integer(0), Some(true));
        assert_eq!(field(9, 0, &[]).is_integer(1), Some(true));
        assert_eq!(field(1, 1, &[0xff]).is_integer(-1_i64 as u64), Some(true));
        assert_eq!(field(2, 2, &[1, 2]).is_integer(258), Some(true));
        assert_eq!(field(2, 2, &[1]).is_integer(258), None);
        assert_eq!(field(0, 0, &[]).is_integer(0), Some(false));
    }

    #[test]
    fn records_that_make_no_sense_are_no_rows() {
        for bytes in [&[] as &[u8], &[9, 1], &[0], &[2, 0x80], &[3, 11, 1]] {
            let row = Row::parse(1, bytes, 9);
            assert!(row.is_none_or(|row| row.fields.is_empty()), "{bytes:?}");
        }
    }
}
