//! How the kinds of entries divide the budget: equally, among those that the process has used so far.
//!
//! A kind keeps its part when its last handle is closed, since files are opened again. To give parts back and to lend
//! what others do not fill would need entries to be counted by kind at each insertion, and a table of entries forgets
//! with each change of its size a little of what it knows of the past.

use super::{CacheKind, DEFAULT_BUDGET, DEFAULT_BUDGET_OF_MANY, FileId, FileSize};
use crate::fixed;
use crate::limits::Share;

pub(super) const KINDS: [CacheKind; 3] = [CacheKind::Pages, CacheKind::Frames, CacheKind::Blocks];

/// The figures the division depends on, in bytes.
#[derive(Debug)]
pub(super) struct Division {
    /// The budget, if the user or the host set one.
    pub(super) asked: Option<u64>,
    /// Bytes that writers have reserved.
    pub(super) reserved: u64,
    /// Memory that the system can take back, at most; `None` where it has no such memory.
    pub(super) system: Option<Share>,
    /// Memory the process may take that the system cannot take back: [`fixed::budget`].
    pub(super) fixed: u64,
    used: [bool; KINDS.len()],
    /// Open packed files, and how many handles each has.
    files: Vec<(FileId, FileSize, usize)>,
}

/// Upper pages of b-trees, map nodes and dictionaries have no more than this, which is enough for a database of 2.7 GB.
/// Entries pushed out of that part go where all pages are.
const UPPER_MAX: u64 = 16 << 20;
/// The copy of a leaf of the page map for so many bytes of a database takes one: 2 KiB for 128 pages of 4 KiB.
const DECODED_PER_COPY: u64 = 256;
/// Copies have twice the room that they need, as there are also those of former leaves, and at most one of so many bytes.
const COPIES_SHARE: u64 = 8;
/// Where files are too large to be kept decoded, one of so many bytes is for decoded pages at least.
const DECODED_MIN: u64 = 4;
/// With less than this, pages stay in memory that is ours alone: what may be taken back comes by the MiB.
const ELASTIC_MIN: u64 = 8 << 20;

impl Division {
    pub(super) fn new(asked: Option<u64>, system: Option<Share>, fixed: u64) -> Division {
        Division {
            asked,
            system,
            fixed,
            reserved: 0,
            used: [false; KINDS.len()],
            files: Vec::new(),
        }
    }

    /// A handle of this file is opened, or tells its size anew.
    pub(super) fn note_file(&mut self, file: FileId, size: FileSize, is_new: bool) {
        match self.files.iter_mut().find(|(known, ..)| *known == file) {
            Some((_, known, handles)) => {
                *known = size;
                *handles += usize::from(is_new);
            }
            None => self.files.push((file, size, 1)),
        }
    }

    /// A handle of this file is closed.
    pub(super) fn forget_file(&mut self, file: FileId) {
        self.files.retain_mut(|(known, _, handles)| {
            *handles -= usize::from(*known == file);
            *handles > 0
        });
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
        let usual = match has_others {
            true => DEFAULT_BUDGET_OF_MANY,
            false => DEFAULT_BUDGET,
        };
        self.asked
            .unwrap_or_else(|| fixed::part_of(self.fixed, usual))
    }

    /// The part of each kind that is used, but for what is reserved.
    pub(super) fn share(&self) -> u64 {
        let used = self.used.iter().filter(|used| **used).count();
        self.budget() / used.max(1) as u64
    }

    /// The part of a kind in memory that is ours alone; `None` if it is not used. Writers reserve from that of pages, at
    /// most half.
    pub(super) fn part(&self, kind: CacheKind) -> Option<u64> {
        let share = self.share();
        self.is_used(kind).then(|| match kind {
            CacheKind::Pages => match self.elastic() {
                0 => share - self.reserved(),
                _ if self.asked.is_none() => share.min(fixed::part_of(self.fixed, UPPER_MAX)),
                _ => self.upper(),
            },
            CacheKind::Frames | CacheKind::Blocks => share,
        })
    }

    /// Bytes for pages in memory that the system may take back.
    pub(super) fn elastic(&self) -> u64 {
        let share = self.share();
        match (self.system, self.asked) {
            _ if !self.is_used(CacheKind::Pages) => 0,
            (Some(system), None) => self.beside_files(system),
            (Some(_), Some(_)) if share >= ELASTIC_MIN => share - self.upper() - self.reserved(),
            _ => 0,
        }
    }

    /// The bytes left for pages when files have theirs in the system's page cache. If all decoded pages fit, nothing
    /// else is needed. If not, stored pages come first: a page that is there takes microseconds to decode, one that is
    /// not has to wait for the disk, and in the same memory there are several times as many.
    fn beside_files(&self, system: Share) -> u64 {
        let (stored, decoded) = (self.sum(|size| size.stored), self.sum(|size| size.decoded));
        if decoded <= system.all {
            return system.all;
        }
        let left = system.part.saturating_sub(stored);
        left.max(system.part / DECODED_MIN)
    }

    /// The share of copies of objects in [`Division::elastic`], in bytes. It is 0 if that is less than the open files
    /// need: when few copies are found, keeping them costs more than it saves.
    pub(super) fn copies(&self) -> u64 {
        let need = self.sum(|size| size.decoded) / DECODED_PER_COPY;
        let most = self.elastic() / COPIES_SHARE;
        if most < need { 0 } else { most.min(2 * need) }
    }

    /// Of all open files.
    fn sum(&self, bytes: fn(&FileSize) -> u64) -> u64 {
        let all = self.files.iter().map(|(_, size, _)| bytes(size));
        all.fold(0, u64::saturating_add)
    }

    /// All together.
    pub(super) fn limit(&self) -> u64 {
        let parts = KINDS.into_iter().filter_map(|kind| self.part(kind));
        self.asked
            .unwrap_or_else(|| parts.sum::<u64>() + self.elastic())
    }

    /// The room in bytes for upper pages when the budget was set.
    fn upper(&self) -> u64 {
        (self.share() / 8).min(UPPER_MAX)
    }

    fn reserved(&self) -> u64 {
        self.reserved.min(self.share() / 2)
    }
}
