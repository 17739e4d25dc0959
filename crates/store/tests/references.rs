//! Units that are stored by reference read as before, whichever unit is written, moved or dropped, and whatever fails.

mod support;

use std::sync::Arc;

use litepack_codec::{Dictionary, DifferenceEncoder};
use litepack_io::storage::{ReadAt, Storage};
use litepack_io::testing::{CrashingStorage, MemoryStorage};
use litepack_store::{
    Cache, Erase, Error, FileId, ItemNumber, Options, Reference, Store, StoredKind, Unit,
};
use support::pages::{PAGE, assert_sound, filled, items, page, read, write};
use support::{open, options};

/// A page that has most in common with another one.
fn revision(number: u64, revision: u64) -> Vec<u8> {
    let mut page = page(number);
    let at = (revision * 571 % 3000) as usize;
    page[at..at + 9].copy_from_slice(format!("{revision:>9}").as_bytes());
    page
}

/// Stores a unit as its difference to items.
fn difference<D: Storage>(
    store: &mut Store<D>,
    unit: u64,
    page: &[u8],
    bases: &[ItemNumber],
) -> bool {
    let (mut prefix, mut more) = (Vec::new(), Vec::new());
    for base in bases {
        assert!(store.read_item(*base, &mut more).unwrap());
        prefix.extend(&more);
    }
    let mut stored = Vec::new();
    let encoded = DifferenceEncoder::new(3).encode(page, &prefix, &mut stored);
    assert_eq!(encoded, Ok(true));
    store
        .write_difference(Unit(unit), page, 0, &stored, bases)
        .unwrap()
}

/// Units 10 to 17: a shared page and its alias, differences to one and to three items, a group of four.
fn refer<D: Storage>(store: &mut Store<D>) -> [ItemNumber; 3] {
    let one = store.share(Unit(10)).unwrap().unwrap();
    assert!(store.write_alias(Unit(11), &page(10), one, 0).unwrap());
    assert!(difference(store, 12, &revision(10, 1), &[one]));
    let group: Vec<u8> = (14..18).flat_map(page).collect();
    let group = store.add_item(&group, 0).unwrap().unwrap();
    for slice in 0..4 {
        let unit = 14 + u64::from(slice);
        assert!(
            store
                .write_alias(Unit(unit), &page(unit), group, slice)
                .unwrap()
        );
    }
    let other = store.add_item(&page(18), 0).unwrap().unwrap();
    let mixed = [&page(10)[..1000], &page(15)[..1096], &page(18)[..2000]].concat();
    assert!(difference(store, 13, &mixed, &[one, group, other]));
    [one, group, other]
}

/// The content of a unit after [`refer`].
fn content(unit: u64) -> Vec<u8> {
    match unit {
        11 => page(10),
        12 => revision(10, 1),
        13 => [&page(10)[..1000], &page(15)[..1096], &page(18)[..2000]].concat(),
        unit => page(unit),
    }
}

fn assert_content<D: Storage>(store: &mut Store<D>, units: u64) {
    for unit in 0..units {
        assert!(read(store, unit) == content(unit), "unit {unit}");
    }
}

#[test]
fn units_stored_by_reference_read_as_before() {
    let disk = MemoryStorage::default();
    let mut store = filled(&disk, 40);
    let before = store.info().unwrap().stored_bytes;
    let [one, group, other] = refer(&mut store);
    assert_content(&mut store, 40);
    store.flush().unwrap();
    assert_content(&mut store, 40);
    assert_sound(&mut store);
    let info = store.info().unwrap();
    assert_eq!((info.items, info.stored_units), (3, 40));
    assert!(
        info.stored_bytes < before - 1000,
        "{} of {before}",
        info.stored_bytes
    );
    let mut kinds = Vec::new();
    store
        .units(&mut |unit| kinds.push((unit.number.0, unit.kind)))
        .unwrap();
    for (unit, kind) in kinds {
        let expected = match unit {
            10 | 11 | 14..18 => StoredKind::Alias,
            12 | 13 => StoredKind::Difference,
            _ => StoredKind::Own,
        };
        assert_eq!(kind, expected, "unit {unit}");
    }
    // Another handle, without what this one has in memory.
    let mut other_handle = Store::open(&disk, options()).unwrap();
    other_handle.refresh().unwrap();
    assert_content(&mut other_handle, 40);
    assert_sound(&mut other_handle);
    let alias = |item, slice| Reference::Alias { item, slice };
    assert_eq!(store.reference(Unit(10)).unwrap(), alias(one, 0));
    assert_eq!(store.reference(Unit(17)).unwrap(), alias(group, 3));
    assert!(matches!(
        store.reference(Unit(13)).unwrap(),
        Reference::Difference { bases, .. } if bases == [one, group, other]
    ));
    assert_eq!(
        store.share(Unit(10)).unwrap(),
        Some(one),
        "it is one already"
    );
    for unit in [0, 12, 14, 99] {
        assert_eq!(store.share(Unit(unit)).unwrap(), None, "unit {unit}");
    }
}

#[test]
fn an_item_lives_until_its_last_name_goes() {
    let disk = MemoryStorage::default();
    let mut store = filled(&disk, 40);
    let [one, ..] = refer(&mut store);
    store.flush().unwrap();
    // Its owner is written again, and the item stays.
    write(&mut store, 10, &page(1010));
    store.commit().unwrap();
    assert!(read(&mut store, 10) == page(1010));
    for unit in 11..18 {
        assert!(read(&mut store, unit) == content(unit), "unit {unit}");
    }
    assert_sound(&mut store);
    // A name goes, and another one comes in its place.
    write(&mut store, 11, &page(1011));
    assert!(store.write_alias(Unit(20), &page(10), one, 0).unwrap());
    store.commit().unwrap();
    assert_eq!(items(&mut store), 3);
    // The last ones go: of a difference, an alias, and by truncation.
    write(&mut store, 20, &page(20));
    write(&mut store, 12, &page(12));
    write(&mut store, 13, &page(13));
    store.commit().unwrap();
    assert_eq!(items(&mut store), 1, "the group is left");
    assert!(!store.read_item(one, &mut Vec::new()).unwrap());
    assert_sound(&mut store);
    store.truncate(17 * PAGE as u64).unwrap();
    store.commit().unwrap();
    assert_eq!(items(&mut store), 1);
    assert!(read(&mut store, 16) == page(16));
    store.truncate(15 * PAGE as u64).unwrap();
    store.commit().unwrap();
    assert!(read(&mut store, 14) == page(14));
    store.truncate(14 * PAGE as u64).unwrap();
    store.flush().unwrap();
    assert_eq!(items(&mut store), 0);
    assert_sound(&mut store);
    // Numbers are given again, and the count goes up once more.
    let again = store.share(Unit(5)).unwrap().unwrap();
    assert!(store.write_alias(Unit(6), &page(5), again, 0).unwrap());
    store.flush().unwrap();
    assert_eq!(items(&mut store), 1);
    assert!(read(&mut store, 6) == page(5));
    assert_sound(&mut store);
}

#[test]
fn unnamed_items_and_a_rollback_leave_nothing() {
    let mut store = filled(MemoryStorage::default(), 40);
    let before = store.info().unwrap().stored_bytes;
    assert!(store.add_item(&page(500), 0).unwrap().is_some());
    store.flush().unwrap();
    let after = store.info().unwrap().stored_bytes;
    assert_eq!((items(&mut store), after), (0, before));
    refer(&mut store);
    store.rollback();
    assert_eq!(items(&mut store), 0);
    for unit in 0..40 {
        assert!(read(&mut store, unit) == page(unit), "unit {unit}");
    }
    assert_sound(&mut store);
}

/// The program that looks for references may be wrong, or too late.
#[test]
fn a_wrong_reference_is_refused_and_changes_nothing() {
    let mut store = filled(MemoryStorage::default(), 40);
    let [one, group, other] = refer(&mut store);
    let missing = ItemNumber(77);
    for (item, slice) in [(one, 1), (group, 0), (group, 4), (other, 0), (missing, 0)] {
        let page = content(20);
        let done = store.write_alias(Unit(20), &page, item, slice).unwrap();
        assert!(!done, "{item:?}, slice {slice}");
    }
    let page = revision(10, 2);
    let mut stored = Vec::new();
    let prefix = self::page(10);
    let encoded = DifferenceEncoder::new(3).encode(&page, &prefix, &mut stored);
    assert_eq!(encoded, Ok(true));
    let none = &mut Vec::new();
    let bases: [&[ItemNumber]; 6] = [
        &[],
        &[other],
        &[missing],
        &[one, missing],
        &[one, one],
        &[one, group, other, missing],
    ];
    for bases in bases {
        let done = store.write_difference(Unit(20), &page, 0, &stored, bases);
        assert!(!done.unwrap(), "{bases:?}");
    }
    let wrong = [&stored[..stored.len() - 1], none, &[7; 4096], &[7; 100]];
    for stored in wrong {
        let done = store.write_difference(Unit(20), &page, 0, stored, &[one]);
        assert!(!done.unwrap(), "{} bytes", stored.len());
    }
    let unchanged = store.write_difference(Unit(20), &self::page(20), 0, &stored, &[one]);
    assert!(!unchanged.unwrap());
    let first = store.write_difference(Unit(0), &page, 0, &stored, &[one]);
    assert!(!first.unwrap(), "the first unit stands alone");
    assert!(!store.write_alias(Unit(0), &self::page(10), one, 0).unwrap());
    for len in [0, 100, 3 * PAGE, 32 * PAGE] {
        assert_eq!(store.add_item(&vec![7; len], 0).unwrap(), None, "{len}");
    }
    assert_content(&mut store, 40);
    store.flush().unwrap();
    assert_sound(&mut store);
    assert!(
        store
            .write_difference(Unit(20), &page, 0, &stored, &[one])
            .unwrap()
    );
    assert!(read(&mut store, 20) == page);
}

/// A database may end within a unit: what is past its end reads as zeros when it grows.
#[test]
fn no_reference_brings_bytes_past_the_end() {
    let mut store = filled(MemoryStorage::default(), 12);
    store.truncate(11 * PAGE as u64 + 512).unwrap();
    store.commit().unwrap();
    let item = store.share(Unit(10)).unwrap().unwrap();
    assert!(!store.write_alias(Unit(11), &page(10), item, 0).unwrap());
    // Behind the end a unit is new.
    assert!(store.write_alias(Unit(13), &page(10), item, 0).unwrap());
    store.commit().unwrap();
    assert_eq!(store.size(), 14 * PAGE as u64);
    assert!(read(&mut store, 12).iter().all(|byte| *byte == 0));
    assert!(read(&mut store, 13) == page(10));
}

/// Identical pages have identical frames: what tells them apart is what they are the difference to.
#[test]
fn one_frame_at_one_place_is_another_page_with_another_base() {
    let disk = MemoryStorage::default();
    let cache = Arc::new(Cache::new(64 << 20));
    let file = FileId::unique();
    let shared = || Options {
        cache: Arc::clone(&cache),
        file,
        ..options()
    };
    // The writer is another process, as far as its cache goes.
    let mut store = filled(&disk, 40);
    let bases = [20, 21].map(|unit| store.share(Unit(unit)).unwrap().unwrap());
    store.flush().unwrap();
    let unit = litepack_btree::PageNumber::from_index(5).unwrap();
    let mut places = Vec::new();
    for round in 0..40 {
        let at = (round * 7 / 3) % 2;
        assert!(difference(
            &mut store,
            5,
            &page(20 + at as u64),
            &bases[at..at + 1]
        ));
        store.flush().unwrap();
        places.push((at, store.place_of_page(unit).unwrap().unwrap()));
        let mut reader = Store::open(&disk, shared()).unwrap();
        reader.refresh().unwrap();
        assert!(
            read(&mut reader, 5) == page(20 + at as u64),
            "round {round}"
        );
    }
    let other = |(at, place): &(usize, _)| places.contains(&(1 - at, *place));
    assert!(places.iter().any(other), "no place had both: {places:?}");
}

#[test]
fn a_dictionary_that_only_items_need_stays() {
    let mut store = filled(MemoryStorage::default(), 40);
    let bytes: Vec<u8> = (0..5).flat_map(page).collect();
    let number = store
        .add_dictionary(&Dictionary::new(bytes), vec![1])
        .unwrap();
    let item = store.add_item(&page(3), number).unwrap().unwrap();
    assert!(store.write_alias(Unit(30), &page(3), item, 0).unwrap());
    assert!(store.write_alias(Unit(31), &page(3), item, 0).unwrap());
    store.drop_unused_dictionaries(&[]).unwrap();
    store.flush().unwrap();
    assert!(read(&mut store, 30) == page(3));
    assert_sound(&mut store);
    assert_eq!(store.info().unwrap().dictionaries.len(), 1);
    // Another one takes its place: the item follows, and the first one goes.
    let next = Dictionary::new((0..9).flat_map(page).collect::<Vec<u8>>());
    let next = store.add_dictionary(&next, vec![1]).unwrap();
    store.replace_dictionary(number, next).unwrap();
    let mut from = Some(Unit::FIRST);
    while let Some(at) = from {
        from = store.recompress(at, &|_| 0).unwrap();
    }
    store.drop_unused_dictionaries(&[]).unwrap();
    store.flush().unwrap();
    assert_eq!(store.info().unwrap().dictionaries.len(), 1);
    assert!(read(&mut store, 31) == page(3));
    assert_sound(&mut store);
}

#[test]
fn maintenance_lets_go_of_references_that_do_not_pay() {
    let mut store = filled(MemoryStorage::default(), 40);
    refer(&mut store);
    let alone = store.share(Unit(20)).unwrap();
    assert!(alone.is_some());
    store.flush().unwrap();
    assert_eq!(items(&mut store), 4);
    for unit in [14, 15, 16] {
        write(&mut store, unit, &page(unit));
    }
    write(&mut store, 13, &content(13));
    store.flush().unwrap();
    let mut from = Some(Unit::FIRST);
    while let Some(at) = from {
        from = store.recompress(at, &|_| 0).unwrap();
        store.commit().unwrap();
    }
    // The unit that alone named its item, and the last of the group, stand alone again.
    assert_eq!(store.reference(Unit(20)).unwrap(), {
        let len = store.stored_len(Unit(20)).unwrap();
        Reference::Own { len }
    });
    assert!(matches!(
        store.reference(Unit(17)).unwrap(),
        Reference::Own { .. }
    ));
    assert!(matches!(
        store.reference(Unit(12)).unwrap(),
        Reference::Difference { .. }
    ));
    assert_eq!(items(&mut store), 1);
    assert_content(&mut store, 40);
    assert_sound(&mut store);
}

/// A difference that stays is only told the dictionary for when its unit is written again. Its extent is the same.
#[test]
fn a_difference_that_stays_keeps_its_extent() {
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, options()).unwrap();
    for unit in 0..40 {
        write(&mut store, unit, &page(unit));
    }
    refer(&mut store);
    let item = store.share(Unit(30)).unwrap().unwrap();
    for unit in [31, 32] {
        assert!(difference(&mut store, unit, &revision(30, unit), &[item]));
    }
    store.flush().unwrap();
    let dictionary = Dictionary::new(page(100));
    let number = store.add_dictionary(&dictionary, vec![]).unwrap();
    let mut from = Some(Unit(0));
    while let Some(at) = from {
        from = store.recompress(at, &|_| number).unwrap();
    }
    store.flush().unwrap();
    assert_eq!(store.dictionary_of(Unit(31)).unwrap(), number);
    assert!(store.is_reference(Unit(31)).unwrap());
    assert_sound(&mut store);
    // Nothing that is written comes to where it is.
    for unit in 33..40 {
        write(&mut store, unit, &page(unit + 50));
        store.flush().unwrap();
    }
    for unit in [31, 32] {
        assert_eq!(read(&mut store, unit), revision(30, unit));
    }
    assert_sound(&mut store);
}

/// Everything is moved: into order, and down. A process dies at each call.
#[test]
fn items_move_and_a_death_on_the_way_loses_nothing() {
    let original = {
        let disk = CrashingStorage::default();
        let mut store = open(&disk);
        for unit in (0..200).rev() {
            write(&mut store, unit, &page(unit));
            if unit % 7 == 0 {
                store.commit().unwrap();
            }
        }
        store.flush().unwrap();
        refer(&mut store);
        for unit in (20..190).step_by(6) {
            let item = store.share(Unit(unit)).unwrap().unwrap();
            assert!(
                store
                    .write_alias(Unit(unit + 1), &page(unit), item, 0)
                    .unwrap()
            );
            assert!(difference(
                &mut store,
                unit + 2,
                &revision(unit, 3),
                &[item]
            ));
        }
        store.flush().unwrap();
        disk.after_power_loss(0)
    };
    let expected = |unit: u64| match unit {
        21..190 if unit % 6 == 3 => page(unit - 1),
        22..191 if unit % 6 == 4 => revision(unit - 2, 3),
        unit => content(unit),
    };
    let assert_all = |store: &mut Store<CrashingStorage>, context: &str| {
        for unit in 0..200 {
            assert!(
                read(store, unit) == expected(unit),
                "{context}, unit {unit}"
            );
        }
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0), "{context}");
    };
    let arrange = |store: &mut Store<CrashingStorage>| -> Result<(), Error> {
        let mut at = store.reorder()?;
        while let Some(next) = at {
            at = store.reorder_some(next)?;
        }
        store.compact_fully()
    };
    let disk = CrashingStorage::with_image(original.clone());
    let mut store = open(&disk);
    assert_all(&mut store, "before");
    assert!(store.reorder().unwrap().is_some(), "it is not in order");
    let (calls, end) = (disk.calls(), store.end());
    arrange(&mut store).unwrap();
    let calls = disk.calls() - calls;
    assert_all(&mut store, "after");
    assert!(store.end() < end && store.reorder().unwrap().is_none());
    for death in (0..calls).step_by(3) {
        let context = format!("death at call {death} of {calls}");
        let disk = CrashingStorage::with_image(original.clone());
        let mut store = open(&disk);
        disk.fail(disk.calls() + death, u64::MAX);
        let _ = arrange(&mut store);
        std::mem::forget(store);
        disk.fail(0, 0);
        assert_all(&mut open(&disk), &context);
        let lost = CrashingStorage::with_image(disk.after_power_loss(death));
        assert_all(&mut open(&lost), &context);
    }
}

/// Items at the end of a file do not keep the file long.
#[test]
fn a_compaction_moves_items_down() {
    let mut store = filled(MemoryStorage::default(), 300);
    for unit in 250..300 {
        let item = store.share(Unit(unit)).unwrap().unwrap();
        let alias = Unit(unit - 50);
        assert!(store.write_alias(alias, &page(unit), item, 0).unwrap());
    }
    store.flush().unwrap();
    let end = store.end();
    for unit in 1..200 {
        write(&mut store, unit, &[0; PAGE]);
    }
    store.flush().unwrap();
    store.compact_fully().unwrap();
    assert!(store.end() < end / 2, "{} of {end}", store.end());
    for unit in 200..250 {
        assert!(read(&mut store, unit) == page(unit + 50), "unit {unit}");
    }
    assert_sound(&mut store);
}

#[test]
fn another_page_size_ends_with_no_items() {
    let header = |page_size: u16| {
        let mut page = page(0);
        page[..16].copy_from_slice(b"SQLite format 3\0");
        page[16..18].copy_from_slice(&page_size.to_be_bytes());
        page
    };
    for (from, to) in [(4096, 8192), (4096, 16384)] {
        let mut store = filled(MemoryStorage::default(), 40);
        write(&mut store, 0, &header(from));
        refer(&mut store);
        store.flush().unwrap();
        assert_eq!(items(&mut store), 3);
        write(&mut store, 0, &header(to));
        // In the same transaction, too.
        let item = store.share(Unit(30)).unwrap().unwrap();
        assert!(store.write_alias(Unit(31), &page(30), item, 0).unwrap());
        store.flush().unwrap();
        assert_eq!((store.unit_size(), items(&mut store)), (to.into(), 0));
        for unit in 1..40 {
            let expected = if unit == 31 { page(30) } else { content(unit) };
            assert!(read(&mut store, unit) == expected, "unit {unit}");
        }
        assert_sound(&mut store);
        // And with units of that size there are new ones.
        let item = store.share(Unit(3)).unwrap().unwrap();
        let size = usize::from(to);
        let mut same = vec![0; size];
        store.read(3 * size as u64, &mut same).unwrap();
        assert!(store.write_alias(Unit(4), &same, item, 0).unwrap());
        store.flush().unwrap();
        assert_sound(&mut store);
    }
}

#[test]
fn no_references_are_made_while_what_is_deleted_must_go() {
    let mut store = filled(MemoryStorage::default(), 40);
    let [one, ..] = refer(&mut store);
    store.flush().unwrap();
    store.set_erase(Erase::WithCommit);
    assert!(!store.may_refer());
    assert_eq!(store.share(Unit(20)).unwrap(), None);
    assert_eq!(store.add_item(&page(1), 0).unwrap(), None);
    assert!(!store.write_alias(Unit(20), &page(10), one, 0).unwrap());
    assert!(!difference(&mut store, 20, &revision(10, 5), &[one]));
    store.flush().unwrap();
    assert_content(&mut store, 40);
}

/// When the last name of an item is gone, so is its content.
#[test]
fn the_content_of_an_item_is_erased_with_its_last_name() {
    for erase in [Erase::WithFlush, Erase::WithCommit] {
        let disk = MemoryStorage::default();
        // Its bytes are looked for.
        let plain = Options {
            key: None,
            ..options()
        };
        let mut store = Store::open(&disk, plain).unwrap();
        for unit in 0..40 {
            write(&mut store, unit, &page(unit));
        }
        // Stored raw, so that it can be looked for.
        let mut noise = litepack_io::random::SplitMix64::new(5);
        let secret: Vec<u8> = (0..PAGE / 8)
            .flat_map(|_| noise.next_u64().to_le_bytes())
            .collect();
        let item = store.add_item(&secret, 0).unwrap().unwrap();
        for unit in [20, 21] {
            assert!(store.write_alias(Unit(unit), &secret, item, 0).unwrap());
        }
        store.flush().unwrap();
        store.set_erase(erase);
        let is_there = || {
            let mut bytes = vec![0; ReadAt::len(&&disk).unwrap() as usize];
            disk.read_at(&mut bytes, 0).unwrap();
            bytes.windows(64).any(|window| window == &secret[100..164])
        };
        write(&mut store, 20, &page(20));
        store.flush().unwrap();
        assert!(is_there(), "unit 21 needs it");
        write(&mut store, 21, &page(21));
        store.flush().unwrap();
        // The commit before refers to it: it is erased when that is not needed any more.
        write(&mut store, 22, &page(22));
        store.flush().unwrap();
        assert!(!is_there(), "{erase:?}");
        assert_sound(&mut store);
    }
}

/// Damage of an item is told of every unit that needs it, with both names.
#[test]
fn damage_names_the_page_and_the_item() {
    let disk = MemoryStorage::default();
    let mut store = filled(&disk, 40);
    refer(&mut store);
    store.flush().unwrap();
    let page = |unit: u64| litepack_btree::PageNumber::from_index(unit).unwrap();
    let (place, _) = store.place_of_page(page(10)).unwrap().unwrap();
    let mut byte = [0];
    disk.read_at(&mut byte, place.0 + 5).unwrap();
    disk.write_at(&[!byte[0]], place.0 + 5).unwrap();
    let mut store = Store::open(&disk, options()).unwrap();
    store.refresh().unwrap();
    for (unit, item) in [
        (10, "the item"),
        (11, "the item"),
        (12, "item "),
        (13, "item "),
    ] {
        let error = store.read(unit * PAGE as u64, &mut [0; PAGE]).unwrap_err();
        let words = error.to_string();
        let (name, item) = (format!("page {}", unit + 1), item);
        let is_told = words.contains(&name) && words.contains(item);
        assert!(is_told && words.contains("checksum"), "{words}");
    }
    assert!(read(&mut store, 14) == content(14));
    let damage = store.check(&mut |_| Ok(())).unwrap().damage;
    let what: Vec<_> = damage.iter().map(|damage| damage.what.as_str()).collect();
    assert_eq!(what, ["item 0", "page 13", "page 14"], "{damage:?}");
}

/// As far as one item goes.
#[test]
fn ten_thousand_units_on_one_item() {
    let disk = MemoryStorage::default();
    let mut store = filled(&disk, 12);
    let item = store.share(Unit(10)).unwrap().unwrap();
    for unit in 20..10_020 {
        let done = if unit % 10 == 0 {
            difference(&mut store, unit, &revision(10, unit), &[item])
        } else {
            store.write_alias(Unit(unit), &page(10), item, 0).unwrap()
        };
        assert!(done, "unit {unit}");
    }
    store.flush().unwrap();
    assert_eq!(items(&mut store), 1);
    assert_sound(&mut store);
    for unit in [20, 21, 5000, 10_011, 10_019] {
        let expected = if unit % 10 == 0 {
            revision(10, unit)
        } else {
            page(10)
        };
        assert!(read(&mut store, unit) == expected, "unit {unit}");
    }
    // Units that are cut off let go of it, and the last one of its extent.
    store.truncate(100 * PAGE as u64).unwrap();
    store.flush().unwrap();
    assert_sound(&mut store);
    assert!(read(&mut store, 99) == page(10));
    write(&mut store, 10, &page(1));
    store.truncate(19 * PAGE as u64).unwrap();
    store.flush().unwrap();
    assert_eq!(items(&mut store), 0);
    assert_sound(&mut store);
}
