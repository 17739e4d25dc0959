//! Units that have text in common are stored once: as aliases of an item, or as their difference to items. Others of one
//! tree may be stored together.
//!
//! ```text
//! estimate.rs  whether looking for them pays, from a sample     make.rs  makes them while units are written, or later
//! finder.rs    which units have text in common              groups.rs  which are stored together
//! shingles.rs  sampled hashes of 24 bytes at every offset       index.rs  which unit was the first to have each
//! ```

mod estimate;
mod finder;
mod groups;
mod index;
mod make;
mod shingles;

pub use estimate::Estimate;
pub use groups::Groups;
pub use make::References;

/// Whether all bytes are zero: such a unit takes no space.
fn is_zero(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// Bytes that a reference takes besides: its share of the item tree, and what its entry in the map is longer by.
const BESIDE: u64 = 24;

/// Whether a reference of so many bytes is worth it: it saves a third of the bytes that the unit takes alone. Reading it
/// costs the bases besides.
fn pays(len: u64, alone: u64) -> bool {
    (len + BESIDE) * 3 <= alone * 2
}
