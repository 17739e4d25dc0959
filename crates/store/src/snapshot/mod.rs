//! The read half: which commit a file is at, where its units are, reading them.

pub(crate) mod page_map;
pub(crate) mod recover;
pub(crate) mod store;
