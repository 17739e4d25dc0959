//! Nodes of the page map, in memory and as bytes.
//!
//! A leaf describes [`FANOUT`] consecutive units, an inner node [`FANOUT`] nodes of the level below.
//! On disk a node is a few columns (which exist and how stored, lengths, offsets, checksums) because
//! at nine to one a page is 460 bytes and sixteen bytes of map for it would be dear: a leaf of
//! neighbouring extents costs under seven bytes a unit.

use litepack_io::bytes::{Reader, put_varint, unzigzag, zigzag};

use crate::format::layout::{OFFSET_LIMIT, Pointer};
use crate::format::leaf::{Entry, FANOUT, Leaf, storage_of, tag_of};
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

    /// Appends the bytes on disk.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Node::Leaf(leaf) => {
                out.push(KIND_LEAF);
                put_runs(out, leaf.iter().map(|entry| tag_of(&entry)));
                let stored = || leaf.iter().filter(|entry| !entry.is_zero());
                stored().for_each(|entry| put_varint(out, entry.len.into()));
                put_offsets(out, stored().map(|entry| (entry.offset, entry.len)));
                stored().for_each(|entry| out.extend(entry.sum.to_le_bytes()));
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
        match (fields.u8()?, level) {
            (KIND_LEAF, 0) => {
                let tags = read_runs(&mut fields)?;
                let mut entries = [Entry::ZERO; FANOUT];
                let is_stored = |(_, tag): &(_, u64)| *tag != 0;
                for (entry, tag) in entries.iter_mut().zip(tags).filter(is_stored) {
                    entry.storage = storage_of(tag)?;
                    entry.len = fields.varint_u32().filter(|len| *len > 0)?;
                }
                let stored = entries.iter_mut().filter(|entry| !entry.is_zero());
                read_offsets(&mut fields, stored.map(|e| (&mut e.offset, e.len)))?;
                for entry in entries.iter_mut().filter(|entry| !entry.is_zero()) {
                    entry.sum = fields.u32()?;
                }
                Some(Node::Leaf(Leaf::from(&entries)))
            }
            (KIND_INNER, 1..) => {
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
    use litepack_codec::{Codec, Encoding};
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
                    leaf.set(slot, Entry { offset, len, sum, storage: Encoding { codec, dict, up_to_date } });
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
            if let Some(kind) = bytes.first_mut() {
                *kind = level + 1;
                let _ = Node::decode(&bytes, level);
            }
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
                },
            );
            offset += u64::from(len);
        }
        let mut bytes = Vec::new();
        node.encode(&mut bytes);
        assert!(bytes.len() < 7 * FANOUT, "{}", bytes.len());
    }
}
