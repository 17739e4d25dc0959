//! Memory that the system may take back, as `crates/reclaimable/src/mapping.rs` has it, with grains of two words.
//!
//! A grain that is taken is a new one, of zeros. Who has seen that it is new sees it from then on, and who has not may
//! still read the former one. But a reader that comes after a writer has seen what the writer has: a processor that still
//! reads a former place by then is not in the model, and so neither is what the fences are for. `tests.rs` of the crate
//! has it.

use std::ops::Range;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The smallest piece that is taken.
pub const GRAIN: usize = 16;
pub(crate) const WORD: usize = 8;
const WORDS: usize = GRAIN / WORD;
/// A grain is taken so often at most.
const TAKEN: usize = 2;

#[derive(Debug)]
struct Grain {
    /// Which of `words` is here.
    now: AtomicUsize,
    words: [[AtomicU64; WORDS]; TAKEN + 1],
    /// Loom sees here whether a thread writes while another one reads or writes.
    access: UnsafeCell<()>,
}

impl Grain {
    fn new() -> Grain {
        Grain {
            now: AtomicUsize::new(0),
            words: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            access: UnsafeCell::new(()),
        }
    }

    fn load(&self, word: usize) -> u64 {
        self.access.with(|_| ());
        self.words[self.now.load(Ordering::Relaxed)][word].load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.access.with_mut(|_| ());
        self.words[self.now.load(Ordering::Relaxed)][word].store(value, Ordering::Relaxed);
    }

    fn take(&self) {
        let now = self.now.load(Ordering::Relaxed);
        if now < TAKEN {
            self.now.store(now + 1, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Memory(Vec<Grain>);

/// All of it is safe here: loom looks after the rest.
impl Memory {
    pub(crate) fn new(len: usize) -> Option<Memory> {
        Some(Memory((0..len / GRAIN).map(|_| Grain::new()).collect()))
    }

    /// The grain and the word of a place that is aligned.
    fn at(&self, place: usize) -> (&Grain, usize) {
        assert_eq!(place % WORD, 0, "not a word's place");
        (&self.0[place / GRAIN], place % GRAIN / WORD)
    }

    pub(crate) unsafe fn word(&self, place: usize) -> u64 {
        let (grain, word) = self.at(place);
        grain.load(word)
    }

    pub(crate) unsafe fn set_word(&self, place: usize, value: u64) {
        let (grain, word) = self.at(place);
        grain.store(word, value);
    }

    pub(crate) unsafe fn copy_to(&self, place: usize, out: &mut [u8]) {
        for (number, bytes) in out.chunks_exact_mut(WORD).enumerate() {
            let (grain, word) = self.at(place + number * WORD);
            bytes.copy_from_slice(&grain.load(word).to_ne_bytes());
        }
    }

    pub(crate) unsafe fn copy_from(&self, place: usize, bytes: &[u8]) {
        for (number, bytes) in bytes.chunks_exact(WORD).enumerate() {
            let (grain, word) = self.at(place + number * WORD);
            grain.store(word, u64::from_ne_bytes(bytes.try_into().expect("a word")));
        }
    }

    pub(crate) fn offer(&self) -> bool {
        true
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn exchange_grain(&self, _number: usize, grain: &[u8; GRAIN]) -> [u8; GRAIN] {
        *grain
    }

    pub(crate) fn discard(&self, range: Range<usize>) {
        self.0[range.start / GRAIN..range.end / GRAIN]
            .iter()
            .for_each(Grain::take);
    }
}
