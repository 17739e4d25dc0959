//! Packed files that were changed behind their checksums, for tests and fuzzing. [`forge`] takes a good file, changes
//! what it says in a few places (records, map nodes, catalog, dictionaries, free-space links, prefetch segment, units
//! and the streams in them) and mends every checksum up to the records, so that each decoder meets bytes that a
//! checksum vouches for. Encrypted files are forged by one who has the key: what is changed is sealed again. [`survives`] then does all that a user can do with the file.
//!
//! A string of bytes decides on the changes: a fuzzer's, or random ones.

use litepack_codec::{Codec, Dictionary, Encoder, Encoding};
use litepack_io::bytes::{put_varint, zigzag};
use litepack_io::testing::{Call, MemoryStorage, Watched};

use crate::format::basis::{Bases, Basis, ITEM_UNITS, Item, ItemNumber};
use crate::format::catalog::Catalog;
use crate::format::guard::{Guard, Kind, Sealer, Sealing, Voucher};
use crate::format::header::Header;
use crate::format::key_place;
use crate::format::layout::{
    DATA_START, HEADER_LEN, LOCK_BYTES, MARK_OFFSETS, OFFSET_LIMIT, Pointer, RECORD_LEN,
    SLOT_OFFSETS, is_plausible,
};
use crate::format::leaf::{Entry, Extent, FANOUT, Leaf};
use crate::format::node::Node;
use crate::format::offset::FileOffset;
use crate::format::record::{CommitNumber, Record, encode_mark};
use crate::hostile;
use crate::space::free_space::{Link, decode_link, link_behind};
use crate::testing::forged_bases::{BASES, key, rows, try_open};

/// Numbers at which something else begins.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    3,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65535,
    65536,
    DATA_START.0,
    LOCK_BYTES.start.0,
    LOCK_BYTES.end.0,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    OFFSET_LIMIT.0 - 1,
    OFFSET_LIMIT.0,
    1 << 50,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Decisions, read off a string of bytes; zeros when that is used up.
#[derive(Debug)]
pub struct Choices<'a> {
    rest: &'a [u8],
    /// Changes that may still be made: a file with many is refused by the first decoder.
    left: u8,
}

impl<'a> Choices<'a> {
    /// Decisions by these bytes.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        let mut choices = Choices {
            rest: bytes,
            left: 0,
        };
        choices.left = 1 + choices.byte() % 4;
        choices
    }

    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *byte
    }

    fn below(&mut self, limit: usize) -> usize {
        let number = u16::from_le_bytes([self.byte(), self.byte()]);
        usize::from(number) % limit.max(1)
    }

    /// Whether to make a change here, with one chance in `n`.
    fn strikes(&mut self, n: u8) -> bool {
        let strikes = self.left > 0 && self.byte() % n == 1 % n;
        self.left -= u8::from(strikes);
        strikes
    }

    /// A number in the place of this one.
    fn number(&mut self, instead_of: u64) -> u64 {
        let small = u64::from(self.byte()) % 16;
        match self.byte() % 6 {
            0 => instead_of.wrapping_add(small),
            1 => instead_of.wrapping_sub(small),
            2 => EDGES[self.below(EDGES.len())]
                .wrapping_add(small % 3)
                .wrapping_sub(1),
            3 => instead_of >> small,
            4 => instead_of << small,
            _ => EDGES[self.below(EDGES.len())],
        }
    }

    /// Changes bytes of unknown meaning.
    fn scramble(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.byte() % 4 {
            let at = self.below(bytes.len() + 1);
            let stop = (at + self.below(32)).min(bytes.len());
            match self.byte() % 7 {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..stop)),
                2 => {
                    let copy = bytes[at..stop].to_vec();
                    bytes.splice(at..at, copy);
                }
                3 => {
                    let mut number = Vec::new();
                    let edge = EDGES[self.below(EDGES.len())];
                    put_varint(&mut number, edge);
                    bytes.splice(at..stop.min(at + 1), number);
                }
                4 => bytes.extend(std::iter::repeat_n(self.byte(), self.below(300))),
                _ => {
                    let byte = self.byte();
                    if let Some(old) = bytes.get_mut(at) {
                        *old = byte;
                    }
                }
            }
        }
        // An extent of no bytes would be none.
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
}

/// A good file that is being changed.
struct Forger<'a, 'b> {
    bytes: Vec<u8>,
    guard: Guard,
    sealer: Sealer,
    choices: &'a mut Choices<'b>,
    unit_size: u32,
}

/// The file made of `base` by these choices.
pub fn forge(base: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let Ok(mut header) = Header::decode(base) else {
        return base.to_vec();
    };
    let key = key().filter(|_| header.is_encrypted);
    let guard = key_place::guard(&MemoryStorage::new(base.to_vec()), &header, key.as_deref());
    let Ok(guard) = guard else {
        return base.to_vec();
    };
    let Ok(sealer) = Sealing::default().sealer(&guard) else {
        return base.to_vec();
    };
    let mut forger = Forger {
        bytes: base.to_vec(),
        guard: guard.clone(),
        sealer,
        choices,
        unit_size: 4096,
    };
    let mut newest = (0, 0);
    for (slot, offset) in SLOT_OFFSETS.into_iter().enumerate() {
        let at = offset.0 as usize;
        let bytes = base.get(at..at + RECORD_LEN).unwrap_or_default();
        if let Some(record) = Record::decode(bytes, &guard) {
            let record = forger.record(record);
            newest = newest.max((record.seq.0, slot));
            forger.bytes[at..at + RECORD_LEN].copy_from_slice(&record.encode(&guard));
        }
    }
    let choices = &mut forger.choices;
    let marked = match choices.byte() % 8 {
        0 => Some(newest.0),
        1 => Some(choices.number(newest.0)),
        _ => None,
    };
    if let Some(seq) = marked {
        let mark = encode_mark(CommitNumber(seq), &guard);
        let at = MARK_OFFSETS[newest.1].0 as usize;
        forger.bytes[at..at + mark.len()].copy_from_slice(&mark);
    }
    if forger.choices.strikes(16) {
        header.compatible = forger.choices.number(0) as u32;
        forger.bytes[..HEADER_LEN].copy_from_slice(&header.encode());
    }
    // Very rarely something that no checksum vouches for, too.
    if forger.choices.strikes(64) {
        forger.choices.scramble(&mut forger.bytes);
    }
    forger.bytes
}

impl Forger<'_, '_> {
    /// The bytes of an extent as they are in the file.
    fn stored(&self, pointer: Pointer) -> Option<Vec<u8>> {
        let start = usize::try_from(pointer.offset.0).ok()?;
        let stop = start.checked_add(pointer.len as usize)?;
        self.bytes.get(start..stop).map(<[u8]>::to_vec)
    }

    /// The content of an extent that is no unit.
    fn extent(&self, kind: Kind, pointer: Pointer) -> Option<Vec<u8>> {
        let stored = self.stored(pointer)?;
        let opened = self.guard.open(kind, stored.clone()).ok()?;
        Some(opened.unwrap_or(stored))
    }

    /// Stores an extent that is no unit at the end of the file.
    fn put(&mut self, kind: Kind, content: &[u8]) -> Pointer {
        let mut bytes = content.to_vec();
        let _ = self.sealer.other(kind, &mut bytes, 0);
        self.append(&bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Pointer {
        let pointer = Pointer {
            offset: FileOffset(self.bytes.len() as u64),
            len: bytes.len() as u32,
            sum: self.guard.sum64(bytes),
        };
        self.bytes.extend_from_slice(bytes);
        pointer
    }

    /// Stores a unit at the end of the file.
    fn put_unit(&mut self, storage: Encoding, content: &[u8]) -> Extent {
        let mut bytes = content.to_vec();
        let voucher = self.sealer.unit(storage.codec, &mut bytes, 0);
        let Voucher { sum, nonce } = voucher.unwrap_or(Voucher::NONE);
        let place = self.append(&bytes);
        Extent {
            offset: place.offset,
            len: place.len,
            sum,
            nonce,
            storage,
        }
    }

    /// The same place or another one, in a way that its checksum is right wherever that is possible.
    fn elsewhere(&mut self, pointer: Pointer) -> Pointer {
        let mut moved = pointer;
        match self.choices.byte() % 4 {
            0 => moved.offset = FileOffset(self.choices.number(pointer.offset.0)),
            1 => moved.len = self.choices.number(pointer.len.into()) as u32,
            2 => {
                moved.offset = FileOffset(self.choices.below(self.bytes.len()) as u64);
                moved.len = self.choices.below(5000) as u32;
            }
            _ => return Pointer::NONE,
        }
        if let Some(bytes) = self.stored(moved) {
            moved.sum = self.guard.sum64(&bytes);
        }
        moved
    }

    /// Stores changed bytes, or leaves the extent.
    fn scrambled(&mut self, kind: Kind, pointer: Pointer, chance: u8) -> Pointer {
        match self.extent(kind, pointer) {
            Some(mut bytes) if !bytes.is_empty() && self.choices.strikes(chance) => {
                self.choices.scramble(&mut bytes);
                self.put(kind, &bytes)
            }
            _ => pointer,
        }
    }

    fn record(&mut self, former: Record) -> Record {
        let mut record = former;
        self.unit_size = record.unit_size;
        if record.height > 0 {
            record.map = self.node(record.map, record.height - 1);
        }
        if record.items_height > 0 {
            record.items = self.node(record.items, record.items_height - 1);
        }
        if self.choices.strikes(8) {
            self.deepen(&mut record);
        }
        record.catalog = self.catalog(record.catalog);
        record.space = self.link(record.space, 0);
        record.segment = self.scrambled(Kind::Segment, record.segment, 3);
        record.end = FileOffset(self.bytes.len() as u64);
        for pointer in [
            &mut record.map,
            &mut record.catalog,
            &mut record.space,
            &mut record.segment,
            &mut record.items,
        ] {
            if self.choices.strikes(24) {
                *pointer = self.elsewhere(*pointer);
            }
        }
        for number in [
            &mut record.seq.0,
            &mut record.size,
            &mut record.end.0,
            &mut record.stored_units,
            &mut record.stored_bytes,
            &mut record.free_bytes,
            &mut record.item_count,
        ] {
            if self.choices.strikes(24) {
                *number = self.choices.number(*number);
            }
        }
        if self.choices.strikes(24) {
            record.unit_size = match self.choices.byte() % 2 {
                0 => 2048 << (self.choices.byte() % 8),
                _ => self.choices.number(record.unit_size.into()) as u32,
            };
        }
        if self.choices.strikes(24) {
            record.height = self.choices.number(record.height.into()) as u8;
        }
        if self.choices.strikes(24) {
            record.items_height = self.choices.number(record.items_height.into()) as u8;
        }
        if self.choices.strikes(48) {
            record.features = self.choices.number(record.features.into()) as u32;
        }
        record
    }

    /// Puts levels above the map, each the one below it several times.
    fn deepen(&mut self, record: &mut Record) {
        for _ in 0..self.choices.byte() % 9 {
            let mut children = [Pointer::NONE; FANOUT];
            let count = 1 + self.choices.below(FANOUT);
            children[..count].fill(record.map);
            record.map = self.put_node(&Node::Inner(Box::new(children)));
            record.height = record.height.saturating_add(1);
        }
        let units = (FANOUT as u64).saturating_pow(record.height.into());
        record.size = units.saturating_mul(record.unit_size.into()) >> self.choices.below(32);
    }

    fn put_node(&mut self, node: &Node) -> Pointer {
        let mut bytes = Vec::new();
        node.encode(&mut bytes);
        self.put(Kind::Node, &bytes)
    }

    /// Changes a node, or nodes or units below it.
    fn node(&mut self, pointer: Pointer, level: u8) -> Pointer {
        let node = self.extent(Kind::Node, pointer);
        let Some(mut node) = node.and_then(|bytes| Node::decode(&bytes, level)) else {
            return pointer;
        };
        match &mut node {
            Node::Leaf(leaf) => self.leaf(leaf),
            Node::Inner(children) => self.children(children, level),
        }
        let pointer = self.put_node(&node);
        self.scrambled(Kind::Node, pointer, 8)
    }

    fn children(&mut self, children: &mut [Pointer; FANOUT], level: u8) {
        let there: Vec<usize> = (0..FANOUT).filter(|i| !children[*i].is_none()).collect();
        for _ in 0..2 {
            let Some(slot) = there.get(self.choices.below(there.len())).copied() else {
                return;
            };
            children[slot] = self.node(children[slot], level - 1);
            if self.choices.strikes(12) {
                children[slot] = self.elsewhere(children[slot]);
                // More cannot be written down.
                children[slot].offset = children[slot].offset.min(OFFSET_LIMIT);
            }
            if self.choices.strikes(12) {
                let stop = slot + self.choices.below(FANOUT - slot + 1);
                let child = children[slot];
                children[slot..stop].fill(child);
            }
        }
    }

    fn leaf(&mut self, leaf: &mut Leaf) {
        for _ in 0..3 {
            let slot = self.choices.below(FANOUT);
            let mut entry = leaf.get(slot);
            if self.choices.strikes(4) {
                entry = self.unit(entry);
            }
            if self.choices.strikes(8) {
                entry.storage = Encoding {
                    codec: Codec::ALL[self.choices.below(Codec::ALL.len())],
                    dict: self.choices.number(entry.storage.dict.into()) as u16,
                    up_to_date: self.choices.byte().is_multiple_of(2),
                };
            }
            if self.choices.strikes(8) {
                let place = Pointer {
                    offset: entry.offset,
                    len: entry.len,
                    sum: 0,
                };
                let place = self.elsewhere(place);
                (entry.offset, entry.len) = (place.offset, place.len);
                if !self.guard.is_encrypted() {
                    entry.sum = place.sum as u32;
                }
            }
            if self.choices.strikes(3) {
                entry = match Item::of(&entry) {
                    Some(_) => self.item(entry),
                    None => self.basis(entry),
                };
            }
            // Such an entry cannot be written down.
            let is_plausible = is_plausible(entry.offset, entry.len);
            let is_written = is_plausible
                && match entry.basis {
                    Basis::Alone | Basis::Slice(..) => true,
                    Basis::Shared { .. } => entry.len > 0,
                    Basis::Items(_) => entry.len > 0,
                    Basis::Former(former) => entry.len > 0 && !former.overlaps(&entry.extent()),
                };
            if is_written && !entry.is_zero() {
                leaf.set(slot, entry);
            }
        }
    }

    /// A unit with other bytes in it: as stored, or the stream that it is packed from.
    fn unit(&mut self, entry: Entry) -> Entry {
        let place = Pointer {
            offset: entry.offset,
            len: entry.len,
            sum: 0,
        };
        let mut room = Vec::new();
        let former = self.stored(place).map(|stored| {
            let opened = self.guard.open_unit_of(&stored, &entry.extent(), &mut room);
            opened.ok().flatten().unwrap_or(&stored).to_vec()
        });
        let mut stored = match former {
            Some(bytes) if !bytes.is_empty() => bytes,
            _ => rows(self.choices.byte().into()),
        };
        let mut storage = entry.storage;
        match self.choices.byte() % 3 {
            0 => self.choices.scramble(&mut stored),
            kind => {
                let page = rows(self.choices.byte().into());
                let mut stream = match kind {
                    1 => Encoder::new(3).sample(&page).to_vec(),
                    _ => page,
                };
                self.choices.scramble(&mut stream);
                stored.clear();
                let mut encoder = Encoder::with_columnar(3, false);
                let codec = encoder.encode(&stream, None, &mut stored);
                let codec = codec.unwrap_or(Codec::Raw);
                storage = Encoding {
                    codec: if kind == 1 { Codec::Columnar } else { codec },
                    dict: 0,
                    up_to_date: false,
                };
            }
        }
        Entry {
            basis: entry.basis,
            ..self.put_unit(storage, &stored).entry()
        }
    }

    /// Gives a unit another basis. One that cannot be written down stays as it is.
    fn basis(&mut self, entry: Entry) -> Entry {
        let number = |choices: &mut Choices<'_>| {
            let near = choices.byte() % 8;
            ItemNumber(choices.number(near.into()) as u32)
        };
        let mut zstd = entry;
        if zstd.len > 0 && self.choices.byte().is_multiple_of(2) {
            zstd.storage.codec = Codec::Zstd;
        }
        let is_difference = zstd.len > 0 && zstd.storage.codec == Codec::Zstd;
        match self.choices.byte() % 5 {
            0 => Entry::slice(number(self.choices), self.choices.byte() % 4),
            1 | 2 if is_difference => {
                let count = 1 + usize::from(self.choices.byte() % 3);
                let items: Vec<_> = (0..count).map(|_| number(self.choices)).collect();
                let basis = Bases::new(&items).map_or(entry.basis, Basis::Items);
                Entry { basis, ..zstd }
            }
            3 if is_difference => {
                let page = rows(self.choices.byte().into());
                let mut former = self.put_unit(Encoding::RAW, &page);
                let place = Pointer {
                    offset: former.offset,
                    len: former.len,
                    sum: former.sum.into(),
                };
                let place = self.elsewhere(place);
                (former.offset, former.len) = (place.offset, place.len);
                if !self.guard.is_encrypted() {
                    former.sum = place.sum as u32;
                }
                let own = zstd.extent();
                let is_sane = place.len > 0
                    && place.is_plausible()
                    && is_plausible(own.offset, own.len)
                    && !former.overlaps(&own);
                let basis = if is_sane {
                    Basis::Former(former)
                } else {
                    entry.basis
                };
                Entry { basis, ..zstd }
            }
            _ => Entry {
                basis: Basis::Alone,
                ..zstd
            },
        }
    }

    /// An item with another count, of more or fewer units.
    fn item(&mut self, entry: Entry) -> Entry {
        let Some(mut item) = Item::of(&entry) else {
            return entry;
        };
        match self.choices.byte() % 4 {
            0 => item.users = self.choices.number(item.users.into()) as u32,
            1 => item.units = ITEM_UNITS[self.choices.below(ITEM_UNITS.len())],
            2 => return Entry::ZERO,
            _ => {}
        }
        item.entry()
    }

    fn catalog(&mut self, pointer: Pointer) -> Pointer {
        let catalog = self.extent(Kind::Catalog, pointer);
        let Some(mut catalog) = catalog.and_then(|bytes| Catalog::decode(&bytes)) else {
            return pointer;
        };
        let places: Vec<Pointer> = catalog.pointers().collect();
        for place in places {
            let mut moved = self.scrambled(Kind::Dictionary, place, 6);
            if self.choices.strikes(12) {
                moved = self.elsewhere(moved);
            }
            catalog.moved(place, moved);
        }
        if self.choices.strikes(8) {
            let dictionary =
                Dictionary::new(vec![self.choices.byte(); 1 << (self.choices.byte() % 21)]);
            let packed = dictionary.pack().unwrap_or_default();
            for _ in 0..1 + self.choices.below(5000) {
                let place = self.put(Kind::Dictionary, &packed);
                let shared = Some((Dictionary::shared(dictionary.bytes().to_vec()), place));
                if catalog
                    .add(shared, 3, vec![self.choices.number(0) as u32])
                    .is_none()
                {
                    break;
                }
            }
        }
        let pointer = self.put(Kind::Catalog, &catalog.encode().unwrap_or_default());
        self.scrambled(Kind::Catalog, pointer, 4)
    }

    /// Changes the free-space chain from this link on.
    fn link(&mut self, pointer: Pointer, depth: usize) -> Pointer {
        let Some(mut bytes) = self.extent(Kind::Space, pointer) else {
            return pointer;
        };
        if let Some(Link::Changes { before }) = decode_link(&bytes)
            && depth < 8
        {
            let before = self.link(before, depth + 1);
            let list = bytes.split_off(bytes.len().min(21));
            bytes.clear();
            link_behind(before, &mut bytes);
            bytes.pop();
            bytes.extend(list);
        }
        if self.choices.strikes(8) {
            // Another list: free ranges anywhere.
            let count = self.choices.below(40);
            bytes = vec![1];
            put_varint(&mut bytes, count as u64);
            for _ in 0..count {
                let gap = self.choices.number(self.bytes.len() as u64 / 4) as i64;
                put_varint(&mut bytes, zigzag(gap));
                put_varint(&mut bytes, self.choices.number(512));
            }
        }
        let pointer = self.put(Kind::Space, &bytes);
        self.scrambled(Kind::Space, pointer, 6)
    }
}

/// No more memory than this is a test's to take.
const LEN_MAX: u64 = 1 << 26;

/// Forges a file by these bytes and does everything with it that a user can do. Whatever happens must be an error or an
/// answer: the caller looks for panics, hangs and memory.
pub fn survives(choices: &[u8]) {
    let mut choices = Choices::new(choices);
    let base = &BASES[choices.below(BASES.len())];
    let memory = MemoryStorage::new(forge(base, &mut choices));
    let disk = Watched::new(memory, |call| match call {
        Call::Write { offset, len } if offset.saturating_add(len as u64) > LEN_MAX => {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        _ => Ok(()),
    });
    let disk = if choices.byte().is_multiple_of(4) {
        disk.remote()
    } else {
        disk
    };
    if let Ok(store) = try_open(disk) {
        hostile::use_everything(store);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    use rand::rngs::StdRng;
    use rand::{Rng, RngExt, SeedableRng};

    /// No file takes longer, on a busy machine, in a debug build.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// The most memory that this process may have taken, with everything else that is tested in it.
    const MEMORY_MB: u64 = 1200;

    #[test]
    fn bases_are_good_and_a_forger_without_ideas_leaves_them_so() {
        for (number, base) in BASES.iter().enumerate() {
            let mut none = Choices { rest: &[], left: 0 };
            for (forged, bytes) in [(false, base.clone()), (true, forge(base, &mut none))] {
                let mut store = try_open(MemoryStorage::new(bytes)).unwrap();
                store.refresh().unwrap();
                let mut page = [0; 4096];
                store.read(5 * 4096, &mut page).unwrap();
                assert!(page[..] == rows(5), "base {number}, forged: {forged}");
                if number % 4 == 3 {
                    for (unit, content) in [(11, 10), (12, 12), (14, 14), (15, 15)] {
                        store.read(unit * 4096, &mut page).unwrap();
                        assert!(page[..] == rows(content), "unit {unit}");
                    }
                }
            }
            let mut store = try_open(MemoryStorage::new(base.clone())).unwrap();
            assert!(store.check(&mut |_| Ok(())).unwrap().is_ok());
        }
    }

    /// Forged files get past the checksums: without this, the test below could go blind.
    #[test]
    fn many_forged_files_open_and_are_read() {
        let mut rng = StdRng::seed_from_u64(1);
        let (mut opened, mut found) = (0, 0);
        for _ in 0..200 {
            let mut bytes = [0; 400];
            rng.fill_bytes(&mut bytes);
            let mut choices = Choices::new(&bytes);
            let base = &BASES[choices.below(BASES.len())];
            let forged = forge(base, &mut choices);
            if let Ok(mut store) = try_open(MemoryStorage::new(forged)) {
                opened += 1;
                let damage = store.check(&mut |_| Ok(()));
                found += u32::from(!damage.is_ok_and(|report| report.is_ok()));
            }
        }
        assert!(opened > 100, "{opened} of 200 opened");
        assert!(found > 30, "damage was found in {found} of {opened}");
    }

    #[test]
    fn forged_files_are_errors() {
        let seed: u64 = std::env::var("LITEPACK_SEED")
            .map_or_else(|_| u64::from(rand::random::<u32>()), |s| s.parse().unwrap());
        let rounds = if std::env::var_os("LITEPACK_LONG").is_some() {
            20_000
        } else {
            300
        };
        println!("LITEPACK_SEED={seed}, {rounds} rounds");
        let (started, progress) = mpsc::channel();
        let rounds = std::thread::spawn(move || {
            for round in 0..rounds {
                let mut rng = StdRng::seed_from_u64(seed + round);
                let mut bytes = vec![0; rng.random_range(20..1500)];
                rng.fill_bytes(&mut bytes);
                started.send(seed + round).unwrap();
                survives(&bytes);
            }
        });
        let mut last = seed;
        loop {
            match progress.recv_timeout(PATIENCE) {
                Ok(next) => last = next,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("LITEPACK_SEED={last} takes too long")
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        assert!(rounds.join().is_ok(), "LITEPACK_SEED={last} panics");
        if let Some(most) = peak_mb() {
            assert!(most < MEMORY_MB, "{most} MB, LITEPACK_SEED={seed}");
        }
    }

    /// The most memory this process has had, where the system says so.
    fn peak_mb() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
    }
}
