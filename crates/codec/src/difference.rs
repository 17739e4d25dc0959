//! A page encoded as its difference to others: zstd finds what they have in common in their bytes, which stand before
//! the page as a *prefix*. Prefix and dictionary exclude each other, in zstd as in the file.

use zstd_safe::CCtx;

use litepack_io::memory::OutOfMemory;

use crate::compress::{DICTIONARY_MAGIC, Level, WORTHWHILE, is_out_of_memory, new_context};

/// Encodes pages as differences, at one level. Prefixes live longer than it, so that their bytes are not copied.
pub struct DifferenceEncoder<'p> {
    level: Level,
    context: Option<CCtx<'p>>,
}

impl std::fmt::Debug for DifferenceEncoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DifferenceEncoder(level {})", self.level)
    }
}

impl<'p> DifferenceEncoder<'p> {
    /// An encoder at `level`, which is clamped to [`crate::LEVELS`].
    pub fn new(level: Level) -> DifferenceEncoder<'p> {
        DifferenceEncoder {
            level: level.clamp(*crate::LEVELS.start(), *crate::LEVELS.end()),
            context: None,
        }
    }

    /// Appends the difference of `page` to `prefix` to `out`: a frame of [`crate::Codec::Zstd`]. False if that does not
    /// save a share of the page that is worth it; `out` is unchanged then. The two are different pieces of memory: zstd
    /// takes no bytes of the page itself for the prefix.
    ///
    /// # Errors
    /// Out of memory; `out` is then unchanged.
    pub fn encode(
        &mut self,
        page: &[u8],
        prefix: &'p [u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, OutOfMemory> {
        let start = out.len();
        let budget = page.len() - page.len() / WORTHWHILE;
        litepack_io::memory::resize(out, start + budget)?;
        let context = match &mut self.context {
            Some(context) => context,
            None => self.context.insert(new_context(self.level)?),
        };
        let room = out.get_mut(start..).unwrap_or_default();
        let encoded = context.ref_prefix(prefix);
        match encoded.and_then(|_| context.compress2(room, page)) {
            Ok(len) if len < budget => {
                out.truncate(start + len);
                Ok(true)
            }
            Err(error) if is_out_of_memory(error) => {
                out.truncate(start);
                Err(OutOfMemory)
            }
            _ => {
                out.truncate(start);
                Ok(false)
            }
        }
    }
}

/// As [`DifferenceEncoder`], for prefixes that do not outlive it. At level 1, which is its default, it takes a few
/// microseconds for a page.
pub struct BriefDifferenceEncoder {
    level: Level,
    /// Created at the first use.
    context: Option<CCtx<'static>>,
}

impl std::fmt::Debug for BriefDifferenceEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BriefDifferenceEncoder")
    }
}

impl Default for BriefDifferenceEncoder {
    fn default() -> BriefDifferenceEncoder {
        BriefDifferenceEncoder::at_level(1)
    }
}

impl BriefDifferenceEncoder {
    /// An encoder at `level`, which is clamped to [`crate::LEVELS`].
    pub fn at_level(level: Level) -> BriefDifferenceEncoder {
        BriefDifferenceEncoder {
            level: level.clamp(*crate::LEVELS.start(), *crate::LEVELS.end()),
            context: None,
        }
    }

    /// Appends the difference of `page` to `prefix` to `out`, which [`crate::Decoder::decode_difference`] undoes. False
    /// if it has more than `budget` bytes; `out` is unchanged then.
    ///
    /// # Errors
    /// Out of memory; `out` is then unchanged.
    pub fn encode(
        &mut self,
        page: &[u8],
        prefix: &[u8],
        budget: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, OutOfMemory> {
        // zstd takes such a prefix for a dictionary.
        if prefix.starts_with(&DICTIONARY_MAGIC) {
            return Ok(false);
        }
        let start = out.len();
        litepack_io::memory::resize(out, start + MAGIC_LEN + budget)?;
        let context = match &mut self.context {
            Some(context) => context,
            None => self.context.insert(new_context(self.level)?),
        };
        let room = out.get_mut(start..).unwrap_or_default();
        // The one call that takes a prefix for itself alone. It writes a frame with its magic number.
        let encoded = context.compress_using_dict(room, page, prefix, self.level);
        let is_full = encoded.is_err_and(is_out_of_memory);
        out.truncate(start + encoded.unwrap_or(0));
        let is_one = out.len() > start + MAGIC_LEN;
        out.drain(start..(start + MAGIC_LEN).min(out.len()));
        if is_full {
            Err(OutOfMemory)
        } else {
            Ok(is_one)
        }
    }
}

/// Bytes of a frame's magic number.
const MAGIC_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, DecodeError, Decoder};
    use proptest::prelude::*;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut numbers = litepack_io::random::SplitMix64::new(seed);
        let bytes = std::iter::repeat_with(|| numbers.next_u64().to_le_bytes());
        bytes.flatten().take(len).collect()
    }

    #[test]
    fn a_page_that_is_in_the_prefix_takes_a_few_bytes() {
        // Other tests of the process may make zstd take small tables.
        let prefix = noise(1, 3 << 12);
        for level in [3, 9, 19] {
            let mut encoder = DifferenceEncoder::new(level);
            let mut decoder = Decoder::default();
            for at in [0, 1, 5000, prefix.len() - 4096] {
                let page = &*prefix[at..at + 4096].to_vec();
                let mut stored = b"before".to_vec();
                let encoded = encoder.encode(page, &prefix, &mut stored).unwrap();
                assert!(encoded, "level {level} at {at}");
                assert!(stored.len() < 6 + 40, "{} at {at}", stored.len());
                let mut found = vec![0; 4096];
                decoder
                    .decode_difference(&stored[6..], &prefix, &mut found)
                    .unwrap();
                assert!(found == page);
                // The same bytes with another prefix are another page, or none.
                let other = noise(2, prefix.len());
                let wrong = decoder.decode_difference(&stored[6..], &other, &mut found);
                assert!(wrong.is_err() || found != page);
            }
        }
    }

    #[test]
    fn what_has_nothing_in_common_is_refused() {
        let (prefix, page) = (noise(3, 4096), noise(4, 4096));
        let mut stored = vec![7];
        let encoded = DifferenceEncoder::new(3).encode(&page, &prefix, &mut stored);
        assert_eq!((encoded, stored), (Ok(false), vec![7]));
    }

    /// zstd takes such bytes for a dictionary of its own unless it is told not to.
    #[test]
    fn a_prefix_that_looks_like_a_dictionary_is_bytes_all_the_same() {
        let mut prefix = noise(5, 4096);
        prefix[..4].copy_from_slice(&[0x37, 0xa4, 0x30, 0xec]);
        for len in [4, 7, 8, 9, 100, 4096] {
            let prefix = &prefix[..len];
            let mut page = prefix.to_vec();
            page.resize(4096, 1);
            let mut stored = Vec::new();
            let encoded = DifferenceEncoder::new(3).encode(&page, prefix, &mut stored);
            assert_eq!(encoded, Ok(true), "{len}");
            let mut found = vec![0; 4096];
            let mut decoder = Decoder::default();
            decoder
                .decode_difference(&stored, prefix, &mut found)
                .unwrap();
            assert!(found == page, "{len}");
        }
    }

    proptest! {
        #[test]
        fn differences_come_back(
            base in proptest::collection::vec(any::<u8>(), 0..6000),
            cut in 0usize..6000,
            tail in proptest::collection::vec(any::<u8>(), 0..600),
            level in 1..20i32,
        ) {
            let mut page = base[cut.min(base.len())..].to_vec();
            page.extend(&tail);
            page.resize(4096, 0);
            let mut stored = Vec::new();
            if DifferenceEncoder::new(level).encode(&page, &base, &mut stored).unwrap() {
                let mut found = vec![0; 4096];
                Decoder::default().decode_difference(&stored, &base, &mut found).unwrap();
                prop_assert_eq!(found, page);
            }
        }

        #[test]
        fn brief_differences_come_back(
            base in proptest::collection::vec(any::<u8>(), 0..6000),
            cut in 0usize..6000,
            tail in proptest::collection::vec(any::<u8>(), 0..600),
            budget in 0usize..4096,
            level in 1..20i32,
        ) {
            let mut page = base[cut.min(base.len())..].to_vec();
            page.extend(&tail);
            page.resize(4096, 0);
            let mut encoder = BriefDifferenceEncoder::at_level(level);
            // The second one with a context that has been used.
            for _ in 0..2 {
                let mut stored = vec![7];
                let is_one = encoder.encode(&page, &base, budget, &mut stored).unwrap();
                prop_assert_eq!(stored[0], 7);
                let most = if is_one { budget } else { 0 };
                prop_assert!(stored.len() <= 1 + most);
                if is_one {
                    let mut found = vec![0; 4096];
                    Decoder::default().decode_difference(&stored[1..], &base, &mut found).unwrap();
                    prop_assert_eq!(&found, &page);
                }
            }
        }

        #[test]
        fn hostile_bytes_are_an_error_or_a_page(
            stored in proptest::collection::vec(any::<u8>(), 0..300),
            prefix in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut page = vec![0; 4096];
            let _ = Decoder::default().decode_difference(&stored, &prefix, &mut page);
        }
    }

    #[test]
    fn a_brief_difference_to_a_like_page_takes_a_few_bytes() {
        let base = noise(7, 4096);
        let mut page = base.clone();
        page[100] ^= 1;
        let mut encoder = BriefDifferenceEncoder::default();
        let mut stored = Vec::new();
        assert_eq!(encoder.encode(&page, &base, 1000, &mut stored), Ok(true));
        assert!(stored.len() < 40, "{}", stored.len());
        // A prefix that zstd would take for a dictionary is refused.
        let mut base = base;
        base[..4].copy_from_slice(&[0x37, 0xa4, 0x30, 0xec]);
        assert_eq!(encoder.encode(&page, &base, 1000, &mut stored), Ok(false));
    }

    #[test]
    fn another_length_than_the_page_has_is_an_error() {
        let page = noise(6, 4096);
        let mut stored = Vec::new();
        assert_eq!(
            DifferenceEncoder::new(3).encode(&page.clone(), &page, &mut stored),
            Ok(true)
        );
        let mut decoder = Decoder::default();
        let mut longer = vec![0; 8192];
        let found = decoder.decode_difference(&stored, &page, &mut longer);
        assert_eq!(found, Err(DecodeError::WrongLength));
        let found = decoder.decode(Codec::Zstd, &stored, None, &mut vec![0; 4096]);
        assert!(found.is_err(), "it needs its prefix");
    }
}
