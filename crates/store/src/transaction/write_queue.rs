//! Writes that wait until their neighbours are known, so that a commit is few calls.

use litepack_io::fixed;
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::offset::FileOffset;

/// Bytes of its memory that it keeps.
const KEPT: usize = 1 << 20;

/// Extents that have a place but are not written yet.
#[derive(Debug, Default)]
pub(crate) struct WriteQueue {
    bytes: Vec<u8>,
    /// (offset in the file, start in `bytes`, length)
    extents: Vec<(FileOffset, usize, usize)>,
}

impl WriteQueue {
    /// Queues an extent.
    pub(crate) fn push(&mut self, offset: FileOffset, bytes: &[u8]) -> Result<()> {
        let start = self.bytes.len();
        litepack_io::memory::append(&mut self.bytes, bytes)?;
        match self.extents.last_mut() {
            // Neighbours that come in order are one write.
            Some((at, _, len)) if *at + *len as u64 == offset => *len += bytes.len(),
            _ => litepack_io::memory::push(&mut self.extents, (offset, start, bytes.len()))?,
        }
        Ok(())
    }

    /// Bytes that are queued.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Drops what is queued.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.extents.clear();
    }

    /// Writes everything in file order and returns how many bytes that was.
    #[expect(
        clippy::indexing_slicing,
        reason = "`extents` are places in `bytes`, and a run is at most all that is left of them"
    )]
    pub(crate) fn write(&mut self, disk: &impl Storage) -> Result<u64> {
        self.extents.sort_unstable();
        let mut joined = Vec::new();
        let mut rest = self.extents.as_slice();
        while let [(offset, start, len), ..] = *rest {
            let mut stop = offset + len as u64;
            let run = 1 + rest[1..]
                .iter()
                .take_while(|(next, _, len)| {
                    let adjoins = *next == stop;
                    stop += if adjoins { *len as u64 } else { 0 };
                    adjoins
                })
                .count();
            if run == 1 {
                disk.write_at(&self.bytes[start..start + len], offset.0)?;
            } else {
                joined.clear();
                for (_, start, len) in &rest[..run] {
                    litepack_io::memory::append(&mut joined, &self.bytes[*start..start + len])?;
                }
                disk.write_at(&joined, offset.0)?;
            }
            rest = &rest[run..];
        }
        let written = self.bytes.len() as u64;
        self.clear();
        self.bytes.shrink_to(fixed::part(KEPT));
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_io::testing::MemoryStorage;

    #[test]
    fn neighbours_are_written_together_and_all_arrive() {
        let disk = MemoryStorage::default();
        let mut queue = WriteQueue::default();
        for (offset, bytes) in [(10, "cd"), (0, "xy"), (12, "ef"), (8, "ab")] {
            queue.push(FileOffset(offset), bytes.as_bytes()).unwrap();
        }
        assert_eq!(queue.write(&disk).unwrap(), 8);
        assert_eq!(disk.snapshot(), b"xy\0\0\0\0\0\0abcdef");
        assert_eq!(queue.write(&disk).unwrap(), 0);
    }
}
