//! The list of free pages, made anew of all pages that are in no tree, and the header that goes with it.

use super::{BROKEN, Mend, Pages};
use crate::page_number::PageNumber;

/// SQLite leaves so many places of a page of the list empty, for versions before 3.6.0.
const PLACES_LEFT: usize = 6;

/// Where the header has what.
mod field {
    pub(super) const CHANGES: usize = 24;
    pub(super) const PAGES: usize = 28;
    pub(super) const FIRST_FREE: usize = 32;
    pub(super) const FREE_PAGES: usize = 36;
    pub(super) const LARGEST_ROOT: usize = 52;
    pub(super) const INCREMENTAL: usize = 64;
    pub(super) const VALID_FOR: usize = 92;
}

impl<P: Pages> Mend<'_, P> {
    /// Writes both. The first page is written last.
    pub(super) fn finish(&mut self) -> Result<(), P::Error> {
        let (first, count) = self.free_pages()?;
        let mut page = vec![0; self.header.page_size as usize];
        self.pages.read(PageNumber::FIRST, &mut page)?;
        let word = |page: &[u8], at| crate::page::be32(page, at).unwrap_or_default();
        let changes = word(&page, field::CHANGES).wrapping_add(1);
        for (at, number) in [
            (field::CHANGES, changes),
            (field::PAGES, self.end),
            (field::FIRST_FREE, first.map_or(0, PageNumber::get)),
            (field::FREE_PAGES, count),
            (field::LARGEST_ROOT, 0),
            (field::INCREMENTAL, 0),
            (field::VALID_FOR, changes),
        ] {
            put(&mut page, at, number);
        }
        self.pages.write(PageNumber::FIRST, &page)
    }

    /// The first page of the list, and how many it has.
    fn free_pages(&mut self) -> Result<(Option<PageNumber>, u32), P::Error> {
        let most = self.header.usable() / 4 - 2 - PLACES_LEFT;
        let (mut first, mut count) = (None, 0);
        // A page of the list, and those that it names.
        let mut trunk: Option<(PageNumber, Vec<PageNumber>)> = None;
        for page in (2..=self.end).rev().filter_map(PageNumber::new) {
            if !matches!(self.slots.get(page), 0 | BROKEN) || self.header.is_pending_byte(page) {
                continue;
            }
            count += 1;
            match &mut trunk {
                Some((_, leaves)) if leaves.len() < most => leaves.push(page),
                _ => {
                    first = self.write_trunk(trunk.take(), first)?;
                    trunk = Some((page, Vec::new()));
                }
            }
        }
        first = self.write_trunk(trunk, first)?;
        Ok((first, count))
    }

    /// Writes a page of the list before the others, and returns the first one.
    fn write_trunk(
        &mut self,
        trunk: Option<(PageNumber, Vec<PageNumber>)>,
        next: Option<PageNumber>,
    ) -> Result<Option<PageNumber>, P::Error> {
        let Some((number, leaves)) = trunk else {
            return Ok(next);
        };
        let mut page = vec![0; self.header.page_size as usize];
        put(&mut page, 0, next.map_or(0, PageNumber::get));
        put(&mut page, 4, u32::try_from(leaves.len()).unwrap_or(0));
        for (at, leaf) in leaves.iter().enumerate() {
            put(&mut page, 8 + 4 * at, leaf.get());
        }
        self.pages.write(number, &page)?;
        Ok(Some(number))
    }
}

fn put(page: &mut [u8], at: usize, number: u32) {
    if let Some(to) = page.get_mut(at..at + 4) {
        to.copy_from_slice(&number.to_be_bytes());
    }
}
