//! How much work is put into dictionaries, and which lengths are tried.

use litepack_codec::{Encoder, Level, SHORT_LEN_MAX, STRONG_LEVEL};
use litepack_io::fixed;

/// A dictionary takes at most this share of its pages, but may be as short as 4 KiB.
const SHARE: u64 = 100;
const LEN_MIN: usize = 4 << 10;
/// A long dictionary takes at most this share of its pages, and so many bytes: the next doubling saved no more than its
/// own bytes on any data that was measured.
const LONG_SHARE: u64 = 16;
const LONG_MAX: usize = 4 << 20;
/// Notes on text that units have in common, where a program does nothing else: one in 32 hashes of 200 MB.
const NOTES_MAX: usize = 64 << 20;

/// The level at which a whole database is packed, unless another one is chosen. Text is 4 to 7 % smaller than at the level
/// of SQLite's own writes, and packing takes up to three tenths longer.
pub const PACK_LEVEL: Level = 5;

/// How much work is put into dictionaries.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// zstd level of the pages.
    pub level: Level,
    /// Whether pages are laid out by column.
    pub columnar: bool,
    /// Longest dictionary, in bytes; 0 for none at all.
    pub len_max: usize,
    /// Lengths tried: the longest one allowed, those shorter by this factor, and 4 KiB.
    pub step: usize,
    /// Bytes of sample for each byte of dictionary.
    pub samples: usize,
    /// About so many bytes of sample in all: if the dictionaries that are tried want more, each has fewer, but at least
    /// half of `samples`.
    pub samples_max: usize,
    /// Threads that train at the same time.
    pub threads: usize,
    /// Bytes of all long dictionaries together; 0 for none.
    pub long_max: usize,
    /// Bytes of notes on which units have text in common, to store them by reference; 0 for no references. In a small
    /// container it is less.
    pub notes_max: usize,
    /// Whether units of one tree may be stored together, which makes reading one alone slower.
    pub groups: bool,
}

impl Effort {
    /// As much as does not make packing slow: a long dictionary and a short one.
    pub fn ordinary(level: Level, threads: usize) -> Effort {
        Effort {
            level,
            columnar: true,
            len_max: 256 << 10,
            step: 64,
            samples: 16,
            samples_max: usize::MAX,
            threads,
            long_max: 0,
            notes_max: NOTES_MAX,
            groups: false,
        }
    }

    /// As much as makes the file smaller: more lengths, and longer ones. Long dictionaries where zstd is strong enough for
    /// them, and there is memory for its tables.
    pub fn best(level: Level, threads: usize) -> Effort {
        Effort {
            level,
            columnar: true,
            len_max: 1 << 20,
            step: 4,
            samples: 32,
            samples_max: usize::MAX,
            threads,
            long_max: match level >= STRONG_LEVEL && fixed::shortage().is_none() {
                true => 8 << 20,
                false => 0,
            },
            notes_max: NOTES_MAX,
            groups: level >= STRONG_LEVEL,
        }
    }

    /// Bytes of sample for each byte of dictionary, if all of them may have so many bytes together.
    pub(super) fn samples_for(self, lengths: usize) -> usize {
        let each = self.samples_max / lengths.max(1);
        each.clamp(self.samples / 2, self.samples)
    }

    pub(crate) fn encoder(self) -> Encoder {
        Encoder::with_columnar(self.level, self.columnar)
    }

    /// The lengths of long dictionaries to try for a group of this size, shortest first.
    pub(super) fn long_lengths(self, bytes: u64) -> impl Iterator<Item = usize> {
        let longest = usize::try_from(bytes / LONG_SHARE).unwrap_or(usize::MAX);
        let longest = longest.min(LONG_MAX).min(self.long_max);
        let half = Some(longest / 2).filter(|half| *half > 2 * SHORT_LEN_MAX);
        let all = half.into_iter().chain([longest]);
        all.filter(|len| *len > SHORT_LEN_MAX)
    }

    /// The lengths to try for a group of this size, longest first.
    pub(super) fn lengths(self, bytes: u64) -> impl Iterator<Item = usize> {
        let longest = usize::try_from(bytes / SHARE).unwrap_or(usize::MAX);
        let longest = longest.clamp(LEN_MIN, self.len_max.max(LEN_MIN));
        let step = self.step.max(2);
        let first = (self.len_max > 0).then_some(longest);
        std::iter::successors(first, move |len| {
            (*len > LEN_MIN).then(|| (len / step).max(LEN_MIN))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many groups whose dictionaries are short want no more than a few with long ones.
    #[test]
    fn samples_are_fewer_only_if_all_together_are_too_many() {
        let effort = Effort {
            samples_max: 16 << 20,
            ..Effort::ordinary(5, 1)
        };
        assert_eq!(effort.samples_for(0), 16);
        assert_eq!(effort.samples_for(1 << 20), 16);
        assert_eq!(effort.samples_for((4 << 20) / 3), 12);
        assert_eq!(effort.samples_for(64 << 20), 8);
        assert_eq!(Effort::ordinary(5, 1).samples_for(64 << 20), 16);
    }
}
