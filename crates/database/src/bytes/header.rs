//! The kind and page size of a file, by its first bytes, and whether the file is whole.

use std::fs::File;
use std::io;
use std::path::Path;

use litepack_engine::FileKind;
use litepack_io::storage::ReadAt;
use litepack_store::HEAD_LEN;

use crate::bytes::reader;
use crate::bytes::unlocked::Unlocked;
use crate::error::{Context, cannot_read};
use crate::{Error, Result};

/// The kind of a file.
pub fn kind(file: &File) -> io::Result<FileKind> {
    let mut head = [0; HEAD_LEN];
    let len = ReadAt::len(file)?;
    let n = file.read_at(&mut head, 0)?;
    Ok(FileKind::of(&head[..n], len))
}

/// The page size of a plain database; `None` if it is none, or its header makes no sense.
pub fn page_size(file: &impl ReadAt) -> Option<u32> {
    litepack_engine::page_size(&head(file)?)
}

/// An error if a plain database is shorter than its header says.
pub fn expect_whole(file: &impl ReadAt, kind: FileKind, name: &Path) -> Result<()> {
    let len = ReadAt::len(file).with_context(|| cannot_read(name))?;
    let missing = match head(file) {
        _ if kind != FileKind::Plain => None,
        Some(head) => litepack_engine::missing_bytes(&head, len),
        None => 100_u64.checked_sub(len),
    };
    match missing {
        Some(missing) => Err(Error::Truncated {
            path: name.to_owned(),
            missing,
        }),
        None => Ok(()),
    }
}

/// Whether the header of the database asks for WAL mode. In an archive that means nothing.
pub fn is_wal(
    file: &File,
    kind: FileKind,
    unlocked: Option<&Unlocked>,
) -> litepack_store::Result<bool> {
    let mut version = [0; 20];
    let found = match kind {
        FileKind::Plain => file.read_at(&mut version, 0)?,
        FileKind::Packed => {
            reader::open(file, &reader::options(unlocked))?.read(0, &mut version)?
        }
        _ => 0,
    };
    Ok(found == version.len() && version[18..] == [2, 2])
}

/// The header of a database; `None` if the file is too short for one.
fn head(file: &impl ReadAt) -> Option<[u8; 100]> {
    let mut head = [0; 100];
    (file.read_at(&mut head, 0).ok()? == head.len()).then_some(head)
}
