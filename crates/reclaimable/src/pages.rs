//! Pages of the system: the one place where this crate asks for memory of its own, and gives advice on it.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

/// Zeros at first.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Pages {}
// SAFETY: `&Pages` gives an address and advice to the system, and both are for any thread. Each read and write at the
// address has an argument of its own, where it is done.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` bytes, in whole pages, of this process alone. `None` if there is no memory.
    pub(crate) fn new(len: usize) -> Option<Pages> {
        Pages::map(len, MapFlags::PRIVATE)
    }

    /// The same; the system does not count them as taken before they are written to.
    pub(crate) fn unreserved(len: usize) -> Option<Pages> {
        Pages::map(len, MapFlags::PRIVATE | MapFlags::NORESERVE)
    }

    fn map(len: usize, flags: MapFlags) -> Option<Pages> {
        let len = len
            .max(1)
            .checked_next_multiple_of(rustix::param::page_size())?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses the place, so no memory in use is mapped over.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) };
        let start = NonNull::new(start.ok()?.cast())?;
        Some(Pages { start, len })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Keeps them out of swap. False if the system does not allow so many.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: the range is mapped as long as `self` lives, and this does not change what is in it.
        unsafe { mlock(self.start.as_ptr().cast::<c_void>(), self.len) }.is_ok()
    }

    /// Advice on all of them. False if the system does not know it.
    pub(crate) fn advise(&self, advice: Advice) -> bool {
        self.advise_on(0..self.len, advice)
    }

    /// Advice on those of a range, which is within them.
    pub(crate) fn advise_on(&self, range: Range<usize>, advice: Advice) -> bool {
        debug_assert!(range.end <= self.len);
        let start = self.start.as_ptr().wrapping_add(range.start);
        // SAFETY: the range is within the mapping, which lives as long as `self`. The advice makes pages of it zero, now,
        // later or in a child; those who read and write there reckon with that.
        unsafe { madvise(start.cast::<c_void>(), range.len(), advice) }.is_ok()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and the address is no longer in use: it is only given to those who
        // borrow `self`, or own it.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
