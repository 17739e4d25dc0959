//! The operations on the disk, in order: the record that crashes are computed from.
//!
//! Operation number n is the n-th entry, counted from 1; number 0 is the disk as it was given.

use std::sync::Arc;

/// One file's content, whatever names it; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Inode(pub u64);

/// One mutating call or sync that succeeded.
#[derive(Debug)]
pub(crate) enum Op {
    /// The name now exists and is an empty file.
    Create { name: String, inode: Inode },
    /// The name is gone.
    Delete { name: String, sync_dir: bool },
    /// Bytes written.
    Write {
        inode: Inode,
        offset: u64,
        data: Arc<[u8]>,
    },
    /// The length set.
    Truncate { inode: Inode, len: u64 },
    /// A sync of the file, and of its directory if that is given.
    Sync { inode: Inode, dir: Option<String> },
    /// A sync that failed: so much is on the medium, and what was pending is given up.
    GiveUp { inode: Inode, data: Arc<[u8]> },
    /// Something happened to a temporary file, which no crash leaves behind.
    Temporary,
}

impl Op {
    /// Applies a write or a truncation to `data` completely.
    pub fn apply(&self, data: &mut Vec<u8>) {
        match self {
            Op::Write {
                offset, data: new, ..
            } => write_at(data, *offset, new),
            Op::Truncate { len, .. } => data.resize(*len as usize, 0),
            _ => {}
        }
    }
}

/// Writes `new` at `offset`, filling a gap with zeros.
pub(crate) fn write_at(data: &mut Vec<u8>, offset: u64, new: &[u8]) {
    let start = offset as usize;
    let end = start + new.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[start..end].copy_from_slice(new);
}

/// The directory part of a name, the trailing slash included.
pub(crate) fn directory_of(name: &str) -> &str {
    name.rfind('/').map_or("", |slash| &name[..=slash])
}
