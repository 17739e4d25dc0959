//! The cost of opening, a point read and a small commit as a file grows, counted in calls and bytes: it may grow with
//! the logarithm of the number of pages only.

use std::cell::Cell;
use std::sync::Arc;

use litepack_io::testing::{Call, Watched};
use litepack_store::{Cache, FileId, Options, Store};

const PAGE: u64 = 4096;

fn options() -> Options {
    Options {
        cache: Arc::new(Cache::new(8 << 20)),
        file: FileId::unique(),
        ..Options::default()
    }
}

fn page(number: u64) -> [u8; PAGE as usize] {
    let mut page = [0; PAGE as usize];
    page[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    page
}

/// (calls, bytes) of opening, of a point read, of a small commit.
fn costs(pages: u64) -> [(u64, u64); 3] {
    let file = tempfile::tempfile().expect("a temporary file");
    let mut store = Store::open(&file, options()).unwrap();
    for number in 0..pages {
        store.write(number * PAGE, &page(number)).unwrap();
    }
    store.commit().unwrap();
    store.flush().unwrap();
    // Free space all over the file, as a used database has.
    for number in (0..pages).step_by((pages / 2000) as usize) {
        store.write(number * PAGE, &page(!number)).unwrap();
    }
    store.commit().unwrap();
    store.flush().unwrap();
    store.close();

    let (calls, bytes) = (Cell::new(0), Cell::new(0));
    let counted = Watched::new(&file, |call| {
        calls.set(calls.get() + 1);
        if let Call::Read { len, .. } | Call::Write { len, .. } = call {
            bytes.set(bytes.get() + len as u64);
        }
        Ok(())
    });
    let spent = || (calls.replace(0), bytes.replace(0));
    let mut store = Store::open(&counted, options()).unwrap();
    store.refresh().unwrap();
    let opening = spent();
    let mut found = [0; PAGE as usize];
    let number = pages / 3 * 2 + 1;
    store.read(number * PAGE, &mut found).unwrap();
    let reading = spent();
    assert!(found == page(number) || found == page(!number));
    // The first commit also loads the free space; what matters is every one after it.
    for round in 0..2 {
        spent();
        store
            .write((pages / 5 + round) * PAGE, &page(round))
            .unwrap();
        store.commit().unwrap();
        store.flush().unwrap();
    }
    let committing = spent();
    println!("{pages} pages: open {opening:?}, read {reading:?}, commit {committing:?}");
    [opening, reading, committing]
}

fn assert_logarithmic(small: u64, large: u64) {
    for (small, large) in costs(small).into_iter().zip(costs(large)) {
        assert!(large.0 <= small.0 + 8, "calls: {small:?}, then {large:?}");
        assert!(
            large.1 <= small.1 * 2 + 16_384,
            "bytes: {small:?}, then {large:?}"
        );
    }
}

#[test]
fn costs_grow_with_the_logarithm_of_the_pages() {
    assert_logarithmic(4_000, 200_000);
}

#[test]
#[ignore = "writes ten million pages"]
fn costs_at_ten_million_pages() {
    assert_logarithmic(10_000, 10_000_000);
}
