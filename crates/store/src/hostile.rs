//! Files that a checksum vouches for and that are nevertheless hostile, for tests and fuzzing: random
//! bytes stand where each decoder looks, with all checksums right.

use std::sync::Arc;

use crate::bytes::Reader;
use crate::cache::{Cache, FileId};
use crate::disk::{Disk, MemDisk};
use crate::header::Header;
use crate::layout::{DATA_START, FileUuid, MARK_OFFSETS, Pointer, SLOT_OFFSETS};
use crate::record::{Record, encode_mark};
use crate::store::{Options, Store};

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
    };
    let (height, unit, size, seq) = (byte() % 10, byte() % 8, byte(), byte());
    let (lens, cyclic) = ([byte(), byte(), byte(), byte()], byte() % 4 == 0);

    // Half of the time nothing vouches for the commit, so that it is verified.
    let seq = 2 + u64::from(seq);
    let marked = if seq.is_multiple_of(2) { 1 } else { seq };

    let disk = MemDisk::default();
    let mut end = DATA_START;
    let mut put = |bytes: &[u8]| {
        let offset = end;
        end += bytes.len() as u64;
        let done = disk.write_at(bytes, offset);
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
        seq,
        size: u64::from(size) << (size % 40),
        unit_size: 2048 << unit,
        height: if map.is_none() { 0 } else { height },
        map,
        catalog,
        space,
        bundle: if cyclic { map } else { space },
        ..Record::first(4096, end)
    };
    let _ = disk.write_at(&header.encode(), 0);
    let records = [Record::first(4096, end), record];
    for (record, slot) in records.iter().zip(SLOT_OFFSETS) {
        let _ = disk.write_at(&record.encode(header.uuid), slot);
    }
    for (seq, mark) in [1, marked].into_iter().zip(MARK_OFFSETS) {
        let _ = disk.write_at(&encode_mark(seq, header.uuid), mark);
    }

    let cache = Arc::new(Cache::new(1 << 20));
    let options = Options {
        cache,
        file: FileId::unique(),
        threads: 1,
        ..Options::default()
    };
    let Ok(mut store) = Store::open(disk, options) else {
        return;
    };
    if store.refresh().is_err() {
        return;
    }
    let mut page = [0; 5000];
    let last = store.size().saturating_sub(4096);
    for offset in [0, 4096, 65536, last] {
        let _ = store.read(offset, &mut page);
    }
    let _ = store.check(&mut |_| {});
    let _ = store.info().map(|info| info.unaccounted_bytes());
    let _ = store.write(last, &page[..4096]);
    let _ = store.commit();
    let _ = store.truncate(4096);
    let _ = store.commit();
    let _ = store.flush();
    let _ = store.read(0, &mut page);
    store.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Node;
    use proptest::prelude::*;

    /// Node bytes that decode more often than random ones do.
    fn node_bytes() -> impl Strategy<Value = Vec<u8>> {
        let tail = proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..200);
        (1u8..3, 1u8..40, 0u8..40, tail).prop_map(|(kind, run, tag, tail)| {
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
