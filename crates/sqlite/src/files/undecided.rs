//! A new database that the default VFS leaves to the host, in a process that has had a key.
//!
//! SQLite does not say for what a file is opened. `VACUUM INTO` may copy an encrypted database into it, and it may be
//! attached to one: nothing of that is to be in plain. So it is looked at what is around before its first byte is read
//! or written. If nothing speaks against it, it is a file of the host's as any other.

use std::ffi::c_int;

use litepack_io::storage::{ReadAt, Storage};

use super::{Around, File, KEY_NOT_HEARD, Methods, unclear};
use crate::c::codes::{Code, MISUSE, OK};
use crate::failure::{Failure, While};
use crate::host::file::HostFile;

/// Why one is refused.
const IN_PLAIN: &str = "a new database of this name would be in plain, beside an encrypted one or as a copy of it: name \
     it as 'file:name.db?vfs=litepack', or with vfs=unix if that is meant";

/// An open one.
pub(crate) struct UndecidedFile {
    disk: HostFile,
    is_decided: bool,
}

impl UndecidedFile {
    pub(crate) fn new(disk: HostFile) -> UndecidedFile {
        UndecidedFile {
            disk,
            is_decided: false,
        }
    }
}

fn read<T>(done: std::io::Result<T>) -> Result<T, Failure> {
    done.map_err(|error| Failure::of_store(&error.into(), While::Reading))
}

fn written(done: std::io::Result<()>) -> Result<(), Failure> {
    done.map_err(|error| Failure::of_store(&error.into(), While::Writing))
}

impl File for UndecidedFile {
    const METHODS: Methods = Methods::AsHost;
    const CHARACTERISTICS: c_int = !0;
    const LOOKS_AROUND: bool = true;
    const PASSES_ON: bool = true;
    const TAKES_MEMORY: bool = false;

    fn looks_around(&self) -> bool {
        !self.is_decided
    }

    fn meet(&mut self, around: &Around) -> Result<(), Failure> {
        let why = if around.is_attached_with_key {
            Some(KEY_NOT_HEARD)
        } else if around.unclear.is_some() {
            return Err(unclear(around));
        } else {
            around.key.as_ref().map(|_| IN_PLAIN)
        };
        if let Some(why) = why {
            return Err(Failure::new(MISUSE, why));
        }
        self.is_decided = true;
        Ok(())
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        read(self.disk.read_at(buf, offset))
    }

    fn size(&mut self) -> Result<u64, Failure> {
        read(ReadAt::len(&self.disk))
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        written(self.disk.write_at(bytes, offset))
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        written(self.disk.truncate(size))
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Failure> {
        self.disk.set_sync_flags(flags);
        written(Storage::sync(&self.disk))
    }

    fn lock(&mut self, level: c_int) -> Result<(), Failure> {
        match self.disk.lock(level) {
            OK => Ok(()),
            code => Err(code.into()),
        }
    }

    fn host(&self) -> Option<&HostFile> {
        Some(&self.disk)
    }

    fn close(self, _poisoned: bool) -> Code {
        self.disk.close()
    }
}
