//! A file in memory.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::storage::{ReadAt, Storage};

/// A file in memory. It can be written by a test while something else has it open.
#[derive(Debug, Default)]
pub struct MemoryStorage {
    bytes: Mutex<Vec<u8>>,
}

impl MemoryStorage {
    /// A file with this content.
    pub fn new(bytes: Vec<u8>) -> MemoryStorage {
        MemoryStorage {
            bytes: Mutex::new(bytes),
        }
    }

    /// A copy of the content.
    pub fn snapshot(&self) -> Vec<u8> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for MemoryStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.lock().as_slice().read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }
}

impl Storage for MemoryStorage {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        write(&mut self.lock(), start, bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.lock().truncate(len);
        Ok(())
    }
}

/// Writes into an image of a file, which grows as needed.
pub(super) fn write(image: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    let end = start + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[start..end].copy_from_slice(bytes);
}
