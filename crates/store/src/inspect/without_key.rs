//! What an encrypted file shows to who has no key: how it is encrypted, and its newest commit by what that says of
//! itself. Nothing vouches for any of it.

use litepack_cipher::{CipherId, Costs, Padding};
use litepack_io::storage::ReadAt;

use crate::error::{Error, Result};
use crate::format::guard::Signer;
use crate::format::header::{HEAD_LEN, read_header};
use crate::format::key_place::Places;
use crate::format::layout::SLOT_OFFSETS;
use crate::format::offset::FileOffset;
use crate::format::record::Record;

/// What is in plain in an encrypted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithoutKey {
    /// The cipher.
    pub cipher: CipherId,
    /// What each guess of the passphrase costs; `None` of a raw key.
    pub costs: Option<Costs>,
    /// How what is encrypted is padded.
    pub padding: Padding,
    /// The newest commit.
    pub seq: u64,
    /// Bytes of a unit: of a page, or of several small ones.
    pub unit_size: u32,
    /// Length of the database.
    pub logical_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Bytes of stored pages.
    pub stored_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
}

/// Takes any signature: without the key none can be compared.
struct Unsigned;

impl Signer for Unsigned {
    fn sign(&self, _: &mut [u8]) {}

    fn has_signed(&self, _: &[u8]) -> bool {
        true
    }
}

/// Reads what can be read of an encrypted file without its key.
///
/// # Errors
/// [`Error::NotEncrypted`]; when it cannot be read, or is no packed file.
pub fn without_key(disk: &impl ReadAt) -> Result<WithoutKey> {
    let header = read_header(disk)?.filter(|header| header.is_encrypted);
    let header = header.ok_or(Error::NotEncrypted)?;
    let (cipher, costs) = Places::read(disk, header.uuid).derivation()?;
    let mut head = [0; HEAD_LEN];
    let read = disk.read_at(&mut head, 0)?;
    let from = |offset: FileOffset| head.get(usize::try_from(offset.0).ok()?..read);
    let records = SLOT_OFFSETS.map(|slot| Record::decode(from(slot)?, Unsigned));
    let newest = records.into_iter().flatten().max_by_key(|r| r.seq);
    let Some(record) = newest else {
        let why = "both are unreadable";
        return Err(Error::damaged("commit record", SLOT_OFFSETS[0], why));
    };
    Ok(WithoutKey {
        cipher,
        costs,
        padding: header.padding,
        seq: record.seq.0,
        unit_size: record.unit_size,
        logical_bytes: record.size,
        file_bytes: disk.len()?,
        stored_bytes: record.stored_bytes,
        free_bytes: record.free_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::options::Options;
    use crate::testing::plain_options;
    use crate::transaction::store::Store;
    use litepack_cipher::Key;
    use litepack_io::testing::MemoryStorage;

    #[test]
    fn an_encrypted_file_says_how_it_is_encrypted_and_how_long_it_is() {
        for key in [Key::raw(&[7; 32]), Key::passphrase(b"p")] {
            let key = key.unwrap();
            let costs = (!key.is_raw()).then(Costs::default);
            let disk = MemoryStorage::default();
            let options = Options {
                key: Some(Arc::new(key)),
                ..plain_options()
            };
            let mut store = Store::open(&disk, options).unwrap();
            store.write(0, &[5; 8192]).unwrap();
            store.flush().unwrap();
            let found = without_key(&disk).unwrap();
            assert_eq!((found.seq, found.costs), (store.seq(), costs));
            assert_eq!(found.logical_bytes, 8192);
            assert_eq!(found.file_bytes, disk.snapshot().len() as u64);
            // Any bytes are an error, or some answer.
            for at in 0..2048 {
                let mut image = disk.snapshot();
                image[at] ^= 0x55;
                let _ = without_key(&MemoryStorage::new(image.clone()));
                image.truncate(at);
                assert!(without_key(&MemoryStorage::new(image)).is_err());
            }
        }
    }

    #[test]
    fn a_file_that_is_not_encrypted_is_none() {
        let disk = MemoryStorage::default();
        let is_none = |disk: &MemoryStorage| matches!(without_key(disk), Err(Error::NotEncrypted));
        assert!(is_none(&disk));
        let mut store = Store::open(&disk, plain_options()).unwrap();
        store.write(0, &[5; 4096]).unwrap();
        store.flush().unwrap();
        assert!(is_none(&disk));
    }
}
