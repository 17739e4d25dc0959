//! The rollback journal of a packed database: bytes in memory, as long as that is all they need to be.
//!
//! The store's commit is atomic, so a journal is only read by the process that wrote it, to undo a
//! transaction or a statement. A long one goes to a temporary file. Only a transaction over several databases needs it
//! under its own name: its atomicity is SQLite's, by way of a super-journal.

use std::ffi::c_int;

use litepack_io::fixed;
use litepack_io::storage::{ReadAt, Storage};
use litepack_store::JOURNAL_SUFFIX;

use super::temporary::Scratch;
use super::{File, Methods};
use crate::beside::names::FOREIGN_NAME;
use crate::c::codes::{CANTOPEN, IOERR_NOMEM, OK, OPEN_CREATE, OPEN_MAIN_JOURNAL, OPEN_READWRITE};
use crate::failure::{Failure, While};
use crate::host::file::HostFile;
use crate::host::name::HostName;

/// Bytes kept in memory before the journal goes to a temporary file; fewer where memory is short.
const MEMORY_MAX: usize = 4 << 20;

/// First bytes of a journal, and last bytes of one that names a super-journal
/// (<https://sqlite.org/fileformat.html#the_rollback_journal>).
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// An open journal.
pub(crate) struct JournalFile {
    /// Where its file would be.
    name: HostName,
    content: Backing,
}

enum Backing {
    Memory(Journal),
    /// Too large for memory.
    Temporary(Scratch),
    /// Needed under its own name, because a super-journal refers to it.
    Named(HostFile),
}

impl JournalFile {
    /// An empty journal.
    pub(crate) fn new(name: HostName) -> JournalFile {
        JournalFile {
            name,
            content: Backing::Memory(Journal::default()),
        }
    }

    /// One that is on disk, to be played back.
    pub(crate) fn of(name: HostName, file: HostFile) -> JournalFile {
        JournalFile {
            name,
            content: Backing::Named(file),
        }
    }

    /// Makes durable that a journal under its name is none any more. SQLite leaves that to the next one, which
    /// overwrites it; ours may be in memory.
    fn ended(&self) -> Result<(), Failure> {
        match &self.content {
            Backing::Named(file) => failed(file.sync()),
            _ => Ok(()),
        }
    }

    /// Copies what was written so far to `file`.
    fn copy_to(&mut self, file: &HostFile) -> Result<(), Failure> {
        match &mut self.content {
            Backing::Memory(journal) => failed(file.write_at(journal.bytes(), 0)),
            Backing::Temporary(from) => copy(from, file),
            Backing::Named(_) => Ok(()),
        }
    }
}

fn failed<T>(result: std::io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::of_store(&error.into(), While::Writing))
}

fn copy(from: &mut Scratch, to: &HostFile) -> Result<(), Failure> {
    let (len, mut at) = (from.size()?, 0);
    let mut part = litepack_io::memory::zeros(1 << 16).map_err(|_| IOERR_NOMEM)?;
    while at < len {
        let n = usize::try_from(len - at).map_or(part.len(), |n| n.min(part.len()));
        from.read(&mut part[..n], at)?;
        failed(to.write_at(&part[..n], at))?;
        at += n as u64;
    }
    Ok(())
}

impl File for JournalFile {
    const METHODS: Methods = Methods::Basic;
    const SECTOR_SIZE: c_int = 0;
    const CHARACTERISTICS: c_int = 0;
    const TAKES_MEMORY: bool = false;

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match &mut self.content {
            Backing::Memory(journal) => Ok(journal.read(offset, buf)),
            Backing::Temporary(file) => file.read(buf, offset),
            Backing::Named(file) => match file.read_once(buf, offset) {
                OK => Ok(buf.len()),
                // The host has filled up with zeros.
                code => Err(code.into()),
            },
        }
    }

    fn size(&mut self) -> Result<u64, Failure> {
        match &self.content {
            Backing::Memory(journal) => Ok(journal.bytes().len() as u64),
            Backing::Temporary(file) => file.size(),
            Backing::Named(file) => failed(file.len()),
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        if names_super_journal(offset, bytes) && !matches!(self.content, Backing::Named(_)) {
            if !self
                .name
                .path()
                .to_bytes()
                .ends_with(JOURNAL_SUFFIX.as_bytes())
            {
                return Err(Failure::new(CANTOPEN, FOREIGN_NAME));
            }
            let flags = OPEN_READWRITE | OPEN_CREATE | OPEN_MAIN_JOURNAL;
            let (file, _) = self.name.open(flags)?;
            self.copy_to(&file).inspect_err(|_| {
                // SQLite goes on with the journal that it has. This one must not be played back.
                let _ = file.truncate(0);
            })?;
            self.content = Backing::Named(file);
        } else if let Backing::Memory(journal) = &mut self.content {
            if journal.write(offset, bytes) {
                return Ok(());
            }
            let mut file = Scratch::new(self.name.temporary()?)?;
            file.write(journal.bytes(), 0)?;
            self.content = Backing::Temporary(file);
        }
        match &mut self.content {
            Backing::Memory(_) => {}
            Backing::Temporary(file) => file.write(bytes, offset)?,
            Backing::Named(file) => failed(file.write_at(bytes, offset))?,
        }
        let is_ended = offset == 0 && bytes.iter().all(|byte| *byte == 0);
        if is_ended { self.ended() } else { Ok(()) }
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        match &mut self.content {
            Backing::Memory(journal) => journal.truncate(size),
            Backing::Temporary(file) => file.truncate(size)?,
            Backing::Named(file) => failed(file.truncate(size))?,
        }
        if size == 0 { self.ended() } else { Ok(()) }
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        match &mut self.content {
            Backing::Memory(_) => Ok(()),
            Backing::Temporary(file) => file.sync(flags),
            Backing::Named(file) => {
                file.set_sync_flags(flags);
                failed(file.sync())
            }
        }
    }
}

/// A journal's content in memory.
#[derive(Debug, Default)]
struct Journal {
    bytes: Vec<u8>,
}

impl Journal {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Fills `buf` from `offset` and returns how many bytes there were.
    fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.bytes.len());
        let n = buf.len().min(self.bytes.len() - start);
        buf[..n].copy_from_slice(&self.bytes[start..start + n]);
        n
    }

    /// Writes `bytes` at `offset`; false if that would take too much memory, or more than there is.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let stop = usize::try_from(offset)
            .ok()
            .and_then(|o| o.checked_add(bytes.len()));
        let Some(stop) = stop.filter(|stop| *stop <= fixed::part(MEMORY_MAX)) else {
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

    fn truncate(&mut self, len: u64) {
        self.bytes
            .truncate(usize::try_from(len).unwrap_or(usize::MAX));
        self.bytes.shrink_to(1 << 16);
    }
}

/// Whether a write at `offset` is the last piece of a super-journal's name: SQLite writes the magic
/// by itself only there, since a header is written in one piece.
fn names_super_journal(offset: u64, bytes: &[u8]) -> bool {
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
