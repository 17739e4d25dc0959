//! Another key for an encrypted file.
//!
//! The data key stays, so that nothing but the key blocks is written: first the one in the place that the file can do
//! without, and when that is durable the other one. The place that is kept until then is written again before that, with
//! what was read from it, for after a sync that failed the medium may not have it. So the file opens with the former key or with the new one wherever a
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
    /// The caller holds the write lock of the file from before this until it has returned. So no other handle writes,
    /// and no two change the key at once: of two that did, each might overwrite the place that the other one keeps.
    ///
    /// # Errors
    /// [`Error::NotEncrypted`] for any other file; [`Error::OtherPadding`] if the key is for files of another. When the file cannot be read or written: it opens with the former key
    /// then, with the new one, or with both.
    pub fn rekey(&mut self, key: Arc<Key>) -> Result<()> {
        self.refresh()?;
        if !self.is_new() {
            let guard = self.snapshot.guard();
            if let (Some(found), Some(wanted)) = (guard.padding(), key.padding())
                && found != wanted
            {
                let (found, wanted) = (found.bytes(), wanted.bytes());
                return Err(Error::OtherPadding { found, wanted });
            }
            let block = guard.wrap(&key)?.ok_or(Error::NotEncrypted)?;
            let (disk, uuid) = (self.snapshot.disk(), guard.uuid);
            let mut places = Places::read(disk, uuid);
            let former = self.snapshot.key();
            let kept = places.kept(|block| match former {
                Some(key) => block.open(key, &uuid.0).map(|_| ()),
                None => Err(litepack_cipher::Error::WrongKey),
            })?;
            places.write_again(kept, disk, uuid)?;
            for place in [1 - kept, kept] {
                places.write(place, &block, disk, uuid)?;
                disk.sync()?;
            }
        }
        self.snapshot.set_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::KEY_OFFSETS;
    use crate::options::Options;
    use crate::testing::options;
    use litepack_io::testing::{Call, MemoryStorage, Watched};
    use std::cell::{Cell, RefCell};

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
        match first(MemoryStorage::new(image.to_vec()), key) {
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
    /// or is not, or has spoiled its place if it had other bytes. The file reads as `image`, and `durable` is on the
    /// medium.
    fn cut_off(
        image: &[u8],
        mut durable: Vec<u8>,
        former: &Arc<Key>,
        new: &Arc<Key>,
    ) -> Vec<Vec<u8>> {
        let disk = MemoryStorage::new(image.to_vec());
        let (pending, found) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let watched = Watched::new(&disk, |call| {
            let at = |offset| usize::try_from(offset).unwrap();
            match call {
                Call::Write { offset, len } => {
                    pending.borrow_mut().push(at(offset)..at(offset) + len);
                }
                Call::Sync => {
                    let ranges: Vec<_> = pending.borrow_mut().drain(..).collect();
                    found.borrow_mut().push((ranges, disk.snapshot()));
                }
                _ => {}
            }
            Ok(())
        });
        let mut store = Store::open(watched, with(former)).unwrap();
        store.rekey(Arc::clone(new)).unwrap();
        drop(store);
        assert!(pending.into_inner().is_empty(), "all is durable");
        let mut states = Vec::new();
        for (ranges, written) in found.into_inner() {
            let mut here = vec![durable.clone()];
            for range in ranges {
                let bytes = &written[range.clone()];
                for state in here.clone() {
                    let mut there = state.clone();
                    there[range.clone()].copy_from_slice(bytes);
                    let mut spoilt = state;
                    if spoilt[range.clone()] != *bytes {
                        spoilt[range.clone()].fill(0x55);
                    }
                    here.extend([there, spoilt]);
                }
                durable[range.clone()].copy_from_slice(bytes);
            }
            states.extend(here);
        }
        states.push(durable);
        states
    }

    /// A sync failed: the file reads as it was to become, but on the medium the last write has spoiled its place. Another
    /// try, by the handle with the former key or by one that reads the new one, loses neither block.
    #[test]
    fn another_try_after_a_failed_sync_does_not_cost_the_key() {
        let [a, b, c] = &[1, 2, 3].map(key);
        for failing in 0..3 {
            let disk = MemoryStorage::new(made(a));
            let (syncs, last) = (Cell::new(0), Cell::new((0, 0)));
            let watched = Watched::new(&disk, |call| {
                match call {
                    Call::Write { offset, len } => last.set((offset as usize, len)),
                    Call::Sync if syncs.replace(syncs.get() + 1) == failing => {
                        return Err(std::io::Error::other("injected"));
                    }
                    _ => {}
                }
                Ok(())
            });
            let mut store = Store::open(watched, with(a)).unwrap();
            assert!(store.rekey(Arc::clone(b)).is_err(), "sync {failing}");
            drop(store);
            let image = disk.snapshot();
            let mut durable = image.clone();
            let (at, len) = last.get();
            durable[at..at + len].fill(0x55);
            for former in [a, b].into_iter().filter(|key| opens(&image, key)) {
                for state in cut_off(&image, durable.clone(), former, c) {
                    let found = [a, b, c].map(|key| opens(&state, key));
                    assert!(found.contains(&true), "no key opens it: sync {failing}");
                }
            }
        }
    }

    /// A place that cannot be read is written first, and the block in the other one is enough until then.
    #[test]
    fn a_place_that_cannot_be_read_does_not_lock_the_file() {
        let (a, b) = (&key(1), &key(2));
        for place in [0, 1] {
            let disk = MemoryStorage::new(made(a));
            let (writes, broken) = (RefCell::new(Vec::new()), Cell::new(true));
            let watched = || {
                Watched::new(&disk, |call| {
                    match call {
                        Call::Read { offset, .. }
                            if broken.get() && offset == KEY_OFFSETS[place].0 =>
                        {
                            return Err(std::io::Error::other("injected"));
                        }
                        Call::Write { offset, .. } => writes.borrow_mut().push(offset),
                        _ => {}
                    }
                    Ok(())
                })
            };
            assert!(first(watched(), a).unwrap() == page(1));
            // The other place might have had the right one.
            let found = first(watched(), b);
            assert!(matches!(found, Err(Error::Io(_))), "{found:?}");
            let mut store = Store::open(watched(), with(a)).unwrap();
            store.rekey(Arc::clone(b)).unwrap();
            let [one, other] = [place, 1 - place].map(|place| KEY_OFFSETS[place].0);
            assert_eq!(*writes.borrow(), [other, one, other]);
            broken.set(false);
            assert!(first(watched(), b).unwrap() == page(1));
            assert!(matches!(first(watched(), a), Err(Error::WrongKey)));
        }
    }

    #[test]
    fn the_former_key_or_the_new_one_opens_it_wherever_a_crash_comes() {
        let [a, b, c] = &[1, 2, 3].map(key);
        let mut seen = Vec::new();
        let mut between = Vec::new();
        let image = made(a);
        for image in cut_off(&image, image.clone(), a, b) {
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
            for image in cut_off(&between, between.clone(), former, c) {
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
