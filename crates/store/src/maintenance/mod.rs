//! Work on a file whose content stays as it is: giving space back, order, recompression, erasing.

pub(crate) mod compact;
pub(crate) mod recompress;
pub(crate) mod reorder;
