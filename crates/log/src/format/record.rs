//! Records: length, kind, a link to the record before, content, checksum. Here also the content of frames and cuts.
//!
//! The checksum is seeded with the generation and the place, so neither an earlier generation's record nor a misplaced
//! one is taken for one. The link is a part of the checksum of the record before: what lies behind a record that was
//! written over is not taken for its successor.
//!
//! A sealed record tells its nonce before the content, and has a tag in the place of the checksum. Here is what of it is
//! in plain; `seal.rs` seals and opens.

use std::ops::Range;

use litepack_cipher::{COUNTER_LIMIT, Salt, TAG_LEN};
use litepack_io::bytes::{Reader, put_varint};
use litepack_io::memory::{OutOfMemory, room};
use twox_hash::XxHash3_64;

use super::head::Generation;

/// Bytes of a record before its content: length (4), kind (1), link (4).
pub const PREFIX_LEN: usize = 9;
/// Bytes of the checksum behind it.
pub const SUM_LEN: usize = 8;
/// Bytes of the shortest record.
pub const RECORD_LEN_MIN: usize = PREFIX_LEN + SUM_LEN + 1;
/// Bytes of the longest record.
pub const RECORD_LEN_MAX: usize = 1 << 18;
/// Bytes of the header of a frame of SQLite's.
pub const FRAME_HEADER_LEN: usize = 24;
/// Most differences between a page and the whole version that they stand on.
pub const DEPTH_MAX: u8 = 8;

/// Kinds of records.
pub const FRAME: u8 = 1;
/// Frames from some on are no more.
pub const CUT: u8 = 2;
/// A node of the tree.
pub const NODE: u8 = 3;
/// Its root.
pub const ROOT: u8 = 4;

const HAS_HEADER: u8 = 1;
const HEADER_AS_IT_IS: u8 = 2;
const HAS_PAGE: u8 = 4;
const HAS_WITNESS: u8 = 8;
/// The form of what stands on a commit of the file.
const FIRST: u8 = 10;

/// A record that is whole.
#[derive(Clone, Debug)]
pub struct Record {
    pub kind: u8,
    pub link: u32,
    /// Where its content is in its bytes.
    pub content: Range<usize>,
    /// Bytes of all of it.
    pub len: usize,
    /// The link of the record behind it.
    pub next_link: u32,
    /// The session that sealed it, and whether it is a carrier.
    pub session: Option<(Salt, bool)>,
}

/// The length of the record whose first bytes these are, if it can be one.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    (RECORD_LEN_MIN..=RECORD_LEN_MAX)
        .contains(&len)
        .then_some(len)
}

/// The record that these bytes begin with, if they hold a whole one of this generation and place.
pub fn decode(bytes: &[u8], place: u64, generation: &Generation) -> Option<Record> {
    let len = length(bytes)?;
    let (content, sum) = bytes.get(..len)?.split_last_chunk::<SUM_LEN>()?;
    let mut reader = Reader::new(content.get(4..)?);
    let kind = reader.u8().filter(|kind| (FRAME..=ROOT).contains(kind))?;
    let link = reader.u32()?;
    let sum = u64::from_le_bytes(*sum);
    (XxHash3_64::oneshot_with_seed(generation.seed(place), content) == sum).then(|| Record {
        kind,
        link,
        content: PREFIX_LEN..len - SUM_LEN,
        len,
        next_link: low(sum),
        session: None,
    })
}

/// Appends a record to `out`, and gives the link of the one behind it.
pub fn encode(
    kind: u8,
    link: u32,
    content: &[u8],
    place: u64,
    generation: &Generation,
    out: &mut Vec<u8>,
) -> Result<u32, OutOfMemory> {
    let (start, len) = (out.len(), PREFIX_LEN + content.len() + SUM_LEN);
    room(out, len)?;
    out.extend(u32::try_from(len).unwrap_or(0).to_le_bytes());
    out.push(kind);
    out.extend(link.to_le_bytes());
    out.extend(content);
    let sealed = out.get(start..).unwrap_or_default();
    let sum = XxHash3_64::oneshot_with_seed(generation.seed(place), sealed);
    out.extend(sum.to_le_bytes());
    Ok(low(sum))
}

/// The sum of a page that a first version stands on.
pub fn sum_of(page: &[u8]) -> u32 {
    low(XxHash3_64::oneshot(page))
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low(sum: u64) -> u32 {
    sum as u32
}

/// Bytes of a carrier that are enough to have its salt.
pub const CARRIER_LEN: usize = PREFIX_LEN + 1 + 16 + 10;

/// What a sealed record tells in plain.
#[derive(Clone, Copy, Debug)]
pub struct SealedRecord {
    pub kind: u8,
    pub link: u32,
    pub salt: SaltAt,
    pub counter: u64,
    /// Where in its bytes the content begins.
    pub start: usize,
    /// Bytes of all of it.
    pub len: usize,
}

/// Where the salt of a sealed record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaltAt {
    /// The record is a carrier.
    Here(Salt),
    /// Its carrier is so many bytes before it.
    Back(u64),
}

impl SealedRecord {
    /// Of one that begins with these bytes.
    pub fn decode(bytes: &[u8]) -> Option<SealedRecord> {
        let len = length(bytes)?;
        let mut reader = Reader::new(bytes.get(4..)?);
        let kind = reader.u8().filter(|kind| (FRAME..=ROOT).contains(kind))?;
        let link = reader.u32()?;
        let salt = match reader.varint()? {
            0 => SaltAt::Here(reader.bytes(size_of::<Salt>())?.try_into().ok()?),
            back => SaltAt::Back(back),
        };
        let counter = reader.varint().filter(|n| *n < COUNTER_LIMIT)?;
        Some(SealedRecord {
            kind,
            link,
            salt,
            counter,
            start: bytes.len() - reader.rest().len(),
            len,
        })
    }
}

/// Appends to `out` what is before the content of a sealed record, which has so many bytes when it is sealed, the tag
/// included. There is room for all of it then.
pub fn encode_sealed(
    kind: u8,
    link: u32,
    nonce: (SaltAt, u64),
    sealed: usize,
    out: &mut Vec<u8>,
) -> Result<(), OutOfMemory> {
    let start = out.len();
    room(out, CARRIER_LEN + 10 + sealed)?;
    out.extend([0; 4]);
    out.push(kind);
    out.extend(link.to_le_bytes());
    match nonce.0 {
        SaltAt::Here(salt) => {
            out.push(0);
            out.extend(salt);
        }
        SaltAt::Back(back) => put_varint(out, back),
    }
    put_varint(out, nonce.1);
    let len = out.len() - start + sealed;
    let len = u32::try_from(len).unwrap_or(0).to_le_bytes();
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&len);
    }
    Ok(())
}

/// The link of the record behind one that ends with these bytes: the first four of its tag.
pub fn link_behind(sealed: &[u8]) -> Option<u32> {
    let [a, b, c, d, ..] = *sealed.last_chunk::<TAG_LEN>()?;
    Some(u32::from_le_bytes([a, b, c, d]))
}

/// How a version of a page is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    Raw,
    /// A zstd frame, as the units of a packed file have them.
    Zstd,
    /// The bytes in which it differs from another version.
    Changes(Base),
    /// The bytes in which it differs from the page as the commit has it that the generation stands on. That page has
    /// this sum.
    First(u32),
}

/// The version that another one stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The place of its record.
    pub place: u64,
    /// Differences from the version that stands on it to the whole one.
    pub depth: u8,
}

impl Form {
    /// The version in the log that it stands on.
    pub fn base(self) -> Option<Base> {
        match self {
            Form::Raw | Form::Zstd | Form::First(_) => None,
            Form::Changes(base) => Some(base),
        }
    }
}

/// A version of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageVersion<'a> {
    pub form: Form,
    pub stored: &'a [u8],
}

/// A frame, or a half of one.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// From 1 on.
    pub number: u32,
    /// Everything before this place was synced when the record was made.
    pub witness: Option<u64>,
    /// As SQLite wrote it.
    pub header: Option<[u8; FRAME_HEADER_LEN]>,
    pub page: Option<PageVersion<'a>>,
}

impl<'a> Frame<'a> {
    /// Appends the content of its record.
    pub fn encode(
        &self,
        place: u64,
        generation: &Generation,
        out: &mut Vec<u8>,
    ) -> Result<(), OutOfMemory> {
        room(out, 64 + self.page.map_or(0, |page| page.stored.len()))?;
        let header = self.header.as_ref().map(Parts::of);
        let is_usual = header
            .as_ref()
            .is_some_and(|h| h.salts == generation.salts());
        let mut flags = 0;
        if header.is_some() {
            flags |= if is_usual {
                HAS_HEADER
            } else {
                HEADER_AS_IT_IS
            };
        }
        flags |= if self.page.is_some() { HAS_PAGE } else { 0 };
        flags |= if self.witness.is_some() {
            HAS_WITNESS
        } else {
            0
        };
        out.push(flags);
        put_varint(out, self.number.into());
        if let Some(witness) = self.witness {
            put_varint(out, place - witness.min(place));
        }
        match (header, self.header) {
            (Some(parts), _) if is_usual => {
                put_varint(out, parts.page.into());
                put_varint(out, parts.size.into());
                out.extend(parts.sum);
            }
            (_, Some(header)) => out.extend(header),
            _ => {}
        }
        if let Some(page) = self.page {
            match page.form {
                Form::Raw => out.push(0),
                Form::Zstd => out.push(1),
                Form::Changes(base) => {
                    out.push(1 + base.depth);
                    put_varint(out, place - base.place.min(place));
                }
                Form::First(sum) => {
                    out.push(FIRST);
                    out.extend(sum.to_le_bytes());
                }
            }
            out.extend(page.stored);
        }
        Ok(())
    }

    /// Reads the content of a record at this place.
    pub fn decode(content: &'a [u8], place: u64, generation: &Generation) -> Option<Frame<'a>> {
        let mut reader = Reader::new(content);
        let flags = reader.u8()?;
        let number = reader.varint_u32().filter(|number| *number > 0)?;
        let before = |back: u64| place.checked_sub(back);
        let witness = if flags & HAS_WITNESS != 0 {
            Some(reader.varint().and_then(before)?)
        } else {
            None
        };
        let header = if flags & HAS_HEADER != 0 {
            let parts = Parts {
                page: reader.varint_u32()?,
                size: reader.varint_u32()?,
                salts: generation.salts(),
                sum: reader.bytes(8)?.try_into().ok()?,
            };
            Some(parts.header())
        } else if flags & HEADER_AS_IT_IS != 0 {
            Some(reader.bytes(FRAME_HEADER_LEN)?.try_into().ok()?)
        } else {
            None
        };
        let page = if flags & HAS_PAGE != 0 {
            let form = match reader.u8()? {
                0 => Form::Raw,
                1 => Form::Zstd,
                // The header tells which page it is.
                FIRST if header.is_some() && generation.base.is_some() => {
                    Form::First(reader.u32()?)
                }
                form => Form::Changes(Base {
                    place: reader.varint().filter(|back| *back > 0).and_then(before)?,
                    depth: (form - 1 <= DEPTH_MAX).then_some(form - 1)?,
                }),
            };
            let stored = reader.rest();
            Some(PageVersion { form, stored })
        } else {
            None
        };
        let is_all = page.is_some() || reader.rest().is_empty();
        let is_known = flags <= 15 && flags & 3 != 3 && flags & 7 != 0;
        (is_all && is_known).then_some(Frame {
            number,
            witness,
            header,
            page,
        })
    }
}

/// The fields of a frame's header.
struct Parts {
    page: u32,
    size: u32,
    salts: [u8; 8],
    sum: [u8; 8],
}

impl Parts {
    fn of(header: &[u8; FRAME_HEADER_LEN]) -> Parts {
        let [a, b, c, d, e, f, g, h, salts @ .., s, t, u, v, w, x, y, z] = *header;
        Parts {
            page: u32::from_be_bytes([a, b, c, d]),
            size: u32::from_be_bytes([e, f, g, h]),
            salts,
            sum: [s, t, u, v, w, x, y, z],
        }
    }

    fn header(&self) -> [u8; FRAME_HEADER_LEN] {
        let mut header = [0; FRAME_HEADER_LEN];
        let fields = self
            .page
            .to_be_bytes()
            .into_iter()
            .chain(self.size.to_be_bytes());
        let fields = fields.chain(self.salts).chain(self.sum);
        header
            .iter_mut()
            .zip(fields)
            .for_each(|(to, from)| *to = from);
        header
    }
}

/// The page that a frame with this header is of.
pub fn page_of(header: &[u8; FRAME_HEADER_LEN]) -> u32 {
    Parts::of(header).page
}

/// Whether a frame with this header ends a transaction.
pub fn is_commit(header: &[u8; FRAME_HEADER_LEN]) -> bool {
    Parts::of(header).size != 0
}
