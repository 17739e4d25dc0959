//! A storage that remembers what was not synced, so that a test can ask what a power loss would leave.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::write;
use crate::random::SplitMix64;
use crate::storage::{ReadAt, Storage};

/// Writes are torn at multiples of this.
const SECTOR: usize = 512;

/// The seed with which a power loss loses nothing.
const ALL: u64 = 1;

#[derive(Clone, Debug)]
enum Op {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

#[derive(Debug, Default)]
struct State {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Op>,
    calls: u64,
    /// Which of the calls were syncs.
    syncs: Vec<u64>,
    fail_from: Option<(u64, u64)>,
    fails_badly: bool,
}

impl State {
    /// Counts a call, which may have to fail.
    fn count(&mut self) -> io::Result<()> {
        let call = self.calls;
        self.calls += 1;
        match self.fail_from {
            Some((from, until)) if (from..until).contains(&call) => {
                Err(io::Error::other("injected"))
            }
            _ => Ok(()),
        }
    }

    fn after_power_loss(&self, seed: u64) -> Vec<u8> {
        let mut rng = SplitMix64::new(seed);
        let mut image = self.durable.clone();
        for op in &self.pending {
            match op {
                _ if seed == 0 => {}
                Op::Write(offset, bytes) if seed == ALL || rng.below(2) == 0 => {
                    write(&mut image, *offset as usize, bytes);
                }
                Op::Write(offset, bytes) if rng.below(2) == 0 => {
                    // Torn: each sector arrives or not.
                    let (mut at, mut rest) = (*offset as usize, bytes.as_slice());
                    while !rest.is_empty() {
                        let n = (SECTOR - at % SECTOR).min(rest.len());
                        if rng.below(2) == 0 {
                            write(&mut image, at, &rest[..n]);
                        }
                        (at, rest) = (at + n, &rest[n..]);
                    }
                }
                Op::Write(..) => {}
                Op::Truncate(len) if seed == ALL || rng.below(2) == 0 => {
                    image.truncate(*len as usize);
                }
                Op::Truncate(_) => {}
            }
        }
        image
    }
}

/// A file in memory that a test shares with what writes it. Calls can be counted and made to fail.
#[derive(Clone, Debug, Default)]
pub struct CrashingStorage {
    state: Arc<Mutex<State>>,
    is_remote: bool,
}

impl CrashingStorage {
    /// A file with this content, all of it durable.
    pub fn with_image(image: Vec<u8>) -> CrashingStorage {
        let state = State {
            live: image.clone(),
            durable: image,
            ..State::default()
        };
        CrashingStorage {
            state: Arc::new(Mutex::new(state)),
            is_remote: false,
        }
    }

    /// The same storage, as a remote one.
    pub fn remote(&self) -> CrashingStorage {
        CrashingStorage {
            is_remote: true,
            ..self.clone()
        }
    }

    /// Writes and syncs so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// How many of the calls from this one on were syncs.
    pub fn syncs_since(&self, call: u64) -> usize {
        let state = self.lock();
        state.syncs.iter().filter(|at| **at >= call).count()
    }

    /// Lets calls `from..until` fail.
    pub fn fail(&self, from: u64, until: u64) {
        self.lock().fail_from = Some((from, until));
    }

    /// From now on a sync that fails leaves on the medium what a power loss would, and gives up the rest: the next
    /// one that succeeds does not write it, as with several file systems of Linux. A write that fails may have been
    /// done.
    pub fn fail_badly(&self) {
        self.lock().fails_badly = true;
    }

    /// The system gives up what is not synced: running processes see it, and no sync writes it.
    pub fn forget(&self) {
        self.lock().pending.clear();
    }

    /// A state the medium may have after a power loss now: any subset of the writes not synced, torn at sectors. Seed 0
    /// loses everything, seed 1 nothing.
    pub fn after_power_loss(&self, seed: u64) -> Vec<u8> {
        self.lock().after_power_loss(seed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for CrashingStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.lock().live.as_slice().read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().live.len() as u64)
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }
}

impl Storage for CrashingStorage {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.lock();
        let done = state.count();
        if done.is_ok() || state.fails_badly && state.calls.is_multiple_of(2) {
            write(&mut state.live, offset as usize, bytes);
            state.pending.push(Op::Write(offset, bytes.to_vec()));
        }
        done
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        let call = state.calls;
        state.syncs.push(call);
        if let Err(error) = state.count() {
            if state.fails_badly {
                state.durable = state.after_power_loss(call);
                state.pending.clear();
            }
            return Err(error);
        }
        // Each write, as some of what is live may have been given up.
        state.durable = state.after_power_loss(ALL);
        state.pending.clear();
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.count()?;
        state.live.truncate(len as usize);
        state.pending.push(Op::Truncate(len));
        Ok(())
    }
}
