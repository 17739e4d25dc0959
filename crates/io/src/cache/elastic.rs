//! Decoded pages in memory that the system may take back.
//!
//! Slots are filled in order, and a segment that was gone through is offered to the system: what only one call in
//! some hundred is made for costs next to nothing. Once there are as many segments as may be, the hand goes over those
//! there are, and takes the slots whose pages were not read since it was here last (the clock of GCLOCK,
//! <https://en.wikipedia.org/wiki/Page_replacement_algorithm#Clock>). Pages of a scan are read once, so they go first.
//!
//! A page can be lost at any time, and nothing here waits: a page is found whole, or not at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use litepack_reclaimable::{Arena, Found, Key, SEGMENT};

use super::index::{Index, SLOTS_MAX};

/// Sizes of pages, as powers of two.
const SIZES: std::ops::RangeInclusive<u32> = 9..=16;
/// Slots that one page is tried on before it takes one that was used.
const TRIES: usize = 64;
/// And then, before it is given up.
const LAST_TRIES: usize = 8;
/// Of so many rounds of the hand, one takes a use off what it passes. What is read again and again outlasts scans of
/// several times the cache.
const ROUNDS: usize = 4;

/// Bytes kept at most once the system takes no memory back any more, as when a program has locked all it has.
const REFUSED: u64 = 24 << 20;

/// The pages.
#[derive(Debug)]
pub(super) struct Elastic {
    classes: Vec<Class>,
    /// Segments that all sizes may have together.
    segments: AtomicUsize,
    /// The system did not accept an offer.
    refused: AtomicBool,
}

/// Pages of one size.
#[derive(Debug)]
struct Class {
    arena: Arena,
    index: Index,
    /// The slot that is looked at next.
    hand: AtomicUsize,
    /// Times it has begun anew.
    rounds: AtomicUsize,
}

impl Elastic {
    /// Room for `bytes_max` bytes at most, whatever is asked later. `None` where the system has no such memory.
    pub(super) fn new(bytes_max: u64) -> Option<Elastic> {
        let segments = usize::try_from(bytes_max / SEGMENT as u64).ok()?;
        let class = |size: u32| {
            let page = 1 << size;
            let most = SLOTS_MAX / (SEGMENT >> size);
            let arena = Arena::new(page, segments.min(most))?;
            Some(Class {
                arena,
                index: Index::new(),
                hand: AtomicUsize::new(0),
                rounds: AtomicUsize::new(0),
            })
        };
        Some(Elastic {
            classes: SIZES.map(class).collect::<Option<_>>()?,
            segments: AtomicUsize::new(segments),
            refused: AtomicBool::new(false),
        })
    }

    fn class(&self, page: usize) -> Option<&Class> {
        let number = page.trailing_zeros().checked_sub(*SIZES.start())?;
        let class = self.classes.get(number as usize)?;
        (class.arena.page() == page).then_some(class)
    }

    /// Uses so many bytes at most from now on.
    pub(super) fn resize(&self, bytes: u64) {
        let is_refused = self.refused.load(Ordering::Relaxed);
        let bytes = if is_refused {
            bytes.min(REFUSED)
        } else {
            bytes
        };
        let segments = usize::try_from(bytes / SEGMENT as u64).unwrap_or(usize::MAX);
        self.segments.store(segments, Ordering::Relaxed);
        while self.used() > segments {
            let Some(largest) = self.largest() else {
                return;
            };
            largest
                .arena
                .shrink(largest.arena.segments().saturating_sub(1));
        }
    }

    /// Whether it has any room.
    pub(super) fn is_on(&self) -> bool {
        self.segments.load(Ordering::Relaxed) > 0
    }

    fn used(&self) -> usize {
        self.classes
            .iter()
            .map(|class| class.arena.segments())
            .sum()
    }

    fn largest(&self) -> Option<&Class> {
        self.classes
            .iter()
            .max_by_key(|class| class.arena.segments())
    }

    /// Bytes in use, whether or not the system has taken them back.
    pub(super) fn bytes(&self) -> u64 {
        (self.used() * SEGMENT) as u64
    }

    /// Gives everything back.
    pub(super) fn clear(&self) {
        for class in &self.classes {
            class.arena.shrink(0);
        }
    }

    /// Copies a page to `out`, which has its size. If it is not here, `out` is in no known state.
    #[inline]
    pub(super) fn read(&self, key: Key, out: &mut [u8], is_use: bool) -> bool {
        let Some(class) = self.class(out.len()) else {
            return false;
        };
        for slot in class.index.find(key) {
            match class.arena.read(slot, key, out, is_use) {
                Found::Page => return true,
                Found::Gone => {
                    class.index.remove(key, slot);
                    return false;
                }
                Found::Other => {}
            }
        }
        false
    }

    /// Whether a page of this size is here, as far as can be seen without reading it.
    pub(super) fn has(&self, key: Key, page: usize) -> bool {
        self.class(page)
            .is_some_and(|class| class.index.find(key).any(|slot| class.arena.has(slot, key)))
    }

    /// Keeps a copy of a page, if there is a slot for it.
    pub(super) fn put(&self, key: Key, bytes: &[u8]) {
        let Some(class) = self.class(bytes.len()) else {
            return;
        };
        if self.has(key, bytes.len()) {
            return;
        }
        for tried in 0..TRIES + LAST_TRIES {
            let Some(slot) = self.advance(class) else {
                return;
            };
            let ages = class.rounds.load(Ordering::Relaxed).is_multiple_of(ROUNDS);
            if !class.arena.pass(slot, ages) && tried < TRIES {
                continue;
            }
            if let Some(before) = class.arena.write(slot, key, bytes) {
                if before != Key::default() {
                    class.index.remove(before, slot);
                }
                class.index.insert(key, slot);
                return;
            }
        }
    }

    /// The slot at the hand, which goes on to the next.
    fn advance(&self, class: &Class) -> Option<usize> {
        let arena = &class.arena;
        let mut at = class.hand.load(Ordering::Relaxed);
        loop {
            // Behind the end it is where there are fewer segments than there were.
            let end = arena.slots();
            let mut slot = if at <= end { at } else { 0 };
            if slot == end && !self.grow(class) {
                slot = 0;
            }
            if slot >= arena.slots() {
                return None;
            }
            let moved = class.hand.compare_exchange_weak(
                at,
                slot + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match moved {
                Ok(_) => {
                    if slot < at {
                        class.rounds.fetch_add(1, Ordering::Relaxed);
                    }
                    if slot.is_multiple_of(arena.per_segment()) {
                        self.offer_before(class, at);
                    }
                    return Some(slot);
                }
                Err(now) => at = now,
            }
        }
    }

    /// The hand has left the segment of the slot before `at`. Where threads still write in it, pages are offered the
    /// next time.
    fn offer_before(&self, class: &Class, at: usize) {
        let Some(last) = at.checked_sub(1) else {
            return;
        };
        let offered = class.arena.offer(last / class.arena.per_segment());
        if !offered && !self.refused.swap(true, Ordering::Relaxed) {
            self.resize(self.segments.load(Ordering::Relaxed) as u64 * SEGMENT as u64);
        }
    }

    /// One more segment for this size: a new one, or that of a size that has more. False if it keeps what it has.
    fn grow(&self, class: &Class) -> bool {
        let segments = class.arena.segments();
        let is_full = self.used() >= self.segments.load(Ordering::Relaxed);
        let other = self.largest().filter(|_| is_full);
        if is_full && other.is_none_or(|other| other.arena.segments() <= segments + 1) {
            return false;
        }
        let slots = (segments + 1) * class.arena.per_segment();
        if !class.index.fit(slots, |slot| class.arena.key(slot)) {
            return false;
        }
        if let Some(other) = other {
            other.arena.shrink(other.arena.segments().saturating_sub(1));
        }
        class.arena.grow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    /// Pages of 4 KiB in a MiB.
    const PAGES: u64 = 256;

    fn key(number: u64) -> Key {
        Key([number + 1, 7])
    }

    fn page(number: u64) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[..8].copy_from_slice(&number.to_le_bytes());
        page[4088..].copy_from_slice(&number.to_le_bytes());
        page
    }

    /// Where there is no such memory there is nothing to test.
    fn elastic(bytes: u64) -> Option<Elastic> {
        let elastic = Elastic::new(64 * MIB);
        assert!(elastic.is_some() || !cfg!(target_os = "linux"));
        elastic.inspect(|elastic| elastic.resize(bytes))
    }

    fn put(elastic: &Elastic, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| elastic.put(key(number), &page(number)));
    }

    fn read(elastic: &Elastic, number: u64) -> bool {
        let mut out = vec![1; 4096];
        let found = elastic.read(key(number), &mut out, true);
        assert!(!found || out == page(number));
        assert_eq!(found, elastic.has(key(number), 4096));
        found
    }

    fn found(elastic: &Elastic, numbers: std::ops::Range<u64>) -> u64 {
        numbers.map(|number| u64::from(read(elastic, number))).sum()
    }

    #[test]
    fn what_fits_is_found() {
        let Some(elastic) = elastic(4 * MIB) else {
            return;
        };
        put(&elastic, 0..4 * PAGES);
        assert_eq!(elastic.bytes(), 4 * MIB);
        assert!(found(&elastic, 0..4 * PAGES) > 4 * PAGES * 98 / 100);
        assert!(!elastic.read(key(1), &mut [0; 512], true), "no such size");
    }

    #[test]
    fn pages_of_a_scan_go_before_those_that_are_read_again() {
        let Some(elastic) = elastic(4 * MIB) else {
            return;
        };
        put(&elastic, 0..2 * PAGES);
        found(&elastic, 0..2 * PAGES);
        found(&elastic, 0..2 * PAGES);
        put(&elastic, 1000..1000 + 6 * PAGES);
        assert_eq!(elastic.bytes(), 4 * MIB);
        assert!(found(&elastic, 0..2 * PAGES) > 2 * PAGES * 9 / 10);
        // What is not read again goes at last.
        put(&elastic, 10_000..10_000 + 40 * PAGES);
        assert_eq!(found(&elastic, 0..2 * PAGES), 0);
    }

    #[test]
    fn sizes_divide_the_room() {
        let Some(elastic) = elastic(8 * MIB) else {
            return;
        };
        put(&elastic, 0..8 * PAGES);
        assert_eq!(elastic.bytes(), 8 * MIB);
        for number in 0..2 * MIB / 512 {
            elastic.put(key(number), &[1; 512]);
        }
        for number in 0..(8 * MIB) >> 16 {
            elastic.put(key(number), &vec![2; 1 << 16]);
        }
        assert_eq!(elastic.bytes(), 8 * MIB);
        let of = |page: usize| elastic.class(page).unwrap().arena.segments();
        assert!(
            of(4096) >= 2 && of(512) == 2 && of(1 << 16) >= 2,
            "{:?}",
            (of(4096), of(512), of(1 << 16))
        );
        let mut out = vec![0; 1 << 16];
        assert!(elastic.read(key(((8 * MIB) >> 16) - 1), &mut out, true));
        assert!(out.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn a_smaller_cache_gives_memory_back_and_may_grow_again() {
        let Some(elastic) = elastic(8 * MIB) else {
            return;
        };
        put(&elastic, 0..8 * PAGES);
        elastic.resize(3 * MIB);
        assert_eq!(elastic.bytes(), 3 * MIB);
        assert!(found(&elastic, 0..8 * PAGES) <= 3 * PAGES);
        elastic.clear();
        assert_eq!((elastic.bytes(), found(&elastic, 0..8 * PAGES)), (0, 0));
        elastic.resize(8 * MIB);
        put(&elastic, 0..8 * PAGES);
        assert!(found(&elastic, 0..8 * PAGES) > 8 * PAGES * 98 / 100);
        elastic.resize(0);
        put(&elastic, 0..PAGES);
        assert_eq!((elastic.bytes(), found(&elastic, 0..PAGES)), (0, 0));
    }
}
