//! The commit that a handle is at, as the next transaction has to know it: its free space, how to undo it, what of it is
//! durable.
//!
//! All of it is about one commit. When the handle goes to a commit of another handle, all of it is forgotten at once.

use crate::error::Result;
use crate::format::record::CommitNumber;
use crate::space::free_space::Space;
use crate::transaction::undo::Before;

/// All `None` and 0: the commit is another handle's.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// Free space of the commit. The running transaction has it, if there is one.
    space: Option<Space>,
    /// How to undo the commit while it is not durable.
    before: Option<Before>,
    /// Bytes written by commits that are not durable yet.
    unflushed_bytes: u64,
    /// The commit whose mark of durability this handle has written, and whether the mark is durable itself.
    marked: Option<(CommitNumber, bool)>,
    /// No item number below this one, and above those that were used first, is free. `None` if that is not known.
    next_item: Option<u32>,
}

impl Newest {
    /// The handle is at another handle's commit now.
    pub(super) fn forget(&mut self) {
        *self = Newest::default();
    }

    /// The handle has published a commit, with this free space, after that one.
    pub(super) fn published(&mut self, space: Space, before: Before) {
        self.space = Some(space);
        self.before = Some(before);
    }

    /// Whether the handle has written the commit, and has not begun to write after it.
    pub(super) fn knows_space(&self) -> bool {
        self.space.is_some()
    }

    /// The commit's free space, if it is known.
    pub(super) fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    /// This is its free space, which was known before.
    pub(super) fn set_space(&mut self, space: Space) {
        self.space = Some(space);
    }

    /// A transaction begins: it has the free space from now on. The commit before may need what it takes, even if it is
    /// dropped, so the commit can no longer be undone.
    pub(super) fn take_space(&mut self) -> Option<Space> {
        let space = self.space.take()?;
        self.before = None;
        Some(space)
    }

    /// The commit is undone: what to go back to. `None` for another handle's commit, whose durability is no promise of
    /// this one.
    pub(super) fn take_back(&mut self) -> Option<Before> {
        self.space = None;
        self.before.take()
    }

    /// Others may go on from the commit: it is not undone any more.
    pub(super) fn is_settled(&mut self) {
        self.before = None;
    }

    /// So many bytes were written that no flush has had.
    pub(super) fn has_written(&mut self, bytes: u64) {
        self.unflushed_bytes += bytes;
    }

    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.unflushed_bytes
    }

    /// The commit is durable.
    pub(super) fn is_flushed(&mut self) -> Result<()> {
        self.unflushed_bytes = 0;
        self.before = None;
        match &mut self.space {
            Some(space) => space.flushed(),
            None => Ok(()),
        }
    }

    /// Whether the mark of this commit is written, and if so, whether it is durable.
    pub(super) fn mark(&self, seq: CommitNumber) -> Option<bool> {
        self.marked
            .and_then(|(marked, durable)| (marked == seq).then_some(durable))
    }

    /// The mark of this commit is written, and may be durable.
    pub(super) fn has_mark(&mut self, seq: CommitNumber, is_durable: bool) {
        self.marked = Some((seq, is_durable));
    }

    /// The system may have given the mark up.
    pub(super) fn has_no_mark(&mut self) {
        self.marked = None;
    }

    /// The item number to look at first.
    pub(super) fn next_item(&self) -> Option<u32> {
        self.next_item
    }

    /// The number to look at first from now on.
    pub(super) fn set_next_item(&mut self, next: Option<u32>) {
        self.next_item = next;
    }
}
