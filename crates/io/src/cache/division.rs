//! How the kinds of entries divide the budget: equally, among those that the process has used so far.
//!
//! A kind keeps its part when its last handle is closed, since files are opened again. To give parts back and to lend
//! what others do not fill would need entries to be counted by kind at each insertion, and a table of entries forgets
//! with each change of its size a little of what it knows of the past.

use super::{CacheKind, DEFAULT_BUDGET, DEFAULT_BUDGET_OF_MANY};

pub(super) const KINDS: [CacheKind; 3] = [CacheKind::Pages, CacheKind::Frames, CacheKind::Blocks];

/// What the division depends on.
#[derive(Debug)]
pub(super) struct Division {
    /// The budget, if somebody asked for one.
    pub(super) asked: Option<u64>,
    /// Bytes that writers have reserved.
    pub(super) reserved: u64,
    used: [bool; KINDS.len()],
}

impl Division {
    pub(super) fn new(asked: Option<u64>) -> Division {
        Division {
            asked,
            reserved: 0,
            used: [false; KINDS.len()],
        }
    }

    #[expect(clippy::indexing_slicing, reason = "there is an element for each kind")]
    pub(super) fn begin_use(&mut self, kind: CacheKind) {
        self.used[kind as usize] = true;
    }

    #[expect(clippy::indexing_slicing, reason = "there is an element for each kind")]
    fn is_used(&self, kind: CacheKind) -> bool {
        self.used[kind as usize]
    }

    pub(super) fn budget(&self) -> u64 {
        let has_others = self.is_used(CacheKind::Frames) || self.is_used(CacheKind::Blocks);
        self.asked.unwrap_or(if has_others {
            DEFAULT_BUDGET_OF_MANY
        } else {
            DEFAULT_BUDGET
        })
    }

    /// The part of each kind that is used, but for what is reserved.
    pub(super) fn share(&self) -> u64 {
        let used = self.used.iter().filter(|used| **used).count();
        self.budget() / used.max(1) as u64
    }

    /// The part of a kind; `None` if it is not used. Writers reserve from that of pages, at most half.
    pub(super) fn part(&self, kind: CacheKind) -> Option<u64> {
        let share = self.share();
        self.is_used(kind).then(|| match kind {
            CacheKind::Pages => share - self.reserved.min(share / 2),
            CacheKind::Frames | CacheKind::Blocks => share,
        })
    }
}
