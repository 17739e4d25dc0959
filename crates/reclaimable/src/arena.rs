//! Slots for pages of one size, in segments.
//!
//! Segments are made when they are first needed, and offered to the system whole: one call for 1 MiB costs a
//! fifteenth of the calls for its pages. So the caller should fill slots in order.
//!
//! Nothing here waits or takes a lock, so nothing is left locked in a child that is forked.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::segment::{Key, Segment, SlotContent};

/// Bytes of a segment.
pub const SEGMENT: usize = 1 << 20;

/// Slots for pages of one size, numbered from 0.
#[derive(Debug)]
pub struct Arena {
    page: usize,
    /// Those that were ever used; null for the others. They are never unmapped before the arena is dropped.
    segments: Box<[AtomicPtr<Segment>]>,
    /// How many are in use.
    used: AtomicUsize,
    /// Pages written that were not offered yet.
    fresh: AtomicUsize,
}

impl Arena {
    /// An arena that holds nothing, for pages of `page` bytes (a power of two from 512 to 65536), in `segments_max`
    /// segments at most. `None` if there is no memory for it.
    pub fn new(page: usize, segments_max: usize) -> Option<Arena> {
        let is_right = page.is_power_of_two() && (512..=1 << 16).contains(&page);
        is_right.then_some(())?;
        Some(Arena {
            page,
            segments: nulls(segments_max)?,
            used: AtomicUsize::new(0),
            fresh: AtomicUsize::new(0),
        })
    }

    /// Whether the system has memory that it can take back. Tried with the first segment, which is of use later.
    pub fn is_possible(&self) -> bool {
        self.segments.is_empty() || self.make(0)
    }

    /// Bytes of a page.
    pub fn page(&self) -> usize {
        self.page
    }

    /// Slots of a segment.
    pub fn per_segment(&self) -> usize {
        SEGMENT / self.page
    }

    /// Segments in use.
    pub fn segments(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Slots in use.
    pub fn slots(&self) -> usize {
        self.segments() * self.per_segment()
    }

    fn segment(&self, number: usize) -> Option<&Segment> {
        let segment = self.segments.get(number)?.load(Ordering::Acquire);
        // SAFETY: it is null or comes from `make`, which leaks a box and puts it here once and for all; it is freed when
        // the arena is dropped, which this borrows.
        unsafe { segment.as_ref() }
    }

    fn segment_of(&self, slot: usize) -> Option<(&Segment, usize)> {
        let segment = self.segment(slot / self.per_segment())?;
        Some((segment, slot % self.per_segment()))
    }

    /// Whether there is memory for the segment.
    fn make(&self, number: usize) -> bool {
        let Some(place) = self.segments.get(number) else {
            return false;
        };
        if !place.load(Ordering::Acquire).is_null() {
            return true;
        }
        let Some(segment) = Segment::new(SEGMENT, self.page) else {
            return false;
        };
        let segment = Box::into_raw(Box::new(segment));
        let put = place.compare_exchange(
            ptr::null_mut(),
            segment,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if put.is_err() {
            // SAFETY: it comes from `Box::into_raw` above, and another thread's was faster, so no other thread has it.
            drop(unsafe { Box::from_raw(segment) });
        }
        true
    }

    /// Uses one more segment, if there is memory for it. False if not.
    pub fn grow(&self) -> bool {
        let used = self.segments();
        self.make(used)
            && self
                .used
                .compare_exchange(used, used + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Uses so many segments at most from now on. The memory of the others is given back; what is in them is gone. Says
    /// how many those are.
    pub fn shrink(&self, segments: usize) -> usize {
        let used = self.used.fetch_min(segments, Ordering::AcqRel);
        for number in segments..used {
            if let Some(segment) = self.segment(number) {
                self.fresh.fetch_sub(segment.discard(), Ordering::Relaxed);
            }
        }
        used.saturating_sub(segments)
    }

    /// Bytes of pages that were written and not offered yet, and how many of them are in this segment.
    pub fn fresh(&self, segment: usize) -> (usize, usize) {
        let pages = self.segment(segment).map_or(0, Segment::fresh);
        let all = self.fresh.load(Ordering::Relaxed);
        (all * self.page, pages * self.page)
    }

    /// The system may take back what is in this segment now. False if it will not.
    pub fn offer(&self, segment: usize) -> bool {
        let Some(segment) = self.segment(segment) else {
            return true;
        };
        let offered = segment.offer().inspect(|pages| {
            self.fresh.fetch_sub(*pages, Ordering::Relaxed);
        });
        offered.is_some()
    }

    /// Bytes that a segment takes which the system cannot take back: what is known of its pages.
    pub fn beside(&self) -> usize {
        self.per_segment() * Segment::beside(self.page)
    }

    /// The key of the page in a slot, or of the page that was there before the system took it back.
    pub fn key(&self, slot: usize) -> Key {
        self.segment_of(slot)
            .map_or(Key::default(), |(segment, index)| segment.key(index))
    }

    /// Whether a page is in a slot, as far as can be seen without reading it.
    pub fn has(&self, slot: usize, key: Key) -> bool {
        self.segment_of(slot)
            .is_some_and(|(segment, index)| segment.has(index, key))
    }

    /// Copies a page to `out`, which has its size, and counts a use if `is_use`. Anything but [`SlotContent::Page`]
    /// leaves `out` in no known state.
    #[inline]
    pub fn read(&self, slot: usize, key: Key, out: &mut [u8], is_use: bool) -> SlotContent {
        self.segment_of(slot)
            .map_or(SlotContent::Other, |(segment, index)| {
                segment.read(index, key, out, is_use)
            })
    }

    /// Puts a page into a slot, and returns the key of the page before it. `None` if another thread is in it.
    pub fn write(&self, slot: usize, key: Key, bytes: &[u8]) -> Option<Key> {
        let (segment, index) = self.segment_of(slot)?;
        // Before the segment counts it: the sum must never be less than its parts.
        self.fresh.fetch_add(1, Ordering::Relaxed);
        let before = segment.write(index, key, bytes);
        if before.is_none() {
            self.fresh.fetch_sub(1, Ordering::Relaxed);
        }
        before
    }

    /// Counts a use of what is in a slot.
    pub fn note_use(&self, slot: usize) {
        if let Some((segment, index)) = self.segment_of(slot) {
            segment.note_use(index);
        }
    }

    /// Empties a slot, if it has this page and no thread is in it.
    pub fn remove(&self, slot: usize, key: Key) -> bool {
        self.segment_of(slot)
            .is_some_and(|(segment, index)| segment.remove(index, key))
    }

    /// Whether a slot can be replaced: no thread reads or writes it, and it has no uses left. Up to three uses are
    /// counted. With `ages`, this call takes half of them off.
    pub fn pass(&self, slot: usize, ages: bool) -> bool {
        self.segment_of(slot)
            .is_some_and(|(segment, index)| segment.pass(index, ages))
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn exchange_grain(&self, number: usize, grain: &[u8; 4096]) -> [u8; 4096] {
        let per_segment = SEGMENT / 4096;
        let segment = self.segment(number / per_segment).expect("it was made");
        segment.exchange_grain(number % per_segment, grain)
    }

    /// For tests: does with 4096 bytes of the arena what the system may do with them at any time.
    pub fn discard_grain(&self, number: usize) {
        let per_segment = SEGMENT / 4096;
        if let Some(segment) = self.segment(number / per_segment) {
            segment.discard_grain(number % per_segment);
        }
    }
}

/// So many null pointers. They are for all the memory that there may ever be, so they come from the allocator as zeros:
/// the system then gives no memory for those that are not used.
fn nulls(len: usize) -> Option<Box<[AtomicPtr<Segment>]>> {
    let layout = Layout::array::<AtomicPtr<Segment>>(len).ok()?;
    if layout.size() == 0 {
        return Some(Box::default());
    }
    // SAFETY: the layout is not of size 0.
    let start = unsafe { alloc_zeroed(layout) }.cast::<AtomicPtr<Segment>>();
    if start.is_null() {
        return None;
    }
    // SAFETY: it is memory of the global allocator with the layout of such a slice, all of it zero, and a zero
    // `AtomicPtr` is a null pointer (it has the representation of a pointer). No other thread has it.
    Some(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) })
}

impl Drop for Arena {
    fn drop(&mut self) {
        for place in &mut self.segments {
            let segment = *place.get_mut();
            if !segment.is_null() {
                // SAFETY: it comes from `Box::into_raw` in `make`, is here once, and the arena is no longer borrowed.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}
