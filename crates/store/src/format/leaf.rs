//! Entries of the page map, and a leaf of it in memory: [`FANOUT`] entries in half the bytes of an array of them.
//!
//! A leaf for each half a megabyte of a large database is much of what the cache holds, and what does not fit there is
//! read and decoded before every page. So offsets are kept as distances from one of them, which fit 32 bits
//! unless a leaf's extents lie more than 4 GiB apart; then it is the array.

use litepack_codec::{Codec, DictId, Encoding};
use litepack_io::cache::OBJECT_COPY;

use crate::format::offset::FileOffset;

/// Children of a node of the map. Small, because a commit rewrites the path to every page it changes.
pub const FANOUT: usize = 128;

const _: () = assert!(FANOUT * COPIED_LEN <= OBJECT_COPY);

/// Where and how one unit is stored. All zero (the default) means "nothing stored: all zero bytes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where in the file the extent begins.
    pub offset: FileOffset,
    /// Stored length in bytes; 0 if nothing is stored.
    pub len: u32,
    /// 32-bit checksum of the stored bytes.
    pub sum: u32,
    /// How the bytes decode.
    pub storage: Encoding,
}

impl Entry {
    /// A unit of zeros.
    pub const ZERO: Entry = Entry {
        offset: FileOffset::START,
        len: 0,
        sum: 0,
        storage: Encoding::RAW,
    };

    /// Whether nothing is stored.
    pub fn is_zero(&self) -> bool {
        self.len == 0
    }

    /// Where the extent ends.
    pub(crate) fn end(&self) -> FileOffset {
        self.offset + u64::from(self.len)
    }
}

/// 0 for a zero unit, else `1 + codec + 8 * up_to_date + 16 * dictionary`.
pub(crate) fn tag_of(entry: &Entry) -> u64 {
    if entry.is_zero() {
        return 0;
    }
    let Encoding {
        codec,
        dict,
        up_to_date,
    } = entry.storage;
    1 + codec as u64 + 8 * u64::from(up_to_date) + 16 * u64::from(dict)
}

pub(crate) fn storage_of(tag: u64) -> Option<Encoding> {
    let tag = tag.checked_sub(1)?;
    let codec = Codec::from_number((tag % 8) as u8)?;
    Some(Encoding {
        codec,
        dict: DictId::try_from(tag / 16).ok()?,
        up_to_date: tag & 8 != 0,
    })
}

/// The entries of [`FANOUT`] consecutive units.
#[derive(Clone, Debug)]
pub struct Leaf(Form);

#[derive(Clone, Debug)]
enum Form {
    Narrow(Box<Narrow>),
    Wide(Box<[Entry; FANOUT]>),
}

#[derive(Clone, Debug)]
struct Narrow {
    base: FileOffset,
    entries: [Short; FANOUT],
}

/// An entry whose tag is 0 where nothing is stored.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    /// From the leaf's base.
    offset: u32,
    sum: u32,
    /// Less one: 64 KiB is the longest a unit can be.
    len: u16,
    tag: u16,
}

impl Short {
    /// `None` if the entry does not fit.
    fn new(entry: &Entry, base: FileOffset) -> Option<Short> {
        if entry.is_zero() {
            return Some(Short::default());
        }
        Some(Short {
            offset: u32::try_from(entry.offset.distance_from(base)?).ok()?,
            sum: entry.sum,
            len: u16::try_from(entry.len - 1).ok()?,
            tag: u16::try_from(tag_of(entry)).ok()?,
        })
    }

    fn entry(&self, base: FileOffset) -> Entry {
        let Some(storage) = storage_of(self.tag.into()) else {
            return Entry::ZERO;
        };
        Entry {
            offset: base + u64::from(self.offset),
            len: u32::from(self.len) + 1,
            sum: self.sum,
            storage,
        }
    }
}

/// Bytes of an entry in a copy.
const COPIED_LEN: usize = 14;

/// An entry in a copy. `None` if it does not fit.
fn to_copied(entry: &Entry) -> Option<[u8; COPIED_LEN]> {
    let short = Short::new(entry, entry.offset)?;
    let [a, b, c, d, e, f, 0, 0] = entry.offset.0.to_le_bytes() else {
        return None;
    };
    let [g, h, i, j] = short.sum.to_le_bytes();
    let ([k, l], [m, n]) = (short.len.to_le_bytes(), short.tag.to_le_bytes());
    Some([a, b, c, d, e, f, g, h, i, j, k, l, m, n])
}

fn from_copied(bytes: [u8; COPIED_LEN]) -> Entry {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = bytes;
    let short = Short {
        offset: 0,
        sum: u32::from_le_bytes([g, h, i, j]),
        len: u16::from_le_bytes([k, l]),
        tag: u16::from_le_bytes([m, n]),
    };
    let offset = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    short.entry(FileOffset(offset))
}

impl Narrow {
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    fn get(&self, slot: usize) -> Entry {
        self.entries[slot].entry(self.base)
    }

    /// All of these entries, if they fit. There is as much room below them as above.
    fn new(entries: &[Entry; FANOUT]) -> Option<Box<Narrow>> {
        let stored = || entries.iter().filter(|entry| !entry.is_zero());
        let lowest = stored().map(|entry| entry.offset).min().unwrap_or_default();
        let highest = stored().map(|entry| entry.offset).max().unwrap_or_default();
        let room = u64::from(u32::MAX).checked_sub(highest - lowest)?;
        let base = lowest.saturating_sub(room / 2);
        let mut narrow = Box::new(Narrow {
            base,
            entries: [Short::default(); FANOUT],
        });
        for (short, entry) in narrow.entries.iter_mut().zip(entries) {
            *short = Short::new(entry, base)?;
        }
        Some(narrow)
    }
}

impl From<&[Entry; FANOUT]> for Leaf {
    fn from(entries: &[Entry; FANOUT]) -> Leaf {
        Leaf(match Narrow::new(entries) {
            Some(narrow) => Form::Narrow(narrow),
            None => Form::Wide(Box::new(*entries)),
        })
    }
}

impl Leaf {
    /// A leaf of zero units.
    pub fn empty() -> Leaf {
        Leaf::from(&[Entry::ZERO; FANOUT])
    }

    /// The entry of the unit at `slot`, below [`FANOUT`].
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    pub fn get(&self, slot: usize) -> Entry {
        match &self.0 {
            Form::Narrow(narrow) => narrow.get(slot),
            Form::Wide(entries) => entries[slot],
        }
    }

    /// All entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry> {
        (0..FANOUT).map(|slot| self.get(slot))
    }

    /// Sets the entry of the unit at `slot`, below [`FANOUT`], and returns the former one.
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    pub fn set(&mut self, slot: usize, entry: Entry) -> Entry {
        let former = self.get(slot);
        match &mut self.0 {
            Form::Wide(entries) => entries[slot] = entry,
            Form::Narrow(narrow) => match Short::new(&entry, narrow.base) {
                Some(short) => narrow.entries[slot] = short,
                None => {
                    let mut entries: [Entry; FANOUT] = std::array::from_fn(|slot| narrow.get(slot));
                    entries[slot] = entry;
                    *self = Leaf::from(&entries);
                }
            },
        }
        former
    }

    /// Makes a copy for the cache, of bytes that are no format and never leave the process. False for a leaf that does not
    /// fit, as none does with extents beyond 256 TiB.
    pub(crate) fn copy_to(&self, copy: &mut [u8; OBJECT_COPY]) -> bool {
        let (places, _) = copy.as_chunks_mut();
        let mut entries = self.iter().zip(places);
        entries.all(|(entry, place)| match to_copied(&entry) {
            Some(bytes) => {
                *place = bytes;
                true
            }
            None => false,
        })
    }

    /// The leaf of which `copy` was made.
    pub(crate) fn from_copy(copy: &[u8; OBJECT_COPY]) -> Leaf {
        let (places, _) = copy.as_chunks();
        let mut entries = [Entry::ZERO; FANOUT];
        for (entry, bytes) in entries.iter_mut().zip(places) {
            *entry = from_copied(*bytes);
        }
        Leaf::from(&entries)
    }

    /// Bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Form::Narrow(_) => size_of::<Narrow>(),
            Form::Wide(_) => size_of::<[Entry; FANOUT]>(),
        }
    }
}

impl PartialEq for Leaf {
    fn eq(&self, other: &Leaf) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Leaf {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(max: u64) -> impl Strategy<Value = Entry> {
        let dict = prop_oneof![0..20u16, any::<u16>()];
        let len = prop_oneof![0..70_000u32, Just(1 << 16)];
        (0..max, len, any::<u32>(), dict, any::<bool>()).prop_map(
            |(offset, len, sum, dict, up_to_date)| match len {
                0 => Entry::ZERO,
                len => Entry {
                    offset: FileOffset(offset),
                    len,
                    sum,
                    storage: Encoding {
                        codec: Codec::Zstd,
                        dict,
                        up_to_date,
                    },
                },
            },
        )
    }

    fn changes() -> impl Strategy<Value = Vec<(usize, Entry)>> {
        let changes = |max| proptest::collection::vec((0..FANOUT, entry(max)), 0..300);
        prop_oneof![changes(1 << 32), changes(1 << 34), changes(u64::MAX >> 1)]
    }

    proptest! {
        #[test]
        fn what_was_set_is_what_is_found(changes in changes()) {
            let mut leaf = Leaf::empty();
            let mut model = [Entry::ZERO; FANOUT];
            for (slot, entry) in changes {
                let former = std::mem::replace(&mut model[slot], entry);
                prop_assert_eq!(leaf.set(slot, entry), former);
                prop_assert!(leaf.iter().eq(model));
            }
            let mut copy = [0xff; OBJECT_COPY];
            let fits = leaf.iter().all(|entry| {
                entry.offset.0 >> 48 == 0 && entry.len <= 1 << 16 && tag_of(&entry) < 1 << 16
            });
            prop_assert_eq!(leaf.copy_to(&mut copy), fits);
            prop_assert!(!fits || Leaf::from_copy(&copy) == leaf);
        }
    }

    #[test]
    fn a_leaf_takes_half_the_bytes_wherever_its_extents_are() {
        let at = |offset| Entry {
            offset: FileOffset(offset),
            len: 1 << 16,
            ..Entry::ZERO
        };
        for first in [2048, 1 << 33, 1 << 50] {
            let mut leaf = Leaf::empty();
            for slot in 0..FANOUT {
                leaf.set(slot, at(first + (slot as u64) * (30 << 20)));
            }
            assert!(2 * leaf.bytes() < size_of::<[Entry; FANOUT]>() + 32);
            leaf.set(7, at(first + (5 << 30)));
            assert!(leaf.bytes() == size_of::<[Entry; FANOUT]>());
        }
    }
}
