//! How much this process may take that the system cannot take back: one budget, of which every part has its share.
//!
//! It is a sixteenth of the memory that the process and its files may take together, and 4 MiB at least. From
//! `USUAL` on every part has what it has on a large machine. With less, each has as much less: buffers and caches by
//! [`part`], workers by [`threads`], and a dictionary is made of samples instead of being trained ([`may_train`]).

use crate::limits;

/// The most bytes that all parts take together, where memory is plentiful.
pub(crate) const USUAL: u64 = 48 << 20;
/// The budget of the smallest container.
const LEAST: u64 = 4 << 20;
/// Bytes of the budget that do not shrink: an encoder, decoders, a dictionary.
const OWN: u64 = 3 << 19;
/// The budget is one of so many bytes.
const SHARE: u64 = 16;
/// For so many bytes of the budget there may be a worker: its encoder, its stack, and what it has to do.
const PER_WORKER: u64 = 12 << 20;
/// Bytes that zstd takes to train a dictionary, with the samples.
const TRAINING: u64 = 12 << 20;
/// The tables about kept pages take at most one of so many bytes of the budget.
const BESIDE: u64 = 4;

/// The budget in a machine or container that has so much memory.
pub(crate) fn of(memory: u64) -> u64 {
    (memory / SHARE).clamp(LEAST, USUAL)
}

/// The budget in bytes.
pub fn budget() -> u64 {
    of(limits::memory())
}

fn scaled(usual: u64, budget: u64) -> u64 {
    let of_parts = |budget: u64| u128::from(budget.saturating_sub(OWN));
    let share = u128::from(usual) * of_parts(budget.min(USUAL)) / of_parts(USUAL);
    u64::try_from(share).unwrap_or(usual)
}

/// The bytes for a part that takes `usual` bytes where memory is plentiful.
#[expect(
    clippy::cast_possible_truncation,
    reason = "it is no more than `usual`"
)]
pub fn part(usual: usize) -> usize {
    scaled(usual as u64, budget()) as usize
}

/// The same for a given budget.
pub(crate) fn part_of(budget: u64, usual: u64) -> u64 {
    scaled(usual, budget)
}

/// How many threads a handle may have that has `usual` where memory is plentiful, its own included.
pub fn threads(usual: usize) -> usize {
    match budget() {
        USUAL.. => usual,
        less => usual.min(1 + usize::try_from(less / PER_WORKER).unwrap_or(0)),
    }
}

/// How often the usual budget is to be halved to be within that of now, if it is less: 4 times at most.
pub fn shortage() -> Option<u32> {
    let budget = budget();
    (budget < USUAL).then(|| USUAL.div_ceil(budget).next_power_of_two().ilog2())
}

/// Whether there is the memory for what makes differences: a tenth of a megabyte, which the smallest containers need.
pub fn may_differ() -> bool {
    budget() > LEAST
}

/// Whether there is the memory to train a dictionary.
pub fn may_train() -> bool {
    budget() / 2 >= TRAINING
}

/// The most bytes of the tables about pages that the system may take back. It cannot take back the tables.
pub(crate) fn beside_of(budget: u64) -> u64 {
    match budget {
        USUAL.. => u64::MAX,
        less => less / BESIDE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_is_a_sixteenth_but_neither_more_than_usual_nor_less_than_what_is_needed() {
        for (memory, budget) in [(16, 4), (64, 4), (128, 8), (512, 32), (768, 48), (9999, 48)] {
            assert_eq!(of(memory * MIB), budget * MIB, "{memory}");
        }
        assert_eq!(of(100 * MIB), 100 * MIB / 16);
        assert_eq!(of(u64::MAX), USUAL);
    }

    #[test]
    fn parts_shrink_with_it_and_are_the_usual_ones_where_it_is_the_usual() {
        assert_eq!(part_of(USUAL, 8 * MIB), 8 * MIB);
        assert_eq!(part_of(u64::MAX, 8 * MIB), 8 * MIB);
        assert_eq!(part_of(OWN + (USUAL - OWN) / 4, 8 * MIB), 2 * MIB);
        assert_eq!(part_of(LEAST, u64::MAX) / part_of(LEAST, u64::MAX / 2), 2);
        assert_eq!(beside_of(USUAL), u64::MAX);
        assert_eq!(beside_of(8 * MIB), 2 * MIB);
    }
}
