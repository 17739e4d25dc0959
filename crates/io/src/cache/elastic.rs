//! Decoded pages in memory that the system may take back, and copies of objects in slots of a size that no page has.
//!
//! Slots are filled in order. When a segment is full, it is offered to the system as a whole, which costs little per
//! page. When there are as many segments as allowed, a new page takes the place of another (after S3-FIFO,
//! <https://s3fifo.com>):
//!
//! - One slot of eight is *young*. A page that is new goes there, and in turn replaces a young page that was not read
//!   again. The index remembers for a while which pages were dropped.
//! - A page that is remembered goes to the other slots, in place of one that has no uses left. If there is none within
//!   reach, it is young again.
//! - For each young page that is dropped, one of the others loses half of its uses. It begins with one. So a page stays
//!   if it is read again before as many were dropped as there are slots: what is remembered is wanted no oftener.
//!
//! So a scan of more than the cache holds replaces young pages only, and finds the others when it comes again. A clock
//! for all slots dropped each page right before it was read.
//!
//! A page can be lost at any time: it is found whole, or not at all. There are no locks. A thread that finds another
//! making a segment yields a few times, and then does not keep its page.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use litepack_reclaimable::{Arena, Key, SEGMENT, SlotContent};

use super::OBJECT_SLOT;
use super::index::{BESIDE, Index, SLOTS_MAX};
use crate::fixed;

/// Sizes of pages, as powers of two.
const SIZES: std::ops::RangeInclusive<u32> = 9..=16;
/// Slots that one page is tried on before it takes one that was used, or is young again.
const TRIES: usize = 64;
/// And then, before it is given up.
const LAST_TRIES: usize = 8;
/// Of so many slots, one is for pages that are new.
const YOUNG_SHARE: usize = 8;
/// Times that a thread lets others go on who make a segment, before its page is given up.
const WAITS: usize = 8;
/// Times that a page is tried to be removed while another thread has it.
const REMOVE_TRIES: usize = 1000;
/// There are no more segments while more than one slot of so many is empty.
const HOLES: usize = 4;
/// With more empty slots than one of so many, new pages go there. Otherwise they would be looked for too long.
const HOLES_WORTH: usize = TRIES / 2;
/// A segment is offered to the system if this share of it was written since it was last, or if so many bytes of all
/// segments were. To offer it takes as long as writing some 30 pages, whatever was written.
const FRESH_SHARE: usize = 8;
const FRESH_MAX: usize = 4 << 20;
/// Where not even a segment may wait, what is written of it is offered earlier: of so many bytes that may be fresh, when
/// one was written.
const FRESH_PARTS: usize = 4;
/// But not more often than after so many bytes.
const STEP_MIN: usize = 64 << 10;

/// The pages.
#[derive(Debug)]
pub(super) struct Elastic {
    classes: Vec<Class>,
    /// Bytes that all sizes may have together, with what is known of their pages.
    limit: AtomicU64,
    /// The same for copies of objects alone.
    copies: AtomicU64,
    used: AtomicU64,
    /// Bytes that what is known of the pages may take, which cannot be taken back.
    beside: AtomicU64,
    /// Bytes that may wait to be offered.
    fresh: AtomicUsize,
    /// The system did not accept an offer, as when a program has locked its memory: there will be no more of it.
    refused: AtomicBool,
}

/// Pages of one size.
#[derive(Debug)]
struct Class {
    arena: Arena,
    index: Index,
    /// The slot that is looked at next.
    hand: AtomicUsize,
    /// The young slot that is looked at next.
    young_hand: AtomicUsize,
    /// The slot that loses uses next.
    aging_hand: AtomicUsize,
    /// Slots that the hand has been at: the others were never used.
    reached: AtomicUsize,
    /// Slots whose pages were removed, about.
    holes: AtomicUsize,
    /// There may be no more segments: pages make room for others.
    is_full: AtomicBool,
}

/// The outcome of asking for more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Done,
    /// There may be no more, or there is no memory for it.
    Full,
    /// Another thread is at it. In a child that was forked just then it stays so.
    Busy,
}

impl Class {
    /// Bytes of a segment, with those beside it.
    fn cost(&self) -> u64 {
        SEGMENT as u64 + self.beside()
    }

    /// Bytes of what is known of the pages of a segment.
    fn beside(&self) -> u64 {
        (self.arena.beside() + self.arena.per_segment() * BESIDE) as u64
    }

    fn bytes(&self) -> u64 {
        self.arena.segments() as u64 * self.cost()
    }

    /// Whether more than one slot of so many is empty.
    fn has_holes(&self, one_of: usize) -> bool {
        let slots = self.arena.slots();
        // While all slots were given back, another thread may have counted one of them.
        slots > 0 && self.holes.load(Ordering::Relaxed) > slots / one_of
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The end of the slots that are not young, and how many are. Both change with the segments, so they are of one look.
    fn regions(&self) -> (usize, usize) {
        let slots = self.arena.slots();
        let young = match self.is_full() {
            true => slots / YOUNG_SHARE,
            false => 0,
        };
        (slots - young, young)
    }

    /// Whether a page may go into this slot: it is empty, or if there are no others, has a page without uses.
    fn has_room_in(&self, slot: usize, ages: bool) -> bool {
        self.arena.key(slot) == Key::default() || self.is_full() && self.arena.pass(slot, ages)
    }

    /// A young page was dropped: one of the others loses uses.
    fn age(&self) {
        let at = self.aging_hand.fetch_add(1, Ordering::Relaxed);
        let (end, _) = self.regions();
        if let Some(slot) = at.checked_rem(end) {
            self.arena.pass(slot, true);
        }
    }

    /// So many empty slots are no longer empty, or no longer there.
    fn forget_holes(&self, count: usize) {
        let fewer = |holes: usize| Some(holes.saturating_sub(count));
        let counted = self
            .holes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        debug_assert!(counted.is_ok());
    }
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
                young_hand: AtomicUsize::new(0),
                aging_hand: AtomicUsize::new(0),
                reached: AtomicUsize::new(0),
                holes: AtomicUsize::new(0),
                is_full: AtomicBool::new(false),
            })
        };
        let classes: Vec<_> = SIZES.map(class).collect::<Option<_>>()?;
        // What it can for pages of the usual size it can for all. A segment takes memory, so the others come when needed.
        let usual = classes.iter().find(|class| class.arena.page() == 4096);
        usual.filter(|class| class.arena.is_possible())?;
        Some(Elastic {
            classes,
            limit: AtomicU64::new(bytes_max),
            copies: AtomicU64::new(0),
            used: AtomicU64::new(0),
            beside: AtomicU64::new(u64::MAX),
            fresh: AtomicUsize::new(FRESH_MAX),
            refused: AtomicBool::new(false),
        })
    }

    fn class(&self, page: usize) -> Option<&Class> {
        let number = page.trailing_zeros().checked_sub(*SIZES.start())?;
        let class = self.classes.get(number as usize)?;
        (class.arena.page() == page).then_some(class)
    }

    /// Sets the bounds of what the system cannot take back, for a budget of all that is such memory.
    pub(super) fn bound(&self, fixed: u64) {
        self.beside
            .store(fixed::beside_of(fixed), Ordering::Relaxed);
        let fresh = fixed::part_of(fixed, FRESH_MAX as u64);
        let fresh = usize::try_from(fresh).unwrap_or(FRESH_MAX);
        self.fresh.store(fresh, Ordering::Relaxed);
        while self.all_beside() > self.beside.load(Ordering::Relaxed) {
            if !self.largest().is_some_and(|largest| self.take_one(largest)) {
                return;
            }
        }
    }

    /// Bytes of what is known of all pages.
    fn all_beside(&self) -> u64 {
        let of = |class: &Class| class.arena.segments() as u64 * class.beside();
        self.classes.iter().map(of).sum()
    }

    /// Uses so many bytes at most from now on.
    pub(super) fn resize(&self, bytes: u64) {
        let is_refused = self.refused.load(Ordering::Relaxed);
        let used = self.used.load(Ordering::Relaxed);
        let limit = if is_refused { bytes.min(used) } else { bytes };
        if self.limit.swap(limit, Ordering::Relaxed) < limit {
            for class in &self.classes {
                self.go_behind(class, class.arena.slots());
            }
        }
        while self.used.load(Ordering::Relaxed) > limit {
            if !self.largest().is_some_and(|largest| self.take_one(largest)) {
                return;
            }
        }
    }

    /// Copies of objects use so many bytes of it at most from now on.
    pub(super) fn resize_copies(&self, bytes: u64) {
        let Some(class) = self.class(OBJECT_SLOT) else {
            return;
        };
        if self.copies.swap(bytes, Ordering::Relaxed) < bytes {
            self.go_behind(class, class.arena.slots());
        }
        while class.bytes() > bytes && self.take_one(class) {}
    }

    /// Whether copies of objects have any room.
    pub(super) fn has_copies(&self) -> bool {
        self.copies.load(Ordering::Relaxed) > 0
    }

    /// Whether it has any room.
    pub(super) fn is_on(&self) -> bool {
        self.limit.load(Ordering::Relaxed) > 0
    }

    fn largest(&self) -> Option<&Class> {
        self.classes.iter().max_by_key(|class| class.bytes())
    }

    /// Takes a segment from a size. False if it has none.
    fn take_one(&self, class: &Class) -> bool {
        let segments = class.arena.segments();
        segments > 0 && {
            self.shrink(class, segments - 1);
            true
        }
    }

    fn shrink(&self, class: &Class, segments: usize) {
        let kept = segments * class.arena.per_segment();
        let reached = class.reached.load(Ordering::Relaxed);
        let mut holes = 0;
        for slot in kept..class.arena.slots().min(reached) {
            match class.arena.key(slot) {
                key if key == Key::default() => holes += 1,
                key => class.index.remove(key, slot),
            }
        }
        let taken = class.arena.shrink(segments) as u64;
        class.reached.fetch_min(kept, Ordering::Relaxed);
        class.hand.fetch_min(kept, Ordering::Relaxed);
        class.forget_holes(holes);
        self.used.fetch_sub(taken * class.cost(), Ordering::Relaxed);
    }

    /// Bytes of the pages that there is room for, whether or not the system has taken them back.
    pub(super) fn bytes(&self) -> u64 {
        let segments = self.classes.iter().map(|class| class.arena.segments());
        (segments.sum::<usize>() * SEGMENT) as u64
    }

    /// Gives everything back.
    pub(super) fn clear(&self) {
        for class in &self.classes {
            self.shrink(class, 0);
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
                SlotContent::Page => return true,
                SlotContent::Gone => {
                    // It comes again at once, and is no new page then.
                    class.index.forget(key, slot);
                    return false;
                }
                SlotContent::Other => {}
            }
        }
        false
    }

    /// Whether a page of this size is here, as far as can be seen without reading it.
    pub(super) fn has(&self, key: Key, page: usize) -> bool {
        self.class(page)
            .is_some_and(|class| class.index.find(key).any(|slot| class.arena.has(slot, key)))
    }

    /// Keeps a copy of a page. `is_known` says that it was kept until now, in another version or at another place. False
    /// if there is no room at all for pages of this size.
    pub(super) fn put(&self, key: Key, bytes: &[u8], is_known: bool) -> bool {
        let Some(class) = self.class(bytes.len()) else {
            return false;
        };
        if self.has(key, bytes.len()) {
            return true;
        }
        let is_known = class.index.recall(key) || is_known;
        let is_young = class.is_full() && !is_known && !class.has_holes(HOLES_WORTH);
        (!is_young && self.put_in_order(class, key, bytes))
            || self.put_young(class, key, bytes)
            || class.arena.segments() > 0
    }

    /// Puts a page where the hand is, or a little later. False if no slot there is free for it.
    fn put_in_order(&self, class: &Class, key: Key, bytes: &[u8]) -> bool {
        for tried in 0..TRIES + LAST_TRIES {
            let reached = class.reached.load(Ordering::Relaxed);
            let Some(slot) = self.advance(class) else {
                return false;
            };
            if !class.has_room_in(slot, false) {
                if tried < TRIES {
                    continue;
                }
                if class.is_full() {
                    return false;
                }
            }
            if let Some(before) = class.arena.write(slot, key, bytes) {
                if before != Key::default() {
                    class.index.remove(before, slot);
                } else if slot < reached {
                    class.forget_holes(1);
                }
                class.arena.note_use(slot);
                class.index.insert(key, slot);
                return true;
            }
        }
        false
    }

    /// Puts a page in place of a young one. False if there are none.
    fn put_young(&self, class: &Class, key: Key, bytes: &[u8]) -> bool {
        for tried in 0..TRIES + LAST_TRIES {
            let (end, young) = class.regions();
            let at = class.young_hand.fetch_add(1, Ordering::Relaxed);
            let Some(within) = at.checked_rem(young) else {
                return false;
            };
            let slot = end + within;
            if within == 0 {
                self.leave(class, end + young);
                // There may be room again.
                self.extend(class);
            } else if slot.is_multiple_of(self.step(class)) {
                self.leave(class, slot);
            }
            if !class.has_room_in(slot, true) && tried < TRIES {
                continue;
            }
            if let Some(before) = class.arena.write(slot, key, bytes) {
                if before == Key::default() {
                    class.forget_holes(1);
                } else {
                    class.index.forget(before, slot);
                    class.age();
                }
                class.index.insert(key, slot);
                return true;
            }
        }
        false
    }

    /// Drops a page. False if it was not here.
    pub(super) fn remove(&self, key: Key, page: usize) -> bool {
        let Some(class) = self.class(page) else {
            return false;
        };
        let mut was_here = false;
        for slot in class.index.find(key) {
            // A thread may be reading it, which takes a microsecond. In a child that was forked just then it never ends.
            let mut tries = REMOVE_TRIES;
            let mut is_removed = class.arena.remove(slot, key);
            while !is_removed && tries > 0 && class.arena.key(slot) == key {
                std::hint::spin_loop();
                tries -= 1;
                is_removed = class.arena.remove(slot, key);
            }
            if is_removed {
                class.index.remove(key, slot);
                class.holes.fetch_add(1, Ordering::Relaxed);
                was_here = true;
            }
        }
        was_here
    }

    /// The slot at the hand, which goes on to the next.
    fn advance(&self, class: &Class) -> Option<usize> {
        let arena = &class.arena;
        let mut waits = WAITS;
        loop {
            let at = class.hand.load(Ordering::Relaxed);
            let (end, young) = class.regions();
            let mut slot = match at <= end {
                true => at,
                false if young > 0 => 0,
                false => end,
            };
            if slot == end {
                match self.extend(class) {
                    Growth::Done => continue,
                    Growth::Full => slot = 0,
                    Growth::Busy if waits == 0 => return None,
                    Growth::Busy => {
                        waits -= 1;
                        std::thread::yield_now();
                        continue;
                    }
                }
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
            if moved.is_err() {
                continue;
            }
            class.reached.fetch_max(slot + 1, Ordering::Relaxed);
            if slot.is_multiple_of(self.step(class)) || slot < at {
                self.leave(class, at);
            }
            // The next segment is made before it is needed, so that others have slots meanwhile.
            let is_near = slot + arena.per_segment() / 4 == arena.slots();
            if is_near && young == 0 && !class.has_holes(HOLES) {
                self.grow(class);
            }
            return Some(slot);
        }
    }

    /// Slots after which the segment that a hand is in may be offered: all of it, unless so much may not wait.
    fn step(&self, class: &Class) -> usize {
        let fresh = self.fresh.load(Ordering::Relaxed) / FRESH_PARTS;
        let bytes = match fresh.checked_ilog2() {
            Some(log) => (1 << log).clamp(STEP_MIN, SEGMENT),
            None => STEP_MIN,
        };
        (bytes / class.arena.page()).max(1)
    }

    /// The hand has left the segment of the slot before `at`, or a part of it. Where threads still write in it, pages are
    /// offered the next time.
    fn leave(&self, class: &Class, at: usize) {
        let Some(last) = at.checked_sub(1) else {
            return;
        };
        let segment = last / class.arena.per_segment();
        let (all, here) = class.arena.fresh(segment);
        let most = self.fresh.load(Ordering::Relaxed);
        let worth_it = (SEGMENT / FRESH_SHARE).min(most / FRESH_PARTS);
        if here < worth_it && all < most {
            return;
        }
        if !class.arena.offer(segment) && !self.refused.swap(true, Ordering::Relaxed) {
            self.resize(self.limit.load(Ordering::Relaxed));
        }
    }

    /// The hand is at the end: makes the next segment, or says that there is none.
    fn extend(&self, class: &Class) -> Growth {
        let slots = class.arena.slots();
        if class.has_holes(HOLES) {
            class.is_full.store(false, Ordering::Relaxed);
            return Growth::Full;
        }
        let growth = self.grow(class);
        match growth {
            Growth::Done => self.go_behind(class, slots),
            Growth::Full => class.is_full.store(true, Ordering::Relaxed),
            Growth::Busy => {}
        }
        growth
    }

    /// Of a size that was full: the next page goes behind these slots. If it was not full, the hand comes there by itself,
    /// and must not leave out slots that were never used.
    fn go_behind(&self, class: &Class, slots: usize) {
        if class.is_full.swap(false, Ordering::Relaxed) {
            let at = class.hand.swap(slots, Ordering::Relaxed);
            self.leave(class, at);
        }
    }

    /// One more segment for this size: a new one, or in place of one that another size has more.
    fn grow(&self, class: &Class) -> Growth {
        let cost = class.cost();
        let is_of_copies = class.arena.page() == OBJECT_SLOT;
        if is_of_copies && class.bytes() + cost > self.copies.load(Ordering::Relaxed) {
            return Growth::Full;
        }
        if !self.reserve(class) {
            let Some(other) = self.largest() else {
                return Growth::Full;
            };
            if other.bytes() <= class.bytes() + cost.max(other.cost()) {
                return Growth::Full;
            }
            self.take_one(other);
            if !self.reserve(class) {
                return Growth::Busy;
            }
        }
        let segments = class.arena.segments();
        let slots = (segments + 1) * class.arena.per_segment();
        let growth = match class.index.fit(slots, |slot| class.arena.key(slot)) {
            Growth::Done if class.arena.grow() => return Growth::Done,
            Growth::Done if class.arena.segments() == segments => Growth::Full,
            Growth::Full => Growth::Full,
            Growth::Done | Growth::Busy => Growth::Busy,
        };
        self.used.fetch_sub(cost, Ordering::Relaxed);
        growth
    }

    /// Counts a segment of this size as used, if it is within the limit, and what is known of its pages as well.
    fn reserve(&self, class: &Class) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let bytes = class.cost();
        if self.all_beside() + class.beside() > self.beside.load(Ordering::Relaxed) {
            return false;
        }
        let reserve = |used: u64| used.checked_add(bytes).filter(|more| *more <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve)
            .is_ok()
    }
}

#[cfg(test)]
#[path = "elastic_test.rs"]
mod tests;
