//! Making an empty file a packed one.

use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::catalog::Catalog;
use crate::format::header::{HEAD_LEN, Header};
use crate::format::key_place;
use crate::format::layout::{
    DATA_START, HEADER_LEN, KEY_OFFSETS, MARK_OFFSETS, SLOT_OFFSETS, UNIT_MIN,
};
use crate::format::offset::FileOffset;
use crate::format::record::{Record, encode_mark};
use crate::snapshot::image::Image;
use crate::snapshot::recover::{Commit, read_slots};
use crate::transaction::store::Store;

impl<D: Storage> Store<D> {
    /// Writes the first commit, of the empty database, into an empty file.
    pub(super) fn create(&mut self) -> Result<Commit> {
        let key = self.snapshot.key();
        let header = Header::new(key.is_some())?;
        let (guard, block) = key_place::new_guard(header.uuid, key)?;
        self.snapshot.medium_mut().guard = guard.clone();
        let record = Record::first(UNIT_MIN, DATA_START);
        let mut head = vec![0; HEAD_LEN];
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "records and marks are within the head"
        )]
        let mut put = |bytes: &[u8], offset: FileOffset| {
            let at = offset.0 as usize;
            head[at..at + bytes.len()].copy_from_slice(bytes);
        };
        for offset in SLOT_OFFSETS {
            put(&record.encode(&guard), offset);
        }
        for offset in MARK_OFFSETS {
            put(&encode_mark(record.seq, &guard), offset);
        }
        if let Some(block) = block {
            for offset in KEY_OFFSETS {
                put(&key_place::encode(1, &block, header.uuid), offset);
            }
        }
        let disk = self.snapshot.disk();
        // First, because another try after a failure finds the file empty, and so comes here again.
        disk.sync_name()?;
        disk.write_at(&head, 0)?;
        disk.sync()?;
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
