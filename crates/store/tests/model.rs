//! The store against a plain vector of bytes, with crashes, failures and a second handle thrown in.
//!
//! Every run prints its seed when it fails; LITEPACK_SEED runs one seed, LITEPACK_LONG many more.

mod support;

use litepack_codec::{Dictionary, DifferenceEncoder};
use litepack_io::storage::Storage;
use litepack_io::testing::CrashingStorage;
use litepack_store::{Erase, Error, Group, Info, Reordering, Store, Unit};
use rand::rngs::StdRng as SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use support::{at_once, encrypt_some, open, seeds};

const PAGE: usize = 4096;

fn content(store: &mut Store<CrashingStorage>) -> Vec<u8> {
    let mut bytes = vec![0xee; store.size() as usize];
    assert_eq!(store.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn page(rng: &mut SmallRng, len: usize) -> Vec<u8> {
    let mut page = vec![0; len];
    match rng.random_range(0..4) {
        0 => {}
        1 => rng.fill_bytes(&mut page),
        _ => {
            let word = rng.random::<u64>().to_string();
            for (i, byte) in page.iter_mut().enumerate() {
                *byte = word.as_bytes()[i * i % word.len()];
            }
        }
    }
    page
}

/// The model's contents by commit, from the last flushed one on.
#[derive(Default)]
struct Model {
    current: Vec<u8>,
    committed: Vec<u8>,
    /// Contents a power loss may leave: the last flushed one and all committed since.
    possible: Vec<Vec<u8>>,
}

fn change(
    rng: &mut SmallRng,
    store: &mut Store<CrashingStorage>,
    model: &mut Model,
) -> Result<(), Error> {
    if rng.random_ratio(1, 12) && !model.current.is_empty() {
        let size = rng.random_range(0..=model.current.len());
        store.truncate(size as u64)?;
        model.current.truncate(size);
        return Ok(());
    }
    if rng.random_ratio(1, 6) && model.current.len() > 3 * PAGE {
        return if rng.random_ratio(1, 3) {
            group(rng, store, model)
        } else {
            refer(rng, store, model)
        };
    }
    if rng.random_ratio(1, 4) && model.current.len() > 3 * PAGE {
        return change_a_little(rng, store, model);
    }
    let len = if rng.random_ratio(1, 8) {
        rng.random_range(1..2 * PAGE)
    } else {
        PAGE
    };
    let pages = if rng.random_ratio(1, 50) { 2_000 } else { 60 };
    let mut offset = rng.random_range(0..pages) * PAGE;
    if len != PAGE {
        offset += rng.random_range(0..PAGE);
    }
    let bytes = page(rng, len);
    store.write(offset as u64, &bytes)?;
    if model.current.len() < offset + len {
        model.current.resize(offset + len, 0);
    }
    model.current[offset..offset + len].copy_from_slice(&bytes);
    Ok(())
}

/// Some bytes of pages change, so that these are stored as their difference to what they were.
fn change_a_little(
    rng: &mut SmallRng,
    store: &mut Store<CrashingStorage>,
    model: &mut Model,
) -> Result<(), Error> {
    let whole = model.current.len() / PAGE;
    for _ in 0..*[1, 3, 80].choose(rng).unwrap() {
        let unit = rng.random_range(0..whole);
        let mut page = model.current[unit * PAGE..][..PAGE].to_vec();
        let len = rng.random_range(1..40);
        let at = rng.random_range(0..PAGE - len);
        rng.fill_bytes(&mut page[at..at + len]);
        store.write((unit * PAGE) as u64, &page)?;
        model.current[unit * PAGE..][..PAGE].copy_from_slice(&page);
    }
    Ok(())
}

/// Whole pages are written together, as groups and what is none.
fn group(
    rng: &mut SmallRng,
    store: &mut Store<CrashingStorage>,
    model: &mut Model,
) -> Result<(), Error> {
    let whole = model.current.len() / PAGE;
    let (mut groups, mut current) = (Vec::new(), model.current.clone());
    for _ in 0..rng.random_range(1..5) {
        let mut group = Group::default();
        let mut next = rng.random_range(0..whole);
        for _ in 0..rng.random_range(1..6) {
            if next < whole {
                let page = page(rng, PAGE);
                group.push(Unit(next as u64), &page)?;
                current[next * PAGE..][..PAGE].copy_from_slice(&page);
            }
            next += rng.random_range(1..9);
        }
        groups.push(group);
    }
    store.write_groups(groups)?;
    model.current = current;
    Ok(())
}

/// A whole page becomes the same as others, or nearly, and is stored by reference to them.
fn refer(
    rng: &mut SmallRng,
    store: &mut Store<CrashingStorage>,
    model: &mut Model,
) -> Result<(), Error> {
    let whole = model.current.len() / PAGE;
    let any = |rng: &mut SmallRng| rng.random_range(1..whole);
    let at = |model: &Model, unit: usize| model.current[unit * PAGE..][..PAGE].to_vec();
    let mut items = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        if rng.random_ratio(1, 3) {
            let units = *[1, 2, 4].choose(rng).unwrap();
            let pages: Vec<u8> = (0..units).flat_map(|_| at(model, any(rng))).collect();
            items.extend(store.add_item(&pages, 0)?);
        } else {
            items.extend(store.share(Unit(any(rng) as u64))?);
        }
    }
    let Some(first) = items.first().copied() else {
        return Ok(());
    };
    for _ in 0..rng.random_range(0..4) {
        let mut pages = Vec::new();
        assert!(store.read_item(first, &mut pages)?);
        let slice = rng.random_range(0..pages.len() / PAGE);
        let mut page = pages[slice * PAGE..][..PAGE].to_vec();
        let unit = any(rng);
        let done = if rng.random() {
            store.write_alias(Unit(unit as u64), &page, first, slice as u8)?
        } else {
            let changed = rng.random_range(0..PAGE - 8);
            rng.fill_bytes(&mut page[changed..changed + 8]);
            items.sort_unstable();
            items.dedup();
            let (mut prefix, mut more) = (Vec::new(), Vec::new());
            for item in &items {
                assert!(store.read_item(*item, &mut more)?);
                prefix.extend(&more);
            }
            let mut stored = Vec::new();
            DifferenceEncoder::new(3)
                .encode(&page, &prefix, &mut stored)
                .unwrap();
            store.write_difference(Unit(unit as u64), &page, 0, &stored, &items)?
        };
        if done {
            model.current[unit * PAGE..][..PAGE].copy_from_slice(&page);
        }
        // An item may have gone with the page that was written.
        if !store.read_item(first, &mut pages)? {
            break;
        }
        let mut left = Vec::new();
        for item in items {
            if store.read_item(item, &mut pages)? {
                left.push(item);
            }
        }
        items = left;
    }
    Ok(())
}

/// A step of maintenance: it changes how pages are stored, and no page. It goes on with an arrangement the next time,
/// whatever has happened to the file.
fn upkeep(
    rng: &mut SmallRng,
    store: &mut Store<CrashingStorage>,
    arranged: &mut Option<Reordering>,
) -> Result<(), Error> {
    store.set_level(*[3, 3, 9].choose(rng).unwrap());
    let known = store.dictionaries()?;
    let any = |rng: &mut SmallRng| known.choose(rng).map_or(0, |known| known.number);
    match rng.random_range(0..18) {
        0 => {
            let mut bytes = vec![0; rng.random_range(100..3 * PAGE)];
            rng.fill_bytes(&mut bytes);
            let signatures = (0..rng.random_range(0..3)).map(|_| rng.random()).collect();
            store.add_dictionary(&Dictionary::new(bytes), signatures)?;
        }
        1 => _ = store.at_level(any(rng))?,
        2 if known.len() > 1 => {
            let (former, number) = (any(rng), any(rng));
            if former != number {
                store.replace_dictionary(former, number)?;
            }
        }
        3..6 => {
            let (one, other) = (any(rng), any(rng));
            let from = Unit(rng.random_range(0..40));
            let wanted = |unit: Unit| if unit.0.is_multiple_of(3) { one } else { other };
            store.recompress(from, &wanted)?;
        }
        6..8 => store.drop_unused_dictionaries(&[any(rng)])?,
        8 if rng.random() => store.tidy()?,
        8 => store.set_maintained()?,
        9..11 => {
            let units = (0..rng.random_range(0..100)).map(|_| Unit(rng.random_range(0..70)));
            store.set_prefetch(units.collect(), rng.random_range(0..1 << 18))?;
        }
        11..15 => {
            if arranged.is_none() {
                *arranged = store.reorder()?;
            }
            for _ in 0..*[1, 2, 100].choose(rng).unwrap() {
                if let Some(at) = *arranged {
                    *arranged = store.reorder_some(at)?;
                }
            }
        }
        _ => {
            let mut at = 0;
            while let Some(next) = store.compact_some(at)? {
                at = next;
            }
        }
    }
    store.commit()
}

fn assert_same(found: &[u8], expected: &[u8], context: &str) {
    let first = found.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        found == expected,
        "{context}: {} bytes instead of {}, first difference at {first:?}",
        found.len(),
        expected.len()
    );
}

fn check(store: &mut Store<CrashingStorage>, context: &str) {
    let report = store.check(&mut |_| Ok(())).unwrap();
    assert!(report.is_ok(), "{context}: {:?}", report.damage);
    assert_eq!(report.lost_bytes, 0, "{context}: bytes were lost");
}

fn verify_after_power_loss(disk: &CrashingStorage, model: &Model, seed: u64, context: &str) {
    let image = disk.after_power_loss(seed);
    verify_image(image, model, &format!("{context}, loss {seed}"));
}

fn verify_image(image: Vec<u8>, model: &Model, context: &str) {
    let disk = CrashingStorage::with_image(image);
    let mut store = open(&disk);
    let found = content(&mut store);
    assert_same(&content(&mut open(&disk.remote())), &found, context);
    assert!(
        model.possible.contains(&found),
        "{context}: {} bytes are no committed content",
        found.len()
    );
    check(&mut store, context);
    // And the file is as good as new.
    store.write(0, &[9; PAGE]).unwrap();
    store.commit().unwrap();
    store.flush().unwrap();
    check(&mut store, context);
    let mut expected = found;
    expected.resize(expected.len().max(PAGE), 0);
    expected[..PAGE].fill(9);
    assert!(
        content(&mut open(&disk)) == expected,
        "{context}: wrong after going on"
    );
}

/// Returns the most items, and the most private differences, that the file had at a power loss.
fn run(seed: u64, steps: usize, losses: u64) -> (u64, u64) {
    encrypt_some(seed);
    let mut rng = SmallRng::seed_from_u64(seed);
    let disk = CrashingStorage::default();
    let erase = [Erase::Never, Erase::WithFlush, Erase::WithCommit][seed as usize % 3];
    let open = |disk: &CrashingStorage| {
        let mut store = open(disk);
        store.set_erase(erase);
        store
    };
    let mut store = open(&disk);
    // As if it were on a server: with what commits bring for such readers.
    let mut reader = open(&disk.remote());
    let empty = || Model {
        current: vec![],
        committed: vec![],
        possible: vec![vec![]],
    };
    let mut model = empty();
    let (mut arranged, mut most_items, mut most_differences) = (None, 0, 0);
    for step in 0..steps {
        let context = format!("seed {seed}, step {step}");
        match rng.random_range(0..100) {
            0..66 => change(&mut rng, &mut store, &mut model).unwrap(),
            66..70 => {
                store.commit().unwrap();
                model.committed = model.current.clone();
                model.possible.push(model.committed.clone());
                reader.refresh().unwrap();
                upkeep(&mut rng, &mut store, &mut arranged).unwrap();
                assert!(
                    content(&mut reader) == model.committed,
                    "{context}: other handle"
                );
            }
            70..80 => {
                store.commit().unwrap();
                model.committed = model.current.clone();
                model.possible.push(model.committed.clone());
                reader.refresh().unwrap();
                assert!(
                    content(&mut reader) == model.committed,
                    "{context}: other handle"
                );
            }
            80..88 => {
                store.commit().unwrap();
                store.flush().unwrap();
                model.committed = model.current.clone();
                model.possible = vec![model.committed.clone()];
            }
            88..91 => {
                store.rollback();
                model.current = model.committed.clone();
            }
            91..93 => {
                drop(store.close());
                store = open(&disk);
                model.current = model.committed.clone();
            }
            93..96 => {
                // The process dies in the middle of a commit: calls from some point on never happen.
                let from = disk.calls() + rng.random_range(0..4);
                disk.fail(from, u64::MAX);
                let _ = store.commit();
                disk.fail(0, 0);
                store = open(&disk);
                let found = content(&mut store);
                let either = found == model.committed || found == model.current;
                assert!(either, "{context}: neither before nor after");
                model.possible.push(found.clone());
                model.current.clone_from(&found);
                model.committed = found;
            }
            96..97 => {
                // The process dies: what was committed stays, synced or not.
                store = open(&disk);
                model.current = model.committed.clone();
            }
            _ => {
                let info = open(&disk).info().unwrap();
                most_items = most_items.max(info.items);
                most_differences = most_differences.max(private_differences(&info));
                for loss in 0..losses {
                    verify_after_power_loss(&disk, &model, loss * 1000 + step as u64, &context);
                    verify_after_power_loss(&disk, &model, loss.min(1), &context);
                }
            }
        }
        if step % 16 == 0 {
            assert_same(&content(&mut store), &model.current, &context);
        }
    }
    store.commit().unwrap();
    check(&mut store, &format!("seed {seed} at the end"));
    (most_items, most_differences)
}

fn private_differences(info: &Info) -> u64 {
    let mut kinds = info.codecs.iter();
    let found = kinds.find(|(name, ..)| name == "private difference");
    found.map_or(0, |(_, units, _)| *units)
}

#[test]
fn behaves_like_a_vector_of_bytes_and_survives_power_loss() {
    let seeds = seeds(25, 600);
    let runs = seeds.iter().map(|seed| run(*seed, 250, 3));
    let (items, differences) = runs.reduce(|a, b| (a.0 + b.0, a.1 + b.1)).unwrap();
    let fewest = seeds.len() as u64;
    let context = format!("{items} items, {differences} differences in {fewest} runs");
    assert!(items >= fewest && differences >= fewest, "{context}");
}

/// Some changes, committed and flushed.
fn transaction(
    rng: &mut SmallRng,
    store: &mut Store<CrashingStorage>,
    model: &mut Model,
) -> Result<(), Error> {
    for _ in 0..rng.random_range(1..30) {
        change(rng, store, model)?;
    }
    store.commit()?;
    store.flush()
}

#[test]
fn a_failed_call_loses_nothing_that_was_committed() {
    for seed in seeds(60, 2000) {
        encrypt_some(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = CrashingStorage::default();
        let mut store = open(&disk);
        let erase = [Erase::Never, Erase::WithFlush, Erase::WithCommit];
        store.set_erase(erase[seed as usize % 3]);
        let mut model = Model::default();
        for _ in 0..40 {
            change(&mut rng, &mut store, &mut model).unwrap();
        }
        store.commit().unwrap();
        store.flush().unwrap();
        model.committed = model.current.clone();
        if rng.random() {
            disk.fail_badly();
        }
        for round in 0..12 {
            let context = format!("seed {seed}, round {round}");
            let from = disk.calls() + rng.random_range(0..16);
            disk.fail(from, from + rng.random_range(1..3));
            let again: u64 = rng.random();
            let changes = || SmallRng::seed_from_u64(again);
            let result = transaction(&mut changes(), &mut store, &mut model);
            match result {
                Ok(()) => model.committed = model.current.clone(),
                Err(_) => store.rollback(),
            }
            if result.is_err() && rng.random() {
                // The same transaction once more: its record may have the very bytes of the one that failed.
                disk.fail(0, 0);
                model.current = model.committed.clone();
                transaction(&mut changes(), &mut store, &mut model).unwrap();
                model.committed = model.current.clone();
                model.possible = vec![model.committed.clone()];
                for loss in 0..4 {
                    verify_after_power_loss(&disk, &model, 10 * seed + loss, &context);
                }
            }
            model.current = model.committed.clone();
            assert_same(&content(&mut store), &model.committed, &context);
            assert_same(&content(&mut open(&disk)), &model.committed, &context);
            check(&mut store, &context);
            if result.is_err() {
                let from = disk.calls() + rng.random_range(0..4);
                disk.fail(from, from + 1);
            }
            // As SQLite does at the end of a rollback, until it succeeds. Then the commit that failed does not come
            // back.
            if store.flush().or_else(|_| store.flush()).is_ok() {
                model.possible = vec![model.committed.clone()];
                for loss in 0..4 {
                    verify_after_power_loss(&disk, &model, 10 * seed + loss, &context);
                }
            }
        }
    }
}

/// Of all that was written since the last flush, a power loss takes one piece, whichever: also one of a commit that
/// others have followed, none of them flushed.
#[test]
fn any_piece_that_a_power_loss_takes_is_missed() {
    for seed in seeds(2, 40) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = CrashingStorage::default();
        let mut store = open(&disk);
        let mut model = Model::default();
        model.current.resize(200 * PAGE, 0);
        let mut write = |store: &mut Store<_>, model: &mut Model, unit: Option<usize>| {
            let unit = unit.unwrap_or_else(|| rng.random_range(0..200));
            let page = page(&mut rng, PAGE);
            store.write((unit * PAGE) as u64, &page).unwrap();
            model.current[unit * PAGE..][..PAGE].copy_from_slice(&page);
        };
        (0..200).for_each(|unit| write(&mut store, &mut model, Some(unit)));
        // The free space is in many places, so that a commit tells only what it changes there.
        for _ in 0..40 {
            (0..10).for_each(|_| write(&mut store, &mut model, None));
            store.flush().unwrap();
        }
        model.possible.push(model.current.clone());
        for _ in 0..3 {
            write(&mut store, &mut model, None);
            store.commit().unwrap();
            model.possible.push(model.current.clone());
        }
        let [mut without, with] = [0, 1].map(|loss| disk.after_power_loss(loss));
        without.resize(with.len(), 0);
        let pieces: Vec<_> = (0..with.len()).step_by(64).collect();
        let piece = |at: usize| at..with.len().min(at + 64);
        let is_new = |at: &usize| with[piece(*at)] != without[piece(*at)];
        let new: Vec<_> = pieces.into_iter().filter(is_new).collect();
        at_once(&new, |at| {
            let mut image = with.clone();
            image[piece(*at)].copy_from_slice(&without[piece(*at)]);
            verify_image(
                image,
                &model,
                &format!("seed {seed}, without {:?}", piece(*at)),
            );
        });
    }
}

/// Another process begins to write after a commit that is not flushed, and so makes it durable. Then it goes away: a
/// call fails, or it dies, before its own commit is published or after. Who made the commit is not told but by the
/// mark.
#[test]
fn what_another_handle_made_durable_is_known_to_be() {
    for seed in seeds(100, 2000) {
        encrypt_some(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = CrashingStorage::default();
        let mut store = open(&disk);
        let mut model = Model::default();
        let changes = |rng: &mut SmallRng, store: &mut _, model: &mut _| {
            (0..rng.random_range(1..80)).try_for_each(|_| change(rng, store, model))
        };
        for is_flushed in [true, rng.random(), false] {
            changes(&mut rng, &mut store, &mut model).unwrap();
            store.commit().unwrap();
            if is_flushed {
                store.flush().unwrap();
                model.possible.clear();
            }
            model.possible.push(model.current.clone());
        }
        for round in 0..3 {
            let context = format!("seed {seed}, round {round}");
            let mut other = open(&disk);
            let mut its = Model {
                current: model.current.clone(),
                ..Model::default()
            };
            let from = disk.calls() + rng.random_range(0..4);
            disk.fail(from, *[from + 1, u64::MAX].choose(&mut rng).unwrap());
            let changed = changes(&mut rng, &mut other, &mut its);
            if rng.random() {
                disk.fail(disk.calls() + rng.random_range(0..8), u64::MAX);
            }
            let _ = changed.and_then(|()| other.commit());
            disk.fail(0, 0);
            drop(other);
            if rng.random() {
                let from = disk.calls() + rng.random_range(0..2);
                disk.fail(from, from + 1);
                let _ = store.flush();
                disk.fail(0, 0);
            }
            store.refresh().unwrap();
            let found = content(&mut store);
            let known = found == its.current || model.possible.contains(&found);
            assert!(known, "{context}: no commit of ours or the other's");
            // A commit of the other's that failed may have left its record, until the next flush.
            model.possible.extend([found.clone(), its.current]);
            model.current = found;
            check(&mut store, &context);
            for loss in 0..3 {
                verify_after_power_loss(&disk, &model, 10 * seed + loss, &context);
            }
            changes(&mut rng, &mut store, &mut model).unwrap();
            store.commit().unwrap();
            model.possible.push(model.current.clone());
            for loss in 0..5 {
                verify_after_power_loss(&disk, &model, 10 * seed + loss, &context);
            }
        }
    }
}

/// A handle that still reads an old commit meets extents that later commits have reused, as a WAL reader
/// beside checkpoints does: it gets the newer content, not an error and not a mixture.
#[test]
fn a_reader_outlives_the_reuse_of_what_it_reads() {
    let mut rng = SmallRng::seed_from_u64(7);
    let disk = CrashingStorage::default();
    let mut writer = open(&disk);
    let mut reader = None;
    let mut versions = Vec::new();
    for _ in 0..5 {
        let version: Vec<Vec<u8>> = (0..50).map(|_| page(&mut rng, PAGE)).collect();
        for (number, bytes) in version.iter().enumerate() {
            writer.write((number * PAGE) as u64, bytes).unwrap();
        }
        writer.commit().unwrap();
        writer.flush().unwrap();
        versions.push(version);
        reader.get_or_insert_with(|| open(&disk));
    }
    let mut reader = reader.unwrap();
    let first = reader.seq();
    for number in 0..50 {
        let mut found = vec![0; PAGE];
        reader.read((number * PAGE) as u64, &mut found).unwrap();
        let known = versions.iter().any(|version| version[number] == found);
        assert!(known, "page {number} is in no version");
    }
    assert!(
        reader.seq() > first,
        "nothing was reused: this test shows nothing"
    );
}

/// Another packed file's content copied over a file that is open, as `cp` does to restore a backup.
#[test]
fn a_file_whose_content_is_replaced_is_read_anew() {
    let (disk, other) = (CrashingStorage::default(), CrashingStorage::default());
    for (disk, byte) in [(&disk, 1), (&other, 2)] {
        let mut store = open(disk);
        store.write(0, &[byte; PAGE]).unwrap();
        store.commit().unwrap();
        store.flush().unwrap();
        store.close();
    }
    let mut store = open(&disk);
    let mut found = [0; PAGE];
    store.read(0, &mut found).unwrap();
    assert_eq!(found, [1; PAGE]);
    let bytes = other.after_power_loss(1);
    Storage::truncate(&disk, 0).unwrap();
    Storage::write_at(&disk, &bytes, 0).unwrap();
    assert!(store.refresh().unwrap());
    store.read(0, &mut found).unwrap();
    assert_eq!(found, [2; PAGE]);
}
