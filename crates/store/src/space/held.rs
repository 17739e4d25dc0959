//! The part of the file that others need: a log may stand on a commit of it (docs/internals/log.md, "First versions").
//!
//! Who is about to write to a file asks for that, and takes, erases and cuts off nothing of it. Nothing about it is in
//! the file but a flag of the newest commit: without the flag no log stands on anything. So nothing is held any longer
//! than it is needed.

use std::fmt::Debug;
use std::io;
use std::ops::Range;

use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::offset::FileOffset;
use crate::format::record::CommitRecord;
use crate::snapshot::handle::Snapshot;
use crate::snapshot::recover;
use crate::space::ranges::RangeSet;
use crate::transaction::changes::load_space;

/// The part of a file that is needed besides its newest commit.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few of them, and they are passed on at once"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Nothing.
    Nothing,
    /// All that this commit has.
    Commit(CommitRecord),
    /// All that was ever written, as it is not known what is needed of it.
    Everything,
}

/// Knows what others need of a file.
pub trait Needs: Debug + Send {
    /// The part that they need now. When this returns, a power loss does not bring back that they need something else.
    ///
    /// # Errors
    /// When that cannot be found out. Then nothing is written.
    fn needed(&self) -> io::Result<Needed>;

    /// The same as far as can be seen, for an estimate.
    ///
    /// # Errors
    /// As [`Needs::needed`].
    fn seems_needed(&self) -> io::Result<Needed> {
        self.needed()
    }
}

/// The part of a file that is needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    used: RangeSet,
    /// In its place, for the commit that was the newest when it began to be needed.
    since: Option<Since>,
    /// The commit that it is of; `None` if it is nothing, or everything.
    of: Option<CommitRecord>,
}

/// All in a part of the file but what was free at some moment. Of that only the ranges are known that were touched since:
/// the others are free still.
#[derive(Clone, Debug)]
struct Since {
    part: Range<FileOffset>,
    touched: RangeSet,
}

impl Held {
    /// All in this part of the file.
    fn all(part: Range<FileOffset>) -> Held {
        let mut used = RangeSet::default();
        let len = part.end.bytes_since(part.start);
        let disjoint = used.insert(part.start, len);
        debug_assert!(disjoint, "it is the first range");
        Held {
            used,
            ..Held::default()
        }
    }

    /// All in this part of the file that is not free now. It is what this commit has, the newest. Nothing is copied: most
    /// commits touch few of the ranges that are free.
    pub(crate) fn newest(of: CommitRecord, part: Range<FileOffset>) -> Held {
        let touched = RangeSet::default();
        Held {
            since: Some(Since { part, touched }),
            of: Some(of),
            ..Held::default()
        }
    }

    /// These bytes are no longer free, or are set aside.
    pub(crate) fn touched(&mut self, offset: FileOffset, len: u64) {
        if let Some(Since { part, touched }) = &mut self.since {
            let (mut from, end) = (offset.max(part.start), (offset + len).min(part.end));
            while from < end {
                let before = touched.within(from..end).next();
                let (next, len) = before.unwrap_or((end, 0));
                if from < next {
                    let disjoint = touched.insert(from, next.bytes_since(from));
                    debug_assert!(disjoint, "it is between two ranges");
                }
                from = next + len;
            }
        }
    }

    /// All in this part of the file but what is free.
    fn all_but(free: &RangeSet, part: Range<FileOffset>) -> Result<Held> {
        let mut held = Held::default();
        let mut from = part.start;
        for (offset, len) in free.iter() {
            litepack_io::memory::check()?;
            held.add(from..offset);
            from = offset + len;
        }
        held.add(from..part.end);
        Ok(held)
    }

    fn add(&mut self, part: Range<FileOffset>) {
        let disjoint = self
            .used
            .insert(part.start, part.end.bytes_since(part.start));
        debug_assert!(disjoint, "parts come in order");
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.used.total() == 0 && self.since.is_none()
    }

    /// Whether it is all that this commit has.
    pub(crate) fn is_of(&self, needed: &Needed) -> bool {
        match needed {
            Needed::Nothing => self.is_nothing(),
            Needed::Commit(record) => self.of == Some(*record),
            // The file may be longer now.
            Needed::Everything => false,
        }
    }

    /// How many ranges are known for it.
    pub(crate) fn count(&self) -> usize {
        let touched = self.since.as_ref().map(|since| since.touched.count());
        self.used.count() + touched.unwrap_or(0)
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> FileOffset {
        if let Some(since) = &self.since {
            return since.part.end;
        }
        let last = self.used.last();
        last.map_or(FileOffset::START, |(offset, len)| offset + len)
    }

    /// The ranges of it of which something may be free.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        self.used.iter()
    }

    /// The ranges of it in a part of the file that was in use, or set aside.
    pub(crate) fn within(
        &self,
        part: Range<FileOffset>,
    ) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        let since = self.since.iter();
        let untouched = since.flat_map({
            let part = part.clone();
            move |since| since.untouched(part.clone())
        });
        self.used.within(part).chain(untouched)
    }
}

impl Since {
    /// The rest of a part of the file without the ranges that were touched.
    fn untouched(
        &self,
        part: Range<FileOffset>,
    ) -> impl Iterator<Item = (FileOffset, u64)> + use<'_> {
        let (mut from, end) = (part.start.max(self.part.start), part.end.min(self.part.end));
        let touched = self
            .touched
            .within(from..end.max(from))
            .chain([(end.max(from), 0)]);
        let gaps = touched.map(move |(offset, len)| {
            let gap = (from, offset.bytes_since(from));
            from = offset + len;
            gap
        });
        gaps.filter(|(_, len)| *len > 0)
    }
}

impl<D: Storage> Snapshot<D> {
    /// Where that is in the file.
    pub(crate) fn held(&self, needed: &Needed) -> Result<Held> {
        match needed {
            Needed::Nothing => Ok(Held::default()),
            Needed::Commit(record) => match self.held_by(record) {
                // It is not all there any more. If something is needed of it still, that is where it was.
                Err(Error::Damaged(_)) => self.everything(),
                held => held,
            },
            Needed::Everything => self.everything(),
        }
    }

    fn everything(&self) -> Result<Held> {
        let start = self.guard().data_start();
        Ok(Held::all(start..FileOffset(self.disk().len()?).max(start)))
    }

    fn held_by(&self, bytes: &CommitRecord) -> Result<Held> {
        let record = recover::record_of(bytes, self.medium())?;
        let free = load_space(self, &record)?.all_free()?;
        let held = Held::all_but(&free, self.extents(&record))?;
        // Nothing of it was cut off. A forged one could have the file end anywhere.
        if held.end() > FileOffset(self.disk().len()?) {
            let why = "the file ends before it";
            return Err(Error::damaged("former commit", held.end(), why));
        }
        Ok(Held {
            of: Some(*bytes),
            ..held
        })
    }
}
