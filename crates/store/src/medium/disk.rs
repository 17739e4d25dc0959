//! The store's only way to a medium: six calls on one file.
//!
//! Everything above is the same over a real file, a file opened by SQLite's host VFS, plain memory,
//! or a simulated disk that loses writes.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// One file, addressed by byte offset.
#[expect(
    clippy::len_without_is_empty,
    reason = "the length of a file, not of a collection"
)]
pub trait Disk {
    /// Fills `buf` from `offset` and returns how many bytes there were; fewer than asked only at the
    /// end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file as needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns once everything written so far would survive a power loss.
    fn sync(&self) -> io::Result<()>;

    /// Returns once the file's name would survive a power loss. Called before anything is written into
    /// an empty file.
    fn sync_name(&self) -> io::Result<()> {
        Ok(())
    }

    /// The length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Whether a call costs so much more than the bytes it brings that what will be wanted should come at once.
    fn is_far(&self) -> bool {
        false
    }
}

impl Disk for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match read_once(self, &mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_all(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

#[cfg(unix)]
fn read_once(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(unix)]
fn write_all(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_once(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}

#[cfg(windows)]
fn write_all(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = &bytes[n..];
        offset += n as u64;
    }
    Ok(())
}

/// A file in memory, for tests and for trying settings out.
#[derive(Debug, Default)]
pub struct MemDisk {
    bytes: Mutex<Vec<u8>>,
}

impl MemDisk {
    /// A file with this content.
    pub fn new(bytes: Vec<u8>) -> MemDisk {
        MemDisk {
            bytes: Mutex::new(bytes),
        }
    }

    /// A copy of the content.
    pub fn snapshot(&self) -> Vec<u8> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemDisk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.lock();
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let n = buf.len().min(bytes.len() - start);
        buf[..n].copy_from_slice(&bytes[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.lock();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.lock()
            .truncate(usize::try_from(len).map_err(io::Error::other)?);
        Ok(())
    }
}

impl<D: Disk + ?Sized> Disk for &D {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }
    fn sync_name(&self) -> io::Result<()> {
        (**self).sync_name()
    }
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        (**self).truncate(len)
    }
    fn is_far(&self) -> bool {
        (**self).is_far()
    }
}
