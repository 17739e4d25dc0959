//! The bundle: copies of what a reader who has nothing yet wants first, side by side, for media where every read is a
//! request to a server. It holds the map nodes above the leaves, the catalog, dictionaries, and units that the caller
//! names (the upper pages of b-trees) with their map entries, so that one request brings what would take one after another.
//!
//! A commit has a bundle only if it was asked for, and the next commit drops it: what it says of a unit's place holds for
//! its own commit. Readers of a near medium leave it alone. Its bytes are checked like those they are copies of, by
//! whoever wants them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Damage, Error, Result};
use crate::format::layout::Pointer;
use crate::format::leaf::{Entry, storage_of, tag_of};
use crate::inspect::walk::Survey;
use crate::medium::verified::Medium;
use crate::snapshot::recover::verify_unit;
use crate::snapshot::store::Store;
use litepack_io::bytes::{Reader, put_varint};
use litepack_io::storage::Storage;

/// No bundle is longer.
pub(crate) const BUNDLE_LEN_MAX: u64 = 1 << 20;
/// Dictionaries take at most this share of a bundle.
const DICTIONARIES: u64 = 2;
/// More than any extent takes in the list of what is in the bundle, and so do both counts.
const LISTED_LEN: u64 = 32;

/// What a reader keeps of a bundle.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    bytes: Vec<u8>,
    /// Where in `bytes` the copy of an extent is, by its offset in the file.
    extents: BTreeMap<u64, Range<usize>>,
    units: BTreeMap<u64, Entry>,
}

impl Bundle {
    /// Reads a bundle; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: Vec<u8>) -> Option<Bundle> {
        let mut fields = Reader::new(&bytes);
        let (others, count) = (fields.varint()?, fields.varint()?);
        let (mut places, mut units, mut number) = (Vec::new(), BTreeMap::new(), 0u64);
        for _ in 0..others {
            places.push((fields.varint()?, fields.varint_u32()?));
        }
        for _ in 0..count {
            number = number.checked_add(fields.varint()?)?;
            let storage = storage_of(fields.varint()?)?;
            let (offset, len) = (fields.varint()?, fields.varint_u32()?);
            let sum = fields.u32()?;
            places.push((offset, len));
            let entry = Entry {
                offset,
                len,
                sum,
                storage,
            };
            units.insert(number, entry);
        }
        let mut start = bytes.len() - fields.rest().len();
        let mut extents = BTreeMap::new();
        for (offset, len) in places {
            let stop = start.checked_add(len as usize)?;
            extents.insert(offset, start..stop);
            start = stop;
        }
        (start == bytes.len()).then_some(Bundle {
            bytes,
            extents,
            units,
        })
    }

    /// The copy of an extent, if it is here.
    pub(crate) fn extent(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let range = self.extents.get(&offset)?;
        self.bytes
            .get(range.clone())
            .filter(|copy| copy.len() == len)
    }

    /// The map's entry of a unit, if it is here.
    pub(crate) fn entry(&self, unit: u64) -> Option<Entry> {
        self.units.get(&unit).copied()
    }
}

/// A bundle that is being put together.
struct Contents {
    others: Vec<(u64, Vec<u8>)>,
    units: Vec<(u64, Entry, Vec<u8>)>,
    /// Bytes that may still be added.
    room: u64,
}

impl Contents {
    /// Takes room for an extent, if there is enough.
    fn fits(&mut self, len: u32) -> bool {
        let left = self.room.checked_sub(u64::from(len) + LISTED_LEN);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    fn encode(mut self) -> Vec<u8> {
        self.units.sort_by_key(|(unit, ..)| *unit);
        let mut out = Vec::new();
        put_varint(&mut out, self.others.len() as u64);
        put_varint(&mut out, self.units.len() as u64);
        for (offset, bytes) in &self.others {
            put_varint(&mut out, *offset);
            put_varint(&mut out, bytes.len() as u64);
        }
        let mut before = 0;
        for (unit, entry, _) in &self.units {
            put_varint(&mut out, unit - before);
            before = *unit;
            put_varint(&mut out, tag_of(entry));
            put_varint(&mut out, entry.offset);
            put_varint(&mut out, entry.len.into());
            out.extend(entry.sum.to_le_bytes());
        }
        let others = self.others.iter().map(|(_, bytes)| bytes);
        for bytes in others.chain(self.units.iter().map(|(.., bytes)| bytes)) {
            out.extend(bytes);
        }
        out
    }
}

impl<D: Storage> Store<D> {
    /// Has the running transaction's commit bring a bundle of at most `room` bytes, with copies of these units as far as they
    /// fit in, the first ones first. It lasts until the next commit.
    ///
    /// # Errors
    /// The transaction is dropped and the last commit is current again.
    pub fn bundle(&mut self, units: Vec<u64>, room: u64) -> Result<()> {
        self.guarded(|store| {
            store.begin()?;
            store.writer.txn().bundle = Some((units, room.min(BUNDLE_LEN_MAX)));
            Ok(())
        })
    }

    /// Drops the bundle of the commit before, and writes the one that was asked for.
    pub(crate) fn write_bundle(&mut self, catalog: Pointer) -> Result<Pointer> {
        let former = self.commit.map_or(Pointer::NONE, |c| c.record.bundle);
        if !former.is_none() {
            self.writer
                .release_content(former.offset, former.len.into())?;
        }
        let Some((units, room)) = self.writer.txn().bundle.take() else {
            return Ok(Pointer::NONE);
        };
        // It is made of what lies in the file.
        self.write_queue()?;
        let contents = self.contents(room, catalog, &units)?;
        self.store_metadata(&contents.encode())
    }

    fn contents(&mut self, room: u64, catalog: Pointer, units: &[u64]) -> Result<Contents> {
        let mut contents = Contents {
            others: Vec::new(),
            units: Vec::new(),
            room: room.saturating_sub(LISTED_LEN),
        };
        let add = |contents: &mut Contents, place: Pointer, what: &str| {
            if !place.is_none() && contents.fits(place.len) {
                contents
                    .others
                    .push((place.offset, self.medium.extent(place, what)?));
            }
            Ok::<_, Error>(())
        };
        add(&mut contents, catalog, "catalog")?;
        for level in (1..self.map.height()).rev() {
            for found in self.places(level) {
                add(&mut contents, found?.1, "page map node")?;
            }
        }
        let kept = contents.room - contents.room / DICTIONARIES;
        contents.room -= kept;
        for place in self.catalog.pointers() {
            add(&mut contents, place, "dictionary")?;
        }
        contents.room += kept;
        for unit in units {
            let entry = self.map.get(*unit, &self.medium)?;
            if !entry.is_zero() && contents.fits(entry.len) {
                let mut stored = Vec::new();
                verify_unit(&self.medium, &entry, &mut stored)?;
                contents.units.push((*unit, entry, stored));
            }
        }
        Ok(contents)
    }

    /// Reads the bundle of a commit, if it has one and the medium is far away.
    pub(crate) fn fetch_bundle(&self, pointer: Pointer) -> Result<Option<Bundle>> {
        if pointer.is_none() || !self.medium.disk.is_remote() {
            return Ok(None);
        }
        read_bundle(&self.medium, pointer).map(Some)
    }

    /// Reads the bundle and compares it with what it holds copies of.
    pub(crate) fn survey_bundle(&mut self, survey: &mut Survey, pointer: Pointer) -> Result<()> {
        if pointer.is_none() || !survey.claim("bundle", pointer.offset, pointer.len.into()) {
            return Ok(());
        }
        let bundle = read_bundle(&self.medium, pointer);
        let Some(bundle) = survey.note(bundle)? else {
            return Ok(());
        };
        let differs = |why| Damage {
            what: "bundle".into(),
            offset: pointer.offset,
            why,
        };
        for (unit, entry) in &bundle.units {
            let known = self.map.get(*unit, &self.medium);
            if survey.note(known)?.is_some_and(|known| known != *entry) {
                let page = self.page_number(*unit);
                survey.add(differs(format!("has another place of page {page}")));
            }
        }
        for (offset, range) in &bundle.extents {
            let copy = &bundle.bytes[range.clone()];
            let mut original = litepack_io::memory::zeros(copy.len())?;
            let n = self.medium.disk.read_at(&mut original, *offset)?;
            if original[..n] != *copy {
                survey.add(differs(format!("no copy of what lies at offset {offset}")));
            }
        }
        Ok(())
    }
}

fn read_bundle<D: Storage>(medium: &Medium<D>, pointer: Pointer) -> Result<Bundle> {
    let malformed = || Error::damaged("bundle", pointer.offset, "malformed");
    if u64::from(pointer.len) > BUNDLE_LEN_MAX {
        return Err(malformed());
    }
    let bytes = medium.extent(pointer, "bundle")?;
    Bundle::decode(bytes).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::format::layout::DATA_START;
    use crate::medium::cache::{Cache, FileId};
    use crate::snapshot::store::Options;
    use litepack_io::storage::ReadAt;
    use litepack_io::testing::{Call, MemoryStorage, Watched};

    const UNIT: u64 = 4096;
    const UNITS: u64 = 2000;

    /// A remote disk.
    fn far(disk: &MemoryStorage) -> impl Storage {
        Watched::new(disk, |_| Ok(())).remote()
    }

    fn options() -> Options {
        Options {
            cache: Arc::new(Cache::new(1 << 20)),
            file: FileId::unique(),
            ..Options::default()
        }
    }

    fn content(unit: u64, version: u64) -> Vec<u8> {
        let text = format!("unit {unit} in version {version}: {}; ", unit * 7919 % 1009);
        text.bytes().cycle().take(UNIT as usize).collect()
    }

    /// Every tenth unit is in the bundle.
    fn hot() -> Vec<u64> {
        (0..UNITS).step_by(10).collect()
    }

    fn file() -> MemoryStorage {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, options()).unwrap();
        for unit in 0..UNITS {
            store.write(unit * UNIT, &content(unit, 0)).unwrap();
        }
        store.bundle(hot(), 256 << 10).unwrap();
        store.set_maintained().unwrap();
        store.close();
        disk
    }

    fn read<D: Storage>(store: &mut Store<D>, unit: u64) -> Result<Vec<u8>> {
        let mut page = vec![0; UNIT as usize];
        store.read(unit * UNIT, &mut page).map(|_| page)
    }

    fn record(disk: &MemoryStorage) -> crate::format::record::Record {
        let mut store = Store::open(disk, options()).unwrap();
        store.refresh().unwrap();
        store.commit.unwrap().record
    }

    #[test]
    fn one_read_brings_what_is_in_it_and_two_any_other_unit() {
        let disk = file();
        // Beyond the commit records.
        let reads = Cell::new(0);
        let counted = Watched::new(&disk, |call| {
            let beyond = matches!(call, Call::Read { offset, .. } if offset >= DATA_START);
            reads.set(reads.get() + u32::from(beyond));
            Ok(())
        });
        let mut store = Store::open(counted.remote(), options()).unwrap();
        store.refresh().unwrap();
        for unit in hot() {
            assert!(read(&mut store, unit).unwrap() == content(unit, 0));
        }
        assert_eq!(reads.get(), 1);
        assert!(read(&mut store, 1234).unwrap() == content(1234, 0));
        assert_eq!(reads.get(), 3, "a leaf of the map, and the unit");
    }

    #[test]
    fn it_lasts_until_the_next_commit_and_leaves_nothing_behind() {
        let disk = file();
        assert!(!record(&disk).bundle.is_none());
        let mut store = Store::open(&disk, options()).unwrap();
        let all_accounted_for = |store: &mut Store<&MemoryStorage>| {
            let report = store.check(&mut |_| {}).unwrap();
            assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
            assert_eq!(store.info().unwrap().unaccounted_bytes(), 0);
        };
        all_accounted_for(&mut store);
        store.write(20 * UNIT, &content(20, 1)).unwrap();
        store.commit().unwrap();
        store.flush().unwrap();
        all_accounted_for(&mut store);
        assert!(record(&disk).bundle.is_none());
        let mut reader = Store::open(far(&disk), options()).unwrap();
        reader.refresh().unwrap();
        assert!(read(&mut reader, 20).unwrap() == content(20, 1));
        assert!(read(&mut reader, 30).unwrap() == content(30, 0));
    }

    #[test]
    fn it_is_no_longer_than_asked_for() {
        for room in [0, 10, 100, 5000, 50_000, u64::MAX] {
            let disk = file();
            let mut store = Store::open(&disk, options()).unwrap();
            store.bundle(hot(), room).unwrap();
            store.set_maintained().unwrap();
            let len = u64::from(record(&disk).bundle.len);
            assert!(len <= room.max(2), "{len} bytes in {room}");
            assert!(room < 5000 || len > 2500, "{len} of {room}");
            let mut reader = Store::open(far(&disk), options()).unwrap();
            reader.refresh().unwrap();
            assert!(read(&mut reader, 20).unwrap() == content(20, 0));
        }
    }

    #[test]
    fn damage_is_told_by_readers_that_need_it_and_by_the_check() {
        let disk = file();
        let Pointer { offset, len, .. } = record(&disk).bundle;
        let mut byte = [0];
        for at in [offset, offset + 100, offset + u64::from(len) - 1] {
            disk.read_at(&mut byte, at).unwrap();
            disk.write_at(&[byte[0] ^ 4], at).unwrap();
            let mut reader = Store::open(far(&disk), options()).unwrap();
            match reader.refresh() {
                Err(Error::Damaged(Damage {
                    what,
                    offset: found,
                    ..
                })) => {
                    assert_eq!((what.as_str(), found), ("bundle", offset));
                }
                other => panic!("{other:?}"),
            }
            let mut store = Store::open(&disk, options()).unwrap();
            store.refresh().unwrap();
            assert!(read(&mut store, 20).unwrap() == content(20, 0));
            let damage = store.check(&mut |_| {}).unwrap().damage;
            assert_eq!(damage.len(), 1, "{damage:?}");
            disk.write_at(&byte, at).unwrap();
        }
    }

    /// A bundle with all checksums right that says something else than the map.
    #[test]
    fn the_check_compares_it_with_what_it_is_a_copy_of() {
        let disk = file();
        let mut record = record(&disk);
        let mut store = Store::open(&disk, options()).unwrap();
        store.refresh().unwrap();
        let mut bytes = store.medium.extent(record.bundle, "bundle").unwrap();
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        disk.write_at(&bytes, record.bundle.offset).unwrap();
        record.bundle.sum = store.medium.uuid.sum64(&bytes);
        let encoded = record.encode(store.medium.uuid);
        let slot = store.commit.unwrap().slot;
        disk.write_at(&encoded, crate::format::layout::SLOT_OFFSETS[slot])
            .unwrap();
        let mut store = Store::open(&disk, options()).unwrap();
        let damage = store.check(&mut |_| {}).unwrap().damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!(damage[0].what, "bundle");
        // Who reads it does not take the copy for the unit.
        let last = *hot().last().unwrap();
        let mut reader = Store::open(far(&disk), options()).unwrap();
        reader.refresh().unwrap();
        assert!(matches!(read(&mut reader, last), Err(Error::Damaged(_))));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_none_or_lie_within_themselves(
            head in proptest::collection::vec(0u8..20, 0..40),
            tail in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Some(bundle) = Bundle::decode([head, tail].concat()) {
                for range in bundle.extents.values() {
                    prop_assert!(bundle.bytes.get(range.clone()).is_some());
                }
            }
        }
    }
}
