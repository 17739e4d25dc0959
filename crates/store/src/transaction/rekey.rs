//! Another key for an encrypted file.
//!
//! The data key stays, so that nothing but the key blocks is written: first the one in the place that the file can do
//! without, and when that is durable the other one. So the file opens with the former key or with the new one wherever a
//! crash comes between, and other handles, which have the data key, go on.

use std::sync::Arc;

use litepack_cipher::Key;
use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::key_place::Places;
use crate::transaction::store::Store;

impl<D: Storage> Store<D> {
    /// Gives an encrypted file another key, or a file that is still empty its first. Once this has returned, the former
    /// key opens it no more. But who has that key and an older copy of the file has the data key: content that is
    /// written later is no secret from them.
    ///
    /// The caller has seen to it that no other handle writes.
    ///
    /// # Errors
    /// [`Error::NotEncrypted`] for any other file. When the file cannot be read or written: it opens with the former key
    /// then, with the new one, or with both.
    #[doc(hidden)]
    pub fn rekey(&mut self, key: Arc<Key>) -> Result<()> {
        self.refresh()?;
        if !self.is_new() {
            let guard = self.snapshot.guard();
            let block = guard.wrap(&key)?.ok_or(Error::NotEncrypted)?;
            let (disk, uuid) = (self.snapshot.disk(), guard.uuid);
            let places = Places::read(disk, uuid)?;
            let former = self.snapshot.key();
            let kept = places.kept(|block| match former {
                Some(key) => block.open(key, &uuid.0).map(|_| ()),
                None => Err(litepack_cipher::Error::WrongKey),
            })?;
            for place in [1 - kept, kept] {
                places.write(place, &block, disk, uuid)?;
                disk.sync()?;
            }
        }
        self.snapshot.set_key(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::testing::options;
    use litepack_io::testing::{Call, MemoryStorage, Watched};
    use std::cell::RefCell;

    fn key(byte: u8) -> Arc<Key> {
        Arc::new(Key::raw(&[byte; 32]).unwrap())
    }

    fn with(key: &Arc<Key>) -> Options {
        Options {
            key: Some(Arc::clone(key)),
            ..options()
        }
    }

    fn page(content: u8) -> Vec<u8> {
        vec![content; 4096]
    }

    /// The first page of the file.
    fn first<D: Storage>(disk: D, key: &Arc<Key>) -> Result<Vec<u8>> {
        let mut store = Store::open(disk, with(key))?;
        store.refresh()?;
        let mut found = page(0);
        store.read(0, &mut found)?;
        Ok(found)
    }

    fn opens(image: &[u8], key: &Arc<Key>) -> bool {
        match first(&MemoryStorage::new(image.to_vec()), key) {
            Ok(found) => {
                assert!(found == page(1));
                true
            }
            Err(Error::WrongKey) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn made(key: &Arc<Key>) -> Vec<u8> {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, with(key)).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush_for_good().unwrap();
        disk.snapshot()
    }

    /// All that a machine may leave that stops while the key is changed: each write that no sync has followed is there,
    /// or is not, or has spoiled its place.
    fn cut_off(image: &[u8], former: &Arc<Key>, new: &Arc<Key>) -> Vec<Vec<u8>> {
        let disk = MemoryStorage::new(image.to_vec());
        let calls = RefCell::new(Vec::new());
        let watched = Watched::new(&disk, |call| {
            let at = |offset| usize::try_from(offset).unwrap();
            match call {
                Call::Write { offset, len } => {
                    calls.borrow_mut().push(Some(at(offset)..at(offset) + len));
                }
                Call::Sync => calls.borrow_mut().push(None),
                _ => {}
            }
            Ok(())
        });
        let mut store = Store::open(watched, with(former)).unwrap();
        store.rekey(Arc::clone(new)).unwrap();
        drop(store);
        let done = disk.snapshot();
        let mut durable = image.to_vec();
        let (mut pending, mut found) = (Vec::new(), Vec::new());
        for call in calls.into_inner() {
            if let Some(range) = call {
                pending.push(range);
                continue;
            }
            let mut states = vec![durable.clone()];
            for range in pending.drain(..) {
                durable[range.clone()].copy_from_slice(&done[range.clone()]);
                for state in states.clone() {
                    let mut there = state.clone();
                    there[range.clone()].copy_from_slice(&done[range.clone()]);
                    let mut spoilt = state;
                    spoilt[range.clone()].fill(0x55);
                    states.extend([there, spoilt]);
                }
            }
            found.extend(states);
        }
        assert!(pending.is_empty() && durable == done, "all is durable");
        found
    }

    #[test]
    fn the_former_key_or_the_new_one_opens_it_wherever_a_crash_comes() {
        let [a, b, c] = &[1, 2, 3].map(key);
        let mut seen = Vec::new();
        let mut between = Vec::new();
        for image in cut_off(&made(a), a, b) {
            let found = [opens(&image, a), opens(&image, b)];
            assert!(found.contains(&true), "neither key opens it");
            seen.push(found);
            if found == [true, true] {
                between = image;
            }
        }
        for expected in [[true, false], [true, true], [false, true]] {
            assert!(seen.contains(&expected), "{expected:?} was not met");
        }
        // Both open it: whichever one does, it is the other one's block that goes first.
        for former in [a, b] {
            for image in cut_off(&between, former, c) {
                let found = [opens(&image, former), opens(&image, c)];
                assert!(found.contains(&true), "neither key opens it");
            }
        }
    }

    #[test]
    fn other_handles_go_on_and_the_former_key_is_wrong() {
        let (former, new) = (key(1), key(2));
        let disk = MemoryStorage::default();
        let mut other = Store::open(&disk, with(&former)).unwrap();
        other.write(0, &page(1)).unwrap();
        other.flush().unwrap();
        let mut store = Store::open(&disk, with(&former)).unwrap();
        store.rekey(Arc::clone(&new)).unwrap();
        other.write(0, &page(2)).unwrap();
        other.flush().unwrap();
        assert!(matches!(first(&disk, &former), Err(Error::WrongKey)));
        assert!(first(&disk, &new).unwrap() == page(2));
        // By the handle that did it, and by one that knows a former key only.
        let passphrase = Arc::new(Key::passphrase(b"a passphrase").unwrap());
        for (handle, next) in [(&mut store, &passphrase), (&mut other, &former)] {
            handle.rekey(Arc::clone(next)).unwrap();
            assert!(first(&disk, next).unwrap() == page(2));
            assert!(matches!(first(&disk, &new), Err(Error::WrongKey)));
        }
    }

    #[test]
    fn a_file_that_is_not_encrypted_stays_so_and_an_empty_one_gets_the_key() {
        let plain = || crate::testing::plain_options();
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, plain()).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        let before = disk.snapshot();
        assert!(matches!(store.rekey(key(1)), Err(Error::NotEncrypted)));
        assert!(disk.snapshot() == before);
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, plain()).unwrap();
        store.rekey(key(1)).unwrap();
        store.write(0, &page(1)).unwrap();
        store.flush().unwrap();
        assert!(matches!(Store::open(&disk, plain()), Err(Error::NoKey)));
        assert!(first(&disk, &key(1)).unwrap() == page(1));
    }
}
