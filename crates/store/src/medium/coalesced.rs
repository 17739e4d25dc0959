//! Coalesced reads: contiguous extents are read in one call, because a call costs more than the bytes.
//!
//! When an extent follows the one that was read before, some of what comes after it is read with it and kept. The file
//! may have changed since: kept bytes are used only if they have the checksum of the unit that is asked for, and are
//! read again otherwise. So are sealed ones that were asked for before, which are decrypted in their place.

use litepack_io::storage::ReadAt;

use crate::error::{Error, Result, SOME_PAGE};
use crate::format::leaf::Extent;
use crate::format::offset::FileOffset;
use crate::medium::verified::{MISMATCH, Medium};

/// Bytes read in one call when reading goes on from neighbour to neighbour.
const STRETCH: usize = 16 << 10;
/// A gap this small still makes neighbours: map nodes and freed extents lie between units.
const GAP_MAX: u64 = 4 << 10;

/// The bytes read last, with those of their neighbours.
#[derive(Debug, Default)]
pub(crate) struct CoalescedReads {
    /// Where `bytes` begin in the file.
    offset: FileOffset,
    bytes: Vec<u8>,
    /// End of the extent asked for last.
    end: FileOffset,
    /// What was sealed in a prefetched extent.
    opened: Vec<u8>,
}

impl CoalescedReads {
    /// What the codec made of a unit, checked against the map.
    #[expect(
        clippy::indexing_slicing,
        reason = "what is returned was found right before"
    )]
    pub(crate) fn unit<'a, D: ReadAt>(
        &'a mut self,
        medium: &'a Medium<D>,
        extent: &Extent,
    ) -> Result<&'a [u8]> {
        if extent.len > medium.unit_max() {
            return Err(Error::damaged(
                SOME_PAGE,
                extent.offset,
                "implausible length",
            ));
        }
        let len = extent.len as usize;
        let guard = &medium.guard;
        if let Some(copy) = medium.prefetched(extent.offset, len)
            && let Some(unit) = guard.open_unit_of(copy, extent, &mut self.opened)?
        {
            return Ok(unit);
        }
        let gap = extent.offset.distance_from(self.end);
        let is_neighbour = gap.is_some_and(|gap| gap <= GAP_MAX);
        self.end = extent.end();

        let start = extent.offset.distance_from(self.offset);
        let start = start.map_or(usize::MAX, |start| start.try_into().unwrap_or(usize::MAX));
        let stop = start.saturating_add(len);
        // Borrowed by its place: the compiler does not see yet that a reference that is not returned is not in use.
        if let Some(kept) = self.bytes.get_mut(start..stop)
            && let Some(unit) = guard.open_unit(kept, extent)?
        {
            let len = unit.len();
            return Ok(&self.bytes[start..start + len]);
        }
        self.offset = extent.offset;
        if is_neighbour {
            litepack_io::memory::resize(&mut self.bytes, STRETCH.max(len))?;
            let read = medium.disk.read_at(&mut self.bytes, extent.offset.0);
            self.bytes.truncate(read.unwrap_or(0));
        }
        if let Some(bytes) = self.bytes.get_mut(..len).filter(|_| is_neighbour)
            && let Some(unit) = guard.open_unit(bytes, extent)?
        {
            let len = unit.len();
            return Ok(&self.bytes[..len]);
        }
        // Whatever was wrong with what follows, it is this extent alone that was asked for.
        litepack_io::memory::resize(&mut self.bytes, len)?;
        let len = medium.read_any_copy(|copy| {
            medium.fill_from(copy, &mut self.bytes, extent.offset, SOME_PAGE)?;
            let unit = guard.open_unit(&mut self.bytes, extent)?;
            let unit = unit.map(<[u8]>::len);
            unit.ok_or_else(|| Error::damaged(SOME_PAGE, extent.offset, MISMATCH))
        })?;
        Ok(&self.bytes[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::guard::{Guard, Sealing};
    use crate::format::layout::FileUuid;
    use crate::medium::cache::PageCache;
    use litepack_cipher::Keys;
    use litepack_codec::{Codec, Encoding};
    use litepack_io::cache::{Cache, CacheKind, FileId};
    use litepack_io::storage::Storage;
    use litepack_io::testing::{Call, MemoryStorage, Watched};
    use std::cell::Cell;
    use std::io;
    use std::sync::Arc;

    const LEN: u64 = 500;

    /// The reads a disk was asked for, and the offset from which on it cannot be read.
    #[derive(Default)]
    struct Asked {
        reads: Cell<usize>,
        unreadable_from: Cell<Option<u64>>,
    }

    impl Asked {
        fn disk(&self) -> impl Storage {
            Watched::new(MemoryStorage::default(), |call| {
                let Call::Read { offset, len } = call else {
                    return Ok(());
                };
                self.reads.set(self.reads.get() + 1);
                match self.unreadable_from.get() {
                    Some(from) if offset + len as u64 > from => {
                        Err(io::Error::other("a bad sector"))
                    }
                    _ => Ok(()),
                }
            })
        }
    }

    fn content(number: u64, version: u64) -> Vec<u8> {
        (0..LEN)
            .map(|i| (number * 31 + version * 7 + i * i) as u8)
            .collect()
    }

    fn put(medium: &Medium<impl Storage>, number: u64, version: u64) -> Extent {
        let offset = FileOffset(100_000 + number * LEN);
        let bytes = content(number, version);
        medium.disk.write_at(&bytes, offset.0).unwrap();
        Extent {
            offset,
            len: LEN as u32,
            sum: medium.guard.uuid.sum32(&bytes),
            nonce: litepack_cipher::Nonce::NONE,
            storage: Encoding::RAW,
        }
    }

    fn filled(asked: &Asked, count: u64) -> (Medium<impl Storage>, Vec<Extent>) {
        let cache = Arc::new(Cache::new(1 << 20));
        cache.begin_use(CacheKind::Pages);
        let medium = Medium {
            disk: asked.disk(),
            guard: Guard::sums(FileUuid([3; 16])),
            cache: PageCache {
                cache,
                file: FileId::unique(),
            },
            dictionaries: crate::medium::held_dictionaries::HeldDictionaries::default(),
            segment: None,
            spares: Vec::new(),
        };
        let entries = (0..count).map(|number| put(&medium, number, 0)).collect();
        (medium, entries)
    }

    #[test]
    fn neighbours_are_read_in_few_calls_and_others_alone() {
        let asked = Asked::default();
        let (medium, entries) = filled(&asked, 320);
        let mut coalesced = CoalescedReads::default();
        for (number, entry) in entries.iter().enumerate() {
            assert_eq!(
                coalesced.unit(&medium, entry).unwrap(),
                content(number as u64, 0)
            );
        }
        assert!(asked.reads.take() < 320 / 25);
        for number in (0..320).step_by(40).rev() {
            let found = coalesced.unit(&medium, &entries[number]).unwrap();
            assert_eq!(found, content(number as u64, 0));
        }
        assert_eq!(asked.reads.take(), 8);
    }

    #[test]
    fn what_was_overwritten_meanwhile_is_read_again() {
        let asked = Asked::default();
        let (medium, mut entries) = filled(&asked, 20);
        let mut coalesced = CoalescedReads::default();
        coalesced.unit(&medium, &entries[0]).unwrap();
        coalesced.unit(&medium, &entries[1]).unwrap();
        for number in (2..20).step_by(2) {
            entries[number as usize] = put(&medium, number, 1);
        }
        for (number, entry) in (0..).zip(&entries).skip(2) {
            let version = u64::from(number % 2 == 0);
            assert_eq!(
                coalesced.unit(&medium, entry).unwrap(),
                content(number, version)
            );
        }
        // A reader at the commit before finds out, too.
        let former = filled(&asked, 3).1[2];
        assert!(matches!(
            coalesced.unit(&medium, &former),
            Err(Error::Damaged(_))
        ));
    }

    #[test]
    fn a_sealed_unit_is_read_again_after_it_was_decrypted_in_its_place() {
        let asked = Asked::default();
        let (mut medium, _) = filled(&asked, 0);
        let uuid = medium.guard.uuid;
        medium.guard = Guard::keys(uuid, Keys::new(&[5; 32], &uuid.0).unwrap());
        let sealer = Sealing::default().sealer(&medium.guard).unwrap();
        let seal = |number| {
            let mut bytes = content(number, 0);
            let voucher = sealer.unit(Codec::Raw, &mut bytes, 0).unwrap();
            let offset = FileOffset(100_000 + number * bytes.len() as u64);
            medium.disk.write_at(&bytes, offset.0).unwrap();
            Extent {
                offset,
                len: bytes.len() as u32,
                sum: voucher.sum,
                nonce: voucher.nonce,
                storage: Encoding::RAW,
            }
        };
        let entries: Vec<Extent> = (0..40).map(seal).collect();
        let mut coalesced = CoalescedReads::default();
        for number in (0..40).chain([39, 39, 0, 1, 0, 1, 2, 2]) {
            let found = coalesced.unit(&medium, &entries[number]).unwrap();
            assert_eq!(found, content(number as u64, 0), "{number}");
        }
    }

    #[test]
    fn trouble_behind_a_unit_is_not_its_own() {
        let asked = Asked::default();
        let (medium, entries) = filled(&asked, 20);
        let mut coalesced = CoalescedReads::default();
        asked.unreadable_from.set(Some(entries[10].offset.0));
        for (number, entry) in (0..10).zip(&entries) {
            assert_eq!(coalesced.unit(&medium, entry).unwrap(), content(number, 0));
        }
        assert!(matches!(
            coalesced.unit(&medium, &entries[10]),
            Err(Error::Io(_))
        ));
        asked.unreadable_from.set(None);
        assert_eq!(
            coalesced.unit(&medium, &entries[10]).unwrap(),
            content(10, 0)
        );
    }
}
