//! A simulated disk with a SQLite VFS on top, for tests of what power loss and I/O errors do.
//!
//! Promises: a [`SimDisk`] behaves like an ordinary file system to SQLite while it runs; every
//! mutating call is recorded, so afterwards [`SimDisk::crash_images`] gives what a disk could hold
//! had the power failed after any of them; [`SimDisk::inject`] makes chosen calls fail.
//!
//! [`crash_campaign`] drives a mixed workload over any VFS stacked on the simulated one and checks
//! that no transaction is torn or lost; [`fault_campaign`] does so for calls that fail, and
//! [`lie_campaign`] for a disk that reports what it has not done.
//!
//! The assumptions about the disk, in one place:
//!
//! - a write changes no byte outside its range (powersafe overwrite); within it, each 512-byte
//!   sector (by file offset) may separately be new or old, or zero past the old end of file;
//! - the new length of a file may survive without the data, and the data without earlier
//!   unsynced truncations, in any order, until `xSync` of that file;
//! - a name is not durable by a sync of its file (POSIX promises no such thing), but by one of its directory, as
//!   SQLite's unix VFS has them: at the first sync of a new journal, WAL or super-journal, and with a deletion made
//!   with `syncDir`;
//! - so is a deletion; until then a change of a name may or may not survive, each on its own.
#![deny(unsafe_code)]

mod battery;
mod campaign;
mod content;
mod copies;
mod crash;
mod disk;
mod driver;
mod error;
mod fault;
mod fault_campaign;
mod file;
mod history;
mod inspect;
mod lie;
mod lie_campaign;
mod locks;
mod referring;
mod replay;
mod search;
mod shm;
mod standing;
mod state;
#[allow(unsafe_code)]
mod vfs;
mod workload;

pub use battery::{Battery, show};
pub use campaign::{Campaign, Durability, Failure, Points, Report, crash_campaign};
pub use content::{Content, content_of};
pub use copies::{CopiesReport, copies_campaign};
pub use crash::CrashMode;
pub use disk::{Images, SimDisk};
pub use driver::{Layer, plain};
pub use error::SimError;
pub use fault::{Call, CallSet, Fault, FaultError};
pub use fault_campaign::{FaultCampaign, FaultFailure, FaultReport, fault_campaign};
pub use file::{OpenOptions, SimFile};
pub use lie::Lie;
pub use lie_campaign::{Bound, Bounds, LieCampaign, LieFailure, LieReport, lie_campaign};
pub use vfs::SimVfs;
pub use workload::{Base, Journal, Step, Workload};

/// Panics if a campaign with this seed has found anything, and says what.
fn assert_none(failures: &[impl ToString], seed: u64) {
    let list: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let (count, list) = (list.len(), list.join("\n"));
    assert!(count == 0, "seed {seed}: {count} failures:\n{list}");
}

/// Whether the long form of the campaigns was asked for (`LITEPACK_LONG=1`).
pub fn long_mode() -> bool {
    std::env::var_os("LITEPACK_LONG").is_some_and(|v| v == "1")
}

/// Says how many trials of a kind a test has made. `make soak` adds them up.
pub fn count_trials(kind: &str, trials: u64) {
    println!("trials of {kind}: {trials}");
}

/// The seed of a test: `LITEPACK_SEED` if set, else `default`.
///
/// # Panics
///
/// If `LITEPACK_SEED` is not a number.
pub fn seed_or(default: u64) -> u64 {
    std::env::var("LITEPACK_SEED").map_or(default, |v| v.parse().expect("LITEPACK_SEED: a number"))
}
