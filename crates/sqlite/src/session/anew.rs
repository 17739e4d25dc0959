//! The content of a packed database in a new file, with another data key or without any.

use std::fs::File;
use std::sync::Arc;

use litepack_cipher::Key;
use litepack_codec::DictId;
use litepack_engine::plan::{Effort, PACK_LEVEL, Source};
use litepack_engine::{Unit, fill};
use litepack_io::interrupt;
use litepack_io::memory;
use litepack_io::storage::Storage;
use litepack_store::{Cache, Error, FileId, Options, Store};

use super::packed::Packed;
use crate::c::codes::IOERR;
use crate::failure::{Failure, read, written};
use crate::host::wal_index::Words;

/// Bytes that are compared at once.
const CHUNK: usize = 1 << 20;
/// For nodes of the page map: the pages themselves are written and read once.
const CACHE_BYTES: u64 = 4 << 20;

impl<D: Storage + Words> Packed<D> {
    /// Writes the database into an empty file, as `litepack rekey` does. The locks keep others from changing it.
    pub(crate) fn write_anew(&mut self, to: &File, key: Option<&Arc<Key>>) -> Result<(), Failure> {
        let (size, options) = (self.store.size(), self.options_of_new(key));
        let effort = Effort::ordinary(options.level, options.threads);
        let mut new = written(Store::open(to, options))?;
        let mut content = Content {
            store: &mut self.store,
            failed: None,
        };
        let filled = fill(&mut new, size, effort, &mut content, &());
        new.close();
        match (filled, content.failed) {
            (Err(_), Some(unread)) => read(Err(unread)),
            (filled, _) => written(filled),
        }
    }

    /// An error unless a new file opens with this key and has the bytes of this database.
    pub(crate) fn expect_same(
        &mut self,
        new: impl Storage,
        key: Option<&Arc<Key>>,
    ) -> Result<(), Failure> {
        let mut new = read(Store::open(new, self.options_of_new(key)))?;
        read(new.refresh())?;
        let size = self.store.size();
        let mut is_same = new.size() == size && new.keys().is_some() == key.is_some();
        let mut ours = memory::zeros(CHUNK).map_err(std::io::Error::from)?;
        let mut theirs = memory::zeros(CHUNK).map_err(std::io::Error::from)?;
        let mut offset = 0;
        while is_same && offset < size {
            interrupt::check().map_err(|_| Failure::interrupted())?;
            let found = read(self.store.read(offset, &mut ours))?;
            let copied = read(new.read(offset, &mut theirs))?;
            is_same = found == copied && found > 0 && ours.get(..found) == theirs.get(..found);
            offset += found as u64;
        }
        match is_same {
            true => Ok(()),
            false => Err(Failure::new(IOERR, "the new file is not as the old one")),
        }
    }

    fn options_of_new(&self, key: Option<&Arc<Key>>) -> Options {
        Options {
            level: PACK_LEVEL,
            threads: self.store.threads(),
            key: key.cloned(),
            cache: Arc::new(Cache::new(CACHE_BYTES)),
            file: FileId::unique(),
            ..Options::default()
        }
    }
}

/// The database, and why it could not be read.
struct Content<'a, D: Storage> {
    store: &'a mut Store<D>,
    failed: Option<Error>,
}

impl<D: Storage> Source for Content<'_, D> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        match self.store.read(offset, buf) {
            Ok(n) => n == buf.len(),
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }

    fn dictionary_of(&mut self, _: Unit) -> DictId {
        0
    }
}

#[cfg(test)]
mod tests {
    use litepack_io::testing::MemoryStorage;

    use super::*;
    use crate::host::wal_index::Words;

    impl Words for MemoryStorage {
        fn word(&self, _: usize) -> u32 {
            0
        }
    }

    fn packed(content: &[u8], key: Option<&Arc<Key>>) -> MemoryStorage {
        let disk = MemoryStorage::new(Vec::new());
        let options = Options {
            key: key.cloned(),
            ..Options::default()
        };
        let mut store = Store::open(disk, options).unwrap();
        store.write(0, content).unwrap();
        store.flush_both_slots().unwrap();
        store.close()
    }

    #[test]
    fn only_a_file_with_the_same_bytes_and_the_key_takes_the_place() {
        let content = vec![7; 3 * 4096];
        let key = Arc::new(Key::raw(&[1; 32]).unwrap());
        let store = Store::open(packed(&content, None), Options::default()).unwrap();
        let mut old = Packed::new(store);
        old.store.refresh().unwrap();
        let mut expect = |new: &[u8], has: Option<&Arc<Key>>, wanted: Option<&Arc<Key>>| {
            old.expect_same(packed(new, has), wanted).is_ok()
        };
        assert!(expect(&content, None, None) && expect(&content, Some(&key), Some(&key)));
        assert!(!expect(&content, None, Some(&key)), "in plain");
        assert!(!expect(&content, Some(&key), None));
        let mut other = content.clone();
        other[2 * 4096 + 17] ^= 1;
        assert!(!expect(&other, Some(&key), Some(&key)), "another byte");
        assert!(!expect(&content[..4096], Some(&key), Some(&key)), "shorter");
    }
}
