//! Which earlier version of a page the next one is stored as a difference to.
//!
//! It stands on the version before, and where that has `DEPTH_MAX` differences below it, on the last whole one.

use std::collections::HashMap;

use crate::format::record::{Base, DEPTH_MAX, Form};

/// Pages whose versions are known, in each of two tables.
const PAGES_MAX: usize = 2048;

/// Versions of pages that new ones can stand on.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// Pages of the newer table were written since the older one was full.
    newer: HashMap<u32, Chain>,
    older: HashMap<u32, Chain>,
}

#[derive(Clone, Copy, Debug)]
struct Chain {
    /// The last version that stands on none in the log, and how many bytes it takes if it stands on none at all.
    whole: u64,
    alone: Option<usize>,
    /// The newest version, and how many differences it has below it.
    newest: u64,
    depth: u8,
}

impl Versions {
    /// The base of the next version of a page, if one is known, and how many bytes a whole one took, if that is known: with
    /// more changes than that another whole one is shorter.
    pub fn base(&self, page: u32) -> Option<(Base, Option<usize>)> {
        let chain = self.newer.get(&page).or_else(|| self.older.get(&page))?;
        let (place, depth) = match chain.depth {
            DEPTH_MAX => (chain.whole, 1),
            depth => (chain.newest, depth + 1),
        };
        Some((Base { place, depth }, chain.alone))
    }

    /// The newest version of a page, if it is known.
    pub fn newest(&self, page: u32) -> Option<u64> {
        let chain = self.newer.get(&page).or_else(|| self.older.get(&page))?;
        Some(chain.newest)
    }

    /// A version of a page is at `place`, of so many bytes.
    pub fn note(&mut self, page: u32, place: u64, form: Form, len: usize) {
        let known = self
            .newer
            .get(&page)
            .or_else(|| self.older.get(&page))
            .copied();
        let chain = match form.base() {
            None => Some(Chain {
                whole: place,
                alone: (!matches!(form, Form::First(_))).then_some(len),
                newest: place,
                depth: 0,
            }),
            // Another writer may have chosen otherwise.
            Some(base) => known
                .filter(|chain| match base.depth {
                    1 => base.place == chain.whole,
                    depth => base.place == chain.newest && depth == chain.depth + 1,
                })
                .map(|chain| Chain {
                    newest: place,
                    depth: base.depth,
                    ..chain
                }),
        };
        match chain {
            Some(chain) => {
                self.newer.insert(page, chain);
            }
            None => {
                self.newer.remove(&page);
                self.older.remove(&page);
            }
        }
        if self.newer.len() >= PAGES_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_near_and_not_deep() {
        let mut versions = Versions::default();
        assert_eq!(versions.base(7), None);
        versions.note(7, 100, Form::Zstd, 900);
        let mut found = Vec::new();
        for version in 1..20 {
            let (base, alone) = versions.base(7).unwrap();
            assert!(base.depth <= DEPTH_MAX && alone == Some(900));
            found.push(base.place - 100);
            versions.note(7, 100 + version, Form::Changes(base), 10);
        }
        let expected = [
            0, 1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15, 0, 17, 18,
        ];
        assert_eq!(found, expected);
        versions.note(7, 200, Form::Raw, 4096);
        assert_eq!(versions.base(7).map(|(base, _)| base.place), Some(200));
        // A page of the file is not a version that was stored alone.
        versions.note(7, 300, Form::First(1), 80);
        let (base, alone) = versions.base(7).unwrap();
        assert_eq!((base.place, base.depth, alone), (300, 1, None));
    }

    #[test]
    fn the_tables_are_bounded() {
        let mut versions = Versions::default();
        for page in 0..100_000 {
            versions.note(page, 1 + u64::from(page), Form::Raw, 10);
            assert!(versions.newer.len() + versions.older.len() <= 2 * PAGES_MAX);
        }
        assert!(versions.base(99_999).is_some());
        assert!(versions.base(95_000).is_none());
    }

    #[test]
    fn a_difference_to_a_version_that_is_not_known_is_no_base() {
        let mut versions = Versions::default();
        let form = Form::Changes(Base { place: 5, depth: 1 });
        versions.note(7, 100, form, 10);
        assert_eq!(versions.base(7), None);
        versions.note(7, 100, Form::Raw, 10);
        versions.note(7, 101, form, 10);
        assert_eq!(versions.base(7), None);
    }
}
