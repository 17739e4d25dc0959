//! A temporary file: what SQLite keeps on disk for as long as it has it open. TEMP tables, transient tables, their
//! journals, journals of statements, what a sort does not have room for in memory.
//!
//! It is a file of the host's without a name. In a process that has had an encrypted database open its content is sealed,
//! whichever database it is of: SQLite does not say (`beside/encrypted.rs`).

use std::ffi::c_int;

use litepack_io::storage::{ReadAt as _, Storage as _};

use super::sealed::{SealedFile, failure};
use super::{File, Methods};
use crate::beside::encrypted;
use crate::c::codes::{IOCAP_KEPT, OK};
use crate::failure::{Failure, While};
use crate::host::file::HostFile;

/// One that SQLite has opened, sealed.
pub(crate) struct TemporaryFile(SealedFile<HostFile>);

impl TemporaryFile {
    /// On this file of the host's.
    pub(crate) fn new(file: HostFile) -> Result<TemporaryFile, Failure> {
        SealedFile::new(file).map(TemporaryFile).map_err(failure)
    }
}

impl File for TemporaryFile {
    const METHODS: Methods = Methods::Basic;
    /// Of what the host says of its file.
    const CHARACTERISTICS: c_int = IOCAP_KEPT;
    /// It has to be read and written when memory is short, as a journal has.
    const TAKES_MEMORY: bool = false;
    const IS_SEALED: bool = true;

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.0.read(buf, offset).map_err(failure)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        Ok(self.0.size())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        self.0.write(bytes, offset).map_err(failure)
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        self.0.truncate(size).map_err(failure)
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        self.0.disk().set_sync_flags(flags);
        self.0.sync().map_err(failure)
    }

    fn host(&self) -> Option<&HostFile> {
        Some(self.0.disk())
    }
}

/// One that we need ourselves: sealed where it has to be.
pub(crate) enum Scratch {
    Plain(HostFile),
    Sealed(Box<SealedFile<HostFile>>),
}

impl Scratch {
    /// On this file of the host's.
    pub(crate) fn new(file: HostFile) -> Result<Scratch, Failure> {
        if !encrypted::was_open() {
            return Ok(Scratch::Plain(file));
        }
        let sealed = SealedFile::new(file).map_err(failure)?;
        Ok(Scratch::Sealed(Box::new(sealed)))
    }

    /// Fills `buf` from `offset` and returns how many bytes there were.
    pub(crate) fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match self {
            Scratch::Plain(file) => match file.read_once(buf, offset) {
                OK => Ok(buf.len()),
                // The host has filled up with zeros.
                code => Err(code.into()),
            },
            Scratch::Sealed(file) => file.read(buf, offset).map_err(failure),
        }
    }

    pub(crate) fn size(&self) -> Result<u64, Failure> {
        match self {
            Scratch::Plain(file) => file.len().map_err(of_host),
            Scratch::Sealed(file) => Ok(file.size()),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        match self {
            Scratch::Plain(file) => file.write_at(bytes, offset).map_err(of_host),
            Scratch::Sealed(file) => file.write(bytes, offset).map_err(failure),
        }
    }

    pub(crate) fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        match self {
            Scratch::Plain(file) => {
                file.set_sync_flags(flags);
                file.sync().map_err(of_host)
            }
            Scratch::Sealed(file) => {
                file.disk().set_sync_flags(flags);
                file.sync().map_err(failure)
            }
        }
    }

    pub(crate) fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        match self {
            Scratch::Plain(file) => file.truncate(size).map_err(of_host),
            Scratch::Sealed(file) => file.truncate(size).map_err(failure),
        }
    }
}

fn of_host(error: std::io::Error) -> Failure {
    Failure::of_store(&error.into(), While::Writing)
}
