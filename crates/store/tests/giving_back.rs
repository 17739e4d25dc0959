//! Free space goes back to the file system: after the database got shorter, and after most of it was
//! rewritten.

use std::sync::Arc;

use litepack_codec::Dictionary;
use litepack_io::storage::{ReadAt, Storage};
use litepack_io::testing::{CrashingStorage, MemoryStorage};
use litepack_store::{Cache, FileId, Options, Store, Unit};

const PAGE: usize = 4096;

fn open<D: Storage>(disk: D) -> Store<D> {
    let cache = Arc::new(Cache::new(1 << 20));
    let options = Options {
        cache,
        file: FileId::unique(),
        ..Options::default()
    };
    Store::open(disk, options).expect("it opens")
}

/// Words with numbers: compressible to a third or so.
fn page(number: usize, version: usize) -> Vec<u8> {
    let mut state = (number * 1000 + version) as u64;
    let mut text = String::new();
    while text.len() < PAGE {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        text.push_str(&format!("name {}, value {}; ", state >> 40, state >> 50));
    }
    text.truncate(PAGE);
    text.into_bytes()
}

fn write<D: Storage>(store: &mut Store<D>, pages: usize, version: usize) {
    for number in 0..pages {
        store
            .write((number * PAGE) as u64, &page(number, version))
            .expect("written");
    }
    store.commit().expect("committed");
    store.flush().expect("flushed");
}

fn compact(store: &mut Store<&MemoryStorage>) {
    let mut at = 0;
    while let Some(next) = store.compact_some(at).expect("compacted") {
        at = next;
    }
}

fn assert_tight(store: &mut Store<&MemoryStorage>, what: &str) {
    let report = store.check(&mut |_| Ok(())).expect("readable");
    assert!(
        report.is_ok() && report.lost_bytes == 0,
        "{what}: {report:?}"
    );
    let info = store.info().expect("readable");
    let needed = info.stored_bytes
        + info
            .dictionaries
            .iter()
            .map(|len| u64::from(*len))
            .sum::<u64>();
    let slack = info.file_bytes - needed;
    assert!(slack < needed / 6 + (96 << 10), "{what}: {info:?}");
}

#[test]
fn a_database_that_is_written_anew_does_not_grow() {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    for version in 0..5 {
        write(&mut store, 1500, version);
        assert_tight(&mut store, &format!("version {version}"));
    }
}

#[test]
fn a_database_that_gets_shorter_gives_space_back() {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    write(&mut store, 2000, 1);
    store.truncate((700 * PAGE) as u64).expect("cut");
    store.commit().expect("committed");
    store.flush().expect("flushed");
    assert_tight(&mut store, "cut");
    let mut found = vec![0; PAGE];
    for number in (0..700).rev() {
        store
            .read((number * PAGE) as u64, &mut found)
            .expect("readable");
        assert_eq!(found, page(number, 1), "page {number}");
    }
}

/// A large transaction was rolled back, so the next commit has the file cut. Each call of its flush fails once: it says
/// so if, and only if, the commit is not there.
#[test]
fn a_commit_that_is_durable_has_not_failed_if_the_file_cannot_be_cut() {
    let (mut failing, mut uncut) = (0, 0);
    loop {
        let disk = CrashingStorage::default();
        let mut store = open(disk.clone());
        write(&mut store, 10, 1);
        // More than is kept in memory.
        for number in 0..2200 {
            let written = store.write((number * PAGE) as u64, &page(number, 2));
            written.expect("written");
        }
        store.rollback();
        store.write(0, &page(0, 3)).expect("written");
        store.commit().expect("committed");
        let (call, len) = (disk.calls() + failing, disk.len().unwrap());
        disk.fail(call, call + 1);
        let flushed = store.flush();
        if disk.calls() <= call {
            assert!(disk.len().unwrap() < len);
            break;
        }
        let (mut other, mut found) = (open(disk.clone()), vec![0; PAGE]);
        other.refresh().expect("readable");
        other.read(0, &mut found).expect("readable");
        let is_new = found == page(0, 3);
        assert_eq!(flushed.is_ok(), is_new, "call {failing}: {flushed:?}");
        if is_new && disk.len().unwrap() == len {
            uncut += 1;
            write(&mut store, 1, 4);
            assert!(disk.len().unwrap() < len, "call {failing}");
        }
        failing += 1;
    }
    assert!(uncut >= 1, "{failing} calls");
}

#[test]
fn space_that_random_changes_have_scattered_is_given_back_too() {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    write(&mut store, 1500, 0);
    let mut state = 1u64;
    for version in 1..40 {
        for _ in 0..100 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let number = (state >> 33) as usize % 1500;
            store
                .write((number * PAGE) as u64, &page(number, version))
                .expect("written");
        }
        store.commit().expect("committed");
    }
    let info = store.info().expect("readable");
    assert!(info.file_bytes < info.stored_bytes * 2, "{info:?}");
    write(&mut store, 1500, 99);
    assert_tight(&mut store, "rewritten");
}

/// A dictionary at the end of the file, and holes that are too small for it.
#[test]
fn compaction_in_steps_leaves_little_free() {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    write(&mut store, 3000, 1);
    // Every third page, in small transactions: what becomes free is scattered.
    for version in 2..6 {
        for number in (version % 3..3000).step_by(3) {
            let at = (number * PAGE) as u64;
            let bytes = page(number, version * 7);
            store.write(at, &bytes).expect("written");
            if number % 60 < 3 {
                store.commit().expect("committed");
            }
        }
        store.flush().expect("flushed");
    }
    let dictionary = Dictionary::new(vec![7; 100_000]);
    store.add_dictionary(&dictionary, vec![1]).expect("added");
    store.commit().expect("committed");
    let before = store.info().expect("readable");
    let mut arranged = store.reorder().expect("looked at");
    assert!(arranged.is_some(), "nothing to do: {before:?}");
    while let Some(at) = arranged {
        arranged = store.reorder_some(at).expect("arranged");
    }
    compact(&mut store);
    store.set_maintained().expect("finished");
    let after = store.info().expect("readable");
    let spared = after.free_bytes < after.file_bytes / 40;
    assert!(spared, "{before:?} {after:?}");
    let report = store.check(&mut |_| Ok(())).expect("readable");
    assert!(report.is_ok() && report.lost_bytes == 0, "{report:?}");
    let mut found = vec![0; PAGE];
    for number in 0..3000 {
        let at = (number * PAGE) as u64;
        store.read(at, &mut found).expect("readable");
        let newest = (2..6).rev().find(|version| number % 3 == version % 3);
        assert_eq!(found, page(number, newest.map_or(1, |version| version * 7)));
    }
}

#[test]
fn pages_that_are_buffered_are_not_replaced_by_what_they_were() {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    write(&mut store, 300, 1);
    store.write(0, &page(0, 2)).expect("written");
    let mut at = Some(Unit::FIRST);
    while let Some(from) = at {
        at = store.recompress(from, &|_| 0).expect("stored again");
    }
    store.commit().expect("committed");
    store.flush().expect("flushed");
    let mut found = vec![0; PAGE];
    for number in 0..300 {
        let at = (number * PAGE) as u64;
        store.read(at, &mut found).expect("readable");
        assert!(found == page(number, 1 + usize::from(number == 0)));
    }
}

#[test]
fn a_dictionary_of_pages_that_are_buffered_is_in_use() {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    write(&mut store, 300, 1);
    let dictionary = Dictionary::new(page(7, 1));
    let number = store.add_dictionary(&dictionary, vec![1]).expect("added");
    let new = page(0, 2);
    store.write_with(0, &new, number).expect("written");
    store.drop_unused_dictionaries(&[]).expect("dropped");
    store.commit().expect("committed");
    store.flush().expect("flushed");
    assert_eq!(store.dictionary_of(Unit::FIRST).expect("mapped"), number);
    drop(store);
    let mut store = open(&disk);
    store.refresh().expect("readable");
    let mut found = vec![0; PAGE];
    assert_eq!(store.read(0, &mut found).expect("readable"), PAGE);
    assert!(found == new);
}

/// Compaction looks at what is stored, and the transaction has cut some of that off.
#[test]
fn what_a_running_transaction_has_cut_off_is_not_moved() {
    let disk = MemoryStorage::default();
    let mut store = open(&disk);
    write(&mut store, 300, 1);
    for number in 0..100 {
        let at = (number * PAGE) as u64;
        store.write(at, &[0; PAGE]).expect("written");
    }
    store.flush().expect("flushed");
    store.truncate((200 * PAGE) as u64).expect("cut");
    compact(&mut store);
    store
        .write((299 * PAGE) as u64, &page(299, 2))
        .expect("written");
    store.flush().expect("flushed");
    let mut found = vec![0; PAGE];
    for number in 0..300 {
        let at = (number * PAGE) as u64;
        store.read(at, &mut found).expect("readable");
        let expected = match number {
            100..200 => page(number, 1),
            299 => page(number, 2),
            _ => vec![0; PAGE],
        };
        assert!(found == expected, "page {number}");
    }
    assert_tight(&mut store, "cut");
}
