//! An encrypted archive in a local file. Until it has its key nothing of it is known but its head.

use std::sync::Arc;

use litepack_archive::{Error, SeekTable, page_size_without_key};
use litepack_btree::PageNumber;
use litepack_cipher::Key;

use super::archive::{ArchiveFile, failure};
use super::keyed_reader::{Lockable, PageSize};
use super::split::split_file;
use super::{Database, File};
use crate::beside::open_files::Key as FileKey;
use crate::c::codes::{CANTOPEN, MISUSE};
use crate::failure::Failure;
use crate::host::file::HostFile;
use crate::options::{Name, Setting};

/// An open one.
#[derive(Debug)]
pub(crate) enum SealedArchive {
    /// Which file it is, and what it is to be opened with.
    Locked(HostFile, Option<FileKey>, Vec<Setting>),
    Open(Box<ArchiveFile<HostFile>>),
    /// It had the right key, and could not be opened with it.
    Closed,
}

impl SealedArchive {
    fn opened(&mut self) -> Result<&mut ArchiveFile<HostFile>, Failure> {
        match self {
            SealedArchive::Open(archive) => Ok(archive),
            SealedArchive::Locked(..) => Err(failure(Error::NoKey)),
            SealedArchive::Closed => Err(Failure::new(CANTOPEN, "open the archive again")),
        }
    }
}

impl Lockable for SealedArchive {
    fn is_locked(&self) -> bool {
        !matches!(self, SealedArchive::Open(_))
    }

    fn other_page_size(&self) -> PageSize {
        let size = match self {
            SealedArchive::Locked(source, ..) => page_size_without_key(source).ok().flatten(),
            _ => None,
        };
        PageSize::other_than(size.unwrap_or_default())
    }

    fn unlock(&mut self, key: &Arc<Key>) -> Result<(), Failure> {
        let SealedArchive::Locked(source, ..) = self else {
            return self.opened().map(|_| ());
        };
        let table = SeekTable::read_with(source, Some(key)).map_err(failure)?;
        let locked = std::mem::replace(self, SealedArchive::Closed);
        if let SealedArchive::Locked(source, which, settings) = locked {
            let mut archive = ArchiveFile::with_table(source, table, which);
            for setting in settings {
                let applied = archive.apply(setting);
                applied.map_err(|why| Failure::new(MISUSE, why))?;
            }
            *self = SealedArchive::Open(Box::new(archive));
        }
        Ok(())
    }
}

impl File for SealedArchive {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.opened()?.read(buf, offset)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        self.opened()?.size()
    }
}

impl Database for SealedArchive {
    fn setting(&self, name: Name) -> Result<String, String> {
        match self {
            SealedArchive::Open(archive) => archive.setting(name),
            _ => Err(Error::NoKey.to_string()),
        }
    }

    fn apply(&mut self, setting: Setting) -> Result<(), String> {
        match self {
            SealedArchive::Open(archive) => archive.apply(setting),
            SealedArchive::Locked(_, _, settings) => {
                settings.push(setting);
                Ok(())
            }
            SealedArchive::Closed => Err(Error::NoKey.to_string()),
        }
    }

    fn info(&mut self) -> Result<String, Failure> {
        self.opened()?.info()
    }

    fn check(&mut self) -> Result<String, Failure> {
        self.opened()?.check()
    }

    fn split(&mut self, root: PageNumber, parts: usize) -> Result<String, Failure> {
        split_file(self, root, parts)
    }
}
