//! The role of each page, and the tree to which it belongs.

use std::fmt;
use std::ops::Range;

use crate::header::Header;
use crate::page_number::PageNumber;
use crate::walk;

/// At most this many pieces of damage are listed.
const LISTED_MAX: usize = 100;

/// Whether a tree is a table or an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TreeKind {
    Table,
    Index,
}

/// A b-tree: a table (WITHOUT ROWID or not) or an index (one of SQLite's own or not).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// A table or an index.
    pub kind: TreeKind,
    /// Its name in the schema.
    pub name: String,
    /// Name of the table it belongs to; a table's own.
    pub table: String,
    /// Its root page.
    pub root: PageNumber,
}

/// The role of a page in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A page without children; a root may be one.
    Leaf,
    /// A page with children.
    Interior,
    /// A page of payload that did not fit into a leaf or interior page.
    Overflow,
}

/// The use of a page: in a tree, free, or one of SQLite's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A page of a tree.
    Tree {
        /// Index in [`PageOwnership::trees`].
        tree: u32,
        /// Its role in the tree.
        role: Role,
    },
    /// A page of the list of free pages.
    FreeTrunk,
    /// A free page on that list.
    FreeLeaf,
    /// A page of the pointer map of a database with auto_vacuum.
    PointerMap,
    /// The page around the bytes that SQLite locks; never used.
    PendingByte,
    /// No sound page leads to it, or it is not what should be there.
    Unknown,
}

/// A place in the trees where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The page where it was noticed.
    pub page: PageNumber,
    /// Index in [`PageOwnership::trees`] of the tree it was met in; `None` for the list of free pages.
    pub tree: Option<u32>,
    /// The defect, for people.
    pub why: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}: {}", self.page, self.why)
    }
}

/// The owner of every page of a database.
#[derive(Debug)]
pub struct PageOwnership {
    header: Header,
    pub(crate) trees: Vec<Tree>,
    slots: Slots,
    /// Depth and number of each page of [`PageOwnership::upper`].
    upper: Vec<(u32, PageNumber)>,
    damage: Vec<Damage>,
    damaged: u64,
}

impl PageOwnership {
    /// Finds the owner of every page. `read` fills a buffer with the page of a number, and returns false if the page
    /// cannot be read; pages that only this one leads to stay unknown. It is called at most once for each page;
    /// overflow pages that end a payload and free pages need not be read.
    ///
    /// # Errors
    /// Those of `read`, which end the search.
    pub fn find<E>(
        header: &Header,
        read: impl FnMut(PageNumber, &mut [u8]) -> Result<bool, E>,
    ) -> Result<PageOwnership, E> {
        walk::find(PageOwnership::empty(header), true, read)
    }

    /// As [`PageOwnership::find`], but reads about one page in a hundred: of each tree one leaf, because all its leaves
    /// are equally deep. Overflow pages of leaves, which only leaves lead to, stay unknown.
    ///
    /// # Errors
    /// Those of `read`, which end the search.
    pub fn find_without_leaves<E>(
        header: &Header,
        read: impl FnMut(PageNumber, &mut [u8]) -> Result<bool, E>,
    ) -> Result<PageOwnership, E> {
        walk::find(PageOwnership::empty(header), false, read)
    }

    fn empty(header: &Header) -> PageOwnership {
        PageOwnership {
            header: header.clone(),
            trees: Vec::new(),
            slots: Slots::default(),
            upper: Vec::new(),
            damage: Vec::new(),
            damaged: 0,
        }
    }

    /// The database's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The trees: `sqlite_schema`, then those of the schema in its order.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// How many pages there are.
    pub fn pages(&self) -> u32 {
        self.header.pages
    }

    /// The use of the page with this number; [`Owner::Unknown`] if there is none.
    pub fn owner(&self, page: PageNumber) -> Owner {
        if page.get() > self.pages() {
            Owner::Unknown
        } else if self.header.is_pending_byte(page) {
            Owner::PendingByte
        } else if self.header.is_pointer_map(page) {
            Owner::PointerMap
        } else {
            Slot(self.slots.get(page)).owner()
        }
    }

    /// Ranges of pages, in order, that may be known. All others are unknown, however many pages the database claims to
    /// have.
    pub fn known(&self) -> impl Iterator<Item = Range<PageNumber>> + '_ {
        let end = u64::from(self.pages()) + 1;
        let number = |number: u64| PageNumber::new(u32::try_from(number).ok()?);
        let chunks = self.slots.0.iter().enumerate();
        let chunks = chunks.filter(|(_, slots)| slots.is_some());
        chunks.filter_map(move |(chunk, _)| {
            let first = (chunk * CHUNK) as u64;
            Some(number(first.max(1))?..number((first + CHUNK as u64).min(end))?)
        })
    }

    /// The pages above the leaves, those that most queries need first: all pages of the schema, roots, then other pages
    /// with children, by their distance from the root.
    pub fn upper(&self) -> Vec<PageNumber> {
        let mut upper = self.upper.clone();
        // Stable: those of one depth stay in the order of the trees.
        upper.sort_by_key(|(depth, _)| *depth);
        upper.into_iter().map(|(_, page)| page).collect()
    }

    /// Damage found in the trees, up to a hundred places.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// How many places are wrong in all.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Whether nothing is wrong, and every page is accounted for: it is in one tree or on the list of free pages, which
    /// has as many as the header counts, or has a purpose by its number. Only [`PageOwnership::find`] can tell.
    pub fn is_whole(&self) -> bool {
        if self.damaged > 0 {
            return false;
        }
        let (mut known, mut free) = (0, 0);
        for page in self.known().flat_map(|pages| pages.start.up_to(pages.end)) {
            let owner = self.owner(page);
            known += u32::from(owner != Owner::Unknown);
            free += u32::from(matches!(owner, Owner::FreeTrunk | Owner::FreeLeaf));
        }
        known == self.pages() && free == self.header.free_pages
    }

    /// The root page of the tree with this index.
    pub(crate) fn root(&self, tree: u32) -> Option<PageNumber> {
        self.trees.get(tree as usize).map(|tree| tree.root)
    }

    /// Notes that something is wrong.
    pub(crate) fn note(&mut self, page: PageNumber, tree: Option<u32>, why: &'static str) {
        self.damaged += 1;
        if self.damage.len() < LISTED_MAX {
            self.damage.push(Damage { page, tree, why });
        }
    }

    /// Claims the page that something names, and returns it; `None` if it was claimed before, or does not exist.
    pub(crate) fn claim(&mut self, page: Option<PageNumber>, slot: Slot) -> Option<PageNumber> {
        let page = page.filter(|page| {
            page.get() <= self.pages()
                && !self.header.is_pending_byte(*page)
                && !self.header.is_pointer_map(*page)
                && self.slots.get(*page) == 0
        })?;
        self.slots.set(page, slot.0);
        Some(page)
    }

    /// Notes a page above the leaves.
    pub(crate) fn note_upper(&mut self, page: PageNumber, depth: u32) {
        self.upper.push((depth, page));
    }

    /// Sets the role of a claimed page.
    pub(crate) fn set(&mut self, page: PageNumber, slot: Slot) {
        self.slots.set(page, slot.0);
    }
}

/// The role of a page in the low three bits, its tree above them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(u32);

impl Slot {
    /// Named by something; not read yet, or damaged.
    pub(crate) const CLAIMED: Slot = Slot(1);
    pub(crate) const FREE_TRUNK: Slot = Slot(2);
    pub(crate) const FREE_LEAF: Slot = Slot(3);
    /// There is room for this many trees.
    pub(crate) const TREES_MAX: usize = 1 << 29;

    pub(crate) fn of(tree: u32, role: Role) -> Slot {
        let tag = match role {
            Role::Leaf => 4,
            Role::Interior => 5,
            Role::Overflow => 6,
        };
        Slot(tree << 3 | tag)
    }

    fn owner(self) -> Owner {
        let role = match self.0 & 7 {
            2 => return Owner::FreeTrunk,
            3 => return Owner::FreeLeaf,
            4 => Role::Leaf,
            5 => Role::Interior,
            6 => Role::Overflow,
            _ => return Owner::Unknown,
        };
        let tree = self.0 >> 3;
        Owner::Tree { tree, role }
    }
}

/// Pages whose slots are allocated together.
const CHUNK: usize = 1024;

/// A number for each page, 0 unless set. Takes memory only near pages that were set, because the database may claim any
/// number of pages.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<Option<Box<[u32; CHUNK]>>>);

impl Slots {
    /// The chunk of a page, and its slot there.
    fn place(page: PageNumber) -> (usize, usize) {
        let number = page.get() as usize;
        (number / CHUNK, number % CHUNK)
    }

    pub(crate) fn get(&self, page: PageNumber) -> u32 {
        let (chunk, within) = Slots::place(page);
        match self.0.get(chunk) {
            Some(Some(chunk)) => chunk.get(within).copied().unwrap_or_default(),
            _ => 0,
        }
    }

    /// Forgets all pages with this value, but for one.
    pub(crate) fn release(&mut self, value: u32, kept: PageNumber) {
        let all = self
            .0
            .iter_mut()
            .flatten()
            .flat_map(|slots| slots.iter_mut());
        for slot in all.filter(|slot| **slot == value) {
            *slot = 0;
        }
        self.set(kept, value);
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there are chunks up to this one, and a remainder of `CHUNK` is an index in it"
    )]
    pub(crate) fn set(&mut self, page: PageNumber, value: u32) {
        let (chunk, within) = Slots::place(page);
        if chunk >= self.0.len() {
            self.0.resize_with(chunk + 1, || None);
        }
        let slots = self.0[chunk].get_or_insert_with(|| Box::new([0; CHUNK]));
        slots[within] = value;
    }
}
