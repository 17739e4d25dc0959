//! The header: what kind of file this is, written once when the file is made.

use litepack_cipher::Padding;
use litepack_io::bytes::Reader;
use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::layout::{
    DATA_START, FileUuid, HEADER_LEN, MAGIC, SEALED_START, SLOT_OFFSETS, VERSION,
};
use crate::format::offset::FileOffset;
use crate::format::record::{MARK_MAGIC, RECORD_MAGIC, is_first_of_encrypted};

/// Incompatible feature: the file is encrypted.
pub(crate) const ENCRYPTED: u32 = 1;
/// Incompatible feature of an encrypted file: what is sealed is padded.
pub(crate) const PADDED: u32 = 2;
/// Incompatible features this version understands.
const KNOWN_INCOMPATIBLE: u32 = ENCRYPTED | PADDED;
const SUM_OFFSET: usize = HEADER_LEN - 8;

/// The decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The file's identity.
    pub uuid: FileUuid,
    /// Features that a reader may ignore.
    pub compatible: u32,
    /// The file is encrypted: nothing but the head can be read without its key.
    pub is_encrypted: bool,
    /// How what is sealed is padded.
    pub padding: Padding,
}

/// How many of its first bytes tell what a file is.
#[expect(clippy::cast_possible_truncation, reason = "it is 2048")]
pub const HEAD_LEN: usize = DATA_START.0 as usize;

/// The kind of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// No bytes, or a packed file whose making was cut off before it had a header: an empty database.
    Empty,
    /// A packed file.
    Packed,
    /// Something else: a plain SQLite database, or no database at all.
    Other,
}

/// Tells the kind of a file from its length and its first [`HEAD_LEN`] bytes (fewer if shorter).
pub fn kind_of(head: &[u8], len: u64) -> HeaderKind {
    if len == 0 {
        return HeaderKind::Empty;
    }
    // A new file gets its header last, when the rest of its head is durable, and nothing is stored before. So a file
    // that is no longer than its head, has no header yet, and nothing else that is not ours, holds nothing. One that
    // begins with the magic was finished: if it is shorter, or the header is wrong, that is damage.
    if len <= DATA_START.0 && is_unfinished(head) {
        return HeaderKind::Empty;
    }
    // An encrypted file gets its key blocks behind that when all else of its head is durable.
    if len <= SEALED_START.0 && is_unfinished_encrypted(head) {
        return HeaderKind::Empty;
    }
    if head.starts_with(&MAGIC) {
        HeaderKind::Packed
    } else {
        HeaderKind::Other
    }
}

/// Whether sectors are missing of this head, its header among them.
fn is_unfinished(head: &[u8]) -> bool {
    let (header, rest) = head.split_at(head.len().min(HEADER_LEN));
    let mut sectors = rest.chunks(HEADER_LEN);
    header.iter().all(|byte| *byte == 0)
        && sectors.all(|sector| {
            sector.iter().all(|byte| *byte == 0)
                || sector.starts_with(&RECORD_MAGIC.to_le_bytes())
                || sector.starts_with(&MARK_MAGIC.to_le_bytes())
        })
}

/// Whether this is the head of an encrypted file to which the header alone is missing: slots of the first commit, which
/// no other file has.
fn is_unfinished_encrypted(head: &[u8]) -> bool {
    let slot = |offset: FileOffset| head.get(usize::try_from(offset.0).ok()?..);
    is_unfinished(head)
        && SLOT_OFFSETS
            .into_iter()
            .all(|offset| slot(offset).is_some_and(is_first_of_encrypted))
}

impl Header {
    /// A header with a new identity; an encrypted file's has a padding.
    pub fn new(padding: Option<Padding>) -> Result<Header> {
        let mut uuid = [0; 16];
        getrandom::fill(&mut uuid).map_err(|error| Error::Io(std::io::Error::other(error)))?;
        Ok(Header {
            uuid: FileUuid(uuid),
            compatible: 0,
            is_encrypted: padding.is_some(),
            padding: padding.unwrap_or_default(),
        })
    }

    /// The bytes on disk.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..16].copy_from_slice(&MAGIC);
        out[16..20].copy_from_slice(&VERSION.to_le_bytes());
        let features = [
            (self.is_encrypted, ENCRYPTED),
            (!self.padding.is_none(), PADDED),
        ];
        let incompatible: u32 = features
            .iter()
            .map(|(has, flag)| u32::from(*has) * flag)
            .sum();
        out[20..24].copy_from_slice(&incompatible.to_le_bytes());
        out[24..28].copy_from_slice(&self.compatible.to_le_bytes());
        out[28..32].copy_from_slice(&self.padding.bytes().to_le_bytes());
        out[32..48].copy_from_slice(&self.uuid.0);
        let sum = FileUuid([0; 16]).sum64(&out[..SUM_OFFSET]);
        out[SUM_OFFSET..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`Error::NotPacked`], [`Error::Unsupported`] for a newer format, [`Error::Damaged`] when the
    /// checksum is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::NotPacked);
        }
        let why = "cut off or checksum wrong";
        let damaged = || Error::damaged("file header", FileOffset::START, why);
        let head = bytes.first_chunk::<HEADER_LEN>().ok_or_else(damaged)?;
        let mut sum = Reader::new(&head[SUM_OFFSET..]);
        if sum.u64() != Some(FileUuid([0; 16]).sum64(&head[..SUM_OFFSET])) {
            return Err(damaged());
        }
        let mut fields = Reader::new(&head[16..]);
        let mut next = || fields.u32().ok_or_else(damaged);
        let (version, incompatible, compatible) = (next()?, next()?, next()?);
        let bytes = next()?;
        if version != VERSION {
            return Err(Error::Unsupported(format!("format version {version}")));
        }
        if incompatible & !KNOWN_INCOMPATIBLE != 0 {
            let unknown = incompatible & !KNOWN_INCOMPATIBLE;
            return Err(Error::Unsupported(format!("feature flags {unknown:#x}")));
        }
        let padding = match incompatible {
            // Zeros that a reader may ignore.
            flags if flags & PADDED == 0 => Padding::NONE,
            flags if flags & ENCRYPTED == 0 => return Err(damaged()),
            _ => (Padding::new(bytes).filter(|padding| !padding.is_none())).ok_or_else(damaged)?,
        };
        let uuid = head[32..48].try_into().map_err(|_| damaged())?;
        Ok(Header {
            uuid: FileUuid(uuid),
            compatible,
            is_encrypted: incompatible & ENCRYPTED != 0,
            padding,
        })
    }
}

/// The header of a packed file; `None` for an empty file.
pub(crate) fn read_header(disk: &impl ReadAt) -> Result<Option<Header>> {
    let mut head = [0; HEAD_LEN];
    let len = disk.len()?;
    let n = disk.read_at(&mut head, 0)?;
    #[expect(
        clippy::indexing_slicing,
        reason = "no more is read than there is room for"
    )]
    let read = &head[..n];
    match kind_of(read, len) {
        HeaderKind::Empty => Ok(None),
        HeaderKind::Packed => Header::decode(read).map(Some),
        HeaderKind::Other => Err(Error::NotPacked),
    }
}

/// The identity of a packed file, which its copies have, too; `None` of an empty file.
///
/// # Errors
/// If it cannot be read, or is no packed file of a known format.
pub fn identity(disk: &impl ReadAt) -> Result<Option<FileUuid>> {
    Ok(read_header(disk)?.map(|header| header.uuid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{CommitNumber, Record};

    #[test]
    fn every_flipped_bit_is_noticed() {
        let header = Header::new(None).unwrap();
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for bit in 0..HEADER_LEN * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut bytes = Header::new(None).unwrap().encode();
        bytes[16] = 9;
        let sum = FileUuid([0; 16]).sum64(&bytes[..SUM_OFFSET]);
        bytes[SUM_OFFSET..].copy_from_slice(&sum.to_le_bytes());
        let error = Header::decode(&bytes).unwrap_err();
        assert!(error.to_string().contains("version 9"), "{error}");
    }

    #[test]
    fn an_unknown_feature_is_named_by_its_number() {
        let forged = |at: usize, flags: u32| {
            let mut bytes = Header::new(None).unwrap().encode();
            bytes[at..at + 4].copy_from_slice(&flags.to_le_bytes());
            let sum = FileUuid([0; 16]).sum64(&bytes[..SUM_OFFSET]);
            bytes[SUM_OFFSET..].copy_from_slice(&sum.to_le_bytes());
            Header::decode(&bytes)
        };
        for bit in 2..32 {
            let flags = 1 << bit;
            let error = forged(20, flags).unwrap_err();
            assert!(matches!(error, Error::Unsupported(_)), "{error}");
            assert!(
                error.to_string().contains(&format!("{flags:#x}")),
                "{error}"
            );
            // A reader may ignore this one.
            assert_eq!(forged(24, flags).unwrap().compatible, flags);
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        let header = Header::new(None).unwrap().encode();
        assert_eq!(kind_of(&[], 0), HeaderKind::Empty);
        assert_eq!(kind_of(&[0; 512], 2048), HeaderKind::Empty);
        assert_eq!(kind_of(&[0; 100], 100), HeaderKind::Empty);
        assert_eq!(kind_of(&header[..100], 100), HeaderKind::Packed);
        assert_eq!(kind_of(&header[..15], 15), HeaderKind::Other);
        assert_eq!(kind_of(&header, 2048), HeaderKind::Packed);
        assert_eq!(kind_of(&header, 1 << 20), HeaderKind::Packed);
        assert_eq!(kind_of(&[0; 512], 1 << 20), HeaderKind::Other);
        let mut other = [0; 1024];
        other[600] = 1;
        assert_eq!(kind_of(&other, 1024), HeaderKind::Other);
        other[512..516].copy_from_slice(b"LPcr");
        assert_eq!(kind_of(&other, 1024), HeaderKind::Empty);
        assert_eq!(kind_of(b"SQLite format 3\0", 4096), HeaderKind::Other);
        assert_eq!(kind_of(b"hello", 5), HeaderKind::Other);
        let head = |seq, end| {
            let record = Record {
                seq: CommitNumber(seq),
                ..Record::first(4096, end)
            };
            let mut head = vec![0; HEAD_LEN];
            for slot in [512, 1024] {
                let bytes = record.encode(FileUuid([1; 16]));
                head[slot..slot + bytes.len()].copy_from_slice(&bytes);
            }
            head
        };
        let encrypted = head(1, SEALED_START);
        assert_eq!(kind_of(&encrypted, 12288), HeaderKind::Empty);
        assert_eq!(kind_of(&encrypted, 12289), HeaderKind::Other);
        assert_eq!(kind_of(&head(1, DATA_START), 12288), HeaderKind::Other);
        assert_eq!(kind_of(&head(2, SEALED_START), 12288), HeaderKind::Other);
        // As a file is made unreadable that was replaced.
        assert_eq!(kind_of(&[0; HEAD_LEN], 12288), HeaderKind::Other);
        // Where the marks belong there may be one, or nothing.
        for (place, kind) in [
            (*b"LPmk", HeaderKind::Empty),
            ([0; 4], HeaderKind::Empty),
            (*b"text", HeaderKind::Other),
        ] {
            let mut encrypted = encrypted.clone();
            encrypted[1536..1540].copy_from_slice(&place);
            assert_eq!(kind_of(&encrypted, 12288), kind);
        }
    }
}
