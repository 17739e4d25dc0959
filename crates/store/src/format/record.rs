//! Commit records and marks of durability: the only bytes of the file that are overwritten.
//!
//! Two slots hold the newest commit and the one it would fall back to. The mark of a slot says which commit
//! in it was last known to have reached the medium; from then on, finding that commit unreadable is damage, not
//! a torn write.

use litepack_io::bytes::Reader;

use crate::format::guard::Signer;
use crate::format::layout::{MARK_LEN, Pointer, RECORD_LEN, SEALED_START, UNIT_MIN};
use crate::format::node::TreeKind;
use crate::format::offset::FileOffset;

pub(crate) const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"LPcr");
pub(crate) const MARK_MAGIC: u32 = u32::from_le_bytes(*b"LPmk");

/// Counts the commits of a file, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitNumber(pub u64);

impl CommitNumber {
    /// The commit after this one. Only a hostile file has counted to the end.
    pub(crate) fn next(self) -> Option<CommitNumber> {
        self.0.checked_add(1).map(CommitNumber)
    }
}

impl std::fmt::Display for CommitNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The commit may have units that are stored by reference to others.
pub(crate) const REFERENCES: u32 = 1;
/// A log may stand on the commit: who writes after it asks what is needed of the file.
pub(crate) const LOG_BASE: u32 = 2;

/// The record of a commit as it is in the file: for a log that stands on the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitRecord(pub [u8; RECORD_LEN]);

/// One commit: everything that is needed to read the database as of that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which commit this is.
    pub seq: CommitNumber,
    /// Flags for what a reader has to know to read this commit; one that does not know a flag refuses the file.
    pub features: u32,
    /// Logical length of the database in bytes.
    pub size: u64,
    /// Bytes of the database per extent.
    pub unit_size: u32,
    /// Levels of the page map; 0 when it is empty.
    pub height: u8,
    /// End of the used part of the file.
    pub end: FileOffset,
    /// Root of the page map.
    pub map: Pointer,
    /// The catalog of dictionaries.
    pub catalog: Pointer,
    /// Newest link of the free-space chain.
    pub space: Pointer,
    /// Units that are stored (not zero).
    pub stored_units: u64,
    /// Sum of their stored lengths.
    pub stored_bytes: u64,
    /// Free bytes below `end`.
    pub free_bytes: u64,
    /// The prefetch segment, for remote readers.
    pub segment: Pointer,
    /// Root of the item tree.
    pub items: Pointer,
    /// Levels of the item tree; 0 when it is empty.
    pub items_height: u8,
    /// How many items there are.
    pub item_count: u64,
    /// Reserved for an encrypted file: bytes of the tag that stands in the place of a unit's checksum. Zero, and refused
    /// if it is not.
    pub tag_len: u32,
    /// Which log follows this commit.
    pub log: LogNumbers,
    /// The part of the budget for private differences that is spent.
    pub difference_bytes: u64,
}

/// By these a log is known to follow a commit (docs/internals/log.md). All zero in a file that never had one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogNumbers {
    /// Of the log from which the last checkpoint came, its own.
    pub current: u64,
    /// The one that the next log is to begin after.
    pub next: u64,
    /// What the current log has before this place may be in this commit.
    pub end: u64,
    /// 1 if the last checkpoint brought only a part of that: without the current log the database is none. Else 0.
    pub unfinished: u32,
    /// The link of a record of that log at `end`, which tells its records from others; 0 if it is not known.
    pub link: u32,
}

impl Record {
    /// The empty database, as a new file begins.
    pub fn first(unit_size: u32, end: FileOffset) -> Record {
        Record {
            seq: CommitNumber(1),
            features: 0,
            size: 0,
            unit_size,
            height: 0,
            end,
            map: Pointer::NONE,
            catalog: Pointer::NONE,
            space: Pointer::NONE,
            stored_units: 0,
            stored_bytes: 0,
            free_bytes: 0,
            segment: Pointer::NONE,
            items: Pointer::NONE,
            items_height: 0,
            item_count: 0,
            tag_len: 0,
            log: LogNumbers::default(),
            difference_bytes: 0,
        }
    }

    /// The bytes on disk.
    pub fn encode(&self, signer: impl Signer) -> [u8; RECORD_LEN] {
        let mut out = Vec::with_capacity(RECORD_LEN);
        out.extend(RECORD_MAGIC.to_le_bytes());
        out.extend(self.features.to_le_bytes());
        out.extend(self.seq.0.to_le_bytes());
        out.extend(self.size.to_le_bytes());
        out.extend(self.unit_size.to_le_bytes());
        out.extend(u32::from(self.height).to_le_bytes());
        out.extend(self.end.0.to_le_bytes());
        for pointer in [self.map, self.catalog, self.space] {
            put_pointer(&mut out, pointer);
        }
        for count in [self.stored_units, self.stored_bytes, self.free_bytes] {
            out.extend(count.to_le_bytes());
        }
        put_pointer(&mut out, self.segment);
        put_pointer(&mut out, self.items);
        out.extend(u32::from(self.items_height).to_le_bytes());
        out.extend(self.tag_len.to_le_bytes());
        out.extend(self.item_count.to_le_bytes());
        let log = &self.log;
        for number in [log.current, log.next, log.end] {
            out.extend(number.to_le_bytes());
        }
        out.extend(log.unfinished.to_le_bytes());
        out.extend(log.link.to_le_bytes());
        out.extend(self.difference_bytes.to_le_bytes());
        out.resize(RECORD_LEN, 0);
        signer.sign(&mut out);
        out.try_into().expect("a record has its length")
    }

    /// Reads a record; `None` if it is torn, damaged or was never written.
    pub fn decode(bytes: &[u8], signer: impl Signer) -> Option<Record> {
        let bytes = bytes.get(..RECORD_LEN)?;
        let mut fields = Reader::new(bytes);
        if !signer.has_signed(bytes) || fields.u32()? != RECORD_MAGIC {
            return None;
        }
        let features = fields.u32()?;
        let (seq, size) = (CommitNumber(fields.u64()?), fields.u64()?);
        let unit_size = fields.u32()?;
        let (height, end) = (fields.u32()?.try_into().ok()?, FileOffset(fields.u64()?));
        let (map, catalog) = (pointer(&mut fields)?, pointer(&mut fields)?);
        let space = pointer(&mut fields)?;
        let (stored_units, stored_bytes) = (fields.u64()?, fields.u64()?);
        let (free_bytes, segment) = (fields.u64()?, pointer(&mut fields)?);
        let items = pointer(&mut fields)?;
        let items_height = fields.u32()?.try_into().ok()?;
        let tag_len = fields.u32()?;
        let item_count = fields.u64()?;
        let log = LogNumbers {
            current: fields.u64()?,
            next: fields.u64()?,
            end: fields.u64()?,
            unfinished: fields.u32()?,
            link: fields.u32()?,
        };
        let difference_bytes = fields.u64()?;
        Some(Record {
            seq,
            features,
            size,
            unit_size,
            height,
            end,
            map,
            catalog,
            space,
            stored_units,
            stored_bytes,
            free_bytes,
            segment,
            items,
            items_height,
            item_count,
            tag_len,
            log,
            difference_bytes,
        })
    }
}

impl Record {
    /// Root and height of a tree.
    pub(crate) fn tree(&self, kind: TreeKind) -> (Pointer, u8) {
        match kind {
            TreeKind::Map => (self.map, self.height),
            TreeKind::Items => (self.items, self.items_height),
        }
    }

    /// The parts of it that this version does not know, in words; `None` if it knows all.
    pub(crate) fn unknown(&self) -> Option<String> {
        let features = self.features & !(REFERENCES | LOG_BASE);
        if features != 0 {
            return Some(format!("feature flags {features:#x} of a commit"));
        }
        (self.tag_len != 0).then(|| "an encrypted commit".into())
    }
}

/// Whether this is the first record of an encrypted file, which has no commit yet: as far as that can be seen without its
/// key, by all that the record says.
pub(crate) fn is_first_of_encrypted(slot: &[u8]) -> bool {
    struct Unverified;

    impl Signer for Unverified {
        fn sign(&self, _: &mut [u8]) {}

        fn has_signed(&self, _: &[u8]) -> bool {
            true
        }
    }

    Record::decode(slot, Unverified) == Some(Record::first(UNIT_MIN, SEALED_START))
}

fn put_pointer(out: &mut Vec<u8>, pointer: Pointer) {
    out.extend(pointer.offset.0.to_le_bytes());
    out.extend(pointer.len.to_le_bytes());
    out.extend(0u32.to_le_bytes());
    out.extend(pointer.sum.to_le_bytes());
}

fn pointer(fields: &mut Reader<'_>) -> Option<Pointer> {
    let (offset, len, _) = (FileOffset(fields.u64()?), fields.u32()?, fields.u32()?);
    let sum = fields.u64()?;
    Some(Pointer { offset, len, sum })
}

/// The mark's bytes for commit `seq`.
pub(crate) fn encode_mark(seq: CommitNumber, signer: impl Signer) -> [u8; MARK_LEN] {
    let mut out = [0; MARK_LEN];
    out[..4].copy_from_slice(&MARK_MAGIC.to_le_bytes());
    out[8..16].copy_from_slice(&seq.0.to_le_bytes());
    signer.sign(&mut out);
    out
}

/// The commit that a mark vouches for; `None` if the mark is torn or damaged. Every file has both marks from the
/// beginning, so there is no such thing as "no mark".
pub(crate) fn decode_mark(bytes: &[u8], signer: impl Signer) -> Option<CommitNumber> {
    let bytes = bytes.get(..MARK_LEN)?;
    let mut fields = Reader::new(bytes);
    let valid = signer.has_signed(bytes) && fields.u32()? == MARK_MAGIC;
    fields.u32()?;
    let seq = CommitNumber(fields.u64()?);
    valid.then_some(seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::FileUuid;

    const UUID: FileUuid = FileUuid([7; 16]);

    #[test]
    fn every_flipped_bit_of_a_record_is_noticed() {
        let record = Record {
            map: Pointer {
                offset: FileOffset(2048),
                len: 77,
                sum: 5,
            },
            stored_units: 3,
            ..Record::first(4096, FileOffset(9999))
        };
        let bytes = record.encode(UUID);
        assert_eq!(Record::decode(&bytes, UUID), Some(record));
        assert_eq!(Record::decode(&bytes, FileUuid([8; 16])), None);
        for bit in 0..RECORD_LEN * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&bad, UUID), None, "bit {bit}");
        }
    }

    #[test]
    fn a_damaged_mark_vouches_for_nothing() {
        let bytes = encode_mark(CommitNumber(42), UUID);
        assert_eq!(decode_mark(&bytes, UUID), Some(CommitNumber(42)));
        for bit in 0..MARK_LEN * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_mark(&bad, UUID), None, "bit {bit}");
        }
        assert_eq!(decode_mark(&[], UUID), None);
        assert_eq!(decode_mark(&[0; MARK_LEN], UUID), None);
    }
}
