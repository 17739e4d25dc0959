//! Memory that the system may take back.

use std::ops::Range;

use rustix::mm::Advice;

use crate::pages::Pages;

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

    pub(crate) fn start(&self) -> *mut u8 {
        self.0.start().as_ptr()
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
}
