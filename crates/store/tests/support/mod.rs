//! A disk that remembers what was not synced, so that a test can ask what a power loss would leave.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::io;
use std::sync::{Arc, Mutex};

use litepack_store::{Cache, Disk, FileId, Options, Store};
use rand::rngs::StdRng as SmallRng;
use rand::{RngExt, SeedableRng};

/// Writes are torn at multiples of this.
const SECTOR: usize = 512;

/// The seeds to run: LITEPACK_SEED alone, or so many, and with LITEPACK_LONG so many more.
#[allow(dead_code, reason = "not every test program asks")]
pub fn seeds(default: u64, long: u64) -> Vec<u64> {
    if let Ok(seed) = std::env::var("LITEPACK_SEED") {
        return vec![seed.parse().expect("LITEPACK_SEED is a number")];
    }
    let many = std::env::var_os("LITEPACK_LONG").is_some();
    (0..if many { long } else { default }).collect()
}

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
}

/// Shared by the store and the test.
#[derive(Clone, Debug, Default)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
    far: bool,
}

fn apply(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if image.len() < offset + bytes.len() {
        image.resize(offset + bytes.len(), 0);
    }
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl CrashDisk {
    pub fn with_image(image: Vec<u8>) -> CrashDisk {
        let state = State {
            live: image.clone(),
            durable: image,
            ..State::default()
        };
        CrashDisk {
            state: Arc::new(Mutex::new(state)),
            far: false,
        }
    }

    /// The same disk, far away.
    #[allow(dead_code, reason = "not every test program asks")]
    pub fn far(&self) -> CrashDisk {
        CrashDisk {
            far: true,
            ..self.clone()
        }
    }

    /// Writes and syncs so far.
    pub fn calls(&self) -> u64 {
        self.state.lock().unwrap().calls
    }

    /// How many of the calls from this one on were syncs.
    #[allow(dead_code, reason = "not every test program asks")]
    pub fn syncs_since(&self, call: u64) -> usize {
        let state = self.state.lock().unwrap();
        state.syncs.iter().filter(|at| **at >= call).count()
    }

    /// Lets calls `from..until` fail.
    pub fn fail(&self, from: u64, until: u64) {
        self.state.lock().unwrap().fail_from = Some((from, until));
    }

    /// What may be on the medium after a power loss now: any subset of what was not synced, torn at
    /// sectors. Seed 0 loses everything, seed 1 nothing.
    pub fn after_power_loss(&self, seed: u64) -> Vec<u8> {
        let state = self.state.lock().unwrap();
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut image = state.durable.clone();
        for op in &state.pending {
            match op {
                _ if seed == 0 => {}
                Op::Write(offset, bytes) if seed == 1 || rng.random_bool(0.5) => {
                    apply(&mut image, *offset as usize, bytes);
                }
                Op::Write(offset, bytes) if rng.random_bool(0.5) => {
                    // Torn: each sector arrives or not.
                    let (mut at, mut rest) = (*offset as usize, bytes.as_slice());
                    while !rest.is_empty() {
                        let n = (SECTOR - at % SECTOR).min(rest.len());
                        if rng.random_bool(0.5) {
                            apply(&mut image, at, &rest[..n]);
                        }
                        (at, rest) = (at + n, &rest[n..]);
                    }
                }
                Op::Write(..) => {}
                Op::Truncate(len) if seed == 1 || rng.random_bool(0.5) => {
                    image.truncate(*len as usize);
                }
                Op::Truncate(_) => {}
            }
        }
        image
    }

    fn count(state: &mut State) -> io::Result<()> {
        let call = state.calls;
        state.calls += 1;
        match state.fail_from {
            Some((from, until)) if (from..until).contains(&call) => {
                Err(io::Error::other("injected"))
            }
            _ => Ok(()),
        }
    }
}

impl Disk for CrashDisk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state.lock().unwrap();
        let start = (offset as usize).min(state.live.len());
        let n = buf.len().min(state.live.len() - start);
        buf[..n].copy_from_slice(&state.live[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        CrashDisk::count(&mut state)?;
        apply(&mut state.live, offset as usize, bytes);
        state.pending.push(Op::Write(offset, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let call = state.calls;
        state.syncs.push(call);
        CrashDisk::count(&mut state)?;
        state.durable = state.live.clone();
        state.pending.clear();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().live.len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        CrashDisk::count(&mut state)?;
        state.live.truncate(len as usize);
        state.pending.push(Op::Truncate(len));
        Ok(())
    }

    fn is_far(&self) -> bool {
        self.far
    }
}

/// With a cache of its own, so that no handle answers for another.
pub fn options() -> Options {
    Options {
        cache: Arc::new(Cache::new(1 << 20)),
        file: FileId::unique(),
        ..Options::default()
    }
}

/// A handle at the newest commit.
pub fn open(disk: &CrashDisk) -> Store<CrashDisk> {
    let mut store = Store::open(disk.clone(), options()).unwrap();
    store.refresh().unwrap();
    store
}
