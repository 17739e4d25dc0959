//! Good files for [`super::forged`] to begin with.

use std::sync::{Arc, LazyLock};

use litepack_cipher::Key;
use litepack_codec::{DifferenceEncoder, Encoder};
use litepack_io::cache::{Cache, FileId};
use litepack_io::storage::Storage;
use litepack_io::testing::MemoryStorage;

use crate::format::header::{HEAD_LEN, Header};
use crate::format::unit::Unit;
use crate::options::Options;
use crate::transaction::store::Store;

/// A b-tree page of a table, different for each number.
pub(super) fn rows(number: u64) -> Vec<u8> {
    let mut page = vec![0; 4096];
    let start = if number == 0 { 100 } else { 0 };
    let (mut cells, mut content) = (Vec::new(), page.len());
    for row in 0..30u64 {
        let id = number * 30 + row;
        let json = format!(
            "{{\"id\":{id},\"name\":\"row {}\",\"ok\":true}}",
            id * 7919 % 1000
        );
        let mut cell = vec![0, (row + 1) as u8, 4, 4, 6, 13 + 2 * json.len() as u8];
        cell.extend((id as u32 * 3).to_be_bytes());
        cell.extend((id * id).to_be_bytes());
        cell.extend(json.as_bytes());
        cell[0] = (cell.len() - 2) as u8;
        content -= cell.len();
        page[content..content + cell.len()].copy_from_slice(&cell);
        cells.extend((content as u16).to_be_bytes());
    }
    page[start] = 13;
    page[start + 3..start + 5].copy_from_slice(&30u16.to_be_bytes());
    page[start + 5..start + 7].copy_from_slice(&(content as u16).to_be_bytes());
    page[start + 8..start + 8 + cells.len()].copy_from_slice(&cells);
    if number == 0 {
        page[..16].copy_from_slice(litepack_btree::SQLITE_MAGIC);
        page[16..24].copy_from_slice(&[16, 0, 1, 1, 0, 64, 32, 32]);
    }
    page
}

/// Good files to begin with: small; with levels, a dictionary and a chain of free space, cut off before the last commit
/// was flushed; the same with a prefetch segment; with references. Then all of these, encrypted.
pub(super) static BASES: LazyLock<[Vec<u8>; 8]> = LazyLock::new(|| {
    let [a, b, c, d] = bases(false);
    let [e, f, g, h] = bases(true);
    [a, b, c, d, e, f, g, h]
});

/// The key of those that are encrypted: a stranger may know it, too.
pub(super) fn key() -> Option<Arc<Key>> {
    Key::raw(&[7; 32]).ok().map(Arc::new)
}

fn bases(encrypted: bool) -> [Vec<u8>; 4] {
    let small = {
        let mut store = open(encrypted);
        fill(&mut store, 0..12);
        store.flush().expect("memory can be written");
        store.close().snapshot()
    };
    let mut store = open(encrypted);
    let samples: Vec<u8> = (0..200)
        .flat_map(|page| Encoder::new(3).sample(&rows(page)).to_vec())
        .collect();
    let dictionary = litepack_codec::train(&samples, &vec![samples.len() / 200; 200], 4000);
    if let Some(dictionary) = dictionary {
        let added = store.add_dictionary(&dictionary, Vec::new());
        added.expect("there is room");
    }
    fill(&mut store, 0..300);
    store.flush().expect("memory can be written");
    for round in 1..5 {
        fill(&mut store, round..round + 3);
        store.flush().expect("memory can be written");
    }
    fill(&mut store, 100..140);
    let unflushed = store.disk().snapshot();
    store
        .set_prefetch([0, 5, 200].map(Unit).to_vec(), 60_000)
        .expect("there is room");
    fill(&mut store, 7..9);
    store.flush().expect("memory can be written");
    let with_segment = store.close().snapshot();
    [small, unflushed, with_segment, with_items(encrypted)]
}

/// A file with all kinds of references but the private difference, whose last commit was cut off before it was flushed.
fn with_items(encrypted: bool) -> Vec<u8> {
    let mut store = open(encrypted);
    fill(&mut store, 0..200);
    store.flush().expect("memory can be written");
    let mut refer = |at: u64| {
        let item = store.share(Unit(at)).expect("there is room");
        let item = item.expect("it stands alone");
        let same = rows(at);
        let done = store.write_alias(Unit(at + 1), &same, item, 0);
        assert!(done.expect("there is room"));
        let pages = [rows(at + 4), rows(at + 5)].concat();
        let pair = store.add_item(&pages, 0).expect("there is room");
        let pair = pair.expect("two units are an item");
        for slice in [0, 1] {
            let unit = Unit(at + 4 + slice);
            let done = store.write_alias(unit, &rows(unit.0), pair, slice as u8);
            assert!(done.expect("there is room"));
        }
        let (mut prefix, mut more) = (Vec::new(), Vec::new());
        for number in [item, pair] {
            let read = store.read_item(number, &mut more);
            assert!(read.expect("it can be read"));
            prefix.extend(&more);
        }
        let page = rows(at + 2);
        let mut stored = Vec::new();
        let encoded = DifferenceEncoder::new(3).encode(&page, &prefix, &mut stored);
        assert_eq!(encoded, Ok(true));
        let bases = [item, pair];
        let done = store.write_difference(Unit(at + 2), &page, 0, &stored, &bases);
        assert!(done.expect("there is room"));
    };
    (10..100).step_by(10).for_each(&mut refer);
    store.flush().expect("memory can be written");
    (100..200).step_by(10).for_each(|at| {
        let item = store.share(Unit(at)).expect("there is room");
        assert!(item.is_some());
    });
    fill(&mut store, 22..40);
    store.close().snapshot()
}

fn open(encrypted: bool) -> Store<MemoryStorage> {
    let options = Options {
        key: key().filter(|_| encrypted),
        ..options()
    };
    Store::open(MemoryStorage::default(), options).expect("a new file opens")
}

/// With the key, if it needs one.
pub(super) fn try_open<D: Storage>(disk: D) -> crate::Result<Store<D>> {
    let mut head = [0; HEAD_LEN];
    disk.read_at(&mut head, 0)?;
    let encrypted = Header::decode(&head).is_ok_and(|header| header.is_encrypted);
    let options = Options {
        key: key().filter(|_| encrypted),
        ..options()
    };
    Store::open(disk, options)
}

fn options() -> Options {
    Options {
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        threads: 1,
        ..Options::default()
    }
}

fn fill(store: &mut Store<MemoryStorage>, pages: std::ops::Range<u64>) {
    for page in pages {
        let written = store.write(page * 4096, &rows(page));
        written.expect("memory can be written");
    }
    store.commit().expect("memory can be written");
}
