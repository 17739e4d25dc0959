//! Dictionaries: what pages of one file have in common, trained from samples and stored once.
//!
//! A dictionary is identified by its bytes. What zstd needs for decoding is prepared on first use and
//! shared by everyone who holds the same [`Dictionary`]; [`Dictionary::shared`] finds the one that
//! another part of the process holds.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use twox_hash::XxHash3_128;
use zstd_safe::DDict;

/// Number of a dictionary in its file's catalog, from 1; 0 stands for "no dictionary".
pub type DictId = u16;

/// The zstd level of dictionaries themselves. The highest would make them a tenth smaller, and packing noticeably slower.
const PACK_LEVEL: i32 = 9;

/// The bytes of a dictionary and what zstd prepares from them.
pub struct Dictionary {
    bytes: Box<[u8]>,
    hash: u128,
    decode: OnceLock<Option<DDict<'static>>>,
}

/// The dictionaries that someone holds, by [`Dictionary::hash`].
static SHARED: LazyLock<Mutex<HashMap<u128, Weak<Dictionary>>>> = LazyLock::new(Mutex::default);

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
    /// Wraps dictionary bytes. Bytes that zstd refuses (its magic number and then nonsense) fail when
    /// they are used.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Dictionary {
        let bytes = bytes.into();
        let hash = Dictionary::hash_of(&bytes);
        Dictionary {
            bytes,
            hash,
            decode: OnceLock::new(),
        }
    }

    /// The dictionary with these bytes that the process already holds, or a new one, which others
    /// will then find: so that it is prepared once, however many connections use it.
    pub fn shared(bytes: &[u8]) -> Arc<Dictionary> {
        let hash = Dictionary::hash_of(bytes);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.get(&hash).and_then(Weak::upgrade) {
            Some(known) if known.bytes() == bytes => known,
            // Equal hashes can be forged, so they do not stand for equal bytes.
            Some(_) => Arc::new(Dictionary::new(bytes)),
            None => {
                let new = Arc::new(Dictionary::new(bytes));
                shared.retain(|_, held| held.strong_count() > 0);
                shared.insert(hash, Arc::downgrade(&new));
                new
            }
        }
    }

    /// The same, `None` when memory does not suffice: for bytes as long as somebody else made them.
    pub fn try_shared(bytes: &[u8]) -> Option<Arc<Dictionary>> {
        let hash = Dictionary::hash_of(bytes);
        let known = {
            let shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            shared.get(&hash).and_then(Weak::upgrade)
        };
        if let Some(known) = known.filter(|known| known.bytes() == bytes) {
            return Some(known);
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes.len()).ok()?;
        copy.extend_from_slice(bytes);
        let new = Arc::new(Dictionary {
            bytes: copy.into_boxed_slice(),
            hash,
            decode: OnceLock::new(),
        });
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.get(&hash).and_then(Weak::upgrade) {
            // Another thread was faster.
            Some(known) if known.bytes() == bytes => Some(known),
            Some(_) => Some(new),
            None => {
                shared.retain(|_, held| held.strong_count() > 0);
                shared.insert(hash, Arc::downgrade(&new));
                Some(new)
            }
        }
    }

    /// The dictionary as it is stored: a zstd frame of its bytes.
    pub fn pack(&self) -> Vec<u8> {
        zstd::bulk::compress(&self.bytes, PACK_LEVEL).expect("memory for it is there")
    }

    /// The bytes of a dictionary that [`Dictionary::pack`] made; `None` if these are not `len` packed bytes.
    pub fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
        let bytes = zstd::bulk::decompress(packed, len).ok()?;
        (bytes.len() == len).then_some(bytes)
    }

    /// The identity of dictionary bytes: XXH3-128.
    pub fn hash_of(bytes: &[u8]) -> u128 {
        XxHash3_128::oneshot(bytes)
    }

    /// The bytes that zstd is given.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The identity of this dictionary.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// What zstd decodes with; `None` if it refuses these bytes as a dictionary.
    pub fn for_decoding(&self) -> Option<&DDict<'static>> {
        self.decode
            .get_or_init(|| DDict::try_create(&self.bytes))
            .as_ref()
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
    fn packed_bytes_come_back_and_others_do_not() {
        let words = (0..30_000u32).flat_map(|i| (i / 3).to_string().into_bytes());
        let bytes: Vec<u8> = words.take(100_000).collect();
        let packed = Dictionary::new(bytes.clone()).pack();
        assert!(packed.len() < bytes.len() / 2);
        assert_eq!(Dictionary::unpack(&packed, bytes.len()), Some(bytes));
        assert_eq!(Dictionary::unpack(&packed, 99_999), None);
        assert_eq!(Dictionary::unpack(&packed, 100_001), None);
        assert_eq!(Dictionary::unpack(&packed[1..], 100_000), None);
        assert_eq!(
            Dictionary::unpack(&packed[..packed.len() - 1], 100_000),
            None
        );
    }

    #[test]
    fn bytes_that_only_look_like_a_dictionary_are_refused() {
        let mut bytes = 0xec30_a437_u32.to_le_bytes().to_vec();
        bytes.resize(300, 0xff);
        assert!(Dictionary::new(bytes).for_decoding().is_none());
        assert!(
            Dictionary::new(*b"any other bytes")
                .for_decoding()
                .is_some()
        );
    }

    #[test]
    fn equal_bytes_are_held_once_and_let_go() {
        let held = Dictionary::shared(b"held by two");
        assert!(Arc::ptr_eq(&held, &Dictionary::shared(b"held by two")));
        assert!(!Arc::ptr_eq(&held, &Dictionary::shared(b"another one")));
        let weak = Arc::downgrade(&held);
        drop(held);
        assert!(weak.upgrade().is_none());
        assert_eq!(Dictionary::shared(b"held by two").bytes(), b"held by two");
        let held = Dictionary::try_shared(b"held by three").expect("memory");
        assert!(Arc::ptr_eq(&held, &Dictionary::shared(b"held by three")));
        assert!(
            Dictionary::try_shared(b"held by three").is_some_and(|same| Arc::ptr_eq(&held, &same))
        );
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
