//! A page encoded as its difference to others: zstd finds what they have in common in their bytes, which stand before
//! the page as a *prefix*. Prefix and dictionary exclude each other, in zstd as in the file.

use zstd_safe::CCtx;

use litepack_io::memory::OutOfMemory;

use crate::compress::{Level, WORTHWHILE, is_out_of_memory, new_context};

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
        fn hostile_bytes_are_an_error_or_a_page(
            stored in proptest::collection::vec(any::<u8>(), 0..300),
            prefix in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut page = vec![0; 4096];
            let _ = Decoder::default().decode_difference(&stored, &prefix, &mut page);
        }
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
