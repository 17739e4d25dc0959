//! Random numbers from a seed, for choosing samples and for tests. Not for secrets.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). A seed means the same numbers
/// on every machine and in every version.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// From the seed of one number to that of the next.
    pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// A generator whose numbers are decided by `seed` alone.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(SplitMix64::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A generator for one of several purposes that share a seed.
    pub fn derived(seed: u64, purpose: u64) -> SplitMix64 {
        let mut random = SplitMix64(seed ^ purpose.wrapping_mul(SplitMix64::STEP));
        random.next_u64();
        random
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64().checked_rem(end).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of the paper's reference implementation.
    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}
