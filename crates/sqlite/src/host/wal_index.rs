//! The state of checkpoints in the WAL index (<https://sqlite.org/walformat.html#the_wal_index_file_format>).
//!
//! In WAL mode only checkpoints change what the database holds, and a reader takes from it only what the index says is
//! there. So a handle that holds all of it need not look for newer commits.

/// A medium that may have a WAL index.
pub(crate) trait Words {
    /// A word of the index, by its offset; 0 without one.
    fn word(&self, offset: usize) -> u32;
}

/// How far checkpoints have got in which WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoints {
    salt: [u32; 2],
    /// Frames of the WAL that are in the database.
    frames: u32,
}

/// The header is there twice, the second copy is written first.
const COPIES: [usize; 2] = [0, 48];
/// `isInit`, the first of four bytes, within a copy.
const IS_MADE: usize = 12;
/// Frames in the WAL, within a copy.
const FRAMES: usize = 16;
const SALTS: [usize; 2] = [32, 36];
/// `nBackfill`.
pub(crate) const BACKFILL: usize = 96;
/// Ours: a count that goes up when a checkpoint has failed and SQLite is about to tell readers that it succeeded, and
/// again when that is taken back. So it is odd in between, and what was read of the index was true if the number is even
/// and the same before and after. The bytes are those of SQLite's locks, which it never reads or writes.
pub(crate) const DOUBT: usize = 120;

impl Checkpoints {
    /// Reads the index by its words of 32 bits at given offsets. `None` while it is being changed or in doubt, and when
    /// there is no WAL yet: then nothing tells one from the next.
    pub(crate) fn read(word: impl Fn(usize) -> u32) -> Option<Checkpoints> {
        let header = |copy: usize| (SALTS.map(|salt| word(copy + salt)), word(copy + FRAMES));
        let doubt = word(DOUBT);
        let (salt, in_wal) = header(COPIES[0]);
        let frames = word(BACKFILL);
        let whole = (salt, in_wal) == header(COPIES[1]);
        let is_true = doubt.is_multiple_of(2) && word(DOUBT) == doubt;
        // A WAL that begins anew gets its header before the number of frames that are in the database is reset.
        (whole && is_true && salt != [0; 2] && frames <= in_wal)
            .then_some(Checkpoints { salt, frames })
    }
}

/// Words of a copy of the header.
const HEADER_WORDS: usize = 12;

/// The header of the index, which is another one after each commit to the WAL, and in each WAL: it has a count of commits,
/// the WAL's salts, how many frames were committed, and the checksum that runs through all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexHeader([u32; HEADER_WORDS]);

impl IndexHeader {
    /// Reads it. `None` while it is being changed, and when there are no frames.
    pub(crate) fn read(word: impl Fn(usize) -> u32) -> Option<IndexHeader> {
        let [first, second] = COPIES.map(|copy| std::array::from_fn(|at| word(copy + 4 * at)));
        let [is_made, ..] = word(IS_MADE).to_ne_bytes();
        let is_told = first == second && is_made != 0 && word(FRAMES) != 0;
        is_told.then_some(IndexHeader(first))
    }
}

/// Which WAL the index is of, by its salts: another one after each restart. `None` if the index was not made from one yet.
pub(crate) fn wal_of(index: &impl Words) -> Option<[u32; 2]> {
    let [is_made, ..] = index.word(IS_MADE).to_ne_bytes();
    let salts = SALTS.map(|salt| index.word(salt));
    Some(salts).filter(|salts| is_made != 0 && *salts != [0; 2])
}

/// Whether all frames of the WAL are in the database, or there are none. No reader is at a former state then: a
/// checkpoint copies no further than the oldest one reads. The caller holds the checkpoint lock, which keeps others from
/// making the index anew, or from restarting the WAL.
pub(crate) fn is_all_in_database(word: impl Fn(usize) -> u32) -> bool {
    let doubt = word(DOUBT);
    let whole = (0..COPIES[1])
        .step_by(4)
        .all(|at| word(at) == word(COPIES[1] + at));
    // An index that was not made from the WAL yet is all zeros.
    let [is_made, ..] = word(IS_MADE).to_ne_bytes();
    let complete = word(BACKFILL) == word(FRAMES);
    whole && is_made != 0 && complete && doubt.is_multiple_of(2) && word(DOUBT) == doubt
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// An index whose copies of the header say (salt, frames in the WAL).
    fn read(first: (u32, u32), second: (u32, u32), backfill: u32) -> Option<Checkpoints> {
        read_in_doubt(first, second, backfill, || 4)
    }

    fn read_in_doubt(
        first: (u32, u32),
        second: (u32, u32),
        backfill: u32,
        doubt: impl Fn() -> u32,
    ) -> Option<Checkpoints> {
        Checkpoints::read(|offset| match offset {
            120 => doubt(),
            16 => first.1,
            32 => first.0,
            64 => second.1,
            80 => second.0,
            96 => backfill,
            36 | 84 => 7,
            _ => panic!("offset {offset}"),
        })
    }

    #[test]
    fn the_same_checkpoints_are_equal_and_others_are_not() {
        let some = read((5, 100), (5, 100), 40).unwrap();
        assert_eq!(read((5, 120), (5, 120), 40), Some(some));
        assert_ne!(read((5, 100), (5, 100), 41), Some(some));
        assert_ne!(read((6, 100), (6, 100), 40), Some(some));
    }

    #[test]
    fn an_index_that_is_being_changed_tells_nothing() {
        // SQLite writes the second copy, then the first, then the number of frames.
        assert_eq!(read((5, 100), (6, 0), 100), None);
        assert_eq!(read((6, 100), (6, 0), 100), None);
        assert_eq!(read((5, 0), (6, 0), 0), None);
        assert_eq!(read((6, 0), (6, 0), 100), None);
        assert!(read((6, 0), (6, 0), 0).is_some());
    }

    #[test]
    fn an_index_in_doubt_tells_nothing() {
        let read = |doubt: &dyn Fn() -> u32| read_in_doubt((5, 100), (5, 100), 40, doubt);
        let count = Cell::new(0);
        // It was in doubt, and is so no more.
        let changing = || count.replace(2);
        assert_eq!(read(&changing), None);
        assert_eq!(read(&|| 1), None);
        assert!(read(&|| 2).is_some());
    }

    #[test]
    fn all_of_the_wal_is_in_the_database() {
        let is_all = |first: u32, second: u32, backfill: u32, made: u8, doubt: u32| {
            is_all_in_database(|offset| match offset {
                16 => first,
                64 => second,
                12 | 60 => u32::from_ne_bytes([made, 0, 0, 16]),
                96 => backfill,
                120 => doubt,
                _ => 7,
            })
        };
        assert!(is_all(100, 100, 100, 1, 4));
        assert!(is_all(0, 0, 0, 1, 0), "no WAL");
        assert!(!is_all(100, 100, 99, 1, 4), "some frames are not");
        assert!(!is_all(101, 100, 100, 1, 4), "it is being changed");
        assert!(!is_all(0, 0, 0, 0, 0), "the index is not made yet");
        assert!(!is_all(100, 100, 100, 1, 5), "a checkpoint has failed");
    }

    #[test]
    fn each_word_of_the_header_tells_one_from_another() {
        // Made, with five frames.
        let words = |at: usize| match at % 48 {
            12 => u32::from_ne_bytes([1, 0, 0, 16]),
            16 => 5,
            at => at as u32,
        };
        let read = |word: &dyn Fn(usize) -> u32| IndexHeader::read(word);
        let some = read(&words);
        assert!(some.is_some());
        for changed in (0..48).step_by(4) {
            let other = |at| words(at) + u32::from(at % 48 == changed) * 256;
            assert!(read(&other).is_some() && read(&other) != some, "{changed}");
            for copy in [0, 48] {
                let torn = |at| words(at) + u32::from(at == copy + changed) * 256;
                assert_eq!(read(&torn), None, "{changed} in {copy}");
            }
        }
        let without = |offset: usize| move |at| if at % 48 == offset { 0 } else { words(at) };
        assert_eq!(read(&without(12)), None, "it is not made");
        assert_eq!(read(&without(16)), None, "no frames");
    }

    #[test]
    fn without_a_wal_there_is_nothing_to_tell() {
        assert_eq!(Checkpoints::read(|_| 0), None);
    }
}
