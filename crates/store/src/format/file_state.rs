//! The state of a file by its first bytes alone: what a log has to know of the database that it is for.
//!
//! Only the newest record is looked at, and not whether everything is there that it refers to. If it was cut off by a
//! power loss, the commit before it is the current one; a log that follows that one follows the newest, too, and none is
//! begun while such a record is there (docs/internals/log.md).

use std::sync::Arc;

use litepack_cipher::Keys;

use crate::error::{Error, Result};
use crate::format::guard::Guard;
use crate::format::header::Header;
use crate::format::layout::{FileUuid, HEADER_LEN, MARK_OFFSETS, RECORD_LEN, SLOT_OFFSETS};
use crate::format::offset::FileOffset;
use crate::format::record::{CommitRecord, LOG_BASE, LogNumbers, Record, decode_mark};

/// The newest record of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// The file's identity.
    pub uuid: FileUuid,
    /// The number of the newest commit.
    pub seq: u64,
    /// By these a log is known to follow it.
    pub log: LogNumbers,
    /// A mark says that it was flushed.
    pub is_durable: bool,
    /// Its bytes.
    pub record: CommitRecord,
    /// A log may stand on it, once it is durable.
    pub is_base: bool,
    /// How many units the database has.
    pub units: u64,
}

impl FileState {
    /// Of a file that begins with these bytes, [`HEAD_LEN`](crate::HEAD_LEN) or all that it has; `None` if it has no
    /// header yet. `keys` are those of an encrypted file.
    ///
    /// # Errors
    /// If it is no packed file, is encrypted and there are no keys, or is damaged. Also, rarely, if a writer was at work
    /// while the bytes were read.
    pub fn of(head: &[u8], keys: Option<&Arc<Keys>>) -> Result<Option<FileState>> {
        if head.iter().take(HEADER_LEN).all(|byte| *byte == 0) {
            return Ok(None);
        }
        let Header {
            uuid, is_encrypted, ..
        } = Header::decode(head)?;
        let guard = Guard::of(uuid, is_encrypted, keys)?;
        let from = |offset: FileOffset| head.get(usize::try_from(offset.0).ok()?..);
        let records = SLOT_OFFSETS.map(|slot| {
            let bytes = *from(slot)?.first_chunk::<RECORD_LEN>()?;
            Some((Record::decode(&bytes, &guard)?, CommitRecord(bytes)))
        });
        let newest = records.into_iter().flatten().max_by_key(|(r, _)| r.seq);
        let marks = MARK_OFFSETS.map(|mark| decode_mark(from(mark)?, &guard));
        // A mark is written when the record is durable.
        let is_newest = |record: &Record| marks.iter().flatten().all(|seq| *seq <= record.seq);
        let Some((record, bytes)) = newest.filter(|(record, _)| is_newest(record)) else {
            let why = "that of the newest commit is unreadable";
            return Err(Error::damaged("commit record", SLOT_OFFSETS[0], why));
        };
        Ok(Some(FileState {
            uuid,
            seq: record.seq.0,
            log: record.log,
            is_durable: marks.contains(&Some(record.seq)),
            record: bytes,
            is_base: record.features & LOG_BASE != 0,
            units: record
                .size
                .checked_div(record.unit_size.into())
                .unwrap_or(0),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plain_options;
    use crate::transaction::store::Store;
    use litepack_io::testing::MemoryStorage;

    #[test]
    fn the_newest_record_or_an_error() {
        let disk = MemoryStorage::default();
        assert_eq!(FileState::of(&[], None).unwrap(), None);
        assert_eq!(FileState::of(&[0; 2048], None).unwrap(), None);
        assert!(FileState::of(&[7; 2048], None).is_err());
        let mut store = Store::open(&disk, plain_options()).unwrap();
        for content in 1..4 {
            store.write(0, &[content; 4096]).unwrap();
            let numbers = LogNumbers {
                next: content.into(),
                ..LogNumbers::default()
            };
            store.set_log_numbers(numbers, content == 2);
            store.commit().unwrap();
            let found = |disk: &MemoryStorage| FileState::of(&disk.snapshot()[..2048], None);
            let slot = store.snapshot().commit().unwrap().slot;
            let record = *disk.snapshot()[512 + 512 * slot..].first_chunk().unwrap();
            let expected = FileState {
                uuid: store.uuid(),
                seq: store.seq(),
                log: numbers,
                is_durable: false,
                record: CommitRecord(record),
                // Who cannot ask what is needed has others ask.
                is_base: content >= 2,
                units: 1,
            };
            assert_eq!(found(&disk).unwrap(), Some(expected));
            store.flush().unwrap();
            let durable = found(&disk).unwrap().unwrap();
            assert!(durable.is_durable);
            // Each bit of the newest record, the header and the marks.
            let rot = |at: usize| {
                let mut image = disk.snapshot();
                image[at] ^= 4;
                found(&MemoryStorage::new(image))
            };
            for at in 0..256 {
                assert!(rot(512 + 512 * slot + at).is_err());
                let other = rot(512 + 512 * (1 - slot) + at).unwrap();
                assert_eq!(other, Some(durable));
            }
            assert!(rot(40).is_err());
        }
    }
}
