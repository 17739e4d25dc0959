//! Making an empty file a packed one.

use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::catalog::Catalog;
use crate::format::header::{HEAD_LEN, Header};
use crate::format::key_place;
use crate::format::layout::{
    DATA_START, HEADER_LEN, KEY_OFFSETS, MARK_OFFSETS, SEALED_START, SLOT_OFFSETS, UNIT_MIN,
};
use crate::format::record::{Record, encode_mark};
use crate::snapshot::image::Image;
use crate::snapshot::recover::{Commit, read_slots};
use crate::transaction::store::Store;

/// Bytes of the places for key blocks.
#[expect(clippy::cast_possible_truncation, reason = "it is 8192")]
const PLACES_LEN: usize = (SEALED_START.0 - KEY_OFFSETS[0].0) as usize;

/// Puts `part` into `bytes` at this offset.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "records, marks and key blocks are where there is room for them"
)]
fn put(bytes: &mut [u8], part: &[u8], offset: u64) {
    let at = offset as usize;
    bytes[at..at + part.len()].copy_from_slice(part);
}

impl<D: Storage> Store<D> {
    /// Takes away what another creation has left that was cut off. Its header may be on the medium although none is read,
    /// if a sync failed: it goes first. And a file with room for key blocks is one only with slots that say so, which
    /// come with this one's.
    fn clear(&self) -> Result<()> {
        let disk = self.snapshot.disk();
        let len = disk.len()?;
        if len > 0 {
            disk.write_at(&[0; HEADER_LEN], 0)?;
            disk.sync()?;
        }
        if len > DATA_START.0 {
            disk.truncate(DATA_START.0)?;
            disk.sync()?;
        }
        Ok(())
    }

    /// Writes the first commit, of the empty database, into an empty file.
    pub(super) fn create(&mut self) -> Result<Commit> {
        let key = self.snapshot.key();
        let header = Header::new(key.map(|key| key.padding().unwrap_or_default()))?;
        let (guard, block) = key_place::new_guard(header.uuid, key)?;
        self.snapshot.medium_mut().guard = guard.clone();
        let record = Record::first(UNIT_MIN, guard.data_start());
        let mut head = vec![0; HEAD_LEN];
        for offset in SLOT_OFFSETS {
            put(&mut head, &record.encode(&guard), offset.0);
        }
        for offset in MARK_OFFSETS {
            put(&mut head, &encode_mark(record.seq, &guard), offset.0);
        }
        let disk = self.snapshot.disk();
        // First, because another try after a failure finds the file empty, and so comes here again.
        disk.sync_name()?;
        self.clear()?;
        let disk = self.snapshot.disk();
        disk.write_at(&head, 0)?;
        disk.sync()?;
        if let Some(block) = block {
            // After the slots, by which a file that is as long is known to be unfinished.
            let mut places = vec![0; PLACES_LEN];
            for offset in KEY_OFFSETS {
                let place = key_place::encode(1, &block, header.uuid);
                put(&mut places, &place, offset - KEY_OFFSETS[0]);
            }
            disk.write_at(&places, KEY_OFFSETS[0].0)?;
            disk.sync()?;
        }
        // Last, because a header says that all of this is there.
        let finished = disk.write_at(&header.encode(), 0);
        if let Err(error) = finished.and_then(|()| disk.sync()) {
            let _ = disk.write_at(&[0; HEADER_LEN], 0);
            return Err(error.into());
        }
        for (slot, bytes) in read_slots(disk)?.into_iter().enumerate() {
            self.snapshot.slot_written(slot, bytes);
        }
        let commit = Commit {
            record,
            slot: 0,
            durable: true,
        };
        let page_size = self.snapshot.image().page_size;
        let image = Image::of(&record, Catalog::default(), page_size);
        self.snapshot.go_to(commit, image);
        Ok(commit)
    }
}
