//! Kinds of damage that disks, cables and copies do to a file. A seed decides the place.

use std::ops::Range;

/// What a disk writes at once.
const BLOCK: usize = 4096;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// One bit is another.
    Bit,
    /// A block reads as zeros.
    Zeros,
    /// A block has other bytes.
    Noise,
    /// Two blocks have each other's place.
    Swapped,
    /// A block was written to the place of another one.
    Misdirected,
    /// A block is as it was some transactions ago: the write was lost.
    Old,
    /// The file ends too early.
    Cut,
}

impl Harm {
    /// All of them.
    pub const ALL: [Harm; 7] = [
        Harm::Bit,
        Harm::Zeros,
        Harm::Noise,
        Harm::Swapped,
        Harm::Misdirected,
        Harm::Old,
        Harm::Cut,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Harm::Bit => "one bit flipped",
            Harm::Zeros => "a block of zeros",
            Harm::Noise => "a block of noise",
            Harm::Swapped => "two blocks swapped",
            Harm::Misdirected => "a block written over another",
            Harm::Old => "a block that is as it was",
            Harm::Cut => "the end cut off",
        }
    }

    /// Damages a file, of which `before` is an older state. False if it cannot be done to this file.
    pub fn befall(self, file: &mut Vec<u8>, before: &[u8], rng: &mut fastrand::Rng) -> bool {
        let blocks = file.len() / BLOCK;
        let place = |block: usize| block * BLOCK..(block + 1) * BLOCK;
        match self {
            Harm::Bit => {
                let at = rng.usize(..file.len());
                file[at] ^= 1 << rng.u32(..8);
                true
            }
            Harm::Zeros => {
                let place = place(rng.usize(..blocks));
                let had_some = file[place.clone()].iter().any(|byte| *byte != 0);
                file[place].fill(0);
                had_some
            }
            Harm::Noise => {
                let place = place(rng.usize(..blocks));
                rng.fill(&mut file[place]);
                true
            }
            Harm::Swapped => {
                let (one, other) = (place(rng.usize(..blocks)), place(rng.usize(..blocks)));
                let (of_one, of_other) = (file[one.clone()].to_vec(), file[other.clone()].to_vec());
                file[one].copy_from_slice(&of_other);
                file[other].copy_from_slice(&of_one);
                of_one != of_other
            }
            Harm::Misdirected => {
                let (from, to) = (place(rng.usize(..blocks)), place(rng.usize(..blocks)));
                let differs = file[from.clone()] != file[to.clone()];
                file.copy_within(from, to.start);
                differs
            }
            Harm::Old => {
                let has_changed = |place: &Range<usize>| {
                    let was = before.get(place.clone());
                    was.is_some_and(|was| was != &file[place.clone()])
                };
                let changed: Vec<_> = (0..blocks).map(place).filter(has_changed).collect();
                let Some(place) = rng.choice(changed) else {
                    return false;
                };
                file[place.clone()].copy_from_slice(&before[place]);
                true
            }
            Harm::Cut => {
                file.truncate(rng.usize(1..file.len()));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changes_the_file_or_says_so() {
        let mut rng = fastrand::Rng::with_seed(1);
        let before = vec![7; 3 * BLOCK];
        let mut file = vec![0; 3 * BLOCK + 100];
        rng.fill(&mut file[..2 * BLOCK]);
        for harm in Harm::ALL {
            let mut done = 0;
            for _ in 0..50 {
                let mut damaged = file.clone();
                let is_damaged = harm.befall(&mut damaged, &before, &mut rng);
                assert_eq!(is_damaged, damaged != file, "{harm:?}");
                done += usize::from(is_damaged);
            }
            assert!(done > 10, "{harm:?}");
        }
        assert!(!Harm::Old.befall(&mut file.clone(), &file, &mut rng));
    }
}
