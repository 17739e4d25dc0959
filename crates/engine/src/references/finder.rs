//! Which units have text in common, at any offset, so that one can be stored as its difference to others.
//!
//! Pages go in, in the order of the file, and for each the finder says which former ones it is like. It reads nothing,
//! stores nothing and promises nothing: whether a difference is smaller is measured by the caller, and equal bytes are
//! compared by the store. Only units that the caller [keeps](Finder::keep) are named, so bases have no bases if it keeps
//! no difference.

use litepack_codec::Dictionary;
use litepack_io::fixed;
use litepack_io::memory::OutOfMemory;
use litepack_store::{BASES_MAX, Unit};

use super::index::Index;
use super::shingles::Shingles;

/// A base has at least so many of a unit's sampled hashes.
const VOTES_MIN: u32 = 2;
/// All bases together have at least one in so many of them: what they have less of saves no third of the unit.
const COVERED: u32 = 4;

/// The text that a unit shares with those that were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Too little.
    Nothing,
    /// This one has the same bytes, if two hashes of 32 bits do not deceive.
    Same(Unit),
    /// These have parts of it, one to [`BASES_MAX`], the one with most of it last: in a prefix, what is near costs least.
    Alike(Vec<Unit>),
}

/// Finds units that have text in common, by notes of limited size.
#[derive(Debug)]
pub struct Finder {
    index: Index,
    shingles: Shingles,
    /// The whole page that was looked at last, as one more hash.
    whole: u64,
}

impl Finder {
    /// A finder for a database of so many units of so many bytes, with notes of so many bytes, less in a small container.
    /// The more units there are, the fewer hashes are taken of each. With 64 MiB it is one in 32 offsets up to 200 MB,
    /// and three a page at 10 GB: then it finds copies of pages, and none of paragraphs.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(notes_max: usize, units: u64, unit_size: u32) -> Result<Finder, OutOfMemory> {
        Finder::sampling(notes_max, units, units, unit_size)
    }

    /// The same for a sample of so many of the units, of each of which it takes as few hashes.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn sampling(
        notes_max: usize,
        units: u64,
        sample: u64,
        unit_size: u32,
    ) -> Result<Finder, OutOfMemory> {
        let bytes = fixed::part(notes_max);
        let rate = Index::rate(bytes, units, unit_size);
        Ok(Finder {
            index: Index::new(bytes, sample, unit_size, rate)?,
            shingles: Shingles::new(rate),
            whole: 0,
        })
    }

    /// Looks for text that this unit shares with those that were kept.
    pub fn look(&mut self, page: &[u8]) -> Found {
        self.shingles.take(page);
        self.whole = whole(page);
        if let Some(unit) = self.index.first(self.whole) {
            return Found::Same(unit);
        }
        let all = self.shingles.hashes().len();
        let mut votes: Vec<(u32, Unit)> = Vec::new();
        let mut hits: Vec<Unit> = (self.shingles.hashes().iter())
            .filter_map(|hash| self.index.first(*hash))
            .collect();
        hits.sort_unstable();
        for of_one in hits.chunk_by(|a, b| a == b) {
            let count = u32::try_from(of_one.len()).unwrap_or(u32::MAX);
            votes.extend(of_one.first().map(|unit| (count, *unit)));
        }
        // Equal votes: the later unit is nearer.
        votes.sort_unstable();
        let weak = votes.len().saturating_sub(BASES_MAX);
        votes.drain(..weak);
        votes.retain(|(count, _)| *count >= VOTES_MIN);
        let covered: u32 = votes.iter().map(|(count, _)| count).sum();
        if votes.is_empty() || u64::from(covered) * u64::from(COVERED) < all as u64 {
            return Found::Nothing;
        }
        Found::Alike(votes.into_iter().map(|(_, unit)| unit).collect())
    }

    /// From now on the unit that was looked at last may be named as one that others have text of.
    pub fn keep(&mut self, unit: Unit) {
        self.index.add(self.whole, unit);
        for hash in self.shingles.hashes() {
            self.index.add(*hash, unit);
        }
    }
}

/// The hash of a whole page, among those of its parts.
fn whole(page: &[u8]) -> u64 {
    // Any bits of it will do.
    Dictionary::hash_of(page) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_io::random::SplitMix64;

    const UNIT: u32 = 4096;
    const NOTES: usize = 16 << 20;

    /// Text of words, of which no two seeds have more than words in common.
    fn text(seed: u64, len: usize) -> Vec<u8> {
        // Neighbouring seeds would give the same numbers, one later.
        let mut random = SplitMix64::new(whole(&seed.to_le_bytes()));
        let mut text = Vec::new();
        while text.len() < len {
            text.extend(format!("{:x} ", random.next_u64() >> 20).into_bytes());
        }
        text.truncate(len);
        text
    }

    fn page(seed: u64) -> Vec<u8> {
        text(seed, UNIT as usize)
    }

    fn finder_with(units: u64) -> Finder {
        let mut finder = Finder::new(NOTES, 10_000, UNIT).unwrap();
        for unit in 0..units {
            assert_eq!(finder.look(&page(unit)), Found::Nothing, "unit {unit}");
            finder.keep(Unit(unit));
        }
        finder
    }

    #[test]
    fn copies_of_pages_are_the_same_and_others_are_not() {
        let mut finder = finder_with(500);
        assert_eq!(finder.look(&page(7)), Found::Same(Unit(7)));
        assert_eq!(finder.look(&page(501)), Found::Nothing);
        let mut changed = page(9);
        changed[2000] ^= 1;
        assert_eq!(finder.look(&changed), Found::Alike(vec![Unit(9)]));
    }

    /// Every cut and every shift: parts of two pages come one after another, with something of its own between them.
    #[test]
    fn parts_of_pages_are_found_at_any_offset() {
        let mut finder = finder_with(200);
        let mut random = SplitMix64::new(1);
        let mut below = |most: u64| (random.next_u64() % most) as usize;
        for turn in 0..500 {
            let (one, two) = (below(100) as u64, 100 + below(100) as u64);
            let own = below(1000);
            let (first, from) = (1000 + below(1000), below(900));
            let mut made = page(one)[from..from + first].to_vec();
            made.extend(text(10_000 + turn, own));
            let rest = UNIT as usize - made.len();
            let from = below((UNIT as usize - rest) as u64 + 1);
            made.extend_from_slice(&page(two)[from..from + rest]);
            let Found::Alike(mut found) = finder.look(&made) else {
                panic!("turn {turn}: nothing");
            };
            found.sort_unstable();
            assert_eq!(found, [Unit(one), Unit(two)], "turn {turn}");
        }
    }

    #[test]
    fn what_is_not_kept_is_not_named() {
        let mut finder = finder_with(10);
        let mut like = page(3);
        like[..100].fill(b'x');
        assert_eq!(finder.look(&like), Found::Alike(vec![Unit(3)]));
        let mut again = like.clone();
        again[4000] ^= 1;
        assert_eq!(finder.look(&again), Found::Alike(vec![Unit(3)]));
        assert_eq!(finder.look(&like), Found::Alike(vec![Unit(3)]));
    }

    #[test]
    fn at_most_three_are_named_and_the_one_with_most_is_last() {
        let mut finder = finder_with(10);
        let lens = [300, 500, 800, 1100, 1396];
        let parts = (0..5)
            .zip(lens)
            .map(|(unit, len)| page(unit)[..len].to_vec());
        let made: Vec<u8> = parts.flatten().collect();
        assert_eq!(
            finder.look(&made),
            Found::Alike(vec![Unit(2), Unit(3), Unit(4)])
        );
    }

    /// Zeros and other runs are nothing to have in common.
    #[test]
    fn runs_of_one_byte_do_not_count() {
        let mut finder = finder_with(2);
        for (unit, byte) in [(20, 0), (21, b' ')] {
            let mut page = vec![byte; UNIT as usize];
            page[..200].copy_from_slice(&text(unit, 200));
            assert_eq!(finder.look(&page), Found::Nothing);
            finder.keep(Unit(unit));
            page[..200].copy_from_slice(&text(unit + 100, 200));
            assert_eq!(finder.look(&page), Found::Nothing);
        }
    }

    /// With a tenth of what there would have to be, it finds less and stays as it is.
    #[test]
    fn more_units_than_were_told_do_no_harm() {
        let mut finder = Finder::new(NOTES, 20, UNIT).unwrap();
        for unit in 0..500 {
            finder.look(&page(unit));
            finder.keep(Unit(unit));
        }
        let found = (0..500).filter(|unit| finder.look(&page(*unit)) == Found::Same(Unit(*unit)));
        assert!(found.count() >= 20);
    }

    #[test]
    fn pages_of_any_length_are_looked_at() {
        let mut finder = finder_with(3);
        for len in [0, 1, 23, 24, 25, 512, 65_536] {
            let page = text(77, len);
            finder.look(&page);
            finder.keep(Unit(50));
        }
    }
}
