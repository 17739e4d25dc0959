//! Beginning a generation: what has to be durable before its slot is written, and the commit of the file that it stands
//! on.

use litepack_io::storage::Storage;

use super::Log;
use crate::binding::{BaseCommit, Binding, FileState};
use crate::error::{Error, Result};
use crate::format::head::{
    Generation, HEAD_LEN, Head, RECORDS_START, SLOT_OFFSETS, WAL_HEADER_LEN, may_stand, page_size,
};
use crate::generation::Opened;
use crate::medium::FIRST_LEN;

/// So many generations are begun until none of the file's commits comes in between. The next one stands on nothing.
const BEGINNINGS_MAX: usize = 4;

impl<S: Storage> Log<S> {
    /// Begins a generation.
    pub(super) fn begin(&mut self, wal_header: [u8; WAL_HEADER_LEN]) -> Result<()> {
        let page_size = page_size(&wal_header).map_err(Error::Refused)?;
        self.refresh()?;
        let next = next_of(self.state()?);
        for _ in 0..BEGINNINGS_MAX {
            let base = self.base_commit()?;
            self.begin_on(base, next, wal_header, page_size)?;
            // One who made another commit meanwhile has not seen the slot, nor has who came after that. The slot is
            // not written again: others may have read it, and one that is torn brings the generation before back.
            if base.is_none() || self.base_commit()? == base {
                return Ok(());
            }
        }
        self.begin_on(None, next, wal_header, page_size)
    }

    /// The commit that a generation may stand on.
    fn base_commit(&self) -> Result<Option<BaseCommit>> {
        match &self.file {
            Some(file) => Ok(file.base_commit()?),
            None => Ok(None),
        }
    }

    /// Begins a generation that stands on this commit of the file, for which [`next_of`] is still the same.
    fn begin_on(
        &mut self,
        base: Option<BaseCommit>,
        next: Option<NextLog>,
        wal_header: [u8; WAL_HEADER_LEN],
        page_size: usize,
    ) -> Result<()> {
        let keys = self.keys.clone();
        let is_refused = self.refused.is_some();
        let following = match Head::decode(&self.head, keys.as_deref()) {
            // Its number is not vouched for if it is not this file's.
            Head::Newest { generation, .. }
                if is_refused || generation.refused_key(keys.as_deref()).is_some() =>
            {
                None
            }
            Head::Newest {
                generation, slot, ..
            } => generation.seq.checked_add(1).map(|seq| (seq, 1 - slot)),
            Head::Empty | Head::Torn | Head::Broken => Some((now(), 0)),
        };
        let is_cut = following.is_none();
        let (seq, slot) = following.unwrap_or((now(), 0));
        let state = self.state()?;
        // Commits of maintenance keep it, and there are no others now.
        if next_of(state) != next {
            return Err(Error::Io(std::io::Error::other(
                "the database has become an earlier one while its log was begun: the disk has lost a write, or the \
                 file was replaced while it was in use",
            )));
        }
        let binding = match &state {
            Some(state) => Binding::new(state)?,
            None => Binding::default(),
        };
        if let Some(file) = self.file.as_ref().filter(|_| self.opened.is_none()) {
            // Else the log before this one has seen to that.
            file.make_durable()?;
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| Error::Io(std::io::Error::other(error)))?;
        let generation = Generation {
            seq,
            id,
            wal_header,
            page_size,
            binding,
            base: base.filter(|_| state.is_some()),
            signature: None,
        };
        let generation = generation.signed(keys.as_deref());
        if !is_cut {
            self.make_former_durable(&generation)?;
            self.clear_first_place()?;
        }
        self.forget();
        let offset = SLOT_OFFSETS.get(slot).copied().unwrap_or(0);
        if is_cut {
            // Nothing in plain stays in the log of an encrypted file, and no slot with a higher number, also after a
            // power loss.
            self.medium.storage().truncate(0)?;
            self.sync_file()?;
        }
        self.medium.begin()?;
        (self.medium.storage()).write_at(&generation.encode(), offset)?;
        self.head = self.medium.read(0, HEAD_LEN)?;
        self.opened = Some(Opened::new(generation, keys.as_ref()));
        self.is_begun = true;
        self.seen = self.view;
        Ok(())
    }

    /// Before a slot is written: what the head says is durable, also that it says nothing. A power loss that takes one
    /// slot and tears the next would bring back a generation that stands on what is gone. If no slot stands on anything,
    /// and none is to, there is nothing of the kind.
    fn make_former_durable(&mut self, next: &Generation) -> Result<()> {
        let may_stand = next.base.is_some() || may_stand(&self.head);
        if may_stand && !self.synced.has(self.id()) {
            self.sync_file()?;
        }
        Ok(())
    }

    /// Where the generation before has no record, one of an earlier generation may stand at its first place. If the next
    /// slot is torn, that would be taken for one of the generation that the slot was to describe. Before this the slot of
    /// the generation before is durable: what is there may be needed without it.
    fn clear_first_place(&mut self) -> Result<()> {
        if self.opened.is_none() || self.medium.tail() > RECORDS_START {
            return Ok(());
        }
        let mut first = self.medium.read(RECORDS_START, FIRST_LEN)?;
        if first.iter().any(|byte| *byte != 0) {
            if !self.synced.has(self.id()) {
                self.sync_file()?;
            }
            first.fill(0);
            self.medium.storage().write_at(&first, RECORDS_START)?;
            self.sync_file()?;
        }
        Ok(())
    }
}

/// A file, and the number that its next log begins after.
type NextLog = ([u8; 16], u64);

fn next_of(state: Option<FileState>) -> Option<NextLog> {
    state.map(|state| (state.identity, state.next))
}

/// Nanoseconds since 1970: more than the seq of any generation that was cut off the file before. If a power loss undoes
/// that cut, and not what was written after it, the newest generation is still the one with the highest seq.
fn now() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
