//! When memory is short: what is only there to be faster is given back, and calls that would take more are refused.

use litepack_io::cache::Cache;
use litepack_io::memory::OutOfMemory;

/// To be asked at the beginning of every call that may take memory.
///
/// # Errors
/// When it should take none.
pub(crate) fn relieve() -> Result<(), OutOfMemory> {
    if litepack_io::memory::was_refused() {
        Cache::shared().clear();
    }
    litepack_io::memory::check()
}

#[cfg(test)]
mod tests {
    use litepack_io::storage::Storage;
    use litepack_io::testing::MemoryStorage;
    use litepack_store::{FileId, Options, Store};

    use super::*;

    #[test]
    fn a_refusal_empties_the_cache() {
        let disk = MemoryStorage::new(Vec::new());
        let file = FileId::unique();
        let open = || {
            let cached = Options {
                file,
                ..Options::default()
            };
            Store::open(&disk, cached).unwrap()
        };
        let mut store = open();
        store.write(0, &[7; 4096]).unwrap();
        store.commit().unwrap();
        store.read(0, &mut [0; 4096]).unwrap();
        // This one has read nothing of the page from the file.
        let mut other = open();
        other.refresh().unwrap();
        let mut read = || other.read(0, &mut [0; 4096]);
        assert!(read().is_ok());
        // From now on the page is in the cache only.
        disk.write_at(&[0; 1 << 16], 2048).unwrap();
        relieve().unwrap();
        assert!(read().is_ok());
        litepack_io::memory::note_refusal();
        relieve().unwrap();
        assert!(read().is_err());
    }
}
