//! The seek table at the end of an archive: which frame holds which bytes of the database, and where it is.
//!
//! The format is facebook/zstd's `contrib/seekable_format`. Memory is the table itself and 3 % of it, never more than
//! the file has bytes, and at most [`TABLE_MAX`]. All sums are 64 bits wide, and have to agree with the file's length.

use std::ops::RangeInclusive;
use std::sync::Arc;

use twox_hash::XxHash64;

use litepack_cipher::Key;
use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::sealed::{self, Head, Opener};
use crate::source::read_exact;

/// The magic number of the skippable frame that holds the table.
pub(crate) const TABLE_MAGIC: u32 = 0x184D_2A5E;
/// The last four bytes of the file.
pub(crate) const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// In the descriptor: entries have checksums.
pub(crate) const CHECKSUM_FLAG: u8 = 0x80;
const RESERVED_BITS: u8 = 0x7C;
/// Magic number and length before the contents of a skippable frame.
pub(crate) const HEADER_LEN: u64 = HEADER_BYTES as u64;
const HEADER_BYTES: usize = 8;
/// Number of frames, descriptor and magic number behind the entries.
pub(crate) const FOOTER_LEN: u64 = 9;
/// A longer table is refused: it is kept in memory. This is enough for 22 million frames with checksums.
pub(crate) const TABLE_MAX: u64 = 256 << 20;

const ZSTD_MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE_MAGIC: RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;
/// So much of the end is read at once; usually all of the table is in there.
const TAIL_LEN: u64 = 64 << 10;
/// A long table is read in steps, so that its memory grows with what is really there.
const STEP: u64 = 1 << 20;
/// Frames from one mark to the next.
const STRIDE: u32 = 64;
/// Skippable frames that the table does not count may stand in front; more than this many do not.
const UNCOUNTED_MAX: u32 = 16;

/// Whether a file that begins with these bytes (four or more) is a zstd file, with or without a seek table.
pub fn begins_like_zstd(head: &[u8]) -> bool {
    word(head, 0).is_some_and(|magic| magic == ZSTD_MAGIC || is_skippable(magic))
}

/// Whether this is an encrypted archive, by its first bytes.
///
/// # Errors
/// When the medium fails.
pub fn is_encrypted(source: &impl ReadAt) -> Result<bool> {
    let mut head = [0; 16];
    let found = source.read_at(&mut head, 0)?;
    Ok(sealed::begins_sealed(head.get(..found).unwrap_or_default()))
}

/// The page size of the database in an encrypted archive, as its head says, if it does. Nothing vouches for it.
///
/// # Errors
/// As [`SeekTable::read`].
pub fn page_size_without_key(source: &impl ReadAt) -> Result<Option<u32>> {
    let head = Head::read(source)?.ok_or(Error::NotEncrypted)?;
    Ok(Some(head.page_size).filter(|size| *size > 0))
}

/// Whether a frame that begins with this word has nothing of the content.
pub(crate) fn is_skippable(magic: u32) -> bool {
    SKIPPABLE_MAGIC.contains(&magic)
}

/// One entry of the table, with the sums up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Counted from 0, as in the table.
    pub number: u32,
    /// Byte offset in the archive.
    pub offset: u64,
    /// Bytes in the archive.
    pub stored: u32,
    /// Byte offset in the database.
    pub start: u64,
    /// Bytes of the database. 0 for a skippable or empty frame, which is never read.
    pub size: u32,
    /// The low 32 bits of the XXH64 of these bytes, if the table has checksums.
    pub checksum: Option<u32>,
}

impl Frame {
    /// Byte offset in the database behind the frame.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.size)
    }
}

/// Where the first frame of each [`STRIDE`] begins.
#[derive(Clone, Copy, Debug)]
struct Mark {
    offset: u64,
    start: u64,
}

/// Where every frame of an archive is.
pub struct SeekTable {
    /// The entries as they are in the file.
    entries: Vec<u8>,
    entry_len: usize,
    marks: Vec<Mark>,
    frames: u32,
    size: u64,
    identity: u64,
    /// What opens the frames, if they are sealed.
    opener: Option<Arc<Opener>>,
}

impl std::fmt::Debug for SeekTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SeekTable({} frames, {} bytes)", self.frames, self.size)
    }
}

impl SeekTable {
    /// Reads the table at the end of `source`.
    ///
    /// # Errors
    /// When there is none, or when it contradicts itself or the length of the file; [`Error::NoKey`] if it is encrypted.
    pub fn read(source: &impl ReadAt) -> Result<SeekTable> {
        SeekTable::read_with(source, None)
    }

    /// The same with the key of an encrypted archive.
    ///
    /// # Errors
    /// As [`SeekTable::read`]; [`Error::WrongKey`], [`Error::NotEncrypted`].
    pub fn read_with(source: &impl ReadAt, key: Option<&Key>) -> Result<SeekTable> {
        match (Head::read(source)?, key) {
            (Some(head), Some(key)) => SeekTable::read_sealed(source, &head.unlock(key)?),
            (Some(_), None) => Err(Error::NoKey),
            (None, Some(_)) => Err(Error::NotEncrypted),
            (None, None) => SeekTable::read_plain(source),
        }
    }

    /// The table of an encrypted archive.
    fn read_sealed(source: &impl ReadAt, opener: &Arc<Opener>) -> Result<SeekTable> {
        let file_len = source.len()?;
        let damaged = |why: String| Error::SeekTable {
            offset: file_len.saturating_sub(sealed::END_LEN),
            why,
        };
        let mut end = [0; sealed::END];
        let Some(end_at) = file_len.checked_sub(sealed::HEAD_LEN + sealed::END_LEN) else {
            return Err(damaged("the file is too short".into()));
        };
        read_exact(source, &mut end, sealed::HEAD_LEN + end_at)?;
        if end.get(4..8) != Some(&[0; 4]) || end.get(8..) != Some(&sealed::MAGIC) {
            return Err(damaged(
                "it is not at the end of the file, which was cut off".into(),
            ));
        }
        let frames = word(&end, 0).unwrap_or_default();
        let len = sealed::table_len(frames);
        let Some(before) = end_at.checked_sub(len) else {
            return Err(damaged(format!("{frames} frames do not fit into the file")));
        };
        if len > TABLE_MAX {
            return Err(Error::Limit(format!(
                "its seek table takes {len} bytes and may take {TABLE_MAX}"
            )));
        }
        let table_at = sealed::HEAD_LEN + before;
        let mut entries = read_long(source, table_at, len)?;
        let opened = opener.table(frames, &mut entries);
        opened.ok_or_else(|| damaged("it is not what was sealed there".into()))?;
        let mut table = SeekTable::add_up(entries, sealed::ENTRY_LEN, frames, table_at)?;
        let counted = table.marks.last().map_or(0, |mark| mark.offset);
        if counted != before {
            return Err(damaged(format!(
                "its frames take {counted} bytes, and {before} are before it"
            )));
        }
        let mut next = table.frame(0);
        while let Some(frame) = next {
            if frame.size > sealed::FRAME_MAX || frame.stored > sealed::STORED_MAX {
                return Err(damaged(format!("frame {} is too large", frame.number)));
            }
            next = table.next(&frame);
        }
        for mark in &mut table.marks {
            mark.offset += sealed::HEAD_LEN;
        }
        table.identity ^= opener.number();
        table.opener = Some(Arc::clone(opener));
        Ok(table)
    }

    /// The table of one that is not.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the tail has at most `TAIL_LEN` bytes; the table is refused before if it has more than `TABLE_MAX`"
    )]
    fn read_plain(source: &impl ReadAt) -> Result<SeekTable> {
        let file_len = source.len()?;
        let mut tail = litepack_io::memory::zeros(file_len.min(TAIL_LEN) as usize)?;
        let tail_at = file_len - tail.len() as u64;
        read_exact(source, &mut tail, tail_at)?;
        let footer = tail.len().checked_sub(FOOTER_LEN as usize);
        let footer = footer.and_then(|at| tail.get(at..)).unwrap_or_default();
        if word(footer, 5) != Some(SEEKABLE_MAGIC) {
            return Err(without_table(source)?);
        }
        let frames = word(footer, 0).unwrap_or_default();
        let descriptor = footer.get(4).copied().unwrap_or_default();
        if descriptor & RESERVED_BITS != 0 {
            return Err(Error::Unsupported(format!(
                "its seek table has reserved bits set ({descriptor:#04x})"
            )));
        }
        let checksums = descriptor & CHECKSUM_FLAG != 0;
        let entry_len = if checksums { 12 } else { 8 };
        let len = HEADER_LEN + u64::from(frames) * entry_len + FOOTER_LEN;
        let Some(table_at) = file_len.checked_sub(len) else {
            return Err(Error::SeekTable {
                offset: file_len - FOOTER_LEN,
                why: format!("{frames} frames do not fit into a file of {file_len} bytes"),
            });
        };
        if len > TABLE_MAX {
            return Err(Error::Limit(format!(
                "its seek table takes {len} bytes and may take {TABLE_MAX}; \
                 make it anew with larger frames by `litepack archive create`"
            )));
        }
        let mut table = match tail.len().checked_sub(len as usize) {
            Some(at) => tail.split_off(at),
            None => read_long(source, table_at, len)?,
        };
        let header = (word(&table, 0), word(&table, 4).map(u64::from));
        if header != (Some(TABLE_MAGIC), Some(len - HEADER_LEN)) {
            return Err(Error::SeekTable {
                offset: table_at,
                why: format!("no header of a table of {frames} frames"),
            });
        }
        table.truncate((len - FOOTER_LEN) as usize);
        table.drain(..HEADER_BYTES);
        SeekTable::add_up(table, entry_len as usize, frames, table_at)?.placed(source, table_at)
    }

    /// Goes through the entries once, for the sums.
    fn add_up(entries: Vec<u8>, entry_len: usize, frames: u32, table_at: u64) -> Result<SeekTable> {
        let mut table = SeekTable {
            marks: litepack_io::memory::with_room(entries.len() / entry_len / STRIDE as usize + 2)?,
            identity: XxHash64::oneshot(0, &entries),
            entries,
            entry_len,
            frames,
            size: 0,
            opener: None,
        };
        let (mut offset, mut start) = (0, 0);
        for (number, entry) in (0u32..).zip(table.entries.chunks_exact(entry_len)) {
            if number.is_multiple_of(STRIDE) {
                table.marks.push(Mark { offset, start });
            }
            let (stored, size) = sizes(entry);
            if stored == 0 && size != 0 {
                return Err(Error::SeekTable {
                    offset: table_at,
                    why: format!("frame {number} holds {size} bytes in none"),
                });
            }
            offset += u64::from(stored);
            start += u64::from(size);
        }
        // The last mark is where the frames end.
        table.marks.push(Mark { offset, start });
        table.size = start;
        Ok(table)
    }

    /// Finds out where the first frame is: at the beginning, unless there is something that the table does not count.
    fn placed(mut self, source: &impl ReadAt, table_at: u64) -> Result<SeekTable> {
        let counted = self.marks.last().map_or(0, |mark| mark.offset);
        let Some(uncounted) = table_at.checked_sub(counted) else {
            return Err(Error::SeekTable {
                offset: table_at,
                why: format!("its frames take {counted} bytes, and only {table_at} are before it"),
            });
        };
        if uncounted == 0 {
            return Ok(self);
        }
        let mut at = 0;
        for _ in 0..UNCOUNTED_MAX {
            let mut header = [0; HEADER_BYTES];
            if source.read_at(&mut header, at)? < header.len() {
                break;
            }
            let skippable = word(&header, 0).filter(|magic| is_skippable(*magic));
            let Some(len) = skippable.and_then(|_| word(&header, 4)) else {
                break;
            };
            at += HEADER_LEN + u64::from(len);
            if at >= uncounted {
                break;
            }
        }
        if at != uncounted {
            return Err(Error::SeekTable {
                offset: table_at,
                why: format!("its frames take {counted} bytes, and {table_at} are before it"),
            });
        }
        for mark in &mut self.marks {
            mark.offset += uncounted;
        }
        Ok(self)
    }

    /// The size of the database.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of frames, with those that hold nothing.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// What opens the frames, if they are sealed.
    pub(crate) fn opener(&self) -> Option<&Arc<Opener>> {
        self.opener.as_ref()
    }

    /// Whether the archive is encrypted: then nothing in the table is other than it was written.
    pub fn is_sealed(&self) -> bool {
        self.opener.is_some()
    }

    /// Bytes of the table in the archive.
    pub fn stored(&self) -> u64 {
        if self.is_sealed() {
            return sealed::table_len(self.frames) + sealed::END_LEN;
        }
        HEADER_LEN + self.entries.len() as u64 + FOOTER_LEN
    }

    /// Whether every frame has a checksum in the table, or is sealed.
    pub fn has_checksums(&self) -> bool {
        self.entry_len == 12 || self.is_sealed()
    }

    /// Whether both tables have the same entries for frames at the same places.
    pub fn is_same(&self, other: &SeekTable) -> bool {
        let first = |table: &SeekTable| table.marks.first().map(|mark| mark.offset);
        self.entry_len == other.entry_len
            && self.identity == other.identity
            && first(self) == first(other)
            && self.entries == other.entries
    }

    /// A hash of all entries.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// The frame that holds this byte of the database; `None` behind its end.
    pub fn frame_at(&self, position: u64) -> Option<Frame> {
        if position >= self.size {
            return None;
        }
        // Of the marks at or before it the last: frames before that one end there.
        let after = self.marks.partition_point(|mark| mark.start <= position);
        let number = u32::try_from(after.checked_sub(1)?).ok()? * STRIDE;
        let mut frame = self.frame(number)?;
        while frame.end() <= position {
            frame = self.next(&frame)?;
        }
        Some(frame)
    }

    /// The frame with this number.
    pub fn frame(&self, number: u32) -> Option<Frame> {
        let mark = self.marks.get((number / STRIDE) as usize)?;
        let mut frame = self.entry(number / STRIDE * STRIDE, mark.offset, mark.start)?;
        while frame.number < number {
            frame = self.next(&frame)?;
        }
        Some(frame)
    }

    /// The frame behind this one.
    pub fn next(&self, frame: &Frame) -> Option<Frame> {
        let offset = frame.offset + u64::from(frame.stored);
        self.entry(frame.number.checked_add(1)?, offset, frame.end())
    }

    fn entry(&self, number: u32, offset: u64, start: u64) -> Option<Frame> {
        let at = number as usize * self.entry_len;
        let entry = self.entries.get(at..at + self.entry_len)?;
        let (stored, size) = sizes(entry);
        Some(Frame {
            number,
            offset,
            stored,
            start,
            size,
            checksum: word(entry, 8),
        })
    }
}

/// The error for a file without a seek table.
fn without_table(source: &impl ReadAt) -> Result<Error> {
    let mut head = [0; 4];
    let found = source.read_at(&mut head, 0)?;
    Ok(match head.get(..found) {
        Some(head) if begins_like_zstd(head) => Error::NoSeekTable,
        _ => Error::NotZstd,
    })
}

fn read_long(source: &impl ReadAt, at: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < len {
        let done = bytes.len();
        litepack_io::memory::resize(&mut bytes, done + (len - done as u64).min(STEP) as usize)?;
        let step = bytes.get_mut(done..).unwrap_or_default();
        read_exact(source, step, at + done as u64)?;
    }
    Ok(bytes)
}

/// Stored and decoded size in an entry.
fn sizes(entry: &[u8]) -> (u32, u32) {
    let field = |at| word(entry, at).unwrap_or_default();
    (field(0), field(4))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of these sizes behind as many bytes as its frames take.
    fn file(sizes: &[(u32, u32)]) -> Vec<u8> {
        let mut file = vec![0; sizes.iter().map(|(stored, _)| *stored as usize).sum()];
        file.extend_from_slice(&TABLE_MAGIC.to_le_bytes());
        file.extend_from_slice(&(sizes.len() as u32 * 8 + 9).to_le_bytes());
        for (stored, size) in sizes {
            file.extend_from_slice(&stored.to_le_bytes());
            file.extend_from_slice(&size.to_le_bytes());
        }
        file.extend_from_slice(&(sizes.len() as u32).to_le_bytes());
        file.push(0);
        file.extend_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
        file
    }

    fn assert_finds_every_byte(sizes: &[(u32, u32)]) {
        let table = SeekTable::read(&file(sizes).as_slice()).unwrap();
        assert_eq!(table.frames() as usize, sizes.len());
        assert!(!table.has_checksums());
        let (mut offset, mut start) = (0, 0);
        for (number, (stored, size)) in (0..).zip(sizes) {
            let frame = Frame {
                number,
                offset,
                stored: *stored,
                start,
                size: *size,
                checksum: None,
            };
            assert_eq!(table.frame(number), Some(frame));
            for position in start..start + u64::from(*size) {
                assert_eq!(table.frame_at(position), Some(frame), "{position}");
            }
            offset += u64::from(*stored);
            start += u64::from(*size);
        }
        assert_eq!(table.size(), start);
        assert_eq!(table.frame_at(start), None);
        assert_eq!(table.frame_at(u64::MAX), None);
        assert_eq!(table.frame(table.frames()), None);
        assert_eq!(table.frame(u32::MAX), None);
    }

    #[test]
    fn every_byte_is_in_its_frame() {
        assert_finds_every_byte(&[]);
        assert_finds_every_byte(&[(3, 5)]);
        assert_finds_every_byte(&[(9, 0)]);
        for count in [63, 64, 65, 128, 200] {
            let sizes: Vec<(u32, u32)> = (0..count).map(|n| (n % 5 + 1, n % 4)).collect();
            assert_finds_every_byte(&sizes);
            let mostly_empty: Vec<(u32, u32)> =
                (0..count).map(|n| (2, u32::from(n % 90 == 0))).collect();
            assert_finds_every_byte(&mostly_empty);
        }
    }

    /// A table that is longer than what is read at once.
    #[test]
    fn a_long_table_is_read_in_steps() {
        let sizes: Vec<(u32, u32)> = (0..300_000).map(|n| (n % 3, (n % 3) * 10)).collect();
        let file = file(&sizes);
        assert!(file.len() as u64 > 2 * STEP);
        let table = SeekTable::read(&file.as_slice()).unwrap();
        assert_eq!(table.size(), 3_000_000);
        let frame = table.frame_at(2_999_999).unwrap();
        assert_eq!((frame.number, frame.offset), (299_999, 299_998));
    }
}
