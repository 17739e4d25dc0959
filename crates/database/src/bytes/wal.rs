//! The frames of a WAL file (<https://sqlite.org/fileformat2.html#walformat>): its header, and the pages of its newest
//! round. A frame counts if it has the salts of the header, as those of an earlier round do not. Checksums are not looked
//! at: who needs every frame to be right has SQLite's word for how many there are.
//!
//! The WAL of a packed database is a log, which gives the same bytes. That of an encrypted one takes its keys.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litepack_btree::page::be32;
use litepack_cipher::Keys;
use litepack_engine::FileKind;
use litepack_io::storage::ReadAt;
use litepack_log::{Error as LogError, FileKind as WalKind, Log, Refusal};
use litepack_store::{FileState, HEAD_LEN, Spare};

use crate::bytes::base::Base;
use crate::error::{Context, cannot_read};
use crate::{Job, Result};

/// Length of the header of a WAL, and of that of a frame in it.
const HEADER: usize = 32;
pub(super) const FRAME_HEADER: usize = 24;
/// The magic number of a WAL; its last bit says in which order its checksums are.
const MAGIC: u32 = 0x377f_0682;
/// Bytes of a log that are checked between two looks whether to stop.
const CHECKED_AT_ONCE: usize = 1 << 20;

/// The file.
#[derive(Debug)]
pub(super) struct WalFile {
    bytes: WalBytes,
    header: [u8; HEADER],
    page_size: u32,
    salts: [u8; 8],
}

/// The bytes of a WAL.
#[derive(Debug)]
enum WalBytes {
    /// As SQLite writes them.
    Plain(File),
    /// Threads that read a database share it.
    Log(Box<Mutex<Log<File>>>),
}

impl WalBytes {
    /// Of a WAL that is beside a database of this kind with these keys, which is in `database` and maybe in spares.
    fn of(
        file: File,
        database: &File,
        kind: FileKind,
        keys: Option<&Arc<Keys>>,
        spares: &[Arc<dyn Spare>],
    ) -> io::Result<WalBytes> {
        let wal = WalKind::of_file(&file)?;
        if keys.is_some() && wal == WalKind::Wal {
            return Err(io::Error::other(Refusal::NotEncrypted.to_string()));
        }
        if kind != FileKind::Packed || wal != WalKind::Log {
            return Ok(WalBytes::Plain(file));
        }
        let base = Base::of(database, keys, spares)?;
        let mut log = Log::over(file, Box::new(base)).with_keys(keys.cloned());
        // One look: what is taken later from the same frames is the same, or has the salts of another round.
        log.set_view(Some(1));
        // It would read as an empty one.
        if let Some(why) = log.refused().map_err(io::Error::from)? {
            return Err(io::Error::other(why.to_string()));
        }
        Ok(WalBytes::Log(Box::new(Mutex::new(log))))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            WalBytes::Plain(file) => ReadAt::read_at(file, buf, offset),
            WalBytes::Log(log) => lock(log).read(buf, offset).map_err(io::Error::from),
        }
    }
}

/// After a panic nothing is half done that the next look does not find.
fn lock(log: &Mutex<Log<File>>) -> MutexGuard<'_, Log<File>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an error is how content of a WAL is lost: by damage, or as the disk does not give it.
pub(super) fn is_lost(error: &io::Error) -> bool {
    let passes = [io::ErrorKind::OutOfMemory, io::ErrorKind::Interrupted];
    !passes.contains(&error.kind())
}

/// How often a database and its WAL are looked at until both stay as they are.
const LOOKS_MAX: usize = 100;

/// Why the WAL of a packed database with these keys is not applied to it. `None` if it is, or if there is none.
///
/// # Errors
/// If one of them cannot be read.
pub fn refusal(wal: &Path, database: &File, keys: Option<&Arc<Keys>>) -> Result<Option<Refusal>> {
    for _ in 0..LOOKS_MAX {
        let Some(state) = state_of(database, keys)? else {
            return Ok(None);
        };
        let Ok(file) = File::open(wal) else {
            return Ok(None);
        };
        let cannot = || cannot_read(wal);
        let refused = match WalKind::of_file(&file).with_context(cannot)? {
            WalKind::Log => {
                let known = litepack_sqlite::state_for_log(&state);
                let log = Log::bound(file, Box::new(Some(known)));
                match log.with_keys(keys.cloned()).refused() {
                    // Of what is damaged nothing is known.
                    Err(error) if error.damage().is_some() => None,
                    refused => refused.map_err(io::Error::from).with_context(cannot)?,
                }
            }
            WalKind::Wal if keys.is_some() => Some(Refusal::NotEncrypted),
            // A database that has had a log has no other WAL.
            WalKind::Wal if state.log.next != 0 => Some(Refusal::OtherState),
            _ => None,
        };
        // Others may have gone on between the two looks.
        if refused.is_none() || state_of(database, keys)? == Some(state) {
            return Ok(refused);
        }
    }
    Ok(None)
}

fn state_of(database: &File, keys: Option<&Arc<Keys>>) -> Result<Option<FileState>> {
    let mut head = [0; HEAD_LEN];
    let read = ReadAt::read_at(database, &mut head, 0);
    read.with_context(|| "cannot read the database".to_owned())?;
    // Of what is damaged nothing is known.
    Ok(FileState::of(&head, keys).unwrap_or(None))
}

/// Damage of the WAL of a packed database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDamage {
    /// Where, in the file of the WAL.
    pub offset: u64,
    /// The defect, in words.
    pub why: String,
    /// The way out.
    pub advice: &'static str,
}

impl LogDamage {
    fn of(error: &LogError) -> Option<LogDamage> {
        let (offset, why, advice) = error.damage()?;
        Some(LogDamage {
            offset,
            why,
            advice,
        })
    }

    /// The damage that a reader of a WAL has met, if it is that of a log.
    pub fn met(error: &io::Error) -> Option<LogDamage> {
        LogDamage::of(error.get_ref()?.downcast_ref()?)
    }
}

/// Reads all that the WAL of the packed database in `database`, with these keys, holds, and says what cannot be read.
/// `None` as well if it is one as SQLite writes it, of which what is damaged counts as not written.
///
/// # Errors
/// If it cannot be read, or the job is stopped.
pub fn damage(
    wal: &Path,
    database: &File,
    keys: Option<&Arc<Keys>>,
    job: &Job<'_>,
) -> Result<Option<LogDamage>> {
    let cannot = || cannot_read(wal);
    // Who begins it anew meanwhile writes over what is read.
    let mut found = None;
    for _ in 0..2 {
        let Ok(file) = File::open(wal) else {
            return Ok(None);
        };
        if WalKind::of_file(&file).with_context(cannot)? == WalKind::Wal {
            return Ok(None);
        }
        let base = Base::of(database, keys, &[]).with_context(cannot)?;
        let log = Log::over(file, Box::new(base));
        let read = read_all(&mut log.with_keys(keys.cloned()), job)?;
        let Err(error) = read else { return Ok(None) };
        found = LogDamage::of(&error);
        if found.is_none() {
            return Err(io::Error::from(error)).with_context(cannot);
        }
    }
    Ok(found)
}

fn read_all(log: &mut Log<File>, job: &Job<'_>) -> Result<litepack_log::Result<()>> {
    let mut part = vec![0; CHECKED_AT_ONCE];
    let mut at = 0;
    loop {
        job.check()?;
        match log.read(&mut part, at) {
            Ok(n) if n == part.len() => at += n as u64,
            done => return Ok(done.map(|_| ())),
        }
    }
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The page that it holds, from 0 on.
    pub(super) page: u32,
    /// The number of pages of the database, if a transaction ends with it, else 0.
    pub(super) pages: u32,
    /// Where the page is in the WAL.
    pub(super) place: u64,
    pub(super) header: [u8; FRAME_HEADER],
}

impl WalFile {
    /// Reads the header of one beside the database in `database`, of this kind and with these keys, of which there may be
    /// other copies; `None` if it is that of no WAL.
    pub(super) fn of(
        file: File,
        database: &File,
        kind: FileKind,
        keys: Option<&Arc<Keys>>,
        spares: &[Arc<dyn Spare>],
    ) -> io::Result<Option<WalFile>> {
        WalFile::with(WalBytes::of(file, database, kind, keys, spares)?)
    }

    /// The same of a log that is open.
    #[cfg(test)]
    pub(super) fn of_log(log: Log<File>) -> io::Result<Option<WalFile>> {
        WalFile::with(WalBytes::Log(Box::new(Mutex::new(log))))
    }

    fn with(bytes: WalBytes) -> io::Result<Option<WalFile>> {
        let mut head = [0; HEADER];
        if bytes.read_at(&mut head, 0)? < HEADER {
            return Ok(None);
        }
        let word = |at| be32(&head, at).unwrap_or(0);
        let page_size = word(8);
        let sound = word(0) & !1 == MAGIC
            && page_size.is_power_of_two()
            && (512..=65536).contains(&page_size);
        let salts = head.get(16..24).and_then(|salts| salts.try_into().ok());
        Ok(salts.filter(|_| sound).map(|salts| WalFile {
            bytes,
            header: head,
            page_size,
            salts,
        }))
    }

    pub(super) fn header(&self) -> &[u8; HEADER] {
        &self.header
    }

    /// Whether it was begun anew since it was opened. What was read meanwhile may be of either.
    pub(super) fn is_begun_anew(&self) -> io::Result<bool> {
        if let WalBytes::Log(log) = &self.bytes {
            lock(log).set_view(None);
        }
        let mut head = [0; HEADER];
        Ok(self.bytes.read_at(&mut head, 0)? < HEADER || head != self.header)
    }

    /// Where the header of a frame, from 0 on, is in the file of a log; `None` if this is none.
    pub(super) fn header_place(&self, number: u32) -> io::Result<Option<u64>> {
        let place = |log: &Mutex<_>| lock(log).header_place(number.saturating_add(1));
        match &self.bytes {
            WalBytes::Plain(_) => Ok(None),
            WalBytes::Log(log) => place(log).map_err(io::Error::from),
        }
    }

    pub(super) fn page_size(&self) -> u32 {
        self.page_size
    }

    pub(super) fn salts(&self) -> [u8; 8] {
        self.salts
    }

    /// The frame of a number, from 0 on; `None` if there is none of this round.
    pub(super) fn frame(&self, number: u32) -> io::Result<Option<Frame>> {
        let at = self.end_of(number);
        let mut head = [0; FRAME_HEADER];
        let read = self.bytes.read_at(&mut head, at)?;
        let page = be32(&head, 0).and_then(|page| page.checked_sub(1));
        let is_of_the_round = read == FRAME_HEADER && head.get(8..16) == Some(&self.salts[..]);
        Ok(page.filter(|_| is_of_the_round).map(|page| Frame {
            page,
            pages: be32(&head, 4).unwrap_or(0),
            place: at + FRAME_HEADER as u64,
            header: head,
        }))
    }

    /// The number of the frame, from 0 on, whose page is at this place.
    pub(super) fn number_of(&self, place: u64) -> Option<u32> {
        let before = place.checked_sub((HEADER + FRAME_HEADER) as u64)?;
        u32::try_from(before / (FRAME_HEADER as u64 + u64::from(self.page_size))).ok()
    }

    /// How far so many frames reach in the WAL.
    pub(super) fn end_of(&self, frames: u32) -> u64 {
        HEADER as u64 + u64::from(frames) * (FRAME_HEADER as u64 + u64::from(self.page_size))
    }

    /// Fills `buf` from a place; how much there is.
    pub(super) fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        self.bytes.read_at(buf, place)
    }
}
