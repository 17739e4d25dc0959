//! Units that are written together are slices of one item, and read as before.

mod support;

use litepack_io::storage::Storage;
use litepack_io::testing::MemoryStorage;
use litepack_store::{Erase, Group, Options, Reference, Store, Unit};
use support::options;
use support::pages::{PAGE, assert_sound, filled, items, page, read, write};

/// Twelve units, written in groups of four.
fn grouped<D: Storage>(store: &mut Store<D>) {
    let groups = [[1_u64, 2, 3, 4], [5, 7, 9, 11], [12, 13, 14, 15]];
    let groups = groups.map(|units| {
        let mut group = Group::default();
        for unit in units {
            group.push(Unit(unit), &page(unit + 100)).unwrap();
        }
        group
    });
    store.write_groups(groups.to_vec()).unwrap();
}

fn group_content(unit: u64) -> Vec<u8> {
    match unit {
        1..=5 | 7 | 9 | 11..=15 => page(unit + 100),
        unit => page(unit),
    }
}

#[test]
fn units_that_are_written_together_are_slices_of_one_item() {
    for threads in [1, 3] {
        let disk = MemoryStorage::default();
        let options = Options {
            threads,
            ..options()
        };
        let mut store = Store::open(&disk, options).unwrap();
        for unit in 0..20 {
            write(&mut store, unit, &page(unit));
        }
        // Some are buffered, some are in the file.
        store.commit().unwrap();
        write(&mut store, 7, &page(77));
        grouped(&mut store);
        assert_eq!(items(&mut store), 0, "not committed");
        for round in 0..2 {
            for unit in 0..20 {
                assert!(read(&mut store, unit) == group_content(unit), "{unit}");
            }
            if round == 0 {
                store.flush().unwrap();
            }
        }
        assert_eq!(items(&mut store), 3);
        for (unit, slice) in [(5, 0), (7, 1), (9, 2), (11, 3)] {
            let found = store.reference(Unit(unit)).unwrap();
            assert!(matches!(found, Reference::Alias { slice: found, .. } if found == slice));
            // What others cost that are like it.
            let len = store.extent_len(Unit(unit)).unwrap();
            assert!((100..PAGE as u32 / 2).contains(&len), "{len}");
        }
        assert_sound(&mut store);
        // One that is written again stands alone, and the others stay.
        write(&mut store, 9, &page(209));
        store.flush().unwrap();
        assert_eq!(store.reference(Unit(11)).unwrap(), {
            let Reference::Alias { item, .. } = store.reference(Unit(5)).unwrap() else {
                panic!("it is one");
            };
            Reference::Alias { item, slice: 3 }
        });
        assert!(read(&mut store, 9) == page(209) && read(&mut store, 11) == page(111));
        assert_eq!(items(&mut store), 3);
        for unit in [5, 7, 11] {
            write(&mut store, unit, &page(unit));
        }
        store.flush().unwrap();
        assert_eq!(items(&mut store), 2, "no unit names it");
        assert_sound(&mut store);
        drop(store);
        let mut store = Store::open(&disk, self::options()).unwrap();
        store.refresh().unwrap();
        assert!(read(&mut store, 14) == page(114));
    }
}

#[test]
fn what_cannot_be_together_is_stored_alone() {
    let disk = MemoryStorage::default();
    let mut store = filled(&disk, 20);
    let noise = |seed: u64| -> Vec<u8> {
        let mut random = litepack_io::random::SplitMix64::new(seed);
        (0..PAGE / 8)
            .flat_map(|_| random.next_u64().to_le_bytes())
            .collect()
    };
    let group = |units: &[u64], page: &dyn Fn(u64) -> Vec<u8>| {
        let mut group = Group::default();
        for unit in units {
            group.push(Unit(*unit), &page(*unit)).unwrap();
        }
        group
    };
    let groups = vec![
        group(&[0, 1, 2, 3], &|unit| page(unit + 100)),
        group(&[4, 5, 6], &|unit| page(unit + 100)),
        group(&[7], &|unit| page(unit + 100)),
        group(&[9, 8], &|unit| page(unit + 100)),
        group(&[10, 11, 12, 13], &noise),
        group(&[20, 21], &|unit| page(unit + 100)),
        Group::default(),
    ];
    store.write_groups(groups).unwrap();
    store.flush().unwrap();
    assert_eq!(items(&mut store), 1, "20 and 21, behind the end");
    assert_eq!(store.size(), 22 * PAGE as u64);
    for unit in 0..22 {
        let expected = match unit {
            10..=13 => noise(unit),
            14..20 => page(unit),
            unit => page(unit + 100),
        };
        assert!(read(&mut store, unit) == expected, "unit {unit}");
    }
    assert_sound(&mut store);
    store.set_erase(Erase::WithCommit);
    store
        .write_groups(vec![group(&[2, 3], &|unit| page(unit + 200))])
        .unwrap();
    store.flush().unwrap();
    assert_eq!(items(&mut store), 1);
    assert!(read(&mut store, 3) == page(203));
    assert_sound(&mut store);
}
