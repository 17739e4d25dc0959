//! Units that become private differences by being written, and those that must not.

use std::ops::Range;

use litepack_io::cache::Spare;
use litepack_io::random::SplitMix64;
use litepack_io::storage::Storage;
use litepack_io::testing::{CrashingStorage, MemoryStorage};

use crate::format::basis::Basis;
use crate::format::leaf::{Entry, Extent};
use crate::format::node::TreeKind;
use crate::format::unit::Unit;
use crate::medium::source::Source;
use crate::options::Options;
use crate::space::erase::Erase;
use crate::testing::{options, plain_options};
use crate::transaction::store::Store;

const PAGE: usize = 4096;
const UNITS: u64 = 200;

/// Text of which a page takes about 1500 bytes in the file.
fn page(number: u64, version: u64) -> Vec<u8> {
    let mut noise = SplitMix64::new(number << 32 | version);
    let words = std::iter::repeat_with(|| format!("{number}: {};", noise.next_u64() % 5000));
    let bytes: Vec<u8> = words.take(800).flat_map(String::into_bytes).collect();
    bytes[..PAGE].to_vec()
}

/// The same page after a change of some bytes.
fn changed(number: u64, change: u8) -> Vec<u8> {
    let mut page = page(number, 0);
    page[1000..1010].fill(change);
    page
}

fn write<D: Storage>(store: &mut Store<D>, unit: u64, page: &[u8]) {
    store.write(unit * PAGE as u64, page).unwrap();
}

fn read<D: Storage>(store: &mut Store<D>, unit: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    store.read(unit * PAGE as u64, &mut page).unwrap();
    page
}

fn open<D: Storage>(disk: D) -> Store<D> {
    open_with(disk, options())
}

fn open_with<D: Storage>(disk: D, options: Options) -> Store<D> {
    let mut store = Store::open(disk, options).unwrap();
    store.refresh().unwrap();
    store
}

fn file<D: Storage>(disk: D) -> Store<D> {
    file_with(disk, options())
}

fn file_with<D: Storage>(disk: D, options: Options) -> Store<D> {
    let mut store = open_with(disk, options);
    for unit in 0..UNITS {
        write(&mut store, unit, &page(unit, 0));
    }
    store.flush().unwrap();
    store
}

/// What a unit is the difference to.
fn former<D: Storage>(store: &mut Store<D>, unit: u64) -> Option<Extent> {
    match store.entry(Unit(unit)).unwrap().basis {
        Basis::Former(former) => Some(former),
        _ => None,
    }
}

/// What a unit is decoded from.
fn source<D: Storage>(store: &mut Store<D>, unit: u64) -> Source {
    let entry = store.entry(Unit(unit)).unwrap();
    let medium = store.snapshot().medium();
    let source = store.snapshot().image().source(Unit(unit), &entry, medium);
    source.unwrap()
}

/// Counts the differences of the newest commit, and compares what they take with what its record says.
fn differences<D: Storage>(store: &mut Store<D>) -> u64 {
    let report = store.check(&mut |_| Ok(())).unwrap();
    assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    let (mut count, mut spent) = (0, 0);
    let image = store.snapshot().image();
    let each = |entry: &Entry| {
        count += u64::from(entry.difference_len() > 0);
        spent += entry.difference_len();
    };
    image
        .for_each_entry(store.snapshot().medium(), each)
        .unwrap();
    let record = store.snapshot().commit().unwrap().record;
    assert_eq!(record.difference_bytes, spent);
    count
}

#[test]
fn a_small_change_is_stored_as_a_difference_to_what_was_whole() {
    let disk = CrashingStorage::default();
    let mut store = file(disk.clone());
    let whole = store.entry(Unit(7)).unwrap().extent();
    for change in 1..5 {
        write(&mut store, 7, &changed(7, change));
        store.commit().unwrap();
        assert_eq!(former(&mut store, 7), Some(whole), "change {change}");
        assert!(store.entry(Unit(7)).unwrap().len < 60);
        assert!(read(&mut store, 7) == changed(7, change));
        assert!(read(&mut open(disk.clone()), 7) == changed(7, change));
        assert_eq!(differences(&mut store), 1);
        if change % 2 == 0 {
            store.flush().unwrap();
        }
    }
    // Whatever a power loss leaves is whole, and says what its differences take.
    write(&mut store, 7, &changed(7, 9));
    write(&mut store, 8, &changed(8, 9));
    store.commit().unwrap();
    for loss in 0..40 {
        let mut store = open(CrashingStorage::with_image(disk.after_power_loss(loss)));
        let count = differences(&mut store);
        let change = if count == 2 { 9 } else { 4 };
        assert!(read(&mut store, 7) == changed(7, change), "loss {loss}");
    }
}

#[test]
fn what_has_nothing_to_differ_from_or_too_little_in_common_is_whole() {
    let mut store = file(MemoryStorage::default());
    write(&mut store, 0, &changed(0, 1));
    write(&mut store, 5, &page(5, 1));
    write(&mut store, UNITS, &page(UNITS, 0));
    write(&mut store, 6, &[0; PAGE]);
    // More than a third of it is new.
    let mut half = page(8, 0);
    half[..PAGE / 2].copy_from_slice(&page(8, 1)[..PAGE / 2]);
    write(&mut store, 8, &half);
    // It has become empty, so its former extent has more than it needs.
    let mut empty = page(9, 0);
    empty[100..].fill(0);
    write(&mut store, 9, &empty);
    store.commit().unwrap();
    assert_eq!(differences(&mut store), 0);
    assert!(read(&mut store, 9) == empty && read(&mut store, 8) == half);
    // What was zero has nothing to differ from, either.
    write(&mut store, 6, &page(6, 0));
    store.commit().unwrap();
    assert_eq!(differences(&mut store), 0);

    let mut store = open(MemoryStorage::default());
    store.writer.differences = false;
    write(&mut store, 1, &page(1, 0));
    store.commit().unwrap();
    write(&mut store, 1, &changed(1, 1));
    store.commit().unwrap();
    assert_eq!(differences(&mut store), 0, "they are switched off");
}

#[test]
fn a_difference_that_has_grown_becomes_whole_and_a_whole_gives_both_extents_back() {
    let mut store = file(MemoryStorage::default());
    let mut now = page(7, 0);
    let mut was_difference = 0;
    for step in 0..20 {
        now[step * 200..][..200].copy_from_slice(&page(7, 1)[step * 200..][..200]);
        write(&mut store, 7, &now);
        store.commit().unwrap();
        was_difference += differences(&mut store);
        assert!(read(&mut store, 7) == now);
    }
    assert!((2..19).contains(&was_difference), "{was_difference} times");
    // A transaction that is dropped leaves the budget as it was.
    write(&mut store, 3, &changed(3, 1));
    store.commit().unwrap();
    let before = differences(&mut store);
    write(&mut store, 4, &changed(4, 1));
    write(&mut store, 3, &page(3, 1));
    store.reference(Unit(3)).unwrap();
    store.rollback();
    write(&mut store, 20, &page(20, 1));
    store.commit().unwrap();
    assert_eq!(differences(&mut store), before);
}

#[test]
fn differences_have_a_budget() {
    for (threads, together) in [(1, 1), (1, 64), (3, 1000)] {
        let disk = MemoryStorage::default();
        let mut store = file(&disk);
        store.set_threads(threads);
        let mut noise = SplitMix64::new(4);
        let mut pages: Vec<_> = (0..UNITS).map(|unit| page(unit, 0)).collect();
        let mut most = 0;
        for step in 0..2000 {
            let unit = 1 + noise.next_u64() % (UNITS - 1);
            let page = &mut pages[unit as usize];
            let at = (noise.next_u64() % 4000) as usize;
            page[at..at + 90].copy_from_slice(&self::page(unit, step)[at..at + 90]);
            write(&mut store, unit, page);
            if step % together == 0 {
                store.commit().unwrap();
                let record = store.snapshot().commit().unwrap().record;
                assert!(record.difference_bytes <= record.stored_bytes / 10);
                most = most.max(differences(&mut store));
            }
        }
        store.flush().unwrap();
        let context = format!("{threads} threads, {together} together: {most} at most");
        assert!(most > 20, "{context}");
        // It is known to who opens the file, too.
        let mut again = open(&disk);
        assert_eq!(differences(&mut again), differences(&mut store));
        for (unit, page) in pages.iter().enumerate() {
            assert!(read(&mut again, unit as u64) == *page, "{context}");
        }
    }
}

/// A page of which so much is new that the budget is for about sixty of them.
fn much_changed(number: u64) -> Vec<u8> {
    let mut changed = page(number, 0);
    changed[2000..3000].copy_from_slice(&page(number, 1)[2000..3000]);
    changed
}

/// Differences that a transaction has decided on and that are cut off do not count any more.
#[test]
fn what_is_cut_off_leaves_its_part_of_the_budget_to_others() {
    let mut store = file(MemoryStorage::default());
    store
        .step(|transaction| {
            for unit in 50..UNITS {
                transaction.write(unit * PAGE as u64, &much_changed(unit))?;
            }
            transaction.compare_buffered()?;
            let growth = transaction.store.writer.buffer.growth();
            assert!(growth > 20_000, "the budget is not spent: {growth} bytes");
            Ok(())
        })
        .unwrap();
    store.truncate(50 * PAGE as u64).unwrap();
    for unit in 1..10 {
        write(&mut store, unit, &much_changed(unit));
    }
    store.commit().unwrap();
    assert_eq!(differences(&mut store), 9);
}

/// Differences are besides what a file would take without them. They leave less of it free when everything is written
/// anew, so a compaction would come later by what is free alone.
#[test]
fn a_file_is_compacted_as_early_as_without_differences() {
    let change = |store: &mut Store<_>, units: Range<u64>, page: &dyn Fn(u64) -> Vec<u8>| {
        for unit in units {
            write(store, unit, &page(unit));
        }
        store.flush().unwrap();
        store.snapshot().commit().unwrap().record
    };
    // Units with differences, and so many that are written anew at once that by these the file is to be compacted.
    let (mut store, record) = (100..UNITS)
        .step_by(5)
        .map(|stop| {
            let mut store = file(MemoryStorage::default());
            store.writer.compaction.wait_for(u64::MAX / 2);
            change(&mut store, 1..60, &much_changed);
            let record = change(&mut store, 60..stop, &|unit| page(unit, 1));
            (store, record)
        })
        .find(|(_, record)| record.free_bytes + record.difference_bytes > record.end.0 / 5 * 2)
        .expect("a file that is to be compacted");
    assert!(record.free_bytes < record.end.0 / 5 * 2, "{record:?}");
    store.writer.compaction.due_at = 0;
    let after = change(&mut store, 0..1, &|_| changed(0, 1));
    assert!(after.free_bytes < after.end.0 / 10, "{after:?}");
    assert!(differences(&mut store) > 20);
}

/// A place may have had another page with the same checksum, unless the file is encrypted: no nonce comes twice. This one
/// is put there by hand.
#[test]
fn what_was_known_of_a_place_is_not_taken_for_the_difference_there() {
    let image = MemoryStorage::default();
    drop(file_with(&image, plain_options()));
    let mut store = open_with(MemoryStorage::new(image.snapshot()), plain_options());
    write(&mut store, 7, &changed(7, 1));
    store.flush().unwrap();
    let first = source(&mut store, 7);
    write(&mut store, 7, &changed(7, 2));
    store.flush().unwrap();
    let second = source(&mut store, 7);
    assert_ne!(first, second);
    let is_known = |store: &Store<_>, source: &Source| {
        let cache = &store.snapshot().medium().cache;
        cache.has_page(source, PAGE as u32)
    };
    assert!(is_known(&store, &second) && !is_known(&store, &first));

    // The same once more, in another place of the cache, and the unit as it was is not kept.
    let mut store = open_with(MemoryStorage::new(image.snapshot()), plain_options());
    store
        .step(|transaction| {
            transaction.write(7 * PAGE as u64, &changed(7, 1))?;
            transaction.compare_buffered()?;
            let medium = transaction.medium();
            let spare = &mut Spare::default();
            medium.cache.put_page(Unit(7), &first, &page(9, 9), spare);
            let former = first.bases().next().expect("a former extent").source(0);
            medium.cache.forget(&former, PAGE);
            Ok(())
        })
        .unwrap();
    store.flush().unwrap();
    assert_eq!(source(&mut store, 7), first, "it has the same place");
    assert!(read(&mut store, 7) == changed(7, 1));
}

/// The difference, or what it is the difference to.
#[test]
fn what_was_known_of_a_place_is_not_taken_for_what_is_moved_there() {
    for moves_former in [false, true] {
        let disk = MemoryStorage::default();
        let mut store = file(&disk);
        write(&mut store, 7, &changed(7, 1));
        store.flush().unwrap();
        store
            .step(|transaction| {
                let entry = transaction.entry(Unit(7))?;
                let extent = match entry.basis {
                    Basis::Former(former) if moves_former => former,
                    _ => entry.extent(),
                };
                let offset = transaction.space().alloc(extent.len.into())?;
                let moved = entry.moved(&extent, offset);
                let medium = transaction.medium();
                let source = transaction.image().source(Unit(7), &moved, medium)?;
                let former = source.bases().next().expect("a former extent").source(0);
                for source in [source, former] {
                    let spare = &mut Spare::default();
                    medium.cache.put_page(Unit(7), &source, &page(9, 9), spare);
                }
                transaction.move_extent(TreeKind::Map, Unit(7), entry, &extent, offset)?;
                Ok(())
            })
            .unwrap();
        store.flush().unwrap();
        assert!(read(&mut store, 7) == changed(7, 1));
        write(&mut store, 7, &changed(7, 2));
        store.flush().unwrap();
        assert!(read(&mut open(&disk), 7) == changed(7, 2));
    }
}

/// The units are compared when the buffer is large enough for workers, and again what is written again.
#[test]
fn what_is_written_again_in_a_transaction_is_stored_as_it_was_last() {
    for threads in [1, 3] {
        let mut store = file(MemoryStorage::default());
        store.set_threads(threads);
        // Small changes, and pages that workers begin with.
        for unit in 1..150 {
            let new = page(unit, 1);
            let page = if unit % 3 == 0 {
                &new
            } else {
                &changed(unit, 1)
            };
            write(&mut store, unit, page);
        }
        // A difference becomes another one or a whole, a whole becomes the same as it was.
        write(&mut store, 10, &changed(10, 2));
        write(&mut store, 11, &page(11, 2));
        write(&mut store, 12, &changed(12, 2));
        store.write(13 * PAGE as u64 + 5, &[7; 9]).unwrap();
        store.truncate(140 * PAGE as u64).unwrap();
        write(&mut store, 145, &changed(145, 3));
        store.commit().unwrap();
        let mut partly = changed(13, 1);
        partly[5..14].fill(7);
        for unit in 1..150 {
            let expected = match unit {
                10 | 12 => changed(unit, 2),
                11 => page(11, 2),
                13 => partly.clone(),
                145 => changed(145, 3),
                140.. => vec![0; PAGE],
                unit if unit % 3 == 0 => page(unit, 1),
                unit => changed(unit, 1),
            };
            assert!(read(&mut store, unit) == expected, "unit {unit}");
        }
        assert!(differences(&mut store) > 60);
        for (unit, is_difference) in [(10, true), (11, false), (13, true), (145, false)] {
            assert_eq!(former(&mut store, unit).is_some(), is_difference, "{unit}");
        }
    }
}

/// Its former extent is no longer its own when the difference gets its place.
#[test]
fn a_difference_to_an_extent_that_has_gone_is_not_stored() {
    for becomes_zero in [false, true] {
        let mut store = file(MemoryStorage::default());
        write(&mut store, 7, &changed(7, 1));
        write(&mut store, 8, &changed(8, 1));
        store
            .step(|transaction| {
                transaction.compare_buffered()?;
                assert!(transaction.store.writer.buffer.growth() > 40);
                let entry = transaction.entry(Unit(7))?;
                if becomes_zero {
                    transaction.set_entry(Unit(7), Entry::ZERO)?;
                } else {
                    let extent = entry.extent();
                    let offset = transaction.space().alloc(extent.len.into())?;
                    let unit = Unit(7);
                    transaction.move_extent(TreeKind::Map, unit, entry, &extent, offset)?;
                }
                Ok(())
            })
            .unwrap();
        store.flush().unwrap();
        assert!(former(&mut store, 7).is_none() && former(&mut store, 8).is_some());
        assert!(read(&mut store, 7) == changed(7, 1) && read(&mut store, 8) == changed(8, 1));
        assert_eq!(differences(&mut store), 1);
    }
}

#[test]
fn writing_a_unit_that_cannot_be_read_heals_it() {
    for is_difference in [false, true] {
        let disk = MemoryStorage::default();
        let mut store = file(&disk);
        if is_difference {
            write(&mut store, 7, &changed(7, 1));
            store.flush().unwrap();
        }
        let entry = store.entry(Unit(7)).unwrap();
        let damaged = former(&mut store, 7).unwrap_or(entry.extent());
        disk.write_at(&[0xaa; 3], damaged.offset.0 + 3).unwrap();
        let mut store = open(&disk);
        store.read(7 * PAGE as u64, &mut [0; PAGE]).unwrap_err();
        write(&mut store, 7, &changed(7, 2));
        store.flush().unwrap();
        assert!(read(&mut store, 7) == changed(7, 2));
        assert_eq!(differences(&mut store), 0);
    }
}

#[test]
fn a_check_counts_what_differences_take() {
    let disk = MemoryStorage::default();
    let mut store = file(&disk);
    write(&mut store, 7, &changed(7, 1));
    store.commit().unwrap();
    assert!(store.check(&mut |_| Ok(())).unwrap().is_ok());
    store
        .step(|transaction| {
            transaction.changes.stored.differences += 1;
            Ok(())
        })
        .unwrap();
    store.commit().unwrap();
    let damage = store.check(&mut |_| Ok(())).unwrap().damage;
    let whys: Vec<_> = damage.iter().map(|damage| &damage.what).collect();
    assert_eq!(whys, ["commit record"]);
}

/// The cache still has the page as it was before the damage.
#[test]
fn a_unit_does_not_become_a_difference_to_what_is_damaged_in_the_file_alone() {
    let disk = MemoryStorage::default();
    let mut store = file(&disk);
    let extent = store.entry(Unit(7)).unwrap().extent();
    assert!(read(&mut store, 7) == page(7, 0));
    disk.write_at(&[0xaa; 3], extent.offset.0 + 3).unwrap();
    assert!(read(&mut store, 7) == page(7, 0), "it is in the cache");
    write(&mut store, 7, &changed(7, 1));
    store.flush().unwrap();
    let mut store = open(&disk);
    assert!(read(&mut store, 7) == changed(7, 1));
    assert_eq!(differences(&mut store), 0);
}

/// While deleted content is to be erased with the commit, what a page was is not kept, be it a difference or not.
#[test]
fn secure_deletion_keeps_nothing_of_what_a_unit_was() {
    let secret = b"the secret that was deleted";
    let disk = MemoryStorage::default();
    // It is looked for in the file.
    let mut store = file_with(&disk, plain_options());
    for unit in [7, 8] {
        let mut page = vec![0; PAGE];
        // Not compressed, so that it can be found in the file.
        let mut noise = SplitMix64::new(unit);
        page.fill_with(|| noise.next_u64() as u8);
        page[500..500 + secret.len()].copy_from_slice(secret);
        write(&mut store, unit, &page);
    }
    store.flush().unwrap();
    let without = |store: &mut Store<_>, unit| {
        let mut page = read(store, unit);
        page[500..500 + secret.len()].fill(1);
        page
    };
    let page = without(&mut store, 7);
    write(&mut store, 7, &page);
    store.flush().unwrap();
    assert_eq!(differences(&mut store), 1);
    let found = |disk: &MemoryStorage| {
        let bytes = disk.snapshot();
        let windows = bytes.windows(secret.len());
        windows.filter(|bytes| bytes == secret).count()
    };
    assert_eq!(found(&disk), 2, "the difference keeps it");
    store.set_erase(Erase::WithCommit);
    for unit in [7, 8] {
        let mut page = without(&mut store, unit);
        page[600..610].fill(2);
        write(&mut store, unit, &page);
        store.commit().unwrap();
    }
    assert_eq!((found(&disk), differences(&mut store)), (0, 0));
}

#[test]
fn a_database_that_is_rewritten_or_gets_other_pages_ends_with_wholes() {
    let mut store = file(MemoryStorage::default());
    for unit in 1..30 {
        write(&mut store, unit, &changed(unit, 1));
    }
    store.commit().unwrap();
    assert_eq!(differences(&mut store), 29);
    store.set_rewriting(true);
    for unit in 1..20 {
        write(&mut store, unit, &changed(unit, 1));
    }
    store.commit().unwrap();
    store.set_rewriting(false);
    assert_eq!(differences(&mut store), 10);
    // The page size in the header of the database is another one.
    let mut header = vec![0; 8192];
    header[..16].copy_from_slice(b"SQLite format 3\0");
    header[16..18].copy_from_slice(&8192u16.to_be_bytes());
    header[18..24].copy_from_slice(&[1, 1, 0, 64, 32, 32]);
    store.write(0, &header).unwrap();
    store.commit().unwrap();
    assert_eq!(store.unit_size(), 8192);
    assert_eq!(differences(&mut store), 0);
    assert!(read(&mut store, 25) == changed(25, 1));
}

#[test]
fn maintenance_stores_differences_as_wholes() {
    let mut store = file(MemoryStorage::default());
    let number = store.dictionary_of(Unit(7)).unwrap();
    for unit in 1..30 {
        write(&mut store, unit, &changed(unit, 1));
    }
    store.flush().unwrap();
    assert_eq!(differences(&mut store), 29);
    let mut from = Some(Unit(0));
    while let Some(unit) = from {
        from = store.recompress(unit, &|_| number).unwrap();
        store.commit().unwrap();
    }
    assert_eq!(differences(&mut store), 0);
    assert_eq!(
        store.snapshot().commit().unwrap().record.difference_bytes,
        0
    );
    for unit in 1..30 {
        assert!(read(&mut store, unit) == changed(unit, 1));
    }
}

/// A record may claim anything.
#[test]
fn a_budget_that_lies_costs_no_page() {
    for claimed in [0, 1 << 40, u64::MAX] {
        let disk = MemoryStorage::default();
        let mut store = file(&disk);
        write(&mut store, 7, &changed(7, 1));
        store.flush().unwrap();
        let commit = store.snapshot().commit().unwrap();
        let mut record = commit.record;
        record.difference_bytes = claimed;
        let at = crate::format::layout::SLOT_OFFSETS[commit.slot];
        disk.write_at(&record.encode(store.snapshot().guard()), at.0)
            .unwrap();
        drop(store);
        let mut store = Store::open(&disk, options()).unwrap();
        if store.refresh().is_err() {
            assert!(claimed > 0, "it is refused as damage");
            continue;
        }
        for unit in 7..9 {
            write(&mut store, unit, &page(unit, 1));
            store.commit().unwrap();
        }
        assert!(read(&mut store, 7) == page(7, 1));
        assert_eq!(differences(&mut store), 0);
    }
}

/// The same content, however it is stored.
#[test]
fn many_random_changes_read_as_without_differences() {
    let with = |differences| Options {
        differences,
        ..options()
    };
    for seed in 0..6 {
        let (one, other) = (MemoryStorage::default(), MemoryStorage::default());
        let mut stores = [with(true), with(false)]
            .into_iter()
            .zip([&one, &other])
            .map(|(options, disk)| Store::open(disk, options).unwrap())
            .collect::<Vec<_>>();
        let mut noise = SplitMix64::new(seed);
        let mut any = |end: u64| noise.next_u64() % end;
        for step in 0..600 {
            let (offset, len) = match any(8) {
                0 => (any(60) * PAGE as u64, PAGE as u64),
                1 => (any(60 * PAGE as u64), 1 + any(9000)),
                _ => (any(60 * PAGE as u64), 1 + any(50)),
            };
            let bytes = page(step, seed).repeat(3);
            let size = any(70 * PAGE as u64);
            let (cut, ends) = (any(60) == 0, any(9));
            for store in &mut stores {
                store.write(offset, &bytes[..len as usize]).unwrap();
                if cut {
                    store.truncate(size).unwrap();
                }
                match ends {
                    0 => store.rollback(),
                    1..4 => store.commit().unwrap(),
                    4 => store.flush().unwrap(),
                    _ => {}
                }
            }
        }
        let mut contents = stores.iter_mut().map(|store| {
            let mut bytes = vec![0; store.size() as usize];
            store.read(0, &mut bytes).unwrap();
            bytes
        });
        assert!(contents.next() == contents.next(), "seed {seed}");
        drop(contents);
        for store in &mut stores {
            store.flush().unwrap();
        }
        assert!(differences(&mut stores[0]) > 0, "seed {seed}");
        assert_eq!(differences(&mut stores[1]), 0);
    }
}
