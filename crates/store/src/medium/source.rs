//! The extents that a unit stored by reference is decoded from, as the item tree has them now.
//!
//! The same frame with other bases is another page, and identical pages have identical frames. So wherever a decoded
//! page is known by its source, that has the bases' places and checksums, not their numbers.

use twox_hash::XxHash3_64;

use crate::format::basis::{BASES_MAX, Item, ItemNumber};
use crate::format::leaf::{Entry, Extent};

/// An extent, and which of the units that it decodes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) extent: Extent,
    /// How many units it decodes to, and which one is meant.
    pub(crate) units: u8,
    pub(crate) slice: u8,
    pub(crate) bases: [Option<Base>; BASES_MAX],
}

/// An extent that stands, decoded, before another one when that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// `None` for a former extent of the unit itself.
    pub(crate) item: Option<ItemNumber>,
    pub(crate) extent: Extent,
    pub(crate) units: u8,
}

impl Base {
    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        match self.item {
            Some(ItemNumber(number)) => format!("item {number}"),
            None => "what the page was before".into(),
        }
    }

    /// One of its units.
    pub(crate) fn source(&self, slice: u8) -> Source {
        Source::whole(self.extent, self.units, slice)
    }
}

impl Source {
    /// A slice of an item.
    pub(crate) fn of(item: &Item, slice: u8) -> Source {
        Source::whole(item.extent, item.units, slice)
    }

    /// One of the units of an extent that needs no other.
    fn whole(extent: Extent, units: u8, slice: u8) -> Source {
        Source {
            extent,
            units,
            slice,
            bases: [None; BASES_MAX],
        }
    }

    /// The same extent, another of its units.
    pub(crate) fn at(self, slice: u8) -> Source {
        Source { slice, ..self }
    }

    /// The bases, in order.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &Base> {
        self.bases.iter().flatten()
    }
}

/// The properties by which a decoded page is known.
pub(crate) trait DecodedFrom {
    /// The extent.
    fn extent(&self) -> Extent;

    /// Which of the units in it, of how many: 0 of one alone, and below 16.
    fn part(&self) -> u8;

    /// A hash of its bases: 0 without any.
    fn bases_hash(&self) -> u32;
}

/// Of a unit that is what its extent decodes to.
impl DecodedFrom for Entry {
    fn extent(&self) -> Extent {
        debug_assert!(self.is_alone(), "another entry has a source");
        Entry::extent(self)
    }

    fn part(&self) -> u8 {
        0
    }

    fn bases_hash(&self) -> u32 {
        0
    }
}

impl DecodedFrom for Source {
    fn extent(&self) -> Extent {
        self.extent
    }

    fn part(&self) -> u8 {
        self.slice | (self.units / 2) << 2
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one")]
    fn bases_hash(&self) -> u32 {
        if self.bases().next().is_none() {
            return 0;
        }
        let mut bytes = Vec::with_capacity(BASES_MAX * 24);
        for base in self.bases() {
            let Extent {
                offset,
                len,
                sum,
                storage,
                ..
            } = base.extent;
            bytes.extend(offset.0.to_le_bytes());
            bytes.extend(len.to_le_bytes());
            bytes.extend(sum.to_le_bytes());
            bytes.extend(storage.dict.to_le_bytes());
            bytes.extend([storage.codec as u8, base.units]);
        }
        XxHash3_64::oneshot(&bytes) as u32
    }
}
