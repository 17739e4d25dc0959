//! Keys of sessions that are kept, for many threads at once.
//!
//! No thread waits here. One that finds a place taken does without: it derives the key anew, which takes a microsecond.
//! So several threads decrypt at a time, and a child that was forked while another thread was at work here gets its
//! keys, too.

use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use litepack_io::memory::OutOfMemory;
use litepack_reclaimable::Locked;
use ring::aead::LessSafeKey;

use crate::session::Salt;

/// A salt is looked for in one set of places only. Salts are random, so the sets fill evenly.
const SETS: usize = 16;
const PLACES: usize = 4;
/// Keys that are kept.
#[cfg(test)]
pub(crate) const KEPT: usize = SETS * PLACES;

type Place = RwLock<Option<(Salt, LessSafeKey)>>;

pub(crate) struct KeptKeys {
    /// Set after set. They are 35 KiB, and some threads have a stack of 128.
    places: Locked<[Place]>,
    /// Which place of a full set is given to another key next.
    turn: AtomicUsize,
}

impl KeptKeys {
    pub(crate) fn new() -> Result<KeptKeys, OutOfMemory> {
        let places = Locked::many(SETS * PLACES, || RwLock::new(None));
        Ok(KeptKeys {
            places: places.ok_or(OutOfMemory)?,
            turn: AtomicUsize::new(0),
        })
    }

    /// Does `work` with the key of a session, which `make` makes if it is not here.
    pub(crate) fn with<T, E>(
        &self,
        salt: &Salt,
        make: impl FnOnce() -> Result<LessSafeKey, E>,
        work: impl FnOnce(&LessSafeKey) -> T,
    ) -> Result<T, E> {
        let set = self.set(salt);
        let mut empty = None;
        for place in set {
            let Ok(content) = place.try_read() else {
                continue;
            };
            match &*content {
                Some((known, key)) if known == salt => return Ok(work(key)),
                Some(_) => {}
                None => empty = empty.or(Some(place)),
            }
        }
        let key = make()?;
        let done = work(&key);
        let place = empty.or_else(|| set.get(self.turn.fetch_add(1, Ordering::Relaxed) % PLACES));
        if let Some(Ok(mut content)) = place.map(RwLock::try_write) {
            *content = Some((*salt, key));
        }
        Ok(done)
    }

    #[expect(clippy::indexing_slicing, reason = "the set is below `SETS`")]
    fn set(&self, salt: &Salt) -> &[Place] {
        let set = usize::from(salt[0]) % SETS;
        &self.places[set * PLACES..][..PLACES]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use ring::aead::{AES_256_GCM, UnboundKey};

    use super::*;

    const SALT: Salt = [3; 16];

    fn make() -> Result<LessSafeKey, ()> {
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(drop)?;
        Ok(LessSafeKey::new(key))
    }

    fn none() -> Result<LessSafeKey, ()> {
        Err(())
    }

    #[test]
    fn a_key_is_made_once_and_the_oldest_of_a_full_set_goes() {
        let kept = KeptKeys::new().unwrap();
        for last in 0..PLACES as u8 {
            let salt = [3, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(kept.with(&salt, none, |_| ()), Err(()));
            assert_eq!(kept.with(&salt, make, |_| ()), Ok(()));
            assert_eq!(kept.with(&salt, none, |_| ()), Ok(()));
        }
        assert_eq!(kept.with(&SALT, make, |_| ()), Ok(()));
        assert_eq!(kept.with(&SALT, none, |_| ()), Ok(()));
        assert_eq!(kept.with(&[3; 16], none, |_| ()), Ok(()));
        let first = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(kept.with(&first, none, |_| ()), Err(()));
    }

    /// Both threads have the key at once: each waits for the other while it has it.
    #[test]
    fn several_threads_use_a_key_at_once() {
        let kept = KeptKeys::new().unwrap();
        kept.with(&SALT, make, |_| ()).unwrap();
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| kept.with(&SALT, none, |_| both.wait()).map(drop).unwrap());
            }
        });
    }

    /// As in a child that was forked while another thread wrote to each place, or read there: those threads do not exist
    /// in the child, and so never leave.
    #[test]
    fn a_place_that_another_thread_never_leaves_is_not_waited_for() {
        let kept = KeptKeys::new().unwrap();
        let left: Vec<_> = kept.set(&SALT).iter().map(RwLock::write).collect();
        assert_eq!(kept.with(&SALT, make, |_| 1), Ok(1));
        assert_eq!(kept.with(&SALT, none, |_| 1), Err(()));
        drop(left);
        kept.with(&SALT, make, |_| ()).unwrap();
        let left: Vec<_> = kept.set(&SALT).iter().map(RwLock::read).collect();
        assert_eq!(kept.with(&SALT, none, |_| 1), Ok(1));
        assert_eq!(kept.with(&[19; 16], make, |_| 2), Ok(2));
        drop(left);
    }
}
