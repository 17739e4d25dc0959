//! Files that a checksum vouches for and that are nevertheless hostile, for tests and fuzzing: random
//! bytes stand where each decoder looks, with all checksums right.

use std::sync::Arc;

use litepack_btree::PageNumber;
use litepack_cipher::Padding;
use litepack_codec::DifferenceEncoder;
use litepack_io::bytes::Reader;
use litepack_io::storage::Storage;
use litepack_io::testing::MemoryStorage;

use crate::error::Result;
use crate::format::basis::ItemNumber;
use crate::format::header::Header;
use crate::format::layout::{DATA_START, FileUuid, MARK_OFFSETS, Pointer, SLOT_OFFSETS};
use crate::format::node::Node;
use crate::format::record::{CommitNumber, REFERENCES, Record, encode_mark};
use crate::format::unit::Unit;
use crate::options::Options;
use crate::transaction::store::Store;
use litepack_io::cache::{Cache, FileId};

/// Takes up to `len` bytes off the front.
fn take<'a>(data: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, rest) = data.split_at(len.min(data.len()));
    *data = rest;
    head
}

/// Does everything a user can do with a packed file made of `data`. Whatever happens must be an
/// error or an answer: the caller looks for panics, hangs and memory.
pub fn try_everything(data: &[u8]) {
    let mut rest = data;
    let mut fields = Reader::new(take(&mut rest, 24));
    let mut byte = || fields.u8().unwrap_or(0);
    let header = Header {
        uuid: FileUuid([byte(); 16]),
        compatible: 0,
        is_encrypted: false,
        padding: Padding::NONE,
    };
    let (height, unit, size, seq) = (byte() % 10, byte() % 8, byte(), byte());
    let (lens, cyclic) = ([byte(), byte(), byte(), byte()], byte() % 4 == 0);

    // Half of the time nothing vouches for the commit, so that it is verified.
    let seq = 2 + u64::from(seq);
    let marked = if seq.is_multiple_of(2) { 1 } else { seq };

    let disk = MemoryStorage::default();
    let mut end = DATA_START;
    let mut put = |bytes: &[u8]| {
        let offset = end;
        end += bytes.len() as u64;
        let done = disk.write_at(bytes, offset.0);
        assert!(done.is_ok(), "memory can be written");
        Pointer {
            offset,
            len: bytes.len() as u32,
            sum: header.uuid.sum64(bytes),
        }
    };
    let [unit_len, node_len, catalog_len, space_len] = lens.map(|len| usize::from(len) * 4);
    put(take(&mut rest, unit_len));
    let mut map = put(take(&mut rest, node_len));
    let catalog = put(take(&mut rest, catalog_len));
    let space = put(take(&mut rest, space_len));
    if cyclic {
        map = catalog;
    }
    let record = Record {
        seq: CommitNumber(seq),
        size: u64::from(size) << (size % 40),
        unit_size: 2048 << unit,
        height: if map.is_none() { 0 } else { height },
        map,
        catalog,
        space,
        segment: if cyclic { map } else { space },
        features: REFERENCES,
        items: if height > 0 && cyclic {
            catalog
        } else {
            Pointer::NONE
        },
        items_height: if height > 0 && cyclic && !catalog.is_none() {
            1 + unit % 3
        } else {
            0
        },
        item_count: u64::from(height > 0 && cyclic && !catalog.is_none()),
        stored_bytes: 1,
        ..Record::first(4096, end)
    };
    let _ = disk.write_at(&header.encode(), 0);
    let records = [Record::first(4096, end), record];
    for (record, slot) in records.iter().zip(SLOT_OFFSETS) {
        let _ = disk.write_at(&record.encode(header.uuid), slot.0);
    }
    for (seq, mark) in [1, marked].into_iter().zip(MARK_OFFSETS) {
        let _ = disk.write_at(&encode_mark(CommitNumber(seq), header.uuid), mark.0);
    }

    let cache = Arc::new(Cache::new(1 << 20));
    let options = Options {
        cache,
        file: FileId::unique(),
        threads: 1,
        ..Options::default()
    };
    if let Ok(store) = Store::open(disk, options) {
        use_everything(store);
    }
}

/// Decodes bytes as nodes of each kind. A node that decodes must be the same again when it is written and read.
pub fn try_nodes(data: &[u8]) {
    let mut bytes = data.to_vec();
    let kinds = [(1, 0), (2, 1), (3, 0), (4, 0)];
    for (kind, level) in kinds {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Some(node) = Node::decode(&bytes, level) {
            let mut again = Vec::new();
            node.encode(&mut again);
            assert!(Node::decode(&again, level) == Some(node), "{bytes:?}");
        }
    }
}

/// Does everything a user can do with an open file: reads, checks, plans maintenance and does some of it, writes.
pub(crate) fn use_everything(mut store: Store<impl Storage>) {
    /// Calls of what goes in steps: a file need not be finished to have been tried.
    const STEPS: u64 = 20;
    if store.refresh().is_err() {
        return;
    }
    let mut page = [0; 5000];
    let size = store.size();
    let last = size.saturating_sub(4096);
    for offset in [0, 4096, 65536, last] {
        let _ = store.read(offset, &mut page);
    }
    for step in 0..STEPS * 20 {
        let _ = store.read((size / 4096).min(step) * 4096, &mut page[..4096]);
    }
    let _ = store.check(&mut |_| Ok(()));
    let _ = store.info().map(|info| info.unaccounted_bytes());
    let _ = store.units(&mut |_| {});
    let _ = store.dictionaries();
    for unit in [1, 2, 10, 12].map(Unit) {
        let _ = store.reference(unit);
    }
    for number in 0..4 {
        let _ = store.read_item(ItemNumber(number), &mut Vec::new());
    }
    let _ = refer(&mut store);
    let _ = PageNumber::from_index(last / 4096).map(|page| store.place_of_page(page));
    let maintained = maintain(&mut store, STEPS);
    drop(maintained);
    let _ = store.write(last, &page[..4096]);
    let _ = store.commit();
    let _ = store.truncate(4096);
    let _ = store.commit();
    let _ = store.flush();
    let _ = store.read(0, &mut page);
    store.close();
}

/// The steps of a finder of references.
fn refer(store: &mut Store<impl Storage>) -> Result<()> {
    let unit_size = store.unit_size() as usize;
    let mut page = vec![0; unit_size];
    store.read(unit_size as u64, &mut page)?;
    if let Some(item) = store.share(Unit(1))? {
        store.write_alias(Unit(2), &page, item, 0)?;
    }
    store.write_alias(Unit(3), &page, ItemNumber(0), 1)?;
    if let Some(item) = store.add_item(&page, 0)? {
        let mut pages = Vec::new();
        store.read_item(item, &mut pages)?;
        let mut stored = Vec::new();
        if DifferenceEncoder::new(3).encode(&page, &pages, &mut stored)? {
            store.write_difference(Unit(4), &page, 0, &stored, &[item])?;
        }
    }
    store.commit()
}

/// The steps of maintenance, in its order.
fn maintain(store: &mut Store<impl Storage>, steps: u64) -> Result<()> {
    let number = store.dictionary_of(Unit::FIRST)?;
    let number = store.at_level(number)?;
    let mut from = Some(Unit::FIRST);
    for _ in 0..steps {
        let Some(unit) = from else { break };
        from = store.recompress(unit, &|_| number)?;
        store.commit()?;
    }
    store.drop_unused_dictionaries(&[number])?;
    store.commit()?;
    let mut at = store.reorder()?;
    for _ in 0..steps {
        let Some(arranged) = at else { break };
        at = store.reorder_some(arranged)?;
    }
    let mut from = Some(0);
    for _ in 0..steps {
        let Some(leaf) = from else { break };
        from = store.compact_some(leaf)?;
    }
    store.set_maintained()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::format::leaf::{Entry, FANOUT, Leaf};
    use crate::snapshot::page_map::HEIGHT_MAX;
    use proptest::prelude::*;

    /// A file of which the second commit has a map of this height: the children of each node are one and the same node.
    /// A kibibyte of it names more units than there are atoms.
    fn that_repeats_itself(height: u8, size: u64, marked: u64) -> MemoryStorage {
        let header = Header {
            uuid: FileUuid([9; 16]),
            compatible: 0,
            is_encrypted: false,
            padding: Padding::NONE,
        };
        let disk = MemoryStorage::default();
        let mut end = DATA_START;
        let mut put = |bytes: &[u8]| {
            let offset = end;
            end += bytes.len() as u64;
            disk.write_at(bytes, offset.0).unwrap();
            Pointer {
                offset,
                len: bytes.len() as u32,
                sum: header.uuid.sum64(bytes),
            }
        };
        let unit = put(&[0; 16]);
        let entry = Entry {
            offset: unit.offset,
            len: unit.len,
            sum: unit.sum as u32,
            ..Entry::ZERO
        };
        let mut leaf = Leaf::empty();
        (0..FANOUT).for_each(|slot| _ = leaf.set(slot, entry));
        let mut node = Node::Leaf(leaf);
        let mut map = Pointer::NONE;
        for _ in 0..height {
            let mut bytes = Vec::new();
            node.encode(&mut bytes);
            map = put(&bytes);
            node = Node::Inner(Box::new([map; FANOUT]));
        }
        let first = Record::first(4096, DATA_START);
        let record = Record {
            seq: CommitNumber(2),
            size,
            height,
            map,
            stored_units: 1,
            stored_bytes: 16,
            end,
            ..first
        };
        for (record, slot) in [first, record].iter().zip(SLOT_OFFSETS) {
            disk.write_at(&record.encode(header.uuid), slot.0).unwrap();
        }
        for (seq, mark) in [1, marked].into_iter().zip(MARK_OFFSETS) {
            disk.write_at(&encode_mark(CommitNumber(seq), header.uuid), mark.0)
                .unwrap();
        }
        disk.write_at(&header.encode(), 0).unwrap();
        disk
    }

    #[test]
    fn a_map_that_repeats_itself_costs_no_more_than_its_length() {
        let begun = Instant::now();
        for height in 2..=HEIGHT_MAX {
            let options = || Options {
                threads: 1,
                ..crate::testing::plain_options()
            };
            // Nothing vouches for the commit, so it is verified: it is not the one to go on from.
            let disk = that_repeats_itself(height, 1 << 40, 1);
            let mut store = Store::open(&disk, options()).unwrap();
            store.refresh().unwrap();
            assert_eq!((store.seq(), store.fell_back()), (1, true));
            // As it is marked, it is damaged.
            let disk = that_repeats_itself(height, 1 << 40, 2);
            let mut store = Store::open(&disk, options()).unwrap();
            store.refresh().unwrap();
            assert_eq!(store.seq(), 2);
            assert!(!store.check(&mut |_| Ok(())).unwrap().is_ok());
            assert!(!store.info().unwrap().damage.is_empty());
            assert!(store.verify_map().is_err());
            assert!(store.compact().is_err());
        }
        assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
    }

    /// How long the database is, is a mere claim.
    #[test]
    fn a_file_that_claims_to_be_long_costs_no_more_than_its_length() {
        let begun = Instant::now();
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, Options::default()).unwrap();
        store.write(0, &[7; 4096]).unwrap();
        // SQLite's largest database with pages of this size.
        let size = u64::from(u32::MAX) * 4096;
        store.write(size - 4096, &[8; 4096]).unwrap();
        store.flush().unwrap();
        assert!(store.check(&mut |_| Ok(())).unwrap().is_ok());
        assert!(store.info().unwrap().damage.is_empty());
        assert_eq!(store.dictionary_of(Unit(1 << 30)).unwrap(), 0);
        let mut at = Some(Unit::FIRST);
        while let Some(from) = at {
            at = store.recompress(from, &|_| 0).unwrap();
        }
        store.drop_unused_dictionaries(&[]).unwrap();
        store.commit().unwrap();
        store.reorder().unwrap();
        store.compact().unwrap();
        store.set_prefetch([0, 1].map(Unit).to_vec(), 4096).unwrap();
        store.set_maintained().unwrap();
        store.truncate(4096).unwrap();
        store.flush().unwrap();
        assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());

        // More than SQLite's limit is damage.
        let record = Record {
            seq: CommitNumber(9),
            size: size + 4097,
            ..Record::first(4096, DATA_START)
        };
        let uuid = store.uuid();
        disk.write_at(&record.encode(uuid), SLOT_OFFSETS[0].0)
            .unwrap();
        let mut store = Store::open(&disk, Options::default()).unwrap();
        let why = store.refresh().unwrap_err().to_string();
        assert!(why.contains("implausible"), "{why}");
    }

    /// Node bytes that decode more often than random ones do.
    fn node_bytes() -> impl Strategy<Value = Vec<u8>> {
        let tail = proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..200);
        (1u8..5, 1u8..40, 0u8..40, tail).prop_map(|(kind, run, tag, tail)| {
            let mut bytes = vec![kind, run, tag, 128 - run, 0];
            bytes.extend(tail);
            bytes
        })
    }

    #[test]
    fn a_map_of_more_units_than_the_record_counts() {
        let mut data = vec![0; 24];
        // One level, units of 4096 bytes, a database of 12 units, a map node of 16 bytes.
        (data[1], data[2], data[3], data[6], data[9]) = (1, 1, 12, 4, 1);
        // The last unit is stored, in one byte at 2048.
        data.extend([1, 11, 0, 1, 1, 116, 0, 1, 0, 0x80, 0x20, 1, 0, 0, 0, 0]);
        try_everything(&data);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn hostile_files_are_errors(data in proptest::collection::vec(any::<u8>(), 0..1500)) {
            try_everything(&data);
        }

        #[test]
        fn hostile_nodes_are_errors(mut head in proptest::collection::vec(any::<u8>(), 24), node in node_bytes()) {
            // No unit, then the node, a catalog that is a count of zero, and no free space.
            head[5..9].copy_from_slice(&[0, node.len().div_ceil(4) as u8, 0, 0]);
            let _ = Node::decode(&node, 0);
            head.extend(&node);
            try_everything(&head);
        }
    }
}
