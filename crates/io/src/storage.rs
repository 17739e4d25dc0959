//! Files by byte offset: [`ReadAt`] for what is only read, [`Storage`] for what is also written.
//!
//! Everything above is the same over a real file, a file opened by SQLite's host VFS, a file on a web server, plain
//! memory, or a simulated disk that loses writes.

use std::fs::File;
use std::io;

/// A file that can be read.
#[expect(
    clippy::len_without_is_empty,
    reason = "the length of a file, not of a collection"
)]
pub trait ReadAt {
    /// Fills `buf` from `offset` and returns how many bytes there were; fewer than asked only at the
    /// end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether a call costs so much more than the bytes it returns that bytes needed soon should come with it.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A file that can be written, too.
pub trait Storage: ReadAt {
    /// Writes all of `bytes` at `offset`, growing the file as needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns once everything written so far would survive a power loss.
    fn sync(&self) -> io::Result<()>;

    /// Returns once the file's name would survive a power loss. Called before anything is written into
    /// an empty file.
    fn sync_name(&self) -> io::Result<()> {
        Ok(())
    }

    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..)
            && !rest.is_empty()
        {
            match read_once(self, rest, offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Storage for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_all(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
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
#[expect(clippy::indexing_slicing, reason = "no more is written than was given")]
fn write_all(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = &bytes[n..];
        offset += n as u64;
    }
    Ok(())
}

/// There are no files.
#[cfg(not(any(unix, windows)))]
fn read_once(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(any(unix, windows)))]
fn write_all(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A file in memory.
impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(start..).unwrap_or_default();
        let n = buf.len().min(rest.len());
        #[expect(
            clippy::indexing_slicing,
            reason = "`n` is the shorter of the two lengths"
        )]
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

impl<S: ReadAt + ?Sized> ReadAt for &S {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
    fn is_remote(&self) -> bool {
        (**self).is_remote()
    }
}

impl<S: Storage + ?Sized> Storage for &S {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }
    fn sync_name(&self) -> io::Result<()> {
        (**self).sync_name()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        (**self).truncate(len)
    }
}
