//! Nodes of the page map, in memory and as bytes.
//!
//! A leaf describes [`FANOUT`] consecutive units or items, an inner node [`FANOUT`] nodes of the level below.
//! On disk a node is a few columns (which exist and how stored, lengths, offsets, checksums) because
//! at nine to one a page is 460 bytes and sixteen bytes of map for it would be dear: a leaf of
//! neighbouring extents costs under seven bytes a unit. Leaves with references, and those of the item tree, are kinds
//! of their own: what they have besides are columns that no other leaf pays for.

use litepack_cipher::Nonce;
use litepack_codec::Codec;
use litepack_io::bytes::{Reader, put_varint, unzigzag, zigzag};

use crate::format::basis::{Bases, Basis, ITEM_UNITS, ItemNumber};
use crate::format::layout::{OFFSET_LIMIT, Pointer, is_plausible};
use crate::format::leaf::{Entry, Extent, FANOUT, Leaf, storage_of, tag_of};
use crate::format::nonces::{Salts, sum_of};
use crate::format::offset::FileOffset;

/// One node of the page map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Level 0.
    Leaf(Leaf),
    /// Any higher level.
    Inner(Box<[Pointer; FANOUT]>),
}

const KIND_LEAF: u8 = 1;
const KIND_INNER: u8 = 2;
/// A leaf of the page map with references.
const KIND_REFERENCES: u8 = 3;
/// A leaf of the item tree.
const KIND_ITEMS: u8 = 4;
/// What these numbers are more in an encrypted file: 5 and 7 for the leaves of the map, 8 for that of the item tree.
const SEALED: u8 = 4;

/// Which tree a node is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// The page map: its leaves have units.
    Map,
    /// The item tree: its leaves have items.
    Items,
}

impl TreeKind {
    /// The name of its nodes in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TreeKind::Map => "page map node",
            TreeKind::Items => "item tree node",
        }
    }
}

/// The kinds of basis of an entry in a leaf with references, by their numbers in the column of kinds.
mod basis {
    pub(super) const ALONE: u64 = 0;
    pub(super) const SLICE: u64 = 1;
    /// A difference to one item; two and three are the next numbers.
    pub(super) const ITEMS: u64 = 2;
    pub(super) const FORMER: u64 = 5;
}

impl Node {
    /// A node of `level` without children.
    pub fn empty(level: u8) -> Node {
        if level == 0 {
            Node::Leaf(Leaf::empty())
        } else {
            Node::Inner(Box::new([Pointer::NONE; FANOUT]))
        }
    }

    /// Whether the node describes nothing at all.
    pub fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.iter().all(|entry| entry.is_zero()),
            Node::Inner(children) => children.iter().all(Pointer::is_none),
        }
    }

    /// Bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.bytes(),
            Node::Inner(children) => size_of_val(&**children),
        }
    }

    /// Whether a tree of this kind may have the node: leaves of one are none of the other.
    pub(crate) fn is_of(&self, kind: TreeKind) -> bool {
        match (self, kind) {
            (Node::Inner(_), _) => true,
            (Node::Leaf(leaf), TreeKind::Map) => !leaf.has_items(),
            // A leaf that is read has either only items, or none.
            (Node::Leaf(leaf), TreeKind::Items) => match leaf.has_bases() {
                true => leaf.has_items(),
                false => self.is_empty(),
            },
        }
    }

    /// Appends the bytes on disk.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Node::Leaf(leaf) => {
                let mut salts = leaf.is_sealed().then(|| salts_of(leaf));
                let kind = |kind| kind + if salts.is_some() { SEALED } else { 0 };
                if leaf.has_items() {
                    out.push(kind(KIND_ITEMS));
                    put_extents(out, leaf, salts.as_mut());
                    put_items(out, leaf);
                } else if leaf.has_bases() {
                    out.push(kind(KIND_REFERENCES));
                    put_runs(out, leaf.iter().map(|entry| kind_of(&entry.basis)));
                    put_extents(out, leaf, salts.as_mut());
                    put_references(out, leaf, salts.as_mut());
                } else {
                    out.push(kind(KIND_LEAF));
                    put_extents(out, leaf, salts.as_mut());
                }
            }
            Node::Inner(children) => {
                out.push(KIND_INNER);
                put_runs(
                    out,
                    children.iter().map(|child| u64::from(!child.is_none())),
                );
                let stored = || children.iter().filter(|child| !child.is_none());
                stored().for_each(|child| put_varint(out, child.len.into()));
                put_offsets(out, stored().map(|child| (child.offset, child.len)));
                stored().for_each(|child| out.extend(child.sum.to_le_bytes()));
            }
        }
    }

    /// Reads a node of `level`. `None` if the bytes are not one; every offset is then unchecked
    /// against the file's end, which is the caller's to know.
    pub fn decode(bytes: &[u8], level: u8) -> Option<Node> {
        let mut fields = Reader::new(bytes);
        let kind = fields.u8()?;
        if level == 0 {
            return decode_leaf(kind, &mut fields);
        }
        match kind {
            KIND_INNER => {
                let tags = read_runs(&mut fields)?;
                let mut children = Box::new([Pointer::NONE; FANOUT]);
                let is_stored = |(_, tag): &(_, u64)| *tag != 0;
                for (child, tag) in children.iter_mut().zip(tags).filter(is_stored) {
                    (tag == 1).then_some(())?;
                    child.len = fields.varint_u32().filter(|len| *len > 0)?;
                }
                let stored = children.iter_mut().filter(|child| child.len > 0);
                read_offsets(&mut fields, stored.map(|c| (&mut c.offset, c.len)))?;
                for child in children.iter_mut().filter(|child| child.len > 0) {
                    child.sum = fields.u64()?;
                }
                Some(Node::Inner(children))
            }
            _ => None,
        }
    }
}

fn decode_leaf(kind: u8, fields: &mut Reader<'_>) -> Option<Node> {
    let is_sealed = kind > SEALED;
    let kind = if is_sealed { kind - SEALED } else { kind };
    match kind {
        KIND_LEAF => {
            let (extents, _) = read_extents(fields, is_sealed)?;
            Some(Node::Leaf(Leaf::new(&extents, None)))
        }
        KIND_REFERENCES => {
            let kinds = read_runs(fields)?;
            let (extents, salts) = read_extents(fields, is_sealed)?;
            let bases = read_references(fields, &kinds, &extents, salts)?;
            Some(Node::Leaf(Leaf::new(&extents, Some(&bases))))
        }
        KIND_ITEMS => {
            let (extents, _) = read_extents(fields, is_sealed)?;
            let bases = read_items(fields, &extents)?;
            Some(Node::Leaf(Leaf::new(&extents, Some(&bases))))
        }
        _ => None,
    }
}

/// The salts of a leaf, in the order in which its extents have them.
fn salts_of(leaf: &Leaf) -> Salts {
    let mut salts = Salts::default();
    for extent in leaf.iter().flat_map(|entry| entry.extents()) {
        // A leaf has no more than there is room for.
        salts.number(&extent.nonce);
    }
    salts
}

/// The number of an extent's nonce; 0 if it has none, which nothing will open.
fn number_of(salts: &mut Salts, extent: &Extent) -> u64 {
    salts.number(&extent.nonce).unwrap_or_default()
}

/// Tags, lengths, offsets and checksums, or instead of these salts and numbers of nonces.
fn put_extents(out: &mut Vec<u8>, leaf: &Leaf, salts: Option<&mut Salts>) {
    put_runs(out, leaf.iter().map(|entry| tag_of(&entry.extent())));
    let stored = || leaf.iter().filter(|entry| entry.len > 0);
    stored().for_each(|entry| put_varint(out, entry.len.into()));
    put_offsets(out, stored().map(|entry| (entry.offset, entry.len)));
    match salts {
        None => stored().for_each(|entry| out.extend(entry.sum.to_le_bytes())),
        Some(salts) => {
            salts.put(out);
            let numbers = stored().map(|entry| number_of(salts, &entry.extent()));
            // As the offsets of extents of one byte.
            put_offsets(out, numbers.map(|number| (FileOffset(number), 1)));
        }
    }
}

fn read_extents(
    fields: &mut Reader<'_>,
    is_sealed: bool,
) -> Option<([Extent; FANOUT], Option<Salts>)> {
    let tags = read_runs(fields)?;
    let mut extents = [Entry::ZERO.extent(); FANOUT];
    let is_stored = |(_, tag): &(_, u64)| *tag != 0;
    for (extent, tag) in extents.iter_mut().zip(tags).filter(is_stored) {
        extent.storage = storage_of(tag)?;
        extent.len = fields.varint_u32().filter(|len| *len > 0)?;
    }
    let stored = extents.iter_mut().filter(|extent| extent.len > 0);
    read_offsets(fields, stored.map(|e| (&mut e.offset, e.len)))?;
    let stored = extents.iter_mut().filter(|extent| extent.len > 0);
    if !is_sealed {
        for extent in stored {
            extent.sum = fields.u32()?;
        }
        return Some((extents, None));
    }
    let salts = Salts::read(fields)?;
    let mut stored: Vec<_> = stored.collect();
    let mut numbers = [FileOffset::START; FANOUT];
    let places = numbers.iter_mut().take(stored.len());
    read_offsets(fields, places.map(|place| (place, 1)))?;
    for (extent, number) in stored.iter_mut().zip(numbers) {
        seal(extent, &salts, number.0)?;
    }
    Some((extents, Some(salts)))
}

/// Gives an extent the nonce with this number.
fn seal(extent: &mut Extent, salts: &Salts, number: u64) -> Option<()> {
    extent.nonce = salts.nonce(number)?;
    extent.sum = sum_of(&extent.nonce);
    Some(())
}

fn kind_of(basis: &Basis) -> u64 {
    match basis {
        Basis::Alone | Basis::Shared { .. } => basis::ALONE,
        Basis::Slice(..) => basis::SLICE,
        Basis::Items(bases) => basis::ITEMS + bases.as_slice().len() as u64 - 1,
        Basis::Former(_) => basis::FORMER,
    }
}

/// Appends the references of each entry that does not stand alone, in order. Item numbers are differences to the one
/// before.
fn put_references(out: &mut Vec<u8>, leaf: &Leaf, mut salts: Option<&mut Salts>) {
    let mut last = 0;
    let mut step = |item: ItemNumber| {
        let next = i64::from(item.0);
        zigzag(next - std::mem::replace(&mut last, next))
    };
    for entry in leaf.iter() {
        match entry.basis {
            Basis::Alone | Basis::Shared { .. } => {}
            Basis::Slice(item, slice) => put_varint(out, step(item) << 2 | u64::from(slice & 3)),
            Basis::Items(bases) => {
                let items = bases.as_slice().iter();
                items.for_each(|item| put_varint(out, step(*item)));
            }
            Basis::Former(former) => {
                put_varint(out, tag_of(&former));
                put_varint(out, former.len.into());
                put_varint(out, zigzag(former.offset.jump_from(entry.offset)));
                match &mut salts {
                    None => out.extend(former.sum.to_le_bytes()),
                    Some(salts) => put_varint(out, number_of(salts, &former)),
                }
            }
        }
    }
}

/// `None`, too, if an alias has an extent or a difference has none, or is not one that zstd can make.
fn read_references(
    fields: &mut Reader<'_>,
    kinds: &[u64; FANOUT],
    extents: &[Extent; FANOUT],
    salts: Option<Salts>,
) -> Option<Box<[Basis; FANOUT]>> {
    let mut bases = Box::new([Basis::Alone; FANOUT]);
    let mut last = 0;
    let mut item = |step: u64| {
        let number = i64::from(last).checked_add(unzigzag(step))?;
        last = u32::try_from(number).ok()?;
        Some(ItemNumber(last))
    };
    for ((basis, kind), own) in bases.iter_mut().zip(kinds).zip(extents) {
        let is_difference = own.len > 0 && own.storage.codec == Codec::Zstd;
        *basis = match *kind {
            basis::ALONE => Basis::Alone,
            basis::SLICE if own.len == 0 => {
                let field = fields.varint()?;
                Basis::Slice(item(field >> 2)?, (field & 3) as u8)
            }
            basis::FORMER if is_difference => {
                let storage = storage_of(fields.varint()?)?;
                let len = fields.varint_u32().filter(|len| *len > 0)?;
                let offset = own.offset.jump(unzigzag(fields.varint()?))?;
                let mut former = Extent {
                    offset,
                    len,
                    sum: 0,
                    nonce: Nonce::NONE,
                    storage,
                };
                match &salts {
                    None => former.sum = fields.u32()?,
                    Some(salts) => seal(&mut former, salts, fields.varint()?)?,
                }
                let is_sane = is_plausible(offset, len) && !former.overlaps(own);
                is_sane.then_some(Basis::Former(former))?
            }
            kind if is_difference && (basis::ITEMS..basis::FORMER).contains(&kind) => {
                let mut named = [ItemNumber(0); 3];
                let count = usize::try_from(kind - basis::ITEMS + 1).ok()?;
                let named = named.get_mut(..count)?;
                for number in named.iter_mut() {
                    *number = item(fields.varint()?)?;
                }
                Basis::Items(Bases::new(named)?)
            }
            _ => return None,
        };
    }
    Some(bases)
}

/// Runs of how many units items have, then how many entries name each.
fn put_items(out: &mut Vec<u8>, leaf: &Leaf) {
    let shared = |entry: Entry| match entry.basis {
        Basis::Shared { units, users } => Some((units, users)),
        _ => None,
    };
    let units = leaf.iter().map(shared);
    put_runs(
        out,
        units.map(|item| item.map_or(0, |(units, _)| units.into())),
    );
    let users = leaf.iter().filter_map(shared);
    users.for_each(|(_, users)| put_varint(out, users.into()));
}

fn read_items(fields: &mut Reader<'_>, extents: &[Extent; FANOUT]) -> Option<Box<[Basis; FANOUT]>> {
    let all_units = read_runs(fields)?;
    let mut bases = Box::new([Basis::Alone; FANOUT]);
    for ((basis, units), extent) in bases.iter_mut().zip(all_units).zip(extents) {
        let units = u8::try_from(units).ok()?;
        ((units > 0) == (extent.len > 0)).then_some(())?;
        if units > 0 {
            let is_known = ITEM_UNITS.contains(&units);
            let users = fields.varint_u32().filter(|_| is_known)?;
            *basis = Basis::Shared { units, users };
        }
    }
    Some(bases)
}

/// Run lengths of equal tags, each as (run, tag); the runs of a node add up to [`FANOUT`].
fn put_runs(out: &mut Vec<u8>, tags: impl Iterator<Item = u64>) {
    let mut run = 0;
    let mut current = 0;
    for tag in tags {
        if run > 0 && tag != current {
            put_varint(out, run);
            put_varint(out, current);
            run = 0;
        }
        current = tag;
        run += 1;
    }
    put_varint(out, run);
    put_varint(out, current);
}

fn read_runs(fields: &mut Reader<'_>) -> Option<[u64; FANOUT]> {
    let mut tags = [0; FANOUT];
    let mut filled = 0;
    while filled < FANOUT {
        let run = usize::try_from(fields.varint()?)
            .ok()
            .filter(|run| *run > 0)?;
        let tag = fields.varint()?;
        tags.get_mut(filled..filled.checked_add(run)?)?.fill(tag);
        filled += run;
    }
    Some(tags)
}

/// Extents that follow each other directly need no offset: the column is a list of
/// (extents in line since the last jump, signed distance of the next jump).
fn put_offsets(out: &mut Vec<u8>, extents: impl Iterator<Item = (FileOffset, u32)>) {
    let mut expected = FileOffset::START;
    let mut in_line = 0;
    for (offset, len) in extents {
        if offset != expected {
            put_varint(out, in_line);
            put_varint(out, zigzag(offset.jump_from(expected)));
            in_line = 0;
        }
        in_line += 1;
        expected = offset + u64::from(len);
    }
    put_varint(out, in_line);
}

fn read_offsets<'a>(
    fields: &mut Reader<'_>,
    extents: impl Iterator<Item = (&'a mut FileOffset, u32)>,
) -> Option<()> {
    let mut expected = FileOffset::START;
    let mut in_line = fields.varint()?;
    for (offset, len) in extents {
        if in_line == 0 {
            expected = expected.jump(unzigzag(fields.varint()?))?;
            in_line = fields.varint()?.max(1);
        }
        *offset = expected;
        expected = expected
            .checked_add(len.into())
            .filter(|stop| *stop <= OFFSET_LIMIT)?;
        in_line -= 1;
    }
    (in_line == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_codec::Encoding;
    use proptest::prelude::*;

    /// Offset, length, checksum, raw or not, dictionary.
    type Fields = (u64, u32, u32, bool, (u16, bool));

    fn entries() -> impl Strategy<Value = Vec<Option<Fields>>> {
        let entry = (
            0..OFFSET_LIMIT.0 / 2,
            1u32..70000,
            any::<u32>(),
            any::<bool>(),
            (0u16..20, any::<bool>()),
        );
        proptest::collection::vec(proptest::option::of(entry), FANOUT)
    }

    /// Sealed or not, as a whole leaf is.
    fn extent(codec: Codec, sealed: bool) -> impl Strategy<Value = Extent> {
        let place = (0..OFFSET_LIMIT.0 / 2, 1u32..70000, any::<u32>());
        let nonce = (1..20u8, 0..1u64 << 40);
        (place, nonce, 0u16..20).prop_map(move |((offset, len, sum), nonce, dict)| {
            let nonce = match (sealed, nonce) {
                (false, _) => Nonce::NONE,
                (true, (salt, counter)) => Nonce {
                    salt: [salt; 16],
                    counter,
                },
            };
            Extent {
                offset: FileOffset(offset),
                len,
                sum: if sealed { sum_of(&nonce) } else { sum },
                nonce,
                storage: Encoding {
                    codec,
                    dict,
                    up_to_date: true,
                },
            }
        })
    }

    fn number() -> impl Strategy<Value = ItemNumber> {
        prop_oneof![0..300u32, any::<u32>()].prop_map(ItemNumber)
    }

    fn reference(sealed: bool) -> impl Strategy<Value = Entry> {
        let bases = proptest::collection::vec(number(), 1..4);
        let bases = bases.prop_filter_map("differ", |items| Bases::new(&items));
        let bases = bases.prop_map(Basis::Items).boxed();
        let former = extent(Codec::Columnar, sealed)
            .prop_map(Basis::Former)
            .boxed();
        let difference = (extent(Codec::Zstd, sealed), prop_oneof![bases, former]);
        let difference = difference.prop_map(|(own, basis)| Entry {
            basis,
            ..own.entry()
        });
        prop_oneof![
            Just(Entry::ZERO),
            extent(Codec::Raw, sealed).prop_map(|extent| extent.entry()),
            (number(), 0..4u8).prop_map(|(item, slice)| Entry::slice(item, slice)),
            difference.prop_filter("apart", well_formed),
        ]
    }

    fn item(sealed: bool) -> impl Strategy<Value = Entry> {
        let shared = (proptest::sample::select(&ITEM_UNITS[..]), any::<u32>());
        let item = (extent(Codec::Zstd, sealed), shared).prop_map(|(extent, (units, users))| {
            crate::format::basis::Item {
                extent,
                units,
                users,
            }
            .entry()
        });
        prop_oneof![Just(Entry::ZERO), item]
    }

    fn leaf_with(entry: impl Strategy<Value = Entry>) -> impl Strategy<Value = Leaf> {
        proptest::collection::vec(entry, FANOUT).prop_map(|entries| {
            let mut leaf = Leaf::empty();
            for (slot, entry) in entries.into_iter().enumerate() {
                leaf.set(slot, entry);
            }
            leaf
        })
    }

    fn leaf_of<S: Strategy<Value = Entry> + 'static>(
        entry: impl Fn(bool) -> S,
    ) -> impl Strategy<Value = Leaf> {
        prop_oneof![leaf_with(entry(false)), leaf_with(entry(true))]
    }

    /// Whether the format can express an entry.
    fn well_formed(entry: &Entry) -> bool {
        let is_difference = entry.len > 0 && entry.storage.codec == Codec::Zstd;
        match entry.basis {
            Basis::Alone => true,
            Basis::Slice(_, slice) => entry.len == 0 && slice < 4,
            Basis::Items(bases) => is_difference && Bases::new(bases.as_slice()).is_some(),
            Basis::Former(former) => {
                is_difference && former.len > 0 && !former.overlaps(&entry.extent())
            }
            Basis::Shared { units, .. } => ITEM_UNITS.contains(&units),
        }
    }

    proptest! {
        #[test]
        fn leaves_come_back(entries in entries(), in_line: bool) {
            let mut node = Node::empty(0);
            let Node::Leaf(leaf) = &mut node else { unreachable!() };
            let mut next = FileOffset(2048);
            for (slot, entry) in entries.iter().enumerate() {
                if let Some((offset, len, sum, raw, (dict, up_to_date))) = *entry {
                    let codec = if raw { Codec::Raw } else { Codec::Zstd };
                    let offset = if in_line { next } else { FileOffset(offset) };
                    next = offset + u64::from(len);
                    leaf.set(slot, Entry { offset, len, sum, storage: Encoding { codec, dict, up_to_date }, ..Entry::ZERO });
                }
            }
            let mut bytes = Vec::new();
            node.encode(&mut bytes);
            prop_assert_eq!(Node::decode(&bytes, 0), Some(node));
            prop_assert_eq!(Node::decode(&bytes, 1), None);
        }

        #[test]
        fn inner_nodes_come_back(entries in entries()) {
            let mut node = Node::empty(3);
            let Node::Inner(inner) = &mut node else { unreachable!() };
            for (slot, entry) in inner.iter_mut().zip(&entries) {
                if let Some((offset, len, sum, ..)) = *entry {
                    *slot = Pointer { offset: FileOffset(offset), len, sum: u64::from(sum) << 20 };
                }
            }
            let mut bytes = Vec::new();
            node.encode(&mut bytes);
            prop_assert_eq!(Node::decode(&bytes, 3), Some(node));
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..900), level in 0u8..2) {
            let _ = Node::decode(&bytes, level);
            for kind in 1..9 {
                if let Some(first) = bytes.first_mut() {
                    *first = kind;
                }
                if let Some(node) = Node::decode(&bytes, level) {
                    // Few random bytes are a node. A node that decodes is written and read again.
                    let mut again = Vec::new();
                    node.encode(&mut again);
                    prop_assert_eq!(Node::decode(&again, level), Some(node));
                }
            }
        }

        #[test]
        fn leaves_with_references_come_back(leaf in leaf_of(reference)) {
            let node = Node::Leaf(leaf);
            let mut bytes = Vec::new();
            node.encode(&mut bytes);
            prop_assert!(node.is_of(TreeKind::Map));
            let found = Node::decode(&bytes, 0);
            for cut in 0..bytes.len() {
                prop_assert_eq!(Node::decode(&bytes[..cut], 0), None);
            }
            prop_assert_eq!(found, Some(node));
            // One byte is another, and the node another one or none.
            for at in 0..bytes.len() {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << (at % 8);
                if let Some(Node::Leaf(leaf)) = Node::decode(&bytes, 0) {
                    for entry in leaf.iter() {
                        prop_assert!(well_formed(&entry), "{:?}", entry);
                    }
                }
            }
        }

        #[test]
        fn leaves_of_items_come_back(leaf in leaf_of(item)) {
            let node = Node::Leaf(leaf);
            let mut bytes = Vec::new();
            node.encode(&mut bytes);
            prop_assert!(node.is_of(TreeKind::Items));
            prop_assert_eq!(Node::decode(&bytes, 0), Some(node));
        }
    }

    #[test]
    fn a_full_leaf_of_neighbours_costs_under_seven_bytes_a_unit() {
        let mut node = Node::empty(0);
        let Node::Leaf(leaf) = &mut node else {
            unreachable!()
        };
        let mut offset = FileOffset(1 << 30);
        for slot in 0..FANOUT {
            let len = 400 + slot as u32;
            let storage = Encoding {
                codec: Codec::Zstd,
                dict: 1,
                up_to_date: true,
            };
            let sum = 0x9e37_79b9u32.wrapping_mul(slot as u32);
            leaf.set(
                slot,
                Entry {
                    offset,
                    len,
                    sum,
                    storage,
                    ..Entry::ZERO
                },
            );
            offset += u64::from(len);
        }
        let mut bytes = Vec::new();
        node.encode(&mut bytes);
        assert!(bytes.len() < 7 * FANOUT, "{}", bytes.len());
    }

    /// In the order in which they were packed, one session has sealed them.
    #[test]
    fn a_full_sealed_leaf_of_neighbours_costs_under_three_bytes_a_unit() {
        let mut leaf = Leaf::empty();
        let mut offset = FileOffset(1 << 30);
        for slot in 0..FANOUT {
            let nonce = Nonce {
                salt: [9; 16],
                counter: 1_000_000 + slot as u64,
            };
            let entry = Entry {
                offset,
                len: 400 + slot as u32,
                sum: sum_of(&nonce),
                nonce,
                ..Entry::ZERO
            };
            offset += u64::from(entry.len);
            leaf.set(slot, entry);
        }
        let node = Node::Leaf(leaf);
        let mut bytes = Vec::new();
        node.encode(&mut bytes);
        assert!(bytes.len() < 3 * FANOUT, "{}", bytes.len());
        assert_eq!(Node::decode(&bytes, 0), Some(node));
    }
}
