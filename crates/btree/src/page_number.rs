//! A page's number, as SQLite counts: from 1, so that a 0 in a file can stand for "none".

use std::fmt;
use std::num::NonZeroU32;

use crate::header::HEADER_LEN;

/// Number of a page of a database, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PageNumber(NonZeroU32);

impl PageNumber {
    /// The page with the database's header, where the schema begins.
    pub const FIRST: PageNumber = PageNumber(NonZeroU32::MIN);

    /// The page with this number; `None` for 0.
    pub fn new(number: u32) -> Option<PageNumber> {
        NonZeroU32::new(number).map(PageNumber)
    }

    /// The page that has so many before it; `None` if its number is larger than any of SQLite's.
    pub fn from_index(index: u64) -> Option<PageNumber> {
        PageNumber::new(u32::try_from(index).ok()?.checked_add(1)?)
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// How many pages are before it.
    pub fn index(self) -> u32 {
        self.get() - 1
    }

    /// Where it begins in the database.
    pub fn start(self, page_size: u32) -> u64 {
        u64::from(self.index()) * u64::from(page_size)
    }

    /// Where the header of the b-tree page begins in it: on the first page the database's header comes before.
    pub fn header(self) -> usize {
        if self == PageNumber::FIRST {
            HEADER_LEN
        } else {
            0
        }
    }

    /// The pages from this one to the one before `end`.
    pub fn up_to(self, end: PageNumber) -> impl Iterator<Item = PageNumber> {
        (self.get()..end.get()).filter_map(PageNumber::new)
    }
}

impl fmt::Display for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_has_number_one() {
        assert_eq!(PageNumber::new(0), None);
        assert_eq!(PageNumber::from_index(0), Some(PageNumber::FIRST));
        let third = PageNumber::new(3).unwrap();
        assert_eq!((third.index(), third.start(65536)), (2, 131_072));
        assert_eq!(PageNumber::FIRST.up_to(third).last().unwrap().get(), 2);
        let last = PageNumber::from_index(u64::from(u32::MAX) - 1);
        assert_eq!(last.map(PageNumber::get), Some(u32::MAX));
        assert_eq!(PageNumber::from_index(u32::MAX.into()), None);
    }
}
