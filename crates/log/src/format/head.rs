//! The first bytes of the file: two slots, which take turns in describing the newest generation, and the hint.
//!
//! Each has a sector of its own. A slot is written and synced before the first record of its generation; so one that is
//! torn means that nothing of that generation is there.
//!
//! Those of a sealed log are signed, too: they hold no secret, but only the key can make them.
//!
//! The slot of a generation that stands on a commit of its file has a copy of that commit's record.

use std::io;

use litepack_cipher::{Keys, MAC_LEN};
use litepack_io::bytes::Reader;
use litepack_io::storage::ReadAt;
use twox_hash::XxHash3_64;

use crate::binding::{BaseCommit, Binding, Refusal};

/// Offsets of the slots.
pub const SLOT_OFFSETS: [u64; 2] = [0, 512];
/// Bytes of a slot.
pub const SLOT_LEN: usize = 128;
/// Bytes of the slot of a generation that stands on a commit.
pub const STANDING_SLOT_LEN: usize = 384;
/// Offset of the hint.
pub const HINT_OFFSET: u64 = 1024;
/// Bytes of the hint.
pub const HINT_LEN: usize = 64;
/// Bytes of the head that have a meaning.
pub const HEAD_LEN: usize = 1088;
/// Offset of the first record of each generation.
pub const RECORDS_START: u64 = 4096;
/// The header of a WAL, as SQLite writes it.
pub const WAL_HEADER_LEN: usize = 32;

/// First bytes of a slot.
pub const SLOT_MAGIC: [u8; 8] = *b"LPlog\r\n\x1a";
/// First bytes of the hint.
pub const HINT_MAGIC: [u8; 4] = *b"LPlh";
const VERSION: u32 = 1;
const SEALED_VERSION: u32 = 2;
const STANDING_VERSION: u32 = 3;
const STANDING_SEALED_VERSION: u32 = 4;
/// What is signed begins with these words, which keep it apart from all else that is signed with the same key.
const SLOT_SIGNED: &[u8] = b"litepack log slot";
const HINT_SIGNED: &[u8] = b"litepack log hint";
/// Bytes of a hint that are signed.
const HINT_FIELDS: usize = 32;
/// A signature, or zeros.
type Signature = [u8; MAC_LEN];
/// Of the two magics of a WAL of SQLite's, which differ in the last bit.
const WAL_MAGIC: u32 = 0x377f_0682;
/// The only version of SQLite's WAL.
const WAL_VERSION: u32 = 3_007_000;

/// A run of the log, from one header that SQLite writes to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Above that of the generation before.
    pub seq: u64,
    /// Random; in the checksum of each record.
    pub id: [u8; 16],
    /// The header of the WAL.
    pub wal_header: [u8; WAL_HEADER_LEN],
    /// Bytes of a page of the database.
    pub page_size: usize,
    /// The file that it follows.
    pub binding: Binding,
    /// The commit of that file that first versions of pages stand on; `None`: they stand on nothing.
    pub base: Option<BaseCommit>,
    /// Of the slot of a sealed generation, by whichever key. `None`: its records are in plain.
    pub signature: Option<Signature>,
}

impl Generation {
    /// This one, with its slot signed if there are keys: its records are sealed then.
    pub fn signed(mut self, keys: Option<&Keys>) -> Generation {
        // The version is signed, too.
        self.signature = keys.map(|_| Signature::default());
        self.signature = keys.map(|keys| sign(keys, SLOT_SIGNED, &self.fields()));
        self
    }

    /// Whether these keys have signed the slot.
    pub fn is_signed_by(&self, keys: &Keys) -> bool {
        let is_it = |signature: &Signature| is_signed(keys, SLOT_SIGNED, &self.fields(), signature);
        self.signature.as_ref().is_some_and(is_it)
    }

    /// Why it is not one of these keys, or of none, if it is not.
    pub fn refused_key(&self, keys: Option<&Keys>) -> Option<Refusal> {
        match keys {
            None => self.signature.map(|_| Refusal::Encrypted),
            Some(_) if self.signature.is_none() => Some(Refusal::NotEncrypted),
            Some(keys) if !self.is_signed_by(keys) => Some(Refusal::OtherKey),
            Some(_) => None,
        }
    }

    /// The seed of the checksum of what is at this place.
    pub fn seed(&self, place: u64) -> u64 {
        XxHash3_64::oneshot_with_seed(place, &self.id)
    }

    /// The salts, as they are in the header of each frame.
    pub fn salts(&self) -> [u8; 8] {
        let mut salts = [0; 8];
        salts.copy_from_slice(self.wal_header.get(16..24).unwrap_or(&[0; 8]));
        salts
    }

    /// The slot that describes this generation.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.fields();
        out.extend(self.signature.unwrap_or_default());
        with_sum(out)
    }

    fn fields(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(STANDING_SLOT_LEN);
        out.extend(SLOT_MAGIC);
        let version = match (&self.base, self.signature) {
            (None, None) => VERSION,
            (None, Some(_)) => SEALED_VERSION,
            (Some(_), None) => STANDING_VERSION,
            (Some(_), Some(_)) => STANDING_SEALED_VERSION,
        };
        out.extend(version.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.seq.to_le_bytes());
        out.extend(self.id);
        out.extend(self.wal_header);
        out.extend(self.binding.identity);
        out.extend(self.binding.own.to_le_bytes());
        out.extend(self.binding.after.to_le_bytes());
        if let Some(BaseCommit(record)) = &self.base {
            out.extend(record);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Generation> {
        let version = Reader::new(bytes.get(SLOT_MAGIC.len()..)?).u32()?;
        let (stands, is_sealed) = match version {
            VERSION => (false, false),
            SEALED_VERSION => (false, true),
            STANDING_VERSION => (true, false),
            STANDING_SEALED_VERSION => (true, true),
            _ => return None,
        };
        let len = if stands { STANDING_SLOT_LEN } else { SLOT_LEN };
        let mut reader = Reader::new(unsummed(bytes.get(..len)?)?);
        let is_slot = reader.bytes(SLOT_MAGIC.len())? == SLOT_MAGIC;
        reader.u32()?;
        let known = is_slot && reader.u32()? == 0;
        let seq = reader.u64()?;
        let id = reader.bytes(16)?.try_into().ok()?;
        let wal_header: [u8; WAL_HEADER_LEN] = reader.bytes(WAL_HEADER_LEN)?.try_into().ok()?;
        let binding = Binding {
            identity: reader.bytes(16)?.try_into().ok()?,
            own: reader.u64()?,
            after: reader.u64()?,
        };
        let base = match stands {
            true => Some(BaseCommit(reader.bytes(256)?.try_into().ok()?)),
            false => None,
        };
        let signature: Signature = reader.rest().try_into().ok()?;
        let signature = match is_sealed {
            true => Some(signature),
            false if signature == Signature::default() => None,
            false => return None,
        };
        let page_size = page_size(&wal_header).ok()?;
        known.then_some(Generation {
            seq,
            id,
            wal_header,
            page_size,
            binding,
            base,
            signature,
        })
    }
}

/// The size of pages that a header of a WAL names.
///
/// # Errors
/// In words, for any other than SQLite 3 writes.
pub fn page_size(wal_header: &[u8; WAL_HEADER_LEN]) -> Result<usize, &'static str> {
    let word = |at: usize| {
        let bytes = wal_header.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_be_bytes)
    };
    if word(0) & !1 != WAL_MAGIC {
        return Err("the header has another magic");
    }
    if word(4) != WAL_VERSION {
        return Err("the header has another version than 3007000");
    }
    let size = word(8) as usize;
    if size.is_power_of_two() && (512..=1 << 16).contains(&size) {
        Ok(size)
    } else {
        Err("the header has no valid page size")
    }
}

/// Names a root that was synced, with all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Place of the root.
    pub root: u64,
    /// Bytes of its record.
    pub len: u32,
    /// The first bytes of the salt of its session; zeros if it is not sealed.
    pub session: [u8; 8],
}

impl Hint {
    /// The bytes of the hint, signed if there are keys.
    pub fn encode(&self, generation: &Generation, keys: Option<&Keys>) -> [u8; HINT_LEN] {
        let mut out = Vec::with_capacity(HINT_LEN);
        out.extend(HINT_MAGIC);
        out.extend(self.len.to_le_bytes());
        out.extend(self.root.to_le_bytes());
        out.extend(generation.id);
        let signature =
            keys.map(|keys| sign(keys, HINT_SIGNED, &signed_of_hint(&out, &self.session)));
        out.extend(signature.unwrap_or_default());
        out.extend(self.session);
        summed(out)
    }

    fn decode(bytes: &[u8], generation: &Generation, keys: Option<&Keys>) -> Option<Hint> {
        let fields = bytes.get(..HINT_FIELDS)?;
        let mut reader = Reader::new(unsummed(bytes)?);
        let is_one = reader.bytes(HINT_MAGIC.len())? == HINT_MAGIC;
        let len = reader.u32()?;
        let root = reader.u64()?;
        let is_of_it = reader.bytes(16)? == generation.id;
        let signature = reader.bytes(MAC_LEN)?;
        let session: [u8; 8] = reader.bytes(8)?.try_into().ok()?;
        let vouched_for = match (generation.signature, keys) {
            (None, _) => signature.iter().chain(&session).all(|byte| *byte == 0),
            (Some(_), Some(keys)) => is_signed(
                keys,
                HINT_SIGNED,
                &signed_of_hint(fields, &session),
                signature,
            ),
            (Some(_), None) => false,
        };
        let fits = (RECORDS_START..1 << 62).contains(&root);
        (is_one && is_of_it && vouched_for && fits).then_some(Hint { root, len, session })
    }
}

fn signed_of_hint(fields: &[u8], session: &[u8; 8]) -> Vec<u8> {
    [fields, session].concat()
}

fn sign(keys: &Keys, name: &[u8], fields: &[u8]) -> Signature {
    keys.sign(&[name, fields].concat())
}

fn is_signed(keys: &Keys, name: &[u8], fields: &[u8], signature: &[u8]) -> bool {
    keys.is_signed(&[name, fields].concat(), signature)
}

fn summed<const N: usize>(content: Vec<u8>) -> [u8; N] {
    with_sum(content).try_into().unwrap_or([0; N])
}

fn with_sum(mut content: Vec<u8>) -> Vec<u8> {
    let sum = XxHash3_64::oneshot_with_seed(0, &content);
    content.extend(sum.to_le_bytes());
    content
}

fn unsummed(bytes: &[u8]) -> Option<&[u8]> {
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    let is_whole = XxHash3_64::oneshot_with_seed(0, content) == u64::from_le_bytes(*sum);
    is_whole.then_some(content)
}

/// The head says this.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Head {
    /// No generation was ever begun.
    Empty,
    /// This is the newest generation.
    Newest {
        /// What it is.
        generation: Generation,
        /// The slot that has it.
        slot: usize,
        /// The other slot was not written in whole, or is damaged.
        is_other_broken: bool,
        /// A root that is known to be durable.
        hint: Option<Hint>,
    },
    /// It holds no generation, and only the slot that comes first in an empty file was written, maybe in part: with no
    /// record there the log is empty.
    Torn,
    /// It was written and holds no generation.
    Broken,
}

impl Head {
    /// Reads the head; `bytes` are as many as the file has, up to [`HEAD_LEN`]. A generation that is found may be of any
    /// keys; its hint is of these.
    pub fn decode(bytes: &[u8], keys: Option<&Keys>) -> Head {
        if FileKind::of(bytes) == FileKind::Wal {
            return Head::Broken;
        }
        let [(a, a_is_zero), (b, b_is_zero)] = slots(bytes);
        let (generation, slot, is_other_broken) = match (a, b) {
            (Some(a), Some(b)) if b.seq > a.seq => (b, 1, false),
            (Some(a), Some(_)) => (a, 0, false),
            (Some(a), None) => (a, 0, !b_is_zero),
            (None, Some(b)) => (b, 1, !a_is_zero),
            (None, None) if a_is_zero && b_is_zero => return Head::Empty,
            (None, None) if b_is_zero => return Head::Torn,
            (None, None) => return Head::Broken,
        };
        let hint = bytes.get(HEAD_LEN - HINT_LEN..HEAD_LEN);
        let hint = hint.and_then(|bytes| Hint::decode(bytes, &generation, keys));
        Head::Newest {
            generation,
            slot,
            is_other_broken,
            hint,
        }
    }
}

/// The generation in each slot, if there is one, and whether the slot is zero.
fn slots(head: &[u8]) -> [(Option<Generation>, bool); 2] {
    SLOT_OFFSETS.map(|offset| {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let slot = head.get(start.min(head.len())..).unwrap_or_default();
        let slot = slot.get(..STANDING_SLOT_LEN).unwrap_or(slot);
        (Generation::decode(slot), slot.iter().all(|byte| *byte == 0))
    })
}

/// Whether a generation of a file with this head, or one that was cut off it, may stand on a commit.
pub fn may_stand(head: &[u8]) -> bool {
    match slots(head) {
        [(Some(a), _), (Some(b), _)] => a.base.is_some() || b.base.is_some(),
        [(Some(one), _), (None, true)] | [(None, true), (Some(one), _)] => one.base.is_some(),
        _ => true,
    }
}

/// What a file is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// It has no bytes, or begins with zeros.
    Empty,
    /// A log.
    Log,
    /// A WAL as SQLite writes it.
    Wal,
    /// Something else.
    Other,
}

impl FileKind {
    /// Looks at the first bytes of a file.
    ///
    /// # Errors
    /// The storage's.
    pub fn of_file(file: &impl ReadAt) -> io::Result<FileKind> {
        let mut head = [0; HEAD_LEN];
        let n = file.read_at(&mut head, 0)?;
        Ok(FileKind::of(head.get(..n).unwrap_or_default()))
    }

    /// Tells by the first bytes of a file, [`HEAD_LEN`] or all that it has.
    pub(crate) fn of(head: &[u8]) -> FileKind {
        let first: Option<[u8; 4]> = head.first_chunk().copied();
        let second = head.get(512..).unwrap_or_default();
        // First, as its pages may hold anything.
        if first.is_some_and(|magic| u32::from_be_bytes(magic) & !1 == WAL_MAGIC) {
            FileKind::Wal
        } else if head.starts_with(&SLOT_MAGIC) || second.starts_with(&SLOT_MAGIC) {
            FileKind::Log
        } else if head.iter().all(|byte| *byte == 0) {
            FileKind::Empty
        } else {
            FileKind::Other
        }
    }
}
