//! The prefetch segment: copies of what a remote reader needs first, side by side, so that one request brings what
//! would take one after another. It holds the map nodes above the leaves, the catalog, dictionaries, and units that the
//! caller names (the upper pages of b-trees) with their map entries.

use std::collections::BTreeMap;
use std::ops::Range;

use litepack_cipher::{Nonce, Padding};
use litepack_io::bytes::{Reader, put_varint};

use crate::format::guard::other_excess;
use crate::format::layout::{DATA_START, SEALED_START, is_plausible};
use crate::format::leaf::{Entry, storage_of, tag_of};
use crate::format::nonces::sum_of;
use crate::format::offset::FileOffset;
use crate::format::unit::Unit;

/// A remote reader's first request brings so many bytes of the file. Extents within them need no copy in the segment.
pub const OPENING: u64 = 128 << 10;
/// Most bytes of a segment.
pub(crate) const SEGMENT_LEN_MAX: u64 = 1 << 20;
/// More than any extent takes in the segment's list of contents, and more than its two counts.
const LISTED_LEN: u64 = 32;
/// The same in an encrypted file.
const LISTED_LEN_SEALED: u64 = LISTED_LEN + 20;

/// What a remote reader's first request brings of a file besides its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// So many bytes behind the head.
    pub(crate) data: u64,
    /// An extent other than a unit takes at most so many more than its content.
    sealed: u64,
    /// The same of a unit.
    sealed_unit: u64,
}

impl Opening {
    /// Of a file that is encrypted, with this padding, or of one that is not.
    pub fn of(encrypted: Option<Padding>) -> Opening {
        let start = encrypted.map_or(DATA_START, |_| SEALED_START);
        Opening {
            data: OPENING - start.0,
            sealed: other_excess(encrypted) as u64,
            sealed_unit: encrypted.map_or(0, Padding::excess) as u64,
        }
    }

    /// So many units of so many bytes in the mean, as they are stored.
    pub fn of_units(&self, count: u64, len: u64) -> u64 {
        count.saturating_mul(len.saturating_add(self.sealed_unit))
    }

    /// What is left beside extents of so many bytes of content each.
    pub fn beside(&self, lens: &[u64]) -> u64 {
        let all = lens.iter().map(|len| len.saturating_add(self.sealed));
        let all = all.fold(0, u64::saturating_add);
        self.data.saturating_sub(all)
    }
}

/// A segment as a reader keeps it.
#[derive(Debug, Default)]
pub(crate) struct PrefetchSegment {
    bytes: Vec<u8>,
    /// Where in `bytes` the copy of an extent is, by its offset in the file.
    extents: BTreeMap<FileOffset, Range<usize>>,
    units: BTreeMap<Unit, Entry>,
}

impl PrefetchSegment {
    /// Decodes a segment; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: Vec<u8>, is_encrypted: bool) -> Option<PrefetchSegment> {
        let mut fields = Reader::new(&bytes);
        let (others, count) = (fields.varint()?, fields.varint()?);
        let (mut places, mut units, mut number) = (Vec::new(), BTreeMap::new(), 0u64);
        for _ in 0..others {
            places.push((FileOffset(fields.varint()?), fields.varint_u32()?));
        }
        for _ in 0..count {
            number = number.checked_add(fields.varint()?)?;
            let storage = storage_of(fields.varint()?)?;
            let (offset, len) = (FileOffset(fields.varint()?), fields.varint_u32()?);
            let (sum, nonce) = match is_encrypted {
                false => (fields.u32()?, Nonce::NONE),
                true => {
                    let salt = fields.u128()?.to_le_bytes();
                    let counter = fields.u64()?;
                    let nonce = Nonce { salt, counter };
                    (sum_of(&nonce), nonce)
                }
            };
            places.push((offset, len));
            let entry = Entry {
                offset,
                len,
                sum,
                nonce,
                storage,
                ..Entry::ZERO
            };
            units.insert(Unit(number), entry);
        }
        let mut start = bytes.len() - fields.rest().len();
        let mut extents = BTreeMap::new();
        for (offset, len) in places {
            is_plausible(offset, len).then_some(())?;
            let stop = start.checked_add(len as usize)?;
            extents.insert(offset, start..stop);
            start = stop;
        }
        (start == bytes.len()).then_some(PrefetchSegment {
            bytes,
            extents,
            units,
        })
    }

    /// The copy of an extent, if it is here.
    pub(crate) fn extent(&self, offset: FileOffset, len: usize) -> Option<&[u8]> {
        let range = self.extents.get(&offset)?;
        self.bytes
            .get(range.clone())
            .filter(|copy| copy.len() == len)
    }

    /// The map's entry of a unit, if it is here.
    pub(crate) fn entry(&self, unit: Unit) -> Option<Entry> {
        self.units.get(&unit).copied()
    }

    /// All units that are here, with their entries.
    pub(crate) fn units(&self) -> impl Iterator<Item = (Unit, Entry)> + '_ {
        self.units.iter().map(|(unit, entry)| (*unit, *entry))
    }

    /// All copies, with the offsets of their originals.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (FileOffset, &[u8])> + '_ {
        let extents = self.extents.iter();
        extents.filter_map(|(offset, range)| Some((*offset, self.bytes.get(range.clone())?)))
    }
}

/// A segment that is being made.
#[derive(Debug)]
pub(crate) struct SegmentBuilder {
    others: Vec<(FileOffset, Vec<u8>)>,
    units: Vec<(Unit, Entry, Vec<u8>)>,
    /// Bytes that may still be added.
    pub(crate) room: u64,
    listed: u64,
}

impl SegmentBuilder {
    /// For a segment of at most `room` bytes, in a file that is encrypted with this padding, or is not.
    pub(crate) fn new(room: u64, encrypted: Option<Padding>) -> SegmentBuilder {
        let listed = encrypted.map_or(LISTED_LEN, |_| LISTED_LEN_SEALED);
        let excess = other_excess(encrypted) as u64;
        SegmentBuilder {
            others: Vec::new(),
            units: Vec::new(),
            room: room.saturating_sub(listed + excess),
            listed,
        }
    }

    /// Takes room for an extent, if there is enough.
    pub(crate) fn fits(&mut self, len: u32) -> bool {
        let left = self.room.checked_sub(u64::from(len) + self.listed);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Adds an extent that fits.
    pub(crate) fn add(&mut self, offset: FileOffset, bytes: Vec<u8>) {
        self.others.push((offset, bytes));
    }

    /// Adds a stored unit that fits.
    pub(crate) fn add_unit(&mut self, unit: Unit, entry: Entry, stored: Vec<u8>) {
        self.units.push((unit, entry, stored));
    }

    /// The bytes on disk, as docs/format.md has them.
    pub(crate) fn encode(mut self) -> Vec<u8> {
        self.units.sort_by_key(|(unit, ..)| *unit);
        let mut out = Vec::new();
        put_varint(&mut out, self.others.len() as u64);
        put_varint(&mut out, self.units.len() as u64);
        for (offset, bytes) in &self.others {
            put_varint(&mut out, offset.0);
            put_varint(&mut out, bytes.len() as u64);
        }
        let mut before = 0;
        for (unit, entry, _) in &self.units {
            put_varint(&mut out, unit.0 - before);
            before = unit.0;
            put_varint(&mut out, tag_of(&entry.extent()));
            put_varint(&mut out, entry.offset.0);
            put_varint(&mut out, entry.len.into());
            match entry.nonce {
                Nonce::NONE => out.extend(entry.sum.to_le_bytes()),
                Nonce { salt, counter } => {
                    out.extend(salt);
                    out.extend(counter.to_le_bytes());
                }
            }
        }
        let others = self.others.iter().map(|(_, bytes)| bytes);
        for bytes in others.chain(self.units.iter().map(|(.., bytes)| bytes)) {
            out.extend(bytes);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_beyond_the_longest_file_are_refused() {
        for offset in [1 << 47, u64::MAX - 2] {
            let mut builder = SegmentBuilder::new(1 << 20, None);
            builder.add(FileOffset(offset), vec![7; 10]);
            let is_read = PrefetchSegment::decode(builder.encode(), false).is_some();
            assert_eq!(is_read, offset == 1 << 47);
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_none_or_lie_within_themselves(
            head in proptest::collection::vec(0u8..20, 0..40),
            tail in proptest::collection::vec(any::<u8>(), 0..200),
            is_encrypted in any::<bool>(),
        ) {
            if let Some(segment) = PrefetchSegment::decode([head, tail].concat(), is_encrypted) {
                for range in segment.extents.values() {
                    prop_assert!(segment.bytes.get(range.clone()).is_some());
                }
            }
        }
    }
}
