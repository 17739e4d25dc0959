//! A handle that looks at the file, or checks all of it, while another one commits, at each point of that: it sees the
//! commit that was there or a later one, and no damage.

use std::cell::{Cell, RefCell};

use litepack_codec::Dictionary;
use litepack_io::storage::Storage;
use litepack_io::testing::{Call, MemoryStorage, Watched};
use litepack_store::{Error, Options, Store};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PAGE: usize = 4096;
const PAGES: usize = 30;

/// Reads of a disk until others meddle with it; 0 if they do not.
type Reads = Cell<usize>;

/// A disk on which something happens between two reads, when so many were done, and then after every so many, if that
/// is not 0.
fn meddled<'a>(
    disk: &'a MemoryStorage,
    reads: &'a Reads,
    every: usize,
    meddle: &'a dyn Fn(),
) -> impl Storage + 'a {
    Watched::new(disk, move |call| {
        if matches!(call, Call::Read { .. }) {
            let left = reads.get();
            reads.set(left.saturating_sub(1));
            if left == 1 {
                reads.set(every);
                meddle();
            }
        }
        Ok(())
    })
}

fn commit(store: &mut Store<&MemoryStorage>, version: u8, rng: &mut StdRng) {
    let mut page = vec![0; PAGE];
    for number in 0..PAGES {
        rng.fill_bytes(&mut page[..PAGE / 4]);
        page[0] = version;
        store.write((number * PAGE) as u64, &page).unwrap();
    }
    let dictionary = Dictionary::new(vec![version; 2000]);
    store.add_dictionary(&dictionary, vec![1]).unwrap();
    store.commit().unwrap();
}

/// A file of two commits, the first of them durable, and a handle that can go on in between.
fn with_a_writer<T>(
    seed: usize,
    is_durable: impl Fn(u8) -> bool,
    work: impl FnOnce(&MemoryStorage, &dyn Fn()) -> T,
) -> T {
    let disk = MemoryStorage::default();
    let mut writer = Store::open(&disk, Options::default()).unwrap();
    let mut rng = StdRng::seed_from_u64(seed as u64);
    commit(&mut writer, 1, &mut rng);
    writer.flush().unwrap();
    commit(&mut writer, 2, &mut rng);
    let others = RefCell::new((writer, rng));
    work(&disk, &|| {
        let (writer, rng) = &mut *others.borrow_mut();
        for version in 3..7 {
            commit(writer, version, rng);
            if is_durable(version) {
                writer.flush().unwrap();
            }
        }
    })
}

/// Does `work` again and again, each time with one more read before others commit, until they no longer do before it is
/// over, as it says. They have to in more than `least` of its reads.
fn at_each_read(
    least: usize,
    is_durable: impl Fn(u8) -> bool,
    work: impl Fn(&dyn Storage, &Reads, usize) -> bool,
) {
    let is_over = |reads: &usize| {
        with_a_writer(*reads, &is_durable, |disk, meddle| {
            let left = Reads::default();
            work(&meddled(disk, &left, 0, meddle), &left, *reads)
        })
    };
    let last = (1..).find(is_over).expect("some number of reads");
    assert!(last - 1 > least, "it was over too soon: {} reads", last - 1);
}

/// Without syncs, a commit's bytes are reused soon. Extents then missing were not lost with the power: the durable
/// commit before it is not the current one.
fn looks_while_others_commit(is_durable: impl Fn(u8) -> bool) {
    at_each_read(PAGES, is_durable, |disk, left, reads| {
        left.set(reads);
        let mut reader = Store::open(disk, Options::default()).unwrap();
        let looked = reader.refresh();
        looked.unwrap_or_else(|error| panic!("overtaken before read {reads}: {error}"));
        let is_over = left.replace(0) > 0;
        let mut page = vec![0; PAGE];
        for number in 0..PAGES {
            reader.read((number * PAGE) as u64, &mut page).unwrap();
            let version = page[0];
            assert!(version >= 2, "overtaken before read {reads}: {version}");
        }
        is_over
    });
}

#[test]
fn overtaken_by_commits_that_nobody_syncs() {
    looks_while_others_commit(|_| false);
}

#[test]
fn overtaken_by_durable_commits() {
    looks_while_others_commit(|_| true);
}

#[test]
fn overtaken_by_both() {
    looks_while_others_commit(|version| version % 2 == 0);
}

#[test]
fn what_is_overtaken_by_a_commit_is_not_damaged() {
    at_each_read(
        5,
        |_| false,
        |disk, left, reads| {
            let mut reader = Store::open(disk, Options::default()).unwrap();
            reader.refresh().unwrap();
            left.set(reads);
            let report = reader.check(&mut |_| Ok(())).unwrap();
            assert!(report.is_ok(), "before read {reads}: {report:?}");
            let is_over = left.replace(reads) > 0;
            let info = reader.info().unwrap();
            assert!(info.damage.is_empty(), "before read {reads}: {info:?}");
            is_over
        },
    );
}

#[test]
fn what_is_read_while_others_commit_is_never_older() {
    at_each_read(
        3,
        |version| version == 4,
        |disk, left, reads| {
            let mut reader = Store::open(disk, Options::default()).unwrap();
            reader.refresh().unwrap();
            left.set(reads);
            let mut last = 2;
            let mut page = vec![0; PAGE];
            for number in 0..PAGES {
                reader.read((number * PAGE) as u64, &mut page).unwrap();
                let version = page[0];
                assert!(
                    version >= last,
                    "before read {reads}: {version} after {last}"
                );
                last = version;
            }
            left.get() > 0
        },
    );
}

#[test]
fn a_check_that_is_overtaken_for_ever_says_so() {
    with_a_writer(
        1,
        |_| false,
        |disk, meddle| {
            let left = Reads::default();
            // A look takes fewer reads, a check more.
            let disk = meddled(disk, &left, 7, meddle);
            let mut reader = Store::open(&disk, Options::default()).unwrap();
            reader.refresh().unwrap();
            left.set(7);
            let result = reader.check(&mut |_| Ok(()));
            assert!(matches!(result, Err(Error::Conflict)), "{result:?}");
        },
    );
}
