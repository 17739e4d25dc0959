//! Sealing.
//!
//! A session belongs to one writer: its salt is random, so no two have the same key, and its counter only goes up. A
//! nonce is taken before the message is encrypted, used once, and never given back, be the message written, undone or
//! lost. Several can be taken at once, which are neighbours then, in whatever order threads come to use them. The
//! session ends with its writer, after as many messages as its key may encrypt, and with a fork: the child would go on
//! with the same numbers.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use litepack_reclaimable::{Locked, ThisProcess};
use ring::aead::{Aad, LessSafeKey};

use crate::error::{Error, Result};
use crate::keys::Keys;
use crate::padding::Padding;

/// Bytes of the tag behind each message.
pub const TAG_LEN: usize = 16;
/// Counters are below this. AES-GCM is safe for more messages of 64 KiB by far.
pub const COUNTER_LIMIT: u64 = 1 << 40;

/// Names a session's key.
pub type Salt = [u8; 16];

/// Names a message: no two have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// The session's salt.
    pub salt: Salt,
    /// The number of the message, below [`COUNTER_LIMIT`].
    pub counter: u64,
}

impl Nonce {
    /// Of what is not sealed.
    pub const NONE: Nonce = Nonce {
        salt: [0; 16],
        counter: 0,
    };

    /// As AES-GCM takes it: the counter in eight bytes, the least first, and zeros.
    pub(crate) fn of_key(&self) -> ring::aead::Nonce {
        let [a, b, c, d, e, f, g, h] = self.counter.to_le_bytes();
        ring::aead::Nonce::assume_unique_for_key([a, b, c, d, e, f, g, h, 0, 0, 0, 0])
    }
}

/// A nonce that no message has had. To seal one uses it up.
#[derive(Debug)]
pub struct FreshNonce(Nonce);

impl FreshNonce {
    /// The nonce, for a message that names it.
    pub fn told(&self) -> Nonce {
        self.0
    }
}

/// Some of them, neighbours.
#[derive(Debug)]
pub struct FreshNonces {
    salt: Salt,
    counters: Range<u64>,
}

impl Iterator for FreshNonces {
    type Item = FreshNonce;

    fn next(&mut self) -> Option<FreshNonce> {
        let (salt, counter) = (self.salt, self.counters.next()?);
        Some(FreshNonce(Nonce { salt, counter }))
    }
}

/// The right to seal.
#[derive(Debug)]
pub struct Session {
    salt: Salt,
    key: Locked<LessSafeKey>,
    next: AtomicU64,
    padding: Padding,
    /// The process that has it.
    process: ThisProcess,
}

impl Session {
    /// What its key is derived from, which is no secret.
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// A new session, with a key that no other one has.
    ///
    /// # Errors
    /// When there are no random numbers, or there is no memory.
    pub fn new(keys: &Keys) -> Result<Session> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt)?;
        Session::with_salt(keys, salt)
    }

    pub(crate) fn with_salt(keys: &Keys, salt: Salt) -> Result<Session> {
        let key = Locked::new(keys.session_key(&salt)?);
        Ok(Session {
            salt,
            key: key.ok_or(litepack_io::memory::OutOfMemory)?,
            next: AtomicU64::new(0),
            padding: keys.padding(),
            process: ThisProcess::new(),
        })
    }

    /// Whether it may seal another million messages. If not, the caller begins a new one.
    pub fn is_usable(&self) -> bool {
        let used = self.next.load(Ordering::Relaxed);
        self.process.is_here() && used < COUNTER_LIMIT - (1 << 20)
    }

    /// Nonces for so many messages. Those that are not used are lost.
    ///
    /// # Errors
    /// [`Error::UsedUp`] if there are fewer left.
    pub fn nonces(&self, count: usize) -> Result<FreshNonces> {
        let after = |next: u64| {
            let end = next.checked_add(count as u64)?;
            (end <= COUNTER_LIMIT).then_some(end)
        };
        let taken = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        let start = taken.map_err(|_| Error::UsedUp)?;
        Ok(FreshNonces {
            salt: self.salt,
            counters: start..start + count as u64,
        })
    }

    /// As [`Session::seal_with`], with a nonce that is taken now.
    ///
    /// # Errors
    /// As [`Session::seal_with`].
    pub fn seal(&self, context: &[u8], bytes: &mut Vec<u8>, start: usize) -> Result<Nonce> {
        let nonce = self.nonces(1)?.next().ok_or(Error::UsedUp)?;
        self.seal_with(nonce, context, bytes, start)
    }

    /// Encrypts `bytes` from `start` on, padded as the keys say, and appends the tag. `context` has to be told again to
    /// open it, and so has the nonce, which is of this session.
    ///
    /// # Errors
    /// [`Error::UsedUp`], or when there is no memory; then `bytes` are as they were.
    pub fn seal_with(
        &self,
        nonce: FreshNonce,
        context: &[u8],
        bytes: &mut Vec<u8>,
        start: usize,
    ) -> Result<Nonce> {
        let FreshNonce(nonce) = nonce;
        // Of another session it may be fresh for that one only. And a child that was forked since has it, too.
        if nonce.salt != self.salt || !self.process.is_here() {
            return Err(Error::UsedUp);
        }
        self.padding.pad(bytes, start)?;
        let plain = bytes.get_mut(start..).unwrap_or_default();
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce.of_key(), Aad::from(context), plain)
            // Only a message of more than 64 GiB: there is none.
            .map_err(|_| Error::UsedUp)?;
        bytes.extend_from_slice(tag.as_ref());
        Ok(nonce)
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&self, counter: u64) {
        self.next.store(counter, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new(&[3; 32], &[4; 16]).unwrap()
    }

    #[test]
    fn a_number_is_never_given_again_whatever_thread_asks() {
        let keys = keys();
        let session = Session::new(&keys).unwrap();
        let seal = || {
            let mut bytes = vec![1; 9];
            session.seal(b"", &mut bytes, 0).unwrap().counter
        };
        let counters = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..500).map(|_| seal()).collect::<Vec<_>>()))
                .collect();
            let all = threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap());
            all.collect::<std::collections::HashSet<_>>()
        });
        assert_eq!(counters.len(), 2000);
    }

    /// Whichever thread uses them, and in whatever order.
    #[test]
    fn nonces_that_are_taken_at_once_are_neighbours_and_of_one_session() {
        let keys = keys();
        let (session, other) = (Session::new(&keys).unwrap(), Session::new(&keys).unwrap());
        let taken = |count| session.nonces(count).unwrap().map(|fresh| fresh.0.counter);
        let first: Vec<_> = taken(5).collect();
        assert_eq!(first, [0, 1, 2, 3, 4]);
        // Unused ones are not given again.
        drop(taken(10));
        assert!(taken(3).eq(15..18));
        let mut bytes = vec![1, 2, 3];
        let of_other = other.nonces(1).unwrap().next().unwrap();
        let refused = session.seal_with(of_other, b"", &mut bytes, 0);
        assert_eq!((refused, bytes), (Err(Error::UsedUp), vec![1, 2, 3]));
        session.skip_to(COUNTER_LIMIT - 4);
        assert!(matches!(session.nonces(5), Err(Error::UsedUp)));
        assert!(taken(4).eq(COUNTER_LIMIT - 4..COUNTER_LIMIT));
        assert!(matches!(session.nonces(1), Err(Error::UsedUp)));
        assert!(matches!(session.nonces(usize::MAX), Err(Error::UsedUp)));
    }

    #[test]
    fn no_two_sessions_have_a_salt_in_common() {
        let keys = keys();
        let salts: std::collections::HashSet<_> = (0..100)
            .map(|_| Session::new(&keys).unwrap().salt)
            .collect();
        assert_eq!(salts.len(), 100);
    }

    #[test]
    fn a_session_that_is_used_up_seals_nothing_and_leaves_the_message() {
        let keys = keys();
        let session = Session::new(&keys).unwrap();
        session.skip_to(COUNTER_LIMIT - 1);
        assert!(!session.is_usable());
        let mut bytes = vec![1, 2, 3];
        session.seal(b"", &mut bytes, 1).unwrap();
        assert_eq!(bytes.len(), 3 + TAG_LEN);
        for _ in 0..3 {
            let mut bytes = vec![1, 2, 3];
            let refused = session.seal(b"", &mut bytes, 1);
            assert_eq!((refused, bytes), (Err(Error::UsedUp), vec![1, 2, 3]));
        }
    }

    /// The child of a fork has the parent's counter, and the nonces that the parent has taken: it may use none.
    #[test]
    fn a_session_of_another_process_is_not_usable() {
        let keys = keys();
        let mut session = Session::new(&keys).unwrap();
        assert!(session.is_usable());
        let nonce = session.nonces(1).unwrap().next().unwrap();
        session.process = ThisProcess::of_another();
        assert!(!session.is_usable());
        let mut bytes = vec![1, 2, 3];
        let refused = session.seal_with(nonce, b"", &mut bytes, 0);
        assert_eq!((refused, bytes), (Err(Error::UsedUp), vec![1, 2, 3]));
    }
}
