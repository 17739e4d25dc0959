//! Reading all of a file: what it is made of, and whether it is sound.

pub(crate) mod check;
mod count;
pub(crate) mod info;
pub(crate) mod walk;
pub(crate) mod without_key;
