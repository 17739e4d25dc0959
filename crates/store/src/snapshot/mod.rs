//! The read half: which commit a file is at, where its units are, reading them.

pub(crate) mod former;
pub(crate) mod handle;
pub(crate) mod image;
pub(crate) mod item_tree;
mod leaves;
pub(crate) mod page_map;
pub(crate) mod pages;
mod prefetch;
#[cfg(test)]
mod prefetch_test;
pub(crate) mod recover;
pub(crate) mod references;
