//! Any storage, with something done before each call.

use std::io;

use crate::storage::{ReadAt, Storage};

/// A call to a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `read_at` of so many bytes.
    Read {
        /// Where.
        offset: u64,
        /// How many bytes are asked for.
        len: usize,
    },
    /// `write_at` of so many bytes.
    Write {
        /// Where.
        offset: u64,
        /// How many bytes.
        len: usize,
    },
    /// `sync`.
    Sync,
    /// `len`.
    Len,
    /// `truncate` to this length.
    Truncate(u64),
}

/// A storage whose calls are shown to a function first. An error of that function is the call's.
#[derive(Debug)]
pub struct Watched<S, F> {
    storage: S,
    before: F,
    is_remote: bool,
}

impl<S: ReadAt, F: Fn(Call) -> io::Result<()>> Watched<S, F> {
    /// `storage`, with `before` called before each call.
    pub fn new(storage: S, before: F) -> Watched<S, F> {
        Watched {
            is_remote: storage.is_remote(),
            storage,
            before,
        }
    }

    /// The same as a remote storage.
    #[must_use]
    pub fn remote(self) -> Watched<S, F> {
        Watched {
            is_remote: true,
            ..self
        }
    }
}

impl<S: ReadAt, F: Fn(Call) -> io::Result<()>> ReadAt for Watched<S, F> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = buf.len();
        (self.before)(Call::Read { offset, len })?;
        self.storage.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (self.before)(Call::Len)?;
        self.storage.len()
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }
}

impl<S: Storage, F: Fn(Call) -> io::Result<()>> Storage for Watched<S, F> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let len = bytes.len();
        (self.before)(Call::Write { offset, len })?;
        self.storage.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (self.before)(Call::Sync)?;
        self.storage.sync()
    }

    fn sync_name(&self) -> io::Result<()> {
        self.storage.sync_name()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        (self.before)(Call::Truncate(len))?;
        self.storage.truncate(len)
    }
}
