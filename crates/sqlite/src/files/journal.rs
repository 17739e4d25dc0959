//! The rollback journal of a packed database: bytes in memory, as long as that is all they need to be.
//!
//! The store's commit is atomic, so a journal is only read by the process that wrote it, to undo a
//! transaction or a statement. A long one goes to a temporary file. Only a transaction over several databases needs it
//! under its own name: its atomicity is SQLite's, by way of a super-journal.

use std::ffi::c_int;
use std::sync::Arc;

use litepack_cipher::Keys;
use litepack_io::fixed;
use litepack_io::storage::{ReadAt, Storage};
use litepack_store::{FileState, JOURNAL_SUFFIX};

use super::sealed_journal::{
    Content, Found, MAGIC, PATCH_LEN, SEALED_MAGIC, SealedJournal, Whole, cut,
};
use super::temporary::Scratch;
use super::{File, Methods};
use crate::beside::names::FOREIGN_NAME;
use crate::beside::open_files::journal_views;
use crate::beside::wal_view::WalView;
use crate::c::bindings::SQLITE_SYNC_FULL;
use crate::c::codes::{
    CANTOPEN, IOERR, IOERR_DATA, IOERR_NOMEM, IOERR_SHORT_READ, OK, OPEN_CREATE, OPEN_MAIN_JOURNAL,
    OPEN_READWRITE,
};
use crate::failure::{Failure, While};
use crate::host::file::HostFile;
use crate::host::name::HostName;

/// Bytes kept in memory before the journal goes to a temporary file; fewer where memory is short.
const MEMORY_MAX: usize = 4 << 20;

/// An encrypted database has at most this number when the commit is done that made it.
const SEQ_MADE: u64 = 3;

/// Why a journal with its name is left alone: without it, half of a transaction over several databases could stay.
const NOT_EXPECTED: &str =
    "something else is written to a journal than SQLite does while a commit is under way";

/// An open journal.
pub(crate) struct JournalFile {
    /// Where its file would be.
    name: HostName,
    content: Backing,
    /// Its file, if the database is encrypted and a super-journal refers to it. `content` has all of it, too. The
    /// database's commits name it until it has ended.
    sealed: Option<SealedJournal<HostFile>>,
}

enum Backing {
    Memory(Journal),
    /// Too large for memory.
    Temporary(Scratch),
    /// Needed under its own name, because a super-journal refers to it. Only of a database that is not encrypted.
    Named(HostFile),
}

impl JournalFile {
    /// An empty journal.
    pub(crate) fn new(name: HostName) -> JournalFile {
        JournalFile {
            name,
            content: Backing::Memory(Journal::default()),
            sealed: None,
        }
    }

    /// One that is on disk, to be played back. Nothing is played into an encrypted database that was not sealed with its
    /// keys.
    pub(crate) fn of(name: HostName, file: HostFile) -> Result<JournalFile, Failure> {
        let mut journal = JournalFile::new(name);
        let mut head = [0; 20];
        let n = file.read_at(&mut head, 0)?;
        let is_sealed = n >= SEALED_MAGIC.len() && head.starts_with(&SEALED_MAGIC);
        let Some((view, keys)) = keyed(&name) else {
            if is_sealed {
                return Err(refused(name, "is encrypted, and the database is not"));
            }
            journal.content = Backing::Named(file);
            return Ok(journal);
        };
        let state = view.file_state()?;
        let Some(state) = state else {
            return Err(refused(name, "is of another database"));
        };
        let is_over = head[..n].iter().all(|byte| *byte == 0);
        if !is_sealed && !is_over {
            // When an encrypted database was made by a transaction over several, it had no keys before that. Its journal
            // says that there was nothing before, and has no page.
            let was_empty = n == head.len() && head[16..] == [0; 4] && state.seq <= SEQ_MADE;
            if !was_empty {
                return Err(refused(name, "is not encrypted, and the database is"));
            }
            journal.content = Backing::Named(file);
            return Ok(journal);
        }
        let found = match is_sealed {
            true => SealedJournal::read(&file, &keys, &state.uuid.0, &mut journal)?,
            false => Found::Torn,
        };
        match found {
            // Of an earlier state it would bring content back that is no more.
            Found::Whole(whole) if !is_undone_by(&state, &whole) => {
                return Err(refused(name, "is of an earlier state of the database"));
            }
            Found::Whole(whole) => {
                journal.is_sealed(SealedJournal::found(file, keys, whole));
            }
            Found::Torn => {
                cut(&file)?;
                journal.content = Backing::Memory(Journal::default());
            }
            Found::Foreign => return Err(refused(name, "is of another database")),
            Found::Damaged => {
                let why = format!("{} is damaged", name.path().to_string_lossy());
                return Err(Failure::new(IOERR_DATA, why));
            }
        }
        Ok(journal)
    }

    /// Writes to memory or, where that is too small, to a temporary file.
    fn write_content(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        if self.content.write(bytes, offset)? {
            return Ok(());
        }
        let mut file = Scratch::new(self.name.temporary()?)?;
        if let Backing::Memory(journal) = &self.content {
            file.write(journal.bytes(), 0)?;
        }
        self.content = Backing::Temporary(file);
        self.content.write(bytes, offset).map(|_| ())
    }

    /// Gives the journal of an encrypted database, so many bytes, its name.
    fn seal(
        &mut self,
        view: &WalView,
        keys: Arc<Keys>,
        file: HostFile,
        len: u64,
    ) -> Result<(), Failure> {
        // Of a longer one that was in the same file before, nothing is left.
        self.content.truncate(len)?;
        // It names the newest commit, which a power loss must leave, then.
        view.make_durable()?;
        let state = view.file_state()?.ok_or(IOERR)?;
        // The mark is written when the rest is durable, as fully as the system can.
        file.set_sync_flags(SQLITE_SYNC_FULL);
        let of = (&state.uuid.0, state.log.next);
        let sealed = SealedJournal::write(file, keys, of, len, self)?;
        self.is_sealed(sealed);
        Ok(())
    }

    /// It has this file now. Only one handle commits while it is there.
    fn is_sealed(&mut self, sealed: SealedJournal<HostFile>) {
        for view in journal_views(self.name.path()) {
            view.has_journal(sealed.number());
        }
        self.sealed = Some(sealed);
    }

    /// It has none any more.
    fn is_not_sealed(&mut self) {
        if let Some(sealed) = self.sealed.take() {
            for view in journal_views(self.name.path()) {
                view.journal_ended(sealed.number());
            }
        }
    }

    /// Makes durable that a journal under its name is none any more. SQLite leaves that to the next one, which
    /// overwrites it; ours may be in memory.
    fn ended(&mut self) -> Result<(), Failure> {
        if let Some(sealed) = &self.sealed {
            sealed.end()?;
            self.is_not_sealed();
            self.content = Backing::Memory(Journal::default());
        }
        if let Backing::Named(file) = &self.content {
            failed(file.sync())?;
            // Of a database that was encrypted by this transaction. The next one may be written to the same journal.
            if keyed(&self.name).is_some() {
                self.content = Backing::Memory(Journal::default());
            }
        }
        Ok(())
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

impl Backing {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match self {
            Backing::Memory(journal) => Ok(journal.read(offset, buf)),
            Backing::Temporary(file) => file.read(buf, offset),
            Backing::Named(file) => match file.read_once(buf, offset) {
                OK => Ok(buf.len()),
                // The host has filled up with zeros.
                code => Err(code.into()),
            },
        }
    }

    /// Writes where there is room for it; false if a temporary file is needed.
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<bool, Failure> {
        match self {
            Backing::Memory(journal) => return Ok(journal.write(offset, bytes)),
            Backing::Temporary(file) => file.write(bytes, offset)?,
            Backing::Named(file) => file.write_at(bytes, offset)?,
        }
        Ok(true)
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        match self {
            Backing::Memory(journal) => {
                journal.truncate(size);
                Ok(())
            }
            Backing::Temporary(file) => file.truncate(size),
            Backing::Named(file) => failed(file.truncate(size)),
        }
    }
}

impl Content<Failure> for JournalFile {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), Failure> {
        match self.content.read(buf, offset)? {
            n if n == buf.len() => Ok(()),
            _ => Err(IOERR_SHORT_READ.into()),
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        self.write_content(bytes, offset)
    }
}

/// SQLite deletes a journal when it has closed it.
impl Drop for JournalFile {
    fn drop(&mut self) {
        self.is_not_sealed();
    }
}

/// Whether a journal undoes the newest commit of a file, or nothing: it was sealed when that was the newest, or that
/// commit is one of its transaction.
fn is_undone_by(state: &FileState, journal: &Whole) -> bool {
    let log = &state.log;
    let is_of_it = log.current == 0 && log.end == journal.number();
    log.next == journal.after || is_of_it
}

/// The handle whose journal has this name, and the keys of its database, if that is encrypted.
fn keyed(name: &HostName) -> Option<(Arc<WalView>, Arc<Keys>)> {
    let views = journal_views(name.path()).into_iter();
    let mut keyed = views.filter_map(|view| view.keys().map(|keys| (view, keys)));
    keyed.next()
}

/// A file that is not played back, which the user has to look at.
fn refused(name: HostName, why: &str) -> Failure {
    let name = name.path().to_string_lossy();
    Failure::new(CANTOPEN, format!("the journal {name} {why}: move it away"))
}

/// The header that SQLite writes again when the rest of a journal of this length is synced.
fn patch_of(bytes: &[u8], offset: u64, len: u64) -> Option<[u8; PATCH_LEN]> {
    let is_within = offset.checked_add(PATCH_LEN as u64)? <= len;
    let patch = bytes.try_into().ok()?;
    (is_within && bytes.starts_with(&MAGIC)).then_some(patch)
}

impl File for JournalFile {
    const METHODS: Methods = Methods::Basic;
    const SECTOR_SIZE: c_int = 0;
    const CHARACTERISTICS: c_int = 0;
    const TAKES_MEMORY: bool = false;

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.content.read(buf, offset)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        match &self.content {
            Backing::Memory(journal) => Ok(journal.bytes().len() as u64),
            Backing::Temporary(file) => file.size(),
            Backing::Named(file) => failed(file.len()),
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        let is_ended = offset == 0 && bytes.iter().all(|byte| *byte == 0);
        if is_ended && self.sealed.is_some() {
            return self.ended();
        }
        // SQLite found that it counts for nothing, and begins another one.
        if offset == 0 && bytes.len() > PATCH_LEN && self.sealed.is_some() {
            self.ended()?;
        }
        if let Some(sealed) = &mut self.sealed {
            if let Some(patch) = patch_of(bytes, offset, sealed.len())
                && sealed.mark(offset, patch)?
            {
                return self.write_content(bytes, offset);
            }
            return Err(Failure::new(IOERR, NOT_EXPECTED));
        }
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
            if let Some((view, keys)) = keyed(&self.name) {
                self.write_content(bytes, offset)?;
                let len = offset + bytes.len() as u64;
                return self.seal(&view, keys, file, len).inspect_err(|_| {
                    // SQLite goes on with the journal that it has. No super-journal has to do with it.
                    let _ = self.content.truncate(offset);
                });
            }
            self.copy_to(&file).inspect_err(|_| {
                // SQLite goes on with the journal that it has. This one must not be played back.
                let _ = file.truncate(0);
            })?;
            self.content = Backing::Named(file);
        }
        self.write_content(bytes, offset)?;
        if is_ended { self.ended() } else { Ok(()) }
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        if let Some(sealed) = &self.sealed {
            if size == sealed.len() {
                return Ok(());
            }
            if size > 0 {
                return Err(Failure::new(IOERR, NOT_EXPECTED));
            }
        }
        self.content.truncate(size)?;
        if size == 0 { self.ended() } else { Ok(()) }
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        if let Some(sealed) = &mut self.sealed {
            sealed.disk().set_sync_flags(flags);
            return failed(sealed.sync());
        }
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
