//! Sampled hashes of 24 bytes at every offset of a page. The first 8 bytes alone decide whether a hash is taken, so equal
//! bytes are sampled wherever they are, and an offset that is passed over costs a multiplication.

/// Bytes that are hashed together.
const LEN: usize = 24;
/// Odd factors: different words stay different. The high bits of a product depend on all bits of the word.
const CHOICE: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTORS: [u64; LEN / 8] = [
    0x2545_f491_4f6c_dd1d,
    0xd6e8_feb8_6659_fd93,
    0xff51_afd7_ed55_8ccd,
];

/// Takes hashes of pages; the memory is used again.
#[derive(Debug)]
pub(super) struct Shingles {
    /// A hash is taken where the first word gives less.
    below: u64,
    hashes: Vec<u64>,
}

impl Shingles {
    /// Takes one in `rate` hashes.
    pub(super) fn new(rate: u64) -> Shingles {
        Shingles {
            below: u64::MAX / rate.max(1),
            hashes: Vec::new(),
        }
    }

    /// Those of the page that was taken last, each once, in the order of the hashes.
    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    pub(super) fn take(&mut self, page: &[u8]) {
        self.hashes.clear();
        // In locals, which stay in registers.
        let below = self.below;
        for (at, word) in page.array_windows::<8>().enumerate() {
            if u64::from_le_bytes(*word).wrapping_mul(CHOICE) < below {
                self.add(page, at);
            }
        }
        self.hashes.sort_unstable();
        self.hashes.dedup();
    }

    /// Takes the hash at an offset, if there are enough bytes. Apart from the loop, which passes over most offsets.
    #[inline(never)]
    fn add(&mut self, page: &[u8], at: usize) {
        if let Some(window) = page.get(at..at + LEN)
            && !is_run(window)
        {
            self.hashes.push(hash(window));
        }
    }
}

/// The hash of 24 bytes.
fn hash(window: &[u8]) -> u64 {
    let (words, _) = window.as_chunks::<8>();
    let hash = words
        .iter()
        .zip(FACTORS)
        .fold(0_u64, |hash, (word, factor)| {
            let mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(factor);
            mixed ^ mixed >> 32
        });
    hash.wrapping_mul(CHOICE)
}

/// Whether all bytes are the same: runs are nothing to have in common.
fn is_run(window: &[u8]) -> bool {
    let first = window.first();
    window.iter().all(|byte| Some(byte) == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_io::random::SplitMix64;

    fn taken(page: &[u8], rate: u64) -> Vec<u64> {
        let mut shingles = Shingles::new(rate);
        shingles.take(page);
        shingles.hashes().to_vec()
    }

    /// Whatever stands before and behind them, and at any offset.
    #[test]
    fn equal_bytes_have_equal_hashes() {
        let mut random = SplitMix64::new(3);
        let mut bytes = |len: usize| -> Vec<u8> {
            let byte = |_| (random.next_u64() % 7) as u8;
            (0..len).map(byte).collect()
        };
        for len in [0, 1, 23, 24, 25, 100, 3000] {
            for rate in [1, 4, 32] {
                let common = bytes(len);
                let expected = taken(&common, rate);
                for shift in 0..20 {
                    let page = [bytes(shift), common.clone(), bytes(50)].concat();
                    let all = taken(&page, rate);
                    assert!(
                        expected.iter().all(|hash| all.contains(hash)),
                        "{len} {rate}"
                    );
                }
            }
        }
        // Each byte counts.
        let text = bytes(LEN);
        for at in 0..LEN {
            let mut other = text.clone();
            other[at] ^= 1;
            assert_ne!(taken(&text, 1), taken(&other, 1), "{at}");
        }
    }

    #[test]
    fn runs_of_one_byte_have_none() {
        assert!(taken(&[b' '; 4096], 1).is_empty());
        assert_eq!(taken(b"aaaaaaaaaaaaaaaaaaaaaaaab", 1).len(), 1);
    }

    #[test]
    fn about_one_in_so_many_is_taken() {
        let mut random = SplitMix64::new(4);
        let page: Vec<u8> = (0..1 << 20).map(|_| random.next_u64() as u8).collect();
        for rate in [1, 32, 1000] {
            let wanted = page.len() / rate as usize;
            let taken = taken(&page, rate).len();
            assert!(
                (wanted * 9 / 10..=wanted * 11 / 10).contains(&taken),
                "{rate}: {taken}"
            );
        }
    }
}
