//! Calls to the system: anonymous memory, and advice on it.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Zeros at first. A child that the process forks has zeros in its place again.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives an address and advice to the system, and both are for any thread. Each read and write at the
// address has an argument of its own, where it is done.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes, a multiple of the system's page size. `None` if there is no memory, or none of this kind.
    pub(crate) fn new(len: usize) -> Option<Mapping> {
        if !len.is_multiple_of(rustix::param::page_size()) {
            return None;
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the system chooses the place, so no memory in use is mapped over.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        };
        let start = NonNull::new(start.ok()?.cast())?;
        let mapping = Mapping { start, len };
        // Without it a child would share the pages, and this process copy each before it changes it.
        let is_ours_alone = mapping.advise(0..len, Advice::LinuxWipeOnFork);
        // A huge page could only be taken back whole, and one that the system makes of pages that were offered not at
        // all. Pages that can be made again need no place in a core dump. If the system knows neither advice, nothing
        // is lost.
        mapping.advise(0..len, Advice::LinuxNoHugepage);
        mapping.advise(0..len, Advice::LinuxDontDump);
        (is_ours_alone && mapping.offer()).then_some(mapping)
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The system may take back what is there now. False if it will not.
    pub(crate) fn offer(&self) -> bool {
        self.advise(0..self.len, Advice::LinuxFree)
    }

    /// Gives pages back at once.
    pub(crate) fn discard(&self, range: Range<usize>) {
        debug_assert!(range.end <= self.len);
        // If the system refuses, the pages stay as they are, and are given back by `offer`.
        self.advise(range, Advice::LinuxDontNeed);
    }

    fn advise(&self, range: Range<usize>, advice: Advice) -> bool {
        let start = self.start.as_ptr().wrapping_add(range.start);
        // SAFETY: the range is within the mapping, which lives as long as `self`. The advice makes pages of it zero, now,
        // later or in a child; those who read and write there reckon with that.
        unsafe { madvise(start.cast::<c_void>(), range.len(), advice) }.is_ok()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and the address is no longer in use: it is only given to those who
        // borrow `self`.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
