//! The bytes of a packed file.

pub(crate) mod basis;
pub(crate) mod beside;
pub(crate) mod catalog;
pub(crate) mod file_state;
pub(crate) mod guard;
pub(crate) mod header;
pub(crate) mod key_place;
pub(crate) mod layout;
pub(crate) mod leaf;
pub(crate) mod node;
pub(crate) mod nonces;
pub(crate) mod offset;
pub(crate) mod prefetch_segment;
pub(crate) mod record;
pub(crate) mod unit;
