//! The two places of an encrypted file for its wrapped data key.
//!
//! Each has 4096 bytes of its own, a whole sector of any usual medium, which nothing else is ever written to: what a
//! commit writes cannot cost the key, and a write to one place cannot cost the other. Each has a number. When the user's key changes, the place with the lower one is written and synced before the other
//! one is overwritten: the former key or the new one opens the file, wherever a crash comes between.

use std::io;
use std::sync::Arc;

use litepack_cipher::{BLOCK_LEN, CipherId, Costs, Key, KeyBlock, Keys};

use litepack_io::storage::{ReadAt, Storage};

use crate::error::{Error, Result};
use crate::format::guard::{Guard, Signer};
use crate::format::header::{Header, read_header};
use crate::format::layout::{FileUuid, KEY_LEN, KEY_OFFSETS};
use crate::format::offset::FileOffset;

const MAGIC: [u8; 4] = *b"LPky";
/// Where the block is: behind the magic, four zero bytes and the number.
const BLOCK: std::ops::Range<usize> = 16..16 + BLOCK_LEN;

/// The bytes of a place with this block.
pub(crate) fn encode(seq: u64, block: &KeyBlock, uuid: FileUuid) -> [u8; KEY_LEN] {
    let mut out = [0; KEY_LEN];
    out[..4].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&seq.to_le_bytes());
    out[BLOCK].copy_from_slice(&block.0);
    uuid.sign(&mut out);
    out
}

/// The number and the block of a place; `None` if it is torn, damaged or was never written.
fn decode(bytes: &[u8], uuid: FileUuid) -> Option<(u64, KeyBlock)> {
    let bytes = bytes.first_chunk::<KEY_LEN>()?;
    if !uuid.has_signed(bytes) || !bytes.starts_with(&MAGIC) {
        return None;
    }
    let seq = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let block = bytes.get(BLOCK)?.try_into().ok()?;
    Some((seq, KeyBlock(block)))
}

/// The number and the block of the place at this offset.
fn read(
    disk: &impl ReadAt,
    offset: FileOffset,
    uuid: FileUuid,
) -> io::Result<Option<(u64, KeyBlock)>> {
    let mut bytes = [0; KEY_LEN];
    // Of a file that ends early the rest is zeros.
    disk.read_at(&mut bytes, offset.0)?;
    Ok(decode(&bytes, uuid))
}

/// How a new file is vouched for, and its key block if it is to be encrypted.
pub(crate) fn new_guard(uuid: FileUuid, key: Option<&Key>) -> Result<(Guard, Option<KeyBlock>)> {
    let Some(key) = key else {
        return Ok((Guard::sums(uuid), None));
    };
    let data = litepack_cipher::new_data_key()?;
    let block = KeyBlock::wrap(key, Costs::default(), &uuid.0, &data)?;
    let keys = Keys::with_padding(&data, &uuid.0, key.padding().unwrap_or_default())?;
    Ok((Guard::keys(uuid, keys), Some(block)))
}

/// How a file with this header is vouched for.
///
/// # Errors
/// When it is encrypted and the key is missing or wrong, when there is a key and it is not encrypted, and when the key is
/// for files of another padding.
pub(crate) fn guard(disk: &impl ReadAt, header: &Header, key: Option<&Key>) -> Result<Guard> {
    let uuid = header.uuid;
    let key = match (header.is_encrypted, key) {
        (false, None) => return Ok(Guard::sums(uuid)),
        (false, Some(_)) => return Err(Error::NotEncrypted),
        (true, None) => return Err(Error::NoKey),
        (true, Some(key)) => key,
    };
    if let Some(wanted) = key.padding().filter(|wanted| *wanted != header.padding) {
        return Err(Error::OtherPadding {
            found: header.padding.bytes(),
            wanted: wanted.bytes(),
        });
    }
    let mut places = Places::read(disk, uuid);
    let data = places.open(|block| block.open(key, &uuid.0))?;
    let keys = Keys::with_padding(&data, &uuid.0, header.padding)?;
    Ok(Guard::keys(uuid, keys))
}

/// Whether a packed file is encrypted. One that is still empty is not.
///
/// # Errors
/// When it cannot be read, or is no packed file.
pub fn is_encrypted(disk: &impl ReadAt) -> Result<bool> {
    Ok(read_header(disk)?.is_some_and(|header| header.is_encrypted))
}

/// Tries a key on a packed file. One that is still empty takes any.
///
/// # Errors
/// [`Error::WrongKey`], [`Error::NotEncrypted`]; when the file cannot be read, or is no packed file.
pub fn try_key(disk: &impl ReadAt, key: &Key) -> Result<()> {
    unlock(disk, key).map(|_| ())
}

/// The keys of an encrypted file, by the user's. `None` if it is still empty. Whether more of it can be read is another
/// question.
///
/// # Errors
/// As [`try_key`].
pub fn unlock(disk: &impl ReadAt, key: &Key) -> Result<Option<Arc<Keys>>> {
    match read_header(disk)? {
        Some(header) => Ok(guard(disk, &header, Some(key))?.keys),
        None => Ok(None),
    }
}

/// What is in the two places.
pub(crate) struct Places {
    /// The number and the block of each, if it could be read and is valid.
    blocks: [Option<(u64, KeyBlock)>; 2],
    /// Why a place could not be read: the answer when the other one does not open.
    failure: Option<io::Error>,
}

const UNREADABLE: &str = "both copies are unreadable";

impl Places {
    pub(crate) fn read(disk: &impl ReadAt, uuid: FileUuid) -> Places {
        let mut failure = None;
        let blocks = KEY_OFFSETS.map(|offset| {
            read(disk, offset, uuid).unwrap_or_else(|error| {
                failure = Some(error);
                None
            })
        });
        Places { blocks, failure }
    }

    /// Why no block opens: a place that could not be read comes first, as its block might have opened.
    fn failed(&mut self, error: Error) -> Error {
        self.failure.take().map_or(error, Error::Io)
    }

    /// What `open` makes of the newer block, or of the older one if that has another key. A passphrase takes time and
    /// memory: the same block is not opened twice, and where there is no memory the key is not called wrong.
    fn open<T>(
        &mut self,
        mut open: impl FnMut(&KeyBlock) -> litepack_cipher::Result<T>,
    ) -> Result<T> {
        let mut blocks: Vec<_> = self.blocks.iter().flatten().collect();
        blocks.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
        blocks.dedup_by_key(|(_, block)| *block);
        let mut found = Error::damaged("key block", KEY_OFFSETS[0], UNREADABLE);
        for (_, block) in blocks {
            found = match open(block) {
                Ok(opened) => return Ok(opened),
                Err(litepack_cipher::Error::NotAuthentic) => {
                    let why = "the wrapped key is not authentic";
                    Error::damaged("key block", KEY_OFFSETS[0], why)
                }
                Err(litepack_cipher::Error::WrongKey) => Error::WrongKey,
                Err(error) => return Err(error.into()),
            };
        }
        Err(self.failed(found))
    }

    /// The cipher and the costs that the newer block names.
    pub(crate) fn derivation(&mut self) -> Result<(CipherId, Option<Costs>)> {
        self.open(KeyBlock::derivation)
    }

    /// The place that the file cannot do without while its key is changed: of two blocks that differ, as a crash leaves
    /// them, the one that the user's key opens.
    pub(crate) fn kept(
        &mut self,
        mut open: impl FnMut(&KeyBlock) -> litepack_cipher::Result<()>,
    ) -> Result<usize> {
        match self.blocks {
            [Some((_, a)), Some((_, b))] if a != b => {
                let block = self.open(|block| open(block).map(|()| *block))?;
                Ok(usize::from(block == b))
            }
            [Some(_), _] => Ok(0),
            [None, Some(_)] => Ok(1),
            [None, None] => {
                let error = Error::damaged("key block", KEY_OFFSETS[0], UNREADABLE);
                Err(self.failed(error))
            }
        }
    }

    /// Writes to a place, and syncs, what was read there. After a sync that failed a file may read as it was to become,
    /// and be older on the medium, and no later sync mends that: only another write does. Where the medium has these
    /// bytes already, a write that is cut off changes nothing.
    pub(crate) fn write_again(
        &self,
        place: usize,
        disk: &impl Storage,
        uuid: FileUuid,
    ) -> Result<()> {
        #[expect(clippy::indexing_slicing, reason = "a place is 0 or 1")]
        if let Some((seq, block)) = &self.blocks[place] {
            disk.write_at(&encode(*seq, block, uuid), KEY_OFFSETS[place].0)?;
            disk.sync()?;
        }
        Ok(())
    }

    /// Writes a block that is newer than both to a place.
    pub(crate) fn write(
        &self,
        place: usize,
        block: &KeyBlock,
        disk: &impl Storage,
        uuid: FileUuid,
    ) -> Result<()> {
        let newest = self.blocks.iter().flatten().map(|(seq, _)| *seq).max();
        let seq = newest.unwrap_or(0).checked_add(1);
        let seq = seq.ok_or(Error::Limit(
            "the keys of this file cannot be counted any further",
        ))?;
        #[expect(clippy::indexing_slicing, reason = "a place is 0 or 1")]
        let offset = KEY_OFFSETS[place];
        disk.write_at(&encode(seq, block, uuid), offset.0)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_cipher::Error as KeyError;
    use litepack_io::memory::OutOfMemory;

    /// Which blocks are opened, by their first byte, with these in the places and these answers; and the last answer.
    fn opened(
        places: [Option<(u64, u8)>; 2],
        mut answer: impl FnMut(u8) -> litepack_cipher::Result<u8>,
    ) -> (Vec<u8>, Result<u8>) {
        let block = |first| {
            let mut bytes = [0; BLOCK_LEN];
            bytes[0] = first;
            KeyBlock(bytes)
        };
        let blocks = places.map(|place| place.map(|(seq, first)| (seq, block(first))));
        let mut tried = Vec::new();
        let failure = None;
        let result = Places { blocks, failure }.open(|block| {
            tried.push(block.0[0]);
            answer(block.0[0])
        });
        (tried, result)
    }

    #[test]
    fn a_block_is_opened_once_and_the_newer_one_first() {
        let wrong = |_| Err(KeyError::WrongKey);
        let (tried, found) = opened([Some((1, 7)), Some((1, 7))], wrong);
        assert_eq!(tried, [7]);
        assert!(matches!(found, Err(Error::WrongKey)));
        for places in [[Some((3, 7)), Some((2, 8))], [Some((2, 8)), Some((3, 7))]] {
            let (tried, found) = opened(places, wrong);
            assert_eq!(tried, [7, 8]);
            assert!(matches!(found, Err(Error::WrongKey)));
            let (tried, found) = opened(places, Ok);
            assert_eq!((tried, found.unwrap()), (vec![7], 7));
        }
        let (tried, found) = opened([None, Some((2, 8))], Ok);
        assert_eq!((tried, found.unwrap()), (vec![8], 8));
        assert!(matches!(opened([None, None], Ok).1, Err(Error::Damaged(_))));
    }

    /// If there is no memory to stretch a passphrase, or the file wants more than is allowed, nothing is known of the key.
    #[test]
    fn only_another_key_leads_to_the_older_block() {
        let places = [Some((3, 7)), Some((2, 8))];
        for (error, goes_on) in [
            (KeyError::WrongKey, true),
            (KeyError::NotAuthentic, true),
            (KeyError::OutOfMemory(OutOfMemory), false),
            (KeyError::Unsupported("cipher 9".into()), false),
        ] {
            let answer = |first| match first {
                7 => Err(error.clone()),
                other => Ok(other),
            };
            let (tried, found) = opened(places, answer);
            assert_eq!(tried.len(), if goes_on { 2 } else { 1 }, "{error:?}");
            assert_eq!(found.ok(), goes_on.then_some(8));
        }
    }
}
