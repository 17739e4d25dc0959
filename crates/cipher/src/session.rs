//! Sealing.
//!
//! A session belongs to one writer: its salt is random, so no two have the same key, and its counter only goes up. A
//! number is taken before the message is encrypted and never given back, be the message written, undone or lost. The
//! session ends with its writer, after as many messages as its key may encrypt, and with a fork: the child would go on
//! with the same numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use litepack_reclaimable::Locked;
use ring::aead::{Aad, LessSafeKey};

use crate::error::{Error, Result};
use crate::keys::Keys;

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

/// The right to seal.
#[derive(Debug)]
pub struct Session {
    salt: Salt,
    key: Locked<LessSafeKey>,
    next: AtomicU64,
    /// The process that has it.
    process: u32,
}

impl Session {
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
            process: std::process::id(),
        })
    }

    /// Whether it may seal another million messages. If not, the caller begins a new one.
    pub fn is_usable(&self) -> bool {
        let used = self.next.load(Ordering::Relaxed);
        self.process == std::process::id() && used < COUNTER_LIMIT - (1 << 20)
    }

    /// Encrypts `bytes` from `start` on and appends the tag. `context` has to be told again to open it.
    ///
    /// # Errors
    /// [`Error::UsedUp`], or when there is no memory; then `bytes` are as they were.
    pub fn seal(&self, context: &[u8], bytes: &mut Vec<u8>, start: usize) -> Result<Nonce> {
        litepack_io::memory::room(bytes, TAG_LEN)?;
        let counter = self.next.fetch_add(1, Ordering::Relaxed);
        if counter >= COUNTER_LIMIT {
            return Err(Error::UsedUp);
        }
        let nonce = Nonce {
            salt: self.salt,
            counter,
        };
        let plain = bytes.get_mut(start..).unwrap_or_default();
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce.of_key(), Aad::from(context), plain)
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

    /// The child of a fork has another number: it may not go on with the parent's counter.
    #[test]
    fn a_session_of_another_process_is_not_usable() {
        let keys = keys();
        let mut session = Session::new(&keys).unwrap();
        assert!(session.is_usable());
        session.process ^= 1;
        assert!(!session.is_usable());
    }
}
