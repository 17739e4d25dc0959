//! `PRAGMA litepack_split='ROOT PARTS'`: where programs that read a table in parts may cut it.
//!
//! It reads some pages above the leaves of the database as it is in the file. A WAL that has not been checkpointed is
//! not seen, nor what a running transaction has changed: any rowids make a right answer, and these make parts with about
//! as many leaves.

use litepack_btree::split::cuts;
use litepack_btree::{HEADER_LEN, Header, PageNumber};
use serde_json::json;

use super::File;
use crate::failure::Failure;

/// The rowids as a JSON array; an empty one for what is no table. `read` fills a buffer from an offset of the database,
/// which has `size` bytes, and returns how many there were.
///
/// # Errors
/// Those of `read`.
pub(crate) fn split<E>(
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, E>,
    size: u64,
    root: PageNumber,
    parts: usize,
) -> Result<String, E> {
    let mut head = [0; HEADER_LEN];
    let n = read(&mut head, 0)?;
    let header = head.get(..n).and_then(|head| Header::parse(head, size));
    let found = match header {
        Some(header) => cuts(&header, root, parts, |page, bytes| {
            Ok(read(bytes, page.start(header.page_size))? == bytes.len())
        })?,
        None => Vec::new(),
    };
    Ok(json!(found).to_string())
}

/// The same of a file that never changes.
pub(crate) fn split_file(
    file: &mut impl File,
    root: PageNumber,
    parts: usize,
) -> Result<String, Failure> {
    let size = file.size()?;
    split(|buf, offset| file.read(buf, offset), size, root, parts)
}
