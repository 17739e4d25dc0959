//! Scans find what was decoded ahead of them, never see another commit's pages, and say of damage only where it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use litepack_io::cache::{Cache, FileId};
use litepack_io::scans::Step;
use litepack_io::testing::MemoryStorage;

use crate::format::leaf::Entry;
use crate::format::unit::Unit;
use crate::options::Options;
use crate::snapshot::handle::Snapshot;
use crate::snapshot::prefetch::{BUDGET_MIN, RULE};
use crate::transaction::store::Store;

const RUN_MIN: u64 = RULE.run_min;
const PAGE: u64 = 4096;
const PAGES: u64 = 400;

fn options(threads: usize) -> Options {
    Options {
        threads,
        cache: Arc::new(Cache::new(BUDGET_MIN)),
        file: FileId::unique(),
        ..Options::default()
    }
}

fn page(number: u64, version: u64) -> Vec<u8> {
    let text = format!("page {number}, version {version}; ");
    text.bytes().cycle().take(PAGE as usize).collect()
}

fn write(store: &mut Store<&MemoryStorage>, pages: impl Iterator<Item = u64>, version: u64) {
    for number in pages {
        store.write(number * PAGE, &page(number, version)).unwrap();
    }
    store.commit().unwrap();
    store.flush().unwrap();
}

fn read(store: &mut Snapshot<&MemoryStorage>, number: u64) -> Vec<u8> {
    let mut found = vec![0; PAGE as usize];
    store.read(number * PAGE, &mut found).unwrap();
    found
}

fn filled() -> MemoryStorage {
    filled_with(PAGES)
}

fn filled_with(pages: u64) -> MemoryStorage {
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, options(1)).unwrap();
    write(&mut store, 0..pages, 0);
    store.close();
    disk
}

fn reader(disk: &MemoryStorage, options: Options) -> Snapshot<&MemoryStorage> {
    let mut store = Snapshot::open(disk, &options).unwrap();
    store.refresh().unwrap();
    store
}

#[test]
fn a_scan_finds_pages_decoded_that_it_never_read() {
    let disk = filled();
    let mut store = reader(&disk, options(2));
    for number in 0..=RUN_MIN {
        assert!(read(&mut store, number) == page(number, 0), "page {number}");
    }
    assert_eq!(kept_ahead(&mut store, RUN_MIN + 2..RUN_MIN + 9), 7);
    for number in 0..PAGES {
        assert!(read(&mut store, number) == page(number, 0), "page {number}");
    }
}

/// As of tables that a plan reads in turns: all pages but the first of each scan are decoded before they are read.
#[test]
fn several_scans_at_once_find_pages_decoded() {
    let disk = filled();
    let mut store = reader(&disk, options(2));
    let mut scans = [0, 130, 260].map(|start| (start, start));
    for step in 0..100 {
        for (start, decoded) in &mut scans {
            let number = *start + step;
            assert!(step <= RUN_MIN || number < *decoded, "page {number}");
            assert!(read(&mut store, number) == page(number, 0), "page {number}");
            let given = store.pages.scans.current().unasked();
            if step >= RUN_MIN && given > *decoded {
                let ahead = number + 2..given;
                let wanted = ahead.end.saturating_sub(ahead.start) as usize;
                assert_eq!(kept_ahead(&mut store, ahead), wanted, "page {number}");
                *decoded = given;
            }
        }
    }
}

#[test]
fn reads_elsewhere_do_not_end_a_scan() {
    let disk = filled();
    let mut store = reader(&disk, options(2));
    for number in 0..=RUN_MIN {
        read(&mut store, number);
    }
    for elsewhere in [300, 200, 100] {
        read(&mut store, elsewhere);
        assert!(!store.pages.is_first_use(Unit(elsewhere)));
    }
    let next = RUN_MIN + 1;
    assert_eq!(store.pages.scans.note(next, next), Step::GoesOn);
    assert!(
        store.pages.is_first_use(Unit(next)),
        "it was given before that"
    );
    assert!(!store.pages.is_first_use(Unit(next)));
}

/// Waits until the worker has done what it was given.
fn wait_for_worker(store: &Snapshot<&MemoryStorage>) {
    let begun = Instant::now();
    while !store.pages.workers.is_idle() {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(300), "the worker is stuck");
        std::thread::yield_now();
    }
}

/// How many of these pages a worker has decoded, once it has done what it was given. The cache may have given up a few:
/// those that came while the other thread made room.
fn kept_ahead(store: &mut Snapshot<&MemoryStorage>, pages: std::ops::Range<u64>) -> usize {
    wait_for_worker(store);
    pages
        .filter(|number| {
            let entry = store.entry(Unit(*number)).unwrap();
            store.pages.medium.cache.has_page(&entry, 4096)
        })
        .count()
}

/// However fast workers are: every page of the scan was decoded before it is asked for.
#[test]
fn a_scan_does_not_push_out_what_is_used_again_and_again() {
    const USED: u64 = 1500;
    const ALL: u64 = 8000;
    let disk = filled_with(ALL);
    let options = options(2);
    let alone = Options {
        threads: 1,
        ..options.clone()
    };
    let mut often = reader(&disk, alone);
    for number in (0..3).flat_map(|_| 0..USED) {
        read(&mut often, number);
    }
    let mut scanner = reader(&disk, options);
    let (mut given, mut kept, mut all) = (0, 0, 0);
    for number in USED..ALL {
        let last = scanner.pages.scans.current().unasked().min(ALL);
        if last > given {
            let ahead = given.max(number + 2)..last;
            all += ahead.end.saturating_sub(ahead.start) as usize;
            kept += kept_ahead(&mut scanner, ahead);
            given = last;
        }
        assert!(
            read(&mut scanner, number) == page(number, 0),
            "page {number}"
        );
    }
    assert!(all > 6000 && kept > all * 98 / 100, "{kept} of {all}");
    let left = kept_ahead(&mut often, 0..USED);
    assert!(left > 1450, "{left} of {USED} are left");
}

#[test]
fn no_thread_for_reads_all_over_the_file_nor_for_one_thread_in_all() {
    let disk = filled();
    let mut store = reader(&disk, options(2));
    for number in (0..PAGES).map(|number| number * 37 % PAGES) {
        assert!(read(&mut store, number) == page(number, 0), "page {number}");
    }
    assert_eq!(store.pages.workers.started(), 0);
    let mut store = reader(&disk, options(1));
    for number in 0..PAGES {
        assert!(read(&mut store, number) == page(number, 0), "page {number}");
    }
    assert_eq!(store.pages.workers.started(), 0);
}

/// The writer's changes overtake what workers decode, in the same cache under the same identity.
#[test]
fn a_scan_never_sees_pages_of_an_older_commit() {
    let disk = filled();
    let shared = options(2);
    let mut writer = Store::open(&disk, shared.clone()).unwrap();
    let mut scanner = reader(&disk, shared);
    let mut versions = vec![0; PAGES as usize];
    let mut version = 0;
    for number in (0..PAGES).chain(0..PAGES) {
        if number % 5 == 4 {
            version += 1;
            let ahead = (number..PAGES.min(number + 24)).step_by(3);
            ahead.clone().for_each(|n| versions[n as usize] = version);
            write(&mut writer, ahead, version);
            scanner.refresh().unwrap();
        }
        let expected = page(number, versions[number as usize]);
        assert!(read(&mut scanner, number) == expected, "page {number}");
    }
    assert_ne!(scanner.pages.workers.started(), 0);
}

/// The scan stays at an old commit while the bytes it names are used for other pages.
#[test]
fn what_was_overwritten_is_not_taken_for_what_it_was() {
    let disk = filled();
    let shared = options(2);
    let mut writer = Store::open(&disk, shared.clone()).unwrap();
    let mut versions = vec![vec![0]; PAGES as usize];
    let mut version = 0;
    for _ in 0..3 {
        let mut scanner = reader(&disk, shared.clone());
        for number in 0..PAGES {
            if number % 3 == 0 {
                version += 1;
                // The same stored lengths, so that freed extents are taken again as they are.
                let changed = (version % 7..PAGES).step_by(7);
                changed
                    .clone()
                    .for_each(|n| versions[n as usize].push(version));
                write(&mut writer, changed, version);
            }
            let found = read(&mut scanner, number);
            let mut known = versions[number as usize].iter().rev();
            assert!(known.any(|v| found == page(number, *v)), "page {number}");
        }
        assert_ne!(scanner.pages.workers.started(), 0);
    }
}

/// Two pages have changed places on disk: what is read ahead decodes, but is not what it should be.
#[test]
fn what_has_the_wrong_checksum_is_not_decoded_ahead() {
    let disk = filled();
    let mut before = reader(&disk, options(1));
    let units = Unit::FIRST.up_to(Unit(PAGES));
    let entries: Vec<Entry> = units.map(|unit| before.entry(unit).unwrap()).collect();
    let among = RUN_MIN as usize + 3..RUN_MIN as usize + 13;
    let (one, other) = among
        .clone()
        .flat_map(|one| (one + 1..among.end).map(move |other| (one, other)))
        .find(|(one, other)| entries[*one].len == entries[*other].len)
        .expect("pages so alike are stored in the same length");
    let mut bytes = disk.snapshot();
    for n in 0..entries[one].len as usize {
        bytes.swap(
            entries[one].offset.0 as usize + n,
            entries[other].offset.0 as usize + n,
        );
    }
    let disk = MemoryStorage::new(bytes);
    let mut store = reader(&disk, options(2));
    for number in 0..=RUN_MIN {
        assert!(read(&mut store, number) == page(number, 0));
    }
    wait_for_worker(&store);
    let mut found = vec![0; PAGE as usize];
    for number in [one, other] {
        assert!(store.read(number as u64 * PAGE, &mut found).is_err());
    }
}

/// Damage ahead of a scan is reported when the scan gets there, and not before.
#[test]
fn damage_ahead_is_reported_where_it_is() {
    let disk = filled();
    let damaged = RUN_MIN + 6;
    let entry = reader(&disk, options(1)).entry(Unit(damaged)).unwrap();
    let mut bytes = disk.snapshot();
    bytes[entry.offset.0 as usize] ^= 1;
    let disk = MemoryStorage::new(bytes);
    let mut store = reader(&disk, options(2));
    for number in (0..damaged).chain(damaged + 1..PAGES) {
        assert!(read(&mut store, number) == page(number, 0), "page {number}");
    }
    let mut found = vec![0; PAGE as usize];
    let error = store.read(damaged * PAGE, &mut found).unwrap_err();
    assert!(
        error.to_string().contains(&format!("page {}", damaged + 1)),
        "{error}"
    );
}
