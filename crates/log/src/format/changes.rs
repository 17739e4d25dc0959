//! A page as the bytes in which it differs from another of the same length. It takes half a microsecond, where zstd takes
//! three.
//!
//! Each run of changed bytes is: how many equal bytes come before it (varint), its length (varint), its bytes. Behind the
//! last one all is equal.

use litepack_io::bytes::{Reader, put_varint};
use litepack_io::memory::{OutOfMemory, room};

/// Two runs with fewer equal bytes between them are one.
const GAP: usize = 4;
/// Bytes that are compared at once.
const BLOCK: usize = 32;
/// Bytes that tell of a run, at most.
const RUN_LEN_MAX: usize = 6;

/// Appends what is different in `page` to `out`; false if that would take more than `budget` bytes. `out` is unchanged
/// then.
pub fn encode(
    page: &[u8],
    base: &[u8],
    budget: usize,
    out: &mut Vec<u8>,
) -> Result<bool, OutOfMemory> {
    if page.len() != base.len() {
        return Ok(false);
    }
    room(out, budget)?;
    let start = out.len();
    let mut told = 0;
    while let Some(from) = difference(page, base, told) {
        let left = (start + budget).saturating_sub(out.len() + RUN_LEN_MAX);
        let Some(to) = end(page, base, from, left) else {
            out.truncate(start);
            return Ok(false);
        };
        put_varint(out, (from - told) as u64);
        put_varint(out, (to - from) as u64);
        out.extend(page.get(from..to).unwrap_or_default());
        told = to;
    }
    Ok(true)
}

/// The first different byte from `from` on.
fn difference(page: &[u8], base: &[u8], from: usize) -> Option<usize> {
    let (page, base) = (page.get(from..)?, base.get(from..)?);
    let blocks = page.as_chunks::<BLOCK>().0.iter();
    let blocks = blocks.zip(base.as_chunks::<BLOCK>().0);
    let equal = blocks.take_while(|(page, base)| page == base).count() * BLOCK;
    let rest = page.get(equal..)?.iter().zip(base.get(equal..)?);
    let within = rest.take_while(|(page, base)| page == base).count();
    let at = equal + within;
    (at < page.len()).then_some(from + at)
}

/// Where the run ends that begins at `from`; `None` if it has more than `most` bytes.
fn end(page: &[u8], base: &[u8], from: usize, most: usize) -> Option<usize> {
    let (page, base) = (page.get(from..)?, base.get(from..)?);
    let (mut len, mut equal) = (0, 0);
    for (page, base) in page.iter().zip(base) {
        if page == base {
            equal += 1;
            if equal == GAP {
                break;
            }
        } else {
            len += equal + 1;
            equal = 0;
            if len > most {
                return None;
            }
        }
    }
    Some(from + len)
}

/// Changes `page`, which is the base, by what was stored; false if it cannot be that.
#[must_use]
pub fn apply(stored: &[u8], page: &mut [u8]) -> bool {
    let mut reader = Reader::new(stored);
    let mut at = 0_usize;
    while !reader.rest().is_empty() {
        let mut number = || usize::try_from(reader.varint()?).ok();
        let (Some(equal), Some(len)) = (number(), number()) else {
            return false;
        };
        let Some(from) = at.checked_add(equal) else {
            return false;
        };
        let Some(bytes) = reader.bytes(len) else {
            return false;
        };
        let to = from.checked_add(len).and_then(|to| page.get_mut(from..to));
        let Some(to) = to else {
            return false;
        };
        to.copy_from_slice(bytes);
        at = from + len;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_io::random::SplitMix64;

    fn noise(random: &mut SplitMix64, len: usize) -> Vec<u8> {
        (0..len).map(|_| random.below(256) as u8).collect()
    }

    #[test]
    fn runs_are_as_documented() {
        let base = [0; 300];
        let mut page = base;
        page[200] = 7;
        page[203] = 8;
        page[299] = 9;
        let mut out = vec![1];
        assert_eq!(encode(&page, &base, 100, &mut out), Ok(true));
        assert_eq!(out, [1, 0xc8, 1, 4, 7, 0, 0, 8, 95, 1, 9]);
        assert_eq!(encode(&base, &base, 100, &mut out), Ok(true));
        assert_eq!(out.len(), 11, "equal pages have no run");
        assert_eq!(encode(&page, &base[1..], 100, &mut out), Ok(false));
        assert_eq!(out.len(), 11);
    }

    #[test]
    fn pages_come_back_and_take_no_more_than_they_may() {
        for seed in 0..2000 {
            let mut random = SplitMix64::new(seed);
            let len = 1 + random.below(600) as usize;
            let base = noise(&mut random, len);
            let mut page = base.clone();
            for _ in 0..random.below(8) {
                let from = random.below(len as u64) as usize;
                let to = len.min(from + random.below(40) as usize);
                let bytes = noise(&mut random, to - from);
                page[from..to].copy_from_slice(&bytes);
            }
            let budget = random.below(400) as usize;
            let mut out = b"before".to_vec();
            let is_one = encode(&page, &base, budget, &mut out).unwrap();
            assert!(out.len() <= 6 + budget, "seed {seed}");
            if is_one {
                let mut found = base.clone();
                assert!(apply(&out[6..], &mut found), "seed {seed}");
                assert!(found == page, "seed {seed}");
            } else {
                assert_eq!(out, b"before");
            }
        }
    }

    #[test]
    fn hostile_bytes_stay_within_the_page() {
        for seed in 0..5000 {
            let mut random = SplitMix64::new(seed);
            let len = random.below(30) as usize;
            let mut stored = noise(&mut random, len);
            for byte in &mut stored {
                if random.chance(60) {
                    *byte &= 7;
                }
            }
            let _ = apply(&stored, &mut [0; 20]);
        }
        for stored in [
            &[20, 1, 5][..],
            &[0, 21],
            &[0, 3, 1],
            &[1],
            &[0xff; 20],
            &[
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1,
            ],
        ] {
            assert!(!apply(stored, &mut [0; 20]), "{stored:?}");
        }
        assert!(apply(&[19, 1, 5], &mut [0; 20]));
    }
}
