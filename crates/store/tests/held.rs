//! Content of a file that others need stays there, bit for bit, whatever is written meanwhile and whatever a power loss
//! leaves; and when they need it no longer its space is free.
//!
//! Runs print their seed; LITEPACK_SEED runs one, LITEPACK_LONG many more.

mod support;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use litepack_io::storage::{ReadAt, Storage};
use litepack_io::testing::{Call, CrashingStorage, MemoryStorage, Watched};
use litepack_store::{
    CommitRecord, Erase, Error, FileState, HEAD_LEN, LogNumbers, Needed, Needs, Snapshot, Store,
};
use rand::rngs::StdRng as SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use support::{encrypt_some, options, seeds};

const PAGE: usize = 4096;

/// The database as it should be, by place.
type Pages = BTreeMap<usize, Vec<u8>>;

/// The answer of others, who need a part of the file.
#[derive(Clone, Debug)]
struct Others(Arc<Mutex<Needed>>);

impl Others {
    fn new() -> Others {
        Others(Arc::new(Mutex::new(Needed::Nothing)))
    }

    fn say(&self, needed: Needed) {
        *self.0.lock().unwrap() = needed;
    }
}

impl Needs for Others {
    fn needed(&self) -> io::Result<Needed> {
        Ok(*self.0.lock().unwrap())
    }
}

fn open<D: Storage>(disk: D, others: &Others) -> Store<D> {
    let mut store = Store::open(disk, options()).unwrap();
    store.set_needs(Box::new(others.clone()));
    store.refresh().unwrap();
    store
}

/// Half of it compresses.
fn page(rng: &mut SmallRng) -> Vec<u8> {
    let mut page = vec![rng.random(); PAGE];
    rng.fill_bytes(&mut page[..PAGE / 2]);
    page
}

/// The record of the newest commit, if a log may stand on it.
fn base<D: Storage>(store: &Store<D>) -> Option<CommitRecord> {
    let mut head = [0; HEAD_LEN];
    store.disk().read_at(&mut head, 0).unwrap();
    let state = FileState::of(&head, store.keys()).unwrap()?;
    (state.is_durable && state.is_base).then_some(state.record)
}

/// Others begin to need the newest commit.
fn stand<D: Storage>(store: &Store<D>, others: &Others) -> CommitRecord {
    let record = base(store).expect("a log may stand on it");
    others.say(Needed::Commit(record));
    record
}

/// Compares all of a commit with what it should be.
fn expect<D: Storage>(disk: impl ReadAt, store: &Store<D>, record: &CommitRecord, pages: &Pages) {
    let mut found = Snapshot::at(disk, record, store.keys(), &options()).unwrap();
    let mut bytes = vec![0; PAGE];
    for at in 0..found.size() as usize / PAGE {
        let read = found.read((at * PAGE) as u64, &mut bytes);
        assert_eq!(
            read.unwrap_or_else(|error| panic!("page {at}: {error}")),
            PAGE
        );
        match pages.get(&at) {
            Some(page) => assert!(*page == bytes, "page {at}"),
            None => assert!(bytes.iter().all(|byte| *byte == 0), "page {at}"),
        }
    }
    assert!(
        pages
            .keys()
            .all(|at| ((at + 1) * PAGE) as u64 <= found.size())
    );
}

/// Has the running transaction's commit be one that a log may stand on.
fn number<D: Storage>(store: &mut Store<D>, rng: &mut SmallRng) {
    let numbers = LogNumbers {
        next: rng.random(),
        ..LogNumbers::default()
    };
    store.set_log_numbers(numbers, true);
}

/// Writes new content to these pages.
fn fill<D: Storage>(
    store: &mut Store<D>,
    rng: &mut SmallRng,
    pages: &mut Pages,
    part: Range<usize>,
) {
    for at in part {
        pages.insert(at, page(rng));
        store.write((at * PAGE) as u64, &pages[&at]).unwrap();
    }
}

fn change<D: Storage>(rng: &mut SmallRng, store: &mut Store<D>, pages: &mut Pages) {
    for _ in 0..rng.random_range(1..20) {
        if rng.random_ratio(1, 25) {
            let len = rng.random_range(5..60);
            if store.size() > (len * PAGE) as u64 {
                store.truncate((len * PAGE) as u64).unwrap();
                pages.retain(|at, _| *at < len);
            }
            continue;
        }
        let at = rng.random_range(0..80);
        let page = page(rng);
        store.write((at * PAGE) as u64, &page).unwrap();
        pages.insert(at, page);
    }
}

/// A file that a log may stand on, which has something free in the midst of it.
fn made<D: Storage>(rng: &mut SmallRng, store: &mut Store<D>) -> Pages {
    let mut pages = Pages::new();
    for _ in 0..5 {
        change(rng, store, &mut pages);
        number(store, rng);
        store.flush().unwrap();
    }
    pages
}

fn run(seed: u64) {
    println!("seed {seed}");
    encrypt_some(seed);
    let mut rng = SmallRng::seed_from_u64(seed);
    let (disk, others) = (CrashingStorage::default(), Others::new());
    let mut stores = [open(disk.clone(), &others), open(disk.clone(), &others)];
    if rng.random() {
        stores
            .iter_mut()
            .for_each(|s| s.set_erase(Erase::WithFlush));
    }
    let mut pages = made(&mut rng, &mut stores[0]);
    // Each of these is needed.
    let mut needed: Vec<(CommitRecord, Pages)> = Vec::new();
    for _ in 0..60 {
        let store = &mut stores[usize::from(rng.random_ratio(1, 6))];
        store.refresh().unwrap();
        // A log begins, before a transaction or within it.
        let begins = |store: &Store<CrashingStorage>, rng: &mut SmallRng, pages: &Pages| {
            let record = base(store).filter(|_| rng.random_ratio(1, 4))?;
            others.say(Needed::Commit(record));
            Some(vec![(record, pages.clone())])
        };
        needed = begins(store, &mut rng, &pages).unwrap_or(needed);
        let before = pages.clone();
        match rng.random_range(0..10) {
            0 => {
                others.say(Needed::Nothing);
                needed.clear();
            }
            1 => others.say(Needed::Everything),
            2 => {
                let mut at = 0;
                while let Some(next) = store.compact_some(at).unwrap() {
                    at = next;
                }
            }
            3 => {
                let mut at = store.reorder().unwrap();
                while let Some(next) = at {
                    at = store.reorder_some(next).unwrap();
                }
            }
            4 => store.tidy().unwrap(),
            5 => store.compact_fully().unwrap(),
            6 => {
                change(&mut rng, store, &mut pages);
                store.rollback();
                pages = before;
            }
            7 => {
                change(&mut rng, store, &mut pages);
                needed = begins(store, &mut rng, &before).unwrap_or(needed);
                store.commit().unwrap();
            }
            _ => {
                change(&mut rng, store, &mut pages);
                if rng.random() {
                    number(store, &mut rng);
                } else {
                    needed = begins(store, &mut rng, &before).unwrap_or(needed);
                }
                store.flush().unwrap();
            }
        }
        for loss in 0..3 {
            let left =
                MemoryStorage::new(disk.after_power_loss(rng.random_range(0..loss * 99 + 1)));
            for (record, pages) in &needed {
                expect(&left, &stores[0], record, pages);
            }
        }
        for store in &mut stores {
            store.refresh().unwrap();
            let report = store.check(&mut |_| Ok(())).unwrap();
            assert!(report.is_ok() && report.lost_bytes == 0, "{report:?}");
        }
    }
    others.say(Needed::Nothing);
    let store = &mut stores[0];
    store.compact_fully().unwrap();
    let info = store.info().unwrap();
    assert!(
        info.free_bytes < info.file_bytes / 4 + (32 << 10),
        "{info:?}"
    );
}

#[test]
fn what_is_needed_stays() {
    for seed in seeds(12, 500) {
        run(seed);
    }
}

/// As `PRAGMA incremental_vacuum` does it: pages at the end go, and their place could be cut off.
#[test]
fn the_end_of_the_file_stays_and_is_cut_off_later() {
    let (disk, others) = (CrashingStorage::default(), Others::new());
    let mut store = open(disk.clone(), &others);
    let mut rng = SmallRng::seed_from_u64(1);
    let mut pages = Pages::new();
    fill(&mut store, &mut rng, &mut pages, 0..200);
    number(&mut store, &mut rng);
    store.flush().unwrap();
    let record = stand(&store, &others);
    let before = disk.len().unwrap();
    for len in [150, 100, 50, 10] {
        store.truncate((len * PAGE) as u64).unwrap();
        store.flush().unwrap();
        expect(&disk, &store, &record, &pages);
    }
    assert!(disk.len().unwrap() >= before);
    others.say(Needed::Nothing);
    store.write(0, &[1; PAGE]).unwrap();
    store.flush().unwrap();
    store.compact_fully().unwrap();
    assert!(disk.len().unwrap() < before / 4);
}

/// Held space is free, and is neither worth a compaction with each commit nor a step of maintenance.
#[test]
fn nothing_is_compacted_for_what_is_held() {
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut store = open(&disk, &others);
    let mut rng = SmallRng::seed_from_u64(1);
    for at in 0..200 {
        store.write(at * PAGE as u64, &page(&mut rng)).unwrap();
    }
    number(&mut store, &mut rng);
    store.flush().unwrap();
    stand(&store, &others);
    for at in 0..200 {
        store.write(at * PAGE as u64, &page(&mut rng)).unwrap();
    }
    store.flush().unwrap();
    let len = disk.len().unwrap();
    for _ in 0..10 {
        let seq = store.seq();
        store.write(0, &page(&mut rng)).unwrap();
        store.flush().unwrap();
        assert_eq!(store.seq(), seq + 1, "it was compacted");
        assert_eq!(store.compact_some(0).unwrap(), None);
        assert_eq!(store.reorder().unwrap(), None);
        assert!(!store.would_be_shorter(0).unwrap());
    }
    assert!(disk.len().unwrap() < len + (64 << 10));
    others.say(Needed::Nothing);
    store.write(0, &page(&mut rng)).unwrap();
    store.flush().unwrap();
    assert!(disk.len().unwrap() < len / 10 * 7);
}

/// A log begins while a commit is made that keeps the number which it begins after. Who comes next has to look at it.
#[test]
fn a_commit_that_keeps_the_numbers_keeps_the_flag() {
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut store = open(&disk, &others);
    let mut rng = SmallRng::seed_from_u64(1);
    store.write(0, &page(&mut rng)).unwrap();
    store.flush().unwrap();
    assert!(
        base(&store).is_none(),
        "without a word no log stands on a commit"
    );
    store.write(0, &page(&mut rng)).unwrap();
    number(&mut store, &mut rng);
    store.flush().unwrap();
    assert!(base(&store).is_some());
    let numbers = store.log_numbers();
    store.write(0, &page(&mut rng)).unwrap();
    store.set_log_numbers(numbers, false);
    store.flush().unwrap();
    assert!(base(&store).is_some());
    let other = LogNumbers {
        next: numbers.next ^ 1,
        ..numbers
    };
    // As long as something is held others have to look, too.
    stand(&store, &others);
    store.write(0, &page(&mut rng)).unwrap();
    store.set_log_numbers(other, false);
    store.flush().unwrap();
    assert!(base(&store).is_some());
    others.say(Needed::Nothing);
    store.write(0, &page(&mut rng)).unwrap();
    store.set_log_numbers(numbers, false);
    store.flush().unwrap();
    assert!(base(&store).is_none());
}

#[test]
fn a_page_of_a_former_commit_is_had_from_the_cache_without_a_read_or_not_at_all() {
    let others = Others::new();
    let read = Arc::new(AtomicUsize::new(0));
    let disk = Watched::new(MemoryStorage::default(), |call| {
        read.fetch_add(
            usize::from(matches!(call, Call::Read { .. })),
            Ordering::Relaxed,
        );
        Ok(())
    });
    let mut rng = SmallRng::seed_from_u64(1);
    let mut store = open(&disk, &others);
    let mut pages = Pages::new();
    fill(&mut store, &mut rng, &mut pages, 0..300);
    number(&mut store, &mut rng);
    store.flush().unwrap();
    let record = stand(&store, &others);
    let mut former = Snapshot::at(&disk, &record, store.keys(), &options()).unwrap();
    let mut bytes = vec![0; PAGE];
    let reads = || read.load(Ordering::Relaxed);
    let before = reads();
    let seven = 7 * PAGE as u64;
    assert!(!former.read_cached(seven, &mut bytes).unwrap());
    assert_eq!(reads(), before);
    // Who needs it once does not keep it.
    for _ in 0..2 {
        assert!(former.read_once(seven, &mut bytes).unwrap());
        assert!(bytes == pages[&7]);
        assert!(!former.read_cached(seven, &mut bytes).unwrap());
    }
    assert!(reads() > before);
    former.read(seven, &mut bytes).unwrap();
    let before = reads();
    bytes.fill(0);
    assert!(former.read_cached(seven, &mut bytes).unwrap());
    assert!(bytes == pages[&7] && reads() == before);
    assert!(former.read_once(seven, &mut bytes).unwrap() && reads() == before);
    // Parts of pages, and an end.
    let part = &mut bytes[..100];
    assert!(former.read_cached(seven + 50, part).unwrap());
    assert!(*part == pages[&7][50..150]);
    assert!(!former.read_cached(300 * PAGE as u64, &mut bytes).unwrap());
    assert!(!former.read_once(300 * PAGE as u64, &mut bytes).unwrap());
}

/// One writer knows what is free in its own commit, however many pieces that is.
#[test]
fn to_hold_the_newest_commit_nothing_is_read() {
    let others = Others::new();
    let read = Arc::new(AtomicUsize::new(0));
    let disk = Watched::new(MemoryStorage::default(), |call| {
        if let Call::Read { len, .. } = call {
            read.fetch_add(len, Ordering::Relaxed);
        }
        Ok(())
    });
    let mut rng = SmallRng::seed_from_u64(1);
    let mut store = open(&disk, &others);
    let mut pages = Pages::new();
    fill(&mut store, &mut rng, &mut pages, 0..2000);
    store.flush().unwrap();
    // Pieces that are free.
    for at in (0..2000).step_by(5) {
        let mut short = vec![0; PAGE];
        rng.fill_bytes(&mut short[..1000]);
        store.write((at * PAGE) as u64, &short).unwrap();
        pages.insert(at, short);
    }
    number(&mut store, &mut rng);
    store.flush().unwrap();
    let of_commit = |store: &mut Store<_>, rng: &mut SmallRng, pages: &mut Pages| {
        let before = read.load(Ordering::Relaxed);
        store.held_bytes().unwrap();
        fill(store, rng, pages, 11..12);
        number(store, rng);
        store.flush().unwrap();
        store.held_bytes().unwrap();
        read.load(Ordering::Relaxed) - before
    };
    // The least of some: a page may have been dropped from the cache.
    let mut least = [usize::MAX; 2];
    for _ in 0..40 {
        others.say(Needed::Nothing);
        least[0] = least[0].min(of_commit(&mut store, &mut rng, &mut pages));
        let record = stand(&store, &others);
        let needed = pages.clone();
        least[1] = least[1].min(of_commit(&mut store, &mut rng, &mut pages));
        expect(&disk, &store, &record, &needed);
    }
    assert!(least[1] < least[0] + 512, "{least:?}");
    // And what was free in it is used again and again.
    let len = disk.len().unwrap();
    for _ in 0..200 {
        of_commit(&mut store, &mut rng, &mut pages);
    }
    assert!(disk.len().unwrap() <= len + (64 << 10));
}

/// A writer that has no one to ask.
#[test]
fn who_cannot_ask_holds_everything() {
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut rng = SmallRng::seed_from_u64(1);
    let mut store = open(&disk, &others);
    let pages = made(&mut rng, &mut store);
    let record = base(&store).unwrap();
    drop(store);
    let mut store = Store::open(&disk, options()).unwrap();
    for version in 0..5 {
        store.write(0, &[version; PAGE]).unwrap();
        store.flush().unwrap();
        expect(&disk, &store, &record, &pages);
        store.tidy().unwrap();
        expect(&disk, &store, &record, &pages);
    }
}

/// Content that was to be erased, and was needed when that was due.
#[test]
fn what_was_needed_is_erased_later() {
    {
        let (disk, others) = (MemoryStorage::default(), Others::new());
        let mut store = open(&disk, &others);
        store.set_erase(Erase::WithFlush);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut secret = vec![0; PAGE];
        rng.fill_bytes(&mut secret);
        store.write(0, &secret).unwrap();
        number(&mut store, &mut rng);
        store.flush().unwrap();
        let has_it = |disk: &MemoryStorage| {
            let image = disk.snapshot();
            image.windows(64).any(|bytes| bytes == &secret[2000..2064])
        };
        let is_plain = store.keys().is_none();
        assert_eq!(has_it(&disk), is_plain);
        let record = stand(&store, &others);
        for version in 1..4 {
            store.write(0, &[version; PAGE]).unwrap();
            store.flush().unwrap();
        }
        expect(&disk, &store, &record, &Pages::from([(0, secret.clone())]));
        others.say(Needed::Nothing);
        store.write(PAGE as u64, &[9; PAGE]).unwrap();
        store.flush().unwrap();
        assert!(!has_it(&disk));
    }
}

/// Another handle has taken what one is to erase when it is needed no longer, and made the file longer.
#[test]
fn what_others_have_taken_since_is_not_erased() {
    for tidies in [false, true] {
        let (disk, others) = (MemoryStorage::default(), Others::new());
        let [mut one, mut other] = [0, 1].map(|_| open(&disk, &others));
        one.set_erase(Erase::WithFlush);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut pages = Pages::new();
        fill(&mut one, &mut rng, &mut pages, 0..50);
        number(&mut one, &mut rng);
        one.flush().unwrap();
        stand(&one, &others);
        fill(&mut one, &mut rng, &mut pages, 0..25);
        number(&mut one, &mut rng);
        one.flush().unwrap();
        // From now on another commit is needed, and the other handle writes.
        other.refresh().unwrap();
        stand(&other, &others);
        fill(&mut other, &mut rng, &mut pages, 60..100);
        number(&mut other, &mut rng);
        other.flush().unwrap();
        let record = base(&other).unwrap();
        match tidies {
            true => one.tidy().unwrap(),
            false => one.give_back(),
        }
        expect(&disk, &other, &record, &pages);
    }
}

/// As after `VACUUM` in WAL mode, whatever `PRAGMA secure_delete` says.
#[test]
fn what_was_needed_when_all_was_tidied_up_is_erased_later() {
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut store = open(&disk, &others);
    let mut rng = SmallRng::seed_from_u64(1);
    let mut secret = vec![0; PAGE];
    rng.fill_bytes(&mut secret);
    store.write(0, &secret).unwrap();
    number(&mut store, &mut rng);
    store.flush().unwrap();
    let record = stand(&store, &others);
    let pages = Pages::from([(0, secret.clone())]);
    store.write(0, &[1; PAGE]).unwrap();
    store.tidy().unwrap();
    expect(&disk, &store, &record, &pages);
    others.say(Needed::Nothing);
    store.write(0, &[2; PAGE]).unwrap();
    store.flush().unwrap();
    let image = disk.snapshot();
    assert!(!image.windows(64).any(|bytes| bytes == &secret[2000..2064]));
}

/// Others say that they need a commit of which not all is there any more: its chain of free space, say.
#[test]
fn of_a_commit_that_is_gone_nothing_more_goes() {
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut rng = SmallRng::seed_from_u64(1);
    let mut store = open(&disk, &others);
    made(&mut rng, &mut store);
    let gone = base(&store).unwrap();
    let mut pages = made(&mut rng, &mut store);
    for _ in 0..10 {
        change(&mut rng, &mut store, &mut pages);
        store.flush().unwrap();
    }
    others.say(Needed::Commit(gone));
    let (len, image) = (disk.len().unwrap(), disk.snapshot());
    change(&mut rng, &mut store, &mut pages);
    store.flush().unwrap();
    let heads = 8 * PAGE;
    assert!(
        disk.snapshot()[heads..len as usize] == image[heads..],
        "taken"
    );
    others.say(Needed::Nothing);
    store.compact_fully().unwrap();
    assert!(disk.len().unwrap() < len * 2);
}

/// A commit that ended behind all that it has, as its end was held, and was rightly cut below that later.
#[test]
fn a_commit_whose_end_was_given_back_is_held_as_others_are() {
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut store = open(&disk, &others);
    let mut rng = SmallRng::seed_from_u64(1);
    // The second time the first pages go to the end, and leave room before it.
    for part in [0..300, 0..100] {
        for at in part {
            store.write(at * PAGE as u64, &page(&mut rng)).unwrap();
        }
        number(&mut store, &mut rng);
        store.flush().unwrap();
    }
    stand(&store, &others);
    let len = disk.len().unwrap();
    for at in 0..100 {
        store.write(at * PAGE as u64, &[0; PAGE]).unwrap();
    }
    number(&mut store, &mut rng);
    store.flush().unwrap();
    assert_eq!(store.end(), len);
    stand(&store, &others);
    for _ in 0..2 {
        store.write(200 * PAGE as u64, &page(&mut rng)).unwrap();
        store.flush().unwrap();
    }
    let shorter = disk.len().unwrap();
    assert!(shorter < len - (100 << 10), "{shorter} of {len}");
    drop(store);
    let mut store = open(&disk, &others);
    for _ in 0..50 {
        store.write(200 * PAGE as u64, &page(&mut rng)).unwrap();
        store.flush().unwrap();
    }
    let after = disk.len().unwrap();
    assert!(after < shorter + (32 << 10), "{after} after {shorter}");
}

/// Of a file made to harm: a commit that claims to reach far behind the end of the file.
#[test]
fn a_commit_that_claims_too_much_makes_no_file_longer() {
    if support::key().is_some() {
        // It is signed.
        return;
    }
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut rng = SmallRng::seed_from_u64(1);
    let mut store = open(&disk, &others);
    let mut pages = made(&mut rng, &mut store);
    let mut forged = base(&store).unwrap();
    forged.0[32..40].copy_from_slice(&(1u64 << 47).to_le_bytes());
    let sum = store.uuid().sum64(&forged.0[..248]);
    forged.0[248..].copy_from_slice(&sum.to_le_bytes());
    Snapshot::at(&disk, &forged, None, &options()).unwrap();
    others.say(Needed::Commit(forged));
    let len = disk.len().unwrap();
    change(&mut rng, &mut store, &mut pages);
    store.flush().unwrap();
    assert!(disk.len().unwrap() < 2 * len);
}

#[test]
fn a_record_of_another_file_or_with_rot_is_damage() {
    let others = Others::new();
    let disks = [MemoryStorage::default(), MemoryStorage::default()];
    let mut stores = [0, 1].map(|at| open(&disks[at], &others));
    let mut rng = SmallRng::seed_from_u64(1);
    for store in &mut stores {
        made(&mut rng, store);
    }
    let records = [0, 1].map(|at| base(&stores[at]).unwrap());
    let mut rotten = records[0];
    rotten.0[77] ^= 1;
    for record in [records[1], rotten, CommitRecord([0; 256])] {
        let keys = stores[0].keys();
        let found = Snapshot::at(&disks[0], &record, keys, &options());
        assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
    }
}

/// Nothing is asked of a file that no log can stand on, and nothing is written if that cannot be found out.
#[test]
fn nothing_is_written_if_it_cannot_be_found_out_what_is_needed() {
    #[derive(Debug)]
    struct Unknown;
    impl Needs for Unknown {
        fn needed(&self) -> io::Result<Needed> {
            Err(io::Error::other("no idea"))
        }
    }
    let (disk, others) = (MemoryStorage::default(), Others::new());
    let mut rng = SmallRng::seed_from_u64(1);
    let mut store = open(&disk, &others);
    store.set_needs(Box::new(Unknown));
    store.write(0, &page(&mut rng)).unwrap();
    number(&mut store, &mut rng);
    store.flush().unwrap();
    let image = disk.snapshot();
    assert!(store.write(0, &page(&mut rng)).is_err());
    store.rollback();
    assert!(disk.snapshot() == image);
}
