//! Mends the b-trees of a database of which some pages are lost.
//!
//! What is left out is what nothing leads to any more: rows on lost pages, and rows of which a part was there. Every
//! tree that is left is sound, so SQLite reads and writes it: a tree that has lost a page above its leaves gets new ones
//! (`build`). The pages below a lost one are still there. Of tables with rowids they are found again by their rowids, if
//! only one table can have had them. Indexes that have lost anything, or whose table has, are emptied: the caller has
//! SQLite fill them again.
//!
//! All pages that belong to no tree are free afterwards, and a database with auto_vacuum has none: nothing of the list of
//! free pages and of the pointer map is needed (`free`).

mod build;
mod free;
mod scan;

use std::collections::HashSet;

use crate::free_list::FreeList;
use crate::header::Header;
use crate::page::{Page, PageKind};
use crate::page_number::PageNumber;
use crate::page_ownership::{PageOwnership, Slots, Tree, TreeKind};
use scan::{Flat, Scan};

/// Of a table so many ranges of lost rows are listed.
const LISTED_MAX: usize = 1000;
/// What pages of a payload are claimed with of which not all is there: they are free.
const BROKEN: u32 = u32::MAX;
/// Index of the schema's own tree.
const SCHEMA: u32 = 0;

/// The pages of a database that is mended.
pub trait Pages {
    /// Why reading or writing fails.
    type Error;

    /// Fills `buf` with a page. False if it is lost.
    ///
    /// # Errors
    /// Those that end the work.
    fn read(&mut self, page: PageNumber, buf: &mut [u8]) -> Result<bool, Self::Error>;

    /// Writes a page, which may be behind the end.
    ///
    /// # Errors
    /// Those that end the work.
    fn write(&mut self, page: PageNumber, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Rowids, among which there may be some that no row had: those above `after`, up to and with `to`. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RowidRange {
    pub after: Option<i64>,
    pub to: Option<i64>,
}

/// What a table has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLoss {
    /// The table.
    pub table: Tree,
    /// The rows, in order, up to a thousand ranges; of a table without rowids none.
    pub rows: Vec<RowidRange>,
    /// How many ranges, or parts of a table without rowids, there are beside those.
    pub more: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Tables that have lost rows.
    pub tables: Vec<TableLoss>,
    /// Indexes that are empty now, and have to be made anew from their tables.
    pub indexes: Vec<Tree>,
    /// Pages with rows that were there and belong to one of several tables, or to one that is not known. Where the list
    /// of free pages is not there, free ones are among them.
    pub unassigned: u64,
    /// The database had auto_vacuum, and has it no more.
    pub had_auto_vacuum: bool,
}

/// Mends all trees of the database with this header, whose first page is not lost. `has_rowids` says whether a table of
/// which nothing is left had rowids.
///
/// # Errors
/// Those of reading and writing pages.
pub fn mend<P: Pages>(
    header: &Header,
    pages: &mut P,
    has_rowids: &mut dyn FnMut(&Tree) -> bool,
) -> Result<Mended, P::Error> {
    let found =
        PageOwnership::find_without_leaves(header, |page, buf: &mut [u8]| pages.read(page, buf))?;
    let trees = found.trees().to_vec();
    let knows_all = found
        .damage()
        .iter()
        .all(|damage| damage.tree != Some(SCHEMA));
    drop(found);
    let free = FreeList::read(header, |page, buf| pages.read(page, buf))?;
    let mut mend = Mend {
        header,
        pages,
        slots: Slots::default(),
        end: header.pages,
        mended: Mended {
            had_auto_vacuum: header.auto_vacuum,
            ..Mended::default()
        },
    };
    let mut flats = mend.tables(&trees)?;
    for (at, flat) in &mut flats {
        if let (None, Some(table)) = (flat.has_rowid, trees.get(*at)) {
            flat.has_rowid = Some(*at == SCHEMA as usize || has_rowids(table));
        }
    }
    let is_known = knows_all && !flats.iter().any(|(_, flat)| flat.is_malformed());
    if !is_known || flats.iter().any(|(_, flat)| flat.may_have_children()) {
        mend.reattach(&mut flats, free.as_ref(), is_known)?;
    }
    let mut damaged = HashSet::new();
    for (at, flat) in flats {
        let Some(table) = trees.get(at) else { continue };
        if flat.has_lost() {
            damaged.insert(table.table.clone());
        }
        mend.table(at, table, flat)?;
    }
    mend.indexes(&trees, &damaged)?;
    mend.finish()?;
    Ok(mend.mended)
}

struct Mend<'a, P> {
    header: &'a Header,
    pages: &'a mut P,
    /// The tree of each page that is in one, counted from 1.
    slots: Slots,
    /// The last page.
    end: u32,
    mended: Mended,
}

impl<P: Pages> Mend<'_, P> {
    /// Scans all tables, whose roots are claimed before, and returns those that have lost something.
    fn tables(&mut self, trees: &[Tree]) -> Result<Vec<(usize, Flat)>, P::Error> {
        for (at, tree) in trees.iter().enumerate() {
            self.slots.set(tree.root, slot_of(at));
        }
        let mut damaged = Vec::new();
        for (at, tree) in trees.iter().enumerate() {
            if tree.kind == TreeKind::Table {
                let flat = self.scan(at).tree(tree.root)?;
                if flat.has_lost() {
                    damaged.push((at, flat));
                }
            }
        }
        Ok(damaged)
    }

    fn scan(&mut self, tree: usize) -> Scan<'_, P> {
        Scan {
            header: self.header,
            pages: self.pages,
            slots: &mut self.slots,
            slot: slot_of(tree),
        }
    }

    /// Finds pages below lost ones: leaves with rowids that are in no tree and not free. They go to the table that has
    /// lost those rowids, if there is one only. None is taken without the list of free pages: a free page has rows that
    /// were deleted. Nor if not all tables are known, or one is not what it should be: it may have lost any page.
    fn reattach(
        &mut self,
        flats: &mut [(usize, Flat)],
        free: Option<&FreeList>,
        is_known: bool,
    ) -> Result<(), P::Error> {
        let mut bytes = vec![0; self.header.page_size as usize];
        for number in 2..=self.header.pages {
            let Some(page) = PageNumber::new(number) else {
                continue;
            };
            if self.slots.get(page) != 0
                || !self.header.can_be_free(page)
                || free.is_some_and(|free| free.contains(page))
                || !self.pages.read(page, &mut bytes)?
            {
                continue;
            }
            let usable = bytes.get(..self.header.usable()).unwrap_or_default();
            let Some(rowids) = rowids_of(usable) else {
                continue;
            };
            let mut fitting = flats.iter_mut().filter(|(_, flat)| flat.has_room(rowids));
            match (fitting.next(), fitting.next()) {
                (Some((at, flat)), None) if is_known && free.is_some() => {
                    let at = *at;
                    self.slots.set(page, slot_of(at));
                    self.scan(at).found_again(page, flat)?;
                }
                _ => self.mended.unassigned += 1,
            }
        }
        Ok(())
    }

    /// Makes a table that has lost something sound, and notes what.
    fn table(&mut self, at: usize, table: &Tree, flat: Flat) -> Result<(), P::Error> {
        let (rows, more) = flat.losses();
        if !rows.is_empty() || more > 0 {
            self.mended.tables.push(TableLoss {
                table: table.clone(),
                rows,
                more,
            });
        }
        if flat.is_broken() {
            self.rebuild(at, table.root, flat)?;
        }
        Ok(())
    }

    /// Scans all indexes, and empties those that have lost something, or whose table has.
    fn indexes(&mut self, trees: &[Tree], damaged: &HashSet<String>) -> Result<(), P::Error> {
        for (at, tree) in trees.iter().enumerate() {
            if tree.kind != TreeKind::Index {
                continue;
            }
            let is_whole =
                !damaged.contains(&tree.table) && !self.scan(at).tree(tree.root)?.has_lost();
            if !is_whole {
                // What the scan has claimed is free again.
                self.slots.release(slot_of(at), tree.root);
                self.write_empty(tree.root, PageKind::IndexLeaf)?;
                self.mended.indexes.push(tree.clone());
            }
        }
        Ok(())
    }
}

/// What the pages of a tree are claimed with.
fn slot_of(tree: usize) -> u32 {
    u32::try_from(tree + 1).unwrap_or(u32::MAX)
}

/// The least and the greatest rowid of a page, if it is a leaf of a table, with all cells in order.
fn rowids_of(usable: &[u8]) -> Option<(i64, i64)> {
    let page = Page::parse(usable, 0).filter(|page| page.kind() == PageKind::TableLeaf)?;
    let mut span: Option<(i64, i64)> = None;
    for cell in page.cells() {
        let rowid = cell?.rowid.cast_signed();
        span = match span {
            None => Some((rowid, rowid)),
            Some((first, last)) if rowid > last => Some((first, rowid)),
            Some(_) => return None,
        };
    }
    span
}
