//! Which table or index each page of a packed database belongs to, and what it takes in the file.
//!
//! All pages of the trees are read once, because only a leaf knows where its overflow pages are. Memory: four
//! bytes for each page of the database.

use litepack_btree::{HEADER_LEN, Header, Owner, PageNumber, PageOwnership, Tree};
use litepack_codec::Codec;
use litepack_io::storage::Storage;
use litepack_store::{Info, Result, Store, StoredUnit};

use crate::pages::read;

/// Counts of some pages: how many they are, and how they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of pages.
    pub pages: u64,
    /// Their length in the database, in bytes.
    pub plain: u64,
    /// Their length in the file, in bytes.
    pub stored: u64,
    /// Bytes of it stored by each codec, in the order of [`Codec::ALL`].
    pub codecs: [u64; Codec::ALL.len()],
    /// Bytes of it stored with a dictionary.
    pub dictionary: u64,
}

/// The kinds of pages that belong to no table or index.
#[derive(Clone, Copy, Debug)]
pub enum Other {
    /// On SQLite's list of free pages.
    Free,
    /// Where pages are named from, for auto_vacuum.
    PointerMap,
    /// Around SQLite's lock bytes, and never used.
    LockByte,
    /// Not found from any page that could be read.
    Unknown,
}

impl Other {
    /// All of them.
    pub const ALL: [Other; 4] = [
        Other::Free,
        Other::PointerMap,
        Other::LockByte,
        Other::Unknown,
    ];

    /// The name shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Other::Free => "free pages",
            Other::PointerMap => "pointer map",
            Other::LockByte => "lock-byte page",
            Other::Unknown => "unknown pages",
        }
    }
}

/// Something that is wrong within the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The page where it was noticed.
    pub page: PageNumber,
    /// Name of the table or index that leads there, or "list of free pages".
    pub whose: String,
    /// The defect.
    pub why: &'static str,
}

/// Whose the pages of a database are.
#[derive(Debug)]
pub struct Content {
    /// Tables and indexes, the one that takes most of the file first.
    pub trees: Vec<(Tree, Share)>,
    /// The pages of each of [`Other::ALL`].
    pub others: [Share; Other::ALL.len()],
    /// The damage found, up to a hundred places.
    pub damage: Vec<Damage>,
    /// How many places are wrong in all.
    pub damaged: u64,
}

impl Content {
    /// Reads the database in a file that `info` describes, and tells `read` how many bytes of it were read now and
    /// then; an error of it ends the reading.
    ///
    /// # Errors
    /// That of `read`, and when the file cannot be read at all; damage is in the result.
    pub fn of<D: Storage>(
        store: &mut Store<D>,
        info: &Info,
        read: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Content> {
        let owners = owners(store, read)?;
        let mut tally = Tally::new(owners.as_ref(), info);
        store.units(&mut |unit| tally.add(&unit))?;
        let Tally { trees, others, .. } = tally;
        let mut content = Content {
            trees: Vec::new(),
            others,
            damage: Vec::new(),
            damaged: 0,
        };
        if let Some(owners) = owners {
            content.damaged = owners.damaged();
            content.damage = owners.damage().iter().map(|d| damage(&owners, d)).collect();
            content.trees = owners.trees().iter().cloned().zip(trees).collect();
            content
                .trees
                .sort_by_key(|(_, share)| std::cmp::Reverse(share.stored));
        } else if info.logical_bytes > 0 {
            content.damaged = 1;
            content.damage.push(Damage {
                page: PageNumber::FIRST,
                whose: "sqlite_schema".into(),
                why: "has no database header that can be read",
            });
        }
        Ok(content)
    }

    /// The shares of all pages, those of no tree too.
    pub fn shares(&self) -> impl Iterator<Item = &Share> {
        let trees = self.trees.iter().map(|(_, share)| share);
        trees.chain(&self.others)
    }
}

fn damage(owners: &PageOwnership, found: &litepack_btree::Damage) -> Damage {
    let tree = found
        .tree
        .and_then(|tree| owners.trees().get(tree as usize));
    Damage {
        page: found.page,
        whose: tree.map_or("list of free pages", |tree| &tree.name).into(),
        why: found.why,
    }
}

/// The owners of all pages; `None` if the database has no header, or none that can be read.
fn owners<D: Storage>(
    store: &mut Store<D>,
    was_read: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Option<PageOwnership>> {
    let size = store.size();
    let mut head = [0; HEADER_LEN];
    let header = read(store, 0, &mut head)?.then(|| Header::parse(&head, size));
    let Some(header) = header.flatten() else {
        return Ok(None);
    };
    let owners = PageOwnership::find(&header, |page, buf| {
        was_read(header.page_size.into())?;
        read(store, page.start(header.page_size), buf)
    });
    owners.map(Some)
}

/// Adds up what pages take.
struct Tally<'a> {
    owners: Option<&'a PageOwnership>,
    page_size: u64,
    unit_size: u64,
    /// Number of pages.
    pages: u64,
    trees: Vec<Share>,
    others: [Share; Other::ALL.len()],
}

impl<'a> Tally<'a> {
    /// All pages are counted, and nothing of how they are stored.
    fn new(owners: Option<&'a PageOwnership>, info: &Info) -> Tally<'a> {
        let page_size = owners.map_or(info.page_size, |owners| owners.header().page_size);
        let page_size = u64::from(page_size.max(1));
        let mut tally = Tally {
            owners,
            page_size,
            unit_size: info.unit_size.into(),
            pages: info.logical_bytes.div_ceil(page_size),
            trees: vec![Share::default(); owners.map_or(0, |owners| owners.trees().len())],
            others: Default::default(),
        };
        // How many pages there are is a mere claim: those of which nothing is known are not looked at one by one.
        let (mut pages, mut bytes) = (tally.pages, info.logical_bytes);
        let known = owners.into_iter().flat_map(PageOwnership::known);
        for page in known.flat_map(|pages| pages.start.up_to(pages.end)) {
            let before = u64::from(page.index()) * page_size;
            let plain = page_size.min(info.logical_bytes.saturating_sub(before));
            let share = tally.share(Some(page));
            share.pages += 1;
            share.plain += plain;
            pages -= 1;
            bytes -= plain;
        }
        let unknown = &mut tally.others[Other::Unknown as usize];
        unknown.pages += pages;
        unknown.plain += bytes;
        tally
    }

    /// The share that a page is added to. A file can claim to have more than SQLite can count.
    fn share(&mut self, page: Option<PageNumber>) -> &mut Share {
        let owner = match (self.owners, page) {
            (Some(owners), Some(page)) => owners.owner(page),
            _ => Owner::Unknown,
        };
        match owner {
            Owner::Tree { tree, .. } => &mut self.trees[tree as usize],
            Owner::FreeTrunk | Owner::FreeLeaf => &mut self.others[Other::Free as usize],
            Owner::PointerMap => &mut self.others[Other::PointerMap as usize],
            Owner::PendingByte => &mut self.others[Other::LockByte as usize],
            Owner::Unknown => &mut self.others[Other::Unknown as usize],
        }
    }

    /// Divides the length of a unit evenly among its pages. They are compressed together, so that there
    /// is no telling what each of them takes.
    fn add(&mut self, unit: &StoredUnit) {
        let before = unit.number.0.saturating_mul(self.unit_size) / self.page_size;
        let there = self.pages.saturating_sub(before);
        let pages = (self.unit_size / self.page_size).min(there).max(1);
        let len = u64::from(unit.len);
        for index in 0..pages {
            // Rounded so that the parts add up to the whole.
            let bytes = len * (index + 1) / pages - len * index / pages;
            let page = PageNumber::from_index(before.saturating_add(index));
            let share = self.share(page);
            share.stored += bytes;
            share.codecs[unit.codec as usize] += bytes;
            if unit.has_dictionary {
                share.dictionary += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_store::{StoredKind, Unit};

    #[test]
    fn the_parts_of_a_unit_add_up() {
        let info = Info {
            page_size: 512,
            unit_size: 4096,
            logical_bytes: 4096 + 3 * 512 + 1,
            ..Info::default()
        };
        let mut tally = Tally::new(None, &info);
        let all = &tally.others[Other::Unknown as usize];
        assert_eq!((all.pages, all.plain), (12, info.logical_bytes));
        for (number, len) in [(0, 1001), (1, 3), (u64::MAX, 5)] {
            tally.add(&StoredUnit {
                number: Unit(number),
                alone: 0,
                len,
                kind: StoredKind::Own,
                codec: Codec::Zstd,
                has_dictionary: true,
            });
        }
        let all = &tally.others[Other::Unknown as usize];
        assert_eq!((all.stored, all.dictionary), (1009, 1009));
        assert_eq!(all.codecs[Codec::Zstd as usize], 1009);
    }
}
