//! What several tests of the store need.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::sync::Arc;

use litepack_io::testing::CrashingStorage;
use litepack_store::{Cache, FileId, Options, Store};

/// The seeds to run: LITEPACK_SEED alone, or so many, and with LITEPACK_LONG so many more.
pub fn seeds(default: u64, long: u64) -> Vec<u64> {
    if let Ok(seed) = std::env::var("LITEPACK_SEED") {
        return vec![seed.parse().expect("LITEPACK_SEED is a number")];
    }
    let many = std::env::var_os("LITEPACK_LONG").is_some();
    (0..if many { long } else { default }).collect()
}

/// With a cache of its own, so that no handle answers for another.
pub fn options() -> Options {
    Options {
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        ..Options::default()
    }
}

/// A handle at the newest commit.
pub fn open(disk: &CrashingStorage) -> Store<CrashingStorage> {
    let mut store = Store::open(disk.clone(), options()).unwrap();
    store.refresh().unwrap();
    store
}
