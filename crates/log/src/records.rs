//! The records of one generation: reading those at a place, appending, and looking for one that vouches for another.

use litepack_io::memory::copy;
use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::head::Generation;
use crate::format::node::{Node, Root};
use crate::format::record::{
    self, FRAME, Frame, NODE, RECORD_LEN_MAX, ROOT, Record, SaltAt, SealedRecord, length,
};
use crate::index::{ReadNode, WriteNode};
use crate::medium::Medium;
use crate::seal::{NewRecord, Seal};

/// Most records are shorter.
const GUESS: usize = 2048;
/// How far behind a bad record a later one is looked for that vouches for it, and how many bytes may be hashed for that.
/// A writer tells how far the log is durable more often than that.
const WINDOW: usize = 1 << 20;
const HASHED_MAX: usize = 8 << 20;
/// To look whether a sealed record opens costs as much as to hash so many bytes more.
const OPENING: usize = 1 << 10;

/// The records of a generation.
#[derive(Debug)]
pub(crate) struct Records<'a, S> {
    pub medium: &'a mut Medium<S>,
    pub generation: &'a Generation,
    /// If they are sealed.
    pub seal: Option<&'a mut Seal>,
    /// The link of the next record.
    pub link: &'a mut u32,
}

/// A whole record with its content in plain.
#[derive(Debug)]
pub(crate) struct Loaded {
    bytes: Vec<u8>,
    pub record: Record,
}

impl Loaded {
    pub fn content(&self) -> &[u8] {
        let content = self.bytes.get(self.record.content.clone());
        content.unwrap_or_default()
    }
}

/// The record that these bytes begin with, if they hold a whole one of this generation and place. Its content is in plain
/// there then.
pub(crate) fn open<S: Storage>(
    bytes: &mut [u8],
    place: u64,
    generation: &Generation,
    seal: Option<&Seal>,
    medium: &Medium<S>,
) -> Result<Option<Record>> {
    match seal {
        None => Ok(record::decode(bytes, place, generation)),
        Some(seal) => seal.open(bytes, place, generation, medium),
    }
}

/// The whole record of this kind at a place that the log itself names.
pub(crate) fn load<S: Storage>(
    medium: &Medium<S>,
    generation: &Generation,
    seal: Option<&Seal>,
    kind: u8,
    place: u64,
) -> Result<Loaded> {
    let loaded = load_any(medium, generation, seal, place)?;
    if loaded.record.kind != kind {
        return Err(Error::damaged(place, "a record is of another kind"));
    }
    Ok(loaded)
}

/// The same of any kind.
fn load_any<S: Storage>(
    medium: &Medium<S>,
    generation: &Generation,
    seal: Option<&Seal>,
    place: u64,
) -> Result<Loaded> {
    let damaged = || Error::damaged(place, "a record is not whole");
    let mut bytes = medium.read(place, GUESS)?;
    let len = length(&bytes).ok_or_else(damaged)?;
    if len > bytes.len() {
        bytes = medium.read(place, len)?;
    }
    let found = open(&mut bytes, place, generation, seal, medium)?;
    let record = found.ok_or_else(damaged)?;
    if seal.is_some_and(|seal| !seal.may_have(&record, place)) {
        return Err(Error::damaged(
            place,
            "a record that was cut off stands there",
        ));
    }
    Ok(Loaded { bytes, record })
}

/// The link of the record at a place that the file names, if one of this generation is there.
pub(crate) fn link_at<S: Storage>(
    medium: &Medium<S>,
    generation: &Generation,
    seal: Option<&Seal>,
    place: u64,
) -> Result<Option<u32>> {
    match load_any(medium, generation, seal, place) {
        Ok(loaded) => Ok(Some(loaded.record.link)),
        Err(Error::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl<S: Storage> Records<'_, S> {
    /// Appends a record, and gives its place. If it vouches for others, it can be opened without them.
    pub fn append(&mut self, kind: u8, content: &[u8], vouches: bool) -> Result<u64> {
        let place = self.medium.tail();
        let mut bytes = Vec::new();
        let link = *self.link;
        let next = match &mut self.seal {
            None => record::encode(kind, link, content, place, self.generation, &mut bytes)?,
            Some(seal) => {
                let record = NewRecord {
                    kind,
                    link,
                    content,
                    is_carrier: vouches,
                };
                seal.seal(record, place, self.generation, &mut bytes)?
            }
        };
        self.medium.append(&mut bytes)?;
        *self.link = next;
        Ok(place)
    }
}

impl<S: Storage> ReadNode for Records<'_, S> {
    fn node(&self, place: u64) -> Result<(u32, Node)> {
        let seal = self.seal.as_deref();
        let loaded = load(self.medium, self.generation, seal, NODE, place)?;
        let node = Node::decode(loaded.content(), place);
        node.ok_or_else(|| Error::damaged(place, "a node is not valid"))
    }
}

impl<S: Storage> WriteNode for Records<'_, S> {
    fn write_node(&mut self, index: u32, node: &Node) -> Result<u64> {
        let mut content = Vec::new();
        node.encode(index, self.medium.tail(), &mut content)?;
        self.append(NODE, &content, false)
    }
}

/// Whether the bytes from `place` on, where no record follows, hold a later one that says that a sync had returned for
/// more than what is before `place`.
pub(crate) fn is_vouched_for<S: Storage>(
    medium: &Medium<S>,
    generation: &Generation,
    seal: Option<&Seal>,
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
        let mut record = rest.get(..len).unwrap_or_default();
        let mut copied = Vec::new();
        if seal.is_some() {
            let told = SealedRecord::decode(record);
            if !told.is_some_and(|told| matches!(told.salt, SaltAt::Here(_))) {
                continue;
            }
            copied = copy(record)?;
            hashed += OPENING;
        }
        hashed += len;
        if hashed > HASHED_MAX {
            break;
        }
        let at = place + at as u64;
        let found = match seal {
            None => record::decode(record, at, generation),
            Some(seal) => {
                let found = seal.open(&mut copied, at, generation, medium)?;
                record = &copied;
                found
            }
        };
        let content = |found: &Record| record.get(found.content.clone()).unwrap_or_default();
        if found.is_some_and(|found| witness(found.kind, content(&found), at, generation) > place) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The place up to which a record says that everything was synced.
fn witness(kind: u8, content: &[u8], place: u64, generation: &Generation) -> u64 {
    let told = match kind {
        FRAME => Frame::decode(content, place, generation).and_then(|frame| frame.witness),
        ROOT => Root::decode(content, place).map(|(root, _)| root.witness),
        _ => None,
    };
    told.unwrap_or(0)
}
