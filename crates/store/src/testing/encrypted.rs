//! Encrypted files: what a stranger sees of them, and what a stranger can do to them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use litepack_cipher::{Key, KeyBlock, Nonce, Padding};
use litepack_codec::Dictionary;
use litepack_io::random::SplitMix64;
use litepack_io::storage::{ReadAt, Storage};
use litepack_io::testing::{Call, CrashingStorage, MemoryStorage, Watched};

use super::{key, options};
use crate::error::{Error, Result};
use crate::format::catalog::Catalog;
use crate::format::file_state::FileState;
use crate::format::header::{HEAD_LEN, Header, HeaderKind, kind_of};
use crate::format::key_place::{self, is_encrypted, try_key};
use crate::format::layout::{
    FileUuid, HEADER_LEN, KEY_LEN, KEY_OFFSETS, Pointer, SEALED_START, SLOT_OFFSETS,
};
use crate::format::leaf::Extent;
use crate::format::node::TreeKind;
use crate::format::offset::FileOffset;
use crate::format::unit::Unit;
use crate::options::Options;
use crate::transaction::groups::Group;
use crate::transaction::store::Store;

const PAGE: usize = 4096;
/// The largest sector of usual media.
const BLOCK: usize = 4096;
/// It is in each page, where nothing compresses it away.
const CANARY: &[u8] = b"canary: 7f3a9c";

fn encrypted() -> Options {
    Options {
        key: key(),
        ..options()
    }
}

/// A page that zstd cannot make shorter, with canaries in it.
fn page(number: u64, version: u64) -> Vec<u8> {
    let mut noise = SplitMix64::new(number << 32 | version);
    let mut page = vec![0; PAGE];
    page.fill_with(|| noise.next_u64() as u8);
    page[1000..1000 + CANARY.len()].copy_from_slice(CANARY);
    page
}

/// A page that compresses well, as most do.
fn text(number: u64, version: u64) -> Vec<u8> {
    let text = format!("row {number} of {version}: canary: 7f3a9c; ");
    text.bytes().cycle().take(PAGE).collect()
}

fn write<D: Storage>(store: &mut Store<D>, unit: u64, page: &[u8]) {
    store.write(unit * PAGE as u64, page).unwrap();
}

fn read<D: Storage>(store: &mut Store<D>, unit: u64) -> Result<Vec<u8>> {
    let mut page = vec![0; PAGE];
    store.read(unit * PAGE as u64, &mut page)?;
    Ok(page)
}

/// All that a store does to a file.
fn work<D: Storage>(store: &mut Store<D>) {
    let dictionary = Dictionary::new(text(5000, 1));
    store.add_dictionary(&dictionary, vec![1]).unwrap();
    for unit in 0..300 {
        let page = if unit % 3 == 0 {
            page(unit, 1)
        } else {
            text(unit, 1)
        };
        write(store, unit, &page);
    }
    store.flush().unwrap();
    // Differences, items, slices of items, groups.
    for unit in 30..60 {
        let mut page = read(store, unit).unwrap();
        page[2000..2010].fill(7);
        write(store, unit, &page);
    }
    store.flush().unwrap();
    let shared = page(9000, 1);
    let item = store.add_item(&shared, 0).unwrap().unwrap();
    assert!(store.write_alias(Unit(100), &shared, item, 0).unwrap());
    assert!(store.write_alias(Unit(101), &shared, item, 0).unwrap());
    let mut group = Group::default();
    for unit in 110..114 {
        group.push(Unit(unit), &text(unit, 2)).unwrap();
    }
    store.write_groups(vec![group]).unwrap();
    store.flush().unwrap();
    // A transaction that is dropped after some of it was written.
    for unit in 0..3000 {
        write(store, 400 + unit, &page(unit, 3));
    }
    store.rollback();
    store
        .set_prefetch((0..200).map(Unit).collect(), 1 << 16)
        .unwrap();
    store.commit().unwrap();
    let mut at = store.reorder().unwrap();
    while let Some(next) = at {
        at = store.reorder_some(next).unwrap();
    }
    store.truncate(250 * PAGE as u64).unwrap();
    store.flush().unwrap();
    let mut at = 0;
    while let Some(next) = store.compact_some(at).unwrap() {
        at = next;
    }
    store.flush_both_slots().unwrap();
}

/// A disk that looks for canaries in all that is written to it.
#[derive(Default)]
struct Watching {
    disk: MemoryStorage,
    written: Cell<usize>,
    canaries: Cell<usize>,
}

impl ReadAt for &Watching {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&&self.disk)
    }
}

impl Storage for &Watching {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let windows = bytes.windows(CANARY.len());
        let found = windows.filter(|found| *found == CANARY).count();
        self.canaries.set(self.canaries.get() + found);
        self.written.set(self.written.get() + bytes.len());
        self.disk.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Storage::truncate(&&self.disk, len)
    }
}

/// Each byte that is written is looked at, also what a rollback drops, and what is overwritten later.
#[test]
fn nothing_is_written_in_plain() {
    let found = |options: Options| {
        let disk = Watching::default();
        let mut store = Store::open(&disk, options).unwrap();
        work(&mut store);
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
        assert_eq!(read(&mut store, 101).unwrap(), page(9000, 1));
        drop(store);
        (disk.written.get(), disk.canaries.get())
    };
    let (written, canaries) = found(encrypted());
    assert!(written > 8 << 20, "{written} bytes");
    assert_eq!(canaries, 0);
    let plain = Options {
        key: None,
        ..options()
    };
    assert!(found(plain).1 > 1000, "this test shows nothing");
}

/// A file of some commits, and what it was after the first of them.
fn file() -> (Vec<u8>, Vec<u8>) {
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, encrypted()).unwrap();
    let mut older = Vec::new();
    for unit in 0..200 {
        write(&mut store, unit, &text(unit, 1));
    }
    // These are stored as they are, so that the places of the first ones are those of the third ones.
    for version in 1..4 {
        for unit in [0, 4, 8] {
            write(&mut store, unit, &page(unit, version));
        }
        store.flush_for_good().unwrap();
        if version == 1 {
            older = disk.snapshot();
        }
    }
    for unit in (101..200).step_by(2) {
        write(&mut store, unit, &text(unit, 2));
    }
    store.flush_both_slots().unwrap();
    (older, disk.snapshot())
}

fn is_long() -> bool {
    std::env::var_os("LITEPACK_LONG").is_some()
}

fn open(image: Vec<u8>) -> Result<Store<MemoryStorage>> {
    let mut store = Store::open(MemoryStorage::new(image), encrypted())?;
    store.refresh()?;
    Ok(store)
}

fn content(image: Vec<u8>) -> Result<Vec<u8>> {
    let mut store = open(image)?;
    let mut bytes = vec![0; store.size() as usize];
    store.read(0, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn a_key_that_is_missing_wrong_or_too_much_is_told_in_words() {
    let (_, image) = file();
    let open = |key: Option<Key>, image: &[u8]| {
        let options = Options {
            key: key.map(std::sync::Arc::new),
            ..options()
        };
        let disk = MemoryStorage::new(image.to_vec());
        let watched = Watched::new(&disk, |call| {
            assert!(!matches!(call, Call::Write { .. }), "nothing is written");
            Ok(())
        });
        Store::open(watched, options).map(|_| ()).unwrap_err()
    };
    let error = open(None, &image);
    assert!(matches!(error, Error::NoKey));
    let words = "file is encrypted: give PRAGMA key";
    assert_eq!(error.to_string(), words);
    let state = FileState::of(&image, None).unwrap_err();
    assert_eq!(state.to_string(), words);
    for key in [Key::raw(&[8; 32]), Key::passphrase(&[7; 32])] {
        let error = open(key.ok(), &image);
        assert!(matches!(error, Error::WrongKey));
        assert_eq!(error.to_string(), "wrong key");
    }
    let disk = MemoryStorage::default();
    let plain = Options {
        key: None,
        ..options()
    };
    let mut store = Store::open(&disk, plain).unwrap();
    write(&mut store, 0, &text(0, 1));
    store.flush().unwrap();
    let image = disk.snapshot();
    let error = open(Key::raw(&[7; 32]).ok(), &image);
    assert!(matches!(error, Error::NotEncrypted));
    assert!(!is_encrypted(&MemoryStorage::new(image)).unwrap());
}

#[test]
fn a_key_can_be_tried_before_a_file_is_opened() {
    let (_, image) = file();
    let disk = MemoryStorage::new(image.clone());
    let passphrase = Key::passphrase(&[7; 32]).unwrap();
    assert!(is_encrypted(&disk).unwrap());
    assert!(matches!(try_key(&disk, &passphrase), Err(Error::WrongKey)));
    let right = Key::raw(&[7; 32]).unwrap();
    try_key(&disk, &right).unwrap();
    try_key(&MemoryStorage::default(), &right).unwrap();
    // What is known of the file without its newest commit's tree.
    let options = Options {
        key: Some(std::sync::Arc::new(right)),
        ..options()
    };
    let mut store = Store::open(&disk, options).unwrap();
    store.refresh().unwrap();
    let state = FileState::of(&image, store.keys()).unwrap().unwrap();
    assert_eq!((state.uuid, state.seq), (store.uuid(), store.seq()));
}

/// Two handles on a file that is still empty, only one of which has a key.
#[test]
fn a_handle_without_the_key_does_not_go_on_when_another_one_makes_the_file() {
    let disk = MemoryStorage::default();
    let plain = || Options {
        key: None,
        ..options()
    };
    let mut without = Store::open(&disk, plain()).unwrap();
    let mut with = Store::open(&disk, encrypted()).unwrap();
    write(&mut with, 0, &text(0, 1));
    with.flush().unwrap();
    assert!(matches!(without.refresh(), Err(Error::NoKey)));
    assert!(matches!(without.write(0, &text(0, 2)), Err(Error::NoKey)));
    drop(without);
    let disk = MemoryStorage::default();
    let mut with = Store::open(&disk, encrypted()).unwrap();
    let mut without = Store::open(&disk, plain()).unwrap();
    write(&mut without, 0, &text(0, 1));
    without.flush().unwrap();
    assert!(matches!(
        with.write(0, &text(0, 2)),
        Err(Error::NotEncrypted)
    ));
}

/// Every byte of the file is another one, in turn: an error, or what was there.
#[test]
fn a_changed_byte_is_an_error_or_makes_no_difference() {
    let (_, image) = file();
    let right = content(image.clone()).unwrap();
    let step = if is_long() { 1 } else { 41 };
    let (mut errors, mut same) = (0, 0);
    for at in (0..image.len()).step_by(step) {
        let mut image = image.clone();
        image[at] ^= 1 << (at / 7 % 8);
        // The commit of both slots is the same, and so are both key blocks.
        match content(image) {
            Ok(found) => {
                assert!(found == right, "byte {at} is silently wrong");
                same += 1;
            }
            Err(_) => errors += 1,
        }
    }
    assert!(
        errors > 200 && same > 5,
        "{errors} errors, {same} times the same"
    );
}

/// Records and marks are not encrypted: their signatures tell.
#[test]
fn a_changed_record_or_mark_is_not_believed() {
    let (_, image) = file();
    let right = content(image.clone()).unwrap();
    // Opening a file whose record or mark is damaged waits for a writer that may be there.
    let step = if is_long() { 1 } else { 5 };
    let places = (512..768).chain(1024..1280).chain(1536..1600);
    for at in places.chain(1792..1856).step_by(step) {
        let mut image = image.clone();
        image[at] ^= 1 << (at % 8);
        if let Ok(found) = content(image) {
            assert!(found == right, "byte {at} is silently wrong");
        }
    }
}

/// A node that was in the file a commit ago, all of whose extents are still there, is put in the place of the newer one.
#[test]
fn a_node_of_an_older_commit_is_damage() {
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, encrypted()).unwrap();
    for unit in 0..40 {
        write(&mut store, unit, &page(unit, 1));
    }
    store.flush().unwrap();
    let mut before: Option<(Pointer, Vec<u8>)> = None;
    let mut tried = 0;
    for version in 2..12 {
        write(&mut store, 5, &page(5, version));
        store.flush().unwrap();
        let map = store.snapshot().commit().unwrap().record.map;
        let image = disk.snapshot();
        let place = |map: &Pointer| map.offset.0 as usize..map.end().0 as usize;
        let node = image[place(&map)].to_vec();
        if let Some((former, node)) = &before
            && former.len == map.len
        {
            let mut image = image.clone();
            image[place(&map)].copy_from_slice(node);
            let found = content(image);
            assert!(matches!(found, Err(Error::Damaged(_))), "{version}");
            tried += 1;
        }
        before = Some((map, node));
    }
    assert!(tried > 3, "{tried}");
}

/// Another encrypted file is copied over one that is open: a handle goes on with the keys of that.
#[test]
fn a_file_that_is_replaced_is_written_with_its_own_keys() {
    let disks = [MemoryStorage::default(), MemoryStorage::default()];
    let mut stores = disks
        .iter()
        .map(|disk| Store::open(disk, encrypted()).unwrap())
        .collect::<Vec<_>>();
    for store in &mut stores {
        write(store, 0, &text(0, 1));
        store.flush().unwrap();
    }
    let [disk, other] = &disks;
    Storage::truncate(&disk, 0).unwrap();
    disk.write_at(&other.snapshot(), 0).unwrap();
    let store = &mut stores[0];
    assert!(store.refresh().unwrap());
    write(store, 1, &text(1, 2));
    store.flush().unwrap();
    let expected = [text(0, 1), text(1, 2)].concat();
    assert!(content(disk.snapshot()).unwrap() == expected);
}

/// The extents of units and the nodes of a file, with their lengths.
fn extents(image: &[u8]) -> BTreeMap<u64, u32> {
    let mut store = open(image.to_vec()).unwrap();
    let mut found = BTreeMap::new();
    let units: Vec<_> = Unit(0).up_to(Unit(200)).collect();
    for unit in units {
        for extent in store.entry(unit).unwrap().extents() {
            found.insert(extent.offset.0, extent.len);
        }
    }
    let image = store.image().clone();
    for level in 0..image.map.height() {
        for place in image.places(TreeKind::Map, level, store.snapshot().medium()) {
            let (_, place) = place.unwrap();
            found.insert(place.offset.0, place.len);
        }
    }
    found
}

/// Extents are replaced by others of their length, and by what was in their place before.
#[test]
fn an_extent_of_another_place_or_time_is_damage() {
    let (older, image) = file();
    let (known, before) = (extents(&image), extents(&older));
    let range = |at: u64, len: u32| at as usize..at as usize + len as usize;
    let (mut tried, mut former) = (0, 0);
    for (at, len) in &known {
        let place = range(*at, *len);
        let here = known.iter().map(|(from, other)| (&image, from, other));
        let there = before.iter().map(|(from, other)| (&older, from, other));
        for (source, from, other) in here.chain(there) {
            let is_chosen = from == at || (at + from * 31) % 211 == 0;
            let bytes = &source[range(*from, *other)];
            if other != len || !is_chosen || image[place.clone()] == *bytes {
                continue;
            }
            let mut image = image.clone();
            image[place.clone()].copy_from_slice(bytes);
            (tried, former) = (tried + 1, former + u64::from(from == at));
            let found = content(image);
            let is_damage = matches!(found, Err(Error::Damaged(_)));
            assert!(
                is_damage,
                "bytes of {from} at {at} were taken for what was there"
            );
        }
    }
    assert!(
        tried > 50 && former > 0,
        "{tried}, {former} of them former ones"
    );
}

/// All that was ever sealed, by handles that die, roll back, undo, go on after a power loss, and in two copies.
#[test]
fn no_nonce_comes_twice() {
    let mut rng = SplitMix64::new(3);
    let mut disks = vec![CrashingStorage::default()];
    for round in 0..60 {
        let at = rng.below(disks.len() as u64) as usize;
        let disk = disks[at].clone();
        let mut store = Store::open(disk.clone(), encrypted()).unwrap();
        store.refresh().unwrap();
        for _ in 0..rng.below(6) {
            for _ in 0..rng.below(50) {
                write(&mut store, rng.below(300), &text(rng.below(9), round));
            }
            match rng.below(5) {
                0 => store.rollback(),
                1 => {
                    // The flush fails, and the commit is undone.
                    store.commit().unwrap();
                    disk.fail(disk.calls(), disk.calls() + 1);
                    let _ = store.flush();
                    disk.fail(0, 0);
                }
                2 => store.commit().unwrap(),
                _ => store.flush().unwrap(),
            }
        }
        drop(store);
        let copy = || CrashingStorage::with_image(disk.after_power_loss(round));
        match rng.below(4) {
            0 => disks[at] = copy(),
            1 if disks.len() < 5 => disks.push(copy()),
            _ => {}
        }
    }
    // `note_nonce` has compared them; here is that there were enough.
    let mut store = Store::open(disks[0].clone(), encrypted()).unwrap();
    store.refresh().unwrap();
    let salts: std::collections::BTreeSet<_> = Unit(0)
        .up_to(Unit(300))
        .filter_map(|unit| store.entry(unit).unwrap().extents().next())
        .map(|extent: Extent| extent.nonce.salt)
        .collect();
    assert!(salts.len() > 3, "{} sessions are left", salts.len());
}

/// Several workers encode and seal, in an order that nothing decides.
#[test]
fn neighbours_have_neighbouring_nonces_whichever_thread_seals_them() {
    const UNITS: u64 = 1000;
    let options = Options {
        threads: 4,
        ..encrypted()
    };
    let mut store = Store::open(MemoryStorage::default(), options).unwrap();
    for unit in 0..UNITS {
        write(&mut store, unit, &text(unit, 1));
    }
    store.flush().unwrap();
    let mut nonces = Vec::new();
    for unit in Unit(0).up_to(Unit(UNITS)) {
        nonces.push(store.entry(unit).unwrap().nonce);
    }
    let is_break = |pair: &&[Nonce]| pair[0].counter + 1 != pair[1].counter;
    let breaks = nonces.windows(2).filter(is_break).count();
    assert!(breaks < 8, "{breaks} breaks");
}

fn with_places(image: &[u8], places: [Option<[u8; KEY_LEN]>; 2]) -> Vec<u8> {
    let mut image = image.to_vec();
    for (offset, place) in KEY_OFFSETS.iter().zip(places) {
        let at = offset.0 as usize;
        image[at..at + KEY_LEN].copy_from_slice(&place.unwrap_or([0x55; KEY_LEN]));
    }
    image
}

/// The key block is twice in the file: one that is torn, damaged or of the former key does no harm.
#[test]
fn one_key_block_is_enough_and_the_newer_one_is_tried_first() {
    let (_, image) = file();
    let right = content(image.clone()).unwrap();
    let uuid = FileUuid(image[32..48].try_into().unwrap());
    let at = KEY_OFFSETS[0].0 as usize;
    let good: [u8; KEY_LEN] = image[at..at + KEY_LEN].try_into().unwrap();
    let other = Key::raw(&[8; 32]).unwrap();
    let other = KeyBlock::wrap(&other, Default::default(), &uuid.0, &[1; 32]).unwrap();
    for seq in [0, 1, 2] {
        let other = key_place::encode(seq, &other, uuid);
        for places in [
            [Some(good), None],
            [None, Some(good)],
            [Some(good), Some(other)],
            [Some(other), Some(good)],
        ] {
            assert!(content(with_places(&image, places)).unwrap() == right);
        }
        let found = content(with_places(&image, [Some(other), None]));
        assert!(matches!(found, Err(Error::WrongKey)));
    }
    let found = content(with_places(&image, [None, None]));
    assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
}

/// Each sector of the head but the header's own is lost, in turn: also that of the marks, which each commit writes. And
/// each block of 4096 bytes, which is a sector elsewhere; of the first block all but the header.
#[test]
fn a_lost_sector_does_not_cost_the_key() {
    let (_, image) = file();
    let right = content(image.clone()).unwrap();
    let sectors = (512..SEALED_START.0 as usize).step_by(512);
    let blocks = (BLOCK..SEALED_START.0 as usize).step_by(BLOCK);
    let sectors = sectors.map(|at| (at, 512));
    for (at, len) in sectors
        .chain([(512, BLOCK - 512)])
        .chain(blocks.map(|at| (at, BLOCK)))
    {
        let mut image = image.clone();
        image[at..at + len].fill(0x55);
        assert!(Store::open(MemoryStorage::new(image.clone()), encrypted()).is_ok());
        // Without a slot the file may be damaged, but none falls back in silence.
        let is_slot = SLOT_OFFSETS.contains(&FileOffset(at as u64));
        match content(image) {
            Ok(found) => assert!(found == right, "sector at {at}"),
            Err(error) => assert!(is_slot, "sector at {at}: {error}"),
        }
    }
}

/// What a commit writes it writes to other sectors, of whatever usual size.
#[test]
fn no_commit_writes_to_the_places_of_the_key() {
    let disk = MemoryStorage::default();
    let is_made = Cell::new(false);
    let watched = Watched::new(&disk, |call| {
        if let Call::Write { offset, len } = call {
            let block = BLOCK as u64;
            let blocks = offset / block..(offset + len as u64).div_ceil(block);
            let is_there = KEY_OFFSETS
                .iter()
                .any(|key| blocks.contains(&(key.0 / block)));
            assert!(!is_made.get() || !is_there, "{len} bytes at {offset}");
        }
        Ok(())
    });
    let mut store = Store::open(&watched, encrypted()).unwrap();
    write(&mut store, 0, &text(0, 1));
    store.flush().unwrap();
    is_made.set(true);
    work(&mut store);
}

/// The machine stops at each call while a file is made: it is an empty one then, or is there.
#[test]
fn a_file_whose_making_was_cut_off_is_made_again() {
    let calls = {
        let disk = CrashingStorage::default();
        let mut store = Store::open(disk.clone(), encrypted()).unwrap();
        write(&mut store, 0, &text(0, 1));
        store.flush().unwrap();
        disk.calls()
    };
    for stop in 0..calls {
        let disk = CrashingStorage::default();
        let mut store = Store::open(disk.clone(), encrypted()).unwrap();
        disk.fail(stop, u64::MAX);
        let _ = store.write(0, &text(0, 1)).and_then(|()| store.flush());
        for seed in 0..24 {
            let image = disk.after_power_loss(seed);
            let again = MemoryStorage::new(image);
            let mut store = Store::open(&again, encrypted()).unwrap();
            store.refresh().unwrap();
            write(&mut store, 1, &text(1, 2));
            store.flush().unwrap();
            let found = content(again.snapshot()).unwrap();
            assert!(found[PAGE..] == text(1, 2));
        }
    }
}

/// The machine stops at each call while a file is made, and again while another is made in its place, with a key or
/// without: it is an empty one, or is there.
#[test]
fn a_file_whose_making_was_cut_off_is_made_with_another_key_or_none() {
    let plain = super::plain_options;
    let make = |disk: &CrashingStorage, options| {
        let mut store = Store::open(disk.clone(), options)?;
        store.write(0, &text(0, 1))?;
        store.flush()
    };
    // More than the creation of a file takes.
    const CALLS: u64 = 12;
    let orders: [[fn() -> Options; 2]; 4] = [
        [encrypted, plain],
        [plain, encrypted],
        [encrypted, encrypted],
        [plain, plain],
    ];
    for [first, then] in orders {
        let (mut longer, mut unfinished) = (false, 0);
        for stop in 0..CALLS {
            for seed in 0..8 {
                let disk = CrashingStorage::default();
                disk.fail(stop, u64::MAX);
                let _ = make(&disk, first());
                let image = disk.after_power_loss(seed);
                let is_empty = |image: &[u8]| {
                    let head = &image[..image.len().min(HEAD_LEN)];
                    kind_of(head, image.len() as u64) == HeaderKind::Empty
                };
                if !is_empty(&image) {
                    assert!(Store::open(MemoryStorage::new(image), first()).is_ok());
                    continue;
                }
                longer |= image.len() > HEAD_LEN;
                for stop in 0..CALLS {
                    let disk = CrashingStorage::with_image(image.clone());
                    disk.fail(stop, u64::MAX);
                    let _ = make(&disk, then());
                    for seed in 0..8 {
                        let image = disk.after_power_loss(seed);
                        unfinished += u32::from(is_empty(&image));
                        let mut store = Store::open(MemoryStorage::new(image), then()).unwrap();
                        store.refresh().unwrap();
                        write(&mut store, 1, &text(1, 2));
                        store.flush().unwrap();
                    }
                }
            }
        }
        assert!(unfinished > 0 && longer == first().key.is_some());
    }
}

/// A sync fails while a file is made, and leaves on the medium some of what was written, the header too. Another try
/// takes that away first, and the machine stops while it is at it.
#[test]
fn a_file_whose_making_failed_at_a_sync_is_made_again() {
    const CALLS: u64 = 12;
    for options in [encrypted, super::plain_options] {
        let mut tried = 0;
        for (before, stop, then) in (0..8).flat_map(|before| {
            (0..CALLS).flat_map(move |stop| (0..CALLS).map(move |then| (before, stop, then)))
        }) {
            let disk = CrashingStorage::default();
            // Other calls, other parts of it.
            for _ in 0..before {
                disk.sync().unwrap();
            }
            disk.fail_badly();
            let mut store = Store::open(disk.clone(), options()).unwrap();
            disk.fail(before + stop, before + stop + 1);
            let done = store.write(0, &text(0, 1));
            let done = done.and_then(|()| store.flush());
            // As running processes see it. Later failures are of a commit.
            let mut head = vec![0; HEAD_LEN];
            let len = disk.read_at(&mut head, 0).unwrap();
            let kind = kind_of(&head[..len], disk.len().unwrap());
            if done.is_ok() || kind != HeaderKind::Empty {
                continue;
            }
            tried += 1;
            disk.fail(disk.calls() + then, u64::MAX);
            let _ = store.write(0, &text(0, 1)).and_then(|()| store.flush());
            for seed in 0..8 {
                let image = disk.after_power_loss(seed);
                let mut store = Store::open(MemoryStorage::new(image), options()).unwrap();
                store.refresh().unwrap();
                write(&mut store, 1, &text(1, 2));
                store.flush().unwrap();
            }
        }
        assert!(tried > 0);
    }
}

/// The catalog says which dictionaries there are, and those are made of content.
#[test]
fn dictionaries_and_catalog_are_sealed() {
    let disk = MemoryStorage::default();
    let mut store = Store::open(&disk, encrypted()).unwrap();
    let dictionary = Dictionary::new(page(1, 1));
    store.add_dictionary(&dictionary, vec![1]).unwrap();
    store.flush().unwrap();
    let record = store.snapshot().commit().unwrap().record;
    let mut stored = vec![0; record.catalog.len as usize];
    disk.read_at(&mut stored, record.catalog.offset.0).unwrap();
    assert!(Catalog::decode(&stored).is_none());
    let medium = store.snapshot().medium();
    let opened = medium.extent(record.catalog, crate::format::guard::Kind::Catalog);
    assert!(Catalog::decode(&opened.unwrap()).is_some());
    // An extent of one kind is none of another.
    let wrong = medium.extent(record.catalog, crate::format::guard::Kind::Dictionary);
    assert!(matches!(wrong, Err(Error::Damaged(_))));
}

fn padded(bytes: u32) -> Options {
    let padding = Padding::new(bytes).unwrap();
    let key = key().unwrap().with_padding(padding).unwrap();
    Options {
        key: Some(Arc::new(key)),
        ..options()
    }
}

/// The lengths of all units' own extents, and those of the commit record's.
fn lengths<D: Storage>(store: &mut Store<D>) -> (Vec<u32>, Vec<u32>) {
    let mut units = Vec::new();
    let damage = store.units(&mut |unit| units.push(unit.len)).unwrap();
    assert!(damage.is_empty());
    let record = store.snapshot().commit().unwrap().record;
    let others = [record.map, record.catalog, record.space, record.items];
    let others = others.iter().filter(|place| !place.is_none());
    (units, others.map(|place| place.len).collect())
}

#[test]
fn extents_of_a_padded_file_have_lengths_of_a_few_kinds() {
    let plain = MemoryStorage::default();
    let mut without = Store::open(&plain, encrypted()).unwrap();
    work(&mut without);
    for bytes in [64, 256, 1024, 4096] {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, padded(bytes)).unwrap();
        work(&mut store);
        assert_eq!(store.info().unwrap().padding, bytes);
        assert!(store.check(&mut |_| Ok(())).unwrap().damage.is_empty());
        let (units, others) = lengths(&mut store);
        assert!(units.len() > 200 && units.iter().all(|len| len % bytes == 0));
        // Behind the tag they have their nonce.
        assert!(others.len() > 2 && others.iter().all(|len| (len - 24) % bytes == 0));
        for unit in 0..250 {
            assert!(read(&mut store, unit).unwrap() == read(&mut without, unit).unwrap());
        }
        // By a handle that knows nothing of it: what goes on has the padding, too.
        let mut again = Store::open(&disk, encrypted()).unwrap();
        again.refresh().unwrap();
        for unit in 0..250 {
            assert!(read(&mut again, unit).unwrap() == read(&mut without, unit).unwrap());
        }
        write(&mut again, 7, &text(7, 77));
        again.flush().unwrap();
        let (units, _) = lengths(&mut again);
        assert!(units.iter().all(|len| len % bytes == 0));
        assert_eq!(again.key().unwrap().padding(), Padding::new(bytes));
    }
    let (units, _) = lengths(&mut without);
    assert!(units.iter().any(|len| len % 64 != 0));
}

/// Who writes another padding into the header makes a file that does not open, and no handle that goes on without it.
#[test]
fn the_padding_in_the_header_is_vouched_for() {
    let image = |options: Options| {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, options).unwrap();
        write(&mut store, 0, &text(0, 1));
        store.flush().unwrap();
        disk.snapshot()
    };
    let paddings = [0, 64, 256, 4096].map(|bytes| Padding::new(bytes).unwrap());
    for of_file in paddings {
        let image = image(padded(of_file.bytes()));
        for padding in paddings {
            let header = Header {
                padding,
                ..Header::decode(&image).unwrap()
            };
            let mut forged = image.clone();
            forged[..HEADER_LEN].copy_from_slice(&header.encode());
            let store = Store::open(MemoryStorage::new(forged), encrypted());
            let opened = store.and_then(|mut store| {
                store.refresh()?;
                read(&mut store, 0)
            });
            match padding == of_file {
                true => assert!(opened.unwrap() == text(0, 1)),
                false => assert!(matches!(opened, Err(Error::Damaged(_))), "{opened:?}"),
            }
        }
    }
    // What is not encrypted has no padding, and no other length is one.
    let mut image = image(padded(64));
    for (flags, bytes) in [(2, 64), (3, 0), (3, 65), (3, 8192), (3, u32::MAX)] {
        image[20..24].copy_from_slice(&u32::to_le_bytes(flags));
        image[28..32].copy_from_slice(&u32::to_le_bytes(bytes));
        let sum = FileUuid([0; 16]).sum64(&image[..HEADER_LEN - 8]);
        image[HEADER_LEN - 8..HEADER_LEN].copy_from_slice(&sum.to_le_bytes());
        assert!(Header::decode(&image).is_err(), "{flags} {bytes}");
    }
}
