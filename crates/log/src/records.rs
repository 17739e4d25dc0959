//! The records of one generation: reading those at a place, appending, and looking for one that vouches for another.

use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::head::Generation;
use crate::format::node::{Node, Root};
use crate::format::record::{
    self, FRAME, Frame, NODE, PREFIX_LEN, RECORD_LEN_MAX, ROOT, Record, length,
};
use crate::index::{ReadNode, WriteNode};
use crate::medium::Medium;

/// Most records are shorter.
const GUESS: usize = 2048;
/// How far behind a bad record a later one is looked for that vouches for it, and how many bytes may be hashed for that.
/// A writer tells how far the log is durable more often than that.
const WINDOW: usize = 1 << 20;
const HASHED_MAX: usize = 8 << 20;

/// The records of a generation.
#[derive(Debug)]
pub(crate) struct Records<'a, S> {
    pub medium: &'a mut Medium<S>,
    pub generation: &'a Generation,
    /// The link of the next record.
    pub link: &'a mut u32,
}

/// The bytes of a whole record of this kind at a place that the log itself names.
pub(crate) fn load<S: Storage>(
    medium: &Medium<S>,
    generation: &Generation,
    kind: u8,
    place: u64,
) -> Result<Vec<u8>> {
    let damaged = || Error::damaged(place, "a record is not whole");
    let mut bytes = medium.read(place, GUESS)?;
    let len = length(&bytes).ok_or_else(damaged)?;
    if len > bytes.len() {
        bytes = medium.read(place, len)?;
    }
    let found = record::decode(&bytes, place, generation).ok_or_else(damaged)?;
    if found.kind != kind {
        return Err(Error::damaged(place, "a record is of another kind"));
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// The content of what [`load`] gave.
pub(crate) fn content(bytes: &[u8]) -> &[u8] {
    let end = bytes.len().saturating_sub(record::SUM_LEN);
    bytes.get(PREFIX_LEN..end).unwrap_or_default()
}

impl<S: Storage> Records<'_, S> {
    /// Appends a record, and gives its place.
    pub fn append(&mut self, kind: u8, content: &[u8]) -> Result<u64> {
        let place = self.medium.tail();
        let mut bytes = Vec::new();
        let next = record::encode(
            kind,
            *self.link,
            content,
            place,
            self.generation,
            &mut bytes,
        )?;
        self.medium.append(&mut bytes)?;
        *self.link = next;
        Ok(place)
    }
}

impl<S: Storage> ReadNode for Records<'_, S> {
    fn node(&self, place: u64) -> Result<(u32, Node)> {
        let bytes = load(self.medium, self.generation, NODE, place)?;
        let node = Node::decode(content(&bytes), place);
        node.ok_or_else(|| Error::damaged(place, "a node is not valid"))
    }
}

impl<S: Storage> WriteNode for Records<'_, S> {
    fn write_node(&mut self, index: u32, node: &Node) -> Result<u64> {
        let mut content = Vec::new();
        node.encode(index, self.medium.tail(), &mut content)?;
        self.append(NODE, &content)
    }
}

/// Whether the bytes from `place` on, where no record follows, hold a later one that says that a sync had returned for
/// more than what is before `place`.
pub(crate) fn is_vouched_for<S: Storage>(
    medium: &Medium<S>,
    generation: &Generation,
    place: u64,
) -> Result<bool> {
    let bytes = medium.read(place, WINDOW + RECORD_LEN_MAX)?;
    let mut hashed = 0;
    for at in 1..bytes.len().min(WINDOW) {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(len) = length(rest).filter(|len| *len <= rest.len()) else {
            continue;
        };
        let kind = rest.get(4).copied().unwrap_or(0);
        if kind != FRAME && kind != ROOT {
            continue;
        }
        hashed += len;
        if hashed > HASHED_MAX {
            break;
        }
        let at = place + at as u64;
        let found = record::decode(rest, at, generation);
        if found.is_some_and(|found| witness(&found, at, generation) > place) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The place up to which a record says that everything was synced.
fn witness(record: &Record<'_>, place: u64, generation: &Generation) -> u64 {
    let told = match record.kind {
        FRAME => Frame::decode(record.content, place, generation).and_then(|frame| frame.witness),
        ROOT => Root::decode(record.content, place).map(|root| root.witness),
        _ => None,
    };
    told.unwrap_or(0)
}
