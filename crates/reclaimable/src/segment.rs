//! The slots of one segment, and why a copy out of them is right.
//!
//! A slot has a state: how many threads read it, and whether one writes it. A reader counts itself and then looks
//! whether there is a writer; a writer gets the slot only while no thread reads it. No thread waits: one that finds the
//! slot taken gives up. So a child that was forked while another thread was in a slot loses that slot, and no more.
//!
//! **Against the system**, which may make a page zero at any moment after it was offered. It does so in pieces of
//! [`GRAIN`] bytes or multiples of it, never in smaller ones. The first word (8 bytes) of each grain is a stamp: a number
//! that is not zero and that no earlier write of the slot had. The data's word is kept beside the slot. The stamp is
//! written before everything else of the grain, and compared before and after the copy:
//! - It is there after the copy: the grain was not taken between its writing and the end of the copy. A grain that was
//!   taken stays zero until a writer writes the stamp, and only one with the slot to itself does.
//! - It is zero: the grain was taken. There is no copy then.
//! - It is another: this processor still reads the memory that was there before. Linux takes a page from the page table
//!   at once, but has other processors forget where it was a little later (`try_to_unmap_one` in
//!   <https://github.com/torvalds/linux/blob/master/mm/rmap.c>: "we clear the PTE but do not flush"). Meanwhile another
//!   thread may have written the slot, in new memory. There is no copy then. Once a processor has seen the stamp it has
//!   forgotten the old place, so the copy is from the new one. (A thread that moves to a third processor between the
//!   stamp and the copy, and finds there what the first has forgotten, is not caught unless the old place is gone before
//!   the stamp is compared again. It has to happen within the microsecond of a copy, and was never seen.)

use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::mapping::{GRAIN, Mapping, WORD};

/// The name of a page. Zero is for no page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(pub [u64; 2]);

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotContent {
    /// The page, and here is a copy.
    Page,
    /// The system has taken it back.
    Gone,
    /// Another page, or one that is being written.
    Other,
}

/// A thread that reads.
const READER: u32 = 1;
const READERS: u32 = 0xffff;
/// A thread that writes.
const WRITING: u32 = 1 << 16;
/// A use since the page was written that [`Slot::pass`] has not taken off. It may be counted once more for each thread
/// that reads at the same moment, so there is room for more than [`USES_MAX`].
const USE: u32 = 1 << 17;
const USES_MAX: u32 = 3;

/// The fields of a page beside it, in memory of the usual kind, and within one line of the processor's.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Slot {
    key: [AtomicU64; 2],
    state: AtomicU32,
    /// Times it was written: the stamp of its grains.
    stamp: AtomicU32,
    /// The word in whose place the stamp of the first grain is.
    word: AtomicU64,
}

impl Slot {
    fn key(&self) -> Key {
        let [a, b] = &self.key;
        Key([a.load(Ordering::Relaxed), b.load(Ordering::Relaxed)])
    }

    fn set_key(&self, key: Key) {
        for (word, value) in self.key.iter().zip(key.0) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Counts a reader, if the slot has `key` and no thread writes it.
    fn enter(&self, key: Key) -> Option<Reading<'_>> {
        if self.key() != key {
            return None;
        }
        let before = self.state.fetch_add(READER, Ordering::Acquire);
        let reading = Reading(self);
        // Once it is known that no thread writes it, it stays what it is until `reading` is dropped.
        (before & WRITING == 0 && self.key() == key).then_some(reading)
    }

    /// Takes the slot for writing, if no thread is in it. Its uses are forgotten.
    fn take(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & (READERS | WRITING) == 0
            && self
                .state
                .compare_exchange(state, WRITING, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    fn written(&self) {
        // Readers may have counted themselves meanwhile, to go away again.
        self.state.fetch_sub(WRITING, Ordering::Release);
    }

    fn note_use(&self) {
        if self.state.load(Ordering::Relaxed) / USE < USES_MAX {
            self.state.fetch_add(USE, Ordering::Relaxed);
        }
    }

    /// The stamp of what is in the slot. It is not 0.
    fn stamp(&self) -> u64 {
        u64::from(self.stamp.load(Ordering::Relaxed)) | 1 << 32
    }

    /// The stamp for what is written now. The caller has taken the slot.
    fn next_stamp(&self) -> u64 {
        self.stamp.fetch_add(1, Ordering::Relaxed);
        self.stamp()
    }

    /// The page is gone: its slot is as good as any.
    fn forget_uses(&self) {
        self.state.fetch_and(READERS | WRITING, Ordering::Relaxed);
    }

    /// Whether no use is left, and no thread is in it. Takes half of the uses off if it `ages`.
    fn pass(&self, ages: bool) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if ages && state >= USE {
            let less = self
                .state
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                    let uses = (state / USE).min(USES_MAX);
                    Some(state % USE + uses / 2 * USE)
                });
            debug_assert!(less.is_ok());
        }
        state == 0
    }
}

/// A reader that is counted.
struct Reading<'a>(&'a Slot);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(READER, Ordering::Release);
    }
}

/// Memory for pages of one size.
#[derive(Debug)]
pub(crate) struct Segment {
    memory: Mapping,
    slots: Box<[Slot]>,
    /// The words in whose places stamps are, of each page's other grains.
    words: Box<[AtomicU64]>,
    /// Pages written since the segment was offered.
    fresh: AtomicUsize,
    /// The size of a page, a power of two, from [`WORD`] to 16 grains.
    page: usize,
}

impl Segment {
    /// `None` if there is no memory for it.
    pub(crate) fn new(len: usize, page: usize) -> Option<Segment> {
        if !page.is_power_of_two() || !(WORD..=GRAIN * 16).contains(&page) || page > len {
            return None;
        }
        let mut slots = Vec::new();
        slots.try_reserve_exact(len / page).ok()?;
        slots.resize_with(len / page, Slot::default);
        let others = len / page * others(page);
        let mut words = Vec::new();
        words.try_reserve_exact(others).ok()?;
        words.resize_with(others, AtomicU64::default);
        let memory = Mapping::new(len)?;
        Some(Segment {
            memory,
            slots: slots.into_boxed_slice(),
            words: words.into_boxed_slice(),
            fresh: AtomicUsize::new(0),
            page,
        })
    }

    /// Bytes beside each page.
    pub(crate) fn beside(page: usize) -> usize {
        size_of::<Slot>() + others(page) * WORD
    }

    /// A slot, and where its page is in the mapping: there are as many slots as fit it, so all of the page is within.
    fn slot(&self, index: usize) -> Option<(&Slot, usize)> {
        let slot = self.slots.get(index)?;
        Some((slot, index * self.page))
    }

    /// The grains of a slot: where each begins in the page, and its word.
    fn grains<'a>(
        &'a self,
        index: usize,
        slot: &'a Slot,
    ) -> impl Iterator<Item = (usize, &'a AtomicU64)> {
        let words = self.words.iter().skip(index * others(self.page));
        let words = std::iter::once(&slot.word).chain(words);
        (0..self.page).step_by(GRAIN).zip(words)
    }

    /// Whether all grains of a slot have its stamp. The caller is counted as a reader.
    fn is_here(&self, slot: &Slot, place: usize) -> bool {
        let stamp = slot.stamp();
        (0..self.page).step_by(GRAIN).all(|start| {
            step();
            self.stamp_at(place + start) == stamp
        })
    }

    /// The first word of a grain that the caller is counted as a reader of.
    fn stamp_at(&self, grain: usize) -> u64 {
        // SAFETY: the grain is within the mapping, and aligned to 8 as pages of a power of two are. No thread writes it, as
        // the caller is counted as a reader of its slot.
        unsafe { self.memory.word(grain) }
    }

    pub(crate) fn key(&self, index: usize) -> Key {
        self.slots.get(index).map_or(Key::default(), Slot::key)
    }

    pub(crate) fn note_use(&self, index: usize) {
        if let Some(slot) = self.slots.get(index) {
            slot.note_use();
        }
    }

    /// Whether the slot can be written: no thread is in it, and no use of it is left.
    pub(crate) fn pass(&self, index: usize, ages: bool) -> bool {
        let slot = self.slots.get(index);
        slot.is_some_and(|slot| slot.pass(ages))
    }

    /// Whether the page is in the slot, as far as can be seen without reading it.
    pub(crate) fn has(&self, index: usize, key: Key) -> bool {
        let Some((slot, place)) = self.slot(index) else {
            return false;
        };
        slot.enter(key)
            .is_some_and(|_reading| self.stamp_at(place) == slot.stamp())
    }

    /// Copies the page to `out`, which has its size, and counts a use if `is_use`. Anything but [`SlotContent::Page`]
    /// leaves `out` in no known state.
    pub(crate) fn read(&self, index: usize, key: Key, out: &mut [u8], is_use: bool) -> SlotContent {
        let Some((slot, place)) = self.slot(index) else {
            return SlotContent::Other;
        };
        let Some(_reading) = slot.enter(key) else {
            return SlotContent::Other;
        };
        if out.len() != self.page {
            return SlotContent::Other;
        }
        if !self.is_here(slot, place) {
            slot.forget_uses();
            return SlotContent::Gone;
        }
        // Before anything is copied.
        fence(Ordering::SeqCst);
        step();
        // In tests, something may happen in the middle.
        let middle = if cfg!(test) { self.page / 2 } else { 0 };
        let (first, second) = out.split_at_mut(middle);
        // SAFETY: the page is within the mapping. No thread writes it while we are counted as a reader: a writer takes the
        // slot only while there is no reader (`Slot::take`), and what it wrote is seen by `Slot::enter`. The system may make
        // it zero meanwhile, and nothing is concluded from what was copied before the stamps are compared.
        unsafe { self.memory.copy_to(place, first) };
        step();
        // SAFETY: the other part of it.
        unsafe { self.memory.copy_to(place + middle, second) };
        // Compared after the copy.
        fence(Ordering::SeqCst);
        if !self.is_here(slot, place) {
            slot.forget_uses();
            return SlotContent::Gone;
        }
        for (start, word) in self.grains(index, slot) {
            if let Some(place) = out.get_mut(start..start + WORD) {
                place.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
        }
        if is_use {
            slot.note_use();
        }
        SlotContent::Page
    }

    /// Puts a page into the slot, and returns the key of the page before it. `None` if a thread is in it.
    pub(crate) fn write(&self, index: usize, key: Key, bytes: &[u8]) -> Option<Key> {
        let (slot, place) = self.slot(index)?;
        if bytes.len() != self.page || !slot.take() {
            return None;
        }
        let before = slot.key();
        let stamp = slot.next_stamp();
        for (start, kept) in self.grains(index, slot) {
            let end = self.page.min(start + GRAIN);
            let Some((word, rest)) = bytes.get(start..end).and_then(<[u8]>::split_first_chunk)
            else {
                continue;
            };
            let grain = place + start;
            kept.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            step();
            // SAFETY: the grain is within the slot's page, aligned to 8 as grains are (a smaller page is a power of two of at
            // least 8). The slot is ours: no other thread reads or writes the page.
            unsafe { self.memory.set_word(grain, stamp) };
            // Before the rest. Should the system take the grain from here on, the stamp is gone as well.
            fence(Ordering::SeqCst);
            let (first, second) = rest.split_at(if cfg!(test) { rest.len() / 2 } else { 0 });
            // SAFETY: as above, the other bytes of the grain.
            unsafe { self.memory.copy_from(grain + WORD, first) };
            step();
            // SAFETY: the other part of them.
            unsafe { self.memory.copy_from(grain + WORD + first.len(), second) };
        }
        self.fresh.fetch_add(1, Ordering::Relaxed);
        slot.set_key(key);
        slot.written();
        Some(before)
    }

    /// Empties the slot, if it has this page and no thread is in it.
    pub(crate) fn remove(&self, index: usize, key: Key) -> bool {
        let slot = self.slots.get(index).filter(|slot| slot.take());
        slot.is_some_and(|slot| {
            let has = slot.key() == key;
            if has {
                slot.set_key(Key::default());
            }
            slot.written();
            has
        })
    }

    /// Pages written since it was offered.
    pub(crate) fn fresh(&self) -> usize {
        self.fresh.load(Ordering::Relaxed)
    }

    /// The system may take back what is here now. Says how many pages it could not before; `None` if it will not.
    pub(crate) fn offer(&self) -> Option<usize> {
        let fresh = self.fresh.swap(0, Ordering::Relaxed);
        if self.memory.offer() {
            return Some(fresh);
        }
        self.fresh.fetch_add(fresh, Ordering::Relaxed);
        None
    }

    /// Gives it back at once. Says how many pages it could not take before.
    pub(crate) fn discard(&self) -> usize {
        let fresh = self.fresh.swap(0, Ordering::Relaxed);
        self.memory.discard(0..self.slots.len() * self.page);
        for slot in &self.slots {
            slot.forget_uses();
            if slot.take() {
                slot.set_key(Key::default());
                slot.written();
            }
        }
        fresh
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn exchange_grain(&self, number: usize, grain: &[u8; GRAIN]) -> [u8; GRAIN] {
        self.memory.exchange_grain(number, grain)
    }

    /// Does with one grain what the system may do.
    pub(crate) fn discard_grain(&self, number: usize) {
        let start = number * GRAIN;
        if start + GRAIN <= self.slots.len() * self.page {
            self.memory.discard(start..start + GRAIN);
        }
    }
}

/// Grains of a page behind its first.
fn others(page: usize) -> usize {
    page.div_ceil(GRAIN) - 1
}

/// A moment at which the system may take memory back, for tests.
#[inline]
fn step() {
    #[cfg(all(test, target_os = "linux"))]
    crate::tests::step();
}
