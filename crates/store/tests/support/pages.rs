//! Units of one page each, all different, and what is true of any store that holds them.

use litepack_io::storage::Storage;
use litepack_store::Store;

use super::options;

pub const PAGE: usize = 4096;

/// Bytes that compress to about a third, all different.
pub fn page(number: u64) -> Vec<u8> {
    let mut noise = litepack_io::random::SplitMix64::new(number);
    let words = std::iter::repeat_with(|| noise.next_u64() % 1_000_000);
    let text = words.map(|word| format!("{number} has {word:>9}; "));
    let bytes: Vec<u8> = text.take(400).flat_map(String::into_bytes).collect();
    bytes[..PAGE].to_vec()
}

pub fn read<D: Storage>(store: &mut Store<D>, unit: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let read = store.read(unit * PAGE as u64, &mut page);
    read.unwrap_or_else(|error| panic!("unit {unit}: {error}"));
    page
}

pub fn write<D: Storage>(store: &mut Store<D>, unit: u64, page: &[u8]) {
    store.write(unit * PAGE as u64, page).unwrap();
}

pub fn assert_sound<D: Storage>(store: &mut Store<D>) {
    let report = store.check(&mut |_| Ok(())).unwrap();
    assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    let info = store.info().unwrap();
    assert_eq!((info.unaccounted_bytes(), info.damage), (0, vec![]));
}

pub fn items<D: Storage>(store: &mut Store<D>) -> u64 {
    store.info().unwrap().items
}

pub fn filled<D: Storage>(disk: D, units: u64) -> Store<D> {
    let mut store = Store::open(disk, options()).unwrap();
    for unit in 0..units {
        write(&mut store, unit, &page(unit));
    }
    store.flush().unwrap();
    store
}
