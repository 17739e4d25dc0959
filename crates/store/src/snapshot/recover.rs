//! Which commit a file is at, decided from its two slots and their marks of durability.
//!
//! A commit is published with one flush: data and record go to the medium in any order, so after a
//! power loss the newest record may be there without all of its data. Such a record is told apart by
//! reading everything it refers to that the other slot's commit does not; if anything is missing, the
//! other commit is the current one. That is for power losses alone: where the marks do not bear out that the newest
//! commit can have been cut off, what is missing of it is damage. docs/design.md argues each case.

use std::sync::Arc;
use std::time::Duration;

use litepack_io::storage::ReadAt;

use crate::error::{Damage, Error, Result};
use crate::format::catalog::Catalog;
use crate::format::guard::{Kind, Signer};
use crate::format::layout::{
    MARK_LEN, MARK_OFFSETS, OFFSET_LIMIT, Pointer, RECORD_LEN, SLOT_OFFSETS, UNIT_MAX, UNIT_MIN,
};
use crate::format::leaf::Entry;
use crate::format::node::{Node, TreeKind};
use crate::format::offset::FileOffset;
use crate::format::record::{CommitNumber, CommitRecord, REFERENCES, Record, decode_mark};
use crate::medium::verified::{Medium, NodeSource};
use crate::snapshot::page_map::HEIGHT_MAX;
use crate::space::free_space::{CHAIN_MAX, Link, decode_link};

/// Times the slots are read again when one or a mark is unreadable, each time after twice as long a pause, 31 ms
/// in all: a live writer may have been interrupted between two bytes.
const TORN_RETRIES: u32 = 5;
/// A database has at most this many pages, so at most this many units
/// (<https://sqlite.org/limits.html#max_page_count>).
const UNITS_MAX: u64 = u32::MAX as u64;

/// The bytes of a slot.
pub(crate) type SlotBytes = [u8; RECORD_LEN];

/// The bytes of both slots, to notice any change with one comparison.
pub(crate) type Slots = [SlotBytes; 2];

/// The slots of a file that has none yet.
pub(crate) const NO_SLOTS: Slots = [[0; RECORD_LEN]; 2];

/// The bytes from the first slot to the end of the last mark.
#[expect(
    clippy::cast_possible_truncation,
    reason = "they are offsets below `DATA_START`"
)]
const HEAD_LEN: usize = MARK_OFFSETS[1].0 as usize + MARK_LEN - SLOT_OFFSETS[0].0 as usize;

/// A commit and where its record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) record: Record,
    pub(crate) slot: usize,
    /// Known to have reached the medium.
    pub(crate) durable: bool,
}

/// The result of [`current`].
pub(crate) struct Recovered {
    pub(crate) commit: Commit,
    pub(crate) slots: Slots,
    /// It is not the newest one: that was cut off by a power loss.
    pub(crate) fell_back: bool,
}

/// The slots and the marks, as they were at one moment.
#[derive(PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) slots: Slots,
    marks: [[u8; MARK_LEN]; 2],
}

impl Head {
    pub(crate) fn read(disk: &impl ReadAt) -> Result<Head> {
        let mut bytes = [0; HEAD_LEN];
        // A file that ends early has empty slots, which is for the caller to judge.
        disk.read_at(&mut bytes, SLOT_OFFSETS[0].0)?;
        Ok(Head {
            slots: SLOT_OFFSETS.map(|offset| part(&bytes, offset)),
            marks: MARK_OFFSETS.map(|offset| part(&bytes, offset)),
        })
    }

    /// Whether the marks say that this commit is durable.
    pub(crate) fn marks(&self, seq: CommitNumber, signer: impl Signer) -> bool {
        let mut marks = self.marks.iter().map(|mark| decode_mark(mark, &signer));
        marks.any(|mark| mark == Some(seq))
    }

    /// Whether the mark of a slot can be read.
    #[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
    pub(crate) fn has_mark(&self, slot: usize, signer: impl Signer) -> bool {
        decode_mark(&self.marks[slot], signer).is_some()
    }

    /// Whether a record or a mark is damaged, torn, or half written at the moment.
    fn is_partly_unreadable(&self, signer: impl Signer) -> bool {
        let mut records = self.slots.iter().map(|slot| Record::decode(slot, &signer));
        let mut marks = self.marks.iter().map(|mark| decode_mark(mark, &signer));
        records.any(|record| record.is_none()) || marks.any(|mark| mark.is_none())
    }
}

/// The bytes at an offset of the file, out of bytes that begin with the first slot.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "`bytes` are as long as the offsets that this is called with need"
)]
fn part<const N: usize>(bytes: &[u8], offset: FileOffset) -> [u8; N] {
    let from = (offset - SLOT_OFFSETS[0]) as usize;
    bytes[from..from + N]
        .try_into()
        .expect("a slice of that length")
}

/// Reads both slots.
pub(crate) fn read_slots(disk: &impl ReadAt) -> Result<Slots> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "they are offsets below `DATA_START`"
    )]
    let mut bytes = [0; SLOT_OFFSETS[1].0 as usize + RECORD_LEN - SLOT_OFFSETS[0].0 as usize];
    disk.read_at(&mut bytes, SLOT_OFFSETS[0].0)?;
    Ok(SLOT_OFFSETS.map(|offset| part(&bytes, offset)))
}

/// Decides the current commit. `live` says that this handle has seen the file at an earlier commit,
/// so that what is there now was written by a running process and cannot be half on the medium.
pub(crate) fn current<D: ReadAt>(medium: &Medium<D>, live: bool) -> Result<Recovered> {
    let mut attempt = 0;
    loop {
        let head = Head::read(&medium.disk)?;
        let verdict = judge(medium, &head, live);
        if let Ok(Verdict::Newest(commit)) = verdict {
            return Ok(Recovered {
                commit,
                slots: head.slots,
                fell_back: false,
            });
        }
        // A writer may have moved on while its former commit was being read, and reused what was missing.
        if Head::read(&medium.disk)? != head {
            continue;
        }
        if head.is_partly_unreadable(&medium.guard) && attempt < TORN_RETRIES {
            litepack_io::platform::sleep(Duration::from_millis(1 << attempt));
            attempt += 1;
            continue;
        }
        return verdict.map(
            |(Verdict::Newest(commit) | Verdict::FellBack(commit))| Recovered {
                commit,
                slots: head.slots,
                fell_back: true,
            },
        );
    }
}

enum Verdict {
    Newest(Commit),
    /// The one before the newest, of which not all is there, or not even a record.
    FellBack(Commit),
}

#[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
fn judge<D: ReadAt>(medium: &Medium<D>, head: &Head, live: bool) -> Result<Verdict> {
    let [a, b] =
        [0, 1].map(|slot| Record::decode(&head.slots[slot], &medium.guard).map(|r| (r, slot)));
    let marks = head.marks.map(|mark| decode_mark(&mark, &medium.guard));
    let ((record, slot), other) = match (a, b) {
        (Some(a), Some(b)) if a.0.seq >= b.0.seq => (a, Some(b)),
        (a, Some(b)) => (b, a),
        (Some(a), None) => (a, None),
        (None, None) => {
            let why = "both commit records are unreadable";
            return Err(Error::damaged("commit records", SLOT_OFFSETS[0], why));
        }
    };
    if let Some(lost) = marks.into_iter().flatten().find(|seq| *seq > record.seq) {
        let why = format!(
            "commit {lost} was durable, but only commit {} is there",
            record.seq
        );
        return Err(Error::damaged("commit record", SLOT_OFFSETS[1 - slot], why));
    }
    validate(&record, slot, medium)?;
    let durable = marks.contains(&Some(record.seq));
    let newest = Commit {
        record,
        slot,
        durable,
    };
    let Some((former, at)) = other else {
        // The slot that the next commit was being written to, or damage.
        if !may_be_cut_off(marks, &record, slot) {
            let why = "unreadable, and not for a power loss";
            return Err(Error::damaged("commit record", SLOT_OFFSETS[1 - slot], why));
        }
        return Ok(Verdict::FellBack(newest));
    };
    if durable || live {
        return Ok(Verdict::Newest(newest));
    }
    validate(&former, at, medium)?;
    let Some(missing) = missing_of(medium, &record, &former)? else {
        return Ok(Verdict::Newest(newest));
    };
    if !may_be_cut_off(marks, &former, at) {
        return Err(missing);
    }
    Ok(Verdict::FellBack(Commit {
        record: former,
        slot: at,
        durable: true,
    }))
}

/// Damage of the mark that the newest commit does not need. A check looks for it; [`current`] does not, as it decides
/// nothing then. It is damage because the mark of `newest` was written when the other one was durable: a power loss
/// can have torn it only before there was anything to read in the mark of `newest`.
#[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
pub(crate) fn damage_of_other_mark<D: ReadAt>(
    medium: &Medium<D>,
    newest: &Commit,
) -> Result<Option<Damage>> {
    let (own, other) = (newest.slot, 1 - newest.slot);
    for attempt in 0..=TORN_RETRIES {
        let marks = Head::read(&medium.disk)?.marks;
        let [own, other] = [own, other].map(|slot| decode_mark(&marks[slot], &medium.guard));
        if own != Some(newest.record.seq) || other.is_some() {
            return Ok(None);
        }
        // A live writer may be writing it.
        if attempt < TORN_RETRIES {
            litepack_io::platform::sleep(Duration::from_millis(1 << attempt));
        }
    }
    Ok(Some(Damage {
        what: "mark of durability".into(),
        offset: MARK_OFFSETS[other],
        why:
            "its checksum is wrong; the database is whole, and the next two commits renew the mark"
                .into(),
    }))
}

/// Whether the slot other than that of `former` can hold what a power loss left of a commit that followed
/// `former` directly.
///
/// A commit is written to a slot only when the other slot's is durable. So `former` was, and so was the mark of the
/// slot that was being written, which tells of an older commit in it: that mark is whole, and later than `former` it
/// cannot be. The mark of `former` itself may have been on its way to the medium: it can be old, or torn.
#[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
fn may_be_cut_off(marks: [Option<CommitNumber>; 2], former: &Record, at: usize) -> bool {
    let is_earlier = |seq: CommitNumber| seq <= former.seq;
    marks[1 - at].is_some_and(is_earlier) && marks[at].is_none_or(is_earlier)
}

/// The record in these bytes, which are not from one of the file's slots.
pub(crate) fn record_of<D>(bytes: &CommitRecord, medium: &Medium<D>) -> Result<Record> {
    let record = Record::decode(&bytes.0, &medium.guard).ok_or_else(|| {
        let why = "that of a former commit is none of this file";
        Error::damaged("commit record", FileOffset::START, why)
    })?;
    validate(&record, 0, medium)?;
    Ok(record)
}

/// A record that its checksum vouches for can still come from a hostile file.
#[expect(clippy::indexing_slicing, reason = "a slot is 0 or 1")]
fn validate<D>(record: &Record, slot: usize, medium: &Medium<D>) -> Result<()> {
    if let Some(unknown) = record.unknown() {
        return Err(Error::Unsupported(unknown));
    }
    let pointers = [
        record.map,
        record.catalog,
        record.space,
        record.segment,
        record.items,
    ];
    let has_references = record.features & REFERENCES != 0;
    let sane = record.unit_size.is_power_of_two()
        && (UNIT_MIN..=UNIT_MAX).contains(&record.unit_size)
        && record.height <= HEIGHT_MAX
        && (medium.guard.data_start()..=OFFSET_LIMIT).contains(&record.end)
        // Only here is it known that this divides by no zero.
        && record.size.div_ceil(record.unit_size.into()) <= UNITS_MAX
        && record.free_bytes <= record.end.0
        && record.stored_bytes <= record.end.0
        // Units that are slices of one item take no bytes of their own.
        && (record.stored_units <= record.stored_bytes || has_references)
        && record.stored_units <= UNITS_MAX
        && record.item_count <= record.stored_bytes
        && record.items_height <= HEIGHT_MAX
        && (record.height == 0) == record.map.is_none()
        && (record.items_height == 0) == record.items.is_none()
        && (record.items_height == 0) == (record.item_count == 0)
        && (record.items_height == 0 || has_references)
        && record.difference_bytes <= record.end.0
        && (record.difference_bytes == 0 || has_references)
        && pointers.iter().all(Pointer::is_plausible);
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

/// The error for an extent that is not on the medium, of those that `record` refers to and `base` does not; `None` if
/// all are there.
fn missing_of<D: ReadAt>(
    medium: &Medium<D>,
    record: &Record,
    base: &Record,
) -> Result<Option<Error>> {
    match Verification::new(medium)?.run(record, base) {
        Ok(()) => Ok(None),
        Err(missing @ Error::Damaged(_)) => Ok(Some(missing)),
        Err(error) => Err(error),
    }
}

/// Reads what a commit added to the one before.
struct Verification<'a, D> {
    medium: &'a Medium<D>,
    /// Bytes of extents that may still be read. Extents of a commit do not overlap, so verifying a sound one reads at
    /// most twice what the file has: its own extents, and those of the commit before; a hostile map that names the same
    /// node again and again runs out of them.
    left: u64,
    stored: Vec<u8>,
}

impl<'a, D: ReadAt> Verification<'a, D> {
    fn new(medium: &'a Medium<D>) -> Result<Self> {
        Ok(Verification {
            medium,
            // Not what the records say: a file of a kilobyte may claim to be as long as any.
            left: medium.disk.len()?.saturating_mul(2),
            stored: Vec::new(),
        })
    }

    /// Accounts for reading an extent.
    fn spend(&mut self, offset: FileOffset, len: u32) -> Result<()> {
        let left = self.left.checked_sub(len.into());
        let why = "more extents are named than the file has room for";
        self.left = left.ok_or_else(|| Error::damaged("page map", offset, why))?;
        Ok(())
    }

    fn extent(&mut self, pointer: Pointer, kind: Kind) -> Result<Vec<u8>> {
        self.spend(pointer.offset, pointer.len)?;
        self.medium.extent(pointer, kind)
    }

    fn run(&mut self, record: &Record, base: &Record) -> Result<()> {
        // Commits between the two, none of them flushed, may have added links of their own.
        let mut link = record.space;
        let mut links = 0;
        while !link.is_none() && link != base.space && links <= CHAIN_MAX {
            links += 1;
            let bytes = self.extent(link, Kind::Space)?;
            link = match decode_link(&bytes) {
                Some(Link::Changes { before }) => before,
                Some(Link::Snapshot) => break,
                None => return Err(Error::damaged("free-space chain", link.offset, "malformed")),
            };
        }
        if !record.catalog.is_none() && record.catalog != base.catalog {
            let bytes = self.extent(record.catalog, Kind::Catalog)?;
            let damaged = || Error::damaged("catalog", record.catalog.offset, "malformed");
            let known: Vec<Pointer> = self
                .extent(base.catalog, Kind::Catalog)
                .ok()
                .and_then(|bytes| Catalog::decode(&bytes))
                .map_or(Vec::new(), |catalog| catalog.pointers().collect());
            for pointer in Catalog::decode(&bytes).ok_or_else(damaged)?.pointers() {
                if !known.contains(&pointer) {
                    self.extent(pointer, Kind::Dictionary)?;
                }
            }
        }
        if !record.segment.is_none() && base.segment != record.segment {
            self.extent(record.segment, Kind::Segment)?;
        }
        // Entries of the map name items, which may be others than before where the entries are the same: so the item
        // tree is compared by itself, and no name is followed.
        for kind in [TreeKind::Map, TreeKind::Items] {
            let (root, height) = record.tree(kind);
            if let Some(level) = height.checked_sub(1) {
                let (base, height) = base.tree(kind);
                let base = height.checked_sub(1).map(|level| (base, level));
                self.tree(kind, root, base, level)?;
            }
        }
        Ok(())
    }

    /// Verifies the subtree below `pointer`, leaving out what the subtree `base` (with its level, which
    /// is lower when the tree has grown since) has in common with it.
    fn tree(
        &mut self,
        kind: TreeKind,
        pointer: Pointer,
        base: Option<(Pointer, u8)>,
        level: u8,
    ) -> Result<()> {
        if pointer.is_none() || Some((pointer, level)) == base {
            return Ok(());
        }
        self.spend(pointer.offset, pointer.len)?;
        let node = self.medium.node(pointer, level)?;
        if !node.is_of(kind) {
            return Err(Error::damaged(kind.name(), pointer.offset, "malformed"));
        }
        let base = base.filter(|(pointer, _)| !pointer.is_none());
        let mut base_node: Option<Arc<Node>> = None;
        if let Some((pointer, base_level)) = base
            && base_level == level
        {
            self.spend(pointer.offset, pointer.len)?;
            base_node = self.medium.node(pointer, level).ok();
        }
        match (&*node, base_node.as_deref()) {
            (Node::Inner(children), base_node) => {
                for (index, child) in children.iter().enumerate() {
                    let base = match (base_node, base) {
                        (Some(Node::Inner(known)), _) => {
                            known.get(index).map(|known| (*known, level - 1))
                        }
                        (None, Some((_, base_level))) if base_level < level && index == 0 => base,
                        _ => None,
                    };
                    self.tree(kind, *child, base, level - 1)?;
                }
            }
            (Node::Leaf(entries), base) => {
                for (slot, entry) in entries.iter().enumerate() {
                    let known = match base {
                        Some(Node::Leaf(known)) => known.get(slot),
                        _ => Entry::ZERO,
                    };
                    for extent in entry.extents() {
                        if known.extents().any(|known| known == extent) {
                            continue;
                        }
                        self.spend(extent.offset, extent.len)?;
                        self.medium.stored_unit(&extent, &mut self.stored)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::handle::Snapshot;
    use crate::testing::options;
    use crate::transaction::store::Store;
    use litepack_io::storage::Storage;
    use litepack_io::testing::MemoryStorage;

    /// A record that only serves to be compared with must be as plausible as the one that is opened.
    #[test]
    fn implausible_values_in_the_older_record_are_damage() {
        let forgers: [fn(&mut Record); 8] = [
            |record| record.end = FileOffset::MAX,
            |record| record.end = FileOffset(u64::MAX / 2),
            |record| record.height = u8::MAX,
            |record| record.map.offset = FileOffset(u64::MAX - 2),
            |record| record.catalog.offset = FileOffset::MAX,
            // Lengths are divided by it.
            |record| record.unit_size = 0,
            |record| record.unit_size = 3000,
            |record| record.size = u64::MAX,
        ];
        for (number, forge) in forgers.into_iter().enumerate() {
            let disk = MemoryStorage::default();
            let mut store = Store::open(&disk, options()).unwrap();
            for content in [1, 2] {
                store.write(0, &[content; 4096]).unwrap();
                store.commit().unwrap();
                if content == 1 {
                    store.flush().unwrap();
                }
            }
            let guard = store.snapshot().guard().clone();
            let slots = read_slots(&disk).unwrap();
            std::mem::forget(store);
            let records = slots.map(|slot| Record::decode(&slot, &guard).unwrap());
            let older = usize::from(records[1].seq < records[0].seq);
            let mut record = records[older];
            forge(&mut record);
            disk.write_at(&record.encode(&guard), SLOT_OFFSETS[older].0)
                .unwrap();
            let mut found = Snapshot::open(&disk, &options()).unwrap();
            let refreshed = found.refresh();
            assert!(
                matches!(refreshed, Err(Error::Damaged(_))),
                "{number}: {refreshed:?}"
            );
        }
    }
}
