//! Ways to damage a packed file, for the tests that do so: single bits, garbage, missing, swapped,
//! doubled and stale blocks.

use crate::content::Fingerprint;
use crate::rng::Rng;

/// A packed file, an older state of it, and what each of them holds.
pub struct Victim {
    /// Whether its last commit was flushed to the disk.
    pub durable: bool,
    /// For messages.
    pub name: String,
    /// The undamaged file.
    pub bytes: Vec<u8>,
    /// Its content.
    pub content: Fingerprint,
    /// The file before its last commit.
    pub older: Vec<u8>,
    /// The content of the file before its last commit.
    pub older_content: Fingerprint,
}

/// How a trial damages the file.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Damage {
    /// One bit.
    Flip { at: usize, bit: u32 },
    /// Random bytes over a block.
    Garbage { at: usize, len: usize, seed: u64 },
    /// Zeros over a block.
    Zeros { at: usize, len: usize },
    /// The end is missing.
    Truncate { len: usize },
    /// Something follows the end.
    Append { len: usize, seed: u64 },
    /// Two blocks change places.
    Swap {
        one: usize,
        other: usize,
        len: usize,
    },
    /// One block lies where another should.
    Copy { from: usize, to: usize, len: usize },
    /// A block is as it was before the last commit.
    Stale { at: usize, len: usize },
}

impl Damage {
    /// Any damage to a file of this length.
    pub fn random(rng: &mut Rng, len: usize) -> Self {
        let at = rng.below(len as u64) as usize;
        let block = *rng.pick(&[1, 16, 64, 512, 4096]);
        let other = rng.below(len as u64) as usize;
        let seed = rng.bits();
        match rng.below(16) {
            0..7 => Damage::Flip {
                at,
                bit: rng.below(8) as u32,
            },
            7 => Damage::Garbage {
                at,
                len: block,
                seed,
            },
            8 => Damage::Zeros { at, len: block },
            9 => Damage::Truncate { len: at },
            10 => Damage::Append { len: block, seed },
            11 => Damage::Swap {
                one: at / block * block,
                other: other / block * block,
                len: block,
            },
            12 => Damage::Swap {
                one: at,
                other,
                len: block,
            },
            13 => Damage::Copy {
                from: at / block * block,
                to: other / block * block,
                len: block,
            },
            14 => Damage::Copy {
                from: at,
                to: other,
                len: block,
            },
            _ => Damage::Stale {
                at: at / block * block,
                len: block,
            },
        }
    }

    /// The damaged bytes.
    pub fn apply(&self, victim: &Victim) -> Vec<u8> {
        let mut bytes = victim.bytes.clone();
        let end = |at: usize, len: usize| (at + len).min(victim.bytes.len());
        match *self {
            Damage::Flip { at, bit } => bytes[at] ^= 1 << bit,
            Damage::Garbage { at, len, seed } => {
                let end = end(at, len);
                bytes[at..end].copy_from_slice(&Rng::new(seed).bytes(end - at));
            }
            Damage::Zeros { at, len } => {
                let end = end(at, len);
                bytes[at..end].fill(0);
            }
            Damage::Truncate { len } => bytes.truncate(len),
            Damage::Append { len, seed } => bytes.extend(Rng::new(seed).bytes(len)),
            Damage::Swap { one, other, len } => {
                let len = len.min(bytes.len() - one.max(other));
                let kept = bytes[one..one + len].to_vec();
                bytes.copy_within(other..other + len, one);
                bytes[other..other + len].copy_from_slice(&kept);
            }
            Damage::Copy { from, to, len } => {
                let len = len.min(bytes.len() - from.max(to));
                bytes.copy_within(from..from + len, to);
            }
            Damage::Stale { at, len } => {
                let end = (at + len).min(bytes.len()).min(victim.older.len());
                if at < end {
                    bytes[at..end].copy_from_slice(&victim.older[at..end]);
                }
            }
        }
        bytes
    }
}
