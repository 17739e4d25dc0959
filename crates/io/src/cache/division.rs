//! How the kinds of entries divide the budget.
//!
//! A kind that is used alone has all of it. When another one comes, each may count on an equal share. What one
//! does not fill another may have, and what no open handle uses any more goes first; both a little at a time, when
//! somebody has something to put there.

use super::Kind;

pub(super) const KINDS: [Kind; 3] = [Kind::Pages, Kind::Frames, Kind::Blocks];

/// A part moves from kind to kind in pieces of this share of the budget.
const STEPS: u64 = 16;

/// Entries of one kind, as the division sees them.
pub(super) trait Resize {
    /// Changes how many bytes may be kept, and makes the tables if they are not there yet.
    fn resize(&self, bytes: u64);
    /// The bytes that are kept.
    fn weight(&self) -> u64;
    fn clear(&self);
    /// There is no more to be had.
    fn settle(&self);
    /// There may be more to be had.
    fn unsettle(&self);
}

/// Who has the memory, in bytes.
#[derive(Debug)]
pub(super) struct Division {
    pub(super) budget: u64,
    /// What is reserved for other things.
    pub(super) reserved: u64,
    /// What is divided.
    room: u64,
    capacities: [u64; KINDS.len()],
    /// Handles that use a kind, and whether any ever has.
    users: [usize; KINDS.len()],
    known: [bool; KINDS.len()],
}

type Parts<'a> = &'a dyn Fn(Kind) -> &'a dyn Resize;

impl Division {
    pub(super) fn new(budget: u64) -> Division {
        Division {
            budget,
            reserved: 0,
            room: budget,
            capacities: [0; KINDS.len()],
            users: [0; KINDS.len()],
            known: [false; KINDS.len()],
        }
    }

    /// What is left to keep entries in. Half of the budget is, whatever was reserved.
    fn left(&self) -> u64 {
        self.budget - self.reserved.min(self.budget / 2)
    }

    /// What each kind in use may count on.
    pub(super) fn share(&self) -> u64 {
        let in_use = self.users.iter().filter(|users| **users > 0).count();
        self.room / in_use.max(1) as u64
    }

    fn free(&self) -> u64 {
        self.room.saturating_sub(self.capacities.iter().sum())
    }

    #[cfg(test)]
    pub(super) fn capacity(&self, kind: Kind) -> u64 {
        self.capacities[kind as usize]
    }

    /// One more handle uses this kind.
    pub(super) fn claim(&mut self, kind: Kind, parts: Parts<'_>) {
        let at = kind as usize;
        self.users[at] += 1;
        if self.users[at] == 1 {
            self.known[at] = true;
            let wanted = self.share().saturating_sub(self.capacities[at]);
            self.grow(kind, wanted.max(self.free()), parts);
        }
    }

    /// One handle less does.
    pub(super) fn release(&mut self, kind: Kind) {
        let users = &mut self.users[kind as usize];
        *users = users.saturating_sub(1);
    }

    /// Divides what there is now as it was divided before.
    pub(super) fn rescale(&mut self, parts: Parts<'_>) {
        let (before, now) = (self.room, self.left());
        self.room = now;
        let known = self.known.iter().filter(|known| **known).count().max(1) as u64;
        for kind in KINDS.into_iter().filter(|kind| self.known[*kind as usize]) {
            let capacity = &mut self.capacities[kind as usize];
            if before != now {
                *capacity = match before {
                    0 => now / known,
                    _ => (u128::from(*capacity) * u128::from(now) / u128::from(before)) as u64,
                };
                parts(kind).resize(*capacity);
            }
            parts(kind).unsettle();
        }
    }

    /// Gives a kind `wanted` bytes more, or a step, as far as they are to be had.
    pub(super) fn grow(&mut self, kind: Kind, wanted: u64, parts: Parts<'_>) {
        let step = self.room / STEPS;
        let wanted = wanted.max(step);
        let mut gained = self.free().min(wanted);
        let mut others = KINDS.map(|other| (self.capacities[other as usize], other));
        others.sort_by_key(|(capacity, _)| std::cmp::Reverse(*capacity));
        for (capacity, other) in others {
            if other == kind || capacity == 0 || gained >= wanted {
                continue;
            }
            let has = self.capacities[kind as usize] + gained;
            let share = self.share();
            let used = parts(other).weight() + step;
            let kept = match self.users[other as usize] {
                0 => 0,
                _ if has < share => used.min(share),
                _ => used,
            };
            let taken = capacity.saturating_sub(kept).min(wanted - gained);
            if taken > 0 {
                self.capacities[other as usize] -= taken;
                parts(other).resize(capacity - taken);
                parts(other).unsettle();
                gained += taken;
            }
        }
        self.capacities[kind as usize] += gained;
        parts(kind).resize(self.capacities[kind as usize]);
        if gained == 0 {
            parts(kind).settle();
        }
    }
}
