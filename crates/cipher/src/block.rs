//! A key block: a file's data key, wrapped by a key of the user's.
//!
//! It is all that has to be written anew when the user's key changes. The check value is compared before anything is
//! decrypted: AES-GCM alone would not tell which of two keys was meant, and a wrong key would look like damage.

use litepack_io::memory::OutOfMemory;
use litepack_reclaimable::Locked;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::Prk;
use ring::hmac;
use zeroize::Zeroizing;

use crate::derive::{self, Bytes, KEY_LEN};
use crate::error::{Error, Result};
use crate::key::{Costs, Key};
use crate::session::TAG_LEN;

/// Bytes of a block. What stands before and behind it in a file is the file's.
pub const BLOCK_LEN: usize = 112;

/// AES-256-GCM, with keys by HKDF-SHA256.
const CIPHER: u32 = 1;
const RAW: u32 = 0;
const ARGON2ID: u32 = 1;

/// Where the fields are: cipher, derivation, memory, passes, lanes (4 bytes each); salt; the data key and its tag; the
/// check value.
const SALT: std::ops::Range<usize> = 20..36;
const WRAPPED: std::ops::Range<usize> = 36..84;
const CHECK: std::ops::Range<usize> = 84..112;
/// Bytes of the check value: of 32, the first.
const CHECK_LEN: usize = CHECK.end - CHECK.start;

/// A cipher, as a block names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CipherId {
    /// AES-256-GCM.
    Aes256Gcm,
}

impl CipherId {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            CipherId::Aes256Gcm => "AES-256-GCM",
        }
    }
}

/// The bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBlock(pub [u8; BLOCK_LEN]);

/// The keys of a block, from the user's key and the block's salt.
struct Wrapping {
    prk: Locked<Prk>,
}

impl Wrapping {
    /// The key is for this salt, which is for this block: so it encrypts one message, and needs no nonce.
    fn key(&self) -> Result<LessSafeKey> {
        let key = derive::expand(&self.prk, &[b"litepack wrap"])?;
        let key = UnboundKey::new(&AES_256_GCM, &*key).map_err(|_| Error::NotAuthentic)?;
        Ok(LessSafeKey::new(key))
    }

    fn check_key(&self) -> Result<hmac::Key> {
        let key = derive::expand(&self.prk, &[b"litepack key check"])?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &*key))
    }
}

impl KeyBlock {
    /// Wraps a data key for the file with this identity. `costs` count for a passphrase.
    ///
    /// # Errors
    /// When the costs are too low or too high, there is no memory for them, or there are no random numbers.
    pub fn wrap(key: &Key, costs: Costs, identity: &[u8; 16], data: &[u8; 32]) -> Result<KeyBlock> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt)?;
        KeyBlock::wrap_with(key, costs, identity, data, salt)
    }

    /// As [`KeyBlock::wrap`], with a salt that no other block has.
    #[expect(clippy::indexing_slicing, reason = "the ranges are within the block")]
    pub(crate) fn wrap_with(
        key: &Key,
        costs: Costs,
        identity: &[u8; 16],
        data: &[u8; 32],
        salt: [u8; 16],
    ) -> Result<KeyBlock> {
        let costs = (!key.is_raw).then_some(costs);
        let mut out = [0; BLOCK_LEN];
        let fields = match costs {
            None => [CIPHER, RAW, 0, 0, 0],
            Some(costs) => [CIPHER, ARGON2ID, costs.memory, costs.passes, costs.lanes],
        };
        for (place, field) in out.as_chunks_mut().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        out[SALT].copy_from_slice(&salt);
        let wrapping = wrapping(key, &salt, costs)?;
        let mut wrapped: Bytes = Zeroizing::new(*data);
        let aad = [identity.as_slice(), &out[..WRAPPED.start]].concat();
        let tag = wrapping.key()?.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key([0; 12]),
            Aad::from(aad),
            &mut *wrapped,
        );
        let tag = tag.map_err(|_| Error::NotAuthentic)?;
        out[WRAPPED][..KEY_LEN].copy_from_slice(&*wrapped);
        out[WRAPPED][KEY_LEN..].copy_from_slice(tag.as_ref());
        let signed = [identity.as_slice(), &out[..CHECK.start]].concat();
        let check = hmac::sign(&wrapping.check_key()?, &signed);
        out[CHECK].copy_from_slice(&check.as_ref()[..CHECK_LEN]);
        Ok(KeyBlock(out))
    }

    /// The cipher, and what a guess of a passphrase costs; `None` of a raw key.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if this version does not know them.
    pub fn derivation(&self) -> Result<(CipherId, Option<Costs>)> {
        let mut fields = self.0.as_chunks().0.iter().map(|f| u32::from_le_bytes(*f));
        let mut next = || fields.next().unwrap_or_default();
        let (cipher, derivation) = (next(), next());
        let (memory, passes, lanes) = (next(), next(), next());
        if cipher != CIPHER {
            return Err(Error::Unsupported(format!("cipher {cipher}")));
        }
        let costs = match derivation {
            RAW => None,
            ARGON2ID => Some(Costs {
                memory,
                passes,
                lanes,
            }),
            _ => {
                return Err(Error::Unsupported(format!("key derivation {derivation}")));
            }
        };
        Ok((CipherId::Aes256Gcm, costs))
    }

    /// The data key. The caller has checked that the block is as it was written.
    ///
    /// # Errors
    /// [`Error::WrongKey`]; [`Error::Unsupported`] if it needs another cipher, or costs beyond the limits; when there is no
    /// memory for them.
    #[expect(clippy::indexing_slicing, reason = "the ranges are within the block")]
    pub fn open(&self, key: &Key, identity: &[u8; 16]) -> Result<Zeroizing<[u8; 32]>> {
        let block = &self.0;
        let costs = self.derivation()?.1;
        if let Some(costs) = costs.filter(|costs| !costs.are_sane()) {
            return Err(Error::Unsupported(format!("{costs:?} for a passphrase")));
        }
        let wrapping = wrapping(key, &block[SALT], costs)?;
        let signed = [identity.as_slice(), &block[..CHECK.start]].concat();
        let check = hmac::sign(&wrapping.check_key()?, &signed);
        if !is_equal(&check.as_ref()[..CHECK_LEN], &block[CHECK]) {
            return Err(Error::WrongKey);
        }
        let mut wrapped = Zeroizing::new([0; KEY_LEN + TAG_LEN]);
        wrapped.copy_from_slice(&block[WRAPPED]);
        let aad = [identity.as_slice(), &block[..WRAPPED.start]].concat();
        let opened = wrapping.key()?.open_in_place(
            Nonce::assume_unique_for_key([0; 12]),
            Aad::from(aad),
            &mut *wrapped,
        );
        let opened = opened.map_err(|_| Error::NotAuthentic)?;
        let mut data = Bytes::default();
        data.copy_from_slice(opened);
        Ok(data)
    }
}

fn wrapping(key: &Key, salt: &[u8], costs: Option<Costs>) -> Result<Wrapping> {
    let stretched = derive::stretch(key, salt, costs)?;
    let prk = Locked::new(derive::extract(salt, &*stretched)).ok_or(OutOfMemory)?;
    Ok(Wrapping { prk })
}

/// Whether two values are equal, in a time that does not depend on where they differ.
pub(crate) fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let different = a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a ^ b));
    a.len() == b.len() && std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: [u8; 16] = [9; 16];

    #[test]
    fn the_right_key_opens_it_and_any_other_is_wrong() {
        let data = [0x5a; 32];
        let keys = || {
            [
                Key::raw(&[1; 32]).unwrap(),
                Key::raw(&[2; 32]).unwrap(),
                Key::passphrase(b"correct horse").unwrap(),
                Key::passphrase(&[1; 32]).unwrap(),
            ]
        };
        for (right, key) in keys().iter().enumerate() {
            let block = KeyBlock::wrap(key, Costs::default(), &FILE, &data).unwrap();
            let again = KeyBlock::wrap(key, Costs::default(), &FILE, &data).unwrap();
            assert_ne!(block.0[SALT], again.0[SALT]);
            assert_ne!(block.0[WRAPPED], again.0[WRAPPED]);
            for (tried, key) in keys().iter().enumerate() {
                let opened = block.open(key, &FILE);
                match tried == right {
                    true => assert_eq!(*opened.unwrap(), data),
                    false => assert_eq!(opened.unwrap_err(), Error::WrongKey),
                }
            }
            assert_eq!(block.open(key, &[8; 16]).unwrap_err(), Error::WrongKey);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_key_that_wraps_is_not_in_core_dumps() {
        let key = Key::raw(&[1; 32]).unwrap();
        let wrapping = wrapping(&key, &[2; 16], None).unwrap();
        let prk: &Prk = &wrapping.prk;
        assert!(!crate::testing::is_in_core_dumps(prk));
    }

    #[test]
    fn each_bit_counts() {
        let key = Key::raw(&[1; 32]).unwrap();
        let block = KeyBlock::wrap(&key, Costs::default(), &FILE, &[7; 32]).unwrap();
        for bit in 0..BLOCK_LEN * 8 {
            let mut other = block;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert!(other.open(&key, &FILE).is_err(), "bit {bit}");
        }
    }

    /// A stranger's file may not take the machine's memory, nor make a passphrase cheap to guess.
    #[test]
    fn costs_beyond_the_limits_are_refused_before_they_are_spent() {
        let key = Key::passphrase(b"x").unwrap();
        let block = KeyBlock::wrap(&key, Costs::default(), &FILE, &[7; 32]).unwrap();
        for (at, value) in [
            (8, u32::MAX),
            (8, 8),
            (12, 1),
            (12, u32::MAX),
            (16, 0),
            (16, 255),
        ] {
            let mut other = block;
            other.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let refused = other.open(&key, &FILE);
            assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
        }
    }
}
