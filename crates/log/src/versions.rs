//! Which earlier version of a page the next one is stored as a difference to.
//!
//! Versions of a page are counted from the last whole one, which is 0. Version `v` stands on the one whose number is `v`
//! without its lowest bit: it is near, and no version is more than four differences away from a whole one. (With more
//! than four bits it is on the newest version that has three below it.)

use std::collections::HashMap;

use crate::format::record::{DEPTH_MAX, Form};

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
    /// How many versions came after the whole one.
    count: u32,
    /// Bytes that the whole one takes.
    whole_len: usize,
    /// Places of versions with 0, 1, 2 and 3 differences below them; so many as the newest one has below it.
    places: [u64; DEPTH_MAX as usize],
    len: u8,
}

impl Chain {
    /// How many differences the next version has below it, its own included.
    fn next_depth(&self) -> u8 {
        let bits = (self.count.saturating_add(1)).count_ones();
        u8::try_from(bits)
            .map_or(DEPTH_MAX, |bits| bits.min(DEPTH_MAX))
            .min(self.len)
    }
}

/// What the next version of a page may stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub place: u64,
    /// Differences from the new version to the whole one.
    pub depth: u8,
    /// A difference that takes more than this is not worth it.
    pub budget: usize,
}

impl Versions {
    /// The base of the next version of a page, if one is known.
    pub fn base(&self, page: u32) -> Option<Base> {
        let chain = self.newer.get(&page).or_else(|| self.older.get(&page))?;
        let depth = chain.next_depth();
        let place = chain.places.get(usize::from(depth).checked_sub(1)?)?;
        Some(Base {
            place: *place,
            depth,
            budget: chain.whole_len / 3,
        })
    }

    /// A version of a page is at `place`.
    pub fn note(&mut self, page: u32, place: u64, form: Form, stored: usize) {
        let known = self
            .newer
            .get(&page)
            .or_else(|| self.older.get(&page))
            .copied();
        let chain = match form {
            Form::Raw | Form::Zstd => {
                let mut places = [0; DEPTH_MAX as usize];
                places[0] = place;
                Some(Chain {
                    count: 0,
                    whole_len: stored,
                    places,
                    len: 1,
                })
            }
            Form::Difference { base, depth } => known.and_then(|mut chain| {
                let depth = usize::from(depth);
                // Another writer may have chosen otherwise.
                let below = chain.places.get(..usize::from(chain.len));
                let below = below.and_then(|places| places.get(depth.checked_sub(1)?));
                (below == Some(&base)).then_some(())?;
                chain.count = chain.count.saturating_add(1);
                chain.len = chain.len.min(u8::try_from(depth).ok()?);
                if let Some(next) = chain.places.get_mut(depth) {
                    *next = place;
                    chain.len += 1;
                }
                Some(chain)
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

    fn difference(base: Base) -> Form {
        Form::Difference {
            base: base.place,
            depth: base.depth,
        }
    }

    #[test]
    fn bases_are_near_and_at_most_four_differences_deep() {
        let mut versions = Versions::default();
        assert_eq!(versions.base(7), None);
        versions.note(7, 100, Form::Zstd, 900);
        let mut found = Vec::new();
        for version in 1..20 {
            let base = versions.base(7).unwrap();
            assert!(base.depth <= DEPTH_MAX && base.budget == 300);
            found.push(base.place - 100);
            versions.note(7, 100 + version, difference(base), 10);
        }
        let expected = [
            0, 0, 2, 0, 4, 4, 6, 0, 8, 8, 10, 8, 12, 12, 14, 0, 16, 16, 18,
        ];
        assert_eq!(found, expected);
        versions.note(7, 200, Form::Raw, 4096);
        assert_eq!(versions.base(7).map(|base| base.place), Some(200));
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
        let form = Form::Difference { base: 5, depth: 1 };
        versions.note(7, 100, form, 10);
        assert_eq!(versions.base(7), None);
        versions.note(7, 100, Form::Raw, 10);
        versions.note(7, 101, form, 10);
        assert_eq!(versions.base(7), None);
    }
}
