//! The keys that are derived from a file's data key.

use litepack_io::memory::OutOfMemory;
use litepack_reclaimable::Locked;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, UnboundKey};
use ring::hkdf::Prk;
use ring::hmac;
use zeroize::Zeroizing;

use crate::block::is_equal;
use crate::derive;
use crate::error::{Error, Result};
use crate::kept::KeptKeys;
use crate::padding::Padding;
use crate::session::{Nonce, Salt, TAG_LEN};

/// Bytes of a signature: of HMAC-SHA256, the first.
pub const MAC_LEN: usize = 16;

/// A data key for a new file.
///
/// # Errors
/// When there are no random numbers.
pub fn new_data_key() -> Result<Zeroizing<[u8; 32]>> {
    let mut data = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *data)?;
    Ok(data)
}

/// All keys of a file. They are wiped when they go.
#[derive(Debug)]
pub struct Keys {
    secrets: Locked<Secrets>,
    padding: Padding,
}

struct Secrets {
    data: [u8; 32],
    prk: Prk,
    records: hmac::Key,
    places: hmac::Key,
    sessions: KeptKeys,
}

impl Keys {
    /// The keys of the file with this identity.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(data: &[u8; 32], identity: &[u8; 16]) -> Result<Keys> {
        Keys::with_padding(data, identity, Padding::NONE)
    }

    /// The same of a file in which what is sealed is padded.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn with_padding(data: &[u8; 32], identity: &[u8; 16], padding: Padding) -> Result<Keys> {
        let mut salt = [0; 20];
        salt[..16].copy_from_slice(identity);
        salt[16..].copy_from_slice(&padding.bytes().to_le_bytes());
        let prk = match padding.is_none() {
            true => derive::extract(identity, data),
            false => derive::extract(&salt, data),
        };
        let signing = |name: &[u8]| -> Result<hmac::Key> {
            let key = derive::expand(&prk, &[name])?;
            Ok(hmac::Key::new(hmac::HMAC_SHA256, &*key))
        };
        let secrets = Secrets {
            data: *data,
            records: signing(b"litepack records")?,
            places: signing(b"litepack places")?,
            prk,
            sessions: KeptKeys::new()?,
        };
        let secrets = Locked::new(secrets).ok_or(OutOfMemory)?;
        Ok(Keys { secrets, padding })
    }

    /// How what is sealed with them is padded.
    pub fn padding(&self) -> Padding {
        self.padding
    }

    /// The data key, to be wrapped again.
    pub fn data(&self) -> &[u8; 32] {
        &self.secrets.data
    }

    pub(crate) fn session_key(&self, salt: &Salt) -> Result<LessSafeKey> {
        let key = derive::expand(&self.secrets.prk, &[b"litepack session", salt])?;
        let key = UnboundKey::new(&AES_256_GCM, &*key);
        Ok(LessSafeKey::new(key.map_err(|_| Error::NotAuthentic)?))
    }

    /// Decrypts `sealed` in place, its tag at the end, and returns what was sealed. If it is not authentic, `sealed` is in
    /// no known state. Any number of threads open at a time, and none waits for another.
    ///
    /// # Errors
    /// [`Error::NotAuthentic`] if it is something else than what was sealed with this nonce and this context.
    pub fn open<'a>(
        &self,
        nonce: &Nonce,
        context: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8]> {
        if sealed.len() < TAG_LEN {
            return Err(Error::NotAuthentic);
        }
        let salt = &nonce.salt;
        let opened = self.secrets.sessions.with(
            salt,
            || self.session_key(salt),
            move |key| key.open_in_place(nonce.of_key(), Aad::from(context), sealed),
        );
        let opened = opened?.map_err(|_| Error::NotAuthentic)?;
        self.padding.strip(opened)
    }

    /// Signs bytes that are stored in plain.
    pub fn sign(&self, bytes: &[u8]) -> [u8; MAC_LEN] {
        mac(&self.secrets.records, bytes)
    }

    /// Whether bytes that are stored in plain are as they were signed.
    pub fn is_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        is_equal(&self.sign(bytes), signature)
    }

    /// A number for a sealed extent, which tells it from all others. Without the key it cannot be known of which.
    pub fn number_of(&self, sealed: &[u8]) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = mac(&self.secrets.places, sealed);
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

#[expect(clippy::indexing_slicing, reason = "HMAC-SHA256 has 32 bytes")]
fn mac(key: &hmac::Key, bytes: &[u8]) -> [u8; MAC_LEN] {
    let mut out = [0; MAC_LEN];
    out.copy_from_slice(&hmac::sign(key, bytes).as_ref()[..MAC_LEN]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::KEPT;
    use crate::session::Session;

    fn keys(data: u8, identity: u8) -> Keys {
        Keys::new(&[data; 32], &[identity; 16]).unwrap()
    }

    #[test]
    fn what_was_sealed_is_opened_with_the_same_key_nonce_and_context_only() {
        let keys_ = keys(1, 2);
        let session = Session::new(&keys_).unwrap();
        let mut sealed = b"head, and what is sealed".to_vec();
        let nonce = session.seal(b"page", &mut sealed, 6).unwrap();
        assert_eq!(&sealed[..6], b"head, ");
        let open = |keys: &Keys, nonce: &Nonce, context: &[u8], sealed: &[u8]| {
            let mut sealed = sealed.to_vec();
            keys.open(nonce, context, &mut sealed)
                .map(|found| found.to_vec())
        };
        let sealed = &sealed[6..];
        let opened = open(&keys_, &nonce, b"page", sealed);
        assert_eq!(opened.unwrap(), b"and what is sealed");
        let wrong = Err(Error::NotAuthentic);
        let later = Nonce {
            counter: nonce.counter + 1,
            ..nonce
        };
        let other = Nonce {
            salt: [7; 16],
            ..nonce
        };
        assert_eq!(open(&keys_, &later, b"page", sealed), wrong);
        assert_eq!(open(&keys_, &other, b"page", sealed), wrong);
        assert_eq!(open(&keys_, &nonce, b"node", sealed), wrong);
        assert_eq!(open(&keys(3, 2), &nonce, b"page", sealed), wrong);
        assert_eq!(open(&keys(1, 3), &nonce, b"page", sealed), wrong);
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&keys_, &nonce, b"page", &flipped), wrong);
        }
        for len in 0..sealed.len() {
            assert_eq!(open(&keys_, &nonce, b"page", &sealed[..len]), wrong);
        }
    }

    #[test]
    fn more_sessions_than_are_kept_are_opened() {
        let keys = keys(1, 2);
        let mut messages = Vec::new();
        for number in 0..3 * KEPT {
            let session = Session::new(&keys).unwrap();
            let mut sealed = number.to_le_bytes().to_vec();
            let nonce = session.seal(b"", &mut sealed, 0).unwrap();
            messages.push((nonce, sealed));
        }
        for _ in 0..2 {
            for (number, (nonce, sealed)) in messages.iter().enumerate() {
                let mut sealed = sealed.clone();
                let opened = keys.open(nonce, b"", &mut sealed).unwrap();
                assert_eq!(opened, number.to_le_bytes());
            }
        }
    }

    #[test]
    fn signatures_and_numbers_depend_on_the_key() {
        let (a, b) = (keys(1, 2), keys(2, 2));
        let signature = a.sign(b"record");
        assert!(a.is_signed(b"record", &signature));
        assert!(!a.is_signed(b"recorD", &signature));
        assert!(!a.is_signed(b"record", &signature[..15]));
        assert!(!b.is_signed(b"record", &signature));
        assert_ne!(a.number_of(b"x"), b.number_of(b"x"));
        assert_ne!(a.number_of(b"x").to_le_bytes(), a.sign(b"x")[..8]);
    }
}
