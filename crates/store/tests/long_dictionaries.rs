//! Long dictionaries are for the highest levels: pages that are packed with one are read with it, and ordinary writes of
//! the same pages use a short one, at the speed that they have without.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use litepack_codec::{DictId, Dictionary, SHORT_LEN_MAX};
use litepack_io::limits;
use litepack_io::testing::{Call, MemoryStorage, Watched};
use litepack_store::{Cache, FileId, Options, Store, Unit};

const PAGE: usize = 4096;
const UNITS: u64 = 40;
const STRONG: i32 = 19;

/// Of a file that shares no cache with others.
fn options() -> Options {
    Options {
        cache: Arc::new(Cache::new(40 << 20)),
        file: FileId::unique(),
        ..Options::default()
    }
}

/// Words in an order that no other seed has.
fn words(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend(format!("{:x} ", state >> 40).into_bytes());
    }
    text.truncate(len);
    text
}

/// Page `unit` has a text that dictionary `unit % 2` has, too.
fn page(unit: u64) -> Vec<u8> {
    let long = words(unit % 2, SHORT_LEN_MAX * 3 / 2);
    let from = unit as usize * 30_000;
    let mut page = long[from..from + PAGE].to_vec();
    page[..8].copy_from_slice(&unit.to_le_bytes());
    page
}

struct Packed {
    disk: MemoryStorage,
    /// Two long ones, and the short one that stands in for both.
    long: [DictId; 2],
    short: DictId,
}

fn packed() -> Packed {
    let disk = MemoryStorage::new(Vec::new());
    let options = Options {
        level: STRONG,
        ..options()
    };
    let mut store = Store::open(&disk, options).unwrap();
    let short = Dictionary::new(words(77, 20_000));
    let short = store.add_dictionary(&short, Vec::new()).unwrap();
    let long = [0, 1].map(|seed| {
        let dictionary = Dictionary::new(words(seed, SHORT_LEN_MAX * 3 / 2));
        let number = store.add_dictionary(&dictionary, Vec::new()).unwrap();
        store.replace_dictionary(number, short).unwrap();
        number
    });
    for unit in 0..UNITS {
        let number = long[unit as usize % 2];
        let at = unit * PAGE as u64;
        store.write_with(at, &page(unit), number).unwrap();
    }
    store.commit().unwrap();
    store.flush().unwrap();
    store.close();
    Packed { disk, long, short }
}

fn read(store: &mut Store<&MemoryStorage>, unit: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    store.read(unit * PAGE as u64, &mut page).unwrap();
    page
}

#[test]
fn ordinary_writes_use_the_short_one_and_maintenance_the_long_one() {
    let packed = packed();
    let mut store = Store::open(&packed.disk, options()).unwrap();
    store.refresh().unwrap();
    for unit in 0..UNITS {
        assert!(read(&mut store, unit) == page(unit), "unit {unit}");
        let number = store.dictionary_of(Unit(unit)).unwrap();
        assert_eq!(number, packed.long[unit as usize % 2]);
        // With any other dictionary it would take more than half of the page.
        assert!(store.stored_len(Unit(unit)).unwrap() < 200);
    }
    let mut changed = page(3);
    changed[100..110].fill(b'x');
    store.write(3 * PAGE as u64, &changed).unwrap();
    store.commit().unwrap();
    assert_eq!(store.dictionary_of(Unit(3)).unwrap(), packed.short);
    assert!(read(&mut store, 3) == changed);

    // What maintenance wants for all of them is what all but one have already.
    store.set_level(STRONG);
    let wanted = |unit: Unit| packed.long[unit.0 as usize % 2];
    let before = store.end();
    let mut at = Some(Unit::FIRST);
    while let Some(from) = at {
        at = store.recompress(from, &wanted).unwrap();
        store.commit().unwrap();
    }
    assert_eq!(store.dictionary_of(Unit(3)).unwrap(), packed.long[1]);
    assert!(read(&mut store, 3) == changed);
    assert!(store.end() < before + 8192);

    // None takes the place of another one for ordinary writes, and no number stands for one at another level.
    store
        .replace_dictionary(packed.short, packed.long[0])
        .unwrap();
    assert_eq!(store.at_level(packed.long[0]).unwrap(), packed.long[0]);
    store.write(4 * PAGE as u64, &changed).unwrap();
    store.commit().unwrap();
    assert_eq!(store.dictionary_of(Unit(4)).unwrap(), packed.short);
    assert!(store.check(&mut |_| Ok(())).unwrap().is_ok());
}

#[test]
fn it_goes_with_the_last_page_that_needs_it() {
    let packed = packed();
    let mut store = Store::open(&packed.disk, options()).unwrap();
    store.refresh().unwrap();
    store.drop_unused_dictionaries(&[]).unwrap();
    store.commit().unwrap();
    assert_eq!(store.dictionaries().unwrap().len(), 3);
    for unit in (0..UNITS).step_by(2) {
        store.write(unit * PAGE as u64, &page(unit)).unwrap();
    }
    store.commit().unwrap();
    store.drop_unused_dictionaries(&[]).unwrap();
    store.commit().unwrap();
    let left = store.dictionaries().unwrap();
    let left: Vec<_> = left.iter().map(|listed| listed.number).collect();
    assert_eq!(left, [packed.short, packed.long[1]]);
    for unit in 0..UNITS {
        assert!(read(&mut store, unit) == page(unit), "unit {unit}");
    }
}

/// A small container reads such a file with what it needs: pages of two trees in turn read no dictionary again.
#[test]
fn in_a_small_container_each_is_read_once() {
    let packed = packed();
    limits::pretend(64 << 20);
    let bytes = AtomicU64::new(0);
    let watched = Watched::new(&packed.disk, |call| {
        if let Call::Read { len, .. } = call {
            bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
        Ok(())
    });
    let mut store = Store::open(watched, options()).unwrap();
    store.refresh().unwrap();
    let mut read = |unit: u64| {
        let mut found = vec![0; PAGE];
        store.read(unit * PAGE as u64, &mut found).unwrap();
        assert!(found == page(unit), "unit {unit}");
    };
    (0..2).for_each(&mut read);
    let before = bytes.load(Ordering::Relaxed);
    (2..UNITS).for_each(&mut read);
    let each = (bytes.load(Ordering::Relaxed) - before) / (UNITS - 2);
    limits::pretend(0);
    assert!(each < 40_000, "{each} bytes for each page");
}

#[test]
fn a_file_has_no_more_than_may_be_held() {
    let disk = MemoryStorage::new(Vec::new());
    let mut store = Store::open(&disk, options()).unwrap();
    let longest = |seed| Dictionary::new(vec![seed; 8 << 20]);
    store.add_dictionary(&longest(1), Vec::new()).unwrap();
    store.add_dictionary(&longest(2), Vec::new()).unwrap();
    let more = Dictionary::new(vec![3; SHORT_LEN_MAX + 1]);
    assert!(store.add_dictionary(&more, Vec::new()).is_err());
    let longer = Dictionary::new(vec![4; (8 << 20) + 1]);
    let disk = MemoryStorage::new(Vec::new());
    let mut store = Store::open(&disk, options()).unwrap();
    assert!(store.add_dictionary(&longer, Vec::new()).is_err());
}
