//! Memory that the system may take back, and how it is read and written: by copies only. A reference to it would say
//! that it stays as it is.

use std::ops::Range;
use std::ptr;

use rustix::mm::Advice;

use crate::pages::Pages;

/// The smallest piece that the system takes back: the smallest page size of any processor that Linux runs on. A
/// larger one is a multiple of it.
pub(crate) const GRAIN: usize = 4096;
pub(crate) const WORD: usize = 8;

/// Zeros at first. A child that the process forks has zeros in its place again.
#[derive(Debug)]
pub(crate) struct Mapping(Pages);

impl Mapping {
    /// `len` bytes, a multiple of the system's page size. `None` if there is no memory, or none of this kind.
    pub(crate) fn new(len: usize) -> Option<Mapping> {
        let pages = Pages::unreserved(len).filter(|pages| pages.len() == len)?;
        // Without it a child would share the pages, and this process copy each before it changes it.
        let is_ours_alone = pages.advise(Advice::LinuxWipeOnFork);
        // A huge page could only be taken back whole, and one that the system makes of pages that were offered not at
        // all. Pages that can be made again need no place in a core dump. If the system knows neither advice, nothing
        // is lost.
        pages.advise(Advice::LinuxNoHugepage);
        pages.advise(Advice::LinuxDontDump);
        let mapping = Mapping(pages);
        (is_ours_alone && mapping.offer()).then_some(mapping)
    }

    fn at(&self, place: usize) -> *mut u8 {
        self.0.start().as_ptr().wrapping_add(place)
    }

    /// The word at `place`.
    ///
    /// # Safety
    /// It is within the mapping, and aligned. No other thread writes it.
    pub(crate) unsafe fn word(&self, place: usize) -> u64 {
        // SAFETY: as the caller says. It is volatile as the system may make it zero.
        unsafe { self.at(place).cast::<u64>().read_volatile() }
    }

    /// Writes a word.
    ///
    /// # Safety
    /// It is within the mapping, and aligned. No other thread reads or writes it.
    pub(crate) unsafe fn set_word(&self, place: usize, word: u64) {
        // SAFETY: as the caller says.
        unsafe { self.at(place).cast::<u64>().write_volatile(word) };
    }

    /// Copies what is at `place` to `out`. The system may make it zero meanwhile, as another process may do with a file
    /// that is mapped.
    ///
    /// # Safety
    /// It is within the mapping, and no other thread writes it.
    #[inline]
    pub(crate) unsafe fn copy_to(&self, place: usize, out: &mut [u8]) {
        // SAFETY: as the caller says; `out` is borrowed by the caller alone, so it is not in the mapping.
        unsafe { ptr::copy_nonoverlapping(self.at(place), out.as_mut_ptr(), out.len()) };
    }

    /// Copies `bytes` to `place`.
    ///
    /// # Safety
    /// It is within the mapping, and no other thread reads or writes it.
    #[inline]
    pub(crate) unsafe fn copy_from(&self, place: usize, bytes: &[u8]) {
        // SAFETY: as the caller says; there are no references into the mapping, so `bytes` are elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(place), bytes.len()) };
    }

    /// The system may take back what is there now. False if it will not.
    pub(crate) fn offer(&self) -> bool {
        self.0.advise(Advice::LinuxFree)
    }

    /// Gives pages back at once.
    pub(crate) fn discard(&self, range: Range<usize>) {
        // If the system refuses, the pages stay as they are, and are given back by `offer`.
        self.0.advise_on(range, Advice::LinuxDontNeed);
    }

    /// Puts `grain` into the place of one grain, and says what was there.
    #[cfg(test)]
    pub(crate) fn exchange_grain(&self, number: usize, grain: &[u8; GRAIN]) -> [u8; GRAIN] {
        assert!((number + 1) * GRAIN <= self.0.len());
        let memory = self.at(number * GRAIN).cast::<[u8; GRAIN]>();
        // SAFETY: the grain is within the mapping, and only the thread of the test uses this segment.
        unsafe {
            let before = memory.read_volatile();
            memory.write_volatile(*grain);
            before
        }
    }
}
