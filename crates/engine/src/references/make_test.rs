//! References as `pack` and maintenance make them: what is stored reads as it was, whatever was found.

use std::sync::Arc;

use litepack_io::interrupt::listen;
use litepack_io::random::SplitMix64;
use litepack_io::testing::MemoryStorage;
use litepack_store::{Cache, Erase, FileId, Options, StoredKind};

use super::*;
use crate::plan::{Effort, Plan};

const PAGE: u32 = 4096;

/// Pages that are kept apart by nothing but their bytes, and how often they were asked for.
struct Plain<'a>(&'a [u8], u64);

impl Source for Plain<'_> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        self.1 += 1;
        let found = self
            .0
            .get(offset as usize..)
            .and_then(|rest| rest.get(..buf.len()));
        found.is_some_and(|found| {
            buf.copy_from_slice(found);
            true
        })
    }

    fn dictionary_of(&mut self, _: Unit) -> DictId {
        0
    }
}

/// Words and numbers, of which no two seeds have more than words in common.
fn text(seed: u64, len: usize) -> Vec<u8> {
    // Neighbouring seeds would give the same numbers, one later.
    let mut random = SplitMix64::new(SplitMix64::new(seed).next_u64());
    let mut text = Vec::new();
    while text.len() < len {
        text.extend(format!("{:x} ", random.next_u64() >> 20).into_bytes());
    }
    text.truncate(len);
    text
}

fn effort(threads: usize) -> Effort {
    Effort::ordinary(5, threads)
}

fn open(disk: &MemoryStorage) -> Store<&MemoryStorage> {
    let options = Options {
        threads: 1,
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        ..Options::default()
    };
    Store::open(disk, options).unwrap()
}

fn make(plain: &[u8], unit_size: u32, threads: usize) -> Option<References> {
    let (effort, size) = (effort(threads), plain.len() as u64);
    let mut source = Plain(plain, 0);
    let plan = Plan::make(size, unit_size, effort, Vec::new(), &mut source).unwrap();
    let estimate = Estimate::of(size, unit_size, effort, &plan, &mut source).unwrap();
    estimate.map(|estimate| References::new(&estimate).unwrap())
}

/// Writes it as `pack` does, and compares each byte. Returns the bytes of the file.
fn pack(plain: &[u8], unit_size: u32, references: Option<&mut References>) -> u64 {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    fill(&mut store, plain, unit_size, references);
    store.flush_both_slots().unwrap();
    let report = store.check(&mut |_| Ok(())).unwrap();
    assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    let mut found = vec![0; plain.len()];
    assert_eq!(store.read(0, &mut found).unwrap(), plain.len());
    assert!(found == plain);
    assert_eq!(store.size(), plain.len() as u64);
    store.end()
}

fn fill(
    store: &mut Store<&MemoryStorage>,
    plain: &[u8],
    unit_size: u32,
    references: Option<&mut References>,
) {
    fill_with(store, plain, unit_size, references, &|_| 0);
}

fn fill_with(
    store: &mut Store<&MemoryStorage>,
    plain: &[u8],
    unit_size: u32,
    mut references: Option<&mut References>,
    number: &dyn Fn(Unit) -> DictId,
) {
    let mut source = Plain(plain, 0);
    let chunk = 1 << 20;
    for (at, pages) in plain.chunks(chunk).enumerate() {
        let first = Unit::holding((at * chunk) as u64, unit_size);
        if let Some(references) = &mut references {
            let written = references.write(store, &mut source, (first, pages), number);
            written.unwrap();
            continue;
        }
        for (page, unit) in pages.chunks(unit_size as usize).zip(first.0..) {
            let offset = Unit(unit).start(unit_size);
            store.write_with(offset, page, number(Unit(unit))).unwrap();
        }
    }
    // Once for each unit and base.
    assert!(source.1 <= 3 * plain.len() as u64 / u64::from(unit_size));
    store.commit().unwrap();
}

fn sizes(plain: &[u8], unit_size: u32) -> (u64, u64) {
    let alone = pack(plain, unit_size, None);
    let with = make(plain, unit_size, 2).map_or(alone, |mut references| {
        pack(plain, unit_size, Some(&mut references))
    });
    (alone, with)
}

/// Files that come again at another offset, as rows do, with text between them.
fn repeated(files: u64, len: usize) -> Vec<u8> {
    let mut plain = Vec::new();
    for turn in 0..3 {
        for file in 0..files {
            plain.extend(text(file, len));
            plain.extend(text(1000 + turn * files + file, 77));
        }
    }
    plain
}

/// As `pack --best` makes them: with groups, and text in common if that pays.
fn together(plain: &[u8], unit_size: u32, threads: usize) -> Option<References> {
    let effort = Effort {
        groups: true,
        ..effort(threads)
    };
    let (size, mut source) = (plain.len() as u64, Plain(plain, 0));
    let plan = Plan::make(size, unit_size, effort, Vec::new(), &mut source).unwrap();
    let estimate = Estimate::of(size, unit_size, effort, &plan, &mut source).unwrap();
    let groups = Groups::worthwhile(size, unit_size, effort, &plan, &mut source).unwrap();
    References::with_groups(estimate.as_ref(), groups, unit_size, effort).unwrap()
}

/// Sentences of few words, no two alike.
fn sentences(seed: u64, len: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(SplitMix64::new(seed).next_u64());
    let mut text = Vec::new();
    while text.len() < len {
        let (word, number) = (random.next_u64() % 400, random.next_u64() >> 50);
        let word = SplitMix64::new(word + 1).next_u64() >> 24;
        text.extend(format!("{word:x} {number} ").into_bytes());
    }
    text.truncate(len);
    text
}

fn kinds(plain: &[u8], unit_size: u32, references: &mut References) -> [u64; 3] {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    fill(&mut store, plain, unit_size, Some(references));
    let mut kinds = [0; 3];
    let mut count = |unit: litepack_store::StoredUnit| {
        kinds[match unit.kind {
            StoredKind::Alias => 0,
            StoredKind::Difference => 1,
            _ => 2,
        }] += 1;
    };
    store.units(&mut count).unwrap();
    kinds
}

#[test]
fn units_are_stored_together_where_that_saves_enough() {
    for (unit_size, count) in [(4096, 4), (8192, 2)] {
        let plain = sentences(1, 3_000_001);
        let units = plain.len() as u64 / u64::from(unit_size);
        let alone = pack(&plain, unit_size, None);
        let mut references = together(&plain, unit_size, 1).unwrap();
        let with = pack(&plain, unit_size, Some(&mut references));
        assert!(with < alone - alone / 25, "{alone} -> {with}");
        let [aliases, _, _] = kinds(
            &plain,
            unit_size,
            &mut together(&plain, unit_size, 2).unwrap(),
        );
        assert!(aliases > units - 2 * count, "{aliases} of {units}");
        // With one thread or many: the same file.
        let again = pack(&plain, unit_size, together(&plain, unit_size, 3).as_mut());
        assert_eq!(with, again);
    }
    // Units that are too large, too few, or not smaller together.
    assert!(together(&sentences(1, 3_000_000), 16_384, 1).is_none());
    assert!(together(&sentences(1, 200_000), 4096, 1).is_none());
    let mut random = SplitMix64::new(7);
    let noise = (0..300_000).flat_map(|_| random.next_u64().to_le_bytes());
    assert!(together(&noise.collect::<Vec<u8>>(), 4096, 1).is_none());
    assert!(
        make(&sentences(1, 3_000_000), 4096, 1).is_none(),
        "not asked for"
    );
}

/// A unit that has text of one in a group has the whole group before it.
#[test]
fn units_of_a_group_are_bases_and_are_found_again() {
    let mut plain = Vec::new();
    for turn in 0..2 {
        for file in 0..60 {
            plain.extend(sentences(file, 20_000));
            plain.extend(sentences(1000 + turn * 60 + file, 77));
        }
    }
    // And whole units that come again.
    plain.resize(plain.len().next_multiple_of(PAGE as usize), 0);
    plain.extend_from_within(100 * PAGE as usize..200 * PAGE as usize);
    let alone = pack(&plain, PAGE, make(&plain, PAGE, 2).as_mut());
    let mut references = together(&plain, PAGE, 2).unwrap();
    let with = pack(&plain, PAGE, Some(&mut references));
    assert!(with < alone, "{alone} -> {with}");
    let [aliases, differences, _] = kinds(&plain, PAGE, &mut together(&plain, PAGE, 2).unwrap());
    assert!(
        aliases > 200 && differences > 200,
        "{aliases}, {differences}"
    );
}

#[test]
fn text_that_comes_again_is_stored_once() {
    for unit_size in [4096, 65_536] {
        // The last unit is not whole.
        let plain = repeated(40, 40_000);
        assert_ne!(plain.len() % unit_size as usize, 0);
        let (alone, with) = sizes(&plain, unit_size);
        assert!(with * 2 < alone, "{unit_size}: {alone} -> {with}");
    }
}

#[test]
fn pages_that_come_again_are_aliases() {
    let mut plain = text(1, 3_000_000);
    plain.truncate(700 * 4096);
    plain.extend_from_within(..);
    let mut references = make(&plain, PAGE, 1).unwrap();
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    fill(&mut store, &plain, PAGE, Some(&mut references));
    let mut aliases = 0;
    let mut count = |unit: litepack_store::StoredUnit| {
        aliases += u64::from(unit.kind == StoredKind::Alias);
    };
    store.units(&mut count).unwrap();
    // The first unit stands alone, and so does its copy.
    assert_eq!(aliases, 2 * 699);
}

/// With one thread or many, and twice in turn: the same file.
#[test]
fn the_number_of_threads_changes_nothing() {
    let plain = repeated(30, 20_000);
    let len = |threads| pack(&plain, PAGE, make(&plain, PAGE, threads).as_mut());
    let one = len(1);
    assert_eq!([len(1), len(4)], [one, one]);
}

#[test]
fn nothing_in_common_is_not_looked_for() {
    assert!(make(&text(1, 3_000_000), PAGE, 1).is_none());
    assert!(make(&repeated(1, 40_000), PAGE, 1).is_none(), "too small");
    assert!(make(&vec![0; 1 << 20], PAGE, 1).is_none());
    assert!(make(&[], PAGE, 1).is_none());
}

/// Versions of texts, each with some new sentences. A version that has become too different stands alone, and is what the
/// next ones are a difference to. So it is for the estimate.
#[test]
fn versions_of_texts_are_told() {
    let (mut random, mut seed) = (SplitMix64::new(9), 1000);
    let mut texts: Vec<Vec<u8>> = (0..60).map(|seed| sentences(seed, 20_000)).collect();
    let mut plain = Vec::new();
    for _ in 0..15 {
        for text in &mut texts {
            for _ in 0..8 {
                seed += 1;
                let at = (random.next_u64() % 19_700) as usize;
                text.splice(at..at + 300, sentences(seed, 300));
            }
            seed += 1;
            plain.extend_from_slice(text);
            plain.extend(sentences(seed, 50));
        }
    }
    let (effort, size, mut source) = (effort(2), plain.len() as u64, Plain(&plain, 0));
    let plan = Plan::make(size, PAGE, effort, Vec::new(), &mut source).unwrap();
    let told = Estimate::of(size, PAGE, effort, &plan, &mut source).unwrap();
    let told = told.unwrap();
    let (more, is_all) = told.of_more(size, &plan, &mut source).unwrap();
    assert!(is_all);
    let stored = [None, Some(References::new(&told).unwrap())].map(|mut references| {
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        let planned = plan.planned().iter();
        let numbers = planned.map(|listed| {
            let signatures = listed.signatures.clone();
            (store.add_dictionary(&listed.dictionary, signatures)).unwrap()
        });
        let numbers: Vec<DictId> = numbers.collect();
        let number = |unit| plan.dictionary_of(unit).map_or(0, |at| numbers[at]);
        fill_with(&mut store, &plain, PAGE, references.as_mut(), &number);
        store.info().unwrap().stored_bytes
    });
    let (saved, told) = (stored[0] - stored[1], more.saved());
    let is_near = told * 5 > saved * 4 && told * 4 < saved * 5;
    assert!(is_near, "{stored:?} saves {saved}, told {told}");
}

/// As maintenance does it, in steps, a commit each: as small as when it is packed, and a second time nothing is left.
#[test]
fn what_is_stored_already_is_referred_to_in_steps() {
    let plain = repeated(40, 20_000);
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    fill(&mut store, &plain, PAGE, None);
    let stored = |store: &mut Store<&MemoryStorage>| {
        let info = store.info().unwrap();
        (info.stored_bytes, info.items)
    };
    let (alone, _) = stored(&mut store);
    let mut least = 0;
    for turn in 0..2 {
        let mut references = make(&plain, PAGE, 2).unwrap();
        let mut next = Some(Unit::FIRST);
        while let Some(from) = next {
            next = references.refer_some(&mut store, from).unwrap();
            store.commit().unwrap();
        }
        let (now, items) = stored(&mut store);
        assert!(
            now * 2 < alone && items > 100,
            "{alone} -> {now}, {items} items"
        );
        assert!(turn == 0 || now == least, "{least} -> {now}");
        least = now;
        let mut found = vec![0; plain.len()];
        store.read(0, &mut found).unwrap();
        assert!(found == plain);
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    }
}

/// Of three bases one is no more what it was: then the others do not become items that nothing names.
#[test]
fn no_base_becomes_an_item_in_vain() {
    let mut plain: Vec<u8> = (0..100).flat_map(|seed| text(seed, 4096)).collect();
    // Most of the last one, without which it is still smaller than alone.
    let parts = [(3, 1100), (5, 1300), (4, 1696)].map(|(seed, len)| text(seed, len));
    let parts = parts.concat();
    plain[90 * 4096..91 * 4096].copy_from_slice(&parts);
    for changed in [true, false] {
        let disk = MemoryStorage::default();
        let mut store = open(&disk);
        fill(&mut store, &plain, PAGE, None);
        let mut references = make(&repeated(40, 20_000), PAGE, 1).unwrap();
        let next = references.refer_some(&mut store, Unit::FIRST).unwrap();
        store.commit().unwrap();
        if changed {
            store.write(4 * 4096, &[0; 4096]).unwrap();
            store.commit().unwrap();
        }
        references.refer_some(&mut store, next.unwrap()).unwrap();
        store.commit().unwrap();
        // With all as they were, all are items.
        let items = store.info().unwrap().items;
        assert_eq!(items, if changed { 0 } else { 3 });
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    }
}

/// Pages that look alike to the finder, and are no smaller with others before them.
#[test]
fn text_that_saves_nothing_is_not_referred_to() {
    let mut plain = Vec::new();
    let mut random = SplitMix64::new(5);
    for _ in 0..600 {
        // Half of it is one text, which compresses to nothing; the rest does not compress.
        let page = text(7, 64).repeat(32);
        plain.extend(page);
        plain.extend((0..2048).map(|_| random.next_u64() as u8));
    }
    assert!(make(&plain, PAGE, 1).is_none());
    let other = repeated(40, 20_000);
    let mut references = make(&other, PAGE, 1).unwrap();
    let (alone, with) = (
        pack(&plain, PAGE, None),
        pack(&plain, PAGE, Some(&mut references)),
    );
    assert!(with <= alone + alone / 100, "{alone} -> {with}");
}

/// Three tenths of a page are another one's text: there is a difference, and it saves less than a third.
#[test]
fn a_difference_that_saves_less_than_a_third_is_not_kept() {
    let mut plain = text(1, 4096);
    for number in 2..600 {
        plain.extend(text(number, 2870));
        plain.extend(text(number / 2 * 1000, 4096 - 2870));
    }
    let mut references = make(&repeated(40, 20_000), PAGE, 1).unwrap();
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    fill(&mut store, &plain, PAGE, Some(&mut references));
    assert_eq!(store.info().unwrap().items, 0);
}

/// Each unit costs the same whatever it is like: [`fill`] counts what is read.
#[test]
fn equal_pages_take_no_longer_than_others() {
    let equal = text(1, 4096).repeat(1000);
    let mut alike = equal.clone();
    for (number, page) in alike.chunks_mut(4096).enumerate() {
        page[..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    let other = repeated(40, 20_000);
    for plain in [equal, alike] {
        // A dictionary would make them as small.
        let mut references = make(&other, PAGE, 2);
        let with = pack(&plain, PAGE, references.as_mut());
        let alone = pack(&plain, PAGE, None);
        assert!(with * 5 < alone, "{alone} -> {with}");
    }
}

/// A finder that is wrong in all it says costs time, and no page.
#[test]
fn wrong_bases_change_no_page() {
    let plain = repeated(40, 20_000);
    let other: Vec<u8> = plain.chunks(4096).rev().flatten().copied().collect();
    let mut references = make(&plain, PAGE, 2).unwrap();
    // Its notes are of another database.
    for (number, page) in other.chunks(4096).enumerate() {
        references.finder.as_mut().unwrap().look(page);
        references
            .finder
            .as_mut()
            .unwrap()
            .keep(Unit(number as u64 % 100));
    }
    pack(&plain, PAGE, Some(&mut references));
}

#[test]
fn none_is_made_where_deleted_content_is_erased() {
    let plain = repeated(40, 20_000);
    let mut references = make(&plain, PAGE, 2).unwrap();
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    store.set_erase(Erase::WithCommit);
    fill(&mut store, &plain, PAGE, Some(&mut references));
    assert_eq!(store.info().unwrap().items, 0);
}

#[test]
fn an_interrupt_ends_it() {
    let plain = repeated(40, 20_000);
    let mut references = make(&plain, PAGE, 2).unwrap();
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    let mut source = Plain(&plain, 0);
    let write = || references.write(&mut store, &mut source, (Unit(0), &plain), &|_| 0);
    let ended = listen(|| true, write);
    assert!(
        matches!(ended, Err(ref error) if error.is_interrupted()),
        "{ended:?}"
    );
    let ended = listen(
        || true,
        || {
            let plan = Plan::make(0, PAGE, effort(1), Vec::new(), &mut Plain(&plain, 0)).unwrap();
            let (size, source) = (plain.len() as u64, &mut Plain(&plain, 0));
            Estimate::of(size, PAGE, effort(1), &plan, source).map(|_| ())
        },
    );
    assert_eq!(ended, Err(Halt::Interrupted));
}
