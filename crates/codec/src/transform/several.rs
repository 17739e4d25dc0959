//! Several pages in one stream, whose records share its columns: SQLite's pages of 512 to 2048 bytes that share a unit, and
//! the units of an item.
//!
//! Pages of one kind whose records have the same number of columns are a group, which is laid out like one page with the
//! cells of all. Pages that are no b-tree pages are kept as they are.

use super::PageWork;
use super::bytes::{Malformed, Reader, Result};
use super::page::Layout;
use super::record;
use super::undo::Undo;

/// The first byte of a unit of several pages: no kind of page.
pub(super) const TAG: u8 = 1;
/// The length of a unit that several pages may share. Longer ones are items, with pages of this length or more.
const UNIT_LEN: usize = 4096;
/// How many pages share one.
const COUNTS: [usize; 3] = [2, 4, 8];
/// Most pages in a unit.
pub(super) const PAGES_MAX: usize = 8;

/// A b-tree page of a unit.
pub(super) struct UnitPage {
    /// Where it begins.
    pub(super) start: usize,
    pub(super) layout: Layout,
}

impl UnitPage {
    /// How many columns its first record has; 0 if it has none that can be read.
    fn columns(&self, page: &[u8], work: &mut PageWork) -> usize {
        work.fields.clear();
        let first = self.layout.cells.first();
        let first = first.filter(|cell| self.layout.kind.has_payload() && cell.regular);
        first.map_or(0, |cell| {
            let _ = record::parse(page, cell.payload, cell.end, &mut work.fields);
            work.fields.len()
        })
    }
}

/// Whether `unit` is one page: one that SQLite fills from its end has a cell in the second half.
pub(super) fn is_one(unit: &[u8], layout: &Layout) -> bool {
    unit.len() != UNIT_LEN || layout.highest() > unit.len() / 2
}

/// How many pages share a unit; `None` if it does not look like several.
pub(super) fn count(unit: &[u8]) -> Option<usize> {
    let looks = |count: &usize| {
        let len = unit.len() / *count;
        let parsed = unit.chunks_exact(len).map(Layout::parse);
        // Parts of a larger page are no pages: their cells would lie outside.
        parsed.flatten().any(|layout| layout.highest() > len / 2)
    };
    let fits = unit.len() == UNIT_LEN;
    COUNTS.into_iter().filter(|_| fits).find(looks)
}

/// Whether a stream may have so many pages of this length together.
fn fits(count: usize, len: usize) -> bool {
    let one = len / count.max(1);
    COUNTS.contains(&count)
        && one * count == len
        && (len == UNIT_LEN || count <= 4 && one >= UNIT_LEN && one.is_power_of_two())
}

/// Appends so many pages, a unit or an item; false, and nothing of use is appended, if there cannot be so many or none is a
/// b-tree page.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a unit has at most `PAGES_MAX` pages, each of them within it"
)]
pub(super) fn encode(unit: &[u8], count: usize, work: &mut PageWork, out: &mut Vec<u8>) -> bool {
    if !fits(count, unit.len()) {
        return false;
    }
    let len = unit.len() / count;
    let mut groups: Vec<(_, Vec<UnitPage>)> = Vec::new();
    out.extend([TAG, count as u8]);
    let names = out.len();
    for (index, page) in unit.chunks_exact(len).enumerate() {
        let Some(layout) = Layout::parse(page) else {
            out.push(0);
            continue;
        };
        let own = UnitPage {
            start: index * len,
            layout,
        };
        let key = (own.layout.kind, own.columns(page, work));
        let group = groups.iter().position(|(other, _)| *other == key);
        let group = group.unwrap_or_else(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(own);
        out.push(group as u8 + 1);
    }
    for (index, page) in unit.chunks_exact(len).enumerate() {
        if out[names + index] == 0 {
            out.extend_from_slice(page);
        }
    }
    let mut groups = groups.iter();
    groups.len() > 0 && groups.all(|(_, pages)| super::encode_alike(unit, len, pages, work, out))
}

/// Fills a unit of several pages.
pub(super) fn decode(undo: &mut Undo, input: &mut Reader<'_>, unit: &mut [u8]) -> Result<()> {
    let count = usize::from(input.byte()?);
    if !fits(count, unit.len()) {
        return Err(Malformed);
    }
    let len = unit.len() / count;
    let groups = input.take(count)?;
    for (page, _) in of_group(unit, len, groups, 0) {
        page.copy_from_slice(input.take(len)?);
    }
    let most = groups.iter().copied().max().unwrap_or(0);
    if usize::from(most) > count {
        return Err(Malformed);
    }
    for group in 1..=most {
        let mut pages: Vec<&mut [u8]> = of_group(unit, len, groups, group)
            .map(|(page, _)| page)
            .collect();
        if pages.is_empty() {
            continue;
        }
        let tag = input.byte()?;
        undo.decode_alike::<PAGES_MAX>(input, tag, &mut pages)?;
    }
    Ok(())
}

/// The pages of a group.
fn of_group<'a>(
    unit: &'a mut [u8],
    len: usize,
    groups: &'a [u8],
    group: u8,
) -> impl Iterator<Item = (&'a mut [u8], &'a u8)> {
    let pages = unit.chunks_exact_mut(len).zip(groups);
    pages.filter(move |(_, own)| **own == group)
}
