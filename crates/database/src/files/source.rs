//! Opening the database that a call reads, and keeping others from changing it meanwhile.
//!
//! SQLite itself takes the locks, plays back a hot journal and brings the WAL into the file; the bytes
//! are then read straight from the file, which is closed with care for SQLite's locks: see `held.rs`.
//!
//! A program that opens the file while it is replaced in place waits for our lock on the *old* file, and so does one
//! that has the file open and idle, which in rollback mode no lock shows. When it gets the lock, the name belongs to
//! the new file, and [`Source::retire`] has made the old one unreadable. So that program is told to open the file anew
//! ("file is not a database"), and does not go on in a database that no other program sees.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use litepack_cipher::Key;
use litepack_engine::FileKind;
use litepack_io::storage::{ReadAt, Storage};
use litepack_store::{HEAD_LEN, Spare};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::bytes::free_pages::FreePages;
use crate::bytes::header;
use crate::bytes::pages::OpenFile;
use crate::bytes::snapshot::{Bytes, Frames, WalIndex, WalOf};
use crate::bytes::unlocked::{self, Unlocked};
use crate::bytes::wal::{self, LogDamage};
use crate::error::{Context, cannot_read, refuse, replaced};
use crate::files::bound::read_schema;
use crate::files::directory::Directory;
use crate::files::durable;
use crate::files::held::Held;
use crate::files::itself;
use crate::files::leftovers::remove_wal;
use crate::files::rights::Rights;
use crate::job::Interrupts;
use crate::names::identity::{Identity, has_name};
use crate::names::{PACKED, Suffixes, with_suffix};
use crate::{Error, Job, Result};

/// A writer may slip in between a checkpoint and our lock, or while a transaction begins, this often.
const ATTEMPTS: usize = 20;
/// How long to wait after that.
const BETWEEN: Duration = Duration::from_millis(5);

/// Why there cannot be a new file.
pub fn applied(beside: &Path) -> Error {
    Error::Refused(format!(
        "{} exists and would be applied to the new file; remove it first",
        beside.display()
    ))
}

/// Opens connections to an encrypted file.
pub fn open_unlocked<T>(unlocked: Option<&Unlocked>, open: impl FnOnce() -> T) -> T {
    match unlocked {
        Some(unlocked) => litepack_sqlite::with_key(Arc::clone(unlocked.key()), open).0,
        None => open(),
    }
}

/// Lets the schema of a database, which may come from a stranger, call innocuous functions only.
pub fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    let trusted = DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA;
    connection.set_db_config(trusted, false).map(drop)
}

/// An open database; the fields are in the order in which they must be closed.
pub struct Source {
    connection: Option<Connection>,
    /// The index of the WAL, while `connection` keeps a moment of it, and the pages that only the WAL has.
    index: Option<Held>,
    frames: Option<Frames>,
    /// The beginning of the file, with its commits, before `frames` were found without a lock.
    before: Option<Vec<u8>>,
    /// Pages that [`Source::bytes`] has zeros for.
    free: Option<FreePages>,
    interrupts: Option<Interrupts>,
    file: Held,
    path: PathBuf,
    shown: PathBuf,
    kind: FileKind,
    unlocked: Option<Unlocked>,
}

impl Source {
    /// Opens a file, without any lock yet; `writable` if it is going to be replaced. Of an encrypted one nothing can be read
    /// before [`Source::unlock`].
    pub fn open(shown: &Path, writable: bool) -> Result<Source> {
        let (file, path) = open_file(shown, writable)?;
        let kind =
            header::kind(&file).with_context(|| format!("cannot open {}", shown.display()))?;
        Ok(Source {
            connection: None,
            index: None,
            frames: None,
            before: None,
            free: None,
            interrupts: None,
            file,
            path,
            shown: shown.to_owned(),
            kind,
            unlocked: None,
        })
    }

    /// Tries the user's key, if the file is encrypted.
    ///
    /// # Errors
    /// As [`Unlocked::of`].
    pub fn unlock(&mut self, key: Option<&Arc<Key>>) -> Result<()> {
        self.unlocked = Unlocked::of(&self.file, self.kind, key, &self.shown)?;
        Ok(())
    }

    /// Whether it is encrypted, as far as that can be told.
    pub fn is_encrypted(&self) -> bool {
        unlocked::is_encrypted(&self.file, self.kind).unwrap_or(false)
    }

    /// What opens it, if it is encrypted.
    pub fn unlocked(&self) -> Option<&Unlocked> {
        self.unlocked.as_ref()
    }

    /// The file, to read its pages without a lock.
    pub fn opened(&self) -> OpenFile<'_> {
        OpenFile {
            file: &self.file,
            kind: self.kind,
            unlocked: self.unlocked(),
            path: &self.path,
            shown: &self.shown,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// An error unless this is a plain database, possibly an empty one.
    pub fn expect_plain(&self) -> Result<()> {
        let name = self.shown.display();
        match self.kind {
            FileKind::Empty | FileKind::Plain => Ok(()),
            FileKind::Packed => self.wrong_kind(format!("{name} is already a packed file")),
            FileKind::Zstd => self.wrong_kind(self.is_zstd()),
            FileKind::Other => self.wrong_kind(format!(
                "{name} is not a SQLite database, or an encrypted one"
            )),
        }
    }

    /// An error unless this is a database, plain or packed.
    pub fn expect_database(&self) -> Result<()> {
        match self.kind {
            FileKind::Empty | FileKind::Plain | FileKind::Packed => Ok(()),
            FileKind::Zstd => self.wrong_kind(self.is_zstd()),
            FileKind::Other => self.wrong_kind(format!(
                "{} is not a SQLite database, or an encrypted one",
                self.shown.display()
            )),
        }
    }

    /// An error unless this is a packed file.
    pub fn expect_packed(&self) -> Result<()> {
        let name = self.shown.display();
        self.wrong_kind(match self.kind {
            FileKind::Packed => return Ok(()),
            FileKind::Empty => format!("{name} is not a packed file: it is empty"),
            FileKind::Plain => format!(
                "{name} is not a packed file but a plain SQLite database; \
                 `litepack pack` makes it one"
            ),
            FileKind::Zstd => format!(
                "{name} is not a packed file but an archive; \
                 use `litepack archive info`, `check` or `extract`"
            ),
            FileKind::Other => format!("{name} is not a packed file"),
        })
    }

    fn wrong_kind(&self, why: String) -> Result<()> {
        Err(Error::WrongKind {
            path: self.shown.clone(),
            found: self.kind,
            why,
        })
    }

    /// Whether this is a packed file.
    pub fn is_packed(&self) -> bool {
        self.kind == FileKind::Packed
    }

    /// The bytes of the database that is held: those of the file, and what is newer in the WAL.
    pub fn bytes(&self) -> Bytes<'_> {
        Bytes {
            file: &self.file,
            frames: self.frames.as_ref(),
            free: self.free.as_ref(),
            unlocked: self.unlocked(),
        }
    }

    /// From now on [`Source::bytes`] has zeros for free pages, if the list of them is right. The database is held.
    pub fn drop_free_pages(&mut self, job: &Job<'_>) -> Result<()> {
        self.free = FreePages::find(&self.bytes(), job)?;
        if self.free.is_none() {
            let name = self.shown.display();
            job.warn(&format!(
                "{name} keeps its free pages: the list of them is not sound"
            ));
        }
        Ok(())
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its name as the user gave it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Its name, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length and permissions.
    pub fn metadata(&self) -> Result<Metadata> {
        let metadata = self.file.metadata();
        metadata.with_context(|| cannot_read(&self.shown))
    }

    /// Who may do what with it.
    pub fn rights(&self) -> Result<Rights> {
        Rights::of(&self.file).with_context(|| cannot_read(&self.shown))
    }

    /// Says that the file has other names, which keep what it was when it is replaced.
    pub fn warn_of_links(&self, metadata: &Metadata, job: &Job<'_>) {
        let others = links(metadata).saturating_sub(1);
        if others > 0 {
            let name = self.shown.display();
            let names = if others == 1 { "name" } else { "names" };
            job.warn(&format!(
                "{name} has {others} other {names} (hard links), which will keep the file as it was"
            ));
        }
    }

    /// From now on [`Source::bytes`] are those of the database at one moment, while others may go on reading, and in WAL
    /// mode writing.
    pub fn hold(&mut self, job: &Job<'_>) -> Result<()> {
        let taken = self.take(false, job).and_then(|()| self.expect_named());
        taken.map_err(|why| self.explain(why, job))
    }

    /// From now on the file holds the whole database, and no other connection has it open. It is an error if a WAL or a
    /// journal lies beside it that would be applied to the new file.
    pub fn hold_alone(&mut self, job: &Job<'_>) -> Result<()> {
        // The VFS refuses a packed file beside the others.
        let beside = (!self.is_packed()).then(|| PACKED.pending(&self.path));
        if let Some(beside) = beside.flatten() {
            return Err(applied(&beside));
        }
        if self.is_wal() && links(&self.metadata()?) > 1 {
            refuse!(
                "{0} is in WAL mode and has other names (hard links); a program that has it open under one of them \
                 would take the new file's WAL for its own. Close it everywhere, and give this name a copy of its own first",
                self.shown.display()
            );
        }
        let taken = self.take(true, job).and_then(|()| self.expect_named());
        taken.map_err(|why| self.explain(why, job))
    }

    /// Keeps others from writing while a report is made, without touching a WAL. A file that SQLite
    /// cannot read, such as a damaged one, is left unlocked: the report says what is wrong with it.
    pub fn hold_for_report(&mut self, job: &Job<'_>) -> Result<()> {
        let opened = self.connect("", job).and_then(|mut connection| {
            let keep_wal = self.wal_len() > 0;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep_wal)?;
            read_schema(&mut connection)?;
            connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => self.connection = Some(connection),
            Err(error) if is_busy(&error) => {
                job.check()?;
                return Err(self.in_use());
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// From now on [`Source::bytes`] are those of the database at one moment, its WAL included, of a file that may be
    /// damaged, and of which there may be other copies. Nothing is written into it. If SQLite cannot read its first page,
    /// or its WAL, others may write: see [`Source::is_unchanged`].
    ///
    /// # Errors
    /// If there are changes beside the file that cannot be read, or a transaction that was cut off.
    pub fn hold_damaged(&mut self, spares: &[Arc<dyn Spare>], job: &Job<'_>) -> Result<()> {
        let journal = self.suffixes().journal;
        // One that is over may stay, with zeros at its beginning.
        let mut head = [0; 8];
        let found = File::open(with_suffix(&self.path, journal));
        let found = found.and_then(|file| ReadAt::read_at(&Held::new(file), &mut head, 0));
        if found.is_ok() && head != [0; 8] {
            let name = self.shown.display();
            refuse!(
                "{name}{journal} is there: a transaction was cut off, or is running. Whoever opens the database undoes \
                 it; have that done to a copy of both files, and salvage the copy"
            );
        }
        let has_wal = self.wal_len() > 0;
        match self.take_damaged(has_wal, spares, job) {
            // Of its first page, or what leads to it.
            Err(Untaken::Sqlite(error)) if !has_wal && !is_busy(&error) => job.check(),
            // Of a page that the log stands on, too: SQLite reads all of it to find what is committed.
            Err(Untaken::Sqlite(error)) if self.is_packed() && may_be_damage(&error) => {
                self.take_committed(spares, job)
            }
            held => held.map_err(|why| self.explain(why, job)),
        }
    }

    /// Whether the bytes are still of the moment of [`Source::hold_damaged`], where no lock keeps it: neither was there a
    /// commit in the file, nor was the WAL begun anew.
    pub fn is_unchanged(&self) -> Result<bool> {
        let Some(before) = &self.before else {
            return Ok(true);
        };
        let are_gone = self.frames.as_ref().map(Frames::are_gone).transpose();
        let are_gone = are_gone.with_context(|| cannot_read(&self.shown))?;
        Ok(are_gone != Some(true) && *before == self.beginning()?)
    }

    fn beginning(&self) -> Result<Vec<u8>> {
        let mut head = vec![0; HEAD_LEN];
        let read = ReadAt::read_at(&*self.file, &mut head, 0);
        read.with_context(|| cannot_read(&self.shown))?;
        Ok(head)
    }

    /// Takes what is committed in the WAL by itself.
    fn take_committed(&mut self, spares: &[Arc<dyn Spare>], job: &Job<'_>) -> Result<()> {
        job.check()?;
        self.before = Some(self.beginning()?);
        let name = with_suffix(&self.path, self.suffixes().wal);
        let keys = self.unlocked().map(Unlocked::keys);
        // One that is not applied has nothing of this database.
        if wal::refusal(&name, &self.file, keys)?.is_none() {
            self.frames = Frames::committed(self.wal_of(&name, spares), job)?;
        }
        Ok(())
    }

    fn wal_of<'a>(&'a self, wal: &'a Path, spares: &'a [Arc<dyn Spare>]) -> WalOf<'a> {
        WalOf {
            wal,
            database: &self.file,
            kind: self.kind,
            unlocked: self.unlocked(),
            spares,
        }
    }

    fn take_damaged(
        &mut self,
        has_wal: bool,
        spares: &[Arc<dyn Spare>],
        job: &Job<'_>,
    ) -> std::result::Result<(), Untaken> {
        let connection = self.connect("", job)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let interrupts = job.interrupts(&connection);
        // Reads no more than the first page, and makes the index of a WAL.
        connection.execute_batch("BEGIN; PRAGMA schema_version")?;
        if has_wal {
            connection.execute_batch("ROLLBACK")?;
            if !self.take_moment(&connection, spares, job)? {
                return Err(Untaken::Other(self.in_use()));
            }
        }
        self.keep(connection, interrupts);
        Ok(())
    }

    fn take(&mut self, alone: bool, job: &Job<'_>) -> std::result::Result<(), Untaken> {
        let mut connection = self.connect("", job)?;
        let mut interrupts = job.interrupts(&connection);
        if alone {
            connection.query_row("PRAGMA locking_mode=EXCLUSIVE", [], |_| Ok(()))?;
        }
        read_schema(&mut connection)?;
        let mode = |connection: &Connection| {
            connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))
        };
        let mode = match mode(&connection) {
            // A WAL database where SQLite cannot make a WAL. It is read without a lock; comparing it with the result
            // notices a change by a user with more rights.
            Err(error) if is_unwritable(&error) && !alone && self.pending().is_none() => {
                connection = self.connect("&immutable=1", job)?;
                interrupts = job.interrupts(&connection);
                mode(&connection)?
            }
            mode => mode?,
        };
        let wal = mode == "wal";
        let read_only = connection.is_readonly("main")?;
        if wal && !alone && !read_only {
            // As far as that goes without waiting: the rest is read from the WAL.
            connection.busy_handler(None::<fn(i32) -> bool>)?;
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            connection.busy_handler(Some(job.patience()))?;
            if self.take_moment(&connection, &[], job)? {
                self.keep(connection, interrupts);
                return Ok(());
            }
        }
        for _ in 0..ATTEMPTS {
            if wal && !read_only {
                let busy: bool =
                    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |r| r.get(0))?;
                if busy {
                    return Err(Untaken::Other(self.in_use()));
                }
            }
            connection.execute_batch(match (alone, read_only) {
                (true, _) => "BEGIN EXCLUSIVE",
                (false, false) => "BEGIN IMMEDIATE",
                (false, true) => "BEGIN; SELECT count(*) FROM sqlite_schema;",
            })?;
            if !wal || self.wal_len() == 0 {
                self.keep(connection, interrupts);
                return Ok(());
            }
            if read_only {
                return Err(Untaken::Other(self.needs_writing(self.suffixes().wal)));
            }
            connection.execute_batch("ROLLBACK")?;
        }
        Err(Untaken::Other(self.in_use()))
    }

    /// An error if another file has the name by now: the lock is on that one.
    fn expect_named(&mut self) -> std::result::Result<(), Untaken> {
        if has_name(&self.file, &self.path) {
            return Ok(());
        }
        (self.index, self.frames) = (None, None);
        (self.connection, self.interrupts) = (None, None);
        Err(Untaken::Other(replaced(&self.shown)))
    }

    /// An error if this is not the file that a caller has looked at before.
    pub fn expect_identity(&self, looked_at: Option<Identity>) -> Result<()> {
        if looked_at.is_some() && looked_at != Identity::of_file(&self.file) {
            return Err(replaced(&self.shown));
        }
        Ok(())
    }

    fn keep(&mut self, connection: Connection, interrupts: Interrupts) {
        self.connection = Some(connection);
        self.interrupts = Some(interrupts);
    }

    /// Begins a read transaction, and finds the frames of the WAL that are part of it. False if that cannot be told.
    fn take_moment(
        &mut self,
        connection: &Connection,
        spares: &[Arc<dyn Spare>],
        job: &Job<'_>,
    ) -> std::result::Result<bool, Untaken> {
        let Ok(index) = File::open(with_suffix(&self.path, "-shm")) else {
            return Ok(false);
        };
        // Locks are on this file, too.
        let index = Held::new(index);
        let look = || {
            let looked = WalIndex::read(&index).with_context(|| cannot_read(&self.shown));
            looked.map_err(Untaken::Other)
        };
        for _ in 0..ATTEMPTS {
            let before = look()?;
            // Reads the first page only: others may be damaged.
            connection.execute_batch("BEGIN; PRAGMA schema_version")?;
            // How many frames are in the file is read between two looks at all the rest.
            if let (Some(before), Some(during), Some(after)) = (before, look()?, look()?)
                && before.is_of_the_moment(&during)
                && during.is_of_the_moment(&after)
            {
                let wal = with_suffix(&self.path, self.suffixes().wal);
                let wal = self.wal_of(&wal, spares);
                self.frames = Frames::of(&during, wal, job).map_err(Untaken::Other)?;
                self.index = Some(index);
                return Ok(true);
            }
            connection.execute_batch("ROLLBACK")?;
            job.check().map_err(Untaken::Other)?;
            std::thread::sleep(BETWEEN);
        }
        Ok(false)
    }

    /// A connection without any lock yet; closed before `self` is dropped, it keeps its locks.
    pub fn connect(&self, parameters: &str, job: &Job<'_>) -> rusqlite::Result<Connection> {
        let vfs = match self.kind {
            FileKind::Packed => "&vfs=litepack",
            _ => "",
        };
        let uri = format!(
            "{}?mode=rw{vfs}{parameters}",
            crate::names::uri::of_path(&self.path)
        );
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection =
            open_unlocked(self.unlocked(), || Connection::open_with_flags(uri, flags))?;
        distrust(&connection)?;
        connection.busy_handler(Some(job.patience()))?;
        Ok(connection)
    }

    /// Whether the header asks for WAL mode, as far as it can be told.
    pub fn is_wal(&self) -> bool {
        header::is_wal(&self.file, self.kind, self.unlocked()).unwrap_or(false)
    }

    /// Damage of the WAL of a packed file; `None` of a plain one, where that counts as not written.
    pub fn wal_damage(&self, job: &Job<'_>) -> Result<Option<LogDamage>> {
        if !self.is_packed() || self.wal_len() == 0 {
            return Ok(None);
        }
        let wal = with_suffix(&self.path, self.suffixes().wal);
        let keys = self.unlocked().map(Unlocked::keys);
        if wal::refusal(&wal, &self.file, keys)?.is_some() {
            return Ok(None);
        }
        wal::damage(&wal, &self.file, keys, job)
    }

    fn suffixes(&self) -> Suffixes {
        Suffixes::of(self.kind)
    }

    fn wal_len(&self) -> u64 {
        self.beside_len(self.suffixes().wal)
    }

    fn beside_len(&self, suffix: &str) -> u64 {
        let beside = with_suffix(&self.path, suffix).metadata();
        beside.map_or(0, |found| found.len())
    }

    /// The suffix of a file beside this one that may hold a part of the database.
    fn pending(&self) -> Option<&'static str> {
        let mut suffixes = self.suffixes().all().into_iter();
        suffixes.find(|suffix| self.beside_len(suffix) > 0)
    }

    fn in_use(&self) -> Error {
        Error::in_use(&self.shown)
    }

    fn is_zstd(&self) -> String {
        format!(
            "{} is an archive, which is read-only; `litepack archive extract` extracts the database",
            self.shown.display()
        )
    }

    fn needs_writing(&self, suffix: &str) -> Error {
        let name = self.shown.display();
        Error::Refused(format!(
            "{name} has changes in {name}{suffix} that must be applied first, but the file \
             or its directory is read-only; copy both files to a place that can be written"
        ))
    }

    /// SQLite's error in terms of what the user asked for.
    fn explain(&self, stopped: Untaken, job: &Job<'_>) -> Error {
        if let Err(interrupted) = job.check() {
            return interrupted;
        }
        let error = match stopped {
            Untaken::Sqlite(error) => error,
            Untaken::Other(error) => return error,
        };
        if is_busy(&error) {
            return self.in_use();
        }
        if let Err(truncated) = self.expect_whole() {
            return truncated;
        }
        // All of the WAL is read for this.
        if may_be_damage(&error)
            && let Ok(Some(damage)) = self.wal_damage(job)
        {
            let name = self.shown.display();
            return Error::Refused(format!(
                "{name}{} is damaged at byte {}: {}; {}. (Without that file the database is as it was at its last \
                 checkpoint, or damaged as well.)",
                PACKED.wal, damage.offset, damage.why, damage.advice
            ));
        }
        match self.pending() {
            Some(suffix) if is_unwritable(&error) => self.needs_writing(suffix),
            _ => Error::Sqlite {
                what: cannot_read(&self.shown),
                error,
            },
        }
    }

    /// An error if a plain database is shorter than its header says.
    pub fn expect_whole(&self) -> Result<()> {
        header::expect_whole(&self.bytes(), self.kind, &self.shown)
    }

    /// The page size of a plain database; `None` if it has none yet.
    pub fn page_size(&self) -> Option<u32> {
        header::page_size(&self.bytes())
    }

    /// Removes the empty WAL of a database that is held alone, so that the next file of its name has none. The content
    /// of the WAL is in the file by then, and both survive a power loss before anything takes the name.
    pub fn drop_wal(&mut self, directory: &Directory, own: &OsStr) -> Result<()> {
        if let Some(connection) = &self.connection {
            // Otherwise SQLite would, when it closes, look for a WAL that may be the new file's.
            let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let set = connection.set_db_config(config, true);
            set.map_err(|error| Error::of_sqlite(&self.shown, error))?;
        }
        let name = self.shown.display();
        durable::sync(&self.file).with_context(|| format!("cannot write {name}"))?;
        if remove_wal(directory, own)? {
            durable::sync_directory(directory)
                .with_context(|| format!("cannot make it durable that {name} has no WAL"))?;
        }
        Ok(())
    }

    /// Makes a file that was held alone and then replaced unreadable for those who opened it before
    /// that and wait for its lock, unless it has other names.
    pub fn retire(self) {
        if nothing_links_to(&self.file) {
            let _ = Storage::write_at(&*self.file, &[0; HEAD_LEN], 0);
        }
    }
}

/// Why a file is not held.
enum Untaken {
    Sqlite(rusqlite::Error),
    Other(Error),
}

impl From<rusqlite::Error> for Untaken {
    fn from(error: rusqlite::Error) -> Untaken {
        Untaken::Sqlite(error)
    }
}

/// That a file is not there, and what it may be instead.
fn missing(shown: &Path) -> String {
    let name = shown.display();
    let is_like = |scheme: &str| shown.to_str().is_some_and(|name| name.starts_with(scheme));
    if ["http://", "https://", "s3://"].into_iter().any(is_like) {
        format!("{name}: this works on local files only; `info`, `catalog` and `shell` take a URL")
    } else if is_like("file:") {
        format!("{name} does not exist; give the name of the file without `file:` and parameters")
    } else {
        format!("{name} does not exist")
    }
}

/// Opens an ordinary file; gives its name without links, too.
pub fn open_file(shown: &Path, writable: bool) -> Result<(Held, PathBuf)> {
    let name = shown.display();
    let metadata = match shown.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => refuse!("{}", missing(shown)),
        result => result.with_context(|| format!("cannot open {name}"))?,
    };
    if metadata.is_dir() {
        refuse!("{name} is a directory");
    }
    if !metadata.is_file() {
        refuse!("{name} is not an ordinary file");
    }
    let cannot = || format!("cannot open {name}");
    let path = shown.canonicalize().with_context(cannot)?;
    let file = itself::open(&path, writable).with_context(cannot)?;
    Ok((Held::new(file), path))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// SQLite's word for damage, and for what it cannot read.
fn may_be_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt)
    )
}

/// SQLite could not write the file, or something beside it.
fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
    )
}

fn nothing_links_to(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| links(&metadata) == 0)
}

/// How many names a file has.
#[cfg(unix)]
fn links(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links(_: &Metadata) -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SQLite's lock would be on the new file, and what is read would be of the old one.
    #[cfg(unix)]
    #[test]
    fn a_file_that_was_replaced_since_it_was_opened_is_not_held() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for name in ["a.db", "b.db"] {
            let db = Connection::open(path(name)).unwrap();
            db.execute_batch("CREATE TABLE t(a)").unwrap();
        }
        let open = || Source::open(&path("a.db"), true).unwrap();
        let (mut old, mut other) = (open(), open());
        std::fs::rename(path("b.db"), path("a.db")).unwrap();
        let job = Job::default();
        for refused in [old.hold(&job), other.hold_alone(&job)] {
            let why = refused.unwrap_err().to_string();
            assert!(why.contains("was replaced by another file"), "{why}");
        }
        drop((old, other));
        open().hold_alone(&job).unwrap();
    }

    /// In WAL mode, whatever others do meanwhile. None of them reads, which would keep a moment as well.
    #[test]
    fn what_is_held_stays_as_it_is_until_it_is_let_go() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        let change = "UPDATE t SET a = hex(randomblob(100)); PRAGMA wal_checkpoint(PASSIVE);";
        db.execute_batch(&format!(
            "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
             INSERT INTO t SELECT i FROM n; {change}"
        ))
        .unwrap();
        let read = |bytes: &dyn ReadAt| {
            let mut read = vec![0; bytes.len().unwrap() as usize];
            bytes.read_at(&mut read, 0).unwrap();
            read
        };
        let mut source = Source::open(&path, false).unwrap();
        source.hold(&Job::default()).unwrap();
        let before = read(&source.bytes());
        assert!(before.len() > 100_000);
        db.execute_batch(&change.repeat(3)).unwrap();
        assert!(read(&source.bytes()) == before);
        let file = source.file().try_clone().unwrap();
        drop(source);
        db.execute_batch(change).unwrap();
        assert!(
            read(&file) != before,
            "what a checkpoint does that none keeps from it"
        );
    }
}
