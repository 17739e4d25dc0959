//! Maintenance that stores text once, beside writers, on a disk that loses power and with a process that dies: what the
//! file holds is what was committed, no unit loses what it is the difference to, and all counts are right.

use std::sync::Arc;
use std::time::Duration;

use litepack_engine::maintenance::{Former, Maintenance, Progress};
use litepack_io::interrupt::listen;
use litepack_io::random::SplitMix64;
use litepack_io::testing::{Call, CrashingStorage, MemoryStorage, Watched};
use litepack_store::{Cache, Error, FileId, Options, Store};

const PAGE: usize = 4096;
/// Too few for a dictionary, which would take most of the time.
const PAGES: u64 = 112;
const LEVEL: i32 = 3;

fn options() -> Options {
    Options {
        threads: 1,
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        ..Options::default()
    }
}

fn open(disk: &CrashingStorage) -> Store<CrashingStorage> {
    let mut store = Store::open(disk.clone(), options()).unwrap();
    store.refresh().unwrap();
    store
}

/// Words, of which no two seeds have more than words in common.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(SplitMix64::new(seed).next_u64());
    let mut text = Vec::new();
    while text.len() < len {
        text.extend(format!("{:x} ", random.next_u64() >> 20).into_bytes());
    }
    text.truncate(len);
    text
}

/// A database in which half of the text comes again, at other offsets.
fn repeated(seed: u64) -> Vec<u8> {
    let mut plain = vec![b'-'; PAGE];
    for turn in 0.. {
        plain.extend(text(seed * 1000 + turn % 14, 15_000));
        plain.extend(text(seed * 1000 + 100 + turn, 77));
        if plain.len() >= PAGES as usize * PAGE {
            break;
        }
    }
    plain.truncate(PAGES as usize * PAGE);
    plain
}

fn content<D: litepack_io::storage::Storage>(store: &mut Store<D>) -> Vec<u8> {
    let mut found = vec![0; store.size() as usize];
    assert_eq!(store.read(0, &mut found).unwrap(), found.len());
    found
}

/// Every extent is whole and has one owner, and each item is named as often as it says.
fn assert_sound<D: litepack_io::storage::Storage>(store: &mut Store<D>, context: &str) {
    let report = store.check(&mut |_| Ok(())).unwrap();
    assert_eq!((report.damage, report.lost_bytes), (vec![], 0), "{context}");
}

/// All of maintenance. Returns whether there was something to do.
fn maintain<D: litepack_io::storage::Storage>(store: &mut Store<D>) -> bool {
    store.refresh().unwrap();
    let mut maintenance = Maintenance::plan(store, LEVEL, Former::Gone).unwrap();
    if !maintenance.pays(store).unwrap() {
        return false;
    }
    while maintenance.step(store, Former::Gone).unwrap() == Progress::More {}
    true
}

/// The database as it should be, and what a power loss may leave of it: what was flushed last, or a commit since.
struct Model {
    current: Vec<u8>,
    possible: Vec<Vec<u8>>,
}

/// Changes some pages and commits: text of other places, with a few changes or none, text of its own, zeros.
fn write<D: litepack_io::storage::Storage>(
    random: &mut SplitMix64,
    store: &mut Store<D>,
    current: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut below = |most: usize| (random.next_u64() % most as u64) as usize;
    for _ in 0..=below(6) {
        let unit = below(current.len() / PAGE);
        let page = match below(8) {
            0 => vec![0; PAGE],
            1 => text(below(1 << 40) as u64, PAGE),
            2 => current[below(current.len() / PAGE) * PAGE..][..PAGE].to_vec(),
            3 => {
                let mut page = current[unit * PAGE..][..PAGE].to_vec();
                page[below(PAGE)] ^= 1;
                page
            }
            _ => {
                let from = below(current.len() - PAGE);
                let mut page = current[from..][..PAGE].to_vec();
                let own = below(PAGE - 300);
                page[own..own + 200].copy_from_slice(&text(below(1 << 40) as u64, 200));
                page
            }
        };
        current[unit * PAGE..][..PAGE].copy_from_slice(&page);
        store.write((unit * PAGE) as u64, &page)?;
    }
    if below(12) == 0 {
        let pages = PAGES as usize - 20 + below(40);
        current.resize(pages * PAGE, 0);
        store.truncate(current.len() as u64)?;
        // The last page makes it so long, also where it has become longer.
        let last = current.len() - PAGE;
        store.write(last as u64, &current[last..])?;
    }
    store.commit()
}

/// A power loss leaves a commit, and a whole one; maintenance and writes go on with it.
fn verify_after_power_loss(disk: &CrashingStorage, model: &Model, loss: u64, context: &str) {
    let disk = CrashingStorage::with_image(disk.after_power_loss(loss));
    let mut store = open(&disk);
    let mut found = content(&mut store);
    let known = model.possible.contains(&found);
    assert!(known, "{context}, loss {loss}: this was never committed");
    assert_sound(&mut store, context);
    let mut random = SplitMix64::new(loss);
    maintain(&mut store);
    assert!(content(&mut store) == found, "{context}: after maintenance");
    if !found.is_empty() {
        write(&mut random, &mut store, &mut found).unwrap();
        store.flush().unwrap();
    }
    assert!(content(&mut open(&disk)) == found, "{context}: going on");
    assert_sound(&mut store, context);
}

/// Returns the most items that there were at a power loss.
fn run(seed: u64, rounds: u64) -> u64 {
    let mut random = SplitMix64::new(seed);
    let disk = CrashingStorage::default();
    let mut model = Model {
        current: repeated(seed),
        possible: Vec::new(),
    };
    let mut store = open(&disk);
    store.write(0, &model.current).unwrap();
    store.flush().unwrap();
    model.possible.push(model.current.clone());
    let mut most_items = 0;
    for round in 0..rounds {
        let context = format!("seed {seed}, round {round}");
        for _ in 0..random.next_u64() % 4 {
            write(&mut random, &mut store, &mut model.current).unwrap();
            model.possible.push(model.current.clone());
        }
        let mut other = open(&disk);
        // The plan may be out of date at any step.
        let mut maintenance = Maintenance::plan(&mut store, LEVEL, Former::Gone).unwrap();
        let dies = random.next_u64().is_multiple_of(4);
        if dies {
            let from = disk.calls() + random.next_u64() % 60;
            disk.fail(from, u64::MAX);
        }
        loop {
            match maintenance.step(&mut store, Former::Gone) {
                Ok(Progress::More) => {}
                Ok(_) => break,
                Err(_) if dies => break,
                Err(error) => panic!("{context}: {error}"),
            }
            if !dies && random.next_u64().is_multiple_of(3) {
                other.refresh().unwrap();
                write(&mut random, &mut other, &mut model.current).unwrap();
                model.possible.push(model.current.clone());
            }
            if random.next_u64().is_multiple_of(4) {
                for loss in [random.next_u64(), random.next_u64() % 2] {
                    verify_after_power_loss(&disk, &model, loss, &context);
                }
            }
        }
        disk.fail(0, 0);
        if dies {
            store = open(&disk);
        }
        store.refresh().unwrap();
        assert!(content(&mut store) == model.current, "{context}");
        most_items = most_items.max(store.info().unwrap().items);
        for loss in [random.next_u64(), random.next_u64() % 2] {
            verify_after_power_loss(&disk, &model, loss, &context);
        }
        if random.next_u64().is_multiple_of(3) {
            store.flush().unwrap();
            model.possible = vec![model.current.clone()];
        }
        assert_sound(&mut store, &context);
    }
    most_items
}

#[test]
fn a_power_loss_or_a_death_beside_writers_loses_nothing() {
    let seeds = match std::env::var("LITEPACK_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) if std::env::var_os("LITEPACK_LONG").is_some() => (0..200).collect(),
        Err(_) => (0..5).collect::<Vec<u64>>(),
    };
    for seed in seeds {
        let items = run(seed, 8);
        assert!(items > 10, "seed {seed}: {items} items show nothing");
    }
}

/// As small as if no time had passed, and a second time there is nothing to do.
#[test]
fn what_was_stored_alone_is_stored_once() {
    let plain = repeated(1);
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, options()).unwrap();
    store.write(0, &plain).unwrap();
    store.flush().unwrap();
    let before = store.end();
    assert!(maintain(&mut store));
    let after = store.end();
    assert!(after * 10 < before * 7, "{before} -> {after}");
    assert!(content(&mut store) == plain);
    assert_sound(&mut store, "maintained");
    // All is changed by a little: what was the same is not any more.
    let mut changed = plain.clone();
    for (number, page) in changed.chunks_mut(PAGE).enumerate() {
        page[..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    store.write(0, &changed).unwrap();
    store.commit().unwrap();
    store.write(0, &plain).unwrap();
    store.flush().unwrap();
    assert!(maintain(&mut store));
    let again = store.end();
    assert!(again < after + after / 50, "{after} -> {again}");
    store.write(0, &plain[..PAGE]).unwrap();
    store.flush().unwrap();
    assert!(!maintain(&mut store), "a third time");
}

/// The work of a step that is interrupted half way is undone: nothing of it is committed with the next write.
#[test]
fn an_interrupted_step_is_undone() {
    let plain = repeated(2);
    let disk = MemoryStorage::default();
    // Each write takes longer than the time within which no second look for an interrupt is taken.
    let slow = |call| {
        if matches!(call, Call::Write { .. }) && litepack_io::interrupt::is_listening() {
            std::thread::sleep(Duration::from_millis(11));
        }
        Ok(())
    };
    let mut store = Store::open(Watched::new(&disk, slow), options()).unwrap();
    store.write(0, &plain).unwrap();
    store.flush().unwrap();
    let mut maintenance = Maintenance::plan(&mut store, LEVEL, Former::Gone).unwrap();
    let ended = loop {
        // The first look finds nothing, and the second one an interrupt.
        let looks = std::cell::Cell::new(0);
        let ask = move || looks.replace(looks.get() + 1) > 0;
        match listen(ask, || maintenance.step(&mut store, Former::Gone)) {
            Ok(Progress::More) => {}
            ended => break ended,
        }
    };
    let is_interrupted = matches!(ended, Err(ref error) if error.is_interrupted());
    assert!(is_interrupted, "{ended:?}");
    assert!(!store.in_transaction());
    assert!(content(&mut store) == plain);
    assert_sound(&mut store, "interrupted");
}
