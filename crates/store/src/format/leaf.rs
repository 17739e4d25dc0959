//! Entries of the page map, and a leaf of it in memory: [`FANOUT`] entries in half the bytes of an array of them.
//!
//! A leaf for each half a megabyte of a large database is much of what the cache holds, and what does not fit there is
//! read and decoded before every page. So offsets are kept as distances from one of them, which fit 32 bits unless a
//! leaf's extents lie more than 4 GiB apart; then it is the array. The bases of entries, beside their extents, are a
//! column of its own, which most leaves do not have.

use litepack_cipher::Nonce;
use litepack_codec::{Codec, DictId, Encoding};
use litepack_io::cache::OBJECT_COPY;

use crate::format::basis::{Basis, ItemNumber};
use crate::format::nonces::Nonces;
use crate::format::offset::FileOffset;

/// Children of a node of the map. Small, because a commit rewrites the path to every page it changes.
pub const FANOUT: usize = 128;

const _: () = assert!(FANOUT * COPIED_LEN <= OBJECT_COPY);

/// Where and how one unit is stored. All zero (the default) means "nothing stored: all zero bytes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where in the file the extent begins.
    pub offset: FileOffset,
    /// Stored length in bytes; 0 if there is no extent.
    pub len: u32,
    /// 32-bit checksum of the stored bytes; if they are sealed, what stands for their nonce.
    pub sum: u32,
    /// The nonce that they were sealed with.
    pub nonce: Nonce,
    /// How the bytes decode.
    pub storage: Encoding,
    /// The further data needed for that.
    pub basis: Basis,
}

/// An extent with content, and how it decodes by itself. `N` is `()` where its nonce is kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent<N = Nonce> {
    /// Where in the file it begins.
    pub offset: FileOffset,
    /// Stored length in bytes.
    pub len: u32,
    /// 32-bit checksum of the stored bytes; if they are sealed, what stands for their nonce.
    pub sum: u32,
    /// The nonce that they were sealed with.
    pub nonce: N,
    /// How the bytes decode.
    pub storage: Encoding,
}

impl<N> Extent<N> {
    /// The same with another nonce.
    pub(crate) fn with<M>(self, nonce: M) -> Extent<M> {
        Extent {
            offset: self.offset,
            len: self.len,
            sum: self.sum,
            nonce,
            storage: self.storage,
        }
    }
}

impl Extent {
    /// The entry of a unit that is stored so.
    pub(crate) fn entry(&self) -> Entry {
        Entry {
            offset: self.offset,
            len: self.len,
            sum: self.sum,
            nonce: self.nonce,
            storage: self.storage,
            basis: Basis::Alone,
        }
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> FileOffset {
        self.offset + u64::from(self.len)
    }

    /// Whether it has a byte in common with another one.
    pub(crate) fn overlaps(&self, other: &Extent) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

impl Entry {
    /// A unit of zeros.
    pub const ZERO: Entry = Entry {
        offset: FileOffset::START,
        len: 0,
        sum: 0,
        nonce: Nonce::NONE,
        storage: Encoding::RAW,
        basis: Basis::Alone,
    };

    /// A unit that is a slice of an item.
    pub(crate) fn slice(item: ItemNumber, slice: u8) -> Entry {
        Entry {
            basis: Basis::Slice(item, slice),
            ..Entry::ZERO
        }
    }

    /// Whether nothing is stored.
    pub fn is_zero(&self) -> bool {
        self.len == 0 && self.basis == Basis::Alone
    }

    /// Whether the unit is what its extent decodes to.
    pub(crate) fn is_alone(&self) -> bool {
        self.basis == Basis::Alone
    }

    /// Its own extent, without what that stands on. Of no length if there is none.
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            offset: self.offset,
            len: self.len,
            sum: self.sum,
            nonce: self.nonce,
            storage: self.storage,
        }
    }

    /// The extents that the entry owns: its own, and the former one that it is a difference to.
    pub(crate) fn extents(&self) -> impl Iterator<Item = Extent> + use<> {
        let own = (self.len > 0).then(|| self.extent());
        let former = match self.basis {
            Basis::Former(former) => Some(former),
            _ => None,
        };
        own.into_iter().chain(former)
    }

    /// The bytes of those.
    pub(crate) fn stored_len(&self) -> u64 {
        self.extents().map(|extent| u64::from(extent.len)).sum()
    }

    /// The same with one of its extents in another place.
    pub(crate) fn moved(mut self, from: &Extent, offset: FileOffset) -> Entry {
        match &mut self.basis {
            Basis::Former(former) if former == from => former.offset = offset,
            _ => self.offset = offset,
        }
        self
    }
}

/// 0 where there is no extent, else `1 + codec + 8 * up_to_date + 16 * dictionary`.
pub(crate) fn tag_of(extent: &Extent) -> u64 {
    tag(extent.len, extent.storage)
}

fn tag(len: u32, storage: Encoding) -> u64 {
    if len == 0 {
        return 0;
    }
    let Encoding {
        codec,
        dict,
        up_to_date,
    } = storage;
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

/// An extent as leaves keep it in memory: its nonce, which most files have none of, is beside it.
type Bare = Extent<()>;

/// A basis as leaves keep it in memory.
type Kept = Basis<()>;

/// The entries of [`FANOUT`] consecutive units, or items.
#[derive(Clone, Debug)]
pub struct Leaf {
    extents: Form,
    /// `None` if all entries stand alone.
    bases: Option<Box<[Kept; FANOUT]>>,
    /// `None` in a file that is not encrypted.
    nonces: Option<Box<Nonces>>,
}

#[derive(Clone, Debug)]
enum Form {
    Narrow(Box<Narrow>),
    Wide(Box<[Bare; FANOUT]>),
}

#[derive(Clone, Debug)]
struct Narrow {
    base: FileOffset,
    entries: [Short; FANOUT],
}

/// An extent whose tag is 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    /// From the leaf's base.
    offset: u32,
    sum: u32,
    /// Less one: 64 KiB is the longest a unit can be.
    len: u16,
    tag: u16,
}

/// No extent.
const NONE: Bare = Extent {
    offset: FileOffset::START,
    len: 0,
    sum: 0,
    nonce: (),
    storage: Encoding::RAW,
};

impl Short {
    /// `None` if the extent does not fit.
    fn new(extent: &Bare, base: FileOffset) -> Option<Short> {
        if extent.len == 0 {
            return Some(Short::default());
        }
        Some(Short {
            offset: u32::try_from(extent.offset.distance_from(base)?).ok()?,
            sum: extent.sum,
            len: u16::try_from(extent.len - 1).ok()?,
            tag: u16::try_from(tag(extent.len, extent.storage)).ok()?,
        })
    }

    fn extent(&self, base: FileOffset) -> Bare {
        let Some(storage) = storage_of(self.tag.into()) else {
            return NONE;
        };
        Extent {
            offset: base + u64::from(self.offset),
            len: u32::from(self.len) + 1,
            sum: self.sum,
            nonce: (),
            storage,
        }
    }
}

/// Bytes of an entry in a copy.
const COPIED_LEN: usize = 14;

/// An extent in a copy. `None` if it does not fit.
fn to_copied(extent: &Bare) -> Option<[u8; COPIED_LEN]> {
    let short = Short::new(extent, extent.offset)?;
    let [a, b, c, d, e, f, 0, 0] = extent.offset.0.to_le_bytes() else {
        return None;
    };
    let [g, h, i, j] = short.sum.to_le_bytes();
    let ([k, l], [m, n]) = (short.len.to_le_bytes(), short.tag.to_le_bytes());
    Some([a, b, c, d, e, f, g, h, i, j, k, l, m, n])
}

fn from_copied(bytes: [u8; COPIED_LEN]) -> Bare {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = bytes;
    let short = Short {
        offset: 0,
        sum: u32::from_le_bytes([g, h, i, j]),
        len: u16::from_le_bytes([k, l]),
        tag: u16::from_le_bytes([m, n]),
    };
    let offset = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    short.extent(FileOffset(offset))
}

impl Narrow {
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    fn get(&self, slot: usize) -> Bare {
        self.entries[slot].extent(self.base)
    }

    /// All of these extents, if they fit. There is as much room below them as above.
    fn new(extents: &[Bare; FANOUT]) -> Option<Box<Narrow>> {
        let stored = || extents.iter().filter(|extent| extent.len > 0);
        let lowest = stored().map(|extent| extent.offset).min();
        let lowest = lowest.unwrap_or_default();
        let highest = stored().map(|extent| extent.offset).max();
        let room = u64::from(u32::MAX).checked_sub(highest.unwrap_or_default() - lowest)?;
        let base = lowest.saturating_sub(room / 2);
        let mut narrow = Box::new(Narrow {
            base,
            entries: [Short::default(); FANOUT],
        });
        for (short, extent) in narrow.entries.iter_mut().zip(extents) {
            *short = Short::new(extent, base)?;
        }
        Some(narrow)
    }
}

impl From<&[Bare; FANOUT]> for Form {
    fn from(extents: &[Bare; FANOUT]) -> Form {
        match Narrow::new(extents) {
            Some(narrow) => Form::Narrow(narrow),
            None => Form::Wide(Box::new(*extents)),
        }
    }
}

impl Form {
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    fn get(&self, slot: usize) -> Bare {
        match self {
            Form::Narrow(narrow) => narrow.get(slot),
            Form::Wide(extents) => extents[slot],
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    fn set(&mut self, slot: usize, extent: Bare) {
        match self {
            Form::Wide(extents) => extents[slot] = extent,
            Form::Narrow(narrow) => match Short::new(&extent, narrow.base) {
                Some(short) => narrow.entries[slot] = short,
                None => {
                    let mut extents: [Bare; FANOUT] = std::array::from_fn(|slot| narrow.get(slot));
                    extents[slot] = extent;
                    *self = Form::from(&extents);
                }
            },
        }
    }
}

impl Leaf {
    /// A leaf of zero units.
    pub fn empty() -> Leaf {
        Leaf {
            extents: Form::from(&[NONE; FANOUT]),
            bases: None,
            nonces: None,
        }
    }

    /// The leaf of these extents, and what they stand on.
    pub(crate) fn new(extents: &[Extent; FANOUT], bases: Option<&[Basis; FANOUT]>) -> Leaf {
        let former = |slot: usize| match bases.and_then(|bases| bases.get(slot)) {
            Some(Basis::Former(former)) => former.nonce,
            _ => Nonce::NONE,
        };
        let mut nonces = None;
        for (slot, extent) in extents.iter().enumerate() {
            set_nonces(&mut nonces, slot, &extent.nonce, &former(slot));
        }
        Leaf {
            extents: Form::from(&extents.map(|extent| extent.with(()))),
            bases: bases.map(|bases| Box::new(bases.map(|basis| basis.with(())))),
            nonces,
        }
    }

    /// The entry of the unit at `slot`, below [`FANOUT`].
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    pub fn get(&self, slot: usize) -> Entry {
        let (own, former) = match &self.nonces {
            None => (Nonce::NONE, Nonce::NONE),
            Some(nonces) => nonces.get(slot),
        };
        Entry {
            basis: match &self.bases {
                None => Basis::Alone,
                Some(bases) => bases[slot].with(former),
            },
            ..self.extents.get(slot).with(own).entry()
        }
    }

    /// All entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry> {
        (0..FANOUT).map(|slot| self.get(slot))
    }

    /// Whether any entry does not stand alone.
    pub(crate) fn has_bases(&self) -> bool {
        self.bases.is_some()
    }

    /// Whether an entry is that of an item.
    pub(crate) fn has_items(&self) -> bool {
        let mut bases = self.bases.iter().flat_map(|bases| bases.iter());
        bases.any(|basis| matches!(basis, Kept::Shared { .. }))
    }

    /// Whether there is any extent.
    pub(crate) fn has_extents(&self) -> bool {
        let mut entries = self.iter();
        entries.any(|entry| entry.extents().next().is_some())
    }

    /// Whether extents are sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        self.nonces.is_some()
    }

    /// Sets the entry of the unit at `slot`, below [`FANOUT`], and returns the former one.
    #[expect(clippy::indexing_slicing, reason = "`slot` is below `FANOUT`")]
    pub fn set(&mut self, slot: usize, entry: Entry) -> Entry {
        let replaced = self.get(slot);
        self.extents.set(slot, entry.extent().with(()));
        let former = match &entry.basis {
            Basis::Former(former) => former.nonce,
            _ => Nonce::NONE,
        };
        set_nonces(&mut self.nonces, slot, &entry.nonce, &former);
        if !entry.is_alone() {
            let bases = self
                .bases
                .get_or_insert_with(|| Box::new([Kept::Alone; FANOUT]));
            bases[slot] = entry.basis.with(());
        } else if let Some(bases) = &mut self.bases {
            bases[slot] = Kept::Alone;
            if **bases == [Kept::Alone; FANOUT] {
                self.bases = None;
            }
        }
        replaced
    }

    /// Makes a copy for the cache, of bytes that are no format and never leave the process. False for a leaf that does not
    /// fit, as one with references or of an encrypted file, and as none does with extents beyond 256 TiB.
    pub(crate) fn copy_to(&self, copy: &mut [u8; OBJECT_COPY]) -> bool {
        let (places, _) = copy.as_chunks_mut();
        let mut extents = (0..FANOUT).map(|slot| self.extents.get(slot)).zip(places);
        self.bases.is_none()
            && self.nonces.is_none()
            && extents.all(|(extent, place)| match to_copied(&extent) {
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
        let mut extents = [NONE; FANOUT];
        for (extent, bytes) in extents.iter_mut().zip(places) {
            *extent = from_copied(*bytes);
        }
        Leaf {
            extents: Form::from(&extents),
            ..Leaf::empty()
        }
    }

    /// Bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let extents = match &self.extents {
            Form::Narrow(_) => size_of::<Narrow>(),
            Form::Wide(_) => size_of::<[Bare; FANOUT]>(),
        };
        let bases = self.bases.as_deref().map_or(0, size_of_val);
        let nonces = self.nonces.as_ref().map_or(0, |nonces| nonces.bytes());
        extents + bases + nonces
    }
}

/// A leaf has room for nonces from the first one on.
fn set_nonces(nonces: &mut Option<Box<Nonces>>, slot: usize, own: &Nonce, former: &Nonce) {
    match nonces {
        Some(nonces) => nonces.set(slot, own, former),
        None if *own == Nonce::NONE && *former == Nonce::NONE => {}
        None => nonces.insert(Box::default()).set(slot, own, former),
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
    use crate::format::basis::Bases;
    use proptest::prelude::*;

    fn nonce() -> impl Strategy<Value = Nonce> {
        let salt = 0..4u8;
        let nonce = (salt, 0..1u64 << 40).prop_map(|(salt, counter)| Nonce {
            salt: [salt; 16],
            counter,
        });
        prop_oneof![40 => Just(Nonce::NONE), 1 => nonce]
    }

    fn extent(max: u64) -> impl Strategy<Value = Extent> {
        let dict = prop_oneof![0..20u16, any::<u16>()];
        let len = prop_oneof![1..70_000u32, Just(1 << 16)];
        (0..max, len, any::<u32>(), nonce(), dict, any::<bool>()).prop_map(
            |(offset, len, sum, nonce, dict, up_to_date)| Extent {
                offset: FileOffset(offset),
                len,
                sum,
                nonce,
                storage: Encoding {
                    codec: Codec::Zstd,
                    dict,
                    up_to_date,
                },
            },
        )
    }

    fn entry(max: u64) -> impl Strategy<Value = Entry> {
        let alone = extent(max).prop_map(|extent| extent.entry());
        let with = |basis| {
            (extent(1 << 40), basis).prop_map(|(extent, basis)| Entry {
                basis,
                ..extent.entry()
            })
        };
        let item = || any::<u32>().prop_map(ItemNumber);
        let bases = proptest::collection::vec(item(), 1..4);
        let bases = bases.prop_filter_map("differ", |items| Bases::new(&items));
        prop_oneof![
            20 => alone,
            3 => Just(Entry::ZERO),
            1 => (item(), 0..4u8).prop_map(|(item, slice)| Entry::slice(item, slice)),
            1 => with(bases.prop_map(Basis::Items).boxed()),
            1 => with(extent(1 << 40).prop_map(Basis::Former).boxed()),
        ]
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
            let fits = !leaf.is_sealed() && leaf.iter().all(|entry| {
                entry.offset.0 >> 48 == 0
                    && entry.len <= 1 << 16
                    && tag_of(&entry.extent()) < 1 << 16
                    && entry.is_alone()
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
            let bytes = leaf.bytes();
            assert!(2 * bytes < size_of::<[Bare; FANOUT]>() + 32);
            leaf.set(7, Entry::slice(ItemNumber(9), 3));
            assert!(leaf.bytes() > bytes);
            leaf.set(7, at(first));
            assert!(
                leaf.bytes() == bytes,
                "the last reference takes its column with it"
            );
            leaf.set(7, at(first + (5 << 30)));
            assert!(leaf.bytes() == size_of::<[Bare; FANOUT]>());
        }
    }
}
