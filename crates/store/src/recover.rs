//! Which commit a file is at, decided from its two slots and the mark of durability.
//!
//! A commit is published with one flush: data and record go to the medium in any order, so after a
//! power loss the newest record may be there without all of its data. Such a record is told apart by
//! reading everything it refers to that the other slot's commit does not; if anything is missing, the
//! other commit is the current one. docs/design.md argues each case.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::{
    DATA_START, MARK_LEN, MARK_OFFSET, OFFSET_LIMIT, Pointer, RECORD_LEN, SLOT_OFFSETS, UNIT_MAX,
    UNIT_MIN,
};
use crate::leaf::Entry;
use crate::map::{HEIGHT_MAX, NodeSource};
use crate::medium::Medium;
use crate::node::Node;
use crate::record::{Record, decode_mark};
use crate::space::{CHAIN_MAX, Link, decode_link};

/// Times the slots are read again when a record looks torn, each time after twice as long a pause, 31 ms
/// in all: a live writer may have been interrupted between two bytes, and the other slot's commit would
/// be an old one.
const TORN_RETRIES: u32 = 5;

/// The bytes of both slots, to notice any change with one comparison.
pub(crate) type Slots = [[u8; RECORD_LEN]; 2];

/// The slots of a file that has none yet.
pub(crate) const NO_SLOTS: Slots = [[0; RECORD_LEN]; 2];

/// A commit and where its record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) record: Record,
    pub(crate) slot: usize,
    /// Known to have reached the medium.
    pub(crate) durable: bool,
}

/// Reads both slots.
pub(crate) fn read_slots(disk: &impl Disk) -> Result<Slots> {
    let start = SLOT_OFFSETS[0];
    let mut bytes = [0; (MARK_OFFSET - SLOT_OFFSETS[0]) as usize];
    // A file that ends early has empty slots, which is for the caller to judge.
    disk.read_at(&mut bytes, start)?;
    let at = |slot: usize| {
        let from = (SLOT_OFFSETS[slot] - start) as usize;
        bytes[from..from + RECORD_LEN]
            .try_into()
            .expect("a slot is longer than a record")
    };
    Ok([at(0), at(1)])
}

/// Decides the current commit. `live` says that this handle has seen the file at an earlier commit,
/// so that what is there now was written by a running process and cannot be half on the medium.
pub(crate) fn current<D: Disk>(medium: &Medium<D>, live: bool) -> Result<(Commit, Slots)> {
    let mut attempt = 0;
    loop {
        let slots = read_slots(&medium.disk)?;
        match judge(medium, &slots, live) {
            Ok(Verdict::Current(commit)) => return Ok((commit, slots)),
            Ok(Verdict::Torn(_)) if attempt < TORN_RETRIES => {
                std::thread::sleep(Duration::from_millis(1 << attempt));
                attempt += 1;
            }
            Ok(Verdict::Torn(commit)) => return Ok((commit, slots)),
            // A writer may have moved on while its former commit was being read, and reused what was missing.
            Ok(Verdict::Incomplete(_)) | Err(_) if read_slots(&medium.disk)? != slots => {}
            Ok(Verdict::Incomplete(former)) => return Ok((former, slots)),
            Err(error) => return Err(error),
        }
    }
}

enum Verdict {
    Current(Commit),
    /// The other slot does not hold a valid record although it was written to.
    Torn(Commit),
    /// Not all of the newest commit is there; the one before.
    Incomplete(Commit),
}

fn judge<D: Disk>(medium: &Medium<D>, slots: &Slots, live: bool) -> Result<Verdict> {
    let [a, b] = [0, 1].map(|slot| Record::decode(&slots[slot], medium.uuid).map(|r| (r, slot)));
    let mut mark = [0; MARK_LEN];
    medium.disk.read_at(&mut mark, MARK_OFFSET)?;
    let marked = decode_mark(&mark, medium.uuid);
    let (newest, other) = match (a, b) {
        (Some(a), Some(b)) if a.0.seq >= b.0.seq => (a, Some(b)),
        (a, Some(b)) => (b, a),
        (Some(a), None) => (a, None),
        (None, None) => {
            let why = "both commit records are unreadable";
            return Err(Error::damaged("commit records", SLOT_OFFSETS[0], why));
        }
    };
    let (record, slot) = newest;
    if marked > record.seq {
        let why = format!(
            "commit {marked} was durable, but only commit {} is there",
            record.seq
        );
        return Err(Error::damaged("commit record", SLOT_OFFSETS[1 - slot], why));
    }
    validate(&record, slot)?;
    let durable = marked == record.seq;
    if durable || live || record.synced || is_complete(medium, &record, other.map(|(r, _)| r))? {
        let commit = Commit {
            record,
            slot,
            durable,
        };
        let torn = other.is_none() && slots[1 - slot] != [0; RECORD_LEN];
        return Ok(if torn {
            Verdict::Torn(commit)
        } else {
            Verdict::Current(commit)
        });
    }
    match other {
        Some((record, slot)) => {
            validate(&record, slot)?;
            Ok(Verdict::Incomplete(Commit {
                record,
                slot,
                durable: true,
            }))
        }
        None => Err(Error::damaged(
            "newest commit",
            SLOT_OFFSETS[slot],
            "incomplete, and no other",
        )),
    }
}

/// A record that its checksum vouches for can still come from a hostile file.
fn validate(record: &Record, slot: usize) -> Result<()> {
    let sane = record.unit_size.is_power_of_two()
        && (UNIT_MIN..=UNIT_MAX).contains(&record.unit_size)
        && record.height <= HEIGHT_MAX
        && (DATA_START..=OFFSET_LIMIT).contains(&record.end)
        && record.size <= i64::MAX as u64
        && record.free_bytes <= record.end
        && record.stored_bytes <= record.end
        && record.stored_units <= record.stored_bytes
        && (record.height == 0) == record.map.is_none();
    if sane {
        Ok(())
    } else {
        Err(Error::damaged(
            "commit record",
            SLOT_OFFSETS[slot],
            "implausible values",
        ))
    }
}

/// Whether everything `record` refers to, and `base` does not, is on the medium.
fn is_complete<D: Disk>(medium: &Medium<D>, record: &Record, base: Option<Record>) -> Result<bool> {
    let (base_map, base_catalog, base_space) = match &base {
        Some(base) => {
            let map = base.height.checked_sub(1).map(|level| (base.map, level));
            (map, base.catalog, base.space)
        }
        None => (None, Pointer::NONE, Pointer::NONE),
    };
    let verified = || -> Result<()> {
        // Commits between the two, none of them flushed, may have added links of their own.
        let mut link = record.space;
        let mut links = 0;
        while !link.is_none() && link != base_space && links <= CHAIN_MAX {
            links += 1;
            let bytes = medium.extent(link, "free-space chain")?;
            link = match decode_link(&bytes) {
                Some(Link::Changes { before }) => before,
                Some(Link::Snapshot) => break,
                None => return Err(Error::damaged("free-space chain", link.offset, "malformed")),
            };
        }
        if !record.catalog.is_none() && record.catalog != base_catalog {
            let bytes = medium.extent(record.catalog, "catalog")?;
            let damaged = || Error::damaged("catalog", record.catalog.offset, "malformed");
            let known: Vec<Pointer> = medium
                .extent(base_catalog, "catalog")
                .ok()
                .and_then(|bytes| Catalog::decode(&bytes))
                .map_or(Vec::new(), |catalog| catalog.pointers().collect());
            for pointer in Catalog::decode(&bytes).ok_or_else(damaged)?.pointers() {
                if !known.contains(&pointer) {
                    medium.extent(pointer, "dictionary")?;
                }
            }
        }
        if !record.bundle.is_none() && base.is_none_or(|base| base.bundle != record.bundle) {
            medium.extent(record.bundle, "bundle")?;
        }
        if record.height > 0 {
            let mut scratch = Vec::new();
            verify_tree(
                medium,
                record.map,
                base_map,
                record.height - 1,
                &mut scratch,
            )?;
        }
        Ok(())
    };
    match verified() {
        Ok(()) => Ok(true),
        Err(Error::Damaged(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Verifies the subtree below `pointer`, leaving out what the subtree `base` (with its level, which
/// is lower when the tree has grown since) has in common with it.
fn verify_tree<D: Disk>(
    medium: &Medium<D>,
    pointer: Pointer,
    base: Option<(Pointer, u8)>,
    level: u8,
    scratch: &mut Vec<u8>,
) -> Result<()> {
    if pointer.is_none() || Some((pointer, level)) == base {
        return Ok(());
    }
    let node = medium.node(pointer, level)?;
    let base = base.filter(|(pointer, _)| !pointer.is_none());
    let base_node: Option<Arc<Node>> = base
        .filter(|(_, base_level)| *base_level == level)
        .and_then(|(pointer, _)| medium.node(pointer, level).ok());
    match (&*node, base_node.as_deref()) {
        (Node::Inner(children), base_node) => {
            for (index, child) in children.iter().enumerate() {
                let base = match (base_node, base) {
                    (Some(Node::Inner(children)), _) => Some((children[index], level - 1)),
                    (None, Some((_, base_level))) if base_level < level && index == 0 => base,
                    _ => None,
                };
                verify_tree(medium, *child, base, level - 1, scratch)?;
            }
        }
        (Node::Leaf(entries), base) => {
            for (slot, entry) in entries.iter().enumerate() {
                let is_known = matches!(base, Some(Node::Leaf(known)) if known.get(slot) == entry);
                if !entry.is_zero() && !is_known {
                    verify_unit(medium, &entry, scratch)?;
                }
            }
        }
    }
    Ok(())
}

/// Reads the stored bytes of a unit into `stored` and checks them against the map.
pub(crate) fn verify_unit<D: Disk>(
    medium: &Medium<D>,
    entry: &Entry,
    stored: &mut Vec<u8>,
) -> Result<()> {
    if entry.len > UNIT_MAX {
        return Err(Error::damaged("page", entry.offset, "implausible length"));
    }
    stored.resize(entry.len as usize, 0);
    medium.fill(stored, entry.offset, "page")?;
    if medium.uuid.sum32(stored) != entry.sum {
        return Err(Error::damaged("page", entry.offset, "checksum mismatch"));
    }
    Ok(())
}
