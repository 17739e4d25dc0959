//! Free space: which bytes below the end of the file are unused, and when they may be used again.
//!
//! A byte freed by a commit is still needed for as long as a crash could make the file fall back to
//! the last durable commit. So freed bytes wait:
//! - bytes taken in this very transaction are free again at once: no commit has ever named them;
//! - bytes taken since the last durable commit are free once the running commit is published;
//! - all others are free once a commit that no longer names them is durable.
//!
//! Free space that is [held](crate::space::held) for others is left alone as long as they need it. On disk it is free as
//! all else.
//!
//! On disk, free space (waiting or not) is a chain: a snapshot of the set, then the changes of each
//! commit since, rewritten as a new snapshot when the chain would be the longer of the two.

use std::ops::Range;

use litepack_io::bytes::{Reader, put_varint, unzigzag, zigzag};

use crate::error::{Error, Result};
use crate::format::layout::{LOCK_BYTES, OFFSET_LIMIT, Pointer};
use crate::format::offset::FileOffset;
use crate::space::allocate::ExtentKind;
use crate::space::blocks::Blocks;
use crate::space::held::{Held, Needed};
use crate::space::ranges::{Holes, RangeSet};
use crate::space::small::Taken;

/// Longest chain of changes on a snapshot: bounds the reads needed before a first write.
pub(crate) const CHAIN_MAX: usize = 32;
const TOO_LONG: Error = Error::Limit("files end at 256 TiB");
/// Encoded bytes one range or change takes at most.
const RANGE_BYTES_MAX: usize = 20;

/// One change to the set of free bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    freed: bool,
    offset: FileOffset,
    len: u64,
}

/// Free space of a file that is being written.
#[derive(Debug)]
pub(crate) struct Space {
    free: Holes,
    /// Free as well, and held for others.
    kept: RangeSet,
    held: Held,
    /// Freed, to be free once the running commit is published.
    after_commit: RangeSet,
    /// Freed, to be free once a commit published after now is durable.
    after_flush: RangeSet,
    /// Taken in the running transaction.
    fresh: RangeSet,
    /// Taken by commits since the last durable one.
    unflushed: RangeSet,
    end: FileOffset,
    changes: Vec<Change>,
    /// The chain on disk, newest first.
    chain: Vec<Pointer>,
    /// The next link has to take the whole chain's place, because a part of it is where it should not be.
    renew: bool,
    /// Where the newest commit's units and nodes end.
    near: [FileOffset; 2],
    /// What the next flush writes anyway.
    pub(super) blocks: Blocks,
    pub(super) taken: Taken,
    /// The file may get longer although something is free.
    pub(super) may_grow: bool,
}

/// One link of the chain on disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Snapshot,
    Changes { before: Pointer },
}

impl Space {
    /// The space of a file with no free bytes.
    pub(crate) fn new(end: FileOffset) -> Space {
        Space {
            free: Holes::default(),
            kept: RangeSet::default(),
            held: Held::default(),
            after_commit: RangeSet::default(),
            after_flush: RangeSet::default(),
            fresh: RangeSet::default(),
            unflushed: RangeSet::default(),
            end,
            changes: Vec::new(),
            chain: Vec::new(),
            renew: false,
            near: [FileOffset::START; 2],
            blocks: Blocks::default(),
            taken: Taken::default(),
            may_grow: false,
        }
    }

    /// Reads the chain that begins at `head` in a file of `file_len` bytes that has its extents in this range, and whose
    /// commit is durable.
    pub(crate) fn load(
        head: Pointer,
        extents: Range<FileOffset>,
        file_len: u64,
        mut read: impl FnMut(Pointer) -> Result<Vec<u8>>,
    ) -> Result<Space> {
        let Range { start, end } = extents;
        let mut space = Space::new(end);
        let mut links = Vec::new();
        let (mut next, mut left) = (head, file_len);
        while !next.is_none() {
            let damaged = |why: &str| Error::damaged("free-space chain", next.offset, why);
            if links.len() > CHAIN_MAX {
                return Err(damaged("too long"));
            }
            // Links that overlap could take many times the memory that the file takes on the disk.
            left = left
                .checked_sub(next.len.into())
                .ok_or_else(|| damaged("longer than the file"))?;
            let bytes = read(next)?;
            let link = decode_link(&bytes).ok_or_else(|| damaged("malformed"))?;
            space.chain.push(next);
            next = match link {
                Link::Changes { before } if !before.is_none() => before,
                Link::Changes { .. } => return Err(damaged("has no snapshot")),
                Link::Snapshot => Pointer::NONE,
            };
            links.push(bytes);
        }
        for (bytes, pointer) in links.iter().zip(&space.chain).rev() {
            // Malformed changes were refused above.
            for change in changes_in(bytes).into_iter().flatten().flatten() {
                litepack_io::memory::check()?;
                let done = if change.freed {
                    change.offset >= start && space.free.insert(change.offset, change.len)
                } else {
                    space.free.remove(change.offset, change.len)
                };
                if !done {
                    let why = "contradicts itself";
                    return Err(Error::damaged("free-space chain", pointer.offset, why));
                }
            }
        }
        match space.free.last() {
            Some((offset, len)) if offset + len > end => Err(Error::damaged(
                "free-space chain",
                head.offset,
                "reaches past the end",
            )),
            _ => Ok(space),
        }
    }

    /// End of the used part of the file.
    pub(crate) fn end(&self) -> FileOffset {
        self.end
    }

    /// Bytes below the end that are not free, or held. 0 where a hostile file has a range free twice, which [`Self::all_free`] tells.
    pub(crate) fn used_bytes(&self) -> u64 {
        let free = self.free_bytes().saturating_sub(self.kept.total());
        self.end.bytes_since(FileOffset(free))
    }

    /// Free bytes below the end, waiting and held ones included.
    pub(crate) fn free_bytes(&self) -> u64 {
        let waiting = self.after_commit.total() + self.after_flush.total();
        self.free.total() + self.kept.total() + waiting
    }

    /// Those of them that are held.
    pub(crate) fn held_bytes(&self) -> u64 {
        let waiting = self.after_commit.iter().chain(self.after_flush.iter());
        let parts = waiting.flat_map(|(offset, len)| self.held.within(offset..offset + len));
        self.kept.total() + parts.map(|(_, len)| len).sum::<u64>()
    }

    /// Whether anything is held.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_nothing()
    }

    /// All free ranges below the end, waiting and held ones included.
    ///
    /// # Errors
    /// When a range is free twice, as a hostile chain can have it.
    pub(crate) fn all_free(&self) -> Result<RangeSet> {
        let mut all = self.free.ranges();
        let disjoint = all.absorb(&mut self.kept.clone())
            && all.absorb(&mut self.after_commit.clone())
            && all.absorb(&mut self.after_flush.clone());
        self.check(disjoint, self.end)?;
        Ok(all)
    }

    /// The parts of the free ranges that are held, in this part of the file.
    pub(crate) fn kept_within(
        &self,
        part: Range<FileOffset>,
    ) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        self.kept.within(part)
    }

    /// The free ranges that are not held.
    pub(crate) fn not_held(&self) -> RangeSet {
        self.free.ranges()
    }

    /// Whether this is held, and nothing else.
    pub(crate) fn holds(&self, needed: &Needed) -> bool {
        self.held.is_of(needed)
    }

    /// Whether it is that of a commit after which nothing was taken or freed, and all is durable.
    pub(crate) fn is_settled(&self) -> bool {
        let sets = [
            &self.after_commit,
            &self.after_flush,
            &self.fresh,
            &self.unflushed,
        ];
        sets.iter().all(|set| set.total() == 0)
    }

    /// From now on this is held, and nothing else: not taken, and the file ends behind it.
    pub(crate) fn hold(&mut self, held: Held) -> Result<()> {
        let done = self.free.absorb(&mut self.kept);
        self.check(done, self.end)?;
        self.held = held;
        self.reach(self.held.end())?;
        let Space {
            free, kept, held, ..
        } = self;
        let done = held.ranges().all(|part| keep_back(part, free, kept));
        self.check(done, self.end)
    }

    /// Makes the file end here at least.
    fn reach(&mut self, end: FileOffset) -> Result<()> {
        // None ends within the lock bytes, or right behind them.
        let is_there = LOCK_BYTES.start < end && end <= LOCK_BYTES.end;
        let end = if is_there { LOCK_BYTES.start } else { end };
        if end <= self.end {
            return Ok(());
        }
        if end > OFFSET_LIMIT {
            return Err(TOO_LONG);
        }
        let (before, behind) = (end.min(LOCK_BYTES.start), self.end.max(LOCK_BYTES.end));
        for part in [self.end..before, behind..end] {
            let len = part.end.bytes_since(part.start);
            if len > 0 {
                let done = self.free.insert(part.start, len);
                self.check(done, part.start)?;
                self.log(true, part.start, len)?;
            }
        }
        self.end = end;
        Ok(())
    }

    /// Space that waited is free, except for what is held. It fails for nothing but damage: the commit is made.
    fn set_free(&mut self, waiting: RangeSet) -> Result<()> {
        let mut done = true;
        for (offset, len) in waiting.iter() {
            done &= self.free.insert(offset, len);
            for part in self.held.within(offset..offset + len) {
                done &= keep_back(part, &mut self.free, &mut self.kept);
            }
        }
        self.check(done, self.end)
    }

    /// The extents of the chain on disk.
    pub(crate) fn chain(&self) -> &[Pointer] {
        &self.chain
    }

    /// Makes sure of memory for copies of all that is known, and for what publishing moves: that must not fail.
    pub(crate) fn probe(&self) -> Result<()> {
        let ranges =
            self.free_ranges() + self.held.count() + self.fresh.count() + self.unflushed.count();
        if ranges > FEW_RANGES {
            litepack_io::memory::probe(ranges * RANGE_IN_MEMORY)?;
        }
        Ok(litepack_io::memory::check()?)
    }

    fn free_ranges(&self) -> usize {
        let waiting = self.after_commit.count() + self.after_flush.count();
        self.free.count() + self.kept.count() + waiting
    }

    fn log(&mut self, freed: bool, offset: FileOffset, len: u64) -> Result<()> {
        debug_assert!(len > 0, "a change of nothing cannot be read back");
        if let Some(last) = self.changes.last_mut()
            && last.freed == freed
            && last.offset + last.len == offset
        {
            last.len += len;
            return Ok(());
        }
        let change = Change { freed, offset, len };
        Ok(litepack_io::memory::push(&mut self.changes, change)?)
    }

    /// Takes `len` bytes.
    ///
    /// # Errors
    /// [`Error::Limit`] when the file would outgrow 48-bit offsets.
    pub(crate) fn alloc(&mut self, len: u64) -> Result<FileOffset> {
        if let Some((offset, _)) = self.free.best_fit(len) {
            self.take(offset, len)?;
            return Ok(offset);
        }
        self.append(len)
    }

    /// Takes `len` bytes behind the end.
    pub(super) fn append(&mut self, len: u64) -> Result<FileOffset> {
        let offset = self.extend(len)?;
        let done = self.fresh.insert(offset, len);
        self.note_taken(offset, len);
        self.check(done, offset)?;
        Ok(offset)
    }

    /// Like [`Space::alloc`], but only from free ranges below the end.
    pub(crate) fn alloc_within(&mut self, len: u64) -> Result<Option<FileOffset>> {
        if self.free.best_fit(len).is_some() {
            self.alloc(len).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The most bytes of a link that is a snapshot.
    pub(crate) fn snapshot_room(&self) -> u64 {
        let ranges = self.free_ranges();
        (16 + (ranges + CHAIN_MAX + 2) * RANGE_BYTES_MAX) as u64
    }

    /// The lowest place from `from` on where `len` bytes are free below `limit`.
    pub(crate) fn first_fit(
        &self,
        from: FileOffset,
        len: u64,
        limit: FileOffset,
    ) -> Option<FileOffset> {
        let mut free = self.free.within(from..limit);
        free.find(|(_, free)| *free >= len)
            .map(|(offset, _)| offset)
    }

    /// Free ranges from here on, as (offset, length), by offset.
    pub(crate) fn holes(&self, from: FileOffset) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        self.free.within(from..FileOffset::MAX)
    }

    /// The ranges of this part of the file that could be taken now, all that lies behind the end included.
    pub(crate) fn free_within(
        &self,
        part: Range<FileOffset>,
    ) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        let behind = part.start.max(self.end)..part.end;
        let behind = (!behind.is_empty()).then(|| (behind.start, behind.end - behind.start));
        let below = self.free.within(part.start..part.end.min(self.end));
        below.chain(behind)
    }

    /// The ranges that the running transaction has taken.
    pub(crate) fn fresh(&self) -> RangeSet {
        self.fresh.clone()
    }

    /// The length of the smallest hole that has room for so much.
    pub(crate) fn smallest(&self, len: u64) -> Option<u64> {
        self.free.best_fit(len).map(|(_, len)| len)
    }

    /// From where on a commit's extents of this kind are placed.
    #[expect(clippy::indexing_slicing, reason = "a kind is 0 or 1")]
    pub(crate) fn near(&self, kind: ExtentKind) -> FileOffset {
        self.near[kind as usize]
    }

    /// The next extents of this kind are to be placed from here on.
    #[expect(clippy::indexing_slicing, reason = "a kind is 0 or 1")]
    pub(crate) fn go_near(&mut self, kind: ExtentKind, offset: FileOffset) {
        self.near[kind as usize] = offset;
    }

    /// Takes `len` free bytes at this place.
    pub(crate) fn take(&mut self, offset: FileOffset, len: u64) -> Result<()> {
        let done = self.free.remove(offset, len) && self.fresh.insert(offset, len);
        self.log(false, offset, len)?;
        self.note_taken(offset, len);
        self.check(done, offset)
    }

    fn note_taken(&mut self, offset: FileOffset, len: u64) {
        self.taken.add(len);
        self.held.touched(offset, len);
        self.will_be_written(offset, len);
    }

    /// Whether the file may get longer although something is free, in this transaction.
    pub(crate) fn set_may_grow(&mut self, may_grow: bool) {
        self.may_grow = may_grow;
    }

    /// The next flush writes these bytes.
    pub(crate) fn will_be_written(&mut self, offset: FileOffset, len: u64) {
        self.blocks.add(offset, len);
    }

    /// What can be taken.
    pub(super) fn free(&self) -> &Holes {
        &self.free
    }

    /// Keeps free bytes in this part of the file from being taken before the next flush, and has the chain leave
    /// it.
    pub(crate) fn set_aside(&mut self, part: Range<FileOffset>) -> Result<()> {
        let mut chain = self.chain.iter();
        let within = |link: &Pointer| link.end() > part.start && link.offset < part.end;
        self.renew |= chain.any(within);
        let free = litepack_io::memory::collect(self.free.within(part))?;
        for (from, len) in free {
            let done = self.free.remove(from, len) && self.after_flush.insert(from, len);
            self.held.touched(from, len);
            self.check(done, from)?;
        }
        Ok(())
    }

    fn extend(&mut self, len: u64) -> Result<FileOffset> {
        let mut offset = self.end;
        if offset < LOCK_BYTES.end && offset + len > LOCK_BYTES.start {
            let gap = LOCK_BYTES.start.bytes_since(offset);
            if gap > 0 {
                let done = self.free.insert(offset, gap);
                self.check(done, offset)?;
                self.log(true, offset, gap)?;
            }
            offset = LOCK_BYTES.end;
        }
        if offset + len > OFFSET_LIMIT {
            return Err(TOO_LONG);
        }
        self.end = offset + len;
        Ok(offset)
    }

    /// Gives back an extent. It becomes free when nothing durable or published needs it.
    pub(crate) fn release(&mut self, offset: FileOffset, len: u64) -> Result<()> {
        litepack_io::memory::check()?;
        let done = if self.fresh.remove(offset, len) {
            self.free.insert(offset, len)
        } else if self.unflushed.remove(offset, len) {
            self.after_commit.insert(offset, len)
        } else {
            self.after_flush.insert(offset, len)
        };
        self.check(done, offset)?;
        self.log(true, offset, len)
    }

    fn check(&self, done: bool, offset: FileOffset) -> Result<()> {
        if done {
            Ok(())
        } else {
            Err(Error::damaged("free space", offset, "two owners"))
        }
    }

    /// Drops free ranges at the end of the file from the set and lowers the end.
    fn give_back_tail(&mut self) -> Result<()> {
        while let Some((offset, len)) = self.free.last()
            && offset + len == self.end
        {
            let done = self.free.remove(offset, len);
            self.check(done, offset)?;
            self.log(false, offset, len)?;
            // The lock bytes are in no set; a file never ends within or right behind them.
            self.end = if offset == LOCK_BYTES.end {
                LOCK_BYTES.start
            } else {
                offset
            };
        }
        Ok(())
    }

    /// Appends the commit's link to `out` and takes space for it. Call after everything else of the
    /// commit has its place; then [`Space::published`] with the link's pointer. `stored` says how long its extent is.
    pub(crate) fn write_link(
        &mut self,
        out: &mut Vec<u8>,
        stored: impl Fn(usize) -> usize,
    ) -> Result<FileOffset> {
        self.probe()?;
        self.give_back_tail()?;
        let ranges = self.free_ranges();
        let snapshot = self.renew
            || self.chain.is_empty()
            || self.chain.len() >= CHAIN_MAX
            || self.changes.len() + self.chain.len() >= ranges / 4;
        let start = out.len();
        if snapshot {
            for pointer in std::mem::take(&mut self.chain) {
                self.release(pointer.offset, pointer.len.into())?;
            }
            #[expect(clippy::cast_possible_truncation, reason = "it was counted as `usize`")]
            let room = self.snapshot_room() as usize;
            let len = self.encoded_snapshot(&mut litepack_io::memory::with_room(room)?)?
                + RANGE_BYTES_MAX;
            litepack_io::memory::room(out, len)?;
            let stored = stored(len) as u64;
            let offset = self.alloc_beside(stored, stored)?;
            self.encoded_snapshot(out)?;
            pad(out, start + len)?;
            Ok(offset)
        } else {
            // Taking the link's own space is itself one change, or two if it crosses the lock bytes.
            #[expect(clippy::indexing_slicing, reason = "without a chain it is a snapshot")]
            let before = self.chain[0];
            let room = (self.changes.len() + CHAIN_MAX) * RANGE_BYTES_MAX;
            let mut scratch = litepack_io::memory::with_room(room)?;
            let len = encoded_changes(before, &self.changes, &mut scratch) + 2 * RANGE_BYTES_MAX;
            litepack_io::memory::room(out, len)?;
            let stored = stored(len) as u64;
            let offset = self.alloc_beside(stored, stored)?;
            encoded_changes(before, &self.changes, out);
            pad(out, start + len)?;
            Ok(offset)
        }
    }

    fn encoded_snapshot(&self, out: &mut Vec<u8>) -> Result<usize> {
        let start = out.len();
        let all = self.all_free()?;
        out.push(LINK_SNAPSHOT);
        let ranges = all.iter().map(|(offset, len)| Change {
            freed: true,
            offset,
            len,
        });
        put_changes(out, all.count(), ranges);
        Ok(out.len() - start)
    }

    /// The commit whose newest link is `head` is published.
    pub(crate) fn published(&mut self, head: Pointer) -> Result<()> {
        self.chain.insert(0, head);
        self.renew = false;
        self.changes.clear();
        self.taken.published();
        let done = self.unflushed.absorb(&mut self.fresh);
        self.check(done, head.offset)?;
        let waiting = std::mem::take(&mut self.after_commit);
        self.set_free(waiting)
    }

    /// The newest published commit is durable.
    pub(crate) fn flushed(&mut self) -> Result<()> {
        self.unflushed = RangeSet::default();
        self.blocks.clear();
        let waiting = std::mem::take(&mut self.after_flush);
        self.set_free(waiting)
    }
}

/// Sets aside what is free of a part that is held.
fn keep_back((offset, len): (FileOffset, u64), free: &mut Holes, kept: &mut RangeSet) -> bool {
    loop {
        let next = free.within(offset..offset + len).next();
        let Some((offset, len)) = next else {
            return true;
        };
        if !(free.remove(offset, len) && kept.insert(offset, len)) {
            return false;
        }
    }
}

/// Bytes of a range in memory, in a copy of a set and on its way from one set to another.
const RANGE_IN_MEMORY: usize = 128;
/// So few ranges are small requests, each by itself.
const FEW_RANGES: usize = 4096;

const LINK_SNAPSHOT: u8 = 1;
const LINK_CHANGES: u8 = 2;

/// Fills a link up to the length its space was taken for.
fn pad(out: &mut Vec<u8>, len: usize) -> Result<()> {
    if out.len() > len {
        return Err(Error::Limit(
            "a free-space link outgrew its extent; this is a bug",
        ));
    }
    out.resize(len, 0);
    Ok(())
}

fn encoded_changes(before: Pointer, changes: &[Change], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.push(LINK_CHANGES);
    out.extend(before.offset.0.to_le_bytes());
    out.extend(before.len.to_le_bytes());
    out.extend(before.sum.to_le_bytes());
    put_changes(out, changes.len(), changes.iter().copied());
    out.len() - start
}

/// A link of no changes, behind which a forger puts others.
#[cfg(any(test, fuzzing))]
pub(crate) fn link_behind(before: Pointer, out: &mut Vec<u8>) {
    encoded_changes(before, &[], out);
}

/// Count, then for each: distance from the end of the one before (signed), length * 2 + freed.
fn put_changes(out: &mut Vec<u8>, count: usize, changes: impl Iterator<Item = Change>) {
    put_varint(out, count as u64);
    let mut expected = FileOffset::START;
    for Change { freed, offset, len } in changes {
        put_varint(out, zigzag(offset.jump_from(expected)));
        put_varint(out, len << 1 | u64::from(freed));
        expected = offset + len;
    }
}

/// The kind of link that these bytes are.
pub(crate) fn decode_link(bytes: &[u8]) -> Option<Link> {
    let mut fields = Reader::new(bytes);
    changes_in(bytes)?.try_for_each(|change| change.map(drop))?;
    match fields.u8()? {
        LINK_SNAPSHOT => Some(Link::Snapshot),
        LINK_CHANGES => {
            let (offset, len) = (FileOffset(fields.u64()?), fields.u32()?);
            Some(Link::Changes {
                before: Pointer {
                    offset,
                    len,
                    sum: fields.u64()?,
                },
            })
        }
        _ => None,
    }
}

/// The changes in a link, one after the other; `None` stands for one that is malformed, and nothing follows that.
fn changes_in(bytes: &[u8]) -> Option<impl Iterator<Item = Option<Change>>> {
    let mut fields = Reader::new(bytes);
    if fields.u8()? == LINK_CHANGES {
        fields.bytes(20)?;
    }
    let mut left = fields.varint()?;
    let mut expected = FileOffset::START;
    let mut next = move || {
        let offset = expected.jump(unzigzag(fields.varint()?))?;
        let tagged = fields.varint()?;
        let len = (tagged >> 1 > 0).then_some(tagged >> 1)?;
        expected = offset
            .checked_add(len)
            .filter(|stop| *stop <= OFFSET_LIMIT)?;
        Some(Change {
            freed: tagged & 1 == 1,
            offset,
            len,
        })
    };
    Some(std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let change = next();
        if change.is_none() {
            left = 0;
        }
        Some(change)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::DATA_START;

    /// Of a file made to harm: each link is in the padding of the one before.
    #[test]
    fn links_take_no_more_memory_than_the_file_has() {
        const LEN: u32 = 1000;
        let link = |number: u32| Pointer {
            offset: DATA_START + u64::from(number),
            len: LEN - number,
            sum: 0,
        };
        let links = CHAIN_MAX as u32;
        let mut read = 0;
        let mut bytes_of = |pointer: Pointer| {
            read += pointer.len;
            let number = LEN - pointer.len;
            let mut bytes = vec![0; pointer.len as usize];
            bytes[0] = LINK_SNAPSHOT;
            if number < links {
                let before = link(number + 1);
                bytes[0] = LINK_CHANGES;
                bytes[1..9].copy_from_slice(&before.offset.0.to_le_bytes());
                bytes[9..13].copy_from_slice(&before.len.to_le_bytes());
            }
            Ok(bytes)
        };
        let end = DATA_START + u64::from(LEN);
        // The links themselves are sound.
        Space::load(
            link(0),
            DATA_START..end,
            u64::from(LEN * (links + 1)),
            &mut bytes_of,
        )
        .unwrap();
        let refused =
            Space::load(link(0), DATA_START..end, 2 * u64::from(LEN), &mut bytes_of).unwrap_err();
        assert!(refused.to_string().contains("longer than the file"));
        assert!(read <= LEN * (links + 3), "{read}");
    }
}
