//! The bytes of a database, plain or packed, by offset or from beginning to end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use litepack_io::storage::ReadAt;
use litepack_store::Store;

use crate::Result;
use crate::bytes::reader;
use crate::bytes::snapshot::{Bytes, Frames};
use crate::error::{Context, cannot_read, refuse};
use crate::files::source::Source;

/// Bytes that are read at once.
pub const CHUNK: usize = 1 << 20;

/// The bytes of a database that does not change.
pub struct DatabaseBytes<'a> {
    medium: PlainOrPacked<'a>,
    size: u64,
    name: &'a Path,
}

enum PlainOrPacked<'a> {
    Plain(Bytes<'a>),
    Packed(Box<Store<&'a File>>, Option<&'a Frames>),
}

impl<'a> DatabaseBytes<'a> {
    /// Of a database that is held.
    pub fn of(source: &'a Source) -> Result<DatabaseBytes<'a>> {
        if !source.is_packed() {
            return DatabaseBytes::plain(source.bytes(), source.shown());
        }
        let (name, frames) = (source.shown(), source.bytes().frames);
        let store = reader::open(source.file(), &reader::options(source.unlocked()))
            .with_context(|| cannot_read(name))?;
        Ok(DatabaseBytes {
            size: frames.map_or(store.size(), Frames::size),
            medium: PlainOrPacked::Packed(Box::new(store), frames),
            name,
        })
    }

    /// Of a plain file.
    pub fn plain(file: impl Into<Bytes<'a>>, name: &'a Path) -> Result<DatabaseBytes<'a>> {
        let file = file.into();
        let len = ReadAt::len(&file);
        Ok(DatabaseBytes {
            size: len.with_context(|| cannot_read(name))?,
            medium: PlainOrPacked::Plain(file),
            name,
        })
    }

    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buf` from `offset` as far as there are bytes, and says how many.
    pub fn read_at(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let cannot = || cannot_read(self.name);
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buf.len().min(left);
        let buf = &mut buf[..wanted];
        let n = match &mut self.medium {
            PlainOrPacked::Plain(file) => ReadAt::read_at(file, buf, offset).with_context(cannot),
            PlainOrPacked::Packed(store, frames) => {
                reader::read(store, *frames, offset, buf).with_context(cannot)
            }
        };
        if n? != wanted {
            refuse!("{} became shorter while it was read", self.name.display());
        }
        Ok(wanted)
    }

    /// From the beginning to the end.
    pub fn reader(&mut self) -> impl Read + use<'a, '_> {
        FromStart {
            content: self,
            offset: 0,
        }
    }
}

struct FromStart<'a, 'b> {
    content: &'b mut DatabaseBytes<'a>,
    offset: u64,
}

impl Read for FromStart<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.content.read_at(buf, self.offset);
        // With its causes: what goes through `io::Error` keeps only one line.
        let n = n.map_err(|error| io::Error::other(error.in_one_line()))?;
        self.offset += n as u64;
        Ok(n)
    }
}
