//! A system that has no such memory, or one on which it was not tried.

pub(crate) const GRAIN: usize = 4096;
pub(crate) const WORD: usize = 8;

/// It cannot be made.
#[derive(Debug)]
pub(crate) enum Mapping {}

impl Mapping {
    pub(crate) fn new(_len: usize) -> Option<Mapping> {
        None
    }

    pub(crate) unsafe fn word(&self, _place: usize) -> u64 {
        match *self {}
    }

    pub(crate) unsafe fn set_word(&self, _place: usize, _word: u64) {
        match *self {}
    }

    pub(crate) unsafe fn copy_to(&self, _place: usize, _out: &mut [u8]) {
        match *self {}
    }

    pub(crate) unsafe fn copy_from(&self, _place: usize, _bytes: &[u8]) {
        match *self {}
    }

    pub(crate) fn offer(&self) -> bool {
        match *self {}
    }

    pub(crate) fn discard(&self, _range: std::ops::Range<usize>) {
        match *self {}
    }
}
