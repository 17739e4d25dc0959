//! Free pages of SQLite's that take space in a packed file, and dropping them.
//!
//! SQLite keeps a list of free pages. The content of its leaves means nothing to SQLite: a later transaction takes such
//! a page without reading it (`btreeGetUnusedPage`, `PAGER_GET_NOCONTENT`), and does not journal what was there. So a
//! unit of which all pages are such leaves may become zero, which takes no space.
//!
//! Two things must hold. *The list is right*: all trees were walked, each page is in one of them or on the list, and
//! the header counts as many. With any doubt nothing is dropped. *No one can go back* to a state in which the page was
//! in use: the caller says so ([`FreePages::drop_some`]).

use litepack_btree::{FreeList, Header, PageNumber, PageOwnership};
use litepack_io::interrupt;
use litepack_io::storage::Storage;
use litepack_store::{Result, Store, Unit};

use crate::pages::read;

/// The walk through all trees is not worth it for less than this share of what is stored.
const WORTH: u64 = 200;
/// Units that a step drops at most.
const UNITS_PER_STEP: usize = 4096;

/// Free pages that were found right, and are still to be dropped.
#[derive(Debug)]
pub(crate) struct FreePages {
    /// Pages that are free in the commit that was walked.
    walked: FreeList,
    /// The commit that `units` are of.
    seq: u64,
    /// Units of which all pages were free then and are free still, not dropped yet; the next one last.
    units: Vec<Unit>,
    /// The bytes that they took when they were found.
    stored: u64,
}

impl FreePages {
    /// Looks whether free pages take space, and if so, whether the list is right. `None` if there is nothing to drop.
    ///
    /// # Errors
    /// When the file cannot be read. Damage is no error here: then nothing is dropped.
    pub(crate) fn find<D: Storage>(store: &mut Store<D>) -> Result<Option<FreePages>> {
        let Some((header, list)) = list_of(store)? else {
            return Ok(None);
        };
        let mut stored = 0;
        let units = units_of(&header, &[&list], store.unit_size());
        for unit in &units {
            interrupt::check()?;
            stored += u64::from(store.stored_len(*unit)?);
        }
        if stored == 0 || stored.saturating_mul(WORTH) < store.disk().len()? {
            return Ok(None);
        }
        let owners = PageOwnership::find(&header, |page, buf| {
            read(store, page.start(header.page_size), buf)
        })?;
        Ok(owners.is_whole().then(|| FreePages {
            walked: list,
            seq: store.seq(),
            units,
            stored,
        }))
    }

    /// Whether a unit is to be dropped.
    pub(crate) fn has(&self, unit: Unit) -> bool {
        // The next one is last.
        let found = self.units.binary_search_by(|other| unit.cmp(other));
        found.is_ok()
    }

    /// The bytes that they take in the file.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// Drops some of them and commits that; false when none is left. The caller holds the write lock, and knows that no
    /// journal, reader or log can need a former state of the database.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub(crate) fn drop_some<D: Storage>(&mut self, store: &mut Store<D>) -> Result<bool> {
        // The state in which the pages are free is what a crash leads to from now on.
        store.flush()?;
        if store.seq() != self.seq {
            // Others have committed. A page that they took from the list is not on it any more.
            let Some((header, list)) = list_of(store)? else {
                return Ok(false);
            };
            self.units = units_of(&header, &[&list, &self.walked], store.unit_size());
        }
        let rest = self.units.len().saturating_sub(UNITS_PER_STEP);
        let units = self.units.split_off(rest);
        store.drop_units(&units)?;
        store.commit()?;
        self.seq = store.seq();
        Ok(!self.units.is_empty())
    }
}

/// The header and the list of free pages of a database of `len` bytes; `None` unless the list is right: each page is in
/// one tree or on the list, and the header counts as many. `read` fills a buffer from an offset, and returns false if it
/// cannot. It is called for all pages of tables and indexes.
///
/// # Errors
/// Those of `read`.
pub fn right_free_list<E>(
    len: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> std::result::Result<bool, E>,
) -> std::result::Result<Option<(Header, FreeList)>, E> {
    let Some((header, list)) = FreeList::of_database(len, &mut read)? else {
        return Ok(None);
    };
    if list.leaves().is_empty() {
        return Ok(Some((header, list)));
    }
    let owners = PageOwnership::find(&header, |page, buf| read(page.start(header.page_size), buf))?;
    Ok(owners.is_whole().then_some((header, list)))
}

/// The units of which all pages are leaves of all these lists, the first one last.
fn units_of(header: &Header, lists: &[&FreeList], unit_size: u32) -> Vec<Unit> {
    let share = (unit_size / header.page_size).max(1);
    let Some((first, others)) = lists.split_first() else {
        return Vec::new();
    };
    let is_free = |page: PageNumber| others.iter().all(|list| list.contains(page));
    let free: Vec<_> = first
        .leaves()
        .iter()
        .filter(|page| is_free(**page))
        .collect();
    let of_unit = |pages: &[&PageNumber]| {
        let unit = pages.first()?.index() / share;
        // A last unit may have fewer pages.
        let last = header.pages - unit * share;
        (pages.len() == last.min(share) as usize).then_some(Unit(unit.into()))
    };
    let mut units: Vec<Unit> = free
        .chunk_by(|one, other| one.index() / share == other.index() / share)
        .filter_map(of_unit)
        .collect();
    units.reverse();
    units
}

/// The header and the list of free pages of the commit that a handle is at; `None` if the list is not sound.
fn list_of<D: Storage>(store: &mut Store<D>) -> Result<Option<(Header, FreeList)>> {
    FreeList::of_database(store.size(), |offset, buf| read(store, offset, buf))
}
