//! The two places of an encrypted file for its wrapped data key.
//!
//! They have sectors of their own, which nothing else is ever written to: what a commit writes cannot cost the key.
//! Each has a number. When the user's key changes, the place with the lower one is written and synced before the other
//! one is overwritten: the former key or the new one opens the file, wherever a crash comes between.

use litepack_cipher::{BLOCK_LEN, Costs, Key, KeyBlock, Keys};

use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::guard::{Guard, Signer};
use crate::format::header::Header;
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
fn read(disk: &impl ReadAt, offset: FileOffset, uuid: FileUuid) -> Result<Option<(u64, KeyBlock)>> {
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
    let keys = Keys::new(&data, &uuid.0)?;
    Ok((Guard::keys(uuid, keys), Some(block)))
}

/// How a file with this header is vouched for.
///
/// # Errors
/// When it is encrypted and the key is missing or wrong, and when there is a key and it is not encrypted.
pub(crate) fn guard(disk: &impl ReadAt, header: &Header, key: Option<&Key>) -> Result<Guard> {
    let uuid = header.uuid;
    let key = match (header.is_encrypted, key) {
        (false, None) => return Ok(Guard::sums(uuid)),
        (false, Some(_)) => return Err(Error::NotEncrypted),
        (true, None) => return Err(Error::NoKey),
        (true, Some(key)) => key,
    };
    let [a, b] = KEY_OFFSETS.map(|offset| read(disk, offset, uuid));
    let (a, b) = (a?, b?);
    let is_newer = |(seq, _): &(u64, _), other: &Option<(u64, _)>| {
        other.as_ref().is_none_or(|(other, _)| seq > other)
    };
    let (first, second) = match a {
        Some(a) if is_newer(&a, &b) => (Some(a), b),
        a => (b, a),
    };
    let mut found = Error::damaged("key block", KEY_OFFSETS[0], "both copies are unreadable");
    for (_, block) in [first, second].into_iter().flatten() {
        match block.open(key, &uuid.0) {
            Ok(data) => return Ok(Guard::keys(uuid, Keys::new(&data, &uuid.0)?)),
            Err(litepack_cipher::Error::NotAuthentic) => {
                let why = "the wrapped key is not authentic";
                found = Error::damaged("key block", KEY_OFFSETS[0], why);
            }
            Err(error) => found = error.into(),
        }
    }
    Err(found)
}
