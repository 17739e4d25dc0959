//! The WAL of a packed database: a log, which holds in a fifth of the bytes what SQLite writes.
//!
//! A file of that name may be a WAL as SQLite has it, of an earlier Litepack. It is read and written as it is until
//! SQLite begins it anew.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;

use litepack_io::storage::{ReadAt, Storage};
use litepack_log::{Error, FileKind, Log};

use super::{File, Methods};
use crate::beside::wal_view::WalView;
use crate::c::codes::{IOERR, IOERR_DATA};
use crate::failure::{Failure, While};
use crate::host::file::HostFile;

/// An open WAL.
pub(crate) struct LogFile {
    log: Log<HostFile>,
    /// The word of the database's handle, which knows its locks; `None` if that handle is not known.
    view: Option<Arc<WalView>>,
}

impl LogFile {
    /// The WAL in this file, which may be empty.
    pub(crate) fn new(file: HostFile, view: Option<Arc<WalView>>) -> LogFile {
        LogFile {
            log: Log::new(file),
            view,
        }
    }

    fn host_file(&self) -> &HostFile {
        self.log.storage()
    }

    /// Does something to the log or, where the file is a WAL as SQLite has it, to the file.
    fn with<T>(
        &mut self,
        on_log: impl FnOnce(&mut Log<HostFile>) -> litepack_log::Result<T>,
        on_file: impl FnOnce(&HostFile) -> io::Result<T>,
    ) -> Result<T, Failure> {
        let view = self.view.as_ref().and_then(|view| view.number());
        self.log.set_view(view);
        let failed = match on_log(&mut self.log) {
            Err(Error::Damaged { place: 0, .. }) if self.is_plain()? => {
                return on_file(self.host_file()).map_err(failed);
            }
            done => done,
        };
        failed.map_err(|error| self.failure(error))
    }

    /// Whether the file is a WAL as SQLite has it.
    fn is_plain(&self) -> Result<bool, Failure> {
        let kind = FileKind::of_file(self.host_file()).map_err(failed)?;
        Ok(kind == FileKind::Wal)
    }

    fn failure(&self, error: Error) -> Failure {
        let code = match error {
            Error::Io(error) => return failed(error),
            Error::OutOfMemory => return failed(io::ErrorKind::OutOfMemory.into()),
            // An I/O error, after which SQLite gives up the transaction.
            Error::Damaged { .. } => IOERR_DATA,
            _ => IOERR,
        };
        let path = self.host_file().path().to_string_lossy();
        Failure::new(code, format!("{path}: {error}"))
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
        self.with(
            |log| log.read(&mut buf.borrow_mut(), offset),
            |file| file.read_at(&mut buf.borrow_mut(), offset),
        )
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.with(Log::size, ReadAt::len)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        if offset == 0 && self.is_plain()? {
            // All of it is in the database: SQLite begins anew.
            let emptied = self.host_file().truncate(0);
            let emptied = emptied.and_then(|()| Storage::sync(self.host_file()));
            emptied.map_err(failed)?;
        }
        self.with(
            |log| log.write(bytes, offset),
            |file| file.write_at(bytes, offset),
        )
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        self.with(|log| log.truncate(size), |file| file.truncate(size))
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        self.host_file().set_sync_flags(flags);
        self.with(Log::sync, Storage::sync)
    }
}
