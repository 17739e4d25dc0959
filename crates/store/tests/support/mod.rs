//! Helpers for several tests of the store.
#![allow(dead_code, reason = "not every test uses all of it")]

pub mod pages;

use std::sync::Arc;

use std::cell::Cell;

use litepack_cipher::{Key, Padding};
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

/// The result of `body` for each, in the same order. Opening a damaged file waits for a writer that may be there, so
/// many are opened at a time.
pub fn at_once<I: Sync, O: Send>(inputs: &[I], body: impl Fn(&I) -> O + Sync) -> Vec<O> {
    let body = &body;
    let parts = inputs.chunks(inputs.len().div_ceil(32).max(1));
    std::thread::scope(|scope| {
        let started: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(body).collect::<Vec<O>>()))
            .collect();
        let results = started.into_iter().map(|thread| thread.join());
        results
            .flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

thread_local! {
    /// Whether files that this thread opens are encrypted. With LITEPACK_ENCRYPTED all of all threads are.
    static ENCRYPTED: Cell<bool> = Cell::new(std::env::var_os("LITEPACK_ENCRYPTED").is_some());
}

/// What this thread opens from now on is encrypted for one seed of ten, or half of them with LITEPACK_LONG: the same
/// must be true of encrypted files.
pub fn encrypt_some(seed: u64) {
    let few = if std::env::var_os("LITEPACK_LONG").is_some() {
        2
    } else {
        10
    };
    let always = std::env::var_os("LITEPACK_ENCRYPTED").is_some();
    ENCRYPTED.set(always || seed % few == 1);
}

/// The key of encrypted files.
pub fn key() -> Option<Arc<Key>> {
    let key = ENCRYPTED.get().then(|| Key::raw(&[7; 32]).unwrap())?;
    let is_padded = std::env::var_os("LITEPACK_ENCRYPTED").is_some_and(|how| how == "padded");
    let padding = Padding::new(if is_padded { 256 } else { 0 }).unwrap();
    Some(Arc::new(key.with_padding(padding).unwrap()))
}

/// With a cache of its own, so that no handle answers for another.
pub fn options() -> Options {
    Options {
        key: key(),
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        differences: true,
        ..Options::default()
    }
}

/// A handle at the newest commit.
pub fn open(disk: &CrashingStorage) -> Store<CrashingStorage> {
    let mut store = Store::open(disk.clone(), options()).unwrap();
    store.refresh().unwrap();
    store
}
