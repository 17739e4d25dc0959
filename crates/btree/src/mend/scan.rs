//! Walks a tree, leaves out what is not there, and notes what is left of it: its leaves in order.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::build::{bytes_of, compact};
use super::{BROKEN, LISTED_MAX, Pages, RowidRange};
use crate::header::Header;
use crate::page::{Cell, Page, number_at};
use crate::page_number::PageNumber;
use crate::page_ownership::Slots;

/// SQLite goes no deeper.
const DEPTH_MAX: u32 = 20;

/// A leaf that is left, or a row between two leaves of a tree without rowids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// With its least and greatest rowid, if it has such.
    Leaf {
        page: PageNumber,
        rowids: (i64, i64),
    },
    /// The cell without its child.
    Row(Vec<u8>),
}

/// A page that is lost, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Hole {
    rows: RowidRange,
    /// How far below the root; `None` of single rows.
    depth: Option<u32>,
}

/// What is left of a tree.
#[derive(Debug, Default)]
pub(super) struct Flat {
    pub(super) items: Vec<Item>,
    /// Of its pages, if any is left.
    pub(super) has_rowid: Option<bool>,
    /// Pages above the leaves.
    pub(super) above: Vec<PageNumber>,
    holes: Vec<Hole>,
    /// How many holes there are beside those.
    more: u64,
    /// Something in it is not lost, and yet not what it should be.
    malformed: bool,
    /// A child of a page is missing, so the pages above the leaves have to be made anew.
    broken: bool,
    /// How far below the root its leaves are.
    leaf_depth: Option<u32>,
    /// The least and greatest rowid of leaves that were found again.
    found: BTreeMap<i64, i64>,
}

impl Flat {
    /// Whether anything is lost.
    pub(super) fn has_lost(&self) -> bool {
        !self.holes.is_empty() || self.more > 0
    }

    /// Whether the pages above the leaves do not fit any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether something in it is not lost, and yet not what it should be.
    pub(super) fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// Whether leaves may be left below a page that is lost.
    pub(super) fn may_have_children(&self) -> bool {
        self.has_rowid != Some(false) && self.holes.iter().any(|hole| self.had_children(hole))
    }

    fn had_children(&self, hole: &Hole) -> bool {
        let depth = hole.depth;
        depth.is_some_and(|depth| self.leaf_depth.is_none_or(|leaf| depth < leaf))
    }

    /// Whether a leaf with these rowids may have been below a page that is lost.
    pub(super) fn has_room(&self, (first, last): (i64, i64)) -> bool {
        let is_beside_others = || {
            let before = self.found.range(..=last).next_back();
            before.is_none_or(|(_, before)| *before < first)
        };
        self.has_rowid != Some(false)
            && is_beside_others()
            && self.holes.iter().any(|hole| {
                let RowidRange { after, to } = hole.rows;
                self.had_children(hole)
                    && after.is_none_or(|after| first > after)
                    && to.is_none_or(|to| last <= to)
            })
    }

    fn lose(&mut self, rows: RowidRange, depth: Option<u32>) {
        self.broken |= depth.is_some();
        // The next page of the same kind.
        if let Some(before) = self.holes.last_mut()
            && before.depth == depth
            && rows.after.is_some()
            && before.rows.to == rows.after
            && self.has_rowid == Some(true)
        {
            before.rows.to = rows.to;
        } else if depth.is_some() || self.holes.len() < LISTED_MAX {
            // Pages are never left out here: their children are looked for by them.
            self.holes.push(Hole { rows, depth });
        } else {
            self.more += 1;
        }
    }

    /// The ranges of rowids that are lost, and how many other parts.
    pub(super) fn losses(&self) -> (Vec<RowidRange>, u64) {
        if self.has_rowid == Some(false) {
            return (Vec::new(), self.more + self.holes.len() as u64);
        }
        let mut rows = Vec::new();
        for hole in &self.holes {
            let RowidRange { mut after, to } = hole.rows;
            let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
            let end = to.map_or(Bound::Unbounded, Bound::Included);
            for (first, last) in self.found.range((begin, end)) {
                let before = RowidRange {
                    after,
                    to: first.checked_sub(1),
                };
                rows.extend((!before.is_empty()).then_some(before));
                after = Some(*last);
            }
            let rest = RowidRange { after, to };
            rows.extend((!rest.is_empty()).then_some(rest));
        }
        rows.sort_by_key(|rows| rows.after);
        let more = rows.len().saturating_sub(LISTED_MAX) as u64;
        rows.truncate(LISTED_MAX);
        (rows, self.more + more)
    }
}

impl RowidRange {
    const ALL: RowidRange = RowidRange {
        after: None,
        to: None,
    };

    fn is_empty(&self) -> bool {
        match (self.after, self.to) {
            (Some(after), to) => to.unwrap_or(i64::MAX) <= after,
            (None, _) => false,
        }
    }
}

pub(super) struct Scan<'a, P> {
    pub(super) header: &'a Header,
    pub(super) pages: &'a mut P,
    pub(super) slots: &'a mut Slots,
    /// What it claims pages with.
    pub(super) slot: u32,
}

impl<P: Pages> Scan<'_, P> {
    /// What is left of the tree with this root, which is claimed.
    pub(super) fn tree(mut self, root: PageNumber) -> Result<Flat, P::Error> {
        let mut flat = Flat::default();
        self.node(root, 0, RowidRange::ALL, &mut flat)?;
        Ok(flat)
    }

    /// A leaf of it that was below a lost page, and is claimed.
    pub(super) fn found_again(mut self, page: PageNumber, flat: &mut Flat) -> Result<(), P::Error> {
        let mut bytes = vec![0; self.header.page_size as usize];
        if !self.pages.read(page, &mut bytes)? {
            return Ok(());
        }
        flat.has_rowid = Some(true);
        let items = flat.items.len();
        self.leaf(page, &mut bytes, RowidRange::ALL, flat)?;
        if let Some(Item::Leaf { rowids, .. }) = flat.items.get(items) {
            flat.found.insert(rowids.0, rowids.1);
        }
        Ok(())
    }

    /// A claimed page and all below it, whose rows are in this range.
    fn node(
        &mut self,
        number: PageNumber,
        depth: u32,
        rows: RowidRange,
        flat: &mut Flat,
    ) -> Result<(), P::Error> {
        let mut bytes = vec![0; self.header.page_size as usize];
        if depth >= DEPTH_MAX || !self.pages.read(number, &mut bytes)? {
            self.leave_out(number, depth, rows, flat);
            return Ok(());
        }
        let usable = bytes.get(..self.header.usable()).unwrap_or_default();
        let page = Page::parse(usable, number.header());
        let page = page.filter(|page| {
            page.kind().has_rowid() == *flat.has_rowid.get_or_insert(page.kind().has_rowid())
        });
        let Some(page) = page else {
            flat.malformed = true;
            self.leave_out(number, depth, rows, flat);
            return Ok(());
        };
        if !page.kind().is_interior() {
            flat.leaf_depth = Some(depth);
            return self.leaf(number, &mut bytes, rows, flat);
        }
        flat.above.push(number);
        let has_rowid = page.kind().has_rowid();
        let RowidRange { mut after, to } = rows;
        for cell in page.cells() {
            let Some(cell) = cell else {
                // Its child is not known, and neither is where the next one begins.
                flat.malformed = true;
                flat.lose(RowidRange { after, to }, Some(depth + 1));
                continue;
            };
            let key = has_rowid.then_some(cell.rowid.cast_signed());
            let below = RowidRange { after, to: key };
            self.child(cell.child, depth + 1, below, flat)?;
            after = key;
            if !has_rowid {
                let bytes = bytes_of(usable, &cell).and_then(|bytes| bytes.get(4..));
                match bytes {
                    Some(bytes) if self.has_all_of(&cell)? => {
                        flat.items.push(Item::Row(bytes.to_vec()));
                    }
                    _ => flat.lose(below, Some(depth)),
                }
            }
        }
        self.child(page.rightmost(), depth + 1, RowidRange { after, to }, flat)
    }

    /// A page of the tree that is none. It is free now; a root becomes an empty tree.
    fn leave_out(&mut self, number: PageNumber, depth: u32, rows: RowidRange, flat: &mut Flat) {
        if depth > 0 {
            self.slots.set(number, 0);
        }
        flat.lose(rows, Some(depth));
    }

    fn child(
        &mut self,
        child: Option<PageNumber>,
        depth: u32,
        rows: RowidRange,
        flat: &mut Flat,
    ) -> Result<(), P::Error> {
        match child.filter(|child| self.claim(*child)) {
            Some(child) => self.node(child, depth, rows, flat),
            None => {
                flat.malformed = true;
                flat.lose(rows, Some(depth));
                Ok(())
            }
        }
    }

    /// A leaf: cells of which not all is there are taken out of it, and it is left out if it has no others.
    fn leaf(
        &mut self,
        number: PageNumber,
        bytes: &mut [u8],
        rows: RowidRange,
        flat: &mut Flat,
    ) -> Result<(), P::Error> {
        let usable = self.header.usable();
        let content = bytes.get(..usable).unwrap_or_default();
        let Some(page) = Page::parse(content, number.header()) else {
            return Ok(());
        };
        let has_rowid = page.kind().has_rowid();
        let mut kept = Vec::with_capacity(page.count().min(usable));
        let mut span: Option<(i64, i64)> = None;
        let mut lost = false;
        for cell in page.cells() {
            let before = span.map_or(rows.after, |(_, last)| Some(last));
            let Some(cell) = cell else {
                (lost, flat.malformed) = (true, true);
                flat.lose(
                    RowidRange {
                        after: before,
                        to: rows.to,
                    },
                    None,
                );
                continue;
            };
            let rowid = cell.rowid.cast_signed();
            let in_order = !has_rowid
                || before.is_none_or(|before| rowid > before)
                    && rows.to.is_none_or(|to| rowid <= to);
            let cell_bytes = bytes_of(content, &cell);
            match cell_bytes {
                Some(cell_bytes) if in_order && self.has_all_of(&cell)? => {
                    kept.push(cell_bytes);
                    span = Some((span.map_or(rowid, |(first, _)| first), rowid));
                }
                _ => {
                    lost = true;
                    let row = RowidRange {
                        after: rowid.checked_sub(1),
                        to: Some(rowid),
                    };
                    flat.lose(row, None);
                }
            }
        }
        // An empty leaf is a tree by itself, and nothing else.
        if kept.is_empty() && (lost || flat.leaf_depth != Some(0)) {
            match lost {
                true => flat.broken = true,
                false => flat.lose(rows, flat.leaf_depth),
            }
            self.slots.set(number, 0);
            return Ok(());
        }
        if lost {
            let new = compact(bytes, usable, number, (page.kind(), None), &kept);
            self.pages.write(number, &new)?;
        }
        flat.items.push(Item::Leaf {
            page: number,
            rowids: span.unwrap_or_default(),
        });
        Ok(())
    }

    /// Whether all overflow pages of a cell are there; claims them.
    fn has_all_of(&mut self, cell: &Cell) -> Result<bool, P::Error> {
        let room = (self.header.usable() - 4) as u64;
        let mut left = cell.payload - cell.local.len() as u64;
        let mut next = cell.overflow;
        let mut claimed = Vec::new();
        let mut bytes = Vec::new();
        let mut is_whole = true;
        while left > 0 {
            let page = next.filter(|page| self.claim(*page));
            claimed.extend(page);
            bytes.resize(self.header.page_size as usize, 0);
            let Some(page) = page else {
                is_whole = false;
                break;
            };
            if !self.pages.read(page, &mut bytes)? {
                is_whole = false;
                break;
            }
            left = left.saturating_sub(room);
            next = number_at(&bytes, 0);
        }
        if !is_whole {
            // Another cell that names them is not followed: that might be done for ever.
            for page in claimed {
                self.slots.set(page, BROKEN);
            }
        }
        Ok(is_whole)
    }

    fn claim(&mut self, page: PageNumber) -> bool {
        let is_one = page.get() <= self.header.pages
            && page.get() > 1
            && !self.header.is_pending_byte(page)
            && !self.header.is_pointer_map(page)
            && self.slots.get(page) == 0;
        if is_one {
            self.slots.set(page, self.slot);
        }
        is_one
    }
}
