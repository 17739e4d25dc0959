//! Dictionaries: what pages of one file have in common, trained from samples and stored once.
//!
//! A dictionary is identified by its bytes. What zstd needs for decoding is prepared on first use and
//! shared by everyone who holds the same [`Dictionary`].

use std::sync::OnceLock;

use twox_hash::XxHash3_128;
use zstd_safe::DDict;

/// Number of a dictionary in its file's catalog, from 1; 0 stands for "no dictionary".
pub type DictId = u16;

/// The bytes of a dictionary and what zstd prepares from them.
pub struct Dictionary {
    bytes: Box<[u8]>,
    hash: u128,
    decode: OnceLock<DDict<'static>>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Dictionary({} bytes, {:032x})",
            self.bytes.len(),
            self.hash
        )
    }
}

impl Dictionary {
    /// Wraps dictionary bytes; any bytes are a valid (if useless) dictionary.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Dictionary {
        let bytes = bytes.into();
        let hash = Dictionary::hash_of(&bytes);
        Dictionary {
            bytes,
            hash,
            decode: OnceLock::new(),
        }
    }

    /// The identity of dictionary bytes: XXH3-128.
    pub fn hash_of(bytes: &[u8]) -> u128 {
        XxHash3_128::oneshot(bytes)
    }

    /// The bytes as they are stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The identity of this dictionary.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    pub(crate) fn for_decoding(&self) -> &DDict<'static> {
        self.decode.get_or_init(|| DDict::create(&self.bytes))
    }
}

/// Trains a dictionary of at most `max_len` bytes from samples laid end to end (`lens` are their
/// lengths). `None` when the samples are too few or too alike to nothing for zstd to find one.
pub fn train(samples: &[u8], lens: &[usize], max_len: usize) -> Option<Dictionary> {
    let bytes = zstd::dict::from_continuous(samples, lens, max_len).ok()?;
    (!bytes.is_empty()).then(|| Dictionary::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_samples_give_no_dictionary() {
        assert!(train(b"abc", &[3], 1000).is_none());
        assert!(train(&[], &[], 1000).is_none());
    }

    #[test]
    fn identity_follows_the_bytes() {
        let a = Dictionary::new(*b"one dictionary");
        let b = Dictionary::new(*b"one dictionary");
        let c = Dictionary::new(*b"two dictionary");
        assert_eq!(a.hash(), b.hash());
        assert_ne!(a.hash(), c.hash());
    }
}
