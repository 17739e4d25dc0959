//! How the bytes of a file are vouched for: by checksums, or by keys.
//!
//! A file without a key has a checksum for each extent in its parent. In an encrypted file an extent is sealed, and the
//! parent names the nonce: nothing but what was sealed with it opens under it (docs/internals/encryption.md). What is
//! not encrypted (records, marks) is signed. This is the only part of the store that knows keys.

use std::borrow::Cow;
use std::sync::Arc;

use litepack_cipher::{
    Costs, FreshNonce, Key, KeyBlock, Keys, MAC_LEN, Nonce, Padding, Session, TAG_LEN,
};
use litepack_codec::Codec;

use crate::error::{Error, Result, SOME_PAGE};
use crate::format::layout::{DATA_START, FileUuid, SEALED_START};
use crate::format::leaf::Extent;
use crate::format::nonces::sum_of;
use crate::format::offset::FileOffset;

/// Bytes behind a sealed extent that is no unit: the salt and the counter of its nonce.
const NONCE_LEN: usize = 16 + 8;
/// Bytes at the end of such an extent that tell it from all others: the tag, too.
pub(crate) const SEALED_OTHER: usize = TAG_LEN + NONCE_LEN;

/// The kinds of extents. An extent of one kind is not taken for one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unit = 1,
    Node = 2,
    Catalog = 3,
    Dictionary = 4,
    Space = 5,
    Segment = 6,
}

impl Kind {
    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Unit => SOME_PAGE,
            Kind::Node => "page map node",
            Kind::Catalog => "catalog",
            Kind::Dictionary => "dictionary",
            Kind::Space => "free-space chain",
            Kind::Segment => "prefetch segment",
        }
    }
}

/// Signs records and marks, in the last bytes of each.
pub trait Signer {
    /// Fills the last bytes of `record`.
    fn sign(&self, record: &mut [u8]);

    /// Whether the last bytes of `record` are as [`Signer::sign`] makes them.
    fn has_signed(&self, record: &[u8]) -> bool;
}

impl<S: Signer> Signer for &S {
    fn sign(&self, record: &mut [u8]) {
        (**self).sign(record);
    }

    fn has_signed(&self, record: &[u8]) -> bool {
        (**self).has_signed(record)
    }
}

/// By a checksum.
impl Signer for FileUuid {
    fn sign(&self, record: &mut [u8]) {
        if let Some((body, sum)) = record.split_last_chunk_mut() {
            *sum = self.sum64(body).to_le_bytes();
        }
    }

    fn has_signed(&self, record: &[u8]) -> bool {
        let parts = record.split_last_chunk();
        parts.is_some_and(|(body, sum)| self.sum64(body).to_le_bytes() == *sum)
    }
}

/// How a file is vouched for.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) uuid: FileUuid,
    pub(crate) keys: Option<Arc<Keys>>,
}

/// The parent's knowledge of a unit, by which it is told from any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Voucher {
    pub(crate) sum: u32,
    pub(crate) nonce: Nonce,
}

impl Voucher {
    /// Of nothing.
    pub(crate) const NONE: Voucher = Voucher {
        sum: 0,
        nonce: Nonce::NONE,
    };
}

/// By how many bytes an extent that is no unit is longer, at most, than its content.
pub(crate) fn other_excess(encrypted: Option<Padding>) -> usize {
    encrypted.map_or(0, |padding| padding.excess() + NONCE_LEN)
}

impl Guard {
    /// Of a file whose header says that it is encrypted or not, with these keys.
    pub(crate) fn of(
        uuid: FileUuid,
        is_encrypted: bool,
        keys: Option<&Arc<Keys>>,
    ) -> Result<Guard> {
        match (is_encrypted, keys) {
            (false, None) => Ok(Guard::sums(uuid)),
            (true, Some(keys)) => Ok(Guard::with_keys(uuid, Arc::clone(keys))),
            (true, None) => Err(Error::NoKey),
            (false, Some(_)) => Err(Error::NotEncrypted),
        }
    }

    /// Of a file without a key.
    pub(crate) const fn sums(uuid: FileUuid) -> Guard {
        Guard { uuid, keys: None }
    }

    /// Of an encrypted file.
    pub(crate) fn keys(uuid: FileUuid, keys: Keys) -> Guard {
        Guard::with_keys(uuid, Arc::new(keys))
    }

    /// The same, with keys that others have, too.
    pub(crate) fn with_keys(uuid: FileUuid, keys: Arc<Keys>) -> Guard {
        let keys = Some(keys);
        Guard { uuid, keys }
    }

    /// The file's data key, wrapped by a key of the user's. `None` if there is no data key.
    pub(crate) fn wrap(&self, key: &Key) -> Result<Option<KeyBlock>> {
        let Some(keys) = &self.keys else {
            return Ok(None);
        };
        let block = KeyBlock::wrap(key, Costs::default(), &self.uuid.0, keys.data())?;
        Ok(Some(block))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.keys.is_some()
    }

    /// How what is sealed is padded; `None` in a file without a key.
    pub(crate) fn padding(&self) -> Option<Padding> {
        self.keys.as_ref().map(|keys| keys.padding())
    }

    pub(crate) fn is_padded(&self) -> bool {
        self.padding().is_some_and(|padding| !padding.is_none())
    }

    pub(crate) fn file_keys(&self) -> Option<&Arc<Keys>> {
        self.keys.as_ref()
    }

    /// Where the file's extents begin.
    pub(crate) fn data_start(&self) -> FileOffset {
        match self.is_encrypted() {
            true => SEALED_START,
            false => DATA_START,
        }
    }

    /// By how many bytes the extent of a unit is longer, at most, than what the codec made.
    pub(crate) fn unit_excess(&self) -> u32 {
        let excess = self.padding().map_or(0, Padding::excess);
        u32::try_from(excess).unwrap_or(u32::MAX)
    }

    /// Bytes of the extent of a unit of which the codec made so many.
    pub(crate) fn unit_len(&self, len: usize) -> usize {
        self.padding()
            .map_or(len, |padding| padding.sealed_len(len))
    }

    /// Bytes of any other extent with so many bytes of content.
    pub(crate) fn other_len(&self, len: usize) -> usize {
        let nonce = if self.is_encrypted() { NONCE_LEN } else { 0 };
        self.unit_len(len) + nonce
    }

    fn context(&self, kind: Kind, codec: Codec) -> [u8; 18] {
        let mut context = [0; 18];
        if let Some((identity, rest)) = context.split_first_chunk_mut() {
            *identity = self.uuid.0;
            rest.copy_from_slice(&[kind as u8, codec as u8]);
        }
        context
    }

    /// What the codec made of a unit, from its stored bytes: decrypted in their place, if they are sealed. `None` if they
    /// are not what the entry means; sealed ones are in no known state then.
    pub(crate) fn open_unit<'a>(
        &self,
        stored: &'a mut [u8],
        extent: &Extent,
    ) -> Result<Option<&'a [u8]>> {
        let Some(keys) = &self.keys else {
            let is_right = self.uuid.sum32(stored) == extent.sum;
            return Ok(is_right.then_some(&*stored));
        };
        let context = self.context(Kind::Unit, extent.storage.codec);
        match keys.open(&extent.nonce, &context, stored) {
            Ok(opened) => Ok(Some(opened)),
            Err(litepack_cipher::Error::NotAuthentic) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same of bytes that have to stay as they are: those that are sealed are copied to `room`.
    pub(crate) fn open_unit_of<'a>(
        &self,
        stored: &'a [u8],
        extent: &Extent,
        room: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        if !self.is_encrypted() {
            let is_right = self.uuid.sum32(stored) == extent.sum;
            return Ok(is_right.then_some(stored));
        }
        room.clear();
        litepack_io::memory::append(room, stored)?;
        self.open_unit(room, extent)
    }

    /// The check in a pointer to an extent that is no unit, of its stored bytes: a checksum, or the extent's number.
    pub(crate) fn sum64(&self, stored: &[u8]) -> u64 {
        match (&self.keys, stored.last_chunk::<SEALED_OTHER>()) {
            (None, _) => self.uuid.sum64(stored),
            (Some(keys), Some(end)) => keys.number_of(end),
            (Some(keys), None) => keys.number_of(stored),
        }
    }

    /// The content of an extent that is no unit. `None` if it is not authentic.
    pub(crate) fn open(&self, kind: Kind, mut stored: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let Some(keys) = &self.keys else {
            return Ok(Some(stored));
        };
        let Some((sealed, end)) = stored.split_last_chunk_mut::<NONCE_LEN>() else {
            return Ok(None);
        };
        let (salt, counter) = end.split_last_chunk().unwrap_or((&[], &[0; 8]));
        let nonce = Nonce {
            salt: salt.try_into().unwrap_or_default(),
            counter: u64::from_le_bytes(*counter),
        };
        let opened = keys.open(&nonce, &self.context(kind, Codec::Raw), sealed);
        match opened.map(|opened| opened.len()) {
            Ok(len) => {
                stored.truncate(len);
                Ok(Some(stored))
            }
            Err(litepack_cipher::Error::NotAuthentic) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Signer for Guard {
    fn sign(&self, record: &mut [u8]) {
        let Some(keys) = &self.keys else {
            return self.uuid.sign(record);
        };
        if let Some((body, signature)) = record.split_last_chunk_mut::<MAC_LEN>() {
            *signature = keys.sign(body);
        }
    }

    fn has_signed(&self, record: &[u8]) -> bool {
        let Some(keys) = &self.keys else {
            return self.uuid.has_signed(record);
        };
        let parts = record.split_last_chunk::<MAC_LEN>();
        parts.is_some_and(|(body, signature)| keys.is_signed(body, signature))
    }
}

/// The session of a handle. It begins when there is something to seal, and goes on from one transaction to the next,
/// whatever becomes of them: nothing gives its numbers back.
#[derive(Debug, Default)]
pub(crate) struct Sealing(Option<(Arc<Keys>, Arc<Session>)>);

impl Sealing {
    /// Makes extents what they are in the file, until the handle is told to seal again: a process that was forked gets a
    /// session of its own then.
    pub(crate) fn sealer(&mut self, guard: &Guard) -> Result<Sealer> {
        let guard = guard.clone();
        let Some(keys) = &guard.keys else {
            return Ok(Sealer::new(guard, None));
        };
        let is_usable = |(of, session): &(Arc<Keys>, Arc<Session>)| {
            Arc::ptr_eq(of, keys) && session.is_usable()
        };
        let session = match self.0.take().filter(is_usable) {
            Some((_, session)) => session,
            None => Arc::new(Session::new(keys)?),
        };
        self.0 = Some((Arc::clone(keys), Arc::clone(&session)));
        Ok(Sealer::new(guard, Some(session)))
    }
}

/// Seals one unit; in a file without a key there is nothing to it.
#[derive(Debug)]
pub(crate) struct Seal(Option<FreshNonce>);

/// Makes extents what they are in the file.
#[derive(Clone, Debug)]
pub(crate) struct Sealer {
    guard: Guard,
    session: Option<Arc<Session>>,
}

impl Sealer {
    /// With a session of this guard's, if it has keys.
    pub(crate) const fn new(guard: Guard, session: Option<Arc<Session>>) -> Sealer {
        Sealer { guard, session }
    }

    /// As [`Guard::other_len`].
    pub(crate) fn other_len(&self, len: usize) -> usize {
        self.guard.other_len(len)
    }

    /// For so many units, in order: a leaf has the nonces of neighbours as one run, so it is good to seal neighbours with
    /// neighbours.
    pub(crate) fn seals(&self, count: usize) -> Result<impl Iterator<Item = Seal> + use<>> {
        let session = self.of_keys()?;
        let mut nonces = session.map(|session| session.nonces(count)).transpose()?;
        Ok((0..count).map(move |_| Seal(nonces.as_mut().and_then(Iterator::next))))
    }

    /// Makes what the codec made of a unit, `bytes` from `start` on, what is stored.
    pub(crate) fn unit(&self, codec: Codec, bytes: &mut Vec<u8>, start: usize) -> Result<Voucher> {
        let seal = self.seals(1)?.next().unwrap_or(Seal(None));
        self.unit_with(seal, codec, bytes, start)
    }

    /// The same with a seal of this sealer's.
    pub(crate) fn unit_with(
        &self,
        seal: Seal,
        codec: Codec,
        bytes: &mut Vec<u8>,
        start: usize,
    ) -> Result<Voucher> {
        let (session, nonce) = match (self.of_keys()?, seal.0) {
            (Some(session), Some(nonce)) => (session, nonce),
            (None, None) => return Ok(self.sum(bytes.get(start..).unwrap_or_default())),
            _ => return Err(no_session()),
        };
        let context = self.guard.context(Kind::Unit, codec);
        let nonce = session.seal_with(nonce, &context, bytes, start)?;
        #[cfg(test)]
        crate::testing::note_nonce(nonce);
        Ok(Voucher {
            sum: sum_of(&nonce),
            nonce,
        })
    }

    /// What is stored for `bytes`, which the codec made of a unit.
    pub(crate) fn unit_of<'a>(
        &self,
        codec: Codec,
        bytes: &'a [u8],
    ) -> Result<(Cow<'a, [u8]>, Voucher)> {
        if !self.guard.is_encrypted() {
            return Ok((bytes.into(), self.sum(bytes)));
        }
        let mut copy = litepack_io::memory::with_room(self.guard.unit_len(bytes.len()))?;
        copy.extend_from_slice(bytes);
        let voucher = self.unit(codec, &mut copy, 0)?;
        Ok((copy.into(), voucher))
    }

    /// In a file without a key.
    fn sum(&self, stored: &[u8]) -> Voucher {
        Voucher {
            sum: self.guard.uuid.sum32(stored),
            nonce: Nonce::NONE,
        }
    }

    /// Makes the content of any other extent, `bytes` from `start` on, what is stored.
    pub(crate) fn other(&self, kind: Kind, bytes: &mut Vec<u8>, start: usize) -> Result<()> {
        if let Some(session) = self.of_keys()? {
            let len = bytes.len().saturating_sub(start);
            litepack_io::memory::room(bytes, self.guard.other_len(len) - len)?;
            let context = self.guard.context(kind, Codec::Raw);
            let nonce = session.seal(&context, bytes, start)?;
            #[cfg(test)]
            crate::testing::note_nonce(nonce);
            bytes.extend_from_slice(&nonce.salt);
            bytes.extend_from_slice(&nonce.counter.to_le_bytes());
        }
        Ok(())
    }

    /// The session; `None` in a file without a key. Nothing of an encrypted file is ever written without one.
    fn of_keys(&self) -> Result<Option<&Session>> {
        match (&self.session, self.guard.is_encrypted()) {
            (None, false) => Ok(None),
            (Some(session), true) => Ok(Some(session)),
            _ => Err(no_session()),
        }
    }
}

fn no_session() -> Error {
    Error::Io(std::io::Error::other("no session to seal with"))
}
