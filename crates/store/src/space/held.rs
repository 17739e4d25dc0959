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
    /// The commit that it is of; `None` if it is nothing, or everything.
    of: Option<CommitRecord>,
}

impl Held {
    /// All in this part of the file.
    fn all(part: Range<FileOffset>) -> Held {
        let mut used = RangeSet::default();
        let len = part.end.bytes_since(part.start);
        let disjoint = used.insert(part.start, len);
        debug_assert!(disjoint, "it is the first range");
        Held { used, of: None }
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
        self.used.total() == 0
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

    /// How many ranges it is.
    pub(crate) fn count(&self) -> usize {
        self.used.count()
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> FileOffset {
        let last = self.used.last();
        last.map_or(FileOffset::START, |(offset, len)| offset + len)
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        self.used.iter()
    }

    /// The ranges of it in a part of the file.
    pub(crate) fn within(
        &self,
        part: Range<FileOffset>,
    ) -> impl Iterator<Item = (FileOffset, u64)> + '_ {
        self.used.within(part)
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
