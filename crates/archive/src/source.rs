//! The only way to the medium an archive is on: two calls, so that a range of a file on a web server can be read
//! as well as a local file.
//!
//! It is not the store's `Disk`: an archive is never written in place, most sources could not be, and this
//! crate stands beside the store. Only the thread that owns a handle calls its source; helpers get bytes.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// Bytes that do not change while they are open, by offset.
#[expect(
    clippy::len_without_is_empty,
    reason = "the length of a file, not of a collection"
)]
pub trait Source {
    /// Fills `buf` from `offset` and returns how many bytes there were; fewer than asked only at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The length in bytes. Asked once, when the archive is opened.
    fn len(&self) -> io::Result<u64>;
}

impl Source for File {
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

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

#[cfg(unix)]
fn read_once(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_once(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}

/// A file in memory.
impl Source for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(start..).unwrap_or_default();
        let n = buf.len().min(rest.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}

/// Fills all of `buf`; what is not there is an error.
pub(crate) fn read_exact(source: &impl Source, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let found = source.read_at(buf, offset)?;
    if found == buf.len() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!(
            "the archive ends at byte {} and was longer when it was opened",
            offset.saturating_add(found as u64)
        ),
    ))
}
