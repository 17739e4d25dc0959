//! Which slot a page is in: a table like that of a processor's cache.
//!
//! A key belongs to one line of 16 entries; an entry has a slot and 8 bits of the key's hash. When a line is full, an
//! entry makes room for the new one, and its page is lost. So nothing has to be locked or waited for, and whatever other
//! threads do at the same moment, an entry is a hint: the slot says which page it holds.
//!
//! There are at least twice as many entries as slots. Those that are free remember pages that were dropped, by the 8 bits
//! of the hash: one for four pages of a line. One page of a hundred that never were here is taken for one of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use litepack_reclaimable::Key;

use super::elastic::Growth;

/// Entries of a line: those that one fetch from memory brings.
const LINE: usize = 16;
/// The lines of the first table, as a power of two.
const LINES_MIN: usize = 5;
/// Tables, each twice as large as the one before.
const TABLES: usize = 18;
/// Bytes that the tables take for each slot, at most: four entries in the newest, and as much in the others.
pub(super) const BESIDE: usize = 2 * 4 * size_of::<AtomicU32>();
/// Slots that an entry can name.
pub(super) const SLOTS_MAX: usize = (1 << 24) - 2;
/// Pages of a line for each that is remembered. With twice as many remembered, repeated scans of twice as much as there
/// is room for find a sixth less, and what is read again and again is learnt no faster.
const PAGES_PER_REMEMBERED: usize = 4;
/// In place of a slot: the page was dropped.
const DROPPED: u32 = (1 << 24) - 1;

/// A line of the processor's memory.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU32; LINE]);

/// The table, and former ones that were too small. Those are kept: threads may be reading them, and all together they
/// are as large as the newest.
#[derive(Debug)]
pub(super) struct Index {
    tables: [OnceLock<Box<[Line]>>; TABLES],
    /// Tables made so far.
    made: AtomicUsize,
    growing: AtomicBool,
}

/// The hash of a key, which decides its places in the tables.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    fn of(key: Key) -> Hash {
        let Key([a, b]) = key;
        // A multiplication to 128 bits mixes each bit with all others (as in wyhash, https://github.com/wangyi-fudan/wyhash).
        let product = u128::from(a ^ 0xa076_1d64_78bd_642f) * u128::from(b ^ 0xe703_7ed1_a0b4_28db);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are meant")]
        Hash(product as u64 ^ (product >> 64) as u64)
    }

    fn tag(self) -> u32 {
        u32::from(self.0.to_le_bytes()[7])
    }

    fn victim(self) -> usize {
        (self.0 >> 48) as usize % LINE
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low bits choose the line"
    )]
    fn line(self, lines: &[Line]) -> Option<&Line> {
        // The number of lines is a power of two.
        lines.get(self.0 as usize & lines.len().wrapping_sub(1))
    }
}

/// 0 is for no entry.
#[expect(
    clippy::cast_possible_truncation,
    reason = "slots are below `SLOTS_MAX`"
)]
fn entry(slot: usize, hash: Hash) -> u32 {
    (slot as u32 + 1) << 8 | hash.tag()
}

fn dropped(hash: Hash) -> u32 {
    DROPPED << 8 | hash.tag()
}

impl Index {
    pub(super) fn new() -> Index {
        Index {
            tables: [const { OnceLock::new() }; TABLES],
            made: AtomicUsize::new(0),
            growing: AtomicBool::new(false),
        }
    }

    fn lines(&self) -> &[Line] {
        let made = self.made.load(Ordering::Acquire);
        let newest = made
            .checked_sub(1)
            .and_then(|newest| self.tables.get(newest));
        newest.and_then(OnceLock::get).map_or(&[], |lines| lines)
    }

    /// The slots in which the key may be.
    #[inline]
    pub(super) fn find(&self, key: Key) -> impl Iterator<Item = usize> + '_ {
        let hash = Hash::of(key);
        let line = hash.line(self.lines()).map(|Line(entries)| entries);
        line.into_iter().flatten().filter_map(move |entry| {
            let entry = entry.load(Ordering::Relaxed);
            let is_it = entry & 0xff == hash.tag() && entry > 0xff && entry >> 8 != DROPPED;
            is_it.then(|| (entry >> 8) as usize - 1)
        })
    }

    pub(super) fn insert(&self, key: Key, slot: usize) {
        insert(self.lines(), key, slot);
    }

    pub(super) fn remove(&self, key: Key, slot: usize) {
        let hash = Hash::of(key);
        self.replace(hash, entry(slot, hash), 0);
    }

    /// As [`Index::remove`], of a page that was dropped to make room. It is remembered for a while.
    pub(super) fn forget(&self, key: Key, slot: usize) {
        let hash = Hash::of(key);
        let line = hash.line(self.lines()).map_or(&[][..], |Line(line)| line);
        let (mut pages, mut remembered) = (0, 0);
        for entry in line {
            match entry.load(Ordering::Relaxed) >> 8 {
                0 => {}
                DROPPED => remembered += 1,
                _ => pages += 1,
            }
        }
        if PAGES_PER_REMEMBERED * remembered >= pages {
            // One makes room for it. Which one is left to chance.
            let (behind, from) = line.split_at(hash.victim().min(line.len()));
            let free = |entry: &AtomicU32| {
                let old = entry.load(Ordering::Relaxed);
                let swap = || entry.compare_exchange(old, 0, Ordering::Relaxed, Ordering::Relaxed);
                old >> 8 == DROPPED && swap().is_ok()
            };
            let _freed = from.iter().chain(behind).any(free);
        }
        self.replace(hash, entry(slot, hash), dropped(hash));
    }

    /// Whether it is remembered that the page was dropped. Only once.
    pub(super) fn recall(&self, key: Key) -> bool {
        let hash = Hash::of(key);
        self.replace(hash, dropped(hash), 0)
    }

    /// Replaces entries in the line of `hash`. Says whether there were any.
    fn replace(&self, hash: Hash, old: u32, new: u32) -> bool {
        let line = hash.line(self.lines()).map(|Line(entries)| entries);
        let mut was_there = false;
        for entry in line.into_iter().flatten() {
            // If it is another entry by now, that one stays.
            was_there |= entry.load(Ordering::Relaxed) == old
                && entry
                    .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
        }
        was_there
    }

    /// Makes the table large enough for `slots` slots, which have these keys.
    pub(super) fn fit(&self, slots: usize, key_of: impl Fn(usize) -> Key) -> Growth {
        let wanted = (2 * slots).div_ceil(LINE).max(1 << LINES_MIN);
        if self.lines().len() >= wanted {
            return Growth::Done;
        }
        // Only one thread makes a table. A child that is forked now never makes another one.
        if self.growing.swap(true, Ordering::Acquire) {
            return Growth::Busy;
        }
        let grown = self.grow(wanted.next_power_of_two(), slots, key_of);
        self.growing.store(false, Ordering::Release);
        if grown { Growth::Done } else { Growth::Full }
    }

    fn grow(&self, lines: usize, slots: usize, key_of: impl Fn(usize) -> Key) -> bool {
        let number = (lines.trailing_zeros() as usize).saturating_sub(LINES_MIN);
        let Some(table) = self.tables.get(number) else {
            return false;
        };
        let mut new = Vec::new();
        if new.try_reserve_exact(lines).is_err() {
            return false;
        }
        new.resize_with(lines, Line::default);
        for slot in 0..slots {
            let key = key_of(slot);
            if key != Key::default() {
                insert(&new, key, slot);
            }
        }
        if table.set(new.into_boxed_slice()).is_ok() {
            self.made.fetch_max(number + 1, Ordering::Release);
        }
        true
    }
}

fn insert(lines: &[Line], key: Key, slot: usize) {
    let hash = Hash::of(key);
    let Some(Line(line)) = hash.line(lines) else {
        return;
    };
    let new = entry(slot, hash);
    let take = |entry: &AtomicU32, old| {
        entry
            .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    };
    let free = |entry: &AtomicU32| entry.load(Ordering::Relaxed) == 0 && take(entry, 0);
    if line.iter().any(free) {
        return;
    }
    // Beginning anywhere, so that each that is remembered has the same chance.
    let (behind, from) = line.split_at(hash.victim());
    let remembered = |entry: &AtomicU32| {
        let old = entry.load(Ordering::Relaxed);
        old >> 8 == DROPPED && take(entry, old)
    };
    if from.iter().chain(behind).any(remembered) {
        return;
    }
    if let Some(entry) = from.first() {
        entry.store(new, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key([number as u64 * 4096 + 1, number as u64 % 7])
    }

    #[test]
    fn slots_are_found_while_the_table_grows() {
        let index = Index::new();
        assert_eq!(index.find(key(1)).count(), 0);
        let mut slots = 0;
        for _ in 0..40 {
            slots += 256;
            let fit = index.fit(slots, |slot| {
                if slot < slots - 256 {
                    key(slot)
                } else {
                    Key::default()
                }
            });
            assert_eq!(fit, Growth::Done);
            (slots - 256..slots).for_each(|slot| index.insert(key(slot), slot));
        }
        let found = |number: usize| index.find(key(number)).any(|slot| slot == number);
        let lost = (0..slots).filter(|number| !found(*number)).count();
        assert!(lost < slots / 100, "{lost} of {slots} are lost");
        let others: usize = (0..slots)
            .map(|number| index.find(key(number)).count())
            .sum();
        assert!(
            others < slots + slots / 10,
            "{others} slots are looked at for {slots}"
        );
    }

    #[test]
    fn what_was_dropped_is_remembered_once_and_makes_room() {
        const SLOTS: usize = 4096;
        let index = Index::new();
        assert_eq!(index.fit(SLOTS, |_| Key::default()), Growth::Done);
        (0..SLOTS).for_each(|slot| index.insert(key(slot), slot));
        let dropped = 0..SLOTS / 8;
        let forget = |slot| index.forget(key(slot), slot);
        dropped.clone().for_each(forget);
        assert!(
            dropped
                .clone()
                .all(|slot| index.find(key(slot)).all(|found| found != slot))
        );
        let recalled = |numbers: std::ops::Range<usize>| {
            let len = numbers.len();
            100 * numbers.filter(|number| index.recall(key(*number))).count() / len
        };
        let others = recalled(10 * SLOTS..11 * SLOTS);
        assert!(others < 4, "{others} % that never were here");
        let (found, again) = (recalled(dropped.clone()), recalled(dropped));
        assert!(found > 80 && again < 4, "{found} %, {again} %");
        // A quarter as many as there are pages are remembered.
        (SLOTS / 8..SLOTS / 2).for_each(forget);
        let found = recalled(SLOTS / 8..SLOTS / 2);
        assert!((30..55).contains(&found), "{found} %");
        // Remembered keys take no entry from a page.
        (SLOTS..2 * SLOTS).for_each(|number| index.insert(key(number), number - SLOTS));
        let found = |number: &usize| index.find(key(*number)).any(|slot| slot == number - SLOTS);
        let found = (SLOTS..2 * SLOTS).filter(found).count();
        assert!(found > SLOTS * 98 / 100, "{found}");
    }

    #[test]
    fn what_is_removed_is_found_no_more() {
        let index = Index::new();
        assert_eq!(index.fit(256, |_| Key::default()), Growth::Done);
        index.insert(key(1), 1);
        index.insert(key(2), 2);
        index.remove(key(1), 7);
        assert_eq!(index.find(key(1)).collect::<Vec<_>>(), [1]);
        index.remove(key(1), 1);
        assert_eq!(index.find(key(1)).count(), 0);
        assert_eq!(index.find(key(2)).collect::<Vec<_>>(), [2]);
    }
}
