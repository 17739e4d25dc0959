//! A disk that lies once: it reports what it has not done, or did elsewhere, or will undo.
//!
//! Writes of the files that are meant are counted from the moment the lie is armed; reads with [`Lie::ShortRead`],
//! syncs with [`Lie::FailedSync`]. Temporary files are left alone: what is in them is SQLite's own affair.

use crate::disk::SimDisk;
use crate::fault::Call;
use crate::history::{Inode, Op, write_at};
use crate::state::State;
use litepack_io::random::SplitMix64;

/// The unit of a disk that has no larger one.
const SECTOR: u64 = 512;

/// So many more writes at most come before an old block is back.
const SOON: u64 = 8;

/// How the disk lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// A write is not done.
    Lost,
    /// A write is not done, and all who run see it until the power is lost, as it is in the system's memory.
    LostWithPower,
    /// A write goes to another place, in its file or in another one, together with the rest of its block of so many
    /// bytes (1: alone). Where it should be is what was there.
    Elsewhere(u64),
    /// Some sectors of a write are done, the others are not; a write to one sector ends within it.
    Torn,
    /// The block of so many bytes of a write is again as it was before, some writes later.
    Old(u64),
    /// A read ends half way, as if the file did.
    ShortRead,
    /// A sync fails, and the system gives up what it could not write: a part of it has reached the medium, and the next
    /// sync, which succeeds, does not write the rest. If it `forgets`, all who run see that.
    FailedSync {
        /// Whether those who run see it.
        forgets: bool,
    },
}

impl Lie {
    fn is_about(self) -> Call {
        match self {
            Lie::ShortRead => Call::Read,
            Lie::FailedSync { .. } => Call::Sync,
            _ => Call::Write,
        }
    }
}

/// A block that will be as it was.
struct Owed {
    inode: Inode,
    offset: u64,
    former: Vec<u8>,
    after: u64,
}

/// The lie of a disk, and the calls that it could be about.
#[derive(Default)]
pub(crate) struct Lies {
    armed: Option<Armed>,
    owed: Option<Owed>,
}

struct Armed {
    lie: Lie,
    suffix: String,
    at: u64,
    seen: u64,
    told: Option<String>,
    rng: SplitMix64,
}

impl Lies {
    /// The lie, if this call is the one that it is about.
    fn next(&mut self, call: Call, name: &str, what: impl Fn() -> String) -> Option<Lie> {
        let armed = self.armed.as_mut()?;
        let is_meant = call == armed.lie.is_about() && name.ends_with(&armed.suffix);
        armed.seen += u64::from(is_meant);
        if !is_meant || armed.seen != armed.at {
            return None;
        }
        armed.told = Some(what());
        Some(armed.lie)
    }

    /// Whether this read ends half way.
    pub fn cuts_read(&mut self, name: &str, offset: u64, len: usize) -> bool {
        let what = || format!("read of {len} bytes at {offset} of {name}");
        self.next(Call::Read, name, what).is_some()
    }

    /// How it lies about this write.
    pub fn about_write(&mut self, name: &str, offset: u64, len: usize) -> Option<Lie> {
        self.next(Call::Write, name, || {
            format!("write of {len} bytes at {offset} of {name}")
        })
    }

    /// Whether this sync fails, and whether the system then forgets.
    pub fn about_sync(&mut self, name: &str) -> Option<bool> {
        match self.next(Call::Sync, name, || format!("sync of {name}")) {
            Some(Lie::FailedSync { forgets }) => Some(forgets),
            _ => None,
        }
    }

    fn rng(&mut self) -> &mut SplitMix64 {
        &mut self.armed.as_mut().expect("a lie is told").rng
    }
}

impl SimDisk {
    /// Lies about the `at`-th call, counted from 1, on files whose name ends with `suffix`.
    pub fn lie(&self, lie: Lie, suffix: &str, at: u64, seed: u64) {
        self.lock().lies = Lies {
            armed: Some(Armed {
                lie,
                suffix: suffix.to_owned(),
                at,
                seen: 0,
                told: None,
                rng: SplitMix64::derived(seed, at),
            }),
            owed: None,
        };
    }

    /// How many calls the lie could have been about so far.
    pub fn lie_candidates(&self) -> u64 {
        self.lock().lies.armed.as_ref().map_or(0, |lie| lie.seen)
    }

    /// The call that the disk has lied about, in words.
    pub fn lie_told(&self) -> Option<String> {
        self.lock().lies.armed.as_ref()?.told.clone()
    }

    /// A block that is to be as it was is so now.
    pub fn lie_now(&self) {
        self.lock().bring_back();
    }
}

impl State {
    /// Writes to a file that crashes may leave behind.
    pub fn write(&mut self, inode: Inode, data: &[u8], offset: u64) {
        write_at(&mut self.node(inode).data, offset, data);
        self.record(Op::Write {
            inode,
            offset,
            data: data.into(),
        });
    }

    /// Does a write as a disk does that lies about it.
    pub fn deceive(&mut self, lie: Lie, inode: Inode, data: &[u8], offset: u64) {
        match lie {
            Lie::Lost | Lie::ShortRead | Lie::FailedSync { .. } => {}
            Lie::LostWithPower => write_at(&mut self.node(inode).data, offset, data),
            Lie::Elsewhere(block) => {
                let mut written = self.node(inode).data.clone();
                write_at(&mut written, offset, data);
                let (start, end) = block_of(offset, data.len(), block);
                let moved = &written[start as usize..written.len().min(end as usize)];
                let (other, place) = self.elsewhere(inode, start, block.max(SECTOR));
                self.write(other, moved, place);
            }
            Lie::Torn => {
                for (start, end) in self.what_is_left(offset, data.len() as u64) {
                    let part = &data[(start - offset) as usize..(end - offset) as usize];
                    self.write(inode, part, start);
                }
            }
            Lie::Old(block) => {
                let (start, end) = block_of(offset, data.len(), block);
                let before = &self.node(inode).data;
                let there = before.len().min(end as usize).max(start as usize);
                let mut former = before.get(start as usize..there).unwrap_or(&[]).to_vec();
                former.resize((end - start) as usize, 0);
                self.write(inode, data, offset);
                let after = self.lies.rng().below(SOON);
                self.lies.owed = Some(Owed {
                    inode,
                    offset: start,
                    former,
                    after,
                });
            }
        }
    }

    /// Counts a write, after which an old block may be back.
    pub fn count_write(&mut self) {
        match &mut self.lies.owed {
            Some(owed) if owed.after == 0 => self.bring_back(),
            Some(owed) => owed.after -= 1,
            None => {}
        }
    }

    fn bring_back(&mut self) {
        let Some(owed) = self.lies.owed.take() else {
            return;
        };
        // The file may have been deleted or cut.
        let len = self.nodes.get(&owed.inode).map_or(0, |n| n.data.len()) as u64;
        let fits = len
            .saturating_sub(owed.offset)
            .min(owed.former.len() as u64);
        if fits > 0 {
            self.write(owed.inode, &owed.former[..fits as usize], owed.offset);
        }
    }

    /// Another place for what should be at `start` of a file: mostly in the same one.
    fn elsewhere(&mut self, inode: Inode, start: u64, unit: u64) -> (Inode, u64) {
        let named: Vec<Inode> = self.names.values().copied().collect();
        let rng = self.lies.rng();
        let target = match rng.chance(75) {
            false if !named.is_empty() => named[rng.below(named.len() as u64) as usize],
            _ => inode,
        };
        let blocks = self.node(target).data.len() as u64 / unit + 1;
        let place = start % unit + unit * self.lies.rng().below(blocks);
        match (target, place) == (inode, start) {
            true => (target, place + unit),
            false => (target, place),
        }
    }

    /// The parts of a write that are done if it is torn; one at least is missing.
    fn what_is_left(&mut self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let end = offset + len;
        let next = |at: u64| ((at / SECTOR + 1) * SECTOR).min(end);
        let mut sectors = vec![(offset, next(offset))];
        while let Some((_, at)) = sectors.last().copied().filter(|(_, at)| *at < end) {
            sectors.push((at, next(at)));
        }
        let rng = self.lies.rng();
        if sectors.len() == 1 {
            return vec![(offset, offset + rng.below(len))];
        }
        let missing = rng.below(sectors.len() as u64) as usize;
        let mut number = 0..;
        sectors.retain(|_| number.next() != Some(missing) && rng.chance(50));
        sectors
    }
}

/// The whole blocks that a range is in.
fn block_of(offset: u64, len: usize, block: u64) -> (u64, u64) {
    let end = offset + len as u64;
    (offset / block * block, end.div_ceil(block) * block)
}
