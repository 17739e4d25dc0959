//! The walk through the schema, the trees it names, their overflow pages, and the list of free pages.
//!
//! A page is claimed by the first that names it, before it is read. So each page is read at most once, the queue holds
//! only claimed pages, and cycles end without a limit of depth.

use std::mem;

use crate::free_list::Trunk;
use crate::page::{Cell, Page, number_at};
use crate::page_number::PageNumber;
use crate::page_ownership::{PageOwnership, Role, Slot, Tree, TreeKind};
use crate::record::SchemaRow;

const NOT_FREE: &str = "names a free page that is not free";
/// Index of the schema's own tree.
const SCHEMA: u32 = 0;
/// Bytes read of a row of the schema. Names are not longer than the statement that made them: a million bytes
/// (SQLITE_MAX_SQL_LENGTH) by default, twice that in UTF-16.
const ROW_MAX: usize = 4 << 20;

struct Walk<F> {
    owners: PageOwnership,
    read: F,
    /// The b-tree page being read.
    page: Vec<u8>,
    /// The overflow page or page of the free list being read.
    other: Vec<u8>,
    /// Claimed pages that are still to be read, next one last, and how far below the root each is.
    waiting: Vec<(PageNumber, u32)>,
    /// Whether leaves are read to find overflow pages.
    leaves: bool,
}

/// Fills `owners`, which is empty.
pub(crate) fn find<E>(
    owners: PageOwnership,
    leaves: bool,
    read: impl FnMut(PageNumber, &mut [u8]) -> Result<bool, E>,
) -> Result<PageOwnership, E> {
    let page = vec![0; owners.header().page_size as usize];
    let mut walk = Walk {
        other: page.clone(),
        page,
        owners,
        read,
        waiting: Vec::new(),
        leaves,
    };
    walk.owners.trees.push(Tree {
        kind: TreeKind::Table,
        name: "sqlite_schema".into(),
        table: "sqlite_schema".into(),
        root: PageNumber::FIRST,
    });
    let root = Some(PageNumber::FIRST);
    if let Some(root) = walk.owners.claim(root, Slot::CLAIMED) {
        walk.tree(SCHEMA, root)?;
    }
    // The schema is walked first and adds the trees; all roots are claimed before another tree is walked.
    let mut tree = SCHEMA + 1;
    while let Some(root) = walk.owners.root(tree) {
        walk.tree(tree, root)?;
        tree += 1;
    }
    walk.free_list()?;
    Ok(walk.owners)
}

impl<E, F: FnMut(PageNumber, &mut [u8]) -> Result<bool, E>> Walk<F> {
    /// Walks a tree whose root is claimed, in key order.
    #[expect(
        clippy::indexing_slicing,
        reason = "the buffer is a page, of which a part is usable"
    )]
    fn tree(&mut self, tree: u32, root: PageNumber) -> Result<(), E> {
        let mut has_rowid = None;
        let mut leaf_depth = None;
        self.waiting.push((root, 0));
        while let Some((number, depth)) = self.waiting.pop() {
            if leaf_depth == Some(depth) && !self.leaves && tree != SCHEMA {
                self.owners.set(number, Slot::of(tree, Role::Leaf));
                continue;
            }
            let mut bytes = mem::take(&mut self.page);
            if (self.read)(number, &mut bytes)? {
                let usable = &bytes[..self.owners.header().usable()];
                match Page::parse(usable, number.header()) {
                    // All pages of a tree are of one family, the root's.
                    Some(page)
                        if page.kind().has_rowid()
                            == *has_rowid.get_or_insert(page.kind().has_rowid()) =>
                    {
                        if !page.kind().is_interior() {
                            leaf_depth = Some(depth);
                        }
                        self.node(tree, number, depth, &page, usable)?;
                    }
                    _ => self.note(number, tree, "not a page of this b-tree"),
                }
            } else {
                self.note(number, tree, "cannot be read");
            }
            self.page = bytes;
        }
        Ok(())
    }

    fn node(
        &mut self,
        tree: u32,
        number: PageNumber,
        depth: u32,
        page: &Page<'_>,
        bytes: &[u8],
    ) -> Result<(), E> {
        let interior = page.kind().is_interior();
        let role = if interior { Role::Interior } else { Role::Leaf };
        self.owners.set(number, Slot::of(tree, role));
        if tree == SCHEMA {
            self.owners.note_upper(number, 0);
        } else if interior || depth == 0 {
            self.owners.note_upper(number, depth);
        }
        let first = self.waiting.len();
        for cell in page.cells() {
            let Some(cell) = cell else {
                self.note(number, tree, "has a malformed cell");
                continue;
            };
            if interior {
                self.child(tree, number, cell.child, depth + 1);
            }
            if tree == SCHEMA && !interior {
                self.schema_row(number, &cell, bytes)?;
            } else {
                self.overflow(tree, number, &cell, None)?;
            }
        }
        if interior {
            self.child(tree, number, page.rightmost(), depth + 1);
        }
        if let Some(children) = self.waiting.get_mut(first..) {
            children.reverse();
        }
        Ok(())
    }

    fn child(&mut self, tree: u32, parent: PageNumber, child: Option<PageNumber>, depth: u32) {
        match self.owners.claim(child, Slot::CLAIMED) {
            Some(child) => self.waiting.push((child, depth)),
            None => self.note(parent, tree, "names a child that cannot be one"),
        }
    }

    /// Follows the overflow pages of a cell, and appends what is on them to `record` up to [`ROW_MAX`].
    fn overflow(
        &mut self,
        tree: u32,
        number: PageNumber,
        cell: &Cell,
        mut record: Option<&mut Vec<u8>>,
    ) -> Result<(), E> {
        let room = self.owners.header().usable() - 4;
        let mut left = cell.payload - cell.local.len() as u64;
        let mut next = cell.overflow;
        while left > 0 {
            let Some(page) = self.owners.claim(next, Slot::of(tree, Role::Overflow)) else {
                self.note(number, tree, "has a payload that breaks off");
                return Ok(());
            };
            let here = usize::try_from(left).map_or(room, |left| left.min(room));
            left -= here as u64;
            let wanted = record
                .as_ref()
                .map_or(0, |record| here.min(ROW_MAX.saturating_sub(record.len())));
            // The last page leads nowhere.
            if left == 0 && wanted == 0 {
                return Ok(());
            }
            if !(self.read)(page, &mut self.other)? {
                self.note(page, tree, "cannot be read");
                return Ok(());
            }
            if let Some(record) = record.as_mut() {
                let content = self.other.get(4..4 + wanted);
                record.extend_from_slice(content.unwrap_or_default());
            }
            next = number_at(&self.other, 0);
        }
        Ok(())
    }

    /// Adds the tree that a row of the schema names, and claims its root.
    fn schema_row(&mut self, number: PageNumber, cell: &Cell, bytes: &[u8]) -> Result<(), E> {
        let mut record = bytes.get(cell.local.clone()).unwrap_or_default().to_vec();
        self.overflow(SCHEMA, number, cell, Some(&mut record))?;
        let Some(row) = SchemaRow::parse(&record, self.owners.header().encoding) else {
            self.note(number, SCHEMA, "has a row that is not a schema entry");
            return Ok(());
        };
        let (Some(kind), true) = (row.kind, row.root != 0) else {
            return Ok(());
        };
        let room = self.owners.trees.len() < Slot::TREES_MAX;
        let root = u32::try_from(row.root).ok().filter(|_| room);
        let root = root.and_then(PageNumber::new);
        match self.owners.claim(root, Slot::CLAIMED) {
            Some(root) => self.owners.trees.push(Tree {
                kind,
                name: row.name,
                table: row.table,
                root,
            }),
            None => self.note(number, SCHEMA, "names a root page that cannot be one"),
        }
        Ok(())
    }

    fn free_list(&mut self) -> Result<(), E> {
        let mut next = self.owners.header().first_free;
        let mut before = PageNumber::FIRST;
        while next.is_some() {
            let Some(trunk) = self.owners.claim(next, Slot::FREE_TRUNK) else {
                self.owners.note(before, None, NOT_FREE);
                return Ok(());
            };
            if !(self.read)(trunk, &mut self.other)? {
                self.owners.note(trunk, None, "cannot be read");
                return Ok(());
            }
            let usable = self.other.get(..self.owners.header().usable());
            let parsed = Trunk::parse(usable.unwrap_or_default());
            if parsed.overfull {
                self.owners
                    .note(trunk, None, "counts more free pages than it can name");
            }
            for leaf in parsed.leaves {
                if self.owners.claim(leaf, Slot::FREE_LEAF).is_none() {
                    self.owners.note(trunk, None, NOT_FREE);
                }
            }
            next = parsed.next;
            before = trunk;
        }
        Ok(())
    }

    fn note(&mut self, page: PageNumber, tree: u32, why: &'static str) {
        self.owners.note(page, Some(tree), why);
    }
}
