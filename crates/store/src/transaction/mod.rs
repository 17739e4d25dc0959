//! The write half: buffering pages, encoding them, publishing a commit, making it durable.

pub(crate) mod commit;
pub(crate) mod dictionaries;
pub(crate) mod write;
pub(crate) mod write_buffer;
pub(crate) mod write_queue;
