//! The WAL of a packed database: a log, which holds in a fifth of the bytes what SQLite writes.
//!
//! A file of that name may be a WAL as SQLite has it, of an earlier Litepack. It is read and written as it is until
//! SQLite begins it anew.
//!
//! Either may be that of another database, or of another state of this one: after a backup was put back, for example. To
//! SQLite it is empty then. Before it is written over, cut off or deleted, it is copied aside. So is one in plain beside
//! an encrypted database, whose own is sealed with its keys.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;

use litepack_io::cache::Cache;
use litepack_io::storage::{ReadAt, Storage};
use litepack_log::{BaseCommit, Error, FileKind, Log, Refusal, aside};
use litepack_store::{CommitRecord, Needed, Needs};

use super::{File, Methods};
use crate::beside::open_files::wal_view;
use crate::beside::wal_view::{DatabaseOf, LogRead, WalView};
use crate::c::api::Api;
use crate::c::codes::{
    IOERR, IOERR_DATA, IOERR_WRITE, OPEN_READONLY, OPEN_WAL, WARNING, as_io_error,
};
use crate::failure::{Failure, While};
use crate::host::error::host_code;
use crate::host::file::{HostFile, Neighbour};
use crate::host::name::HostName;

/// An open WAL.
pub(crate) struct LogFile {
    api: Api,
    log: Log<HostFile>,
    /// The word of the database's handle, which knows its locks and its file; `None` if that handle is not known.
    view: Option<Arc<WalView>>,
    /// Whether SQLite has had it synced.
    syncs: bool,
    /// Whether the error log was told that this one is not applied.
    told: bool,
}

impl LogFile {
    /// The WAL in this file, which may be empty.
    pub(crate) fn new(api: Api, file: HostFile, view: Option<Arc<WalView>>) -> LogFile {
        let log = match &view {
            Some(view) => {
                let database = Box::new(DatabaseOf::new(Arc::clone(view)));
                Log::bound(file, database).with_synced(view.synced())
            }
            None => Log::new(file),
        };
        LogFile {
            api,
            log: log.with_cache(Arc::clone(Cache::shared())),
            view,
            syncs: false,
            told: false,
        }
    }

    fn host_file(&self) -> &HostFile {
        self.log.storage()
    }

    fn look_as_told(&mut self) {
        let view = self.view.as_ref();
        // With its first commit a database may become encrypted.
        let keys = view.and_then(|view| view.keys());
        self.log.set_keys(keys.as_ref());
        self.log.set_view(view.and_then(|view| view.number()));
    }

    /// Does something to the log or, where the file is a WAL as SQLite has it, to the file. If that is not the database's
    /// own, nothing is done.
    fn with<T: Default>(
        &mut self,
        on_log: impl FnOnce(&mut Log<HostFile>) -> litepack_log::Result<T>,
        on_file: impl FnOnce(&HostFile) -> io::Result<T>,
    ) -> Result<T, Failure> {
        self.look_as_told();
        let done = match on_log(&mut self.log) {
            Err(Error::Damaged { place: 0, .. }) if self.is_plain()? => {
                match self.refuses_plain()? {
                    Some(why) => {
                        self.tell(Some(why));
                        return Ok(T::default());
                    }
                    None => return on_file(self.host_file()).map_err(failed),
                }
            }
            done => done,
        };
        self.tell(self.log.was_refused());
        done.map_err(|error| self.failure(error))
    }

    /// Whether the file is a WAL as SQLite has it.
    fn is_plain(&self) -> Result<bool, Failure> {
        let kind = FileKind::of_file(self.host_file()).map_err(failed)?;
        Ok(kind == FileKind::Wal)
    }

    /// Why such a WAL is not applied: once a database has had a log of its own, it has no such WAL. Nor has an encrypted
    /// one.
    fn refuses_plain(&self) -> Result<Option<Refusal>, Failure> {
        if self.view.as_ref().is_some_and(|view| view.keys().is_some()) {
            return Ok(Some(Refusal::NotEncrypted));
        }
        let state = self.view.as_ref().map(|view| view.file_state());
        let state = state.transpose().map_err(failed)?.flatten();
        let has_numbers = state.is_some_and(|state| state.log.next != 0);
        Ok(has_numbers.then_some(Refusal::OtherState))
    }

    /// Why the file is not applied, if it is not.
    fn refused(&mut self) -> Result<Option<Refusal>, Failure> {
        self.look_as_told();
        match self.log.refused() {
            Err(Error::Damaged { place: 0, .. }) if self.is_plain()? => self.refuses_plain(),
            found => found.map_err(|error| self.failure(error)),
        }
    }

    /// Says in SQLite's error log, once, that the file is not applied.
    fn tell(&mut self, refused: Option<Refusal>) {
        if let Some(why) = refused.filter(|_| !self.told) {
            let name = self.host_file().path().to_string_lossy();
            let text = format!(
                "{name} is not applied: {why}. It is copied before it is written over. To get what it holds, put it beside \
                 the database that it belongs to"
            );
            self.api.log(WARNING, &text);
        }
        self.told = refused.is_some();
    }

    /// Before the file is written over: copies it aside if it is not the database's own. Whether it was not.
    fn keep_if_refused(&mut self) -> Result<bool, Failure> {
        let refused = self.refused()?;
        self.tell(refused);
        if refused.is_some() {
            self.set_aside()?;
        }
        Ok(refused.is_some())
    }

    fn set_aside(&self) -> Result<(), Failure> {
        let name = self.host_file().path().to_string_lossy();
        let suffix = aside::name(self.host_file()).map_err(failed)?;
        let copied = match self.host_file().open_beside(&suffix) {
            Ok(copy) => aside::copy(self.host_file(), &copy.file).inspect_err(|_| {
                self.host_file().delete_beside(copy.file.path());
            }),
            Err(code) => crate::host::error::from_host(code).map(drop),
        };
        copied.map_err(|error| {
            let code = as_io_error(host_code(&error).unwrap_or(IOERR), IOERR_WRITE);
            let why = format!(
                "{name} is not this database's and cannot be copied to {name}{suffix}: {error}. Nothing is written until \
                 there is room for it, or it is moved away"
            );
            Failure::new(code, why)
        })?;
        self.api
            .log(WARNING, &format!("{name} was copied to {name}{suffix}"));
        Ok(())
    }

    fn failure(&self, error: Error) -> Failure {
        let code = match error {
            Error::Io(error) => return failed(error),
            Error::OutOfMemory => return failed(io::ErrorKind::OutOfMemory.into()),
            // An I/O error, after which SQLite gives up the transaction.
            Error::Damaged { .. } | Error::NoBase { .. } | Error::NotNeeded(_) => IOERR_DATA,
            _ => IOERR,
        };
        let path = self.host_file().path().to_string_lossy();
        Failure::new(code, format!("{path}: {error}"))
    }
}

/// The part of a database that its log needs. Its store asks, with the locks to write, whether or not SQLite has the log open.
#[derive(Debug)]
pub(crate) struct NeedsOfLog {
    file: Neighbour,
    view: Arc<WalView>,
}

impl NeedsOfLog {
    /// Of the log in this file, for the database of this handle.
    pub(crate) fn new(file: Neighbour, view: Arc<WalView>) -> NeedsOfLog {
        NeedsOfLog { file, view }
    }

    /// Asks the log; what it answers is durable if that `must_last`.
    fn ask(&self, must_last: bool) -> io::Result<Needed> {
        // Also if it was moved or deleted meanwhile: SQLite reads it as long as it has it open.
        if let Some(log) = self.view.open_log() {
            return self.ask_it(&log, must_last);
        }
        if self.view.has_moved()? {
            return Ok(Needed::Everything);
        }
        match self.file.open()? {
            Some(log) => self.ask_it(&log.file, must_last),
            None => {
                if must_last {
                    // A deletion that a power loss takes back brings the log back, and what it needs.
                    self.file.sync_name()?;
                }
                Ok(Needed::Nothing)
            }
        }
    }

    fn ask_it(&self, log: &impl Storage, must_last: bool) -> io::Result<Needed> {
        if must_last && FileKind::of_file(log)? == FileKind::Empty {
            // It may be a new one, in the place of one that was deleted. A log was synced with its name.
            self.file.sync_name()?;
        }
        let database = Box::new(DatabaseOf::new(Arc::clone(&self.view)));
        let mut log = Log::bound(log, database)
            .with_keys(self.view.keys())
            .with_synced(self.view.synced());
        let needed = match must_last {
            true => log.needed()?,
            false => log.seems_needed()?,
        };
        Ok(match needed {
            litepack_log::Needed::Nothing => Needed::Nothing,
            litepack_log::Needed::Commit(BaseCommit(record)) => {
                Needed::Commit(CommitRecord(record))
            }
            litepack_log::Needed::Everything => Needed::Everything,
        })
    }
}

impl Needs for NeedsOfLog {
    fn needed(&self) -> io::Result<Needed> {
        self.ask(true)
    }

    fn seems_needed(&self) -> io::Result<Needed> {
        self.ask(false)
    }
}

/// Before a WAL of this name is deleted: copies it aside if it is not its database's own.
pub(crate) fn keep_if_refused(api: Api, name: HostName) -> Result<(), Failure> {
    let Some(view) = wal_view(name.path()) else {
        return Ok(());
    };
    // There may be none.
    let Ok((file, _)) = name.open(OPEN_READONLY | OPEN_WAL) else {
        return Ok(());
    };
    let mut log = LogFile::new(api, file, Some(view));
    match log.refused() {
        Ok(None) => Ok(()),
        Ok(Some(_)) => log.set_aside(),
        // A damaged one says nothing.
        Err(failure) if failure.code == IOERR_DATA => log.set_aside(),
        Err(failure) => Err(failure),
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::of_store(&error.into(), While::Writing)
}

impl File for LogFile {
    const METHODS: Methods = Methods::Basic;
    const CHARACTERISTICS: c_int = 0;

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        // Two closures, of which one is called.
        let buf = std::cell::RefCell::new(buf);
        let read = self.with(
            |log| log.read(&mut buf.borrow_mut(), offset),
            |file| file.read_at(&mut buf.borrow_mut(), offset),
        )?;
        if let Some(view) = &self.view {
            let (own, end, synced) = self.log.reached();
            // SQLite syncs its WAL before it begins to read it for a checkpoint. What others append after that a power
            // loss may take. With `synchronous=OFF` it does not.
            view.was_read(LogRead {
                own,
                after: self.log.begins_after(),
                end: if self.syncs { synced } else { end },
            });
        }
        Ok(read)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.with(Log::size, ReadAt::len)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        if offset == 0 {
            self.keep_if_refused()?;
            if self.is_plain()? {
                // All of it is in the database, or copied: SQLite begins anew.
                let emptied = self.host_file().truncate(0);
                let emptied = emptied.and_then(|()| Storage::sync(self.host_file()));
                emptied.map_err(failed)?;
            }
        }
        self.with(
            |log| log.write(bytes, offset),
            |file| file.write_at(bytes, offset),
        )
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        if self.keep_if_refused()? && self.is_plain()? {
            return self.host_file().truncate(size).map_err(failed);
        }
        self.with(|log| log.truncate(size), |file| file.truncate(size))
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        self.host_file().set_sync_flags(flags);
        self.with(Log::sync, Storage::sync)?;
        self.syncs = true;
        Ok(())
    }
}
