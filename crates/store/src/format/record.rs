//! Commit records and marks of durability: the only bytes of the file that are overwritten.
//!
//! Two slots hold the newest commit and the one it would fall back to. The mark of a slot says which commit
//! in it was last known to have reached the medium; from then on, finding that commit unreadable is damage, not
//! a torn write.

use litepack_io::bytes::Reader;

use crate::format::layout::{FileUuid, MARK_LEN, Pointer, RECORD_LEN};
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

/// One commit: everything that is needed to read the database as of that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which commit this is.
    pub seq: CommitNumber,
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
}

impl Record {
    /// The empty database, as a new file begins.
    pub fn first(unit_size: u32, end: FileOffset) -> Record {
        Record {
            seq: CommitNumber(1),
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
        }
    }

    /// The bytes on disk.
    pub fn encode(&self, uuid: FileUuid) -> [u8; RECORD_LEN] {
        let mut out = Vec::with_capacity(RECORD_LEN);
        out.extend(RECORD_MAGIC.to_le_bytes());
        out.extend(0u32.to_le_bytes());
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
        out.resize(RECORD_LEN - 8, 0);
        out.extend(uuid.sum64(&out).to_le_bytes());
        out.try_into().expect("a record has its length")
    }

    /// Reads a record; `None` if it is torn, damaged or was never written.
    pub fn decode(bytes: &[u8], uuid: FileUuid) -> Option<Record> {
        let bytes = bytes.get(..RECORD_LEN)?;
        let (body, sum) = bytes.split_at(RECORD_LEN - 8);
        let mut fields = Reader::new(body);
        if Reader::new(sum).u64()? != uuid.sum64(body) || fields.u32()? != RECORD_MAGIC {
            return None;
        }
        fields.u32()?;
        let (seq, size) = (CommitNumber(fields.u64()?), fields.u64()?);
        let unit_size = fields.u32()?;
        let (height, end) = (fields.u32()?.try_into().ok()?, FileOffset(fields.u64()?));
        let (map, catalog) = (pointer(&mut fields)?, pointer(&mut fields)?);
        let space = pointer(&mut fields)?;
        Some(Record {
            seq,
            size,
            unit_size,
            height,
            end,
            map,
            catalog,
            space,
            stored_units: fields.u64()?,
            stored_bytes: fields.u64()?,
            free_bytes: fields.u64()?,
            segment: pointer(&mut fields)?,
        })
    }
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
pub(crate) fn encode_mark(seq: CommitNumber, uuid: FileUuid) -> [u8; MARK_LEN] {
    let mut out = [0; MARK_LEN];
    out[..4].copy_from_slice(&MARK_MAGIC.to_le_bytes());
    out[8..16].copy_from_slice(&seq.0.to_le_bytes());
    let sum = uuid.sum64(&out[..MARK_LEN - 8]);
    out[MARK_LEN - 8..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The commit that a mark vouches for; `None` if the mark is torn or damaged. Every file has both marks from the
/// beginning, so there is no such thing as "no mark".
pub(crate) fn decode_mark(bytes: &[u8], uuid: FileUuid) -> Option<CommitNumber> {
    let (body, sum) = bytes.get(..MARK_LEN)?.split_at(MARK_LEN - 8);
    let mut fields = Reader::new(body);
    let valid = Reader::new(sum).u64()? == uuid.sum64(body) && fields.u32()? == MARK_MAGIC;
    fields.u32()?;
    let seq = CommitNumber(fields.u64()?);
    valid.then_some(seq)
}

#[cfg(test)]
mod tests {
    use super::*;

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
