//! The write half: buffering pages, encoding them, publishing a commit, making it durable.

pub(crate) mod changes;
pub(crate) mod commit;
mod create;
mod dictionaries;
mod differences;
#[cfg(test)]
mod differences_test;
mod flush;
pub(crate) mod groups;
mod items;
mod newest;
mod prefetch_segment;
pub(crate) mod references;
#[cfg(test)]
mod references_test;
mod rekey;
pub(crate) mod store;
mod undo;
pub(crate) mod write;
mod write_buffer;
mod write_queue;
pub(crate) mod writer;
