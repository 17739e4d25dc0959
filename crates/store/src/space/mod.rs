//! Free space of the file, and where new extents go.

pub(crate) mod allocate;
pub(crate) mod blocks;
pub(crate) mod erase;
pub(crate) mod free_space;
pub(crate) mod held;
pub(crate) mod ranges;
pub(crate) mod small;
