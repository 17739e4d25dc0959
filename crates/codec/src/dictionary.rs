//! Dictionaries: trained on sample pages, stored once, and prepared for zstd on first use.
//!
//! A dictionary is identified by its bytes. [`Dictionary::shared`] finds one that another part of the process holds, so
//! that it is prepared once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use litepack_io::aside::aside;
use litepack_io::interrupt::Halt;
use litepack_io::memory::OutOfMemory;
use twox_hash::XxHash3_128;
use zstd_safe::{CCtx, DCtx, DDict};

/// Number of a dictionary in its file's catalog, from 1; 0 stands for "no dictionary".
pub type DictId = u16;

/// A dictionary of more bytes is a long one: for levels from [`crate::STRONG_LEVEL`] on.
pub const SHORT_LEN_MAX: usize = 1 << 20;

/// The zstd level of stored dictionaries. The highest would make them a tenth smaller, and packing noticeably slower.
const PACK_LEVEL: i32 = 9;

/// The bytes of a dictionary and what zstd prepares from them.
pub struct Dictionary {
    bytes: Box<[u8]>,
    hash: u128,
    decode: OnceLock<DDict<'static>>,
}

/// The dictionaries in use, by [`Dictionary::hash`].
static SHARED: Mutex<Shared> = Mutex::new(Shared {
    held: BTreeMap::new(),
    sweep_at: SWEEP_MIN,
});

/// Bytes of a piece of a sample in a long dictionary.
const PIECE: usize = 1 << 10;

/// With fewer entries than this, unused ones are not removed.
const SWEEP_MIN: usize = 16;

struct Shared {
    held: BTreeMap<u128, Weak<Dictionary>>,
    /// At this number of entries, unused ones are removed.
    sweep_at: usize,
}

impl Shared {
    fn sweep(&mut self) {
        if self.held.len() >= self.sweep_at {
            self.held.retain(|_, held| held.strong_count() > 0);
            self.sweep_at = SWEEP_MIN.max(2 * self.held.len());
        }
    }
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
    /// A dictionary of these bytes. Bytes that zstd refuses (its magic number, then nonsense) fail on first use.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Dictionary {
        let bytes = bytes.into();
        let hash = Dictionary::hash_of(&bytes);
        Dictionary::with_hash(bytes, hash)
    }

    fn with_hash(bytes: impl Into<Box<[u8]>>, hash: u128) -> Dictionary {
        Dictionary {
            bytes: bytes.into(),
            hash,
            decode: OnceLock::new(),
        }
    }

    /// The dictionary with these bytes that the process already holds, or a new one that others will find.
    pub fn shared(bytes: Vec<u8>) -> Arc<Dictionary> {
        let hash = Dictionary::hash_of(&bytes);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.held.get(&hash).and_then(Weak::upgrade) {
            Some(known) if *known.bytes() == *bytes => known,
            // Hashes can be forged: equal ones do not prove equal bytes.
            Some(_) => Arc::new(Dictionary::with_hash(bytes, hash)),
            None => {
                let new = Arc::new(Dictionary::with_hash(bytes, hash));
                shared.sweep();
                shared.held.insert(hash, Arc::downgrade(&new));
                new
            }
        }
    }

    /// The dictionary as it is stored: a zstd frame of its bytes.
    ///
    /// # Errors
    /// Out of memory.
    pub fn pack(&self) -> Result<Vec<u8>, OutOfMemory> {
        let mut packed =
            litepack_io::memory::with_room(zstd_safe::compress_bound(self.bytes.len()))?;
        let mut context = CCtx::try_create().ok_or(OutOfMemory)?;
        let compressed = context.compress(&mut packed, &self.bytes, PACK_LEVEL);
        // There is enough room, so nothing else can fail.
        compressed.map_err(|_| OutOfMemory)?;
        Ok(packed)
    }

    /// The bytes of a dictionary that [`Dictionary::pack`] made; `None` if these are not `len` packed bytes.
    ///
    /// # Errors
    /// Out of memory.
    pub fn unpack(packed: &[u8], len: usize) -> Result<Option<Vec<u8>>, OutOfMemory> {
        let mut bytes = litepack_io::memory::with_room(len)?;
        let mut context = DCtx::try_create().ok_or(OutOfMemory)?;
        let unpacked = context.decompress(&mut bytes, packed);
        Ok((unpacked == Ok(len)).then_some(bytes))
    }

    /// The identity of dictionary bytes: XXH3-128.
    pub fn hash_of(bytes: &[u8]) -> u128 {
        XxHash3_128::oneshot(bytes)
    }

    /// The bytes of the dictionary.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The identity of this dictionary.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// The dictionary prepared for decoding; `None` if zstd refuses these bytes, or has no memory to prepare them now.
    pub fn for_decoding(&self) -> Option<&DDict<'static>> {
        match self.decode.get() {
            Some(prepared) => Some(prepared),
            None => {
                let prepared = DDict::try_create(&self.bytes)?;
                Some(self.decode.get_or_init(|| prepared))
            }
        }
    }
}

/// Trains a dictionary of at most `max_len` bytes on samples laid end to end (`lens` are their lengths). `None` if zstd
/// finds the samples too few or too different.
pub fn train(samples: &[u8], lens: &[usize], max_len: usize) -> Option<Dictionary> {
    let total = lens
        .iter()
        .try_fold(0usize, |sum, len| sum.checked_add(*len));
    (total == Some(samples.len())).then_some(())?;
    let mut bytes = litepack_io::memory::with_room(max_len).ok()?;
    zstd_safe::train_from_buffer(&mut bytes, samples, lens).ok()?;
    (!bytes.is_empty()).then(|| Dictionary::new(bytes))
}

/// Samples that dictionaries are trained on.
#[derive(Debug, Default)]
pub struct Samples {
    /// One behind the other, as zstd's trainer wants them.
    bytes: Vec<u8>,
    lens: Vec<usize>,
}

impl Samples {
    /// None, with room for so many, which have so many bytes.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn with_room(count: usize, bytes: usize) -> Result<Samples, OutOfMemory> {
        Ok(Samples {
            bytes: litepack_io::memory::with_room(bytes)?,
            lens: litepack_io::memory::with_room(count)?,
        })
    }

    /// Adds one.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn push(&mut self, sample: &[u8]) -> Result<(), OutOfMemory> {
        litepack_io::memory::room(&mut self.lens, 1)?;
        litepack_io::memory::append(&mut self.bytes, sample)?;
        self.lens.push(sample.len());
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// A dictionary of about `len` bytes: a trained one, and after it pieces of the samples from all over them. What
    /// strings have in common is trained; the pieces have what comes again far away, once or twice. zstd's tables stay
    /// those of the trained one: with a quarter of `len` or more it has seen offsets of nearly every length. `None` if it
    /// would not be longer.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn extend(
        &self,
        trained: &Dictionary,
        len: usize,
    ) -> Result<Option<Dictionary>, OutOfMemory> {
        let wanted = len
            .saturating_sub(trained.bytes().len())
            .min(self.bytes.len());
        let pieces = wanted / PIECE;
        if pieces == 0 {
            return Ok(None);
        }
        let mut bytes = litepack_io::memory::with_room(trained.bytes().len() + pieces * PIECE)?;
        bytes.extend_from_slice(trained.bytes());
        // Each from the beginning of its part of the samples.
        let parts = self.bytes.chunks(self.bytes.len() / pieces);
        for part in parts.take(pieces) {
            bytes.extend_from_slice(part.get(..PIECE).unwrap_or(part));
        }
        Ok(Some(Dictionary::new(bytes)))
    }

    /// As [`train`]. Training cannot be stopped: when the caller is interrupted, it goes on on a thread of its own, holds
    /// the samples until it ends, and what it makes is dropped ([`litepack_io::aside`]).
    ///
    /// # Errors
    /// When the caller was interrupted, or there is no memory for a thread.
    pub fn train(self: &Arc<Samples>, max_len: usize) -> Result<Option<Dictionary>, Halt> {
        let samples = Arc::clone(self);
        aside(move || train(&samples.bytes, &samples.lens, max_len))
    }
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
    fn training_ends_when_it_is_interrupted() {
        let mut samples = Samples::default();
        for i in 0..1000_u32 {
            samples
                .push(&i.to_string().repeat(20).into_bytes())
                .unwrap();
        }
        let samples = Arc::new(samples);
        let ended = litepack_io::interrupt::listen(|| true, || samples.train(4096).map(|_| ()));
        assert_eq!(ended, Err(Halt::Interrupted));
        assert!(samples.train(4096).unwrap().is_some());
    }

    #[test]
    fn an_extended_dictionary_has_the_trained_one_and_pieces_from_all_over() {
        let mut samples = Samples::default();
        for i in 0..2000_u32 {
            let words = (0..150).map(|word| ((i * 7919 + word * word) % 5000).to_string());
            samples
                .push(words.collect::<Vec<_>>().join(" ").as_bytes())
                .unwrap();
        }
        let samples = Arc::new(samples);
        let trained = samples.train(16 << 10).unwrap().unwrap();
        let extended = samples.extend(&trained, 200 << 10).unwrap().unwrap();
        assert!(extended.bytes().starts_with(trained.bytes()));
        assert!((190 << 10..=200 << 10).contains(&extended.bytes().len()));
        assert!(extended.for_decoding().is_some());
        // It has some of the last sample's neighbours, too.
        let last = &samples.bytes[samples.bytes.len() - samples.bytes.len() / 100..];
        let tail = &extended.bytes()[extended.bytes().len() - 200..];
        assert!(last.windows(100).any(|bytes| *bytes == tail[..100]));
        assert!(samples.extend(&trained, 16 << 10).unwrap().is_none());
        // No more than there is.
        let all = samples.extend(&trained, 100 << 20).unwrap().unwrap();
        assert!(all.bytes().len() <= trained.bytes().len() + samples.bytes.len());
    }

    #[test]
    fn packed_bytes_come_back_and_others_do_not() {
        let words = (0..30_000u32).flat_map(|i| (i / 3).to_string().into_bytes());
        let bytes: Vec<u8> = words.take(100_000).collect();
        let packed = Dictionary::new(bytes.clone()).pack().unwrap();
        assert!(packed.len() < bytes.len() / 2);
        let unpack = |packed: &[u8], len| Dictionary::unpack(packed, len).unwrap();
        assert_eq!(unpack(&packed, bytes.len()), Some(bytes));
        assert_eq!(unpack(&packed, 99_999), None);
        assert_eq!(unpack(&packed, 100_001), None);
        assert_eq!(unpack(&packed[1..], 100_000), None);
        assert_eq!(unpack(&packed[..packed.len() - 1], 100_000), None);
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
        let shared = |bytes: &[u8]| Dictionary::shared(bytes.to_vec());
        let held = shared(b"held by two");
        assert!(Arc::ptr_eq(&held, &shared(b"held by two")));
        assert!(!Arc::ptr_eq(&held, &shared(b"another one")));
        let weak = Arc::downgrade(&held);
        drop(held);
        assert!(weak.upgrade().is_none());
        assert_eq!(shared(b"held by two").bytes(), b"held by two");
    }

    #[test]
    fn those_that_nobody_holds_are_forgotten() {
        for number in 0..1000_u32 {
            Dictionary::shared([b"let go at once".as_slice(), &number.to_le_bytes()].concat());
        }
        let shared = SHARED.lock().unwrap();
        assert!(shared.held.len() < 200, "{}", shared.held.len());
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
