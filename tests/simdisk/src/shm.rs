//! The shared memory that stands for a `-shm` file: regions at stable addresses, eight locks.
//!
//! It lives as long as a handle is attached and is never on the disk, so after a crash SQLite
//! finds none and recovers the WAL, as it would find a stale one that it must not believe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rusqlite::ffi;

use crate::error::SimError;

/// Memory that C code may read and write at any time: atomics have interior mutability.
pub(crate) type Region = Arc<[AtomicU64]>;

#[derive(Default)]
struct Held {
    shared: u32,
    exclusive: u32,
}

/// The shared memory of one file.
#[derive(Default)]
pub(crate) struct Shm {
    regions: Vec<Region>,
    held: BTreeMap<u64, Held>,
}

impl Shm {
    /// The region numbered `index`, made if `extend`; attaches `handle`.
    pub fn map(&mut self, handle: u64, index: usize, size: usize, extend: bool) -> Option<Region> {
        self.held.entry(handle).or_default();
        while extend && self.regions.len() <= index {
            let words = size.div_ceil(size_of::<AtomicU64>());
            self.regions
                .push((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        self.regions.get(index).cloned()
    }

    /// Takes or releases the locks `first..first+count` as the `SQLITE_SHM_*` flags say.
    pub fn lock(
        &mut self,
        handle: u64,
        first: u32,
        count: u32,
        flags: i32,
    ) -> Result<(), SimError> {
        let mask = ((1u32 << count) - 1) << first;
        let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        if flags & ffi::SQLITE_SHM_UNLOCK == 0 {
            let conflict = self.held.iter().any(|(other, held)| {
                *other != handle
                    && (held.exclusive & mask != 0 || (exclusive && held.shared & mask != 0))
            });
            if conflict {
                return Err(SimError(ffi::SQLITE_BUSY));
            }
        }
        let mine = self.held.entry(handle).or_default();
        match (flags & ffi::SQLITE_SHM_UNLOCK != 0, exclusive) {
            (true, true) => mine.exclusive &= !mask,
            (true, false) => mine.shared &= !mask,
            (false, true) => mine.exclusive |= mask,
            (false, false) => mine.shared |= mask,
        }
        Ok(())
    }

    /// Detaches `handle`; the last one takes the memory with it.
    pub fn detach(&mut self, handle: u64) {
        self.held.remove(&handle);
        if self.held.is_empty() {
            self.regions.clear();
        }
    }
}
