//! Logs of encrypted files, and a disk that looks at every record that is written to it: no two may have one nonce.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use litepack_cipher::{Keys, Padding};
use litepack_io::bytes::Reader;
use litepack_io::storage::{ReadAt, Storage};
use litepack_io::testing::CrashingStorage;
use litepack_log::Log;

type Nonce = ([u8; 16], u64);

thread_local! {
    /// Whether the logs of this thread are sealed. With LITEPACK_ENCRYPTED those of all threads are.
    static SEALED: Cell<bool> = Cell::new(always());
    /// What was sealed with each nonce.
    static NONCES: RefCell<HashMap<Nonce, Vec<u8>>> = RefCell::default();
    /// What nobody may see.
    static CANARY: RefCell<Vec<u8>> = RefCell::default();
    /// One for all handles, as handles of one file have it in one process.
    static KEYS: Arc<Keys> = Arc::new(keys_of(1));
}

fn always() -> bool {
    std::env::var_os("LITEPACK_ENCRYPTED").is_some()
}

/// Logs of this thread are sealed from now on for one seed of ten, or half of them with LITEPACK_LONG.
pub fn seal_some(seed: u64) {
    let is_long = std::env::var_os("LITEPACK_LONG").is_some();
    seal(seed % if is_long { 2 } else { 10 } == 1);
}

/// Logs of this thread are sealed from now on, or not.
pub fn seal(sealed: bool) {
    SEALED.set(always() || sealed);
}

/// The same of logs in plain and of sealed ones.
pub fn both(test: impl Fn()) {
    for sealed in [false, true] {
        seal(sealed);
        test();
    }
}

/// No write of this thread may have these bytes in it from now on.
pub fn watch_for(canary: &[u8]) {
    CANARY.replace(canary.to_vec());
}

/// Keys of a file.
pub fn keys_of(file: u8) -> Keys {
    let is_padded = std::env::var_os("LITEPACK_ENCRYPTED").is_some_and(|how| how == "padded");
    let padding = Padding::new(if is_padded { 256 } else { 0 }).unwrap();
    Keys::with_padding(&[file; 32], &[5; 16], padding).unwrap()
}

/// Those of logs of this thread, if they are sealed.
pub fn keys() -> Option<Arc<Keys>> {
    SEALED.get().then(|| KEYS.with(Arc::clone))
}

/// The log in this file.
pub fn log<S: Storage>(storage: S) -> Log<S> {
    Log::new(storage).with_keys(keys())
}

/// How many messages were sealed in this thread, and with how many salts.
pub fn sealed() -> (usize, usize) {
    NONCES.with_borrow(|nonces| {
        let salts: std::collections::HashSet<_> = nonces.keys().map(|nonce| nonce.0).collect();
        (nonces.len(), salts.len())
    })
}

/// A disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(CrashingStorage);

impl Disk {
    pub fn with_image(image: Vec<u8>) -> Disk {
        Disk(CrashingStorage::with_image(image))
    }

    /// Looks at the records in bytes that are written, whether that fails or not.
    fn note(&self, mut bytes: &[u8], mut place: u64) {
        let is_canary = |part: &[u8]| CANARY.with_borrow(|canary| part == canary);
        let len = CANARY.with_borrow(Vec::len);
        assert!(len == 0 || !bytes.windows(len).any(is_canary), "{place}");
        if !SEALED.get() || place < 4096 {
            return;
        }
        while let Some((nonce, record)) = self.record(bytes, place) {
            NONCES.with_borrow_mut(|nonces| {
                let known = nonces.entry(nonce).or_insert_with(|| record.to_vec());
                assert!(*known == record, "a nonce came again, at {place}");
            });
            bytes = &bytes[record.len()..];
            place += record.len() as u64;
        }
    }

    fn record<'a>(&self, bytes: &'a [u8], place: u64) -> Option<(Nonce, &'a [u8])> {
        let mut reader = Reader::new(bytes);
        let record = bytes.get(..reader.u32()? as usize)?;
        let kind = reader.u8()?;
        reader.u32()?;
        let back = reader.varint()?;
        let salt = match back {
            0 => reader.bytes(16)?.try_into().ok()?,
            back => {
                let mut carrier = [0; 26];
                self.0
                    .read_at(&mut carrier, place.checked_sub(back)?)
                    .ok()?;
                carrier[10..].try_into().ok()?
            }
        };
        let counter = reader.varint()?;
        ((1..=4).contains(&kind) && record.len() >= 28).then_some(((salt, counter), record))
    }
}

impl Deref for Disk {
    type Target = CrashingStorage;

    fn deref(&self) -> &CrashingStorage {
        &self.0
    }
}

impl ReadAt for Disk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&self.0)
    }
}

impl Storage for Disk {
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.note(buf, offset);
        self.0.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
}
