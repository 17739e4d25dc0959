//! Writing a commit's prefetch segment.
//!
//! A commit has one only if it was asked for, and the next commit drops it: what it says of a unit's place holds for
//! its own commit.
//!
//! A writer that fills an empty file in order has the file laid out for remote readers. The segment lies right behind
//! the head, and dictionaries behind it, so that the request that opens the file brings all that. And each leaf of the
//! map lies right behind the units that it lists, so that one request brings it together with them.

use litepack_cipher::Padding;
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::guard::Kind;
use crate::format::layout::Pointer;
use crate::format::node::TreeKind;
use crate::format::offset::FileOffset;
use crate::format::prefetch_segment::{OPENING, Opening, SEGMENT_LEN_MAX, SegmentBuilder};
use crate::format::unit::Unit;
use crate::transaction::changes::Transaction;
use crate::transaction::store::Store;

/// Dictionaries take at most one part in this many of a segment.
const DICTIONARIES: u64 = 2;

/// The prefetch segment that a transaction's commit is to have.
#[derive(Debug, Default)]
pub(super) struct SegmentWanted {
    /// Its units, and its greatest length. `None`: the commit has no segment.
    contents: Option<(Vec<Unit>, u64)>,
    /// The room that is kept for it at the beginning of the file.
    front: Option<(FileOffset, u64)>,
}

impl<D: Storage> Store<D> {
    /// What a remote reader's first request brings of this file.
    pub fn opening(&self) -> Opening {
        let of_new = || self.key().filter(|_| self.is_new());
        let padding = self.keys().map(|keys| keys.padding());
        Opening::of(padding.or_else(|| of_new().map(|key| key.padding().unwrap_or_default())))
    }

    /// The running transaction is going to write all of an empty file, in order: keeps room for a prefetch segment at
    /// the beginning, and writes each leaf of the map behind its units.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn fill_in_order(&mut self, front: u64) -> Result<()> {
        self.step(|transaction| {
            let front = front.min(transaction.opening().data);
            let changes = &mut transaction.changes;
            changes.in_order.get_or_insert(0);
            if front > 0 && changes.segment.front.is_none() {
                changes.segment.front = Some((changes.space.alloc(front)?, front));
            }
            Ok(())
        })
    }

    /// Gives the running transaction's commit a prefetch segment of at most `room` bytes, with copies of these units as
    /// far as they fit, the first ones first. It lasts until the next commit.
    ///
    /// # Errors
    /// The transaction is rolled back.
    pub fn set_prefetch(&mut self, units: Vec<Unit>, room: u64) -> Result<()> {
        self.step(|transaction| {
            let contents = (units, room.min(SEGMENT_LEN_MAX));
            transaction.changes.segment.contents = Some(contents);
            Ok(())
        })
    }
}

impl<D: Storage> Transaction<'_, D> {
    fn opening(&self) -> Opening {
        Opening::of(self.medium().guard.padding())
    }

    /// Drops the segment of the commit before, and writes the one that was asked for.
    pub(super) fn write_segment(&mut self, catalog: Pointer) -> Result<Pointer> {
        let former = self.changes.last.record.segment;
        if !former.is_none() {
            self.release_content(former.offset, former.len.into())?;
        }
        let wanted = std::mem::take(&mut self.changes.segment);
        if let Some((offset, len)) = wanted.front {
            self.changes.space.release(offset, len)?;
        }
        let Some((units, room)) = wanted.contents else {
            return Ok(Pointer::NONE);
        };
        // It is made of what is in the file.
        self.write_queue()?;
        // Not if much less room was kept than there may be, and could have been: dictionaries may have the rest of
        // what opening brings.
        let dictionaries = self.image().catalog.pointers();
        let opened = dictionaries.filter(|place| place.end() <= FileOffset(OPENING));
        // As long as they may have been when room was kept for them.
        let padding = self.medium().guard.padding().map_or(0, Padding::bytes);
        let longest = |len| u64::from(len) + u64::from(padding);
        let opened: u64 = opened.map(|place| longest(place.len)).sum();
        let front = wanted
            .front
            .filter(|(_, len)| len + opened >= self.opening().data || room <= 2 * len);
        let room = front.map_or(room, |(_, len)| room.min(len));
        let mut segment = self.contents(room, catalog, &units)?.encode();
        self.sealer()?.other(Kind::Segment, &mut segment, 0)?;
        match front {
            Some((offset, len)) if segment.len() as u64 <= len => {
                self.changes.space.take(offset, segment.len() as u64)?;
                self.queue(offset, &segment)?;
                self.medium().pointer_to(&segment, offset)
            }
            _ => self.store_sealed(&segment),
        }
    }

    fn contents(&self, room: u64, catalog: Pointer, units: &[Unit]) -> Result<SegmentBuilder> {
        let (image, medium) = (self.image(), self.medium());
        let mut segment = SegmentBuilder::new(room, medium.guard.padding());
        let add = |segment: &mut SegmentBuilder, place: Pointer, kind: Kind| -> Result<()> {
            if !place.is_none() && segment.fits(place.len) {
                segment.add(place.offset, medium.stored_extent(place, kind)?);
            }
            Ok(())
        };
        add(&mut segment, catalog, Kind::Catalog)?;
        for level in (1..image.map.height()).rev() {
            for found in image.places(TreeKind::Map, level, medium) {
                add(&mut segment, found?.1, Kind::Node)?;
            }
        }
        let kept = segment.room - segment.room / DICTIONARIES;
        segment.room -= kept;
        for place in image.catalog.pointers() {
            let comes_anyway = place.end() <= FileOffset(OPENING);
            if !comes_anyway {
                add(&mut segment, place, Kind::Dictionary)?;
            }
        }
        segment.room += kept;
        for unit in units {
            let entry = image.map.get(*unit, medium)?;
            // The other units that a unit needs may lie anywhere.
            if !entry.is_zero() && entry.is_alone() && segment.fits(entry.len) {
                let mut stored = Vec::new();
                medium.stored_unit(&entry.extent(), &mut stored)?;
                segment.add_unit(*unit, entry, stored);
            }
        }
        Ok(segment)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;
    use crate::error::{Damage, Error};
    use crate::format::layout::DATA_START;
    use crate::options::Options;
    use litepack_io::cache::{Cache, FileId};
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

    /// Every tenth unit is in the segment.
    fn hot() -> Vec<Unit> {
        (0..UNITS).step_by(10).map(Unit).collect()
    }

    fn file() -> MemoryStorage {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, options()).unwrap();
        for unit in 0..UNITS {
            store.write(unit * UNIT, &content(unit, 0)).unwrap();
        }
        store.set_prefetch(hot(), 256 << 10).unwrap();
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
        store.snapshot.commit().unwrap().record
    }

    #[test]
    fn one_read_brings_what_is_in_it_and_two_any_other_unit() {
        let disk = file();
        // Beyond the commit records.
        let reads = Cell::new(0);
        let counted = Watched::new(&disk, |call| {
            let beyond = matches!(call, Call::Read { offset, .. } if offset >= DATA_START.0);
            reads.set(reads.get() + u32::from(beyond));
            Ok(())
        });
        let mut store = Store::open(counted.remote(), options()).unwrap();
        store.refresh().unwrap();
        for Unit(unit) in hot() {
            assert!(read(&mut store, unit).unwrap() == content(unit, 0));
        }
        assert_eq!(
            reads.get(),
            2,
            "the segment, and a dictionary near the head"
        );
        assert!(read(&mut store, 1234).unwrap() == content(1234, 0));
        assert_eq!(reads.get(), 4, "a leaf of the map, and the unit");
    }

    /// Reads by a handle of its own: what opening brings, and the parts of the file that were asked for beyond that,
    /// without those that an earlier one had brought.
    fn requests_for(disk: &MemoryStorage, unit: u64, version: u64) -> usize {
        let asked = std::cell::RefCell::new(Vec::new());
        let counted = Watched::new(disk, |call| {
            if let Call::Read { offset, len } = call {
                let range = offset..offset + len as u64;
                let mut asked = asked.borrow_mut();
                let is_here = |known: &std::ops::Range<u64>| {
                    known.start <= range.start && range.end <= known.end
                };
                if range.end > OPENING && !asked.iter().any(is_here) {
                    asked.push(range);
                }
            }
            Ok(())
        });
        let mut store = Store::open(counted.remote(), options()).unwrap();
        store.refresh().unwrap();
        assert!(read(&mut store, unit).unwrap() == content(unit, version));
        drop(store);
        asked.into_inner().len()
    }

    #[test]
    fn a_file_that_was_filled_in_order_takes_one_request_for_a_unit() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, options()).unwrap();
        store.fill_in_order(6000).unwrap();
        // Longer than what opening brings.
        let page = |unit: u64| -> Vec<u8> {
            let mut page = content(unit, 0);
            let mut noise = litepack_io::random::SplitMix64::new(unit);
            page.chunks_mut(16).for_each(|bytes| {
                bytes.copy_from_slice(&noise.next_u64().to_le_bytes().repeat(2));
            });
            page
        };
        let units = 40 * 128 + 5;
        for unit in 0..units {
            let bytes = if unit % 8 == 0 {
                page(unit)
            } else {
                content(unit, 0)
            };
            store.write(unit * UNIT, &bytes).unwrap();
        }
        store.set_prefetch(vec![Unit(0), Unit(3001)], 6000).unwrap();
        store.set_maintained().unwrap();
        let segment = record(&disk).segment;
        assert_eq!(segment.offset, DATA_START);
        assert!((100..=6000).contains(&segment.len), "{segment:?}");
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
        assert_eq!(store.info().unwrap().unaccounted_bytes(), 0);
        assert!(disk.len().unwrap() > 4 * OPENING);
        for unit in [641, 1234, 2047, 2049, 4001, 5119, 5121] {
            assert_eq!(requests_for(&disk, unit, 0), 1, "unit {unit}");
        }
        assert_eq!(requests_for(&disk, 3001, 0), 0, "it is in the segment");
        // From the next commit on it is a file like others.
        store.write(4001 * UNIT, &content(4001, 1)).unwrap();
        store.commit().unwrap();
        store.flush().unwrap();
        assert!(record(&disk).segment.is_none());
        assert!(requests_for(&disk, 4001, 1) > 0);
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
    }

    /// A segment may want more than there is room for beside a dictionary. A page that does not fit comes with its
    /// neighbours.
    #[test]
    fn dictionaries_may_have_the_rest_of_what_opening_brings() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, options()).unwrap();
        let mut bytes = vec![0; 100_000];
        let mut noise = litepack_io::random::SplitMix64::new(1);
        bytes.chunks_mut(4).for_each(|bytes| {
            bytes.copy_from_slice(&(noise.next_u64() as u32).to_le_bytes());
        });
        let dictionary = litepack_codec::Dictionary::shared(bytes);
        let front = store
            .opening()
            .beside(&[dictionary.pack().unwrap().len() as u64]);
        store.fill_in_order(front).unwrap();
        store.add_dictionary(&dictionary, Vec::new()).unwrap();
        let units = 40 * 128;
        for unit in 0..units {
            store.write(unit * UNIT, &content(unit, 0)).unwrap();
        }
        let hot = (0..units).step_by(4).map(Unit).collect();
        store.set_prefetch(hot, 4 * front).unwrap();
        store.set_maintained().unwrap();
        let segment = record(&disk).segment;
        assert_eq!(segment.offset, DATA_START);
        assert!(
            (front / 2..=front).contains(&segment.len.into()),
            "{segment:?}"
        );
        assert_eq!(requests_for(&disk, 0, 0), 0, "in the segment");
        assert_eq!(requests_for(&disk, units - 4, 0), 1, "no room for it");
        let report = store.check(&mut |_| Ok(())).unwrap();
        assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
        assert_eq!(store.info().unwrap().unaccounted_bytes(), 0);
    }

    /// A leaf that was written already is changed again. It may still be in the queue.
    #[test]
    fn units_that_come_in_another_order_than_was_said_are_stored_all_the_same() {
        // More leaves than a handle remembers.
        const MANY: u64 = 520 * 128;
        let page = |unit: u64| unit.to_le_bytes().repeat(UNIT as usize / 8);
        for threads in [1, 4] {
            let disk = MemoryStorage::default();
            let options = Options {
                threads,
                cache: Arc::new(Cache::new(0)),
                file: FileId::unique(),
                ..Options::default()
            };
            let mut store = Store::open(&disk, options).unwrap();
            store.fill_in_order(0).unwrap();
            for step in 0..MANY {
                let unit = step * 1237 % MANY;
                store.write(unit * UNIT, &page(unit)).unwrap();
            }
            store.commit().unwrap();
            let report = store.check(&mut |_| Ok(())).unwrap();
            assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
            for unit in (0..MANY).step_by(7) {
                assert!(read(&mut store, unit).unwrap() == page(unit), "{unit}");
            }
        }
    }

    #[test]
    fn room_that_was_kept_for_nothing_is_free() {
        for (front, segment) in [
            (6000, None),
            (10, Some(200)),
            (0, Some(5000)),
            (9000, Some(0)),
        ] {
            let disk = MemoryStorage::default();
            let mut store = Store::open(&disk, options()).unwrap();
            store.fill_in_order(front).unwrap();
            for unit in 0..300 {
                store.write(unit * UNIT, &content(unit, 0)).unwrap();
            }
            if let Some(room) = segment {
                store.set_prefetch(hot(), room).unwrap();
            }
            store.set_maintained().unwrap();
            let report = store.check(&mut |_| Ok(())).unwrap();
            assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
            assert_eq!(store.info().unwrap().unaccounted_bytes(), 0);
            assert!(read(&mut store, 200).unwrap() == content(200, 0));
        }
    }

    #[test]
    fn it_lasts_until_the_next_commit_and_leaves_nothing_behind() {
        let disk = file();
        assert!(!record(&disk).segment.is_none());
        let mut store = Store::open(&disk, options()).unwrap();
        let all_accounted_for = |store: &mut Store<&MemoryStorage>| {
            let report = store.check(&mut |_| Ok(())).unwrap();
            assert_eq!((report.damage, report.lost_bytes), (vec![], 0));
            assert_eq!(store.info().unwrap().unaccounted_bytes(), 0);
        };
        all_accounted_for(&mut store);
        store.write(20 * UNIT, &content(20, 1)).unwrap();
        store.commit().unwrap();
        store.flush().unwrap();
        all_accounted_for(&mut store);
        assert!(record(&disk).segment.is_none());
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
            store.set_prefetch(hot(), room).unwrap();
            store.set_maintained().unwrap();
            let len = u64::from(record(&disk).segment.len);
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
        let Pointer { offset, len, .. } = record(&disk).segment;
        let mut byte = [0];
        for at in [0, 100, u64::from(len) - 1].map(|within| offset.0 + within) {
            disk.read_at(&mut byte, at).unwrap();
            disk.write_at(&[byte[0] ^ 4], at).unwrap();
            let mut reader = Store::open(far(&disk), options()).unwrap();
            match reader.refresh() {
                Err(Error::Damaged(Damage {
                    what,
                    offset: found,
                    ..
                })) => {
                    assert_eq!((what.as_str(), found), ("prefetch segment", offset));
                }
                other => panic!("{other:?}"),
            }
            let mut store = Store::open(&disk, options()).unwrap();
            store.refresh().unwrap();
            assert!(read(&mut store, 20).unwrap() == content(20, 0));
            let damage = store.check(&mut |_| Ok(())).unwrap().damage;
            assert_eq!(damage.len(), 1, "{damage:?}");
            disk.write_at(&byte, at).unwrap();
        }
    }

    /// A segment with all checksums right that says something else than the map.
    #[test]
    fn the_check_compares_it_with_what_it_is_a_copy_of() {
        let disk = file();
        let mut record = record(&disk);
        let mut store = Store::open(&disk, options()).unwrap();
        store.refresh().unwrap();
        let mut bytes = store
            .snapshot
            .medium()
            .extent(record.segment, Kind::Segment)
            .unwrap();
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        disk.write_at(&bytes, record.segment.offset.0).unwrap();
        record.segment.sum = store.uuid().sum64(&bytes);
        let encoded = record.encode(store.uuid());
        let slot = store.snapshot.commit().unwrap().slot;
        disk.write_at(&encoded, crate::format::layout::SLOT_OFFSETS[slot].0)
            .unwrap();
        let mut store = Store::open(&disk, options()).unwrap();
        let damage = store.check(&mut |_| Ok(())).unwrap().damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!(damage[0].what, "prefetch segment");
        // Who reads it does not take the copy for the unit.
        let Unit(last) = *hot().last().unwrap();
        let mut reader = Store::open(far(&disk), options()).unwrap();
        reader.refresh().unwrap();
        assert!(matches!(read(&mut reader, last), Err(Error::Damaged(_))));
    }
}
