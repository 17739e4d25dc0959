//! Encrypted archives: their head and their end, and how frames and table are sealed.
//!
//! An archive has a data key of its own, wrapped by the user's, and one session, whose counters are the numbers of the
//! frames, and behind them of the table. With each frame its place is sealed: its number, where its bytes are in the
//! database, and how many they are. So no frame opens in another place, nor one of another archive. The table is sealed
//! with the number of frames. What anyone can see is the page size of the database, the number of frames and, as it
//! happens, about where they end. docs/format.md has every byte.
//!
//! To other readers of zstd the file is a skippable frame with something behind it that is none: an error, and never
//! an empty file.

use std::sync::Arc;

use litepack_cipher::{
    BLOCK_LEN, Costs, Key, KeyBlock, Keys, Nonce, Session, TAG_LEN, new_data_key,
};
use litepack_io::storage::ReadAt;
use twox_hash::XxHash64;

use crate::error::{Error, Result};
use crate::seek_table::{Frame, word};

/// Bytes before the first frame.
pub(crate) const HEAD_LEN: u64 = HEAD as u64;
const HEAD: usize = 512;
/// The magic number of the skippable frame that is the head, but for its last bytes.
const SKIPPABLE: u32 = 0x184D_2A5D;
/// What the skippable frame has.
const SKIPPED: u32 = 496;
/// In the head, and at the end of the file.
pub(crate) const MAGIC: [u8; 8] = *b"LPsealed";
const VERSION: u32 = 1;
/// Behind the skippable frame: not the beginning of any frame of zstd's.
const STOP: [u8; 8] = [0xff; 8];
/// Bytes at the end of the file: how many frames there are, zeros, and the magic.
pub(crate) const END_LEN: u64 = END as u64;
pub(crate) const END: usize = 16;
/// Bytes of an entry of the table.
pub(crate) const ENTRY_LEN: usize = 8;
/// A frame has at most so many bytes of the database, and stored bytes: it is opened as a whole.
pub(crate) const FRAME_MAX: u32 = 2 << 20;
pub(crate) const STORED_MAX: u32 = 4 << 20;

/// Where the fields of the head are.
mod field {
    use std::ops::Range;

    pub(super) const MAGIC: Range<usize> = 8..16;
    pub(super) const VERSION: usize = 16;
    pub(super) const PAGE_SIZE: usize = 20;
    pub(super) const IDENTITY: Range<usize> = 24..40;
    pub(super) const SALT: Range<usize> = 40..56;
    pub(super) const BLOCK: Range<usize> = 56..168;
    pub(super) const SUM: Range<usize> = 496..504;
    pub(super) const STOP: Range<usize> = 504..512;
}
const _: () = assert!(field::BLOCK.end - field::BLOCK.start == BLOCK_LEN);
const _: () = assert!(SKIPPED as usize + 8 == field::STOP.start);

/// What is sealed.
#[derive(Clone, Copy, Debug)]
enum Sealed {
    /// A frame of so many bytes, which begin there in the database.
    Frame { start: u64, size: u32 },
    /// The table.
    Table,
}

/// What is sealed with an extent: the archive, the kind, the number, and of a frame where its bytes are.
fn context(identity: &[u8; 16], what: Sealed, number: u32) -> [u8; 36] {
    let (kind, start, size) = match what {
        Sealed::Frame { start, size } => (1u32, start, size),
        Sealed::Table => (2, 0, 0),
    };
    let mut context = [0; 36];
    let fields = [
        identity.as_slice(),
        &kind.to_le_bytes(),
        &number.to_le_bytes(),
        &start.to_le_bytes(),
        &size.to_le_bytes(),
    ];
    let bytes = fields.into_iter().flatten();
    for (to, from) in context.iter_mut().zip(bytes) {
        *to = *from;
    }
    context
}

/// Seals an archive that is made.
#[derive(Debug)]
pub(crate) struct Sealer {
    session: Session,
    identity: [u8; 16],
}

impl Sealer {
    /// A new one, and the head of the archive, of a database with pages of this size, 0 if that is unknown.
    pub(crate) fn new(key: &Key, page_size: u32) -> Result<(Sealer, [u8; HEAD])> {
        let mut identity = [0; 16];
        getrandom::fill(&mut identity).map_err(litepack_cipher::Error::from)?;
        let data = new_data_key()?;
        let block = KeyBlock::wrap(key, Costs::default(), &identity, &data)?;
        let keys = Keys::new(&data, &identity)?;
        let session = Session::new(&keys)?;
        let mut head = [0; HEAD];
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in head.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        put(0, &SKIPPABLE.to_le_bytes());
        put(4, &SKIPPED.to_le_bytes());
        put(field::MAGIC.start, &MAGIC);
        put(field::VERSION, &VERSION.to_le_bytes());
        put(field::PAGE_SIZE, &page_size.to_le_bytes());
        put(field::IDENTITY.start, &identity);
        put(field::SALT.start, &session.salt());
        put(field::BLOCK.start, &block.0);
        put(field::STOP.start, &STOP);
        let sum = sum_of(&head);
        for (to, from) in head.iter_mut().skip(field::SUM.start).zip(sum) {
            *to = from;
        }
        Ok((Sealer { session, identity }, head))
    }

    /// Seals the frame with this number, whose bytes begin there in the database. Frames are sealed in their order.
    pub(crate) fn frame(
        &self,
        number: u32,
        (start, size): (u64, u32),
        stored: &mut Vec<u8>,
    ) -> Result<()> {
        self.seal(Sealed::Frame { start, size }, number, stored)
    }

    /// Seals the table of so many frames, and puts the end of the file behind it.
    pub(crate) fn table(&self, frames: u32, table: &mut Vec<u8>) -> Result<()> {
        self.seal(Sealed::Table, frames, table)?;
        table.extend_from_slice(&frames.to_le_bytes());
        table.extend_from_slice(&[0; 4]);
        table.extend_from_slice(&MAGIC);
        Ok(())
    }

    fn seal(&self, what: Sealed, number: u32, bytes: &mut Vec<u8>) -> Result<()> {
        let context = context(&self.identity, what, number);
        let nonce = self.session.seal(&context, bytes, 0)?;
        // Readers have no other nonce for it.
        match nonce.counter == u64::from(number) {
            true => Ok(()),
            false => Err(Error::Limit("frames are sealed out of order".into())),
        }
    }
}

/// Opens what is sealed in an archive.
#[derive(Debug)]
pub(crate) struct Opener {
    keys: Keys,
    identity: [u8; 16],
    salt: [u8; 16],
}

impl Opener {
    /// The number by which the cache tells this archive from others. Only who has the key can know it.
    pub(crate) fn number(&self) -> u64 {
        self.keys
            .number_of(&[b"litepack archive cache", &self.identity[..]].concat())
    }

    /// Opens a frame in place, and leaves it without its tag.
    pub(crate) fn frame(&self, frame: &Frame, stored: &mut Vec<u8>) -> Result<()> {
        let what = Sealed::Frame {
            start: frame.start,
            size: frame.size,
        };
        self.open(what, frame.number, stored)
            .ok_or_else(|| Error::frame(frame, "it is not what was sealed in this place"))
    }

    /// The same for the table of so many frames.
    pub(crate) fn table(&self, frames: u32, table: &mut Vec<u8>) -> Option<()> {
        self.open(Sealed::Table, frames, table)
    }

    fn open(&self, what: Sealed, number: u32, bytes: &mut Vec<u8>) -> Option<()> {
        let context = context(&self.identity, what, number);
        let nonce = Nonce {
            salt: self.salt,
            counter: number.into(),
        };
        let len = self.keys.open(&nonce, &context, bytes).ok()?.len();
        bytes.truncate(len);
        Some(())
    }
}

/// The head of an encrypted archive.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Of the database, as the file says without its key; 0 if it does not.
    pub(crate) page_size: u32,
    identity: [u8; 16],
    salt: [u8; 16],
    block: KeyBlock,
}

impl Head {
    /// The head of a file, if it is an encrypted archive.
    ///
    /// # Errors
    /// If it is one, and damaged or of another version; when the medium fails.
    pub(crate) fn read(source: &impl ReadAt) -> Result<Option<Head>> {
        let mut head = [0; HEAD];
        let found = source.read_at(&mut head, 0)?;
        if !begins_sealed(head.get(..found).unwrap_or_default()) {
            return Ok(None);
        }
        let damaged = |why: &str| Error::Head { why: why.into() };
        if found < HEAD {
            return Err(damaged("it ends within it"));
        }
        if head.get(field::SUM) != Some(&sum_of(&head)) || head.get(field::STOP) != Some(&STOP) {
            return Err(damaged("its checksum is wrong"));
        }
        match word(&head, field::VERSION) {
            Some(VERSION) => {}
            other => {
                let version = other.unwrap_or_default();
                return Err(Error::Unsupported(format!("encryption {version}")));
            }
        }
        let part = |range: std::ops::Range<usize>| head.get(range).unwrap_or_default();
        Ok(Some(Head {
            page_size: word(&head, field::PAGE_SIZE).unwrap_or_default(),
            identity: part(field::IDENTITY).try_into().unwrap_or_default(),
            salt: part(field::SALT).try_into().unwrap_or_default(),
            block: KeyBlock(part(field::BLOCK).try_into().unwrap_or([0; BLOCK_LEN])),
        }))
    }

    /// What opens the archive.
    ///
    /// # Errors
    /// [`Error::WrongKey`].
    pub(crate) fn unlock(&self, key: &Key) -> Result<Arc<Opener>> {
        let data = self.block.open(key, &self.identity)?;
        Ok(Arc::new(Opener {
            keys: Keys::new(&data, &self.identity)?,
            identity: self.identity,
            salt: self.salt,
        }))
    }
}

/// Whether a file that begins with these bytes (16 or more) is an encrypted archive, whole or not.
pub(crate) fn begins_sealed(head: &[u8]) -> bool {
    word(head, 0) == Some(SKIPPABLE) && head.get(field::MAGIC) == Some(&MAGIC)
}

/// The checksum of a head: XXH64 of what is before it.
fn sum_of(head: &[u8; HEAD]) -> [u8; 8] {
    let before = head.get(..field::SUM.start).unwrap_or_default();
    XxHash64::oneshot(0, before).to_le_bytes()
}

/// Bytes of the sealed table of so many frames.
pub(crate) fn table_len(frames: u32) -> u64 {
    u64::from(frames) * ENTRY_LEN as u64 + TAG_LEN as u64
}
