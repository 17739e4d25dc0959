//! Items and references that no writer makes: counts that lie, items that are missing, extents where none may be; and
//! private differences, which are read, moved and given back before anything makes them.

use litepack_codec::{Codec, DifferenceEncoder, Encoding};
use litepack_io::storage::Storage;
use litepack_io::testing::{CrashingStorage, MemoryStorage};

use crate::error::{Damage, Error, Result};
use crate::format::basis::{Bases, Basis, Item, ItemNumber};
use crate::format::layout::LOCK_BYTES;
use crate::format::leaf::{Entry, Extent};
use crate::format::node::TreeKind;
use crate::format::offset::FileOffset;
use crate::format::record::Record;
use crate::format::unit::Unit;
use crate::space::erase::Erase;
use crate::testing::options;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;

const PAGE: usize = 4096;

fn page(number: u64) -> Vec<u8> {
    let mut noise = litepack_io::random::SplitMix64::new(number);
    let words = std::iter::repeat_with(|| format!("{number}: {};", noise.next_u64() % 5000));
    let bytes: Vec<u8> = words.take(800).flat_map(String::into_bytes).collect();
    bytes[..PAGE].to_vec()
}

fn revision(number: u64, revision: u8) -> Vec<u8> {
    let mut page = page(number);
    page[1000..1010].fill(revision);
    page
}

/// Twenty units; 5, 6 and 7 are one item, and 8 is the difference to it.
fn file<D: Storage>(disk: D) -> Store<D> {
    let mut store = Store::open(disk, options()).unwrap();
    for unit in 0..20 {
        store.write(unit * PAGE as u64, &page(unit)).unwrap();
    }
    let item = store.share(Unit(5)).unwrap().unwrap();
    assert_eq!(item, ItemNumber(0));
    for unit in [6, 7] {
        assert!(store.write_alias(Unit(unit), &page(5), item, 0).unwrap());
    }
    let (mut stored, prefix) = (Vec::new(), page(5));
    let encoded = DifferenceEncoder::new(3).encode(&revision(5, 1), &prefix, &mut stored);
    assert_eq!(encoded, Ok(true));
    let bases = &[item];
    let done = store.write_difference(Unit(8), &revision(5, 1), 0, &stored, bases);
    assert!(done.unwrap());
    store.flush().unwrap();
    store
}

fn read<D: Storage>(store: &mut Store<D>, unit: u64) -> Result<Vec<u8>> {
    let mut page = vec![0; PAGE];
    store.read(unit * PAGE as u64, &mut page).map(|_| page)
}

/// Changes the file as no writer does, and commits.
fn forge<D: Storage>(
    store: &mut Store<D>,
    change: impl FnOnce(&mut Transaction<'_, D>) -> Result<()>,
) {
    store.step(change).unwrap();
    store.flush().unwrap();
}

fn damage<D: Storage>(store: &mut Store<D>) -> Vec<Damage> {
    store.check(&mut |_| Ok(())).unwrap().damage
}

/// Puts an entry into the map that owns nothing and counts nowhere.
fn put<D: Storage>(store: &mut Store<D>, unit: u64, entry: Entry) {
    forge(store, |transaction| {
        let medium = transaction.store.snapshot.medium();
        let map = &mut transaction.changes.image.map;
        map.set(Unit(unit), entry, medium)?;
        transaction.changes.items.note_entry(&entry);
        Ok(())
    });
}

#[test]
fn a_count_that_lies_is_damage() {
    for (users, words) in [
        (4, None),
        (3, Some("pages may be lost")),
        (9, Some("no page is harmed")),
    ] {
        let mut store = file(MemoryStorage::default());
        forge(&mut store, |transaction| {
            let item = transaction.item(ItemNumber(0))?.unwrap();
            transaction.set_item(ItemNumber(0), Some(Item { users, ..item }))
        });
        let found = damage(&mut store);
        match words {
            None => assert_eq!(found, []),
            Some(words) => {
                assert_eq!(found[0].what, "item 0", "{found:?}");
                assert!(found[0].why.contains(words), "{found:?}");
            }
        }
        // With too low a count the item goes while units need it: that is an error, and nothing else is harmed.
        for unit in [5, 6, 7] {
            store.write(unit * PAGE as u64, &page(50 + unit)).unwrap();
        }
        store.flush().unwrap();
        let needed = read(&mut store, 8);
        match users {
            3 => assert!(matches!(needed, Err(Error::Damaged(_))), "it is gone"),
            _ => assert!(needed.unwrap() == revision(5, 1)),
        }
        for unit in [1, 5, 6, 7, 9] {
            let expected = if (5..8).contains(&unit) {
                page(50 + unit)
            } else {
                page(unit)
            };
            assert!(read(&mut store, unit).unwrap() == expected, "unit {unit}");
        }
        // And the unit can be written again.
        store.write(8 * PAGE as u64, &page(58)).unwrap();
        store.flush().unwrap();
        assert!(read(&mut store, 8).unwrap() == page(58));
    }
}

#[test]
fn an_item_that_no_unit_names_is_damage() {
    let mut store = file(MemoryStorage::default());
    forge(&mut store, |transaction| {
        let number = transaction.add_item(&page(90), 0)?.unwrap();
        transaction.changes.items.is_named(number);
        Ok(())
    });
    let found = damage(&mut store);
    assert_eq!(
        (found.len(), found[0].what.as_str()),
        (1, "item 1"),
        "{found:?}"
    );
}

#[test]
fn what_is_missing_is_told_with_the_page_that_needs_it() {
    let bases = |numbers: &[u32]| {
        let items: Vec<_> = numbers.iter().copied().map(ItemNumber).collect();
        Basis::Items(Bases::new(&items).unwrap())
    };
    let mut store = file(MemoryStorage::default());
    let own = store.entry(Unit(8)).unwrap();
    let forged = [
        (
            Entry::slice(ItemNumber(1), 0),
            "item 1, which it needs, is missing",
        ),
        (Entry::slice(ItemNumber(u32::MAX), 0), "is missing"),
        (Entry::slice(ItemNumber(0), 1), "item 0 has no slice 1"),
        (
            Entry {
                basis: bases(&[7]),
                ..own
            },
            "item 7, which it needs, is missing",
        ),
        (
            Entry {
                basis: bases(&[0, 7]),
                ..own
            },
            "item 7, which it needs, is missing",
        ),
    ];
    for (entry, words) in forged {
        let mut store = file(MemoryStorage::default());
        put(&mut store, 8, entry);
        for error in [
            read(&mut store, 8).unwrap_err().to_string(),
            damage(&mut store)[0].to_string(),
        ] {
            assert!(error.contains("page 9") && error.contains(words), "{error}");
        }
        assert!(read(&mut store, 7).unwrap() == page(5));
    }
}

/// In SQLite's lock bytes, behind the end, or where another extent is.
#[test]
fn an_item_where_no_extent_may_be_is_damage() {
    let mut store = file(MemoryStorage::default());
    let (own, end) = (store.entry(Unit(8)).unwrap(), store.end());
    let places = [
        LOCK_BYTES.start,
        FileOffset(end),
        FileOffset(1 << 47),
        own.offset,
    ];
    for place in places {
        let mut store = file(MemoryStorage::default());
        forge(&mut store, |transaction| {
            let item = transaction.item(ItemNumber(0))?.unwrap();
            let extent = Extent {
                offset: place,
                ..item.extent
            };
            transaction.set_item(ItemNumber(0), Some(Item { extent, ..item }))
        });
        let found = damage(&mut store);
        assert!(
            found.iter().any(|found| found.what == "item 0"),
            "{place}: {found:?}"
        );
        assert!(
            matches!(read(&mut store, 6), Err(Error::Damaged(_))),
            "{place}"
        );
    }
}

/// Items name no items: a difference in the place of one is decoded alone, and is no page. So nothing goes in circles,
/// whether an item is the difference to itself or two are to each other.
#[test]
fn items_in_a_circle_are_damage() {
    for two in [false, true] {
        let mut store = file(MemoryStorage::default());
        let other = store.share(Unit(10)).unwrap().unwrap();
        let (mut stored, prefix) = (Vec::new(), page(10));
        let encoded = DifferenceEncoder::new(3).encode(&revision(10, 1), &prefix, &mut stored);
        assert_eq!(encoded, Ok(true));
        let done = store.write_difference(Unit(11), &revision(10, 1), 0, &stored, &[other]);
        assert!(done.unwrap());
        store.flush().unwrap();
        let first = if two { 11 } else { 8 };
        let knots = [(ItemNumber(0), first), (other, 8)];
        for (number, unit) in knots.into_iter().take(1 + usize::from(two)) {
            let extent = store.entry(Unit(unit)).unwrap().extent();
            forge(&mut store, |transaction| {
                let item = transaction.item(number)?.unwrap();
                transaction.set_item(number, Some(Item { extent, ..item }))
            });
        }
        let units = if two { &[6, 8, 10, 11][..] } else { &[6, 8] };
        for unit in units {
            let found = read(&mut store, *unit);
            assert!(matches!(found, Err(Error::Damaged(_))), "{unit}: {found:?}");
        }
        let what: Vec<String> = damage(&mut store).into_iter().map(|d| d.what).collect();
        assert!(what.iter().any(|what| what == "item 0"), "{what:?}");
        assert!(read(&mut store, 4).unwrap() == page(4));
    }
}

/// An item of more units than fit, and one with too few bytes for those it says it has.
#[test]
fn an_item_of_another_length_is_damage() {
    for units in [2, 4] {
        let mut store = file(MemoryStorage::default());
        forge(&mut store, |transaction| {
            let mut item = transaction.item(ItemNumber(0))?.unwrap();
            item.units = units;
            item.extent.storage.codec = Codec::Zstd;
            transaction.set_item(ItemNumber(0), Some(item))
        });
        assert!(!damage(&mut store).is_empty());
        assert!(matches!(read(&mut store, 6), Err(Error::Damaged(_))));
    }
}

#[test]
fn an_item_whose_dictionary_is_free_is_damage() {
    let mut store = file(MemoryStorage::default());
    forge(&mut store, |transaction| {
        let mut item = transaction.item(ItemNumber(0))?.unwrap();
        item.extent.storage.dict = 9;
        item.extent.storage.codec = Codec::Zstd;
        transaction.set_item(ItemNumber(0), Some(item))
    });
    let error = read(&mut store, 6).unwrap_err().to_string();
    assert!(
        error.contains("page 7") && error.contains("no such dictionary"),
        "{error}"
    );
    assert!(!damage(&mut store).is_empty());
}

/// A tree of one kind is not taken for the other.
#[test]
fn items_are_no_units_and_units_are_no_items() {
    let disk = MemoryStorage::default();
    let store = file(&disk);
    let commit = store.snapshot().commit().unwrap();
    let (guard, record) = (store.snapshot().guard().clone(), commit.record);
    drop(store);
    let forged = [
        Record {
            map: record.items,
            ..record
        },
        Record {
            items: record.map,
            ..record
        },
    ];
    for record in forged {
        let disk = MemoryStorage::new(disk.snapshot());
        let at = crate::format::layout::SLOT_OFFSETS[commit.slot];
        disk.write_at(&record.encode(&guard), at.0).unwrap();
        let mut store = Store::open(&disk, options()).unwrap();
        store.refresh().unwrap();
        assert!(!damage(&mut store).is_empty());
        assert!(store.verify_map().is_err());
        assert!(matches!(read(&mut store, 6), Err(Error::Damaged(_))));
    }
}

/// A version that does not know all that a commit says must not read it.
#[test]
fn a_commit_with_something_unknown_is_refused_by_name() {
    let disk = MemoryStorage::default();
    let store = file(&disk);
    let commit = store.snapshot().commit().unwrap();
    let (guard, record) = (store.snapshot().guard().clone(), commit.record);
    assert_eq!(record.features, 1);
    drop(store);
    let mut forged = [record; 2];
    forged[0].features = 5;
    forged[1].tag_len = 16;
    for record in forged {
        let disk = MemoryStorage::new(disk.snapshot());
        let at = crate::format::layout::SLOT_OFFSETS[commit.slot];
        disk.write_at(&record.encode(&guard), at.0).unwrap();
        let mut store = Store::open(&disk, options()).unwrap();
        let refused = store.refresh();
        assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    }
}

#[test]
fn a_file_without_references_says_so() {
    let mut store = Store::open(MemoryStorage::default(), options()).unwrap();
    store.write(0, &page(1)).unwrap();
    store.flush().unwrap();
    assert_eq!(store.snapshot().commit().unwrap().record.features, 0);
}

/// Stores a unit as its difference to what it was.
fn privately<D: Storage>(store: &mut Store<D>, unit: u64, page: &[u8]) {
    let former = store.entry(Unit(unit)).unwrap();
    assert!(former.is_alone() && !former.is_zero());
    let before = read(store, unit).unwrap();
    let mut stored = Vec::new();
    let encoded = DifferenceEncoder::new(3).encode(page, &before, &mut stored);
    assert_eq!(encoded, Ok(true));
    store
        .step(|transaction| {
            let voucher = transaction.sealer()?.unit(Codec::Zstd, &mut stored, 0)?;
            let offset = transaction.space().alloc(stored.len() as u64)?;
            transaction.queue(offset, &stored)?;
            transaction.write_queue()?;
            let entry = Entry {
                offset,
                len: stored.len() as u32,
                sum: voucher.sum,
                nonce: voucher.nonce,
                storage: Encoding {
                    codec: Codec::Zstd,
                    ..former.storage
                },
                basis: Basis::Former(former.extent()),
            };
            transaction.set_page(Unit(unit), entry, page)
        })
        .unwrap();
}

#[test]
fn private_differences_are_read_moved_and_given_back() {
    let disk = CrashingStorage::default();
    let mut store = file(disk.clone());
    // Free space, and extents out of order.
    for unit in (9..20).rev() {
        store.write(unit * PAGE as u64, &page(100 + unit)).unwrap();
        store.commit().unwrap();
    }
    store.flush().unwrap();
    for unit in [10, 12, 14, 16] {
        privately(&mut store, unit, &revision(100 + unit, 9));
    }
    store.commit().unwrap();
    let expected = |unit: u64| match unit {
        10 | 12 | 14 | 16 => revision(100 + unit, 9),
        9.. => page(100 + unit),
        6 | 7 => page(5),
        8 => revision(5, 1),
        unit => page(unit),
    };
    let assert_all = |store: &mut Store<CrashingStorage>, context: &str| {
        for unit in 0..20 {
            let found = read(store, unit).unwrap();
            assert!(found == expected(unit), "{context}, unit {unit}");
        }
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0), "{context}");
        let info = store.info().unwrap();
        assert_eq!(info.unaccounted_bytes(), 0, "{context}");
    };
    assert_all(&mut store, "written");
    // A power loss leaves the commit or the one before, whole.
    for seed in 0..40 {
        let disk = CrashingStorage::with_image(disk.after_power_loss(seed));
        let mut store = Store::open(disk, options()).unwrap();
        store.refresh().unwrap();
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!(
            (report.damage, report.lost_bytes),
            (vec![], 0),
            "loss {seed}"
        );
        let found = read(&mut store, 10).unwrap();
        assert!(found == expected(10) || found == page(110), "loss {seed}");
    }
    store.flush().unwrap();
    store.compact().unwrap();
    assert_all(&mut store, "compacted");
    let places = |store: &mut Store<CrashingStorage>| {
        let entry = store.entry(Unit(10)).unwrap();
        entry
            .extents()
            .map(|extent| extent.offset)
            .collect::<Vec<_>>()
    };
    let before = places(&mut store);
    assert_eq!(before.len(), 2);
    // Each of its extents by itself, and all in one step.
    for which in [1, 0] {
        store
            .step(|transaction| {
                let entry = transaction.entry(Unit(10))?;
                let extent = entry.extents().nth(which).unwrap();
                let offset = transaction.space().alloc(extent.len.into())?;
                let unit = Unit(10);
                transaction.move_extent(TreeKind::Map, unit, entry, &extent, offset)?;
                Ok(())
            })
            .unwrap();
        store.flush().unwrap();
        assert_all(&mut store, "moved");
    }
    let after = places(&mut store);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| before != after)
    );
    // Writing the unit again gives both back, and they are erased.
    store.set_erase(Erase::WithFlush);
    let before = store.info().unwrap();
    store.write(10 * PAGE as u64, &[0; PAGE]).unwrap();
    store.truncate(13 * PAGE as u64).unwrap();
    store.flush().unwrap();
    let after = store.info().unwrap();
    let kinds = |info: &crate::Info| {
        let private = |(name, ..): &&(String, u64, u64)| name == "private difference";
        info.codecs.iter().find(private).map_or(0, |found| found.1)
    };
    assert_eq!((kinds(&before), kinds(&after)), (4, 1));
    let report = store.check(&mut |_| Ok(())).unwrap();
    assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    assert!(read(&mut store, 12).unwrap() == expected(12));
}

/// Damage of what a unit was before is told as such.
#[test]
fn damage_of_a_private_base_names_it() {
    let disk = MemoryStorage::default();
    let mut store = file(&disk);
    privately(&mut store, 12, &revision(12, 9));
    store.flush().unwrap();
    let Basis::Former(former) = store.entry(Unit(12)).unwrap().basis else {
        panic!("it is a private difference");
    };
    disk.write_at(&[0xaa; 3], former.offset.0 + 3).unwrap();
    let mut store = Store::open(&disk, options()).unwrap();
    store.refresh().unwrap();
    let error = read(&mut store, 12).unwrap_err().to_string();
    assert!(
        error.contains("page 13") && error.contains("what the page was before"),
        "{error}"
    );
    let found = damage(&mut store);
    assert_eq!(
        (found.len(), found[0].offset),
        (1, former.offset),
        "{found:?}"
    );
}
