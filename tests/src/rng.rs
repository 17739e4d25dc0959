//! Random choices of tests: a seed printed by a failing one means the same run on every machine.

use litepack_io::random::SplitMix64;

/// Pseudo-random numbers from one 64-bit seed.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// A generator whose whole future is decided by `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(SplitMix64::new(seed ^ 0x6c69_7465_7061_636b))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0);
        self.bits() % end
    }

    /// A number in `first..=last`.
    pub fn between(&mut self, first: i64, last: i64) -> i64 {
        first + self.below((last - first + 1) as u64) as i64
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// `len` bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.bits().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// A few words of text that compress as text does.
    pub fn text(&mut self, words: usize) -> String {
        const WORDS: [&str; 24] = [
            "amber", "birch", "copper", "delta", "ember", "fjord", "granite", "harbor", "iris",
            "juniper", "kelp", "lantern", "maple", "north", "ochre", "pine", "quartz", "river",
            "slate", "timber", "umber", "violet", "willow", "zinc",
        ];
        let words: Vec<&str> = (0..words).map(|_| *self.pick(&WORDS)).collect();
        words.join(" ")
    }
}
