//! Where things are in a packed file and how they are checksummed. Normative text: docs/format.md.
//!
//! ```text
//! 0     512   1024  1536   2048                                        end
//! | head | A   | B   | marks | extents and free space ...               |
//! ```
//! Header, slots and marks have a disk sector of 512 bytes each. An encrypted file has two places for key blocks before
//! the extents, each in a block of 4096 bytes. On a medium with sectors of that size the head is one sector, and each
//! write to a slot or a mark rewrites all of it. So nothing that a commit writes shares a sector with a key block.

use std::ops::Range;

use twox_hash::XxHash3_64;

use crate::format::offset::FileOffset;

/// First bytes of every packed file. Neither SQLite's nor any text, and broken by newline translation.
pub const MAGIC: [u8; 16] = *b"Litepack\r\n\x1a\n\0\0\0\0";
/// The format this code writes.
pub const VERSION: u32 = 1;
/// Length of the header at offset 0.
pub const HEADER_LEN: usize = 512;
/// Offsets of the two commit slots.
pub const SLOT_OFFSETS: [FileOffset; 2] = [FileOffset(512), FileOffset(1024)];
/// Length of a commit record within its slot.
pub const RECORD_LEN: usize = 256;
/// Offsets of the marks of durability, one for each slot.
pub const MARK_OFFSETS: [FileOffset; 2] = [FileOffset(1536), FileOffset(1792)];
/// Length of a mark.
pub const MARK_LEN: usize = 64;
/// Where extents begin in a file that is not encrypted.
pub const DATA_START: FileOffset = FileOffset(2048);
/// Offsets of the places for a wrapped data key, in an encrypted file.
pub const KEY_OFFSETS: [FileOffset; 2] = [FileOffset(4096), FileOffset(8192)];
/// Length of a key block within its place.
pub const KEY_LEN: usize = 192;
/// Where extents begin in an encrypted file.
pub const SEALED_START: FileOffset = FileOffset(12288);
/// SQLite's lock bytes (pending, reserved and shared): never part of an extent, because a locked
/// range cannot be read or written on systems with mandatory locks.
pub const LOCK_BYTES: Range<FileOffset> = FileOffset(0x4000_0000)..FileOffset(0x4000_0000 + 512);
/// Offsets fit in 48 bits: 256 TiB.
pub const OFFSET_LIMIT: FileOffset = FileOffset(1 << 48);
/// A unit is the piece of the database that is stored as one extent: a SQLite page, or several when
/// pages are smaller than [`UNIT_MIN`].
pub const UNIT_MIN: u32 = 4096;
/// SQLite's largest page.
pub const UNIT_MAX: u32 = 65536;
/// The largest metadata extent a reader accepts, so that a hostile length cannot exhaust memory.
pub const METADATA_MAX: u32 = 1 << 28;

/// The unit size for a database with this page size.
pub fn unit_size_for(page_size: u32) -> u32 {
    page_size.clamp(UNIT_MIN, UNIT_MAX)
}

/// Identity of a file: random, and the seed of all its checksums, so that nothing of one file is
/// valid in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileUuid(pub [u8; 16]);

impl FileUuid {
    fn seed(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// 64-bit checksum of metadata: XXH3-64 seeded with the first eight bytes of the file's identity.
    pub fn sum64(self, bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_seed(self.seed(), bytes)
    }

    /// 32-bit checksum of a stored unit: the low half of [`FileUuid::sum64`].
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low half is what is wanted"
    )]
    pub fn sum32(self, bytes: &[u8]) -> u32 {
        self.sum64(bytes) as u32
    }
}

/// A checksummed reference to a metadata extent. All zero means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// Where in the file it begins.
    pub offset: FileOffset,
    /// Length in bytes.
    pub len: u32,
    /// [`FileUuid::sum64`] of the bytes.
    pub sum: u64,
}

impl Pointer {
    /// No extent.
    pub const NONE: Pointer = Pointer {
        offset: FileOffset::START,
        len: 0,
        sum: 0,
    };

    /// Whether this refers to nothing.
    pub fn is_none(&self) -> bool {
        self.len == 0
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> FileOffset {
        self.offset + u64::from(self.len)
    }

    /// Whether an extent may be there: no file is longer than [`OFFSET_LIMIT`].
    pub(crate) fn is_plausible(&self) -> bool {
        is_plausible(self.offset, self.len)
    }
}

/// Whether a file may have an extent of `len` bytes at `offset`.
pub(crate) fn is_plausible(offset: FileOffset, len: u32) -> bool {
    offset
        .checked_add(len.into())
        .is_some_and(|stop| stop <= OFFSET_LIMIT)
}

/// How many bytes of a file that ends at `end` are lock bytes.
pub(crate) fn lock_bytes_below(end: FileOffset) -> u64 {
    LOCK_BYTES.end.min(end).bytes_since(LOCK_BYTES.start)
}

/// Whether an extent at `offset` with `len` bytes may exist in a file whose extents are in this range.
pub(crate) fn extent_is_sane(offset: FileOffset, len: u64, extents: &Range<FileOffset>) -> bool {
    offset >= extents.start
        && offset.checked_add(len).is_some_and(|stop| {
            stop <= extents.end && (stop <= LOCK_BYTES.start || offset >= LOCK_BYTES.end)
        })
}
