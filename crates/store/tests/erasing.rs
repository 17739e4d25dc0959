//! Content that a commit no longer has is gone from the file's bytes, when it was to be erased.
//!
//! Every page is incompressible and so stored as it is, with its number in four places. Runs print their seed;
//! LITEPACK_SEED runs one, LITEPACK_LONG many more.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use litepack_codec::Dictionary;
use litepack_io::testing::CrashingStorage;
use litepack_store::{Cache, Erase, FileId, Options, Store, Unit};
use rand::rngs::StdRng as SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use support::seeds;

const PAGE: usize = 4096;
/// Before each of a page's numbers.
const SIGN: &[u8; 8] = b"\x93secret\xa7";

fn open(disk: &CrashingStorage, erase: Erase) -> Store<CrashingStorage> {
    let options = Options {
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        ..Options::default()
    };
    let mut store = Store::open(disk.clone(), options).expect("it opens");
    store.refresh().expect("a commit");
    store.set_erase(erase);
    store
}

/// A page with this number, of so many bytes.
fn secret(rng: &mut SmallRng, number: u64, len: usize) -> Vec<u8> {
    let mut page = vec![0; len];
    rng.fill_bytes(&mut page);
    for at in (100..len).step_by(1100) {
        page[at..at + 8].copy_from_slice(SIGN);
        page[at + 8..at + 16].copy_from_slice(&number.to_le_bytes());
    }
    page
}

/// The numbers of the pages of which there is anything in these bytes.
fn found(bytes: &[u8]) -> BTreeSet<u64> {
    let signs = bytes.windows(16).filter(|at| at.starts_with(SIGN));
    signs
        .map(|at| u64::from_le_bytes(at[8..].try_into().expect("eight bytes")))
        .collect()
}

fn live(disk: &CrashingStorage) -> BTreeSet<u64> {
    found(&disk.after_power_loss(1))
}

/// The secrets that are surely on the medium.
fn durable(disk: &CrashingStorage) -> BTreeSet<u64> {
    found(&disk.after_power_loss(0))
}

/// The database as it should be: by place the page's number.
type Pages = BTreeMap<usize, u64>;

fn numbers(pages: &Pages) -> BTreeSet<u64> {
    pages.values().copied().collect()
}

fn change(
    rng: &mut SmallRng,
    store: &mut Store<CrashingStorage>,
    pages: &mut Pages,
    next: &mut u64,
) {
    if rng.random_ratio(1, 10) {
        let len = rng.random_range(0..60);
        if store.size() > (len * PAGE) as u64 {
            store.truncate((len * PAGE) as u64).expect("cut");
            pages.retain(|at, _| *at < len);
        }
        return;
    }
    let at = rng.random_range(0..60);
    if rng.random_ratio(1, 8) {
        store.write((at * PAGE) as u64, &[0; PAGE]).expect("zeros");
        pages.remove(&at);
        return;
    }
    *next += 1;
    let page = secret(rng, *next, PAGE);
    store.write((at * PAGE) as u64, &page).expect("written");
    pages.insert(at, *next);
}

/// Steps that give extents other places, or have copies of them; all but the dictionaries' samples, which are not the
/// database's.
fn upkeep(rng: &mut SmallRng, store: &mut Store<CrashingStorage>) {
    match rng.random_range(0..4) {
        0 => {
            let mut at = 0;
            while let Some(next) = store.compact_some(at).expect("compacted") {
                at = next;
            }
        }
        1 => {
            let mut at = store.reorder().expect("looked at");
            while let Some(next) = at {
                at = store.reorder_some(next).expect("arranged");
            }
        }
        2 => {
            let units = (0..40).map(|_| Unit(rng.random_range(0..60))).collect();
            store.set_prefetch(units, 1 << 18).expect("a segment");
        }
        _ => store.tidy().expect("tidy"),
    }
}

fn run(seed: u64, erase: Erase) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let disk = CrashingStorage::default();
    let mut store = open(&disk, erase);
    let (mut pages, mut committed, mut next) = (Pages::new(), Pages::new(), 0);
    for step in 0..120 {
        let context = format!("{erase:?}, seed {seed}, step {step}");
        for _ in 0..rng.random_range(1..12) {
            change(&mut rng, &mut store, &mut pages, &mut next);
        }
        match rng.random_range(0..10) {
            0 => {
                store.rollback();
                pages = committed.clone();
            }
            1 => {
                // Without a flush nothing is erased.
                store.rollback();
                store.flush().expect("flushed");
                drop(store.close());
                store = open(&disk, erase);
                pages = committed.clone();
            }
            2 => upkeep(&mut rng, &mut store),
            _ => {}
        }
        store.commit().expect("committed");
        if erase == Erase::WithFlush && rng.random_bool(0.7) {
            committed.clone_from(&pages);
            continue;
        }
        store.flush().expect("flushed");
        committed.clone_from(&pages);
        let wanted = numbers(&committed);
        let left: Vec<_> = live(&disk).difference(&wanted).copied().collect();
        assert!(left.is_empty(), "{context}: {left:?} are in the file");
        if erase == Erase::WithCommit {
            let left: Vec<_> = durable(&disk).difference(&wanted).copied().collect();
            assert!(left.is_empty(), "{context}: {left:?} are on the medium");
        }
        let kept = live(&disk).intersection(&wanted).count();
        assert_eq!(kept, wanted.len(), "{context}: this shows nothing");
        let report = store.check(&mut |_| Ok(())).expect("readable");
        assert!(
            report.is_ok() && report.lost_bytes == 0,
            "{context}: {report:?}"
        );
    }
}

#[test]
fn nothing_of_a_deleted_page_is_left_after_a_commit() {
    for seed in seeds(12, 300) {
        run(seed, Erase::WithCommit);
    }
}

#[test]
fn nothing_of_a_deleted_page_is_left_after_a_flush() {
    for seed in seeds(12, 300) {
        run(seed, Erase::WithFlush);
    }
}

fn filled(disk: &CrashingStorage, pages: u64) -> Store<CrashingStorage> {
    let mut rng = SmallRng::seed_from_u64(pages);
    let mut store = open(disk, Erase::Never);
    for number in 0..pages {
        let page = secret(&mut rng, number, PAGE);
        store.write(number * PAGE as u64, &page).expect("written");
    }
    store.flush().expect("flushed");
    store
}

/// A commit acknowledged is erased even without a request for durability, and one that frees nothing is not flushed.
#[test]
fn a_commit_with_nothing_to_erase_costs_no_flush() {
    let disk = CrashingStorage::default();
    let mut store = filled(&disk, 10);
    store.set_erase(Erase::WithCommit);
    let calls = disk.calls();
    store.write(10 * PAGE as u64, &[7; PAGE]).expect("written");
    store.commit().expect("committed");
    assert!(durable(&disk).contains(&3));
    assert_eq!(disk.syncs_since(calls), 0);
    store.write(3 * PAGE as u64, &[7; PAGE]).expect("written");
    store.commit().expect("committed");
    assert!(!durable(&disk).contains(&3));
}

/// Not being asked costs nothing.
#[test]
fn without_it_a_commit_makes_the_same_calls_as_ever() {
    let calls = |erase: Erase| {
        let disk = CrashingStorage::default();
        let mut store = filled(&disk, 10);
        store.set_erase(erase);
        let before = disk.calls();
        store.write(0, &[7; PAGE]).expect("written");
        store.flush().expect("flushed");
        (disk.calls() - before, disk.syncs_since(before))
    };
    let (never, with_flush, with_commit) = (
        calls(Erase::Never),
        calls(Erase::WithFlush),
        calls(Erase::WithCommit),
    );
    assert_eq!(never.1, 1, "one flush");
    assert_eq!((with_flush.0 - never.0, with_flush.1), (1, 1));
    assert_eq!((with_commit.0 - never.0, with_commit.1), (2, 2));
}

/// A transaction so large that most of it was in the file before it was dropped.
#[test]
fn what_a_dropped_transaction_wrote_is_erased() {
    for erase in [Erase::WithFlush, Erase::WithCommit] {
        let disk = CrashingStorage::default();
        let mut store = filled(&disk, 10);
        store.set_erase(erase);
        let mut rng = SmallRng::seed_from_u64(1);
        for number in 1000..4000 {
            let page = secret(&mut rng, number, PAGE);
            let at = (number - 998) * PAGE as u64;
            store.write(at, &page).expect("written");
        }
        let written = live(&disk).range(1000..).count();
        assert!(written > 500, "{written}: this shows nothing");
        store.rollback();
        assert_eq!(live(&disk), (0..10).collect(), "{erase:?}");
        let mut page = vec![0; PAGE];
        store.read(9 * PAGE as u64, &mut page).expect("readable");
        assert_eq!(found(&page), [9].into());
    }
}

/// Extents that others freed without erasing them, an earlier dictionary included, are overwritten when all is
/// rewritten.
#[test]
fn tidying_leaves_nothing_of_former_content() {
    for erase in [Erase::Never, Erase::WithFlush, Erase::WithCommit] {
        let disk = CrashingStorage::default();
        drop(filled(&disk, 300).close());
        let mut rng = SmallRng::seed_from_u64(2);
        let mut other = open(&disk, Erase::Never);
        for number in (0..300).step_by(3) {
            other
                .write(number * PAGE as u64, &[1; PAGE])
                .expect("written");
            other.commit().expect("committed");
        }
        let dictionary = Dictionary::new(secret(&mut rng, 7777, 3000));
        other.add_dictionary(&dictionary, vec![]).expect("added");
        other.flush().expect("flushed");
        drop(other.close());
        assert_eq!(live(&disk).range(..300).count(), 300);
        assert!(live(&disk).contains(&7777), "this shows nothing");

        let mut store = open(&disk, erase);
        store.set_rewriting(true);
        for number in 0..200 {
            let page = secret(&mut rng, 1000 + number, PAGE);
            store.write(number * PAGE as u64, &page).expect("written");
        }
        store.truncate(200 * PAGE as u64).expect("cut");
        store.commit().expect("committed");
        store.tidy().expect("tidy");
        store.set_rewriting(false);
        let mut left = live(&disk);
        if erase != Erase::WithCommit {
            left.remove(&7777);
        }
        assert_eq!(left, (1000..1200).collect(), "{erase:?}");
        let len = disk.after_power_loss(1).len();
        assert!(len < 210 * PAGE, "{erase:?}: {len} bytes");
    }
}

/// A handle in another process that still reads the commit before gets what is there now, not zeros.
#[test]
fn a_reader_of_an_erased_commit_sees_the_newer_one() {
    let disk = CrashingStorage::default();
    let mut store = filled(&disk, 20);
    let mut reader = open(&disk, Erase::Never);
    store.set_erase(Erase::WithCommit);
    store.write(5 * PAGE as u64, &[7; PAGE]).expect("written");
    store.commit().expect("committed");
    let mut page = vec![0; PAGE];
    reader.read(5 * PAGE as u64, &mut page).expect("readable");
    assert_eq!(page, [7; PAGE]);
}

/// Bytes that could not be overwritten are with the next flush; the commit itself is not said to have failed.
#[test]
fn what_could_not_be_erased_is_tried_again() {
    let disk = CrashingStorage::default();
    drop(filled(&disk, 20).close());
    let mut store = open(&disk, Erase::WithCommit);
    let before = disk.calls();
    store.write(5 * PAGE as u64, &[7; PAGE]).expect("written");
    // Of the calls of this commit, those behind its flush.
    let probe = CrashingStorage::with_image(disk.after_power_loss(1));
    let mut other = open(&probe, Erase::Never);
    other.write(5 * PAGE as u64, &[7; PAGE]).expect("written");
    other.flush().expect("flushed");
    disk.fail(before + probe.calls(), u64::MAX);
    store.commit().expect("the commit is safe");
    disk.fail(0, 0);
    assert!(live(&disk).contains(&5), "this shows nothing");
    store.write(6 * PAGE as u64, &[7; PAGE]).expect("written");
    store.commit().expect("committed");
    let left = durable(&disk);
    assert!(!left.contains(&5) && !left.contains(&6), "{left:?}");
}

/// Which handles erase is each one's own affair; they may take turns.
#[test]
fn handles_that_take_turns_erase_what_they_free() {
    let mut rng = SmallRng::seed_from_u64(11);
    let disk = CrashingStorage::default();
    drop(filled(&disk, 40).close());
    let mut handles = [
        open(&disk, Erase::WithCommit),
        open(&disk, Erase::Never),
        open(&disk, Erase::WithCommit),
    ];
    let mut kept: BTreeMap<u64, u64> = (0..40).map(|number| (number, number)).collect();
    let mut unerased = BTreeSet::new();
    for number in 1000..1400 {
        let at = rng.random_range(0..40);
        let page = secret(&mut rng, number, PAGE);
        let which = *[0, 1, 2].choose(&mut rng).expect("one of three");
        let store = &mut handles[which];
        store.refresh().expect("the newest commit");
        store.write(at * PAGE as u64, &page).expect("written");
        store.flush().expect("flushed");
        let former = kept.insert(at, number).expect("a page");
        if which == 1 {
            unerased.insert(former);
        }
        let wanted: BTreeSet<u64> = kept.values().copied().collect();
        let left: Vec<_> = live(&disk).difference(&wanted).copied().collect();
        assert!(
            left.iter().all(|number| unerased.contains(number)),
            "{left:?}"
        );
        assert!(live(&disk).is_superset(&wanted));
    }
}
