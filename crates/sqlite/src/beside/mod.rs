//! What the process has open, and what lies beside it.

pub(crate) mod identity;
pub(crate) mod known_absent;
pub(crate) mod registry;
pub(crate) mod stamp;
