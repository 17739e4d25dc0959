//! An encrypted file is read by another program (`tests/reader`), which was written from docs/format.md alone.

mod support;

use std::process::Command;

use litepack_cipher::Key;
use litepack_io::random::SplitMix64;
use litepack_io::testing::MemoryStorage;
use litepack_skip::{Expected, skip};
use litepack_store::{Options, Store};
use std::sync::Arc;
use support::options;

const PAGE: usize = 4096;

#[test]
fn another_reader_finds_the_same() {
    let key: [u8; 32] = std::array::from_fn(|at| at as u8 + 1);
    let options = Options {
        key: Key::raw(&key).ok().map(Arc::new),
        differences: false,
        ..options()
    };
    let disk = MemoryStorage::default();
    let mut noise = SplitMix64::new(41);
    let mut expected = vec![0; 131 * PAGE];
    // By two handles, so that there are two sessions. Noise is stored as it is.
    for units in [[0, 1, 2, 130], [2, 5, 6, 7]] {
        let mut store = Store::open(&disk, options.clone()).unwrap();
        store.refresh().unwrap();
        for unit in units {
            let page = &mut expected[unit * PAGE..][..PAGE];
            page.fill_with(|| noise.next_u64() as u8);
            store.write((unit * PAGE) as u64, page).unwrap();
        }
        store.flush().unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("encrypted");
    std::fs::write(&path, disk.snapshot()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reader");
    let read = |key: &[u8]| {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut python = Command::new("python3");
        python.arg(script).arg(&path).args(["--key", &hex]).output()
    };
    let Ok(found) = read(&key) else {
        skip(Expected::InCi, "there is no python3");
        return;
    };
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "{errors}");
    assert!(found.stdout == expected, "{} bytes", found.stdout.len());
    let wrong = read(&[7; 32]).unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("wrong key"));
}
