//! The rollback journal of a packed database: bytes in memory, as long as that is all they need to be.
//!
//! The store's commit is atomic, so a journal is only read by the process that wrote it, to undo a
//! transaction or a statement. Only a transaction over several databases needs it on disk: its
//! atomicity is SQLite's, by way of a super-journal.

/// Bytes kept in memory before the journal goes to a temporary file.
pub(crate) const MEMORY_MAX: usize = 4 << 20;

/// First bytes of a journal, and last bytes of one that names a super-journal
/// (<https://sqlite.org/fileformat.html#the_rollback_journal>).
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A journal's content.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    bytes: Vec<u8>,
}

impl Journal {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Fills `buf` from `offset` and returns how many bytes there were.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.bytes.len());
        let n = buf.len().min(self.bytes.len() - start);
        buf[..n].copy_from_slice(&self.bytes[start..start + n]);
        n
    }

    /// Writes `bytes` at `offset`; false if that would take too much memory, or more than there is.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let stop = usize::try_from(offset)
            .ok()
            .and_then(|o| o.checked_add(bytes.len()));
        let Some(stop) = stop.filter(|stop| *stop <= MEMORY_MAX) else {
            return false;
        };
        if self.bytes.len() < stop {
            // Without memory for it a journal goes to a file as well.
            if litepack_io::memory::resize(&mut self.bytes, stop).is_err() {
                return false;
            }
        }
        self.bytes[stop - bytes.len()..stop].copy_from_slice(bytes);
        true
    }

    pub(crate) fn truncate(&mut self, len: u64) {
        self.bytes
            .truncate(usize::try_from(len).unwrap_or(usize::MAX));
        self.bytes.shrink_to(1 << 16);
    }
}

/// Whether a write at `offset` is the last piece of a super-journal's name: SQLite writes the magic
/// by itself only there, since a header is written in one piece.
pub(crate) fn names_super_journal(offset: u64, bytes: &[u8]) -> bool {
    offset > 0 && bytes == MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_refuses_too_much() {
        let mut journal = Journal::default();
        assert!(journal.write(4, b"abcd"));
        let mut buf = [9; 6];
        assert_eq!(journal.read(3, &mut buf), 5);
        assert_eq!(&buf[..5], b"\0abcd");
        assert!(!journal.write(MEMORY_MAX as u64, b"x"));
        assert!(!journal.write(u64::MAX, b"x"));
        journal.truncate(5);
        assert_eq!(journal.bytes(), b"\0\0\0\0a");
    }

    #[test]
    fn only_the_magic_behind_a_name_counts() {
        assert!(names_super_journal(1000, &MAGIC));
        assert!(!names_super_journal(0, &MAGIC));
        assert!(!names_super_journal(1000, &MAGIC[..7]));
    }
}
